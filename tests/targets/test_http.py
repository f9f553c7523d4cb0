"""What every HTTP target owes its caller when the endpoint does not answer."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import trustme
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from proctor.errors import EndpointFault, TargetError, UsageError
from proctor.targets.api.http import key_for_endpoint, parse_retry_after, proxy_for
from proctor.targets.api.openai import open_target
from proctor.targets.context import TargetContext
from support.builders import make_prompt, make_spec
from support.endpoints import Service, serve_app

Make = Callable[..., Any]
KEY = "sk-a-secret-of-some-length"


async def _error(service: Service, opening: Make) -> TargetError:
    target = await open_target(make_spec("openai", endpoint=service.url), opening(PROCTOR_API_KEY=KEY))
    with pytest.raises(TargetError) as caught:
        await target.answer(make_prompt("hello"))
    return caught.value


@pytest.mark.parametrize(
    ("status", "transient", "busy"),
    [
        (400, False, False),
        (401, False, False),
        (403, False, False),
        (404, False, False),
        (408, True, False),
        (409, True, False),
        (422, False, False),
        (429, True, True),
        (500, True, False),
        (502, True, False),
        (503, True, True),
        (504, True, False),
        (529, True, True),
    ],
)
async def test_a_status_says_whether_asking_again_can_help(
    service: Service, opening: Make, status: int, transient: bool, busy: bool
) -> None:
    service.reply({"error": {"message": "Come back on Tuesday.", "type": "x"}}, status)
    error = await _error(service, opening)
    assert (error.kind, error.transient, error.busy) == ("http", transient, busy)
    assert str(status) in str(error)
    assert "Come back on Tuesday" in str(error)
    assert len(service.seen) == 1


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": f"Bad key {KEY}!"}},
        {"error": f"Bad key {KEY}!"},
        {"message": f"Bad key {KEY}!"},
        {"detail": [{"msg": f"Bad key {KEY}!"}]},
        [{"error": {"message": f"Bad key {KEY}!"}}],
        f"<p>Bad key {KEY}!</p>".encode(),
    ],
)
async def test_a_message_has_the_endpoints_words_and_never_the_key(
    service: Service, opening: Make, body: Any
) -> None:
    service.reply(body, 401)
    error = await _error(service, opening)
    assert "Bad key [key]!" in str(error)
    assert KEY not in str(error)
    assert service.seen[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_long_error_text_is_shortened(service: Service, opening: Make) -> None:
    service.reply({"error": {"message": "no " * 5000}}, 403)
    assert len(str(await _error(service, opening))) < 500


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"", b"[1, 2]", b'{"choices": 7}', b'{"choices": []}']
)
async def test_another_body_than_promised_is_a_protocol_error_that_is_not_tried_again(
    service: Service, opening: Make, body: bytes
) -> None:
    service.reply(body)
    error = await _error(service, opening)
    assert (error.kind, error.transient) == ("protocol", False)


async def test_a_redirection_is_not_followed(service: Service, opening: Make) -> None:
    service.reply({}, 307, Location="/elsewhere")
    error = await _error(service, opening)
    assert "/elsewhere" in str(error)
    assert not error.transient
    assert len(service.seen) == 1


@pytest.mark.parametrize("value", ["7", "7.0", "007"])
async def test_retry_after_in_seconds_is_handed_on(service: Service, opening: Make, value: str) -> None:
    service.reply({}, 429, Retry_After=value)
    assert (await _error(service, opening)).retry_after_s == 7.0


async def test_retry_after_as_a_date_becomes_what_is_left_until_then(service: Service, opening: Make) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    service.reply({}, 503, Retry_After=format_datetime(until, usegmt=True))
    waited = (await _error(service, opening)).retry_after_s
    assert waited is not None
    assert 3000 < waited <= 3601


def test_a_retry_date_is_read_by_the_servers_own_clock() -> None:
    headers = {"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert parse_retry_after(headers) == 30.0


@pytest.mark.parametrize("value", ["-5", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_a_wait_that_is_over_is_none_at_all(value: str) -> None:
    assert parse_retry_after({"Retry-After": value}) == 0.0


@given(st.text(max_size=40))
def test_any_retry_after_is_unknown_or_a_wait(value: str) -> None:
    waited = parse_retry_after({"Retry-After": value})
    assert waited is None or waited >= 0


async def test_a_refused_connection_is_transient(opening: Make, unused_tcp_port: int) -> None:
    target = await open_target(
        make_spec("openai", endpoint=f"http://127.0.0.1:{unused_tcp_port}/v1"), opening()
    )
    with pytest.raises(TargetError, match=str(unused_tcp_port)) as caught:
        await target.answer(make_prompt("hello"))
    assert (caught.value.kind, caught.value.transient) == ("connection", True)


async def _raw(handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> asyncio.Server:
    return await asyncio.start_server(handle, "127.0.0.1", 0)


@pytest.mark.parametrize(
    "beginning", [b"", b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"cho', b"nonsense\r\n\r\n"]
)
async def test_an_answer_that_breaks_off_is_transient(opening: Make, beginning: bytes) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(beginning)
        await writer.drain()
        writer.close()

    server = await _raw(handle)
    port = server.sockets[0].getsockname()[1]
    target = await open_target(make_spec("openai", endpoint=f"http://127.0.0.1:{port}/v1"), opening())
    with pytest.raises(TargetError) as caught:
        await target.answer(make_prompt("hello"))
    assert caught.value.transient
    server.close()


async def test_a_self_signed_certificate_is_refused_before_anything_is_sent(opening: Make) -> None:
    asked = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request)
        return web.json_response({})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_post("/{path:.*}", handle)
    server = TestServer(app, host="127.0.0.1", scheme="https")
    await server.start_server(ssl=context)
    target = await open_target(
        make_spec("openai", endpoint=f"https://127.0.0.1:{server.port}/v1"), opening(PROCTOR_API_KEY=KEY)
    )
    with pytest.raises(TargetError, match="certificate") as caught:
        await target.answer(make_prompt("hello"))
    assert (caught.value.kind, caught.value.transient) == ("connection", False)
    assert caught.value.fault is EndpointFault.PERMANENT
    assert not asked
    await server.close()


async def test_a_request_goes_through_the_proxy_of_the_environment(opening: Make) -> None:
    heads = []
    reply = b'{"choices": [{"message": {"content": "by proxy"}}]}'

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        status = b"403 Forbidden" if heads[-1].startswith("CONNECT") else b"200 OK"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(reply), reply))
        await writer.drain()
        writer.close()

    server = await _raw(handle)
    proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    made = opening(http_proxy=proxy, HTTPS_PROXY=proxy)
    target = await open_target(make_spec("openai", endpoint="http://models.invalid/v1"), made)
    assert (await target.answer(make_prompt("hello"))).text == "by proxy"
    assert heads[0].startswith("POST http://models.invalid/v1/chat/completions HTTP/1.1\r\n")

    target = await open_target(make_spec("openai", endpoint="https://models.invalid/v1"), made)
    with pytest.raises(TargetError, match="403") as caught:
        await target.answer(make_prompt("hello"))
    assert not caught.value.transient
    assert heads[1].startswith("CONNECT models.invalid:443 HTTP/1.1\r\n")
    server.close()


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://h.example/", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("http://h.example/", {"HTTP_PROXY": "http://P:1", "http_proxy": "http://p:2"}, "http://p:2"),
        ("http://h.example/", {"http_proxy": "p:1"}, "http://p:1"),
        ("http://h.example/", {"https_proxy": "http://p:1"}, None),
        ("https://h.example/", {"https_proxy": "http://u:w@p:1"}, "http://u:w@p:1"),
        ("https://h.example/", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("https://h.example/", {"all_proxy": "http://p:1", "no_proxy": "example"}, None),
        ("https://h.example/", {"all_proxy": "http://p:1", "NO_PROXY": "x.org, .example"}, None),
        ("https://h.example/", {"all_proxy": "http://p:1", "NO_PROXY": "other"}, "http://p:1"),
        ("https://h.example/", {"all_proxy": "http://p:1", "no_proxy": "*"}, None),
        ("https://h.example/", {"all_proxy": "http://p:1", "no_proxy": "h.example:443"}, None),
        ("https://h.example/", {"all_proxy": "http://p:1", "no_proxy": "h.example:80"}, "http://p:1"),
        ("https://h.example/", {"all_proxy": "http://p:1", "no_proxy": "ample,"}, "http://p:1"),
        ("http://127.example/", {"http_proxy": "http://p:1"}, "http://p:1"),
        ("http://127.0.0.1:9009/", {"http_proxy": "http://p:1"}, None),
        ("http://localhost:9009/", {"http_proxy": "http://p:1"}, None),
        ("http://[::1]:9009/", {"http_proxy": "http://p:1"}, None),
        ("http://h.example/", {}, None),
        ("http://h.example/", {"http_proxy": ""}, None),
    ],
)
def test_the_environment_says_which_proxy_an_address_has(
    url: str, environ: dict[str, str], proxy: str | None
) -> None:
    assert proxy_for(URL(url), environ) == (URL(proxy) if proxy else None)


@pytest.mark.parametrize("proxy", ["socks5://u:hunter2@p:1", "http://u:hunter2@", "http://u:hunter2@p:port"])
def test_a_proxy_that_is_none_is_refused_without_being_shown(proxy: str) -> None:
    with pytest.raises(UsageError, match="proxy") as caught:
        proxy_for(URL("http://h.example/"), {"http_proxy": proxy})
    assert "hunter2" not in str(caught.value)


async def test_a_prompt_of_several_megabytes_arrives_whole(service: Service, opening: Make) -> None:
    service.reply({"choices": [{"message": {"content": "read"}}]})
    target = await open_target(make_spec("openai", endpoint=service.url), opening())
    assert (await target.answer(make_prompt("x" * 3_000_000))).text == "read"
    assert len(service.seen[0].body["messages"][0]["content"]) == 3_000_000


# --- which key goes where ----------------------------------------------------------------------------------

EVERY_KEY = {
    "OPENAI_API_KEY": "sk-o",
    "ANTHROPIC_API_KEY": "sk-a",
    "GOOGLE_API_KEY": "sk-g",
    "GROQ_API_KEY": "sk-q",
}


@pytest.mark.parametrize(
    ("endpoint", "key"),
    [
        ("https://api.openai.com/v1", "sk-o"),
        ("https://API.OpenAI.com:443/v1", "sk-o"),
        ("https://api.anthropic.com", "sk-a"),
        ("https://generativelanguage.googleapis.com", "sk-g"),
        ("https://api.groq.com/openai/v1", "sk-q"),
        ("http://api.openai.com/v1", None),
        ("https://api.openai.com:8443/v1", None),
        ("https://api.openai.com.example.org/v1", None),
        ("https://example.org/api.openai.com/v1", None),
        ("http://127.0.0.1:9009/v1", None),
    ],
)
def test_a_services_key_goes_to_that_service_and_to_no_stranger(endpoint: str, key: str | None) -> None:
    assert key_for_endpoint(endpoint, TargetContext(EVERY_KEY), "The target") == key


def test_any_other_server_gets_the_key_that_was_set_for_it() -> None:
    opening = TargetContext({**EVERY_KEY, "PROCTOR_API_KEY": " pk "})
    assert key_for_endpoint("http://127.0.0.1:9009/v1", opening, "The target") == "pk"
    assert key_for_endpoint("https://api.openai.com/v1", opening, "The target") == "sk-o"


def test_the_server_that_openai_base_url_names_is_a_stranger_too() -> None:
    opening = TargetContext({**EVERY_KEY, "OPENAI_BASE_URL": "https://gateway.example/openai/v1"})
    assert key_for_endpoint("https://gateway.example/openai/v1", opening, "The target") is None


def test_a_known_service_without_its_key_says_which_variable_to_set() -> None:
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
        key_for_endpoint("https://api.anthropic.com", TargetContext({}), "The target")


@pytest.mark.parametrize("key", ["sk-\nx: y", "sk-é"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        key_for_endpoint("https://api.openai.com/v1", TargetContext({"OPENAI_API_KEY": key}), "The target")
    assert key not in str(caught.value)


@pytest.mark.slow
async def test_a_small_reply_that_unfolds_to_more_than_any_answer_is_cut_off(opening: Make) -> None:
    packed = gzip.compress(b"0" * (70 * 2**20), 1)

    async def bomb(_request: web.Request) -> web.Response:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", bomb)
    async with serve_app(app) as url:
        target = await open_target(make_spec("openai", endpoint=f"{url}/v1"), opening())
        with pytest.raises(TargetError, match=r"more than 16,777,216 bytes.*--max-answer-bytes") as caught:
            await target.answer(make_prompt("hello"))
    assert not caught.value.transient


@pytest.mark.parametrize(
    "value",
    ["Wed, 21 Oct 2015 07:28:30 GMT", "Wednesday, 21-Oct-15 07:28:30 GMT", "Wed Oct 21 07:28:30 2015"],
)
def test_each_form_of_an_http_date_is_read(value: str) -> None:
    assert parse_retry_after({"Retry-After": value, "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 30.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("0.25", 0.25),
        ("1.", 1.0),
        ("-5", 0.0),
        ("99999999999", 99_999_999_999.0),
        ("9" * 400, float("inf")),
        ("NaN", None),
        ("inf", None),
        ("soon", None),
        ("\u0661\u0662", None),
        ("Wed, 21 Oct 99999999999 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 +99999999999", None),
        ("Wed, 21 Oct 1994 07:28:00 GMT", 0.0),
    ],
)
def test_an_odd_retry_after_is_a_wait_or_unknown(value: str, seconds: float | None) -> None:
    assert parse_retry_after({"Retry-After": value}) == seconds


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (302, {}, EndpointFault.PERMANENT),
        (401, {}, EndpointFault.PERMANENT),
        (402, {}, EndpointFault.PERMANENT),
        (403, {}, EndpointFault.PERMANENT),
        (404, {}, EndpointFault.PERMANENT),
        (400, {}, None),
        (400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, EndpointFault.PERMANENT),
        (429, {}, EndpointFault.THROTTLED),
        (429, {"error": {"code": "insufficient_quota"}}, EndpointFault.PERMANENT),
        (500, {}, EndpointFault.SERVER),
        (503, {}, EndpointFault.SERVER),
    ],
)
async def test_a_status_says_whether_the_endpoint_is_to_blame(
    service: Service, opening: Make, status: int, body: Any, fault: EndpointFault
) -> None:
    service.reply(body, status)
    error = await _error(service, opening)
    assert error.fault is fault
    assert bool(error.remedy) == (fault is not None)
    assert not (fault is EndpointFault.PERMANENT and error.transient)


async def test_a_refusal_without_retry_after_is_waited_out_by_its_other_headers(
    service: Service, opening: Make
) -> None:
    told = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "1m7s"}
    service.reply({}, 429, **told)
    assert (await _error(service, opening)).retry_after_s == 67.0

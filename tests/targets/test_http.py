"""The errors of HTTP targets when the endpoint fails."""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
from proctor.targets.api.openai.chat import open_target
from proctor.targets.context import TargetContext
from support.apis import KEY, Api, make_reply
from support.builders import make_prompt, make_spec
from support.endpoints import Service

Make = Callable[..., Any]


P = EndpointFault.PERMANENT


@pytest.mark.parametrize(
    ("status", "transient", "busy", "fault"),
    [
        (302, False, False, P),
        (400, False, False, None),
        (401, False, False, P),
        (402, False, False, P),
        (403, False, False, P),
        (404, False, False, P),
        (408, True, False, None),
        (409, True, False, None),
        (422, False, False, None),
        (429, True, True, EndpointFault.THROTTLED),
        (500, True, False, EndpointFault.SERVER),
        (502, True, False, EndpointFault.SERVER),
        (503, True, True, EndpointFault.SERVER),
        (504, True, False, EndpointFault.SERVER),
        (529, True, True, EndpointFault.SERVER),
    ],
)
async def test_a_status_says_whether_asking_again_can_help_and_whether_the_endpoint_is_to_blame(
    api: Api, status: int, transient: bool, busy: bool, fault: EndpointFault | None
) -> None:
    api.reply({"error": {"message": "Come back on Tuesday.", "type": "x"}}, status)
    error = await api.fail()
    assert (error.kind, error.transient, error.busy, error.fault) == ("http", transient, busy, fault)
    assert bool(error.remedy) == (fault is not None)
    assert str(status) in str(error)
    assert status == 302 or "Come back on Tuesday" in str(error)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, {"details": [{"reason": "API_KEY_INVALID"}]}), (429, {"code": "insufficient_quota"})],
)
async def test_a_reason_in_the_body_counts_more_than_the_status(
    api: Api, status: int, error: dict[str, Any]
) -> None:
    api.reply({"error": error}, status)
    failed = await api.fail()
    assert (failed.fault, failed.transient) == (P, False)
    assert failed.remedy


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": f"Bad key {KEY}!"}}, "Bad key [key]!"),
        ({"error": f"Bad key {KEY}!"}, "Bad key [key]!"),
        ({"message": f"Bad key {KEY}!"}, "Bad key [key]!"),
        ([{"error": {"message": f"Bad key {KEY}!"}}], "Bad key [key]!"),
        ({"detail": [{"msg": f"Bad key {KEY}!"}]}, '[{"msg":"Bad key [key]!"}]'),
        (f"<p>Bad key {KEY}!</p>".encode(), "<p>Bad key [key]!</p>"),
    ],
)
async def test_a_message_has_the_endpoints_words_and_never_the_key(api: Api, body: Any, words: str) -> None:
    api.reply(body, 401)
    assert str(await api.fail()).endswith(f" answered 401 (Unauthorized): {words}")
    assert api.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_long_error_text_is_shortened(api: Api) -> None:
    api.reply({"error": {"message": "no " * 5000}}, 403)
    assert len(str(await api.fail())) < 500


@pytest.mark.parametrize(
    "body",
    [
        *(b"<html>hello</html>", b"", b"[1, 2]", b'{"choices": 7}', b'{"choices": []}'),
        b'{"choices": [{"message": {"content": "\xff"}}]}',
        b'{"choices": ' + b"[" * 100_000,
    ],
)
async def test_another_body_than_promised_is_a_protocol_error_that_is_not_tried_again(
    api: Api, body: bytes
) -> None:
    api.reply(body)
    error = await api.fail()
    assert (error.kind, error.transient) == ("protocol", False)


@pytest.mark.parametrize("body", [b'{"error": {"message": "overl\xff"}}', b'{"error": ' * 100_000])
async def test_an_error_whose_body_cannot_be_read_keeps_its_status(api: Api, body: bytes) -> None:
    api.reply(body, 503)
    error = await api.fail()
    assert "answered 503" in str(error)
    assert (error.busy, error.transient) == (True, True)


async def test_a_redirection_is_not_followed(api: Api) -> None:
    api.reply({}, 307, Location="/elsewhere")
    error = await api.fail()
    assert "/elsewhere" in str(error)
    assert not error.transient
    assert len(api.requests) == 1


@pytest.mark.slow
async def test_a_small_reply_that_unfolds_to_more_than_any_answer_is_cut_off(api: Api) -> None:
    api.reply(gzip.compress(b"0" * (70 * 2**20), 1), Content_Encoding="gzip")
    error = await api.fail()
    assert re.search(r"more than 16,777,216 bytes.*--max-answer-bytes", str(error))
    assert not error.transient


# --- how long to wait --------------------------------------------------------------------------------------


async def test_how_long_to_wait_is_handed_on_and_read_from_other_headers_where_it_is_not_said(
    api: Api,
) -> None:
    reset = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "1m7s"}
    for headers in ({"Retry_After": "7"}, reset):
        api.reply({}, 429, **headers)
    assert [(await api.fail()).retry_after_s for _ in range(2)] == [7.0, 67.0]


def test_a_date_becomes_what_is_left_until_then() -> None:
    until = datetime.now(UTC) + timedelta(hours=1)
    waited = parse_retry_after({"Retry-After": format_datetime(until, usegmt=True)})
    assert waited is not None
    assert 3000 < waited <= 3601


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("7.0", 7.0),
        ("007", 7.0),
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
        # Each form of an HTTP date, read by the server's own clock.
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wednesday, 21-Oct-15 07:28:30 GMT", 30.0),
        ("Wed Oct 21 07:28:30 2015", 30.0),
    ],
)
def test_retry_after_is_a_wait_or_unknown(value: str, seconds: float | None) -> None:
    headers = {"Retry-After": value, "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}
    assert parse_retry_after(headers) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_unknown_or_a_wait(value: str) -> None:
    waited = parse_retry_after({"Retry-After": value})
    assert waited is None or waited >= 0


# --- connections and proxies -------------------------------------------------------------------------------


async def failed(opening: TargetContext, endpoint: str) -> TargetError:
    target = await open_target(make_spec("openai", endpoint=f"{endpoint}/v1"), opening)
    with pytest.raises(TargetError) as caught:
        await target.answer(make_prompt("hello"))
    return caught.value


async def test_a_refused_connection_is_transient(opening: Make, unused_tcp_port: int) -> None:
    error = await failed(opening(), f"http://127.0.0.1:{unused_tcp_port}")
    assert (error.kind, error.transient) == ("connection", True)
    assert str(unused_tcp_port) in str(error)


@asynccontextmanager
async def replying(reply: Callable[[str], bytes]) -> AsyncIterator[str]:
    """Serves raw bytes as the answer to each request; its address."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(reply((await reader.readuntil(b"\r\n\r\n")).decode()))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize(
    "beginning", [b"", b'HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{"cho', b"nonsense\r\n\r\n"]
)
async def test_an_answer_that_breaks_off_is_transient(opening: Make, beginning: bytes) -> None:
    async with replying(lambda _head: beginning) as url:
        assert (await failed(opening(), url)).transient


async def test_bytes_of_a_header_that_are_no_utf_8_can_be_stored(opening: Make) -> None:
    body = b'{"choices": [{"message": {"content": "4"}}]}'
    head = b"HTTP/1.1 200 OK\r\nX-Request-Id: a\xff\r\nContent-Length: %d\r\n\r\n"
    async with replying(lambda _head: head % len(body) + body) as url:
        target = await open_target(make_spec("openai", endpoint=f"{url}/v1"), opening())
        output = await target.answer(make_prompt("hello"))
    assert output.request_id == "a\ufffd"
    redirect = b"HTTP/1.1 302 Found\r\nLocation: /\xff\r\nContent-Length: 0\r\n\r\n"
    async with replying(lambda _head: redirect) as url:
        assert "/\ufffd" in str(await failed(opening(), url))


async def test_a_self_signed_certificate_is_refused_before_anything_is_sent(opening: Make) -> None:
    service = Service()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_post("/{path:.*}", service.handle)
    server = TestServer(app, host="127.0.0.1", scheme="https")
    await server.start_server(ssl=context)
    error = await failed(opening(PROCTOR_API_KEY=KEY), f"https://127.0.0.1:{server.port}")
    assert "certificate" in str(error)
    assert (error.kind, error.transient, error.fault) == ("connection", False, P)
    assert not service.requests
    await server.close()


async def test_a_request_goes_through_the_proxy_of_the_environment(opening: Make) -> None:
    heads = []
    body = b'{"choices": [{"message": {"content": "by proxy"}}]}'

    def reply(head: str) -> bytes:
        heads.append(head)
        status = b"403 Forbidden" if head.startswith("CONNECT") else b"200 OK"
        return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)

    async with replying(reply) as proxy:
        context = opening(http_proxy=proxy, HTTPS_PROXY=proxy)
        target = await open_target(make_spec("openai", endpoint="http://models.invalid/v1"), context)
        assert (await target.answer(make_prompt("hello"))).text == "by proxy"
        error = await failed(context, "https://models.invalid")
    assert "403" in str(error)
    assert not error.transient
    assert [head.partition("\r\n")[0] for head in heads] == [
        "POST http://models.invalid/v1/chat/completions HTTP/1.1",
        "CONNECT models.invalid:443 HTTP/1.1",
    ]


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


async def test_a_prompt_of_several_megabytes_arrives_whole(api: Api) -> None:
    api.reply(make_reply("openai"))
    assert (await api.ask("openai", "x" * 3_000_000)).text == "4"
    assert len(api.body["messages"][0]["content"]) == 3_000_000


# --- which key goes where ----------------------------------------------------------------------------------

EVERY_KEY = {
    "OPENAI_API_KEY": "sk-o",
    "ANTHROPIC_API_KEY": "sk-a",
    "GOOGLE_API_KEY": "sk-g",
    "GROQ_API_KEY": "sk-q",
}


GATEWAY = "https://gateway.example/openai/v1"


@pytest.mark.parametrize(
    ("endpoint", "environ", "key"),
    [
        ("https://api.openai.com/v1", {}, "sk-o"),
        ("https://api.openai.com/v1", {"PROCTOR_API_KEY": "pk"}, "sk-o"),
        ("https://API.OpenAI.com:443/v1", {}, "sk-o"),
        ("https://api.anthropic.com", {}, "sk-a"),
        ("https://generativelanguage.googleapis.com", {}, "sk-g"),
        ("https://api.groq.com/openai/v1", {}, "sk-q"),
        ("http://api.openai.com/v1", {}, None),
        ("https://api.openai.com:8443/v1", {}, None),
        ("https://api.openai.com.example.org/v1", {}, None),
        ("https://example.org/api.openai.com/v1", {}, None),
        ("http://127.0.0.1:9009/v1", {}, None),
        ("http://127.0.0.1:11434/v1", {}, None),
        ("http://127.0.0.1:9009/v1", {"PROCTOR_API_KEY": " pk "}, "pk"),
        (GATEWAY, {"OPENAI_BASE_URL": GATEWAY}, None),
    ],
)
def test_a_services_key_goes_to_that_service_and_to_no_stranger(
    endpoint: str, environ: dict[str, str], key: str | None
) -> None:
    assert key_for_endpoint(endpoint, TargetContext(EVERY_KEY | environ), "The target") == key


def test_a_known_service_without_its_key_says_which_variable_to_set() -> None:
    with pytest.raises(UsageError, match="ANTHROPIC_API_KEY"):
        key_for_endpoint("https://api.anthropic.com", TargetContext({}), "The target")


@pytest.mark.parametrize("key", ["sk-\nx: y", "sk-é"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY") as caught:
        key_for_endpoint("https://api.openai.com/v1", TargetContext({"OPENAI_API_KEY": key}), "The target")
    assert key not in str(caught.value)

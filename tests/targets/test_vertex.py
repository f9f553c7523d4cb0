"""Vertex AI: addresses, credentials that are refreshed, and what differs from the Gemini API."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from google.auth import jwt

from proctor.errors import EndpointFault, TargetError, UsageError
from proctor.model import Params
from proctor.protocols import Target
from proctor.targets import TARGETS
from proctor.targets.context import TargetContext
from proctor.targets.targets_file import TargetsFile
from support.apis import Api, make_reply
from support.builders import make_prompt, make_spec
from support.endpoints import serve_app

Make = Callable[..., TargetContext]

AUDIENCE = "https://oauth2.googleapis.com/token"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
PROJECT = {"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "europe-west4"}
TOKEN = {"VERTEX_ACCESS_TOKEN": "ya29.a-token-of-some-length"}
API_KEY = {"VERTEX_API_KEY": "AQ.a-key-of-some-length"}


class TokenService:
    """Google's endpoint for tokens on loopback, and the key file of one of its service accounts."""

    def __init__(self, folder: Path) -> None:
        # A small key is quick to make; its requests are checked all the same.
        key = rsa.generate_private_key(65537, 1024)
        self._public_key = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self._private_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        self.file = folder / "key.json"
        self.lifetimes = [3600]
        """How long each token lives, in seconds; the last one counts for all that follow."""
        self.failure: tuple[int, dict[str, str]] | None = None
        self.claims: list[dict[str, Any]] = []
        """The JWT claims of each token request."""

    def write(self, url: str) -> None:
        self.url = f"{url}/token"
        account = {
            "type": "service_account",
            "project_id": "p-of-file",
            "private_key_id": "k1",
            "private_key": self._private_key,
            "client_email": "robot@p-of-file.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": self.url,
        }
        self.file.write_text(json.dumps(account), encoding="utf-8")

    async def grant(self, request: web.Request) -> web.Response:
        form = await request.post()
        if self.failure is not None:
            return web.json_response(self.failure[1], status=self.failure[0])
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        self.claims.append(jwt.decode(str(form["assertion"]), self._public_key, audience=AUDIENCE))
        lifetime = self.lifetimes.pop(0) if len(self.lifetimes) > 1 else self.lifetimes[0]
        return web.json_response({"access_token": f"ya29.{len(self.claims)}-x1y2z3", "expires_in": lifetime})


@pytest.fixture
async def tokens(tmp_path: Path) -> AsyncIterator[TokenService]:
    service = TokenService(tmp_path)
    app = web.Application()
    app.router.add_post("/token", service.grant)
    async with serve_app(app) as url:
        service.write(url)
        yield service


async def open_entry(api: Api, opening: Make, folder: Path, entry: str, **environ: str) -> Target:
    """A target of a targets file that asks this service."""
    text = f"targets:\n  - {{name: t, provider: vertex, model: m, base_url: '{api.url}', {entry}}}\n"
    spec = TargetsFile(text, "targets.yaml", str(folder)).get_spec("t", Params(), environ)
    return await TARGETS.get("vertex").open_target(spec, opening(**environ))


def make_address(target: Any, *, streamed: bool = False) -> str:
    endpoint = target._endpoint
    return str((endpoint._stream_head if streamed else endpoint._head).url)


# --- addresses ---------------------------------------------------------------------------------------------

PATH = "publishers/google/models/m:generateContent"


@pytest.mark.parametrize(
    ("environ", "options", "address"),
    [
        (
            PROJECT,
            {},
            f"https://europe-west4-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west4/{PATH}",
        ),
        (
            {"GOOGLE_CLOUD_PROJECT": "p-1"},
            {},
            f"https://aiplatform.googleapis.com/v1/projects/p-1/locations/global/{PATH}",
        ),
        (
            PROJECT,
            {"project": "a/../b?c", "location": "eu"},
            f"https://aiplatform.eu.rep.googleapis.com/v1/projects/a%2F..%2Fb%3Fc/locations/eu/{PATH}",
        ),
    ],
)
async def test_the_address_has_the_project_and_the_location(
    opening: Make, environ: dict[str, str], options: dict[str, str], address: str
) -> None:
    spec = make_spec("vertex", endpoint=None, options=options)
    target = await TARGETS.get("vertex").open_target(spec, opening(**environ, **TOKEN))
    assert make_address(target) == address
    stream = address.replace(":generateContent", ":streamGenerateContent?alt=sse")
    assert make_address(target, streamed=True) == stream


async def test_an_api_key_goes_to_the_address_without_a_project(opening: Make) -> None:
    spec = make_spec("vertex", endpoint=None)
    target = await TARGETS.get("vertex").open_target(spec, opening(**PROJECT, **API_KEY))
    assert make_address(target) == f"https://aiplatform.googleapis.com/v1/{PATH}"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("us-central1-aiplatform.googleapis.com", True),
        ("aiplatform.eu.rep.googleapis.com", True),
        ("us-central1-aiplatform-ours.p.googleapis.com", True),
        ("aiplatform.googleapis.com.evil.example", False),
        ("bucket.storage.googleapis.com", False),
        ("evil-aiplatform.example", False),
    ],
)
async def test_only_hosts_of_vertex_ai_get_the_token(opening: Make, host: str, is_own: bool) -> None:
    spec = make_spec("vertex", endpoint=f"https://{host}")
    target: Any = await TARGETS.get("vertex").open_target(spec, opening(**PROJECT, **TOKEN))
    assert ("ya29." in str(target._endpoint._headers)) == is_own


@pytest.mark.parametrize("at", ["", "/", "/v1", "/v1/"])
async def test_another_address_needs_no_project_and_gets_no_credentials(api: Api, at: str) -> None:
    api.reply(make_reply("google"))
    environ = {**TOKEN, **API_KEY, "PROCTOR_API_KEY": "other"}
    await api.ask("vertex", target_options={"at": at, "environ": environ})
    await api.ask("vertex", target_options={"at": at, "environ": PROJECT})
    assert [request.path for request in api.requests] == [
        f"/v1/{PATH}",
        f"/v1/projects/p-1/locations/europe-west4/{PATH}",
    ]
    assert api.requests[0].headers["authorization"] == "Bearer other"
    assert "authorization" not in api.requests[1].headers
    assert "x-goog-api-key" not in str(api.requests)


@pytest.mark.parametrize(
    ("environ", "options", "message"),
    [
        (TOKEN, {}, "Set GOOGLE_CLOUD_PROJECT"),
        ({**TOKEN, **PROJECT}, {"location": "evil.example/"}, "is not a location"),
        ({"VERTEX_ACCESS_TOKEN": "ya29.\nx", **PROJECT}, {}, "VERTEX_ACCESS_TOKEN contains characters"),
        (PROJECT, {"credentials": "missing.json"}, "missing.json.*No such file"),
        (PROJECT, {"credentials": __file__}, "key file of a service account"),
    ],
)
async def test_what_is_missing_is_an_error_before_the_first_request(
    opening: Make, environ: dict[str, str], options: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        await TARGETS.get("vertex").open_target(
            make_spec("vertex", endpoint=None, options=options), opening(**environ)
        )


async def test_without_credentials_the_error_says_where_they_come_from(
    opening: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(UsageError, match="gcloud auth application-default login"):
        await TARGETS.get("vertex").open_target(make_spec("vertex", endpoint=None), opening(**PROJECT))


async def test_without_its_package_the_error_says_what_to_install(
    opening: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    monkeypatch.setitem(sys.modules, "google.auth.transport.requests", None)
    with pytest.raises(UsageError, match=r"pip install 'proctor\[vertex\]'"):
        await TARGETS.get("vertex").open_target(make_spec("vertex", endpoint=None), opening(**PROJECT))


# --- requests ----------------------------------------------------------------------------------------------


async def test_a_request_is_that_of_the_gemini_api_but_for_its_tier(api: Api) -> None:
    api.reply(make_reply("google"))
    options = {"top_k": 3, "service_tier": "flex", "reasoning_effort": "high", "environ": {}}
    await api.ask("vertex", target_options=options)
    await api.ask("google", target_options=options)
    vertex, google = api.requests
    assert google.body.pop("serviceTier") == "flex"
    assert vertex.body == google.body
    assert vertex.headers["x-vertex-ai-llm-shared-request-type"] == "flex"
    assert vertex.headers["x-vertex-ai-llm-request-type"] == "shared"
    await api.ask("vertex", target_options={"environ": {}, "service_tier": "standard"})
    assert "vertex" not in str(api.requests[-1].headers)


async def test_a_case_cannot_have_a_tier_of_its_own(api: Api) -> None:
    api.reply(make_reply("google"))
    options = {"service_tier": "flex", "environ": {}}
    await api.ask("vertex", target_options=options, params={"service_tier": "flex"})
    with pytest.raises(TargetError, match="one `service_tier` for all cases"):
        await api.ask("vertex", target_options=options, params={"service_tier": "priority"})
    assert len(api.requests) == 1


async def test_the_traffic_type_is_the_tier_that_answered(api: Api) -> None:
    api.reply(make_reply("google") | {"usageMetadata": {"trafficType": "ON_DEMAND_FLEX"}})
    assert (await api.ask("vertex")).service_tier == "ON_DEMAND_FLEX"


async def test_a_stream_has_its_own_address(api: Api) -> None:
    event = {"candidates": [{"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}]}
    api.reply(f"data: {json.dumps(event)}\n\n".encode(), Content_Type="text/event-stream")
    output = await api.ask("vertex", target_options={"stream": True, "environ": PROJECT})
    assert output.text == "4"
    assert output.first_token_ms is not None
    assert api.requests[0].path.endswith("publishers/google/models/m:streamGenerateContent?alt=sse")


async def test_a_key_of_the_targets_own_goes_to_its_address(api: Api, opening: Make, tmp_path: Path) -> None:
    api.reply(make_reply("google"))
    target = await open_entry(api, opening, tmp_path, "api_key: '${{ MINE }}'", MINE="my-key", **PROJECT)
    await target.answer(make_prompt("?"))
    assert (api.requests[0].path, api.requests[0].headers["x-goog-api-key"]) == (f"/v1/{PATH}", "my-key")


# --- Claude ------------------------------------------------------------------------------------------------


async def test_a_claude_model_is_named_in_the_address_and_not_in_the_body(
    api: Api, opening: Make, tokens: TokenService, tmp_path: Path
) -> None:
    api.reply(make_reply("anthropic", "4"))
    entry = "provider: vertex-anthropic, model: claude-x@20260101, credentials: key.json"
    text = f"targets:\n  - {{name: t, {entry}, base_url: '{api.url}'}}\n"
    spec = TargetsFile(text, "targets.yaml", str(tmp_path)).get_spec("t", Params(), {})
    target = await TARGETS.get("vertex-anthropic").open_target(spec, opening())
    assert (await target.answer(make_prompt("2 + 2?"))).text == "4"
    (request,) = api.requests
    assert request.path == (
        "/v1/projects/p-of-file/locations/global/publishers/anthropic/models/claude-x@20260101:rawPredict"
    )
    assert request.headers["authorization"] == "Bearer ya29.1-x1y2z3"
    assert request.body == {
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 4096,
        "temperature": 0.0,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "2 + 2?"}]}],
    }
    assert make_address(target, streamed=True).endswith("claude-x@20260101:streamRawPredict")


async def test_a_claude_model_takes_no_api_key(opening: Make) -> None:
    spec = make_spec("vertex-anthropic", "claude-x", None)
    environ = {**PROJECT, **TOKEN, **API_KEY}
    target: Any = await TARGETS.get("vertex-anthropic").open_target(spec, opening(**environ))
    assert target._endpoint._headers["Authorization"] == f"Bearer {TOKEN['VERTEX_ACCESS_TOKEN']}"
    assert "x-goog-api-key" not in target._endpoint._headers


async def test_a_claude_model_has_a_kind_of_its_own(opening: Make) -> None:
    spec = make_spec("vertex", "claude-x", None)
    with pytest.raises(UsageError, match="Write vertex-anthropic:claude-x"):
        await TARGETS.get("vertex").open_target(spec, opening(**PROJECT, **TOKEN))


# --- tokens ------------------------------------------------------------------------------------------------


async def test_a_token_is_kept_until_it_is_about_to_expire(
    api: Api, opening: Make, tokens: TokenService, tmp_path: Path
) -> None:
    api.reply(make_reply("google"))
    tokens.lifetimes = [200, 3600]  # the first token expires too soon to be used again
    target = await open_entry(api, opening, tmp_path, "credentials: key.json, location: us-central1")
    assert not tokens.claims
    for _ in range(4):
        await target.answer(make_prompt("?"))
    authorizations = [request.headers["authorization"] for request in api.requests]
    assert authorizations == ["Bearer ya29.1-x1y2z3", *["Bearer ya29.2-x1y2z3"] * 3]
    assert api.requests[0].path == f"/v1/projects/p-of-file/locations/us-central1/{PATH}"
    assert [claims["scope"] for claims in tokens.claims] == [SCOPE, SCOPE]


async def test_requests_at_once_share_one_token(
    api: Api, opening: Make, tokens: TokenService, tmp_path: Path
) -> None:
    api.reply(make_reply("google"))
    environ = {"KEY_FILE": str(tokens.file)}
    target = await open_entry(api, opening, tmp_path, "credentials: '${{ KEY_FILE }}'", **environ)
    await asyncio.gather(*(target.answer(make_prompt("?")) for _ in range(8)))
    assert len(tokens.claims) == 1
    assert len(api.requests) == 8


async def test_the_environment_names_the_key_file(
    opening: Make, tokens: TokenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tokens.file))
    target = await TARGETS.get("vertex").open_target(make_spec("vertex", endpoint=None), opening())
    assert "/projects/p-of-file/locations/global/" in make_address(target)


async def test_no_answer_and_no_error_shows_the_token(
    api: Api, opening: Make, tokens: TokenService, tmp_path: Path
) -> None:
    api.reply(make_reply("google", "It is ya29.1-x1y2z3."))
    api.reply({"error": {"message": "Bad ya29.1-x1y2z3."}}, 401)
    target = await open_entry(api, opening, tmp_path, "credentials: key.json")
    assert (await target.answer(make_prompt("?"))).text == "It is [key]."
    with pytest.raises(TargetError) as caught:
        await target.answer(make_prompt("?"))
    assert "Bad [key]" in str(caught.value)


@pytest.mark.parametrize(
    ("failure", "message", "fault"),
    [
        (
            (400, {"error": "invalid_grant", "error_description": "Invalid JWT."}),
            "returned no access token: invalid_grant: Invalid JWT",
            EndpointFault.PERMANENT,
        ),
        (None, "Cannot connect to Google Cloud", EndpointFault.SERVER),
    ],
)
async def test_a_token_that_is_refused_is_an_error_of_the_trial(
    api: Api,
    opening: Make,
    tokens: TokenService,
    tmp_path: Path,
    failure: Any,
    message: str,
    fault: EndpointFault,
) -> None:
    tokens.failure = failure
    if failure is None:
        tokens.write("http://127.0.0.1:1")  # where nothing listens
    target = await open_entry(api, opening, tmp_path, "credentials: key.json")
    with pytest.raises(TargetError, match=message) as caught:
        await target.answer(make_prompt("?"))
    assert (caught.value.fault, caught.value.transient) == (fault, fault is EndpointFault.SERVER)
    assert caught.value.remedy
    assert not api.requests

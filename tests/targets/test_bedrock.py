"""What Amazon Bedrock is sent, signed as AWS verifies it, and what its replies become."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from proctor.errors import EndpointFault, TargetError, UsageError
from proctor.model import Attachment, Message, Params, Tool, ToolCall, Usage
from proctor.targets import TARGETS, check_params_taken
from proctor.targets.api.aws.bedrock import BEDROCK
from proctor.targets.api.aws.credentials import AwsAccount
from proctor.targets.context import TargetContext
from proctor.targets.parse import parse_target
from proctor.targets.targets_file import TargetsFile
from support.apis import Api
from support.builders import make_prompt, make_spec
from support.endpoints import serve_app

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ACCOUNT = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-west-1"}
BARE: dict[str, Any] = {"environ": ACCOUNT, "temperature": None, "seed": None}
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}}
CLOSED = {**PLACE, "additionalProperties": False}
POINT = {"cachePoint": {"type": "default"}}
TOOLS = (Tool(name="weather", description="The weather.", parameters=PLACE), Tool(name="time"))


def make_answer(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    content = list(blocks) or [{"text": "4"}]
    return {"output": {"message": {"role": "assistant", "content": content}}, **fields}


# --- signatures --------------------------------------------------------------------------------------------


def sign(request: web.Request, body: bytes, secret: str) -> str:
    """The signature that a request must have, by AWS's description of Signature Version 4."""
    fields = dict(part.strip().split("=", 1) for part in request.headers["Authorization"][17:].split(","))
    _, date, region, service, end = fields["Credential"].split("/")
    path = "/".join(quote(segment, safe="-_.~") for segment in request.raw_path.split("/"))
    names = fields["SignedHeaders"].split(";")
    headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in names)
    digest = hashlib.sha256(body).hexdigest()
    canonical = "\n".join([request.method, path, "", headers, ";".join(names), digest])
    scope = f"{date}/{region}/{service}/{end}"
    time = request.headers["X-Amz-Date"]
    text = "\n".join(["AWS4-HMAC-SHA256", time, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, end, text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class SignedApi(Api):
    """A service that answers 403 to a request that is not signed for it."""

    def __init__(self, opening: Callable[..., TargetContext]) -> None:
        super().__init__(opening)
        self.scopes: list[str] = []

    async def handle(self, request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        if not authorization.startswith("Bearer "):
            scope = authorization.removeprefix("AWS4-HMAC-SHA256 Credential=").partition(",")[0]
            self.scopes.append(scope)
            signature = sign(request, await request.read(), SECRET)
            names = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
            if not {"host", "x-amz-date"} <= set(names) or not authorization.endswith(f"={signature}"):
                return web.json_response({"message": f"The signature does not match {scope}."}, status=403)
        return await super().handle(request)


@pytest.fixture
async def bedrock(opening: Callable[..., TargetContext]) -> AsyncIterator[SignedApi]:
    service = SignedApi(opening)
    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", service.handle)
    async with serve_app(app) as service.url:
        yield service


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("m", "m"),
        (CLAUDE, "us.anthropic.claude-sonnet-4-5-20250929-v1%3A0"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0",
            "arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.amazon.nova-lite-v1%3A0",
        ),
        ("é x?y#z", "%C3%A9%20x%3Fy%23z"),
    ],
)
async def test_a_request_is_signed_for_its_address_and_body(
    bedrock: SignedApi, model: str, path: str
) -> None:
    bedrock.reply(make_answer())
    output = await bedrock.ask("bedrock", "Grüße", target_options={**BARE, "model": model})
    assert output.text == "4"
    (request,) = bedrock.requests
    assert (request.method, request.path) == ("POST", f"/model/{path}/converse")
    assert request.headers["content-type"] == "application/json"
    region = "us-east-1" if model.startswith("arn:") else "eu-west-1"
    day = request.headers["x-amz-date"][:8]
    assert bedrock.scopes == [f"AKIDEXAMPLE/{day}/{region}/bedrock/aws4_request"]
    assert SECRET not in str(request)


async def test_each_request_is_signed_for_itself_at_its_own_time(
    bedrock: SignedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    bedrock.reply({"message": "`temperature` is deprecated for this model."}, 400)
    bedrock.reply(make_answer())
    target = await bedrock.open("bedrock", environ=ACCOUNT, seed=None)
    assert (await target.answer(make_prompt("hello"))).refused_params == ("temperature",)
    later = datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda **_: later)
    await target.answer(make_prompt("hello"))
    assert "temperature" in bedrock.requests[0].body["inferenceConfig"]
    assert "temperature" not in bedrock.requests[1].body["inferenceConfig"]
    assert bedrock.requests[2].headers["x-amz-date"] == "20310102T030405Z"
    assert bedrock.requests[0].headers["x-amz-date"] != "20310102T030405Z"


async def test_a_token_of_temporary_credentials_is_sent_signed_and_never_given_back(
    bedrock: SignedApi,
) -> None:
    token = "FwoGZXIvYXdzEXAMPLE/token+of/a+session=="
    environ = ACCOUNT | {"AWS_SESSION_TOKEN": token}
    bedrock.reply(make_answer({"text": f"You sent {token}."}))
    output = await bedrock.ask("bedrock", target_options={**BARE, "environ": environ})
    assert bedrock.requests[0].headers["x-amz-security-token"] == token
    assert "x-amz-security-token" in bedrock.requests[0].headers["authorization"]
    assert output.text == "You sent [key]."


async def test_a_wrong_secret_is_an_error_with_a_remedy(bedrock: SignedApi) -> None:
    error = await bedrock.fail("bedrock", environ=ACCOUNT | {"AWS_SECRET_ACCESS_KEY": "another-secret"})
    assert "403" in str(error)
    assert "The signature does not match" in str(error)
    remedy = "Check the key and its permissions, or the headers that a gateway needs."
    assert (error.fault, error.remedy) == (EndpointFault.PERMANENT, remedy)


# --- credentials, keys and regions -------------------------------------------------------------------------


@pytest.fixture
def no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The environment of a machine without any credentials."""
    environ = {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }
    for name in (*ACCOUNT, "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return environ


async def test_credentials_and_region_of_a_profile_are_used(
    bedrock: SignedApi, no_account: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("[profile work]\nregion = ap-south-1\n", encoding="utf-8")
    lines = f"[work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "credentials").write_text(lines, encoding="utf-8")
    bedrock.reply(make_answer())
    for environ, options in (
        (no_account | {"AWS_PROFILE": "work"}, {}),
        (no_account | ACCOUNT | {"AWS_REGION": ""}, {"profile": "work"}),
    ):
        await bedrock.ask("bedrock", target_options={**BARE, "environ": environ, "options": options})
        assert bedrock.scopes[-1].startswith("AKIDWORK/")
        assert "/ap-south-1/" in bedrock.scopes[-1]
    with pytest.raises(UsageError, match="nobody"):
        await bedrock.open("bedrock", environ=no_account, options={"profile": "nobody"})


async def test_what_is_missing_is_an_error_with_its_remedy(
    bedrock: SignedApi,
    opening: Callable[..., TargetContext],
    no_account: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UsageError, match=r"needs a region. Set AWS_REGION"):
        await bedrock.open("bedrock", environ=no_account)
    with pytest.raises(UsageError, match=r"'x/../y' is not an AWS region"):
        await bedrock.open("bedrock", environ=no_account | {"AWS_REGION": "x/../y"})
    region = no_account | {"AWS_REGION": "us-east-1"}
    with pytest.raises(UsageError, match=r"needs AWS credentials.*aws configure.*key in PROCTOR_API_KEY"):
        await bedrock.open("bedrock", environ=region)
    with pytest.raises(UsageError, match=r"needs AWS credentials.*key in AWS_BEARER_TOKEN_BEDROCK"):
        await BEDROCK.open_target(make_spec("bedrock"), opening(**region))
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.delitem(sys.modules, "botocore.session", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'proctor\[bedrock\]'"):
        await bedrock.open("bedrock", environ=region)


async def test_credentials_that_cannot_be_renewed_are_an_error_of_the_call() -> None:
    from botocore.credentials import RefreshableCredentials
    from botocore.exceptions import CredentialRetrievalError
    from yarl import URL

    from proctor.targets.api.aws.credentials import AwsSigner

    def refresh() -> dict[str, str]:
        raise CredentialRetrievalError(provider="sso", error_msg="the session has expired")

    expiry = datetime(2020, 1, 1, tzinfo=UTC)
    signer = AwsSigner(RefreshableCredentials("a", "b", "c", expiry, refresh, "sso"), "bedrock", "us-east-1")
    with pytest.raises(TargetError, match=r"could not be renewed.*the session has expired") as caught:
        await signer.sign(URL("https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse"), b"{}")
    assert caught.value.fault is EndpointFault.PERMANENT


KEY = "ABSKQmVkcm9ja0FQSUtleS0xMjM0"


async def test_a_key_of_bedrock_goes_to_its_own_hosts_only(
    opening: Callable[..., TargetContext], no_account: dict[str, str]
) -> None:
    environ = no_account | {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION": "us-west-2"}
    for endpoint, has_key in (
        (None, True),
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", True),
        ("https://vpce-1.bedrock-runtime.eu-west-1.vpce.amazonaws.com", True),
        ("https://abc.execute-api.us-east-1.amazonaws.com", False),
        ("https://bedrock-runtime.us-east-1.amazonaws.com.example.org", False),
        ("https://gateway.example.org", False),
    ):
        opening_target = TARGETS.get("bedrock").open_target(
            make_spec("bedrock", "m", endpoint), opening(**environ)
        )
        if has_key:
            target: Any = await opening_target
            assert target._endpoint._headers["Authorization"] == f"Bearer {KEY}"
        else:
            with pytest.raises(UsageError, match="needs AWS credentials"):
                await opening_target


async def test_another_server_gets_its_key_and_no_signature(
    bedrock: SignedApi, no_account: dict[str, str]
) -> None:
    bedrock.reply(make_answer())
    environ = no_account | {"PROCTOR_API_KEY": "key-of-a-gateway", "MINE": "my-own-key", "X": "Basic eDp5"}
    for options, authorization in (
        ({}, "Bearer key-of-a-gateway"),
        ({"options": {"api_key": "${{ MINE }}"}}, "Bearer my-own-key"),
        ({"headers": {"Authorization": "Bearer ${{ MINE }}"}}, "Bearer my-own-key"),
    ):
        await bedrock.ask("bedrock", target_options={**BARE, "environ": environ, **options})
        assert bedrock.requests[-1].headers["authorization"] == authorization
        assert "x-amz-date" not in bedrock.requests[-1].headers


@pytest.mark.parametrize(
    ("environ", "options", "model", "host"),
    [
        ({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-2"}, {}, "m", "eu-west-1.amazonaws.com"),
        ({"AWS_DEFAULT_REGION": "us-east-2"}, {}, "m", "us-east-2.amazonaws.com"),
        ({"AWS_REGION": "cn-north-1"}, {}, "m", "cn-north-1.amazonaws.com.cn"),
        ({"AWS_REGION": "eusc-de-east-1"}, {}, "m", "eusc-de-east-1.amazonaws.eu"),
        ({"AWS_REGION": "eu-west-1"}, {"region": "us-west-2"}, "m", "us-west-2.amazonaws.com"),
        (
            {"AWS_REGION": "eu-west-1"},
            {},
            "arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0",
            "us-east-1.amazonaws.com",
        ),
    ],
)
async def test_the_address_is_that_of_the_region(
    opening: Callable[..., TargetContext],
    environ: dict[str, str],
    options: dict[str, str],
    model: str,
    host: str,
) -> None:
    spec = make_spec("bedrock", model, options=options)
    target: Any = await BEDROCK.open_target(spec, opening(**environ, AWS_BEARER_TOKEN_BEDROCK=KEY))
    assert target._endpoint._url.host == f"bedrock-runtime.{host}"


def test_the_word_and_the_targets_file_name_models_regions_and_profiles() -> None:
    arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-6-v1"
    spec = parse_target(f"bedrock:{arn}@http://127.0.0.1:9", Params(), {})
    assert (spec.kind, spec.model, spec.endpoint) == ("bedrock", arn, "http://127.0.0.1:9")
    assert parse_target(f"bedrock:{CLAUDE}", Params(), {}).endpoint is None
    own = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://127.0.0.1:8/"}
    assert parse_target("bedrock:m", Params(), own).endpoint == "http://127.0.0.1:8"
    text = "targets: [{name: t, provider: bedrock, model: m, region: eu-west-1, profile: work, top_k: 5}]"
    spec = TargetsFile(text, "targets.yaml", "/x").get_spec("t", Params(), {})
    assert (spec.options, spec.params.top_k) == ({"region": "eu-west-1", "profile": "work"}, 5)


# --- requests ----------------------------------------------------------------------------------------------


def text(text: str) -> dict[str, Any]:
    return {"text": text}


async def test_the_request_has_the_documented_form(bedrock: SignedApi) -> None:
    bedrock.reply(make_answer())
    turns = [("system", "Be brief."), "one", "two", ("assistant", "yes"), ("developer", "Be kind."), "three"]
    output = await bedrock.ask("bedrock", *turns, target_options={"environ": ACCOUNT, "max_tokens": 9})
    assert bedrock.body == {
        "system": [text("Be brief."), text("Be kind.")],
        "messages": [
            {"role": "user", "content": [text("one"), text("two")]},
            {"role": "assistant", "content": [text("yes")]},
            {"role": "user", "content": [text("three")]},
        ],
        "inferenceConfig": {"maxTokens": 9, "temperature": 0.0},
    }
    assert output.refused_params == ("seed",)


THINKING = {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize(
    ("model", "params", "fields"),
    [
        ("m", {"top_p": 0.9}, {"inferenceConfig": {"topP": 0.9}}),
        ("m", {"stop": ("END",)}, {"inferenceConfig": {"stopSequences": ["END"]}}),
        ("m", {"service_tier": "flex"}, {"serviceTier": {"type": "flex"}}),
        (CLAUDE, {"top_k": 5}, {"additionalModelRequestFields": {"top_k": 5}}),
        ("mistral.mistral-large-3", {"top_k": 5}, {"additionalModelRequestFields": {"top_k": 5}}),
        ("cohere.command-r-v1:0", {"top_k": 5}, {"additionalModelRequestFields": {"k": 5}}),
        (
            "us.amazon.nova-pro-v1:0",
            {"top_k": 5},
            {"additionalModelRequestFields": {"inferenceConfig": {"topK": 5}}},
        ),
        (
            CLAUDE,
            {"thinking_budget": 2048},
            {"additionalModelRequestFields": {"thinking": THINKING}, "inferenceConfig": {"maxTokens": 6144}},
        ),
        (
            CLAUDE,
            {"thinking_budget": 0},
            {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
        ),
        (
            "anthropic.claude-opus-4-6-v1",
            {"reasoning_effort": "low"},
            {
                "additionalModelRequestFields": {"thinking": {"type": "adaptive", "display": "summarized"}},
                "outputConfig": {"effort": "low"},
            },
        ),
        ("openai.gpt-oss-120b-1:0", {"reasoning_effort": "low"}, {"outputConfig": {"effort": "low"}}),
        (
            "m",
            {"extra_body": {"performanceConfig": {"latency": "optimized"}}},
            {"performanceConfig": {"latency": "optimized"}},
        ),
    ],
)
async def test_each_parameter_is_sent_where_converse_has_it(
    bedrock: SignedApi, model: str, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    bedrock.reply(make_answer())
    output = await bedrock.ask("bedrock", target_options={**BARE, "model": model, **params})
    messages = [{"role": "user", "content": [text("hello")]}]
    assert bedrock.body == {"messages": messages, "inferenceConfig": {}, **fields}
    assert output.refused_params == ()


async def test_a_claude_model_that_thinks_is_sent_no_temperature(bedrock: SignedApi) -> None:
    bedrock.reply(make_answer())
    options = {"environ": ACCOUNT, "model": CLAUDE, "thinking_budget": 2048, "seed": None}
    output = await bedrock.ask("bedrock", target_options=options)
    assert bedrock.body["inferenceConfig"] == {"maxTokens": 6144}
    assert output.refused_params == ("temperature",)


@pytest.mark.parametrize(
    ("model", "params", "words"),
    [
        ("meta.llama3-1-70b-instruct-v1:0", {"top_k": 5}, "Models of meta on Bedrock do not accept `top_k`"),
        ("us.amazon.nova-pro-v1:0", {"thinking_budget": 2048}, "Only Claude models on Bedrock"),
        ("global.anthropic.claude-opus-4-7", {"thinking_budget": 2048}, "Set `reasoning_effort` instead"),
        (CLAUDE, {"thinking_budget": 5}, "0 or at least 1024"),
    ],
)
async def test_what_a_model_does_not_take_is_an_error_before_the_first_request(
    bedrock: SignedApi, model: str, params: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        await bedrock.open("bedrock", model, environ=ACCOUNT, **params)
    assert bedrock.requests == []


@pytest.mark.parametrize("params", [{"stream": True}, {"logprobs": 1}, {"verbosity": "low"}])
def test_what_converse_lacks_is_refused(params: dict[str, Any]) -> None:
    (name,) = params
    with pytest.raises(UsageError, match=f"`bedrock` do not accept `{name}`"):
        check_params_taken(parse_target("bedrock:m", Params(**params), {}))


async def test_tools_and_their_results_are_described(bedrock: SignedApi) -> None:
    bedrock.reply(make_answer())
    calls = (ToolCall(name="weather", arguments={"city": "Oslo"}, id="c1"), ToolCall(name="time"))
    results = [
        Message(role="tool", name="weather", content="rain"),
        Message(role="tool", name="time", content="noon"),
    ]
    turns = ["hello", Message(role="assistant", tool_calls=calls), *results, "and?"]
    await bedrock.ask("bedrock", *turns, tools=TOOLS, target_options=BARE)
    specs = [
        {"name": "weather", "description": "The weather.", "inputSchema": {"json": PLACE}},
        {"name": "time", "inputSchema": {"json": {"type": "object"}}},
    ]
    assert bedrock.body["toolConfig"] == {"tools": [{"toolSpec": spec} for spec in specs]}
    assert bedrock.body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"city": "Oslo"}}},
                {"toolUse": {"toolUseId": "time", "name": "time", "input": {}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "c1", "content": [text("rain")]}},
                {"toolResult": {"toolUseId": "time", "content": [text("noon")]}},
                text("and?"),
            ],
        },
    ]


async def test_a_schema_becomes_a_tool_whose_input_is_the_answer(bedrock: SignedApi) -> None:
    call = {"toolUse": {"toolUseId": "c1", "name": "reply", "input": {"city": "Oslo"}}}
    bedrock.reply(make_answer(text("So:"), call))
    output = await bedrock.ask("bedrock", response_schema=PLACE, target_options=BARE)
    config = bedrock.body["toolConfig"]
    assert config["toolChoice"] == {"tool": {"name": "reply"}}
    assert config["tools"][0]["toolSpec"]["inputSchema"] == {"json": PLACE}
    assert (json.loads(output.text), output.tool_calls) == ({"city": "Oslo"}, ())


async def test_a_model_without_forced_tools_gets_the_schema_as_a_format_and_else_none(
    bedrock: SignedApi,
) -> None:
    bedrock.reply({"message": "This model doesn't support the toolConfig.toolChoice.tool field."}, 400)
    bedrock.reply(make_answer(text("{}")))
    target = await bedrock.open("bedrock", **BARE)
    assert (await target.answer(make_prompt("hello", response_schema=PLACE))).refused_params == ()
    form = bedrock.body["outputConfig"]["textFormat"]
    assert form["type"] == "json_schema"
    assert json.loads(form["structure"]["jsonSchema"]["schema"]) == CLOSED
    assert "toolConfig" not in bedrock.body
    bedrock.reply({"message": "This model doesn't support the outputConfig field."}, 400)
    bedrock.reply(make_answer(text("Oslo")))
    await target.answer(make_prompt("hello", response_schema=PLACE))
    output = await target.answer(make_prompt("hello", response_schema=PLACE))
    assert output.refused_params == ("response_format",)
    assert set(bedrock.body) == {"messages", "inferenceConfig"}


async def test_the_beginning_of_a_prompt_is_marked_to_be_cached(bedrock: SignedApi) -> None:
    bedrock.reply(make_answer())
    turns = [("system", "Be brief."), "one", ("assistant", "yes"), "two"]
    options = {**BARE, "model": CLAUDE, "prompt_cache": True}
    await bedrock.ask("bedrock", *turns, tools=TOOLS, target_options=options)
    assert bedrock.body["toolConfig"]["tools"][-1] == POINT
    assert bedrock.body["system"] == [text("Be brief."), POINT]
    assert [turn["content"] for turn in bedrock.body["messages"]] == [
        [text("one")],
        [text("yes"), POINT],
        [text("two")],
    ]
    await bedrock.ask("bedrock", target_options=options)
    assert "cachePoint" not in str(bedrock.body)


async def test_attachments_are_blocks_of_their_media_type(bedrock: SignedApi) -> None:
    bedrock.reply(make_answer())
    files = [
        ("image", "a.png", "image/png"),
        ("file", "docs/My report (1)!.pdf", "application/pdf"),
        ("file", "other/My report (1).pdf", "application/pdf"),
        ("file", "clip.mp4", "video/mp4"),
        ("file", "say.mp3", "audio/mpeg"),
    ]
    parts = [
        Attachment(kind=kind, path=path, media_type=media_type, data=path.encode())  # type: ignore[arg-type]
        for kind, path, media_type in files
    ]
    note = Attachment(kind="file", path="a.txt", text="Hi.")
    await bedrock.ask("bedrock", Message(role="user", parts=("See", " ", note, *parts)), target_options=BARE)
    first, second, *blocks = bedrock.body["messages"][0]["content"]
    assert [first, second] == [text("See"), text('<file path="a.txt">\nHi.\n</file>')]
    assert [
        (kind, block["format"], block.get("name")) for part in blocks for kind, block in part.items()
    ] == [
        ("image", "png", None),
        ("document", "pdf", "My report (1)"),
        ("document", "pdf", "My report (1) 2"),
        ("video", "mp4", None),
        ("audio", "mp3", None),
    ]
    contents = [b64decode(block["source"]["bytes"]).decode() for part in blocks for block in part.values()]
    assert contents == [path for _, path, _ in files]


# --- replies -----------------------------------------------------------------------------------------------


async def test_all_that_a_reply_says_is_in_the_output(bedrock: SignedApi) -> None:
    reply = make_answer(
        {"reasoningContent": {"reasoningText": {"text": "2 and 2", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "AAAA"}},
        text("Let me see."),
        {"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 2}}},
        stopReason="tool_use",
        usage={
            "inputTokens": 10,
            "outputTokens": 30,
            "totalTokens": 65,
            "cacheReadInputTokens": 20,
            "cacheWriteInputTokens": 5,
        },
        metrics={"latencyMs": 551},
        serviceTier={"type": "flex"},
    )
    bedrock.reply(reply, x_amzn_requestid="req-1")
    output = await bedrock.ask("bedrock", target_options=BARE)
    assert (output.text, output.reasoning) == ("Let me see.", "2 and 2\n\n[redacted]")
    assert output.tool_calls == (ToolCall(name="add", arguments={"a": 2}, id="c1"),)
    assert output.usage == Usage(
        input_tokens=35, output_tokens=30, cached_tokens=20, cache_write_tokens=5, reasoning_tokens=0
    )
    assert (output.finish_reason, output.service_tier) == ("tool_use", "flex")
    assert (output.request_id, output.response_id) == ("req-1", None)


@pytest.mark.parametrize(
    ("status", "transient", "busy"),
    [(400, False, False), (404, False, False), (429, True, True), (503, True, True)],
)
async def test_errors_say_whether_to_try_again(
    bedrock: SignedApi, status: int, transient: bool, busy: bool
) -> None:
    bedrock.reply({"message": "No such luck."}, status)
    error = await bedrock.fail("bedrock", environ=ACCOUNT)
    assert "No such luck" in str(error)
    assert (error.transient, error.busy) == (transient, busy)


async def test_many_at_once_are_each_signed_for_themselves(bedrock: SignedApi) -> None:
    bedrock.reply(make_answer())
    target = await bedrock.open("bedrock", **BARE)
    outputs = await asyncio.gather(*(target.answer(make_prompt(f"question {n}")) for n in range(20)))
    assert [output.text for output in outputs] == ["4"] * 20


def test_credentials_are_read_at_the_first_request_only() -> None:
    AwsAccount({"AWS_CONFIG_FILE": "/no/such/file"}, "nobody", "Target 't'")


# --- AWS's own description of the API ----------------------------------------------------------------------


def _list_faults(value: Any, shape: Any, place: str = "") -> list[str]:
    """The parts of a request that do not match AWS's model of the API."""
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
        faults = [f"{place} lacks {name}" for name in shape.required_members if name not in value]
        for name, part in value.items():
            if name not in shape.members:
                faults.append(f"{place} has {name}")
            else:
                faults += _list_faults(part, shape.members[name], f"{place}.{name}")
        return faults
    if shape.type_name == "list":
        return [fault for part in value for fault in _list_faults(part, shape.member, place)]
    if shape.type_name == "string" and shape.enum and value not in shape.enum:
        return [f"{place} is {value!r}"]
    return []


@pytest.mark.slow
async def test_each_field_of_a_request_is_one_that_aws_describes(bedrock: SignedApi) -> None:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    description = Loader(include_default_search_paths=True).load_service_model("bedrock-runtime", "service-2")
    shape = ServiceModel(description).operation_model("Converse").input_shape
    bedrock.reply(make_answer())
    files = [
        Attachment(kind="file", path=f"{media_type}.x", media_type=media_type, data=b"x")
        for types in BEDROCK.media_types.values()
        for media_type in sorted(types)
    ]
    call = Message(role="assistant", tool_calls=(ToolCall(name="weather", arguments={"city": "Oslo"}),))
    turns = [
        ("system", "Be brief."),
        Message(role="user", parts=("See.", *files)),
        call,
        Message(role="tool", name="weather", content="rain"),
    ]
    sampling = {"temperature": 0.5, "top_p": 0.5, "top_k": 5, "stop": ("END",), "max_tokens": 9}
    thinking = {"reasoning_effort": "low", "service_tier": "flex", "prompt_cache": True}
    for options, prompt in (
        (sampling, {"tools": TOOLS}),
        (sampling, {"response_schema": PLACE}),
        (thinking, {"tools": TOOLS}),
        (thinking, {"response_schema": PLACE}),
    ):
        await bedrock.ask("bedrock", *turns, **prompt, target_options={"environ": ACCOUNT, **options})
        assert _list_faults({"modelId": "m", **bedrock.body}, shape) == []

"""Azure OpenAI: its two addresses, its keys and its tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proctor.errors import UsageError
from proctor.targets import TARGETS
from proctor.targets.api.openai.azure import AZURE, DEFAULT_API_VERSION
from proctor.targets.api.openai.chat import OPENAI
from proctor.targets.context import TargetContext
from support.apis import Api, make_reply
from support.builders import make_spec

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhIn0.c2lnbmF0dXJl"
KEY = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("at", "options", "path"),
    [
        ("/openai/v1", {}, "/openai/v1/chat/completions"),
        ("/openai/v1/", {}, "/openai/v1/chat/completions"),
        ("/openai/v1", {"api_version": "preview"}, "/openai/v1/chat/completions?api-version=preview"),
        ("/openai/v1", {"api_version": "a&b"}, "/openai/v1/chat/completions?api-version=a%26b"),
        ("", {}, f"/openai/deployments/m/chat/completions?api-version={DEFAULT_API_VERSION}"),
    ],
)
async def test_the_address_decides_between_the_two_interfaces(
    api: Api, at: str, options: dict[str, str], path: str
) -> None:
    api.reply(make_reply("azure"))
    await api.ask("azure", target_options={"at": at, "options": options, "max_tokens": 7})
    (request,) = api.requests
    assert request.path == path
    assert request.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0.0,
        "seed": 42,
        "max_tokens": 7,
    }


async def test_a_model_that_reasons_gets_the_newer_name_of_its_limit(api: Api) -> None:
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    api.reply({"error": {"message": message, "param": "max_tokens"}}, 400)
    api.reply(make_reply("azure"))
    await api.ask("azure", target_options={"at": "/openai/v1", "max_tokens": 7})
    assert api.body["max_completion_tokens"] == 7
    assert "max_tokens" not in api.body


@pytest.mark.parametrize(
    ("environ", "header", "value"),
    [
        ({"MINE": KEY}, "api-key", KEY),
        ({"MINE": TOKEN}, "authorization", f"Bearer {TOKEN}"),
    ],
)
async def test_a_key_and_a_token_of_entra_have_their_own_headers(
    api: Api, environ: dict[str, str], header: str, value: str
) -> None:
    api.reply(make_reply("azure", f"I know {value}."))
    output = await api.ask(
        "azure", target_options={"environ": environ, "options": {"api_key": "${{ MINE }}"}}
    )
    assert api.requests[0].headers[header] == value
    assert {"api-key", "authorization"} & set(api.requests[0].headers) == {header}
    assert environ["MINE"] not in output.text


@pytest.mark.parametrize(
    "environ", [{"AZURE_OPENAI_API_KEY": KEY}, {"AZURE_OPENAI_AD_TOKEN": TOKEN}], ids=["key", "token"]
)
async def test_microsofts_hosts_get_the_key_or_the_token_of_the_environment(
    opening: Callable[..., TargetContext], environ: dict[str, str]
) -> None:
    spec = make_spec("azure", endpoint="https://r.openai.azure.com/openai/v1")
    target: Any = await TARGETS.get("azure").open_target(spec, opening(**environ))
    assert next(iter(environ.values())) in str(target._endpoint._headers)
    with pytest.raises(UsageError, match="AZURE_OPENAI_API_KEY is not set"):
        await TARGETS.get("azure").open_target(spec, opening())


def test_azure_takes_the_parameters_of_openai() -> None:
    assert AZURE.params == OPENAI.params

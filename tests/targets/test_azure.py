"""Azure OpenAI: its address, its key and what it shares with OpenAI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import Params, Tool
from proctor.targets.api.azure import DEFAULT_API_VERSION, open_target
from proctor.targets.parse import parse_target
from support.builders import make_prompt, make_spec
from support.endpoints import Service

Make = Callable[..., Any]
REPLY = {"model": "gpt-x", "choices": [{"message": {"content": "4"}}]}


@pytest.mark.parametrize(
    ("deployment", "ending", "options", "path"),
    [
        ("d", "", {}, f"/openai/deployments/d/chat/completions?api-version={DEFAULT_API_VERSION}"),
        ("d", "/openai/", {}, f"/openai/deployments/d/chat/completions?api-version={DEFAULT_API_VERSION}"),
        ("d", "/", {"api_version": "1"}, "/openai/deployments/d/chat/completions?api-version=1"),
        (
            "a/b?c",
            "",
            {"api_version": "1&x=2"},
            "/openai/deployments/a%2Fb%3Fc/chat/completions?api-version=1%26x%3D2",
        ),
    ],
)
async def test_a_deployment_is_asked_under_its_own_address(
    service: Service, opening: Make, deployment: str, ending: str, options: dict[str, Any], path: str
) -> None:
    service.reply(REPLY)
    given = make_spec("azure", deployment, service.url + ending, max_tokens=5)
    options = {**options, "api_key": "${{ AZ }}"}
    target = await open_target(replace(given, options=options), opening(AZ="azure-key"))
    assert (await target.answer(make_prompt("2+2?"))).text == "4"
    (seen,) = service.seen
    assert (seen.method, seen.path) == ("POST", path)
    assert seen.headers["api-key"] == "azure-key"
    assert "authorization" not in seen.headers
    assert seen.body["messages"] == [{"role": "user", "content": "2+2?"}]
    assert (seen.body["max_tokens"], seen.body["temperature"], seen.body["seed"]) == (5, 0.0, 42)


async def test_json_and_tools_are_asked_for_as_openai_takes_them(service: Service, opening: Make) -> None:
    service.reply(REPLY)
    target = await open_target(make_spec("azure", "d", service.url), opening())
    await target.answer(make_prompt("2+2?", json_answer=True, tools=(Tool(name="add"),)))
    (seen,) = service.seen
    assert seen.body["response_format"] == {"type": "json_object"}
    assert seen.body["tools"] == [{"type": "function", "function": {"name": "add"}}]


async def test_a_key_that_comes_back_in_an_error_is_blotted_out(service: Service, opening: Make) -> None:
    service.reply({"error": {"message": "bad key azure-key"}}, status=401)
    given = replace(make_spec("azure", "d", service.url), options={"api_key": "${{ AZ }}"})
    with pytest.raises(TargetError) as caught:
        await (await open_target(given, opening(AZ="azure-key"))).answer(make_prompt("?"))
    assert "azure-key" not in str(caught.value)
    assert "[key]" in str(caught.value)


async def test_the_environments_key_goes_to_microsofts_hosts_and_no_other(
    service: Service, opening: Make
) -> None:
    service.reply(REPLY)
    made = await open_target(make_spec("azure", "d", service.url), opening(AZURE_OPENAI_API_KEY="secret"))
    await made.answer(make_prompt("?"))
    assert "api-key" not in service.seen[0].headers
    for host in ("https://x.openai.azure.com", "https://x.services.ai.azure.com"):
        with pytest.raises(UsageError, match="AZURE_OPENAI_API_KEY is not set"):
            await open_target(make_spec("azure", "d", host), opening())
        await open_target(make_spec("azure", "d", host), opening(AZURE_OPENAI_API_KEY="secret"))


def test_its_address_comes_from_the_word_or_from_the_environment() -> None:
    there = {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/"}
    assert parse_target("azure:d", Params(), there).endpoint == "https://x.openai.azure.com"
    assert parse_target("azure:d@https://h.example", Params(), there).endpoint == "https://h.example"
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        parse_target("azure:d", Params(), {})

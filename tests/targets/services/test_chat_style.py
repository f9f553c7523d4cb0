"""The values that services get for parameters, and what follows when an endpoint refuses a field."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.errors import TargetError, UsageError
from proctor.model import Params
from proctor.targets import TARGETS, check_params_taken
from proctor.targets.parse import parse_target
from support.apis import WITH_KEY, Api, make_reply
from support.builders import make_prompt

FIELDS = [
    ("openai", {"logprobs": 0}, {"logprobs": True}),
    ("openai", {"logprobs": 5}, {"logprobs": True, "top_logprobs": 5}),
    ("openai", {"stop": ("A", "B"), "verbosity": "low"}, {"stop": ["A", "B"], "verbosity": "low"}),
    ("openai", {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    (
        "deepseek",
        {"reasoning_effort": "max"},
        {"thinking": {"type": "enabled"}, "reasoning_effort": "max"},
    ),
    ("deepseek", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}),
    ("groq", {"reasoning_effort": "low"}, {"reasoning_effort": "low", "reasoning_format": "parsed"}),
    ("mistral", {"stream": True}, {"stream": True}),
    ("together", {"logprobs": 0}, {"logprobs": 1}),
    ("together", {"logprobs": 5}, {"logprobs": 5}),
    ("together", {"reasoning_effort": "none"}, {"reasoning": {"enabled": False}}),
    (
        "nvidia",
        {"thinking_budget": 2048},
        {"reasoning_budget": 2048, "chat_template_kwargs": {"enable_thinking": True}},
    ),
    ("nvidia", {"thinking_budget": 0}, {"chat_template_kwargs": {"enable_thinking": False}}),
    ("openrouter", {"reasoning_effort": "high"}, {"reasoning": {"effort": "high"}}),
    ("openrouter", {"thinking_budget": 2000}, {"reasoning": {"max_tokens": 2000}}),
    ("openrouter", {"thinking_budget": 0}, {"reasoning": {"enabled": False}}),
    ("openrouter", {"prompt_cache": True}, {"cache_control": {"type": "ephemeral"}}),
    ("vllm", {"top_k": 20, "thinking_budget": 64}, {"top_k": 20, "thinking_token_budget": 64}),
    ("vllm", {"thinking_budget": 0}, {"chat_template_kwargs": {"enable_thinking": False}}),
    ("llamacpp", {"thinking_budget": 64}, {"thinking_budget_tokens": 64}),
    ("llamacpp", {"reasoning_effort": "high"}, {"chat_template_kwargs": {"reasoning_effort": "high"}}),
]
PLAIN = {"temperature": None, "seed": None}
MESSAGES = [{"role": "user", "content": "hello"}]


async def send(api: Api, word: str, *turns: Any, **params: Any) -> Any:
    """The request body of a target with these fields, sent to this service."""
    spec = parse_target(f"{word}@{api.url}/v1", Params(**PLAIN | params), {})
    check_params_taken(spec)
    target = await TARGETS.get(spec.kind).open_target(spec, api._opening(**WITH_KEY))
    await target.answer(make_prompt(*turns or ("hello",)))
    return api.body


@pytest.mark.parametrize(("kind", "params", "fields"), FIELDS)
async def test_a_value_is_written_as_the_service_documents_it(
    api: Api, kind: str, params: dict[str, Any], fields: dict[str, Any]
) -> None:
    api.reply(make_reply("openai"))
    assert await send(api, f"{kind}:m", **params) == {"model": "m", "messages": MESSAGES} | fields


async def test_two_parameters_of_one_object_share_it_and_extra_fields_come_last(api: Api) -> None:
    api.reply(make_reply("openai"))
    extra = {"provider": {"order": ["x"]}, "top_p": 0.5}
    body = await send(
        api, "openrouter:m", reasoning_effort="low", thinking_budget=9, top_p=0.9, extra_body=extra
    )
    assert body["reasoning"] == {"effort": "low", "max_tokens": 9}
    assert (body["provider"], body["top_p"]) == ({"order": ["x"]}, 0.5)


async def test_the_seed_of_each_repeat_has_the_services_name(api: Api) -> None:
    api.reply(make_reply("openai"))
    spec = parse_target(f"mistral:m@{api.url}", Params(seed=40), {})
    target = await TARGETS.get(spec.kind).open_target(spec, api._opening(**WITH_KEY))
    for repeat in (0, 2):
        await target.answer(make_prompt("hello", repeat=repeat))
    assert [request.body["random_seed"] for request in api.requests] == [40, 42]
    assert all("seed" not in request.body for request in api.requests)


async def test_a_seed_that_a_service_lacks_is_not_sent_and_the_report_says_so(api: Api) -> None:
    api.reply(make_reply("openai"))
    spec = parse_target(f"deepseek:m@{api.url}", Params(), {})
    target = await TARGETS.get(spec.kind).open_target(spec, api._opening(**WITH_KEY))
    assert (await target.answer(make_prompt("hello"))).refused_params == ("seed",)
    assert "seed" not in api.body


# --- the maximum of tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("openai:gpt-4o", "max_tokens"),
        ("openai:gpt-4.1-mini", "max_tokens"),
        ("openai:gpt-oss-120b", "max_tokens"),
        ("openai:o3-mini", "max_completion_tokens"),
        ("openai:o4", "max_completion_tokens"),
        ("openai:gpt-5", "max_completion_tokens"),
        ("openai:gpt-5.2-mini", "max_completion_tokens"),
        ("openai:olmo-2", "max_tokens"),
        ("groq:llama", "max_completion_tokens"),
        ("mistral:mistral-small", "max_tokens"),
        ("openrouter:openai/gpt-5", "max_tokens"),
    ],
)
async def test_the_maximum_has_the_name_that_the_model_takes_from_the_first_request_on(
    api: Api, word: str, name: str
) -> None:
    api.reply(make_reply("openai"))
    body = await send(api, word, max_tokens=7)
    assert {key: value for key, value in body.items() if key.startswith("max")} == {name: 7}


@pytest.mark.parametrize(
    ("word", "names"),
    [
        ("openai:m", ["max_tokens", "max_completion_tokens"]),
        ("openai:gpt-5", ["max_completion_tokens", "max_tokens"]),
    ],
)
async def test_an_endpoint_that_refuses_one_name_of_the_maximum_gets_the_other(
    api: Api, word: str, names: list[str]
) -> None:
    api.reply({"error": {"message": f"Unsupported parameter: '{names[0]}'", "param": names[0]}}, 400)
    api.reply(make_reply("openai"))
    await send(api, word, max_tokens=7)
    assert [next(key for key in request.body if key.startswith("max")) for request in api.requests] == names


# --- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_p", 0.9),
        ("reasoning_effort", "low"),
        ("stop", ("END",)),
        ("service_tier", "flex"),
        ("logprobs", 2),
    ],
)
async def test_a_parameter_that_the_user_chose_is_never_left_out_after_a_refusal(
    api: Api, name: str, value: Any
) -> None:
    api.reply({"error": {"message": f"Unsupported parameter: '{name}'.", "param": name}}, 400)
    with pytest.raises(TargetError, match=f"400.*Unsupported parameter: '{name}'"):
        await send(api, "openai:m", **{name: value})
    assert len(api.requests) == 1


async def test_a_server_that_knows_no_stream_options_is_asked_without_them(api: Api) -> None:
    api.reply({"error": {"message": "stream_options: unknown field"}}, 422)
    api.reply(make_reply("openai"))
    assert (await send(api, "vllm:m", stream=True))["stream"] is True
    assert "stream_options" not in api.body


async def test_log_probabilities_that_do_not_come_are_reported_as_not_applied(api: Api) -> None:
    api.reply(make_reply("openai"))
    output = await api.ask("openai", target_options={"logprobs": 2})
    assert output.refused_params == ("logprobs",)


async def test_what_a_case_sets_and_its_service_lacks_is_an_error_without_a_request(api: Api) -> None:
    api.reply(make_reply("openai"))
    with pytest.raises(TargetError, match="of the case cannot be sent: There is no parameter 'top_k'"):
        await api.ask("openai", params={"top_k": 5})
    assert api.requests == []
    await api.ask("openai", params={"top_p": 0.5, "stop": ["END"]}, target_options={"top_p": 0.9})
    assert (api.body["top_p"], api.body["stop"]) == (0.5, ["END"])


def test_a_service_that_older_runs_have_as_openai_is_held_to_its_own_parameters() -> None:
    spec = parse_target("groq:m", Params(logprobs=1), {})
    assert spec.kind == "openai"
    with pytest.raises(UsageError, match="kind `groq` do not accept `logprobs`"):
        check_params_taken(spec)


# --- roles -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "role"), [("openai", "developer"), ("openrouter", "developer"), ("vllm", "system")]
)
async def test_a_message_of_a_developer_is_one_of_the_system_where_that_role_is_unknown(
    api: Api, kind: str, role: str
) -> None:
    api.reply(make_reply("openai"))
    body = await send(api, f"{kind}:m", ("developer", "Be brief."), "hello")
    assert [message["role"] for message in body["messages"]] == [role, "user"]

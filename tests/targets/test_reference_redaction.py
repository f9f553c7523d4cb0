"""Values of variables in `headers` and `extra_body` are sent, but appear in no answer and no error."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.codec import encode
from proctor.errors import TargetError, UsageError
from support.apis import Api
from support.builders import make_prompt

TENANT, USER = "tenant-7f3a91c2", "user-b81e04d6"
ENVIRON = {"TENANT": TENANT, "ACCOUNT": USER}
PARAMS: dict[str, Any] = {
    "headers": {"X-Tenant": "of ${{ TENANT }}"},
    "extra_body": {"metadata": {"account": "${{ ACCOUNT }}"}},
}
ECHO = f"{TENANT} {USER}"


async def test_an_answer_that_repeats_them_is_kept_without_them(api: Api) -> None:
    logprobs = {"content": [{"token": ECHO, "logprob": -1, "top_logprobs": [{"token": ECHO, "logprob": -1}]}]}
    call = {"id": ECHO, "function": {"name": "f", "arguments": {ECHO: ECHO}}}
    message = {"content": ECHO, "reasoning": ECHO, "tool_calls": [call]}
    choice = {"message": message, "finish_reason": ECHO, "logprobs": logprobs}
    reply = {"choices": [choice], "id": ECHO, "model": ECHO, "service_tier": ECHO, "system_fingerprint": ECHO}
    api.reply(reply, X_Request_Id=ECHO)
    target = await api.open(environ=ENVIRON, logprobs=1, **PARAMS)
    output = await target.answer(make_prompt("hello"))
    assert api.requests[0].headers["x-tenant"] == f"of {TENANT}"
    assert api.body["metadata"] == {"account": USER}
    assert output.text == "[key] [key]"
    assert not any(secret in encode(output).decode() for secret in (TENANT, USER))


@pytest.mark.parametrize(
    ("kind", "reply", "status"),
    [
        ("openai", {"error": {"message": ECHO}}, 400),
        ("openai", {"error": {"message": ECHO}}, 200),
        ("openai", {"choices": ECHO}, 200),
        ("openai", {"message": ECHO}, 500),
        ("google", {"promptFeedback": {"blockReason": ECHO}}, 200),
    ],
)
async def test_an_error_that_repeats_them_is_shown_without_them(
    api: Api, kind: str, reply: Any, status: int
) -> None:
    api.reply(reply, status)
    target = await api.open(kind, environ=ENVIRON, **PARAMS)
    with pytest.raises(TargetError, match=r"\[key\]") as error:
        await target.answer(make_prompt("hello"))
    assert not any(secret in str(error.value) for secret in (TENANT, USER))


async def test_an_error_inside_a_stream_is_shown_without_them(api: Api) -> None:
    api.reply(f'data: {{"error": {{"message": "{ECHO}"}}}}\n\n'.encode(), Content_Type="text/event-stream")
    target = await api.open(environ=ENVIRON, stream=True, **PARAMS)
    with pytest.raises(TargetError, match=r"\[key\]") as error:
        await target.answer(make_prompt("hello"))
    assert not any(secret in str(error.value) for secret in (TENANT, USER))


async def test_a_status_of_a_response_is_shown_without_them(api: Api) -> None:
    api.reply({"output": [], "status": ECHO})
    target = await api.open(environ=ENVIRON, api_format="responses", **PARAMS)
    with pytest.raises(TargetError, match=r"\[key\]"):
        await target.answer(make_prompt("hello"))


async def test_a_variable_that_cannot_be_sent_is_an_error_before_the_first_call(api: Api) -> None:
    for environ, message in (
        ({"ACCOUNT": USER}, "TENANT is not set"),
        ({"TENANT": TENANT}, "ACCOUNT is not set"),
        ({**ENVIRON, "TENANT": "a\nX-B: c"}, "Check the environment variable TENANT"),
    ):
        with pytest.raises(UsageError, match=message):
            await api.open(environ=environ, **PARAMS)
    await api.open(environ={**ENVIRON, "TENANT": f"{TENANT}\n"}, **PARAMS)

"""Choices over a completions API: what is sent, and what is made of the log-probabilities of a prompt."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from proctor.errors import TargetError
from proctor.model import ChoiceLikelihood, Message, Output, Prompt, Usage
from proctor.targets import TARGETS
from proctor.targets.choice_targets import scores_choices
from proctor.targets.context import TargetContext
from support.builders import make_prompt, make_spec
from support.endpoints import serve_app

Make = Callable[..., TargetContext]
KEY = "sk-a-secret-of-some-length"


class EchoServer:
    """A model that splits a text into words with the space before them, and likes short words."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.has_bos = False
        self.change: Callable[[dict[str, Any]], Any] = lambda reply: reply
        """Changes each reply before it is sent."""

    @staticmethod
    def logprob(token: str) -> float:
        return -len(token) / 4

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append({"path": request.path, **body})
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        tokens = [
            *["<s>"] * self.has_bos,
            *re.findall(r" ?\w+|\W", body["prompt"]),
            *["."] * body["max_tokens"],
        ]
        logprobs = [None, *map(self.logprob, tokens[1:])]
        likeliest = [None, *({token: self.logprob(token), "a": -0.5} for token in tokens[1:])]
        reply = {
            "object": "text_completion",
            "model": "base-7b",
            "choices": [
                {
                    "index": 0,
                    "text": body["prompt"] + "." * body["max_tokens"],
                    "finish_reason": "length",
                    "logprobs": {
                        "tokens": tokens,
                        "token_logprobs": logprobs,
                        "top_logprobs": likeliest,
                        "text_offset": [-1] * len(tokens),
                    },
                }
            ],
            "usage": {
                "prompt_tokens": len(tokens) - body["max_tokens"],
                "completion_tokens": body["max_tokens"],
            },
        }
        return web.json_response(self.change(reply))


@pytest.fixture
async def server() -> AsyncIterator[EchoServer]:
    server = EchoServer()
    app = web.Application()
    app.router.add_post("/{path:.*}", server.handle)
    async with serve_app(app) as server.url:
        yield server


async def score(
    server: EchoServer,
    opening: Make,
    *choices: str,
    kind: str = "openai",
    prompt: Prompt | None = None,
    options: dict[str, Any] | None = None,
    **params: Any,
) -> Output:
    """What a target answers to a prompt with choices; the fields are its parameters."""
    spec = make_spec(kind, "base", f"{server.url}/v1/", options=options, **params)
    target = await TARGETS.get(kind).open_target(spec, opening(PROCTOR_API_KEY=KEY))
    return await target.answer(prompt or make_prompt("Is it late?", choices=choices))


@pytest.mark.parametrize("kind", ["openai", "vllm", "sglang"])
async def test_the_prompt_and_each_choice_are_sent_as_the_harness_sends_them(
    server: EchoServer, opening: Make, kind: str
) -> None:
    await score(server, opening, "yes", "not yet", kind=kind, temperature=0.9, seed=7, max_tokens=50)
    fields = {
        "path": "/v1/completions",
        "model": "base",
        "temperature": 0,
        "max_tokens": 1,
        "logprobs": 1,
        "echo": True,
    }
    prompts = ["Is it late?", "Is it late? yes", "Is it late? not yet"]
    assert server.requests == [{**fields, "prompt": prompt} for prompt in prompts]
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


async def test_the_answer_is_the_likeliest_choice_with_the_sums_of_all(
    server: EchoServer, opening: Make
) -> None:
    output = await score(server, opening, "not yet", "yes")
    assert output.choices == (
        ChoiceLikelihood(text="not yet", logprob=-2.0, tokens=2),
        ChoiceLikelihood(text="yes", logprob=-1.0, tokens=1),
    )
    assert (output.text, output.model) == ("yes", "base-7b")
    assert output.usage == Usage(input_tokens=4 + 6 + 5, output_tokens=3)
    assert output.latency_ms > 0


async def test_a_choice_is_greedy_if_each_token_is_the_likeliest(server: EchoServer, opening: Make) -> None:
    prompt = make_prompt("Is it late?", choices=("y n", "y no"), choice_delimiter=" ")
    output = await score(server, opening, prompt=prompt)
    assert [choice.is_greedy for choice in output.choices] == [True, False]


async def test_white_space_at_the_end_of_a_prompt_counts_with_the_choices(
    server: EchoServer, opening: Make
) -> None:
    prompt = make_prompt("Late: \n", choices=("a", "b"), choice_delimiter="")
    output = await score(server, opening, prompt=prompt)
    assert [request["prompt"] for request in server.requests] == ["Late:", "Late: \na", "Late: \nb"]
    assert [choice.tokens for choice in output.choices] == [3, 3]


async def test_a_token_that_begins_every_text_is_not_counted(server: EchoServer, opening: Make) -> None:
    server.has_bos = True
    output = await score(server, opening, "yes", "no")
    assert [choice.logprob for choice in output.choices] == [-1.0, -0.75]


async def test_a_token_across_the_boundary_is_cut_where_the_harness_cuts_it(
    server: EchoServer, opening: Make
) -> None:
    """After as many tokens as the prompt alone has: `abc` and ` d` of `abc`, ` de` and ` f`."""
    prompt = make_prompt("abc d", choices=("e f", " of f"), choice_delimiter="")
    output = await score(server, opening, prompt=prompt)
    assert output.choices == (
        ChoiceLikelihood(text="e f", logprob=-0.5, tokens=1, is_greedy=True, splits_token=True),
        ChoiceLikelihood(text=" of f", logprob=-1.25, tokens=2, is_greedy=False),
    )


async def test_a_choice_without_a_token_of_its_own_is_an_error(server: EchoServer, opening: Make) -> None:
    prompt = make_prompt("un", choices=("true", "even"), choice_delimiter="")
    with pytest.raises(TargetError, match="No token of the choice 'true' remains") as caught:
        await score(server, opening, prompt=prompt)
    assert caught.value.kind == "unsupported"


def _change_logprobs(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    def change(reply: dict[str, Any]) -> Any:
        reply["choices"][0]["logprobs"] |= fields
        return reply

    return change


def _like_llamacpp(reply: dict[str, Any]) -> Any:
    """The reply of llama.cpp's server: the generated token only, though it was asked for the prompt's."""
    content = [{"id": 29, "token": ".", "bytes": [46], "logprob": -1.0, "top_logprobs": []}]
    return {"choices": [{"text": ".", "index": 0, "logprobs": {"content": content}}], "usage": reply["usage"]}


def _without_echo(reply: dict[str, Any]) -> Any:
    choice = reply["choices"][0]
    choice["text"] = "."
    choice["logprobs"] = {"tokens": ["."], "token_logprobs": [-1.0], "top_logprobs": [{".": -1.0}]}
    return reply


def _without_logprobs(reply: dict[str, Any]) -> Any:
    reply["choices"][0]["logprobs"] = None
    return reply


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_like_llamacpp, "returned only those of the generated text.*use `llamacpp:MODEL@URL`"),
        (_without_echo, "returned only those of the generated text"),
        (_without_logprobs, "returned none"),
        (_change_logprobs(token_logprobs=[None]), "returned not one for each token"),
        (_change_logprobs(token_logprobs=[None] * 6), "returned n"),
        (lambda reply: reply | {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}, "returned not one"),
        (lambda reply: reply | {"usage": {"prompt_tokens": 4, "completion_tokens": 0}}, "returned not one"),
        (lambda _reply: {"error": {"message": "no such model"}}, "no such model"),
        (lambda _reply: {"choices": []}, "200"),
    ],
)
async def test_a_server_that_does_not_score_a_prompt_is_never_believed(
    server: EchoServer, opening: Make, change: Any, message: str
) -> None:
    server.change = change
    with pytest.raises(TargetError, match=message):
        await score(server, opening, "yes", "no")


async def test_a_server_may_generate_nothing_and_report_no_usage(server: EchoServer, opening: Make) -> None:
    expected = await score(server, opening, "yes", "no")

    def drop_generated(reply: dict[str, Any]) -> Any:
        choice = reply["choices"][0]
        choice["text"] = choice["text"][:-1]
        choice["logprobs"] = {name: values[:-1] for name, values in choice["logprobs"].items()}
        reply["usage"]["completion_tokens"] = 0
        return reply

    def drop_usage(reply: dict[str, Any]) -> Any:
        del reply["usage"], reply["choices"][0]["logprobs"]["top_logprobs"]
        return reply

    for change in (drop_generated, drop_usage):
        server.change = change
        assert (await score(server, opening, "yes", "no")).choices == expected.choices


async def test_messages_need_a_template_that_only_the_server_has(server: EchoServer, opening: Make) -> None:
    turns = (Message(role="system", content="Be brief."), "Is it late?")
    with pytest.raises(TargetError, match="has several messages, and only the server"):
        await score(server, opening, prompt=make_prompt(*turns, choices=("yes", "no")))
    with pytest.raises(TargetError, match="has several messages"):
        await score(server, opening, "yes", "no", options={"system_prompt": "Be brief."})
    with pytest.raises(TargetError, match="this prompt is blank"):
        await score(server, opening, prompt=make_prompt(" \n", choices=("yes", "no")))
    assert server.requests == []


async def test_headers_and_the_extra_body_of_a_target_are_sent_too(server: EchoServer, opening: Make) -> None:
    extra = {"add_special_tokens": False, "echo": False}
    await score(server, opening, "yes", "no", headers={"X-Team": "a"}, extra_body=extra)
    assert {headers["x-team"] for headers in server.headers} == {"a"}
    assert all(
        request["echo"] is True and request["add_special_tokens"] is False for request in server.requests
    )


async def test_a_prompt_without_choices_is_still_a_chat(opening: Make) -> None:
    async def chat(request: web.Request) -> web.Response:
        assert request.path == "/v1/chat/completions"
        return web.json_response({"choices": [{"message": {"content": "Yes."}}]})

    app, server = web.Application(), EchoServer()
    app.router.add_post("/{path:.*}", chat)
    async with serve_app(app) as server.url:
        output = await score(server, opening, prompt=make_prompt("Is it late?"))
    assert (output.text, output.choices) == ("Yes.", ())


@pytest.mark.parametrize("kind", ["azure", "anthropic", "google", "groq"])
async def test_a_service_that_reports_no_likelihood_is_sent_nothing(
    server: EchoServer, opening: Make, kind: str
) -> None:
    spec = make_spec(kind, "m", f"{server.url}/v1")
    target = await TARGETS.get(kind).open_target(spec, opening(PROCTOR_API_KEY=KEY))
    with pytest.raises(TargetError, match="'m' does not report the likelihoods of choices") as caught:
        await target.answer(make_prompt("Is it late?", choices=("yes", "no")))
    assert (caught.value.kind, server.requests) == ("unsupported", [])


@pytest.mark.parametrize(
    ("kind", "model", "address", "expected"),
    [
        ("openai", "babbage-002", None, True),
        ("openai", "davinci-002", "https://api.openai.com/v1", True),
        ("openai", "gpt-5.2", None, False),
        ("openai", "m", "http://127.0.0.1:8000/v1", True),
        ("openai", "m", "https://vllm.example.com/v1", True),
        ("openai", "m", "https://api.deepseek.com/v1", False),
        ("together", "m", None, False),
        ("vllm", "m", None, True),
        ("sglang", "m", "http://gpu-box:30000/v1", True),
        ("llamacpp", "m", None, True),
        ("lmstudio", "m", None, False),
        ("ollama", "m", None, False),
        ("azure", "babbage-002", "https://a.openai.azure.com", False),
        ("local", "", None, True),
        ("function", "m:f", None, True),
        ("replay", "r.jsonl", None, True),
        ("cli", "model", None, False),
        ("a-kind-that-is-not-installed", "m", None, False),
    ],
)
def test_which_targets_score_choices_is_known_before_any_request(
    kind: str, model: str, address: str | None, expected: bool
) -> None:
    assert scores_choices(make_spec(kind, model, address)) is expected
    assert not scores_choices(make_spec(kind, model, address, api_format="responses"))

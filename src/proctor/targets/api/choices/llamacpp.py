"""Scores choices on llama.cpp's own server, by its log-probabilities before any sampling.

Each token is scored by a request of its own with all tokens before it, without a cache. So they are evaluated
as one batch, as the harness evaluates a text: token by token, llama.cpp rounds quantized models in other
places, which moves a log-probability by up to 0.2. With the parameter `prompt_cache` the user prefers the
cache, which is many times faster.

A bias on one token makes the server generate it, and with `n_probs` the reply has its log-probability over
the whole vocabulary, which no bias, temperature or other sampling changes. llama.cpp adds up probabilities in
single precision, so that each log-probability is up to 0.0003 too high. Source: tools/server/README.md of
https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec import Struct
from yarl import URL

from proctor.errors import TargetError
from proctor.model import ChoiceLikelihood, Message, Output, Prompt, TargetSpec, Usage
from proctor.targets.api.choices.likelihoods import (
    DEFAULT_DELIMITER,
    cut_choice,
    get_plain_text,
    make_choice_output,
    strip_context,
)
from proctor.targets.api.http import JsonEndpoint
from proctor.targets.api.messages import format_message, get_system_message, with_system_message
from proctor.targets.api.target import ENCODER, with_own_headers
from proctor.targets.context import TargetContext

_LEAST_LOGPROB = -1e30
"""A lower value stands for a probability that is 0 in single precision."""
_BIAS = 1e6
"""Added to the logit of the token to generate; no logit of a model is as large."""
_SHARED_TOKENS = 1_000
"""The number of the likeliest tokens in a reply where several choices go on."""
_WHOLE_VOCABULARY = 10_000_000
"""More tokens than any vocabulary has."""


class _TokensReply(Struct):
    tokens: list[int]


class _TemplateReply(Struct):
    prompt: str


class _LikelyToken(Struct):
    id: int
    logprob: float


class _ForcedToken(Struct):
    id: int
    logprob: float
    top_logprobs: list[_LikelyToken] = []


class _ForcedReply(Struct):
    completion_probabilities: list[_ForcedToken] = []
    tokens_evaluated: int = 0
    tokens_predicted: int = 0


class _ScoredToken(Struct, frozen=True):
    logprob: float
    is_greedy: bool


_TOKENS_DECODER = msgspec.json.Decoder(_TokensReply)
_TEMPLATE_DECODER = msgspec.json.Decoder(_TemplateReply)
_FORCED_DECODER = msgspec.json.Decoder(_ForcedReply)


class LlamaScorer:
    """Scores choices on one server of llama.cpp."""

    def __init__(
        self,
        model: str,
        context: TargetContext,
        url: URL,
        system: Message | None = None,
        headers: Mapping[str, str] = {},
        *,
        uses_cache: bool = False,
    ) -> None:
        """Takes the server's base URL, without `/v1`."""
        self._model = model
        self._system = system
        self._uses_cache = uses_cache
        self._tokenize = JsonEndpoint(context, url / "tokenize", headers)
        self._template = JsonEndpoint(context, url / "apply-template", headers)
        self._complete = JsonEndpoint(context, url / "completion", headers)

    @classmethod
    def from_spec(
        cls,
        model: str,
        spec: TargetSpec,
        context: TargetContext,
        url: URL,
        headers: Mapping[str, str] = {},
    ) -> Self:
        """Creates a scorer with the system message, the headers and the `prompt_cache` of a specification.

        Raises:
            UsageError: a variable in one is not set.
        """
        system = get_system_message(spec, context.environ)
        own_headers = with_own_headers(spec, headers, context.environ)
        return cls(model, context, url, system, own_headers, uses_cache=spec.params.prompt_cache)

    async def score(self, prompt: Prompt) -> Output:
        """Returns the likelihood of each choice of a prompt.

        One user message is the text before the choices as it is. Any other prompt gets the chat template of
        the model, and then choices follow without a delimiter, unless the prompt has one.

        Raises:
            TargetError: there is no answer, or no log-probability for each token.
        """
        prompt = with_system_message(prompt, self._system)
        text, delimiter = get_plain_text(prompt), DEFAULT_DELIMITER
        if text is None:
            text = await self._apply_template(prompt)
            # An assistant's turn that was begun is continued, as `gen_prefix` of lm-evaluation-harness.
            is_begun = prompt.messages[-1].role == "assistant" and not text[-1:].isspace()
            delimiter = DEFAULT_DELIMITER if is_begun else ""
        delimiter = delimiter if prompt.choice_delimiter is None else prompt.choice_delimiter
        context = await self._split(strip_context(text))
        parts = [
            cut_choice(context, await self._split(f"{text}{delimiter}{choice}"), choice)
            for choice in prompt.choices
        ]
        scorer = _TokenScorer(self._complete, await self._split("a"), uses_cache=self._uses_cache)
        # The tokens that choices have after the same text are scored together.
        places: dict[tuple[int, ...], list[int]] = {}
        for tokens, _ in parts:
            for count, token in enumerate(tokens):
                places.setdefault((*context, *tokens[:count]), []).append(token)
        scored = {before: await scorer.score(before, tokens) for before, tokens in places.items()}
        choices = []
        for choice, (tokens, splits_token) in zip(prompt.choices, parts, strict=True):
            likelihoods = [scored[(*context, *tokens[:count])][token] for count, token in enumerate(tokens)]
            choices.append(
                ChoiceLikelihood(
                    text=choice,
                    logprob=math.fsum(token.logprob for token in likelihoods),
                    tokens=len(tokens),
                    is_greedy=all(token.is_greedy for token in likelihoods),
                    splits_token=splits_token,
                )
            )
        return make_choice_output(choices, scorer.usage, scorer.latency_ms, self._model)

    async def _split(self, text: str) -> list[int]:
        """Returns the tokens of a text, with those that the model wants at its beginning."""
        body = {"content": text, "add_special": True, "parse_special": True}
        reply = await self._tokenize.send(lambda _names: ENCODER.encode(body), ())
        return self._tokenize.decode(_TOKENS_DECODER, reply.body).tokens

    async def _apply_template(self, prompt: Prompt) -> str:
        messages = [{"role": message.role, "content": format_message(message)} for message in prompt.messages]
        reply = await self._template.send(lambda _names: ENCODER.encode({"messages": messages}), ())
        return self._template.decode(_TEMPLATE_DECODER, reply.body).prompt


class _TokenScorer:
    """Scores tokens, and adds up what that takes."""

    def __init__(self, endpoint: JsonEndpoint, letter: Sequence[int], *, uses_cache: bool) -> None:
        self._endpoint = endpoint
        self._uses_cache = uses_cache
        self._letter = letter[-1]
        """A token of a whole character."""
        self.usage = Usage()
        self.latency_ms = 0.0

    async def score(self, before: Sequence[int], tokens: Sequence[int]) -> dict[int, _ScoredToken]:
        """Returns the log-probability of each of several tokens after the same text."""
        logprobs: dict[int, float] = {}
        likeliest = None
        for token in tokens:
            if token in logprobs:
                continue
            reply = await self._generate(before, token, 1 if len(tokens) == 1 else _SHARED_TOKENS)
            if reply is None:
                # The server reports no token that ends inside a character, so it generates another one.
                reply = await self._generate(before, self._letter, _WHOLE_VOCABULARY)
            if reply is not None:
                top = {entry.id: entry.logprob for entry in reply.top_logprobs}
                logprobs = {**top, reply.id: reply.logprob, **logprobs}
                likeliest = next(iter(top), None)
            if logprobs.get(token, -math.inf) < _LEAST_LOGPROB:
                raise TargetError(
                    f"The server reported no log-probability of token {token}, which a choice needs. Only "
                    f"the llama.cpp server reports them.",
                    kind="protocol",
                )
        return {token: _ScoredToken(logprobs[token], token == likeliest) for token in tokens}

    async def _generate(self, before: Sequence[int], token: int, count: int) -> _ForcedToken | None:
        """Makes the server generate a token, and returns what it reports of it and of the likeliest ones."""
        body: dict[str, Any] = {
            "prompt": before,
            "n_predict": 1,
            "n_probs": count,
            "post_sampling_probs": False,
            "logit_bias": [[token, _BIAS]],
            "temperature": 0,
            "cache_prompt": self._uses_cache,
        }
        received = await self._endpoint.send(lambda _names: ENCODER.encode(body), ())
        reply = self._endpoint.decode(_FORCED_DECODER, received.body)
        self.latency_ms += received.latency_ms
        self.usage = Usage(
            input_tokens=self.usage.input_tokens + reply.tokens_evaluated,
            output_tokens=self.usage.output_tokens + reply.tokens_predicted,
        )
        return reply.completion_probabilities[0] if reply.completion_probabilities else None

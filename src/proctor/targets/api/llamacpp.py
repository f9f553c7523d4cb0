"""Scores choices on llama.cpp's own server, exactly: its log-probabilities are those before any sampling.

A grammar of token ids makes the server generate the tokens of a choice, whatever the model would say. With
`n_probs` the reply has the log-probability of each, over the whole vocabulary, which neither grammar nor
temperature changes. llama.cpp adds up the probabilities in single precision, which moves each log-probability
by up to some 0.0002. Source: tools/server/README.md and grammars/README.md of
https://github.com/ggml-org/llama.cpp.
"""

from __future__ import annotations

import math
from typing import Any, Self

import msgspec
from msgspec import Struct
from yarl import URL

from proctor.errors import TargetError
from proctor.model import ChoiceLikelihood, Message, Output, Prompt, TargetSpec, Usage
from proctor.targets.api.choices import (
    DEFAULT_DELIMITER,
    cut_choice,
    get_plain_text,
    make_choice_output,
    strip_context,
)
from proctor.targets.api.http import JsonEndpoint
from proctor.targets.api.messages import format_message, get_system_message, with_system_message
from proctor.targets.api.target import ENCODER
from proctor.targets.context import TargetContext

_LEAST_LOGPROB = -1e30
"""A lower value stands for a probability that is 0 in single precision."""


class _TokensReply(Struct):
    tokens: list[int]


class _TemplateReply(Struct):
    prompt: str


class _LikelyToken(Struct):
    id: int


class _ForcedToken(Struct):
    id: int
    logprob: float
    top_logprobs: list[_LikelyToken] = []


class _ForcedReply(Struct):
    completion_probabilities: list[_ForcedToken] = []
    tokens_evaluated: int = 0
    tokens_predicted: int = 0


_TOKENS_DECODER = msgspec.json.Decoder(_TokensReply)
_TEMPLATE_DECODER = msgspec.json.Decoder(_TemplateReply)
_FORCED_DECODER = msgspec.json.Decoder(_ForcedReply)


class LlamaScorer:
    """Scores choices on one server of llama.cpp."""

    def __init__(self, model: str, context: TargetContext, url: URL, system: Message | None) -> None:
        """Takes the server's base URL, without `/v1`."""
        self._model = model
        self._system = system
        self._tokenize = JsonEndpoint(context, url / "tokenize", {})
        self._template = JsonEndpoint(context, url / "apply-template", {})
        self._complete = JsonEndpoint(context, url / "completion", {})

    @classmethod
    def from_spec(cls, model: str, spec: TargetSpec, context: TargetContext, url: URL) -> Self:
        """Creates a scorer with the system message of a specification.

        Raises:
            UsageError: a variable in the system message is not set.
        """
        return cls(model, context, url, get_system_message(spec, context.environ))

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
        choices: list[ChoiceLikelihood] = []
        usage, latency_ms = Usage(), 0.0
        for choice in prompt.choices:
            tokens, splits_token = cut_choice(
                context, await self._split(f"{text}{delimiter}{choice}"), choice
            )
            reply, took_ms = await self._force(context, list(tokens))
            forced = reply.completion_probabilities
            self._check_tokens(choice, list(tokens), forced)
            choices.append(
                ChoiceLikelihood(
                    text=choice,
                    logprob=math.fsum(token.logprob for token in forced),
                    tokens=len(tokens),
                    is_greedy=all(token.top_logprobs[:1] == [_LikelyToken(token.id)] for token in forced),
                    splits_token=splits_token,
                )
            )
            usage = Usage(
                input_tokens=usage.input_tokens + reply.tokens_evaluated,
                output_tokens=usage.output_tokens + reply.tokens_predicted,
            )
            latency_ms += took_ms
        return make_choice_output(choices, usage, latency_ms, self._model)

    def _check_tokens(self, choice: str, tokens: list[int], forced: list[_ForcedToken]) -> None:
        if [token.id for token in forced] != tokens:
            raise TargetError(
                f"The server did not report the log-probability of each of the {len(tokens)} tokens of the "
                f"choice {choice!r}. It must be a llama.cpp that knows tokens in grammars, of 2026 or later.",
                kind="protocol",
            )
        if any(token.logprob < _LEAST_LOGPROB for token in forced):
            raise TargetError(
                f"A token of the choice {choice!r} is too improbable for the number format of llama.cpp.",
                kind="protocol",
            )

    async def _split(self, text: str) -> list[int]:
        """Returns the tokens of a text, with those that the model wants at its beginning."""
        body = {"content": text, "add_special": True, "parse_special": True}
        reply = await self._tokenize.send(lambda _names: ENCODER.encode(body), ())
        return self._tokenize.decode(_TOKENS_DECODER, reply.body).tokens

    async def _apply_template(self, prompt: Prompt) -> str:
        messages = [{"role": message.role, "content": format_message(message)} for message in prompt.messages]
        reply = await self._template.send(lambda _names: ENCODER.encode({"messages": messages}), ())
        return self._template.decode(_TEMPLATE_DECODER, reply.body).prompt

    async def _force(self, context: list[int], tokens: list[int]) -> tuple[_ForcedReply, float]:
        """Returns the reply of a server that can only generate these tokens, and how long it took."""
        body: dict[str, Any] = {
            "prompt": context,
            "n_predict": len(tokens),
            "n_probs": 1,
            "post_sampling_probs": False,
            "grammar": "root ::= " + " ".join(f"<[{token}]>" for token in tokens),
            "temperature": 0,
            "cache_prompt": False,
        }
        reply = await self._complete.send(lambda _names: ENCODER.encode(body), ())
        return self._complete.decode(_FORCED_DECODER, reply.body), reply.latency_ms

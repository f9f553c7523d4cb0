"""Scores choices over the completions API, by the log-probabilities of an echoed prompt.

vLLM, SGLang and OpenAI's two remaining base models answer so. The requests and the arithmetic are those of
lm-evaluation-harness. Source: `LocalCompletionsAPI`, lm_eval/models/openai_completions.py of
https://github.com/EleutherAI/lm-evaluation-harness at 4e7e0d47. `text_offset` is not used: vLLM counts the
text of special tokens in it, and SGLang sends -1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import Struct

from proctor.env_substitution import substitute
from proctor.errors import TargetError
from proctor.model import ChoiceLikelihood, Message, Output, Prompt, TargetSpec, Usage
from proctor.targets.api.choices.likelihoods import (
    DEFAULT_DELIMITER,
    cut_choice,
    get_plain_text,
    make_choice_output,
    strip_context,
)
from proctor.targets.api.messages import get_system_message, with_system_message
from proctor.targets.api.target import ENCODER, with_own_headers

if TYPE_CHECKING:
    from yarl import URL

    from proctor.targets.api.http import JsonEndpoint
    from proctor.targets.context import TargetContext


class _EchoedLogprobs(Struct):
    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class _EchoedChoice(Struct):
    text: str = ""
    logprobs: _EchoedLogprobs | None = None


class _EchoedUsage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = None


class _EchoedReply(Struct):
    choices: list[_EchoedChoice] = []
    model: str | None = None
    usage: _EchoedUsage | None = None
    error: Any = None


class _EchoedPrompt(Struct):
    """The tokens of a prompt, with what the model thinks of each."""

    tokens: list[str]
    logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    model: str | None
    usage: Usage
    latency_ms: float


_ECHO_DECODER = msgspec.json.Decoder(_EchoedReply)


class EchoScorer:
    """Scores choices on a server that returns the log-probabilities of a prompt."""

    def __init__(
        self, model: str, endpoint: JsonEndpoint, system: Message | None, extra_body: Mapping[str, Any]
    ) -> None:
        self._model = model
        self._endpoint = endpoint
        self._system = system
        self._extra_body = extra_body

    @classmethod
    def from_spec(
        cls, model: str, spec: TargetSpec, context: TargetContext, url: URL, headers: Mapping[str, str]
    ) -> Self:
        """Creates a scorer at the URL of a completions endpoint.

        Raises:
            UsageError: a variable in the system message, a header or the extra body is not set.
        """
        from proctor.targets.api.http import JsonEndpoint

        return cls(
            model,
            JsonEndpoint(context, url, with_own_headers(spec, headers, context.environ)),
            get_system_message(spec, context.environ),
            substitute(spec.params.extra_body, context.environ),
        )

    async def score(self, prompt: Prompt) -> Output:
        """Returns the likelihood of each choice of a prompt, which must be one user message.

        Sends the prompt alone, and once with each choice, one request after the other.

        Raises:
            TargetError: there is no answer, it lacks the log-probabilities of the prompt, or the prompt needs
                a chat template, which only the server has.
        """
        text = get_plain_text(with_system_message(prompt, self._system))
        if text is None:
            raise TargetError(
                "Choices are scored after one user message, but this prompt has several messages, and only "
                "the server knows their chat template. Write them as one text, or use `local` or `llamacpp`.",
                kind="unsupported",
            )
        delimiter = DEFAULT_DELIMITER if prompt.choice_delimiter is None else prompt.choice_delimiter
        context = await self._echo(strip_context(text))
        replies = [context]
        choices = []
        for choice in prompt.choices:
            whole = await self._echo(f"{text}{delimiter}{choice}")
            replies.append(whole)
            choices.append(self._score_choice(choice, context, whole))
        usage = Usage(
            input_tokens=sum(reply.usage.input_tokens for reply in replies),
            output_tokens=sum(reply.usage.output_tokens for reply in replies),
        )
        latency_ms = math.fsum(reply.latency_ms for reply in replies)
        return make_choice_output(choices, usage, latency_ms, context.model)

    def _score_choice(self, choice: str, context: _EchoedPrompt, whole: _EchoedPrompt) -> ChoiceLikelihood:
        tokens, splits_token = cut_choice(context.tokens, whole.tokens, choice)
        start = len(context.tokens)
        logprobs = [logprob for logprob in whole.logprobs[start:] if logprob is not None]
        if len(logprobs) < len(tokens):
            raise self._missing_error(f"none for a token of the choice {choice!r}")
        top_logprobs = (whole.top_logprobs or [])[start:]
        return ChoiceLikelihood(
            text=choice,
            logprob=math.fsum(logprobs),
            tokens=len(tokens),
            is_greedy=len(top_logprobs) == len(tokens)
            and all(
                logprob == max((top or {}).values(), default=None)
                for logprob, top in zip(logprobs, top_logprobs, strict=True)
            ),
            splits_token=splits_token,
        )

    async def _echo(self, prompt: str) -> _EchoedPrompt:
        """Returns the tokens of a text with their log-probabilities, without the one that is generated."""
        body = ENCODER.encode(
            {
                **self._extra_body,
                "model": self._model,
                "prompt": prompt,
                "temperature": 0,
                "max_tokens": 1,
                "logprobs": 1,
                "echo": True,
            }
        )
        received = await self._endpoint.send(lambda _names: body, ())
        reply = self._endpoint.decode(_ECHO_DECODER, received.body)
        if reply.error or not reply.choices:
            raise self._endpoint.error_in_reply(200, received.body)
        choice, usage = reply.choices[0], reply.usage or _EchoedUsage()
        logprobs = choice.logprobs
        if logprobs is None or not choice.text.startswith(prompt):
            raise self._missing_error("none" if logprobs is None else "only those of the generated text")
        generated = 1 if usage.completion_tokens is None else usage.completion_tokens
        count = len(logprobs.tokens) - generated
        if (
            count < 1
            or len(logprobs.token_logprobs) != len(logprobs.tokens)
            or usage.prompt_tokens not in (0, count)
        ):
            raise self._missing_error("not one for each token")
        return _EchoedPrompt(
            tokens=logprobs.tokens[:count],
            logprobs=logprobs.token_logprobs[:count],
            top_logprobs=None if logprobs.top_logprobs is None else logprobs.top_logprobs[:count],
            model=reply.model,
            usage=Usage(input_tokens=usage.prompt_tokens or count, output_tokens=generated),
            latency_ms=received.latency_ms,
        )

    def _missing_error(self, what: str) -> TargetError:
        return TargetError(
            f"{self._model!r} must return the log-probabilities of its prompt (`echo` with `logprobs`) but "
            f"returned {what}. vLLM and SGLang return them. For a llama.cpp server, use "
            f"`llamacpp:MODEL@URL`.",
            kind="protocol",
        )

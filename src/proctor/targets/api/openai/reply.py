"""Parses the replies of chat completions, in each service's spelling. Pure.

Source: https://platform.openai.com/docs/api-reference/chat/object. Reasoning is in `reasoning_content`
(DeepSeek, xAI, SGLang, llama.cpp, NVIDIA, Fireworks), `reasoning` (Groq, OpenRouter, vLLM, Ollama, LM Studio,
Together, Cerebras), `reasoning_details` (OpenRouter) or in parts of the content (Mistral).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from proctor.model import Attachment, Output, TokenLogprob, ToolCall, Usage
from proctor.pricing import MAX_TOKENS, is_valid_cost, make_usage, read_usage
from proctor.targets.api.answer_media import parse_audio, parse_media_url
from proctor.targets.api.openai.common import parse_call

MAX_ID_LENGTH = 200
"""The maximum length of an id or a tier that a reply reports; the rest is cut off."""
_CACHED_NAMES = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens")
"""Names of the number of cached tokens beside `prompt_tokens_details`: of DeepSeek, Together and Mistral."""


# Like all decoded JSON they have no cycles, so the garbage collector need not track them (`gc=False`).


class ChatFunction(Struct, gc=False):
    """The name and the arguments of a tool call."""

    name: str
    arguments: Any = "{}"


class ChatToolCall(Struct, gc=False):
    """A tool call of an answer."""

    function: ChatFunction
    id: str | None = None
    type: str = "function"


class ChatAnswer(Struct, gc=False):
    """The message of a reply."""

    content: str | list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[ChatToolCall] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    audio: Any = None
    images: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether it is a text and nothing else, but for tool calls."""
        return (
            isinstance(self.content, str)
            and bool(self.content)
            and self.reasoning_content is None
            and self.reasoning is None
            and self.reasoning_details is None
            and self.audio is None
            and self.images is None
        )

    @property
    def text(self) -> str:
        """The answer: its text, else the words of its audio, else the refusal."""
        if isinstance(self.content, str) and self.content:
            return self.content
        if isinstance(self.content, list):
            text = "".join(_get_text(part) for part in self.content if part.get("type") != "thinking")
        else:
            text = ""
        transcript = self.audio.get("transcript") if isinstance(self.audio, dict) else None
        return text or (transcript if isinstance(transcript, str) else "") or self.refusal or ""

    @property
    def thoughts(self) -> str | None:
        """What the model thought, or the service's summary of it."""
        for value in (self.reasoning_content, self.reasoning):
            if isinstance(value, str) and value:
                return value
        if self.reasoning_details is None and not isinstance(self.content, list):
            return None
        parts = self.content if isinstance(self.content, list) else ()
        thinking = [part for part in parts if part.get("type") == "thinking"]
        details = self.reasoning_details if isinstance(self.reasoning_details, list) else []
        return "".join(map(_get_text, details or thinking)) or None

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """The images and the audio of the answer."""
        if self.images is None and self.audio is None and not isinstance(self.content, list):
            return ()
        attachments: list[Attachment] = []
        for url in self._iter_image_urls():
            attachment = parse_media_url(url, len(attachments) + 1)
            if attachment is not None:
                attachments.append(attachment)
        if isinstance(self.audio, dict):
            attachment = parse_audio(self.audio.get("data"), len(attachments) + 1)
            if attachment is not None:
                attachments.append(attachment)
        return tuple(attachments)

    def _iter_image_urls(self) -> Iterator[Any]:
        """Yields the addresses of images: `image_url` is an object with a `url`, or the address itself."""
        parts: list[Any] = list(self.content) if isinstance(self.content, list) else []
        parts += self.images if isinstance(self.images, list) else []
        for part in parts:
            image = part.get("image_url") if isinstance(part, dict) else None
            yield image.get("url") if isinstance(image, dict) else image


class ChatChoice(Struct, gc=False):
    """The first of the answers of a reply."""

    message: ChatAnswer
    finish_reason: str | None = None
    logprobs: Any = None


class ChatReply(Struct, gc=False):
    """The whole reply."""

    choices: list[ChatChoice] | None = None
    id: Any = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: Any = None
    usage: Any = None
    error: Any = None

    def make_output(self, logprobs: tuple[TokenLogprob, ...]) -> Output:
        """Returns the first answer with its log-probabilities; there must be one."""
        assert self.choices
        choice = self.choices[0]
        message = choice.message
        is_plain, calls, tier = message.is_plain, message.tool_calls, self.service_tier
        return Output(
            text=message.content if is_plain else message.text,  # type: ignore[arg-type]
            tool_calls=tuple(map(parse_tool_call, calls)) if calls else (),
            logprobs=logprobs,
            usage=parse_chat_usage(self.usage),
            finish_reason=choice.finish_reason,
            model=self.model,
            fingerprint=self.system_fingerprint,
            reasoning=None if is_plain else message.thoughts,
            attachments=() if is_plain else message.attachments,
            response_id=cut_id(self.id),
            service_tier=None if tier is None else cut_id(tier),
        )

    def parse_cost(self) -> float | None:
        """Parses what a service that reports costs charged."""
        return parse_reported_cost(self.usage)

    def parse_logprobs(self) -> tuple[TokenLogprob, ...]:
        """Parses the log-probabilities of the first answer.

        Raises:
            ValueError: they have another form, or a value that is no finite number.
        """
        return parse_logprobs(self.choices[0].logprobs) if self.choices else ()


CHAT_REPLY_DECODER = msgspec.json.Decoder(ChatReply)


def parse_tool_call(call: ChatToolCall) -> ToolCall:
    """Parses a tool call; arguments that are not a JSON object go under `arguments`."""
    return parse_call(call.function.name, call.function.arguments, call.id)


def parse_chat_usage(counts: Any) -> Usage | None:
    """Parses token counts in each service's spelling.

    xAI counts reasoning beside `completion_tokens`, and all others inside it: the total tells which.
    Source: https://docs.x.ai/docs/guides/reasoning.
    """
    if not isinstance(counts, dict):
        return read_usage(counts, (), (), "")
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if (
        len(counts) == 3
        and "total_tokens" in counts
        and type(prompt) is int
        and type(completion) is int
        and 0 <= prompt <= MAX_TOKENS
        and 0 <= completion <= MAX_TOKENS
    ):  # what most servers send needs none of what follows
        return Usage(input_tokens=prompt, output_tokens=completion)
    inside = _get_part(counts, "prompt_tokens_details", "cached_tokens")
    cached = next((counts[name] for name in _CACHED_NAMES if counts.get(name)), None)
    reasoning = _get_part(counts, "completion_tokens_details", "reasoning_tokens")
    reasoning = reasoning or counts.get("reasoning_tokens")
    cache_write = _get_part(counts, "prompt_tokens_details", "cache_write_tokens")
    numbers: list[Any] = [prompt, completion, reasoning]
    are_counts = bool(reasoning) and all(type(number) is int for number in numbers)
    is_apart = are_counts and counts.get("total_tokens") == sum(numbers)
    outputs = (completion, reasoning) if is_apart else (completion,)
    return make_usage((prompt,), outputs, (inside or cached, cache_write, reasoning))


def parse_reported_cost(counts: Any) -> float | None:
    """Parses what OpenRouter charged, with what it says that a provider charges a key of one's own.

    Source: https://openrouter.ai/docs/use-cases/usage-accounting. A cost that is no number is -1, which
    counts as unknown, with a warning.

    Args:
        counts: the token counts, which have the cost beside them.
    """
    if not isinstance(counts, dict):
        return None
    parts = [counts.get("cost")]
    if counts.get("is_byok") is True:
        parts.append(_get_part(counts, "cost_details", "upstream_inference_cost"))
    costs = [part for part in parts if part is not None]
    if not costs:
        return None
    return float(sum(costs)) if all(map(is_valid_cost, costs)) else -1.0


def parse_logprobs(logprobs: Any) -> tuple[TokenLogprob, ...]:
    """Parses log-probabilities: OpenAI's objects, or the lists that Together still sends.

    Raises:
        ValueError: they have another form, or a value that is no finite number.
    """
    if not isinstance(logprobs, dict):
        return ()
    content = logprobs.get("content")
    if isinstance(content, list):
        return tuple(map(_parse_token, content))
    tokens, values = logprobs.get("tokens"), logprobs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list):
        return ()
    tops = logprobs.get("top_logprobs")
    tops = tops if isinstance(tops, list) and len(tops) == len(tokens) else [None] * len(tokens)
    return tuple(
        TokenLogprob(
            token=_check_token(token),
            logprob=_check_logprob(value),
            top=_sort_likeliest(list(top.items()) if isinstance(top, dict) else []),
        )
        for token, value, top in zip(tokens, values, tops, strict=True)
    )


def cut_id(value: Any) -> str | None:
    """Returns an id that a reply reports, if it is a text."""
    return value[:MAX_ID_LENGTH] or None if isinstance(value, str) else None


def _parse_token(entry: Any) -> TokenLogprob:
    if not isinstance(entry, dict):
        raise ValueError("an entry is not an object")
    likeliest = entry.get("top_logprobs") or []
    if not isinstance(likeliest, list) or not all(isinstance(other, dict) for other in likeliest):
        raise ValueError("`top_logprobs` is not a list of objects")
    return TokenLogprob(
        token=_check_token(entry.get("token")),
        logprob=_check_logprob(entry.get("logprob")),
        top=_sort_likeliest([(other.get("token"), other.get("logprob")) for other in likeliest]),
    )


def _sort_likeliest(pairs: Sequence[tuple[Any, Any]]) -> tuple[tuple[str, float], ...]:
    checked = [(_check_token(token), _check_logprob(value)) for token, value in pairs]
    return tuple(sorted(checked, key=lambda pair: -pair[1]))


def _check_token(token: Any) -> str:
    if not isinstance(token, str):
        raise ValueError("a token is not a text")
    return token


def _check_logprob(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError("a log-probability is not a number")
    return float(value)


def _get_text(part: Any) -> str:
    """Returns the text of a part of a content or of a service's details of its reasoning."""
    if not isinstance(part, dict):
        return part if isinstance(part, str) else ""
    value = part.get("thinking") or part.get("text") or part.get("summary") or ""
    return "".join(map(_get_text, value)) if isinstance(value, list) else str(value)


def _get_part(counts: dict[str, Any], name: str, part_name: str) -> Any:
    """Returns a count inside details; details that are no object, which no count can be read from."""
    details = counts.get(name)
    return details.get(part_name) if isinstance(details, dict) else details

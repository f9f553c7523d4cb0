"""What an answer has besides its text: reasoning, speed, probabilities of tokens, ids, attachments. Pure."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from proctor.model import Attachment, Output, TokenLogprob
from proctor.plurals import pluralize
from proctor.reports.formatting import milliseconds, rate

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that browsers only draw; SVG can hold scripts, and HTML is a page."""
MAX_INLINE_BYTES = 256 * 2**10
"""Larger images are not put into a page itself."""
_STEPS = ((0.9, ""), (0.5, "likely"), (0.1, "unsure"), (0.0, "unlikely"))


class LogprobSummary(Struct, frozen=True):
    """How probable the tokens of an answer were to the model."""

    tokens: int
    mean: float
    """The mean of the natural logarithms."""
    perplexity: float
    """exp(-mean); infinite where that exceeds a double."""


class TokenView(Struct, frozen=True):
    """One token of an answer as pages show it."""

    text: str
    probability: float
    """From 0 to 1."""
    alternatives: tuple[tuple[str, float], ...]
    """The other likeliest tokens, each with its probability."""

    @property
    def step(self) -> str:
        """A word for the probability: empty from 0.9, then `likely`, `unsure`, and `unlikely` below 0.1."""
        return next(word for least, word in _STEPS if self.probability >= least)


def summarize_logprobs(logprobs: Sequence[TokenLogprob]) -> LogprobSummary | None:
    """Returns the summary of an answer's log-probabilities; None without any."""
    if not logprobs:
        return None
    mean = math.fsum(token.logprob for token in logprobs) / len(logprobs)
    try:
        perplexity = math.exp(-mean)
    except OverflowError:
        perplexity = math.inf
    return LogprobSummary(tokens=len(logprobs), mean=mean, perplexity=perplexity)


def logprob_text(output: Output) -> str:
    """Returns the mean log-probability and the perplexity of an answer as text; empty without any."""
    summary = summarize_logprobs(output.logprobs)
    if summary is None:
        return ""
    perplexity = f"{summary.perplexity:.3g}" if summary.perplexity < math.inf else "infinite"
    return f"mean {summary.mean:.3f}, perplexity {perplexity}, over {pluralize(summary.tokens, 'token')}"


def view_tokens(logprobs: Sequence[TokenLogprob], limit: int) -> list[TokenView]:
    """Returns the first tokens of an answer with their probabilities, at most `limit`."""
    return [
        TokenView(
            token.token,
            _probability(token.logprob),
            tuple([(text, _probability(value)) for text, value in token.top if text != token.token]),
        )
        for token in logprobs[:limit]
    ]


def _probability(logprob: float) -> float:
    return math.exp(min(logprob, 0.0))


def speed_facts(output: Output) -> Iterator[tuple[str, str]]:
    """Yields the time to the first token and the tokens per second of an answer, if they were measured."""
    if output.first_token_ms is not None:
        yield "first token", milliseconds(output.first_token_ms)
    if output.tokens_per_second is not None:
        yield "speed", f"{rate(output.tokens_per_second)} tokens/s"


def id_facts(output: Output) -> Iterator[tuple[str, str]]:
    """Yields the service tier of an answer and the ids that its service gave it, where reported."""
    for name, value in (
        ("service tier", output.service_tier),
        ("response id", output.response_id),
        ("request id", output.request_id),
        ("fingerprint", output.fingerprint),
    ):
        if value:
            yield name, value


def attachment_data(attachment: Attachment) -> bytes:
    """Returns the content of an attachment; of a text, in UTF-8."""
    if attachment.text is None:
        return attachment.data
    return attachment.text.encode("utf-8", "replace")


def attachment_text(attachment: Attachment) -> str:
    """Returns kind, name, type and size of an attachment: `image map.png, image/png, 12,345 bytes`."""
    size = len(attachment_data(attachment))
    return f"{attachment.kind} {attachment.path}, {attachment.media_type}, {pluralize(size, 'byte')}"


def inline_image(attachment: Attachment) -> str:
    """Returns a small image as a data URL; empty for anything else."""
    data = attachment.data
    if attachment.media_type not in IMAGE_TYPES or not 0 < len(data) <= MAX_INLINE_BYTES:
        return ""
    return f"data:{attachment.media_type};base64,{base64.b64encode(data).decode()}"

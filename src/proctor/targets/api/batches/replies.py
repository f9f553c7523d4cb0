"""What the replies of all batch APIs have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

import msgspec

from proctor.batch_protocol import BatchReply
from proctor.errors import AnswerTooLarge, TargetError

T = TypeVar("T")

CLOCK_TOLERANCE = timedelta(hours=1)
"""How much the clocks of a service and of this machine may differ."""
_MAX_QUOTE = 200


def decode_line(line: bytes, record: type[T]) -> T:
    """Returns one line of a list of replies as a record.

    Raises:
        TargetError: it has another shape; transient, as a list may be cut off.
    """
    try:
        return msgspec.json.decode(line, type=record)
    except msgspec.DecodeError as error:
        start = line[:_MAX_QUOTE].decode("utf-8", "replace")
        raise TargetError(
            f"A line of a batch's answers cannot be read ({error}): {start!r}.",
            kind="protocol",
            transient=True,
        ) from error


def make_line_error(reason: str) -> TargetError:
    """Returns the error of a request that its batch did not answer."""
    return TargetError(f"The batch did not answer this request: {reason.rstrip('.')}.", kind="batch")


def make_reply(
    custom_id: str, body: bytes, max_answer_bytes: int, *, request_id: str | None = None
) -> BatchReply:
    """Returns a reply with a body, or with an error if that is larger than an answer may be."""
    if len(body) > max_answer_bytes:
        return BatchReply(custom_id=custom_id, error=AnswerTooLarge(max_answer_bytes, len(body)))
    return BatchReply(custom_id=custom_id, body=body, request_id=request_id)

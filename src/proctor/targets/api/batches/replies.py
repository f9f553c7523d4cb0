"""What the replies of all batch APIs have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

import msgspec

from proctor.batch_protocol import BatchReply
from proctor.errors import AnswerTooLarge, TargetError

T = TypeVar("T")

CLOCK_TOLERANCE = timedelta(hours=26)
"""How much the clocks of a service and of this machine may differ, also if one is in another time zone."""
_MAX_QUOTE, _MAX_REASON = 200, 500


class UnreadableLine(TargetError):
    """A line of a list of replies that has another shape than the interface; the others may be read."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="protocol", transient=True)


def decode_line(line: bytes, record: type[T]) -> T:
    """Returns one line of a list of replies as a record.

    Raises:
        UnreadableLine: it has another shape.
    """
    try:
        return msgspec.json.decode(line, type=record)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        start = line[:_MAX_QUOTE].decode("utf-8", "replace")
        raise UnreadableLine(f"A line of the batch's answers cannot be read ({error}): {start!r}.") from error


def make_line_error(reason: str) -> TargetError:
    """Returns the error of a request that its batch did not answer."""
    return TargetError(
        f"The batch did not answer this request: {reason[:_MAX_REASON].rstrip('.')}.", kind="batch"
    )


def make_reply(
    custom_id: str, body: bytes, max_answer_bytes: int, *, request_id: str | None = None
) -> BatchReply:
    """Returns a reply with a body, or with an error if that is larger than an answer may be."""
    if len(body) > max_answer_bytes:
        return BatchReply(custom_id=custom_id, error=AnswerTooLarge(max_answer_bytes, len(body)))
    return BatchReply(custom_id=custom_id, body=body, request_id=request_id)

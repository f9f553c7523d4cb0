"""The interface of batch APIs: a service takes many requests at once, and answers within a day for less.

The custom id of a request is `p12-r0`: the position of its case in the suite, and the repeat. It is unique in
a run, so that answers may come in any order, twice, or to another process than the one that sent the
requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from proctor.errors import TargetError

MAX_CUSTOM_ID_LENGTH = 64
"""The maximum length of a custom id that every service takes."""


def make_custom_id(position: int, repeat: int) -> str:
    """Returns the custom id of a trial, such as `p12-r0`."""
    return f"p{position}-r{repeat}"


class BatchRequest(Struct, frozen=True, gc=False):
    """One request of a batch."""

    custom_id: str
    body: bytes
    """The JSON that is sent for the same prompt outside of a batch."""


class BatchStatus(Struct, frozen=True, kw_only=True):
    """How far a service is with a batch."""

    batch_id: str
    state: str
    """The state as the service calls it."""
    is_ended: bool
    """Whether there will be no further answers."""
    answered: int = 0
    """The number of requests with an answer."""
    failed: int = 0
    """The number of requests that failed, expired or were cancelled."""
    reason: str = ""
    """Why the service refused or ended the whole batch; empty if it did not."""


class BatchMatch(Struct, frozen=True):
    """Which of a service's batches has a key."""

    status: BatchStatus | None
    """None if there is none."""
    is_certain: bool = True
    """False if the service cannot tell before a batch has ended; then look again later."""


class BatchReply(Struct, frozen=True, kw_only=True):
    """The reply to one request of a batch: a body, or an error."""

    custom_id: str | None
    """None if the reply cannot be read; `error` says why."""
    body: bytes = b""
    """The JSON that answers the same request outside of a batch."""
    error: TargetError | None = None
    request_id: str | None = None


class BatchService(Protocol):
    """The batch API of one service for one model.

    Every method that calls the service raises TargetError if that fails.
    """

    max_requests: int
    """The maximum number of requests of a batch."""
    max_bytes: int
    """The maximum size of a batch."""

    def measure(self, request: BatchRequest) -> int:
        """Returns how many bytes of a batch a request takes."""

    async def submit(self, requests: Sequence[BatchRequest], key: str) -> BatchStatus:
        """Submits a batch; `key` is a name that `find` finds it by.

        Raises:
            TargetError: it was not accepted, or it is unknown whether it was; the latter if the error is
                transient.
        """

    async def find(self, key: str, size: int, since: datetime, other_ids: Collection[str]) -> BatchMatch:
        """Finds a batch that was submitted by a process that did not learn its id.

        Args:
            key: the name under which it was submitted.
            size: the number of its requests.
            since: when it was submitted, by this machine's clock.
            other_ids: the ids of batches with other keys.
        """

    async def poll(self, batch_id: str) -> BatchStatus:
        """Returns how far the service is."""

    def read_replies(self, batch_id: str, key: str, custom_ids: Sequence[str]) -> AsyncIterator[BatchReply]:
        """Yields the replies of a batch that has ended, in any order.

        Args:
            batch_id: the id of the batch.
            key: the name under which it was submitted.
            custom_ids: the custom ids of its requests, in order.
        """

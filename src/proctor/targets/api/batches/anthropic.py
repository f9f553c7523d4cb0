"""Anthropic's message batches: all requests in one body, all replies in one list.

Source of the format: https://docs.anthropic.com/en/api/creating-message-batches. A batch has no name and no
metadata. So that one can be found again, each custom id ends in a tag of the batch, as in `p12-r0-3f9c…`; a
list of batches shows the custom ids of those that have ended. Lists show the newest batch first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Annotated
from urllib.parse import quote

import msgspec
from msgspec import Meta, Raw, Struct
from yarl import URL

from proctor.batch_protocol import BatchMatch, BatchReply, BatchRequest, BatchStatus
from proctor.targets.api.batches.connection import BatchConnection
from proctor.targets.api.batches.replies import (
    CLOCK_TOLERANCE,
    UnreadableLine,
    decode_line,
    make_line_error,
    make_reply,
)
from proctor.targets.api.http import JsonEndpoint
from proctor.targets.context import TargetContext

TAG_LENGTH = 12
"""The length of the tag of a batch, which is the end of its key."""
_PAGE_SIZE = 100
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "overloaded_error": 529,
}
"""The types of errors, with their statuses outside of batches; others have 500."""
_EXPIRED = "it expired because the batch took longer than 24 hours"


class _MessageCounts(Struct):
    processing: int = 0
    succeeded: int = 0
    errored: int = 0
    canceled: int = 0
    expired: int = 0


class _MessageBatch(Struct):
    id: str
    processing_status: str
    created_at: Annotated[datetime, Meta(tz=True)] | None = None
    results_url: str | None = None
    request_counts: _MessageCounts = msgspec.field(default_factory=_MessageCounts)


class _MessageBatchPage(Struct):
    data: list[_MessageBatch]
    has_more: bool = False


class _InnerError(Struct):
    type: str = ""


class _ErrorEnvelope(Struct):
    error: _InnerError = msgspec.field(default_factory=_InnerError)


class _MessageResult(Struct):
    type: str
    message: Raw = Raw(b"")
    error: Raw = Raw(b"")


class _MessageLine(Struct):
    custom_id: str
    result: _MessageResult


class AnthropicBatches:
    """The batches of one Claude model."""

    max_requests = 100_000
    max_bytes = 256_000_000

    def __init__(self, endpoint: JsonEndpoint, context: TargetContext) -> None:
        """Sends nothing.

        Args:
            endpoint: the endpoint for single requests, whose address and headers are used.
            context: has the HTTP session.
        """
        self._connection = BatchConnection(endpoint, context)
        self._base = f"{endpoint.url}/batches"

    def measure(self, request: BatchRequest) -> int:
        """Returns the length of its item, with its tag and the comma after it."""
        return len(_encode_item(request, "-" + "0" * TAG_LENGTH)) + 1

    async def submit(self, requests: Sequence[BatchRequest], key: str) -> BatchStatus:
        """Submits the requests in one body.

        Raises:
            TargetError: it was not accepted, or it is unknown whether it was.
        """
        ending = _tag_ending(key)
        body = b'{"requests":[' + b",".join([_encode_item(request, ending) for request in requests]) + b"]}"
        return _read_status(await self._connection.post(URL(self._base), body, _MessageBatch))

    async def find(self, key: str, size: int, since: datetime, other_ids: Collection[str]) -> BatchMatch:
        """Finds the batch whose custom ids end in the tag of a key.

        Not certain while a batch of that size and time is unknown, and has not ended.
        """
        oldest, after, is_certain = since - CLOCK_TOLERANCE, "", True
        while True:
            url = URL(f"{self._base}?limit={_PAGE_SIZE}{after}", encoded=True)
            page = await self._connection.get(url, _MessageBatchPage)
            for batch in page.data:
                is_possible = (batch.created_at or since) >= oldest and _count(batch) == size
                if not is_possible or batch.id in other_ids:
                    continue
                if batch.processing_status != "ended":
                    is_certain = False
                elif batch.results_url is not None and await self._has_tag(batch.id, key):
                    return BatchMatch(_read_status(batch))
            if not page.has_more or not page.data or (page.data[-1].created_at or oldest) < oldest:
                return BatchMatch(None, is_certain)
            after = f"&after_id={quote(page.data[-1].id, safe='')}"

    async def poll(self, batch_id: str) -> BatchStatus:
        """Returns how far the service is."""
        return _read_status(await self._connection.get(self._url_for(batch_id), _MessageBatch))

    async def read_replies(
        self,
        batch_id: str,
        key: str,
        custom_ids: Sequence[str],  # noqa: ARG002
    ) -> AsyncIterator[BatchReply]:
        """Yields the lines of the list of results, which is never read from another address."""
        ending = _tag_ending(key)
        async for line in self._connection.read_lines(self._url_for(batch_id, "/results")):
            try:
                result = decode_line(line, _MessageLine)
                reply = self._read_result(result.custom_id.removesuffix(ending), result.result)
            except UnreadableLine as error:
                reply = BatchReply(custom_id=None, error=error)
            yield reply

    async def _has_tag(self, batch_id: str, key: str) -> bool:
        async for line in self._connection.read_lines(self._url_for(batch_id, "/results")):
            return decode_line(line, _MessageLine).custom_id.endswith(_tag_ending(key))
        return False

    def _url_for(self, batch_id: str, path: str = "") -> URL:
        return URL(f"{self._base}/{quote(batch_id, safe='')}{path}", encoded=True)

    def _read_result(self, custom_id: str, result: _MessageResult) -> BatchReply:
        if result.type == "succeeded":
            return make_reply(custom_id, bytes(result.message), self._connection.max_answer_bytes)
        if result.type == "errored":
            body = bytes(result.error)
            envelope = decode_line(body, _ErrorEnvelope)
            error = self._connection.read_error(_STATUSES.get(envelope.error.type, 500), body)
            return BatchReply(custom_id=custom_id, error=error)
        reason = {"expired": _EXPIRED, "canceled": "the batch was cancelled"}.get(result.type, result.type)
        return BatchReply(custom_id=custom_id, error=make_line_error(reason))


def _tag_ending(key: str) -> str:
    return f"-{key[-TAG_LENGTH:]}"


def _encode_item(request: BatchRequest, ending: str) -> bytes:
    head = f'{{"custom_id":"{request.custom_id}{ending}","params":'
    return head.encode("ascii") + request.body + b"}"


def _count(batch: _MessageBatch) -> int:
    counts = batch.request_counts
    return counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired


def _read_status(batch: _MessageBatch) -> BatchStatus:
    counts = batch.request_counts
    return BatchStatus(
        batch_id=batch.id,
        state=batch.processing_status,
        is_ended=batch.processing_status == "ended",
        answered=counts.succeeded,
        failed=counts.errored + counts.canceled + counts.expired,
    )

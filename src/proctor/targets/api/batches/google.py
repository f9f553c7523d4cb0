"""Google's batches: requests and replies are inside of the batch, which is polled as an operation.

Source of the format: https://ai.google.dev/api/batch-api. The display name of a batch is the key by which it
is found again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from msgspec import Meta, Raw, Struct
from yarl import URL

from proctor.batch_protocol import BatchMatch, BatchReply, BatchRequest, BatchStatus
from proctor.errors import TargetError
from proctor.targets.api.batches.connection import BatchConnection
from proctor.targets.api.batches.replies import CLOCK_TOLERANCE, make_line_error, make_reply
from proctor.targets.api.http import JsonEndpoint
from proctor.targets.context import TargetContext

_SINGLE = ":generateContent"
_BATCH = ":batchGenerateContent"
_NAME_PATTERN = re.compile(r"batches/[A-Za-z0-9_-]{1,200}", re.ASCII)
_PAGE_SIZE = 50
_HEAD_BYTES = 1_000
"""More than what a batch has besides its requests."""
_END_STATE = re.compile(r"_(SUCCEEDED|FAILED|CANCELLED|EXPIRED)$")
_STATUSES = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 11: 400, 13: 500, 14: 503, 16: 401}
"""The codes of errors, with their statuses outside of batches."""


class _OperationError(Struct):
    code: int = 0
    message: str = ""


class _BatchStats(Struct, rename="camel"):
    """The API sends counts as texts."""

    successful_request_count: int | str = 0
    failed_request_count: int | str = 0


class _InlinedResponse(Struct):
    response: Raw = Raw(b"")
    error: _OperationError | None = None
    metadata: dict[str, Any] | None = None


class _InlinedResponses(Struct, rename="camel"):
    inlined_responses: list[_InlinedResponse] = []


class _BatchOutput(Struct, rename="camel"):
    inlined_responses: _InlinedResponses | None = None


class _BatchMetadata(Struct, rename="camel"):
    state: str = "BATCH_STATE_UNSPECIFIED"
    display_name: str = ""
    create_time: Annotated[datetime, Meta(tz=True)] | None = None
    batch_stats: _BatchStats = msgspec.field(default_factory=_BatchStats)
    output: _BatchOutput | None = None


class _Operation(Struct):
    name: str
    done: bool = False
    metadata: _BatchMetadata = msgspec.field(default_factory=_BatchMetadata)
    error: _OperationError | None = None
    response: _BatchOutput | None = None


class _OperationPage(Struct, rename="camel"):
    operations: list[_Operation] = []
    next_page_token: str = ""


class GoogleBatches:
    """The batches of one Gemini model."""

    max_requests = 50_000
    max_bytes = 20_000_000 - _HEAD_BYTES

    def __init__(self, endpoint: JsonEndpoint, context: TargetContext) -> None:
        """Sends nothing.

        Args:
            endpoint: the endpoint for single requests, whose address and headers are used.
            context: has the HTTP session.
        """
        self._connection = BatchConnection(endpoint, context)
        model_address = str(endpoint.url).removesuffix(_SINGLE)
        self._submit_url = URL(model_address + _BATCH, encoded=True)
        self._base = model_address.rpartition("/models/")[0]

    def measure(self, request: BatchRequest) -> int:
        """Returns the length of its item, with the comma after it."""
        return len(_encode_item(request)) + 1

    async def submit(self, requests: Sequence[BatchRequest], key: str) -> BatchStatus:
        """Submits the requests in one body.

        Raises:
            TargetError: it was not accepted, or it is unknown whether it was.
        """
        items = b",".join(map(_encode_item, requests))
        head = f'{{"batch":{{"displayName":"{key}","inputConfig":{{"requests":{{"requests":['
        body = head.encode("ascii") + items + b"]}}}}"
        return self._read_status(await self._connection.post(self._submit_url, body, _Operation))

    async def find(
        self,
        key: str,
        size: int,  # noqa: ARG002  # the name is enough
        since: datetime,
        other_ids: Collection[str],  # noqa: ARG002
    ) -> BatchMatch:
        """Finds the batch whose display name is a key."""
        oldest, page_token = since - CLOCK_TOLERANCE, ""
        while True:
            url = URL(f"{self._base}/batches?pageSize={_PAGE_SIZE}{page_token}", encoded=True)
            page = await self._connection.get(url, _OperationPage)
            for operation in page.operations:
                if operation.metadata.display_name == key:
                    return BatchMatch(self._read_status(operation))
            times = [operation.metadata.create_time or oldest for operation in page.operations]
            # Newest first, as it seems; where it is otherwise, a page has later batches, too.
            if not page.next_page_token or all(time < oldest for time in times):
                return BatchMatch(None)
            page_token = f"&pageToken={quote(page.next_page_token, safe='')}"

    async def poll(self, batch_id: str) -> BatchStatus:
        """Returns how far the service is."""
        return self._read_status(await self._get(batch_id))

    async def read_replies(
        self,
        batch_id: str,
        key: str,  # noqa: ARG002
        custom_ids: Sequence[str],
    ) -> AsyncIterator[BatchReply]:
        """Yields the replies; those without a key, which some models lose, by their order."""
        operation = await self._get(batch_id)
        output = operation.response or operation.metadata.output
        if output is None or output.inlined_responses is None:
            if operation.metadata.state.endswith("_SUCCEEDED"):
                raise TargetError(f"Batch {batch_id} succeeded but has no answers yet.", transient=True)
            return
        replies = output.inlined_responses.inlined_responses
        keys = [str((reply.metadata or {}).get("key") or "") for reply in replies]
        if not any(keys) and len(keys) == len(custom_ids):
            keys = list(custom_ids)
        for custom_id, reply in zip(keys, replies, strict=True):
            yield self._read_reply(custom_id, reply)

    async def _get(self, batch_id: str) -> _Operation:
        if not _NAME_PATTERN.fullmatch(batch_id):  # it becomes a path
            raise TargetError(f"{batch_id!r} is not the name of a batch.", kind="protocol")
        return await self._connection.get(URL(f"{self._base}/{batch_id}", encoded=True), _Operation)

    def _read_reply(self, custom_id: str, reply: _InlinedResponse) -> BatchReply:
        if reply.error is not None:
            status = _STATUSES.get(reply.error.code, reply.error.code)
            body = msgspec.json.encode({"error": reply.error})
            error = self._connection.read_error(status if 400 <= status < 600 else 500, body)
            return BatchReply(custom_id=custom_id, error=error)
        body = bytes(reply.response)
        if not body:
            return BatchReply(custom_id=custom_id, error=make_line_error("neither an answer nor a reason"))
        return make_reply(custom_id, body, self._connection.max_answer_bytes)

    def _read_status(self, operation: _Operation) -> BatchStatus:
        metadata, stats = operation.metadata, operation.metadata.batch_stats
        return BatchStatus(
            batch_id=operation.name,
            state=metadata.state,
            is_ended=operation.done or bool(_END_STATE.search(metadata.state)),
            answered=_read_count(stats.successful_request_count),
            failed=_read_count(stats.failed_request_count),
            reason="" if operation.error is None else self._connection.redact(operation.error.message),
        )


def _encode_item(request: BatchRequest) -> bytes:
    return b'{"request":' + request.body + f',"metadata":{{"key":"{request.custom_id}"}}}}'.encode("ascii")


def _read_count(value: int | str) -> int:
    """Returns a count, which Google writes as a text; 0 if it is none."""
    return int(value) if re.fullmatch(r"[0-9]{1,12}", str(value)) else 0

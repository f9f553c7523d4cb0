"""OpenAI's batch API: a file of requests is uploaded, and answered by a file of replies and one of errors.

Source of the format: https://platform.openai.com/docs/api-reference/batch. A batch has metadata, by which it
is found again. Lists show the newest batch first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from datetime import datetime
from io import BytesIO
from typing import Any
from urllib.parse import quote

import msgspec
from aiohttp import FormData
from msgspec import Raw, Struct
from yarl import URL

from proctor.batch_protocol import BatchMatch, BatchReply, BatchRequest, BatchStatus
from proctor.errors import TargetError
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

_PATHS = ("/chat/completions", "/responses", "/completions")
"""The ends of the addresses of single requests, each the `endpoint` of a batch after `/v1`."""
_END_STATES = frozenset({"completed", "failed", "expired", "cancelled"})
_METADATA_KEY = "proctor_batch"
_PAGE_SIZE = 100


class _UploadedFile(Struct):
    id: str


class _BatchError(Struct):
    message: str | None = None
    code: str | None = None


class _BatchErrors(Struct):
    data: list[_BatchError] | None = None


class _RequestCounts(Struct):
    completed: int = 0
    failed: int = 0


class _Batch(Struct):
    id: str
    status: str
    created_at: float | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: _BatchErrors | None = None
    request_counts: _RequestCounts | None = None
    metadata: dict[str, Any] | None = None


class _BatchPage(Struct):
    data: list[_Batch]
    has_more: bool = False


class _LineResponse(Struct):
    status_code: int = 200
    request_id: str | None = None
    body: Raw = Raw(b"null")


class _ResultLine(Struct):
    custom_id: str
    response: _LineResponse | None = None
    error: _BatchError | None = None


class OpenAiBatches:
    """The batches of one model at an endpoint with OpenAI's batch API."""

    max_requests = 50_000
    max_bytes = 200_000_000

    def __init__(self, endpoint: JsonEndpoint, context: TargetContext) -> None:
        """Sends nothing.

        Args:
            endpoint: the endpoint for single requests, whose address and headers are used.
            context: has the HTTP session.
        """
        self._connection = BatchConnection(endpoint, context)
        address = str(endpoint.url)
        path = next(path for path in _PATHS if address.endswith(path))
        self._base = address.removesuffix(path)
        self._line_path = f"/v1{path}"

    def measure(self, request: BatchRequest) -> int:
        """Returns the length of its line."""
        return len(self._encode_line(request))

    async def submit(self, requests: Sequence[BatchRequest], key: str) -> BatchStatus:
        """Uploads the requests as a file, and submits it; the upload alone costs nothing.

        Raises:
            TargetError: it was not accepted, or it is unknown whether it was.
        """
        form = FormData()
        form.add_field("purpose", "batch")
        lines = BytesIO(b"".join(map(self._encode_line, requests)))
        form.add_field("file", lines, filename=f"{key}.jsonl", content_type="application/jsonl")
        file = await self._connection.post_form(URL(f"{self._base}/files"), form, _UploadedFile)
        body = {
            "input_file_id": file.id,
            "endpoint": self._line_path,
            "completion_window": "24h",
            "metadata": {_METADATA_KEY: key},
        }
        url = URL(f"{self._base}/batches")
        return self._read_status(await self._connection.post(url, msgspec.json.encode(body), _Batch))

    async def find(
        self,
        key: str,
        size: int,  # noqa: ARG002  # the metadata is enough
        since: datetime,
        other_ids: Collection[str],  # noqa: ARG002
    ) -> BatchMatch:
        """Finds the batch with a key in its metadata."""
        oldest, after = (since - CLOCK_TOLERANCE).timestamp(), ""
        while True:
            url = URL(f"{self._base}/batches?limit={_PAGE_SIZE}{after}", encoded=True)
            page = await self._connection.get(url, _BatchPage)
            for batch in page.data:
                if batch.metadata and batch.metadata.get(_METADATA_KEY) == key:
                    return BatchMatch(self._read_status(batch))
            if not page.has_more or not page.data or (page.data[-1].created_at or oldest) < oldest:
                return BatchMatch(None)
            after = f"&after={quote(page.data[-1].id, safe='')}"

    async def poll(self, batch_id: str) -> BatchStatus:
        """Returns how far the service is."""
        return self._read_status(await self._get(batch_id))

    async def read_replies(
        self,
        batch_id: str,
        key: str,  # noqa: ARG002
        custom_ids: Sequence[str],  # noqa: ARG002
    ) -> AsyncIterator[BatchReply]:
        """Yields the lines of the files of answers and of errors."""
        batch = await self._get(batch_id)
        files = [file for file in (batch.output_file_id, batch.error_file_id) if file]
        if not files and batch.status == "completed":
            raise TargetError(
                f"Batch {batch_id} is completed but has no file of answers yet.", transient=True
            )
        for file in files:
            url = URL(f"{self._base}/files/{quote(file, safe='')}/content", encoded=True)
            async for line in self._connection.read_lines(url):
                try:
                    reply = self._read_line(line)
                except UnreadableLine as error:
                    reply = BatchReply(custom_id=None, error=error)
                yield reply

    async def _get(self, batch_id: str) -> _Batch:
        url = URL(f"{self._base}/batches/{quote(batch_id, safe='')}", encoded=True)
        return await self._connection.get(url, _Batch)

    def _encode_line(self, request: BatchRequest) -> bytes:
        head = f'{{"custom_id":"{request.custom_id}","method":"POST","url":"{self._line_path}","body":'
        return head.encode("ascii") + request.body + b"}\n"

    def _read_line(self, line: bytes) -> BatchReply:
        result = decode_line(line, _ResultLine)
        response = result.response
        if result.error is not None or response is None:
            reason = None if result.error is None else result.error.message or result.error.code
            return BatchReply(
                custom_id=result.custom_id,
                error=make_line_error(self._connection.redact(reason or "no reason given")),
            )
        body = bytes(response.body)
        if not 200 <= response.status_code < 300:
            error = self._connection.read_error(response.status_code, body)
            return BatchReply(custom_id=result.custom_id, error=error, request_id=response.request_id)
        return make_reply(
            result.custom_id, body, self._connection.max_answer_bytes, request_id=response.request_id
        )

    def _read_status(self, batch: _Batch) -> BatchStatus:
        counts = batch.request_counts or _RequestCounts()
        errors = batch.errors.data if batch.errors and batch.errors.data else []
        return BatchStatus(
            batch_id=batch.id,
            state=batch.status,
            is_ended=batch.status in _END_STATES,
            answered=counts.completed,
            failed=counts.failed,
            reason=self._connection.redact(
                " ".join(error.message or error.code or "" for error in errors[:3]).strip()
            ),
        )

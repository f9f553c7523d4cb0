"""Sends the requests of batch APIs, with the key and to the origin of a model's endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from io import BytesIO
from typing import TypeVar

import msgspec
from aiohttp import ClientError, ClientResponse, ClientTimeout, FormData
from yarl import URL

from proctor.errors import AnswerTooLarge, EndpointFault, TargetError
from proctor.targets.api.http import JsonEndpoint, error_for_status, proxy_for
from proctor.targets.context import TargetContext
from proctor.targets.key_redaction import KeyRedactor

T = TypeVar("T")

MAX_RESULT_BYTES = 2**30
"""The maximum size of a list of replies."""
_MAX_ERROR_BYTES = 2**16


class BatchConnection:
    """Sends requests beside a model's endpoint; redirects are not followed, as they would leak the key."""

    def __init__(self, endpoint: JsonEndpoint, context: TargetContext) -> None:
        """Sends nothing.

        Args:
            endpoint: the endpoint of the model, with its headers.
            context: has the session, the time limit of each read, and the proxies.
        """
        self.url = endpoint.url
        """The address of single requests."""
        self.max_answer_bytes = context.max_answer_bytes
        self._headers = {
            name: value for name, value in endpoint.headers.items() if name.lower() != "content-type"
        }
        self._session = context.get_http_session()
        self._proxy = proxy_for(endpoint.url, context.environ)
        # A large file may take long as a whole.
        self._timeout = ClientTimeout(total=None, sock_connect=context.timeout_s, sock_read=context.timeout_s)
        self._secrets = tuple(endpoint.secrets)
        self.redact = KeyRedactor(self._secrets).redact_text
        """Removes the keys from a text, in case the service echoes one."""

    async def get(self, url: URL, record: type[T]) -> T:
        """Returns what a GET request replies with, as a record.

        Raises:
            TargetError: there is no reply, or it has another shape.
        """
        return await self._read_record("GET", url, record)

    async def post(self, url: URL, body: bytes, record: type[T]) -> T:
        """Returns what a POST request with a JSON body replies with, as a record; raises TargetError."""
        return await self._read_record("POST", url, record, body)

    async def post_form(self, url: URL, form: FormData, record: type[T]) -> T:
        """Returns what a POST request with a form replies with, as a record; raises TargetError."""
        return await self._read_record("POST", url, record, form)

    async def read_lines(self, url: URL) -> AsyncIterator[bytes]:
        """Yields the lines of a file that are not empty; raises TargetError, also in the middle of it."""
        try:
            response = await self._request("GET", url, None)
            try:
                parts, size = list[bytes](), 0
                async for piece in response.content.iter_any():
                    size += len(piece)
                    if size > MAX_RESULT_BYTES:
                        raise AnswerTooLarge(MAX_RESULT_BYTES)
                    *lines, rest = piece.split(b"\n")
                    for line in lines:
                        whole = b"".join([*parts, line])
                        parts.clear()
                        if whole.strip():
                            yield whole
                    parts.append(rest)
                if (whole := b"".join(parts)).strip():
                    yield whole
            finally:
                response.close()
        except (TimeoutError, ClientError, OSError) as error:
            raise self._connection_error(url, error) from error

    def read_error(self, status: int, body: bytes) -> TargetError:
        """Returns the error of one request of a batch, by the status and the body of its reply."""
        return error_for_status(self.url, status, body, {}, self._secrets)

    async def _read_record(
        self, method: str, url: URL, record: type[T], body: bytes | FormData | None = None
    ) -> T:
        try:
            response = await self._request(method, url, body)
            try:
                data = bytearray()
                async for piece in response.content.iter_any():
                    data += piece
                    if len(data) > MAX_RESULT_BYTES:
                        raise AnswerTooLarge(MAX_RESULT_BYTES)
            finally:
                response.close()
        except (TimeoutError, ClientError, OSError) as error:
            raise self._connection_error(url, error) from error
        try:
            return msgspec.json.decode(data, type=record)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TargetError(
                f"{_display_url(url)} did not answer with the expected JSON ({error}).",
                kind="protocol",
            ) from error

    async def _request(self, method: str, url: URL, body: bytes | FormData | None) -> ClientResponse:
        """Returns a 2xx response whose body is not read."""
        headers = self._headers
        if isinstance(body, bytes):
            headers = {**headers, "Content-Type": "application/json"}
        response = await self._session.request(
            method,
            url,
            data=BytesIO(body) if isinstance(body, bytes) else body,
            headers=headers,
            proxy=self._proxy,
            timeout=self._timeout,
            allow_redirects=False,
        )
        if 200 <= response.status < 300:
            return response
        try:
            text = await response.content.read(_MAX_ERROR_BYTES)
        finally:
            response.close()
        error = error_for_status(url, response.status, text, response.headers, self._secrets)
        error.args = (self.redact(str(error)),)
        raise error

    def _connection_error(self, url: URL, error: Exception) -> TargetError:
        why = " ".join(str(error).split()) or type(error).__name__
        return TargetError(
            self.redact(f"No answer from {_display_url(url)}: {why}."),
            kind="connection",
            transient=True,
            fault=EndpointFault.SERVER,
            remedy="Check the URL and the server.",
        )


def _display_url(url: URL) -> str:
    return str(url.with_query(None).with_user(None))

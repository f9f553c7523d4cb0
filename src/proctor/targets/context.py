"""What every target is opened with: the environment, a pooled HTTP session and callbacks for progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import TYPE_CHECKING

from proctor.errors import AnswerTooLarge, UsageError
from proctor.model import MAX_ANSWER_BYTES
from proctor.protocols import Quota

if TYPE_CHECKING:
    from aiohttp import ClientSession
    from yarl import URL

    from proctor.targets.byte_limit import ByteLimit
    from proctor.targets.transport.protocol import Transport

MAX_LARGE_ANSWER_BYTES = 32 * 2**20
"""The maximum bytes of large answers in memory at once, over all endpoints; further answers wait."""


def check_size(text: str, limit: int) -> None:
    """Refuses a text that is too large to be an answer.

    Raises:
        AnswerTooLarge: it has more than `limit` bytes in UTF-8.
    """
    if len(text) * 4 > limit:  # no character has more bytes
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > limit:
            raise AnswerTooLarge(limit, size)


class TargetContext:
    """Shared by all targets of one command; HTTP transports are created on first use."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        connections: int = 32,
        timeout_s: float = 120.0,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        notify: Callable[[str], None] = lambda _message: None,
        progress: Callable[[str, int, int], None] = lambda _name, _received, _total: None,
    ) -> None:
        """Opens nothing.

        Args:
            environ: the environment variables, with the keys.
            connections: the maximum number of concurrent requests, over all endpoints.
            timeout_s: the time limit of one call, in seconds; a subprocess is killed after it.
            max_answer_bytes: the maximum size of an answer; a larger one raises `AnswerTooLarge`.
            notify: called with a sentence when something takes long, such as a download.
            progress: called from another thread during a download, with its name, the bytes received and
                the total.
        """
        self.environ = environ
        self.connections = connections
        self.timeout_s = timeout_s
        self.max_answer_bytes = max_answer_bytes
        self.notify = notify
        self.progress = progress
        self.observe: Callable[[list[Quota]], None] | None = None
        """Called with the rate limits in replies."""
        self._sessions: list[ClientSession] = []
        self._transports: list[Transport] = []
        self._byte_limits: list[ByteLimit] = []

    def with_observer(self, observe: Callable[[list[Quota]], None]) -> TargetContext:
        """Returns a copy with the same HTTP session that passes rate limits to `observe`."""
        context = copy(self)
        context.observe = observe
        return context

    @property
    def large_answer_limit(self) -> ByteLimit:
        """The limit shared by all answers over 1 MiB while they are read."""
        if not self._byte_limits:
            from proctor.targets.byte_limit import ByteLimit

            self._byte_limits.append(ByteLimit(MAX_LARGE_ANSWER_BYTES))
        return self._byte_limits[0]

    def get_http_session(self) -> ClientSession:
        """Returns the pooled session of aiohttp, for forms and files; needs a running event loop."""
        if not self._sessions:
            from proctor.targets.transport.aiohttp_transport import open_session

            self._sessions.append(open_session())
        return self._sessions[0]

    def get_transport(self, proxy: URL | None) -> Transport:
        """Returns the transport through a proxy, or without one; needs a running event loop."""
        if proxy is not None:
            from proctor.targets.transport.aiohttp_transport import AiohttpTransport

            return AiohttpTransport(self.get_http_session(), proxy)
        if not self._transports:
            from proctor.targets.transport.http1_transport import Http1Transport

            self._transports.append(Http1Transport())
        return self._transports[0]

    def get_key(self, variable: str, subject: str) -> str:
        """Returns a secret from the environment.

        Raises:
            UsageError: the variable is not set.
        """
        value = self.environ.get(variable, "").strip()
        if not value:
            raise UsageError(
                f"{subject} needs a key, but the environment variable {variable} is not set. "
                f"Set it (export {variable}=…) and run again."
            )
        return value

    async def aclose(self) -> None:
        """Closes all connections."""
        while self._transports:
            await self._transports.pop().aclose()
        while self._sessions:
            await self._sessions.pop().close()

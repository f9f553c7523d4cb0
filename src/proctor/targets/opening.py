"""What every target is opened with: the environment, a pooled HTTP session, and a way to tell progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from proctor.errors import UsageError

if TYPE_CHECKING:
    from aiohttp import ClientSession


class Opening:
    """Shared by all targets of one command; the HTTP session is made when the first target asks for it."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        connections: int = 32,
        timeout_s: float = 120.0,
        notify: Callable[[str], None] = lambda _message: None,
        progress: Callable[[str, int, int], None] = lambda _name, _done, _total: None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            environ: where keys are read from.
            connections: how many requests may be under way at once, over all endpoints.
            timeout_s: what one call may take; a subprocess is killed after it.
            notify: called with a sentence when something takes long, such as a download.
            progress: called during a download with its name, the bytes that are here and the bytes of all;
                from another thread.
        """
        self.environ = environ
        self.connections = connections
        self.timeout_s = timeout_s
        self.notify = notify
        self.progress = progress
        self._session: ClientSession | None = None

    def http(self) -> ClientSession:
        """The one pooled session; call it with an event loop running."""
        if self._session is None:
            from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

            self._session = ClientSession(
                connector=TCPConnector(limit=0, ttl_dns_cache=300),
                cookie_jar=DummyCookieJar(),
                timeout=ClientTimeout(total=None),
                trust_env=False,
                auto_decompress=True,
            )
        return self._session

    def key(self, variable: str, wanted_for: str) -> str:
        """A secret from the environment.

        Raises:
            UsageError: the variable is not set.
        """
        value = self.environ.get(variable, "").strip()
        if not value:
            raise UsageError(
                f"{wanted_for} needs a key and the environment variable {variable} is not set. "
                f"Set it (export {variable}=…) and run again."
            )
        return value

    async def aclose(self) -> None:
        """Close the session, if there is one."""
        if self._session is not None:
            await self._session.close()
            self._session = None

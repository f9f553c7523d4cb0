"""What a server serves: the folder of a project and its store, and the objects that all requests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import HTTPConnection

from proctor.protocols import Store
from proctor.services.runs.config import Config
from proctor.stores import DEFAULT_STORE, locate_store, move_address
from proctor.web.browser_sessions import BrowserSessions

if TYPE_CHECKING:
    from proctor.services.runs.reading.run_summaries import SummaryReader
    from proctor.services.runs.reading.trial_table import TrialFinder

T = TypeVar("T")
_NO_CONFIG = Config()


class Project:
    """The project of one server; safe to use from many threads."""

    def __init__(
        self,
        store: str | Path,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        config: Config = _NO_CONFIG,
        token: str | None = None,
    ) -> None:
        """Opens nothing.

        Args:
            store: the address of the store; created when something is first saved.
            folder: the project's folder; None for the working directory. Names are looked up only there.
            environ: environment variables, with keys; None for those of this process.
            config: the project's `proctor.toml`.
            token: the token for login; None lets in everyone who reaches the server.
        """
        self.folder = (folder or Path.cwd()).absolute()
        self.location = locate_store(move_address(str(store), Path.cwd(), absolute=True))
        self.environ = os.environ if environ is None else environ
        self.config = config
        self.token = token
        self.hosts: frozenset[str] = frozenset()
        """Accepted values of the Host header in lower case; set when the port is known."""
        self.sessions = BrowserSessions()
        self._shared: dict[str, Any] = {}
        self._lock = RLock()

    @property
    def cookie_name(self) -> str:
        """The name of the session cookie, with the port: browsers share cookies between ports of a host."""
        ports = {host.rpartition(":")[2] for host in self.hosts if not host.endswith("]")}
        return f"proctor_{min((port for port in ports if port.isdigit()), default='80')}"

    @property
    def store_flags(self) -> tuple[str, ...]:
        """The flags with which a command in this folder finds the same store; empty if it is the default."""
        address = self.location.address
        if address == str(self.folder / DEFAULT_STORE) and not self.environ.get("PROCTOR_STORE"):
            return ()
        is_inside = Path(address).is_relative_to(self.folder)
        return (f"--store={os.path.relpath(address, self.folder) if is_inside else address}",)

    @property
    def store_name(self) -> str:
        """What pages call the store."""
        return Path(self.location.address).name

    @contextmanager
    def open_store(self) -> Iterator[Store]:
        """Opens the store for as long as the block lasts.

        Raises:
            StoreError: it cannot be used.
        """
        store = self.location.open_store()
        try:
            yield store
        finally:
            store.close()

    def get_shared(self, name: str, make: Callable[[], T]) -> T:
        """Returns the object shared by all requests under a name; the first call creates it."""
        with self._lock:
            if name not in self._shared:
                self._shared[name] = make()
            value: T = self._shared[name]
        return value

    @property
    def trials(self) -> TrialFinder:
        """Finds the trials of runs, with tables in memory."""
        from proctor.services.runs.reading.trial_table import TrialFinder

        return self.get_shared("trials", TrialFinder)

    @property
    def summaries(self) -> SummaryReader:
        """Reads the numbers of runs."""
        from proctor.services.runs.reading.run_summaries import SummaryReader

        return self.get_shared("summaries", lambda: SummaryReader(self.open_store))


def get_project(connection: HTTPConnection) -> Project:
    """Returns the project of a request."""
    project: Project = connection.app.state.project
    return project

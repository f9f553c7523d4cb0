"""The folder of a project with its store, as servers know it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from proctor.protocols import Store
from proctor.services.project_store import locate_named_store
from proctor.services.runs.config import Config
from proctor.stores import DEFAULT_STORE, move_address

if TYPE_CHECKING:
    from proctor.services.runs.reading.run_summaries import SummaryReader
    from proctor.services.runs.reading.trial_table import TrialFinder

T = TypeVar("T")
_NO_CONFIG = Config()


class ProjectFolder:
    """A folder and a store, with the objects that all requests share; safe to use from many threads."""

    def __init__(
        self,
        store: str | Path,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        config: Config = _NO_CONFIG,
    ) -> None:
        """Opens nothing.

        Args:
            store: the address of the store; created when something is first saved.
            folder: the project's folder; None for the working directory. Names are looked up only there.
            environ: environment variables, with keys; None for those of this process.
            config: the project's `proctor.toml`.
        """
        self.folder = (folder or Path.cwd()).absolute()
        address = move_address(str(store), Path.cwd(), absolute=True)
        self.location = locate_named_store(address, self.folder)
        self.location.keep_connections()
        self.environ = os.environ if environ is None else environ
        self.config = config
        self._shared: dict[str, Any] = {}
        self._lock = RLock()

    @property
    def store_flags(self) -> tuple[str, ...]:
        """The flags with which a command in this folder finds the same store; empty if it is the default."""
        address = self.location.address
        if address == str(self.folder / DEFAULT_STORE) and not self.environ.get("PROCTOR_STORE"):
            return ()
        is_inside = self.location.is_in_folder and Path(address).is_relative_to(self.folder)
        return (f"--store={os.path.relpath(address, self.folder) if is_inside else address}",)

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

"""What the server serves: the folder in which it was started, and what it remembers of its client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from proctor.model import Run
from proctor.protocols import Store
from proctor.services.project_folder import ProjectFolder
from proctor.services.project_store import ignore_in_git, open_existing_store
from proctor.services.runs.reading.report import record_holdout_access
from proctor.services.runs.starts.processes import RunProcesses
from proctor.stores import locate_store


class AgentProject(ProjectFolder):
    """The project of one client; safe to use from many threads."""

    @property
    def processes(self) -> RunProcesses:
        """The processes of runs; those started here end with the server."""
        return self.get_shared("run processes", lambda: RunProcesses(self, outlive_server=False))

    @property
    def start_lock(self) -> Lock:
        """Held while it is decided whether a run may start, so that two concurrent calls cannot start two."""
        return self.get_shared("start lock", Lock)

    @property
    def free_groups(self) -> set[str]:
        """The groups of the runs that were started here and cost nothing."""
        return self.get_shared("free groups", set)

    @property
    def _accessed_runs(self) -> set[str]:
        return self.get_shared("accessed runs", set)

    @contextmanager
    def read_store(self) -> Iterator[Store]:
        """Opens the store for reading, without creating it.

        Raises:
            UsageError: there is none.
            StoreError: it cannot be used.
        """
        store = open_existing_store(self.location)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def read_any_store(self) -> Iterator[Store]:
        """Opens the store for reading; without one, an empty one in memory.

        Raises:
            StoreError: it cannot be used.
        """
        exists = self.location.exists() and not self.location.is_empty()
        store = (self.location if exists else locate_store(":memory:")).open_store()
        try:
            yield store
        finally:
            store.close()

    def create_store(self) -> None:
        """Creates the store if there is none.

        Raises:
            StoreError: it cannot be created.
        """
        is_new_folder = not self.location.folder.exists()
        with self.open_store():
            if is_new_folder:
                ignore_in_git(self.location.folder)

    def record_access(self, store: Store, run: Run) -> None:
        """Records an access to the pass rate of a run's holdout, once for each run and client.

        Raises:
            StoreError: the access cannot be recorded; then nothing may be shown.
        """
        with self._lock:
            if run.id not in self._accessed_runs:
                record_holdout_access(store, run, "rate")
                self._accessed_runs.add(run.id)

"""What all four ways to plan runs share: the store, the environment and the listener."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from proctor.protocols import Store
from proctor.services import events
from proctor.services.runs.execution.variable_values import VariableValues
from proctor.services.runs.planning.target_names import TargetNames

if TYPE_CHECKING:
    from proctor.services.file_log import FileLog


class PlanningContext:
    """The store and environment of planning, and the listener for progress and warnings."""

    def __init__(
        self,
        store: Store,
        environ: Mapping[str, str],
        listen: events.Listener,
        prices_date: str | None,
        files: FileLog | None = None,
    ) -> None:
        """Stores its arguments; reads no file and no run.

        Args:
            store: has the saved suites and earlier runs.
            environ: the environment variables that suites and target names may refer to.
            listen: receives progress and warnings.
            prices_date: the newest date among the prices in use; every new run records it.
            files: gets the files that are read; None if nobody watches them.
        """
        self.store = store
        self.environ = environ
        self.listen = listen
        self.prices_date = prices_date
        self.files = files
        self.target_names = TargetNames(environ)
        self.variable_values = VariableValues(store, environ)

    def warn(self, message: str) -> None:
        """Sends a warning to the listener."""
        self.listen(events.WarningMessage(message))

"""What all four ways of planning share: the store, the environment and the listener."""

from __future__ import annotations

from collections.abc import Mapping

from proctor.protocols import Store
from proctor.services import events
from proctor.services.runs.execution.variable_values import VariableValues
from proctor.services.runs.planning.target_names import Names


class PlanningContext:
    """Where suites and runs are found, and who hears about progress and warnings."""

    def __init__(
        self, store: Store, environ: Mapping[str, str], listen: events.Listener, prices_date: str | None
    ) -> None:
        """Reads no file and no run.

        Args:
            store: where suites are kept and earlier runs are found.
            environ: what suites and names of targets may depend on.
            listen: receives progress and warnings.
            prices_date: the newest date of the prices in use; every new run records it.
        """
        self.store = store
        self.environ = environ
        self.listen = listen
        self.prices_date = prices_date
        self.names = Names(environ)
        self.values = VariableValues(store, environ)

    def warn(self, message: str) -> None:
        """Tell the listener about something doubtful, as a sentence."""
        self.listen(events.Warned(message))

"""The lines that pytest prints at its end about the runs of a session. Imports nothing else of Proctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

RUN_PROPERTY = "proctor_run"
"""The property of a report that has the id of a run; those after it are about the same run."""
RESULT_PROPERTY = "proctor_result"
STORE_PROPERTY = "proctor_store"


class SessionRun(NamedTuple):
    """A run that a test of the session made or used."""

    id: str
    result: str
    """Its result, in one line that a terminal can print."""
    store: str = ""
    """The store's address if it is not the project's; ":memory:" if the run is not kept."""
    is_resumable: bool = False
    """Whether it was stopped, and the command line can continue it."""

    @property
    def store_option(self) -> str:
        """The option of a command that reads the run."""
        return f" --store {self.store}" if self.store else ""

    @property
    def properties(self) -> list[tuple[str, str]]:
        """The properties of the test's report, which are in JUnit files too."""
        store = [(STORE_PROPERTY, self.store)] if self.store else []
        return [(RUN_PROPERTY, self.id), (RESULT_PROPERTY, self.result), *store]


SESSION_RUNS = pytest.StashKey[dict[str, SessionRun]]()
"""The runs of this process, by their ids."""


def list_lines(reporter: pytest.TerminalReporter, config: pytest.Config) -> list[str]:
    """Returns a line for each run, and how to see more; nothing if there are none."""
    own_runs = config.stash.setdefault(SESSION_RUNS, {})
    runs = {**own_runs}
    if config.pluginmanager.hasplugin("dsession"):  # the workers of xdist report theirs
        runs |= {run.id: run for run in _read_reports(reporter)}
    if not runs:
        return []
    lines = [f"{run.id}  {run.result}" for run in runs.values()]
    lines += [
        f"Continue with: proctor run --resume={run.id}{run.store_option}"
        for run in runs.values()
        if run.is_resumable
    ]
    options = {run.store_option for run in runs.values() if run.store != ":memory:"}
    lines += [f"To show a run: proctor runs show ID{option}" for option in sorted(options)]
    return lines


def _read_reports(reporter: pytest.TerminalReporter) -> Iterator[SessionRun]:
    for reports in reporter.stats.values():
        for report in reports:
            properties: list[tuple[str, Any]] = getattr(report, "user_properties", [])
            for index, (name, value) in enumerate(properties):
                if name == RUN_PROPERTY:
                    further = dict(properties[index + 1 : index + 3])
                    yield SessionRun(value, further.get(RESULT_PROPERTY, ""), further.get(STORE_PROPERTY, ""))

"""Stored runs to reports: the numbers counted again from the trials, and files written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from proctor.errors import ExitCode, StoreError, UnknownName, UsageError
from proctor.model import Case, Run
from proctor.ports import Store
from proctor.reports import REPORTS
from proctor.reports.rows import Reported, Row
from proctor.verdicts import Tally, exit_code, rules_of, taken_over, verdict_of


def reported(store: Store, run: Run, tally: Tally | None = None) -> Reported:
    """A run as reports see it; its trials are counted again unless a tally of all of them is at hand.

    Raises:
        StoreError: the store cannot be read.
    """
    if tally is None or run.status != "finished":  # what is there from before may not have streamed by
        tally = Tally(rules_of(run), run.suite.repeats_rule, run.settings.repeats)
        for row in rows_of(store, run):
            tally.add(row.trial, row.case, kept=taken_over(row.trial, run))
    code = exit_code(tally.counted, run.settings) if run.status == "finished" else ExitCode.INTERRUPTED
    return Reported(run=run, tally=tally, exit_code=code, rows=lambda: rows_of(store, run))


def rows_of(store: Store, run: Run) -> Iterator[Row]:
    """The finished trials of a run with their cases, in suite order; nothing holds them all."""
    rules = rules_of(run)
    cases = enumerate(stored.case for stored in store.cases(run.suite.content))
    position, case = -1, Case(id="", input=())
    for stored in store.trials(run.id):
        if stored.verdict is None:
            continue
        while position < stored.trial.position:
            found = next(cases, None)
            if found is None:
                raise StoreError(f"The store is damaged: it lacks cases of run {run.id}.")
            position, case = found
        yield Row(trial=stored.trial, verdict=verdict_of(stored.trial, rules(case)), case=case)


def check_endings(paths: Sequence[str]) -> None:
    """Refuse files that no report can be written to, before anything is asked.

    Raises:
        UsageError: the ending of a path is that of no report, its folder is not there, or it is one itself.
    """
    for path in paths:
        ending = Path(path).suffix.lower()
        try:
            REPORTS.get(ending)
        except UnknownName:
            known = " ".join(REPORTS.names())
            message = f"Nothing can be written to {path!r}: the ending says how, one of {known}."
            raise UsageError(message) from None
        if Path(path).is_dir():
            raise UsageError(f"{path!r} is a folder. Name a file, or remove the folder.")
        if not Path(path).absolute().parent.is_dir():
            raise UsageError(f"The folder of {path!r} does not exist. Make it first.")


def write(path: str, runs: Sequence[Reported]) -> None:
    """Write runs to a file in the form that its ending says; an older file is replaced when all is well.

    Raises:
        UsageError: the ending is that of no report, or the file cannot be written.
    """
    check_endings([path])
    part = f"{path}.{os.getpid()}.part"
    try:
        with Path(part).open("w", encoding="utf-8", newline="") as file:
            file.writelines(REPORTS.get(Path(path).suffix.lower())(runs))
        Path(part).replace(path)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}.") from None
    finally:
        Path(part).unlink(missing_ok=True)

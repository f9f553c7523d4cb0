"""Stored runs to reports: the numbers counted again from the trials, looks counted, and files written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from proctor.codec import target_digest
from proctor.errors import ExitCode, StoreError, UnknownName, UsageError
from proctor.model import Calibration, Case, Look, Run
from proctor.protocols import Store
from proctor.reports import REPORTS
from proctor.reports.runs.serialize import Reported, Row, seal
from proctor.services.runs.planning.judge_choice import judges_of
from proctor.verdicts import Tally, exit_code, rules_of, taken_over, verdict_of


def reported(store: Store, run: Run, tally: Tally | None = None, *, reveal: bool = False) -> Reported:
    """A run as reports see it; its numbers are of whole trials, its rows sealed where they are held out.

    Args:
        store: where the run is.
        run: the run.
        tally: of all of its trials, if one is at hand; else they are counted again.
        reveal: seal nothing.

    Raises:
        StoreError: the store cannot be read.
    """
    if tally is None or run.status != "finished":  # what is there from before may not have streamed by
        tally = Tally(rules_of(run), run.suite.repeats_rule, run.settings.repeats)
        for row in rows_of(store, run, reveal=True):
            tally.add(row.trial, row.case, kept=taken_over(row.trial, run))
    return Reported(
        run=run,
        tally=tally,
        exit_code=_exit_code(run, tally),
        rows=lambda: rows_of(store, run, reveal=reveal),
        looks=None if run.suite.split_rule is None else len(store.looks(run.suite.digest)),
        calibrations=calibrations_of(store, run) if tally.judging.prompts else (),
    )


def _exit_code(run: Run, tally: Tally) -> ExitCode:
    if run.status == "finished":
        return exit_code(tally.counted, run.settings)
    return ExitCode.NOT_MEASURED if run.stopped else ExitCode.INTERRUPTED


def calibrations_of(store: Store, run: Run) -> tuple[Calibration, ...]:
    """What is known of the judges of a run: the newest calibration of each, under its name in the run.

    Raises:
        StoreError: the store cannot be read.
    """
    judges = {spec.name: spec for spec in judges_of(run)}
    by_name = ((name, store.calibrations(target_digest(spec))) for name, spec in judges.items())
    return tuple([replace(calibrations[-1], name=name) for name, calibrations in by_name if calibrations])


def looked_at(store: Store, shown: Reported, *, reveal: bool) -> Reported:
    """The run with this look counted; to be called once by each command that shows its pass rates.

    What is revealed besides is another look.

    Args:
        store: where the look is kept, if the run has anything that is held out.
        shown: the run.
        reveal: its answers are shown too.

    Raises:
        StoreError: the look cannot be kept.
    """
    if "holdout" not in shown.tally.splits:
        return shown
    keep_looks(store, shown.run, reveal=reveal)
    return replace(shown, looks=len(store.looks(shown.run.suite.digest)))


def has_holdout(store: Store, run: Run) -> bool:
    """Whether any finished trial of a run is held out."""
    if run.suite.split_rule is None:
        return False
    return any(
        stored_trial.trial.split == "holdout" and stored_trial.verdict is not None
        for stored_trial in store.trials(run.id)
    )


def keep_looks(store: Store, run: Run, *, reveal: bool) -> None:
    """Keep that somebody looks at the pass rate of a run's holdout, and perhaps at what is sealed too."""
    keep_look(store, run, "rate")
    if reveal:
        keep_look(store, run, "reveal")


def keep_look(store: Store, run: Run, kind: Literal["rate", "reveal"]) -> None:
    """Keep that somebody looks at the holdout of a run: at its pass rate, or at what is sealed."""
    store.look(Look(suite=run.suite.digest, run=run.id, kind=kind, at=datetime.now(UTC)))


def rows_of(store: Store, run: Run, *, reveal: bool = False) -> Iterator[Row]:
    """The finished trials of a run with their cases, in suite order; nothing holds them all.

    Verdicts are of whole trials. Rows of held-out cases are sealed, unless `reveal`.
    """
    rules = rules_of(run)
    cases = enumerate(stored_trial.case for stored_trial in store.cases(run.suite.content))
    position, case = -1, Case(id="", input=())
    for stored_trial in store.trials(run.id):
        if stored_trial.verdict is None:
            continue
        while position < stored_trial.trial.position:
            numbered_case = next(cases, None)
            if numbered_case is None:
                raise StoreError(
                    f"The store is damaged: it lacks cases of run {run.id}. Save the file of its suite "
                    f"{run.suite.title} again: `proctor suites save FILE`."
                )
            position, case = numbered_case
        row = Row(trial=stored_trial.trial, verdict=verdict_of(stored_trial.trial, rules(case)), case=case)
        yield row if reveal else seal(row)


def check_endings(paths: Sequence[str]) -> None:
    """Refuse files that no report can be written to, before anything is sent.

    Raises:
        UsageError: the ending of a path is that of no report, its folder is not there, or it is one itself.
    """
    for path in paths:
        ending = Path(path).suffix.lower()
        try:
            REPORTS.get(ending)
        except UnknownName:
            endings = " ".join(REPORTS.names())
            message = f"Nothing can be written to {path!r}: the ending says how, one of {endings}."
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

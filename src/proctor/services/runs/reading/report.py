"""Builds reports of stored runs: counts the trials, records holdout accesses, and writes files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from proctor.codec import target_digest
from proctor.errors import ExitCode, StoreError, UnknownName, UsageError
from proctor.model import Calibration, Case, HoldoutAccess, Run
from proctor.prompts.fill import read_run_cases
from proctor.protocols import Store, StoredBatch, StoredTrial
from proctor.reports import REPORTS
from proctor.reports.runs.serialize import RunReport, TrialResult, seal
from proctor.run_gate import run_exit_code
from proctor.services.runs.planning.judge_choice import all_judges
from proctor.services.runs.reading.totals import encode_totals, load_totals
from proctor.verdicts import PassRuleLookup, Tally, decide_verdict, is_reused, pass_rules_for

if TYPE_CHECKING:
    from proctor.calibration import PeoplePassRate


def build_report(
    store: Store, run: Run, tally: Tally | None = None, *, reveal: bool = False, stored: bool = False
) -> RunReport:
    """Builds the report of a run; its numbers cover all trials, and held-out rows are hidden.

    Args:
        store: has the run.
        run: the run.
        tally: the tally of all of its trials, if there is one.
        reveal: hide nothing.
        stored: take its stored totals, if there are any, which lack the latency of each answer.

    Raises:
        StoreError: the store cannot be read.
    """
    if run.status == "running":
        from proctor.services.runs.reading.current_status import with_current_status

        run = with_current_status(store, run)
    if tally is None or run.status != "finished" or run.early_stop:  # trials from before may be missing in it
        totals = load_totals(store, run) if stored else None
        tally = count_trials(store, run) if totals is None else totals.tally
    return make_report(store, run, tally, reveal=reveal)


def make_report(store: Store, run: Run, tally: Tally, *, reveal: bool = False) -> RunReport:
    """Makes the report of a run from the tally of its trials; see `build_report`."""
    return RunReport(
        run=run,
        tally=tally,
        exit_code=_exit_code(run, tally),
        rows=lambda: read_trial_rows(store, run, reveal=reveal),
        first_failures=lambda: _read_cases(store, run, tally.first_failures, reveal=reveal),
        looks=None if run.suite.split_rule is None else len(store.holdout_accesses(run.suite.digest)),
        calibrations=find_calibrations(store, run) if tally.judge_stats.prompts else (),
        people_rate=_find_people_rate(store, run, tally) if tally.judge_stats.prompts else None,
        batches=_find_batches(store, run, tally),
    )


def _find_batches(store: Store, run: Run, tally: Tally) -> tuple[StoredBatch, ...]:
    """Returns the batches of an unfinished run that a service accepted."""
    if not run.settings.is_batch or tally.all.total >= run.planned:
        return ()
    return tuple([batch for batch in store.batches(run.id) if batch.batch_id is not None])


def _find_people_rate(store: Store, run: Run, tally: Tally) -> PeoplePassRate | None:
    from proctor.services.runs.reading.people_rate import find_people_rate

    return find_people_rate(store, run, tally)


def count_trials(store: Store, run: Run) -> Tally:
    """Returns the tally of a run's stored trials, and stores the totals unless it is in progress."""
    totals = store.totals(run.id)
    tally = Tally.for_run(run)
    for row in read_trial_rows(store, run, reveal=True):
        tally.add(row.trial, row.case, kept=is_reused(row.trial, run))
    if totals.body is None and run.status != "running":
        store.save_totals(run.id, replace(totals, body=encode_totals(tally)))
    return tally


def _exit_code(run: Run, tally: Tally) -> ExitCode:
    if run.status == "finished" and run.settings.selection.shard is not None:
        return ExitCode.OK  # gates and failures count in the merged run
    if run.status == "finished":
        return run_exit_code(tally.result_counts, run.settings)
    return ExitCode.NOT_MEASURED if run.stopped else ExitCode.INTERRUPTED


def find_calibrations(store: Store, run: Run) -> tuple[Calibration, ...]:
    """Returns the newest calibration of each judge of a run, under the judge's name in the run.

    Raises:
        StoreError: the store cannot be read.
    """
    judges = {spec.name: spec for spec in all_judges(run)}
    by_name = ((name, store.calibrations(target_digest(spec))) for name, spec in judges.items())
    return tuple([replace(calibrations[-1], name=name) for name, calibrations in by_name if calibrations])


def record_report_access(store: Store, report: RunReport, *, reveal: bool) -> RunReport:
    """Records a holdout access, and returns the report with the new count.

    Each command that shows pass rates calls it once. Revealing answers counts as a further access.

    Args:
        store: records the access, if the run has a holdout.
        report: the report.
        reveal: held-out answers are shown too.

    Raises:
        StoreError: the access cannot be recorded.
    """
    if "holdout" not in report.tally.splits:
        return report
    record_holdout_accesses(store, report.run, reveal=reveal)
    return replace(report, looks=len(store.holdout_accesses(report.run.suite.digest)))


def has_holdout(store: Store, run: Run) -> bool:
    """Whether any finished trial of a run is held out."""
    if run.suite.split_rule is None:
        return False
    return any(
        stored_trial.trial.split == "holdout" and stored_trial.verdict is not None
        for stored_trial in store.trials(run.id)
    )


def record_holdout_accesses(store: Store, run: Run, *, reveal: bool) -> None:
    """Records an access to the pass rate of a run's holdout, and with `reveal` one to hidden cases too."""
    record_holdout_access(store, run, "rate")
    if reveal:
        record_holdout_access(store, run, "reveal")


def record_holdout_access(store: Store, run: Run, kind: Literal["rate", "reveal"]) -> None:
    """Records an access to the holdout of a run: to its pass rate, or to hidden cases."""
    store.add_holdout_access(
        HoldoutAccess(suite=run.suite.digest, run=run.id, kind=kind, at=datetime.now(UTC))
    )


def record_daily_access(
    store: Store, run: Run, kind: Literal["rate", "reveal"], *, person: str, at: datetime
) -> None:
    """Records an access of a person, unless the same is recorded for the suite on the same day in UTC.

    Args:
        store: records the access.
        run: the run that was shown.
        kind: what was shown of its holdout.
        person: who saw it.
        at: the moment, in UTC.

    Raises:
        StoreError: the access cannot be recorded.
    """
    accesses = store.holdout_accesses(run.suite.digest)
    if not any((seen.person, seen.kind, seen.at.date()) == (person, kind, at.date()) for seen in accesses):
        store.add_holdout_access(
            HoldoutAccess(suite=run.suite.digest, run=run.id, kind=kind, at=at, person=person)
        )


def _read_cases(store: Store, run: Run, positions: Sequence[int], *, reveal: bool) -> Iterator[TrialResult]:
    """Yields the finished trials of some cases of a run; see `read_trial_rows`."""
    for position in positions:
        case_in_run = store.case_in_run(run, position)
        if case_in_run is None:
            raise _missing_cases_error(run)
        for stored_trial in case_in_run.trials:
            if stored_trial.verdict is not None:
                yield _make_row(stored_trial, case_in_run.case.case, pass_rules_for(run), reveal=reveal)


def _missing_cases_error(run: Run) -> StoreError:
    return StoreError(
        f"The store is damaged: it lacks cases of run {run.id}. Save the file of its suite {run.suite.title} "
        "again: `proctor suites save FILE`."
    )


def _make_row(stored_trial: StoredTrial, case: Case, rules: PassRuleLookup, *, reveal: bool) -> TrialResult:
    verdict = decide_verdict(stored_trial.trial, rules(case))
    row = TrialResult(trial=stored_trial.trial, verdict=verdict, case=case)
    return row if reveal else seal(row)


def read_trial_rows(store: Store, run: Run, *, reveal: bool = False) -> Iterator[TrialResult]:
    """Yields the finished trials of a run with their cases, in suite order.

    Verdicts are computed from the trials. Rows of held-out cases are hidden, unless `reveal`.
    """
    rules = pass_rules_for(run)
    cases = enumerate(stored_case.case for stored_case in read_run_cases(store, run))
    position, case = -1, Case(id="", input=())
    for stored_trial in store.trials(run.id):
        if stored_trial.verdict is None:
            continue
        while position < stored_trial.trial.position:
            numbered_case = next(cases, None)
            if numbered_case is None:
                raise _missing_cases_error(run)
            position, case = numbered_case
        yield _make_row(stored_trial, case, rules, reveal=reveal)


def check_report_paths(paths: Sequence[str]) -> None:
    """Checks that reports can be written to these paths, before anything is sent.

    Raises:
        UsageError: the ending of a path is no report format, its folder does not exist, or it is a folder.
    """
    for path in paths:
        ending = Path(path).suffix.lower()
        try:
            REPORTS.get(ending)
        except UnknownName:
            endings = " ".join(REPORTS.names())
            message = f"{path!r} has no known ending. The ending sets the format: one of {endings}."
            raise UsageError(message) from None
        if Path(path).is_dir():
            raise UsageError(f"{path!r} is a folder. Name a file, or remove the folder.")
        if not Path(path).absolute().parent.is_dir():
            raise UsageError(f"The folder of {path!r} does not exist. Create it first.")


def write_report(path: str, runs: Sequence[RunReport]) -> None:
    """Writes runs to a file in the format of its ending; an existing file is replaced only on success.

    Raises:
        UsageError: the ending is no report format, or the file cannot be written.
    """
    check_report_paths([path])
    part = f"{path}.{os.getpid()}.part"
    try:
        with Path(part).open("wb") as file:
            file.writelines(
                chunk.encode("utf-8") if isinstance(chunk, str) else chunk
                for chunk in REPORTS.get(Path(path).suffix.lower())(runs)
            )
        Path(part).replace(path)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}.") from None
    finally:
        Path(part).unlink(missing_ok=True)

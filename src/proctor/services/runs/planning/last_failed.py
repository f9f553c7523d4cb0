"""Finds the cases without PASS in the last runs of one suite, target and prompt."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from proctor.model import Run, Selection, Verdict
from proctor.protocols import Store
from proctor.reports.runs.serialize import group_results
from proctor.services.runs.reading.report import read_trial_rows


class LastFailedCases(Struct, frozen=True):
    """The cases of one suite and target whose last result was not PASS."""

    run: str
    """The newest run with a result."""
    case_ids: tuple[str, ...]


def find_last_failed(
    store: Store, suite: str, target: str, prompt: str | None, latest: Run | None
) -> LastFailedCases | None:
    """Returns the cases that last failed, ended as errors or were unscored; None without an earlier run.

    The newest run decides. If it lacks a case, because it ran a selection or was interrupted, the case keeps
    its result from the run before, back to the newest run of the whole suite.

    Args:
        store: has the runs. Imported ones are ignored.
        suite: the name of the suite; its version does not matter.
        target: the name of the target.
        prompt: the name of the prompt; its text does not matter.
        latest: later runs are ignored; None for none.
    """
    has_passed: dict[str, bool] = {}
    newest = None
    for run in _list_runs(store, latest):
        names = run.suite.name, run.target.name, run.prompt_name
        if names != (suite, target, prompt) or run.imported is not None:
            continue
        results = _read_results(store, run)
        if results and newest is None:
            newest = run.id
        has_passed = results | has_passed
        if run.status == "finished" and run.early_stop is None and run.settings.selection == Selection():
            break
    if newest is None:
        return None
    return LastFailedCases(newest, tuple(case_id for case_id, passed in has_passed.items() if not passed))


def _list_runs(store: Store, latest: Run | None) -> Iterator[Run]:
    """Yields the stored runs up to the latest one, newest first."""
    is_earlier = latest is None
    for run in store.runs():
        is_earlier = is_earlier or (latest is not None and run.id == latest.id)
        if is_earlier:
            yield run


def _read_results(store: Store, run: Run) -> dict[str, bool]:
    """Returns whether each case of a run passed that has a result."""
    has_passed: dict[str, bool] = {}
    for result in group_results(run, read_trial_rows(store, run)):
        case_id = result.rows[0].trial.case_id
        has_passed[case_id] = has_passed.get(case_id, True) and result.verdict is Verdict.PASS
    return has_passed

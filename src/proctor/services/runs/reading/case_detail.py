"""One case of a run, with all of its repeats and its history in other runs of the suite."""

from __future__ import annotations

from msgspec import Struct

from proctor.errors import NothingSelected
from proctor.model import Case, PassRule, Run, Verdict
from proctor.plan import count_repeats
from proctor.protocols import CaseInRun, SameCaseRun, Store
from proctor.reports.runs.serialize import TrialResult, seal
from proctor.safe_text import one_line
from proctor.services.runs.reading.current_status import with_current_status
from proctor.verdicts import CaseRepeats, decide_verdict, pass_rules_for

_MAX_POSITION = 2**62
"""SQLite has no larger integers."""
_MAX_HISTORY = 8
"""The maximum number of other runs that are listed."""


class CaseDetail(Struct, frozen=True, kw_only=True):
    """A case of a run: its prompt, every answer to it, and the scores of each."""

    run: Run
    position: int
    case: Case
    """Hidden where its trials are."""
    rows: tuple[TrialResult, ...]
    """Its finished trials, in order of repeat; at least one."""
    rule: PassRule
    """The rule by which its scores pass."""
    planned: int
    """The number of repeats in the run."""
    together: Verdict | None = None
    """The verdict of all repeats under a rule over repeats; None without one, or before all are finished."""
    history: tuple[SameCaseRun, ...] = ()
    """Other runs of the suite that sent the same, newest first."""

    @property
    def is_sealed(self) -> bool:
        """Whether it is held out and hidden: its prompt and answers are left out."""
        return self.rows[0].sealed

    @property
    def is_held_out(self) -> bool:
        """Whether it is held out, revealed or not."""
        return self.rows[0].trial.split == "holdout"

    def get_row(self, repeat: int) -> TrialResult:
        """Returns the trial of a repeat.

        Raises:
            NothingSelected: the repeat is not finished.
        """
        for row in self.rows:
            if row.trial.repeat == repeat:
                return row
        raise NothingSelected(
            f"Case {_quote_id(self.rows[0].trial.case_id)} has no finished repeat {repeat} in run "
            f"{self.run.id}. The run has {self.planned:,} repeats per case, counted from 0."
        )


def load_case_detail(
    store: Store, run: Run, position: int, *, reveal: bool, history: int = _MAX_HISTORY
) -> CaseDetail:
    """Reads the case at one position of a run's suite, without reading the others.

    Args:
        store: the store that the run is in.
        run: the run.
        position: the position of the case in the suite, from 0.
        reveal: hide nothing.
        history: the maximum number of other runs to list.

    Raises:
        NothingSelected: there is no such position, or no finished trial of it; says which.
        StoreError: the store cannot be read.
    """
    place = store.case_in_run(run, position) if 0 <= position < _MAX_POSITION else None
    if place is None:
        raise NothingSelected(
            f"Run {run.id} has no case at position {position:,}. Its suite {one_line(run.suite.title)} "
            f"has {run.suite.case_count:,} cases, counted from 0."
        )
    rule = pass_rules_for(run)(place.case.case)
    rows = _make_rows(place, rule, reveal=reveal)
    if not rows:
        raise NothingSelected(_explain_missing(with_current_status(store, run), place))
    trial_count = count_repeats(place.case.case, run.settings.repeats)
    return CaseDetail(
        run=run,
        position=position,
        case=rows[0].case,
        rows=rows,
        rule=rule,
        planned=trial_count,
        together=_combine_repeats(run, rule, rows, trial_count),
        history=tuple(store.find_same_case(run, place.case.sent_digest, history)) if history else (),
    )


def _make_rows(place: CaseInRun, rule: PassRule, *, reveal: bool) -> tuple[TrialResult, ...]:
    rows = (
        TrialResult(
            trial=stored_trial.trial, verdict=decide_verdict(stored_trial.trial, rule), case=place.case.case
        )
        for stored_trial in place.trials
        if stored_trial.verdict is not None
    )
    return tuple(row if reveal else seal(row) for row in rows)


def _combine_repeats(
    run: Run, rule: PassRule, rows: tuple[TrialResult, ...], trial_count: int
) -> Verdict | None:
    if run.suite.repeats_rule == "each" or len(rows) < trial_count:
        return None
    repeats = CaseRepeats(rule)
    for row in rows:
        repeats.add(row.trial, row.verdict)
    return repeats.verdict(run.suite.repeats_rule)


def _explain_missing(run: Run, place: CaseInRun) -> str:
    case_name = f"Case {_quote_id(place.case.case.id)}"
    if place.trials:
        return f"{case_name} has an answer in run {run.id} that is not judged yet. Try again later."
    if run.status == "running":
        return f"{case_name} has not been sent yet in run {run.id}, which is in progress. Try again later."
    if run.status == "interrupted":
        return (
            f"{case_name} was not sent in run {run.id}, which was stopped. To resume it: `proctor run "
            f"--resume={run.id}`."
        )
    return f"{case_name} was not selected in run {run.id}."


def _quote_id(case_id: str) -> str:
    return repr(one_line(case_id))


def find_same_case(store: Store, run: Run, position: int, other: Run) -> int:
    """Returns the position of the same case in another run: the one that sends the same, else of the same id.

    Raises:
        NothingSelected: there is none.
        StoreError: the store cannot be read.
    """
    place = store.case_in_run(run, position) if 0 <= position < _MAX_POSITION else None
    other_position = None
    if place is not None:
        other_position = store.find_position(other, place.case.sent_digest, place.case.case.id)
        if other_position is None and run.suite.content != other.suite.content:  # it may have been edited
            heads = store.case_heads(other.suite.content)
            matches = (number for number, head in enumerate(heads) if head.id == place.case.case.id)
            other_position = next(matches, None)
    if other_position is None:
        raise NothingSelected(
            f"Run {other.id} has no case with the same input or id as the case at position "
            f"{position:,} of {run.id}."
        )
    return other_position

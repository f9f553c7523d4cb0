"""The part of a run beside the store and the listener: counts, stores and reports trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from proctor.engines.caching import CallCounts
from proctor.engines.protocol import TrialWriter
from proctor.graders import GRADERS
from proctor.model import Case, Run, Trial, Verdict
from proctor.plan import PlannedTrial
from proctor.plurals import pluralize
from proctor.protocols import Store, StoredBatch, StoredTrial
from proctor.services import events
from proctor.services.runs.execution.trial_variables import (
    list_program_variables,
    mask_variables,
    without_secret_digests,
)
from proctor.services.runs.planning.judge_choice import all_judges
from proctor.verdicts import Tally, decide_verdict, is_reused, pass_rules_for

if TYPE_CHECKING:
    from proctor.services.runs.execution.early_stopping import EarlyStopping
    from proctor.services.runs.execution.target_pool import CallAccount

_ENDPOINT_FAILURES = frozenset({"http", "connection"})
_MAX_HELD = 4_096
"""The maximum number of trials in memory whose errors are not stored yet."""


class RunWriter(TrialWriter):
    """Stores and counts the trials of one run."""

    def __init__(
        self,
        run: Run,
        store: Store,
        environ: Mapping[str, str],
        has_failing_endpoint: Callable[[], bool],
        listen: events.Listener,
        stop: Callable[[str], None],
        early_stopping: EarlyStopping | None = None,
        account: CallAccount | None = None,
    ) -> None:
        """Stores its arguments; writes nothing.

        Args:
            run: the run, which is in the store.
            store: the store for its trials.
            environ: the environment, with the values that are masked.
            has_failing_endpoint: returns whether an endpoint fails every call.
            listen: receives every finished trial.
            stop: stops the run, with the reason.
            early_stopping: counts what is known; None for a run that does not stop by what it shows.
            account: counts the calls of the run.
        """
        self._run = run
        self._store = store
        self._environ = environ
        self._has_failing_endpoint = has_failing_endpoint
        self._listen = listen
        self._stop = stop
        self._early_stopping = early_stopping
        self._account = account
        self._rules = pass_rules_for(run)
        self.tally = Tally.for_run(run)
        self._latest = run.started_at
        """The latest time in the run; no later event may have an earlier time."""
        self._held_back: list[tuple[Trial, Case]] = []
        """Errors while an endpoint fails every call, which may not be the trials' own."""
        self._errors = 0
        self._is_submitting = self._has_batch = False
        """Whether the first batch of this process is being submitted, and whether it was accepted."""
        self._has_judges = bool(all_judges(run))
        self._program_variables = list_program_variables(run)
        """The variables whose values are passed to programs under test."""

    def now(self) -> datetime:
        """Returns the time; while a clock that was set back has not caught up, the run's latest time."""
        self._latest = max(self._latest, datetime.now(UTC))
        return self._latest

    def is_full(self) -> bool:
        """Returns whether the store has as many pending rows as allowed."""
        return self._store.is_full()

    def batches(self) -> list[StoredBatch]:
        """Returns the batches that the run has submitted, oldest first."""
        return self._store.batches(self._run.id)

    def save_batch(self, batch: StoredBatch) -> None:
        """Stores a batch; says once how another process goes on when one is accepted."""
        self._store.save_batch(self._run.id, batch)
        if batch.batch_id is None:
            self._is_submitting = not self._has_batch
        elif self._is_submitting and self._store.is_durable:
            self._is_submitting, self._has_batch = False, True
            self.report(
                "Batches can take up to 24 hours. If this program ends earlier, resume the run with: "
                f"proctor run --resume={self._run.id}"
            )

    def report(self, message: str) -> None:
        """Reports a sentence about something that takes long."""
        self._listen(events.StatusMessage(message))

    def warn(self, message: str) -> None:
        """Reports a warning, as a sentence."""
        self._listen(events.WarningMessage(message))

    def store_answer(self, trial: Trial, planned_trial: PlannedTrial) -> None:
        """Stores an answer that is being graded."""
        self._store.save_output(self._run.id, self._mask(trial, planned_trial.case))

    def store_trial(self, trial: Trial, planned_trial: PlannedTrial) -> Verdict:
        """Counts and stores a finished trial."""
        if planned_trial.assertion_digests:
            trial = without_secret_digests(trial, planned_trial.assertion_digests)
        return self.count(trial, planned_trial.case, is_stored=False)

    def count_trial(self, trial: Trial, planned_trial: PlannedTrial) -> Verdict:
        """Counts a finished trial that its worker has stored."""
        return self.count(trial, planned_trial.case, is_stored=True)

    def add_call_counts(self, counts: CallCounts) -> None:
        """Adds the calls of a worker in another process."""
        if self._account is not None:
            self._account.add(counts)

    def find_stored(self, planned_trial: PlannedTrial) -> StoredTrial | None:
        """Returns what a worker that has ended had stored of a trial; None if workers store nothing."""
        if self._store.shared_address is None:
            return None
        case_in_run = self._store.case_in_run(self._run, planned_trial.position)
        trials = () if case_in_run is None else case_in_run.trials
        return next((stored for stored in trials if stored.trial.repeat == planned_trial.repeat), None)

    def finished_at(self) -> datetime:
        """Returns when the run ended; a finished run keeps its time, unless a later trial was added."""
        return max(self._run.finished_at or self.now(), self._latest)

    def count(self, trial: Trial, case: Case, *, is_stored: bool) -> Verdict:
        """Counts a trial and stores it unless it is stored; possible errors of an endpoint are held back."""
        # The common case: there is an answer, and no judge is called.
        if is_stored or not (self._held_back or trial.output is None or self._has_judges):
            return self._finish(trial, case, is_stored=is_stored)
        if not self._has_failing_endpoint():
            self.release_held()
        elif may_be_endpoint_fault(trial):
            self._held_back.append((trial, case))
            if len(self._held_back) >= min(_MAX_HELD, self._errors_left()):
                self.release_held()
            return decide_verdict(trial, self._rules(case))
        return self._finish(trial, case, is_stored=is_stored)

    def release_held(self) -> None:
        """Stores the errors that were held back."""
        trials, self._held_back = self._held_back, []
        for trial, case in trials:
            self._finish(trial, case, is_stored=False)

    def _finish(self, trial: Trial, case: Case, *, is_stored: bool) -> Verdict:
        tally, run_id = self.tally, self._run.id
        if case.variables or case.workspace is not None:
            trial = self._mask(trial, case)
        if trial.source_run is None:
            self._latest = max(self._latest, trial.started_at)
        elif not is_stored and trial.graded_in is None:
            trial = replace(trial, graded_in=run_id)
        verdict = tally.add(trial, case, kept=is_reused(trial, self._run))
        if not is_stored:
            self._store.save_trial(run_id, trial, verdict)
            if trial.output is None and verdict is Verdict.ERROR and not case.problems:
                self._count_error()
        self._listen(events.TrialFinished(trial, verdict, tally.known_cost_usd, run_id))
        if self._early_stopping is not None:
            self._early_stopping.add(trial, case, verdict)
        return verdict

    def _errors_left(self) -> float:
        """Returns how many more trials may end as errors before the run is stopped."""
        max_failures = self._run.settings.max_failures
        return inf if max_failures is None else max_failures - self._errors

    def _count_error(self) -> None:
        self._errors += 1
        if self._errors_left() <= 0:
            self._stop(
                f"{pluralize(self._errors, 'trial')} ended with ERROR, the limit of --max-failures. To "
                f"see them: `proctor runs show {self._run.id} --failures`"
            )

    def _mask(self, trial: Trial, case: Case) -> Trial:
        return mask_variables(trial, case, self._program_variables, self._environ)


def may_be_endpoint_fault(trial: Trial) -> bool:
    """Returns whether a trial lacks an answer or a judge's reply for a reason that may be its endpoint's."""
    if trial.failure is not None:
        return trial.failure.stage == "target" and trial.failure.kind in _ENDPOINT_FAILURES
    return any(score.outcome is Verdict.UNSCORED and _may_call(score.grader) for score in trial.scores)


def _may_call(grader: str) -> bool:
    kind = GRADERS.get(grader)
    return bool(kind.needs or kind.is_async or kind.grades_repeats)

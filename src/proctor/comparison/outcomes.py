"""Collects the outcomes of a run's trials, without prompts and answers, for comparisons."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.clusters import make_cluster_lookup
from proctor.codec import judged_digest
from proctor.comparison.outcome_table import CaseOutcomes, LazySequence, OutcomeTable, TrialOutcome
from proctor.latency import measured_output
from proctor.model import Case, Run, Trial, Verdict
from proctor.plan import count_repeats
from proctor.verdicts import (
    NO_TRIALS,
    CaseRepeats,
    Counts,
    JudgeStats,
    pass_rules_for,
    set_intervals,
    trial_score,
)

SplitName = Literal["dev", "holdout", "all"]


class RunOutcomes(Struct, frozen=True, kw_only=True):
    """A run with the outcomes of its cases."""

    run: Run
    cases: Sequence[CaseOutcomes]
    trials: int
    """The number of finished trials, also those that do not count."""
    prompts: Mapping[str, set[str]] = {}
    """The digests of the judge prompts, by the names of the judges."""
    cluster_field: str | None = None
    """The field that the clusters are named by; None if the cases are independent."""

    @property
    def missing(self) -> int:
        """The number of planned trials that have not finished."""
        return max(0, self.run.planned - self.trials)

    @property
    def is_finished(self) -> bool:
        """Whether the run and all of its trials have finished."""
        return self.run.status == "finished" and not self.missing

    @property
    def has_digests(self) -> bool:
        """Whether cases have their digests."""
        if isinstance(self.cases, OutcomeTable):
            return self.cases.has_digests and len(self.cases) > 0
        return any(case.digests is not None for case in self.cases)

    def has_split(self, name: str) -> bool:
        """Returns whether any case is in that split."""
        if isinstance(self.cases, OutcomeTable):
            return self.cases.has_split(name)
        return any(case.split == name for case in self.cases)

    def restrict_to(self, split: SplitName) -> RunOutcomes:
        """Returns the run with only the cases of a split, and cases without a split."""
        if split == "all":
            return self
        cases = self.cases
        places = array("Q", [place for place, case in enumerate(cases) if case.split in (split, None)])
        return replace(self, cases=LazySequence(len(places), lambda number: cases[places[number]]))

    def case_names(self) -> Iterator[tuple[str, str]]:
        """Yields the id and the key of each case."""
        if isinstance(self.cases, OutcomeTable):
            return self.cases.names()
        return ((case.id, case.key) for case in self.cases)

    def count_verdicts(self) -> Counts:
        """Counts its trials by verdict, or its cases if each case counts once."""
        counts = Counts()
        for verdicts, cluster in self._verdicts():
            shape = NO_TRIALS
            for verdict in verdicts:
                shape = counts.add(verdict, shape, cluster)
        set_intervals([counts], self.run)
        return counts

    def _verdicts(self) -> Iterator[tuple[list[Verdict], str | None]]:
        if isinstance(self.cases, OutcomeTable):
            return self.cases.verdicts()
        return (([trial.verdict for trial in case.trials], case.cluster) for case in self.cases)


class OutcomeCollector:
    """Collects the outcomes of a run from its trials in suite order."""

    def __init__(
        self,
        run: Run,
        *,
        by_digest: bool = False,
        with_digests: bool = False,
        cluster: str | None = None,
    ) -> None:
        """Starts without trials.

        Args:
            run: the run.
            by_digest: whether cases are found in other runs by their digests instead of their ids.
            with_digests: whether the digests of cases are kept, to find edited cases of another suite.
            cluster: the field that says which cases are related; None for that of the run.
        """
        self._cluster_field = run.settings.cluster if cluster is None else cluster
        self._cluster_for = make_cluster_lookup(self._cluster_field)
        self._run = run
        self._rules = pass_rules_for(run)
        self._has_digests = by_digest or with_digests
        self._cases = OutcomeTable(by_digest=by_digest, with_digests=with_digests)
        self._open_trials: list[tuple[Trial, Verdict]] = []
        self._case: Case | None = None
        self._trials = 0
        self._judging = JudgeStats()

    def add(self, trial: Trial, verdict: Verdict, case: Case) -> None:
        """Adds the next trial with its verdict and its case."""
        if self._open_trials and self._open_trials[0][0].position != trial.position:
            self._close_case()
        self._open_trials.append((trial, verdict))
        self._case = case
        self._trials += 1
        self._judging.add(trial, verdict)

    def finish(self) -> RunOutcomes:
        """Returns the outcomes after the last trial was added."""
        if self._open_trials:
            self._close_case()
        return RunOutcomes(
            run=self._run,
            cases=self._cases,
            trials=self._trials,
            prompts=self._judging.prompts,
            cluster_field=None if self._cluster_for is None else self._cluster_field,
        )

    def _close_case(self) -> None:
        case, trials = self._case, self._open_trials
        assert case is not None
        self._open_trials = []
        timed = self._run.settings.interleave
        facts = tuple(_outcome(trial, verdict, timed=timed) for trial, verdict in trials)
        if self._run.suite.repeats_rule != "each":
            if len(trials) < count_repeats(case, self._run.settings.repeats):
                return  # it has no verdict before all of its trials are in
            facts = (self._combine(case, trials, facts),)
        first = trials[0][0]
        self._cases.append(
            CaseOutcomes(
                id=case.id,
                key=case.id,
                category=case.category,
                tags=tuple(dict.fromkeys(case.tags)),
                split=first.split,
                trials=facts,
                position=first.position,
                cluster=None if self._cluster_for is None else self._cluster_for(case),
                digests=(first.sent, judged_digest(case)) if self._has_digests else None,
            )
        )

    def _combine(
        self, case: Case, trials: Sequence[tuple[Trial, Verdict]], facts: Sequence[TrialOutcome]
    ) -> TrialOutcome:
        """Returns the outcome of a case by all of its trials."""
        repeats = CaseRepeats(self._rules(case))
        for trial, verdict in trials:
            repeats.add(trial, verdict)
        costs = [fact.cost_usd for fact in facts]
        calls = [fact.call_s for fact in facts if fact.call_s is not None]
        return TrialOutcome(
            repeat=0,
            verdict=repeats.verdict(self._run.suite.repeats_rule),
            score=_mean(fact.score for fact in facts),
            latency_ms=_mean(fact.latency_ms for fact in facts),
            cost_usd=None if None in costs else _mean(costs),
            call_s=(min(start for start, _ in calls), max(end for _, end in calls)) if calls else None,
            first_token_ms=_mean(fact.first_token_ms for fact in facts),
            tokens_per_second=_mean(fact.tokens_per_second for fact in facts),
        )


def _outcome(trial: Trial, verdict: Verdict, *, timed: bool) -> TrialOutcome:
    output, measured = trial.output, measured_output(trial)
    call_s = None
    if timed and measured is not None:
        start = trial.started_at.timestamp() + measured.queue_ms / 1000
        call_s = start, start + measured.latency_ms / 1000
    return TrialOutcome(
        repeat=trial.repeat,
        verdict=verdict,
        score=trial_score(trial),
        latency_ms=None if measured is None else measured.latency_ms,
        cost_usd=None if output is None else output.cost_usd,
        call_s=call_s,
        first_token_ms=None if measured is None else measured.first_token_ms,
        tokens_per_second=None if measured is None else measured.tokens_per_second,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None

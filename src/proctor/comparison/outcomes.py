"""The outcomes of a run's trials, without prompts and answers, for comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.clusters import make_cluster_lookup
from proctor.codec import judged_digest
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


class TrialOutcome(Struct, frozen=True, gc=False):
    """The outcome of one trial, or of all trials of a case if each case counts once."""

    repeat: int
    verdict: Verdict
    score: float | None = None
    """The weighted mean of its scores, from 0 to 1; None if there are none."""
    latency_ms: float | None = None
    """None if it was not measured in its run."""
    cost_usd: float | None = None
    """None if the price is unknown."""
    call_s: tuple[float, float] | None = None
    """When the call began and ended, in seconds since 1970; None unless the run was interleaved."""
    first_token_ms: float | None = None
    """None if the answer was not streamed, or not in its run."""
    tokens_per_second: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it passed or failed, and is neither ERROR nor UNSCORED."""
        return self.verdict is Verdict.PASS or self.verdict is Verdict.FAIL


class CaseOutcomes(Struct, frozen=True, gc=False):
    """A case of a run with the outcomes of its trials."""

    id: str
    key: str
    """The key by which the case is found in another run: its id, or its digests."""
    category: str | None
    tags: tuple[str, ...]
    split: str | None
    trials: tuple[TrialOutcome, ...]
    position: int = 0
    """Its position in the suite of its run, from 0."""
    cluster: str | None = None
    """The cluster of related cases that it is in; None if the cases are independent."""
    digests: tuple[str, str] | None = None
    """What is sent and how it is judged; None unless the run is compared with one of another suite."""


class RunOutcomes(Struct, frozen=True, kw_only=True):
    """A run with the outcomes of its cases."""

    run: Run
    cases: tuple[CaseOutcomes, ...]
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

    def restrict_to(self, split: SplitName) -> RunOutcomes:
        """Returns the run with only the cases of a split, and cases without a split."""
        if split == "all":
            return self
        cases = tuple(case for case in self.cases if case.split in (split, None))
        return replace(self, cases=cases)

    def count_verdicts(self) -> Counts:
        """Counts its trials by verdict, or its cases if each case counts once."""
        counts = Counts()
        for case in self.cases:
            shape = NO_TRIALS
            for fact in case.trials:
                shape = counts.add(fact.verdict, shape, case.cluster)
        set_intervals([counts], self.run)
        return counts


class OutcomeCollector:
    """Collects the outcomes of a run from its trials in suite order."""

    def __init__(
        self,
        run: Run,
        *,
        by_digest: bool = False,
        with_digests: bool = False,
        names: dict[str, str] | None = None,
        cluster: str | None = None,
    ) -> None:
        """Starts without trials.

        Args:
            run: the run.
            by_digest: whether cases are found in other runs by their digests instead of their ids.
            with_digests: whether the digests of cases are kept, to find edited cases of another suite.
            names: interned texts, which collectors of several runs may share to save memory.
            cluster: the field that says which cases are related; None for that of the run.
        """
        self._cluster_field = run.settings.cluster if cluster is None else cluster
        self._cluster_for = make_cluster_lookup(self._cluster_field)
        self._run = run
        self._rules = pass_rules_for(run)
        self._by_digest = by_digest
        self._with_digests = with_digests
        self._names = {} if names is None else names
        self._cases: list[CaseOutcomes] = []
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
            cases=tuple(self._cases),
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
        id_ = self._intern(case.id)
        digests = (trials[0][0].sent, judged_digest(case)) if self._with_digests else None
        self._cases.append(
            CaseOutcomes(
                id=id_,
                key=f"{trials[0][0].sent} {judged_digest(case)}" if self._by_digest else id_,
                category=None if case.category is None else self._intern(case.category),
                tags=tuple(map(self._intern, dict.fromkeys(case.tags))),
                split=None if trials[0][0].split is None else self._intern(trials[0][0].split),
                trials=facts,
                position=trials[0][0].position,
                cluster=None if self._cluster_for is None else self._intern(self._cluster_for(case)),
                digests=digests,
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

    def _intern(self, text: str) -> str:
        return self._names.setdefault(text, text)


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

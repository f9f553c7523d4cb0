"""The outcomes of a run's trials, without prompts and answers, for comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import judged_digest
from proctor.model import Case, Run, Trial, Verdict
from proctor.plan import repeats_of
from proctor.verdicts import Counts, Judging, Repeats, rules_of, score_of

Split = Literal["dev", "holdout", "all"]


class Fact(Struct, frozen=True, gc=False):
    """The outcome of one trial, or of all trials of a case if each case counts once."""

    repeat: int
    verdict: Verdict
    score: float | None = None
    """The weighted mean of its scores, from 0 to 1; None if there are none."""
    latency_ms: float | None = None
    cost_usd: float | None = None
    """None if the price is unknown."""

    @property
    def is_measured(self) -> bool:
        """Whether it passed or failed, and is neither ERROR nor UNSCORED."""
        return self.verdict is Verdict.PASS or self.verdict is Verdict.FAIL


class CaseFacts(Struct, frozen=True, gc=False):
    """A case of a run with the outcomes of its trials."""

    id: str
    key: str
    """The key by which the case is found in another run: its id, or its digests."""
    category: str | None
    tags: tuple[str, ...]
    split: str | None
    trials: tuple[Fact, ...]
    position: int = 0
    """Its position in the suite of its run, from 0."""


class RunFacts(Struct, frozen=True, kw_only=True):
    """A run with the outcomes of its cases."""

    run: Run
    cases: tuple[CaseFacts, ...]
    trials: int
    """The number of finished trials, also those that do not count."""
    prompts: Mapping[str, set[str]] = {}
    """The digests of the judge prompts, by the names of the judges."""

    @property
    def missing(self) -> int:
        """The number of planned trials that have not finished."""
        return max(0, self.run.planned - self.trials)

    @property
    def is_finished(self) -> bool:
        """Whether the run and all of its trials have finished."""
        return self.run.status == "finished" and not self.missing

    def within(self, split: Split) -> RunFacts:
        """Returns the run with only the cases of a split, and cases without a split."""
        if split == "all":
            return self
        cases = tuple(case for case in self.cases if case.split in (split, None))
        return replace(self, cases=cases)

    def counts(self) -> Counts:
        """Counts its trials by verdict, or its cases if each case counts once."""
        counts = Counts()
        for case in self.cases:
            for place, fact in enumerate(case.trials):
                counts.add(fact.verdict, first=place == 0)
        return counts


class Gatherer:
    """Collects the outcomes of a run from its trials in suite order."""

    def __init__(self, run: Run, *, by_digest: bool = False, names: dict[str, str] | None = None) -> None:
        """Starts without trials.

        Args:
            run: the run.
            by_digest: whether cases are found in other runs by their digests instead of their ids.
            names: interned texts, which collectors of several runs may share to save memory.
        """
        self._run = run
        self._rules = rules_of(run)
        self._by_digest = by_digest
        self._names = {} if names is None else names
        self._cases: list[CaseFacts] = []
        self._open: list[tuple[Trial, Verdict]] = []
        self._case: Case | None = None
        self._trials = 0
        self._judging = Judging()

    def add(self, trial: Trial, verdict: Verdict, case: Case) -> None:
        """Adds the next trial with its verdict and its case."""
        if self._open and self._open[0][0].position != trial.position:
            self._close()
        self._open.append((trial, verdict))
        self._case = case
        self._trials += 1
        self._judging.add(trial, verdict)

    def gathered(self) -> RunFacts:
        """Returns the outcomes after the last trial was added."""
        if self._open:
            self._close()
        return RunFacts(
            run=self._run, cases=tuple(self._cases), trials=self._trials, prompts=self._judging.prompts
        )

    def _close(self) -> None:
        case, trials = self._case, self._open
        assert case is not None
        self._open = []
        facts = tuple(_fact(trial, verdict) for trial, verdict in trials)
        if self._run.suite.repeats_rule != "each":
            if len(trials) < repeats_of(case, self._run.settings.repeats):
                return  # it has no verdict before all of its trials are in
            facts = (self._together(case, trials, facts),)
        id_ = self._name(case.id)
        self._cases.append(
            CaseFacts(
                id=id_,
                key=f"{trials[0][0].sent} {judged_digest(case)}" if self._by_digest else id_,
                category=None if case.category is None else self._name(case.category),
                tags=tuple(map(self._name, dict.fromkeys(case.tags))),
                split=None if trials[0][0].split is None else self._name(trials[0][0].split),
                trials=facts,
                position=trials[0][0].position,
            )
        )

    def _together(self, case: Case, trials: Sequence[tuple[Trial, Verdict]], facts: Sequence[Fact]) -> Fact:
        """Returns the outcome of a case by all of its trials."""
        repeats = Repeats(self._rules(case))
        for trial, verdict in trials:
            repeats.add(trial, verdict)
        costs = [fact.cost_usd for fact in facts]
        return Fact(
            repeat=0,
            verdict=repeats.verdict(self._run.suite.repeats_rule),
            score=_mean(fact.score for fact in facts),
            latency_ms=_mean(fact.latency_ms for fact in facts),
            cost_usd=None if None in costs else _mean(costs),
        )

    def _name(self, text: str) -> str:
        return self._names.setdefault(text, text)


def _fact(trial: Trial, verdict: Verdict) -> Fact:
    output = trial.output
    return Fact(
        repeat=trial.repeat,
        verdict=verdict,
        score=score_of(trial),
        latency_ms=None if output is None else output.latency_ms,
        cost_usd=None if output is None else output.cost_usd,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None

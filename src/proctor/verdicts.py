"""Trials to verdicts, and verdicts to the numbers of a run. Pure.

Verdicts are computed from trials whenever they are wanted; a stored verdict is a cache of this module's word.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

from proctor.errors import ExitCode
from proctor.model import Case, PassRule, Run, Settings, Trial, Verdict
from proctor.stats import quantile, wilson

Rules = Callable[[Case], PassRule]
"""The pass rule by which each case is judged."""


def rules_of(run: Run) -> Rules:
    """The pass rules that count in a run: its threshold, else the case's own, else the suite's."""
    threshold = run.settings.threshold
    if threshold is not None:
        everywhere = PassRule(threshold=threshold)
        return lambda _case: everywhere
    rule = run.suite.pass_rule
    return lambda case: case.pass_rule or rule


def score_of(trial: Trial) -> float | None:
    """The weighted mean of a trial's scores, from 0 to 1; None when none of them counts or could be had."""
    total = weights = 0.0
    for score in trial.scores:
        if score.value is not None and score.weight > 0:
            total += score.value * score.weight
            weights += score.weight
    return total / weights if weights else None


def verdict_of(trial: Trial, rule: PassRule) -> Verdict:
    """What a trial came to.

    In this order: ERROR without an output; FAIL if a required assertion was scored below its gate; UNSCORED
    if an assertion that counts (weight above 0, or required) could not be scored, or none is there; then
    PASS or FAIL by the rule.
    """
    if trial.output is None:
        return Verdict.ERROR
    counting = unscored = failed = False
    for score in trial.scores:
        if score.weight <= 0 and score.required is None:
            continue
        counting = True
        if score.required is not None and score.value is not None and score.value < score.required:
            return Verdict.FAIL
        failed = failed or score.outcome is Verdict.FAIL
        unscored = unscored or score.outcome not in (Verdict.PASS, Verdict.FAIL)
    if not counting or unscored:
        return Verdict.UNSCORED
    if rule.threshold is not None:
        mean = score_of(trial)
        # The sum of weighted thirds must still reach 1.0, so a rounding error is forgiven.
        failed = mean is not None and mean < rule.threshold - 1e-9
    return Verdict.FAIL if failed else Verdict.PASS


class Counts:
    """How many trials came to each verdict, of a run or of a part of it."""

    __slots__ = ("cases", "errors", "failed", "passed", "unscored")

    def __init__(self) -> None:
        """All zero."""
        self.passed = self.failed = self.errors = self.unscored = self.cases = 0

    def add(self, verdict: Verdict, *, first: bool) -> None:
        """Count one trial; `first` for the first repeat of its case."""
        if verdict is Verdict.PASS:
            self.passed += 1
        elif verdict is Verdict.FAIL:
            self.failed += 1
        elif verdict is Verdict.ERROR:
            self.errors += 1
        else:
            self.unscored += 1
        if first:
            self.cases += 1

    @property
    def total(self) -> int:
        """All trials counted."""
        return self.passed + self.failed + self.errors + self.unscored

    @property
    def pass_rate(self) -> float | None:
        """The share of trials that passed: one without a verdict is not a pass. None of none."""
        return self.passed / self.total if self.total else None

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The Wilson interval of the pass rate, over cases: the repeats of a case are not independent."""
        rate = self.pass_rate
        if rate is None:
            return None
        cases = max(1, min(self.cases, self.total))
        return wilson(min(rate * cases, cases), cases)


class Tally:
    """Adds up the numbers of a run, trial by trial, in memory that does not grow with their answers."""

    def __init__(self, rules: Rules) -> None:
        """Nothing counted yet."""
        self._rule_for = rules
        self.all = Counts()
        self.splits: dict[str, Counts] = {}
        self.categories: dict[str, Counts] = {}
        self.tags: dict[str, Counts] = {}
        self.asked = self.graded = self.reused = 0
        self.input_tokens = self.output_tokens = 0
        self.cost_usd = 0.0
        self.cost_unknown = False
        self.refused_params: set[str] = set()
        self.models: set[str] = set()
        self._latencies = array("d")
        self._split_latencies: dict[str, tuple[float, int]] = {}
        self._score_sum = 0.0
        self._score_count = 0

    def add(self, trial: Trial, case: Case, *, kept: bool = False) -> Verdict:
        """Count one finished trial of that case and give its verdict back.

        Args:
            trial: the trial.
            case: its case.
            kept: it was taken over from another run with its scores.
        """
        verdict = verdict_of(trial, self._rule_for(case))
        first = trial.repeat == 0
        self.all.add(verdict, first=first)
        if trial.split is not None:
            _of(self.splits, trial.split).add(verdict, first=first)
        if case.category is not None:
            _of(self.categories, case.category).add(verdict, first=first)
        for tag in case.tags:
            _of(self.tags, tag).add(verdict, first=first)
        score = score_of(trial)
        if score is not None:
            self._score_sum += score
            self._score_count += 1
        if trial.scores and not kept:
            self.graded += 1
        self._count_output(trial)
        return verdict

    def _count_output(self, trial: Trial) -> None:
        if trial.source_run is not None:
            self.reused += 1
        else:
            self.asked += 1
        output = trial.output
        if output is None:
            return
        if trial.source_run is None:
            self._count_cost(output.cost_usd)
            if output.usage is not None:
                self.input_tokens += output.usage.input_tokens
                self.output_tokens += output.usage.output_tokens
            for score in trial.scores:
                for judgment in score.judgments:
                    self._count_cost(judgment.cost_usd)
        self._latencies.append(output.latency_ms)
        if trial.split is not None:
            spent, count = self._split_latencies.get(trial.split, (0.0, 0))
            self._split_latencies[trial.split] = (spent + output.latency_ms, count + 1)
        if output.refused_params:
            self.refused_params.update(output.refused_params)
        if output.model is not None:
            self.models.add(output.model)

    def _count_cost(self, cost_usd: float | None) -> None:
        if cost_usd is None:
            self.cost_unknown = True
        else:
            self.cost_usd += cost_usd

    @property
    def known_cost_usd(self) -> float | None:
        """What the run cost, judges included; None as soon as one price is unknown, and before any answer."""
        return None if self.cost_unknown or not self._latencies else self.cost_usd

    @property
    def mean_score(self) -> float | None:
        """The mean of the trials' scores, over the trials that have one."""
        return self._score_sum / self._score_count if self._score_count else None

    def latency_ms(self) -> dict[str, float | None]:
        """The median, the 95 % point and the mean of the answers' latencies."""
        ordered = sorted(self._latencies)
        mean = sum(ordered) / len(ordered) if ordered else None
        return {"p50": quantile(ordered, 0.5), "p95": quantile(ordered, 0.95), "mean": mean}


def _of(groups: dict[str, Counts], name: str) -> Counts:
    counts = groups.get(name)
    if counts is None:
        counts = groups[name] = Counts()
    return counts


def exit_code(counts: Counts, settings: Settings) -> ExitCode:
    """What a finished run says to its caller: what was not measured outranks what failed."""
    not_measured = counts.errors + counts.unscored
    if not_measured > settings.allow_errors or (counts.total and not_measured == counts.total):
        return ExitCode.NOT_MEASURED
    if settings.min_pass_rate is not None:
        held = (counts.pass_rate or 0.0) >= settings.min_pass_rate - 1e-12
        return ExitCode.OK if held else ExitCode.FAILED
    return ExitCode.FAILED if counts.failed else ExitCode.OK


_RANKS = (
    ExitCode.OK,
    ExitCode.NOTHING_SELECTED,
    ExitCode.FAILED,
    ExitCode.NOT_MEASURED,
    ExitCode.USAGE,
    ExitCode.INTERRUPTED,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The code of several runs together: the one that a caller must not overlook."""
    return max(codes, key=_RANKS.index, default=ExitCode.OK)

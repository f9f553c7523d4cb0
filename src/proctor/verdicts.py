"""Computes verdicts from trials, and the numbers of a run from verdicts. Pure.

Verdicts are computed from trials whenever they are needed; a stored verdict is a cache of the result.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import fsum
from typing import Final, Literal, NamedTuple

from msgspec import Struct, field

from proctor.clusters import ClusterLookup, cluster_key, make_cluster_lookup
from proctor.latency import (
    LatencySummary,
    RunSpeeds,
    SpeedValues,
    measured_output,
    summarize_latencies,
)
from proctor.model import (
    CHOICE_METRICS,
    Case,
    ChoiceMetric,
    Judgment,
    Output,
    PassRule,
    Run,
    Score,
    Settings,
    Trial,
    Verdict,
)
from proctor.plan import count_repeats
from proctor.spools import NumberSpool
from proctor.stats import clustered_exact, clustered_wilson, effective_cases, mean_interval, reaches
from proctor.stats.exact_sum import add_exactly

# Constants, since Python 3.11 takes 0.15 µs to look up `Verdict.PASS`, and every trial needs several.
_PASS: Final = Verdict.PASS
_FAIL: Final = Verdict.FAIL
_ERROR: Final = Verdict.ERROR
_UNSCORED: Final = Verdict.UNSCORED
PassRuleLookup = Callable[[Case], PassRule]
"""Returns the pass rule of a case."""
_NOT_SENT = frozenset({"budget", "not-asked"})
"""Kinds of failure before any request was sent."""
ORDER_SEED = 42
"""The seed of the order in which a run that may stop early sends its cases."""
MULTIPLE_CHOICE = "multiple_choice"
"""The name of the grader whose measures are totals of a run."""
MAX_FIRST_FAILURES = 10
"""A tally remembers this many cases that failed or errored."""
RepeatsRule = Literal["each", "any", "mean", "lower_bound"]
"""The type of `Suite.repeats_rule`."""


def pass_rules_for(run: Run) -> PassRuleLookup:
    """Returns the pass rules of a run: by its threshold, else the case's own rule, else the suite's."""
    threshold = run.settings.threshold
    if threshold is not None:
        everywhere = PassRule(threshold=threshold)
        return lambda _case: everywhere
    rule = run.suite.pass_rule
    return lambda case: case.pass_rule or rule


def threshold_for(run: Run) -> float | None:
    """Returns the threshold of cases without a rule of their own; None if every assertion must pass."""
    threshold = run.settings.threshold
    return run.suite.pass_rule.threshold if threshold is None else threshold


def trial_score(trial: Trial) -> float | None:
    """Returns the weighted mean of a trial's scores, from 0 to 1; None if there is nothing to average."""
    total = weights = 0.0
    for score in trial.scores:
        value, weight = score.value, score.weight
        if value is not None and weight > 0:
            total += value * weight
            weights += weight
    return total / weights if weights else None


def failed_gates(trial: Trial) -> list[str]:
    """Returns the names of the scores below their gates, each of which fails the trial."""
    return [score.name for score in trial.scores if is_below_gate(score)]


def is_below_gate(score: Score) -> bool:
    """Returns whether a score has a gate and is below it."""
    if score.required is None or score.value is None:
        return False
    return not reaches(score.value, score.required)


def decide_verdict(trial: Trial, rule: PassRule) -> Verdict:
    """Returns the verdict of a trial.

    In this order: ERROR without an output; FAIL if a required assertion was scored below its gate; UNSCORED
    if an assertion that counts (weight above 0, or required) could not be scored, or none is there; then
    PASS or FAIL by the rule.
    """
    if trial.output is None:
        return _ERROR
    counting = unscored = failed = False
    for score in trial.scores:
        if score.required is None:
            if score.weight <= 0:
                continue
        elif is_below_gate(score):
            return _FAIL
        counting = True
        outcome = score.outcome
        if outcome is _FAIL:
            failed = True
        elif outcome is not _PASS:
            unscored = True
    if not counting or unscored:
        return _UNSCORED
    if rule.threshold is not None:
        mean = trial_score(trial)
        failed = mean is not None and not reaches(mean, rule.threshold)
    return _FAIL if failed else _PASS


def is_reused(trial: Trial, run: Run) -> bool:
    """Returns whether a trial was copied from another run with its scores.

    Older trials do not record the run that graded them; of these, the ones graded again started later.
    """
    if trial.graded_in is not None:
        return trial.graded_in != run.id and trial.graded_in not in run.merged_from
    return trial.source_run is not None and trial.started_at < run.started_at


class CaseRepeats:
    """The finished trials of one case, and the verdict of the case by all of them."""

    __slots__ = ("_rule", "_scores", "_verdicts")

    def __init__(self, rule: PassRule) -> None:
        """Starts without trials; `rule` is the pass rule of the case."""
        self._rule = rule
        self._verdicts: list[Verdict] = []
        self._scores: list[float] = []

    def __len__(self) -> int:
        """Returns the number of trials."""
        return len(self._verdicts)

    def add(self, trial: Trial, verdict: Verdict) -> None:
        """Adds the next trial of the case, with its verdict."""
        self._verdicts.append(verdict)
        score = trial_score(trial)
        if self._rule.threshold is None or score is None:
            score = float(verdict is Verdict.PASS)
        self._scores.append(0.0 if failed_gates(trial) else score)

    def verdict(self, how: RepeatsRule) -> Verdict:
        """Returns the verdict of the case by its trials so far, of which there must be at least one.

        A single trial decides alone. With `any`, one passed trial is enough. Otherwise ERROR outranks
        UNSCORED, which outranks the rest. With `mean` the mean of the scores must reach the rule's threshold,
        with `lower_bound` the lower end of its 95 % interval; a trial below a gate counts as 0. If every
        assertion must pass, or none has a weight, a trial counts as 1 or 0; in the first case the mean must
        be 1.
        """
        if len(self) == 1:
            return self._verdicts[0]
        outranking: tuple[Verdict, ...] = (Verdict.ERROR, Verdict.UNSCORED)
        if how == "any":
            outranking = (Verdict.PASS, *outranking, Verdict.FAIL)
        for verdict in outranking:
            if verdict in self._verdicts:
                return verdict
        score = fsum(self._scores) / len(self)
        interval = mean_interval(self._scores)
        if how == "lower_bound" and interval is not None:
            score = max(0.0, interval[0])
        threshold = 1.0 if self._rule.threshold is None else self._rule.threshold
        return Verdict.PASS if reaches(score, threshold) else Verdict.FAIL


class CaseShape(NamedTuple):
    """The trials of one case, counted by verdict."""

    passed: int = 0
    measured: int = 0
    """Those that passed or failed."""
    unmeasured: int = 0
    """Those that are ERROR or UNSCORED."""

    @property
    def rate(self) -> float:
        """The share of the measured trials that passed; there must be one."""
        return self.passed / self.measured


NO_TRIALS = "0/0/0"
"""The key of a case without trials."""
_PASSED_TRIAL, _FAILED_TRIAL, _UNMEASURED_TRIAL = "1/1/0", "0/1/0", "0/0/1"
"""The keys of a case with one trial."""
_UNMEASURED_CLUSTER = "\0unmeasured"
"""The name of the cluster of what could not be measured."""


@lru_cache(maxsize=4096)
def parse_shape(key: str) -> CaseShape:
    """Returns the counts that a key of `Counts.shapes` stands for."""
    return CaseShape(*map(int, key.split("/")))


@lru_cache(maxsize=4096)
def add_to_shape(key: str, verdict: Verdict) -> str:
    """Returns the key of `Counts.shapes` for a case with one trial more."""
    passed, measured, unmeasured = parse_shape(key)
    is_measured = verdict is Verdict.PASS or verdict is Verdict.FAIL
    return f"{passed + (verdict is Verdict.PASS)}/{measured + is_measured}/{unmeasured + (not is_measured)}"


@lru_cache(maxsize=4096)
def _cluster_sum(total: float, cases: int) -> tuple[float, int]:
    """Returns the values of a cluster, which many clusters share."""
    return total, cases


class Counts(Struct):
    """The number of trials by verdict, of a run or of a part of it, and the pass rate that follows.

    In the pass rate each case counts once, by the share of its measured trials that passed. ERROR and
    UNSCORED are not measured: `bounds` says what they could change.
    """

    passed: int = 0
    failed: int = 0
    errors: int = 0
    unscored: int = 0
    shapes: dict[str, int] = field(default_factory=dict)
    """The number of cases by their trials; a key is `passed/measured/unmeasured`, such as `2/3/0`."""
    clusters: dict[str, tuple[float, int]] | None = None
    """The clusters of related cases: the sum of the rates of their measured cases, and the number of these.
    In the counts of a tally they have keys (`clusters.cluster_key`), as names may be long. None if each case
    is independent of all others."""
    best_count: float | None = None
    """For a run that may stop by what it shows: the number of cases at which the confidence sequence, which
    `ci95` is, should be narrowest. None for a run of fixed size."""
    stop: tuple[int, tuple[float, float]] | None = None
    """What is known if the run stopped by what it showed: the number of its cases, and `ci95` of as many."""

    @classmethod
    def from_cases(cls, cases: Mapping[tuple[int, int, int, int], int]) -> Counts:
        """Returns the counts of independent cases.

        Args:
            cases: the number of cases by how many of their trials are PASS, FAIL, ERROR and UNSCORED.
        """
        counts = cls()
        for (passed, failed, errors, unscored), count in cases.items():
            counts.passed += passed * count
            counts.failed += failed * count
            counts.errors += errors * count
            counts.unscored += unscored * count
            shape = f"{passed}/{passed + failed}/{errors + unscored}"
            counts.shapes[shape] = counts.shapes.get(shape, 0) + count
        return counts

    def add(self, verdict: Verdict, shape: str = NO_TRIALS, cluster: str | None = None) -> str:
        """Counts one trial.

        Args:
            verdict: its verdict.
            shape: the key of the trials of its case that were counted before.
            cluster: the cluster of its case; None if the cases are independent of one another.

        Returns:
            The key of the trials of its case that are counted now.
        """
        new_shape = _UNMEASURED_TRIAL
        if verdict is _PASS:
            self.passed += 1
            new_shape = _PASSED_TRIAL
        elif verdict is _FAIL:
            self.failed += 1
            new_shape = _FAILED_TRIAL
        elif verdict is _ERROR:
            self.errors += 1
        else:
            self.unscored += 1
        shapes = self.shapes
        if shape != NO_TRIALS:
            new_shape = add_to_shape(shape, verdict)
            shapes[shape] -= 1
            if not shapes[shape]:
                del shapes[shape]
        shapes[new_shape] = shapes.get(new_shape, 0) + 1
        if cluster is not None:
            self._add_to_cluster(cluster, parse_shape(shape), parse_shape(new_shape))
        return new_shape

    def _add_to_cluster(self, cluster: str, before: CaseShape, after: CaseShape) -> None:
        if self.clusters is None:
            self.clusters = {}
        total, cases = self.clusters.get(cluster, (0.0, 0))
        if after.measured:
            total += after.rate
            cases += 1
        if before.measured:
            total -= before.rate
            cases -= 1
        self.clusters[cluster] = _cluster_sum(total, cases)

    def plus(self, other: Counts) -> Counts:
        """Returns the counts of both, which must have no case in common."""
        return Counts(
            passed=self.passed + other.passed,
            failed=self.failed + other.failed,
            errors=self.errors + other.errors,
            unscored=self.unscored + other.unscored,
            shapes=dict(Counter(self.shapes) + Counter(other.shapes)),
            best_count=self.best_count,
        )

    @property
    def total(self) -> int:
        """All trials counted."""
        return self.passed + self.failed + self.errors + self.unscored

    @property
    def unmeasured(self) -> int:
        """The trials that are ERROR or UNSCORED."""
        return self.errors + self.unscored

    def _measured_shapes(self) -> list[tuple[CaseShape, int]]:
        shapes = ((parse_shape(key), cases) for key, cases in self.shapes.items())
        return [(shape, cases) for shape, cases in shapes if shape.measured]

    @property
    def cases(self) -> int:
        """The cases with a measured trial, which `pass_rate` and `ci95` are about."""
        return sum(cases for _, cases in self._measured_shapes())

    @property
    def pass_rate(self) -> float | None:
        """The mean over cases of the share of their measured trials that passed; None if there are none."""
        shapes = self._measured_shapes()
        if not shapes:
            return None
        return fsum(cases * shape.rate for shape, cases in shapes) / sum(cases for _, cases in shapes)

    @property
    def cluster_count(self) -> int | None:
        """The number of clusters with a measured case; None if each case is independent of all others."""
        return None if self.clusters is None else sum(cases > 0 for _, cases in self.clusters.values())

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The pass rate if all unmeasured trials had failed, and if all had passed; None without trials."""
        shapes = [(parse_shape(key), cases) for key, cases in self.shapes.items()]
        count = sum(cases for _, cases in shapes)
        if not count:
            return None
        trials = [(shape.measured + shape.unmeasured, shape, cases) for shape, cases in shapes]
        low = fsum(cases * (shape.passed / total) for total, shape, cases in trials)
        high = fsum(cases * ((shape.passed + shape.unmeasured) / total) for total, shape, cases in trials)
        return low / count, high / count

    def resolved(self, *, passed: bool) -> Counts:
        """Returns the counts if all unmeasured trials had passed, or had failed.

        Of clusters only the measured cases are known. So cases without a measured trial are a cluster of
        their own, and what changes in other cases is spread over all clusters.
        """
        shapes: dict[str, int] = {}
        for key, cases in self.shapes.items():
            shape = parse_shape(key)
            measured = shape.measured + shape.unmeasured
            resolved_key = f"{shape.passed + passed * shape.unmeasured}/{measured}/0"
            shapes[resolved_key] = shapes.get(resolved_key, 0) + cases
        unmeasured, clusters = self.unmeasured, self.clusters
        counts = Counts(
            self.passed + passed * unmeasured, self.failed + (not passed) * unmeasured, 0, 0, shapes
        )
        if clusters is not None and unmeasured:
            rest, measured_cases = counts.cases - self.cases, max(1, self.cases)
            total = (counts.pass_rate or 0.0) * counts.cases - (self.pass_rate or 0.0) * self.cases
            change = (total - passed * rest) / measured_cases  # of the cases that are measured in part
            clusters = {name: (part + change * cases, cases) for name, (part, cases) in clusters.items()}
            clusters[_UNMEASURED_CLUSTER] = (float(passed * rest), rest)
        counts.clusters = clusters
        return counts

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The 95 % interval of `pass_rate`, wherever it is shown.

        `clustered_wilson`, which is Wilson's without repeats and clusters. For a run that may stop by what it
        shows only `sequence_range` holds, and what was known at the stop if it stopped.
        """
        if self.best_count is None:
            return clustered_wilson(*self._groups())
        if self.stop is not None and sum(self.shapes.values()) >= self.stop[0]:
            return self.stop[1]
        return self.sequence_range(self.best_count) if self.cases else None

    @property
    def exact95(self) -> tuple[float, float] | None:
        """The 95 % interval of `pass_rate`, `clustered_exact`: wider, and neither end is wrong too often."""
        return clustered_exact(*self._groups())

    def sequence_range(self, best_count: float) -> tuple[float, float]:
        """Returns the confidence sequence of the pass rate, whatever the unmeasured trials would be.

        They have failed for its low end, and passed for its high end.

        Args:
            best_count: as `confidence_sequence` takes it.
        """
        from proctor.stats import confidence_sequence

        cases = sum(self.shapes.values())
        low, high = (
            confidence_sequence(min(rate * cases, cases), cases, best_count)
            for rate in self.bounds or (0.0, 1.0)
        )
        return low[0], high[1]

    @property
    def effective_cases(self) -> tuple[float, float] | None:
        """The effective number of cases that passed, and of all, on which `ci95` rests."""
        return effective_cases(*self._groups())

    def _groups(self) -> tuple[list[tuple[float, int, int]], float]:
        """Returns the groups of cases, and the sum of 1 / trials over cases, for `clustered_wilson`."""
        shapes = self._measured_shapes()
        if self.clusters is None:
            groups = [(shape.rate, 1, cases) for shape, cases in shapes]
        else:
            groups = [(total, cases, 1) for total, cases in self.clusters.values() if cases]
        return groups, fsum(cases / shape.measured for shape, cases in shapes)


def sequence_best_count(settings: Settings) -> float:
    """Returns the number of cases at which the confidence sequence of a run is narrowest."""
    from proctor.stats.sequences import DEFAULT_BEST_COUNT, best_count_for

    return DEFAULT_BEST_COUNT if settings.until is None else best_count_for(settings.until)


def set_intervals(counts: Iterable[Counts], run: Run) -> None:
    """Makes `ci95` of a run's counts what holds for it, if it may stop by what it shows.

    Args:
        counts: counts of the run, or of parts of it.
        run: the run.
    """
    if not run.settings.is_watched:
        return
    best_count, stop = sequence_best_count(run.settings), run.early_stop
    for each in counts:
        each.best_count = best_count
        if stop is not None and stop.interval is not None:
            each.stop = stop.cases, stop.interval


class UsageTotal(Struct):
    """The number, tokens and cost of calls to a run's target, or to all of its judges."""

    calls: int = 0
    cached: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_parts: list[float] = field(default_factory=list)
    """The sum of the known costs, as `add_exactly` keeps it: calls end in any order."""
    has_unknown_cost: bool = False

    def add(self, call: Output | Judgment) -> None:
        """Counts one call; an answer from the cache adds neither tokens nor cost."""
        if call.cached:
            self.cached += 1
            return
        self.calls += 1
        usage, cost_usd = call.usage, call.cost_usd
        if usage is not None:
            self.input_tokens += usage.input_tokens
            self.output_tokens += usage.output_tokens
            self.cached_tokens += usage.cached_tokens
            self.cache_write_tokens += usage.cache_write_tokens
            self.reasoning_tokens += usage.reasoning_tokens
        if cost_usd is None:
            self.has_unknown_cost = True
        else:
            add_exactly(self.cost_parts, cost_usd)

    @property
    def least_cost_usd(self) -> float:
        """The cost of the calls whose cost is known."""
        return fsum(self.cost_parts)

    @property
    def cost_usd(self) -> float | None:
        """The total cost in US dollars; None if one price is unknown."""
        return None if self.has_unknown_cost else self.least_cost_usd


class JudgeStats(Struct):
    """The judges of a run: their prompts, their agreement, and the trials that they decided alone."""

    prompts: dict[str, set[str]] = field(default_factory=dict)
    """The digests of the prompts, by the judge's name."""
    judged_counts: Counts = field(default_factory=Counts)
    """The trials in which judges decided every assertion that counts."""
    panels: int = 0
    """The number of scores with several readable judgments."""
    unanimous: int = 0
    """The number of these on which all judgments agree."""

    def add(self, trial: Trial, verdict: Verdict, shape: str = NO_TRIALS) -> str:
        """Adds one finished trial with its verdict.

        Args:
            trial: the trial.
            verdict: its verdict.
            shape: the key of the trials of its case that are in `judged_counts`.

        Returns:
            The key of these trials now.
        """
        counting = alone = False
        for score in trial.scores:
            if score.judgments:
                self._add_judgments(score.judgments)
            if score.weight > 0 or score.required is not None:
                alone = bool(score.judgments) and (alone or not counting)
                counting = True
        return self.judged_counts.add(verdict, shape) if alone else shape

    def _add_judgments(self, judgments: tuple[Judgment, ...]) -> None:
        passes = [judgment.passed for judgment in judgments if judgment.passed is not None]
        if len(passes) > 1:
            self.panels += 1
            self.unanimous += len(set(passes)) == 1
        for judgment in judgments:
            self.prompts.setdefault(judgment.judge, set()).add(judgment.prompt_digest)


class ChoiceAccuracy(Struct):
    """The number of answers whose likeliest choice is right, by measure."""

    answers: int = 0
    right: dict[str, int] = field(default_factory=dict)

    def add(self, trial: Trial) -> None:
        """Adds a trial that the grader of multiple choice graded; several such checks of it count once."""
        for score in trial.scores:
            if score.grader == MULTIPLE_CHOICE and score.details:
                self.answers += 1
                for metric in CHOICE_METRICS:
                    self.right[metric] = self.right.get(metric, 0) + (score.details.get(metric) == 1)
                return

    def rate(self, metric: ChoiceMetric) -> float:
        """Returns the share of answers that are right by a measure; there must be one."""
        return self.right.get(metric, 0) / self.answers


class TallyState(Struct, kw_only=True):
    """The numbers of a `Tally`, which has fields of the same names."""

    all: Counts
    cases: Counts | None
    splits: dict[str, Counts]
    categories: dict[str, Counts]
    tags: dict[str, Counts]
    asked_count: int
    graded_count: int
    reused_count: int
    cached_count: int
    answer_count: int
    target_usage: UsageTotal
    judge_usage: UsageTotal
    judge_stats: JudgeStats
    graders: set[str]
    refused_params: set[str]
    models: set[str]
    score_parts: list[float]
    score_count: int
    first_failures: list[int]
    latency_summary: LatencySummary
    run_speeds: RunSpeeds
    choice_accuracy: ChoiceAccuracy = field(default_factory=ChoiceAccuracy)


class _OpenCase:
    """A case of which more trials are to come."""

    __slots__ = ("judged_shape", "repeats", "shape")

    def __init__(self, rule: PassRule) -> None:
        self.shape = self.judged_shape = NO_TRIALS
        self.repeats = CaseRepeats(rule)


class Tally:
    """Adds up the numbers of a run, trial by trial; memory does not grow with the size of answers."""

    run_speeds: RunSpeeds | None = None
    """What `speeds` returns, in a restored tally."""

    def __init__(
        self,
        rules: PassRuleLookup,
        repeats_rule: RepeatsRule = "each",
        repeats: int | None = None,
        cluster_for: ClusterLookup | None = None,
    ) -> None:
        """Starts without trials.

        Args:
            rules: the pass rule of each case.
            repeats_rule: the suite's.
            repeats: how often the run sends each case; None leaves it to the case.
            cluster_for: the cluster of each case; None if the cases are independent of one another.
        """
        self._rule_for = rules
        self._cluster_for = cluster_for
        self._cluster_keys: dict[str, str] = {}
        self._repeats_rule = repeats_rule
        self._repeats = repeats
        self._open_cases: dict[int, _OpenCase] = {}
        self._empty_counts = Counts()
        self.all = Counts()
        self.cases: Counts | None = None if repeats_rule == "each" else Counts()
        """The cases whose trials have all finished; None if each trial counts by itself."""
        self.splits: dict[str, Counts] = {}
        self.categories: dict[str, Counts] = {}
        self.tags: dict[str, Counts] = {}
        self.asked_count = self.graded_count = self.reused_count = self.cached_count = 0
        self.answer_count = 0
        """The number of answers, from whichever run."""
        self.target_usage = UsageTotal()
        """The usage of the target, without judges."""
        self.judge_usage = UsageTotal()
        self.judge_stats = JudgeStats()
        self.choice_accuracy = ChoiceAccuracy()
        self.graders: set[str] = set()
        """The names of the graders that graded any answer."""
        self.refused_params: set[str] = set()
        self.models: set[str] = set()
        self.latencies_ms = NumberSpool()
        """The latencies measured in the run, in the order of counting; empty in a restored tally."""
        self.costs_usd = NumberSpool()
        """The known costs of answers, in the order of counting; empty in a restored tally."""
        self.speed_values = SpeedValues()
        """The speeds measured in the run; empty in a restored tally."""
        self.score_parts: list[float] = []
        """The sum of all scores, as `add_exactly` keeps it."""
        self.score_count = 0
        self.first_failures: list[int] = []
        """The first positions, in suite order, with a result that is not PASS."""
        self.latency_summary: LatencySummary | None = None
        """What `latency_ms` returns, in a restored tally."""

    @classmethod
    def for_run(cls, run: Run) -> Tally:
        """Returns an empty tally for the trials of a run."""
        tally = cls(
            pass_rules_for(run),
            run.suite.repeats_rule,
            run.settings.repeats,
            make_cluster_lookup(run.settings.cluster),
        )
        tally.set_intervals(run)
        return tally

    @classmethod
    def restore(cls, run: Run, state: TallyState) -> Tally:
        """Returns a tally with the numbers of an earlier one; nothing can be added to it."""
        tally = cls.for_run(run)
        for name in state.__struct_fields__:
            setattr(tally, name, getattr(state, name))
        tally.set_intervals(run)
        return tally

    def set_intervals(self, run: Run) -> None:
        """Makes the intervals those that hold for the run, as it is now."""
        set_intervals([self._empty_counts, self.result_counts], run)
        groups = (self.splits, self.categories, self.tags)
        set_intervals((counts for group in groups for counts in group.values()), run)
        self.all.best_count = self.result_counts.best_count

    def state(self) -> TallyState:
        """Returns the numbers, which can be stored; `restore` does the reverse."""
        numbers = {name: getattr(self, name) for name in TallyState.__struct_fields__}
        summaries = {"latency_summary": self.latency_ms(), "run_speeds": self.speeds()}
        return TallyState(**numbers | summaries)

    def add(self, trial: Trial, case: Case, *, kept: bool = False) -> Verdict:
        """Counts one finished trial and returns its verdict.

        Args:
            trial: the trial.
            case: its case.
            kept: whether it was reused from another run with its scores.
        """
        verdict = decide_verdict(trial, self._rule_for(case))
        scores, is_judged = trial.scores, False
        for graded in scores:
            self.graders.add(graded.grader)
            is_judged = is_judged or bool(graded.judgments)
        cluster = None if self._cluster_for is None else self._cluster_key(self._cluster_for(case))
        if count_repeats(case, self._repeats) == 1:
            self.all.add(verdict, cluster=cluster)
            if is_judged:
                self.judge_stats.add(trial, verdict)
            self._count_result(trial, case, verdict, cluster=cluster)
        else:
            self._count_repeat(trial, case, verdict, cluster)
        if (score := trial_score(trial)) is not None:
            add_exactly(self.score_parts, score)
            self.score_count += 1
        if MULTIPLE_CHOICE in self.graders:
            self.choice_accuracy.add(trial)
        if scores and not kept:
            self.graded_count += 1
        self._count_output(trial, kept=kept)
        return verdict

    def _cluster_key(self, name: str) -> str:
        """Returns a short key for a cluster, the same object for all of its cases."""
        key = self._cluster_keys.get(name)
        if key is None:
            key = self._cluster_keys[name] = cluster_key(name)
        return key

    def _count_repeat(self, trial: Trial, case: Case, verdict: Verdict, cluster: str | None) -> None:
        """Counts a trial of a case that has several."""
        open_case = self._open_cases.get(trial.position)
        if open_case is None:
            open_case = self._open_cases[trial.position] = _OpenCase(self._rule_for(case))
        shape = open_case.shape
        open_case.shape = self.all.add(verdict, shape, cluster)
        open_case.judged_shape = self.judge_stats.add(trial, verdict, open_case.judged_shape)
        open_case.repeats.add(trial, verdict)
        is_whole = len(open_case.repeats) >= count_repeats(case, self._repeats)
        if self.cases is None:
            self._count_result(trial, case, verdict, shape, cluster)
        elif is_whole:
            self._count_result(trial, case, open_case.repeats.verdict(self._repeats_rule), cluster=cluster)
        if is_whole:
            del self._open_cases[trial.position]

    def _count_result(
        self, trial: Trial, case: Case, verdict: Verdict, shape: str = NO_TRIALS, cluster: str | None = None
    ) -> None:
        """Counts a trial in its parts, or a case if each case counts once."""
        if verdict is not _PASS:
            self._note_failure(trial.position)
        if self.cases is not None:
            self.cases.add(verdict, cluster=cluster)
        if trial.split is not None:
            self._group_counts(self.splits, trial.split).add(verdict, shape, cluster)
        if case.category is not None:
            self._group_counts(self.categories, case.category).add(verdict, shape, cluster)
        for tag in case.tags:
            self._group_counts(self.tags, tag).add(verdict, shape, cluster)

    def _group_counts(self, groups: dict[str, Counts], name: str) -> Counts:
        counts = groups.get(name)
        if counts is None:
            empty = self._empty_counts
            counts = groups[name] = Counts(best_count=empty.best_count, stop=empty.stop)
        return counts

    def _note_failure(self, position: int) -> None:
        positions = self.first_failures
        is_early = len(positions) < MAX_FIRST_FAILURES or position < positions[-1]
        if is_early and position not in positions:
            insort(positions, position)
            del positions[MAX_FIRST_FAILURES:]

    def _count_output(self, trial: Trial, *, kept: bool) -> None:
        output, failure, is_own = trial.output, trial.failure, trial.source_run is None
        if not is_own:
            self.reused_count += 1
        elif output is not None and output.cached:
            self.cached_count += 1
        elif failure is None or (failure.stage == "target" and failure.kind not in _NOT_SENT):
            self.asked_count += 1
        if output is None:
            return
        if is_own:
            self.target_usage.add(output)
        if not kept:
            for score in trial.scores:
                for judgment in score.judgments:
                    self.judge_usage.add(judgment)
        self._count_latency(trial)
        if output.cost_usd is not None:
            self.costs_usd.append(output.cost_usd)
        if output.refused_params:
            self.refused_params.update(output.refused_params)
        if output.model is not None:
            self.models.add(output.model)

    def _count_latency(self, trial: Trial) -> None:
        self.answer_count += 1
        if (output := measured_output(trial)) is None:
            return
        self.latencies_ms.append(output.latency_ms)
        if output.first_token_ms is not None:
            self.speed_values.add(output)

    @property
    def result_counts(self) -> Counts:
        """The counts for pass rates and exit codes: of cases if each case counts once, else of trials."""
        return self.all if self.cases is None else self.cases

    @property
    def target_cost_usd(self) -> float | None:
        """The cost of the target; None if one price is unknown, and before any answer."""
        return self.target_usage.cost_usd if self.answer_count else None

    @property
    def known_cost_usd(self) -> float | None:
        """The cost of the run with its judges; None if one price is unknown, and before any answer."""
        is_unknown = self.target_usage.has_unknown_cost or self.judge_usage.has_unknown_cost
        return None if is_unknown or not self.answer_count else self.least_cost_usd

    @property
    def least_cost_usd(self) -> float:
        """The cost of the run with its judges, without calls of unknown cost."""
        target_parts, judge_parts = self.target_usage.cost_parts, self.judge_usage.cost_parts
        return fsum(target_parts) + (fsum(judge_parts) if judge_parts else 0.0)

    @property
    def mean_score(self) -> float | None:
        """The mean score of the trials that have one."""
        return fsum(self.score_parts) / self.score_count if self.score_count else None

    def latency_ms(self) -> LatencySummary:
        """Returns the summary of the latencies that were measured in the run."""
        if self.latency_summary is not None:
            return self.latency_summary
        return summarize_latencies(self.latencies_ms, self.answer_count - len(self.latencies_ms))

    def speeds(self) -> RunSpeeds:
        """Returns the summaries of the speeds that were measured in the run."""
        return self.speed_values.summarize() if self.run_speeds is None else self.run_speeds

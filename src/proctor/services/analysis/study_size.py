"""Reads the noise and the costs of a suite from its stored runs, for `proctor plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum

from msgspec import Struct

from proctor.clusters import NO_CLUSTERS, ClusterLookup, check_cluster_field, make_cluster_lookup
from proctor.codec import call_digest, target_digest
from proctor.comparison.outcomes import OutcomeCollector, RunOutcomes
from proctor.comparison.study_size import (
    DEFAULT_REPEATS,
    StudyCosts,
    TallyByCase,
    measure_noise,
    plan_study,
    tally_cases,
)
from proctor.errors import NothingSelected, UsageError
from proctor.model import Case, Run, Suite, Trial
from proctor.protocols import Store
from proctor.reports.study.report import StudyReport
from proctor.services.runs.config import Config
from proctor.services.runs.execution.target_pool import max_concurrency_for
from proctor.services.runs.reading.report import read_trial_rows
from proctor.services.suites.save_and_open import Suites
from proctor.targets import get_kind

_MAX_RUNS = 20
"""The newest runs that are read, at most."""


class StudyRequest(Struct, frozen=True, kw_only=True):
    """Which comparison to plan."""

    suite: str
    difference: float
    """The difference to detect, as a share of 1."""
    power: float
    repeats: tuple[int, ...] = ()
    """The numbers of repeats to plan for. If empty: the default ones if the effect of repeats is known, else
    one."""
    against: str | None = None
    """The run to compare with: an id, a prefix of one, `last`, or a tag. None for the newest of the suite."""
    cluster: str | None = None
    """The field that says which cases are related; None for that of the run, else of the suite."""


class _RunReading(Struct, frozen=True, kw_only=True):
    """A stored run as it is read for a plan, without held-out cases."""

    run: Run
    outcomes: RunOutcomes
    new_outcomes: RunOutcomes
    """Without reused or cached answers, which only repeat another run."""
    costs: tuple[float | None, ...]
    """The costs of new trials with their judges; None if a price is not known."""
    latencies_ms: tuple[float, ...]

    @property
    def has_measured_trials(self) -> bool:
        """Whether any trial passed or failed."""
        return any(trial.is_measured for case in self.outcomes.cases for trial in case.trials)

    def is_graded_like(self, other: Run) -> bool:
        """Whether another run has the same judges and threshold, so that its verdicts are comparable."""
        return _grading_key(self.run) == _grading_key(other)


def _grading_key(run: Run) -> tuple[object, ...]:
    settings = run.settings
    judges = {target_digest(spec) for spec in (*run.judges, *run.named_judges)}
    return judges, settings.judge_repeats, settings.judge_rule, settings.threshold


class StudyQuery:
    """Plans comparisons from the runs of one store."""

    def __init__(self, store: Store | None, environ: Mapping[str, str], config: Config) -> None:
        """Takes the store and how suites are read.

        Args:
            store: has the runs; None if there is none.
            environ: the environment variables that suites may refer to.
            config: the project's settings for reading suites.
        """
        self._store = store
        self._suites = Suites(store, environ, config)
        self._config_cluster: str | None = config.flags.get("cluster")

    def plan(
        self, request: StudyRequest, on_progress: Callable[[int, int], None] = lambda _count, _total: None
    ) -> StudyReport:
        """Plans the comparison of a request. Held-out cases are counted, and their verdicts are not read.

        Args:
            request: the request.
            on_progress: called with the number of runs read, and of all.

        Raises:
            NothingSelected: the suite has no case that can be sent.
            SuiteError: its file is invalid.
            UsageError: there is no such suite or run, or the run is one of another suite; or the suite names
                no field by which cases can be clustered.
            StoreError: the store cannot be read, or has no such run.
        """
        with self._suites.open_suite(request.suite) as opened_suite:
            suite = opened_suite.suite
            against = None if request.against is None else self._find_run(request.against, suite)
            runs = self._find_runs(suite.digest if against is None else against.suite.digest, against)
            cluster = self._find_cluster_field(request, suite, runs)
            own_repeats, clusters = _read_cases(
                (stored_case.case for stored_case in opened_suite.cases()), make_cluster_lookup(cluster)
            )
        if not own_repeats:
            raise NothingSelected(f"{suite.title} has no valid case, so there is nothing to plan.")
        readings: list[_RunReading] = []
        for index, run in enumerate(runs):
            on_progress(index, len(runs))
            readings.append(self._read(run))
        baseline = against or next((reading.run for reading in readings if reading.has_measured_trials), None)
        counts_once = suite.repeats_rule != "each"
        if counts_once and baseline is not None:  # repeats are part of what passes: there is no choice
            own_repeats = _with_repeats(own_repeats, baseline.settings.repeats or 1)
        noise = measure_noise(*_split_by_target(readings, baseline), clusters)
        usual = DEFAULT_REPEATS if noise.is_chance_known else (1,)
        return StudyReport(
            suite=suite,
            word=request.suite,
            baseline=baseline,
            counts_once=counts_once,
            cluster_field=None if cluster == NO_CLUSTERS else cluster,
            runs=tuple(reading.run for reading in readings if baseline and reading.is_graded_like(baseline)),
            plan=plan_study(
                noise,
                own_repeats,
                _mean_costs(readings, baseline),
                difference=request.difference,
                power=request.power,
                repeats=(1,) if counts_once else request.repeats or usual,
            ),
        )

    def _find_run(self, word: str, suite: Suite) -> Run:
        """Returns the run that a word names; its suite may be another version of this one."""
        if self._store is None:
            raise UsageError(f"There is no run {word!r}, because the store has no runs. Remove --against.")
        run = self._store.run(word)
        if run.suite.digest != suite.digest and run.suite.name != suite.name:
            raise UsageError(
                f"Run {run.id} is a run of the suite {run.suite.name!r}, not of {suite.name!r}. Name a "
                "run of the suite that you plan for."
            )
        return run

    def _find_cluster_field(self, request: StudyRequest, suite: Suite, runs: Sequence[Run]) -> str | None:
        """Returns the field that a further run would be clustered by.

        It is that of the request, else of the newest run that has one, of the project, or of the suite.
        """
        of_runs = next((run.settings.cluster for run in runs if run.settings.cluster is not None), None)
        field = request.cluster or of_runs or self._config_cluster or suite.defaults.cluster
        return None if field is None else check_cluster_field(field)

    def _find_runs(self, suite_digest: str, against: Run | None) -> list[Run]:
        """Returns the newest runs of a suite, and the baseline first."""
        if self._store is None:
            return []
        runs = [
            run
            for run in self._store.runs()
            if run.suite.digest == suite_digest and run.regrade_of is None and run.imported is None
        ]
        first = [] if against is None else [against]
        return [*first, *(run for run in runs if against is None or run.id != against.id)][:_MAX_RUNS]

    def _read(self, run: Run) -> _RunReading:
        assert self._store is not None
        every, new = OutcomeCollector(run), OutcomeCollector(run)
        costs, latencies = list[float | None](), list[float]()
        for row in read_trial_rows(self._store, run, reveal=True):
            trial, output = row.trial, row.trial.output
            if trial.split == "holdout":
                continue
            every.add(trial, row.verdict, row.case)
            if trial.source_run is None and (output is None or not output.cached):
                new.add(trial, row.verdict, row.case)
                if output is not None and trial.target is None:
                    costs.append(_trial_cost(trial))
                    if output.batch_id is None:
                        latencies.append(output.latency_ms)
        return _RunReading(
            run=run,
            outcomes=every.finish(),
            new_outcomes=new.finish(),
            costs=tuple(costs),
            latencies_ms=tuple(latencies),
        )


def _read_cases(
    cases: Iterable[Case], cluster_for: ClusterLookup | None
) -> tuple[Counter[int], dict[str, str] | None]:
    """Returns how many cases that can be sent have which number of repeats, and their clusters by their ids.

    There are no clusters if each case is its own cluster.
    """
    own_repeats, clusters = Counter[int](), dict[str, str]()
    for case in cases:
        if not case.problems:
            own_repeats[case.repeats or 1] += 1
            if cluster_for is not None:
                clusters[case.id] = cluster_for(case)
    return own_repeats, clusters if len(set(clusters.values())) < len(clusters) else None


def _with_repeats(own_repeats: Mapping[int, int], repeats: int) -> Counter[int]:
    """Returns the numbers of cases by their repeats if each is repeated at least `repeats` times."""
    counts = Counter[int]()
    for own, cases in own_repeats.items():
        counts[max(own, repeats)] += cases
    return counts


def _trial_cost(trial: Trial) -> float | None:
    """Returns the cost of an answer and of its judgments; None if one is not known."""
    costs = [
        judgment.cost_usd for score in trial.scores for judgment in score.judgments if not judgment.cached
    ]
    costs.append(None if trial.output is None else trial.output.cost_usd)
    prices = [cost for cost in costs if cost is not None]
    return fsum(prices) if len(prices) == len(costs) else None


def _split_by_target(
    readings: Sequence[_RunReading], baseline: Run | None
) -> tuple[TallyByCase, TallyByCase, list[TallyByCase]]:
    """Returns the tallies of the baseline, of all runs of its target and prompt, and of each other one."""
    if baseline is None:
        return {}, {}, []
    by_target: dict[str, list[RunOutcomes]] = {}
    for reading in readings:
        if reading.is_graded_like(baseline):
            by_target.setdefault(_call_key(reading.run), []).append(reading.new_outcomes)
    same_target = by_target.pop(_call_key(baseline), [])
    own = [reading.outcomes for reading in readings if reading.run.id == baseline.id]
    return tally_cases(own), tally_cases(same_target), [tally_cases(runs) for runs in by_target.values()]


def _call_key(run: Run) -> str:
    """Returns what is equal for runs that send the same for the same case."""
    return call_digest(run.target, run.prompt)


def _mean_costs(readings: Sequence[_RunReading], baseline: Run | None) -> StudyCosts:
    """Returns what new trials of the baseline's target and prompt took, in all runs that were read."""
    if baseline is None:
        return StudyCosts()
    same_target = [reading for reading in readings if _call_key(reading.run) == _call_key(baseline)]
    costs = [cost for reading in same_target for cost in reading.costs]
    prices = [cost for cost in costs if cost is not None]
    latencies = [latency for reading in same_target for latency in reading.latencies_ms]
    is_instant = get_kind(baseline.target).is_instant
    return StudyCosts(
        cost_usd=fsum(prices) / len(prices) if prices and len(prices) == len(costs) else None,
        latency_s=None if is_instant or not latencies else fsum(latencies) / len(latencies) / 1000,
        concurrency=max_concurrency_for(baseline.target, baseline.settings.concurrency),
    )

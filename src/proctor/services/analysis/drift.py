"""Finds the runs for `proctor drift`, and reads them for the drift of a target over time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta

from msgspec import Struct
from msgspec.structs import replace

from proctor.clusters import is_own_cluster, make_cluster_lookup
from proctor.codec import call_digest, target_digest, template_digest
from proctor.drift.detector import detect_drift
from proctor.drift.observations import RunObservation, RunObserver, TrialPlaces, find_clustered_run
from proctor.errors import NothingSelected, UnknownName, UsageError
from proctor.model import Case, Params, Run, TargetSpec
from proctor.plurals import pluralize
from proctor.protocols import Store
from proctor.reports.clusters import no_clusters_sentence
from proctor.reports.drift.report import DriftReport, format_series_title
from proctor.safe_text import one_line
from proctor.services.runs.config import Config
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.runs.reading.report import record_holdout_access
from proctor.services.suites.save_and_open import Suites
from proctor.verdicts import pass_rules_for

_DIGEST = re.compile(r"sha256:[0-9a-f]{6,64}")
_AGE = re.compile(r"([1-9][0-9]{0,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_MAX_LISTED = 8
"""The maximum number of pairs of suite and target that a message lists."""


class DriftRequest(Struct, frozen=True, kw_only=True):
    """Which runs to follow."""

    suite: str | None = None
    """None for the only suite that has runs; the same holds for the target."""
    target: str | None = None
    prompt: str | None = None
    """The name of a prompt. None selects the runs without a prompt if there are several prompts, else all
    runs."""
    since: datetime | None = None
    until: datetime | None = None
    baseline: str | None = None
    """The run to compare with: an id, a prefix of one, `last`, or a tag."""
    cluster: str | None = None
    """The field that says which cases are related; None for that of each run."""


class RunSelection(Struct, frozen=True, kw_only=True):
    """The runs of one suite on one target with one prompt, in time order."""

    runs: tuple[Run, ...]
    notes: tuple[str, ...]
    """Sentences on which other runs were left out, and why."""


def parse_moment(word: str, now: datetime, *, ends: bool = False) -> datetime:
    """Parses a date such as `2026-10-03`, a time such as `2026-10-03T14:00`, or an age such as `30d`.

    Args:
        word: what the user wrote; times without a zone are UTC.
        now: the current time, from which `30d` is counted back.
        ends: a date stands for the end of the day instead of its start.

    Raises:
        UsageError: it is none of these.
    """
    ago = _AGE.fullmatch(word)
    try:
        if ago is not None:
            return now - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
        if "T" not in word and " " not in word:
            return datetime.combine(date.fromisoformat(word), time.max if ends else time.min, UTC)
        instant = datetime.fromisoformat(word)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{word!r} is not a time. Give a date such as 2026-10-03, or a time ago such as 12h, 30d or 8w."
        ) from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


class DriftQuery:
    """Finds the runs of one store, and reads them."""

    def __init__(self, store: Store, environ: Mapping[str, str], config: Config) -> None:
        """Takes the store and how suites are read.

        Args:
            store: has the runs.
            environ: the environment variables that suites and target names may refer to.
            config: the project's settings for reading suites.
        """
        self._store = store
        self._environ = environ
        self._config = config

    def find(self, request: DriftRequest) -> RunSelection:
        """Finds the runs of the request.

        Raises:
            NothingSelected: fewer than two runs match; says which runs there are.
            UsageError: a word stands for nothing, or is missing and several suites or targets have runs.
            SuiteError: the suite's file is invalid.
        """
        stored_runs = list(self._store.runs())
        original_runs = [run for run in stored_runs if run.regrade_of is None]
        candidates = (
            original_runs if request.suite is None else self._filter_by_suite(original_runs, request.suite)
        )
        candidates = (
            candidates
            if request.target is None
            else self._filter_by_target(candidates, request.target, original_runs)
        )
        candidates = _filter_by_prompt(candidates, request.prompt, original_runs)
        pair = _choose_pair([run for run in candidates if run.imported is None] or candidates, original_runs)
        # The newest comes first in a store; of two that started at once, the one stored later is later.
        pair_runs = sorted(
            (run for run in original_runs[::-1] if _pair_key(run) == pair), key=lambda run: run.started_at
        )
        finished = [run for run in pair_runs if run.status == "finished"]
        regraded = [run for run in stored_runs if run.regrade_of is not None and _pair_key(run) == pair]
        notes = [*_describe_other_targets(pair_runs[-1], original_runs)]
        notes += _describe_left_out(len(pair_runs) - len(finished), "did not finish")
        notes += _describe_left_out(len(regraded), "regraded stored answers without calling the target")
        runs = self._filter_by_time(finished, request, notes)
        if request.cluster is not None:
            runs = [replace(run, settings=replace(run.settings, cluster=request.cluster)) for run in runs]
        if len(runs) < 2:
            since = " in that period" if request.since or request.until else ""
            fits = f"{format_series_title(pair_runs[-1])} matches{since}"
            fitting = (
                f"Only {pluralize(len(runs), 'run')} of {fits}" if runs else f"No finished run of {fits}"
            )
            raise NothingSelected(
                " ".join([f"{fitting}, and drift needs two runs.", *notes, _list_pairs(original_runs)])
            )
        return RunSelection(runs=tuple(runs), notes=tuple(notes))

    def read(
        self, selection: RunSelection, on_progress: Callable[[int, int], None] = lambda _count, _all: None
    ) -> DriftReport:
        """Reads the runs, and records one access to their holdout where its pass rate is shown.

        Args:
            selection: the runs.
            on_progress: called with the number of runs read, and of all.

        Raises:
            NothingSelected: fewer than two of them called the target.
            StoreError: the store cannot be read, or the access not be recorded.
        """
        drifted = self.load(selection, on_progress)
        holdout_run = find_holdout_run(drifted)
        if holdout_run is None:
            return drifted
        record_holdout_access(self._store, holdout_run, "rate")
        return replace(drifted, looks=len(self._store.holdout_accesses(holdout_run.suite.digest)))

    def load(
        self, selection: RunSelection, on_progress: Callable[[int, int], None] = lambda _count, _all: None
    ) -> DriftReport:
        """Reads the runs, but records no access: the caller does, for the run of `find_holdout_run`.

        Raises:
            NothingSelected: fewer than two of them called the target.
            StoreError: the store cannot be read.
        """
        clustered_run = find_clustered_run(selection.runs)
        series_clusters = {} if clustered_run is None else self._find_clusters(clustered_run)
        places = TrialPlaces(series_clusters)
        special = self._find_rule_cases(selection.runs[-1])
        clusters: dict[str | None, dict[str, str]] = {}
        series: list[RunObservation] = []
        notes = list(selection.notes)
        if (
            clustered_run is not None
            and series_clusters
            and all(map(is_own_cluster, series_clusters.values()))
        ):
            notes.append(no_clusters_sentence(clustered_run.settings.cluster or ""))
        for index, run in enumerate(selection.runs):
            on_progress(index, len(selection.runs))
            if run.settings.cluster not in clusters:
                clusters[run.settings.cluster] = self._find_clusters(run)
            observer = RunObserver(run, places, clusters[run.settings.cluster])
            series.append(self._observe(run, observer, special))
        usable = [observation for observation in series[:-1] if any(observation.answers)]
        notes += _describe_left_out(len(series) - 1 - len(usable), "had no new answers from the target")
        if not usable:
            raise NothingSelected(
                f"Only the last run of {format_series_title(selection.runs[-1])} has new answers from "
                "the target. Run the suite with --no-reuse and without --cache."
            )
        return DriftReport(drift=detect_drift([*usable, series[-1]]), notes=tuple(notes))

    def _observe(self, run: Run, observer: RunObserver, special: Mapping[str, Case]) -> RunObservation:
        get_rule, plain = pass_rules_for(run), Case(id="", input=())
        for stored_trial in self._store.trials(run.id):
            if stored_trial.verdict is not None:
                observer.add(stored_trial.trial, get_rule(special.get(stored_trial.trial.case_id, plain)))
        return observer.finish()

    def _find_rule_cases(self, run: Run) -> dict[str, Case]:
        """Returns the cases with a pass rule of their own; they are the same for runs of one digest."""
        cases = (stored_case.case for stored_case in self._store.cases(run.suite.content))
        return {
            case.id: Case(id=case.id, input=(), pass_rule=case.pass_rule)
            for case in cases
            if case.pass_rule is not None
        }

    def _find_clusters(self, run: Run) -> dict[str, str]:
        """Returns the cluster of each case of a run; empty if its cases are independent."""
        cluster_for = make_cluster_lookup(run.settings.cluster)
        if cluster_for is None:
            return {}
        return {
            stored_case.case.id: cluster_for(stored_case.case)
            for stored_case in self._store.cases(run.suite.content)
        }

    def _filter_by_suite(self, runs: Sequence[Run], word: str) -> list[Run]:
        if _DIGEST.fullmatch(word):
            matches = [run for run in runs if run.suite.digest.startswith(word)]
            if len({run.suite.digest for run in matches}) > 1:
                raise UsageError(f"The digests of several suites begin with {word!r}. Give more digits.")
            what = f"a suite with the digest {word}"
        else:
            with Suites(self._store, self._environ, self._config).open_suite(word) as opened_suite:
                suite = opened_suite.suite
            matches = [run for run in runs if run.suite.digest == suite.digest]
            what = f"{word!r} in its current form ({suite.digest[:19]})"
        if not matches:
            raise NothingSelected(f"There is no stored run of {what}. {_list_pairs(runs)}")
        return matches

    def _filter_by_target(self, runs: Sequence[Run], word: str, all_runs: Sequence[Run]) -> list[Run]:
        """Returns the runs on the target that had this name last, else on the target that has it now."""
        digest = next((target_digest(run.target) for run in runs if run.target.name == word), None)
        if digest is None:
            try:
                digest = target_digest(TargetNames(self._environ).get_spec(word, Params(), judged=False))
            except (UnknownName, UsageError):
                digest = ""
        matches = [run for run in runs if target_digest(run.target) == digest]
        if not matches:
            raise NothingSelected(f"There is no such stored run on {word!r}. {_list_pairs(all_runs)}")
        return matches

    def _filter_by_time(self, runs: Sequence[Run], request: DriftRequest, notes: list[str]) -> list[Run]:
        """Returns the runs in the requested period, from the baseline on; no other imported run counts."""
        baseline = None if request.baseline is None else self._find_baseline(runs, request.baseline)
        first, last, now = request.since, request.until, datetime.now(UTC)
        own_runs = [run for run in runs if run is baseline or run.imported is None]
        notes += _describe_left_out(len(runs) - len(own_runs), "came from a bundle")
        past = [run for run in own_runs if run is baseline or run.started_at <= now]
        notes += _describe_left_out(
            len(own_runs) - len(past), "started in the future, according to a wrong clock"
        )
        in_period = [
            run
            for run in past
            if run is baseline
            or ((first is None or run.started_at >= first) and (last is None or run.started_at <= last))
        ]
        if baseline is None:
            return in_period
        start = in_period.index(baseline)
        notes += _describe_left_out(start, "started before the baseline")
        return in_period[start:]

    def _find_baseline(self, runs: Sequence[Run], word: str) -> Run:
        tagged = [run for run in runs if word in run.tags]
        if tagged:
            return tagged[-1]
        named_run = self._store.run(word)
        for run in runs:
            if run.id == named_run.id:
                return run
        raise UsageError(
            f"Run {named_run.id} cannot be the baseline, because it is not a finished run of this "
            "suite on this target."
        )


def find_holdout_run(drifted: DriftReport) -> Run | None:
    """Returns the last run whose holdout's pass rate is shown; None if none is."""
    holdout_runs = [step.observation.run for step in drifted.drift.points if step.observation.has_holdout]
    return holdout_runs[-1] if holdout_runs else None


def _pair_key(run: Run) -> tuple[str, str]:
    return run.suite.digest, call_digest(run.target, run.prompt)


def _filter_by_prompt(runs: list[Run], name: str | None, all_runs: Sequence[Run]) -> list[Run]:
    """Returns the runs with the prompt that had this name last; without a name, see `DriftRequest`."""
    if name is None:
        without_prompt = [run for run in runs if run.prompt is None]
        return without_prompt if len(without_prompt) > 1 else runs
    prompts = (run.prompt for run in runs if run.prompt is not None)
    digest = next((template_digest(prompt) for prompt in prompts if prompt.name == name), None)
    matches = [run for run in runs if run.prompt is not None and template_digest(run.prompt) == digest]
    if not matches:
        raise NothingSelected(
            f"There is no such stored run with the prompt {name!r}. {_list_pairs(all_runs)}"
        )
    return matches


def _choose_pair(candidates: Sequence[Run], all_runs: Sequence[Run]) -> tuple[str, str]:
    """Returns the only pair of suite and target of the runs, else the only pair with several runs."""
    if not all_runs:
        raise NothingSelected("The store has no runs. To make one: `proctor run SUITE --target T`.")
    counts = Counter(map(_pair_key, candidates))
    repeated_pairs = [pair for pair, count in counts.items() if count > 1]
    if len(counts) == 1 or len(repeated_pairs) == 1:
        return next(iter(counts)) if len(counts) == 1 else repeated_pairs[0]
    if repeated_pairs:
        flag = " --prompt P" if any(run.prompt for run in candidates) else ""
        raise UsageError(
            f"Several series match. Name one: proctor drift SUITE --target T{flag}. {_list_pairs(candidates)}"
        )
    raise NothingSelected(
        f"No suite has two runs on one target, and drift needs two runs. {_list_pairs(candidates)}"
    )


def _describe_other_targets(latest: Run, all_runs: Sequence[Run]) -> Iterator[str]:
    """Yields notes on runs with the same names and another target or another version of the suite."""
    same_suite = [run for run in all_runs if run.suite.digest == latest.suite.digest]
    targets = [
        run
        for run in same_suite
        if run.target.name == latest.target.name and target_digest(run.target) != target_digest(latest.target)
    ]
    if targets:
        differs = ", ".join(_describe_difference(targets[0].target, latest.target)) or "its options"
        yield (
            f"Excluded {pluralize(len(targets), 'run')} in which the same name stood for another "
            f"target ({differs}). You made that change; it is not drift."
        )
    prompts = [
        run
        for run in same_suite
        if target_digest(run.target) == target_digest(latest.target) and _pair_key(run) != _pair_key(latest)
    ]
    yield from _describe_left_out(len(prompts), "used another prompt")
    versions = [
        run
        for run in all_runs
        if run.suite.name == latest.suite.name
        and run.suite.digest != latest.suite.digest
        and call_digest(run.target, run.prompt) == call_digest(latest.target, latest.prompt)
    ]
    yield from _describe_left_out(len(versions), "used another version of the suite")


def _describe_left_out(count: int, why: str) -> Iterator[str]:
    if count:
        yield f"Excluded {pluralize(count, 'run')} that {why}."


def _describe_difference(was: TargetSpec, now: TargetSpec) -> Iterator[str]:
    for name in ("kind", "model", "endpoint"):
        if getattr(was, name) != getattr(now, name):
            yield one_line(f"{name} {getattr(was, name)} instead of {getattr(now, name)}")
    for name in was.params.__struct_fields__:
        if getattr(was.params, name) != getattr(now.params, name):
            yield f"{name} {getattr(was.params, name)} instead of {getattr(now.params, name)}"


def _list_pairs(runs: Sequence[Run]) -> str:
    counts = Counter(format_series_title(run) for run in runs)
    if not counts:
        return "The store has no runs."
    pairs = [f"{name} ({pluralize(count, 'run')})" for name, count in counts.most_common(_MAX_LISTED)]
    more = f", and {len(counts) - _MAX_LISTED:,} more" if len(counts) > _MAX_LISTED else ""
    return f"Stored runs: {', '.join(pairs)}{more}."

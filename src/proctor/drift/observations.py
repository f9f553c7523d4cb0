"""The data of a run that drift detection holds: nine bytes for each trial, and no text."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import fsum
from typing import Literal

from msgspec import Struct

from proctor.clusters import OWN_CLUSTER
from proctor.codec import encode
from proctor.model import Output, PassRule, Run, Trial, Verdict
from proctor.run_gate import is_measured
from proctor.verdicts import NO_TRIALS, CaseRepeats, Counts, decide_verdict, set_intervals

UNKNOWN, FAILED, PASSED = 0, 1, 2
"""The values in `RunObservation.verdicts`."""


class TrialPlaces:
    """Numbers the trials of a suite by case and repeat, and its clusters, the same in all runs."""

    def __init__(self, clusters: Mapping[str, str] | None = None) -> None:
        """Starts without trials.

        Args:
            clusters: the cluster of each case, by its id; None or empty if the cases are independent.
        """
        self._cluster_names = clusters or {}
        self._cluster_numbers: dict[str, int] = {}
        self.cases: list[str] = []
        """The id of each case, in the order in which they were first seen."""
        self.clusters = array("I")
        """The number of the cluster of each case, in the order of `cases`."""
        self.case_numbers = array("I")
        """The number of the case at each place."""
        self._numbers: dict[str, int] = {}
        self._places: dict[tuple[str, int], int] = {}

    def place_for(self, case_id: str, repeat: int) -> int:
        """Returns the place of a trial; a new trial gets a new place."""
        place = self._places.get((case_id, repeat))
        if place is None:
            place = self._places[case_id, repeat] = len(self.case_numbers)
            number = self._numbers.setdefault(case_id, len(self.cases))
            if number == len(self.cases):
                self.cases.append(case_id)
                self.clusters.append(self._number_cluster(case_id))
            self.case_numbers.append(number)
        return place

    def _number_cluster(self, case_id: str) -> int:
        if not self._cluster_names:
            return len(self.clusters)
        name = self._cluster_names.get(case_id, OWN_CLUSTER + case_id)
        return self._cluster_numbers.setdefault(name, len(self._cluster_numbers))

    def sum_clusters(self, values: Mapping[int, float]) -> list[tuple[float, int]]:
        """Returns for each cluster the sum of the values of its cases, and the number of these.

        Args:
            values: a value for some of the cases, by the number of the case.
        """
        members: dict[int, list[float]] = {}
        for case, value in values.items():
            members.setdefault(self.clusters[case], []).append(value)
        return [(fsum(cluster_values), len(cluster_values)) for cluster_values in members.values()]

    def places_at(self, repeat: int) -> dict[int, int]:
        """Returns the places of one repeat, by the number of the case."""
        return {self._numbers[case]: place for (case, of), place in self._places.items() if of == repeat}

    def group_by_case(self) -> list[list[int]]:
        """Returns the places of each case."""
        places_by_case: list[list[int]] = [[] for _ in self.cases]
        for place, case in enumerate(self.case_numbers):
            places_by_case[case].append(place)
        return places_by_case


class ExcludedCounts(Struct, frozen=True, kw_only=True):
    """The number of trials that are excluded from the comparison, by reason."""

    taken_over: int = 0
    """The answer comes from an earlier run."""
    cached: int = 0
    """The answer comes from the cache."""
    elsewhere: int = 0
    """Another target answered: a fallback, or the target that the case names."""
    errors: int = 0
    """There is no answer."""
    unscored: int = 0
    """There is an answer without a verdict; the answer is compared."""

    @property
    def total(self) -> int:
        """The number of trials that are not in the pass rate."""
        return self.taken_over + self.cached + self.elsewhere + self.errors + self.unscored


class ObservationRows(Struct, frozen=True):
    """Answers and verdicts by place; both rows can be shorter than the number of places."""

    places: TrialPlaces
    answers: array[int]
    """64 bits of the digest of each answer; 0 without an answer."""
    verdicts: bytearray
    """If each case counts once, its verdict is at the place of its first repeat."""


class RunObservation(ObservationRows, frozen=True, kw_only=True):
    """A run for comparison, with the trials that its own target answered in this run."""

    run: Run
    passed: Counts
    """The counts of passed and failed trials."""
    excluded: ExcludedCounts
    models: frozenset[str]
    """As the endpoint reported them."""
    fingerprints: frozenset[str]
    has_holdout: bool
    """Whether any of its trials are held out."""
    is_measured: bool
    """Whether the target answered at all, with no more ERROR and UNSCORED trials than the run allows."""


class RunObserver:
    """Reads the trials of one run."""

    def __init__(self, run: Run, places: TrialPlaces, clusters: Mapping[str, str] | None = None) -> None:
        """Starts without trials.

        Args:
            run: the run.
            places: shared by all runs that are compared.
            clusters: the cluster of each case, by its id; None if the cases of the run are independent.
        """
        self._run = run
        self._clusters = clusters or {}
        self._places = places
        self._answers = array("Q")
        self._verdicts = bytearray()
        self._passed = Counts()
        self._all = Counts()
        self._excluded_counts = dict.fromkeys(ExcludedCounts.__struct_fields__, 0)
        self._models: set[str] = set()
        self._fingerprints: set[str] = set()
        self._holdout = False
        self._shapes = "", NO_TRIALS, NO_TRIALS
        """The last case that was counted, with the keys of its trials in `_all` and in `_passed`."""
        self._case: tuple[str, CaseRepeats, bool] | None = None
        """The case whose repeats are being added, and whether the target answered all of them in this run."""

    def add(self, trial: Trial, rule: PassRule) -> None:
        """Adds the next finished trial, in suite order, with the pass rule of its case."""
        verdict = decide_verdict(trial, rule)
        self._holdout = self._holdout or trial.split == "holdout"
        fresh = self._is_fresh(trial, verdict)
        if fresh and trial.output is not None:
            place = self._places.place_for(trial.case_id, trial.repeat)
            _grow(self._answers, place)
            self._answers[place] = answer_digest(trial.output)
            if trial.output.model is not None:
                self._models.add(trial.output.model)
            if trial.output.fingerprint is not None:
                self._fingerprints.add(trial.output.fingerprint)
        if self._run.suite.repeats_rule == "each":
            self._count(trial.case_id, trial.repeat, verdict, fresh=fresh)
            return
        if self._case is None or self._case[0] != trial.case_id:
            self._end_case()
            self._case = trial.case_id, CaseRepeats(rule), True
        case_id, repeats, all_fresh = self._case
        repeats.add(trial, verdict)
        self._case = case_id, repeats, all_fresh and (fresh or trial.output is None)

    def finish(self) -> RunObservation:
        """Returns the observation, once all trials were added."""
        self._end_case()
        self._set_intervals()
        return RunObservation(
            run=self._run,
            places=self._places,
            answers=self._answers,
            verdicts=self._verdicts,
            passed=self._passed,
            excluded=ExcludedCounts(**self._excluded_counts),
            models=frozenset(self._models),
            fingerprints=frozenset(self._fingerprints),
            has_holdout=self._holdout,
            is_measured=any(self._answers) and is_measured(self._all, self._run.settings),
        )

    def _set_intervals(self) -> None:
        """Makes the interval that of the run, if each of its measured trials counts here too."""
        set_intervals([self._passed, self._all], self._run)
        ci95 = self._all.ci95
        if self._all.best_count is not None and self._passed.cases == self._all.cases and ci95 is not None:
            self._passed.stop = self._all.cases, ci95

    def _is_fresh(self, trial: Trial, verdict: Verdict) -> bool:
        """Returns whether the run's own target answered in this run; if not, counts the reason."""
        output = trial.output
        if trial.source_run is not None:
            reason = "taken_over"
        elif output is None:
            reason = "errors"
        elif output.cached:
            reason = "cached"
        elif output.target is not None or trial.target is not None:
            reason = "elsewhere"
        else:
            self._excluded_counts["unscored"] += verdict is Verdict.UNSCORED
            return True
        self._excluded_counts[reason] += 1
        return False

    def _count(self, case_id: str, repeat: int, verdict: Verdict, *, fresh: bool) -> None:
        case, shape, fresh_shape = self._shapes
        if case != case_id:
            shape = fresh_shape = NO_TRIALS
        shape = self._all.add(verdict, shape)
        self._shapes = case_id, shape, fresh_shape
        if not fresh or verdict not in (Verdict.PASS, Verdict.FAIL):
            return
        self._shapes = case_id, shape, self._passed.add(verdict, fresh_shape, self._clusters.get(case_id))
        place = self._places.place_for(case_id, repeat)
        _grow(self._verdicts, place)
        self._verdicts[place] = PASSED if verdict is Verdict.PASS else FAILED

    def _end_case(self) -> None:
        """Counts the case whose repeats were added, once."""
        if self._case is None:
            return
        case_id, repeats, fresh = self._case
        self._count(case_id, 0, repeats.verdict(self._run.suite.repeats_rule), fresh=fresh)
        self._case = None


class ReferenceRows:
    """The rows of one reference run for each case: the first run that has it, or the last."""

    def __init__(self, places: TrialPlaces) -> None:
        """Starts without cases.

        Args:
            places: the places of the runs.
        """
        self.rows = ObservationRows(places, array("Q"), bytearray())
        self._cases: set[int] = set()

    def add(self, rows: ObservationRows, *, by: Literal["answers", "verdicts"], again: bool) -> None:
        """Copies the next run's rows of new cases, or with `again` of all its cases.

        Args:
            rows: the run.
            by: a run has a case if it has this of the case.
            again: whether to replace the rows of earlier runs.
        """
        case_numbers = self.rows.places.case_numbers
        has = {case_numbers[place] for place, value in enumerate(getattr(rows, by)) if value}
        new_cases = has if again else has - self._cases
        if not new_cases:
            return
        self._cases |= new_cases
        row_pairs = (self.rows.answers, rows.answers), (self.rows.verdicts, rows.verdicts)
        for target, source in row_pairs:
            _grow(target, len(case_numbers) - 1)
            for place, case in enumerate(case_numbers):
                if case in new_cases:
                    target[place] = source[place] if place < len(source) else 0


def find_clustered_run(runs: Sequence[Run]) -> Run | None:
    """Returns the run whose clusters are those of the whole series: the last one that names any."""
    return next((run for run in reversed(runs) if run.settings.cluster is not None), None)


def answer_digest(output: Output) -> int:
    """Returns 64 bits, never 0, of the digest of an answer.

    It covers the text, the tool calls with their arguments, and the changes in the workspace; not what
    differs between identical calls, such as ids, times and tokens.
    """
    content = output.text.encode("utf-8", "surrogatepass")
    if output.tool_calls or output.file_changes:
        calls = [(call.name, call.arguments) for call in output.tool_calls]
        content = encode((output.text, calls, output.file_changes))
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big") or 1


def _grow(row: array[int] | bytearray, place: int) -> None:
    missing = place + 1 - len(row)
    if missing > 0:
        row.extend(bytes(missing))

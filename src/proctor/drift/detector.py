"""Decides from runs in time order whether a target is stable, watch, drifting or noisy, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from proctor.drift.case_history import identity_rows, pass_rows
from proctor.drift.change_point import CaseRow, SeriesSplit, find_split, place_weight
from proctor.drift.confounders import RecordedChange, find_recorded_changes, judging_key
from proctor.drift.flips import CaseFlips, find_flips
from proctor.drift.identical_answers import (
    WATCH_SHARE,
    IdenticalShare,
    identical_share,
    repeats_show_steadiness,
    shares_within_runs,
    usual_share,
)
from proctor.drift.observations import ReferenceRows, RunObservation
from proctor.errors import ExitCode

ALPHA = 0.05
"""The highest chance of ever reporting a change, over all analyses, for a target that does not change.

It holds if the nights of the series do not depend on each other, and move all cases by about normal amounts:
see `night_p_value`.
"""
DriftState = Literal["stable", "watch", "drifting", "noisy", "unknown"]
"""The level of identical answers; `noisy` if it says little, `unknown` if there are none."""


class SeriesPoint(Struct, frozen=True, kw_only=True):
    """One run of a series, compared with those before it."""

    observation: RunObservation
    with_first: IdenticalShare | None = None
    """Each case compared with the first run that has it; None if no case was run before."""
    with_before: IdenticalShare | None = None
    """Each case compared with the last run before this one that has it."""
    flips: CaseFlips | None = None
    """Each case compared with its first verdict; None if none was graded before as in the last run."""

    @property
    def started_at(self) -> datetime:
        """When the run started."""
        return self.observation.run.started_at

    @property
    def lowest(self) -> IdenticalShare | None:
        """The lower of the two shares of identical answers, which determines the state."""
        shares = [share for share in (self.with_first, self.with_before) if share is not None]
        return min(shares, key=lambda share: share.share, default=None)


ChangeKind = Literal["first", "last", "verdicts"]
"""The kind of change: in answers equal to the first run's or to the last run's, or in passed cases."""
_KIND_SHARES: dict[ChangeKind, float] = {"verdicts": 0.5, "first": 0.25, "last": 0.25}
"""The share of the error that each kind of change may use."""


class ChangePoint(Struct, frozen=True, kw_only=True):
    """The likeliest change point of a series."""

    kind: ChangeKind
    before: int
    """The place of the last run before the change."""
    after: int
    """The place of the first run after it."""
    split: SeriesSplit
    weight: float
    """The share of the error that this kind of change may use at this place."""

    @property
    def p_value(self) -> float:
        """An upper bound, adjusted for every place, all three kinds of change and every analysis."""
        return max(self.p_cases, self.p_nights)

    @property
    def p_cases(self) -> float:
        """The adjusted p-value if each case by itself has its values in any order."""
        return min(1.0, self.split.p_cases / self.weight)

    @property
    def p_nights(self) -> float:
        """The adjusted p-value of the difference beside how much the nights differ."""
        return min(1.0, self.split.p_nights / self.weight)

    @property
    def is_significant(self) -> bool:
        """Whether the change is significant."""
        return self.p_value < ALPHA

    @property
    def is_worse(self) -> bool:
        """Whether significantly fewer cases pass, and the last run has not recovered."""
        better = self.split.after >= self.split.before
        return self.kind == "verdicts" and self.is_significant and self.split.is_lasting and not better

    @property
    def is_suspected(self) -> bool:
        """Whether fewer cases pass than chance in each case explains, but not than in a bad night."""
        worse = self.kind == "verdicts" and self.split.is_lasting and self.split.after < self.split.before
        return worse and self.p_cases < ALPHA <= self.p_nights

    @property
    def is_large(self) -> bool:
        """Whether significantly fewer answers are identical, by more than the state `watch` allows."""
        low, high = sorted((self.split.before, self.split.after))
        return (
            self.kind != "verdicts"
            and self.is_significant
            and self.split.is_lasting
            and low < WATCH_SHARE * high
        )


class Drift(Struct, frozen=True, kw_only=True):
    """The drift of a target over time."""

    points: tuple[SeriesPoint, ...]
    state: DriftState
    since: datetime | None
    """Since when it has been in this state without a break; None if that is not known."""
    repeats: IdenticalShare | None
    """How identical two answers to one prompt in one run usually are; None if repeats cannot show it."""
    last_repeats: IdenticalShare | None
    """How identical two answers to one prompt are in the last run; None if its repeats cannot show it."""
    change_point: ChangePoint | None
    """The change point, if one is significant."""
    pass_rate_change: ChangePoint | None
    """The likeliest change point of the number of passed cases, significant or not."""
    recorded_changes: tuple[RecordedChange, ...]
    rewords_nightly: bool
    """Whether most runs have other answers than the run before, so that identity says little."""
    by_answers: bool
    """Whether it is drifting by the share of identical answers."""
    by_verdicts: bool
    """Whether it is drifting by the number of passed cases."""

    @property
    def noise(self) -> IdenticalShare | None:
        """`repeats`, if the target does not repeat its answers."""
        return None if self.repeats is None or self.repeats.level == "stable" else self.repeats

    @property
    def is_suspected(self) -> bool:
        """Whether fewer cases pass than chance in each case explains, but not than in a bad night."""
        return self.pass_rate_change is not None and self.pass_rate_change.is_suspected

    @property
    def last(self) -> SeriesPoint:
        """The newest run."""
        return self.points[-1]

    @property
    def comparison(self) -> int:
        """The number of this comparison with earlier runs, from 1."""
        return len(self.points) - 1

    @property
    def exit_code(self) -> ExitCode:
        """The exit code: NOT_MEASURED if the newest run was not measured, whatever the others show."""
        if self.state == "unknown" or not self.last.observation.is_measured:
            return ExitCode.NOT_MEASURED
        return ExitCode.FAILED if self.state == "drifting" else ExitCode.OK


def detect_drift(series: Sequence[RunObservation]) -> Drift:
    """Detects drift in two or more runs of one suite on one target.

    Args:
        series: in time order; the first is the reference.

    Raises:
        ValueError: there are fewer than two runs.
    """
    if len(series) < 2:
        raise ValueError(f"drift needs two runs, not {len(series)}.")
    steps, repeats, change_points = (
        _series_points(series),
        shares_within_runs(series),
        list(_find_change_points(series)),
    )
    usually, lowest, rewords_nightly = usual_share(repeats), steps[-1].lowest, _rewords_nightly(steps)
    large = next((change_point for change_point in change_points if change_point.is_large), None)
    worse = next((change_point for change_point in change_points if change_point.is_worse), None)
    suspected = next((change_point for change_point in change_points if change_point.is_suspected), None)
    # Other words are drift only if repeats show that they are not noise, those of the last run too.
    last_repeats = shares_within_runs(series[-1:])
    steady = bool(last_repeats) and repeats_show_steadiness(repeats) and not rewords_nightly
    is_low = lowest is not None and lowest.level == "drifting"
    by_answers = is_low and bool(repeats) and (steady or large is not None)
    if lowest is None:
        state: DriftState = "unknown"
    elif by_answers or worse is not None:
        state = "drifting"
    elif suspected is not None:
        state = "watch"
    elif lowest.level == "stable":
        state = "stable"
    elif (usually is None or usually.level == "stable") and not (is_low and repeats and rewords_nightly):
        state = "watch"
    else:
        state = "noisy"
    deciding = large if by_answers else worse or suspected
    return Drift(
        points=steps,
        state=state,
        since=_since(steps, state) if deciding is None else steps[deciding.after].started_at,
        repeats=usually,
        last_repeats=last_repeats[0] if last_repeats else None,
        change_point=_best_change_point(change_points),
        pass_rate_change=next(
            (change_point for change_point in change_points if change_point.kind == "verdicts"), None
        ),
        recorded_changes=find_recorded_changes(series),
        rewords_nightly=rewords_nightly,
        by_answers=by_answers,
        by_verdicts=worse is not None,
    )


def _rewords_nightly(steps: Sequence[SeriesPoint]) -> bool:
    """Returns whether at least two runs, and half of all, differ from the run before by a fifth or more."""
    levels = [step.with_before.level for step in steps if step.with_before is not None]
    return levels.count("drifting") >= max(2, len(levels) / 2)


def _series_points(series: Sequence[RunObservation]) -> tuple[SeriesPoint, ...]:
    places, judging = series[0].places, judging_key(series[-1].run)
    first, before, judged = ReferenceRows(places), ReferenceRows(places), ReferenceRows(places)
    steps = []
    for observation in series:
        alike_judged = judging_key(observation.run) == judging
        step = SeriesPoint(
            observation=observation,
            with_first=identical_share(first.rows, observation),
            with_before=identical_share(before.rows, observation),
            flips=find_flips(judged.rows, observation) if alike_judged else None,
        )
        steps.append(step)
        first.add(observation, by="answers", again=False)
        before.add(observation, by="answers", again=True)
        if alike_judged:
            judged.add(observation, by="verdicts", again=False)
    return tuple(steps)


def _since(steps: Sequence[SeriesPoint], state: DriftState) -> datetime | None:
    """Returns when the unbroken sequence of runs with the state of the last run began.

    For the state `watch`, `watch` and `drifting` count as one level.
    """
    if state in ("noisy", "unknown"):
        return None
    names = {"stable"} if state == "stable" else {"watch", "drifting"} if state == "watch" else {"drifting"}
    since = steps[-1]
    for step in reversed(steps[1:]):
        if step.lowest is None or step.lowest.level not in names:
            return since.started_at
        since = step
    return steps[0].started_at if state == "stable" else since.started_at


# --- the change point --------------------------------------------------------------------------------------


def _find_change_points(series: Sequence[RunObservation]) -> Iterator[ChangePoint]:
    """Yields the likeliest change point of each of the three series of rows, significant or not."""
    judging = judging_key(series[-1].run)
    judged = [place for place, observation in enumerate(series) if judging_key(observation.run) == judging]
    all_places = range(len(series))
    kinds: list[tuple[ChangeKind, Sequence[int], list[CaseRow]]] = [
        ("first", all_places, identity_rows(series)),
        ("last", all_places, identity_rows(series[::-1])[::-1]),
        ("verdicts", judged, pass_rows([series[place] for place in judged])),
    ]
    for kind, places, rows in kinds:
        known_rows = [(place, row) for place, row in zip(places, rows, strict=True) if any(row)]
        division = find_split([row for _, row in known_rows], series[0].places.clusters)
        if division is not None:
            before, after = known_rows[division.place - 1][0], known_rows[division.place][0]
            # A run that knows no case counts too, so that no place of no later series has the same weight.
            weight = _KIND_SHARES[kind] * place_weight(after, len(series) - after)
            yield ChangePoint(kind=kind, before=before, after=after, split=division, weight=weight)


def _best_change_point(change_points: Sequence[ChangePoint]) -> ChangePoint | None:
    significant_points = [point for point in change_points if point.is_significant]
    best = min(significant_points, key=lambda point: point.p_value, default=None)
    # People compare with the first run, so a change that it shows too is reported by it.
    return next(
        (
            point
            for point in significant_points
            if point.kind == "first" and best and point.after == best.after
        ),
        best,
    )

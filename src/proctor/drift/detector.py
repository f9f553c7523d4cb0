"""Decides from runs in time order whether a target is stable, watch, drifting or noisy, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from proctor.drift.case_history import alike, passes
from proctor.drift.change_point import Row, Split, split
from proctor.drift.confounders import Changed, changes, judging_of
from proctor.drift.flips import Flips, flips
from proctor.drift.identical_answers import WATCH, Sameness, repeated, sameness, usual
from proctor.drift.observations import Kept, Seen
from proctor.errors import ExitCode

ALPHA = 0.05
"""The highest chance of ever reporting a change, over all analyses, for a target that does not change."""
State = Literal["stable", "watch", "drifting", "noisy", "unknown"]
"""The level of identical answers; `noisy` if it says little, `unknown` if there are none."""


class Step(Struct, frozen=True, kw_only=True):
    """One run of a series, compared with those before it."""

    seen: Seen
    with_first: Sameness | None = None
    """Each case compared with the first run that has it; None if no case was run before."""
    with_before: Sameness | None = None
    """Each case compared with the last run before this one that has it."""
    flips: Flips | None = None
    """Each case compared with its first verdict; None if none was graded before as in the last run."""

    @property
    def at(self) -> datetime:
        """When the run started."""
        return self.seen.run.started_at

    @property
    def lowest(self) -> Sameness | None:
        """The lower of the two shares of identical answers, which determines the state."""
        shares = [share for share in (self.with_first, self.with_before) if share is not None]
        return min(shares, key=lambda share: share.share, default=None)


What = Literal["first", "last", "verdicts"]
"""The kind of change: in answers equal to the first run's or to the last run's, or in passed cases."""


class Turning(Struct, frozen=True, kw_only=True):
    """The likeliest change point of a series."""

    what: What
    before: int
    """The place of the last run before the change."""
    after: int
    """The place of the first run after it."""
    split: Split
    p_value: float
    """An upper bound, adjusted for every place, all three kinds of change and every earlier analysis.

    Analysis k may use 1 / (k (k + 1)) of the error, and these shares add up to 1 over all k. By the union
    bound a target that does not change ever gets below 0.05 with a chance of at most 5 %, however the
    analyses depend on each other. Source: C. E. Bonferroni, "Teoria statistica delle classi e calcolo delle
    probabilità" (1936), with unequal weights.
    """

    @property
    def shown(self) -> bool:
        """Whether the change is significant."""
        return self.p_value < ALPHA

    @property
    def worse(self) -> bool:
        """Whether significantly fewer cases pass, and the last run has not recovered."""
        better = self.split.after >= self.split.before
        return self.what == "verdicts" and self.shown and self.split.holds and not better

    @property
    def large(self) -> bool:
        """Whether significantly fewer answers are identical, by more than the state `watch` allows."""
        low, high = sorted((self.split.before, self.split.after))
        return self.what != "verdicts" and self.shown and self.split.holds and low < WATCH * high


class Drift(Struct, frozen=True, kw_only=True):
    """The drift of a target over time."""

    steps: tuple[Step, ...]
    state: State
    since: datetime | None
    """Since when it has been in this state without a break; None if that is not known."""
    repeats: Sameness | None
    """How identical two answers to one prompt in one run usually are; None if repeats cannot show it."""
    turning: Turning | None
    """The change point, if one is significant."""
    passing: Turning | None
    """The likeliest change point of the number of passed cases, significant or not."""
    changed: tuple[Changed, ...]
    by_answers: bool
    """Whether it is drifting by the share of identical answers."""
    by_verdicts: bool
    """Whether it is drifting by the number of passed cases."""

    @property
    def noise(self) -> Sameness | None:
        """`repeats`, if the target does not repeat its answers."""
        return None if self.repeats is None or self.repeats.level == "stable" else self.repeats

    @property
    def last(self) -> Step:
        """The newest run."""
        return self.steps[-1]

    @property
    def comparison(self) -> int:
        """The number of this comparison with earlier runs, from 1."""
        return len(self.steps) - 1

    @property
    def exit_code(self) -> ExitCode:
        """The exit code: NOT_MEASURED if the newest run was not measured, whatever the others show."""
        if self.state == "unknown" or not self.last.seen.measured:
            return ExitCode.NOT_MEASURED
        return ExitCode.FAILED if self.state == "drifting" else ExitCode.OK


def drift(series: Sequence[Seen]) -> Drift:
    """Detects drift in two or more runs of one suite on one target.

    Args:
        series: in time order; the first is the reference.

    Raises:
        ValueError: there are fewer than two runs.
    """
    if len(series) < 2:
        raise ValueError(f"drift needs two runs, not {len(series)}.")
    steps, repeats, turnings = _steps(series), repeated(series), list(_turnings(series))
    usually, lowest = usual(repeats), steps[-1].lowest
    large = next((change_point for change_point in turnings if change_point.large), None)
    worse = next((change_point for change_point in turnings if change_point.worse), None)
    # Other words are drift only if repeats show that they are not noise.
    steady = all(same.level == "stable" for same in repeats)
    few = lowest is not None and lowest.level == "drifting"
    by_answers = few and bool(repeats) and (steady or large is not None)
    if lowest is None:
        state: State = "unknown"
    elif by_answers or worse is not None:
        state = "drifting"
    elif lowest.level == "stable":
        state = "stable"
    else:
        state = "watch" if (usually is None or usually.level == "stable") else "noisy"
    deciding = large if by_answers else worse
    return Drift(
        steps=steps,
        state=state,
        since=_since(steps, state) if deciding is None else steps[deciding.after].at,
        repeats=usually,
        turning=_best_change_point(turnings),
        passing=next((change_point for change_point in turnings if change_point.what == "verdicts"), None),
        changed=changes(series),
        by_answers=by_answers,
        by_verdicts=worse is not None,
    )


def _steps(series: Sequence[Seen]) -> tuple[Step, ...]:
    places, judging = series[0].places, judging_of(series[-1].run)
    first, before, judged = Kept(places), Kept(places), Kept(places)
    steps = []
    for observation in series:
        alike_judged = judging_of(observation.run) == judging
        step = Step(
            seen=observation,
            with_first=sameness(first.held, observation),
            with_before=sameness(before.held, observation),
            flips=flips(judged.held, observation) if alike_judged else None,
        )
        steps.append(step)
        first.add(observation, by="answers", again=False)
        before.add(observation, by="answers", again=True)
        if alike_judged:
            judged.add(observation, by="verdicts", again=False)
    return tuple(steps)


def _since(steps: Sequence[Step], state: State) -> datetime | None:
    """Returns when the unbroken sequence of runs with the state of the last run began.

    For the state `watch`, `watch` and `drifting` count as one level.
    """
    if state in ("noisy", "unknown"):
        return None
    names = {"stable"} if state == "stable" else {"watch", "drifting"} if state == "watch" else {"drifting"}
    since = steps[-1]
    for step in reversed(steps[1:]):
        if step.lowest is None or step.lowest.level not in names:
            return since.at
        since = step
    return steps[0].at if state == "stable" else since.at


# --- the change point --------------------------------------------------------------------------------------


def _turnings(series: Sequence[Seen]) -> Iterator[Turning]:
    """Yields the likeliest change point of each of the three series of rows, significant or not."""
    judging = judging_of(series[-1].run)
    judged = [place for place, observation in enumerate(series) if judging_of(observation.run) == judging]
    all_places = range(len(series))
    looks = len(series) - 1
    kinds: list[tuple[What, Sequence[int], list[Row]]] = [
        ("first", all_places, alike(series)),
        ("last", all_places, alike(series[::-1])[::-1]),
        ("verdicts", judged, passes([series[place] for place in judged])),
    ]
    for what, places, rows in kinds:
        known_rows = [(place, row) for place, row in zip(places, rows, strict=True) if any(row)]
        division = split([row for _, row in known_rows])
        if division is not None:
            before, after = known_rows[division.place - 1][0], known_rows[division.place][0]
            p_value = min(1.0, division.p_value * len(kinds) * looks * (looks + 1))
            yield Turning(what=what, before=before, after=after, split=division, p_value=p_value)


def _best_change_point(turnings: Sequence[Turning]) -> Turning | None:
    shown_points = [point for point in turnings if point.shown]
    best = min(shown_points, key=lambda point: point.p_value, default=None)
    # People compare with the first run, so a change that it shows too is reported by it.
    return next(
        (point for point in shown_points if point.what == "first" and best and point.after == best.after),
        best,
    )

"""`Trajectory`: what a search loop tried, one proposal after another.

In: a file with a row for each iteration. Out: the best value so far, coverage and repeats of knobs, charts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite, isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from proctor.eval.json_files import to_plain
from proctor.eval.jsonl_rows import DroppedRow, describe_value, parse_number, read_object_rows

if TYPE_CHECKING:
    from proctor.charts import Chart, Point

_MAX_DEPTH = 100
"""How many levels a proposal may be nested."""
_MAX_PLAIN_STEPS = 60
"""Up to this number of iterations a line has a point for each."""
_MAX_DOTS = 2000


@dataclass(frozen=True, slots=True)
class TrajectoryIter:
    """One proposal that was tried and measured."""

    iter: int
    """Its number, as the loop wrote it."""
    knob: str
    """What was changed; empty when the row does not say."""
    value: Any
    """What it was changed to: any JSON value, None when the row does not say."""
    decision: str
    """What the loop did with it, such as "keep" or "revert"; empty when the row does not say."""
    score: float
    """The result, in the unit of the score field; may be NaN or infinite if the loop wrote that."""
    raw: dict[str, Any]
    """The whole row."""


class Mode(NamedTuple):
    """A knob with a value, to count by.

    Values are compared by type too: 1, 1.0 and True are three. A list or an object is a value like any other.
    In a dictionary a plain pair finds its mode, with tuples for lists.
    """

    knob: str
    value: Any

    def __eq__(self, other: object) -> bool:
        """Whether knob and value are the same, by type too."""
        if not isinstance(other, tuple) or len(other) != 2:
            return NotImplemented
        return bool(self.knob == other[0]) and _type_strict_key(self.value) == _type_strict_key(other[1])

    def __ne__(self, other: object) -> bool:
        """Whether knob or value differ."""
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __hash__(self) -> int:
        """Returns the hash of the plain pair, so that a plain pair finds the mode."""
        return hash((self.knob, _hashable(self.value)))


@dataclass
class Trajectory:
    """The iterations of a search loop with their scores.

    No method changes it, so threads may share it. Scores that are NaN or infinite are kept as they were
    written, and never count as a best: see `unmeasured`.
    """

    iters: list[TrajectoryIter]
    """In the order of the file."""
    baseline: float | None = None
    """The score before the first change."""
    score_field: str = "val_bpb"
    """The field of a row that has its score."""
    lower_is_better: bool = True
    header: dict[str, Any] = field(default_factory=dict)
    """The first row when it has no "iter"; what the loop wrote about itself."""
    dropped: tuple[DroppedRow, ...] = ()
    """Lines that are damaged or incomplete, with their reasons, in the order of the file."""
    other_stages: dict[str, int] = field(default_factory=dict)
    """How many rows were of each stage but "evaluated", such as "proposed": they are no damage."""

    def __repr__(self) -> str:
        return f"<Trajectory of {self.score_field!r}: {len(self.iters)} iterations>"

    @classmethod
    def from_jsonl(
        cls, path: str | Path, *, score_field: str = "val_bpb", lower_is_better: bool = True
    ) -> Trajectory:
        """Reads a file of JSON Lines. Lines that cannot be used are left out, and in `dropped`.

        The first row is the header when it has no "iter"; its "baseline_<score_field>" is the baseline.
        Each other row: {"iter": 3, "proposal": {"knob": "lr", "new_value": 0.1}, "decision": "keep",
        "<score_field>": 1.31, "stage": "evaluated"}. Numbers may be written as texts.

        Args:
            path: the file, in UTF-8.
            score_field: the field that has the score.
            lower_is_better: False where a higher score is better.

        Raises:
            OSError: the file cannot be read.
        """
        iters: list[TrajectoryIter] = []
        baseline: float | None = None
        header: dict[str, Any] = {}
        dropped: list[DroppedRow] = []
        other_stages = Counter[str]()
        for place, (line, row) in enumerate(read_object_rows(path, dropped)):
            try:
                if place == 0 and "iter" not in row:
                    header = row
                    baseline = _parse_baseline(row, f"baseline_{score_field}")
                elif row.get("stage") not in (None, "evaluated"):
                    other_stages[str(row["stage"])] += 1
                else:
                    iters.append(_parse_iteration(row, score_field))
            except ValueError as error:
                dropped.append(DroppedRow(line, str(error)))
        return cls(
            iters=iters,
            baseline=baseline,
            score_field=score_field,
            lower_is_better=lower_is_better,
            header=header,
            dropped=tuple(dropped),
            other_stages=dict(other_stages),
        )

    def knob_coverage(self) -> dict[str, int]:
        """Returns how often each knob was tried, the most frequent first."""
        return dict(Counter(step.knob for step in self.iters if step.knob).most_common())

    def menu_coverage(self, all_knobs: Iterable[str]) -> dict[str, Any]:
        """Returns how much of a menu of knobs was tried.

        Args:
            all_knobs: the menu; duplicates count once.

        Returns:
            {"knobs_total": of the menu, "knobs_touched": of the menu, "knobs_touched_pct": 0 to 100 with one
            decimal, None for an empty menu, "knobs_untouched": names in the menu's order, "knobs_outside":
            {knob: count} of those that were tried and are not in the menu}.

        Raises:
            TypeError: `all_knobs` is one text.
        """
        if isinstance(all_knobs, str):
            raise TypeError(f"all_knobs must be a list of names, not the text {all_knobs!r}.")
        menu, counts = dict.fromkeys(all_knobs), self.knob_coverage()
        untouched = [knob for knob in menu if knob not in counts]
        touched = len(menu) - len(untouched)
        return {
            "knobs_total": len(menu),
            "knobs_touched": touched,
            "knobs_touched_pct": round(100 * touched / len(menu), 1) if menu else None,
            "knobs_untouched": untouched,
            "knobs_outside": {knob: count for knob, count in counts.items() if knob not in menu},
        }

    @overload
    def repeat_rate(self, *, window: None = None) -> float: ...

    @overload
    def repeat_rate(self, *, window: int) -> list[dict[str, Any]]: ...

    def repeat_rate(self, *, window: int | None = None) -> float | list[dict[str, Any]]:
        """Returns the share of iterations whose knob and value were tried before, at whatever distance.

        Args:
            window: the rate of each group of this many iterations; what was tried before it still counts.

        Returns:
            Without a window the share, 0 to 1 with three decimals, 0.0 of no iterations. With one a list of
            {"first", "last": places in the trajectory, from 1, "n": how many, "repeats": of them, "rate"};
            the last may be shorter.

        Raises:
            ValueError: `window` is below 1.
        """
        if window is not None and window < 1:
            raise ValueError(f"window must be at least 1, not {window}.")
        repeats: list[bool] = []
        earlier: set[Hashable] = set()
        for step in self.iters:
            mode = step.knob, _type_strict_key(step.value)
            repeats.append(mode in earlier)
            earlier.add(mode)
        if window is None:
            return _repeat_share(repeats)
        return [
            {
                "first": start + 1,
                "last": start + len(part),
                "n": len(part),
                "repeats": sum(part),
                "rate": _repeat_share(part),
            }
            for start in range(0, len(repeats), window)
            for part in [repeats[start : start + window]]
        ]

    def mode_dominance(self, *, top_n: int | None = None) -> dict[tuple[str, Any], float]:
        """Returns the share of each knob with a value in all iterations with a knob, the most frequent first.

        The shares of all modes add up to 1; with `top_n` they are still of all iterations. Ties are in the
        order of their first appearance. The keys are each a `Mode`, which a plain pair finds.

        Raises:
            ValueError: `top_n` is negative.
        """
        return {Mode(mode["knob"], mode["value"]): mode["share"] for mode in self.modes(top_n=top_n)}

    def modes(self, *, top_n: int | None = None) -> list[dict[str, Any]]:
        """Returns `mode_dominance` as rows {"knob", "value", "n": how often, "share": 0 to 1}.

        Raises:
            ValueError: `top_n` is negative.
        """
        if top_n is not None and top_n < 0:
            raise ValueError(f"top_n must be 0 or more, not {top_n}.")
        firsts: dict[Hashable, TrajectoryIter] = {}
        counts: Counter[Hashable] = Counter()
        for step in self.iters:
            if step.knob:
                mode = step.knob, _type_strict_key(step.value)
                firsts.setdefault(mode, step)
                counts[mode] += 1
        total = counts.total()
        return [
            {"knob": firsts[mode].knob, "value": firsts[mode].value, "n": count, "share": count / total}
            for mode, count in counts.most_common(top_n)
        ]

    def cumulative_best(self, *, baseline: float | None = None) -> list[float]:
        """Returns the best score up to and with each iteration, beginning with the baseline, if there is one.

        A score that is NaN or infinite leaves the best as it was; before anything was measured it is NaN.
        """
        best = self.baseline if baseline is None else baseline
        if best is not None and not isfinite(best):
            best = None
        bests = []
        for step in self.iters:
            if isfinite(step.score) and (best is None or self._is_better(step.score, best)):
                best = step.score
            bests.append(nan if best is None else best)
        return bests

    def keeps(self) -> list[TrajectoryIter]:
        """Returns the iterations that the loop decided to keep."""
        return [step for step in self.iters if step.decision == "keep"]

    def best(self) -> TrajectoryIter | None:
        """Returns the iteration with the best score, the first of equals; None if no score is finite."""
        candidates = [step for step in self.iters if isfinite(step.score)]
        if not candidates:
            return None
        return (min if self.lower_is_better else max)(candidates, key=lambda step: step.score)

    def unmeasured(self) -> list[TrajectoryIter]:
        """Returns the iterations whose score is NaN or infinite."""
        return [step for step in self.iters if not isfinite(step.score)]

    def summary(self, *, window: int | None = None, top_n: int | None = None) -> dict[str, Any]:
        """Returns everything above as data for JSON; NaN and infinite numbers are None.

        "best" is {"place": from 1, "iter", "score", "knob", "value", "decision"}, or None.

        Args:
            window: also the repeat rate of each group of this many iterations, as "repeat_windows".
            top_n: at most this many modes.

        Raises:
            ValueError: as `repeat_rate` and `modes`.
        """
        best = self.best()
        return {
            "score_field": self.score_field,
            "lower_is_better": self.lower_is_better,
            "iterations": len(self.iters),
            "unmeasured": len(self.unmeasured()),
            "baseline": to_plain(self.baseline),
            "best": None
            if best is None
            else {
                "place": next(place for place, step in enumerate(self.iters, 1) if step is best),
                "iter": best.iter,
                "score": best.score,
                "knob": best.knob,
                "value": to_plain(best.value),
                "decision": best.decision,
            },
            "kept": len(self.keeps()),
            "repeat_rate": self.repeat_rate(),
            **({} if window is None else {"repeat_windows": self.repeat_rate(window=window)}),
            "knobs": self.knob_coverage(),
            "modes": [mode | {"value": to_plain(mode["value"])} for mode in self.modes(top_n=top_n)],
            "cumulative_best": to_plain(self.cumulative_best()),
            "other_stages": dict(self.other_stages),
            "dropped": to_plain(self.dropped),
        }

    def chart(self) -> Chart:
        """Draws the score of each iteration as dots, the best so far as steps, and the baseline.

        Raises:
            ValueError: no score is finite.
        """
        return best_chart({"best so far": self})

    def knob_chart(self, *, top_n: int = 20) -> Chart:
        """Draws how often each knob was tried, and how often that was kept, as bars.

        Args:
            top_n: at most this many knobs, the most frequent; the title says if there are more.

        Raises:
            ValueError: no iteration has a knob.
        """
        from proctor.charts import Bar, bars

        counts, kept_counts = self.knob_coverage(), Counter(step.knob for step in self.keeps())
        drawn_knobs = list(counts)[:top_n]
        values = []
        for knob in drawn_knobs:
            values.append(Bar(knob, counts[knob], series="tried"))
            values.append(Bar(knob, kept_counts[knob], series="kept"))
        title = "How often each knob was tried"
        if len(drawn_knobs) < len(counts):
            title += f" (the {len(drawn_knobs)} most frequent of {len(counts)})"
        return bars(values, title=title, unit="iterations")

    def _is_better(self, score: float, other: float) -> bool:
        return score < other if self.lower_is_better else score > other


def _repeat_share(repeats: Sequence[bool]) -> float:
    return round(sum(repeats) / len(repeats), 3) if repeats else 0.0


def best_chart(trajectories: Mapping[str, Trajectory]) -> Chart:
    """Draws the best score so far as steps, a line for each trajectory.

    A single trajectory also has a dot for each score, and a line for its baseline.

    Args:
        trajectories: by the names of their lines; the score field is that of the first.
    """
    from proctor.charts import Point, lines

    points = [
        Point(x, best, series=name)
        for name, trajectory in trajectories.items()
        for x, best in _best_steps(trajectory)
    ]
    first = next(iter(trajectories.values()))
    dots: list[Point] = []
    if len(trajectories) == 1:
        positions = _x_positions(first)
        pairs = zip(positions, first.iters, strict=True)
        dots = [Point(x, step.score) for x, step in pairs if isfinite(step.score)]
        points += _baseline_points(first, positions)
    stride = 1 + len(dots) // _MAX_DOTS
    direction = "lower" if first.lower_is_better else "higher"
    title = f"Best {first.score_field} so far"
    if len(trajectories) == 1:
        title += f", and {'each iteration' if stride == 1 else f'one of {stride} iterations'} as a dot"
    return lines(
        points,
        title=title,
        x="iteration",
        y=f"{first.score_field} ({direction} is better)",
        steps=True,
        dots=dots[::stride],
    )


def _x_positions(trajectory: Trajectory) -> list[int]:
    """Returns the numbers of the iterations if they rise, else their places."""
    numbers = [step.iter for step in trajectory.iters]
    rising = all(before < after for before, after in pairwise(numbers))
    return numbers if rising else list(range(1, len(numbers) + 1))


def _best_steps(trajectory: Trajectory) -> list[tuple[int, float]]:
    """Returns the best score at each x; of a long trajectory only its changes and its two ends."""
    bests = zip(_x_positions(trajectory), trajectory.cumulative_best(), strict=True)
    steps = [(x, best) for x, best in bests if isfinite(best)]
    if len(steps) <= _MAX_PLAIN_STEPS:
        return steps
    inner = (after for before, after in pairwise(steps[:-1]) if before[1] != after[1])
    return [steps[0], *inner, steps[-1]]


def _baseline_points(trajectory: Trajectory, positions: list[int]) -> list[Point]:
    from proctor.charts import Point

    score = trajectory.baseline
    if score is None or not isfinite(score) or not positions:
        return []
    ends = dict.fromkeys((positions[0], positions[-1]))
    return [Point(position, score, series="baseline") for position in ends]


def _parse_baseline(header: dict[str, Any], name: str) -> float | None:
    """Returns the baseline of a header, if it has one; raises ValueError if it is not a number."""
    value = header.get(name)
    baseline = parse_number(value, float)
    if baseline is None and value is not None:
        raise ValueError(
            f"The header's {name!r} is {describe_value(value)}, which is not a number; "
            "the header is used without it."
        )
    return baseline


def _parse_iteration(row: dict[str, Any], score_field: str) -> TrajectoryIter:
    """Returns the iteration of a row; raises ValueError with a sentence if the row cannot be used."""
    if "iter" not in row:
        raise ValueError("The row has no 'iter'; only the first row can be a header.")
    proposal = row.get("proposal")
    if proposal is None:
        proposal = {}
    if not isinstance(proposal, dict):
        raise ValueError(f"'proposal' is {describe_value(proposal)}, not an object.")
    if _is_deep(proposal):
        raise ValueError(f"'proposal' is nested more than {_MAX_DEPTH} levels deep.")
    return TrajectoryIter(
        iter=int(_parse_number(row, "iter", int)),
        knob=_to_text(proposal.get("knob")),
        value=proposal.get("new_value"),
        decision=_to_text(row.get("decision")),
        score=_parse_number(row, score_field, float),
        raw=row,
    )


def _parse_number(row: dict[str, Any], name: str, kind: type[int] | type[float]) -> float:
    value = row.get(name)
    if value is None:
        raise ValueError(f"The iteration has no {name!r}.")
    number = parse_number(value, kind)
    if number is None:
        raise ValueError(f"{name!r} is {describe_value(value)}, not a number.")
    return number


def _to_text(value: Any) -> str:
    return "" if value is None else str(value)


def _is_deep(value: Any) -> bool:
    """Whether it is nested so deeply that writing it could exhaust the stack."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        groups = [
            value.values() if isinstance(value, dict) else value
            for value in level
            if isinstance(value, (list, dict))
        ]
        if not groups:
            return False
        level = [item for group in groups for item in group]
    return True


def _type_strict_key(value: Any) -> Hashable:
    """Returns a key that is equal for values of the same type only: 1, 1.0 and True differ, NaN is NaN."""
    if isinstance(value, list | tuple):
        return "list", tuple(map(_type_strict_key, value))
    if isinstance(value, dict):
        return "object", frozenset((name, _type_strict_key(item)) for name, item in value.items())
    if isinstance(value, float) and isnan(value):
        return "NaN"
    try:
        hash(value)
    except TypeError:  # made in Python; JSON has no such value
        return type(value), repr(value)
    return type(value), value


def _hashable(value: Any) -> Hashable:
    """Returns the value itself if it can be a key, with tuples for lists."""
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    if isinstance(value, float) and isnan(value):  # each such object has a hash of its own
        return "NaN"
    try:
        hash(value)
    except TypeError:
        return _type_strict_key(value)
    return value  # type: ignore[no-any-return]

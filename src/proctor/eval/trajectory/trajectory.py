"""What a search loop tried, one proposal after another: which knobs, how often again, how good so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from proctor.eval.json_files import plain
from proctor.eval.jsonl_rows import DroppedRow, objects_of
from proctor.eval.trajectory.rows import Mode, Reading, TrajectoryIter, identity

if TYPE_CHECKING:
    from proctor.charts import Chart

__all__ = ["Mode", "Trajectory", "TrajectoryIter"]


@dataclass
class Trajectory:
    """The iterations of a search loop with their scores.

    Nothing here changes it, so that threads may share it. Scores that are NaN or infinite are kept as they
    were written, and never count as a best: see `unmeasured`.
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
        """The trajectory in a file of JSON Lines. Lines that cannot be used are left out, and in `dropped`.

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
        reading = Reading(score_field)
        for number, row in objects_of(path, reading.dropped):
            reading.add(number, row)
        return cls(
            iters=reading.iters,
            baseline=reading.baseline,
            score_field=score_field,
            lower_is_better=lower_is_better,
            header=reading.header or {},
            dropped=tuple(reading.dropped),
            other_stages=reading.other_stages,
        )

    def knob_coverage(self) -> dict[str, int]:
        """How often each knob was tried, the most frequent first; iterations without a knob do not count."""
        return dict(Counter(one.knob for one in self.iters if one.knob).most_common())

    def menu_coverage(self, all_knobs: Iterable[str]) -> dict[str, Any]:
        """How much of a menu of knobs was tried.

        Args:
            all_knobs: the menu; what stands there twice counts once.

        Returns:
            {"knobs_total": of the menu, "knobs_touched": of the menu, "knobs_touched_pct": 0 to 100 with one
            decimal, None of an empty menu, "knobs_untouched": names in the menu's order, "knobs_outside":
            {knob: count} of those that were tried and are not in the menu}.

        Raises:
            TypeError: `all_knobs` is one text.
        """
        if isinstance(all_knobs, str):
            raise TypeError(f"all_knobs must be names, not the one text {all_knobs!r}. Give a list.")
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
        """The share of iterations whose knob and value were tried before, at whatever distance.

        Args:
            window: look at so many iterations at a time. What was tried before a window still counts.

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
        seen: set[Hashable] = set()
        for one in self.iters:
            mode = one.knob, identity(one.value)
            repeats.append(mode in seen)
            seen.add(mode)
        if window is None:
            return _rate(repeats)
        return [
            {
                "first": start + 1,
                "last": start + len(part),
                "n": len(part),
                "repeats": sum(part),
                "rate": _rate(part),
            }
            for start in range(0, len(repeats), window)
            for part in [repeats[start : start + window]]
        ]

    def mode_dominance(self, *, top_n: int | None = None) -> dict[tuple[str, Any], float]:
        """Each knob with a value, and its share of all iterations that have a knob; the most frequent first.

        The shares of all modes add up to 1; with `top_n` they are still of all iterations. Ties stand in the
        order of their first appearance. The keys are each a `Mode`, which a plain pair finds.

        Args:
            top_n: only so many.

        Raises:
            ValueError: `top_n` is negative.
        """
        return {Mode(one["knob"], one["value"]): one["share"] for one in self.modes(top_n=top_n)}

    def modes(self, *, top_n: int | None = None) -> list[dict[str, Any]]:
        """As `mode_dominance`, as rows {"knob", "value", "n": how often, "share": 0 to 1}.

        Raises:
            ValueError: `top_n` is negative.
        """
        if top_n is not None and top_n < 0:
            raise ValueError(f"top_n must be 0 or more, not {top_n}.")
        firsts: dict[Hashable, TrajectoryIter] = {}
        counts: Counter[Hashable] = Counter()
        for one in self.iters:
            if one.knob:
                mode = one.knob, identity(one.value)
                firsts.setdefault(mode, one)
                counts[mode] += 1
        total = counts.total()
        return [
            {"knob": firsts[mode].knob, "value": firsts[mode].value, "n": count, "share": count / total}
            for mode, count in counts.most_common(top_n)
        ]

    def cumulative_best(self, *, baseline: float | None = None) -> list[float]:
        """The best score up to and with each iteration, beginning with the baseline.

        A score that is NaN or infinite leaves the best as it was; before anything was measured it is NaN.

        Args:
            baseline: instead of the trajectory's own.
        """
        best = self.baseline if baseline is None else baseline
        if best is not None and not isfinite(best):
            best = None
        bests = []
        for one in self.iters:
            if isfinite(one.score) and (best is None or self._is_better(one.score, best)):
                best = one.score
            bests.append(nan if best is None else best)
        return bests

    def keeps(self) -> list[TrajectoryIter]:
        """The iterations that the loop decided to keep."""
        return [one for one in self.iters if one.decision == "keep"]

    def best(self) -> TrajectoryIter | None:
        """The iteration with the best score, the first of equals; None when none has a finite score."""
        measured = [one for one in self.iters if isfinite(one.score)]
        if not measured:
            return None
        return (min if self.lower_is_better else max)(measured, key=lambda one: one.score)

    def unmeasured(self) -> list[TrajectoryIter]:
        """The iterations whose score is NaN or infinite."""
        return [one for one in self.iters if not isfinite(one.score)]

    def summary(self, *, window: int | None = None, top_n: int | None = None) -> dict[str, Any]:
        """Everything above as data for JSON; what is NaN or infinite is None.

        "best" is {"place": from 1, "iter", "score", "knob", "value", "decision"}, or None.

        Args:
            window: also the repeat rate of each so many iterations, as "repeat_windows".
            top_n: only so many modes.

        Raises:
            ValueError: as `repeat_rate` and `modes`.
        """
        best = self.best()
        return {
            "score_field": self.score_field,
            "lower_is_better": self.lower_is_better,
            "iterations": len(self.iters),
            "unmeasured": len(self.unmeasured()),
            "baseline": plain(self.baseline),
            "best": None if best is None else self._told(best),
            "kept": len(self.keeps()),
            "repeat_rate": self.repeat_rate(),
            **({} if window is None else {"repeat_windows": self.repeat_rate(window=window)}),
            "knobs": self.knob_coverage(),
            "modes": [one | {"value": plain(one["value"])} for one in self.modes(top_n=top_n)],
            "cumulative_best": plain(self.cumulative_best()),
            "other_stages": dict(self.other_stages),
            "dropped": plain(self.dropped),
        }

    def chart(self) -> Chart:
        """The score of each iteration as dots, the best so far as steps, and the baseline.

        Raises:
            ValueError: no score is finite.
        """
        from proctor.eval.trajectory.charts import best_chart  # seldom needed

        return best_chart({"best so far": self})

    def knob_chart(self, *, top_n: int = 20) -> Chart:
        """Bars of how often each knob was tried, and how often that was kept.

        Args:
            top_n: only so many knobs, the most frequent; the title tells when there are more.

        Raises:
            ValueError: no iteration has a knob.
        """
        from proctor.eval.trajectory.charts import knob_chart

        return knob_chart(self, top_n)

    def _told(self, one: TrajectoryIter) -> dict[str, Any]:
        return {
            "place": next(place for place, other in enumerate(self.iters, 1) if other is one),
            "iter": one.iter,
            "score": one.score,
            "knob": one.knob,
            "value": plain(one.value),
            "decision": one.decision,
        }

    def _is_better(self, score: float, other: float) -> bool:
        return score < other if self.lower_is_better else score > other


def _rate(repeats: Sequence[bool]) -> float:
    return round(sum(repeats) / len(repeats), 3) if repeats else 0.0

"""Two rollouts of the same tasks, side by side: a baseline and a candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from proctor.eval.jsonl_rows import DroppedRow
from proctor.eval.matched.rows import Outcome, Rows, outcomes_of

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.matched.paired import Paired

_GROUP = ("n", "passed", "n_assertions_passed", "n_assertions_total")


def persona_of(task_id: str) -> str:
    """What stands between the first and the last part of an id: "synth-tax-lawyer-03" gives "tax-lawyer".

    Parts are separated by "-"; an id of fewer than three is its own group.
    """
    parts = task_id.split("-")
    return "-".join(parts[1:-1]) if len(parts) >= 3 else task_id


@dataclass(frozen=True, slots=True)
class GroupStats:
    """The counts of one rollout."""

    n: int
    """Tasks."""
    n_passed: int
    """Tasks that passed."""
    n_assertions_passed: int
    n_assertions_total: int
    by_group: dict[str, dict[str, int]]
    """{group: {"n", "passed", "n_assertions_passed", "n_assertions_total"}}; empty without an extractor."""
    by_kind: dict[str, dict[str, int]]
    """{kind of assertion: {"n", "passed"}}."""
    stops: dict[str, int]
    """How many rollouts ended for which reason; "?" where the row does not say."""
    mean_turns: float
    """A row without n_turns, or with none that is finite, counts as 0."""
    mean_wall: float
    """Seconds; as for the turns."""
    dropped: tuple[DroppedRow, ...] = ()
    """Rows that could not be used and count nowhere above."""

    def task_pass_pct(self) -> float:
        """Per cent of the tasks that passed; 0.0 of none."""
        return _per_cent(self.n_passed, self.n)

    def assertion_pass_pct(self) -> float:
        """Per cent of the assertions that passed; 0.0 of none."""
        return _per_cent(self.n_assertions_passed, self.n_assertions_total)

    def to_dict(self) -> dict[str, Any]:
        """As data for JSON: the fields but `dropped`, sorted by key inside, with both shares in per cent."""
        return {
            "n": self.n,
            "n_passed": self.n_passed,
            "n_assertions_passed": self.n_assertions_passed,
            "n_assertions_total": self.n_assertions_total,
            "task_pass_pct": round(self.task_pass_pct(), 2),
            "assertion_pass_pct": round(self.assertion_pass_pct(), 2),
            "by_group": {group: dict(counts) for group, counts in sorted(self.by_group.items())},
            "by_kind": {kind: dict(counts) for kind, counts in sorted(self.by_kind.items())},
            "stops": dict(sorted(self.stops.items())),
            "mean_turns": _rounded(self.mean_turns),
            "mean_wall": _rounded(self.mean_wall),
        }


@dataclass(frozen=True, slots=True)
class MatchedBaseComparisonResult:
    """A baseline and a candidate with their differences, candidate minus baseline."""

    baseline: GroupStats
    candidate: GroupStats
    overall_delta: dict[str, float]
    """"delta_task_pp", "delta_assertion_pp" in percentage points, "delta_mean_turns", "delta_mean_wall"."""
    per_group: list[dict[str, Any]]
    """{"group", "n": the larger of both sides, "baseline_task_pct", "candidate_task_pct", "delta_task_pp",
    "baseline_assertion_pct", "candidate_assertion_pct", "delta_assertion_pp"}; no tasks are 0.0."""
    per_kind: list[dict[str, Any]]
    """{"kind", "baseline_pct", "candidate_pct", "delta_pp", "n": the larger of both sides}."""
    baseline_outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    """What each row of the baseline came to."""
    candidate_outcomes: tuple[Outcome, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        old, new, delta = self.baseline, self.candidate, self.overall_delta.get("delta_task_pp", 0.0)
        return (
            f"<MatchedBaseComparisonResult: {old.n_passed}/{old.n} to {new.n_passed}/{new.n} tasks passed, "
            f"{delta:+.1f} pp>"
        )

    def _repr_html_(self) -> str:
        from proctor.eval.matched.report import html_of

        return html_of(self)

    def to_dict(self) -> dict[str, Any]:
        """As data for JSON; `paired().to_dict()` has what is compared task by task."""
        return {
            "baseline": self.baseline.to_dict(),
            "candidate": self.candidate.to_dict(),
            "overall_delta": {name: _rounded(delta) for name, delta in self.overall_delta.items()},
            "per_group": [dict(row) for row in self.per_group],
            "per_kind": [dict(row) for row in self.per_kind],
        }

    def paired(self) -> Paired:
        """The tasks of both sides joined by their ids, with a test and intervals of the differences."""
        from proctor.eval.matched.paired import paired_of  # the statistics are seldom needed

        return paired_of(self.baseline_outcomes, self.candidate_outcomes)

    def report(self) -> str:
        """Markdown: a table of the whole, of groups and kinds; then pairs, intervals, and what is amiss."""
        from proctor.eval.matched.report import report_of

        return report_of(self)

    def chart(self, *, top_n: int = 20) -> Chart:
        """Bars of the share of tasks that passed, of all and by group, with 95 % Wilson intervals.

        Args:
            top_n: only so many groups, the largest; the title tells when there are more.

        Raises:
            ValueError: there are no tasks.
        """
        from proctor.eval.matched.report import chart_of

        return chart_of(self, top_n)


@dataclass
class MatchedBaseComparison:
    """Compares two rollouts over the same tasks. It holds nothing but its setting: threads may share it.

    A row: {"task_id": "synth-lawyer-03", "final_grade": {"passed": true, "n_passed": 3, "n_total": 3,
    "assertions": [{"kind": "file_exists", "passed": true}]}, "stopped": "task_complete", "n_turns": 5,
    "wall_seconds": 12.3}. Whatever is missing counts as failed, 0 or "?".
    """

    group_extractor: Callable[[str], str] | None = persona_of
    """The group of a task id; None for no groups."""

    def stats(self, rows: Rows) -> GroupStats:
        """The counts of one rollout.

        Args:
            rows: rows, or the path of a file of JSON Lines.

        Raises:
            OSError: the file cannot be read.
            TypeError: `rows` is a single row, or no rows at all.
        """
        return self._counted(rows)[0]

    def compare(self, baseline: Rows, candidate: Rows) -> MatchedBaseComparisonResult:
        """Both rollouts with their differences, candidate minus baseline.

        Args:
            baseline: rows, or the path of a file of JSON Lines.
            candidate: as the baseline.

        Raises:
            OSError: a file cannot be read.
            TypeError: one of them is a single row, or no rows at all.
        """
        old, old_outcomes = self._counted(baseline)
        new, new_outcomes = self._counted(candidate)
        delta = {
            "delta_task_pp": new.task_pass_pct() - old.task_pass_pct(),
            "delta_assertion_pp": new.assertion_pass_pct() - old.assertion_pass_pct(),
            "delta_mean_turns": new.mean_turns - old.mean_turns,
            "delta_mean_wall": new.mean_wall - old.mean_wall,
        }
        return MatchedBaseComparisonResult(
            baseline=old,
            candidate=new,
            overall_delta=delta,
            per_group=[_group_row(group, old, new) for group in sorted({*old.by_group, *new.by_group})],
            per_kind=[_kind_row(kind, old, new) for kind in sorted({*old.by_kind, *new.by_kind})],
            baseline_outcomes=old_outcomes,
            candidate_outcomes=new_outcomes,
        )

    def _counted(self, rows: Rows) -> tuple[GroupStats, tuple[Outcome, ...]]:
        dropped: list[DroppedRow] = []
        outcomes = tuple(outcomes_of(rows, dropped))
        by_group: dict[str, dict[str, int]] = {}
        by_kind: dict[str, dict[str, int]] = {}
        stops: dict[str, int] = {}
        for one in outcomes:
            stops[one.stopped] = stops.get(one.stopped, 0) + 1
            if self.group_extractor is not None:
                counts = by_group.setdefault(str(self.group_extractor(one.task_id)), dict.fromkeys(_GROUP, 0))
                _add(counts, zip(_GROUP, (1, one.passed, one.n_passed, one.n_total), strict=True))
            for kind, passed in one.kinds:
                _add(by_kind.setdefault(kind, {"n": 0, "passed": 0}), (("n", 1), ("passed", passed)))
        stats = GroupStats(
            n=len(outcomes),
            n_passed=sum(one.passed for one in outcomes),
            n_assertions_passed=sum(one.n_passed for one in outcomes),
            n_assertions_total=sum(one.n_total for one in outcomes),
            by_group=by_group,
            by_kind=by_kind,
            stops=stops,
            mean_turns=_mean(one.n_turns for one in outcomes),
            mean_wall=_mean(one.wall_seconds for one in outcomes),
            dropped=tuple(dropped),
        )
        return stats, outcomes


def _add(counts: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for name, amount in more:
        counts[name] += int(amount)


def _group_row(group: str, old: GroupStats, new: GroupStats) -> dict[str, Any]:
    nothing = dict.fromkeys(_GROUP, 0)
    before, after = old.by_group.get(group, nothing), new.by_group.get(group, nothing)
    tasks = [_per_cent(side["passed"], side["n"]) for side in (before, after)]
    asserted = [
        _per_cent(side["n_assertions_passed"], side["n_assertions_total"]) for side in (before, after)
    ]
    return {
        "group": group,
        "n": max(before["n"], after["n"]),
        "baseline_task_pct": round(tasks[0], 2),
        "candidate_task_pct": round(tasks[1], 2),
        "delta_task_pp": round(tasks[1] - tasks[0], 2),
        "baseline_assertion_pct": round(asserted[0], 2),
        "candidate_assertion_pct": round(asserted[1], 2),
        "delta_assertion_pp": round(asserted[1] - asserted[0], 2),
    }


def _kind_row(kind: str, old: GroupStats, new: GroupStats) -> dict[str, Any]:
    nothing = {"n": 0, "passed": 0}
    before, after = old.by_kind.get(kind, nothing), new.by_kind.get(kind, nothing)
    shares = [_per_cent(side["passed"], side["n"]) for side in (before, after)]
    return {
        "kind": kind,
        "baseline_pct": round(shares[0], 2),
        "candidate_pct": round(shares[1], 2),
        "delta_pp": round(shares[1] - shares[0], 2),
        "n": max(before["n"], after["n"]),
    }


def _per_cent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _rounded(value: float) -> float | None:
    """With two decimals; None for what JSON does not have, which a mean of huge numbers can come to."""
    return round(value, 2) if isfinite(value) else None


def _mean(amounts: Iterable[float | None]) -> float:
    """The mean, where what is missing counts as 0."""
    known = [amount or 0.0 for amount in amounts]
    return sum(known) / len(known) if known else 0.0

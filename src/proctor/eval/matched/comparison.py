"""Two rollouts of the same tasks, side by side: a baseline and a candidate, with report and chart.

Counts and rounded differences are those of fieldkit.eval, where what is missing is 0; tasks that are joined
by id are tested as in `proctor.comparison`, by `proctor.stats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from proctor.eval.jsonl_rows import DroppedRow
from proctor.eval.matched.paired import PairedTasks, format_ids, pair_outcomes
from proctor.eval.matched.rows import RowSource, TaskOutcome, read_outcomes
from proctor.eval.tables import NO_VALUE, html_table, markdown_table
from proctor.plurals import pluralize
from proctor.safe_text import markdown_text
from proctor.stats import wilson

if TYPE_CHECKING:
    from proctor.charts import Bar, Chart

_MAX_DROPPED = 5
"""How many dropped rows of each side are written out."""


def extract_persona(task_id: str) -> str:
    """Returns the middle parts of an id: "synth-tax-lawyer-03" gives "tax-lawyer".

    Parts are separated by "-"; an id of fewer than three parts is its own group.
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
    """How many rollouts ended for each reason; "?" if the row does not say."""
    mean_turns: float
    """A row without n_turns, or with none that is finite, counts as 0."""
    mean_wall: float
    """Seconds; as for the turns."""
    dropped: tuple[DroppedRow, ...] = ()
    """Rows that could not be used; they are in none of the counts."""

    def task_pass_pct(self) -> float:
        """Returns the per cent of the tasks that passed; 0.0 without tasks."""
        return _per_cent(self.n_passed, self.n)

    def assertion_pass_pct(self) -> float:
        """Returns the per cent of the assertions that passed; 0.0 without assertions."""
        return _per_cent(self.n_assertions_passed, self.n_assertions_total)

    def to_dict(self) -> dict[str, Any]:
        """Returns data for JSON: the fields but `dropped`, sorted by key, and both shares in per cent."""
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
            "mean_turns": _round_or_none(self.mean_turns),
            "mean_wall": _round_or_none(self.mean_wall),
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
    baseline_outcomes: tuple[TaskOutcome, ...] = field(default=(), repr=False)
    """The result of each row of the baseline."""
    candidate_outcomes: tuple[TaskOutcome, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        old, new, delta = self.baseline, self.candidate, self.overall_delta.get("delta_task_pp", 0.0)
        return (
            f"<MatchedBaseComparisonResult: {old.n_passed}/{old.n} to {new.n_passed}/{new.n} tasks passed, "
            f"{delta:+.1f} pp>"
        )

    def _repr_html_(self) -> str:
        old, new, delta = self.baseline, self.candidate, self.overall_delta
        overall = [
            *_overall_rows(self, "tasks passed", "assertions passed"),
            ("mean turns", old.mean_turns, new.mean_turns, delta["delta_mean_turns"]),
            ("mean seconds", old.mean_wall, new.mean_wall, delta["delta_mean_wall"]),
        ]
        groups = [
            (row["group"], row["baseline_task_pct"], row["candidate_task_pct"], row["delta_task_pp"])
            for row in self.per_group
        ]
        kinds = [
            (row["kind"], row["baseline_pct"], row["candidate_pct"], row["delta_pp"]) for row in self.per_kind
        ]
        return "".join(
            html_table(title, [first, "baseline", "candidate", "difference"], rows)
            for title, first, rows in (
                ("Matched-base comparison", "", overall),
                ("Tasks passed by group, in per cent", "group", groups),
                ("Assertions passed by kind, in per cent", "kind", kinds),
            )
            if rows
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns data for JSON; `paired().to_dict()` has what is compared task by task."""
        return {
            "baseline": self.baseline.to_dict(),
            "candidate": self.candidate.to_dict(),
            "overall_delta": {name: _round_or_none(delta) for name, delta in self.overall_delta.items()},
            "per_group": [dict(row) for row in self.per_group],
            "per_kind": [dict(row) for row in self.per_kind],
        }

    def paired(self) -> PairedTasks:
        """Joins the tasks of both sides by their ids, with a test and intervals of the differences."""
        return pair_outcomes(self.baseline_outcomes, self.candidate_outcomes)

    def report(self) -> str:
        """Returns Markdown: tables of the totals, groups and kinds; then pairs, intervals and notes."""
        intervals = markdown_table(
            ["", "baseline", "95 % interval", "candidate", "95 % interval"], _interval_rows(self)
        )
        sections = [
            *_share_sections(self),
            self.paired().report(),
            "**Each share with its 95 % interval over tasks**",
            "\n".join(intervals),
        ]
        notes = [f"- {note}" for note in _describe_gaps(self)]
        return "\n\n".join([*sections, *(["**Notes**", "\n".join(notes)] if notes else [])])

    def chart(self, *, top_n: int = 20) -> Chart:
        """Draws the share of tasks that passed, of all and by group, as bars with 95 % Wilson intervals.

        Args:
            top_n: at most this many groups, the largest; the title says if there are more.

        Raises:
            ValueError: there are no tasks.
        """
        from proctor.charts import bars

        sides = (("baseline", self.baseline), ("candidate", self.candidate))
        values = [
            bar for name, side in sides for bar in _share_bars("all tasks", side.n_passed, side.n, name)
        ]
        groups = sorted(self.per_group, key=lambda row: -row["n"])[:top_n]
        for row in groups:
            label = f"{row['group'] or '(empty)'} (n = {row['n']})"
            for name, side in sides:
                counts = side.by_group.get(row["group"], _NO_COUNTS)
                values += _share_bars(label, counts["passed"], counts["n"], name)
        title = "Tasks that passed, with 95 % intervals"
        if len(groups) < len(self.per_group):
            title += f" (the {len(groups)} largest of {len(self.per_group)} groups)"
        return bars(values, title=title, unit="tasks passed", scale="share")


@dataclass
class MatchedBaseComparison:
    """Compares two rollouts over the same tasks. Threads may share it.

    A row: {"task_id": "synth-lawyer-03", "final_grade": {"passed": true, "n_passed": 3, "n_total": 3,
    "assertions": [{"kind": "file_exists", "passed": true}]}, "stopped": "task_complete", "n_turns": 5,
    "wall_seconds": 12.3}. Whatever is missing counts as failed, 0 or "?".
    """

    group_extractor: Callable[[str], str] | None = extract_persona
    """The group of a task id; None for no groups."""

    def stats(self, rows: RowSource) -> GroupStats:
        """Counts the tasks and assertions of one rollout.

        Raises:
            OSError: the file cannot be read.
            TypeError: `rows` is a single row, or no rows at all.
        """
        return self._count(rows)[0]

    def compare(self, baseline: RowSource, candidate: RowSource) -> MatchedBaseComparisonResult:
        """Compares two rollouts; differences are candidate minus baseline.

        Raises:
            OSError: a file cannot be read.
            TypeError: one of them is a single row, or no rows at all.
        """
        old, old_outcomes = self._count(baseline)
        new, new_outcomes = self._count(candidate)
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

    def _count(self, rows: RowSource) -> tuple[GroupStats, tuple[TaskOutcome, ...]]:
        dropped: list[DroppedRow] = []
        outcomes = tuple(read_outcomes(rows, dropped))
        by_group: dict[str, dict[str, int]] = {}
        by_kind: dict[str, dict[str, int]] = {}
        for outcome in outcomes:
            if self.group_extractor is not None:
                counts = by_group.setdefault(
                    str(self.group_extractor(outcome.task_id)),
                    {"n": 0, "passed": 0, "n_assertions_passed": 0, "n_assertions_total": 0},
                )
                counts["n"] += 1
                counts["passed"] += outcome.passed
                counts["n_assertions_passed"] += outcome.n_passed
                counts["n_assertions_total"] += outcome.n_total
            for kind, passed in outcome.kinds:
                counts = by_kind.setdefault(kind, {"n": 0, "passed": 0})
                counts["n"] += 1
                counts["passed"] += passed
        stats = GroupStats(
            n=len(outcomes),
            n_passed=sum(outcome.passed for outcome in outcomes),
            n_assertions_passed=sum(outcome.n_passed for outcome in outcomes),
            n_assertions_total=sum(outcome.n_total for outcome in outcomes),
            by_group=by_group,
            by_kind=by_kind,
            stops=dict(Counter(outcome.stopped for outcome in outcomes)),
            mean_turns=_mean(outcome.n_turns for outcome in outcomes),
            mean_wall=_mean(outcome.wall_seconds for outcome in outcomes),
            dropped=tuple(dropped),
        )
        return stats, outcomes


_NO_COUNTS: Mapping[str, int] = Counter()
"""The counts of a group or kind that a side does not have."""


def _group_row(group: str, old: GroupStats, new: GroupStats) -> dict[str, Any]:
    before, after = old.by_group.get(group, _NO_COUNTS), new.by_group.get(group, _NO_COUNTS)
    assertions = ("n_assertions_passed", "n_assertions_total")
    return {
        "group": group,
        "n": max(before["n"], after["n"]),
        **_compare_shares(before, after, "passed", "n", "task_"),
        **_compare_shares(before, after, *assertions, "assertion_"),
    }


def _kind_row(kind: str, old: GroupStats, new: GroupStats) -> dict[str, Any]:
    before, after = old.by_kind.get(kind, _NO_COUNTS), new.by_kind.get(kind, _NO_COUNTS)
    shares = _compare_shares(before, after, "passed", "n")
    return {"kind": kind, **shares, "n": max(before["n"], after["n"])}


def _compare_shares(
    before: Mapping[str, int], after: Mapping[str, int], passed: str, total: str, prefix: str = ""
) -> dict[str, float]:
    """Returns both sides' shares in per cent and their difference, under names with this prefix."""
    old, new = (_per_cent(counts[passed], counts[total]) for counts in (before, after))
    return {
        f"baseline_{prefix}pct": round(old, 2),
        f"candidate_{prefix}pct": round(new, 2),
        f"delta_{prefix}pp": round(new - old, 2),
    }


def _per_cent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


def _round_or_none(value: float) -> float | None:
    """Returns two decimals; None for what JSON cannot hold, such as the mean of huge numbers."""
    return round(value, 2) if isfinite(value) else None


def _mean(amounts: Iterable[float | None]) -> float:
    """Returns the mean; a missing amount counts as 0."""
    values = [amount or 0.0 for amount in amounts]
    return sum(values) / len(values) if values else 0.0


# --- the report --------------------------------------------------------------------------------------------


def _share_sections(result: MatchedBaseComparisonResult) -> Iterator[str]:
    old, new, delta = result.baseline, result.candidate, result.overall_delta
    overall = [
        *_overall_rows(result, "task pass", "per-assertion"),
        ("mean turns", f"{old.mean_turns:.2f}", f"{new.mean_turns:.2f}", f"{delta['delta_mean_turns']:+.2f}"),
        ("mean wall (s)", f"{old.mean_wall:.2f}", f"{new.mean_wall:.2f}", f"{delta['delta_mean_wall']:+.2f}"),
    ]
    yield "### Matched-base comparison"
    yield "\n".join(markdown_table(["metric", "baseline", "candidate", "Δ"], overall))
    if result.per_group:
        yield "**Per group**"
        columns = ["group", "base task%", "cand task%", "Δ pp", "base asrt%", "cand asrt%", "Δ pp"]
        rows = ((row["group"], *_share_cells(row, "task_", "assertion_")) for row in result.per_group)
        yield "\n".join(markdown_table(columns, rows))
    if result.per_kind:
        yield "**Per assertion kind**"
        kinds = ((row["kind"], *_share_cells(row, "")) for row in result.per_kind)
        yield "\n".join(markdown_table(["kind", "base", "candidate", "Δ pp"], kinds))


def _overall_rows(
    result: MatchedBaseComparisonResult, tasks: str, assertions: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the rows of the tasks and of the assertions that passed, under these names."""
    sides = (result.baseline, result.candidate)
    return (
        (
            tasks,
            *(f"{side.n_passed}/{side.n} ({side.task_pass_pct():.1f}%)" for side in sides),
            f"{result.overall_delta['delta_task_pp']:+.1f} pp",
        ),
        (
            assertions,
            *(
                f"{side.n_assertions_passed}/{side.n_assertions_total} ({side.assertion_pass_pct():.1f}%)"
                for side in sides
            ),
            f"{result.overall_delta['delta_assertion_pp']:+.1f} pp",
        ),
    )


def _share_cells(row: Mapping[str, Any], *prefixes: str) -> Iterator[str]:
    for prefix in prefixes:
        yield f"{row[f'baseline_{prefix}pct']:.1f}%"
        yield f"{row[f'candidate_{prefix}pct']:.1f}%"
        yield f"{row[f'delta_{prefix}pp']:+.1f}"


def _interval_rows(result: MatchedBaseComparisonResult) -> Iterator[list[str]]:
    """Yields each share of the tables with its interval.

    The assertions of a task depend on one another, so a share of assertions is treated as one over tasks.
    """
    sides = (result.baseline, result.candidate)
    yield _interval_row("task pass", [(side.n_passed, side.n, side.n) for side in sides])
    assertions = [(side.n_assertions_passed, side.n_assertions_total, side.n) for side in sides]
    yield _interval_row("per-assertion", assertions)
    for row in result.per_group:
        groups = [side.by_group.get(row["group"], _NO_COUNTS) for side in sides]
        tasks = [(counts["passed"], counts["n"], counts["n"]) for counts in groups]
        yield _interval_row(f"{row['group']}, tasks", tasks)
        assertions = [
            (counts["n_assertions_passed"], counts["n_assertions_total"], counts["n"]) for counts in groups
        ]
        yield _interval_row(f"{row['group']}, assertions", assertions)
    for row in result.per_kind:
        kind, cells = row["kind"], []
        for side, outcomes in zip(sides, (result.baseline_outcomes, result.candidate_outcomes), strict=True):
            counts = side.by_kind.get(kind, _NO_COUNTS)
            tasks_with_kind = sum(any(name == kind for name, _ in outcome.kinds) for outcome in outcomes)
            cells.append((counts["passed"], counts["n"], tasks_with_kind))
        yield _interval_row(kind, cells)


def _interval_row(name: str, sides: Iterable[tuple[int, int, int]]) -> list[str]:
    """Returns the cells of a row; each side is (passed, total, number of tasks)."""
    cells = [name]
    for passed, total, tasks in sides:
        cells.append(f"{passed}/{total}" if total else NO_VALUE)
        bounds = None
        if total and 0 <= passed <= total:
            tasks = min(tasks, total)
            bounds = wilson(min(passed / total * tasks, tasks), tasks)
        cells.append(NO_VALUE if bounds is None else f"{100 * bounds[0]:.1f} – {100 * bounds[1]:.1f}%")
    return cells


def _describe_gaps(result: MatchedBaseComparisonResult) -> Iterator[str]:
    """Yields a sentence for what each side lacks: rows, groups, kinds and measures."""
    sides = (
        ("baseline", result.baseline, result.candidate, result.baseline_outcomes),
        ("candidate", result.candidate, result.baseline, result.candidate_outcomes),
    )
    for name, side, other, outcomes in sides:
        if side.dropped:
            reasons = [f"{row.line}: {markdown_text(row.reason)}" for row in side.dropped[:_MAX_DROPPED]]
            more = len(side.dropped) - _MAX_DROPPED
            yield (
                f"{pluralize(len(side.dropped), 'row')} of the {name} could not be used and "
                f"{'is' if len(side.dropped) == 1 else 'are'} left out. "
                f"{' '.join(reasons)}{f' And {more} more.' if more > 0 else ''}"
            )
        for noun, own_counts, other_counts in (
            ("group", side.by_group, other.by_group),
            ("kind", side.by_kind, other.by_kind),
        ):
            absent = sorted(set(other_counts) - set(own_counts))
            if absent:
                ids = format_ids(absent)
                yield f"The {name} has no rows for the {noun} {ids}, so its 0.0% there measures nothing."
        for measure in ("n_turns", "wall_seconds"):
            count = sum(getattr(outcome, measure) is None for outcome in outcomes)
            if count:
                yield (
                    f"{pluralize(count, 'row')} of the {name} without a finite {measure} "
                    f"{'counts' if count == 1 else 'count'} as 0 in its mean."
                )


def _share_bars(label: str, passed: int, total: int, series: str) -> list[Bar]:
    """Returns one bar, or none without tasks."""
    from proctor.charts import Bar

    bounds = wilson(passed, total)
    return [] if bounds is None else [Bar(label, passed / total, *bounds, series=series)]

"""Two rollouts of the same tasks, side by side: a baseline and a candidate, with report and chart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any

from proctor.eval.jsonl_rows import DroppedRow
from proctor.eval.matched.paired import NO_VALUE, PairedTasks, format_ids, format_row_count, pair_outcomes
from proctor.eval.matched.rows import RowSource, TaskOutcome, read_outcomes
from proctor.safe_text import markdown_text
from proctor.stats import wilson

if TYPE_CHECKING:
    from proctor.charts import Bar, Chart

_MAX_DROPPED = 5
"""How many dropped rows of each side are written out."""
_GROUP_KEYS = ("n", "passed", "n_assertions_passed", "n_assertions_total")


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
        from proctor.eval.notebook import html_table

        old, new, delta = self.baseline, self.candidate, self.overall_delta
        overall = [
            ("tasks passed", _format_tasks(old), _format_tasks(new), f"{delta['delta_task_pp']:+.1f} pp"),
            (
                "assertions passed",
                _format_assertions(old),
                _format_assertions(new),
                f"{delta['delta_assertion_pp']:+.1f} pp",
            ),
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
        lines = list(_table_lines(self))
        if lines[-1]:
            lines.append("")
        lines += self.paired().report_lines()
        lines += ["", *_interval_lines(self)]
        notes = list(_note_lines(self))
        if notes:
            lines += ["", "**Notes**", "", *(f"- {note}" for note in notes)]
        return "\n".join(lines)

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
                counts = side.by_group.get(row["group"], {"passed": 0, "n": 0})
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

        Args:
            rows: rows, or the path of a file of JSON Lines.

        Raises:
            OSError: the file cannot be read.
            TypeError: `rows` is a single row, or no rows at all.
        """
        return self._count(rows)[0]

    def compare(self, baseline: RowSource, candidate: RowSource) -> MatchedBaseComparisonResult:
        """Compares two rollouts; differences are candidate minus baseline.

        Args:
            baseline: rows, or the path of a file of JSON Lines.
            candidate: as the baseline.

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
        stops: dict[str, int] = {}
        for outcome in outcomes:
            stops[outcome.stopped] = stops.get(outcome.stopped, 0) + 1
            if self.group_extractor is not None:
                group = str(self.group_extractor(outcome.task_id))
                counts = by_group.setdefault(group, dict.fromkeys(_GROUP_KEYS, 0))
                numbers = (1, outcome.passed, outcome.n_passed, outcome.n_total)
                _add_counts(counts, zip(_GROUP_KEYS, numbers, strict=True))
            for kind, passed in outcome.kinds:
                _add_counts(by_kind.setdefault(kind, {"n": 0, "passed": 0}), (("n", 1), ("passed", passed)))
        stats = GroupStats(
            n=len(outcomes),
            n_passed=sum(outcome.passed for outcome in outcomes),
            n_assertions_passed=sum(outcome.n_passed for outcome in outcomes),
            n_assertions_total=sum(outcome.n_total for outcome in outcomes),
            by_group=by_group,
            by_kind=by_kind,
            stops=stops,
            mean_turns=_mean(outcome.n_turns for outcome in outcomes),
            mean_wall=_mean(outcome.wall_seconds for outcome in outcomes),
            dropped=tuple(dropped),
        )
        return stats, outcomes


def _add_counts(counts: dict[str, int], more: Iterable[tuple[str, int]]) -> None:
    for name, amount in more:
        counts[name] += int(amount)


def _group_row(group: str, old: GroupStats, new: GroupStats) -> dict[str, Any]:
    no_counts = dict.fromkeys(_GROUP_KEYS, 0)
    before, after = old.by_group.get(group, no_counts), new.by_group.get(group, no_counts)
    tasks = [_per_cent(side["passed"], side["n"]) for side in (before, after)]
    assertions = [
        _per_cent(side["n_assertions_passed"], side["n_assertions_total"]) for side in (before, after)
    ]
    return {
        "group": group,
        "n": max(before["n"], after["n"]),
        "baseline_task_pct": round(tasks[0], 2),
        "candidate_task_pct": round(tasks[1], 2),
        "delta_task_pp": round(tasks[1] - tasks[0], 2),
        "baseline_assertion_pct": round(assertions[0], 2),
        "candidate_assertion_pct": round(assertions[1], 2),
        "delta_assertion_pp": round(assertions[1] - assertions[0], 2),
    }


def _kind_row(kind: str, old: GroupStats, new: GroupStats) -> dict[str, Any]:
    no_counts = {"n": 0, "passed": 0}
    before, after = old.by_kind.get(kind, no_counts), new.by_kind.get(kind, no_counts)
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


def _round_or_none(value: float) -> float | None:
    """Returns two decimals; None for what JSON cannot hold, such as the mean of huge numbers."""
    return round(value, 2) if isfinite(value) else None


def _mean(amounts: Iterable[float | None]) -> float:
    """Returns the mean; a missing amount counts as 0."""
    values = [amount or 0.0 for amount in amounts]
    return sum(values) / len(values) if values else 0.0


def _table_lines(result: MatchedBaseComparisonResult) -> Iterator[str]:
    old, new, delta = result.baseline, result.candidate, result.overall_delta
    yield "### Matched-base comparison"
    yield ""
    yield "| metric | baseline | candidate | Δ |"
    yield "|---|---:|---:|---:|"
    yield f"| task pass | {_format_tasks(old)} | {_format_tasks(new)} | {delta['delta_task_pp']:+.1f} pp |"
    assertion_delta = f"{delta['delta_assertion_pp']:+.1f} pp"
    yield f"| per-assertion | {_format_assertions(old)} | {_format_assertions(new)} | {assertion_delta} |"
    yield f"| mean turns | {old.mean_turns:.2f} | {new.mean_turns:.2f} | {delta['delta_mean_turns']:+.2f} |"
    yield f"| mean wall (s) | {old.mean_wall:.2f} | {new.mean_wall:.2f} | {delta['delta_mean_wall']:+.2f} |"
    yield ""
    if result.per_group:
        yield from ("**Per group**", "")
        yield "| group | base task% | cand task% | Δ pp | base asrt% | cand asrt% | Δ pp |"
        yield "|---|---:|---:|---:|---:|---:|---:|"
        for row in result.per_group:
            tasks = f"{row['baseline_task_pct']:.1f}% | {row['candidate_task_pct']:.1f}%"
            assertions = f"{row['baseline_assertion_pct']:.1f}% | {row['candidate_assertion_pct']:.1f}%"
            yield (
                f"| {markdown_text(row['group'])} | {tasks} | {row['delta_task_pp']:+.1f} | "
                f"{assertions} | {row['delta_assertion_pp']:+.1f} |"
            )
        yield ""
    if result.per_kind:
        yield from ("**Per assertion kind**", "")
        yield "| kind | base | candidate | Δ pp |"
        yield "|---|---:|---:|---:|"
        for row in result.per_kind:
            yield (
                f"| {markdown_text(row['kind'])} | {row['baseline_pct']:.1f}% | "
                f"{row['candidate_pct']:.1f}% | {row['delta_pp']:+.1f} |"
            )


def _format_tasks(side: GroupStats) -> str:
    return f"{side.n_passed}/{side.n} ({side.task_pass_pct():.1f}%)"


def _format_assertions(side: GroupStats) -> str:
    return f"{side.n_assertions_passed}/{side.n_assertions_total} ({side.assertion_pass_pct():.1f}%)"


def _interval_lines(result: MatchedBaseComparisonResult) -> Iterator[str]:
    """Yields the section with the interval of each share in the tables.

    The assertions of a task depend on one another, so a share of assertions is treated as one over tasks.
    """
    yield from ("**Each share with its 95 % interval over tasks**", "")
    yield "| | baseline | 95 % interval | candidate | 95 % interval |"
    yield "|---|---:|---:|---:|---:|"
    sides = (result.baseline, result.candidate)
    yield _interval_row("task pass", [(side.n_passed, side.n, side.n) for side in sides])
    assertions = [(side.n_assertions_passed, side.n_assertions_total, side.n) for side in sides]
    yield _interval_row("per-assertion", assertions)
    for row in result.per_group:
        group_counts = [side.by_group.get(row["group"], dict.fromkeys(_GROUP_KEYS, 0)) for side in sides]
        tasks = [(counts["passed"], counts["n"], counts["n"]) for counts in group_counts]
        yield _interval_row(f"{row['group']}, tasks", tasks)
        assertions = [
            (counts["n_assertions_passed"], counts["n_assertions_total"], counts["n"])
            for counts in group_counts
        ]
        yield _interval_row(f"{row['group']}, assertions", assertions)
    for row in result.per_kind:
        kind = row["kind"]
        cells = []
        for side, outcomes in zip(sides, (result.baseline_outcomes, result.candidate_outcomes), strict=True):
            counts = side.by_kind.get(kind, {"n": 0, "passed": 0})
            tasks_with_kind = sum(any(name == kind for name, _ in outcome.kinds) for outcome in outcomes)
            cells.append((counts["passed"], counts["n"], tasks_with_kind))
        yield _interval_row(kind, cells)


def _interval_row(name: str, sides: Iterable[tuple[int, int, int]]) -> str:
    """Returns a table row; each side is (passed, total, number of tasks)."""
    cells = [markdown_text(name)]
    for passed, total, tasks in sides:
        cells.append(f"{passed}/{total}" if total else NO_VALUE)
        bounds = None
        if total and 0 <= passed <= total:
            tasks = min(tasks, total)
            bounds = wilson(min(passed / total * tasks, tasks), tasks)
        cells.append(NO_VALUE if bounds is None else f"{100 * bounds[0]:.1f} – {100 * bounds[1]:.1f}%")
    return f"| {' | '.join(cells)} |"


def _note_lines(result: MatchedBaseComparisonResult) -> Iterator[str]:
    sides = (
        ("baseline", result.baseline, result.candidate, result.baseline_outcomes),
        ("candidate", result.candidate, result.baseline, result.candidate_outcomes),
    )
    for name, side, other, outcomes in sides:
        if side.dropped:
            yield _dropped_note(name, side.dropped)
        for noun, own_counts, other_counts in (
            ("group", side.by_group, other.by_group),
            ("kind", side.by_kind, other.by_kind),
        ):
            absent = sorted(set(other_counts) - set(own_counts))
            if absent:
                ids = format_ids(absent)
                yield f"The {name} has nothing of the {noun} {ids}: its 0.0% there measures nothing."
        yield from _missing_measure_notes(name, outcomes)


def _dropped_note(name: str, dropped: Sequence[DroppedRow]) -> str:
    reasons = " ".join(f"{row.line}: {markdown_text(row.reason)}" for row in dropped[:_MAX_DROPPED])
    more = len(dropped) - _MAX_DROPPED
    ending = f" And {more} more." if more > 0 else ""
    verb = "is" if len(dropped) == 1 else "are"
    return (
        f"{format_row_count(len(dropped))} of the {name} could not be used and {verb} left out. "
        f"{reasons}{ending}"
    )


def _missing_measure_notes(name: str, outcomes: Sequence[TaskOutcome]) -> Iterator[str]:
    counts = (
        ("n_turns", sum(outcome.n_turns is None for outcome in outcomes)),
        ("wall_seconds", sum(outcome.wall_seconds is None for outcome in outcomes)),
    )
    for measure, count in counts:
        if count:
            verb = "counts" if count == 1 else "count"
            yield (
                f"{format_row_count(count)} of the {name} without a finite {measure} {verb} as 0 in its mean."
            )


def _share_bars(label: str, passed: int, total: int, series: str) -> list[Bar]:
    """Returns one bar, or none without tasks."""
    from proctor.charts import Bar

    bounds = wilson(passed, total)
    return [] if bounds is None else [Bar(label, passed / total, *bounds, series=series)]

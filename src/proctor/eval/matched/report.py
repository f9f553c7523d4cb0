"""Comparisons as Markdown and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from proctor.eval.jsonl_rows import DroppedRow
from proctor.safe_text import markdown_text

if TYPE_CHECKING:
    from proctor.charts import Bar, Chart
    from proctor.eval.matched.comparison import GroupStats, MatchedBaseComparisonResult
    from proctor.eval.matched.paired import Paired, PairedDelta
    from proctor.eval.matched.rows import Outcome

MOST_IDS = 10
"""Ids of a list that are written out."""
MOST_DROPPED = 5
"""Dropped rows that are written out for each side."""
NONE = "–"


def report_of(result: MatchedBaseComparisonResult) -> str:
    """The tables of the whole, of groups and kinds; below them the pairs, intervals, and what is amiss."""
    lines = list(_tables(result))
    if lines[-1]:
        lines.append("")
    lines += paired_lines(result.paired())
    lines += ["", *interval_lines(result)]
    remarks = list(_remarks(result))
    if remarks:
        lines += ["", "**Notes**", "", *(f"- {remark}" for remark in remarks)]
    return "\n".join(lines)


def html_of(result: MatchedBaseComparisonResult) -> str:
    """The tables of the whole, of groups and kinds in HTML."""
    from proctor.eval.notebook import table

    old, new, delta = result.baseline, result.candidate, result.overall_delta
    whole = [
        ("tasks passed", _tasks(old), _tasks(new), f"{delta['delta_task_pp']:+.1f} pp"),
        ("assertions passed", _asserted(old), _asserted(new), f"{delta['delta_assertion_pp']:+.1f} pp"),
        ("mean turns", old.mean_turns, new.mean_turns, delta["delta_mean_turns"]),
        ("mean seconds", old.mean_wall, new.mean_wall, delta["delta_mean_wall"]),
    ]
    groups = [
        (row["group"], *(row[f"{side}_task_pct"] for side in ("baseline", "candidate")), row["delta_task_pp"])
        for row in result.per_group
    ]
    kinds = [
        (row["kind"], row["baseline_pct"], row["candidate_pct"], row["delta_pp"]) for row in result.per_kind
    ]
    return "".join(
        table(title, [first, "baseline", "candidate", "difference"], rows)
        for title, first, rows in (
            ("Matched-base comparison", "", whole),
            ("Tasks passed by group, in per cent", "group", groups),
            ("Assertions passed by kind, in per cent", "kind", kinds),
        )
        if rows
    )


def _tables(result: MatchedBaseComparisonResult) -> Iterator[str]:
    old, new, delta = result.baseline, result.candidate, result.overall_delta
    yield "### Matched-base comparison"
    yield ""
    yield "| metric | baseline | candidate | Δ |"
    yield "|---|---:|---:|---:|"
    yield f"| task pass | {_tasks(old)} | {_tasks(new)} | {delta['delta_task_pp']:+.1f} pp |"
    yield f"| per-assertion | {_asserted(old)} | {_asserted(new)} | {delta['delta_assertion_pp']:+.1f} pp |"
    yield f"| mean turns | {old.mean_turns:.2f} | {new.mean_turns:.2f} | {delta['delta_mean_turns']:+.2f} |"
    yield f"| mean wall (s) | {old.mean_wall:.2f} | {new.mean_wall:.2f} | {delta['delta_mean_wall']:+.2f} |"
    yield ""
    if result.per_group:
        yield from ("**Per group**", "")
        yield "| group | base task% | cand task% | Δ pp | base asrt% | cand asrt% | Δ pp |"
        yield "|---|---:|---:|---:|---:|---:|---:|"
        for row in result.per_group:
            tasks = f"{row['baseline_task_pct']:.1f}% | {row['candidate_task_pct']:.1f}%"
            asserted = f"{row['baseline_assertion_pct']:.1f}% | {row['candidate_assertion_pct']:.1f}%"
            yield (
                f"| {markdown_text(row['group'])} | {tasks} | {row['delta_task_pp']:+.1f} | "
                f"{asserted} | {row['delta_assertion_pp']:+.1f} |"
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


def _tasks(side: GroupStats) -> str:
    return f"{side.n_passed}/{side.n} ({side.task_pass_pct():.1f}%)"


def _asserted(side: GroupStats) -> str:
    return f"{side.n_assertions_passed}/{side.n_assertions_total} ({side.assertion_pass_pct():.1f}%)"


# --- pairs -------------------------------------------------------------------------------------------------


def paired_lines(paired: Paired) -> Iterator[str]:
    """The section about tasks that are on both sides."""
    yield from ("**Paired by task id**", "")
    if paired.n:
        yield f"{_tasks_are(paired.n)} on both sides. {' '.join(_unpaired(paired))}".rstrip()
        yield from ("", *_crossed(paired), "")
        yield from _changes(paired)
        yield from ("", *_deltas(paired))
    else:
        yield "No task is on both sides, so nothing is paired: the tables above compare different tasks."
        yield from _unpaired(paired)


def _unpaired(paired: Paired) -> Iterator[str]:
    for ids, side in ((paired.only_in_baseline, "baseline"), (paired.only_in_candidate, "candidate")):
        if ids:
            yield f"{_tasks_are(len(ids))} only in the {side}: {_ids(ids)}."
    for ids, side in (
        (paired.duplicates_in_baseline, "baseline"),
        (paired.duplicates_in_candidate, "candidate"),
    ):
        if ids:
            yield f"More than one row of the {side} has the id, and none is paired: {_ids(ids)}."
    rows = ((paired.without_id_in_baseline, "baseline"), (paired.without_id_in_candidate, "candidate"))
    for count, side in rows:
        if count:
            yield f"{_rows(count)} of the {side} {'has' if count == 1 else 'have'} no id."


def _crossed(paired: Paired) -> Iterator[str]:
    yield "| | candidate passes | candidate fails |"
    yield "|---|---:|---:|"
    yield f"| baseline passes | {paired.both} | {len(paired.lost)} |"
    yield f"| baseline fails | {len(paired.gained)} | {paired.neither} |"


def _changes(paired: Paired) -> Iterator[str]:
    delta, bounds, p_value = paired.delta_task_pp(), paired.interval_pp(), paired.p_value()
    assert delta is not None
    assert bounds is not None
    assert p_value is not None
    sure = "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.4f}"
    yield (
        f"Task pass: {delta:+.1f} pp (95 % interval {bounds[0]:+.1f} to {bounds[1]:+.1f} pp; "
        f"McNemar's exact test {sure})."
    )
    yield ""
    yield f"- Only the candidate passes: {_ids(paired.gained)}"
    yield f"- Only the baseline passes: {_ids(paired.lost)}"


def _deltas(paired: Paired) -> Iterator[str]:
    yield "| candidate − baseline | pairs | mean | 95 % interval | median |"
    yield "|---|---:|---:|---:|---:|"
    yield _delta_row("turns", paired.turns, 2)
    yield _delta_row("wall (s)", paired.wall_seconds, 2)
    yield _delta_row("assertions passed (pp)", paired.assertion_pp, 1)


def _delta_row(name: str, delta: PairedDelta, digits: int) -> str:
    def told(value: float | None) -> str:
        return NONE if value is None else f"{value:+.{digits}f}"

    between = NONE if delta.interval is None else f"{told(delta.interval[0])} to {told(delta.interval[1])}"
    return f"| {name} | {delta.n} | {told(delta.mean)} | {between} | {told(delta.median)} |"


# --- intervals ---------------------------------------------------------------------------------------------


def interval_lines(result: MatchedBaseComparisonResult) -> Iterator[str]:
    """The section about how sure each share of the tables is, alone and over tasks.

    The assertions of a task depend on one another, so that a share of assertions is as sure as that of so
    many tasks.
    """
    yield from ("**Each share with its 95 % interval over tasks**", "")
    yield "| | baseline | 95 % interval | candidate | 95 % interval |"
    yield "|---|---:|---:|---:|---:|"
    sides = (result.baseline, result.candidate)
    yield _sure("task pass", [(side.n_passed, side.n, side.n) for side in sides])
    asserted = [(side.n_assertions_passed, side.n_assertions_total, side.n) for side in sides]
    yield _sure("per-assertion", asserted)
    for row in result.per_group:
        counts = [side.by_group.get(row["group"], {}) for side in sides]
        tasks = [each.get("n", 0) for each in counts]
        passed = [(each.get("passed", 0), n, n) for each, n in zip(counts, tasks, strict=True)]
        yield _sure(f"{row['group']}, tasks", passed)
        asserted = [
            (each.get("n_assertions_passed", 0), each.get("n_assertions_total", 0), n)
            for each, n in zip(counts, tasks, strict=True)
        ]
        yield _sure(f"{row['group']}, assertions", asserted)
    outcomes = (result.baseline_outcomes, result.candidate_outcomes)
    for row in result.per_kind:
        kind = row["kind"]
        of_kind = [side.by_kind.get(kind, {}) for side in sides]
        with_kind = [sum(any(name == kind for name, _ in one.kinds) for one in each) for each in outcomes]
        yield _sure(
            kind,
            [
                (each.get("passed", 0), each.get("n", 0), n)
                for each, n in zip(of_kind, with_kind, strict=True)
            ],
        )


def _sure(name: str, sides: Iterable[tuple[int, int, int]]) -> str:
    """A row; each side is what passed, of how many, and over how many tasks."""
    from proctor.stats import wilson

    cells = [markdown_text(name)]
    for passed, total, tasks in sides:
        cells.append(f"{passed}/{total}" if total else NONE)
        bounds = None
        if total and 0 <= passed <= total:
            tasks = min(tasks, total)
            bounds = wilson(min(passed / total * tasks, tasks), tasks)
        cells.append(NONE if bounds is None else f"{100 * bounds[0]:.1f} – {100 * bounds[1]:.1f}%")
    return f"| {' | '.join(cells)} |"


# --- remarks -----------------------------------------------------------------------------------------------


def _remarks(result: MatchedBaseComparisonResult) -> Iterator[str]:
    sides = (
        ("baseline", result.baseline, result.candidate, result.baseline_outcomes),
        ("candidate", result.candidate, result.baseline, result.candidate_outcomes),
    )
    for name, side, other, outcomes in sides:
        if side.dropped:
            yield _dropped(name, side.dropped)
        for what, mine, others in (
            ("group", side.by_group, other.by_group),
            ("kind", side.by_kind, other.by_kind),
        ):
            absent = sorted(set(others) - set(mine))
            if absent:
                yield f"The {name} has nothing of the {what} {_ids(absent)}: its 0.0% there measures nothing."
        yield from _unmeasured(name, outcomes)


def _dropped(name: str, dropped: Sequence[DroppedRow]) -> str:
    reasons = " ".join(f"{row.line}: {markdown_text(row.reason)}" for row in dropped[:MOST_DROPPED])
    more = len(dropped) - MOST_DROPPED
    left = f" And {more} more." if more > 0 else ""
    what = f"{_rows(len(dropped))} of the {name} could not be used"
    return f"{what} and {_be(len(dropped))} left out. {reasons}{left}"


def _unmeasured(name: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    counts = (
        ("n_turns", sum(one.n_turns is None for one in outcomes)),
        ("wall_seconds", sum(one.wall_seconds is None for one in outcomes)),
    )
    for measure, count in counts:
        if count:
            verb = "counts" if count == 1 else "count"
            yield f"{_rows(count)} of the {name} without a finite {measure} {verb} as 0 in its mean."


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _tasks_are(count: int) -> str:
    return f"{count} task{'s' * (count != 1)} {_be(count)}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _ids(names: Iterable[str]) -> str:
    listed = [markdown_text(name) or "(empty)" for name in names]
    more = len(listed) - MOST_IDS
    return ", ".join(listed[:MOST_IDS]) + (f" and {more} more" if more > 0 else "") or "none"


# --- picture -----------------------------------------------------------------------------------------------


def chart_of(result: MatchedBaseComparisonResult, top_n: int) -> Chart:
    """The share of tasks that passed on both sides, of all tasks and of each group."""
    from proctor.charts import bars

    sides = (("baseline", result.baseline), ("candidate", result.candidate))
    values = [bar for name, side in sides for bar in _bar("all tasks", side.n_passed, side.n, name)]
    groups = sorted(result.per_group, key=lambda row: -row["n"])[:top_n]
    for row in groups:
        label = f"{row['group'] or '(empty)'} (n = {row['n']})"
        for name, side in sides:
            counts = side.by_group.get(row["group"], {"passed": 0, "n": 0})
            values += _bar(label, counts["passed"], counts["n"], name)
    title = "Tasks that passed, with 95 % intervals"
    if len(groups) < len(result.per_group):
        title += f" (the {len(groups)} largest of {len(result.per_group)} groups)"
    return bars(values, title=title, unit="tasks passed", scale="share")


def _bar(label: str, passed: int, total: int, series: str) -> list[Bar]:
    """A bar, or none where there are no tasks."""
    from proctor.charts import Bar
    from proctor.stats import wilson

    bounds = wilson(passed, total)
    return [] if bounds is None else [Bar(label, passed / total, *bounds, series=series)]

"""Runs to the text that a terminal shows. Pure: colour is added where it is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proctor.model import Run, Verdict
from proctor.reports.figures import (
    AXIS_HEAD,
    costs,
    cut,
    drawn,
    interval,
    milliseconds,
    one_line,
    percent,
    points,
    seconds,
)
from proctor.reports.rows import (
    Reported,
    Told,
    about_judges,
    by_case,
    gate,
    missing,
    over_cases,
    taken_over,
    told,
    which_look,
)
from proctor.reports.splits import split_notes
from proctor.verdicts import Counts, Tally

_LISTED = 10
"""So many trials that did not pass are named."""
_REASON = 100


def opening(dev: int | None, holdout: int | None) -> str | None:
    """The line that tells how a split suite is divided; None for a suite that is not split."""
    if dev is None or holdout is None:
        return None
    return f"Running custom suite: {dev} dev + {holdout} holdout tests"


def lines(reported: Reported) -> Iterator[str]:
    """All that is told of a run that has ended."""
    run, tally = reported.run, reported.tally
    if run.suite.split_rule is not None and tally.splits:
        yield from _split_lines(tally)
        yield ""
        beside = [*split_notes(tally.splits), *filter(None, [which_look(reported)])]
        yield from (*beside, *[""] * bool(beside))
    reported_as = ", ".join(sorted(tally.models - {run.target.model}))
    yield one_line(f"{run.suite.title} on {run.target.name}" + (f" ({reported_as})" if reported_as else ""))
    yield ""
    yield from _table(tally)
    yield ""
    yield from _not_passed(reported)
    yield _footer(run, tally)
    yield from (
        line
        for line in (by_case(reported), over_cases(reported), missing(reported), gate(reported))
        if line is not None
    )
    yield from map(one_line, about_judges(reported))
    if tally.refused_params:
        names = ", ".join(sorted(tally.refused_params))
        yield f"Not applied, as the target does not take it: {names}"
    yield f"Run {run.id}"


def together(runs: Sequence[Reported]) -> Iterator[str]:
    """A line for each of several runs, named by what they differ in."""
    targets = {reported.run.target.name for reported in runs}
    suites = {reported.run.suite.title for reported in runs}
    rows = []
    for reported in runs:
        names = (reported.run.suite.title, reported.run.target.name)
        name = names[1] if len(suites) == 1 else names[0] if len(targets) == 1 else " on ".join(names)
        rows.append((one_line(name), reported.tally.counted))
    yield from _lined(rows)


def _split_lines(tally: Tally) -> Iterator[str]:
    dev = tally.splits.get("dev", Counts())
    holdout = tally.splits.get("holdout", Counts())
    yield f"Completed: Dev {dev.passed}/{dev.total} | Holdout {holdout.passed}/{holdout.total}"
    yield ""
    difference = ""
    if dev.pass_rate is not None and holdout.pass_rate is not None:
        difference = f" ({points(holdout.pass_rate - dev.pass_rate)})"
    mean = tally.latency_ms()["mean"]
    cells = {
        "Dev Accuracy": percent(dev.pass_rate),
        "Holdout Accuracy": percent(holdout.pass_rate) + difference,
        "Total Passed": str(tally.counted.passed),
        "Latency": "–" if mean is None else f"{mean:.0f}ms",
    }
    widths = [max(width, len(cell)) for width, cell in zip((16, 18, 13, 7), cells.values(), strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    yield rule
    for row in (cells.keys(), cells.values()):
        yield "|" + "|".join(f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True)) + "|"
    yield rule


def _table(tally: Tally) -> Iterator[str]:
    rows = [("all", tally.counted)]
    for groups in (tally.splits, tally.categories):
        if len(groups) > 1:
            rows += [(f"  {one_line(name)}", groups[name]) for name in sorted(groups)]
    yield from _lined(rows)


def _lined(rows: Sequence[tuple[str, Counts]]) -> Iterator[str]:
    width = max(12, *(len(name) for name, _ in rows))
    yield f"{'':<{width}}  passed  total    rate  {AXIS_HEAD}"
    for name, counts in rows:
        yield (
            f"{name:<{width}}  {counts.passed:>6}  {counts.total:>5}  {percent(counts.pass_rate):>6}  "
            f"{drawn(counts.pass_rate, counts.ci95)}  {interval(counts.ci95)}"
        )


def _not_passed(reported: Reported) -> Iterator[str]:
    not_passed = reported.tally.counted.total - reported.tally.counted.passed
    if not not_passed:
        return
    shown = 0
    for one in told(reported):
        if one.verdict is Verdict.PASS:
            continue
        yield verdict_line(one)
        shown += 1
        if shown == _LISTED:
            break
    if not_passed > shown:
        yield f"…and {not_passed - shown} more: proctor runs show {reported.run.id} --failures"
    yield ""


def verdict_line(one: Told) -> str:
    """What counts once in one line: its verdict, its case, and why it did not pass."""
    reason = "" if one.verdict is Verdict.PASS else cut(one.why, _REASON)
    return f"{one.verdict.value.upper():<8}  {one_line(one.name)}  {reason}".rstrip()


def _footer(run: Run, tally: Tally) -> str:
    counts, latency = tally.counted, tally.latency_ms()
    parts = [f"{counts.passed} passed", f"{counts.failed} failed"]
    parts += [f"{counts.errors} error{'s' * (counts.errors > 1)}"] * bool(counts.errors)
    parts += [f"{counts.unscored} unscored"] * bool(counts.unscored)
    if run.finished_at is not None:
        parts.append(f"in {seconds((run.finished_at - run.started_at).total_seconds())}")
    parts.append(f"latency p50 {milliseconds(latency['p50'])}, p95 {milliseconds(latency['p95'])}")
    parts += taken_over(tally)
    spent, judging = tally.spent, tally.spent_judging
    if spent.input_tokens or spent.output_tokens:
        parts.append(f"{spent.input_tokens:,} tokens in, {spent.output_tokens:,} out")
    parts.append(f"cost {costs(tally.target_cost_usd, judging.cost_usd, judging.calls)}")
    return " · ".join(parts)

"""Blocks that several reports of runs share: notes on the numbers, and tables of their parts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from proctor.reports.document import RATE_COLUMNS, Column, Table
from proctor.reports.formatting import costs
from proctor.reports.runs.gate import describe_gates
from proctor.reports.runs.serialize import (
    RunReport,
    choice_note,
    early_stop_note,
    gate_note,
    interval_note,
    merge_note,
    missing_note,
    repeats_note,
    selection_note,
    shard_note,
    unmeasured_note,
)
from proctor.safe_text import truncate
from proctor.verdicts import Counts, Tally

_MAX_NAME_LENGTH = 120
"""Maximum length of the name of a part or of a run."""
_MIN_VARIANCE_CASES = 10
"""With fewer cases, or fewer than two repeats on average, what repeats are worth is not known."""


def count_notes(report: RunReport) -> list[str]:
    """Returns sentences on how trials are counted, what is missing, and whether the gate passed."""
    notes = (
        *(selection_note, shard_note, merge_note, repeats_note, interval_note, variance_note),
        *(unmeasured_note, missing_note, early_stop_note, gate_note, choice_note),
    )
    return [sentence for note in notes if (sentence := note(report)) is not None]


def variance_note(report: RunReport) -> str | None:
    """Returns a sentence on whether more cases or more repeats would help; None without repeats."""
    counts = report.tally.result_counts
    if counts.passed + counts.failed < 2 * _MIN_VARIANCE_CASES or counts.cases < _MIN_VARIANCE_CASES:
        return None
    from proctor.reports.variance import count_variance, variance_sentence

    return variance_sentence(count_variance(counts))


def cost_text(tally: Tally) -> str:
    """Returns the cost of the target and of judges."""
    return costs(tally.target_cost_usd, tally.judge_usage.cost_usd, tally.judge_usage.calls)


def group_tables(name: str, groups: Mapping[str, Counts], max_rows: int) -> Iterator[Table]:
    """Yields the table of the groups of a run, such as its tags, by name; none without groups.

    Args:
        name: what the groups are.
        groups: the counts of each.
        max_rows: at most this many groups are shown.
    """
    names = sorted(groups)
    more = len(names) - max_rows
    if names:
        yield Table(
            columns=(Column(name), *RATE_COLUMNS),
            rows=[count_row(group, groups[group]) for group in names[:max_rows]],
            notes=[f"…and {more:,} more."] if more > 0 else (),
        )


def count_row(name: str, counts: Counts) -> tuple[str, int, int, Counts]:
    """Returns the cells of a name and `RATE_COLUMNS`."""
    return truncate(name, _MAX_NAME_LENGTH), counts.passed, counts.total, counts


def overview_table(runs: Sequence[RunReport]) -> Table:
    """Returns a row for each of several runs, named by suite, target or both."""
    rows = [
        count_row(name, report.tally.result_counts)
        for name, report in zip(_short_names(runs), runs, strict=True)
    ]
    return Table(columns=(Column(width=12), *RATE_COLUMNS), rows=rows)


def gates_sentence(runs: Sequence[RunReport]) -> str | None:
    """Returns a sentence on how many of several runs passed their gate; None if none has one."""
    return describe_gates(
        [
            (name, report.run, report.tally.result_counts)
            for name, report in zip(_short_names(runs), runs, strict=True)
        ]
    )


def _short_names(runs: Sequence[RunReport]) -> list[str]:
    """Returns the names of runs: their suite, their target or both, whatever distinguishes them."""
    targets = {report.run.target_title for report in runs}
    suites = {report.run.suite.title for report in runs}
    return [
        report.run.target_title
        if len(suites) == 1
        else report.run.suite.title
        if len(targets) == 1
        else f"{report.run.suite.title} on {report.run.target_title}"
        for report in runs
    ]

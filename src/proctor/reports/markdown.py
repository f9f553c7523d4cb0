"""Runs to Markdown, for a pull request or a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proctor.model import Verdict
from proctor.reports.figures import costs, interval, milliseconds, one_line, percent
from proctor.reports.rows import (
    Reported,
    about_judges,
    by_case,
    gate,
    missing,
    over_cases,
    question_of,
    taken_over,
    told,
    which_look,
)
from proctor.reports.splits import split_notes
from proctor.verdicts import Counts

_LISTED = 50
"""So many trials that did not pass are shown with question and answer."""


def render(runs: Sequence[Reported]) -> Iterator[str]:
    """Each run as a section: its numbers, its parts, and what did not pass."""
    for reported in runs:
        run, tally = reported.run, reported.tally
        counts, judging = tally.counted, tally.spent_judging
        money = costs(tally.target_cost_usd, judging.cost_usd, judging.calls)
        yield f"# {as_text(run.suite.title)} on {as_text(run.target.name)}\n\n"
        yield (
            f"**{counts.passed} of {counts.total} passed** ({percent(counts.pass_rate)}, "
            f"95 % interval {interval(counts.ci95)}): {counts.failed} failed, {counts.errors} errors, "
            f"{counts.unscored} unscored. Median latency {milliseconds(tally.latency_ms()['p50'])}, "
            f"{', '.join((f'cost {money}', *taken_over(tally)))}. "
            f"Run `{run.id}`, suite `{run.suite.digest}`.\n\n"
        )
        for line in (by_case(reported), over_cases(reported), missing(reported), gate(reported)):
            if line is not None:
                yield f"**{line}**\n\n"
        for line in about_judges(reported):
            yield f"{as_text(line)}\n\n"
        yield from _table("Split", tally.splits)
        for line in (*split_notes(tally.splits), which_look(reported)):
            if line is not None:
                yield f"{line}\n\n"
        yield from _table("Category", tally.categories)
        yield from _table("Tag", tally.tags)
        yield from _failures(reported)


def _table(name: str, groups: dict[str, Counts]) -> Iterator[str]:
    if not groups:
        return
    yield f"| {name} | Passed | Total | Rate | 95 % interval |\n|---|--:|--:|--:|---|\n"
    for group in sorted(groups):
        counts = groups[group]
        yield (
            f"| {as_text(group)} | {counts.passed} | {counts.total} | {percent(counts.pass_rate)} "
            f"| {interval(counts.ci95)} |\n"
        )
    yield "\n"


def _failures(reported: Reported) -> Iterator[str]:
    shown = more = 0
    for one in told(reported):
        if one.verdict is Verdict.PASS:
            continue
        if shown == _LISTED:
            more += 1
            continue
        if not shown:
            yield "## Not passed\n\n"
        shown += 1
        yield f"### {as_text(one.name)}: {one.verdict.value}\n\n{as_text(one.why)}\n\n"
        if one.sealed:
            continue
        yield _fenced(question_of(one.rows[0].case))
        for row in one.rows:
            if row.trial.output is not None:
                yield _fenced(row.trial.output.text)
    if more:
        yield f"…and {more} more.\n"


def as_text(text: str) -> str:
    """Text on one line that Markdown shows as it is, and that calls nobody by an @name."""
    shown = re.sub(r"([\\`*_{}\[\]<>#|~&$])", r"\\\1", one_line(text))
    return re.sub(r"(?<!\w)@(?=\w)", "@<!-- -->", shown)


def _fenced(text: str) -> str:
    """A block that the text inside cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}\n\n"

"""The plan of a comparison in sentences, and its document. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from msgspec import Struct

from proctor.comparison.study_size import StudyPlan, StudyRow
from proctor.model import Run, Suite
from proctor.plurals import pluralize
from proctor.reports.document import Block, Bullets, Column, Paragraph, Table
from proctor.reports.formatting import cost, percent, seconds
from proctor.reports.variance import variance_sentence
from proctor.safe_text import one_line

_WORTHWHILE = 0.95
"""Repeats are proposed where they need at most this share of the cases."""


class StudyReport(Struct, frozen=True, kw_only=True):
    """A plan with the suite that it is for, and the runs that it rests on."""

    suite: Suite
    word: str
    """What the user wrote for the suite."""
    plan: StudyPlan
    baseline: Run | None = None
    """The run with which a further one would be compared; None without a run."""
    runs: tuple[Run, ...] = ()
    """The runs that were read, graded as the baseline is."""
    counts_once: bool = False
    """Whether the suite's rule makes one verdict of the repeats of a case."""
    cluster_field: str | None = None
    """The field that should say which cases are related; None if they are taken as independent."""


def document_for(report: StudyReport) -> Iterator[Block]:
    """Yields the blocks of a plan: what is needed, what the suite shows, numbers and assumptions."""
    yield Paragraph(" ".join(study_sentences(report)), style="strong")
    yield _rows_table(report.plan)
    yield Bullets(tuple(assumption_sentences(report)))


def study_sentences(report: StudyReport) -> Iterator[str]:
    """Yields sentences: how many cases and repeats it takes, what the suite shows, and what that costs."""
    plan = report.plan
    first, repeated = plan.rows[0], _repeated_row(plan)
    rows = [first] if repeated is None else [first, repeated]
    size, chance = format_points(plan.difference), f"{plan.power * 100:g} % of the time"
    ways = [f"{_needed_text(plan, row)} {_times(row.repeats)}" for row in rows if row.cases is not None]
    if ways:
        yield f"To find a difference of {size} {chance}, run {', or '.join(ways)}."
    elif first.repeats > 1 and not plan.noise.is_chance_known:
        repeats = pluralize(first.repeats, "repeat")
        yield f"It is not known how many cases find a difference of {size} {chance} with {repeats}."
    else:
        units = "cases" if plan.suite_clusters is None else "clusters"
        yield f"Finding a difference of {size} {chance} takes more than ten million {units}."
    detection_limits = [
        f"{_times(row.repeats)} {'it shows differences of' if row is first else 'those of'} "
        f"{format_points(row.smallest)} or more"
        for row in rows
        if row.smallest is not None
    ]
    cases = pluralize(plan.suite_cases, "case")
    if plan.suite_clusters is not None:
        cases += f" in {pluralize(plan.suite_clusters, 'cluster')}"
    if detection_limits:
        yield f"This suite has {cases}: run {', '.join(detection_limits)}."
    else:
        yield f"This suite has {cases}, which is too few to show any difference that often."
    yield from _cost_sentences(first)


def _needed_text(plan: StudyPlan, row: StudyRow) -> str:
    """Returns the number of cases of a row, or of clusters with the size of the suite's."""
    if row.clusters is None or plan.noise.clusters is None:
        return pluralize(row.cases or 0, "case")
    if row is not plan.rows[0]:
        return f"{row.clusters:,} such clusters"
    size = f"{round(plan.noise.clusters.mean_size, 1):g}"
    return f"{pluralize(row.clusters, 'cluster')} of about {size} cases"


def _cost_sentences(row: StudyRow) -> Iterator[str]:
    parts = []
    if row.suite_cost_usd is not None:
        parts.append(f"costs about {cost(row.suite_cost_usd)}")
    if row.suite_seconds is not None:
        parts.append(f"takes about {seconds(row.suite_seconds)}")
    if parts:
        yield f"Running it {_times(row.repeats)} {' and '.join(parts)}."


def _repeated_row(plan: StudyPlan) -> StudyRow | None:
    """Returns the row of three repeats, else of the fewest beyond the first; None if not worthwhile."""
    first, *repeated_rows = plan.rows
    rows = sorted(repeated_rows, key=lambda row: row.repeats != 3)
    if not rows or first.cases is None or rows[0].cases is None:
        return None
    return rows[0] if rows[0].cases <= _WORTHWHILE * first.cases else None


def _rows_table(plan: StudyPlan) -> Table:
    is_clustered = plan.suite_clusters is not None
    clusters = [Column("clusters", "count")] * is_clustered
    columns = (
        Column("repeats", "count"),
        Column("this suite shows", "number"),
        Column("its trials", "count"),
        Column("its cost", "number"),
        *clusters,
        Column(f"cases for {format_points(plan.difference)}", "count"),
        Column("their trials", "count"),
        Column("their cost", "number"),
    )
    has_costs = any(row.suite_cost_usd is not None for row in plan.rows)
    rows = [
        (
            row.repeats,
            None if row.smallest is None else format_points(row.smallest),
            row.suite_trials,
            cost(row.suite_cost_usd) if has_costs else "",
            *[row.clusters] * is_clustered,
            row.cases,
            row.trials,
            cost(row.cost_usd) if has_costs and row.trials is not None else "",
        )
        for row in plan.rows
    ]
    return Table(columns, rows)


def assumption_sentences(report: StudyReport) -> Iterator[str]:
    """Yields sentences on what the numbers rest on, and how to get better ones."""
    noise = report.plan.noise
    yield from _noise_sentences(report)
    yield from _cluster_sentences(report)
    if report.counts_once:
        yield (
            "By the suite's pass rule, a case counts once over its repeats, so the number of repeats is not "
            "planned."
        )
    elif not noise.is_chance_known:
        command = f"proctor run {shlex.quote(one_line(report.word))} --repeat 3"
        yield f"It is not known what repeats gain. Run the suite once with `{command}`, and plan again."
    sentence = variance_sentence(noise.components)
    if sentence is not None:
        yield sentence
    if report.baseline is not None and report.baseline.suite.digest != report.suite.digest:
        title = one_line(report.baseline.suite.title)
        yield (
            f"The runs are of another version of the suite, {title}; the cases counted are the current ones."
        )
    yield (
        "Costs and trials are for one run; a comparison needs two, unless one of them is stored. A "
        "difference is found if `proctor compare` reports better or worse."
    )


def _noise_sentences(report: StudyReport) -> Iterator[str]:
    """Yields sentences on how far two runs differ where neither is better."""
    noise = report.plan.noise
    chance, differing = percent(noise.noise.chance), percent(sum(noise.noise))
    if report.baseline is None or noise.basis == "nothing":
        yield (
            "The store has no measured run of this suite, so the plan assumes the most noise that makes "
            "sense: half of the cases pass, and two runs are independent of each other."
        )
        return
    prompt = report.baseline.prompt
    what = report.baseline.target.name if prompt is None else f"{report.baseline.target.name} · {prompt.name}"
    run = one_line(f"Run {report.baseline.id} on {what}")
    cases = pluralize(
        noise.baseline_cases, "case" if report.baseline.suite.split_rule is None else "dev case"
    )
    passed = f"{run} passed {percent(noise.pass_rate)} of {cases}"
    if noise.basis == "rate":
        yield (
            f"{passed}, with one trial each. So the plan assumes that two runs are independent of each "
            f"other: they differ in {differing} of the cases."
        )
    elif noise.basis == "repeats":
        yield f"{passed}. Two runs of its target differ in {chance} of the cases by chance."
        yield (
            "A change that fixes some cases and breaks others adds noise, which is not known here: run the "
            "suite on a second target to measure it."
        )
    else:
        has_prompts = any(run.prompt is not None for run in report.runs)
        rivals = f"{noise.targets:,} other targets{' or prompts' if has_prompts else ''}"
        if noise.targets == 1:
            rivals = f"another target{' or prompt' if has_prompts else ''}"
        by_chance = f" Chance alone explains {chance}." if noise.is_chance_known else ""
        yield (
            f"{passed}. Compared with {rivals}, its target has a different result in {differing} of the "
            f"cases, not counting the difference of the pass rates.{by_chance}"
        )


def _cluster_sentences(report: StudyReport) -> Iterator[str]:
    """Yields sentences on related cases: how much alike they are, and what that costs."""
    plan, clusters = report.plan, report.plan.noise.clusters
    if report.cluster_field is None:
        return
    field = f"`{one_line(report.cluster_field)}`"
    if clusters is None:
        yield f"No two cases share a value of {field}, so all cases are treated as independent."
        return
    assumed = ", an assumption" if plan.noise.basis == "nothing" else ""
    advice = " More clusters would help more than more cases in each." if clusters.relation >= 0.05 else ""
    yield (
        f"Cases with the same {field} form a cluster. The results of two of them correlate by "
        f"{clusters.relation:.2f}{assumed}.{advice}"
    )


def _times(repeats: int) -> str:
    return {1: "once", 2: "twice"}.get(repeats, f"{repeats:,} times")


def format_points(share: float) -> str:
    """Formats a difference of shares: `5 pp`, `9.1 pp`, or with two digits if it is small, `0.042 pp`."""
    points = share * 100
    if abs(points - round(points)) < 1e-9:
        return f"{points:.0f} pp"
    return f"{points:.1f} pp" if points >= 0.1 else f"{points:.2g} pp"

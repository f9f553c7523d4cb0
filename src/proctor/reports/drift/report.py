"""The drift of a target in sentences, and its document. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from proctor.drift.confounders import RecordedChange
from proctor.drift.detector import ChangePoint, Drift
from proctor.drift.flips import CaseFlips
from proctor.drift.observations import find_clustered_run
from proctor.model import Run
from proctor.plurals import join_names, pluralize
from proctor.reports.clusters import clusters_sentence
from proctor.reports.document import Block, Bullets, Column, Heading, Paragraph, Table, count_columns
from proctor.reports.formatting import interval, percent, percentage_points, probability
from proctor.safe_text import one_line

_MAX_LISTED = 12
"""At most this many ids, changes and runs are shown; the JSON has all."""
_MAX_REPEATED = 3
"""If a setting changed more often, only the last change is shown."""
_CHANGE_POINT_SENTENCES = {
    "first": "The answers changed {when}: {before} identical to the first run before, {after} since",
    "last": "The answers changed {when}: {before} identical to the last run before, {after} since",
    "verdicts": "The verdicts changed {when}: {before} of the cases passed before and {after} since",
}
_EXCLUSION_REASONS = {
    "taken_over": "reused from an earlier run",
    "cached": "from the cache",
    "elsewhere": "answered by another target",
    "errors": "ERROR",
    "unscored": "UNSCORED",
}


class DriftReport(Struct, frozen=True, kw_only=True):
    """The drift of a target, with notes."""

    drift: Drift
    notes: tuple[str, ...] = ()
    """Sentences on runs that were left out."""
    looks: int | None = None
    """The number of accesses to the suite's holdout, this one included; None without a holdout."""

    @property
    def last_run(self) -> Run:
        """The newest run."""
        return self.drift.last.observation.run


def format_series_title(run: Run) -> str:
    """Formats what the runs of a series share: suite, target, and prompt if they have one."""
    prompt = f" with the prompt {run.prompt.name}" if run.prompt else ""
    return one_line(f"{run.suite.title} on {run.target.name}{prompt}")


def describe_drift(report: DriftReport) -> Iterator[str]:
    """Yields the state in one sentence, then the evidence for it."""
    drift = report.drift
    yield describe_state(drift)
    yield from _noise_sentences(drift)
    if drift.change_point is not None:
        yield _change_point_sentence(drift, drift.change_point)
    yield from _verdict_sentences(drift)
    yield from _cluster_sentences(drift)
    yield from _excluded_sentences(drift)
    yield from _change_sentences(drift)
    yield from report.notes
    if report.looks is not None:
        yield f"The pass rates include the holdout's. Holdout accesses: {report.looks:,}."


def describe_state(drift: Drift) -> str:
    """Returns the state of the target in one sentence."""
    last, lowest, over = drift.last, drift.last.lowest, f"over {len(drift.points):,} runs"
    if lowest is None:
        return f"Not known: the last run has no case that another run answered too, {over}."
    since = "" if drift.since is None else f" since {format_moments(drift)[drift.since]}"
    sure = f"{interval(lowest.ci95)}, {pluralize(lowest.cases, 'case')}"
    alike = f"{percent(lowest.share)} identical answers ({sure})"
    reference = ""
    if lowest is not last.with_first:
        reference = " with the previous run"
    elif len(drift.points) > 2 and drift.state != "stable":
        reference = " with the first run"
    if drift.state == "stable":
        return f"Unchanged{since}: {alike} {over}."
    if drift.by_verdicts and not drift.by_answers:
        return f"Drifting{since}: fewer cases pass, with {alike}{reference}, {over}."
    if drift.state == "watch" and drift.is_suspected:
        return f"Watch{since}: fewer cases pass, as on a bad night, with {alike}{reference}, {over}."
    name = {"watch": "Watch", "drifting": "Drifting", "noisy": "Noisy"}[drift.state]
    return f"{name}{since}: {alike}{reference}, {over}."


def _noise_sentences(drift: Drift) -> Iterator[str]:
    """Yields how much changed wording says about the target."""
    noise, lowest = drift.noise, drift.last.lowest
    if noise is not None:
        usual = f"{percent(noise.share)} identical ({interval(noise.ci95)})"
        conclusion = (
            "; the answers have changed by more" if drift.by_answers else ", so identical answers say little"
        )
        yield (
            "This target does not repeat its answers: two answers to the same prompt in one run are "
            f"{usual}{conclusion}."
        )
    elif drift.repeats is not None and drift.rewords_nightly and not drift.by_answers:
        yield (
            "The answers change from night to night: most runs share fewer than 80 % with the previous run, "
            "so identical answers say little."
        )
    elif lowest is None or lowest.level == "stable" or drift.state != "watch":
        return
    elif drift.last_repeats is None:
        yield (
            "New wording alone is not drift: a target that rewords every answer looks the same here. "
            "Run the suite with --repeat 2 to tell the two apart."
        )
    elif lowest.level == "drifting":
        yield "This target repeats most of its answers, so a few changed ones can be chance."


def _change_point_sentence(drift: Drift, change_point: ChangePoint) -> str:
    when = (
        f"between {_format_start(drift, change_point.before)} and {_format_start(drift, change_point.after)}"
    )
    sentence = _CHANGE_POINT_SENTENCES[change_point.kind].format(
        when=when, before=percent(change_point.split.before), after=percent(change_point.split.after)
    )
    return f"{sentence} ({probability(change_point.p_value)})."


def _verdict_sentences(drift: Drift) -> Iterator[str]:
    flips, change_point, word = drift.last.flips, drift.pass_rate_change, "No change of verdicts is shown"
    if flips is None:
        yield (
            "No verdicts are compared: no earlier run has the same grading as the last run and a case in "
            "common."
        )
        return
    if change_point is not None and change_point.is_significant:
        better = change_point.split.after > change_point.split.before
        word = "It got better" if better else "It got worse"
        word = word if change_point.split.is_lasting else "The verdicts changed and changed back"
    tested = probability(1.0 if change_point is None else change_point.p_value)
    if drift.comparison > 1:
        tested += f" as one of {drift.comparison:,} comparisons"
    yield (
        f"{word}: compared with the first verdicts, of {flips.cases:,} cases {_difference_text(flips)}; "
        f"{tested}."
    )
    if change_point is not None and change_point.is_suspected:
        yield (
            "More cases changed than chance in each case explains, but one bad night can move many of them "
            "together. Run the suite again on the next nights to find out."
        )
    if (drift.by_verdicts or drift.is_suspected) and flips.worse:
        yield f"Worse: {_ids_text(flips.worse)}."
    if flips.regraded:
        yield (
            f"Graded differently although identical: {_ids_text(flips.regraded)}. This is not a change of "
            "the target."
        )


def _cluster_sentences(drift: Drift) -> Iterator[str]:
    lowest, flips = drift.last.lowest, drift.last.flips
    counts = [evidence.clusters for evidence in (lowest, flips) if evidence is not None]
    clustered_run = find_clustered_run([point.observation.run for point in drift.points])
    if clustered_run is not None and (count := next(filter(None, counts), None)) is not None:
        yield clusters_sentence("Intervals are", count, clustered_run.settings.cluster or "")


def _difference_text(flips: CaseFlips) -> str:
    ends = "" if flips.ci95 is None else f", {' to '.join(percentage_points(end) for end in flips.ci95)}"
    return (
        f"{len(flips.worse):,} got worse and {len(flips.better):,} better "
        f"({percentage_points(flips.difference)}{ends})"
    )


def _ids_text(ids: Sequence[str]) -> str:
    return one_line(join_names(ids, _MAX_LISTED))


def _excluded_sentences(drift: Drift) -> Iterator[str]:
    last = drift.last.observation
    reasons = [
        f"{count:,} {what}"
        for name, what in _EXCLUSION_REASONS.items()
        if (count := getattr(last.excluded, name))
    ]
    if reasons:
        yield f"Excluded trials of the last run: {', '.join(reasons)}."
    if not last.is_measured:
        hint = (
            " Run the suite with --no-reuse and without --cache."
            if last.excluded.taken_over or last.excluded.cached
            else ""
        )
        yield f"The last run was not measured.{hint}"


def _change_sentences(drift: Drift) -> Iterator[str]:
    for side, owner in (("target", "On the target's side"), ("yours", "On your side")):
        changes = [change for change in drift.recorded_changes if change.side == side]
        last = {change.what: change for change in changes}
        often = Counter(change.what for change in changes)
        listed = [
            change for change in changes if often[change.what] <= _MAX_REPEATED or change is last[change.what]
        ]
        for change in listed[-_MAX_LISTED:]:
            times, start = often[change.what], _format_start(drift, change.place)
            repeated = f", the last of {times:,} such changes" if times > _MAX_REPEATED else ""
            yield f"{owner}, with the run of {start}: {describe_change(change)}{repeated}."
        if len(last) > _MAX_LISTED:
            yield f"{owner}, {len(last) - _MAX_LISTED:,} more changes; --json has all of them."
        if not changes and side == "yours":
            yield "On your side, no recorded setting has changed."


def describe_change(change: RecordedChange) -> str:
    """Formats one change: `threshold 0.8 → 0.9`."""
    what = {"judge rule": "aggregation of judge votes"}.get(change.what, change.what)
    return one_line(f"{what} {change.was} → {change.now}")


def format_moments(drift: Drift) -> dict[datetime, str]:
    """Formats when each run started, in UTC, as precisely as needed to tell all runs apart."""
    at = [step.started_at.astimezone(UTC) for step in drift.points]
    for precision in _PRECISIONS:
        texts = [_format_moment(moment, precision) for moment in at]
        if len(set(texts)) == len(texts):
            break
    return {step.started_at: text for step, text in zip(drift.points, texts, strict=True)}


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_Precision = Literal["", "minutes", "seconds", "milliseconds"]
_PRECISIONS: tuple[_Precision, ...] = ("", "minutes", "seconds", "milliseconds")


def _format_moment(at: datetime, precision: _Precision) -> str:
    # `strftime` gives the name of a month in the language of the locale.
    day = f"{at.day} {_MONTHS[at.month - 1]} {at.year}"
    return f"{day} {at.time().isoformat(precision)}" if precision else day


def _format_start(drift: Drift, place: int) -> str:
    return format_moments(drift)[drift.points[place].started_at]


# --- the document ------------------------------------------------------------------------------------------


def document_for(report: DriftReport, max_runs: int | None = None) -> Iterator[Block]:
    """Yields the state and the evidence for it in sentences, and a table of the runs.

    Args:
        report: the drift of a target.
        max_runs: at most this many runs are shown: the first one and the latest; None for all.
    """
    title = format_series_title(report.last_run)
    state, *evidence = describe_drift(report)
    yield Heading(title, only="markdown")
    yield Paragraph(state, style="strong")
    yield Bullets(evidence)
    yield Heading(title, only="terminal")  # a terminal says first what mails and logs are read for
    yield run_table(report.drift, max_runs)


def run_table(drift: Drift, max_runs: int | None = None) -> Table:
    """Returns a row for each run: its pass rate, its identical answers, and how its verdicts changed."""
    rows, notes = list(_run_rows(drift)), []
    if max_runs is not None and len(rows) > max_runs:
        notes = [f"The first run and the last {max_runs - 1}; --json has all {len(rows):,}."]
        rows = [rows[0], *rows[1 - max_runs :]]
    columns = (
        Column("run", "run"),
        Column("started"),
        Column("passed", "number"),
        Column("rate", "percent"),
        Column("95 %", "number"),
        Column("excluded", "count"),
        Column("same as first", "percent"),
        Column("same as previous", "percent"),
        *count_columns("worse", "better"),
    )
    return Table(columns, rows, notes=notes)


def _run_rows(drift: Drift) -> Iterator[tuple[object, ...]]:
    at = format_moments(drift)
    for step in drift.points:
        counts, flips = step.observation.passed, step.flips
        yield (
            step.observation.run.id,
            at[step.started_at],
            f"{counts.passed:,}/{counts.total:,}",
            counts.pass_rate,
            interval(counts.ci95),
            step.observation.excluded.total,
            *(None if same is None else same.share for same in (step.with_first, step.with_before)),
            *((None, None) if flips is None else (len(flips.worse), len(flips.better))),
        )

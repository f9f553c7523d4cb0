"""Renders the drift of a target as sentences and as text for a terminal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from proctor.drift.confounders import Changed
from proctor.drift.detector import Drift, Turning
from proctor.drift.flips import Flips
from proctor.drift.identical_answers import Sameness
from proctor.model import Run
from proctor.plurals import counted, listed
from proctor.reports.formatting import NONE, interval, percent, points, probability
from proctor.safe_text import one_line

_MAX_LISTED = 12
"""At most this many ids, changes and runs are shown; the JSON has all."""
_MAX_REPEATED = 3
"""If a setting changed more often, only the last change is shown."""
_CHANGE_POINT_SENTENCES = {
    "first": "The answers changed {when}: {before} identical with the first run before, {after} since",
    "last": "The answers changed {when}: {before} identical with the last run before, {after} since",
    "verdicts": "The verdicts changed {when}: {before} of the cases passed before and {after} since",
}
_EXCLUSION_REASONS = {
    "taken_over": "taken over from an earlier run",
    "cached": "from the cache",
    "elsewhere": "answered by another target",
    "errors": "ERROR",
    "unscored": "UNSCORED",
}


class Drifted(Struct, frozen=True, kw_only=True):
    """The drift of a target, with notes."""

    drift: Drift
    notes: tuple[str, ...] = ()
    """Sentences on runs that were left out."""
    looks: int | None = None
    """The number of accesses to the suite's holdout, this one included; None without a holdout."""

    @property
    def last(self) -> Run:
        """The newest run."""
        return self.drift.last.seen.run


def sentences(report: Drifted) -> Iterator[str]:
    """Yields the state in one sentence, then the evidence for it."""
    drift = report.drift
    yield answer(drift)
    yield from _noise(drift)
    if drift.turning is not None:
        yield _change_point_sentence(drift, drift.turning)
    yield from _verdicts(drift)
    yield from _excluded_sentences(drift)
    yield from _change_sentences(drift)
    yield from report.notes
    if report.looks is not None:
        yield f"The pass rates include the holdout's: look {report.looks:,} at this holdout."


def answer(drift: Drift) -> str:
    """Returns the state of the target in one sentence."""
    last, lowest, over = drift.last, drift.last.lowest, f"over {len(drift.steps):,} runs"
    if lowest is None:
        return f"Not known: the last run has no answer that another run has too, {over}."
    since = "" if drift.since is None else f" since {moments(drift)[drift.since]}"
    sure = f"{interval(lowest.ci95)}, {counted(lowest.cases, 'case')}"
    alike = f"{percent(lowest.share)} identical answers ({sure})"
    reference = "" if lowest is last.with_first else " with the run before it"
    reference = (
        " with the first run"
        if not reference and len(drift.steps) > 2 and drift.state != "stable"
        else reference
    )
    if drift.state == "stable":
        return f"Unchanged{since}: {alike} {over}."
    if drift.by_verdicts and not drift.by_answers:
        return f"Drifting{since}: fewer cases pass, with {alike}{reference}, {over}."
    name = {"watch": "Watch", "drifting": "Drifting", "noisy": "Noisy"}[drift.state]
    return f"{name}{since}: {alike}{reference}, {over}."


def _noise(drift: Drift) -> Iterator[str]:
    """Yields how much changed wording says about the target."""
    noise, lowest = drift.noise, drift.last.lowest
    if noise is not None:
        usual = f"{percent(noise.share)} identical ({interval(noise.ci95)})"
        conclusion = "; the answers have changed by more" if drift.by_answers else ", so identity says little"
        yield (
            "This target does not repeat its answers: two to one question in one run are "
            f"{usual}{conclusion}."
        )
    elif drift.state == "watch" and drift.repeats is None:
        yield (
            "New wording alone is not drift: a target that rewords every answer looks the same. "
            "--repeat 2 tells them apart."
        )
    elif drift.state == "watch" and lowest is not None and lowest.level == "drifting":
        yield "This target repeats most of its answers, and so few other ones can be chance."


def _change_point_sentence(drift: Drift, turning: Turning) -> str:
    when = f"between {_when(drift, turning.before)} and {_when(drift, turning.after)}"
    sentence = _CHANGE_POINT_SENTENCES[turning.what].format(
        when=when, before=percent(turning.split.before), after=percent(turning.split.after)
    )
    return f"{sentence} ({probability(turning.p_value)})."


def _verdicts(drift: Drift) -> Iterator[str]:
    flips, turning, word = drift.last.flips, drift.passing, "No change of verdicts is shown"
    if flips is None:
        yield "No verdicts are compared: no run before the last was judged as it was and has a case of it."
        return
    if turning is not None and turning.shown:
        better = turning.split.after > turning.split.before
        word = "It got better" if better else "It got worse"
        word = word if turning.split.holds else "The verdicts changed, and are back"
    tested = probability(1.0 if turning is None else turning.p_value)
    if drift.comparison > 1:
        tested += f" as one of {drift.comparison:,} comparisons"
    yield f"{word}: beside the first verdicts, of {flips.cases:,} cases {_difference(flips)}; {tested}."
    if drift.by_verdicts and flips.worse:
        yield f"Worse: {_ids(flips.worse)}."
    if flips.regraded:
        yield f"Graded otherwise, though identical: {_ids(flips.regraded)}. That is no change of the target."


def _difference(flips: Flips) -> str:
    ends = "" if flips.ci95 is None else f", {' to '.join(points(end) for end in flips.ci95)}"
    return (
        f"{len(flips.worse):,} got worse and {len(flips.better):,} better ({points(flips.difference)}{ends})"
    )


def _ids(ids: Sequence[str]) -> str:
    return one_line(listed(ids, _MAX_LISTED))


def _excluded_sentences(drift: Drift) -> Iterator[str]:
    last = drift.last.seen
    reasons = [
        f"{count:,} {what}"
        for name, what in _EXCLUSION_REASONS.items()
        if (count := getattr(last.aside, name))
    ]
    if reasons:
        yield f"Of the last run's trials {', '.join(reasons)}."
    if not last.measured:
        hint = (
            " Run the suite with --no-reuse and without --cache."
            if last.aside.taken_over or last.aside.cached
            else ""
        )
        yield f"The last run was not measured.{hint}"


def _change_sentences(drift: Drift) -> Iterator[str]:
    for side, owner in (("target", "On the target's side"), ("yours", "On your side")):
        changes = [change for change in drift.changed if change.side == side]
        last = {change.what: change for change in changes}
        often = Counter(change.what for change in changes)
        for change in [
            change for change in changes if often[change.what] <= _MAX_REPEATED or change is last[change.what]
        ][-_MAX_LISTED:]:
            times = (
                f", the last of {often[change.what]:,} such changes"
                if often[change.what] > _MAX_REPEATED
                else ""
            )
            yield f"{owner}, with the run of {_when(drift, change.place)}: {changed(change)}{times}."
        if len(last) > _MAX_LISTED:
            yield f"{owner} {len(last) - _MAX_LISTED:,} more things changed; --json has all."
        if not changes and side == "yours":
            yield "On your side nothing that a run records has changed."


def changed(change: Changed) -> str:
    """Formats one change: `threshold 0.8 → 0.9`."""
    return one_line(f"{change.what} {change.was} → {change.now}")


def moments(drift: Drift) -> dict[datetime, str]:
    """Formats when each run started, in UTC, as precisely as needed to tell all runs apart."""
    at = [step.at.astimezone(UTC) for step in drift.steps]
    for precision in _PRECISIONS:
        texts = [_format_moment(moment, precision) for moment in at]
        if len(set(texts)) == len(texts):
            break
    return {step.at: text for step, text in zip(drift.steps, texts, strict=True)}


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_Precision = Literal["", "minutes", "seconds", "milliseconds"]
_PRECISIONS: tuple[_Precision, ...] = ("", "minutes", "seconds", "milliseconds")


def _format_moment(at: datetime, precision: _Precision) -> str:
    # `strftime` gives the name of a month in the language of the locale.
    day = f"{at.day} {_MONTHS[at.month - 1]} {at.year}"
    return f"{day} {at.time().isoformat(precision)}" if precision else day


def _when(drift: Drift, place: int) -> str:
    return moments(drift)[drift.steps[place].at]


# --- the table ---------------------------------------------------------------------------------------------

COLUMNS = ("run", "began", "passed", "rate", "95 %", "aside", "as first", "as before", "worse", "better")


def lines(report: Drifted) -> Iterator[str]:
    """Yields the lines that a terminal shows."""
    run = report.last
    yield from sentences(report)
    yield ""
    yield one_line(f"{run.suite.title} on {run.target.name}")
    yield ""
    cells = [COLUMNS, *rows(report.drift)]
    if len(cells) > 2 * _MAX_LISTED + 1:
        cells = [*cells[:2], *cells[1 - 2 * _MAX_LISTED :]]
        yield f"The first run and the last {2 * _MAX_LISTED - 1}; --json has all {len(report.drift.steps):,}."
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        left_cells = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
        right_cells = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
        yield "  ".join([*left_cells, *right_cells]).rstrip()


def rows(drift: Drift) -> Iterator[tuple[str, ...]]:
    """Yields one row for each run, with the cells of `COLUMNS`."""
    at = moments(drift)
    for step in drift.steps:
        counts, flips = step.seen.passed, step.flips
        yield (
            step.seen.run.id,
            at[step.at],
            f"{counts.passed:,}/{counts.total:,}",
            percent(counts.pass_rate),
            interval(counts.ci95),
            f"{step.seen.aside.total:,}",
            _share(step.with_first),
            _share(step.with_before),
            NONE if flips is None else f"{len(flips.worse):,}",
            NONE if flips is None else f"{len(flips.better):,}",
        )


def _share(same: Sameness | None) -> str:
    return NONE if same is None else percent(same.share)

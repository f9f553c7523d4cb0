"""Renders the replay of a bundle's prompts as text, JSON and Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from proctor.plurals import join_names
from proctor.proof.replay_comparison import AnswerSummary, ReplayComparison, ReplayShare
from proctor.reports.formatting import AXIS_HEAD, NONE, draw_interval, interval, percent, round_interval
from proctor.reports.runs.serialize import counts_record
from proctor.safe_text import markdown_code, markdown_text, one_line
from proctor.verdicts import Counts

_MAX_NAMES = 20
"""At most this many names are listed in a line."""
_PARTS = (("identical", "identical"), ("same verdict", "same_verdict"), ("changed", "changed"))
_LISTS = (
    ("Now failing", "now_failing"),
    ("Now passing", "now_passing"),
    ("Not measured", "not_measured"),
    ("Not measured in the bundle", "not_measured_before"),
)


class ReplayReport(Struct, frozen=True, kw_only=True):
    """A bundle, the run that repeated its prompts, and their comparison."""

    bundle: str
    """The path of the bundle."""
    run: str
    """The run of the bundle."""
    target: str
    """The target of that run."""
    suite: str
    signature_status: str
    """`trusted`, `unknown` or `unsigned`."""
    signature: str
    """The signature status as a clause, with fingerprints."""
    replay_run: str
    """The id of the new run."""
    replay_target: str
    notes: tuple[str, ...]
    """Further notes, in sentences."""
    comparison: ReplayComparison


def render_text(replay: ReplayReport) -> Iterator[str]:
    """Yields the lines that a terminal shows."""
    comparison = replay.comparison
    yield one_line(f"{replay.suite}: {replay.target} then, {replay.replay_target} now")
    yield one_line(f"Bundle of run {replay.run}: {replay.signature}")
    yield from replay.notes
    yield ""
    yield f"{'':<14}{'trials':>7}  {'share':>6}  {AXIS_HEAD}"
    for title, name in _PARTS:
        part: ReplayShare = getattr(comparison, name)
        yield (
            f"{title:<14}{part.count:>7,}  {percent(part.share):>6}  {draw_interval(part.share, part.ci95)}  "
            f"{interval(part.ci95)}"
        )
    for title, name in (("not measured", "not_measured"), ("not before", "not_measured_before")):
        count = len(getattr(comparison, name))
        if count:
            yield f"{title:<14}{count:>7,}  {NONE:>6}"
    yield ""
    for title, counts in (("Passed then", comparison.then), ("Passed now", comparison.now)):
        yield f"{title:<12} {_pass_rate_text(counts)}"
    for title, name in _LISTS:
        trials: tuple[AnswerSummary, ...] = getattr(comparison, name)
        if trials:
            yield one_line(f"{title}: {join_names([trial.name for trial in trials], _MAX_NAMES)}")
    yield f"Run {replay.replay_run}"


def to_dict(replay: ReplayReport) -> dict[str, Any]:
    """Returns everything as plain data, with every trial."""
    comparison = replay.comparison
    return {
        "bundle": replay.bundle,
        "run": replay.run,
        "target": replay.target,
        "suite": replay.suite,
        "standing": replay.signature_status,
        "signed": replay.signature,
        "replay": replay.replay_run,
        "replay_target": replay.replay_target,
        "notes": replay.notes,
        "total": comparison.total,
        **{name: _share_row(getattr(comparison, name)) for _, name in _PARTS},
        "then": counts_record(comparison.then),
        "now": counts_record(comparison.now),
        **{
            name: [
                {"case_id": trial.case_id, "repeat": trial.repeat, "split": trial.split}
                for trial in getattr(comparison, name)
            ]
            for _, name in _LISTS
        },
        "exit_code": int(comparison.exit_code),
    }


def render_markdown(replay: ReplayReport) -> Iterator[str]:
    """Yields Markdown for a pull request or a notebook."""
    comparison = replay.comparison
    yield f"# {markdown_text(replay.suite)}, asked again\n\n"
    yield f"Then {markdown_text(replay.target)}, now {markdown_text(replay.replay_target)}. "
    yield f"Bundle of run {markdown_code(replay.run)}: {markdown_text(replay.signature)} "
    yield f"Run of now: {markdown_code(replay.replay_run)}.\n\n"
    for note in replay.notes:
        yield f"{markdown_text(note)}\n\n"
    yield "|  | Trials | Share | 95 % interval |\n|---|--:|--:|---|\n"
    for title, name in _PARTS:
        part: ReplayShare = getattr(comparison, name)
        yield f"| {title} | {part.count} | {percent(part.share)} | {interval(part.ci95)} |\n"
    yield f"| not measured | {len(comparison.not_measured)} | {NONE} | {NONE} |\n"
    yield f"| not measured in the bundle | {len(comparison.not_measured_before)} | {NONE} | {NONE} |\n\n"
    yield f"Passed then: {_pass_rate_text(comparison.then)}. Passed now: {_pass_rate_text(comparison.now)}.\n"
    for title, name in _LISTS:
        trials: tuple[AnswerSummary, ...] = getattr(comparison, name)
        if trials:
            yield f"\n## {title}\n\n"
            yield from (f"* {markdown_text(trial.name)}\n" for trial in trials)


def _pass_rate_text(counts: Counts) -> str:
    rate = f"{percent(counts.pass_rate)}, 95% interval {interval(counts.ci95)}"
    return f"{counts.passed:,} of {counts.total:,}: {rate}"


def _share_row(part: ReplayShare) -> dict[str, Any]:
    return {"count": part.count, "share": part.share, "ci95": round_interval(part.ci95)}

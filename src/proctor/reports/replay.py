"""Renders the replay of a bundle's prompts as text, JSON and Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from proctor.plurals import listed
from proctor.proof.replay_comparison import Replayed, Said, Share
from proctor.reports.formatting import AXIS_HEAD, NONE, drawn, interval, percent, rounded
from proctor.reports.runs.serialize import counts_row
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


class Replay(Struct, frozen=True, kw_only=True):
    """A bundle, the run that repeated its prompts, and their comparison."""

    bundle: str
    """The path of the bundle."""
    run: str
    """The run of the bundle."""
    target: str
    """The target of that run."""
    suite: str
    standing: str
    """`trusted`, `unknown` or `unsigned`."""
    signed: str
    """The signature status as a clause, with fingerprints."""
    again: str
    """The id of the new run."""
    target_now: str
    notes: tuple[str, ...]
    """Further notes, in sentences."""
    found: Replayed


def lines(replay: Replay) -> Iterator[str]:
    """Yields the lines that a terminal shows."""
    comparison = replay.found
    yield one_line(f"{replay.suite}: {replay.target} then, {replay.target_now} now")
    yield one_line(f"Bundle of run {replay.run}: {replay.signed}")
    yield from replay.notes
    yield ""
    yield f"{'':<14}{'trials':>7}  {'share':>6}  {AXIS_HEAD}"
    for title, name in _PARTS:
        part: Share = getattr(comparison, name)
        yield (
            f"{title:<14}{part.count:>7,}  {percent(part.share):>6}  {drawn(part.share, part.ci95)}  "
            f"{interval(part.ci95)}"
        )
    for title, name in (("not measured", "not_measured"), ("not before", "not_measured_before")):
        count = len(getattr(comparison, name))
        if count:
            yield f"{title:<14}{count:>7,}  {NONE:>6}"
    yield ""
    for title, counts in (("Passed then", comparison.then), ("Passed now", comparison.now)):
        yield f"{title:<12} {_passed(counts)}"
    for title, name in _LISTS:
        trials: tuple[Said, ...] = getattr(comparison, name)
        if trials:
            yield one_line(f"{title}: {listed([trial.name for trial in trials], _MAX_NAMES)}")
    yield f"Run {replay.again}"


def data(replay: Replay) -> dict[str, Any]:
    """Returns everything as plain data, with every trial."""
    comparison = replay.found
    return {
        "bundle": replay.bundle,
        "run": replay.run,
        "target": replay.target,
        "suite": replay.suite,
        "standing": replay.standing,
        "signed": replay.signed,
        "replay": replay.again,
        "replay_target": replay.target_now,
        "notes": list(replay.notes),
        "total": comparison.total,
        **{name: _share(getattr(comparison, name)) for _, name in _PARTS},
        "then": counts_row(comparison.then),
        "now": counts_row(comparison.now),
        **{name: [_trial(trial) for trial in getattr(comparison, name)] for _, name in _LISTS},
        "exit_code": int(comparison.exit_code),
    }


def markdown(replay: Replay) -> Iterator[str]:
    """Yields Markdown for a pull request or a notebook."""
    comparison = replay.found
    yield f"# {markdown_text(replay.suite)}, asked again\n\n"
    yield f"Then {markdown_text(replay.target)}, now {markdown_text(replay.target_now)}. "
    yield f"Bundle of run {markdown_code(replay.run)}: {markdown_text(replay.signed)} "
    yield f"Run of now: {markdown_code(replay.again)}.\n\n"
    for note in replay.notes:
        yield f"{markdown_text(note)}\n\n"
    yield "|  | Trials | Share | 95 % interval |\n|---|--:|--:|---|\n"
    for title, name in _PARTS:
        part: Share = getattr(comparison, name)
        yield f"| {title} | {part.count} | {percent(part.share)} | {interval(part.ci95)} |\n"
    yield f"| not measured | {len(comparison.not_measured)} | {NONE} | {NONE} |\n"
    yield f"| not measured in the bundle | {len(comparison.not_measured_before)} | {NONE} | {NONE} |\n\n"
    yield f"Passed then: {_passed(comparison.then)}. Passed now: {_passed(comparison.now)}.\n"
    for title, name in _LISTS:
        trials: tuple[Said, ...] = getattr(comparison, name)
        if trials:
            yield f"\n## {title}\n\n"
            yield from (f"* {markdown_text(trial.name)}\n" for trial in trials)


def _passed(counts: Counts) -> str:
    rate = f"{percent(counts.pass_rate)}, 95% interval {interval(counts.ci95)}"
    return f"{counts.passed:,} of {counts.total:,}: {rate}"


def _share(part: Share) -> dict[str, Any]:
    return {"count": part.count, "share": part.share, "ci95": rounded(part.ci95)}


def _trial(trial: Said) -> dict[str, Any]:
    return {"case_id": trial.case_id, "repeat": trial.repeat, "split": trial.split}

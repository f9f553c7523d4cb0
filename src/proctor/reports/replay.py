"""The replay of a bundle's prompts, as a document and plain data. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from proctor.plurals import join_names
from proctor.proof.replay_comparison import ReplayComparison, ReplayShare
from proctor.reports.document import Block, Code, Column, Facts, Heading, Paragraph, Rate, Table
from proctor.reports.formatting import interval, percent, round_interval
from proctor.reports.runs.serialize import counts_record
from proctor.verdicts import Counts

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


def document_for(replay: ReplayReport, max_names: int | None = None) -> Iterator[Block]:
    """Yields the shares of trials with the same verdict, both pass rates, and the trials that changed.

    Args:
        replay: the bundle and the run that repeated its prompts.
        max_names: at most this many trials are named in a sentence; None for all.
    """
    comparison = replay.comparison
    yield Heading(f"{replay.suite}: {replay.target} then, {replay.replay_target} now")
    yield Paragraph(("Bundle of run ", Code(replay.run), f": {replay.signature}"))
    yield from map(Paragraph, replay.notes)
    shares = [(title, getattr(comparison, name)) for title, name in _PARTS]
    missing = (("not measured", comparison.not_measured), ("not before", comparison.not_measured_before))
    yield Table(
        columns=(Column(width=12), Column("trials", "count", 7), Column("share", "rate")),
        rows=[
            *((title, part.count, Rate(part.share, part.ci95)) for title, part in shares),
            *((title, len(trials), Rate(None, None)) for title, trials in missing if trials),
        ],
    )
    yield Facts(
        [
            ("Passed then", _pass_rate_text(comparison.then)),
            ("Passed now", _pass_rate_text(comparison.now)),
        ]
    )
    for title, name in _LISTS:
        names = [trial.name for trial in getattr(comparison, name)]
        if names:
            yield Paragraph(f"{title}: {join_names(names, max_names or len(names))}")
    yield Paragraph(("Run ", Code(replay.replay_run)))


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


def _pass_rate_text(counts: Counts) -> str:
    rate = f"{percent(counts.pass_rate)}, 95% interval {interval(counts.ci95)}"
    return f"{counts.passed:,} of {counts.total:,}: {rate}"


def _share_row(part: ReplayShare) -> dict[str, Any]:
    return {"count": part.count, "share": part.share, "ci95": round_interval(part.ci95)}

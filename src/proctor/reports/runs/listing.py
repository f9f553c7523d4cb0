"""Renders lists of stored runs as text and JSON, without pass rates of holdouts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict

from proctor.model import Run
from proctor.reports.formatting import NONE, interval, percent, to_json
from proctor.reports.record_fields import record_from
from proctor.reports.runs.records import RunSummaryRecord
from proctor.reports.runs.serialize import counts_record
from proctor.safe_text import one_line
from proctor.verdicts import Counts

_COLUMNS = ("passed", "rate", "95% interval", "errors", "measured", "rate", "95% interval")
_WIDTHS = (13, 6, 12, 6, 13, 6, 12)
HEAD = f"{'run':<22}  {'status':<11}  {'  '.join(map(str.rjust, _COLUMNS, _WIDTHS))}  suite on target"
"""The heading of the list."""
_RATES = ("passed", "failed", "errors", "unscored", "pass_rate", "ci95", "measured")


class RunListEntry(Struct, frozen=True, kw_only=True):
    """A run in a list."""

    run: Run
    counts: Counts
    verdict_count: int
    """The number of its trials with a verdict."""

    @property
    def is_sealed(self) -> bool:
        """Whether it ran only the holdout, whose pass rate a list must not show."""
        return self.run.settings.selection.split == "holdout"


def entry_line(listed_run: RunListEntry) -> str:
    """Returns the line of a run."""
    run, counts = listed_run.run, listed_run.counts
    if listed_run.is_sealed:
        no_counts = Counts()
        cells = (*_rate(f"sealed/{counts.total:,}", no_counts), NONE, *_rate(NONE, no_counts))
    else:
        measured_counts = counts.measured_counts
        cells = (
            *_rate(_share(counts), counts),
            f"{counts.errors:,}",
            *_rate(_share(measured_counts), measured_counts),
        )
    missing = (
        f" ({run.planned - listed_run.verdict_count:,} missing)"
        if listed_run.verdict_count < run.planned
        else ""
    )
    tags = f"  [{', '.join(run.tags)}]" if run.tags else ""
    return (
        f"{run.id:<22}  {run.status:<11}  {'  '.join(map(str.rjust, cells, _WIDTHS))}  "
        f"{one_line(f'{run.suite.title} on {run.target.name}')}{missing}{tags}"
    )


def _share(counts: Counts) -> str:
    return f"{counts.passed:,}/{counts.total:,}"


def _rate(share: str, counts: Counts) -> tuple[str, str, str]:
    return share, percent(counts.pass_rate), interval(counts.ci95)


def summary_record(listed_run: RunListEntry) -> RunSummaryRecord:
    """Returns a run as a record; hidden values are None."""
    run = listed_run.run
    hidden = dict.fromkeys(_RATES) if listed_run.is_sealed else {}
    numbers = asdict(counts_record(listed_run.counts))
    return record_from(
        run,
        RunSummaryRecord,
        run=run.id,
        suite=run.suite.name,
        suite_version=run.suite.version,
        suite_digest=run.suite.digest,
        dialect=run.suite.dialect,
        target=run.target.name,
        judges=tuple([judge.name for judge in run.judges]),
        missing=max(0, run.planned - listed_run.verdict_count),
        **numbers | {"measured": counts_record(listed_run.counts.measured_counts)} | hidden,
        repeats_rule=run.suite.repeats_rule,
        sealed=listed_run.is_sealed,
    )


def render(runs: Sequence[RunListEntry], *, more: bool) -> str:
    """Returns the runs as one JSON object, with whether more match."""
    return to_json({"runs": [summary_record(listed_run) for listed_run in runs], "more": more})

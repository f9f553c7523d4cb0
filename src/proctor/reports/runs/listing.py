"""Renders lists of stored runs as text and JSON, without pass rates of holdouts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from proctor.model import Run
from proctor.reports.document import Column, Table
from proctor.reports.formatting import interval, to_json, unmeasured
from proctor.reports.record_fields import record_from
from proctor.reports.runs.records import RunSummaryRecord
from proctor.reports.runs.serialize import counts_record, prompt_record, shard_text, stopping_fields
from proctor.verdicts import Counts

_COLUMNS = (
    Column("run", "run", 22),
    Column("status", width=11),
    Column("passed", "number", 13),
    Column("rate", "percent", 6),
    Column("95% interval", "number", 12),
    Column("not measured", "number", 16),
    Column("suite on target"),
)
_RATES = ("passed", "failed", "errors", "unscored", "pass_rate", "ci95", "bounds")


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


def list_table(runs: Sequence[RunListEntry], notes: Sequence[str] = ()) -> Table:
    """Returns a row for each run."""
    return Table(_COLUMNS, list(map(_table_row, runs)), notes=notes)


def _table_row(listed_run: RunListEntry) -> tuple[object, ...]:
    run, counts = listed_run.run, listed_run.counts
    numbers: tuple[object, ...] = (f"sealed/{counts.total:,}", None, None, None)
    if not listed_run.is_sealed:
        passed = f"{counts.passed:,}/{counts.total:,}"
        rest = unmeasured(counts.unmeasured, counts.bounds) or None
        numbers = (passed, counts.pass_rate, interval(counts.ci95), rest)
    missing = run.planned - listed_run.verdict_count
    name = f"{run.suite.title} on {run.target_title}" + (f" ({missing:,} missing)" if missing > 0 else "")
    if run.settings.selection.shard is not None:
        name += f" ({run.settings.selection.shard.title})"
    if run.early_stop is not None:
        name += " (stopped early)"
    tags = f" [{', '.join(run.tags)}]" if run.tags else ""
    return run.id, run.status, *numbers, f"{name}{tags}"


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
        prompt=prompt_record(run),
        judges=tuple([judge.name for judge in run.judges]),
        missing=max(0, run.planned - listed_run.verdict_count),
        **numbers | hidden | _stopping_fields(listed_run),
        repeats_rule=run.suite.repeats_rule,
        shard=shard_text(run),
        sealed=listed_run.is_sealed,
    )


def _stopping_fields(listed_run: RunListEntry) -> dict[str, object]:
    """Returns what is known of a run that stopped early; nothing on a holdout."""
    fields = stopping_fields(listed_run.run)
    return fields | {"early_stop": UNSET} if listed_run.is_sealed else fields


def render(runs: Sequence[RunListEntry], *, more: bool) -> str:
    """Returns the runs as one JSON object, with whether more match."""
    return to_json({"runs": [summary_record(listed_run) for listed_run in runs], "more": more})

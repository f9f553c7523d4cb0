"""Renders lists of stored runs as text and JSON, without pass rates of holdouts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from proctor.model import Run
from proctor.reports.document import Column, Table
from proctor.reports.formatting import format_utc, interval, to_json
from proctor.reports.runs.serialize import counts_row
from proctor.verdicts import Counts

_RATE = (Column("rate", "percent", 6), Column("95% interval", "number", 12))
_COLUMNS = (
    Column("run", "run", 22),
    Column("status", width=11),
    *(Column("passed", "number", 13), *_RATE),
    Column("errors", "count", 6),
    *(Column("measured", "number", 13), *_RATE),
    Column("suite on target"),
)
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


def list_table(runs: Sequence[RunListEntry], notes: Sequence[str] = ()) -> Table:
    """Returns a row for each run."""
    return Table(_COLUMNS, list(map(_table_row, runs)), notes=notes)


def _table_row(listed_run: RunListEntry) -> tuple[object, ...]:
    run, counts = listed_run.run, listed_run.counts
    numbers: tuple[object, ...] = (f"sealed/{counts.total:,}", *[None] * 6)
    if not listed_run.is_sealed:
        numbers = (*_rate_cells(counts), counts.errors, *_rate_cells(counts.measured_counts))
    missing = run.planned - listed_run.verdict_count
    name = f"{run.suite.title} on {run.target.name}" + (f" ({missing:,} missing)" if missing > 0 else "")
    tags = f" [{', '.join(run.tags)}]" if run.tags else ""
    return run.id, run.status, *numbers, f"{name}{tags}"


def _rate_cells(counts: Counts) -> tuple[object, ...]:
    return f"{counts.passed:,}/{counts.total:,}", counts.pass_rate, interval(counts.ci95)


def entry_row(listed_run: RunListEntry) -> dict[str, Any]:
    """Returns a run as plain data, with the field names of a whole run; hidden values are null."""
    run = listed_run.run
    return {
        "run": run.id,
        "group": run.group,
        "suite": run.suite.name,
        "suite_version": run.suite.version,
        "suite_digest": run.suite.digest,
        "dialect": run.suite.dialect,
        "target": run.target.name,
        "judges": [judge.name for judge in run.judges],
        "status": run.status,
        "planned": run.planned,
        "missing": max(0, run.planned - listed_run.verdict_count),
        **counts_row(listed_run.counts),
        "measured": counts_row(listed_run.counts.measured_counts),
        **(dict.fromkeys(_RATES) if listed_run.is_sealed else {}),
        "repeats_rule": run.suite.repeats_rule,
        "sealed": listed_run.is_sealed,
        "tags": list(run.tags),
        "started_at": format_utc(run.started_at),
        "finished_at": None if run.finished_at is None else format_utc(run.finished_at),
    }


def render(runs: Sequence[RunListEntry], *, more: bool) -> str:
    """Returns the runs as one JSON object, with whether more match."""
    return to_json({"runs": [entry_row(listed_run) for listed_run in runs], "more": more})

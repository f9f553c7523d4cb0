"""Renders saved suites as text and JSON: lists, one version, and the changes between two. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Any

from msgspec import Struct

from proctor.codec import judged_digest
from proctor.invalid_cases import failure_kind
from proctor.model import HoldoutAccess, Run, Suite
from proctor.protocols import SavedSuite, StoredCase
from proctor.reports.document import Block, Column, Paragraph, Table
from proctor.reports.formatting import format_utc, to_json
from proctor.reports.runs.serialize import question_text
from proctor.safe_text import one_line, truncate
from proctor.suite_diff import Diff, FieldChange

_MAX_RUNS = 5
"""At most this many runs of a version are shown; the JSON has all."""
_MAX_VALUE_LENGTH = 200


class VersionEntry(Struct, frozen=True, kw_only=True):
    """A version of a suite, and the number of its stored runs."""

    saved: SavedSuite
    runs: int


class SuiteDetail(Struct, frozen=True, kw_only=True):
    """One version with its runs, holdout accesses and counts."""

    saved: SavedSuite
    runs: tuple[Run, ...]
    """Its stored runs, newest first."""
    looks: tuple[HoldoutAccess, ...]
    categories: Mapping[str, int]
    """The number of cases in each category."""
    tags: Mapping[str, int]
    holdout: frozenset[int] | None
    """Positions of the held-out cases; None if the suite is not split."""

    def split_at(self, position: int) -> str | None:
        """Returns `dev` or `holdout`; None if the suite is not split."""
        if self.holdout is None:
            return None
        return "holdout" if position in self.holdout else "dev"


# --- lists -------------------------------------------------------------------------------------------------


def list_blocks(versions: Sequence[VersionEntry]) -> Iterator[Block]:
    """Yields a row for each suite, with its current version and the number of versions."""
    names = {version.saved.suite.name: version for version in versions if version.saved.current}
    if not names:
        yield Paragraph("No suite is saved here.")
    rows = []
    for name, version in names.items():
        every = [other for other in versions if other.saved.suite.name == name]
        suite, runs = version.saved.suite, sum(other.runs for other in every)
        saved = _minute(version.saved.saved_at)
        rows.append((name, suite.version or "", len(every), suite.case_count, runs, saved))
    columns = (
        *(Column("suite"), Column("current", width=7), Column("versions", "count", 8)),
        *(Column("cases", "count", 6), Column("runs", "count", 5), Column("saved")),
    )
    yield Table(columns, rows)


def history_table(versions: Sequence[VersionEntry]) -> Table:
    """Returns a row for each version of a suite."""
    rows = []
    for version in versions:
        suite, current = version.saved.suite, "current" if version.saved.current else ""
        saved = _minute(version.saved.saved_at)
        rows.append((suite.version or "", saved, suite.case_count, version.runs, suite.digest[:19], current))
    columns = (
        *(Column("version", width=7), Column("saved", width=16), Column("cases", "count", 6)),
        *(Column("runs", "count", 5), Column("digest"), Column()),
    )
    return Table(columns, rows)


def render_list_json(versions: Sequence[VersionEntry]) -> str:
    """Returns the suites with their versions as JSON."""
    names = dict.fromkeys(version.saved.suite.name for version in versions)
    rows = [
        {
            "suite": name,
            "versions": [_row(version) for version in versions if version.saved.suite.name == name],
        }
        for name in names
    ]
    return to_json({"suites": rows})


def render_history_json(versions: Sequence[VersionEntry]) -> str:
    """Returns the versions of one suite as JSON."""
    return to_json(
        {"suite": versions[0].saved.suite.name, "versions": [_row(version) for version in versions]}
    )


def _row(version: VersionEntry) -> dict[str, Any]:
    suite = version.saved.suite
    return {
        "version": suite.version,
        "current": version.saved.current,
        "saved_at": format_utc(version.saved.saved_at),
        "cases": suite.case_count,
        "runs": version.runs,
        "dialect": suite.dialect,
        "suite_digest": suite.digest,
    }


# --- one version -------------------------------------------------------------------------------------------


def render_detail(detail: SuiteDetail) -> Iterator[str]:
    """Yields the lines about one version and its runs."""
    suite = detail.saved.suite
    yield f"{one_line(suite.name)} {suite.version}{', current' if detail.saved.current else ''}"
    for label, text in _facts(detail):
        yield f"  {label:<12}{one_line(text)}"
    for run in detail.runs[:_MAX_RUNS]:
        yield f"    {run.id}  {run.status}  on {one_line(run.target.name)}"
    if len(detail.runs) > _MAX_RUNS:
        more = len(detail.runs) - _MAX_RUNS
        yield f"    … and {more:,} more: proctor runs list --suite {one_line(suite.name)}"


def _facts(detail: SuiteDetail) -> Iterator[tuple[str, str]]:
    suite = detail.saved.suite
    if suite.description:
        yield "about", suite.description
    yield "saved", f"{_minute(detail.saved.saved_at)} UTC"
    yield "digest", suite.digest
    if suite.suite_hash:
        yield "hash", suite.suite_hash
    yield "dialect", suite.dialect
    if suite.declared_version is not None:
        yield "file says", f"version {suite.declared_version}"
    cases = f"{suite.case_count:,}"
    if detail.holdout is not None:
        cases += f": {suite.case_count - len(detail.holdout):,} dev + {len(detail.holdout):,} holdout"
    yield "cases", cases
    if detail.categories:
        yield "categories", _counts_text(detail.categories)
    if detail.tags:
        yield "tags", _counts_text(detail.tags)
    if detail.looks:
        rates = sum(access.kind == "rate" for access in detail.looks)
        yield "looks", f"{rates:,} at the holdout's pass rate, {len(detail.looks) - rates:,} at its answers"
    yield "runs", f"{len(detail.runs):,}"


def _counts_text(counts: Mapping[str, int]) -> str:
    return " · ".join(f"{name} {count:,}" for name, count in counts.items())


def case_lines(detail: SuiteDetail, cases: Iterable[StoredCase]) -> Iterator[str]:
    """Yields one line for each case: id, split, category, tags, graders and prompt."""
    for position, stored_case in enumerate(cases):
        case = stored_case.case
        words = [case.id, detail.split_at(position), case.category, ", ".join(case.tags)]
        words.append(", ".join(dict.fromkeys(assertion.grader for assertion in case.assertions)))
        words.append(truncate(question_text(case), 80))
        if case.problems:
            words.append(failure_kind(case.problems))
        yield "  " + " · ".join(one_line(word) for word in words if word)


def render_detail_json(detail: SuiteDetail, cases: Iterable[StoredCase] | None = None) -> str:
    """Returns one version as JSON, with its cases if they are given."""
    suite = detail.saved.suite
    row = {"suite": suite.name, **_row(VersionEntry(saved=detail.saved, runs=len(detail.runs)))}
    row["runs"] = [
        {
            "run": run.id,
            "target": run.target.name,
            "status": run.status,
            "started_at": format_utc(run.started_at),
        }
        for run in detail.runs
    ]
    row |= {
        "description": suite.description,
        "declared_version": suite.declared_version,
        "suite_hash": suite.suite_hash,
        "splits": None
        if detail.holdout is None
        else {"dev": suite.case_count - len(detail.holdout), "holdout": len(detail.holdout)},
        "categories": dict(detail.categories),
        "tags": dict(detail.tags),
        "looks": [
            {"kind": access.kind, "run": access.run, "at": format_utc(access.at)} for access in detail.looks
        ],
    }
    if cases is not None:
        row["case_list"] = [case_row(detail, *numbered_case) for numbered_case in enumerate(cases)]
    return to_json(row)


def case_row(detail: SuiteDetail, position: int, stored_case: StoredCase) -> dict[str, Any]:
    """Returns one case of a version as plain data, with its graders and digests."""
    case = stored_case.case
    return {
        "id": case.id,
        "split": detail.split_at(position),
        "category": case.category,
        "tags": list(case.tags),
        "graders": [assertion.grader for assertion in case.assertions],
        "sent": stored_case.sent_digest,
        "judged": judged_digest(case),
    }


# --- what changed ------------------------------------------------------------------------------------------


def render_diff(old: str, new: str, diff: Diff) -> Iterator[str]:
    """Yields a line with the counts, then the removed, added, renamed and changed cases.

    Args:
        old: the name of the old suite.
        new: the name of the new suite.
        diff: the difference between them.
    """
    counts = (
        (len(diff.added), "added"),
        (len(diff.removed), "removed"),
        (len(diff.renamed), "renamed"),
        (len(diff.changed), "changed"),
        (diff.moved, "moved"),
        (diff.same, "the same"),
    )
    summary = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no case"
    yield f"{one_line(old)} → {one_line(new)}: {summary}"
    if diff.is_empty:
        return
    yield ""
    if diff.header:
        yield "the suite"
        for change in diff.header:
            yield from _change_lines(change)
    for case in diff.removed:
        yield f"- {one_line(case)}"
    for case in diff.added:
        yield f"+ {one_line(case)}"
    for rename in diff.renamed:
        yield f"{one_line(rename.old)} is {one_line(rename.new)} now"
    for case_change in diff.changed:
        yield one_line(case_change.case)
        for change in case_change.changes:
            yield from _change_lines(change)


def _change_lines(change: FieldChange) -> Iterator[str]:
    old, new = change.old, change.new
    yield f"  {one_line(change.field)}"
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        lines = unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm="")
        yield from (
            f"    {one_line(line[:1])} {truncate(line[1:], _MAX_VALUE_LENGTH)}" for line in list(lines)[2:]
        )
        return
    if old is not None:
        yield f"    - {_value(old)}"
    if new is not None:
        yield f"    + {_value(new)}"


def _value(value: Any) -> str:
    return truncate(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _MAX_VALUE_LENGTH
    )


def render_diff_json(old: Suite, new: Suite, diff: Diff, exit_code: int = 0) -> str:
    """Returns the whole difference and the exit code as JSON."""
    return to_json(
        {
            "old": _header_row(old),
            "new": _header_row(new),
            "added": list(diff.added),
            "removed": list(diff.removed),
            "renamed": [{"old": entry.old, "new": entry.new} for entry in diff.renamed],
            "changed": [
                {"case": entry.case, "fields": _change_rows(entry.changes)} for entry in diff.changed
            ],
            "header": _change_rows(diff.header),
            "moved": diff.moved,
            "same": diff.same,
            "exit_code": exit_code,
        }
    )


def _header_row(suite: Suite) -> dict[str, Any]:
    return {
        "suite": suite.name,
        "version": suite.version,
        "suite_digest": suite.digest,
        "cases": suite.case_count,
    }


def _change_rows(changes: Iterable[FieldChange]) -> list[dict[str, Any]]:
    return [{"field": change.field, "old": change.old, "new": change.new} for change in changes]


# --- words -------------------------------------------------------------------------------------------------


def _minute(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"

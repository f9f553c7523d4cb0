"""Saved suites to text and JSON: what a store has, one version, and what changed between two. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Any

from msgspec import Struct

from proctor.codec import judged_digest
from proctor.invalid_cases import kind_of
from proctor.model import Look, Run, Suite
from proctor.protocols import SavedSuite, StoredCase
from proctor.reports.formatting import as_json, utc
from proctor.reports.runs.serialize import question_of
from proctor.safe_text import columns, cut, one_line, padded
from proctor.suite_diff import Change, Diff

_RUNS = 5
"""So many runs of a version are shown; its JSON has all."""
_CLIPPED = 200


class Kept(Struct, frozen=True, kw_only=True):
    """A version, and how many runs of it are stored."""

    saved: SavedSuite
    runs: int


class Described(Struct, frozen=True, kw_only=True):
    """All that is told of one version."""

    saved: SavedSuite
    runs: tuple[Run, ...]
    """Those stored, newest first."""
    looks: tuple[Look, ...]
    categories: Mapping[str, int]
    """How many cases have each."""
    tags: Mapping[str, int]
    holdout: frozenset[int] | None
    """The positions of the held-out cases; None for a suite that is not split."""

    def split_of(self, position: int) -> str | None:
        """`dev`, `holdout`, or None for a suite that is not split."""
        if self.holdout is None:
            return None
        return "holdout" if position in self.holdout else "dev"


# --- lists -------------------------------------------------------------------------------------------------


def listed(versions: Sequence[Kept]) -> Iterator[str]:
    """One line for each suite: its current version, and how many there are."""
    names = {one.saved.suite.name: one for one in versions if one.saved.current}
    if not names:
        yield "No suite is saved here."
        return
    wide = max(len("suite"), *(columns(one_line(name)) for name in names))
    yield f"{'suite':<{wide}}  current  versions   cases   runs  saved"
    for name, one in names.items():
        every = [each for each in versions if each.saved.suite.name == name]
        suite = one.saved.suite
        yield (
            f"{padded(one_line(name), wide)}  {suite.version or '':<7}  {len(every):>8,}  "
            f"{suite.case_count:>6,}  {sum(each.runs for each in every):>5,}  {_minute(one.saved.saved_at)}"
        )


def history(versions: Sequence[Kept]) -> Iterator[str]:
    """One line for each version of a suite."""
    yield f"{'version':<7}  {'saved':<16}  {'cases':>6}  {'runs':>5}  digest"
    for one in versions:
        suite = one.saved.suite
        current = "  current" if one.saved.current else ""
        yield (
            f"{suite.version or '':<7}  {_minute(one.saved.saved_at)}  {suite.case_count:>6,}  "
            f"{one.runs:>5,}  {suite.digest[:19]}{current}"
        )


def list_json(versions: Sequence[Kept]) -> str:
    """The suites with their versions."""
    names = dict.fromkeys(one.saved.suite.name for one in versions)
    rows = [
        {"suite": name, "versions": [_row(one) for one in versions if one.saved.suite.name == name]}
        for name in names
    ]
    return as_json({"suites": rows})


def history_json(versions: Sequence[Kept]) -> str:
    """The versions of one suite."""
    return as_json({"suite": versions[0].saved.suite.name, "versions": [_row(one) for one in versions]})


def _row(one: Kept) -> dict[str, Any]:
    suite = one.saved.suite
    return {
        "version": suite.version,
        "current": one.saved.current,
        "saved_at": utc(one.saved.saved_at),
        "cases": suite.case_count,
        "runs": one.runs,
        "dialect": suite.dialect,
        "suite_digest": suite.digest,
    }


# --- one version -------------------------------------------------------------------------------------------


def described(one: Described) -> Iterator[str]:
    """What one version is, and what was done with it."""
    suite = one.saved.suite
    yield f"{one_line(suite.name)} {suite.version}{', current' if one.saved.current else ''}"
    for label, text in _facts(one):
        yield f"  {label:<12}{one_line(text)}"
    for run in one.runs[:_RUNS]:
        yield f"    {run.id}  {run.status}  on {one_line(run.target.name)}"
    if len(one.runs) > _RUNS:
        yield f"    … and {len(one.runs) - _RUNS:,} more: proctor runs list --suite {one_line(suite.name)}"


def _facts(one: Described) -> Iterator[tuple[str, str]]:
    suite = one.saved.suite
    if suite.description:
        yield "about", suite.description
    yield "saved", f"{_minute(one.saved.saved_at)} UTC"
    yield "digest", suite.digest
    if suite.suite_hash:
        yield "hash", suite.suite_hash
    yield "dialect", suite.dialect
    if suite.declared_version is not None:
        yield "file says", f"version {suite.declared_version}"
    cases = f"{suite.case_count:,}"
    if one.holdout is not None:
        cases += f": {suite.case_count - len(one.holdout):,} dev + {len(one.holdout):,} holdout"
    yield "cases", cases
    if one.categories:
        yield "categories", _counted(one.categories)
    if one.tags:
        yield "tags", _counted(one.tags)
    if one.looks:
        rates = sum(look.kind == "rate" for look in one.looks)
        yield "looks", f"{rates:,} at the holdout's pass rate, {len(one.looks) - rates:,} at its answers"
    yield "runs", f"{len(one.runs):,}"


def _counted(counts: Mapping[str, int]) -> str:
    return " · ".join(f"{name} {count:,}" for name, count in counts.items())


def case_lines(one: Described, cases: Iterable[StoredCase]) -> Iterator[str]:
    """One line for each case: id, split, category and tags, how it is graded, and what it asks."""
    for position, stored in enumerate(cases):
        case = stored.case
        words = [case.id, one.split_of(position), case.category, ", ".join(case.tags)]
        words.append(", ".join(dict.fromkeys(assertion.grader for assertion in case.assertions)))
        words.append(cut(question_of(case), 80))
        if case.problems:
            words.append(kind_of(case.problems))
        yield "  " + " · ".join(one_line(word) for word in words if word)


def described_json(one: Described, cases: Iterable[StoredCase] | None = None) -> str:
    """One version, and its cases where they are given."""
    suite = one.saved.suite
    row = {"suite": suite.name, **_row(Kept(saved=one.saved, runs=len(one.runs)))}
    row["runs"] = [
        {
            "run": run.id,
            "target": run.target.name,
            "status": run.status,
            "started_at": utc(run.started_at),
        }
        for run in one.runs
    ]
    row |= {
        "description": suite.description,
        "declared_version": suite.declared_version,
        "suite_hash": suite.suite_hash,
        "splits": None
        if one.holdout is None
        else {"dev": suite.case_count - len(one.holdout), "holdout": len(one.holdout)},
        "categories": dict(one.categories),
        "tags": dict(one.tags),
        "looks": [{"kind": look.kind, "run": look.run, "at": utc(look.at)} for look in one.looks],
    }
    if cases is not None:
        row["case_list"] = [case_row(one, *each) for each in enumerate(cases)]
    return as_json(row)


def case_row(one: Described, position: int, stored: StoredCase) -> dict[str, Any]:
    """One case of a version: where it belongs, how it is graded, and its digests."""
    case = stored.case
    return {
        "id": case.id,
        "split": one.split_of(position),
        "category": case.category,
        "tags": list(case.tags),
        "graders": [assertion.grader for assertion in case.assertions],
        "sent": stored.sent,
        "judged": judged_digest(case),
    }


# --- what changed ------------------------------------------------------------------------------------------


def compared(old: str, new: str, found: Diff) -> Iterator[str]:
    """What changed: a line with the counts, then what was removed, added, renamed and changed.

    Args:
        old: what the old suite is called.
        new: what the new one is called.
        found: what lies between them.
    """
    counts = (
        (len(found.added), "added"),
        (len(found.removed), "removed"),
        (len(found.renamed), "renamed"),
        (len(found.changed), "changed"),
        (found.moved, "moved"),
        (found.same, "the same"),
    )
    told = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no case"
    yield f"{one_line(old)} → {one_line(new)}: {told}"
    if found.is_empty:
        return
    yield ""
    if found.header:
        yield "the suite"
        for change in found.header:
            yield from _changed(change)
    for case in found.removed:
        yield f"- {one_line(case)}"
    for case in found.added:
        yield f"+ {one_line(case)}"
    for renamed in found.renamed:
        yield f"{one_line(renamed.old)} is {one_line(renamed.new)} now"
    for changed in found.changed:
        yield one_line(changed.case)
        for change in changed.changes:
            yield from _changed(change)


def _changed(change: Change) -> Iterator[str]:
    old, new = change.old, change.new
    yield f"  {one_line(change.field)}"
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        lines = unified_diff(old.splitlines(), new.splitlines(), n=1, lineterm="")
        yield from (f"    {one_line(line[:1])} {cut(line[1:], _CLIPPED)}" for line in list(lines)[2:])
        return
    if old is not None:
        yield f"    - {_value(old)}"
    if new is not None:
        yield f"    + {_value(new)}"


def _value(value: Any) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _CLIPPED)


def compared_json(old: Suite, new: Suite, found: Diff, exit_code: int = 0) -> str:
    """The same, whole, with what the command ends with."""
    return as_json(
        {
            "old": _header_row(old),
            "new": _header_row(new),
            "added": list(found.added),
            "removed": list(found.removed),
            "renamed": [{"old": one.old, "new": one.new} for one in found.renamed],
            "changed": [{"case": one.case, "fields": _change_rows(one.changes)} for one in found.changed],
            "header": _change_rows(found.header),
            "moved": found.moved,
            "same": found.same,
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


def _change_rows(changes: Iterable[Change]) -> list[dict[str, Any]]:
    return [{"field": one.field, "old": one.old, "new": one.new} for one in changes]


# --- words -------------------------------------------------------------------------------------------------


def _minute(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"

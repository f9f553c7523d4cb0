"""Renders saved suites as text and records: lists, one version, and the changes between two. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from difflib import unified_diff
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert, field

from proctor.codec import judged_digest
from proctor.invalid_cases import failure_kind
from proctor.model import HoldoutAccess, Run, Suite
from proctor.protocols import SavedSuite, StoredCase
from proctor.reports.document import Block, Column, Paragraph, Table
from proctor.reports.record_fields import Digest, Split, Status, Time, about
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

    def split_at(self, position: int) -> Split | None:
        """Returns `dev` or `holdout`; None if the suite is not split."""
        if self.holdout is None:
            return None
        return "holdout" if position in self.holdout else "dev"


# --- records -----------------------------------------------------------------------------------------------


class SuiteVersionRecord(Struct, frozen=True, kw_only=True):
    """One version of a suite."""

    version: str
    current: Annotated[bool, about("Whether it was the last one saved under the name.")]
    saved_at: Time
    cases: int
    runs: Annotated[int, about("Number of its stored runs.")]
    dialect: str
    suite_digest: Digest


class SuiteHistoryRecord(Struct, frozen=True, kw_only=True):
    """A suite with all of its versions, oldest first."""

    suite: str
    versions: tuple[SuiteVersionRecord, ...]


class SuiteListRecord(Struct, frozen=True, kw_only=True):
    """All suites, as printed by `proctor suites list --json`."""

    suites: tuple[SuiteHistoryRecord, ...]


class SuiteRunRecord(Struct, frozen=True, kw_only=True):
    """A run of a version."""

    run: str
    target: str
    status: Status
    started_at: Time


class SplitSizesRecord(Struct, frozen=True, kw_only=True):
    """The number of dev and holdout cases."""

    dev: int
    holdout: int


class HoldoutAccessRecord(Struct, frozen=True, kw_only=True):
    """One access to a holdout."""

    kind: Literal["rate", "reveal"]
    run: str
    at: Time


class ListedCaseRecord(Struct, frozen=True, kw_only=True):
    """One case in a list."""

    position: int | UnsetType = UNSET
    id: str
    split: Split | None
    category: str | None
    tags: tuple[str, ...]
    graders: tuple[str, ...]
    sent: Annotated[Digest, about("Digest of what a target receives.")]
    judged: Annotated[Digest, about("Digest of how its answers are graded.")]


class CaseRecord(ListedCaseRecord, frozen=True, kw_only=True):
    """One case of a version."""

    position: Annotated[int, about("Its position in the suite, from 0.")]


class SuiteRecord(Struct, frozen=True, kw_only=True):
    """One version, as printed by `proctor suites show --json`."""

    suite: str
    version: str
    current: bool
    saved_at: Time
    cases: int
    runs: tuple[SuiteRunRecord, ...]
    dialect: str
    suite_digest: Digest
    description: str | None
    declared_version: Annotated[str | None, about("The version stated in its file.")]
    suite_hash: Annotated[str | None, about("The published hash, for suites in the format pramana.")]
    splits: Annotated[SplitSizesRecord | None, about("Null if the suite is not split.")]
    categories: dict[str, int]
    tags: dict[str, int]
    looks: tuple[HoldoutAccessRecord, ...]
    case_list: Annotated[
        tuple[ListedCaseRecord, ...] | UnsetType, about("Its cases, if they were requested.")
    ] = UNSET


class ChangedFieldRecord(Struct, frozen=True, kw_only=True):
    """A field that changed; null if it is absent or has its default."""

    field: Annotated[str, Meta(examples=["input[0].content"])]
    old: Any
    new: Any


class ChangedCaseRecord(Struct, frozen=True, kw_only=True):
    """A case that differs between the versions."""

    case: str
    changes: tuple[ChangedFieldRecord, ...] = field(name="fields")


class RenamedCaseRecord(Struct, frozen=True, kw_only=True):
    """A case that only has another id."""

    old: str
    new: str


class DiffSideRecord(Struct, frozen=True, kw_only=True):
    """One of the two versions."""

    suite: str
    version: Annotated[str | None, about("Null for a suite in a file.")]
    suite_digest: Digest
    cases: int


class SuiteDiffRecord(Struct, frozen=True, kw_only=True):
    """Changes between versions, as printed by `proctor suites diff --json`."""

    old: DiffSideRecord
    new: DiffSideRecord
    added: tuple[str, ...]
    removed: tuple[str, ...]
    renamed: tuple[RenamedCaseRecord, ...]
    changed: tuple[ChangedCaseRecord, ...]
    header: Annotated[tuple[ChangedFieldRecord, ...], about("Changes of the suite itself.")]
    moved: int
    same: int
    exit_code: int


# --- lists -------------------------------------------------------------------------------------------------


def list_blocks(versions: Sequence[VersionEntry]) -> Iterator[Block]:
    """Yields a row for each suite, with its current version and the number of versions."""
    names = {version.saved.suite.name: version for version in versions if version.saved.current}
    if not names:
        yield Paragraph("There are no saved suites.")
    rows = []
    for name, version in names.items():
        every = [other for other in versions if other.saved.suite.name == name]
        suite, runs = version.saved.suite, sum(other.runs for other in every)
        saved = _minute(version.saved.saved_at)
        rows.append((name, suite.version or "", len(every), suite.case_count, runs, saved))
    columns = (
        Column("suite"),
        Column("current", width=7),
        Column("versions", "count", 8),
        Column("cases", "count", 6),
        Column("runs", "count", 5),
        Column("saved"),
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
        Column("version", width=7),
        Column("saved", width=16),
        Column("cases", "count", 6),
        Column("runs", "count", 5),
        Column("digest"),
        Column(),
    )
    return Table(columns, rows)


def list_record(versions: Sequence[VersionEntry]) -> SuiteListRecord:
    """Returns the suites with their versions as a record."""
    by_name: dict[str, list[VersionEntry]] = {}
    for version in versions:
        by_name.setdefault(version.saved.suite.name, []).append(version)
    return SuiteListRecord(suites=tuple([history_record(entries) for entries in by_name.values()]))


def history_record(versions: Sequence[VersionEntry]) -> SuiteHistoryRecord:
    """Returns the versions of one suite as a record."""
    return SuiteHistoryRecord(
        suite=versions[0].saved.suite.name,
        versions=tuple([_version_record(version) for version in versions]),
    )


def _version_record(version: VersionEntry) -> SuiteVersionRecord:
    return SuiteVersionRecord(**_version_fields(version.saved, version.runs))


def _version_fields(saved: SavedSuite, runs: Any) -> dict[str, Any]:
    suite = saved.suite
    return {
        "version": suite.version,
        "current": saved.current,
        "saved_at": saved.saved_at,
        "cases": suite.case_count,
        "runs": runs,
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
        yield f"    {run.id}  {run.status}  on {one_line(run.target_title)}"
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
    yield "format", suite.dialect
    if suite.declared_version is not None:
        yield "file says", f"version {suite.declared_version}"
    cases = f"{suite.case_count:,}"
    if detail.holdout is not None:
        cases += f": {suite.case_count - len(detail.holdout):,} dev + {len(detail.holdout):,} holdout"
    yield "cases", cases
    if suite.defaults.prompts:
        yield "prompts", ", ".join(prompt.name for prompt in suite.defaults.prompts)
    if detail.categories:
        yield "categories", _counts_text(detail.categories)
    if detail.tags:
        yield "tags", _counts_text(detail.tags)
    if detail.looks:
        rates = sum(access.kind == "rate" for access in detail.looks)
        answers = len(detail.looks) - rates
        yield "accesses", f"{rates:,} to the holdout's pass rate, {answers:,} to its answers"
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


def detail_record(detail: SuiteDetail, cases: Iterable[StoredCase] | None = None) -> SuiteRecord:
    """Returns one version as a record, with its cases if they are given."""
    suite = detail.saved.suite
    runs = [
        SuiteRunRecord(run=run.id, target=run.target.name, status=run.status, started_at=run.started_at)
        for run in detail.runs
    ]
    return SuiteRecord(
        suite=suite.name,
        **_version_fields(detail.saved, tuple(runs)),
        description=suite.description,
        declared_version=suite.declared_version,
        suite_hash=suite.suite_hash,
        splits=None
        if detail.holdout is None
        else SplitSizesRecord(dev=suite.case_count - len(detail.holdout), holdout=len(detail.holdout)),
        categories=dict(detail.categories),
        tags=dict(detail.tags),
        looks=convert(detail.looks, tuple[HoldoutAccessRecord, ...], from_attributes=True),
        case_list=UNSET
        if cases is None
        else tuple([case_record(detail, position, case) for position, case in enumerate(cases)]),
    )


def case_record(detail: SuiteDetail, position: int, stored_case: StoredCase) -> ListedCaseRecord:
    """Returns one case of a version as a record, with its graders and digests."""
    case = stored_case.case
    return ListedCaseRecord(
        id=case.id,
        split=detail.split_at(position),
        category=case.category,
        tags=case.tags,
        graders=tuple([assertion.grader for assertion in case.assertions]),
        sent=stored_case.sent_digest,
        judged=judged_digest(case),
    )


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
    summary = ", ".join(f"{count:,} {what}" for count, what in counts if count) or "no cases"
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
        yield f"{one_line(rename.old)} is now {one_line(rename.new)}"
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


def diff_record(old: Suite, new: Suite, diff: Diff, exit_code: int = 0) -> SuiteDiffRecord:
    """Returns the whole difference and the exit code as a record."""
    return SuiteDiffRecord(
        old=_side_record(old),
        new=_side_record(new),
        added=diff.added,
        removed=diff.removed,
        renamed=convert(diff.renamed, tuple[RenamedCaseRecord, ...], from_attributes=True),
        changed=convert(diff.changed, tuple[ChangedCaseRecord, ...], from_attributes=True),
        header=convert(diff.header, tuple[ChangedFieldRecord, ...], from_attributes=True),
        moved=diff.moved,
        same=diff.same,
        exit_code=exit_code,
    )


def _side_record(suite: Suite) -> DiffSideRecord:
    return DiffSideRecord(
        suite=suite.name, version=suite.version, suite_digest=suite.digest, cases=suite.case_count
    )


# --- words -------------------------------------------------------------------------------------------------


def _minute(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}"

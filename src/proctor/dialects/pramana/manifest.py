"""Parses a `manifest.toml` into frozen tiers, and checks suites against it.

A manifest is in the folder of pramana suites and says what was published: the number of cases of each file,
their tokens, their hash. It is checked and never changed; this module opens no file.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.lazy_pattern import lazy_pattern
from proctor.model import Case, Problem
from proctor.validation import FieldReader, FieldSpec, ProblemLog

_TIER_FIELDS: Final = ("file", "test_count", "estimated_cost_usd", "estimated_tokens", "hash", "description")
_HASH = lazy_pattern(r"sha256:[0-9a-f]{64}")


class Tier(Struct, frozen=True, kw_only=True):
    """One published suite file."""

    name: str
    file: str
    """The file's name, in the manifest's own folder."""
    test_count: int
    estimated_tokens: int | None = None
    """The sum of its cases' `tokens_est`."""
    estimated_cost_usd: float | None = None
    hash: str | None = None
    description: str | None = None


class Manifest(Struct, frozen=True, kw_only=True):
    """What a manifest says about the suites in its folder."""

    version: str
    tiers: tuple[Tier, ...] = ()
    created: str | None = None
    description: str | None = None
    categories: tuple[str, ...] | None = None
    """None if the manifest does not list them; then they are not checked."""
    assertion_types: tuple[str, ...] | None = None
    cost_model: str | None = None

    def find_tier(self, file_name: str) -> Tier | None:
        """Returns the tier that lists the file."""
        return next((tier for tier in self.tiers if tier.file == file_name), None)


def parse_manifest(text: str, path: str) -> tuple[Manifest | None, list[Problem]]:
    """Parses a manifest. Returns it, or None and its problems.

    TOML that has neither `suite` nor `tiers` belongs to another program: a warning and no manifest.
    """
    import tomllib  # only a suite with a manifest beside it needs it

    notes = ProblemLog(path, 1)
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        problem = Problem(
            code="bad-toml",
            message=f"The manifest is not TOML: {str(error)[:200]}.",
            path=path,
            line=int(line[1]) if line else 1,
        )
        return None, [problem]
    if "suite" not in raw and "tiers" not in raw:
        notes.warn(
            "foreign-manifest",
            "The file has neither [suite] nor [tiers.<name>], so no suite can be checked against it.",
        )
        return None, notes.problems
    manifest = _parse_fields(FieldReader(raw, notes))
    problems = [replace(problem, line=_find_line(text, problem.field)) for problem in notes.problems]
    return (None if notes.has_errors else manifest), problems


def _parse_date(suite: FieldReader, name: str) -> str | None:
    value = suite.pop(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, date):
        return value.isoformat()
    suite.report_wrong_type(name, value, "a date")
    return None


_SUITE_FIELDS: Final = (
    FieldSpec("version", FieldReader.required_text, required=True),
    FieldSpec("created", _parse_date),
    FieldSpec("description", FieldReader.text),
)
_METADATA_FIELDS: Final = (
    FieldSpec("categories", FieldReader.texts),
    FieldSpec("assertion_types", FieldReader.texts),
    FieldSpec("cost_model", FieldReader.text),
)


def _parse_fields(root: FieldReader) -> Manifest:
    suite, tiers, metadata = root.object("suite"), root.object("tiers"), root.object("metadata")
    root.finish(("suite", "tiers", "metadata"))
    values: dict[str, Any] = {"version": ""}
    if suite is None:
        root.report_missing("suite", "a table with `version`")
    for fields, table in ((suite, _SUITE_FIELDS), (metadata, _METADATA_FIELDS)):
        if fields is not None:
            values |= fields.values(table)
            fields.finish([field.name for field in table])
    return Manifest(tiers=() if tiers is None else tuple(_parse_tiers(tiers)), **values)


def _parse_tiers(tiers: FieldReader) -> list[Tier]:
    tiers_read: list[Tier] = []
    for name in tiers.remaining_names():
        fields = tiers.object(name)
        if fields is None:
            continue
        if "test_count" not in fields:
            fields.report_missing("test_count", "a whole number")
        published = fields.text("hash")
        if published is not None and not _HASH.fullmatch(published):
            fields.error("bad-hash", "hash", "must be `sha256:` and 64 hexadecimal digits in lower case.")
        tier = Tier(
            name=name,
            file=fields.required_text("file"),
            test_count=fields.integer("test_count") or 0,
            estimated_tokens=fields.integer("estimated_tokens"),
            estimated_cost_usd=_parse_cost(fields),
            hash=published,
            description=fields.text("description"),
        )
        fields.finish(_TIER_FIELDS)
        if any(tier.file == other.file for other in tiers_read):
            fields.error("duplicate-file", "file", f"is {tier.file!r}, which another tier already lists.")
        tiers_read.append(tier)
    return tiers_read


def _find_line(text: str, field: str | None) -> int:
    """Returns the first line with a field's name, or else its table's name; 1 if there is none."""
    lines = text.splitlines()
    start = 0
    for name in (field or "").split("[")[0].split("."):
        word = re.compile(rf"^\s*(\[.*)?(?<![\w-]){re.escape(name)}(?![\w-])")
        start = next((place for place in range(start, len(lines)) if word.match(lines[place])), start)
    return start + 1


class CaseTotals:
    """Totals over the cases of a file, to compare with the manifest."""

    def __init__(self) -> None:
        self.count = 0
        self.tokens = 0
        self.categories: set[str] = set()
        self.types: set[str] = set()

    def add(self, case: Case) -> None:
        """Adds the next case."""
        self.count += 1
        self.tokens += case.metadata["tokens_est"]
        self.categories.add(case.category or "")
        self.types.update(assertion.label or "" for assertion in case.assertions)


def check_tier(
    manifest: Manifest, tier: Tier, totals: CaseTotals, suite_hash: str | None, path: str
) -> list[Problem]:
    """Returns the differences between a suite and its entry in the manifest.

    A different sum of `tokens_est` is a warning, as both are estimates; all other differences are errors.

    Args:
        manifest: what was published.
        tier: the suite's entry.
        totals: those of its cases.
        suite_hash: its hash; None if the manifest has none.
        path: the suite's file, for messages.
    """
    notes = ProblemLog(path, 1)
    if totals.count != tier.test_count:
        message = f"The file has {totals.count} cases; the manifest says {tier.test_count}."
        notes.error("manifest-mismatch", message)
    if tier.estimated_tokens is not None and totals.tokens != tier.estimated_tokens:
        message = f"`tokens_est` sums to {totals.tokens}; the manifest says {tier.estimated_tokens}."
        notes.warn("manifest-estimate", message)
    _note_unlisted(notes, "category", totals.categories, manifest.categories)
    _note_unlisted(notes, "assertion type", totals.types, manifest.assertion_types)
    if tier.hash is None:
        message = f"The manifest has no hash for {tier.file!r}, so a change would go unnoticed."
        notes.warn("missing-hash", message)
    elif suite_hash != tier.hash:
        notes.error(
            "hash-mismatch",
            f"The file is not {tier.file!r} as published in version {manifest.version}: its hash is "
            f"{suite_hash}, the manifest says {tier.hash}. A published suite must not change; give a changed "
            f"suite a new version.",
        )
    return notes.problems


def _note_unlisted(
    notes: ProblemLog, what: str, names: Collection[str], allowed: tuple[str, ...] | None
) -> None:
    for name in sorted(set(names) - set(allowed)) if allowed is not None else ():
        notes.error("manifest-mismatch", f"The manifest does not list the {what} {name!r}.")


def _parse_cost(fields: FieldReader) -> float | None:
    cost = fields.number("estimated_cost_usd")
    if cost is not None and cost < 0:
        fields.error("bad-cost", "estimated_cost_usd", f"is {cost}; a cost in US dollars must be 0 or more.")
    return cost

"""Reads a suite of the dialect agentv from its bytes: the form, the heading, the cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from proctor.dialects.agentv.read.suite import Heading, heading_of
from proctor.dialects.agentv.read.test_files import JSON_LINES, Raw, json_lines, tests_of
from proctor.dialects.agentv.read.tests import case_of
from proctor.dialects.agentv.read.v5 import Shared, is_version_5, test_of
from proctor.dialects.agentv.read.v5 import heading as version_5_heading
from proctor.dialects.agentv.syntax import TESTS, YAML
from proctor.dialects.shared.jsonl import file_name, parse_object, peek, whole
from proctor.dialects.shared.yaml_files import shown_path, yaml_of
from proctor.model import Problem, Suite
from proctor.protocols import Placed, Source
from proctor.validation import Notes, kind_of


def suite_of(source: Source) -> Iterator[Suite | Placed | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    shared: Shared | None = None
    if _is_json_lines(source):
        row, notes = _sidecar(source)
        heading = heading_of(row, source, notes)
        tests = json_lines(source.lines(), source.path, source)
    else:
        notes = Notes(source.path, 1)
        row = _yaml(source, notes)
        readable = not notes.failed
        if is_version_5(row):
            row, shared = version_5_heading(row, source, notes)
        heading = heading_of(row, source, notes)
        tests = tests_of(heading.tests, heading.field, heading.line, source) if readable else iter(())
    if shared is not None:
        heading = replace(heading, common=replace(heading.common, asks_for_criteria=False))
    yield heading.suite
    yield from notes.problems
    for item in tests:
        yield from (item,) if isinstance(item, Problem) else _cases(item, heading, shared, source)


def _cases(raw: Raw, heading: Heading, shared: Shared | None, source: Source) -> Iterator[Placed | Problem]:
    """Yields the case of a test; in version 5 one case for each prompt. Repeated problems are marked."""
    if shared is None:
        yield from _case(raw, heading, _notes(raw, source))
        return
    reported_keys: set[tuple[int | None, str | None, str]] = set()
    prompts = () if "input" in raw.row else shared.prompts
    for prompt in prompts or (None,):
        notes = _notes(raw, source)
        test = replace(raw, row=test_of(raw.row, shared, prompt, notes))
        items = list(_case(test, heading, notes))
        for item in items:
            is_known = isinstance(item, Problem) and (item.line, item.field, item.code) in reported_keys
            yield replace(item, repeated=True) if is_known and isinstance(item, Problem) else item
        reported_keys |= {(item.line, item.field, item.code) for item in items if isinstance(item, Problem)}


def _notes(raw: Raw, source: Source) -> Notes:
    return Notes(raw.path or source.path, raw.line, "Test", of_case=True)


def _case(raw: Raw, heading: Heading, notes: Notes) -> Iterator[Placed | Problem]:
    case = case_of(raw, heading.common, notes)
    yield from notes.problems
    if not notes.failed:
        yield Placed(case, raw.line, raw.path)


# --- YAML --------------------------------------------------------------------------------------------------


def _yaml(source: Source, notes: Notes) -> dict[str, Any]:
    value = yaml_of(whole(source), notes)
    if isinstance(value, dict) and "targets" in value and not any(name in value for name in TESTS):
        notes.error("not-a-suite", "The file has targets and no tests; `proctor targets list` reads it.")
        return {}
    if isinstance(value, dict):
        return value
    if not notes.failed:
        actual = "empty" if value is None else kind_of(value)
        notes.error("not-a-suite", f"The file is {actual}; a suite is an object with `tests`.")
    return {}


# --- JSON Lines --------------------------------------------------------------------------------------------


def _is_json_lines(source: Source) -> bool:
    """Whether a file is JSON Lines, by its name or else by its first line."""
    path = source.path.lower()
    if path.endswith((*YAML, *JSON_LINES)):
        return path.endswith(JSON_LINES)
    row = parse_object(peek(source.lines())[0])
    return isinstance(row, dict) and TESTS[0] not in row


def _sidecar(source: Source) -> tuple[dict[str, Any], Notes]:
    """Reads the header of a JSON Lines file from the YAML file of the same name beside it."""
    base = file_name(source.path).stem
    sidecars: list[tuple[dict[str, Any], Notes]] = []
    notes = Notes(source.path, 1)
    for name in (f"{base}.yaml", f"{base}.eval.yaml"):
        data = source.neighbour(name)
        if data is None:
            continue
        own = Notes(shown_path(source, name), 1)
        row = yaml_of(data, own)
        if isinstance(row, dict) and any(field in row for field in TESTS):
            message = f"{name} has `{TESTS[0]}` of its own, so it is another suite and not read for this one."
            notes.warn("not-a-sidecar", message)
            continue
        if not isinstance(row, dict) and not own.failed and row is not None:
            own.error("not-a-suite", f"The file is {kind_of(row)}; it must be an object such as a suite is.")
        sidecars.append((row if isinstance(row, dict) else {}, own))
    if len(sidecars) > 1:
        names = " and ".join(file_name(own.path).name for _, own in sidecars)
        notes.error("two-sidecars", f"{names} both stand beside the file; keep one of them.")
    if not sidecars:
        return {}, notes
    row, own = sidecars[0]
    own.problems[:0] = notes.problems
    own.failed = own.failed or notes.failed
    return row, own

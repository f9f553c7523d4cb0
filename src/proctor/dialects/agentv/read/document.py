"""Reads a suite of the dialect agentv from its bytes: the form, the heading, the cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from proctor.dialects.agentv.read.suite import SuiteHeading, parse_heading
from proctor.dialects.agentv.read.test_files import JSON_LINES_ENDINGS, RawTest, read_json_lines, read_tests
from proctor.dialects.agentv.read.tests import parse_test
from proctor.dialects.agentv.read.v5 import Version5Level, is_version_5, translate_test
from proctor.dialects.agentv.read.v5 import translate_heading as version_5_heading
from proctor.dialects.agentv.syntax import TESTS_NAMES, YAML_ENDINGS
from proctor.dialects.shared.jsonl import file_name, parse_object, peek, read_all
from proctor.dialects.shared.yaml_files import display_path, parse_yaml
from proctor.model import Problem, Suite
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.validation import ProblemLog, json_type


def parse_suite(source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
    """Yields the header, the cases in file order, and each problem where it occurs."""
    shared: Version5Level | None = None
    if _is_json_lines(source):
        row, notes = _read_sidecar(source)
        heading = parse_heading(row, source, notes)
        tests = read_json_lines(source.read_lines(), source.path, source)
    else:
        notes = ProblemLog(source.path, 1)
        row = _read_yaml(source, notes)
        readable = not notes.has_errors
        if is_version_5(row):
            row, shared = version_5_heading(row, source, notes)
        heading = parse_heading(row, source, notes)
        tests = read_tests(heading.tests, heading.field, heading.line, source) if readable else iter(())
    if shared is not None:
        heading = replace(heading, common=replace(heading.common, asks_for_criteria=False))
    yield heading.suite
    yield from notes.problems
    for item in tests:
        yield from (item,) if isinstance(item, Problem) else _parse_cases(item, heading, shared, source)


def _parse_cases(
    raw: RawTest, heading: SuiteHeading, shared: Version5Level | None, source: SuiteSource
) -> Iterator[CaseAtLine | Problem]:
    """Yields the case of a test; in version 5 one case for each prompt. Repeated problems are marked."""
    if shared is None:
        yield from _parse_case(raw, heading, _start_log(raw, source))
        return
    reported_keys: set[tuple[int | None, str | None, str]] = set()
    prompts = () if "input" in raw.row else shared.prompts
    for prompt in prompts or (None,):
        notes = _start_log(raw, source)
        test = replace(raw, row=translate_test(raw.row, shared, prompt, notes))
        items = list(_parse_case(test, heading, notes))
        for item in items:
            if isinstance(item, Problem) and (item.line, item.field, item.code) in reported_keys:
                item = replace(item, repeated=True)
            yield item
        reported_keys |= {(item.line, item.field, item.code) for item in items if isinstance(item, Problem)}


def _start_log(raw: RawTest, source: SuiteSource) -> ProblemLog:
    return ProblemLog(raw.path or source.path, raw.line, "Test", of_case=True)


def _parse_case(raw: RawTest, heading: SuiteHeading, notes: ProblemLog) -> Iterator[CaseAtLine | Problem]:
    case = parse_test(raw, heading.common, notes)
    yield from notes.problems
    if not notes.has_errors:
        yield CaseAtLine(case, raw.line, raw.path)


# --- YAML --------------------------------------------------------------------------------------------------


def _read_yaml(source: SuiteSource, notes: ProblemLog) -> dict[str, Any]:
    value = parse_yaml(read_all(source), notes)
    if isinstance(value, dict) and "targets" in value and not any(name in value for name in TESTS_NAMES):
        notes.error("not-a-suite", "The file has targets and no tests; `proctor targets list` reads it.")
        return {}
    if isinstance(value, dict):
        return value
    if not notes.has_errors:
        actual = "empty" if value is None else json_type(value)
        notes.error("not-a-suite", f"The file is {actual}; a suite is an object with `tests`.")
    return {}


# --- JSON Lines --------------------------------------------------------------------------------------------


def _is_json_lines(source: SuiteSource) -> bool:
    """Whether a file is JSON Lines, by its name or else by its first line."""
    path = source.path.lower()
    if path.endswith((*YAML_ENDINGS, *JSON_LINES_ENDINGS)):
        return path.endswith(JSON_LINES_ENDINGS)
    row = parse_object(peek(source.read_lines())[0])
    return isinstance(row, dict) and TESTS_NAMES[0] not in row


def _read_sidecar(source: SuiteSource) -> tuple[dict[str, Any], ProblemLog]:
    """Reads the header of a JSON Lines file from the YAML file of the same name beside it."""
    base = file_name(source.path).stem
    sidecars: list[tuple[dict[str, Any], ProblemLog]] = []
    notes = ProblemLog(source.path, 1)
    for name in (f"{base}.yaml", f"{base}.eval.yaml"):
        data = source.read_sibling(name)
        if data is None:
            continue
        own = ProblemLog(display_path(source, name), 1)
        row = parse_yaml(data, own)
        if isinstance(row, dict) and any(field in row for field in TESTS_NAMES):
            message = (
                f"{name} has `{TESTS_NAMES[0]}` of its own, so it is another suite and not read for this one."
            )
            notes.warn("not-a-sidecar", message)
            continue
        if not isinstance(row, dict) and not own.has_errors and row is not None:
            own.error(
                "not-a-suite", f"The file is {json_type(row)}; it must be an object such as a suite is."
            )
        sidecars.append((row if isinstance(row, dict) else {}, own))
    if len(sidecars) > 1:
        names = " and ".join(file_name(own.path).name for _, own in sidecars)
        notes.error("two-sidecars", f"{names} both stand beside the file; keep one of them.")
    if not sidecars:
        return {}, notes
    row, own = sidecars[0]
    notes.path = own.path
    notes.extend(own)
    return row, notes

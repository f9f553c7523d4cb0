"""Dialect fieldkit: fieldkit's graded prompts, a JSON file of prompts with their checks.

The documented meaning counts: texts are found in any case, keys are looked up in the last JSON object of the
answer, the first number is compared. A check that can never pass, or never fail, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.shared.case_rows import list_objects, read_cases
from proctor.dialects.shared.jsonl import file_name, read_all
from proctor.dialects.shared.signatures import get_field_names
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Assertion, Case, Message, Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource
from proctor.validation import FieldReader, NumberLimit, ProblemLog

SUITE_FIELDS: Final = ("suite", "notes", "prompts")
PROMPT_FIELDS: Final = (
    *("id", "prompt", "category", "core", "vibe", "conditional", "expect_tool_any", "check", "note", "lint"),
)
CHECK_FIELDS: Final = ("kind", "any", "all", "keys", "value", "tolerance", "rel_tolerance")

_NOT_NEGATIVE: Final[NumberLimit] = NumberLimit("0 or more", minimum=0)
_PLACEHOLDER: Final = lazy_pattern(r"\{\{([A-Za-z_][\w.-]*)\}\}")

GraderCalls = list[tuple[str, dict[str, Any]]]
"""Graders and their parameters."""


class Fieldkit(Dialect):
    """Reads fieldkit's graded prompts."""

    endings = (".json",)
    has_rows = False
    types = "proctor.dialects.fieldkit.prompts:TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises one JSON object whose `prompts` come with `suite`, or with a `check` for each."""
        names = get_field_names(head)
        if head.text.lstrip().startswith("{") and "prompts" in names and names & {"suite", "check"}:
            return "it is one object with `prompts` and their checks"
        return None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        from proctor.dialects.shared.yaml_files import (  # most runs use another dialect
            parse_json,
            require_object,
        )

        notes = ProblemLog(source.path, 1, "Prompt")
        row = require_object(parse_json(read_all(source), notes), notes, "an object with `prompts`")
        readable = not notes.has_errors
        fields = FieldReader(row, notes)
        fields.drop_null("notes")
        name = fields.required_text("suite").strip() if "suite" in fields else ""
        yield Suite(
            name=name or file_name(source.path).stem or "suite",
            dialect="fieldkit",
            description=fields.text("notes"),
        )
        prompts: Any = fields.pop("prompts")
        if readable and not isinstance(prompts, list):
            fields.report_wrong_type("prompts", prompts, "a list of prompts")
        fields.finish(SUITE_FIELDS)
        yield from notes.problems
        if isinstance(prompts, list):
            rows = list_objects(prompts, "prompts", source.path)
            words = source.options.get("substitutions", {})
            parse = partial(_parse_case, words if isinstance(words, Mapping) else {})
            yield from read_cases(rows, source.path, parse, "Prompt")


# --- one prompt --------------------------------------------------------------------------------------------


def _parse_case(words: Mapping[str, Any], notes: ProblemLog, row: dict[str, Any], _place: int) -> CaseAtLine:
    fields = FieldReader(row, notes)
    fields.drop_null("category", "conditional", "expect_tool_any", "note")
    case_id = fields.required_text("id")
    notes.case = case_id or None
    prompt = fields.required_text("prompt")
    category, note = fields.text("category"), fields.text("note")
    tags = [name for name, default in (("core", True), ("vibe", False)) if fields.boolean(name, default)]
    condition = fields.text("conditional")
    tools = [tool for tool in fields.texts("expect_tool_any") if isinstance(tool, str)]
    checks = [
        assertion
        for check in _read_checks(fields)
        for assertion in _parse_check(_CheckReader(fields=check, notes=notes, substitutions=words))
    ]
    lint: Any = fields.pop("lint")
    fields.finish(PROMPT_FIELDS)
    case = Case(
        id=case_id,
        input=(Message(role="user", content=prompt),),
        assertions=(*checks, *_make_tool_assertions(tools)),
        tags=(*tags, *([f"conditional:{condition}"] if condition else ())),
        category=category or None,
        metadata={name: value for name, value in (("note", note), ("lint", lint)) if value is not None},
    )
    return CaseAtLine(case, notes.line)


def _read_checks(fields: FieldReader) -> Iterator[FieldReader]:
    """Yields the `check` of a prompt, or each one of a list; all must pass."""
    expected_kind = "an object with `kind`"
    if "check" not in fields:
        fields.report_missing("check", expected_kind)
        return
    raw_checks: Any = fields.pop("check")
    named_checks = (
        enumerate(raw_checks) if isinstance(raw_checks, list) and raw_checks else [("", raw_checks)]
    )
    for place, check in named_checks:
        name = "check" if place == "" else f"check[{place}]"
        if isinstance(check, dict):
            yield FieldReader(check, fields.problem_log, f"{name}.")
        else:
            fields.report_wrong_type(name, check, expected_kind)


def _make_tool_assertions(tools: list[str]) -> list[Assertion]:
    """Returns an assertion that one of the tools was called, with weight 0, as in fieldkit."""
    if not tools:
        return []
    called: dict[str, dict[str, Any]] = {
        tool: {"grader": "tool_trajectory", "params": {"mode": "any_order", "minimums": {tool: 1}}}
        for tool in tools
    }
    check = called[tools[0]]
    if len(called) > 1:
        members = [{"name": tool, "assertion": assertion} for tool, assertion in called.items()]
        aggregator = {"type": "threshold", "threshold": 1 / len(called)}
        check = {"grader": "composite", "params": {"members": members, "aggregator": aggregator}}
    return [Assertion(**check, weight=0.0, label="expect_tool_any")]


# --- one check ---------------------------------------------------------------------------------------------


class _CheckReader(Struct, frozen=True, kw_only=True):
    """Reads one `check`."""

    fields: FieldReader
    notes: ProblemLog
    substitutions: Mapping[str, Any]
    """The values of placeholders."""

    def texts(self, name: str) -> list[str]:
        """Returns a list of texts with their placeholders filled in."""
        return [self.fill(text, name) for text in self.fields.texts(name) if isinstance(text, str)]

    def fill(self, text: str, name: str) -> str:
        """Returns a text with its placeholders filled in."""
        if not text:
            self.fields.error("empty-value", name, "has an empty text, which checks nothing; remove it.")
        for token in _PLACEHOLDER.findall(text):
            if token not in self.substitutions:
                self.fields.error(
                    "unresolved-placeholder",
                    name,
                    f"names `{{{{{token}}}}}`, which has no value. Write the text itself, or set {token} "
                    f"under `substitutions` in proctor.toml.",
                )
        return _PLACEHOLDER.sub(lambda match: str(self.substitutions.get(match[1], match[0])), text)


def _parse_check(check: _CheckReader) -> list[Assertion]:
    fields = check.fields
    fields.drop_null(*CHECK_FIELDS)
    kind = fields.choice("kind", tuple(_PARSERS))
    if not kind:
        return []
    calls = _PARSERS[kind](check)
    for name in CHECK_FIELDS:
        if name in fields and fields.pop(name) not in ([], 0):
            fields.warn("no-effect", name, f"has no effect on a check of kind {kind!r}.")
    fields.finish(CHECK_FIELDS)
    return [Assertion(grader=grader, params=params, label=kind) for grader, params in calls]


def _parse_substring(check: _CheckReader) -> GraderCalls:
    every, some = check.texts("all"), check.texts("any")
    if not every and not some and not check.notes.has_error_at(check.fields.path_to("")):
        check.fields.error(
            "missing-expected", "all", "and `any` are both empty; write the text to search for."
        )
    ignoring = {"ignore_case": True}
    return [
        *([("contains_all", {"values": every, **ignoring})] if every else ()),
        *([("contains_any", {"values": some, **ignoring})] if some else ()),
    ]


def _parse_json_keys(check: _CheckReader) -> GraderCalls:
    keys = check.texts("keys")
    return [("contains_json", {"which": "last"} | ({"keys": keys} if keys else {}))]


def _parse_regex(check: _CheckReader) -> GraderCalls:
    patterns = check.texts("all")
    if not patterns:
        check.fields.error(
            "missing-expected", "all", "is empty, so every answer would pass; write a pattern."
        )
    return [("regex", {"pattern": pattern}) for pattern in patterns]


def _parse_numeric(check: _CheckReader) -> GraderCalls:
    fields = check.fields
    if "value" not in fields:
        fields.report_missing("value", "the expected number")
    value, tolerance = fields.number("value"), fields.limited_number("tolerance", _NOT_NEGATIVE)
    return [("number", {"value": float(value or 0), "tolerance": tolerance or 0.0, "which": "first"})]


def _number_parser(grader: str) -> Callable[[_CheckReader], GraderCalls]:
    """Returns a parser for a kind that compares numbers with the grader of that name."""

    def to_assertion(check: _CheckReader) -> GraderCalls:
        fields = check.fields
        value: Any = fields.pop("value")
        if value is None:
            fields.report_missing("value", "the right answer")
        elif isinstance(value, bool) or not isinstance(value, str | int | float):
            fields.report_wrong_type("value", value, "text or a number")
        text = check.fill(value, "value") if isinstance(value, str) else repr(value)
        tolerance = fields.limited_number("rel_tolerance", _NOT_NEGATIVE)
        more = {} if tolerance is None else {"rel_tolerance": tolerance}
        return [(grader, {"value": text, **more})]

    return to_assertion


_PARSERS: Final[dict[str, Callable[[_CheckReader], GraderCalls]]] = {
    "substring": _parse_substring,
    "json_keys": _parse_json_keys,
    "regex": _parse_regex,
    "honesty": lambda _check: [("hedges", {})],
    "numeric": _parse_numeric,
    "numeric_match": _number_parser("numeric_match"),
    "numeric_equal": _number_parser("numeric_equal"),
}
TYPES: Final = tuple(_PARSERS)

DIALECT = Fieldkit()

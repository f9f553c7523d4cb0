"""Writes dialect meridian as JSON Lines: simple tests where possible, else the full schema.

All rows that might express the assertions of a case are read again, and the best of those that are read as
these assertions is written. What no row expresses is noted, and so is anything else that the format lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from proctor.codec import encode
from proctor.dialects.meridian.expected import NUMERIC_TYPES, TYPES, parse_number
from proctor.dialects.meridian.reader import parse_grading
from proctor.dialects.shared.jsonl import HOLDOUT_FIELD
from proctor.dialects.shared.losses import LossReport, note_suite_losses, unsupported_check_message
from proctor.dialects.shared.output_files import to_json_line
from proctor.model import Assertion, Case, Message, Problem, SplitRule, Suite
from proctor.protocols import RenderedFile
from proctor.validation import FieldReader, ProblemLog

_UNSUPPORTED_SUITE_FIELDS: Final = ("pass_rule", "notes")
_UNSUPPORTED_CASE_FIELDS: Final = (
    *("criteria", "pass_rule", "target", "only_targets", "workspace", "form", "variables", "notes"),
    *("prefix", "suffix", "prompts"),
)


class Shape(Struct, frozen=True):
    """One way to write the checks of a case."""

    row: dict[str, Any]
    """The fields of the test."""
    expected: Any
    """The expected value that the test is read with."""
    label: str | None
    """The label that its assertions are read with."""


UNSCORED_SHAPE: Final = Shape({"expected": {"type": "length"}}, None, "length")
"""A test that explicitly checks nothing: a length without limits."""


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
    """Yields the suite as one file of JSON Lines. See `proctor.protocols.Renderer`."""
    header = LossReport(suite, "meridian", lossy=lossy)
    note_suite_losses(header, suite, _UNSUPPORTED_SUITE_FIELDS, has_holdout=True)
    cases = list(cases)
    rule = "mean" if any((case.repeats or 1) > 1 for case in cases) else "each"
    if suite.repeats_rule != rule:
        header.note("repeats_rule", "a test with `num_runs` counts once, by the mean of its answers.")
    yield from header.problems
    yield RenderedFile("", to_json_line(_render_header(suite)))
    above = header.lost_fields
    for case in cases:
        unsaid = LossReport(case, "meridian", lossy=lossy)
        row = _render_case(case, unsaid, above)
        yield from unsaid.problems
        if not unsaid.is_refused:
            yield RenderedFile("", to_json_line(row))
            above = {}


def _render_header(suite: Suite) -> dict[str, Any]:
    fields = {"suite_name": suite.name, "description": suite.description, "version": suite.declared_version}
    header = {name: value for name, value in fields.items() if value is not None}
    share = 0 if suite.split_rule is None else suite.split_rule.ratio
    return header if share == SplitRule().ratio else {**header, HOLDOUT_FIELD: share}


def _render_case(case: Case, unsaid: LossReport, above: dict[str, Any]) -> dict[str, Any]:
    unsaid.note_fields(_UNSUPPORTED_CASE_FIELDS)
    row: dict[str, Any] = {"id": case.id}
    if case.input or not case.vars:
        row["input"] = _render_prompt(case, unsaid)
    if case.vars:
        row["vars"] = case.vars
    row |= _render_grading(case, unsaid)
    tags = [tag for tag in case.tags if tag and tag == tag.strip()]
    if len(tags) < len(case.tags):
        unsaid.note("tags", "it ignores white space around a tag, and blank tags.")
    if tags:
        row["tags"] = tags
    if case.category is not None:
        row["category"] = case.category
    if case.repeats is not None:
        row["num_runs"] = case.repeats
    metadata = unsaid.build_metadata(above)
    if metadata:
        row["metadata"] = metadata
    return row


def _render_prompt(case: Case, unsaid: LossReport) -> str:
    first = case.input[0] if case.input else Message(role="user")
    if len(case.input) != 1 or first.role != "user":
        roles = ", ".join(message.role for message in case.input)
        unsaid.note("input", f"it has only one user prompt, and there are messages with the roles: {roles}.")
    for place, message in enumerate(case.input):
        for name in ("name", "tool_calls", "parts"):
            if getattr(message, name) not in (None, ()):
                unsaid.note(f"input[{place}].{name}", "its prompt must be one text.")
    text = "\n\n".join(message.content for message in case.input if message.content.strip())
    if len(case.input) == 1 and text:
        return first.content
    if not text:
        unsaid.note("input", "its prompt must be text.")
    return text or case.id


# --- how it is graded --------------------------------------------------------------------------------------


def _render_grading(case: Case, unsaid: LossReport) -> dict[str, Any]:
    """Returns the grading fields of a case; what they cannot express is noted."""
    loses_checks = False
    for place, assertion in enumerate(case.assertions):
        for name in ("required", "negated", "pass_at", "on"):
            if getattr(assertion, name) not in (None, False, "answer"):
                unsaid.note(f"assertions[{place}].{name}", "a check has no such setting.")
                loses_checks = True
    if not case.assertions:
        unsaid.note("assertions", "it needs at least one check.")
    weights = {float(assertion.weight) for assertion in case.assertions}
    if len(weights) > 1:
        unsaid.note("assertions[1].weight", "all checks of a test share one weight.")
    supported = list(case.assertions)
    shape = find_shape(supported, case.expected)
    if shape is None:
        supported, shape = _select_assertions(case, unsaid)
    if (loses_checks or len(supported) < len(case.assertions)) and not unsaid.is_refused:
        supported, shape = [], UNSCORED_SHAPE  # the rest would pass other answers
    if shape.expected != case.expected:
        why = (
            "a test with such a check cannot have another expected answer."
            if shape.expected is None
            else "its check searches for the expected answer."
        )
        unsaid.note("expected", why)
    unsaid.note_labels(case.assertions, renderable=(shape.label,))
    row = dict(shape.row)
    weight = next(iter(weights), 1.0) if len(weights) == 1 else 1.0
    if weight != 1 and supported:
        method = row.get("scoring")
        row["scoring"] = {**({} if method is None else {"method": method}), "weight": weight}
    return row


def _select_assertions(case: Case, unsaid: LossReport) -> tuple[list[Assertion], Shape]:
    """Returns as many assertions as fit into one test, and their shape; the others are noted."""
    fitting: list[Assertion] = []
    best = None
    for place, assertion in enumerate(case.assertions):
        shape = find_shape([*fitting, assertion], case.expected)
        if shape is not None:
            best = shape
            fitting.append(assertion)
        elif find_shape([assertion], case.expected) is None:
            unsaid.note(f"assertions[{place}]", unsupported_check_message(assertion))
        else:
            unsaid.note(f"assertions[{place}]", "a test cannot combine these checks in this order.")
    return fitting, best or UNSCORED_SHAPE


def find_shape(assertions: Sequence[Assertion], expected: Any) -> Shape | None:
    """Returns the best way to write these checks; None if there is none."""
    candidates = _CANDIDATES.get(tuple(assertion.grader for assertion in assertions))
    if candidates is None:
        return None
    rows = candidates(expected, *[assertion.params for assertion in assertions])
    best, lowest = None, (True, True)
    for row in rows:
        shape = _read_back(row, assertions)
        if shape is None:
            continue
        differences = (shape.expected != expected, shape.label != assertions[0].label)
        if best is None or differences < lowest:  # of equals the first, which is the simplest
            best, lowest = shape, differences
        if not any(lowest):
            break
    return best


def _read_back(row: dict[str, Any], assertions: Sequence[Assertion]) -> Shape | None:
    """Returns the shape of a row; None if it is not read as these checks."""
    notes = ProblemLog("", 1)
    expected, checks = parse_grading(FieldReader(row, notes), notes)
    same = [encode((check.grader, check.params)) for check in checks] == [
        encode((assertion.grader, assertion.params)) for assertion in assertions
    ]
    return Shape(row, expected, checks[0].label) if same and not notes.has_errors else None


# --- rows that may be read as certain checks ---------------------------------------------------------------

_Rows = list[dict[str, Any]]


def _typed_rows(fields: dict[str, Any], *types: str) -> _Rows:
    """Returns a row of the full schema for each of the types."""
    return [{"expected": {"type": kind, **fields}} for kind in types]


def _scored_rows(scorer: str, value: Any) -> _Rows:
    """Returns a simple test."""
    return [{"expected": value, "scorer": scorer}]


def _number_rows(expected: Any, params: dict[str, Any]) -> _Rows:
    value = params.get("value")
    text = expected if isinstance(expected, str) and parse_number(expected) == value else repr(value)
    return [
        *_typed_rows({**params, "value": text}, "numeric"),
        {"expected": text, "scoring": "numeric_match"},
    ]


def _numeric_text_rows(kind: str) -> Callable[..., _Rows]:
    return lambda _, params: [*_scored_rows(kind, params.get("value")), *_typed_rows(params, kind)]


def _word_list_rows(*graders: str) -> Callable[..., _Rows]:
    """Returns the rows of required words, a contained text and forbidden words, in this order."""

    def rows(_expected: Any, *all_params: dict[str, Any]) -> _Rows:
        fields = {
            "value" if grader == "contains" else grader: params.get(
                "value" if grader == "contains" else "words"
            )
            for grader, params in zip(graders, all_params, strict=True)
        }
        alone = _typed_rows(fields, *graders) if len(graders) == 1 else []
        if graders == ("forbidden_words",):
            alone += _typed_rows({"value": fields["forbidden_words"]}, "forbidden")
        return [*_typed_rows(fields, "contains"), *alone]

    return rows


def _rubric_rows(expected: Any, params: dict[str, Any]) -> _Rows:
    answer = {"expected": expected} if isinstance(expected, str) and expected.strip() else {}
    return [{**answer, "scorer": "llm_judge", "rubric": params.get("rubric")}]


def _length_rows(_expected: Any, limits: dict[str, Any]) -> _Rows:
    return [
        *_typed_rows(limits, "length", "format"),
        *_typed_rows({name.removesuffix("_words"): limit for name, limit in limits.items()}, "word_count"),
        *_typed_rows({"value": limits.get("min_sentences")}, "sentence_count"),
    ]


def _json_rows(_expected: Any, params: dict[str, Any], more: dict[str, Any] | None = None) -> _Rows:
    """Returns the rows of a schema, of required keys, or of neither or both."""
    schema = params.get("schema")
    simple = _scored_rows("json_schema", schema) if isinstance(schema, dict) and more is None else []
    fields = {"schema": schema, "required_keys": (more or params).get("keys")}
    present = {name: value for name, value in fields.items() if value is not None}
    return [*simple, *_typed_rows(present, "json_schema", "json")]


def _unscored_rows(_expected: Any, params: dict[str, Any]) -> _Rows:
    """Returns the rows of the types that the reason names."""
    return _typed_rows({}, *(kind for kind in TYPES if repr(kind) in str(params.get("reason"))))


_CANDIDATES: Final[dict[tuple[str, ...], Callable[..., _Rows]]] = {
    ("exact",): lambda _, params: _scored_rows("exact", params.get("value")),
    ("number",): _number_rows,
    **{(kind,): _numeric_text_rows(kind) for kind in NUMERIC_TYPES},
    ("contains",): lambda _, params: _scored_rows("contains", params.get("value")),
    ("regex",): lambda _, params: [
        *_scored_rows("regex", params.get("pattern")),
        *_typed_rows(params, "regex"),
    ],
    ("rubric",): _rubric_rows,
    ("length",): _length_rows,
    ("json_schema",): _json_rows,
    ("json_keys",): _json_rows,
    ("json_schema", "json_keys"): _json_rows,
    ("is_json",): _json_rows,
    ("json_array",): lambda _, params: _typed_rows(params, "json_array"),
    ("abstention",): lambda _, _params: _typed_rows({}, "refusal"),
    ("consistency",): lambda _, params: _typed_rows(
        {"value": params.get("expected")} if params else {}, "consistency"
    ),
    ("unscored",): _unscored_rows,
    **{
        graders: _word_list_rows(*graders)
        for graders in (
            ("required_words",),
            ("forbidden_words",),
            ("required_words", "contains"),
            ("required_words", "forbidden_words"),
            ("contains", "forbidden_words"),
            ("required_words", "contains", "forbidden_words"),
        )
    },
}
"""Functions of the expected value and the parameters of each check, by the checks' graders.

They need not look at what they are given: a row that is read as something else is not written.
"""

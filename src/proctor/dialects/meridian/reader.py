"""Dialect meridian: simple tests as JSON Lines or CSV, and its full schema.

A simple test names a `scorer`; a test of the full schema has an object as `expected` and optionally a
`scoring` method. The documented meaning counts: `make_exact_check` is exact but for surrounding white space,
`contains` ignores case, a regex searches. A test is never dropped: what is unknown is an error, and a known
type that no rule can check is kept and will be UNSCORED. In a suite with `num_runs` each test counts once,
and passes if all of its answers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, Literal

from proctor.dialects.meridian.expected import (
    NUMERIC_TYPES,
    GraderCheck,
    as_text,
    make_exact_check,
    parse_expected,
)
from proctor.dialects.meridian.expected import TYPES as EXPECTED_TYPES
from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.csv_rows import (
    VARS_FIELD,
    detect_separator,
    parse_column_names,
    read_csv_rows,
)
from proctor.dialects.shared.jsonl import (
    HOLDOUT_FIELD,
    UTF_16_BOMS,
    file_name,
    parse_object,
    peek,
    read_rows,
    with_holdout,
)
from proctor.dialects.shared.signatures import (
    is_agent_skills,
    is_deepeval,
    is_fieldkit,
    is_inspect,
)
from proctor.errors import suggestion
from proctor.model import Assertion, Case, Message, PassRule, Problem, SplitRule, Suite
from proctor.parameters import CASE_PARAMETERS
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource
from proctor.validation import FieldReader, ProblemLog, quote_value

SCORERS: Final = ("exact", "contains", "regex", "llm_judge", "json_schema", *NUMERIC_TYPES)
ASSERTION_TYPES: Final = (*SCORERS, *EXPECTED_TYPES)
METHODS: Final[dict[str, str | None]] = {
    "exact_match": "exact",
    "numeric_match": "exact",
    "contains_match": "contains",
    "regex_match": "regex",
    "json_schema": "json_schema",
    "llm_judge": "llm_judge",
    **dict.fromkeys(("length_constraint", "word_restriction", "refusal_check", "hallucination_heuristics")),
    **dict.fromkeys(("self_consistency", "format_check", "attack_detection", "content_check")),
    **dict.fromkeys(("tool_claim_audit", "citation_validity", "verbosity_penalty", "url_validity")),
}
"""The scoring methods, each with the equivalent scorer for an `expected` text, or None."""

_METADATA_FIELDS: Final = (
    *("task", "needle", "haystack_size", "difficulty", "capability", "failure_mode", "trap"),
    *("expected_method", "description", "lint"),
)
"""Fields of a test that have no effect; they become its metadata."""
_TEST_FIELDS: Final = (
    *("id", "input", "prompt", "expected", "answer", "scorer", "rubric", "tags", "scoring"),
    *("num_runs", "category", "metadata", VARS_FIELD, *_METADATA_FIELDS),
)
_HEADER_FIELDS: Final = (
    *("suite_name", "description", "version", "task_type", "license", "categories", "created_at"),
    HOLDOUT_FIELD,
)
_PLAIN_FIELDS: Final = frozenset(("id", "input", "expected", "scorer", "tags", "category"))
_USUAL_FIELDS: Final = _PLAIN_FIELDS.union(_METADATA_FIELDS)
_USUAL_SCORERS: Final = frozenset(("exact", "contains", "regex", *NUMERIC_TYPES))
_TEXT_TYPE: Final = frozenset((str,))
_PARAMETER_ADVICE: Final = {
    name: f"In the format proctor, `{name}` of a case is `form.params.{name}`. To set it for all cases, set "
    f"it for the target."
    for name in CASE_PARAMETERS
}
"""Where parameters of models belong, by their names."""
_SCORING_FIELDS: Final = ("method", "weight", "params")
_OWN_FIELDS: Final = ("scorer", "expected", "answer", "rubric", "suite_name", "scoring", "prompt")
_SHARED_FIELDS: Final = frozenset(("id", "input", "category", "metadata", "tags"))
CSV_COLUMNS: Final = ("id", "input", "prompt", "expected", "answer", "scorer", "rubric", "tags", "lint")
_PROMPT_COLUMNS: Final = ("input", "prompt")


class Meridian(Dialect):
    """Reads simple tests and the full schema."""

    endings = (".jsonl", ".ndjson", ".json", ".csv")
    pass_rule = PassRule()
    renderer = "proctor.dialects.meridian.writer:render"
    output_format = "JSONL"
    types = "proctor.dialects.meridian.reader:ASSERTION_TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows with a field that only this dialect has, or a CSV header that names the prompt."""
        names = {name for row in head.rows for name in row}
        for name in () if is_fieldkit(head) or is_agent_skills(head) else _OWN_FIELDS:
            if name in names:
                return f"its lines have `{name}`"
        if "input" in names and names <= _SHARED_FIELDS:
            return "its lines have `input` and no field that is specific to another format"
        first = head.text.lstrip("\ufeff \t\r\n").partition("\n")[0]
        if not names and not first.startswith(("{", "[")):
            column_names = _parse_csv_header(first)
            others = is_inspect(head) or is_deepeval(head)
            own_names: tuple[str, ...] = _OWN_FIELDS if others else _PROMPT_COLUMNS
            if not others and len(column_names) > 1 and "question" not in column_names:
                own_names = (*_PROMPT_COLUMNS, *_OWN_FIELDS)  # its other columns are variables
            own = [name for name in own_names if name in column_names]
            return f"its first line names the column `{own[0]}`" if own else None
        return None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        first, lines = peek(source.read_lines())
        if _is_csv(first, source.path):
            yield _make_suite(source.path)
            rows = read_csv_rows(lines, source.path, CSV_COLUMNS, _PROMPT_COLUMNS)
            yield from read_cases(rows, source.path, _parse_cells, "Test", _parse_usual_cells)
        else:
            yield from _read_json(lines, source.path)


def _is_csv(first: bytes, path: str) -> bool:
    if first.startswith((b"{", b"[", *UTF_16_BOMS)):
        return False
    prompt_columns = set(_PROMPT_COLUMNS).intersection(_parse_csv_header(first.decode("utf-8", "replace")))
    return bool(prompt_columns) or path.lower().endswith((".csv", ".tsv"))


def _parse_csv_header(header: str) -> list[str]:
    return parse_column_names(header, detect_separator(header, CSV_COLUMNS))


def _make_suite(
    path: str, name: str = "", version: str | None = None, description: str | None = None
) -> Suite:
    return Suite(
        name=name or file_name(path).stem or "suite",
        dialect="meridian",
        declared_version=version,
        description=description,
        split_rule=SplitRule(),
    )


def _read_json(lines: Iterable[bytes], path: str) -> Iterator[Suite | CaseAtLine | Problem]:
    items = read_rows(lines, path)
    first = next(items, None)
    if isinstance(first, tuple) and _is_header(first[1]):
        notes = ProblemLog(path, first[0])
        yield _parse_header(FieldReader(_drop_nulls(first[1]), notes), path)
        yield from notes.problems
    else:
        yield _make_suite(path)
        items = items if first is None else chain((first,), items)
    rows = (
        _late_header_problem(item[0], path)
        if type(item) is tuple and "suite_name" in item[1] and _is_header(item[1])
        else item
        for item in items
    )
    yield from read_cases(rows, path, _parse_row, "Test", _parse_usual_row)


def _late_header_problem(line: int, path: str) -> Problem:
    message = "A header line (`suite_name` without a prompt) must be the first line; move it there."
    return Problem(code="late-header", message=message, path=path, line=line, field="suite_name")


def _is_header(row: dict[str, Any]) -> bool:
    return "suite_name" in row and row.keys().isdisjoint((*_PROMPT_COLUMNS, VARS_FIELD))


def _parse_header(fields: FieldReader, path: str) -> Suite:
    name = fields.required_text("suite_name")
    description, version = fields.text("description"), fields.text("version")
    for unused in ("task_type", "license", "created_at"):
        fields.text(unused)
    fields.texts("categories")
    suite = with_holdout(_make_suite(path, name, version, description), fields)
    fields.finish(_HEADER_FIELDS)
    return suite


# --- one test ----------------------------------------------------------------------------------------------


def _parse_cells(notes: ProblemLog, cells: dict[str, str], number: int) -> CaseAtLine:
    """Reads a row of CSV, whose tags may have semicolons between them."""
    return _parse_row(notes, _trim_cells(cells), number)


def _parse_usual_cells(cells: dict[str, str], line: int, number: int) -> CaseAtLine | None:
    return _parse_usual_row(_trim_cells(cells), line, number)


def _trim_cells(cells: dict[str, str]) -> dict[str, str]:
    for name in ("id", "scorer"):
        if name in cells:
            cells[name] = cells[name].strip()
    if "tags" in cells:
        cells["tags"] = cells["tags"].replace(";", ",")
    return cells


def _parse_usual_row(row: dict[str, Any], line: int, number: int) -> CaseAtLine | None:
    """Reads a row of usual fields without problems; returns None for any other, which `_parse_row` reads."""
    is_plain = row.keys() <= _PLAIN_FIELDS
    if not (is_plain or row.keys() <= _USUAL_FIELDS):
        return None
    case_id, prompt, tags, category = (
        row.get("id", ""),
        row.get("input"),
        row.get("tags"),
        row.get("category"),
    )
    if not (type(case_id) is str and type(prompt) is str and prompt.strip()) or None in row.values():
        return None
    if not (category is None or type(category) is str):
        return None
    if tags is not None:
        if type(tags) is not str and not (type(tags) is list and {*map(type, tags)} <= _TEXT_TYPE):
            return None
        tags = _split_tags(tags)
    graded = _parse_usual_grading(row.get("expected"), row.get("scorer"))
    if graded is None:
        return None
    has_own_id = bool(case_id.strip())
    case = Case(
        id=case_id if has_own_id else f"test_{number}",
        input=(Message(role="user", content=prompt),),
        expected=graded[0],
        assertions=graded[1],
        tags=tags or (),
        category=category,
        metadata={} if is_plain else {name: row[name] for name in _METADATA_FIELDS if name in row},
    )
    return CaseAtLine(case, line, has_own_id=has_own_id)


def _parse_usual_grading(expected: Any, scorer: Any) -> tuple[str | None, tuple[Assertion, ...]] | None:
    """Returns the expected text and the assertions of a row; None if `parse_grading` must read it."""
    if type(expected) is str:
        scorer = "exact" if scorer is None else scorer
        if type(scorer) is not str or scorer not in _USUAL_SCORERS or not expected.strip():
            return None
        params: dict[str, Any] = {"pattern" if scorer == "regex" else "value": expected}
        if scorer == "contains":
            params["ignore_case"] = True
        return expected, (Assertion(grader=scorer, params=params, label=scorer),)
    if type(expected) is not dict or scorer is not None:
        return None
    notes = ProblemLog("", 0)
    kind, checks, answer = parse_expected(expected, notes, None)
    if notes.problems or kind == "consistency":
        return None
    return answer, tuple([Assertion(grader=grader, params=params, label=kind) for grader, params in checks])


def _parse_row(notes: ProblemLog, row: dict[str, Any], number: int) -> CaseAtLine:
    default_id = f"test_{number}"
    case = _parse_case(FieldReader(_drop_nulls(row), notes), notes, default_id)
    has_own_id = case.id != default_id or row.get("id") == default_id
    rule: Literal["mean"] | None = "mean" if (case.repeats or 1) > 1 else None
    return CaseAtLine(case, notes.line, has_own_id=has_own_id, repeats_rule=rule)


def _drop_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the row without nulls, which mean absent in this dialect."""
    return {name: value for name, value in row.items() if value is not None} if None in row.values() else row


def _parse_case(fields: FieldReader, notes: ProblemLog, default_id: str) -> Case:
    notes.case = case_id = _parse_id(fields, default_id)
    prompt, name = _take_either(fields, "input", "prompt")
    variables: dict[str, Any] = fields.instance(VARS_FIELD, dict) or {}
    if prompt is None and not variables and not notes.has_error_at(VARS_FIELD):
        fields.error(
            "missing-prompt",
            "input",
            "is missing or blank; write the prompt as `input` or `prompt`, or give the case `vars` for the "
            "prompt of a run.",
        )
    elif prompt is not None and not isinstance(prompt, str):
        fields.report_wrong_type(name, prompt, "text")
        prompt = None
    expected, assertions = parse_grading(fields, notes)
    tags = _parse_tags(fields)
    category, repeats, metadata = _parse_details(fields)
    if repeats is None and any(assertion.grader == "consistency" for assertion in assertions):
        fields.warn(
            "no-repeats", "num_runs", "is not set, so there is only one answer and nothing to compare."
        )
    return Case(
        id=case_id,
        input=() if prompt is None else (Message(role="user", content=prompt),),
        expected=expected,
        assertions=assertions,
        tags=tags,
        category=category,
        metadata=metadata,
        repeats=repeats,
        vars=variables,
    )


def _parse_id(fields: FieldReader, default: str) -> str:
    value = fields.pop("id")
    if isinstance(value, str) and value.strip():
        return value
    if value is None or isinstance(value, str):
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        fields.report_wrong_type("id", value, "text")
        return default
    fields.warn("not-text", "id", f"is the number {value!r}; it is read as the text {str(value)!r}.")
    return str(value)


def _take_either(fields: FieldReader, name: str, alias: str) -> tuple[Any, str]:
    """Returns the value of a field with two names, and the name used; None if both are blank."""
    value, other = fields.pop(name), fields.pop(alias)
    if isinstance(value, str) and not value.strip():
        value = None
    if other is None or (isinstance(other, str) and not other.strip()):
        return value, name
    if value is None:
        return other, alias
    if value != other:
        fields.error("conflicting-fields", alias, f"and `{name}` mean the same and differ; keep one of them.")
    return value, name


def _parse_tags(fields: FieldReader) -> tuple[str, ...]:
    if "tags" not in fields:
        return ()
    value = fields.pop("tags")
    if isinstance(value, str):
        return _split_tags(value)
    if not isinstance(value, list):
        fields.report_wrong_type("tags", value, "a list of texts, or text with commas")
        return ()
    for place, tag in enumerate(value):
        if not isinstance(tag, str):
            fields.report_wrong_type(f"tags[{place}]", tag, "text")
    return _split_tags([tag for tag in value if isinstance(tag, str)])


def _split_tags(tags: str | list[str]) -> tuple[str, ...]:
    """Returns the tags of a list, or of a text with commas, without the blank ones."""
    stripped_tags = [tag.strip() for tag in (tags.split(",") if isinstance(tags, str) else tags)]
    return tuple([tag for tag in stripped_tags if tag])


def _parse_details(fields: FieldReader) -> tuple[str | None, int | None, dict[str, Any]]:
    """Returns category, repeats and metadata, and notes unknown fields."""
    if not fields.remaining_names():
        return None, None, {}
    category = fields.text("category")
    repeats = fields.integer("num_runs", least=1)
    metadata: dict[str, Any] = dict(fields.instance("metadata", dict) or {})
    remaining = fields.remaining_names()
    for name in _METADATA_FIELDS if remaining else ():
        if name in remaining:
            value = fields.pop(name)
            if metadata.setdefault(name, value) != value:
                fields.error("conflicting-fields", name, f"and `metadata.{name}` differ; keep one of them.")
    fields.finish(_TEST_FIELDS, _PARAMETER_ADVICE)
    return category, repeats, metadata


# --- how it is graded --------------------------------------------------------------------------------------


def parse_grading(fields: FieldReader, notes: ProblemLog) -> tuple[Any, tuple[Assertion, ...]]:
    """Returns the expected value and the assertions of a case; no assertions if there is an error."""
    expected, name = _take_either(fields, "expected", "answer")
    scorer = _parse_choice(fields, "scorer", SCORERS)
    method, weight = _parse_scoring(fields, notes) if "scoring" in fields else (None, None)
    rubric = fields.pop("rubric")
    if notes.has_errors and (notes.has_error_at("scorer") or notes.has_error_at("scoring")):
        return None, ()
    if isinstance(expected, dict) and (scorer != "json_schema" or expected.get("type") in EXPECTED_TYPES):
        if scorer is not None:
            fields.error(
                "conflicting-fields", "scorer", f"cannot be combined with an object as `{name}`; remove it."
            )
        kind, checks, answer = parse_expected(expected, notes, method)
        _ignore_rubric(fields, rubric, kind)
    else:
        kind = scorer or _choose_scorer(method, fields)
        if scorer and method and METHODS[method] != scorer:
            fields.error(
                "conflicting-fields", "scorer", f"is {scorer!r} and `scoring` {method!r}; keep one of them."
            )
        checks, answer = _parse_simple(kind, fields, expected, name, rubric, method)
    if weight is None:
        return answer, tuple(
            [Assertion(grader=grader, params=params, label=kind) for grader, params in checks]
        )
    return answer, tuple(
        [Assertion(grader=grader, params=params, label=kind, weight=weight) for grader, params in checks]
    )


def _parse_choice(fields: FieldReader, name: str, allowed: Iterable[str]) -> str | None:
    value = fields.pop(name)
    if value is None or (isinstance(value, str) and value in allowed):
        return value
    if not isinstance(value, str):
        fields.report_wrong_type(name, value, "text")
    elif value.strip():
        fields.error(
            "unknown-value", name, f"is {quote_value(value)}. {suggestion(value[:60], list(allowed))}"
        )
    return None


def _parse_scoring(fields: FieldReader, notes: ProblemLog) -> tuple[str | None, float | None]:
    """Returns the method and the weight of `scoring`, a method's name or an object.

    A weight of 1 is returned as None, so that it is not stored, like any other default.
    """
    value = fields.pop("scoring")
    if isinstance(value, str):
        return _parse_choice(FieldReader({"scoring": value}, notes), "scoring", METHODS), None
    if not isinstance(value, dict):
        fields.report_wrong_type("scoring", value, "the name of a method or an object with `method`")
        return None, None
    inner = FieldReader(_drop_nulls(value), notes, "scoring.")
    method = _parse_choice(inner, "method", METHODS)
    weight = inner.number("weight")
    if weight is not None and weight < 0:
        inner.error("wrong-type", "weight", f"is {weight}; it must not be negative.")
    params = inner.pop("params")
    if isinstance(params, dict) and params:
        inner.warn(
            "ignored-field",
            "params",
            "are ignored: this format does not use them. Write the check in `expected`.",
        )
    elif params is not None and not isinstance(params, dict):
        inner.report_wrong_type("params", params, "an object")
    inner.finish(_SCORING_FIELDS)
    return method, None if weight is None or weight == 1 else float(weight)


def _choose_scorer(method: str | None, fields: FieldReader) -> str:
    scorer = "exact" if method is None else METHODS[method]
    if scorer is None:
        fields.error(
            "conflicting-fields", "scoring", f"{method!r} needs an object with a `type` as `expected`."
        )
    return scorer or "exact"


def _parse_simple(
    scorer: str, fields: FieldReader, expected: Any, name: str, rubric: Any, method: str | None
) -> tuple[list[GraderCheck], Any]:
    """Returns the checks and the expected value of a test whose `expected` is text, or that uses a judge."""
    if scorer == "json_schema" and isinstance(expected, dict):
        _ignore_rubric(fields, rubric, scorer)
        return [("json_schema", {"schema": expected})], None
    text = None if expected is None else as_text(expected, fields, name)
    if scorer == "llm_judge":
        return _make_rubric_checks(fields, rubric), text
    _ignore_rubric(fields, rubric, scorer)
    if expected is None:
        message = (
            "no expected value - consider using scorer='llm_judge' with a rubric. Or write it as `expected`."
        )
        fields.problem_log.error("missing-expected", message, "expected")
    if text is None:
        return [], None
    if scorer == "json_schema":
        return _parse_schema(text, fields, name), None
    if scorer == "contains":
        return [("contains", {"value": text, "ignore_case": True})], text
    if scorer == "regex":
        return [("regex", {"pattern": text})], text
    if scorer in NUMERIC_TYPES:
        return [(scorer, {"value": text})], text
    return [make_exact_check(text, method, fields, name)], text


def _make_rubric_checks(fields: FieldReader, rubric: Any) -> list[GraderCheck]:
    if isinstance(rubric, str) and rubric.strip():
        return [("rubric", {"rubric": rubric})]
    if rubric is None or isinstance(rubric, str):
        notes = fields.problem_log
        message = (
            f"Test {quote_value(notes.case)} uses llm_judge but missing 'rubric'. "
            "Add a `rubric`, or give `expected` and another scorer such as 'contains'."
        )
        notes.error("missing-rubric", message, "rubric", named=True)
    else:
        fields.report_wrong_type("rubric", rubric, "text")
    return []


def _ignore_rubric(fields: FieldReader, rubric: Any, scorer: str) -> None:
    if rubric is not None and rubric != "":
        fields.warn(
            "ignored-field", "rubric", f"is ignored: {scorer!r} does not use a judge. Use scorer 'llm_judge'."
        )


def _parse_schema(text: str, fields: FieldReader, name: str) -> list[GraderCheck]:
    schema = parse_object(text.encode("utf-8"))
    if isinstance(schema, Problem):
        fields.error(
            "bad-json", name, f"is {quote_value(text)}, which is not a JSON object; a JSON schema is one."
        )
        return []
    return [("json_schema", {"schema": schema})]


DIALECT = Meridian()

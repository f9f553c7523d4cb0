"""Writes dialect pramana as JSON Lines: one check for each case, and the fields that the format requires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from proctor.dialects.pramana.reader import CATEGORIES, DIFFICULTIES, LOSSES_FIELD, NUMERIC_TYPES, ROLES
from proctor.dialects.shared.losses import LossReport, note_suite_losses, unsupported_check_message
from proctor.dialects.shared.output_files import to_json_line
from proctor.model import Assertion, Case, Problem, Suite
from proctor.protocols import RenderedFile

_UNSUPPORTED_SUITE_FIELDS: Final = ("description", "pass_rule", "repeats_rule", "notes")
_UNSUPPORTED_CASE_FIELDS: Final = (
    *("criteria", "repeats", "pass_rule", "target", "only_targets", "workspace", "form", "variables"),
    "notes",
)
_METADATA_FIELDS: Final = ("difficulty", "tokens_est")
_IMPOSSIBLE_JUDGE_PROMPT: Final = (
    "The check of this case could not be said here; `metadata.proctor` keeps it. Answer NO."
)
"""Replaces a check that cannot be expressed, so that no case passes by losing it."""


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
    """Yields the suite as one file of JSON Lines. See `proctor.protocols.Renderer`."""
    header = LossReport(suite, "pramana", lossy=lossy)
    note_suite_losses(header, suite, _UNSUPPORTED_SUITE_FIELDS)
    if suite.declared_version is not None:
        why = "the version of such a suite stands in a `manifest.toml` beside it."
        if suite.dialect == "pramana":
            header.warn("declared_version", why)
        else:
            header.note("declared_version", why)
    yield from header.problems
    above = header.lost_fields
    for case in cases:
        unsaid = LossReport(case, "pramana", lossy=lossy)
        row = _render_case(case, unsaid, above)
        yield from unsaid.problems
        if not unsaid.is_refused:
            yield RenderedFile("", to_json_line(row))
            above = {}


def _render_case(case: Case, unsaid: LossReport, above: dict[str, Any]) -> dict[str, Any]:
    unsaid.note_fields(_UNSUPPORTED_CASE_FIELDS)
    category = case.category
    if category not in CATEGORIES:
        unsaid.note("category", f"it must be one of {', '.join(CATEGORIES)}.")
        category = CATEGORIES[0]
    messages = _render_input(case, unsaid)
    assertion, ideal = _render_grading(case, unsaid)
    row: dict[str, Any] = {"id": case.id, "category": category, "input": messages}
    if ideal is not None:
        row["ideal"] = ideal
    row["assertion"] = assertion
    row["metadata"] = _render_metadata(case, unsaid, above)
    if "lint" in case.metadata:
        row["lint"] = case.metadata["lint"]
    return row


def _render_input(case: Case, unsaid: LossReport) -> str | list[dict[str, str]]:
    rows = []
    for place, message in enumerate(case.input):
        role = message.role
        if role not in ROLES:
            unsaid.note(f"input[{place}].role", f"it must be one of {', '.join(ROLES)}.")
            role = "user"
        for name in ("tool_calls", "parts"):
            if getattr(message, name):
                unsaid.note(f"input[{place}].{name}", "a message there is one text.")
        name_field = {} if message.name is None else {"name": message.name}
        rows.append({"role": role, "content": message.content, **name_field})
    if not any(row["content"].strip() for row in rows):
        unsaid.note("input", "it needs a text.")
        return case.id
    if len(rows) == 1 and rows[0].keys() == {"role", "content"} and rows[0]["role"] == "user":
        return rows[0]["content"]
    return rows


def _render_metadata(case: Case, unsaid: LossReport, above: dict[str, Any]) -> dict[str, Any]:
    own = case.metadata
    facts: dict[str, Any] = {"difficulty": own.get("difficulty"), "tokens_est": own.get("tokens_est")}
    if facts["difficulty"] not in DIFFICULTIES:
        unsaid.note("metadata.difficulty", f"it must be one of {', '.join(DIFFICULTIES)}.")
        facts["difficulty"] = "medium"
    if type(facts["tokens_est"]) is not int or facts["tokens_est"] < 0:
        unsaid.note("metadata.tokens_est", "it must be a whole number.")
        facts["tokens_est"] = sum(len(message.content) for message in case.input) // 4 + 1
    for name in own:
        if name not in (*_METADATA_FIELDS, "lint", LOSSES_FIELD):
            unsaid.note(f"metadata.{name}", "its metadata has no such field.")
    if case.tags:
        facts["tags"] = list(case.tags)
    losses = unsaid.build_metadata(above).get(LOSSES_FIELD)
    return facts if losses is None else {**facts, LOSSES_FIELD: losses}


# --- how it is graded --------------------------------------------------------------------------------------


def _render_grading(case: Case, unsaid: LossReport) -> tuple[dict[str, Any], Any]:
    """Returns the `assertion` and the `ideal` of a case; what they cannot express is noted."""
    ideal = case.expected
    if not (ideal is None or isinstance(ideal, str) or _are_texts(ideal)):
        unsaid.note("expected", "its `ideal` is a text or a list of texts.")
        ideal = None
    check: dict[str, Any] | None = None
    loses_checks = False
    for place, assertion in enumerate(case.assertions):
        field = f"assertions[{place}]"
        check_and_ideal = None if check is not None else _render_check(assertion, ideal)
        if check_and_ideal is None:
            why = "it has one check a case." if check is not None else unsupported_check_message(assertion)
            unsaid.note(field, why)
            loses_checks = True
            continue
        check, new_ideal = check_and_ideal
        if new_ideal != ideal:
            unsaid.note("expected", "what its check looks for is the ideal.")
            ideal = new_ideal
        loses_checks = _note_settings(assertion, field, unsaid) or loses_checks
    if not case.assertions:
        unsaid.note("assertions", "it has one check a case.")
    if check is None or (loses_checks and not unsaid.is_refused):  # the rest would pass other answers
        check = {"type": "llm_judge", "judge_prompt": _IMPOSSIBLE_JUDGE_PROMPT}
    unsaid.note_labels(case.assertions, renderable=(check["type"],))
    return check, ideal


def _note_settings(assertion: Assertion, field: str, unsaid: LossReport) -> bool:
    """Notes settings that are lost. Returns whether one of them affects what passes."""
    settings = {"weight": 1, "required": None, "negated": False, "pass_at": None}
    changed = [name for name, usual in settings.items() if getattr(assertion, name) != usual]
    for name in changed:
        unsaid.note(f"{field}.{name}", "it has no such setting of its check.")
    return any(name != "weight" for name in changed)


def _render_check(assertion: Assertion, ideal: Any) -> tuple[dict[str, Any], Any] | None:
    """Returns the `assertion` object for a check, and the `ideal` that it needs; None if there is none."""
    params = dict(assertion.params)
    kind = _RENDERERS.get(assertion.grader)
    if kind is None:
        return None
    ignore_case = params.pop("ignore_case", False) if assertion.grader in _TEXT_GRADERS else False
    if ignore_case is False and "ignore_case" in assertion.params:
        return None
    result = kind(params, ideal)
    if result is None:
        return None
    fields, needed = result
    return {**fields, **({"case_sensitive": False} if ignore_case is True else {})}, needed


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_non_blank(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_non_blank(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_non_blank, values))


_CheckAndIdeal = tuple[dict[str, Any], Any] | None


def _single_value_renderer(kind: str) -> Callable[[dict[str, Any], Any], _CheckAndIdeal]:
    def write(params: dict[str, Any], ideal: Any) -> _CheckAndIdeal:
        value = params.get("value")
        if params.keys() != {"value"} or not _is_non_blank(value):
            return None
        first = ideal[0] if isinstance(ideal, list) and ideal else ideal
        return {"type": kind}, ideal if first == value else value

    return write


def _render_contains_any(params: dict[str, Any], ideal: Any) -> _CheckAndIdeal:
    values = params.get("values")
    if params.keys() != {"values"} or not _are_non_blank(values):
        return None
    ideals = [ideal] if isinstance(ideal, str) else ideal
    return {"type": "contains_any"}, ideal if ideals == values else values


def _number_renderer(kind: str) -> Callable[[dict[str, Any], Any], _CheckAndIdeal]:
    def write(params: dict[str, Any], ideal: Any) -> _CheckAndIdeal:
        tolerance = params.get("rel_tolerance", 0.0)
        if not params.keys() <= {"value", "rel_tolerance"} or type(tolerance) is not float or tolerance < 0:
            return None
        first = _single_value_renderer(kind)({"value": params.get("value")}, ideal)
        more = {"rel_tolerance": tolerance} if "rel_tolerance" in params else {}
        return None if first is None else ({**first[0], **more}, first[1])

    return write


def _render_is_json(params: dict[str, Any], ideal: Any) -> _CheckAndIdeal:
    return None if params else ({"type": "is_json"}, ideal)


def _render_llm_judge(params: dict[str, Any], ideal: Any) -> _CheckAndIdeal:
    if params.keys() != {"prompt"} or not _is_non_blank(params["prompt"]):
        return None
    return {"type": "llm_judge", "judge_prompt": params["prompt"]}, ideal


def _render_similarity(params: dict[str, Any], _ideal: Any) -> _CheckAndIdeal:
    value, threshold = params.get("value"), params.get("threshold")
    texts = [value] if isinstance(value, str) else value
    if params.keys() != {"value", "threshold"} or type(threshold) is not float or not 0 <= threshold <= 1:
        return None
    if not _are_non_blank(texts):
        return None
    return {"type": "semantic_similarity", "threshold": threshold}, value


_TEXT_GRADERS: Final = frozenset(("exact", "contains", "contains_any"))
_RENDERERS: Final[dict[str, Callable[[dict[str, Any], Any], _CheckAndIdeal]]] = {
    "exact": _single_value_renderer("exact_match"),
    "contains": _single_value_renderer("contains"),
    "contains_any": _render_contains_any,
    **{kind: _number_renderer(kind) for kind in NUMERIC_TYPES},
    "is_json": _render_is_json,
    "llm_judge": _render_llm_judge,
    "semantic_similarity": _render_similarity,
}

"""Writes dialect pramana as JSON Lines: one check for each case, and the fields that the format requires."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from proctor.codec import encode
from proctor.dialects.pramana.reader import (
    CATEGORIES,
    DIFFICULTIES,
    LOSSES_FIELD,
    ROLES,
    TYPES,
    parse_assertion,
)
from proctor.dialects.shared.losses import LossReport, note_suite_losses, unsupported_check_message
from proctor.dialects.shared.output_files import to_json_line
from proctor.model import Assertion, Case, Problem, Suite
from proctor.protocols import RenderedFile
from proctor.validation import FieldReader, ProblemLog

_UNSUPPORTED_SUITE_FIELDS: Final = ("description", "pass_rule", "repeats_rule", "notes")
_UNSUPPORTED_CASE_FIELDS: Final = (
    *("criteria", "repeats", "pass_rule", "target", "only_targets", "workspace", "form", "variables"),
    *("notes", "vars", "prefix", "suffix", "prompts"),
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
        why = "the version of such a suite is in a `manifest.toml` beside it."
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
        if message.tool_calls:
            unsaid.note(f"input[{place}].tool_calls", "its messages cannot call tools.")
        if message.parts:
            unsaid.note(f"input[{place}].parts", "its content parts do not keep the paths of files.")
        name_field = {} if message.name is None else {"name": message.name}
        rows.append({"role": role, "content": message.content, **name_field})
    if not any(row["content"].strip() for row in rows):
        unsaid.note("input", "it must be text.")
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
    if not _is_ideal(ideal):
        unsaid.note("expected", "its `ideal` must be a text or a list of texts.")
        ideal = None
    check: dict[str, Any] | None = None
    loses_checks = False
    for place, assertion in enumerate(case.assertions):
        field = f"assertions[{place}]"
        check_and_ideal = None if check is not None else _render_check(assertion, ideal)
        if check_and_ideal is None:
            why = (
                "a case has exactly one check." if check is not None else unsupported_check_message(assertion)
            )
            unsaid.note(field, why)
            loses_checks = True
            continue
        check, new_ideal = check_and_ideal
        if new_ideal != ideal:
            unsaid.note("expected", "its check searches for `ideal`.")
            ideal = new_ideal
        loses_checks = _note_settings(assertion, field, unsaid) or loses_checks
    if not case.assertions:
        unsaid.note("assertions", "a case has exactly one check.")
    if check is None or (loses_checks and not unsaid.is_refused):  # the rest would pass other answers
        check = {"type": "llm_judge", "judge_prompt": _IMPOSSIBLE_JUDGE_PROMPT}
    unsaid.note_labels(case.assertions, renderable=(check["type"],))
    return check, ideal


def _note_settings(assertion: Assertion, field: str, unsaid: LossReport) -> bool:
    """Notes settings that are lost. Returns whether one of them affects what passes."""
    settings = {"weight": 1, "required": None, "negated": False, "pass_at": None, "on": "answer"}
    changed = [name for name, usual in settings.items() if getattr(assertion, name) != usual]
    for name in changed:
        unsaid.note(f"{field}.{name}", "its check has no such setting.")
    return any(name != "weight" for name in changed)


def _render_check(assertion: Assertion, ideal: Any) -> tuple[dict[str, Any], Any] | None:
    """Returns the `assertion` object for a check, and the `ideal` that it needs; None if there is none.

    The fields are read again, with the case's ideal or else with what the check looks for.
    """
    params = assertion.params
    kind = _TYPES_BY_GRADER.get(assertion.grader)
    if kind is None:
        return None
    fields = {"type": kind} | {
        field: params[param] for param, field in _FIELDS_BY_PARAM.items() if param in params
    }
    if params.get("ignore_case") is True:
        fields["case_sensitive"] = False
    for needed in (ideal, params.get("values", params.get("value"))):
        if _is_ideal(needed):
            notes = ProblemLog("", 1)
            check = parse_assertion(FieldReader(fields, notes), needed, notes)
            if not notes.has_errors and encode(check.params) == encode(params):
                return fields, needed
    return None


def _is_ideal(value: Any) -> bool:
    return value is None or all(isinstance(text, str) for text in (value if type(value) is list else [value]))


_TYPES_BY_GRADER: Final = {
    "exact": "exact_match",
    **{name: name for name in TYPES if name != "exact_match"},
}
_FIELDS_BY_PARAM: Final = {
    "threshold": "threshold",
    "prompt": "judge_prompt",
    "rel_tolerance": "rel_tolerance",
}
"""The fields of an `assertion` by the parameters that they set."""

"""Writes dialect meridian as JSON Lines: simple tests where possible, else the full schema.

The assertions of a case are looked up among the shapes that the format can express (`writer_expected.py`). A
case with another shape, or with anything else that the format lacks, is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from proctor.dialects.meridian.writer_expected import UNSCORED_SHAPE, Shape, find_shape
from proctor.dialects.shared.jsonl import HOLDOUT_FIELD
from proctor.dialects.shared.losses import LossReport, note_suite_losses, unsupported_check_message
from proctor.dialects.shared.output_files import to_json_line
from proctor.model import Assertion, Case, Message, Problem, SplitRule, Suite
from proctor.protocols import RenderedFile

_UNSUPPORTED_SUITE_FIELDS: Final = ("pass_rule", "notes")
_UNSUPPORTED_CASE_FIELDS: Final = (
    *("criteria", "pass_rule", "target", "only_targets", "workspace", "form", "variables", "notes"),
)


def render(suite: Suite, cases: Iterable[Case], *, lossy: bool) -> Iterator[RenderedFile | Problem]:
    """Yields the suite as one file of JSON Lines. See `proctor.protocols.Renderer`."""
    header = LossReport(suite, "meridian", lossy=lossy)
    note_suite_losses(header, suite, _UNSUPPORTED_SUITE_FIELDS, has_holdout=True)
    cases = list(cases)
    rule = "mean" if any((case.repeats or 1) > 1 for case in cases) else "each"
    if suite.repeats_rule != rule:
        header.note(
            "repeats_rule", "its tests count once, by the mean of their answers, where one has `num_runs`."
        )
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
    row: dict[str, Any] = {"id": case.id, "input": _render_prompt(case, unsaid)}
    row |= _render_grading(case, unsaid)
    tags = [tag for tag in case.tags if tag and tag == tag.strip()]
    if len(tags) < len(case.tags):
        unsaid.note("tags", "it takes white space around a tag, and tags of nothing else, for nothing.")
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
        unsaid.note("input", f"it has one prompt of the user's, and there are messages of: {roles}.")
    for place, message in enumerate(case.input):
        for name in ("name", "tool_calls", "parts"):
            if getattr(message, name) not in (None, ()):
                unsaid.note(f"input[{place}].{name}", "its prompt is one text.")
    text = "\n\n".join(message.content for message in case.input if message.content.strip())
    if len(case.input) == 1 and text:
        return first.content
    if not text:
        unsaid.note("input", "it needs a text as its prompt.")
    return text or case.id


# --- how it is graded --------------------------------------------------------------------------------------


def _render_grading(case: Case, unsaid: LossReport) -> dict[str, Any]:
    """Returns the grading fields of a case; what they cannot express is noted."""
    loses_checks = False
    for place, assertion in enumerate(case.assertions):
        for name in ("required", "negated", "pass_at"):
            if getattr(assertion, name) not in (None, False):
                unsaid.note(f"assertions[{place}].{name}", "it has no such setting of a check.")
                loses_checks = True
    if not case.assertions:
        unsaid.note("assertions", "it needs at least one check.")
    weights = {float(assertion.weight) for assertion in case.assertions}
    if len(weights) > 1:
        unsaid.note("assertions[1].weight", "it has one weight for all checks of a test.")
    supported = list(case.assertions)
    shape = find_shape(supported, case.expected)
    if shape is None:
        supported, shape = _select_assertions(case, unsaid)
    if (loses_checks or len(supported) < len(case.assertions)) and not unsaid.is_refused:
        supported, shape = [], UNSCORED_SHAPE  # the rest would pass other answers
    if shape.expected != case.expected:
        why = (
            "a test with such a check has no other answer beside it."
            if shape.expected is None
            else "what its check looks for is the answer that it expects."
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
            unsaid.note(f"assertions[{place}]", "it has no test with these checks together, in this order.")
    return fitting, best or UNSCORED_SHAPE

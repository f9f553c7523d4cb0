"""Parses one test of the dialect agentv into a case, with what its suite gives to every test."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects.agentv.read.assertions import DEFAULT, lower, lower_rubrics, reads_criteria
from proctor.dialects.agentv.read.messages import expected_of, files_of, input_of
from proctor.dialects.agentv.read.templates import filled
from proctor.dialects.agentv.read.test_files import Raw
from proctor.dialects.agentv.read.workspace import Level, level_of, merged, workspace_of
from proctor.dialects.agentv.shared import finish, named, place_of, resolved_row, snake_case, texts_of, unset
from proctor.dialects.shared.yaml_files import without_effect
from proctor.env_vars import names_in
from proctor.model import Assertion, Attachment, Case, Message, PassRule, Problem, Workspace
from proctor.protocols import Source
from proctor.validation import Fields, Notes
from proctor.yaml12 import like, plain

TEST: Final = (
    *("id", "criteria", "input", "input_files", "expected_output", "execution", "workspace", "metadata"),
    *("rubrics", "assertions", "category", "vars", "lint", "description"),
)
OLD_NAMES: Final = {
    "criteria": ("expected_outcome",),
    "input": ("input_messages",),
    "expected_output": ("expected_messages",),
    "assertions": ("assert", "evaluators"),
}
EXECUTION: Final = ("target", "targets", "skip_defaults", "threshold", "evaluators")
WITHOUT_EFFECT: Final = (
    *("conversation_id", "suite", "note", "evaluator", "depends_on", "on_dependency_failure", "mode"),
    *("aggregation", "on_turn_failure", "window_size", "preprocessors"),
)
_STEERING: Final = ("id", "category", "execution")
_TEMPLATED: Final = tuple(
    spelling
    for name in ("criteria", "input", "expected_output", "input_files")
    for spelling in (name, *OLD_NAMES.get(name, ()))
)


class Common(Struct, frozen=True, kw_only=True):
    """What a suite gives to each of its tests."""

    raw_input: Any = None
    messages: tuple[Message, ...] = ()
    """Sent before a test's own messages."""
    files: tuple[Attachment, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    """Added after a test's own assertions."""
    metadata: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    category: str | None = None
    level: Level | None = None
    workspace: Workspace | None = None
    repeats: int | None = None
    asks_for_criteria: bool = True
    """Whether to warn about a test without `criteria`."""
    unset: frozenset[str] = frozenset()
    """Environment variables that the suite uses and that are not set; already reported."""


class _Execution(Struct, frozen=True, kw_only=True):
    """How one test is run."""

    target: str | None = None
    only_targets: tuple[str, ...] = ()
    skip_defaults: bool = False
    pass_rule: PassRule | None = None
    fields: Fields | None = None
    """The remaining fields, which may hold assertions in their old place."""


def case_of(raw: Raw, common: Common, notes: Notes) -> Case:
    """Returns the case of one test. It is valid if `notes` has no error."""
    source = raw.source
    fields, common = _open_test(raw, common, notes)
    execution = _execution(fields)
    level = level_of(fields, source)
    metadata = _metadata(fields, common)
    messages = _messages(fields, common, execution, source)
    criteria, expected, assertions = _judging(fields, common, execution, source)
    ignored: dict[str, Any] = {}
    without_effect(fields, WITHOUT_EFFECT, ignored)
    description = fields.text("description")
    if description is not None:
        ignored["description"] = description
    if level is not None:
        ignored |= level.kept
    case = Case(
        id=notes.case or "",
        input=messages,
        expected=expected,
        criteria=criteria,
        assertions=assertions or (DEFAULT,),
        tags=_tags(common, metadata),
        category=fields.text("category") or common.category,
        metadata=metadata,
        repeats=common.repeats,
        pass_rule=execution.pass_rule,
        target=execution.target,
        only_targets=execution.only_targets,
        workspace=common.workspace if level is None else workspace_of(merged(common.level, level), fields),
        notes=ignored,
    )
    if fields.take("turns") is not None:
        message = "is a conversation that goes on with each answer, which is not run here. "
        fields.error(
            "not-supported", "turns", f"{message}Write each turn as a test, with what was said before."
        )
    fields.finish((*TEST, *WITHOUT_EFFECT))
    return _with_variables(case, raw, common, notes)


def _open_test(raw: Raw, common: Common, notes: Notes) -> tuple[Fields, Common]:
    """Returns the fields of a test with `vars` filled in, and what the suite gives to it; sets its id."""
    row = resolved_row(raw.row, _STEERING, raw.source, notes)
    variables: Any = row.get("vars")
    if isinstance(variables, dict):
        row = _templated(row, variables)
        common = _with_input(common, variables, notes, raw.source)
    fields = Fields(row, notes)
    fields.forgive_null(*fields.names())
    notes.case = fields.required_text("id") or None
    if fields.take("vars") is not None and not isinstance(variables, dict):
        fields.wrong("vars", variables, "an object")
    return fields, common


# --- input -------------------------------------------------------------------------------------------------


def _messages(fields: Fields, common: Common, execution: _Execution, source: Source) -> tuple[Message, ...]:
    own_files = "input_files" in fields
    files = files_of(fields, "input_files", source)
    if not own_files and not execution.skip_defaults:
        files = common.files
    name = named(fields, "input", *OLD_NAMES["input"])
    if name not in fields:
        fields.missing("input", "text, an object or a list of messages")
        return ()
    messages = input_of(fields, name, source, files)
    return messages if execution.skip_defaults else (*common.messages, *messages)


def _templated(row: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """Replaces `{{name}}` in a test by the values of its `vars`; unknown names stay."""
    filled_row = like(row)
    filled_row.update(row)
    filled_row.update({name: filled(row[name], variables) for name in _TEMPLATED if name in row})
    return filled_row


def _with_input(common: Common, variables: dict[str, Any], notes: Notes, source: Source) -> Common:
    if common.raw_input is None:
        return common
    fields = Fields({"input": filled(common.raw_input, variables)}, notes)
    return replace(common, messages=input_of(fields, "input", source))


# --- how it is run and judged ------------------------------------------------------------------------------


def _execution(fields: Fields) -> _Execution:
    value: Any = fields.take("execution")
    if value is None:
        return _Execution()
    if not isinstance(value, dict):
        fields.wrong("execution", value, "an object")
        return _Execution()
    inner = Fields(snake_case(value), fields.notes, "execution.")
    inner.forgive_null(*inner.names())
    return _Execution(
        target=inner.required_text("target") if "target" in inner else None,
        only_targets=texts_of(inner, "targets"),
        skip_defaults=inner.truth("skip_defaults", False),
        pass_rule=rule_of(inner),
        fields=inner,
    )


def rule_of(execution: Fields) -> PassRule | None:
    """Returns the pass rule for a `threshold`, or None if there is none."""
    threshold = execution.number("threshold")
    if threshold is None:
        return None
    if not 0 <= threshold <= 1:
        execution.error("bad-threshold", "threshold", f"is {threshold}; it must be from 0 to 1.")
    return PassRule(threshold=float(threshold))


def _judging(
    fields: Fields, common: Common, execution: _Execution, source: Source
) -> tuple[str | None, Any, tuple[Assertion, ...]]:
    """Returns criteria, expected output and assertions: the test's rubrics and list, then the suite's."""
    name = named(fields, "criteria", *OLD_NAMES["criteria"])
    line = fields.line_of(name)
    text = fields.text(name)
    criteria = text if text and text.strip() else None
    answer = named(fields, "expected_output", *OLD_NAMES["expected_output"])
    has_answer = answer in fields
    expected = expected_of(fields, answer, source) if has_answer else None
    rubrics: tuple[Assertion, ...] = ()
    if "rubrics" in fields:
        rubrics = lower_rubrics(fields.take("rubrics"), "rubrics", fields.notes, source)
    own = assertions_of(fields, execution.fields, source)
    if execution.fields is not None:
        finish(execution.fields, EXECUTION)
    assertions = (*rubrics, *own, *(() if execution.skip_defaults else common.assertions))
    if criteria is None and not assertions and not has_answer and not fields.notes.failed:
        fields.missing("criteria", "a text, unless there are `expected_output` or `assertions`")
    elif not fields.notes.failed:
        _warn_about_criteria(fields.notes, criteria, assertions, line, common)
    return criteria, expected, assertions


def assertions_of(fields: Fields, execution: Fields | None, source: Source) -> tuple[Assertion, ...]:
    """Returns the assertions of a suite or a test, under any of their names."""
    name = named(fields, "assertions", *OLD_NAMES["assertions"])
    if execution is not None and "evaluators" in execution:
        value = execution.take("evaluators")
        if name in fields:
            fields.take(name)
            execution.error("conflicting-fields", "evaluators", f"and `{name}` mean the same; keep `{name}`.")
        else:
            execution.warn("deprecated", "evaluators", "is an old place; write `assertions` outside.")
        return _read_assertions(value, "evaluators", execution, source)
    return _read_assertions(fields.take(name), name, fields, source) if name in fields else ()


def _read_assertions(value: Any, name: str, fields: Fields, source: Source) -> tuple[Assertion, ...]:
    if isinstance(value, list):
        return lower(value, fields.place(name), fields.notes, source)
    fields.wrong(name, value, "a list of assertions")
    return ()


def _warn_about_criteria(
    notes: Notes, criteria: str | None, assertions: tuple[Assertion, ...], line: int | None, common: Common
) -> None:
    """Warns about criteria that are missing, or that no grader reads."""
    if criteria is None and not common.asks_for_criteria:
        return
    if criteria is None:
        message = (
            "`criteria` is missing. Say there what a correct answer does; judges and readers look for it."
        )
        notes.warn("missing-criteria", message, "criteria", line=line)
    elif assertions and not reads_criteria(assertions):
        # Not by `warn`, which would put the test's name before the text that the format prescribes.
        notes.problems.append(
            Problem(
                level="warning",
                code="unused-criteria",
                message=f"Test '{notes.case}': criteria is defined but no evaluator in assertions "
                "will evaluate it. Add 'type: llm-grader' to assertions, or remove criteria if it is "
                "documentation-only.",
                path=notes.path,
                line=line or notes.line,
                field="criteria",
                case=notes.case,
            )
        )


# --- metadata and variables --------------------------------------------------------------------------------


def _metadata(fields: Fields, common: Common) -> dict[str, Any]:
    own: Any = fields.take("metadata")
    lint: Any = fields.take("lint")
    if own is not None and not isinstance(own, dict):
        fields.wrong("metadata", own, "an object")
        own = None
    if own is None and lint is None:
        return common.metadata
    metadata = joined(common.metadata, plain(own or {}))
    return metadata if lint is None else {**metadata, "lint": plain(lint)}


def joined(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Merges two objects: lists without duplicates, objects by field; else the inner value wins."""
    merged = dict(outer)
    for name, value in inner.items():
        base = merged.get(name)
        if isinstance(base, dict) and isinstance(value, dict):
            merged[name] = joined(base, value)
        elif isinstance(base, list) and isinstance(value, list):
            # As JSON, since `1` and `true` are equal otherwise.
            merged[name] = list({encode(item): item for item in (*base, *value)}.values())
        else:
            merged[name] = value
    return merged


def _tags(common: Common, metadata: dict[str, Any]) -> tuple[str, ...]:
    own = metadata.get("tags")
    if not isinstance(own, list) or not all(isinstance(tag, str) for tag in own):
        return common.tags
    return tuple(dict.fromkeys((*common.tags, *own)))


def _with_variables(case: Case, raw: Raw, common: Common, notes: Notes) -> Case:
    """Adds the names of the environment variables in a case, each of which must be set."""
    if b"${{" not in encode(case):  # searching every text one by one takes ten times as long
        return case
    names = names_in(replace(case, notes={}))  # notes have no effect
    reported_fields = {problem.field for problem in notes.problems if problem.code == "unset-variable"}
    for name in names:
        field, line = place_of(raw.row, name) or ("assertions", None)
        if name not in raw.source.environ and name not in common.unset and field not in reported_fields:
            unset(name, notes, field, line)
    return replace(case, variables=names)

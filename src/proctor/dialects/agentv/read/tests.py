"""Parses one test of the dialect agentv into a case, with what its suite gives to every test."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor import field_schemas as schemas
from proctor.codec import encode
from proctor.dialects.agentv.read.assertions import DEFAULT_ASSERTION, parse_assertions, reads_criteria
from proctor.dialects.agentv.read.case_vars import fill_value
from proctor.dialects.agentv.read.messages import parse_expected, parse_input, read_input_files
from proctor.dialects.agentv.read.rubrics import parse_test_rubrics
from proctor.dialects.agentv.read.test_files import RawTest
from proctor.dialects.agentv.read.workspace import (
    WorkspaceLevel,
    build_workspace,
    merge_levels,
    read_workspace_level,
)
from proctor.dialects.agentv.shared import (
    find_reference,
    finish,
    note_unset_variable,
    read_object,
    read_texts,
    resolve_alias,
    resolve_row,
    with_fields,
)
from proctor.dialects.shared.yaml_files import ignore_fields
from proctor.env_substitution import names_in
from proctor.field_schemas import Fields
from proctor.model import Assertion, Attachment, Case, Message, PassRule, Problem, Workspace
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, FieldSchema, ProblemLog
from proctor.yaml12 import to_plain

TEST_FIELDS: Final[Fields] = {
    "id": schemas.words("The id of the test, unique in the suite."),
    "criteria": schemas.text("What a correct answer does; judges see it."),
    "input": schemas.ref("input", "The prompt: a text, an object or a list of messages."),
    "input_files": schemas.ref("input_files", "Files that are sent before the text."),
    "expected_output": schemas.ref("expected_output", "A correct answer: a text, an object or messages."),
    "execution": schemas.ref("test_execution", "How the test is run."),
    "workspace": schemas.ref("workspace", "The folder in which the agent works."),
    "metadata": schemas.of_type("object", "Your own data about the test."),
    "rubrics": schemas.ref("rubrics", "A checklist that a judge grades the answer against."),
    "assertions": schemas.ref("assertions", "The checks of the answer."),
    "category": schemas.text("The category of the test."),
    "vars": schemas.of_type("object", "The values of {{name}} in the texts of the test."),
    "lint": schemas.anything("The codes of lint findings to ignore."),
    "description": schemas.text("A note for readers."),
}
OLD_NAMES: Final = {
    "criteria": ("expected_outcome",),
    "input": ("input_messages",),
    "expected_output": ("expected_messages",),
    "assertions": ("assert", "evaluators"),
}
THRESHOLD: Final = schemas.of_type(
    "number", "The weighted mean score that a test needs to pass.", minimum=0, maximum=1
)
OLD_LIST: Final[FieldSchema] = {
    **schemas.ref("assertions", "Write `assertions` outside it."),
    "deprecated": True,
}
"""The old place of a list of assertions."""
EXECUTION_FIELDS: Final[Fields] = {
    "target": schemas.words("The target to run instead of the suite's target."),
    "targets": schemas.list_of(schemas.text(), "The only targets that run the test."),
    "skip_defaults": schemas.of_type(
        "boolean", "Whether the test leaves out everything that the suite adds to every test."
    ),
    "threshold": THRESHOLD,
    "evaluators": OLD_LIST,
}
UNUSED_FIELDS: Final = (
    *("conversation_id", "suite", "note", "evaluator", "depends_on", "on_dependency_failure", "mode"),
    *("aggregation", "on_turn_failure", "window_size", "preprocessors"),
)
_RESOLVED_FIELDS: Final = ("id", "category", "execution")
_TEMPLATED_FIELDS: Final = tuple(
    spelling
    for name in ("criteria", "input", "expected_output", "input_files")
    for spelling in (name, *OLD_NAMES.get(name, ()))
)


class SuiteLevel(Struct, frozen=True, kw_only=True):
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
    level: WorkspaceLevel | None = None
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
    fields: FieldReader | None = None
    """The remaining fields, which may hold assertions in their old place."""


def parse_test(raw: RawTest, common: SuiteLevel, notes: ProblemLog) -> Case:
    """Returns the case of one test. It is valid if `notes` has no error."""
    source = raw.source
    fields, common = _prepare_test(raw, common, notes)
    execution = _parse_execution(fields)
    level = read_workspace_level(fields, source)
    metadata = _parse_metadata(fields, common)
    messages = _parse_messages(fields, common, execution, source)
    criteria, expected, assertions = _parse_grading(fields, common, execution, source)
    ignored: dict[str, Any] = {}
    ignore_fields(fields, UNUSED_FIELDS, ignored)
    description = fields.text("description")
    if description is not None:
        ignored["description"] = description
    if level is not None:
        ignored |= level.unused_fields
    case = Case(
        id=notes.case or "",
        input=messages,
        expected=expected,
        criteria=criteria,
        assertions=assertions or (DEFAULT_ASSERTION,),
        tags=_merge_tags(common, metadata),
        category=fields.text("category") or common.category,
        metadata=metadata,
        repeats=common.repeats,
        pass_rule=execution.pass_rule,
        target=execution.target,
        only_targets=execution.only_targets,
        workspace=common.workspace
        if level is None
        else build_workspace(merge_levels(common.level, level), fields),
        notes=ignored,
    )
    if fields.pop("turns") is not None:
        message = "is a conversation that continues with each answer, which Proctor does not support. "
        fields.error(
            "not-supported",
            "turns",
            f"{message}Write each turn as its own test that includes the earlier turns.",
        )
    fields.finish((*TEST_FIELDS, *UNUSED_FIELDS))
    return _with_variables(case, raw, common, notes)


def _prepare_test(raw: RawTest, common: SuiteLevel, notes: ProblemLog) -> tuple[FieldReader, SuiteLevel]:
    """Returns the fields of a test with `vars` filled in, and what the suite gives to it; sets its id."""
    row = resolve_row(raw.row, _RESOLVED_FIELDS, raw.source, notes)
    variables: Any = row.get("vars")
    if isinstance(variables, dict):
        # Unknown names stay.
        filled = {name: fill_value(row[name], variables) for name in _TEMPLATED_FIELDS if name in row}
        row = with_fields(row, filled)
        if common.raw_input is not None:
            shared_input = FieldReader({"input": fill_value(common.raw_input, variables)}, notes)
            common = replace(common, messages=parse_input(shared_input, "input", raw.source))
    fields = FieldReader(row, notes)
    fields.drop_null()
    notes.case = fields.required_text("id") or None
    if fields.pop("vars") is not None and not isinstance(variables, dict):
        fields.report_wrong_type("vars", variables, "an object")
    return fields, common


# --- input -------------------------------------------------------------------------------------------------


def _parse_messages(
    fields: FieldReader, common: SuiteLevel, execution: _Execution, source: SuiteSource
) -> tuple[Message, ...]:
    own_files = "input_files" in fields
    files = read_input_files(fields, "input_files", source)
    if not own_files and not execution.skip_defaults:
        files = common.files
    name = resolve_alias(fields, "input", *OLD_NAMES["input"])
    if name not in fields:
        fields.report_missing("input", "text, an object or a list of messages")
        return ()
    messages = parse_input(fields, name, source, files)
    return messages if execution.skip_defaults else (*common.messages, *messages)


# --- how it is run and judged ------------------------------------------------------------------------------


def _parse_execution(fields: FieldReader) -> _Execution:
    if "execution" not in fields:
        return _Execution()
    inner = read_object(fields, "execution")
    return _Execution(
        target=inner.non_blank_text("target"),
        only_targets=read_texts(inner, "targets"),
        skip_defaults=inner.boolean("skip_defaults", False),
        pass_rule=parse_pass_rule(inner),
        fields=inner,
    )


def parse_pass_rule(execution: FieldReader) -> PassRule | None:
    """Returns the pass rule for a `threshold`, or None if there is none."""
    threshold = execution.number("threshold")
    if threshold is None:
        return None
    if not 0 <= threshold <= 1:
        execution.error("bad-threshold", "threshold", f"is {threshold}; it must be from 0 to 1.")
    return PassRule(threshold=float(threshold))


def _parse_grading(
    fields: FieldReader, common: SuiteLevel, execution: _Execution, source: SuiteSource
) -> tuple[str | None, Any, tuple[Assertion, ...]]:
    """Returns criteria, expected output and assertions: the test's rubrics and list, then the suite's."""
    name = resolve_alias(fields, "criteria", *OLD_NAMES["criteria"])
    line = fields.line_for(name)
    text = fields.text(name)
    criteria = text if text and text.strip() else None
    answer = resolve_alias(fields, "expected_output", *OLD_NAMES["expected_output"])
    has_answer = answer in fields
    expected = parse_expected(fields, answer, source) if has_answer else None
    rubrics: tuple[Assertion, ...] = ()
    if "rubrics" in fields:
        rubrics = parse_test_rubrics(fields.pop("rubrics"), "rubrics", fields.problem_log, source)
    own = read_assertion_list(fields, execution.fields, source)
    if execution.fields is not None:
        finish(execution.fields, tuple(EXECUTION_FIELDS))
    assertions = (*rubrics, *own, *(() if execution.skip_defaults else common.assertions))
    if criteria is None and not assertions and not has_answer and not fields.problem_log.has_errors:
        fields.report_missing("criteria", "a text, unless there are `expected_output` or `assertions`")
    elif not fields.problem_log.has_errors:
        _warn_about_criteria(fields.problem_log, criteria, assertions, line, common)
    return criteria, expected, assertions


def read_assertion_list(
    fields: FieldReader, execution: FieldReader | None, source: SuiteSource
) -> tuple[Assertion, ...]:
    """Returns the assertions of a suite or a test, under any of their names."""
    name = resolve_alias(fields, "assertions", *OLD_NAMES["assertions"])
    if execution is not None and "evaluators" in execution:
        if name in fields:
            fields.pop(name)
            execution.error("conflicting-fields", "evaluators", f"and `{name}` mean the same; keep `{name}`.")
        else:
            execution.warn(
                "deprecated", "evaluators", "is the old place for assertions; write `assertions` outside it."
            )
        fields, name = execution, "evaluators"
    if name not in fields:
        return ()
    value = fields.pop(name)
    if isinstance(value, list):
        return parse_assertions(value, fields.path_to(name), fields.problem_log, source)
    fields.report_wrong_type(name, value, "a list of assertions")
    return ()


def _warn_about_criteria(
    notes: ProblemLog,
    criteria: str | None,
    assertions: tuple[Assertion, ...],
    line: int | None,
    common: SuiteLevel,
) -> None:
    """Warns about criteria that are missing, or that no grader reads."""
    if criteria is None and not common.asks_for_criteria:
        return
    if criteria is None:
        message = (
            "`criteria` is missing. Describe there what a correct answer does; judges and readers of "
            "the suite use it."
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


def _parse_metadata(fields: FieldReader, common: SuiteLevel) -> dict[str, Any]:
    own = fields.instance("metadata", dict)
    lint: Any = fields.pop("lint")
    if own is None and lint is None:
        return common.metadata
    metadata = deep_merge(common.metadata, to_plain(own or {}))
    return metadata if lint is None else {**metadata, "lint": to_plain(lint)}


def deep_merge(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, Any]:
    """Merges two objects: lists without duplicates, objects by field; else the inner value wins."""
    merged = dict(outer)
    for name, value in inner.items():
        base = merged.get(name)
        if isinstance(base, dict) and isinstance(value, dict):
            merged[name] = deep_merge(base, value)
        elif isinstance(base, list) and isinstance(value, list):
            # As JSON, since `1` and `true` are equal otherwise.
            merged[name] = list({encode(item): item for item in (*base, *value)}.values())
        else:
            merged[name] = value
    return merged


def _merge_tags(common: SuiteLevel, metadata: dict[str, Any]) -> tuple[str, ...]:
    own = metadata.get("tags")
    if not isinstance(own, list) or not all(isinstance(tag, str) for tag in own):
        return common.tags
    return tuple(dict.fromkeys((*common.tags, *own)))


def _with_variables(case: Case, raw: RawTest, common: SuiteLevel, notes: ProblemLog) -> Case:
    """Adds the names of the environment variables in a case, each of which must be set."""
    if b"${{" not in encode(case):  # searching every text one by one takes ten times as long
        return case
    names = names_in(replace(case, notes={}))  # notes have no effect
    reported_fields = {problem.field for problem in notes.problems if problem.code == "unset-variable"}
    for name in names:
        field, line = find_reference(raw.row, name) or ("assertions", None)
        if name not in raw.source.environ and name not in common.unset and field not in reported_fields:
            note_unset_variable(name, notes, field, line)
    return replace(case, variables=names)

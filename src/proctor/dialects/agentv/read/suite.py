"""The fields of an agentv suite above its tests: its header, and what it gives to each test."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.agentv.read.assertions import DEFAULT_ASSERTION
from proctor.dialects.agentv.read.messages import parse_input, read_input_files
from proctor.dialects.agentv.read.tests import SuiteLevel, parse_pass_rule, read_assertion_list
from proctor.dialects.agentv.read.workspace import build_workspace, read_workspace_level
from proctor.dialects.agentv.shared import (
    find_reference,
    finish,
    note_unset_variable,
    read_texts,
    resolve_alias,
    resolve_row,
    to_snake_case,
)
from proctor.dialects.agentv.syntax import TESTS_NAMES
from proctor.dialects.shared.jsonl import HOLDOUT_FIELD, file_name, with_holdout
from proctor.dialects.shared.yaml_files import ignore_fields
from proctor.env_substitution import names_in
from proctor.model import PassRule, Suite, SuiteDefaults
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, ProblemLog
from proctor.yaml12 import to_plain

SUITE_FIELDS: Final = (
    *("name", "description", "version", "category", "tags", "metadata", "input", "input_files", "tests"),
    *("target", "execution", "assertions", "workspace", HOLDOUT_FIELD),
)
UNUSED_FIELDS: Final = (
    *("$schema", "author", "license", "requires", "suite", "evaluator", "governance", "preprocessors"),
    *("note", "conversation_id", "defaults", "experiment", "timeout_seconds", "derived_metrics"),
    *("output_path", "graders"),
)
EXECUTION_FIELDS: Final = (
    *("target", "targets", "workers", "threshold", "trials", "budget_usd", "total_budget_usd", "cache"),
    *("evaluators", "cache_path", "fail_on_error"),
)
TRIALS_FIELDS: Final = ("count", "strategy", "cost_limit_usd")
STRATEGIES: Final[dict[str, Literal["each", "any", "mean", "lower_bound"]]] = {
    "pass_at_k": "any",
    "pass_any": "any",
    "pass_all": "each",
    "mean": "mean",
    "confidence_interval": "lower_bound",
}
MAX_WORKERS: Final = 50
DEFAULT_THRESHOLD: Final = 0.8
"""The weighted mean that a test must reach, unless the suite says otherwise."""

_RESOLVED_FIELDS: Final = ("name", "version", "category", "tags", "target", "execution")


class SuiteHeading(Struct, frozen=True, kw_only=True):
    """A suite without its tests."""

    suite: Suite
    common: SuiteLevel
    tests: Any
    """The tests as written, or the path of a file or folder with them."""
    field: str
    """The name of the field with the tests."""
    line: int


def parse_heading(row: dict[str, Any], source: SuiteSource, notes: ProblemLog) -> SuiteHeading:
    """Parses a suite without its tests; problems go to `notes`."""
    fields = FieldReader(resolve_row(row, _RESOLVED_FIELDS, source, notes), notes)
    fields.drop_null(*fields.remaining_names())
    tests = resolve_alias(fields, *TESTS_NAMES)
    ignored: dict[str, Any] = {}
    execution = _parse_object(fields, "execution", "execution.")
    suite = with_holdout(_parse_suite_fields(fields, execution, source, ignored), fields)
    common = _parse_suite_level(fields, execution, source, ignored, row.get("input"))
    common, suite = _with_trials(common, suite, execution, ignored)
    ignore_fields(fields, UNUSED_FIELDS, ignored)
    ignore_fields(execution, ("cache_path", "fail_on_error"), ignored, "execution.")
    finish(execution, EXECUTION_FIELDS)
    line = fields.line_for(tests) or notes.line
    tests_value: Any = fields.pop(tests)
    fields.finish((*SUITE_FIELDS, *UNUSED_FIELDS))
    above = {name: value for name, value in row.items() if name != tests}
    if notes.has_errors and common.assertions:
        # Their errors are noted here once instead of for every test, so a valid one replaces them.
        common = replace(common, assertions=(DEFAULT_ASSERTION,))
    common = replace(
        common, unset=_find_unset_variables(common, above, getattr(row, "lines", {}), source, notes)
    )
    return SuiteHeading(suite=suite, common=common, tests=tests_value, field=tests, line=line)


def default_suite_name(path: str) -> str:
    """Returns the default name of a suite: its file name without the ending."""
    return file_name(path).stem.removesuffix(".eval") or "suite"


def _parse_object(fields: FieldReader, name: str, prefix: str) -> FieldReader:
    """Returns the fields of a nested object without nulls; no fields if it is absent."""
    value: Any = fields.pop(name)
    if value is not None and not isinstance(value, dict):
        fields.report_wrong_type(name, value, "an object")
    inner = FieldReader(to_snake_case(value) if isinstance(value, dict) else {}, fields.problem_log, prefix)
    inner.drop_null(*inner.remaining_names())
    return inner


def _parse_suite_fields(
    fields: FieldReader, execution: FieldReader, source: SuiteSource, ignored: dict[str, Any]
) -> Suite:
    name = fields.required_text("name") if "name" in fields else ""
    version: Any = fields.pop("version")
    return Suite(
        name=name.strip() or default_suite_name(source.path),
        dialect="agentv",
        declared_version=None if version is None else str(version),
        description=fields.text("description"),
        pass_rule=parse_pass_rule(execution) or PassRule(threshold=DEFAULT_THRESHOLD),
        defaults=_parse_defaults(fields, execution),
        folder=source.folder,
        notes=ignored,
    )


def _parse_defaults(fields: FieldReader, execution: FieldReader) -> SuiteDefaults:
    old = (fields.required_text("target"),) if "target" in fields else ()
    single_target = (execution.required_text("target"),) if "target" in execution else old
    workers = execution.integer("workers", least=1)
    if workers is not None and workers > MAX_WORKERS:
        execution.error("bad-workers", "workers", f"is {workers}; it must be from 1 to {MAX_WORKERS}.")
    name = "total_budget_usd" if "budget_usd" not in execution else "budget_usd"
    budget = execution.number(name)
    if budget is not None and budget <= 0:
        execution.error("bad-budget", name, f"is {budget}; it must be an amount of US dollars above 0.")
    if "total_budget_usd" in execution:
        execution.pop("total_budget_usd")
        execution.error("conflicting-fields", "total_budget_usd", "and `budget_usd` mean the same; keep one.")
    return SuiteDefaults(
        targets=tuple(dict.fromkeys(read_texts(execution, "targets") or single_target)),
        concurrency=workers,
        budget_usd=None if budget is None else float(budget),
        cache=execution.boolean("cache", False) if "cache" in execution else None,
    )


def _parse_suite_level(
    fields: FieldReader, execution: FieldReader, source: SuiteSource, ignored: dict[str, Any], raw_input: Any
) -> SuiteLevel:
    metadata: Any = fields.pop("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        fields.report_wrong_type("metadata", metadata, "an object")
        metadata = None
    level = read_workspace_level(fields, source)
    if level is not None:
        ignored.update(level.unused_fields)
    return SuiteLevel(
        raw_input=raw_input,
        messages=() if raw_input is None else parse_input(fields, "input", source),
        files=read_input_files(fields, "input_files", source),
        assertions=read_assertion_list(fields, execution, source),
        metadata=to_plain(metadata or {}),
        tags=read_texts(fields, "tags"),
        category=fields.text("category"),
        level=level,
        workspace=build_workspace(level, fields),
    )


def _with_trials(
    common: SuiteLevel, suite: Suite, execution: FieldReader, ignored: dict[str, Any]
) -> tuple[SuiteLevel, Suite]:
    if "trials" not in execution:
        return common, suite
    trials = _parse_object(execution, "trials", "execution.trials.")
    if "count" not in trials:
        trials.report_missing("count", "a whole number of at least 1")
    repeats = trials.integer("count", least=1)
    strategy = trials.choice("strategy", tuple(STRATEGIES)) if "strategy" in trials else "pass_at_k"
    ignore_fields(trials, ("cost_limit_usd",), ignored, "execution.trials.")
    finish(trials, TRIALS_FIELDS)
    return replace(common, repeats=repeats), replace(suite, repeats_rule=STRATEGIES.get(strategy, "each"))


def _find_unset_variables(
    common: SuiteLevel, above: dict[str, Any], lines: dict[str, int], source: SuiteSource, notes: ProblemLog
) -> frozenset[str]:
    """Returns the environment variables that the suite uses and that are not set; each is an error."""
    inherited = (common.messages, common.assertions, common.metadata, common.workspace)
    missing = [name for name in names_in(inherited) if name not in source.environ]
    for name in missing:
        field, line = find_reference(above, name) or ("assertions", None)
        top = field.partition(".")[0].partition("[")[0]
        note_unset_variable(name, notes, field, line or lines.get(top))
    return frozenset(missing)

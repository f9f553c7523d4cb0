"""Reads an agentv suite from its bytes: the form, the fields above its tests, and each test as a case."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor import field_schemas as schemas
from proctor.dialects.agentv.read.assertions import DEFAULT_ASSERTION
from proctor.dialects.agentv.read.messages import parse_input, read_input_files
from proctor.dialects.agentv.read.prompt_templates import merge_cases
from proctor.dialects.agentv.read.test_files import JSON_LINES_ENDINGS, RawTest, read_json_lines, read_tests
from proctor.dialects.agentv.read.tests import (
    OLD_LIST,
    THRESHOLD,
    SuiteLevel,
    parse_pass_rule,
    parse_test,
    read_assertion_list,
)
from proctor.dialects.agentv.read.v5 import Version5Level, get_variables, is_version_5, translate_test
from proctor.dialects.agentv.read.v5 import translate_heading as version_5_heading
from proctor.dialects.agentv.read.workspace import build_workspace, read_workspace_level
from proctor.dialects.agentv.shared import (
    find_reference,
    finish,
    note_unset_variable,
    read_object,
    read_texts,
    resolve_alias,
    resolve_row,
)
from proctor.dialects.agentv.syntax import TESTS_NAMES
from proctor.dialects.shared.jsonl import (
    HOLDOUT_FIELD,
    file_name,
    parse_object,
    peek,
    read_all,
    with_holdout,
)
from proctor.dialects.shared.signatures import YAML_ENDINGS
from proctor.dialects.shared.yaml_files import display_path, ignore_fields, parse_yaml
from proctor.env_substitution import names_in
from proctor.field_schemas import Fields
from proctor.model import Case, PassRule, Problem, Suite, SuiteDefaults
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.validation import FieldReader, ProblemLog, json_type
from proctor.yaml12 import to_plain

SUITE_FIELDS: Final[Fields] = {
    "name": schemas.words("The name of the suite; by default the name of its file."),
    "description": schemas.text("What the suite is about."),
    "version": schemas.anything("Your own version number of the suite."),
    "category": schemas.text("The category of tests that do not set one."),
    "tags": schemas.list_of(schemas.text(), "Tags that are added to every test."),
    "metadata": schemas.of_type("object", "Your own data, added to the metadata of every test."),
    "input": schemas.ref("input", "Messages that are sent before those of each test."),
    "input_files": schemas.ref("input_files", "Files that are sent with each test."),
    "tests": {
        "type": ["string", "array"],
        "items": schemas.text_or(schemas.ref("test"), "^file://"),
        "description": "The tests, or the path of a file, a glob or a folder with them.",
    },
    "target": schemas.words("The target to run: a name from targets.yaml, or a word such as openai:gpt-5.2."),
    "execution": schemas.ref("suite_execution", "How the tests are run."),
    "assertions": schemas.ref("assertions", "Assertions that are added to those of each test."),
    "workspace": schemas.ref("workspace", "The workspace in which agents run."),
    HOLDOUT_FIELD: schemas.either(
        {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
        {"const": False},
        about="The share of tests to hold out, such as 0.2; 0 or false for none.",
    ),
}
SCHEMA_FIELD: Final = "$schema"
"""The field in which editors look for the JSON Schema of a file."""
UNUSED_FIELDS: Final = (
    *(SCHEMA_FIELD, "author", "license", "requires", "suite", "evaluator", "governance", "preprocessors"),
    *("note", "conversation_id", "defaults", "experiment", "timeout_seconds", "derived_metrics"),
    *("output_path", "graders"),
)
STRATEGIES: Final[dict[str, Literal["each", "any", "mean", "lower_bound"]]] = {
    "pass_at_k": "any",
    "pass_any": "any",
    "pass_all": "each",
    "mean": "mean",
    "confidence_interval": "lower_bound",
}
MAX_WORKERS: Final = 50
_BUDGET: Final = schemas.of_type("number", "Maximum cost of a run, in US dollars.", exclusiveMinimum=0)
EXECUTION_FIELDS: Final[Fields] = {
    "target": schemas.words("The target to run."),
    "targets": schemas.list_of(schemas.text(), "The targets to run."),
    "workers": schemas.of_type("integer", "Maximum concurrent requests.", minimum=1, maximum=MAX_WORKERS),
    "threshold": THRESHOLD,
    "trials": schemas.ref("trials", "How many times each test is run."),
    "budget_usd": _BUDGET,
    "total_budget_usd": _BUDGET,
    "cache": schemas.of_type("boolean", "Whether the answer cache is used."),
    "evaluators": OLD_LIST,
    "cache_path": schemas.UNUSED,
    "fail_on_error": schemas.UNUSED,
}
TRIALS_FIELDS: Final[Fields] = {
    "count": schemas.of_type("integer", "How many trials each test gets.", minimum=1),
    "strategy": schemas.choice(STRATEGIES, "How the verdicts of a test's trials are combined."),
    "cost_limit_usd": schemas.UNUSED,
}
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
        defaults = replace(heading.suite.defaults, prompts=shared.templates)
        heading = replace(
            heading,
            suite=replace(heading.suite, defaults=defaults),
            common=replace(heading.common, asks_for_criteria=False),
        )
    yield heading.suite
    yield from notes.problems
    for item in tests:
        yield from (item,) if isinstance(item, Problem) else _parse_cases(item, heading, shared, source)


def _parse_cases(
    raw: RawTest, heading: SuiteHeading, shared: Version5Level | None, source: SuiteSource
) -> Iterator[CaseAtLine | Problem]:
    """Yields the case of a test, which the prompts of version 5 fill in.

    Where these are no prompts of the suite, there is a case for each, and repeated problems are marked.
    """
    if shared is not None and shared.templates:
        yield from _parse_shared_case(raw, heading, shared, source)
        return
    reported_keys: set[tuple[int | None, str | None, str]] = set()
    prompts = shared.prompts if shared is not None and "input" not in raw.row else ()
    for prompt in prompts or (None,):
        notes = ProblemLog(raw.path or source.path, raw.line, "Test", of_case=True)
        test = raw
        if shared is not None:
            test = replace(raw, row=translate_test(raw.row, shared, prompt, notes))
        case = parse_test(test, heading.common, notes)
        for problem in notes.problems:
            repeated = (problem.line, problem.field, problem.code) in reported_keys
            yield replace(problem, repeated=True) if repeated else problem
        reported_keys |= {(problem.line, problem.field, problem.code) for problem in notes.problems}
        if not notes.has_errors:
            yield CaseAtLine(case, raw.line, raw.path)


def _parse_shared_case(
    raw: RawTest, heading: SuiteHeading, shared: Version5Level, source: SuiteSource
) -> Iterator[CaseAtLine | Problem]:
    """Yields the case of a test that the prompts of the suite fill in.

    A test with an input of its own has none of these. One for which a prompt would send anything else than
    its texts has a case for each prompt.
    """
    prompts = () if "input" in raw.row else shared.prompts
    problems: dict[tuple[int | None, str | None, str], Problem] = {}
    cases: list[Case] = []
    for prompt in prompts or (None,):
        notes = ProblemLog(raw.path or source.path, raw.line, "Test", of_case=True)
        test = replace(raw, row=translate_test(raw.row, shared, prompt, notes))
        cases.append(parse_test(test, heading.common, notes))
        for problem in notes.problems:
            problems.setdefault((problem.line, problem.field, problem.code), problem)
    row = next((problem.row for problem in problems.values() if problem.row is not None), None)
    yield from (
        problem if problem.row is None else replace(problem, row=row) for problem in problems.values()
    )
    if any(problem.level == "error" for problem in problems.values()):
        return
    merged = merge_cases(cases, shared.templates, get_variables(raw.row, shared)) if prompts else None
    for place, case in enumerate(cases if merged is None else (merged,)):
        if merged is None:
            name = f"{case.id}~{prompts[place].label}" if len(cases) > 1 else case.id
            case = replace(case, id=name, prompts=())
        yield CaseAtLine(case, raw.line, raw.path)


# --- YAML --------------------------------------------------------------------------------------------------


def _read_yaml(source: SuiteSource, notes: ProblemLog) -> dict[str, Any]:
    value = parse_yaml(read_all(source), notes)
    if isinstance(value, dict) and "targets" in value and not any(name in value for name in TESTS_NAMES):
        notes.error(
            "not-a-suite",
            "The file contains targets and no tests. To see its targets, run `proctor targets list`.",
        )
        return {}
    if isinstance(value, dict):
        return value
    if not notes.has_errors:
        actual = "empty" if value is None else json_type(value)
        notes.error("not-a-suite", f"The file is {actual}; a suite must be an object with `tests`.")
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
                f"{name} has its own `{TESTS_NAMES[0]}`, so it is another suite and is not read as "
                f"part of this one."
            )
            notes.warn("not-a-sidecar", message)
            continue
        if not isinstance(row, dict) and not own.has_errors and row is not None:
            own.error(
                "not-a-suite",
                f"The file is {json_type(row)}; it must be an object with the fields of a suite.",
            )
        sidecars.append((row if isinstance(row, dict) else {}, own))
    if len(sidecars) > 1:
        names = " and ".join(file_name(own.path).name for _, own in sidecars)
        notes.error("two-sidecars", f"{names} are both in the folder of the file; keep only one of them.")
    if not sidecars:
        return {}, notes
    row, own = sidecars[0]
    notes.path = own.path
    notes.extend(own)
    return row, notes


# --- the fields above the tests ----------------------------------------------------------------------------


def parse_heading(row: dict[str, Any], source: SuiteSource, notes: ProblemLog) -> SuiteHeading:
    """Parses a suite without its tests; problems go to `notes`."""
    fields = FieldReader(resolve_row(row, _RESOLVED_FIELDS, source, notes), notes)
    fields.drop_null()
    tests = resolve_alias(fields, *TESTS_NAMES)
    ignored: dict[str, Any] = {}
    execution = read_object(fields, "execution")
    suite = with_holdout(_parse_suite_fields(fields, execution, source, ignored), fields)
    common = _parse_suite_level(fields, execution, source, ignored, row.get("input"))
    common, suite = _with_trials(common, suite, execution, ignored)
    if SCHEMA_FIELD in fields:
        ignored[SCHEMA_FIELD] = fields.pop(SCHEMA_FIELD)  # for editors
    ignore_fields(fields, UNUSED_FIELDS, ignored)
    ignore_fields(execution, ("cache_path", "fail_on_error"), ignored, "execution.")
    finish(execution, tuple(EXECUTION_FIELDS))
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
        execution.error(
            "conflicting-fields", "total_budget_usd", "and `budget_usd` mean the same; keep only one of them."
        )
    return SuiteDefaults(
        targets=tuple(dict.fromkeys(read_texts(execution, "targets") or single_target)),
        concurrency=workers,
        budget_usd=None if budget is None else float(budget),
        cache=execution.boolean("cache", False) if "cache" in execution else None,
    )


def _parse_suite_level(
    fields: FieldReader, execution: FieldReader, source: SuiteSource, ignored: dict[str, Any], raw_input: Any
) -> SuiteLevel:
    metadata = fields.instance("metadata", dict)
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
    trials = read_object(execution, "trials")
    if "count" not in trials:
        trials.report_missing("count", "a whole number of at least 1")
    repeats = trials.integer("count", least=1)
    strategy = trials.choice("strategy", tuple(STRATEGIES)) if "strategy" in trials else "pass_at_k"
    ignore_fields(trials, ("cost_limit_usd",), ignored, "execution.trials.")
    finish(trials, tuple(TRIALS_FIELDS))
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

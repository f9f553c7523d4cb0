"""The fields of an agentv suite above its tests: its header, and what it gives to each test."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.agentv.read.assertions import DEFAULT
from proctor.dialects.agentv.read.messages import files_of, input_of
from proctor.dialects.agentv.read.tests import Common, assertions_of, rule_of
from proctor.dialects.agentv.read.workspace import level_of, workspace_of
from proctor.dialects.agentv.shared import finish, named, place_of, resolved_row, snake_case, texts_of, unset
from proctor.dialects.agentv.syntax import TESTS
from proctor.dialects.shared.jsonl import HOLDOUT, file_name, with_holdout
from proctor.dialects.shared.yaml_files import without_effect
from proctor.env_vars import names_in
from proctor.model import Defaults, PassRule, Suite
from proctor.protocols import Source
from proctor.validation import Fields, Notes
from proctor.yaml12 import plain

SUITE: Final = (
    *("name", "description", "version", "category", "tags", "metadata", "input", "input_files", "tests"),
    *("target", "execution", "assertions", "workspace", HOLDOUT),
)
WITHOUT_EFFECT: Final = (
    *("$schema", "author", "license", "requires", "suite", "evaluator", "governance", "preprocessors"),
    *("note", "conversation_id", "defaults", "experiment", "timeout_seconds", "derived_metrics"),
    *("output_path", "graders"),
)
EXECUTION: Final = (
    *("target", "targets", "workers", "threshold", "trials", "budget_usd", "total_budget_usd", "cache"),
    *("evaluators", "cache_path", "fail_on_error"),
)
TRIALS: Final = ("count", "strategy", "cost_limit_usd")
STRATEGIES: Final[dict[str, Literal["each", "any", "mean", "lower_bound"]]] = {
    "pass_at_k": "any",
    "pass_any": "any",
    "pass_all": "each",
    "mean": "mean",
    "confidence_interval": "lower_bound",
}
MOST_WORKERS: Final = 50
THRESHOLD: Final = 0.8
"""The weighted mean that a test must reach, unless the suite says otherwise."""

_STEERING: Final = ("name", "version", "category", "tags", "target", "execution")


class Heading(Struct, frozen=True, kw_only=True):
    """A suite without its tests."""

    suite: Suite
    common: Common
    tests: Any
    """The tests as written, or the path of a file or folder with them."""
    field: str
    """The name of the field with the tests."""
    line: int


def heading_of(row: dict[str, Any], source: Source, notes: Notes) -> Heading:
    """Parses a suite without its tests; problems go to `notes`."""
    fields = Fields(resolved_row(row, _STEERING, source, notes), notes)
    fields.forgive_null(*fields.names())
    tests = named(fields, *TESTS)
    ignored: dict[str, Any] = {}
    execution = _object(fields, "execution", "execution.")
    suite = with_holdout(_suite(fields, execution, source, ignored), fields)
    common = _common(fields, execution, source, ignored, row.get("input"))
    common, suite = _with_trials(common, suite, execution, ignored)
    without_effect(fields, WITHOUT_EFFECT, ignored)
    without_effect(execution, ("cache_path", "fail_on_error"), ignored, "execution.")
    finish(execution, EXECUTION)
    line = fields.line_of(tests) or notes.line
    tests_value: Any = fields.take(tests)
    fields.finish((*SUITE, *WITHOUT_EFFECT))
    above = {name: value for name, value in row.items() if name != tests}
    if notes.failed and common.assertions:
        # Their errors are noted here once instead of for every test, so a valid one replaces them.
        common = replace(common, assertions=(DEFAULT,))
    common = replace(common, unset=_unset(common, above, getattr(row, "lines", {}), source, notes))
    return Heading(suite=suite, common=common, tests=tests_value, field=tests, line=line)


def suite_name(path: str) -> str:
    """Returns the default name of a suite: its file name without the ending."""
    return file_name(path).stem.removesuffix(".eval") or "suite"


def _object(fields: Fields, name: str, prefix: str) -> Fields:
    """Returns the fields of a nested object without nulls; no fields if it is absent."""
    value: Any = fields.take(name)
    if value is not None and not isinstance(value, dict):
        fields.wrong(name, value, "an object")
    inner = Fields(snake_case(value) if isinstance(value, dict) else {}, fields.notes, prefix)
    inner.forgive_null(*inner.names())
    return inner


def _suite(fields: Fields, execution: Fields, source: Source, ignored: dict[str, Any]) -> Suite:
    name = fields.required_text("name") if "name" in fields else ""
    version: Any = fields.take("version")
    return Suite(
        name=name.strip() or suite_name(source.path),
        dialect="agentv",
        declared_version=None if version is None else str(version),
        description=fields.text("description"),
        pass_rule=rule_of(execution) or PassRule(threshold=THRESHOLD),
        defaults=_defaults(fields, execution),
        folder=source.folder,
        notes=ignored,
    )


def _defaults(fields: Fields, execution: Fields) -> Defaults:
    old = (fields.required_text("target"),) if "target" in fields else ()
    single_target = (execution.required_text("target"),) if "target" in execution else old
    workers = execution.integer("workers", least=1)
    if workers is not None and workers > MOST_WORKERS:
        execution.error("bad-workers", "workers", f"is {workers}; it must be from 1 to {MOST_WORKERS}.")
    name = "total_budget_usd" if "budget_usd" not in execution else "budget_usd"
    budget = execution.number(name)
    if budget is not None and budget <= 0:
        execution.error("bad-budget", name, f"is {budget}; it must be an amount of US dollars above 0.")
    if "total_budget_usd" in execution:
        execution.take("total_budget_usd")
        execution.error("conflicting-fields", "total_budget_usd", "and `budget_usd` mean the same; keep one.")
    return Defaults(
        targets=tuple(dict.fromkeys(texts_of(execution, "targets") or single_target)),
        concurrency=workers,
        budget_usd=None if budget is None else float(budget),
        cache=execution.truth("cache", False) if "cache" in execution else None,
    )


def _common(
    fields: Fields, execution: Fields, source: Source, ignored: dict[str, Any], raw_input: Any
) -> Common:
    metadata: Any = fields.take("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        fields.wrong("metadata", metadata, "an object")
        metadata = None
    level = level_of(fields, source)
    if level is not None:
        ignored.update(level.kept)
    return Common(
        raw_input=raw_input,
        messages=() if raw_input is None else input_of(fields, "input", source),
        files=files_of(fields, "input_files", source),
        assertions=assertions_of(fields, execution, source),
        metadata=plain(metadata or {}),
        tags=texts_of(fields, "tags"),
        category=fields.text("category"),
        level=level,
        workspace=workspace_of(level, fields),
    )


def _with_trials(
    common: Common, suite: Suite, execution: Fields, ignored: dict[str, Any]
) -> tuple[Common, Suite]:
    if "trials" not in execution:
        return common, suite
    trials = _object(execution, "trials", "execution.trials.")
    if "count" not in trials:
        trials.missing("count", "a whole number of at least 1")
    repeats = trials.integer("count", least=1)
    strategy = trials.choice("strategy", tuple(STRATEGIES)) if "strategy" in trials else "pass_at_k"
    without_effect(trials, ("cost_limit_usd",), ignored, "execution.trials.")
    finish(trials, TRIALS)
    return replace(common, repeats=repeats), replace(suite, repeats_rule=STRATEGIES.get(strategy, "each"))


def _unset(
    common: Common, above: dict[str, Any], lines: dict[str, int], source: Source, notes: Notes
) -> frozenset[str]:
    """Returns the environment variables that the suite uses and that are not set; each is an error."""
    inherited = (common.messages, common.assertions, common.metadata, common.workspace)
    missing = [name for name in names_in(inherited) if name not in source.environ]
    for name in missing:
        field, line = place_of(above, name) or ("assertions", None)
        top = field.partition(".")[0].partition("[")[0]
        unset(name, notes, field, line or lines.get(top))
    return frozenset(missing)

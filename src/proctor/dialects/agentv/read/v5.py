"""Translates a suite of AgentV 5 to AgentV 4, which the other modules of the dialect read.

Version 5 has prompts above the tests, fills them in with the `vars` of each test, and has the fields of
`execution` beside them. A field that is not supported here is an error that names the version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from proctor.dialects.agentv.read.templates import VARIABLE, filled, missing_in, text_filled
from proctor.dialects.agentv.read.v5_prompts import Prompt, prompts_of
from proctor.dialects.shared.yaml_files import file_of, yaml_of
from proctor.protocols import Source
from proctor.validation import Fields, Notes, kind_of
from proctor.yaml12 import Items, Map, like, rewritten

MARKS: Final = (
    *("prompts", "default_test", "evaluate_options", "environment", "extensions", "scenarios", "threshold"),
    *("env", "timeout_seconds", "experiment", "graders", "derived_metrics", "output_path"),
    "nunjucks_filters",
)
"""Suite fields that only version 5 and later have."""
_NAME_TARGET: Final = "Name who is asked with --target or in `target`."
_SUITE: Final = {
    "environment": "Write `workspace` with `template` or `path`, and `hooks` for what is run before.",
    "extensions": "Write what is run as `hooks` of `workspace`.",
    "scenarios": "Write each of their tests under `tests`.",
    "env": "Export the variables before the run.",
    "nunjucks_filters": "Write the values as they are to be sent.",
}
"""Fields of a suite that are not supported, each with what to write instead."""
_TEST: Final = {
    "prompts": "Write a file for each prompt that only some of the tests are for.",
    **dict.fromkeys(("provider", "providers"), _NAME_TARGET),
    "provider_output": "Give the answers with --target scripted:FILE.",
    "options": "Let the target answer as it is to be graded, and give each assertion its own prompt.",
    "assert_scoring_function": "Give the assertions weights.",
    "environment": _SUITE["environment"],
}
"""The same for a test and for `default_test`."""
_DEFAULT_TEST: Final = ("vars", "assert", "threshold", "metadata", "description")
_TRANSLATED: Final = ("prompts", "default_test", "evaluate_options", "threshold", "assert", "targets")
_OPTIONS: Final = ("budget_usd", "max_concurrency", "repeat", "cache")
_IDLE_OPTIONS: Final = ("delay", "timeout_ms", "max_eval_time_ms", "generate_suggestions")
_REPEAT: Final = ("count", "strategy", "early_exit", "cost_limit_usd")
_RUN: Final = {
    "repeat": "Write it into `evaluate_options`, for all tests.",
    "budget_usd": "Write it into `evaluate_options`, for all tests.",
    "timeout_seconds": "Give it with --timeout.",
}
_STRATEGIES: Final = ("pass_any", "pass_all", "mean", "confidence_interval")
_SCOPES: Final = {"suite": "shared", "attempt": "per_test"}
_NOT_FILLED: Final = frozenset(("type", "prompt", "command", "config", "cwd", "target"))
"""Fields of an assertion in which a test's `vars` are not filled in."""


class Shared(Struct, frozen=True, kw_only=True):
    """What a version 5 suite gives to each of its tests."""

    prompts: tuple[Prompt, ...]
    variables: dict[str, Any] = {}
    assertions: list[Any] = []
    """Assertions that use variables, so that each test has its own."""


def is_version_5(row: Mapping[str, Any]) -> bool:
    """Whether a suite is written for AgentV 5, by a field that earlier versions do not have."""
    return any(name in row for name in MARKS)


# --- above the tests ---------------------------------------------------------------------------------------


def heading(row: dict[str, Any], source: Source, notes: Notes) -> tuple[dict[str, Any], Shared]:
    """Translates the suite fields to version 4. Returns them and what the tests get."""
    row = rewritten(row, _with_references, ("tests",))
    _note_refused(row, _SUITE, notes)
    suite_row = _without(row, (*_TRANSLATED, *_SUITE))
    if not isinstance(row.get("target", ""), str):
        del suite_row["target"]
    default = _default_test(row, source, notes)
    execution = _execution(row, default, notes)
    if execution:
        suite_row["execution"] = execution
    if isinstance(row.get("tags"), dict):
        message = "`tags` is an object, which has no effect here; a list of texts is read."
        notes.warn("no-effect", message, "tags", line=_line(row, "tags"))
        del suite_row["tags"]
    if isinstance(row.get("workspace"), dict) and "scope" in row["workspace"]:
        suite_row["workspace"] = _workspace(row["workspace"], notes)
    if "metadata" in default:
        own = row.get("metadata")
        suite_row["metadata"] = {**default["metadata"], **(own if isinstance(own, dict) else {})}
    assertions = _concatenate(_grouped(row.get("assert")), _grouped(default.get("assert")))
    if any(VARIABLE.search(text) for item in assertions for text in _texts(item)):
        shared_list = assertions
    else:
        suite_row |= {"assert": assertions} if assertions or "assert" in row else {}
        shared_list = Items(0)
    prompts = prompts_of(row["prompts"], source, notes, _line(row, "prompts")) if "prompts" in row else ()
    variables = default.get("vars", {})
    return suite_row, Shared(prompts=prompts, variables=variables, assertions=shared_list)


def _default_test(row: dict[str, Any], source: Source, notes: Notes) -> dict[str, Any]:
    """Reads `default_test`, inline or from a file; only fields of the right type are returned."""
    value: Any = row.get("default_test")
    line = _line(row, "default_test")
    if isinstance(value, str) and value.strip().startswith("file://"):
        file = file_of(value.strip().removeprefix("file://"), source, notes, "default_test", line)
        value = None if file is None else yaml_of(file.data, notes)
        value = rewritten(value, _with_references)
    elif isinstance(value, str):
        _refuse("default_test", "Write it out, or name its file with file://.", notes, line)
        return {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        message = f"`default_test` is {kind_of(value)}; it must be an object, or a file:// with one."
        notes.error("wrong-type", message, "default_test", line=line)
        return {}
    _note_refused(value, _TEST, notes, "default_test.")
    fields = Fields(_without(value, tuple(_TEST)), notes, "default_test.")
    fields.forgive_null(*fields.names())
    default_test: dict[str, Any] = {}
    for name, kind in (("vars", dict), ("assert", list), ("metadata", dict)):
        if name in fields:
            default_test[name] = fields.take(name)
            if not isinstance(default_test[name], kind):
                fields.wrong(name, default_test.pop(name), "a list" if kind is list else "an object")
    fields.text("description")
    threshold = fields.number("threshold")
    fields.finish(_DEFAULT_TEST)
    return default_test if threshold is None else default_test | {"threshold": threshold}


def _execution(row: dict[str, Any], default: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """Returns the `execution` of version 4: target, repeats and threshold."""
    execution = Map(_line(row, "evaluate_options") or notes.line)
    for name in ("threshold", "targets"):
        if name in row:
            execution[name] = row[name]
            execution.lines[name] = _line(row, name) or execution.line
    if "threshold" in default:
        execution.setdefault("threshold", default["threshold"])
    if isinstance(execution.get("targets"), str):
        execution["targets"] = [execution["targets"]]
    for name in ("target", "targets"):
        value = row.get(name)
        if any(isinstance(entry, dict) for entry in (value if isinstance(value, list) else [value])):
            _refuse(name, "Write the target into targets.yaml, and its name here.", notes, _line(row, name))
            execution.pop(name, None)
    return execution if "evaluate_options" not in row else _with_options(execution, row, notes)


def _with_options(execution: Map, row: dict[str, Any], notes: Notes) -> Map:
    value = row["evaluate_options"]
    if not isinstance(value, dict):
        message = f"`evaluate_options` is {kind_of(value)}; it must be an object."
        notes.error("wrong-type", message, "evaluate_options", line=_line(row, "evaluate_options"))
        return execution
    fields = Fields(value, notes, "evaluate_options.")
    fields.forgive_null(*fields.names())
    if "filter_range" in fields:
        fields.take("filter_range")
        _refuse(
            "evaluate_options.filter_range",
            "Give --limit, or --id for each test.",
            notes,
            _line(value, "filter_range"),
        )
    for name in _IDLE_OPTIONS:
        if name in fields:
            fields.take(name)
            fields.warn("no-effect", name, "has no effect here.")
    options = {
        "budget_usd": fields.number("budget_usd"),
        "workers": fields.integer("max_concurrency", least=1),
        "cache": fields.truth("cache", False) if "cache" in fields else None,
        "trials": _trials(fields, value.get("repeat")),
    }
    fields.finish((*_OPTIONS, *_IDLE_OPTIONS))
    execution.update({name: option for name, option in options.items() if option is not None})
    return execution


def _trials(fields: Fields, value: Any) -> dict[str, Any] | None:
    """Parses `repeat`: a number, or an object with the number and its strategy."""
    if "repeat" not in fields:
        return None
    inner = fields.object("repeat") if isinstance(value, dict) else None
    if inner is None:
        count = fields.integer("repeat", least=1)
        return None if count is None else {"count": count, "strategy": "pass_any"}
    count = inner.integer("count", least=1)
    if inner.truth("early_exit", False):
        inner.warn("no-effect", "early_exit", "has no effect here: every repeat is asked.")
    strategy = inner.choice("strategy", _STRATEGIES) if "strategy" in inner else _STRATEGIES[0]
    cost: Any = inner.take("cost_limit_usd")
    inner.finish(_REPEAT)
    if not count or not strategy:
        return None
    limit = {} if cost is None else {"cost_limit_usd": cost}
    return {"count": count, "strategy": strategy, **limit}


def _workspace(row: dict[str, Any], notes: Notes) -> dict[str, Any]:
    workspace = _without(row, ("scope",))
    fields = Fields(row, notes, "workspace.")
    scope = fields.choice("scope", tuple(_SCOPES))
    if scope:
        workspace["isolation"] = _SCOPES[scope]
    return workspace


# --- tests -------------------------------------------------------------------------------------------------


def test_of(row: dict[str, Any], shared: Shared, prompt: Prompt | None, notes: Notes) -> dict[str, Any]:
    """Translates a test to version 4 with one of the prompts; problems go to `notes`."""
    row = rewritten(row, _with_references)
    notes.case = str(row["id"]) if isinstance(row.get("id"), str) else None
    _note_refused(row, _TEST, notes)
    test = _without(row, ("vars", "threshold", "run", "assert", *_TEST))
    own: Any = row.get("vars")
    if own is not None and not isinstance(own, dict):
        message = f"`vars` is {kind_of(own)}; it must be an object."
        notes.error("wrong-type", message, "vars", line=_line(row, "vars"))
    variables = {**shared.variables, **(own if isinstance(own, dict) else {})}
    variables = filled(variables, {**variables, "vars": variables})
    values = {**variables, "vars": variables}
    _with_execution(test, row, notes)
    if "expected_output" in variables:
        test.setdefault("expected_output", variables["expected_output"])
    if isinstance(row.get("criteria"), str):
        test["criteria"] = text_filled(row["criteria"], values)
    _with_assertions(test, row, shared, values, notes)
    if prompt is not None:
        test["input"] = prompt.filled(values, notes)
        if len(shared.prompts) > 1 and notes.case:
            test["id"] = f"{notes.case}~{prompt.label}"
    return test


def _with_execution(test: dict[str, Any], row: dict[str, Any], notes: Notes) -> None:
    """Moves the threshold of a test into `execution`."""
    run: Any = row.get("run")
    if isinstance(run, dict):
        _note_refused(run, _RUN, notes, "run.")
    value: Any = row.get("execution")
    execution = like(value) if isinstance(value, dict) else {}
    execution.update(value if isinstance(value, dict) else {})
    for place in (run if isinstance(run, dict) else {}, row):
        if "threshold" in place:
            execution["threshold"] = place["threshold"]
    if "assert" in execution:
        row.setdefault("assert", execution.pop("assert"))
    if execution:
        test["execution"] = execution


def _with_assertions(
    test: dict[str, Any], row: dict[str, Any], shared: Shared, values: dict[str, Any], notes: Notes
) -> None:
    """Adds the test's assertions, then the suite's assertions that use its variables."""
    value: Any = row.get("assert")
    if value is not None and not isinstance(value, list):
        test["assert"] = value
        return
    skips = isinstance(test.get("execution"), dict) and test["execution"].get("skip_defaults") is True
    assertions = _concatenate(_grouped(value), Items(0) if skips else shared.assertions)
    if not assertions:
        return
    expected = values.get("expected_output")
    values = values | {"expected_output": _reference(expected)} if "expected_output" in values else values
    for name in missing_in([text for item in assertions for text in _texts(item)], values):
        message = f"`vars` has no {name!r}, which an assertion of the test names. Add it."
        notes.error("missing-variable", message, "vars")
    test["assert"] = rewritten(assertions, lambda text, _name: text_filled(text, values), _NOT_FILLED)


def _reference(expected: Any) -> Any:
    """Returns the text of an expected output, also of a single assistant message."""
    if isinstance(expected, list) and len(expected) == 1 and isinstance(expected[0], dict):
        return expected[0].get("content", expected)
    return expected


# --- lists of assertions -----------------------------------------------------------------------------------


def _grouped(items: Any) -> Items:
    """Merges the texts of a list into one checklist in place of the first, with their total weight."""
    groups = Items(getattr(items, "line", 0))
    if not isinstance(items, list):
        return groups
    lines = getattr(items, "lines", [groups.line] * len(items))
    texts = [(item, line) for item, line in zip(items, lines, strict=True) if isinstance(item, str)]
    for item, line in zip(items, lines, strict=True):
        if isinstance(item, str) and len(texts) > 1:
            if texts[0] != (item, line):
                continue
            item = _checklist(texts, line)
        elif isinstance(item, dict) and isinstance(item.get("assert"), list):
            inner = like(item)
            inner.update({**item, "assert": _grouped(item["assert"])})
            item = inner
        groups.append(item)
        groups.lines.append(line)
    return groups


def _checklist(texts: list[tuple[str, int]], line: int) -> Map:
    criteria = Items(line)
    criteria.extend(text for text, _ in texts)
    criteria.lines = [place for _, place in texts]
    checklist = Map(line)
    checklist.update({"type": "rubrics", "criteria": criteria, "weight": len(texts)})
    checklist.lines = dict.fromkeys(checklist, line)
    return checklist


def _concatenate(first: list[Any], second: list[Any]) -> Items:
    items = Items(getattr(first, "line", 0))
    items.extend([*first, *second])
    items.lines = [*getattr(first, "lines", ()), *getattr(second, "lines", ())]
    return items


# --- what all share ----------------------------------------------------------------------------------------


def _with_references(text: str, _name: str) -> str:
    """Rewrites `{{ env.NAME }}` as version 4 does: `${{ NAME }}`."""
    return VARIABLE.sub(_reference_to, text) if "env." in text else text


def _reference_to(value: Any) -> str:
    space, _, name = str(value[1]).partition(".")
    return f"${{{{ {name} }}}}" if space == "env" and "." not in name and name else str(value[0])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from () if name in _NOT_FILLED else _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _note_refused(
    row: Mapping[str, Any], unsupported: Mapping[str, str], notes: Notes, prefix: str = ""
) -> None:
    for name, instead in unsupported.items():
        if row.get(name) is not None:
            _refuse(f"{prefix}{name}", instead, notes, _line(row, name))


def _refuse(field: str, instead: str, notes: Notes, line: int | None) -> None:
    message = f"`{field}` is a field of AgentV 5 that is not read here. {instead}"
    notes.error("not-supported", message, field, line=line)


def _line(row: Mapping[str, Any], name: str) -> int | None:
    lines: Mapping[str, int] = getattr(row, "lines", {})
    return lines.get(name)


def _without(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    remaining = like(row)
    remaining.update({name: value for name, value in row.items() if name not in names})
    return remaining

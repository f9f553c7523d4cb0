"""Translates a suite of AgentV 5 to AgentV 4, which the other modules of the dialect read.

Version 5 has prompts above the tests, fills them in with the `vars` of each test, and has the fields of
`execution` beside them. A field that is not supported here is an error that names the version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from proctor import field_schemas as schemas
from proctor.dialects.agentv.read.case_vars import (
    PLACEHOLDER,
    fill_text,
    fill_value,
    find_missing_names,
    iter_texts,
)
from proctor.dialects.agentv.read.prompt_templates import make_templates
from proctor.dialects.agentv.read.tests import THRESHOLD
from proctor.dialects.agentv.shared import with_fields
from proctor.dialects.shared.yaml_files import find_file, ignore_fields, parse_yaml
from proctor.field_schemas import Fields, accepts, spec_fields
from proctor.model import PromptTemplate
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, FieldSpec, ProblemLog, json_type, quote_value
from proctor.yaml12 import YamlList, YamlMap, empty_like, map_strings

VERSION_5_FIELDS: Final = (
    *("prompts", "default_test", "evaluate_options", "environment", "extensions", "scenarios", "threshold"),
    *("env", "timeout_seconds", "experiment", "graders", "derived_metrics", "output_path"),
    "nunjucks_filters",
)
"""Suite fields that only version 5 and later have."""
_NAME_TARGET: Final = "Name the target with --target or in `target`."
_REFUSED_SUITE_FIELDS: Final = {
    "environment": "Write `workspace` with `template` or `path`, and use `hooks` for commands that run "
    "before the tests.",
    "extensions": "Write the commands as `hooks` of `workspace`.",
    "scenarios": "Copy their tests to `tests`.",
    "env": "Export the variables before the run.",
    "nunjucks_filters": "Write the final values.",
}
"""Fields of a suite that are not supported, each with what to write instead."""
_REFUSED_TEST_FIELDS: Final = {
    "prompts": "Write a separate suite for each prompt that applies to only some of the tests.",
    **dict.fromkeys(("provider", "providers"), _NAME_TARGET),
    "provider_output": "Provide the answers with --target scripted:FILE.",
    "options": "Make the target return the answer in the form to be graded, and give each assertion its "
    "own prompt.",
    "assert_scoring_function": "Give the assertions weights.",
    "environment": _REFUSED_SUITE_FIELDS["environment"],
}
"""The same for a test and for `default_test`."""
_DEFAULT_TEST_FIELDS: Final = (
    FieldSpec(
        "vars",
        FieldReader.instance,
        dict,
        about="The values of {{name}} for tests that do not set their own.",
    ),
    FieldSpec("assert", FieldReader.instance, list, about="Assertions that are added to every test."),
    FieldSpec("metadata", FieldReader.instance, dict, about="Metadata that is added to every test."),
    FieldSpec("description", FieldReader.text, about="A note for readers."),
    FieldSpec("threshold", FieldReader.number, about=THRESHOLD["description"]),
)
DEFAULT_TEST_FIELDS: Final[Fields] = {
    **spec_fields(_DEFAULT_TEST_FIELDS),
    "assert": schemas.ref("assertions", "Assertions that are added to every test."),
}
TRANSLATED_FIELDS: Final[Fields] = {
    "prompts": schemas.ref("prompts", "The prompts, with {{name}} for the `vars` of each test."),
    "default_test": schemas.either(
        schemas.text(pattern=r"^\s*file://"),
        schemas.ref("default_test"),
        about="Defaults for every test, or file:// and the path of a file that contains them.",
    ),
    "evaluate_options": schemas.ref("evaluate_options", "How the tests are run."),
    "threshold": THRESHOLD,
    "assert": schemas.ref("assertions", "Assertions that are added to those of each test."),
    "targets": schemas.either(schemas.text(), schemas.list_of(schemas.text()), about="The targets to run."),
}
"""The fields of a suite that are translated to those of version 4."""
TEST_FIELDS: Final[Fields] = {
    "threshold": THRESHOLD,
    "run": schemas.of_type("object", "How the test is run."),
}
"""The fields that only a test of version 5 has."""
_UNUSED_OPTION_FIELDS: Final = ("delay", "timeout_ms", "max_eval_time_ms", "generate_suggestions")
_REFUSED_RUN_FIELDS: Final = {
    "repeat": "Set it in `evaluate_options`, for all tests.",
    "budget_usd": "Set it in `evaluate_options`, for all tests.",
    "timeout_seconds": "Use --timeout.",
}
_STRATEGIES: Final = ("pass_any", "pass_all", "mean", "confidence_interval")
REPEAT_FIELDS: Final[Fields] = {
    "count": schemas.of_type("integer", "How many trials each test gets.", minimum=1),
    "strategy": schemas.choice(_STRATEGIES, "How the verdicts of a test's trials are combined."),
    "early_exit": schemas.of_type("boolean", "Has no effect in Proctor."),
    "cost_limit_usd": schemas.UNUSED,
}
ISOLATION_BY_SCOPE: Final = {"suite": "shared", "attempt": "per_test"}
_UNFILLED_FIELDS: Final = frozenset(("type", "prompt", "command", "config", "cwd", "target"))
"""Fields of an assertion in which a test's `vars` are not filled in."""
_FILE_SCHEME: Final = "file://"
_TEXT_ENDINGS: Final = (".txt", ".md", ".j2")
_DATA_ENDINGS: Final = (".json", ".yaml", ".yml")
_BODY: Final = schemas.either(schemas.words(), schemas.ref("prompt_messages"))
BODY_FIELDS: Final[Fields] = dict.fromkeys(("prompt", "raw", "file", "path"), _BODY)
ENTRY_FIELDS: Final[Fields] = {
    "id": schemas.text("The name of the prompt."),
    "label": schemas.text("The name of the prompt."),
    **BODY_FIELDS,
    "description": schemas.text("A note for readers."),
}
_REFUSED_PROMPT_FIELDS: Final = dict.fromkeys(
    ("function", "function_file", "command", "config", "prefix", "suffix"), "Write the prompt inline."
)
_EXPECTED_PROMPT: Final = "a text or a list of messages"
_TEMPLATE_LOGIC: Final = re.compile(r"\{%|\{\{[^{}]*[|(\[\"'+~][^{}]*\}\}")
"""Template code other than plain variable names."""


class Version5Prompt(Struct, frozen=True, kw_only=True):
    """The input of the tests, with placeholders for their variables."""

    label: str
    field: str
    line: int | None
    template: Any

    def fill(self, values: dict[str, Any], notes: ProblemLog) -> Any:
        """Returns the `input` of a test; a name without a value is an error."""
        for name in find_missing_names(iter_texts(self.template), values):
            message = f"`vars` has no {name!r}, which `{self.field}` uses. Add it."
            notes.error("missing-variable", message, "vars")
        return fill_value(self.template, values)


class Version5Level(Struct, frozen=True, kw_only=True):
    """What a version 5 suite gives to each of its tests."""

    prompts: tuple[Version5Prompt, ...]
    variables: dict[str, Any] = {}
    assertions: list[Any] = []
    """Assertions that use variables, so that each test has its own."""
    templates: tuple[PromptTemplate, ...] = ()
    """The prompts as those of the suite; empty if one of them cannot be."""


def is_version_5(row: Mapping[str, Any]) -> bool:
    """Whether a suite is written for AgentV 5, by a field that earlier versions do not have."""
    return any(name in row for name in VERSION_5_FIELDS)


# --- above the tests ---------------------------------------------------------------------------------------


def translate_heading(
    row: dict[str, Any], source: SuiteSource, notes: ProblemLog
) -> tuple[dict[str, Any], Version5Level]:
    """Translates the suite fields to version 4. Returns them and what the tests get."""
    row = map_strings(row, _translate_references, ("tests",))
    _refuse_fields(FieldReader(row, notes), _REFUSED_SUITE_FIELDS)
    suite_row = _without(row, (*TRANSLATED_FIELDS, *_REFUSED_SUITE_FIELDS))
    if _has_object(row.get("target")):  # refused
        del suite_row["target"]
    default = _read_default_test(row, source, notes)
    execution = _translate_execution(row, default, notes)
    if execution:
        suite_row["execution"] = execution
    if isinstance(row.get("tags"), dict):
        message = "`tags` is an object, which has no effect here; write a list of texts."
        notes.warn("no-effect", message, "tags", line=_get_line(row, "tags"))
        del suite_row["tags"]
    if isinstance(row.get("workspace"), dict) and "scope" in row["workspace"]:
        suite_row["workspace"] = _translate_workspace(row["workspace"], notes)
    if "metadata" in default:
        own = row.get("metadata")
        suite_row["metadata"] = {**default["metadata"], **(own if isinstance(own, dict) else {})}
    assertions = _concatenate(_group_texts(row.get("assert")), _group_texts(default.get("assert")))
    if any(PLACEHOLDER.search(text) for text in iter_texts(assertions, _UNFILLED_FIELDS)):
        shared_list = assertions
    else:
        suite_row |= {"assert": assertions} if assertions or "assert" in row else {}
        shared_list = YamlList(0)
    if not isinstance(row.get("assert"), list | None):
        suite_row["assert"] = row["assert"]  # an error, which the reader of version 4 reports
    prompts = (
        _read_prompts(row["prompts"], source, notes, _get_line(row, "prompts")) if "prompts" in row else ()
    )
    variables = default.get("vars", {})
    # What a suite sends before each test stands in the input of its cases.
    own = [] if "input" in row or "input_files" in row else [(item.label, item.template) for item in prompts]
    return suite_row, Version5Level(
        prompts=prompts, variables=variables, assertions=shared_list, templates=make_templates(own)
    )


def _read_default_test(row: dict[str, Any], source: SuiteSource, notes: ProblemLog) -> dict[str, Any]:
    """Reads `default_test`, inline or from a file; only fields of the right type are returned."""
    value: Any = row.get("default_test")
    line = _get_line(row, "default_test")
    if isinstance(value, str) and value.strip().startswith("file://"):
        file = find_file(value.strip().removeprefix("file://"), source, notes, "default_test", line)
        value = None if file is None else parse_yaml(file.data, notes)
        value = map_strings(value, _translate_references)
    elif isinstance(value, str):
        _refuse("default_test", "Write it inline, or name its file with file://.", notes, line)
        return {}
    if value is None:
        return {}
    if not isinstance(value, dict):
        message = (
            f"`default_test` is {json_type(value)}; it must be an object, or file:// and the path of "
            f"a file that contains one."
        )
        notes.error("wrong-type", message, "default_test", line=line)
        return {}
    fields = FieldReader(value, notes, "default_test.")
    fields.drop_null()
    _refuse_fields(fields, _REFUSED_TEST_FIELDS)
    default_test = fields.values(_DEFAULT_TEST_FIELDS)
    fields.finish(tuple(DEFAULT_TEST_FIELDS))
    return default_test


def _translate_execution(row: dict[str, Any], default: dict[str, Any], notes: ProblemLog) -> dict[str, Any]:
    """Returns the `execution` of version 4: target, repeats and threshold."""
    execution = YamlMap(_get_line(row, "evaluate_options") or notes.line)
    for name in ("threshold", "targets"):
        if name in row:
            execution[name] = row[name]
            execution.lines[name] = _get_line(row, name) or execution.line
    if "threshold" in default:
        execution.setdefault("threshold", default["threshold"])
    if isinstance(execution.get("targets"), str):
        execution["targets"] = [execution["targets"]]
    for name in ("target", "targets"):
        if _has_object(row.get(name)):
            _refuse(
                name,
                "Define the target in targets.yaml, and write its name here.",
                notes,
                _get_line(row, name),
            )
            execution.pop(name, None)
    return execution if "evaluate_options" not in row else _with_options(execution, row, notes)


def _has_object(value: Any) -> bool:
    return any(isinstance(entry, dict) for entry in (value if isinstance(value, list) else [value]))


def _with_options(execution: YamlMap, row: dict[str, Any], notes: ProblemLog) -> YamlMap:
    value = row["evaluate_options"]
    if not isinstance(value, dict):
        message = f"`evaluate_options` is {json_type(value)}; it must be an object."
        notes.error("wrong-type", message, "evaluate_options", line=_get_line(row, "evaluate_options"))
        return execution
    fields = FieldReader(value, notes, "evaluate_options.")
    fields.drop_null()
    _refuse_fields(fields, {"filter_range": "Use --limit, or --id for each test."})
    ignore_fields(fields, _UNUSED_OPTION_FIELDS, {})
    execution.update(fields.values(_OPTION_FIELDS))
    fields.finish(tuple(OPTION_FIELDS))
    return execution


@accepts(schemas.either({"type": "integer", "minimum": 1}, schemas.object_of(REPEAT_FIELDS)))
def _read_repeat(fields: FieldReader, name: str) -> dict[str, Any] | None:
    """Reads `repeat`: a number, or an object with the number and its strategy."""
    inner = fields.object(name) if isinstance(fields.peek(name), dict) else None
    if inner is None:
        count = fields.integer(name, 1)
        return None if count is None else {"count": count, "strategy": "pass_any"}
    count = inner.integer("count", 1)
    if inner.boolean("early_exit", False):
        inner.warn("no-effect", "early_exit", "has no effect here: each repeat sends its own request.")
    strategy = inner.choice("strategy", _STRATEGIES) if "strategy" in inner else _STRATEGIES[0]
    cost: Any = inner.pop("cost_limit_usd")
    inner.finish(tuple(REPEAT_FIELDS))
    if not count or not strategy:
        return None
    limit = {} if cost is None else {"cost_limit_usd": cost}
    return {"count": count, "strategy": strategy, **limit}


_OPTION_FIELDS: Final = (
    FieldSpec("budget_usd", FieldReader.number, about="Maximum cost of a run, in US dollars."),
    FieldSpec("max_concurrency", FieldReader.integer, 1, to="workers", about="Maximum concurrent requests."),
    FieldSpec("cache", FieldReader.boolean, False, about="Whether the answer cache is used."),
    FieldSpec("repeat", _read_repeat, to="trials", about="How many times each test is run."),
)
OPTION_FIELDS: Final[Fields] = {
    **spec_fields(_OPTION_FIELDS),
    "budget_usd": schemas.of_type("number", "Maximum cost of a run, in US dollars.", exclusiveMinimum=0),
    **dict.fromkeys(_UNUSED_OPTION_FIELDS, schemas.UNUSED),
}


def _translate_workspace(row: dict[str, Any], notes: ProblemLog) -> dict[str, Any]:
    workspace = _without(row, ("scope",))
    fields = FieldReader(row, notes, "workspace.")
    scope = fields.choice("scope", tuple(ISOLATION_BY_SCOPE))
    if scope:
        workspace["isolation"] = ISOLATION_BY_SCOPE[scope]
    return workspace


# --- tests -------------------------------------------------------------------------------------------------


def translate_test(
    row: dict[str, Any], shared: Version5Level, prompt: Version5Prompt | None, notes: ProblemLog
) -> dict[str, Any]:
    """Translates a test to version 4 with one of the prompts; problems go to `notes`."""
    row = map_strings(row, _translate_references)
    notes.case = str(row["id"]) if isinstance(row.get("id"), str) else None
    _refuse_fields(FieldReader(row, notes), _REFUSED_TEST_FIELDS)
    test = _without(row, ("vars", "threshold", "run", "assert", *_REFUSED_TEST_FIELDS))
    own: Any = row.get("vars")
    if own is not None and not isinstance(own, dict):
        message = f"`vars` is {json_type(own)}; it must be an object."
        notes.error("wrong-type", message, "vars", line=_get_line(row, "vars"))
    variables = get_variables(row, shared)
    values = {**variables, "vars": variables}
    _with_execution(test, row, notes)
    if "expected_output" in variables:
        test.setdefault("expected_output", variables["expected_output"])
    if isinstance(row.get("criteria"), str):
        test["criteria"] = fill_text(row["criteria"], values)
    _with_assertions(test, row, shared, values, notes)
    if prompt is not None:
        test["input"] = prompt.fill(values, notes)
        if len(shared.prompts) > 1 and notes.case and not shared.templates:
            test["id"] = f"{notes.case}~{prompt.label}"
    return test


def get_variables(row: Mapping[str, Any], shared: Version5Level) -> dict[str, Any]:
    """Returns the values for the prompts, those of the test before those of all tests."""
    own: Any = row.get("vars")
    variables = {**shared.variables, **(own if isinstance(own, dict) else {})}
    variables = map_strings(variables, _translate_references)
    filled: dict[str, Any] = fill_value(variables, {**variables, "vars": variables})
    return filled


def _with_execution(test: dict[str, Any], row: dict[str, Any], notes: ProblemLog) -> None:
    """Moves the threshold of a test into `execution`."""
    run: Any = row.get("run")
    if isinstance(run, dict):
        _refuse_fields(FieldReader(run, notes, "run."), _REFUSED_RUN_FIELDS)
    value: Any = row.get("execution")
    execution = empty_like(value) if isinstance(value, dict) else {}
    execution.update(value if isinstance(value, dict) else {})
    for place in (run if isinstance(run, dict) else {}, row):
        if "threshold" in place:
            execution["threshold"] = place["threshold"]
    if "assert" in execution:
        row.setdefault("assert", execution.pop("assert"))
    if execution:
        test["execution"] = execution


def _with_assertions(
    test: dict[str, Any],
    row: dict[str, Any],
    shared: Version5Level,
    values: dict[str, Any],
    notes: ProblemLog,
) -> None:
    """Adds the test's assertions, then the suite's assertions that use its variables."""
    value: Any = row.get("assert")
    if value is not None and not isinstance(value, list):
        test["assert"] = value
        return
    skips = isinstance(test.get("execution"), dict) and test["execution"].get("skip_defaults") is True
    assertions = _concatenate(_group_texts(value), YamlList(0) if skips else shared.assertions)
    if not assertions:
        return
    expected = values.get("expected_output")
    if isinstance(expected, list) and len(expected) == 1 and isinstance(expected[0], dict):
        # A single message stands for its text.
        values = {**values, "expected_output": expected[0].get("content", expected)}
    for name in find_missing_names(iter_texts(assertions, _UNFILLED_FIELDS), values):
        message = f"`vars` has no {name!r}, which an assertion of the test uses. Add it."
        notes.error("missing-variable", message, "vars")
    test["assert"] = map_strings(assertions, lambda text, _name: fill_text(text, values), _UNFILLED_FIELDS)


# --- lists of assertions -----------------------------------------------------------------------------------


def _group_texts(items: Any) -> YamlList:
    """Merges the texts of a list into one checklist at the place of the first, with their total weight."""
    groups = YamlList(getattr(items, "line", 0))
    if not isinstance(items, list):
        return groups
    lines = getattr(items, "lines", [groups.line] * len(items))
    texts = [(item, line) for item, line in zip(items, lines, strict=True) if isinstance(item, str)]
    for item, line in zip(items, lines, strict=True):
        if isinstance(item, str) and len(texts) > 1:
            if texts[0] != (item, line):
                continue
            item = _make_checklist(texts, line)
        elif isinstance(item, dict) and isinstance(item.get("assert"), list):
            item = with_fields(item, {"assert": _group_texts(item["assert"])})
        groups.append(item)
        groups.lines.append(line)
    return groups


def _make_checklist(texts: list[tuple[str, int]], line: int) -> YamlMap:
    criteria = YamlList(line)
    criteria.extend(text for text, _ in texts)
    criteria.lines = [place for _, place in texts]
    checklist = YamlMap(line)
    checklist.update({"type": "rubrics", "criteria": criteria, "weight": len(texts)})
    checklist.lines = dict.fromkeys(checklist, line)
    return checklist


def _concatenate(first: list[Any], second: list[Any]) -> YamlList:
    items = YamlList(getattr(first, "line", 0))
    items.extend([*first, *second])
    items.lines = [*getattr(first, "lines", ()), *getattr(second, "lines", ())]
    return items


# --- prompts -----------------------------------------------------------------------------------------------


def _read_prompts(
    value: Any, source: SuiteSource, notes: ProblemLog, line: int | None
) -> tuple[Version5Prompt, ...]:
    """Returns the prompts of a suite, in order; problems go to `notes`."""
    if not isinstance(value, list):
        entries, lines, names = [value], [line], ["prompts"]
    else:
        entries, lines = value, getattr(value, "lines", [line] * len(value))
        names = [f"prompts[{place}]" for place in range(len(value))]
    prompts: list[Version5Prompt] = []
    for number, (entry, name, at) in enumerate(zip(entries, names, lines, strict=True), 1):
        empty = Version5Prompt(label=f"prompt-{number}", field=name, line=at, template="")
        prompt = _read_prompt(entry, empty, source, notes)
        if prompt is not None:
            prompts.append(prompt)
    if not entries:
        notes.error("missing-field", "`prompts` is empty; write at least one prompt.", "prompts", line=line)
    labels = [prompt.label for prompt in prompts]
    twice = next((prompt for prompt in prompts if labels.count(prompt.label) > 1), None)
    if twice is not None:
        message = f"`prompts` has the id {quote_value(twice.label)} twice; give each prompt its own id."
        notes.error("duplicate-id", message, "prompts", line=twice.line)
    return tuple(prompts)


def _read_prompt(
    entry: Any, empty: Version5Prompt, source: SuiteSource, notes: ProblemLog
) -> Version5Prompt | None:
    label, body = _parse_entry(entry, empty, notes) if isinstance(entry, dict) else (empty.label, entry)
    template = _read_template(body, empty, source, notes) if label else None
    if template is None:
        return None
    if any(_TEMPLATE_LOGIC.search(text) for text in iter_texts(template)):
        message = (
            f"`{empty.field}` has template syntax other than names in braces, which Proctor does not "
            f"support. Write the text out."
        )
        notes.error("not-supported", message, empty.field, line=empty.line)
    return Version5Prompt(label=label, field=empty.field, line=empty.line, template=template)


def _parse_entry(entry: dict[str, Any], empty: Version5Prompt, notes: ProblemLog) -> tuple[str, Any]:
    """Returns the label and body of a prompt object; an empty label and an error if it has no body."""
    fields = FieldReader(entry, notes, f"{empty.field}.")
    fields.drop_null()
    _refuse_fields(fields, _REFUSED_PROMPT_FIELDS)
    labels = (fields.text("id"), fields.text("label"), empty.label)
    fields.text("description")
    names = [name for name in BODY_FIELDS if name in fields]
    body: Any = fields.pop(names[0]) if names else None
    fields.finish(tuple(ENTRY_FIELDS))
    if not names:
        fields.report_missing("prompt", _EXPECTED_PROMPT)
        return "", None
    if names[0] in ("file", "path") and isinstance(body, str):
        body = _FILE_SCHEME + body.removeprefix(_FILE_SCHEME)
    return next(label for label in labels if label), body


def _read_template(body: Any, empty: Version5Prompt, source: SuiteSource, notes: ProblemLog) -> Any:
    """Returns the text or the messages of a prompt, or None and an error."""
    if isinstance(body, str) and body.strip().startswith(_FILE_SCHEME):
        body = _read_template_file(body.strip().removeprefix(_FILE_SCHEME), empty, source, notes)
        if body is None:
            return None
    if isinstance(body, str) and body.strip():
        return body
    if isinstance(body, list) and body and all(isinstance(item, dict) and "role" in item for item in body):
        return body
    actual = "blank" if isinstance(body, str) else json_type(body) if body is not None else "null"
    notes.error(
        "wrong-type",
        f"`{empty.field}` is {actual}; it must be {_EXPECTED_PROMPT}.",
        empty.field,
        line=empty.line,
    )
    return None


def _read_template_file(path: str, empty: Version5Prompt, source: SuiteSource, notes: ProblemLog) -> Any:
    lower = path.lower()
    if not lower.endswith((*_TEXT_ENDINGS, *_DATA_ENDINGS)):
        message = (
            f"`{empty.field}` names {path[:200]!r}; a prompt file must end in "
            f"{', '.join((*_TEXT_ENDINGS, *_DATA_ENDINGS))}. Move the prompt to such a file."
        )
        notes.error("not-supported", message, empty.field, line=empty.line)
        return None
    file = find_file(path, source, notes, empty.field, empty.line)
    if file is None:
        return None
    if lower.endswith(_DATA_ENDINGS):
        return parse_yaml(file.data, notes)
    try:
        return file.data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = (
            f"`{empty.field}` names {path[:200]!r}, whose byte {error.start + 1} is not UTF-8; save "
            f"it as UTF-8."
        )
        notes.error("bad-encoding", message, empty.field, line=empty.line)
        return None


# --- what all share ----------------------------------------------------------------------------------------


def _translate_references(text: str, _name: str) -> str:
    """Rewrites `{{ env.NAME }}` as version 4 does: `${{ NAME }}`."""
    return PLACEHOLDER.sub(_translate_reference, text) if "env." in text else text


def _translate_reference(value: Any) -> str:
    space, _, name = str(value[1]).partition(".")
    return f"${{{{ {name} }}}}" if space == "env" and "." not in name and name else str(value[0])


def _refuse_fields(fields: FieldReader, refused: Mapping[str, str]) -> None:
    """Notes an error for each of the fields that is not null; the values say what to write instead."""
    fields.drop_null(*refused)
    for name, instead in refused.items():
        if name in fields:
            fields.pop(name)
            fields.error(
                "not-supported", name, f"is an AgentV 5 field that Proctor does not support. {instead}"
            )


def _refuse(field: str, instead: str, notes: ProblemLog, line: int | None) -> None:
    message = f"`{field}` is an AgentV 5 field that Proctor does not support. {instead}"
    notes.error("not-supported", message, field, line=line)


def _get_line(row: Mapping[str, Any], name: str) -> int | None:
    lines: Mapping[str, int] = getattr(row, "lines", {})
    return lines.get(name)


def _without(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    remaining = empty_like(row)
    remaining.update({name: value for name, value in row.items() if name not in names})
    return remaining

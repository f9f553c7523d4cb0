"""Expands a test of a promptfoo configuration into cases, one for each combination of its vars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.dialects.promptfoo.assertions import SHARE, AssertionContext, parse_assertions
from proctor.dialects.promptfoo.files import FILE_SCHEME, expand_reference, read_value
from proctor.dialects.promptfoo.prompts import PromptfooPrompt, fill_files
from proctor.dialects.promptfoo.providers import parse_target_name
from proctor.dialects.promptfoo.test_files import RawPromptfooTest
from proctor.dialects.shared.yaml_files import ignore_fields, refuse_fields
from proctor.errors import UsageError, suggestion
from proctor.model import Assertion, Case, PassRule, Problem, ResponseFormat
from proctor.parameters import case_fields, check_parameter
from proctor.prompts.fill import fill_prompt
from proctor.prompts.templates import BadTemplate, as_text, resolve_values
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.validation import FieldReader, FieldSpec, ProblemLog, json_type, quote_value
from proctor.yaml12 import to_plain

TEST_FIELDS: Final = (
    *("description", "vars", "assert", "threshold", "options", "metadata", "provider", "prompts"),
)
_OPTIONS: Final = (
    FieldSpec("prefix", FieldReader.text),
    FieldSpec("suffix", FieldReader.text),
    FieldSpec("disableVarExpansion", FieldReader.boolean, False),
    FieldSpec("disableDefaultAsserts", FieldReader.boolean, False),
)
_PARAMETERS: Final[dict[str, str]] = {
    **{name: name for name in case_fields() if name not in ("extra_body", "thinking_budget")},
    "max_completion_tokens": "max_tokens",
    "passthrough": "extra_body",
}
"""Options that are parameters of the model, each with its name here: a provider reads them of each test."""
UNUSED_OPTIONS: Final = ("provider", "rubricPrompt", "factuality", "runSerially", "disableConversationVar")
_REFUSED_OPTIONS: Final = {
    **dict.fromkeys(
        ("transform", "postprocess", "transformVars"),
        ("unsupported", "is code, and Proctor runs no code from a suite. Remove it."),
    ),
    "storeOutputAs": (
        "unsupported",
        (
            "makes one test depend on another, but Proctor runs each case on its own. Write a conversation "
            "instead."
        ),
    ),
}
_REFUSED_FIELDS: Final = {
    name: ("unsupported", why)
    for name, why in {
        "assertScoringFunction": "is code, and Proctor runs no code from a suite. Use `threshold` instead.",
        "providerOutput": "is a prepared answer, which Proctor does not read here. Use a target of kind "
        "`replay` to provide answers.",
        "providers": "limits the test to some providers, which Proctor does not support. Remove it.",
    }.items()
}
MAX_CASES: Final = 10_000
"""The maximum number of cases of one test."""

_NON_WORD: Final = re.compile(r"[^\w.]+")
_SHORT_VALUE: Final = re.compile(r"[^\s,=\[\]]([^\n,=\[\]]{0,38}[^\s,=\[\]])?")
_MAX_ID_LENGTH: Final = 60


UNSCORED_ASSERTION: Final = Assertion(
    grader="unscored",
    params={"reason": "The test has no assertion, so nothing says what a good answer is."},
)


class ParsedTest(Struct, frozen=True, kw_only=True):
    """The content of a test, or of `defaultTest`."""

    vars: dict[str, list[Any]] = {}
    """The values of each variable."""
    assertions: Any = None
    """As written."""
    threshold: float | None = None
    options: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    target: str | None = None
    prompts: tuple[str, ...] | None = None
    """The names, labels or globs of the prompts that it is run with; None for all."""


class ConfigurationLevel(Struct, frozen=True, kw_only=True):
    """What a configuration gives to each of its tests."""

    prompts: tuple[PromptfooPrompt, ...]
    default: ParsedTest
    default_line: int
    templates: dict[str, Any]
    repeats: int | None
    source: SuiteSource
    used_ids: set[str]
    """The ids used so far."""


def build_cases(
    raw: RawPromptfooTest, number: int, common: ConfigurationLevel
) -> Iterator[CaseAtLine | Problem]:
    """Yields the cases and the problems of a test."""
    notes = ProblemLog(raw.path or common.source.path, raw.line, "Test", of_case=True)
    fields = FieldReader(raw.row, notes)
    fields.drop_null()
    description = fields.text("description")
    name = notes.case = _make_test_id(description, number, common.used_ids)
    test = parse_test(fields, common.source, common.default.options)
    fields.finish(TEST_FIELDS)
    cases = [] if notes.has_errors else list(_expand_cases(test, name, notes, common))
    if cases and not notes.has_errors and not cases[0].assertions:
        message = "The test has no assertion, so its answers will be UNSCORED. Add `assert`."
        notes.warn("no-assertions", message, "assert")
    if notes.row is not None:
        count = _count_cases(test, common)
        notes.row = replace(notes.row, cases=count if 0 < count <= MAX_CASES else 1)
    yield from (
        problem if problem.row is None else replace(problem, row=notes.row) for problem in notes.problems
    )
    for case in cases if not notes.has_errors else ():
        metadata = case.metadata if description is None else {"description": description, **case.metadata}
        case = replace(case, metadata=metadata, assertions=case.assertions or (UNSCORED_ASSERTION,))
        yield CaseAtLine(case, raw.line, raw.path)


def _make_test_id(description: str | None, number: int, used_names: set[str]) -> str:
    """Returns the id of a test: its description in lower case, or its number."""
    name = _NON_WORD.sub("-", (description or "").lower())[:_MAX_ID_LENGTH].strip("-") or f"test-{number}"
    if name in used_names:
        name = f"{name}-{number}"
    used_names.add(name)
    return name


# --- what a test says --------------------------------------------------------------------------------------


def parse_test(fields: FieldReader, source: SuiteSource, inherited: dict[str, Any]) -> ParsedTest:
    """Parses a test, without its description; `inherited` are the options of the default test."""
    options = _parse_options(fields)
    expand = not {**inherited, **options}.get("disableVarExpansion", False)
    refuse_fields(fields, _REFUSED_FIELDS)
    threshold = fields.limited_number("threshold", SHARE, "bad-threshold")
    metadata: Any = fields.instance("metadata", dict)
    return ParsedTest(
        vars=_parse_vars(fields, source, expand=expand),
        assertions=fields.pop("assert"),
        threshold=threshold,
        options=options,
        metadata=to_plain(metadata or {}),
        target=_parse_target(fields),
        prompts=_parse_words(fields, "prompts"),
    )


def _parse_options(fields: FieldReader) -> dict[str, Any]:
    inner = fields.object("options")
    if inner is None:
        return {}
    inner.drop_null()
    refuse_fields(inner, _REFUSED_OPTIONS)
    ignore_fields(inner, UNUSED_OPTIONS, {})
    options = inner.values(_OPTIONS)
    for name, parameter in _PARAMETERS.items():
        if name in inner:
            _read_parameter(inner, name, parameter, options)
    inner.finish((*(option.name for option in _OPTIONS), *_PARAMETERS, *UNUSED_OPTIONS))
    return options


def _read_parameter(fields: FieldReader, name: str, parameter: str, options: dict[str, Any]) -> None:
    try:
        options[parameter] = check_parameter(parameter, to_plain(fields.pop(name)))
    except UsageError as error:
        fields.error("bad-parameter", name, f"cannot be used: {error}")


def _parse_target(fields: FieldReader) -> str | None:
    if "provider" not in fields:
        return None
    provider: Any = fields.pop("provider")
    name = parse_target_name(provider)
    if name is None:
        fields.error(
            "unknown-provider",
            "provider",
            f"is {quote_value(provider)}, which is not a known target. Remove it.",
        )
    return name


def _parse_words(fields: FieldReader, name: str) -> tuple[str, ...] | None:
    """Returns a list of texts; None if the field is missing."""
    if name not in fields:
        return None
    return tuple([word for word in fields.texts(name) if isinstance(word, str)])


def _parse_vars(fields: FieldReader, source: SuiteSource, *, expand: bool) -> dict[str, list[Any]]:
    """Returns the values of each variable of a test; a list of texts gives several values."""
    line = fields.line_for("vars")
    raw_vars: Any = fields.pop("vars")
    notes, place = fields.problem_log, fields.path_to("vars")
    files = raw_vars if isinstance(raw_vars, list) else [raw_vars] if isinstance(raw_vars, str) else None
    if files is not None and all(isinstance(file, str) for file in files):
        merged: dict[str, Any] = {}
        for file in files:
            value = read_value(file, source, notes, place, line)
            if isinstance(value, dict):
                merged.update(value)
            elif not notes.has_errors:
                notes.error(
                    "wrong-type", f"`{place}` is {file}, which has {json_type(value)}.", place, line=line
                )
        raw_vars = merged
    if raw_vars is not None and not isinstance(raw_vars, dict):
        fields.report_wrong_type("vars", raw_vars, "an object")
    lines = getattr(raw_vars, "lines", {})
    return {
        name: _parse_values(value, source, notes, f"{place}.{name}", lines.get(name, line), expand=expand)
        for name, value in (raw_vars.items() if isinstance(raw_vars, dict) else ())
    }


def _parse_values(
    value: Any, source: SuiteSource, notes: ProblemLog, field: str, line: int | None, *, expand: bool
) -> list[Any]:
    """Returns the values of one variable."""
    several = expand and isinstance(value, list) and bool(value) and isinstance(value[0], str)
    values: list[Any] = []
    for item in value if several else [value]:
        if not isinstance(item, str) or not item.startswith(FILE_SCHEME):
            values.append(to_plain(item))
            continue
        values += [
            to_plain(read_value(FILE_SCHEME + path, source, notes, field, line))
            for path in expand_reference(item, source, notes, field, line)
        ]
    return values


# --- its cases ---------------------------------------------------------------------------------------------


def _expand_cases(
    test: ParsedTest, name: str, notes: ProblemLog, common: ConfigurationLevel
) -> Iterator[Case]:
    """Yields a case for each combination of values; stops at the first error."""
    default = common.default
    options = {**default.options, **test.options}
    values = {**default.vars, **test.vars}
    count = _count_cases(test, common)
    if count > MAX_CASES:
        message = (
            f"Its vars make {count:,} cases of it; the maximum is {MAX_CASES:,}. Reduce the number of values."
        )
        notes.error("too-many-cases", message, "vars")
        return
    threshold = default.threshold if test.threshold is None else test.threshold
    words = default.prompts if test.prompts is None else test.prompts
    prompts = common.prompts if words is None else _select_prompts(words, notes, common)
    for suffix, combination in _combine_values(values):
        try:
            context = AssertionContext(resolve_values(combination), common.templates, common.source)
        except BadTemplate as error:
            notes.error(error.code, f"`vars` {error}", "vars")
            return
        assertions = _parse_all_assertions(test, options, notes, context, common)
        if threshold is not None:  # then scores alone decide
            assertions = [replace(assertion, required=None) for assertion in assertions]
        rule = threshold
        if assertions and not threshold and not any(assertion.weight for assertion in assertions):
            # There, an assertion of weight 0 always passes: a gate that every score reaches.
            rule = 0.0
            assertions = [replace(assertion, required=assertion.required or 0.0) for assertion in assertions]
        params = {option: options[option] for option in case_fields() if option in options}
        case = Case(
            id=name + suffix,
            input=(),
            form=ResponseFormat(params=params) if params else None,
            assertions=tuple(assertions),
            metadata={**default.metadata, **test.metadata},
            repeats=common.repeats,
            pass_rule=None if rule is None else PassRule(threshold=rule),
            target=test.target or default.target,
            vars=context.values,
            prefix=options.get("prefix") or "",
            suffix=options.get("suffix") or "",
            prompts=None if words is None else tuple([prompt.template.name for prompt in prompts]),
        )
        for prompt in prompts:
            _check_prompt(prompt, case, notes)
        if any(prompt.raw_messages for prompt in prompts) and not notes.has_errors:
            case = fill_files(prompts[0], case, notes)
        yield case
        if notes.has_errors:
            return


def _select_prompts(
    words: tuple[str, ...], notes: ProblemLog, common: ConfigurationLevel
) -> tuple[PromptfooPrompt, ...]:
    """Returns the prompts that a test names; an error for a word that names none."""
    names = [prompt.label or prompt.template.name for prompt in common.prompts]
    if not words:
        notes.error("empty-list", "`prompts` is an empty list, so the test would not run.", "prompts")
    for place, word in enumerate(words):
        if common.prompts and not any(prompt.is_named(word) for prompt in common.prompts):
            message = (
                f"`prompts[{place}]` is {quote_value(word)}, which is not the name of a prompt. "
                f"{suggestion(word[:60], names)}"
            )
            notes.error("unknown-prompt", message, f"prompts[{place}]")
    return tuple([prompt for prompt in common.prompts if any(map(prompt.is_named, words))])


def _count_cases(test: ParsedTest, common: ConfigurationLevel) -> int:
    """Returns the number of cases of a test."""
    return prod(map(len, {**common.default.vars, **test.vars}.values()))


def _combine_values(values: dict[str, list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each combination of values, the first variable slowest, with a suffix for its id."""
    several = [name for name, options in values.items() if len(options) > 1]
    for choice in product(*map(enumerate, values.values())):
        chosen = dict(zip(values, choice, strict=True))
        suffixes = [f"{name}={_format_id_value(*chosen[name])}" for name in several]
        suffix = f"[{','.join(suffixes)}]" if suffixes else ""
        yield suffix, {name: value for name, (_, value) in chosen.items()}


def _format_id_value(place: int, value: Any) -> str:
    """Returns a value for an id: the value itself if it is short, else its number."""
    text = as_text(value)
    return text if _SHORT_VALUE.fullmatch(text) else f"#{place + 1}"


def _parse_all_assertions(
    test: ParsedTest,
    options: dict[str, Any],
    notes: ProblemLog,
    context: AssertionContext,
    common: ConfigurationLevel,
) -> list[Assertion]:
    """Returns the assertions of the default test, then the test's own."""
    shared: list[Assertion] = []
    if not options.get("disableDefaultAsserts"):
        own = ProblemLog(common.source.path, common.default_line, notes.subject)
        own.case, own.row = notes.case, notes.row
        shared = parse_assertions(common.default.assertions, "defaultTest.assert", own, context)
        notes.extend(own)
    return shared + parse_assertions(test.assertions, "assert", notes, context)


def _check_prompt(prompt: PromptfooPrompt, case: Case, notes: ProblemLog) -> None:
    """Notes why a case cannot be sent with a prompt."""
    if prompt.is_chat and (case.prefix or case.suffix):
        message = (
            f"`options` has a prefix or suffix, and `{prompt.field}` is a conversation. Move it into "
            f"the conversation."
        )
        notes.error("unsupported", message, "options")
    try:
        messages = fill_prompt(prompt.template, case)
    except BadTemplate as error:
        notes.error(error.code, f"`{prompt.field}` {error}", prompt.field)
        return
    if not prompt.raw_messages and not any(message.content.strip() for message in messages):
        notes.error("missing-prompt", f"`{prompt.field}` is empty with these vars.", prompt.field)

"""AgentV's `assertions` to assertions: what all types share, how each is read, and the table of all types.

Types are written with hyphens or underscores. Texts in the list become one rubric. Problems are noted with
the path of their field; nothing is dropped silently. Graders are known here by name only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from proctor import field_schemas as schemas
from proctor.dialects.agentv.read.assertion_fields import (
    GATE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    AssertionFields,
    as_text,
)
from proctor.dialects.agentv.read.includes import expand_includes
from proctor.dialects.agentv.read.rubrics import (
    DEFAULT_PASS_AT,
    make_rubrics_assertion,
    make_text_item,
    parse_rubric_items,
)
from proctor.dialects.shared.js_regex import BadPattern, get_compile_error, to_python
from proctor.errors import UsageError, suggestion
from proctor.field_schemas import Fields, accepts, spec_fields
from proctor.model import Assertion
from proctor.protocols import SuiteSource
from proctor.validation import FieldReader, FieldSchema, FieldSpec, NumberLimit, ProblemLog, quote_value
from proctor.yaml12 import to_plain

DEFAULT_ASSERTION: Final = Assertion(grader="llm_grader", pass_at=DEFAULT_PASS_AT, label="llm-grader")
"""Grades a test that has no assertion."""
DEFAULT_GATE: Final = 0.8
"""The gate that `required: true` stands for."""
MEMBER_LIST_NAMES: Final = ("assertions", "assert", "evaluators")
"""The names that the list of a composite's members may have."""

COMMON_FIELDS: Final[Fields] = {
    "type": schemas.words("The type of check."),
    "name": schemas.words("The name of the assertion in results."),
    "weight": {
        **schemas.limit_rules(NOT_NEGATIVE),
        "description": "The weight of the assertion; 1 by default.",
    },
    "required": schemas.either(
        {"type": "boolean"},
        schemas.limit_rules(GATE),
        about="Makes the test fail if the score is lower: true means 0.8, a number sets the score.",
    ),
    "min_score": {**schemas.limit_rules(GATE), "description": "The lowest score that passes."},
    "negate": schemas.of_type("boolean", "Whether the result is inverted."),
}
"""The fields of every assertion."""
_CRITERIA_GRADERS: Final = frozenset(("llm_grader", "rubrics", "program"))
_NEGATION_PREFIX: Final = "not-"
"""The prefix of a negated assertion's type."""
_OLD_TYPES: Final = {"code-judge": "code-grader", "llm-judge": "llm-grader"}
"""Types that were renamed, with their new names."""
_PROGRAM_ADVICE: Final = "Move the check into a program and run it with an assertion of type `script`."
REFUSED_TYPES: Final = {
    **dict.fromkeys(("javascript", "python", "webhook"), _PROGRAM_ADVICE),
    "similar": "Describe what the answer must say as plain text; a judge grades it.",
    "trajectory:step-count": "Write `execution-metrics` with `max_tool_calls`.",
    "trajectory:goal-success": "Describe the goal as plain text; a judge grades it.",
}
"""Types of AgentV 5 that are not supported, each with what to write instead."""
_REFUSED_FIELDS: Final = {
    "transform": "Make the target answer in that form, or check the answer with a `script`.",
    "provider": "Set `target` to the name of a judge.",
}
"""Fields of AgentV 5 that would change what an assertion means, each with what to write instead."""

_USUAL_FIELDS: Final = frozenset(("type", "value"))
"""The fields of most assertions, whose graders alone read `value`."""

GraderSpec = tuple[str, dict[str, Any], str]
"""A grader's name, its parameters, and a suffix for the assertion's default name."""


# --- lists -------------------------------------------------------------------------------------------------


def parse_assertions(items: Any, field: str, notes: ProblemLog, source: SuiteSource) -> tuple[Assertion, ...]:
    """Parses a list of assertions.

    Args:
        items: the list: objects, and texts that together form one rubric at the place of the first text.
        field: its name in messages.
        notes: takes the problems; nothing is raised.
        source: finds prompts, templates and custom graders.
    """
    assertions: list[Assertion] = []
    texts: list[dict[str, Any]] = []
    first = 0
    for item in expand_includes(items, field, notes, source):
        if isinstance(item.raw, str):
            if not item.raw.strip():
                message = f"`{item.place}` is blank; describe what the answer must do, or remove it."
                item.notes.error("empty-value", message, item.place, line=item.line)
            if not texts:
                first = len(assertions)
            texts.append(make_text_item(len(texts) + 1, item.raw))
        else:
            assertions.append(_parse_assertion(item.raw, item.place + ".", item.notes, item.source))
    if texts:
        assertions.insert(first, make_rubrics_assertion(texts))
    return tuple(assertions)


def reads_criteria(assertions: Iterable[Assertion]) -> bool:
    """Whether any of the graders is given the `criteria` of its test."""
    return any(_grader_reads_criteria(assertion.grader, assertion.params) for assertion in assertions)


def _grader_reads_criteria(grader: str, params: dict[str, Any]) -> bool:
    if grader != "composite":
        return grader in _CRITERIA_GRADERS
    members = [member["assertion"] for member in params["members"]]
    return params["aggregator"].get("type") in _CRITERIA_GRADERS or any(
        _grader_reads_criteria(member["grader"], member["params"]) for member in members
    )


# --- one assertion -----------------------------------------------------------------------------------------


_NAME_ALIASES: Final = (("metric", "name"), ("id", "name"))
"""Other names of `name`, for types that pass no field on to a grader."""


class AssertionType(NamedTuple):
    """How the assertions of one type are read, and what they are written from."""

    grader: str
    fields: tuple[FieldSpec, ...] = ()
    """Its own fields, which give the grader's parameters."""
    constants: Mapping[str, Any] = {}
    """Parameters that the type alone sets."""
    label_param: str | None = None
    """The parameter by which an assertion without a name is called, besides its type."""
    parse: Callable[[AssertionFields], GraderSpec] | None = None
    """Reads the fields of the type if the table cannot say how."""
    names: Fields = MappingProxyType({})
    """Its own fields if `parse` reads more than those of the table."""
    rules: FieldSchema = MappingProxyType({})
    """What must hold for the fields of `names` together, as keywords of JSON Schema."""
    is_open: bool = False
    """Whether fields that are not known are passed on to the grader."""
    closed_by: str = ""
    """The field beside which they are not."""
    unused_fields: tuple[str, ...] = ()
    """Known fields that have no effect."""
    misspellings: tuple[tuple[str, str], ...] = ()
    """Common misspellings of fields, each with the right name."""
    pass_at: float | None = None
    """The lowest score that passes, for graders that can give a fraction."""
    aliases: tuple[tuple[str, str], ...] = _NAME_ALIASES
    """Other names of fields, each with the name that is used here."""

    @property
    def field_names(self) -> tuple[str, ...]:
        """All fields that the type may have."""
        names = list(self.names) or [field.name for field in self.fields]
        return (*COMMON_FIELDS, *names, *self.unused_fields)

    def read(self, fields: AssertionFields) -> GraderSpec:
        """Returns the grader, its parameters and a suffix for the default name."""
        if self.parse is not None:
            return self.parse(fields)
        params = fields.values(self.fields)
        params.update(self.constants)
        value = params.get(self.label_param or "", "")
        return self.grader, params, str(len(value)) if isinstance(value, list) else value


def _parse_assertion(row: dict[str, Any], prefix: str, notes: ProblemLog, source: SuiteSource) -> Assertion:
    type_name = row.get("type")
    plain = type_name.removeprefix(_NEGATION_PREFIX) if isinstance(type_name, str) else ""
    entry = TYPES_BY_SPELLING.get(plain) or _find_own_grader(row, prefix, notes, source)
    if entry is None:
        return Assertion(grader="")
    kind, names = entry
    fields = AssertionFields(row, notes, prefix, source, names)
    fields.pop("type")
    fields.negated = plain != type_name and plain in TYPES_BY_SPELLING
    name: str | None = None
    weight = required = least = None
    if row.keys() != _USUAL_FIELDS:
        name, weight, required, least = _parse_common_fields(fields, kind, names)
    if kind.unused_fields:
        fields.ignore_fields(kind.unused_fields)
    grader, params, suffix = kind.read(fields)
    fields.close()
    if least is None:
        # A composite with a threshold decides itself when it passes.
        own = grader == "composite" and params["aggregator"].get("type") == "threshold"
        least = None if own else kind.pass_at
    return Assertion(
        grader=grader,
        params=params,
        weight=1.0 if weight is None else weight,
        required=required,
        negated=fields.negated,
        pass_at=least,
        label=name or (f"{type_name}-{suffix}" if suffix else type_name),
    )


def _parse_common_fields(
    fields: AssertionFields, kind: AssertionType, names: Collection[str]
) -> tuple[str | None, float | None, float | None, float | None]:
    """Returns the name, the weight, the gate and the lowest passing score, each None if it is not set."""
    for other, replacement in kind.aliases:
        if other in fields:
            fields.rename(other, replacement)
    if kind.aliases:
        for refused, instead in _REFUSED_FIELDS.items():
            if refused in fields and refused not in names:
                _refuse(fields, refused, instead)
    name = fields.non_blank_text("name")
    weight = fields.limited_number("weight", NOT_NEGATIVE)
    required, least = _parse_gate(fields)
    fields.negated = fields.boolean("negate", False) or fields.negated
    for wrong, right in kind.misspellings:
        fields.correct_name(wrong, right)
    return name, weight, required, least


def _parse_gate(fields: AssertionFields) -> tuple[float | None, float | None]:
    """Returns the gate and the lowest passing score, each None if it is not set."""
    least = fields.limited_number("min_score", GATE)
    if "required" not in fields:
        return None, least
    if isinstance(fields.peek("required"), bool):
        gate = DEFAULT_GATE if fields.pop("required") else None
    elif isinstance(fields.peek("required"), int | float):
        gate = fields.limited_number("required", GATE)
    else:
        fields.report_wrong_type(
            "required", fields.pop("required"), "true, false, or a number above 0 and at most 1"
        )
        gate = None
    return (None if gate is None else gate if least is None else least), least


def _refuse(fields: AssertionFields, name: str, instead: str) -> None:
    """Removes a field that only AgentV 5 supports, or supports with this value, and notes an error."""
    fields.pop(name)
    fields.error("not-supported", name, f"is an AgentV 5 feature that Proctor does not support. {instead}")


def _find_own_grader(
    row: dict[str, Any], prefix: str, notes: ProblemLog, source: SuiteSource
) -> tuple[AssertionType, tuple[str, ...]] | None:
    """Returns the type of a custom grader, or None and an error if there is no such grader."""
    fields = AssertionFields(row, notes, prefix, source, ())
    type_name = fields.required_text("type")
    if not type_name:
        return None
    kebab = type_name.replace("_", "-")
    for name in dict.fromkeys((type_name, kebab, type_name.replace("-", "_"))):
        try:
            command = source.find_program(name) if name.replace("-", "").replace("_", "").isalnum() else None
        except UsageError as error:
            fields.error("unknown-type", "type", f"is {quote_value(type_name)}. {error}")
            return None
        if command is not None:
            kind = AssertionType(
                "program",
                (*_RUN_FIELDS, _CONFIG),
                parse=partial(_parse_own_program, command),
                pass_at=DEFAULT_PASS_AT,
                aliases=(),
            )
            return kind, kind.field_names
    refused = kebab.removeprefix(_NEGATION_PREFIX)
    if refused in REFUSED_TYPES:
        message = (
            f"is {type_name!r}, an AgentV 5 type that Proctor does not support. {REFUSED_TYPES[refused]}"
        )
        fields.error("not-supported", "type", message)
    elif kebab in _OLD_TYPES:
        fields.error(
            "old-type", "type", f"is {type_name!r}, which is an old name; write {_OLD_TYPES[kebab]!r}."
        )
    else:
        fields.error(
            "unknown-type",
            "type",
            f"is {quote_value(type_name)}, which is an unknown type. {suggestion(type_name[:60], TYPES)} "
            "To use your own grader, put it in a file such as "
            f"`.proctor/assertions/{repr(type_name[:60])[1:-1]}.py`.",
        )
    return None


# --- types that look at the text ---------------------------------------------------------------------------

_MAX_PATTERN_NAME_LENGTH: Final = 30


_SCALAR: Final = {"type": ["string", "number", "boolean"], "minLength": 1}


@accepts(_SCALAR)
def _read_text(fields: AssertionFields, name: str) -> str:
    """Returns the text to look for; an empty or missing text is an error."""
    if name not in fields:
        fields.report_missing(name, "the text to search for")
        return ""
    value = fields.pop(name)
    text = as_text(value)
    if text:
        return text
    if text is not None:
        fields.error("empty-value", name, "is empty; write the text to search for.")
    elif isinstance(value, list):
        fields.report_wrong_type(
            name, value, "one text; for several texts, use a type that ends in `-any` or `-all`"
        )
    else:
        fields.report_wrong_type(name, value, "text")
    return ""


@accepts({**_SCALAR, "pattern": schemas.NON_BLANK})
def _read_visible_text(fields: AssertionFields, name: str) -> str:
    """Returns the text to look for, for graders that strip it."""
    value = _read_text(fields, name)
    if value and not value.strip():
        fields.error("empty-value", name, "is blank; write the text to search for.")
    return value


@accepts(schemas.list_of(_SCALAR, minItems=1))
def _read_text_list(fields: AssertionFields, name: str) -> list[str]:
    values: list[str] = []
    for place, item in fields.rows(name, "a list of texts"):
        text = as_text(item)
        if text is None:
            fields.report_wrong_type(place, item, "text")
        elif not text:
            fields.error("empty-value", place, "is empty; write the text to search for.")
        values.append(text or "")
    return values


def _parse_regex(fields: AssertionFields) -> GraderSpec:
    flags = fields.text("flags") or ""
    value = _read_text(fields, "value")
    pattern, wrong = value, None
    try:
        pattern, flags = to_python(value, flags)
        wrong = get_compile_error(pattern)
    except BadPattern as error:
        wrong = str(error)
    except ValueError as error:
        fields.error("bad-flag", "flags", f"{error}.")
        flags = ""
    if wrong is not None:
        fields.error(
            "bad-regex",
            "value",
            f"is {quote_value(value)}, which is not a valid regular expression: {wrong}. Correct it.",
        )
    params = {"pattern": pattern, "flags": flags} if flags else {"pattern": pattern}
    return "regex", params, value[:_MAX_PATTERN_NAME_LENGTH]


# --- judges ------------------------------------------------------------------------------------------------

PROMPT_VARIABLES: Final = frozenset(
    {
        *("input", "output", "expected_output", "criteria", "file_changes", "tool_calls", "config"),
        *("metadata", "metadata_json", "rubrics", "rubrics_json", "EVALUATOR_RESULTS_JSON"),
        *("input_text", "output_text", "expected_output_text"),
    }
)
"""The variables that a prompt may use; the last one is for judges of composites."""
_TEMPERATURE: Final = NumberLimit("from 0 to 2", minimum=0, maximum=2)
_PROMPT_PATH: Final = re.compile(
    r"\S+\.(md|markdown|txt|text|prompt|tmpl|tpl|j2|jinja2?|hbs|mustache|liquid|html?|xml|json|ya?ml)"
    r"|\.{1,2}/\S+",
    re.IGNORECASE,
)
_REFERENCE: Final = re.compile(r"\$\{\{[^}]*\}\}")
_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
_MAX_PATH_LENGTH: Final = 300


@accepts(schemas.words())
def _read_prompt(fields: AssertionFields, name: str) -> str | None:
    """Returns the prompt: the text of the file that it names, or the field itself; None without one.

    `file://` marks a file. Any other single line is looked up as well, as most suites refer to their prompts
    that way. What looks like a path and does not exist is an error, never a prompt.
    """
    if isinstance(fields.peek(name), dict):
        fields.pop(name)
        message = (
            "is generated by a program, which Proctor does not support; write its text or the path of a file."
        )
        fields.error("not-supported", name, message)
        return None
    value = fields.non_blank_text(name)
    if value is None or "\n" in value.strip() or len(value) > _MAX_PATH_LENGTH:
        return None if value is None else _check_placeholders(fields, name, value)
    reference = value.strip().removeprefix("file://")
    is_file = reference != value.strip() or _PROMPT_PATH.fullmatch(_REFERENCE.sub("x", reference)) is not None
    path: str | None = reference
    if "${{" in reference:
        if not is_file:
            return _check_placeholders(fields, name, value)
        path = fields.fill(name, reference)
    file = fields.source.find_file(path) if path else None
    if file is not None:
        return _check_placeholders(fields, name, _decode_prompt(fields, name, reference, file.data))
    if path is not None and is_file:
        fields.error(
            "missing-prompt-file",
            name,
            f"names the file {reference!r}, which is neither in the folder of the suite nor in a folder "
            f"above it. Correct the path, or write the prompt inline.",
        )
    return _check_placeholders(fields, name, value)


def _check_placeholders(fields: AssertionFields, name: str, text: str) -> str:
    """Returns the text, and warns about each `{{ variable }}` in it that has no value."""
    unknown = [
        variable
        for variable in sorted(set(_PLACEHOLDER.findall(text)))
        if not _is_known_variable(variable, fields)
    ]
    if unknown:
        why = suggestion(unknown[0][:60], sorted(PROMPT_VARIABLES))
        if "." in unknown[0]:
            why = "Only fields of `metadata` and of the grader's own `config` can be written with a dot."
        fields.warn("unknown-variable", name, f"has {{{{ {unknown[0]} }}}}, which is not replaced. {why}")
    return text


def _is_known_variable(name: str, fields: AssertionFields) -> bool:
    """Whether a name has a value. Any field of metadata may, as each test has its own."""
    first, _, path = name.partition(".")
    field, config = path.partition(".")[0], fields.peek("config")
    in_config = fields.peek(field) is not None or (isinstance(config, dict) and field in config)
    return (
        name in PROMPT_VARIABLES or (first == "metadata" and path != "") or (first == "config" and in_config)
    )


def _decode_prompt(fields: AssertionFields, name: str, path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        message = f"names {path!r}, whose byte {error.start + 1} is not UTF-8; save it as UTF-8."
        fields.error("bad-encoding", name, message)
        return ""
    if not text.strip():
        message = f"names the file {path!r}, which is empty; write the prompt in that file."
        fields.error("empty-value", name, message)
    return text


_CONFIG: Final = FieldSpec(
    "config", AssertionFields.config, required=True, about="Settings that are passed to the grader."
)
"""Takes all fields that are left, so it is the last one of a table."""
_JUDGE: Final = FieldSpec(
    "target", FieldReader.non_blank_text, to="judge", about="The judge; by default the judge of the run."
)
_JUDGE_FIELDS: Final = (
    _JUDGE,
    FieldSpec("temperature", FieldReader.limited_number, _TEMPERATURE, about="The temperature of the judge."),
)
_PROMPT: Final = FieldSpec(
    "prompt", _read_prompt, about="The judge prompt, or the path of a file that contains it."
)
_LLM_GRADER_FIELDS: Final = (_PROMPT, *_JUDGE_FIELDS, _CONFIG)


def _parse_llm_grader(fields: AssertionFields) -> GraderSpec:
    """Parses `llm-grader`: a judge with a prompt; with `rubrics` it is a checklist."""
    if "rubrics" in fields:
        fields.ignore_fields(("prompt", "config"), "has no effect beside `rubrics`; remove one of them.")
        return _parse_rubrics(fields)
    return "llm_grader", fields.values(_LLM_GRADER_FIELDS), ""


def _parse_rubrics(fields: AssertionFields) -> GraderSpec:
    """Parses `rubrics`: a checklist in `criteria`, or in `rubrics` in older files."""
    name = "criteria" if "criteria" in fields or "rubrics" not in fields else "rubrics"
    if name == "criteria" and "rubrics" in fields:
        fields.pop("rubrics")
        fields.error("conflicting-fields", "rubrics", "and `criteria` mean the same; keep one of them.")
    return "rubrics", {"items": parse_rubric_items(fields, name), **fields.values(_JUDGE_FIELDS)}, ""


def _parse_llm_rubric(fields: AssertionFields) -> GraderSpec:
    """Parses `llm-rubric`: a checklist or one text in `value`, or a judge with its own prompt."""
    threshold = fields.limited_number("threshold", SHARE)
    if threshold is not None:
        fields.warn(
            "no-effect",
            "threshold",
            "has no effect here: whether a test passes depends on its weighted mean.",
        )
    if "value" not in fields:
        return _parse_llm_grader(fields)
    if "prompt" in fields:
        _refuse(fields, "prompt", "Remove the prompt, or move the items of `value` into it.")
    value = fields.peek("value")
    if isinstance(value, str):
        fields.pop("value")
        if not value.strip():
            fields.error("empty-value", "value", "is blank; describe what the answer must do.")
        items = [make_text_item(1, value)]
    else:
        items = parse_rubric_items(fields, "value")
    return "rubrics", {"items": items, **fields.values((_JUDGE,))}, ""


# --- programs ----------------------------------------------------------------------------------------------

DEFAULT_MAX_CALLS: Final = 50
"""How many times a program may call a judge, unless the suite says otherwise."""
_TIMEOUT: Final = FieldSpec(
    "timeout_seconds",
    FieldReader.limited_number,
    POSITIVE,
    to="timeout_s",
    about="Time limit of the program.",
)


@accepts(
    schemas.either(
        schemas.words(),
        schemas.list_of({"type": ["string", "number", "boolean"]}, minItems=1),
        about="The program and its arguments, or one text for the shell.",
    )
)
def _read_command(fields: AssertionFields, name: str) -> list[str]:
    expected = "a list of texts, or one text for the shell"
    if isinstance(fields.peek(name), str):
        return ["sh", "-c", fields.required_text(name)]
    words: list[str] = []
    for place, item in fields.rows(name, expected):
        word = as_text(item)
        if word is None:
            fields.report_wrong_type(place, item, "text")
        words.append(word or "")
    if words and not words[0].strip():
        fields.error("missing-field", f"{name}[0]", "is blank; it must name the program to run.")
    return words


def _read_judge_access(fields: AssertionFields) -> dict[str, Any]:
    """Returns the parameters of a program that may call a judge: how often, and which one."""
    if isinstance(fields.peek("target"), dict):
        inner = fields.child("target", spec_fields(_JUDGE_ACCESS_FIELDS))
        assert inner is not None
        return {"max_calls": DEFAULT_MAX_CALLS, **inner.all_values(_JUDGE_ACCESS_FIELDS)}
    value = fields.pop("target") if "target" in fields else False
    if value is True:
        return {"max_calls": DEFAULT_MAX_CALLS}
    if value is not False:
        fields.report_wrong_type("target", value, "true, false, or an object with `max_calls`")
    return {}


_JUDGE_ACCESS_FIELDS: Final = (
    FieldSpec("max_calls", FieldReader.integer, 1, about="Maximum number of judge calls."),
    FieldSpec("judge", FieldReader.non_blank_text, about="The judge; by default the judge of the run."),
)
_RUN_FIELDS: Final = (
    _TIMEOUT,
    FieldSpec(
        "persistent",
        FieldReader.boolean,
        False,
        default=False,
        about="Whether the program stays alive between answers and reads one line for each.",
    ),
)
_PLACE_FIELDS: Final = (
    FieldSpec("cwd", FieldReader.non_blank_text, about="The working directory of the command."),
    *_RUN_FIELDS,
)
_PROGRAM_FIELDS: Final = (FieldSpec("command", _read_command, required=True), *_PLACE_FIELDS)


def _parse_code_grader(fields: AssertionFields) -> GraderSpec:
    """Parses `code-grader`: a program that reads and writes JSON."""
    if "command" in fields:
        fields.ignore_fields(("script",), "has no effect beside `command`; remove it.")
    elif "script" in fields:
        fields.warn("deprecated", "script", "is an old spelling; write `command`.")
        fields.rename("script", "command")
    params = fields.values(_PROGRAM_FIELDS)
    params |= _read_judge_access(fields) | fields.values((_CONFIG,))
    if "persistent" in params and "max_calls" in params:
        fields.error(
            "conflicting-fields",
            "persistent",
            "and `target` cannot be combined: the judge's token is an environment variable that changes with "
            "each answer; keep one of them.",
        )
    return "program", params, ""


def _parse_script(fields: AssertionFields) -> GraderSpec:
    """Parses `script`: a program like `code-grader`, which gets the answer as `output`."""
    grader, params, suffix = _parse_code_grader(fields)
    return grader, params | {"output": "text"}, suffix


def _parse_own_program(command: Sequence[str], fields: AssertionFields) -> GraderSpec:
    return "program", {"command": list(command), **fields.values((*_RUN_FIELDS, _CONFIG))}, ""


# --- several as one ----------------------------------------------------------------------------------------

_UNUSED_MEMBER_MESSAGE: Final = (
    "has no effect on a member of a composite; set it in the `weights` of the aggregator."
)


def _parse_composite(fields: AssertionFields) -> GraderSpec:
    """Parses `composite`: several graders combined into one score."""
    spellings = [name for name in MEMBER_LIST_NAMES if name in fields] or [MEMBER_LIST_NAMES[0]]
    for name in spellings[1:]:
        fields.pop(name)
        fields.error("conflicting-fields", name, f"and `{spellings[0]}` mean the same; keep one of them.")
    members: list[dict[str, Any]] = []
    for place, row in fields.rows(spellings[0], "a list of assertions, each with a `name`"):
        if isinstance(row, dict):
            members.append(_parse_member(fields, place, row))
        else:
            fields.report_wrong_type(place, row, "an object with `name` and `type`")
    names = [member["name"] for member in members]
    for number, name in enumerate(names):
        if name and name in names[:number]:
            fields.error(
                "duplicate-name",
                f"{spellings[0]}[{number}]",
                f"has the name {name!r}, which an earlier member already has; give each member its own name.",
            )
    return "composite", {"members": members, "aggregator": _parse_aggregator(fields, names)}, ""


def _parse_member(fields: AssertionFields, place: str, row: dict[str, Any]) -> dict[str, Any]:
    outer = fields.within(place, row, ())
    outer.ignore_fields(("weight",), _UNUSED_MEMBER_MESSAGE)
    if "name" not in outer:
        outer.report_missing("name", "a text that no other member uses")
    row = copy(row)  # with its line numbers
    row.pop("weight", None)
    assertion = _parse_assertion(row, outer.path_to(""), fields.problem_log, fields.source)
    return {"name": assertion.label or "", "assertion": _to_member_row(assertion)}


def _to_member_row(assertion: Assertion) -> dict[str, Any]:
    """Returns a member's assertion as the grader takes it, without fields at their defaults."""
    row: dict[str, Any] = {"grader": assertion.grader, "params": assertion.params}
    for name in ("required", "negated", "pass_at"):
        value = getattr(assertion, name)
        if value is not None and value is not False:
            row[name] = value
    return row


_AGGREGATOR_TYPE: Final[Fields] = {
    "type": schemas.words("How the scores of the members are combined into one.")
}
AGGREGATOR_FIELDS: Final[dict[str, Fields]] = {
    "weighted_average": {
        **_AGGREGATOR_TYPE,
        "weights": schemas.of_type(
            "object",
            "The weight of each member, by name.",
            additionalProperties=schemas.limit_rules(NOT_NEGATIVE),
        ),
    },
    "threshold": {
        **_AGGREGATOR_TYPE,
        "threshold": {**schemas.limit_rules(SHARE), "description": "The share of members that must pass."},
    },
    "code-grader": {
        **_AGGREGATOR_TYPE,
        **spec_fields(_PROGRAM_FIELDS),
        "path": spec_fields(_PROGRAM_FIELDS)["command"],
    },
    "llm-grader": {**_AGGREGATOR_TYPE, **spec_fields((_PROMPT, _JUDGE)), "model": schemas.UNUSED},
}
"""The fields of a composite's `aggregator` by its type."""
AGGREGATOR_RULES: Final[dict[str, FieldSchema]] = {
    "threshold": {"required": ["threshold"]},
    "code-grader": {"anyOf": [{"required": ["command"]}, {"required": ["path"]}]},
    "llm-grader": {"required": ["prompt"]},
}
"""What must hold for these fields together."""


def _parse_aggregator(fields: AssertionFields, names: list[str]) -> dict[str, Any]:
    known = ", ".join(AGGREGATOR_FIELDS)
    if "aggregator" not in fields:
        fields.report_missing("aggregator", f"an object whose `type` is one of {known}")
        return {}
    row = fields.peek("aggregator")
    type_name = row.get("type") if isinstance(row, dict) else None
    kind = type_name.replace("_", "-") if isinstance(type_name, str) else ""
    if kind == "weighted-average":
        kind = "weighted_average"
    inner = fields.child("aggregator", AGGREGATOR_FIELDS.get(kind, _AGGREGATOR_TYPE))
    if inner is None:
        return {}
    if kind in AGGREGATOR_FIELDS:
        inner.pop("type")
        aggregator = _parse_aggregator_params(kind, inner, names)
        inner.close()
        return aggregator
    if kind in _OLD_TYPES:
        inner.error(
            "old-type", "type", f"is {type_name!r}, which is an old name; write {_OLD_TYPES[kind]!r}."
        )
    elif isinstance(type_name, str):
        message = f"is {quote_value(type_name)}. {suggestion(type_name, tuple(AGGREGATOR_FIELDS))}"
        inner.error("unknown-type", "type", message)
    else:
        inner.error("missing-field", "type", f"is not text; it must be one of {known}.")
    return {}


def _parse_aggregator_params(kind: str, inner: AssertionFields, names: list[str]) -> dict[str, Any]:
    if kind == "weighted_average":
        weights = _parse_weights(inner, names)
        return {"type": kind, "weights": weights} if weights else {"type": kind}
    if kind == "threshold":
        share = _read_required_number(
            inner, "threshold", SHARE, "the share of members that must pass, from 0 to 1"
        )
        return {"type": kind, "threshold": share}
    if kind == "code-grader":
        command = _read_command(inner, "path" if "path" in inner else "command")
        return {"type": "program", "command": command, **inner.values(_PLACE_FIELDS)}
    inner.ignore_fields(("model",))
    if "prompt" not in inner:
        inner.report_missing("prompt", "the judge prompt, or the path of a file that contains it")
    prompt = _read_prompt(inner, "prompt") or ""
    return {"type": "llm_grader", "prompt": prompt, **inner.values((_JUDGE,))}


def _parse_weights(inner: AssertionFields, names: list[str]) -> dict[str, float]:
    weight_fields = inner.child("weights", names)
    if weight_fields is None:
        return {}
    weights = weight_fields.all_values(
        [FieldSpec(name, FieldReader.limited_number, NOT_NEGATIVE) for name in names]
    )
    if names and len(weights) == len(set(names)) and not any(weights.values()):
        inner.error("bad-number", "weights", "are all 0; give at least one member a weight.")
    return weights


def _parse_assert_set(fields: AssertionFields) -> GraderSpec:
    """Parses `assert-set`: the weighted mean of its members."""
    if "config" in fields:
        _refuse(fields, "config", "Set it in each assertion that needs it.")
    value = fields.peek("assert")
    if not isinstance(value, list) or not value:
        fields.rows("assert", "a list of assertions")
        return "composite", {"members": [], "aggregator": {"type": "weighted_average"}}, ""
    place = fields.path_to("assert")
    members: dict[str, Assertion] = {}
    assertions = parse_assertions(fields.pop("assert"), place, fields.problem_log, fields.source)
    for number, assertion in enumerate(assertions, 1):
        name = assertion.label or assertion.grader
        members[f"{name}-{number}" if name in members else name] = assertion
    weights = {name: assertion.weight for name, assertion in members.items()}
    if not any(weights.values()) and not fields.problem_log.has_error_at(place):
        fields.error(
            "bad-number", "assert", "has only members with weight 0; give at least one of them a weight."
        )
    aggregator: dict[str, Any] = {"type": "weighted_average"}
    if any(weight != 1 for weight in weights.values()):
        aggregator["weights"] = weights
    rows = [{"name": name, "assertion": _to_member_row(assertion)} for name, assertion in members.items()]
    return "composite", {"members": rows, "aggregator": aggregator}, ""


# --- what an agent did -------------------------------------------------------------------------------------

_TRAJECTORY_MODES: Final = ("any_order", "in_order", "exact", "superset", "subset")
_ARGS_MATCHES: Final = ("exact", "ignore", "superset", "subset")
_PATTERN_CHARACTERS: Final = frozenset("*?")


_STEPS_MATCH: Final = schemas.either(schemas.choice(_ARGS_MATCHES), schemas.list_of(schemas.text()))


@accepts(_STEPS_MATCH)
def _read_args_match(fields: AssertionFields, name: str) -> str | list[str]:
    if isinstance(fields.peek(name), list):
        return list(fields.texts(name))
    return fields.choice(name, _ARGS_MATCHES)


@accepts(schemas.either({"type": "object"}, {"const": "any"}))
def _read_args(fields: AssertionFields, name: str) -> dict[str, Any] | None:
    args: Any = fields.pop(name)
    if isinstance(args, dict):
        return dict(to_plain(args))
    if args != "any":
        fields.report_wrong_type(name, args, "an object, or `any`")
    return None


_TRAJECTORY_FIELDS: Final = (
    FieldSpec(
        "mode", FieldReader.choice, _TRAJECTORY_MODES, required=True, about="How tool calls are compared."
    ),
    FieldSpec(
        "partial_credit",
        FieldReader.boolean,
        True,
        default=True,
        about="Whether only some of the calls have to match.",
    ),
    FieldSpec("args_match", _read_args_match, about="How the arguments of calls are compared."),
)
CALL_FIELDS: Final = (
    FieldSpec("tool", FieldReader.required_text, required=True, about="The name of the tool."),
    FieldSpec("args", _read_args, about="The arguments, or `any`."),
    FieldSpec("args_match", _read_args_match, about="How the arguments are compared."),
    FieldSpec(
        "max_duration_ms",
        FieldReader.limited_number,
        NOT_NEGATIVE,
        about="Maximum duration of the call, in milliseconds.",
    ),
)
_TRAJECTORY_NAMES: Final[Fields] = {
    **spec_fields(_TRAJECTORY_FIELDS),
    "minimums": schemas.of_type(
        "object",
        "In mode any_order, the minimum number of calls for each tool.",
        additionalProperties={"type": "integer", "minimum": 1},
        minProperties=1,
    ),
    "expected": schemas.list_of(schemas.ref("call"), "The expected calls, in all other modes."),
}


def _parse_tool_trajectory(fields: AssertionFields) -> GraderSpec:
    """Parses `tool-trajectory`: which tools were called."""
    params = fields.values(_TRAJECTORY_FIELDS)
    mode = params["mode"]
    if not mode:
        fields.ignore_fields(("minimums", "expected"))
    elif mode == "any_order":
        fields.ignore_fields(("expected",), "has no effect in mode any_order; use `minimums`.")
        params["minimums"] = _parse_minimums(fields)
    else:
        fields.ignore_fields(("minimums",), f"has no effect in mode {mode}; use `expected`.")
        if fields.peek("expected") == [] and mode in ("exact", "subset"):
            params["expected"] = fields.pop("expected")  # no tool may be called
        else:
            params["expected"] = fields.objects("expected", "a list of objects with `tool`", CALL_FIELDS)
    return "tool_trajectory", params, ""


def _parse_minimums(fields: AssertionFields) -> dict[str, int]:
    expected = "an object with the minimum number of calls for each tool"
    if "minimums" not in fields:
        fields.report_missing("minimums", expected)
    inner = fields.child("minimums", ())
    if inner is None:
        return {}
    minimums = {name: inner.integer(name, 1) or 1 for name in inner.remaining_names()}
    if not minimums:
        fields.error("empty-list", "minimums", f"is empty; it must be {expected}.")
    return minimums


def _parse_tool_used(fields: AssertionFields) -> GraderSpec:
    """Parses `trajectory:tool-used`: names of tools, or one tool with `min`."""
    value = fields.peek("value")
    minimums: dict[str, int] = {}
    if isinstance(value, dict):
        inner = fields.child("value", ("name", "min"))
        assert inner is not None
        name = _parse_tool(inner)
        if "max" in inner:
            _refuse(inner, "max", "Remove it, or count the calls with a `script`.")
        minimums[name] = inner.integer("min", 1) or 1
        inner.close()
    elif isinstance(value, str):
        minimums[_check_tool_name(fields, "value", fields.required_text("value"))] = 1
    else:
        for place, item in fields.rows("value", "the name of a tool, a list of names, or an object"):
            if isinstance(item, str) and item.strip():
                minimums[_check_tool_name(fields, place, item)] = 1
            else:
                fields.report_wrong_type(place, item, "the name of a tool")
        if len(minimums) > 1 and fields.negated:
            _refuse(fields, "value", "To forbid several tools, write one assertion for each.")
    return _make_trajectory(mode="any_order", minimums=minimums)


def _parse_tool_sequence(fields: AssertionFields) -> GraderSpec:
    """Parses `trajectory:tool-sequence`: tools in order, with or without others between them."""
    outer: AssertionFields | None
    if isinstance(fields.peek("value"), list):
        steps = {"steps": fields.pop("value")}
        outer = AssertionFields(steps, fields.problem_log, fields.path_to(""), fields.source, ())
    else:
        outer = fields.child("value", ("mode", "steps"))
    if outer is None:
        fields.report_missing("value", "a list of tools, or an object with `steps`")
        return _make_trajectory(mode="in_order", expected=[])
    mode = outer.choice("mode", ("in_order", "exact")) if "mode" in outer else "in_order"
    expected: list[dict[str, Any]] = []
    for place, item in outer.rows("steps", "a list of tools"):
        if isinstance(item, dict):
            step = outer.within(place, item, ("name",))
            expected.append({"tool": _parse_tool(step)})
            step.close()
        elif isinstance(item, str) and item.strip():
            expected.append({"tool": _check_tool_name(outer, place, item)})
        else:
            outer.report_wrong_type(place, item, "the name of a tool")
    outer.close()
    return _make_trajectory(mode=mode, expected=expected)


def _parse_tool_args_match(fields: AssertionFields) -> GraderSpec:
    """Parses `trajectory:tool-args-match`: one call of a tool with these arguments."""
    inner = fields.child("value", ("name", "args", "mode"))
    if inner is None:
        if "value" not in fields and not fields.problem_log.has_error_at(fields.path_to("value")):
            fields.report_missing("value", "an object with `name` and `args`")
        return _make_trajectory(mode="superset", expected=[])
    name = _parse_tool(inner)
    if "arguments" in inner:
        inner.rename("arguments", "args")
    for other in ("defaults", "ignore"):
        if other in inner:
            _refuse(inner, other, "Remove it, and list only the arguments that matter in `args`.")
    args = to_plain(inner.pop("args"))
    if not isinstance(args, dict):
        inner.report_wrong_type("args", args, "an object with the arguments")
        args = {}
    exact = "mode" in inner and inner.choice("mode", ("partial", "exact")) == "exact"
    if not exact and any(isinstance(value, dict | list) for value in args.values()):
        _refuse(
            inner, "args", "Nested objects and lists are always compared as a whole; write `mode: exact`."
        )
    inner.close()
    step = {"tool": name, "args": args, "args_match": "exact" if exact else "superset"}
    return _make_trajectory(mode="superset", expected=[step])


def _make_trajectory(**params: Any) -> GraderSpec:
    return "tool_trajectory", params | {"partial_credit": False}, ""


def _parse_tool(fields: AssertionFields) -> str:
    """Returns the tool named by `name`, or by a `pattern` without wildcards."""
    if "pattern" in fields and "name" not in fields:
        fields.rename("pattern", "name")
    if fields.peek("type") == "tool":
        fields.pop("type")
    return _check_tool_name(fields, "name", fields.required_text("name"))


def _check_tool_name(fields: AssertionFields, place: str, name: str) -> str:
    if _PATTERN_CHARACTERS.intersection(name):
        _refuse(fields, place, f"Write the full name of the tool instead of the pattern {quote_value(name)}.")
    return name.strip()


def _parse_skill_used(fields: AssertionFields) -> GraderSpec:
    """Parses `skill-used`: the name of one skill."""
    if "value" in fields and not isinstance(fields.peek("value"), str):
        _refuse(fields, "value", "Write the name of one skill, and one assertion for each skill.")
        return "skill_trigger", {"skill": ""}, ""
    skill = fields.required_text("value").strip()
    return "skill_trigger", {"skill": skill}, skill


_SKILL_FIELDS: Final = (
    FieldSpec("skill", FieldReader.required_text, required=True, about="The name of the skill."),
    FieldSpec(
        "should_trigger",
        FieldReader.boolean,
        True,
        default=True,
        about="Whether the agent must use the skill.",
    ),
)


# --- fields of a JSON answer -------------------------------------------------------------------------------


@accepts(schemas.list_of(schemas.text()))
def _read_formats(fields: AssertionFields, name: str) -> list[str]:
    return list(fields.texts(name))


ACCURACY_FIELDS: Final = (
    FieldSpec("path", FieldReader.required_text, required=True, about="The field, such as items[0].price."),
    FieldSpec(
        "match",
        FieldReader.choice,
        ("exact", "numeric_tolerance", "date"),
        required=True,
        about="How the values are compared.",
    ),
    FieldSpec(
        "required", FieldReader.boolean, True, default=True, about="Whether the field must be present."
    ),
    FieldSpec("weight", FieldReader.limited_number, NOT_NEGATIVE, about="The weight of the field."),
    FieldSpec(
        "tolerance",
        FieldReader.limited_number,
        NOT_NEGATIVE,
        about="How far a number may differ from the expected one.",
    ),
    FieldSpec(
        "relative", FieldReader.boolean, False, default=False, about="Whether the tolerance is relative."
    ),
    FieldSpec("formats", _read_formats, default=[], about="Date formats, such as DD.MM.YYYY."),
)
_AGGREGATIONS: Final = ("weighted_average", "all_or_nothing")
_EXPECTED_FIELDS: Final = "a list of objects with `path` and `match`"
_JSON_FIELDS: Final = (
    FieldSpec(
        "fields",
        AssertionFields.objects,
        _EXPECTED_FIELDS,
        ACCURACY_FIELDS,
        required=True,
        about="The fields of the answer to compare.",
    ),
    FieldSpec(
        "aggregation", FieldReader.choice, _AGGREGATIONS, about="How the fields are combined into one score."
    ),
)


# --- what an answer took -----------------------------------------------------------------------------------


def _read_required_number(fields: AssertionFields, name: str, limit: NumberLimit, expected: str) -> float:
    if name not in fields:
        fields.report_missing(name, expected)
    return fields.limited_number(name, limit) or 0.0


@accepts(schemas.limit_rules(NOT_NEGATIVE))
def _read_limit(fields: AssertionFields, name: str, expected: str) -> float:
    return _read_required_number(fields, name, NOT_NEGATIVE, expected)


_LATENCY_FIELDS: Final = (
    FieldSpec(
        "threshold",
        _read_limit,
        "a number of milliseconds",
        to="threshold_ms",
        required=True,
        about="Maximum duration of an answer, in milliseconds.",
    ),
)
_COST_FIELDS: Final = (
    FieldSpec(
        "budget",
        _read_limit,
        "an amount in US dollars",
        to="budget_usd",
        required=True,
        about="Maximum cost of an answer, in US dollars.",
    ),
)
_TOKEN_LIMITS: Final = (
    FieldSpec("max_total", FieldReader.integer, about="Maximum number of tokens in total."),
    FieldSpec("max_input", FieldReader.integer, about="Maximum number of input tokens."),
    FieldSpec("max_output", FieldReader.integer, about="Maximum number of output tokens."),
)
_METRIC_LIMITS: Final = (
    FieldSpec("max_tool_calls", FieldReader.integer, about="Maximum number of tool calls."),
    FieldSpec("max_llm_calls", FieldReader.integer, about="Maximum number of model calls."),
    FieldSpec("max_tokens", FieldReader.integer, about="Maximum number of tokens in total."),
    FieldSpec("max_cost_usd", FieldReader.limited_number, NOT_NEGATIVE, about="Maximum cost."),
    FieldSpec("max_duration_ms", FieldReader.limited_number, NOT_NEGATIVE, about="Maximum duration."),
    FieldSpec(
        "target_exploration_ratio",
        FieldReader.limited_number,
        SHARE,
        about="The share of tool calls that only read.",
    ),
)
_EXPLORATION_TOLERANCE: Final = FieldSpec(
    "exploration_tolerance",
    FieldReader.limited_number,
    SHARE,
    about="How far that share may differ from the expected one.",
)


def _parse_limits(fields: AssertionFields, limits: Sequence[FieldSpec]) -> dict[str, Any]:
    if not any(limit.name in fields for limit in limits):
        every = ", ".join(limit.name for limit in limits)
        message = f"is missing, and no other limit is set; set at least one of {every}."
        fields.error("missing-field", limits[0].name, message)
    return fields.values(limits)


def _parse_token_usage(fields: AssertionFields) -> GraderSpec:
    """Parses `token-usage`: a limit on tokens; the total counts input, output and cached tokens."""
    params = _parse_limits(fields, _TOKEN_LIMITS)
    return "token_usage", params | ({"add_cached": True} if "max_total" in params else {}), ""


def _parse_execution_metrics(fields: AssertionFields) -> GraderSpec:
    """Parses `execution-metrics`: several limits at once."""
    params = _parse_limits(fields, _METRIC_LIMITS)
    return "execution_metrics", params | fields.values((_EXPLORATION_TOLERANCE,)), ""


# --- all types ---------------------------------------------------------------------------------------------

_TEXT: Final = FieldSpec("value", _read_text, required=True, about="The text to search for.")
_VISIBLE_TEXT: Final = FieldSpec("value", _read_visible_text, required=True, about="The text to search for.")
_TEXTS: Final = FieldSpec(
    "value", _read_text_list, to="values", required=True, about="The texts to search for."
)
_NUMBER_FIELDS: Final = (
    _TEXT,
    FieldSpec(
        "rel_tolerance",
        FieldReader.limited_number,
        NOT_NEGATIVE,
        about="The tolerance, as a share of the expected number.",
    ),
)
_CHECKLIST: Final = schemas.ref("rubrics", "What the answer must do.")
_REGEX_NAMES: Final[Fields] = {
    **spec_fields((_TEXT,)),
    "flags": schemas.text("Flags of the regular expression, such as `i`."),
}
_JUDGE_NAMES: Final = spec_fields(_JUDGE_FIELDS)
_LLM_GRADER_NAMES: Final[Fields] = {**spec_fields(_LLM_GRADER_FIELDS), "rubrics": _CHECKLIST}
_PROGRAM_NAMES: Final[Fields] = {
    **spec_fields((*_PROGRAM_FIELDS, _CONFIG)),
    "target": schemas.either(
        {"type": "boolean"},
        schemas.object_of(spec_fields(_JUDGE_ACCESS_FIELDS)),
        about="Whether the program may call a judge, and how many times.",
    ),
}
_MEMBERS: Final = schemas.list_of(schemas.ref("member"), "The assertions, each with a name.", minItems=1)
_TOOL: Final = schemas.words("The name of a tool.")
_STEP_NAMES: Final[Fields] = {"name": _TOOL, "pattern": _TOOL, "type": {"const": "tool"}}
_NAMED: Final[FieldSchema] = {"anyOf": [{"required": ["name"]}, {"required": ["pattern"]}]}
_STEPS: Final = schemas.list_of(
    schemas.either(_TOOL, schemas.object_of(_STEP_NAMES, **_NAMED)), "The tools.", minItems=1
)
_ARGUMENTS: Final = schemas.of_type("object", "The arguments.")
_TOOL_USED: Final = schemas.either(
    _TOOL,
    schemas.list_of(_TOOL, minItems=1),
    schemas.object_of({**_STEP_NAMES, "min": {"type": "integer", "minimum": 1}}, **_NAMED),
    about="A tool, a list of tools, or an object with `name` and `min`.",
)
_TOOL_SEQUENCE: Final = schemas.either(
    _STEPS,
    schemas.object_of({"mode": schemas.choice(("in_order", "exact")), "steps": _STEPS}, ["steps"]),
    about="The tools in the order of their calls.",
)
_TOOL_ARGS: Final = schemas.object_of(
    {
        **_STEP_NAMES,
        "args": _ARGUMENTS,
        "arguments": _ARGUMENTS,
        "mode": schemas.choice(("partial", "exact")),
    },
    description="A tool and the arguments of one of its calls.",
    allOf=[_NAMED, {"anyOf": [{"required": ["args"]}, {"required": ["arguments"]}]}],
)


def _one_of(specs: Sequence[FieldSpec]) -> FieldSchema:
    """Returns the rule that at least one of the fields is there."""
    return {"anyOf": [{"required": [spec.name]} for spec in specs]}


_NEEDS_VALUE: Final[FieldSchema] = {"required": ["value"]}
_UNUSED_JUDGE_FIELDS: Final = ("model", "max_steps", "preprocessors")


def _make_text_type(grader: str, field: FieldSpec, **constants: Any) -> AssertionType:
    return AssertionType(grader, (field,), constants, label_param=field.to, unused_fields=("flags",))


_make_fraction_type: Final = partial(AssertionType, pass_at=DEFAULT_PASS_AT)
"""Makes the type of a grader that can give a fraction."""
_make_judge_type: Final = partial(_make_fraction_type, unused_fields=_UNUSED_JUDGE_FIELDS)
_RUBRICS: Final = _make_judge_type(
    "rubrics",
    _JUDGE_FIELDS,
    parse=_parse_rubrics,
    names={**_JUDGE_NAMES, "criteria": _CHECKLIST, "rubrics": _CHECKLIST},
    rules={"anyOf": [{"required": ["criteria"]}, {"required": ["rubrics"]}]},
)
VERSION_4_TYPES: Final[dict[str, AssertionType]] = {
    "contains": _make_text_type("contains", _TEXT),
    "contains-any": _make_text_type("contains_any", _TEXTS),
    "contains-all": _make_text_type("contains_all", _TEXTS),
    "icontains": _make_text_type("contains", _TEXT, ignore_case=True),
    "icontains-any": _make_text_type("contains_any", _TEXTS, ignore_case=True),
    "icontains-all": _make_text_type("contains_all", _TEXTS, ignore_case=True),
    "starts-with": _make_text_type("starts_with", _VISIBLE_TEXT),
    "ends-with": _make_text_type("ends_with", _VISIBLE_TEXT),
    "equals": _make_text_type("exact", _VISIBLE_TEXT),
    "regex": AssertionType("regex", parse=_parse_regex, names=_REGEX_NAMES, rules=_NEEDS_VALUE),
    "numeric-match": AssertionType("numeric_match", _NUMBER_FIELDS, label_param="value"),
    "numeric-equal": AssertionType("numeric_equal", _NUMBER_FIELDS, label_param="value"),
    "is-json": AssertionType("is_json", (), {"strip_fences": False}, unused_fields=("value", "flags")),
    "llm-grader": _make_judge_type(
        "llm_grader",
        _LLM_GRADER_FIELDS,
        parse=_parse_llm_grader,
        names=_LLM_GRADER_NAMES,
        aliases=(),
        is_open=True,
        closed_by="rubrics",
    ),
    "rubrics": _RUBRICS,
    "rubric": _RUBRICS,
    "code-grader": _make_fraction_type(
        "program",
        _PROGRAM_FIELDS,
        parse=_parse_code_grader,
        names={**_PROGRAM_NAMES, "script": {**_PROGRAM_NAMES["command"], "deprecated": True}},
        rules={"anyOf": [{"required": ["command"]}, {"required": ["script"]}]},
        unused_fields=("preprocessors",),
        aliases=(),
        is_open=True,
    ),
    "composite": _make_fraction_type(
        "composite",
        parse=_parse_composite,
        names={
            **dict.fromkeys(MEMBER_LIST_NAMES, _MEMBERS),
            "aggregator": schemas.ref("aggregator", "How the scores are combined into one."),
        },
        rules={
            "required": ["aggregator"],
            "anyOf": [{"required": [name]} for name in MEMBER_LIST_NAMES],
        },
    ),
    "tool-trajectory": _make_fraction_type(
        "tool_trajectory",
        parse=_parse_tool_trajectory,
        names=_TRAJECTORY_NAMES,
        rules={
            "required": ["mode"],
            "if": {"properties": {"mode": {"const": "any_order"}}},
            "then": {"required": ["minimums"]},
            "else": {"required": ["expected"]},
        },
    ),
    "field-accuracy": _make_fraction_type("field_accuracy", _JSON_FIELDS),
    "latency": AssertionType("latency", _LATENCY_FIELDS, misspellings=(("max_ms", "threshold"),)),
    "cost": AssertionType("cost", _COST_FIELDS, misspellings=(("max_usd", "budget"),)),
    "token-usage": AssertionType(
        "token_usage",
        _TOKEN_LIMITS,
        parse=_parse_token_usage,
        rules=_one_of(_TOKEN_LIMITS),
        misspellings=tuple((f"{limit.name}_tokens", limit.name) for limit in _TOKEN_LIMITS),
    ),
    "execution-metrics": _make_fraction_type(
        "execution_metrics",
        (*_METRIC_LIMITS, _EXPLORATION_TOLERANCE),
        parse=_parse_execution_metrics,
        rules=_one_of(_METRIC_LIMITS),
    ),
    "skill-trigger": AssertionType("skill_trigger", _SKILL_FIELDS, label_param="skill"),
}
_make_call_type: Final = partial(_make_fraction_type, "tool_trajectory", rules=_NEEDS_VALUE)
VERSION_5_TYPES: Final[dict[str, AssertionType]] = {
    "llm-rubric": _make_judge_type(
        "rubrics",
        parse=_parse_llm_rubric,
        names={
            **spec_fields(_LLM_GRADER_FIELDS),
            "value": schemas.text_or(_CHECKLIST, about="What the answer must do: a text or a list of texts."),
            "threshold": {**schemas.limit_rules(SHARE), **schemas.UNUSED},
        },
        is_open=True,
        closed_by="value",
    ),
    "script": _make_fraction_type(
        "program", parse=_parse_script, names=_PROGRAM_NAMES, rules={"required": ["command"]}, is_open=True
    ),
    "assert-set": AssertionType(
        "composite",
        parse=_parse_assert_set,
        names={
            "assert": {**schemas.ref("assertions", "The assertions of the set."), "minItems": 1},
            "config": schemas.REFUSED,
        },
        rules={"required": ["assert"]},
        pass_at=1.0,
        aliases=(*_NAME_ALIASES, ("threshold", "min_score")),
    ),
    "skill-used": AssertionType(
        "skill_trigger",
        parse=_parse_skill_used,
        names={"value": schemas.words("The name of the skill.")},
        rules=_NEEDS_VALUE,
    ),
    "trajectory:tool-used": _make_call_type(parse=_parse_tool_used, names={"value": _TOOL_USED}),
    "trajectory:tool-sequence": _make_call_type(parse=_parse_tool_sequence, names={"value": _TOOL_SEQUENCE}),
    "trajectory:tool-args-match": _make_call_type(parse=_parse_tool_args_match, names={"value": _TOOL_ARGS}),
}
TYPES: Final = (*VERSION_4_TYPES, *VERSION_5_TYPES)
TYPES_BY_SPELLING: Final = {
    spelling: (kind, kind.field_names)
    for name, kind in (VERSION_4_TYPES | VERSION_5_TYPES).items()
    for spelling in (name, name.replace("-", "_"))
}

"""AgentV's types that call a judge, run a program or measure, to graders with their parameters.

One function for each type, which takes its own fields of an assertion. The table of all types is in
`assertions.py`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from proctor.dialects.agentv.read.assertion_fields import (
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    AssertionFields,
    NumberLimit,
    as_text,
)
from proctor.dialects.agentv.read.rubrics import parse_rubric_items
from proctor.errors import suggestion
from proctor.yaml12 import to_plain

GraderSpec = tuple[str, dict[str, Any], str]
"""A grader's name, its parameters, and a suffix for the assertion's default name."""

OLD_TYPES: Final = {"code-judge": "code-grader", "llm-judge": "llm-grader"}
"""Types that were renamed, with their new names."""

_TEMPERATURE: Final[NumberLimit] = ("from 0 to 2", lambda value: 0 <= value <= 2)
_PROMPT_PATH = re.compile(
    r"\S+\.(md|markdown|txt|text|prompt|tmpl|tpl|j2|jinja2?|hbs|mustache|liquid|html?|xml|json|ya?ml)"
    r"|\.{1,2}/\S+",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{\{[^}]*\}\}")
_MAX_PATH_LENGTH: Final = 300
_PLACEHOLDER = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][\w.-]*)\s*\}\}")
PROMPT_VARIABLES: Final = frozenset(
    {
        *("input", "output", "expected_output", "criteria", "file_changes", "tool_calls", "config"),
        *("metadata", "metadata_json", "rubrics", "rubrics_json", "EVALUATOR_RESULTS_JSON"),
        *("input_text", "output_text", "expected_output_text"),
    }
)
"""The variables that a prompt may use; the last one is for judges of composites."""


# --- judges ------------------------------------------------------------------------------------------------


def parse_llm_grader(fields: AssertionFields) -> GraderSpec:
    """Parses `llm-grader`: a judge with a prompt; with `rubrics` it is a checklist."""
    if "rubrics" in fields:
        fields.ignore_fields(("prompt", "config"), "has no effect beside `rubrics`; remove one of them.")
        return parse_rubrics(fields)
    params: dict[str, Any] = {}
    prompt = read_prompt(fields)
    if prompt is not None:
        params["prompt"] = prompt
    _parse_judge(fields, params)
    config = fields.config()
    if config:
        params["config"] = config
    return "llm_grader", params, ""


def parse_rubrics(fields: AssertionFields) -> GraderSpec:
    """Parses `rubrics`: a checklist in `criteria`, or in `rubrics` in older files."""
    name = "criteria" if "criteria" in fields or "rubrics" not in fields else "rubrics"
    if name == "criteria" and "rubrics" in fields:
        fields.pop("rubrics")
        fields.error("conflicting-fields", "rubrics", "and `criteria` mean the same; keep one of them.")
    params: dict[str, Any] = {"items": parse_rubric_items(fields, name)}
    _parse_judge(fields, params)
    return "rubrics", params, ""


def _parse_judge(fields: AssertionFields, params: dict[str, Any]) -> None:
    judge = fields.non_blank_text("target")
    if judge is not None:
        params["judge"] = judge
    temperature = fields.limited_number("temperature", _TEMPERATURE)
    if temperature is not None:
        params["temperature"] = float(temperature)


def read_prompt(fields: AssertionFields) -> str | None:
    """Returns the prompt: the text of the file that `prompt` names, or `prompt` itself; None without one.

    `file://` marks a file. Any other single line is looked up as well, as most suites refer to their prompts
    that way. What looks like a path and does not exist is an error, never a prompt.
    """
    if isinstance(fields.peek("prompt"), dict):
        fields.pop("prompt")
        fields.error(
            "not-supported",
            "prompt",
            "is made by a program, which is not supported; write its text or a path.",
        )
        return None
    value = fields.non_blank_text("prompt")
    if value is None or "\n" in value.strip() or len(value) > _MAX_PATH_LENGTH:
        return None if value is None else _check_placeholders(fields, value)
    reference = value.strip().removeprefix("file://")
    is_file = reference != value.strip() or _PROMPT_PATH.fullmatch(_REFERENCE.sub("x", reference)) is not None
    path: str | None = reference
    if "${{" in reference:
        if not is_file:
            return _check_placeholders(fields, value)
        path = fields.fill("prompt", reference)
    file = fields.source.find_file(path) if path else None
    if file is not None:
        return _check_placeholders(fields, _decode_prompt(fields, reference, file.data))
    if path is not None and is_file:
        fields.error(
            "missing-prompt-file",
            "prompt",
            f"names the file {reference!r}, which is neither in the suite's folder nor in one above it. "
            "Correct the path, or write the prompt itself.",
        )
    return _check_placeholders(fields, value)


def _check_placeholders(fields: AssertionFields, text: str) -> str:
    """Returns the text, and warns about each `{{ name }}` in it that has no value."""
    unknown = [
        name for name in sorted(set(_PLACEHOLDER.findall(text))) if not _is_known_variable(name, fields)
    ]
    if unknown:
        why = suggestion(unknown[0][:60], sorted(PROMPT_VARIABLES))
        if "." in unknown[0]:
            why = "A dot is for fields of `metadata` and of the grader's own `config` alone."
        fields.warn("unknown-variable", "prompt", f"has {{{{ {unknown[0]} }}}}, which stays as it is. {why}")
    return text


def _is_known_variable(name: str, fields: AssertionFields) -> bool:
    """Whether a name has a value. Any field of metadata may, as each test has its own."""
    first, _, path = name.partition(".")
    field, config = path.partition(".")[0], fields.peek("config")
    in_config = fields.peek(field) is not None or (isinstance(config, dict) and field in config)
    return (
        name in PROMPT_VARIABLES or (first == "metadata" and path != "") or (first == "config" and in_config)
    )


def _decode_prompt(fields: AssertionFields, name: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        fields.error(
            "bad-encoding",
            "prompt",
            f"names {name!r}, whose byte {error.start + 1} is not UTF-8; save it so.",
        )
        return ""
    if not text.strip():
        fields.error(
            "empty-value", "prompt", f"names the file {name!r}, which is empty; write the prompt in it."
        )
    return text


# --- programs ----------------------------------------------------------------------------------------------


def parse_code_grader(fields: AssertionFields) -> GraderSpec:
    """Parses `code-grader`: a program that reads and writes JSON."""
    if "command" in fields:
        fields.ignore_fields(("script",), "has no effect beside `command`; remove it.")
    elif "script" in fields:
        fields.warn("deprecated", "script", "is an older spelling; write `command`.")
        fields.rename("script", "command")
    params = parse_program(fields)
    _parse_judge_access(fields, params)
    config = fields.config()
    if config:
        params["config"] = config
    return "program", params, ""


DEFAULT_MAX_CALLS: Final = 50
"""How many times a program may call a judge, unless the suite says otherwise."""


def _parse_judge_access(fields: AssertionFields, params: dict[str, Any]) -> None:
    """Reads a program's `target` into the parameters: whether it may call a judge, how often, and which."""
    if isinstance(fields.peek("target"), dict):
        inner = fields.child("target", ("max_calls", "judge"))
        assert inner is not None
        params["max_calls"] = inner.integer("max_calls", least=1) or DEFAULT_MAX_CALLS
        judge = inner.non_blank_text("judge")
        if judge is not None:
            params["judge"] = judge
        inner.close()
    elif "target" in fields:
        value = fields.pop("target")
        if value is True:
            params["max_calls"] = DEFAULT_MAX_CALLS
        elif value is not False:
            fields.report_wrong_type("target", value, "true, false, or an object with `max_calls`")


def parse_program(fields: AssertionFields, *names: str) -> dict[str, Any]:
    """Returns a program's command, folder and time limit; `names` are other names of `command`."""
    name = next((spelling for spelling in names if spelling in fields), "command")
    params: dict[str, Any] = {"command": _parse_command(fields, name)}
    cwd = fields.non_blank_text("cwd")
    if cwd is not None:
        params["cwd"] = cwd
    parse_timeout(fields, params)
    return params


def parse_timeout(fields: AssertionFields, params: dict[str, Any]) -> None:
    """Adds a program's time limit to the parameters, if it has one."""
    timeout = fields.limited_number("timeout_seconds", POSITIVE)
    if timeout is not None:
        params["timeout_s"] = float(timeout)


def _parse_command(fields: AssertionFields, name: str) -> list[str]:
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
        fields.error("missing-field", f"{name}[0]", "is blank; it must be the program.")
    return words


# --- what an agent did -------------------------------------------------------------------------------------

_TRAJECTORY_MODES: Final = ("any_order", "in_order", "exact", "superset", "subset")
_ARGS_MATCHES: Final = ("exact", "ignore", "superset", "subset")
_CALL_FIELDS: Final = ("tool", "args", "args_match", "max_duration_ms")


def parse_tool_trajectory(fields: AssertionFields) -> GraderSpec:
    """Parses `tool-trajectory`: which tools were called."""
    mode = fields.choice("mode", _TRAJECTORY_MODES)
    params: dict[str, Any] = {"mode": mode}
    if not fields.boolean("partial_credit", True):
        params["partial_credit"] = False
    _parse_args_match(fields, params)
    if not mode:
        fields.ignore_fields(("minimums", "expected"))
    elif mode == "any_order":
        fields.ignore_fields(("expected",), "has no effect in mode any_order; use `minimums`.")
        params["minimums"] = _parse_minimums(fields)
    else:
        fields.ignore_fields(("minimums",), f"has no effect in mode {mode}; use `expected`.")
        if fields.peek("expected") == [] and mode in ("exact", "subset"):
            params["expected"] = fields.pop("expected")  # no tool may be called
            return "tool_trajectory", params, ""
        calls = fields.children("expected", "a list of objects with `tool`", _CALL_FIELDS)
        params["expected"] = [_parse_call(call) for call in calls]
    return "tool_trajectory", params, ""


def _parse_minimums(fields: AssertionFields) -> dict[str, int]:
    expected = "an object that says how often each tool must be called"
    if "minimums" not in fields:
        fields.report_missing("minimums", expected)
    inner = fields.child("minimums", ())
    if inner is None:
        return {}
    minimums = {name: inner.integer(name, least=1) or 1 for name in inner.remaining_names()}
    if not minimums:
        fields.error("empty-list", "minimums", f"is empty; it must be {expected}.")
    return minimums


def _parse_call(fields: AssertionFields) -> dict[str, Any]:
    call: dict[str, Any] = {"tool": fields.required_text("tool")}
    if "args" in fields:
        args = fields.pop("args")
        if isinstance(args, dict):
            call["args"] = to_plain(args)
        elif args != "any":
            fields.report_wrong_type("args", args, "an object, or `any`")
    _parse_args_match(fields, call)
    longest = fields.limited_number("max_duration_ms", NOT_NEGATIVE)
    if longest is not None:
        call["max_duration_ms"] = float(longest)
    fields.close()
    return call


def _parse_args_match(fields: AssertionFields, params: dict[str, Any]) -> None:
    if "args_match" not in fields:
        return
    if isinstance(fields.peek("args_match"), list):
        params["args_match"] = list(fields.texts("args_match"))
    else:
        params["args_match"] = fields.choice("args_match", _ARGS_MATCHES)


def parse_skill_trigger(fields: AssertionFields) -> GraderSpec:
    """Parses `skill-trigger`: whether a skill was used."""
    skill = fields.required_text("skill")
    params: dict[str, Any] = {"skill": skill}
    if not fields.boolean("should_trigger", True):
        params["should_trigger"] = False
    return "skill_trigger", params, skill


# --- fields of a JSON answer -------------------------------------------------------------------------------

_FIELD_KEYS: Final = ("path", "match", "required", "weight", "tolerance", "relative", "formats")
_FIELD_MATCHES: Final = ("exact", "numeric_tolerance", "date")


def parse_field_accuracy(fields: AssertionFields) -> GraderSpec:
    """Parses `field-accuracy`: fields of a JSON answer against those of the expected output."""
    expected = "a list of objects with `path` and `match`"
    params: dict[str, Any] = {
        "fields": [_parse_field(entry) for entry in fields.children("fields", expected, _FIELD_KEYS)]
    }
    if "aggregation" in fields:
        params["aggregation"] = fields.choice("aggregation", ("weighted_average", "all_or_nothing"))
    return "field_accuracy", params, ""


def _parse_field(fields: AssertionFields) -> dict[str, Any]:
    field: dict[str, Any] = {
        "path": fields.required_text("path"),
        "match": fields.choice("match", _FIELD_MATCHES),
    }
    if not fields.boolean("required", True):
        field["required"] = False
    for name in ("weight", "tolerance"):
        number = fields.limited_number(name, NOT_NEGATIVE)
        if number is not None:
            field[name] = float(number)
    if fields.boolean("relative", False):
        field["relative"] = True
    formats = fields.texts("formats")
    if formats:
        field["formats"] = list(formats)
    fields.close()
    return field


# --- what an answer took -----------------------------------------------------------------------------------


def parse_latency(fields: AssertionFields) -> GraderSpec:
    """Parses `latency`: a maximum number of milliseconds."""
    limit = _parse_required_limit(fields, "threshold", "a number of milliseconds")
    return "latency", {"threshold_ms": limit}, ""


def parse_cost(fields: AssertionFields) -> GraderSpec:
    """Parses `cost`: a maximum cost in US dollars."""
    return "cost", {"budget_usd": _parse_required_limit(fields, "budget", "an amount in US dollars")}, ""


def _parse_required_limit(fields: AssertionFields, name: str, expected: str) -> float:
    if name not in fields:
        fields.report_missing(name, expected)
    return float(fields.limited_number(name, NOT_NEGATIVE) or 0)


TOKEN_LIMITS: Final = ("max_total", "max_input", "max_output")
METRIC_LIMITS: Final[dict[str, NumberLimit | None]] = {
    "max_tool_calls": None,
    "max_llm_calls": None,
    "max_tokens": None,
    "max_cost_usd": NOT_NEGATIVE,
    "max_duration_ms": NOT_NEGATIVE,
    "target_exploration_ratio": SHARE,
}
"""The limits of execution-metrics; None means a whole number."""


def parse_token_usage(fields: AssertionFields) -> GraderSpec:
    """Parses `token-usage`: a limit on tokens; the total counts input, output and cached tokens."""
    params = _parse_limits(fields, dict.fromkeys(TOKEN_LIMITS))
    return "token_usage", params | ({"add_cached": True} if "max_total" in params else {}), ""


def parse_execution_metrics(fields: AssertionFields) -> GraderSpec:
    """Parses `execution-metrics`: several limits at once."""
    params = _parse_limits(fields, METRIC_LIMITS)
    tolerance = fields.limited_number("exploration_tolerance", SHARE)
    if tolerance is not None:
        params["exploration_tolerance"] = float(tolerance)
    return "execution_metrics", params, ""


def _parse_limits(fields: AssertionFields, limits: dict[str, NumberLimit | None]) -> dict[str, Any]:
    names = [name for name in limits if name in fields]
    if not names:
        every = ", ".join(limits)
        first = next(iter(limits))
        fields.error("missing-field", first, f"is missing, and so is every other limit; give one of {every}.")
    params: dict[str, Any] = {}
    for name in names:
        limit = limits[name]
        value = fields.integer(name) if limit is None else fields.limited_number(name, limit)
        if value is not None:
            params[name] = value if limit is None else float(value)
    return params

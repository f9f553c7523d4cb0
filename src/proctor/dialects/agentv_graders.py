"""AgentV's types that ask a judge, run a program or measure, to graders with their parameters.

One function a type; each takes the fields of an assertion that are its own. The table of all types is in
`agentv_assertions`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from proctor.dialects.agentv_asked import NOT_NEGATIVE, POSITIVE, SHARE, Asked, Limit, as_text
from proctor.dialects.agentv_reading import plain
from proctor.dialects.agentv_rubrics import rubric_items
from proctor.errors import suggestion

Lowered = tuple[str, dict[str, Any], str]
"""A grader's name, its parameters, and what is added to the type for a name of its own."""

_TEMPERATURE: Final[Limit] = ("from 0 to 2", lambda value: 0 <= value <= 2)
_PATH = re.compile(
    r"\S+\.(md|markdown|txt|text|prompt|tmpl|tpl|j2|jinja2?|hbs|mustache|liquid|html?|xml|json|ya?ml)"
    r"|\.{1,2}/\S+",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{\{[^}]*\}\}")
_LONGEST_PATH: Final = 300
_VARIABLE = re.compile(r"(?<!\$)\{\{\s*([A-Za-z_][\w.]*)\s*\}\}")
VARIABLES: Final = frozenset(
    {
        *("input", "output", "expected_output", "criteria", "file_changes", "tool_calls", "config"),
        *("metadata", "metadata_json", "rubrics", "rubrics_json", "EVALUATOR_RESULTS_JSON"),
        *("input_text", "output_text", "expected_output_text"),
    }
)
"""What a prompt may name; the last is for judges of composites."""


# --- judges ------------------------------------------------------------------------------------------------


def llm_grader(asked: Asked) -> Lowered:
    """`llm-grader`: a judge with a prompt; with `rubrics` it is a checklist."""
    if "rubrics" in asked:
        asked.without_effect(("prompt", "config"), "has no effect beside `rubrics`; remove one of them.")
        return rubrics(asked)
    params: dict[str, Any] = {}
    prompt = prompt_text(asked)
    if prompt is not None:
        params["prompt"] = prompt
    _judged(asked, params)
    config = asked.config()
    if config:
        params["config"] = config
    return "llm_grader", params, ""


def rubrics(asked: Asked) -> Lowered:
    """`rubrics`: a checklist in `criteria`; older files have it in `rubrics`."""
    name = "criteria" if "criteria" in asked or "rubrics" not in asked else "rubrics"
    if name == "criteria" and "rubrics" in asked:
        asked.take("rubrics")
        asked.error("conflicting-fields", "rubrics", "and `criteria` mean the same; keep one of them.")
    params: dict[str, Any] = {"items": rubric_items(asked, name)}
    _judged(asked, params)
    return "rubrics", params, ""


def _judged(asked: Asked, params: dict[str, Any]) -> None:
    judge = asked.named("target")
    if judge is not None:
        params["judge"] = judge
    temperature = asked.limited("temperature", _TEMPERATURE)
    if temperature is not None:
        params["temperature"] = float(temperature)


def prompt_text(asked: Asked) -> str | None:
    """The text of `prompt`: that of the file it names, or itself; None where there is none.

    `file://` says that it is a file. Anything else on one line is looked for as well, since most suites name
    their prompts so; what looks like a path and is nowhere is an error and never a prompt.
    """
    if isinstance(asked.peek("prompt"), dict):
        asked.take("prompt")
        asked.error(
            "not-supported",
            "prompt",
            "is made by a program, which is not supported; write its text or a path.",
        )
        return None
    written = asked.named("prompt")
    if written is None or "\n" in written.strip() or len(written) > _LONGEST_PATH:
        return None if written is None else _checked(asked, written)
    named = written.strip().removeprefix("file://")
    is_file = named != written.strip() or _PATH.fullmatch(_REFERENCE.sub("x", named)) is not None
    path: str | None = named
    if "${{" in named:
        if not is_file:
            return _checked(asked, written)
        path = asked.filled("prompt", named)
    found = asked.source.find(path) if path else None
    if found is not None:
        return _checked(asked, _decoded(asked, named, found.data))
    if path is not None and is_file:
        asked.error(
            "missing-prompt-file",
            "prompt",
            f"names the file {named!r}, which is neither in the suite's folder nor in one above it. "
            "Correct the path, or write the prompt itself.",
        )
    return _checked(asked, written)


def _checked(asked: Asked, text: str) -> str:
    """The text; a warning names what it asks for as `{{ name }}` and nothing will put there."""
    unknown = sorted(set(_VARIABLE.findall(text)) - VARIABLES)
    if unknown:
        asked.warn(
            "unknown-variable",
            "prompt",
            f"has {{{{ {unknown[0]} }}}}, which stays as it is. "
            f"{suggestion(unknown[0][:60], sorted(VARIABLES))}",
        )
    return text


def _decoded(asked: Asked, name: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        asked.error(
            "bad-encoding",
            "prompt",
            f"names {name!r}, whose byte {error.start + 1} is not UTF-8; save it so.",
        )
        return ""
    if not text.strip():
        asked.error(
            "empty-value", "prompt", f"names the file {name!r}, which is empty; write the prompt in it."
        )
    return text


# --- programs ----------------------------------------------------------------------------------------------


def code_grader(asked: Asked) -> Lowered:
    """`code-grader`: a program that reads and writes JSON."""
    if "command" in asked:
        asked.without_effect(("script",), "has no effect beside `command`; remove it.")
    elif "script" in asked:
        asked.warn("deprecated", "script", "is an older spelling; write `command`.")
        asked.rename("script", "command")
    params = program(asked)
    config = asked.config()
    if config:
        params["config"] = config
    return "program", params, ""


def program(asked: Asked, *names: str) -> dict[str, Any]:
    """A program's command, folder and time limit; the command may stand under one of the names instead."""
    name = next((one for one in names if one in asked), "command")
    params: dict[str, Any] = {"command": _command(asked, name)}
    cwd = asked.named("cwd")
    if cwd is not None:
        params["cwd"] = cwd
    timed(asked, params)
    return params


def timed(asked: Asked, params: dict[str, Any]) -> None:
    """The time limit of a program, where there is one."""
    timeout = asked.limited("timeout_seconds", POSITIVE)
    if timeout is not None:
        params["timeout_s"] = float(timeout)


def _command(asked: Asked, name: str) -> list[str]:
    wanted = "a list of texts, or one text for the shell"
    if isinstance(asked.peek(name), str):
        return ["sh", "-c", asked.required_text(name)]
    words: list[str] = []
    for place, item in asked.rows(name, wanted):
        word = as_text(item)
        if word is None:
            asked.wrong(place, item, "text")
        words.append(word or "")
    if words and not words[0].strip():
        asked.error("missing-field", f"{name}[0]", "is blank; it must be the program.")
    return words


# --- what an agent did -------------------------------------------------------------------------------------

_MODES: Final = ("any_order", "in_order", "exact", "superset", "subset")
_MATCHES: Final = ("exact", "ignore", "superset", "subset")
_CALL: Final = ("tool", "args", "args_match", "max_duration_ms")


def tool_trajectory(asked: Asked) -> Lowered:
    """`tool-trajectory`: which tools were called."""
    mode = asked.choice("mode", _MODES)
    params: dict[str, Any] = {"mode": mode}
    _args_match(asked, params)
    if not mode:
        asked.without_effect(("minimums", "expected"))
    elif mode == "any_order":
        asked.without_effect(("expected",), "has no effect in mode any_order; use `minimums`.")
        params["minimums"] = _minimums(asked)
    else:
        asked.without_effect(("minimums",), f"has no effect in mode {mode}; use `expected`.")
        if asked.peek("expected") == [] and mode in ("exact", "subset"):
            params["expected"] = asked.take("expected")  # no tool may be called
            return "tool_trajectory", params, ""
        calls = asked.children("expected", "a list of objects with `tool`", _CALL)
        params["expected"] = [_call(one) for one in calls]
    return "tool_trajectory", params, ""


def _minimums(asked: Asked) -> dict[str, int]:
    wanted = "an object that says how often each tool must be called"
    if "minimums" not in asked:
        asked.missing("minimums", wanted)
    inner = asked.child("minimums", ())
    if inner is None:
        return {}
    minimums = {name: inner.integer(name, least=1) or 1 for name in inner.names()}
    if not minimums:
        asked.error("empty-list", "minimums", f"is empty; it must be {wanted}.")
    return minimums


def _call(asked: Asked) -> dict[str, Any]:
    call: dict[str, Any] = {"tool": asked.required_text("tool")}
    if "args" in asked:
        args = asked.take("args")
        if isinstance(args, dict):
            call["args"] = plain(args)
        elif args != "any":
            asked.wrong("args", args, "an object, or `any`")
    _args_match(asked, call)
    longest = asked.limited("max_duration_ms", NOT_NEGATIVE)
    if longest is not None:
        call["max_duration_ms"] = float(longest)
    asked.close()
    return call


def _args_match(asked: Asked, params: dict[str, Any]) -> None:
    if "args_match" not in asked:
        return
    if isinstance(asked.peek("args_match"), list):
        params["args_match"] = list(asked.texts("args_match"))
    else:
        params["args_match"] = asked.choice("args_match", _MATCHES)


def skill_trigger(asked: Asked) -> Lowered:
    """`skill-trigger`: whether a skill was used."""
    skill = asked.required_text("skill")
    params: dict[str, Any] = {"skill": skill}
    if not asked.truth("should_trigger", True):
        params["should_trigger"] = False
    return "skill_trigger", params, skill


# --- fields of a JSON answer -------------------------------------------------------------------------------

_FIELD: Final = ("path", "match", "required", "weight", "tolerance", "relative", "formats")
_KINDS_OF_MATCH: Final = ("exact", "numeric_tolerance", "date")


def field_accuracy(asked: Asked) -> Lowered:
    """`field-accuracy`: fields of a JSON answer against those of the expected output."""
    wanted = "a list of objects with `path` and `match`"
    params: dict[str, Any] = {"fields": [_field(one) for one in asked.children("fields", wanted, _FIELD)]}
    if "aggregation" in asked:
        params["aggregation"] = asked.choice("aggregation", ("weighted_average", "all_or_nothing"))
    return "field_accuracy", params, ""


def _field(asked: Asked) -> dict[str, Any]:
    field: dict[str, Any] = {
        "path": asked.required_text("path"),
        "match": asked.choice("match", _KINDS_OF_MATCH),
    }
    if not asked.truth("required", True):
        field["required"] = False
    for name in ("weight", "tolerance"):
        number = asked.limited(name, NOT_NEGATIVE)
        if number is not None:
            field[name] = float(number)
    if asked.truth("relative", False):
        field["relative"] = True
    formats = asked.texts("formats")
    if formats:
        field["formats"] = list(formats)
    asked.close()
    return field


# --- what an answer took -----------------------------------------------------------------------------------


def latency(asked: Asked) -> Lowered:
    """`latency`: at most so many milliseconds."""
    return "latency", {"threshold_ms": _needed(asked, "threshold", "a number of milliseconds")}, ""


def cost(asked: Asked) -> Lowered:
    """`cost`: at most so much money."""
    return "cost", {"budget_usd": _needed(asked, "budget", "an amount in US dollars")}, ""


def _needed(asked: Asked, name: str, wanted: str) -> float:
    if name not in asked:
        asked.missing(name, wanted)
    return float(asked.limited(name, NOT_NEGATIVE) or 0)


TOKENS: Final = ("max_total", "max_input", "max_output")
METRICS: Final[dict[str, Limit | None]] = {
    "max_tool_calls": None,
    "max_llm_calls": None,
    "max_tokens": None,
    "max_cost_usd": NOT_NEGATIVE,
    "max_duration_ms": NOT_NEGATIVE,
    "target_exploration_ratio": SHARE,
}
"""The limits of execution-metrics; None for a whole number."""


def token_usage(asked: Asked) -> Lowered:
    """`token-usage`: at most so many tokens."""
    return "token_usage", _limits(asked, dict.fromkeys(TOKENS)), ""


def execution_metrics(asked: Asked) -> Lowered:
    """`execution-metrics`: several limits at once."""
    params = _limits(asked, METRICS)
    tolerance = asked.limited("exploration_tolerance", SHARE)
    if tolerance is not None:
        params["exploration_tolerance"] = float(tolerance)
    return "execution_metrics", params, ""


def _limits(asked: Asked, limits: dict[str, Limit | None]) -> dict[str, Any]:
    given = [name for name in limits if name in asked]
    if not given:
        every = ", ".join(limits)
        first = next(iter(limits))
        asked.error("missing-field", first, f"is missing, and so is every other limit; give one of {every}.")
    params: dict[str, Any] = {}
    for name in given:
        limit = limits[name]
        value = asked.integer(name) if limit is None else asked.limited(name, limit)
        if value is not None:
            params[name] = value if limit is None else float(value)
    return params

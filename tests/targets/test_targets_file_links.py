"""Targets of a file that name one another, and everything that can be wrong with a file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import SuiteError
from proctor.model import Params, TargetSpec
from proctor.targets.file_kinds import IGNORED_FIELDS
from proctor.targets.parse import parse_target
from proctor.targets.targets_file import TargetsFile

ENVIRON = {
    "KEY": "sk-very-secret",
    "MODEL": "m-from-outside",
    "URL": "https://h.example/v1/",
    "HEAT": "0.3",
    "MANY": "7",
    "NAME": "plain",
    "BLANK": " ",
}
USUAL = Params()
PLAIN = "  - {name: plain, provider: mock}\n"


def _file(*targets: str) -> TargetsFile:
    body = "".join(f"  - {target}\n" for target in targets)
    return TargetsFile(f"targets:\n{body}", "targets.yaml", "/project")


def _spec(target: str, *others: str, params: Params = USUAL, **environ: str) -> TargetSpec:
    """The first target, which is named t."""
    return _file(f"{{name: t, {target}}}", *others).get_spec("t", params, {**ENVIRON, **environ})


def _problems(text: str) -> list[tuple[int | None, str, str | None]]:
    """The errors of a file that is refused, else those of its entries."""
    try:
        problems = TargetsFile(text, "targets.yaml", "/project").problems
    except SuiteError as error:
        problems = error.problems
    return [(one.line, one.code, one.field) for one in problems if one.level == "error"]


# --- targets that name one another -------------------------------------------------------------------------


def test_a_judge_is_resolved_and_asked_with_its_own_parameters() -> None:
    judge = "{name: j, provider: openai, model: m, temperature: 0.2, grader_target: t}"
    for field in ("grader_target", "judge_target"):
        spec = _spec(f"provider: mock, {field}: j", judge, params=Params(temperature=1.0))
        assert spec.judge is not None
        assert (spec.judge.name, spec.judge.model, spec.judge.params.temperature) == ("j", "m", 0.2)
        assert spec.judge.judge is None


def test_a_target_may_judge_itself_where_that_is_said() -> None:
    assert _spec("provider: mock, grader_target: t").judge == TargetSpec(name="t", kind="mock")


def test_links_may_be_words_of_the_command_line() -> None:
    spec = _spec(
        "provider: mock, grader_target: 'openai:m', fallback_targets: ['mock:x', plain]", PLAIN.strip(" -\n")
    )
    assert spec.judge == parse_target("openai:m", Params(), {})
    assert [one.name for one in spec.fallbacks] == ["mock:x", "plain"]


def test_another_name_stands_for_a_target_with_all_it_says() -> None:
    others = (
        "{name: a, use_target: b}",
        "{name: b, provider: openai, model: m, workers: 3, grader_target: j}",
        "{name: j, provider: mock}",
    )
    spec = _spec("use_target: a", *others)
    assert (spec.name, spec.kind, spec.model, spec.workers) == ("t", "openai", "m", 3)
    assert spec.judge is not None
    assert spec.judge.name == "j"
    spec = _spec("use_target: a, workers: 1, grader_target: a", *others)
    assert spec.workers == 1
    assert spec.judge is not None
    assert spec.judge.name == "a"


def test_which_target_a_name_stands_for_may_come_from_the_environment() -> None:
    assert _spec("use_target: '${{ NAME }}'", PLAIN.strip(" -\n")).kind == "mock"
    with pytest.raises(SuiteError, match="'nobody'"):
        _spec("use_target: '${{ NAME }}'", PLAIN.strip(" -\n"), NAME="nobody")
    with pytest.raises(SuiteError, match="t → t"):
        _spec("use_target: '${{ NAME }}'", NAME="t")


def test_fallbacks_of_fallbacks_follow_them_and_nobody_comes_twice() -> None:
    spec = _spec(
        "provider: mock, fallback_targets: [b, c, d]",
        "{name: b, provider: mock, fallback_targets: [d], grader_target: c}",
        "{name: c, provider: mock}",
        "{name: d, provider: mock}",
    )
    assert [one.name for one in spec.fallbacks] == ["b", "d", "c"]
    assert all(not one.fallbacks and one.judge is None for one in spec.fallbacks)


@pytest.mark.parametrize(
    ("targets", "circle"),
    [
        (["use_target: a"], "a → a"),
        (["use_target: b", "use_target: a"], "a → b → a"),
        (["use_target: b", "use_target: c", "use_target: b"], "b → c → b"),
        (["provider: mock, fallback_targets: [a]"], "a → a"),
        (["provider: mock, fallback_targets: [b]", "use_target: a"], "a → b → a"),
    ],
)
def test_a_circle_is_refused_and_shown(targets: list[str], circle: str) -> None:
    rows = [f"{{name: {name}, {target}}}" for name, target in zip("abc", targets, strict=False)]
    with pytest.raises(SuiteError, match=circle) as caught:
        _file(*rows).get_spec("a", Params(), {})
    assert {problem.code for problem in caught.value.problems} == {"cycle"}


# --- what is wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "code", "field", "said"),
    [
        ("provider: opena, model: m", "unknown-value", "provider", "'openai'"),
        ("provider: openai", "missing-field", "model", "missing"),
        ("provider: openai, model: 5", "wrong-type", "model", "text"),
        ("provider: openai, model: m, variant: n", "duplicate-field", "variant", "`model`"),
        ("provider: openai, model: m, temperatur: 1", "unknown-field", "temperatur", "'temperature'"),
        ("provider: openai, model: m, temperature: 3", "out-of-range", "temperature", "0 to 2"),
        ("provider: openai, model: m, temperature: warm", "wrong-type", "temperature", "number"),
        ("provider: openai, model: m, baseUrl: 'http://h'", "camel-case", "baseUrl", "`base_url`"),
        ("provider: openai, model: m, maxRetries: 1", "camel-case", "maxRetries", "`max_retries`"),
        ("provider: openai, model: m, api_format: responses", "unsupported", "api_format", "chat"),
        ("provider: openai, model: m, base_url: 'ftp://h'", "bad-address", "base_url", "http://"),
        ("provider: openai, model: m, command: x", "unknown-field", "command", ""),
        ("provider: mock, workers: 0", "wrong-type", "workers", "at least 1"),
        ("provider: mock, max_retries: -1", "wrong-type", "max_retries", "at least 0"),
        ("provider: mock, grader_target: nobody", "unknown-target", "grader_target", "nobody"),
        ("provider: mock, fallback_targets: [nobody]", "unknown-target", "fallback_targets", "nobody"),
        ("provider: mock, fallback_targets: nobody", "wrong-type", "fallback_targets", "list"),
        ("provider: mock, grader_target: t, judge_target: t", "duplicate-field", "judge_target", ""),
        ("use_target: nobody", "unknown-target", "use_target", "nobody"),
        ("use_target: echo, provider: mock", "duplicate-field", "use_target", "provider"),
        ("target: echo, provider: mock", "duplicate-field", "target", "provider"),
        ("target: 'opena:m'", "unknown-target", "target", "'openai'"),
        ("workers: 2", "missing-field", "provider", "kind"),
        ("provider: cli", "missing-field", "command", "missing"),
        ("provider: cli, command: 'a {PROMT}'", "bad-placeholder", "command", "{PROMPT}"),
        ("provider: cli, command: \"a 'x {PROMPT}'\"", "bad-placeholder", "command", "inside quotes"),
        ("provider: cli, command: 'a ${{ KEY }}'", "reference-inside", "command", "$KEY"),
        ("provider: cli, command: a, files_format: '{paths}'", "bad-placeholder", "files_format", "{path}"),
        ("provider: cli, command: a, timeout_seconds: 0", "out-of-range", "timeout_seconds", "more than 0"),
        ("provider: cli, command: a, healthcheck: {}", "missing-field", "healthcheck", "`url`"),
        (
            "provider: cli, command: a, healthcheck: {url: 'http://h', command: b}",
            "missing-field",
            "healthcheck",
            "",
        ),
        ("provider: cli, command: a, healthcheck: {url: h}", "bad-address", "healthcheck.url", "http://"),
        (
            "provider: cli, command: a, healthcheck: {command: b, retries: 1}",
            "unknown-field",
            "healthcheck.retries",
            "",
        ),
        ("provider: cli, command: a, env: {X: [1]}", "wrong-type", "env.X", "text"),
        ("provider: function, function: mine", "unknown-value", "function", "MODULE:NAME"),
        ("provider: replay", "missing-field", "file", ""),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_field(
    row: str, code: str, field: str | None, said: str
) -> None:
    read = TargetsFile(f"targets:\n{PLAIN}  - {{name: t, {row}}}\n", "targets.yaml", "/project")
    with pytest.raises(SuiteError) as caught:
        read.get_spec("t", Params(), ENVIRON)
    (problem,) = caught.value.problems
    assert read.problems == (problem,)
    assert (problem.line, problem.code, problem.field) == (3, code, field)
    assert str(problem).startswith("targets.yaml:3: error: ")
    assert said in problem.message


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", [(1, "missing-field", None)]),
        ("targets:", [(1, "missing-field", None)]),
        ("- name: x", [(1, "missing-field", None)]),
        ("targets: {a: 1}", [(1, "missing-field", None)]),
        ("targets: ]", [(1, "bad-yaml", None)]),
        ("a: 1\na: 2", [(2, "bad-yaml", None)]),
        ("targets: []\ntarget: x", [(2, "unknown-field", "target")]),
    ],
)
def test_a_file_of_another_form_is_refused(text: str, problems: list[Any]) -> None:
    with pytest.raises(SuiteError) as caught:
        TargetsFile(text, "targets.yaml", "/project")
    assert [(one.line, one.code, one.field) for one in caught.value.problems] == problems


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("- 5", (3, "wrong-type", "targets[1]")),
        ("- provider: mock", (3, "missing-field", "name")),
        ("- provider: mock\n  name: ''", (4, "missing-field", "name")),
        ("- {name: a, provider: mock}\n- {name: a, provider: echo}", (4, "duplicate-name", "name")),
        ("- {name: a, provider: opena}", (3, "unknown-value", "provider")),
        ("- {name: a, use_target: nobody}", (3, "unknown-target", "use_target")),
        ("- {name: a, provider: mock, grader_target: nobody}", (3, "unknown-target", "grader_target")),
        (
            "- {name: a, provider: mock, fallback_targets: [nobody]}",
            (3, "unknown-target", "fallback_targets"),
        ),
    ],
)
def test_an_entry_that_is_wrong_is_told_and_keeps_nobody_else_from_being_asked(
    entries: str, problem: tuple[int, str, str]
) -> None:
    text = f"targets:\n- {{name: plain, provider: mock}}\n{entries}\n"
    read = TargetsFile(text, "targets.yaml", "/project")
    assert _problems(text) == [problem]
    assert read.get_spec("plain", Params(), {}).kind == "mock"
    assert read.list_targets({})[0].name == "plain"


@pytest.mark.parametrize(
    ("link", "other"),
    [
        ("use_target: bad", "{name: bad, provider: opena}"),
        ("provider: mock, fallback_targets: [bad]", "{name: bad, provider: opena}"),
        ("provider: mock, grader_target: bad", "{name: bad, provider: opena}"),
        ("use_target: bad", "{name: bad, provider: mock}, {name: bad, provider: echo}"),
    ],
)
def test_an_entry_that_is_wrong_stops_whoever_needs_it(link: str, other: str) -> None:
    read = TargetsFile(f"targets: [{{name: t, {link}}},\n{other}]", "targets.yaml", "/project")
    with pytest.raises(SuiteError, match=r"targets\.yaml:2: error: Target 'bad'"):
        read.get_spec("t", Params(), {})


def test_a_judge_that_is_wrong_stops_nobody_who_needs_no_judge() -> None:
    read = _file("{name: t, provider: mock, grader_target: nobody}")
    assert read.get_spec("t", Params(), {}, judged=False).judge is None
    with pytest.raises(
        SuiteError, match=r"targets\.yaml:2: error: Target 't': `grader_target` names 'nobody'"
    ):
        read.get_spec("t", Params(), {})


def test_everything_that_is_wrong_is_told_at_once_and_in_order() -> None:
    text = """
targets:
  - name: a
    provider: opena
  - name: b
    provider: cli
    command: x {Y}
    workers: none
    mystery: 1
  - name: c
    use_target: d
"""
    assert [line for line, _, _ in _problems(text)] == [4, 7, 8, 9, 11]


@pytest.mark.parametrize("field", IGNORED_FIELDS)
def test_a_field_without_effect_is_a_warning(field: str) -> None:
    read = _file(f"{{name: t, provider: mock, {field}: 1}}")
    (warning,) = read.warnings
    assert (warning.level, warning.field, warning.line) == ("warning", field, 2)


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("claude", "claude -p"),
        ("claude-code", "claude -p"),
        ("codex-cli", "codex exec"),
        ("copilot", "copilot"),
        ("pi-coding-agent", "pi -p"),
        ("vscode-insiders", "PROMPT_FILE"),
        ("agentv", "provider: openai"),
    ],
)
def test_an_agent_is_asked_by_its_command_line_and_keeps_nobody_else_from_being_asked(
    provider: str, said: str
) -> None:
    read = _file(f"{{name: t, provider: {provider}, executable: x, maxTurns: 5}}", PLAIN.strip(" -\n"))
    assert read.get_spec("plain", Params(), {}).kind == "mock"
    with pytest.raises(SuiteError, match=r"targets\.yaml:2: error") as caught:
        read.get_spec("t", Params(), {})
    assert said in str(caught.value)


@pytest.mark.slow
@given(st.text(alphabet=" -:\n{}[]'\"abctargetsnameprovidermockuse_$", max_size=120))
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        read = TargetsFile("targets:\n" + text, "t.yaml", "/p")
    except SuiteError:
        return
    wrong = any(problem.level == "error" for problem in read.problems)
    for name in read.names():
        try:
            assert read.get_spec(name, Params(), {}).name == name
        except SuiteError:
            assert wrong

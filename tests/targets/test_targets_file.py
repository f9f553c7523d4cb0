"""Targets files: targets, references between them, and every error of a file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import encode, target_digest
from proctor.errors import SuiteError
from proctor.model import Params, TargetSpec
from proctor.targets import iter_kinds
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
    "YES": "true",
}
USUAL = Params()
PLAIN = "{name: plain, provider: mock}"


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
    return [(problem.line, problem.code, problem.field) for problem in problems if problem.level == "error"]


# --- kinds -------------------------------------------------------------------------------------------------

OPENAI = "https://api.openai.com/v1"


def make_spec(kind: str, model: str = "", endpoint: str | None = None, **options: Any) -> TargetSpec:
    return TargetSpec(name="t", kind=kind, model=model, endpoint=endpoint, options=options)


@pytest.mark.parametrize(
    ("target", "spec"),
    [
        ("provider: openai, model: gpt-5.2", make_spec("openai", "gpt-5.2", OPENAI)),
        ("kind: openai, model: gpt-5.2", make_spec("openai", "gpt-5.2", OPENAI)),
        (
            "provider: openai, model: '${{ MODEL }}', api_key: '${{ KEY }}'",
            make_spec("openai", "m-from-outside", OPENAI, api_key="${{ KEY }}"),
        ),
        (
            "provider: openai, model: m, base_url: '${{ URL }}'",
            make_spec("openai", "m", "https://h.example/v1", base_url="${{ URL }}"),
        ),
        (
            "provider: openai, model: m, endpoint: http://127.0.0.1:9/v1",
            make_spec("openai", "m", "http://127.0.0.1:9/v1"),
        ),
        ("provider: openai, model: m, api_format: chat", make_spec("openai", "m", OPENAI)),
        (
            "provider: openai, model: m, api_format: responses, verbosity: low",
            replace(make_spec("openai", "m", OPENAI), params=Params(api_format="responses", verbosity="low")),
        ),
        ("provider: openrouter, model: a/b", make_spec("openai", "a/b", "https://openrouter.ai/api/v1")),
        ("provider: groq, model: x", make_spec("openai", "x", "https://api.groq.com/openai/v1")),
        ("provider: ollama, model: x", make_spec("openai", "x", "http://127.0.0.1:11434/v1")),
        (
            "provider: anthropic, variant: c, system_prompt: Be brief.",
            make_spec("anthropic", "c", system_prompt="Be brief."),
        ),
        ("provider: google, model: g", make_spec("google", "g")),
        ("provider: gemini, model: g", make_spec("google", "g")),
        ("provider: google-gemini, model: g", make_spec("google", "g")),
        (
            "provider: azure, deployment: d, endpoint: https://x.example, api_version: '1'",
            make_spec("azure", "d", "https://x.example", api_version="1"),
        ),
        (
            "provider: azure-openai, model: d, endpoint: https://x.example",
            make_spec("azure", "d", "https://x.example"),
        ),
        ("provider: local", make_spec("local")),
        ("provider: local, model: x.gguf", make_spec("local", "/project/x.gguf")),
        ("provider: echo", make_spec("echo")),
        ("provider: mock", make_spec("mock")),
        ("provider: mock, response: '4 ${{ MODEL }}'", make_spec("mock", response="4 ${{ MODEL }}")),
        ("provider: function, function: 'a.b:c'", make_spec("function", "a.b:c")),
        ("provider: replay, file: runs/a.jsonl", make_spec("replay", "/project/runs/a.jsonl")),
        ("provider: transcript, path: ../a.jsonl", make_spec("replay", "/a.jsonl")),
        ("provider: scripted, file: /s.jsonl", make_spec("scripted", "/s.jsonl")),
        ("provider: cli, command: 'a {PROMPT}'", make_spec("cli", "a {PROMPT}")),
        ("provider: command, command: cat", make_spec("cli", "cat")),
        ("provider: cli, command: '${{ LINE }}'", make_spec("cli", "${{ LINE }}", folder="/project")),
        (
            "provider: cli, command: $PROCTOR_TARGETS_FOLDER/a",
            make_spec("cli", "$PROCTOR_TARGETS_FOLDER/a", folder="/project"),
        ),
        (
            "provider: cli, command: a, cwd: sub, timeout_seconds: 5",
            make_spec("cli", "a", cwd="/project/sub", timeout_seconds=5),
        ),
        (
            "provider: cli, command: a, files_format: '-f {path}', keep_temp_files: true",
            make_spec("cli", "a", files_format="-f {path}", keep_temp_files=True),
        ),
        ("provider: cli, command: a, keep_temp_files: false", make_spec("cli", "a")),
        (
            "provider: cli, command: a, keep_temp_files: '${{ YES }}'",
            make_spec("cli", "a", keep_temp_files=True),
        ),
        ("provider: cli, command: a, provider_batching: false", make_spec("cli", "a")),
        (
            "provider: cli, command: 'a {OUTPUT_FILE}', provider_batching: true",
            make_spec("cli", "a {OUTPUT_FILE}", provider_batching=True),
        ),
        (
            "provider: cli, command: a, env: {A_KEY: '${{ KEY }}', N: 5}",
            make_spec("cli", "a", env={"A_KEY": "${{ KEY }}", "N": "5"}),
        ),
        (
            "provider: cli, command: a, healthcheck: {url: 'http://h/', timeout_seconds: 2}",
            make_spec("cli", "a", healthcheck={"url": "http://h/", "timeout_seconds": 2}),
        ),
        (
            "provider: cli, command: a, healthcheck: {command: b, cwd: x}",
            make_spec("cli", "a", healthcheck={"command": "b", "cwd": "/project/x"}),
        ),
    ],
)
def test_a_provider_and_its_fields_make_a_target(target: str, spec: TargetSpec) -> None:
    assert _spec(target, LINE="a {PROMPT}") == spec


def test_without_options_a_target_is_the_same_as_in_the_words_of_the_command_line() -> None:
    word = parse_target("openai:gpt-5.2", Params(), {})
    assert target_digest(_spec("provider: openai, model: gpt-5.2")) == target_digest(word)
    assert target_digest(_spec("target: 'openai:gpt-5.2'")) == target_digest(word)


@pytest.mark.parametrize(
    "word", ["local", "echo", "mock:4", "command:cat -n", "openai:m@http://127.0.0.1:9/v1", "gpt-5.2", "opus"]
)
def test_the_short_form_is_the_word_of_the_command_line_under_another_name(word: str) -> None:
    assert _spec(f"target: '{word}'") == replace(parse_target(word, Params(), {}), name="t")


def test_beside_the_short_form_stands_what_its_kind_takes() -> None:
    spec = _spec("target: 'openai:m', temperature: 0.5, api_key: '${{ KEY }}', workers: 2")
    assert (spec.params.temperature, spec.options, spec.workers) == (0.5, {"api_key": "${{ KEY }}"}, 2)
    with pytest.raises(SuiteError, match="Unknown field 'api_key'") as caught:
        _spec("target: echo, api_key: '${{ KEY }}'")
    assert [problem.line for problem in caught.value.problems] == [2]


def test_every_kind_but_command_can_be_written_in_a_targets_file() -> None:
    assert {kind.name for kind in iter_kinds() if kind.entry_fields is None} == {"command"}


# --- parameters --------------------------------------------------------------------------------------------


def test_a_targets_own_parameters_count_unless_the_user_names_others() -> None:
    assert _spec("provider: mock", params=Params(temperature=1.0)).params == Params(temperature=1.0)
    target = "provider: openai, model: m, temperature: 0.7, max_output_tokens: 9, seed: 5"
    assert _spec(target).params == Params(temperature=0.7, max_tokens=9, seed=5)
    params = Params(temperature=1.0, max_tokens=3, seed=None)
    assert _spec(target, params=params).params == params


@pytest.mark.parametrize(
    ("target", "workers", "retries", "options"),
    [
        ("provider: mock", None, None, {}),
        ("provider: mock, workers: 3, max_retries: 0", 3, 0, {}),
        ("provider: mock, workers: '${{ MANY }}', max_retries: '${{ MANY }}'", 7, 7, {}),
        ("provider: google, model: m, timeout_seconds: 9", None, None, {"timeout_seconds": 9}),
    ],
)
def test_workers_retries_and_time_default_to_those_of_the_run(
    target: str, workers: int | None, retries: int | None, options: dict[str, Any]
) -> None:
    spec = _spec(target)
    assert (spec.workers, spec.retries, spec.options) == (workers, retries, options)


def test_numbers_may_come_from_the_environment() -> None:
    assert _spec("provider: openai, model: m, temperature: '${{ HEAT }}'").params.temperature == 0.3
    with pytest.raises(SuiteError, match="'plain', text; it must be a number"):
        _spec("provider: openai, model: m, temperature: '${{ NAME }}'")


# --- secrets and variables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field",
    [
        "api_key: sk-literal-1",
        "api_key: 'Bearer ${{ KEY }} sk-literal-1'",
        "api_key: [sk-literal-1]",
        "apiKey: sk-literal-1",
        "apikey: sk-literal-1",
        "api_key: {x: sk-literal-1}",
    ],
)
def test_a_key_in_the_file_is_refused_and_never_repeated(field: str) -> None:
    with pytest.raises(SuiteError) as caught:
        _spec(f"provider: openai, model: m, {field}")
    assert "sk-literal-1" not in str(caught.value)


def test_a_secret_among_the_variables_of_a_program_is_refused_and_never_repeated() -> None:
    for name in ("MY_KEY", "GITHUB_TOKEN", "password"):
        with pytest.raises(SuiteError, match=f"env.{name}") as caught:
            _spec(f"provider: cli, command: a, env: {{{name}: sk-literal-1}}")
        assert "sk-literal-1" not in str(caught.value)
    assert _spec("provider: cli, command: a, env: {KEYBOARD: x}").options == {"env": {"KEYBOARD": "x"}}


def test_no_secret_is_ever_in_a_specification() -> None:
    spec = _spec(
        "provider: openai, model: m, api_key: '${{ KEY }}', system_prompt: '${{ KEY }}', grader_target: j",
        "{name: j, provider: cli, command: '${{ KEY }}', env: {K: '${{ KEY }}'}}",
    )
    assert b"sk-very-secret" not in encode(spec)


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("api_key: ${{ NOT_SET }}", 5),
        ("api_key: ${{ BLANK }}", 5),
        ("base_url: ${{ NOT_SET }}", 5),
        ("temperature: ${{ NOT_SET }}", 5),
        ("system_prompt: about ${{ NOT_SET }}", 5),
        ("fallback_targets: [plain, '${{ NOT_SET }}']", 5),
        ("use_target: ${{ NOT_SET }}", 5),
    ],
)
def test_a_variable_that_is_not_set_is_an_error_with_its_line_once_the_target_is_asked_for(
    field: str, line: int
) -> None:
    head = "name: t\n" if field.startswith("use") else "name: t\n    provider: openai\n    model: m\n"
    read = TargetsFile(f"targets:\n  - {head}    {field}\n  - {PLAIN}\n", "targets.yaml", "/project")
    assert read.get_spec("plain", Params(), {}).kind == "mock"
    with pytest.raises(SuiteError) as caught:
        read.get_spec("t", Params(), ENVIRON)
    (problem,) = caught.value.problems
    assert problem.line == (3 if field.startswith("use") else line)
    assert (problem.code, problem.field) == ("unset-variable", field.partition(":")[0])
    assert "NOT_SET" in problem.message or "BLANK" in problem.message


def test_variables_of_judges_and_fallbacks_count_with_their_target() -> None:
    needy = "{name: needy, provider: openai, model: m, api_key: '${{ NOT_SET }}'}"
    for link in ("grader_target: needy", "fallback_targets: [needy]"):
        with pytest.raises(SuiteError, match="NOT_SET"):
            _spec(f"provider: mock, {link}", needy)


# --- the list ----------------------------------------------------------------------------------------------


def test_a_description_of_a_target_is_prose() -> None:
    file = _file("{name: t, provider: mock, description: 'needs ${{ NOBODY }}'}")
    assert _spec("provider: mock, description: 'needs ${{ NOBODY }}'") == _spec("provider: mock")
    assert [target.variables for target in file.list_targets({})] == [()]


def test_a_list_of_targets_shows_what_they_name_and_which_variables_are_not_set() -> None:
    read = _file(
        "{name: a, provider: gemini, model: g, api_key: '${{ KEY }}', base_url: '${{ NOT_SET }}'}",
        "{name: b, use_target: a}",
        "{name: c, target: 'openai:m'}",
        "{name: d, provider: cli, command: cat, env: {T: '${{ BLANK }}'}}",
    )
    rows = [(row.name, row.kind, row.details, row.unset_variables) for row in read.list_targets(ENVIRON)]
    assert rows == [
        ("a", "google", "g", ("NOT_SET",)),
        ("b", "→", "a", ()),
        ("c", "openai", "m", ()),
        ("d", "cli", "cat", ("BLANK",)),
    ]


@pytest.mark.parametrize("place", ["PROMPT", "PROMPT_FILE", "FILES"])
def test_a_line_that_runs_once_for_all_tests_can_name_nothing_of_one(place: str) -> None:
    with pytest.raises(SuiteError, match=rf"has \{{{place}\}}, but with `provider_batching` it runs once"):
        _spec(f"provider: cli, command: 'a {{{place}}}', provider_batching: true")


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
    spec = _spec("provider: mock, grader_target: 'openai:m', fallback_targets: ['mock:x', plain]", PLAIN)
    assert spec.judge == parse_target("openai:m", Params(), {})
    assert [fallback.name for fallback in spec.fallbacks] == ["mock:x", "plain"]


def test_an_alias_stands_for_a_target_with_all_its_fields() -> None:
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


def test_the_target_of_an_alias_may_come_from_the_environment() -> None:
    assert _spec("use_target: '${{ NAME }}'", PLAIN).kind == "mock"
    with pytest.raises(SuiteError, match="'nobody'"):
        _spec("use_target: '${{ NAME }}'", PLAIN, NAME="nobody")
    with pytest.raises(SuiteError, match="t → t"):
        _spec("use_target: '${{ NAME }}'", NAME="t")


def test_fallbacks_of_fallbacks_follow_them_without_duplicates() -> None:
    spec = _spec(
        "provider: mock, fallback_targets: [b, c, d]",
        "{name: b, provider: mock, fallback_targets: [d], grader_target: c}",
        "{name: c, provider: mock}",
        "{name: d, provider: mock}",
    )
    assert [fallback.name for fallback in spec.fallbacks] == ["b", "d", "c"]
    assert all(not fallback.fallbacks and fallback.judge is None for fallback in spec.fallbacks)


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
    ("row", "code", "field", "message"),
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
        ("provider: google, model: m, api_format: responses", "unsupported", "api_format", "chat"),
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
def test_an_error_has_its_line_and_field(row: str, code: str, field: str | None, message: str) -> None:
    read = TargetsFile(f"targets:\n  - {PLAIN}\n  - {{name: t, {row}}}\n", "targets.yaml", "/project")
    with pytest.raises(SuiteError) as caught:
        read.get_spec("t", Params(), ENVIRON)
    (problem,) = caught.value.problems
    assert read.problems == (problem,)
    assert (problem.line, problem.code, problem.field) == (3, code, field)
    assert str(problem).startswith("targets.yaml:3: error: ")
    assert message in problem.message


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
    assert [(problem.line, problem.code, problem.field) for problem in caught.value.problems] == problems


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
def test_a_wrong_entry_is_reported_and_other_targets_can_be_used(
    entries: str, problem: tuple[int, str, str]
) -> None:
    text = f"targets:\n- {PLAIN}\n{entries}\n"
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
def test_a_wrong_entry_stops_runs_that_need_it(link: str, other: str) -> None:
    read = TargetsFile(f"targets: [{{name: t, {link}}},\n{other}]", "targets.yaml", "/project")
    with pytest.raises(SuiteError, match=r"targets\.yaml:2: error: Target 'bad'"):
        read.get_spec("t", Params(), {})


def test_a_wrong_judge_stops_only_runs_that_need_a_judge() -> None:
    read = _file("{name: t, provider: mock, grader_target: nobody}")
    assert read.get_spec("t", Params(), {}, judged=False).judge is None
    with pytest.raises(
        SuiteError, match=r"targets\.yaml:2: error: Target 't': `grader_target` names 'nobody'"
    ):
        read.get_spec("t", Params(), {})


def test_all_errors_are_reported_at_once_and_in_order() -> None:
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
    ("provider", "message"),
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
def test_a_coding_agent_needs_its_command_line_and_other_targets_can_be_used(
    provider: str, message: str
) -> None:
    read = _file(f"{{name: t, provider: {provider}, executable: x, maxTurns: 5}}", PLAIN)
    assert read.get_spec("plain", Params(), {}).kind == "mock"
    with pytest.raises(SuiteError, match=r"targets\.yaml:2: error") as caught:
        read.get_spec("t", Params(), {})
    assert message in str(caught.value)


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

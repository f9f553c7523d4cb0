"""The text of a targets file to named targets, and everything that can be wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.codec import encode
from proctor.errors import SuiteError
from proctor.model import Params, TargetSpec
from proctor.targets import iter_kinds
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


# --- kinds -------------------------------------------------------------------------------------------------

OPENAI = "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("target", "kind", "model", "endpoint", "options"),
    [
        ("provider: openai, model: gpt-5.2", "openai", "gpt-5.2", OPENAI, {}),
        ("kind: openai, model: gpt-5.2", "openai", "gpt-5.2", OPENAI, {}),
        (
            "provider: openai, model: '${{ MODEL }}', api_key: '${{ KEY }}'",
            "openai",
            "m-from-outside",
            OPENAI,
            {"api_key": "${{ KEY }}"},
        ),
        (
            "provider: openai, model: m, base_url: '${{ URL }}'",
            "openai",
            "m",
            "https://h.example/v1",
            {"base_url": "${{ URL }}"},
        ),
        (
            "provider: openai, model: m, endpoint: http://127.0.0.1:9/v1",
            "openai",
            "m",
            "http://127.0.0.1:9/v1",
            {},
        ),
        ("provider: openai, model: m, api_format: chat", "openai", "m", OPENAI, {}),
        ("provider: openrouter, model: a/b", "openai", "a/b", "https://openrouter.ai/api/v1", {}),
        ("provider: groq, model: x", "openai", "x", "https://api.groq.com/openai/v1", {}),
        ("provider: ollama, model: x", "openai", "x", "http://127.0.0.1:11434/v1", {}),
        (
            "provider: anthropic, variant: c, system_prompt: Be brief.",
            "anthropic",
            "c",
            None,
            {"system_prompt": "Be brief."},
        ),
        ("provider: google, model: g", "google", "g", None, {}),
        ("provider: gemini, model: g", "google", "g", None, {}),
        ("provider: google-gemini, model: g", "google", "g", None, {}),
        (
            "provider: azure, deployment: d, endpoint: https://x.example, api_version: '1'",
            "azure",
            "d",
            "https://x.example",
            {"api_version": "1"},
        ),
        (
            "provider: azure-openai, model: d, endpoint: https://x.example",
            "azure",
            "d",
            "https://x.example",
            {},
        ),
        ("provider: local", "local", "", None, {}),
        ("provider: local, model: x.gguf", "local", "/project/x.gguf", None, {}),
        ("provider: echo", "echo", "", None, {}),
        ("provider: mock", "mock", "", None, {}),
        ("provider: mock, response: '4 ${{ MODEL }}'", "mock", "", None, {"response": "4 ${{ MODEL }}"}),
        ("provider: function, function: 'a.b:c'", "function", "a.b:c", None, {}),
        ("provider: replay, file: runs/a.jsonl", "replay", "/project/runs/a.jsonl", None, {}),
        ("provider: transcript, path: ../a.jsonl", "replay", "/a.jsonl", None, {}),
        ("provider: scripted, file: /s.jsonl", "scripted", "/s.jsonl", None, {}),
        ("provider: cli, command: 'a {PROMPT}'", "cli", "a {PROMPT}", None, {}),
        ("provider: command, command: cat", "cli", "cat", None, {}),
        ("provider: cli, command: '${{ LINE }}'", "cli", "${{ LINE }}", None, {"folder": "/project"}),
        (
            "provider: cli, command: $PROCTOR_TARGETS_FOLDER/a",
            "cli",
            "$PROCTOR_TARGETS_FOLDER/a",
            None,
            {"folder": "/project"},
        ),
        (
            "provider: cli, command: a, cwd: sub, timeout_seconds: 5",
            "cli",
            "a",
            None,
            {"cwd": "/project/sub", "timeout_seconds": 5},
        ),
        (
            "provider: cli, command: a, files_format: '-f {path}', keep_temp_files: true",
            "cli",
            "a",
            None,
            {"files_format": "-f {path}", "keep_temp_files": True},
        ),
        ("provider: cli, command: a, keep_temp_files: false", "cli", "a", None, {}),
        ("provider: cli, command: a, provider_batching: false", "cli", "a", None, {}),
        (
            "provider: cli, command: 'a {OUTPUT_FILE}', provider_batching: true",
            "cli",
            "a {OUTPUT_FILE}",
            None,
            {"provider_batching": True},
        ),
        (
            "provider: cli, command: a, env: {A_KEY: '${{ KEY }}', N: 5}",
            "cli",
            "a",
            None,
            {"env": {"A_KEY": "${{ KEY }}", "N": "5"}},
        ),
        (
            "provider: cli, command: a, healthcheck: {url: 'http://h/', timeout_seconds: 2}",
            "cli",
            "a",
            None,
            {"healthcheck": {"url": "http://h/", "timeout_seconds": 2}},
        ),
        (
            "provider: cli, command: a, healthcheck: {command: b, cwd: x}",
            "cli",
            "a",
            None,
            {"healthcheck": {"command": "b", "cwd": "/project/x"}},
        ),
    ],
)
def test_a_provider_and_its_fields_make_a_target(
    target: str, kind: str, model: str, endpoint: str | None, options: dict[str, Any]
) -> None:
    spec = _spec(target, LINE="a {PROMPT}")
    assert spec == TargetSpec(name="t", kind=kind, model=model, endpoint=endpoint, options=options)


def test_without_options_a_target_is_the_same_as_in_the_words_of_the_command_line() -> None:
    from proctor.codec import target_digest

    word = parse_target("openai:gpt-5.2", Params(), {})
    assert target_digest(_spec("provider: openai, model: gpt-5.2")) == target_digest(word)
    assert target_digest(_spec("target: 'openai:gpt-5.2'")) == target_digest(word)


@pytest.mark.parametrize(
    "word", ["local", "echo", "mock:4", "command:cat -n", "openai:m@http://127.0.0.1:9/v1", "gpt-5.2", "opus"]
)
def test_the_short_form_is_the_word_of_the_command_line_under_another_name(word: str) -> None:
    expected = parse_target(word, Params(), {})
    found = _spec(f"target: '{word}'")
    assert (found.name, found.kind, found.model, found.endpoint) == (
        "t",
        expected.kind,
        expected.model,
        expected.endpoint,
    )


def test_beside_the_short_form_stands_what_its_kind_takes() -> None:
    spec = _spec("target: 'openai:m', temperature: 0.5, api_key: '${{ KEY }}', workers: 2")
    assert (spec.params.temperature, spec.options, spec.workers) == (0.5, {"api_key": "${{ KEY }}"}, 2)
    with pytest.raises(SuiteError, match="Unknown field 'api_key'") as caught:
        _spec("target: echo, api_key: '${{ KEY }}'")
    assert [problem.line for problem in caught.value.problems] == [2]


def test_every_kind_has_a_way_to_say_it() -> None:
    assert {kind.name for kind in iter_kinds() if kind.entry_fields is None} == {"command"}


# --- parameters --------------------------------------------------------------------------------------------


def test_a_targets_own_parameters_count_unless_the_user_names_others() -> None:
    target = "provider: mock"
    assert _spec(target, params=Params(temperature=1.0)).params == Params(temperature=1.0)
    target = "provider: openai, model: m, temperature: 0.7, max_output_tokens: 9, seed: 5"
    assert _spec(target).params == Params(temperature=0.7, max_tokens=9, seed=5)
    given = Params(temperature=1.0, max_tokens=3, seed=None)
    assert _spec(target, params=given).params == given


def test_a_model_may_have_a_time_limit_of_its_own() -> None:
    assert _spec("provider: google, model: m, timeout_seconds: 9").options == {"timeout_seconds": 9}


def test_numbers_may_come_from_the_environment() -> None:
    spec = _spec(
        "provider: openai, model: m, temperature: '${{ HEAT }}', workers: '${{ MANY }}', "
        "max_retries: '${{ MANY }}'"
    )
    assert (spec.params.temperature, spec.workers, spec.retries) == (0.3, 7, 7)
    with pytest.raises(SuiteError, match="'plain', text; it must be a number"):
        _spec("provider: openai, model: m, temperature: '${{ NAME }}'")


def test_workers_and_retries_are_the_runs_where_nothing_is_said() -> None:
    assert (_spec("provider: mock").workers, _spec("provider: mock").retries) == (None, None)
    spec = _spec("provider: mock, workers: 3, max_retries: 0")
    assert (spec.workers, spec.retries) == (3, 0)


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
    read = TargetsFile(f"targets:\n  - {head}    {field}\n{PLAIN}", "targets.yaml", "/project")
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
    assert [one.variables for one in file.list_targets({})] == [()]


def test_a_list_of_targets_shows_what_they_name_and_which_variables_are_not_set() -> None:
    read = _file(
        "{name: a, provider: gemini, model: g, api_key: '${{ KEY }}', base_url: '${{ NOT_SET }}'}",
        "{name: b, use_target: a}",
        "{name: c, target: 'openai:m'}",
        "{name: d, provider: cli, command: cat, env: {T: '${{ BLANK }}'}}",
    )
    rows = [(one.name, one.kind, one.details, one.unset_variables) for one in read.list_targets(ENVIRON)]
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

"""Suites whose formats have prompts or variables: their runs, and the messages for each case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.apis import make_reply
from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread

CONFIGURATION = """
prompts:
- Name the capital of {{ country }}.
- label: Chat
  raw: '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "{{ country }}?"}]'
tests:
- vars: {country: [Peru, Norway]}
  assert: [{type: contains, value: Lima}]
"""
EVAL_V5 = """
name: capitals
prompts:
- Name the capital of {{ country }}.
- {id: chat, prompt: [{role: system, content: Be brief.}, {role: user, content: '{{country}}?'}]}
default_test: {vars: {country: Peru}}
tests:
- id: a
  assert: [{type: contains, value: Lima}]
- {id: own, input: Hello, assert: [{type: contains, value: Lima}]}
"""
CASES = "id,input,expected,city,Lang\na,,hola,Lima,es\nb,,hei,Oslo,\n"


class Recorder(JsonHandler):
    """Always answers `Lima`, and records the requests."""

    requests: list[tuple[str, list[dict[str, str]]]]

    def handle_json(self, body: Any) -> None:
        self.requests.append((body["model"], body["messages"]))
        self.send_json(make_reply("openai", "Lima"))


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[Any]]]:
    """The address of a server, and the model and messages of each request to it."""
    requests: list[Any] = []
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-some-length")
    with serve_in_thread(type("Handler", (Recorder,), {"requests": requests})) as server:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
    return name


def run_all(proctor: Proctor, *arguments: str) -> list[Any]:
    result = proctor("run", *arguments, "--holdout=0", "--json")
    assert result.code in (0, 1), result.err
    runs: list[Any] = result.json["runs"]
    return runs


def answers(proctor: Proctor, run: str) -> dict[str, str]:
    assert proctor("runs", "export", run, "-o", "trials.jsonl").code == 0
    rows = map(json.loads, Path("trials.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["case_id"]: row["output"]["text"] for row in rows}


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, str]:
    return {"role": "system", "content": text}


def test_promptfoo_makes_a_run_for_each_prompt_and_provider_and_sends_what_it_says(
    proctor: Proctor, service: tuple[str, list[Any]]
) -> None:
    url, requests = service
    name = write("capitals/promptfooconfig.yaml", CONFIGURATION)
    runs = run_all(proctor, name, "-t", f"openai:small@{url}", "-t", f"openai:big@{url}")
    assert len(runs) == 4
    assert len({run["group"] for run in runs}) == 1
    assert [run["total"] for run in runs] == [2] * 4
    assert sorted(requests, key=json.dumps) == sorted(
        [
            (model, messages)
            for model in ("small", "big")
            for country in ("Peru", "Norway")
            for messages in (
                [user(f"Name the capital of {country}.")],
                [system("Be brief."), user(f"{country}?")],
            )
        ],
        key=json.dumps,
    )


def test_an_edited_prompt_of_promptfoo_is_the_same_suite(proctor: Proctor) -> None:
    name = write("capitals/promptfooconfig.yaml", CONFIGURATION)
    before = run_all(proctor, name, "-t", "echo")
    write(name, CONFIGURATION.replace("Name", "What is").replace("country }}.", "country }}?"))
    after = run_all(proctor, name, "-t", "echo")
    assert {run["suite_digest"] for run in after} == {run["suite_digest"] for run in before}
    assert answers(proctor, after[0]["run"])["test-1[country=Peru]"] == "What is the capital of Peru?"


@pytest.mark.parametrize("name", ["capitals", "capitals@v1"])
def test_a_saved_suite_is_run_with_the_prompts_that_were_saved_last(proctor: Proctor, name: str) -> None:
    path = write("capitals/promptfooconfig.yaml", CONFIGURATION)
    assert proctor("suites", "save", path, "--name", "capitals").code == 0
    write(path, CONFIGURATION.replace("Name", "Say"))
    saved = proctor("suites", "save", path, "--name", "capitals").out
    assert "capitals v1, unchanged except for tags, metadata, order, holdout or prompts: 2 cases" in saved
    assert "prompts     prompt-1, chat" in proctor("suites", "show", "capitals").out
    runs = run_all(proctor, "--saved", name, "-t", "echo")
    assert len(runs) == 2
    assert answers(proctor, runs[0]["run"])["test-1[country=Peru]"] == "Say the capital of Peru."


def test_the_prompt_of_a_command_takes_the_place_of_those_of_the_suite(proctor: Proctor) -> None:
    path = write("capitals/promptfooconfig.yaml", CONFIGURATION)
    write("mine.txt", "Capital: {{country}}")
    (run,) = run_all(proctor, path, "-t", "echo", "-pmine.txt")
    assert answers(proctor, run["run"])["test-1[country=Peru]"] == "Capital: Peru"


def test_a_suite_with_one_prompt_is_converted_as_it_is_sent(proctor: Proctor) -> None:
    path = write(
        "capitals/promptfooconfig.yaml",
        CONFIGURATION.partition("- label")[0] + "tests:" + (CONFIGURATION.partition("tests:")[2]),
    )
    assert proctor("convert", path, "--to", "meridian", "-o", "c.jsonl", "--lossy").code == 0
    rows = list(map(json.loads, Path("c.jsonl").read_text(encoding="utf-8").splitlines()))
    assert [row.get("input") for row in rows[1:]] == [
        "Name the capital of Peru.",
        "Name the capital of Norway.",
    ]


def test_several_prompts_are_kept_by_proctor_and_refused_for_other_formats(proctor: Proctor) -> None:
    path = write("capitals/promptfooconfig.yaml", CONFIGURATION)
    result = proctor("convert", path, "--to", "agentv", "-o", "c.eval.yaml")
    assert result.code == 4
    assert "the format agentv cannot express `defaults.prompts`: the suite has 2 prompts," in result.err
    assert "The format proctor keeps them." in result.err
    assert proctor("convert", path, "--to", "agentv", "-o", "c.eval.yaml", "--lossy").code == 0
    (run,) = run_all(proctor, "c.eval.yaml", "-t", "echo")
    assert answers(proctor, run["run"])["test-1[country=Peru]~chat"] == "Peru?"
    assert proctor("convert", path, "--to", "proctor", "-o", "c.jsonl").code == 0
    runs = run_all(proctor, "c.jsonl", "-t", "echo")
    assert [run["total"] for run in runs] == [2, 2]
    assert answers(proctor, runs[0]["run"])["test-1[country=Peru]"] == "Name the capital of Peru."


# --- columns -----------------------------------------------------------------------------------------------


def test_a_column_that_is_none_is_a_variable_of_prompts(proctor: Proctor) -> None:
    write("cases.csv", CASES)
    write("hello.txt", "Say hello in {{city}} ({{Lang}})")
    (run,) = run_all(proctor, "cases.csv", "-t", "echo", "-phello.txt")
    assert answers(proctor, run["run"]) == {
        "a": "Say hello in Lima (es)",
        "b": "Say hello in Oslo ()",
    }


def test_cases_with_nothing_but_variables_need_a_prompt(proctor: Proctor) -> None:
    write("cases.csv", CASES)
    result = proctor("run", "cases.csv", "-t", "echo")
    assert result.code == 4
    assert "2 cases, such as 'a', have no input. Pass a prompt that uses `Lang`, `city`" in result.err


def test_variables_that_no_prompt_uses_are_one_warning(proctor: Proctor) -> None:
    write("cases.csv", "id,input,expected,city,lang\na,Hi,Hi,Lima,es\nb,Ho,Ho,Oslo,no\n")
    write("targets.yaml", "targets:\n- {name: other, provider: echo}\n")
    write("plain.txt", "Say {{ input }}")
    result = proctor("run", "cases.csv", "-t", "echo", "-t", "other", "-p", "plain.txt", "--holdout=0")
    assert result.err.count("The prompt 'plain' does not use `city`, `lang`.") == 1


def test_columns_beside_an_input_need_no_prompt(proctor: Proctor) -> None:
    write("cases.csv", "id,input,expected,topic\na,Hi,Hi,words\n")
    assert "topic" not in proctor("run", "cases.csv", "-t", "echo", "--holdout=0").err


def test_a_column_whose_name_the_input_has_in_braces_needs_a_prompt(proctor: Proctor) -> None:
    write("cases.csv", "id,input,expected,city\na,Where is {{ city }}?,Peru,Lima\n")
    result = proctor("run", "cases.csv", "-t", "echo", "--holdout=0")
    assert "The input of case 'a' is sent with `{{ city }}` as it is written" in result.err


def test_a_suite_of_variables_is_validated_listed_and_shown(proctor: Proctor) -> None:
    write("cases.csv", CASES + "c,,hola,Lima,es\n")
    result = proctor("validate", "cases.csv")
    assert result.code in (0, 1), result.err
    assert "'c' has the same question as test 'a'" in result.out + result.err
    assert proctor("suites", "save", "cases.csv", "--name", "cases").code == 0
    assert "city=Lima, Lang=es" in proctor("suites", "show", "cases", "--cases").out


def test_a_variable_may_name_an_environment_variable(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITY", "Lima-in-Peru")
    case = {
        "id": "a",
        "assertions": [{"grader": "contains", "params": {"value": "Lima-in-Peru"}}],
        "vars": {"city": "${{ CITY }}"},
        "variables": ["CITY"],
    }
    write("s.jsonl", json.dumps({"proctor": 1, "name": "s"}) + "\n" + json.dumps(case) + "\n")
    write("where.txt", "Where is {{ city }}?")
    (run,) = run_all(proctor, "s.jsonl", "-t", "echo", "-pwhere.txt")
    assert run["passed"] == 1
    assert answers(proctor, run["run"]) == {"a": "Where is ${{ CITY }}?"}


# --- AgentV and Markdown -----------------------------------------------------------------------------------


def test_agentv_makes_a_run_for_each_prompt_and_a_test_with_an_input_is_run_once(
    proctor: Proctor, service: tuple[str, list[Any]]
) -> None:
    url, requests = service
    runs = run_all(proctor, write("capitals.eval.yaml", EVAL_V5), "-t", f"openai:m@{url}")
    assert [run["total"] for run in runs] == [2, 1]
    assert sorted(json.dumps(messages) for _, messages in requests) == sorted(
        json.dumps(messages)
        for messages in (
            [user("Hello")],
            [user("Name the capital of Peru.")],
            [system("Be brief."), user("Peru?")],
        )
    )


def test_markdown_makes_a_run_for_each_prompt_of_its_tests(
    proctor: Proctor, service: tuple[str, list[Any]]
) -> None:
    url, requests = service
    write("md/prompts/calm.md", "---\nid: calm\n---\nBe calm.\n")
    write("md/prompts/loud.md", "---\nid: loud\nreplacements: {how: [very, a bit]}\n---\nBe {{how}} loud.\n")
    turn = "# 👤\nHow far is the moon?\n\n---\n\nSome 384,000 km.\n"
    write("md/tests/a.md", f"---\nsystemPrompts: [loud, calm]\n---\nUse km.\n{turn}")
    write("md/tests/b.md", f"---\nsystemPrompts: [calm]\n---\n{turn}")
    result = proctor("run", "md/tests", "-t", f"openai:m@{url}", "--judge", "echo", "--json")
    assert [run["total"] for run in result.json["runs"]] == [2, 1, 1]
    question = user("How far is the moon?")
    assert sorted(json.dumps(messages) for _, messages in requests) == sorted(
        json.dumps([system(text), question])
        for text in (
            "Be calm.",
            "Be calm.\n\nUse km.",
            "Be very loud.\n\nUse km.",
            "Be a bit loud.\n\nUse km.",
        )
    )

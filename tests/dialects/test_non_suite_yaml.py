"""YAML that is no suite, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proctor.dialects import DIALECTS
from proctor.dialects.detection import detect
from proctor.dialects.shared.head import read_head
from proctor.errors import SuiteError

KNOWN = {name: DIALECTS.get(name) for name in DIALECTS.names()}
LM_EVAL = """\
task: demo
dataset_path: org/demo
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: ["a", "b"]
metadata:
  version: 1.0
"""
WORKFLOW = "name: CI\non:\n  push:\njobs:\n  test:\n    runs-on: ubuntu-latest\n"
PROVIDER = "id: openai:chat:gpt-5.2\nlabel: mine\nconfig:\n  temperature: 0\n"
COMPOSE = "services:\n  web:\n    image: nginx\n"
OPENAPI = "openapi: 3.1.0\ninfo:\n  title: x\n  version: '1'\npaths: {}\n"
REGISTRY = "match:\n  id: match.dev.v0\nmatch.dev.v0:\n  class: evals.elsuite.basic.match:Match\n"


def message(text: str, path: str = "a/other.yaml") -> str:
    with pytest.raises(SuiteError) as caught:
        detect(read_head(path, text.encode().splitlines(keepends=True)), KNOWN)
    (problem,) = caught.value.problems
    assert (problem.code, problem.line) == ("unknown-dialect", 1)
    return problem.message


@pytest.mark.parametrize(
    ("text", "kind", "instead"),
    [
        (LM_EVAL, "a task of lm-evaluation-harness", "`input`, `choices` and `target`"),
        ("group: x\ntask: [a, b]\n", "a task of lm-evaluation-harness", "pass that file"),
        (PROVIDER, "a promptfoo provider", "--target"),
        ("# Ours.\n- id: echo\n  config: {}\n", "a list of promptfoo providers", "promptfooconfig.yaml"),
        ("- vars:\n    a: 1\n  assert:\n  - type: equals\n", "a list of promptfoo tests", "promptfooconfig"),
        ("prompts: [x]\n", "a part of a promptfoo configuration", "promptfooconfig.yaml"),
        ("---\n- id: a\n  input: x\n  criteria: y\n", "a list of tests for agentv", "`tests:`"),
        ("- id: a\n  vars: {q: x}\n  assert: [Is short]\n", "a list of tests for agentv", "`tests:`"),
        (WORKFLOW, "a GitHub workflow", "Pass a file with cases"),
        (COMPOSE, "a Docker Compose file", "Pass a file with cases"),
        (OPENAPI, "an OpenAPI document", "Pass a file with cases"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n", "a Kubernetes manifest", "Pass a file"),
    ],
)
@pytest.mark.parametrize("path", ["other.yaml", "OTHER.YML"])
def test_yaml_of_other_tools_is_called_what_it_is(text: str, kind: str, instead: str, path: str) -> None:
    told = message(text, path)
    assert told.startswith(f"The file looks like {kind} and is no suite. ")
    assert instead in told


@pytest.mark.parametrize("text", ["a: 1\nb: 2\n", REGISTRY, "site_name: x\nnav: []\n", "name: x\na: 1\nb: 2\n"])
def test_other_yaml_is_called_no_suite_and_its_fields_are_named(text: str) -> None:
    told = message(text)
    assert told.startswith("No suite format fits the file: its fields are '")
    assert "YAML with `tests`" in told
    assert "--dialect" in told


@pytest.mark.parametrize("text", [LM_EVAL, WORKFLOW, PROVIDER, COMPOSE, OPENAPI])
def test_with_tests_it_is_a_suite_all_the_same(text: str) -> None:
    assert detect(read_head("s.yaml", (text + "tests: []\n").encode().splitlines(keepends=True)), KNOWN) == "agentv"


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"assertions": [{"text": "x", "passed": True}]},
        {"assertions": [], "input": [{"role": "user", "content": "x"}], "answer": "y"},
    ],
)
def test_results_of_agentv_are_called_what_they_are(more: dict[str, Any]) -> None:
    row = {"timestamp": "2026-01-01T00:00:00Z", "test_id": "a", "score": 0.5, "target": "t", **more}
    told = message(f"{json.dumps(row)}\n" * 2, "a.baseline.jsonl")
    assert told == "The file has results of AgentV and is no suite. Pass the suite whose tests gave them."


def test_lines_of_tests_without_their_prompts_are_called_what_they_are() -> None:
    told = message('{"id": "a", "vars": {"q": "x"}, "assert": ["Is short"]}\n', "cases.jsonl")
    assert told.startswith("The file looks like a list of tests for agentv and is no suite. ")

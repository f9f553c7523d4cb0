"""The JSON Schema of targets.yaml and its reader accept the same files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from proctor.errors import SuiteError
from proctor.targets import iter_kinds
from proctor.targets.file_schema import targets_schema
from proctor.targets.targets_file import TargetsFile
from proctor.yaml12 import load, to_plain

ROOT = Path(__file__).parents[2]
VALIDATOR = Draft202012Validator(targets_schema())
EXPRESSED = {
    "wrong-type": "a value of another type",
    "unknown-field": "a field that the kind does not have",
    "missing-field": "no name, no provider, or a field that the kind needs",
    "out-of-range": "a number outside of its range",
    "literal-secret": "an `api_key` that is no reference",
    "unknown-value": "a provider that is none",
    "unsupported": "an `api_format` that is none, or a parameter that the kind does not take",
    "bad-value": "a parameter with another value",
    "camel-case": "a field in camel case",
}
"""Codes of errors that the schema finds too, each with what it refuses."""
NOT_EXPRESSED = {
    "duplicate-name": "depends on the other targets",
    "cycle": "depends on the other targets",
    "unknown-target": "depends on the other targets, and on what is installed",
    "unset-variable": "depends on the environment",
    "bad-address": "depends on the rules for addresses",
    "bad-placeholder": "depends on how a command line is read",
    "reference-inside": "depends on how a command line is read",
    "duplicate-field": "two fields say the same; an editor could not say which is wrong",
    "bad-yaml": "the file has no values to check",
}
"""Codes that the schema cannot express, each with the reason."""
EVERY_KIND: list[dict[str, Any]] = [
    {"name": "default", "provider": "mock", "response": "43"},
    {
        "name": "api",
        "provider": "openai",
        "model": "gpt-5.2",
        "api_key": "${{ OPENAI_API_KEY }}",
        "base_url": "https://example.org/v1",
        "api_format": "responses",
        "stream": True,
        "extra_body": {"min_p": 0.1},
        "headers": {"X-Team": "evals"},
        "top_p": 0.9,
        "stop": ["END"],
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "reasoning_effort": "low",
        "verbosity": "low",
        "service_tier": "flex",
        "logprobs": 0,
        "temperature": 0.2,
        "max_output_tokens": 20,
        "seed": 3,
        "system_prompt": "Be brief.",
        "timeout_seconds": 3.5,
        "grader_target": "default",
        "fallback_targets": ["default"],
        "workers": 4,
        "max_retries": 2,
        "description": "Ours.",
        "verbose": True,
    },
    {
        "name": "azure",
        "kind": "azure",
        "deployment": "d",
        "endpoint": "https://a.example",
        "api_version": "1",
    },
    {"name": "aws", "provider": "bedrock", "model": "m", "region": "eu-west-1", "profile": "work"},
    {
        "name": "gateway",
        "provider": "openrouter",
        "model": "m",
        "top_k": 40,
        "thinking_budget": 2048,
        "prompt_cache": True,
        "stream": True,
    },
    {"name": "short-server", "target": "vllm:m@http://127.0.0.1:8000/v1", "top_k": 20, "logprobs": 1},
    {
        "name": "vertex",
        "provider": "vertex-ai",
        "model": "gemini-x",
        "project": "p",
        "location": "eu",
        "credentials": "key.json",
        "top_p": 0.9,
        "top_k": 40,
        "stop": ["END"],
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "reasoning_effort": "low",
        "thinking_budget": 0,
        "logprobs": 2,
        "service_tier": "flex",
        "stream": True,
    },
    {"name": "weights", "provider": "local", "model": "a.gguf", "temperature": "${{ T }}"},
    {
        "name": "agent",
        "provider": "cli",
        "command": "ask {PROMPT}",
        "cwd": "x",
        "timeout_seconds": 9,
        "files_format": "{path}",
        "healthcheck": {"url": "https://a.example", "timeout_seconds": 1},
        "keep_temp_files": True,
        "env": {"A": "b", "MY_KEY": "${{ MY_KEY }}", "N": 1},
    },
    {"name": "function", "provider": "function", "function": "a:b"},
    {"name": "replay", "provider": "transcript", "file": "a.jsonl"},
    {"name": "scripted", "provider": "scripted", "path": "a.jsonl"},
    {"name": "echo", "provider": "echo"},
    {"name": "short", "target": "anthropic:claude-sonnet-4-6", "temperature": 1},
    {
        "name": "claude",
        "provider": "anthropic",
        "model": "claude-sonnet-4-5",
        "top_p": 0.99,
        "top_k": 40,
        "stop": ["END"],
        "reasoning_effort": "low",
        "thinking_budget": 2048,
        "service_tier": "auto",
        "prompt_cache": True,
        "stream": True,
    },
    {"name": "short-local", "target": "local", "seed": 1, "top_k": 5},
    {"name": "short-echo", "target": "echo"},
    {"name": "other", "use_target": "api", "workers": 2},
]
VALUES: list[Any] = [None, 0, -1, 2.5, 7, "", "x", "${{ N }}", [], {}, True, ["x"], {"zz": 1}, [[]], [{}]]


def codes(document: Any) -> set[str]:
    try:
        file = TargetsFile(json.dumps(document), "targets.yaml", "/x")
    except SuiteError as error:
        return {problem.code for problem in error.problems if problem.level == "error"}
    return {problem.code for problem in file.errors}


def changes(node: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    if isinstance(node, dict):
        yield (*place, "no_such_field"), "set", 1
        yield (*place, "maxRetries"), "set", 1
        yield from (((*place, key), "delete", None) for key in node)
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from (((*place, key), "set", other) for other in VALUES)
        yield from changes(value, (*place, key))


def changed(document: Any, place: tuple[Any, ...], change: str, value: Any) -> Any:
    result = deepcopy(document)
    outer = result
    for key in place[:-1]:
        outer = outer[key]
    if change == "delete":
        del outer[place[-1]]
    else:
        outer[place[-1]] = value
    return result


WHOLE = {"$schema": "x", "version": 1, "targets": EVERY_KIND}
CHANGES = list(changes(WHOLE))


def test_the_schema_is_a_schema_of_the_draft_that_it_names() -> None:
    assert targets_schema()["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    Draft202012Validator.check_schema(targets_schema())
    assert len(json.dumps(targets_schema())) < 40_000


def test_a_file_with_every_kind_and_every_field_fits() -> None:
    assert codes(WHOLE) == set()
    assert [error.message for error in VALIDATOR.iter_errors(WHOLE)] == []
    fields = {name for kind in iter_kinds() for name in kind.entry_fields or ()}
    unused_fields = fields - {name for target in EVERY_KIND for name in target}
    assert unused_fields == {"variant", "provider_batching"}


def documents() -> list[Any]:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    blocks = [
        pytest.param(body, id=page.name)
        for page in pages
        for name, body in re.findall(
            r"^```yaml write (\S+)\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
        )
        if name.endswith("targets.yaml")
    ]
    template = (files("proctor") / "templates" / "targets.yaml").read_text(encoding="utf-8")
    return [*blocks, pytest.param(template, id="template")]


@pytest.mark.parametrize("text", documents())
def test_every_targets_file_of_the_documentation_fits(text: str) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(to_plain(load(text)))] == []


@given(st.sampled_from(CHANGES))
def test_reader_and_schema_agree_after_any_change(change: tuple[tuple[Any, ...], str, Any]) -> None:
    check_law(*change)


def check_law(place: tuple[Any, ...], change: str, value: Any) -> None:
    document = changed(WHOLE, place, change, value)
    errors, fits = codes(document), VALIDATOR.is_valid(document)
    assert errors <= EXPRESSED.keys() | NOT_EXPRESSED.keys()
    if not errors and value != "${{ N }}":  # a list is none, which only shows when it is used
        assert fits, f"{place} {change} {value!r} is accepted by the reader, and refused by the schema"
    follows = errors & {"unknown-target", "bad-address"}  # then the fields beside it are not read
    if errors & EXPRESSED.keys() and not follows and "env" not in place[:-1]:
        assert not fits, f"{place} {change} {value!r} is refused by the reader: {errors}"


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"name": "a"}, "missing-field"),
        ({"provider": "echo"}, "missing-field"),
        ({"name": "a", "provider": "openai"}, "missing-field"),
        ({"name": "a", "provider": "opnai", "model": "m"}, "unknown-value"),
        ({"name": "a", "provider": "mock", "model": "m"}, "unknown-field"),
        ({"name": "a", "target": "echo", "temperature": 1}, "unknown-field"),
        ({"name": "a", "use_target": "b", "model": "m"}, "unknown-field"),
        ({"name": "a", "provider": "openai", "model": "m", "api_key": "sk-1"}, "literal-secret"),
        ({"name": "a", "provider": "openai", "model": "m", "temperature": 3}, "out-of-range"),
        ({"name": "a", "provider": "openai", "model": "m", "maxRetries": 3}, "camel-case"),
        ({"name": "a", "provider": "google", "model": "m", "api_format": "x"}, "unsupported"),
        ({"name": "a", "provider": "openai", "model": "m", "api_format": "x"}, "bad-value"),
        ({"name": "a", "provider": "openai", "model": 3}, "wrong-type"),
    ],
)
def test_what_the_reader_refuses_is_refused(entry: dict[str, Any], code: str) -> None:
    document = {"targets": [entry, {"name": "b", "provider": "echo"}]}
    assert code in codes(document)
    assert not VALIDATOR.is_valid(document)


def test_an_agent_of_another_program_fits_as_the_file_may_be_shared_with_it() -> None:
    document = {"targets": [{"name": "a", "provider": "claude-cli", "whatever": 1}]}
    assert codes(document) == set()
    assert VALIDATOR.is_valid(document)

"""Recognises YAML that is no suite by its fields, and says what to pass instead.

Covers files of other evaluation tools, and files that many repositories have.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from proctor.dialects.shared.signatures import YAML_ENDINGS, get_field_names
from proctor.lazy_pattern import lazy_pattern
from proctor.protocols import FileHead

_LIST_START: Final = lazy_pattern(r"\A(?:[ \t\r]*(?:#[^\n]*|---[^\n]*)?\n)*-[ \t]")
_ITEM_KEY: Final = lazy_pattern(r"^(?:-[ \t]+|[ \t]+)[\"']?([\w$-]+)[\"']?[ \t]*:(?=\s|$)", re.MULTILINE)


class NonSuiteKind(Struct, frozen=True):
    """A known kind of file that is no suite."""

    name: str
    field_sets: tuple[frozenset[str], ...]
    """A file matches if it has all fields of one of these sets."""
    advice: str
    """What to do instead, as a sentence."""
    in_list: bool = False
    """Whether these are the fields of objects in a list."""


def _field_sets(*groups: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(group.split()) for group in groups)


_PROVIDERS_ADVICE: Final = (
    "Pass the promptfooconfig.yaml whose `providers` name it, or pass its model with --target."
)
_CASES_ADVICE: Final = "Pass a file with cases, such as JSON Lines with `input` and `expected`."
NON_SUITE_KINDS: Final = (
    NonSuiteKind(
        "a task of lm-evaluation-harness",
        _field_sets("task dataset_path", "task dataset_name", "doc_to_text", "group task"),
        "It names a dataset and contains no cases. Write the questions as JSON Lines or CSV with "
        "`question` and `answer`, or with `input`, `choices` and `target`, and pass that file.",
    ),
    NonSuiteKind("a promptfoo provider", _field_sets("id config"), _PROVIDERS_ADVICE),
    NonSuiteKind("a list of promptfoo providers", _field_sets("id config"), _PROVIDERS_ADVICE, in_list=True),
    NonSuiteKind(
        "a part of a promptfoo configuration",
        _field_sets("prompts", "providers", "defaultTest", "scenarios", "redteam", "vars assert"),
        "Pass the promptfooconfig.yaml with its `prompts`, `providers` and `tests`.",
    ),
    NonSuiteKind(
        "a list of tests for agentv",
        _field_sets(
            "input criteria", "input assertions", "input expected_output", "id input", "id vars assert"
        ),
        "Write it under `tests:`, or pass the suite whose `tests` name it.",
        in_list=True,
    ),
    NonSuiteKind(
        "a list of promptfoo tests",
        _field_sets("vars", "assert"),
        "Pass the promptfooconfig.yaml whose `tests` name it.",
        in_list=True,
    ),
    NonSuiteKind("a GitHub workflow", _field_sets("on jobs", "name jobs"), _CASES_ADVICE),
    NonSuiteKind("a GitHub action", _field_sets("runs inputs", "runs name"), _CASES_ADVICE),
    NonSuiteKind("a GitLab pipeline", _field_sets("stages"), _CASES_ADVICE),
    NonSuiteKind("a Docker Compose file", _field_sets("services"), _CASES_ADVICE),
    NonSuiteKind("a Kubernetes manifest", _field_sets("apiVersion kind"), _CASES_ADVICE),
    NonSuiteKind("an OpenAPI document", _field_sets("openapi", "swagger"), _CASES_ADVICE),
    NonSuiteKind("a configuration of pre-commit", _field_sets("repos"), _CASES_ADVICE),
    NonSuiteKind("a conda environment", _field_sets("dependencies channels"), _CASES_ADVICE),
)
"""The first match wins."""


def detect_non_suite(head: FileHead) -> NonSuiteKind | None:
    """Returns the kind of a YAML or JSON Lines file that is no suite; None if it is unknown."""
    if not head.path.lower().endswith((*YAML_ENDINGS, ".jsonl")):
        return None
    is_yaml = head.path.lower().endswith(YAML_ENDINGS)
    in_list = _LIST_START.match(head.text) is not None or not is_yaml
    names = set(_ITEM_KEY.findall(head.text)) if in_list and is_yaml else get_field_names(head)
    for kind in NON_SUITE_KINDS:
        if kind.in_list is in_list and any(names >= fields for fields in kind.field_sets):
            return kind
    return None

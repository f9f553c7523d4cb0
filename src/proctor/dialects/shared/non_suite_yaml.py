"""Recognises YAML that is no suite by its fields, and says what to pass instead.

Covers files of other evaluation tools, and files that many repositories have.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from proctor.dialects.shared.signatures import YAML, names_of
from proctor.protocols import Head

_LIST: Final = re.compile(r"\A(?:[ \t\r]*(?:#[^\n]*|---[^\n]*)?\n)*-[ \t]")
_ITEM: Final = re.compile(r"^(?:-[ \t]+|[ \t]+)[\"']?([\w$-]+)[\"']?[ \t]*:(?=\s|$)", re.MULTILINE)


class Kind(Struct, frozen=True):
    """A known kind of file that is no suite."""

    name: str
    fields: tuple[frozenset[str], ...]
    """A file matches if it has all fields of one of these sets."""
    instead: str
    """What to do instead, as a sentence."""
    in_list: bool = False
    """Whether these are the fields of objects in a list."""


def _fields(*groups: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(group.split()) for group in groups)


_PROVIDERS: Final = "Pass the promptfooconfig.yaml whose `providers` name it, or its model with --target."
_CASES: Final = "Pass a file with cases, such as JSON Lines with `input` and `expected`."
KINDS: Final = (
    Kind(
        "a task of lm-evaluation-harness",
        _fields("task dataset_path", "task dataset_name", "doc_to_text", "group task"),
        "It names a dataset and has no cases of its own. Write the questions as JSON Lines or CSV with "
        "`question` and `answer`, or with `input`, `choices` and `target`, and pass that file.",
    ),
    Kind("a promptfoo provider", _fields("id config"), _PROVIDERS),
    Kind("a list of promptfoo providers", _fields("id config"), _PROVIDERS, in_list=True),
    Kind(
        "a part of a promptfoo configuration",
        _fields("prompts", "providers", "defaultTest", "scenarios", "redteam", "vars assert"),
        "Pass the promptfooconfig.yaml with its `prompts`, `providers` and `tests`.",
    ),
    Kind(
        "a list of tests for agentv",
        _fields("input criteria", "input assertions", "input expected_output", "id input", "id vars assert"),
        "Write it under `tests:`, or pass the suite whose `tests` name it.",
        in_list=True,
    ),
    Kind(
        "a list of promptfoo tests",
        _fields("vars", "assert"),
        "Pass the promptfooconfig.yaml whose `tests` name it.",
        in_list=True,
    ),
    Kind("a GitHub workflow", _fields("on jobs", "name jobs"), _CASES),
    Kind("a GitHub action", _fields("runs inputs", "runs name"), _CASES),
    Kind("a GitLab pipeline", _fields("stages"), _CASES),
    Kind("a Docker Compose file", _fields("services"), _CASES),
    Kind("a Kubernetes manifest", _fields("apiVersion kind"), _CASES),
    Kind("an OpenAPI document", _fields("openapi", "swagger"), _CASES),
    Kind("a configuration of pre-commit", _fields("repos"), _CASES),
    Kind("a conda environment", _fields("dependencies channels"), _CASES),
)
"""The first match wins."""


def kind_of_yaml(head: Head) -> Kind | None:
    """Returns the kind of a YAML or JSON Lines file that is no suite; None if it is unknown."""
    if not head.path.lower().endswith((*YAML, ".jsonl")):
        return None
    is_yaml = head.path.lower().endswith(YAML)
    in_list = _LIST.match(head.text) is not None or not is_yaml
    names = set(_ITEM.findall(head.text)) if in_list and is_yaml else names_of(head)
    for kind in KINDS:
        if kind.in_list is in_list and any(names >= fields for fields in kind.fields):
            return kind
    return None

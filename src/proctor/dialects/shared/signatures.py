"""Tells dialects apart that share the fields at the beginning of a file."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from proctor.dialects.shared.csv_rows import column_names, separator
from proctor.dialects.shared.jsonl import parse_object
from proctor.protocols import Head

_EVAL: Final = re.compile(r"""\bclass["']?[ \t]*:[ \t]*["']?[\w.]+:\w""")
_DATA: Final = re.compile(r"""\bsamples_jsonl["']?[ \t]*:""")
_KEY: Final = re.compile(r'"(\w+)"\s*:')
_PRAMANA: Final = frozenset(("assertion", "category", "metadata"))
"""Fields that each case of dialect pramana has."""
_MERIDIAN: Final = frozenset(("input", "prompt", "suite_name"))
"""Fields of which each line of dialect meridian has one."""
_AGENTV: Final = frozenset(("assertions", "criteria", "input_files", "rubrics", "tests"))
_PROMPTFOO: Final = frozenset(
    ("providers", "defaultTest", "evaluateOptions", "commandLineOptions", "redteam", "assertionTemplates")
)
"""Fields of promptfoo configurations that AgentV suites do not have."""
_AGENTV_5: Final = frozenset(
    ("name", "target", "default_test", "evaluate_options", "environment", "assert", "threshold", "workspace")
)
"""Fields of AgentV suites that promptfoo configurations do not have."""
_ID_OF_TEST: Final = re.compile(r"^tests:[ \t\r]*\n(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]*-[ \t]+id:", re.MULTILINE)
"""A list of tests whose first one begins with an id, which promptfoo's tests do not have."""
_RESULT: Final = frozenset(("test_id", "score", "target"))
"""Fields that each line of AgentV's results has."""
_GOLDEN: Final = (
    *("actual_output", "retrieval_context", "expected_tools", "tools_called", "additional_metadata"),
    "custom_column_key_values",
)
"""Fields that only DeepEval goldens have."""
_CONVERSATION: Final = ("expected_outcome", "persona", "turns", "user_description")
"""Fields of a conversation that DeepEval simulates, besides its `scenario`."""
YAML: Final = (".yaml", ".yml")


def names_of(head: Head) -> set[str]:
    """Returns the field names at the beginning of a file; nested ones, too, for a multi-line JSON object."""
    first = head.text.lstrip().partition("\n")[0].strip()
    if first.startswith("{") and not isinstance(parse_object(first.encode("utf-8", "replace")), dict):
        return set(_KEY.findall(head.text))
    return {name for row in head.rows for name in row}


def fields_of(head: Head) -> set[str]:
    """Returns the field names of rows at the beginning of a file, or CSV columns; empty for YAML."""
    if head.path.lower().endswith(YAML):
        return set()
    first = head.text.lstrip("\ufeff \t\r\n").partition("\n")[0]
    if head.rows or first.startswith(("{", "[")):
        return names_of(head)
    return set(column_names(first, separator(first)))


def is_of_inspect(head: Head) -> bool:
    """Whether a file has Inspect samples: an `input` with its `target` or `choices`."""
    names = fields_of(head)
    return "input" in names and bool(names & {"target", "choices"}) and names.isdisjoint(_AGENTV)


def is_of_deepeval(head: Head) -> bool:
    """Whether a file has DeepEval goldens: fields that only they have, or no id, as AgentV tests have."""
    names = fields_of(head)
    if not names.isdisjoint(_AGENTV):
        return False
    if "scenario" in names and names.intersection(_CONVERSATION):
        return True
    expected = "expected_output" in names and ("id" not in names or "context" in names)
    return "input" in names and (expected or bool(names.intersection(_GOLDEN)))


def is_of_promptfoo(head: Head) -> bool:
    """Whether a file is a promptfoo configuration, by its name or by two of its essential fields."""
    if PurePosixPath(head.path.replace("\\", "/")).name.lower().startswith("promptfooconfig."):
        return True
    names = names_of(head)
    if is_of_agentv_5(head):
        return False
    essential = names & {"prompts", "providers"}
    return bool(essential) and len(essential | (names & {"targets", "tests", "defaultTest", "scenarios"})) > 1


def is_of_agentv_5(head: Head) -> bool:
    """Whether YAML with `prompts` is AgentV's, by its name, a field that promptfoo lacks, or test ids."""
    path = PurePosixPath(head.path.replace("\\", "/")).name.lower()
    if not path.endswith(YAML) or path.startswith("promptfooconfig."):
        return False
    names = names_of(head)
    if "prompts" not in names or not names.isdisjoint(_PROMPTFOO):
        return False
    is_named = path.startswith("eval.") or path.endswith(tuple(f".eval{ending}" for ending in YAML))
    return is_named or not names.isdisjoint(_AGENTV_5) or _ID_OF_TEST.search(head.text) is not None


def is_of_openai_evals(head: Head) -> bool:
    """Whether rows of `input` and `ideal` are OpenAI's: messages or no id, and no pramana fields."""
    names = names_of(head)
    if not names >= {"input", "ideal"} or not names.isdisjoint(_PRAMANA):
        return False
    return "id" not in names or any(isinstance(row.get("input"), list) for row in head.rows)


def is_of_evals_registry(head: Head) -> bool:
    """Whether a file is YAML of OpenAI's registry: entries with a class and data."""
    is_yaml = head.path.lower().endswith((".yaml", ".yml"))
    return is_yaml and bool(_EVAL.search(head.text) and _DATA.search(head.text))


def is_of_agent_skills(head: Head) -> bool:
    """Whether a file is a JSON object with `evals`, and has a skill's name or the usual file name."""
    if not head.text.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    names = names_of(head)
    is_named = PurePosixPath(head.path.replace("\\", "/")).name.lower().endswith("evals.json")
    return "evals" in names and ("skill_name" in names or (is_named and "prompt" in names))


def is_of_agentv_results(head: Head) -> bool:
    """Whether lines are AgentV's test results, which share fields with cases."""
    return bool(head.rows) and head.rows[0].keys() >= _RESULT


def is_of_fieldkit(head: Head) -> bool:
    """Whether fields that meridian has, too, belong to a fieldkit suite or to its rows."""
    names = names_of(head)
    return "prompts" in names or (bool(names & {"question", "text"}) and names.isdisjoint(_MERIDIAN))

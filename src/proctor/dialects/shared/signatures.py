"""Tells dialects apart that share the fields at the beginning of a file."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from proctor.dialects.shared.csv_rows import detect_separator, parse_column_names
from proctor.dialects.shared.jsonl import parse_object
from proctor.lazy_pattern import lazy_pattern
from proctor.protocols import FileHead

_EVAL_CLASS: Final = lazy_pattern(r"""\bclass["']?[ \t]*:[ \t]*["']?[\w.]+:\w""")
_EVAL_SAMPLES: Final = lazy_pattern(r"""\bsamples_jsonl["']?[ \t]*:""")
_JSON_KEY: Final = lazy_pattern(r'"(\w+)"\s*:')
_PRAMANA_FIELDS: Final = frozenset(("assertion", "category", "metadata"))
"""Fields that each case of dialect pramana has."""
_MERIDIAN_FIELDS: Final = frozenset(("input", "prompt", "suite_name"))
"""Fields of which each line of dialect meridian has one."""
_AGENTV_FIELDS: Final = frozenset(("assertions", "criteria", "input_files", "rubrics", "tests"))
_PROMPTFOO_FIELDS: Final = frozenset(
    ("providers", "defaultTest", "evaluateOptions", "commandLineOptions", "redteam", "assertionTemplates")
)
"""Fields of promptfoo configurations that AgentV suites do not have."""
_AGENTV_5_FIELDS: Final = frozenset(
    ("name", "target", "default_test", "evaluate_options", "environment", "assert", "threshold", "workspace")
)
"""Fields of AgentV suites that promptfoo configurations do not have."""
_FIRST_TEST_ID: Final = lazy_pattern(
    r"^tests:[ \t\r]*\n(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]*-[ \t]+id:", re.MULTILINE
)
"""A list of tests whose first one begins with an id, which promptfoo's tests do not have."""
_RESULT_FIELDS: Final = frozenset(("test_id", "score", "target"))
"""Fields that each line of AgentV's results has."""
_GOLDEN_FIELDS: Final = (
    *("actual_output", "retrieval_context", "expected_tools", "tools_called", "additional_metadata"),
    "custom_column_key_values",
)
"""Fields that only DeepEval goldens have."""
_CONVERSATION_FIELDS: Final = ("expected_outcome", "persona", "turns", "user_description")
"""Fields of a conversation that DeepEval simulates, besides its `scenario`."""
YAML_ENDINGS: Final = (".yaml", ".yml")


def get_field_names(head: FileHead) -> set[str]:
    """Returns the field names at the beginning of a file; nested ones, too, for a multi-line JSON object."""
    first = head.text.lstrip().partition("\n")[0].strip()
    if first.startswith("{") and not isinstance(parse_object(first.encode("utf-8", "replace")), dict):
        return set(_JSON_KEY.findall(head.text))
    return {name for row in head.rows for name in row}


def get_row_field_names(head: FileHead) -> set[str]:
    """Returns the field names of rows at the beginning of a file, or CSV columns; empty for YAML."""
    if head.path.lower().endswith(YAML_ENDINGS):
        return set()
    first = head.text.lstrip("\ufeff \t\r\n").partition("\n")[0]
    if head.rows or first.startswith(("{", "[")):
        return get_field_names(head)
    return set(parse_column_names(first, detect_separator(first)))


def is_inspect(head: FileHead) -> bool:
    """Whether a file has Inspect samples: an `input` with its `target` or `choices`."""
    names = get_row_field_names(head)
    return "input" in names and bool(names & {"target", "choices"}) and names.isdisjoint(_AGENTV_FIELDS)


def is_deepeval(head: FileHead) -> bool:
    """Whether a file has DeepEval goldens: fields that only they have, or no id, as AgentV tests have."""
    names = get_row_field_names(head)
    if not names.isdisjoint(_AGENTV_FIELDS):
        return False
    if "scenario" in names and names.intersection(_CONVERSATION_FIELDS):
        return True
    expected = "expected_output" in names and ("id" not in names or "context" in names)
    return "input" in names and (expected or bool(names.intersection(_GOLDEN_FIELDS)))


def is_promptfoo(head: FileHead) -> bool:
    """Whether a file is a promptfoo configuration, by its name or by two of its essential fields."""
    if PurePosixPath(head.path.replace("\\", "/")).name.lower().startswith("promptfooconfig."):
        return True
    names = get_field_names(head)
    if is_agentv_5(head):
        return False
    essential = names & {"prompts", "providers"}
    return bool(essential) and len(essential | (names & {"targets", "tests", "defaultTest", "scenarios"})) > 1


def is_agentv_5(head: FileHead) -> bool:
    """Whether YAML with `prompts` is AgentV's, by its name, a field that promptfoo lacks, or test ids."""
    path = PurePosixPath(head.path.replace("\\", "/")).name.lower()
    if not path.endswith(YAML_ENDINGS) or path.startswith("promptfooconfig."):
        return False
    names = get_field_names(head)
    if "prompts" not in names or not names.isdisjoint(_PROMPTFOO_FIELDS):
        return False
    is_named = path.startswith("eval.") or path.endswith(tuple(f".eval{ending}" for ending in YAML_ENDINGS))
    return is_named or not names.isdisjoint(_AGENTV_5_FIELDS) or _FIRST_TEST_ID.search(head.text) is not None


def is_openai_evals(head: FileHead) -> bool:
    """Whether rows of `input` and `ideal` are OpenAI's: messages or no id, and no pramana fields."""
    names = get_field_names(head)
    if not names >= {"input", "ideal"} or not names.isdisjoint(_PRAMANA_FIELDS):
        return False
    return "id" not in names or any(isinstance(row.get("input"), list) for row in head.rows)


def is_evals_registry(head: FileHead) -> bool:
    """Whether a file is YAML of OpenAI's registry: entries with a class and data."""
    is_yaml = head.path.lower().endswith(YAML_ENDINGS)
    return is_yaml and bool(_EVAL_CLASS.search(head.text) and _EVAL_SAMPLES.search(head.text))


def is_agent_skills(head: FileHead) -> bool:
    """Whether a file is a JSON object with `evals`, and has a skill's name or the usual file name."""
    if not head.text.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    names = get_field_names(head)
    is_named = PurePosixPath(head.path.replace("\\", "/")).name.lower().endswith("evals.json")
    return "evals" in names and ("skill_name" in names or (is_named and "prompt" in names))


def is_agentv_results(head: FileHead) -> bool:
    """Whether lines are AgentV's test results, which share fields with cases."""
    return bool(head.rows) and head.rows[0].keys() >= _RESULT_FIELDS


def is_fieldkit(head: FileHead) -> bool:
    """Whether fields that meridian has, too, belong to a fieldkit suite or to its rows."""
    names = get_field_names(head)
    return "prompts" in names or (bool(names & {"question", "text"}) and names.isdisjoint(_MERIDIAN_FIELDS))

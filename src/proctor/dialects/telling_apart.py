"""Which of two dialects a file is of, where both have the fields that it begins with."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Final

from proctor.dialects.reading import parse_object
from proctor.ports import Head

_EVAL: Final = re.compile(r"""\bclass["']?[ \t]*:[ \t]*["']?[\w.]+:\w""")
_DATA: Final = re.compile(r"""\bsamples_jsonl["']?[ \t]*:""")
_KEY: Final = re.compile(r'"(\w+)"\s*:')
_PRAMANA: Final = frozenset(("assertion", "category", "metadata"))
"""What each case of dialect pramana has."""
_MERIDIAN: Final = frozenset(("input", "prompt", "suite_name"))
"""One of which each line of dialect meridian has."""


def names_of(head: Head) -> set[str]:
    """The fields at the beginning of a file; of one JSON value over several lines all that are inside it."""
    first = head.text.lstrip().partition("\n")[0].strip()
    if first.startswith(("{", "[")) and not isinstance(parse_object(first.encode("utf-8", "replace")), dict):
        return set(_KEY.findall(head.text))
    return {name for row in head.rows for name in row}


def is_of_promptfoo(head: Head) -> bool:
    """Whether a file configures promptfoo: by its name, or by two of the fields that say what is asked."""
    if PurePosixPath(head.path.replace("\\", "/")).name.lower().startswith("promptfooconfig."):
        return True
    names = names_of(head)
    asked = names & {"prompts", "providers"}
    return bool(asked) and len(asked | (names & {"targets", "tests", "defaultTest", "scenarios"})) > 1


def is_of_openai_evals(head: Head) -> bool:
    """Whether rows of `input` and `ideal` are OpenAI's: messages or no id, and nothing of pramana's."""
    names = names_of(head)
    if not names >= {"input", "ideal"} or not names.isdisjoint(_PRAMANA):
        return False
    return "id" not in names or any(isinstance(row.get("input"), list) for row in head.rows)


def is_of_evals_registry(head: Head) -> bool:
    """Whether a file is YAML of OpenAI's registry: entries that name a class and its data."""
    is_yaml = head.path.lower().endswith((".yaml", ".yml"))
    return is_yaml and bool(_EVAL.search(head.text) and _DATA.search(head.text))


def is_of_fieldkit(head: Head) -> bool:
    """Whether fields that dialect meridian has as well are those of a suite, or of rows, of fieldkit."""
    names = names_of(head)
    return "prompts" in names or (bool(names & {"question", "text"}) and names.isdisjoint(_MERIDIAN))

"""Markers shared by recognising, reading and writing Markdown tests."""

from __future__ import annotations

import re
from posixpath import basename
from typing import Final

ENDING: Final = ".md"
PROMPTS_FOLDER: Final = "prompts"
"""The folder of system prompts and evaluators, which has no tests."""
USER_MARKER: Final = "# 👤"
ASSISTANT_MARKER: Final = "# 🤖"
"""The beginnings of the lines that begin a turn."""

_USER_LINE: Final = re.compile(f"^{USER_MARKER}", re.MULTILINE)


def is_readme(path: str) -> bool:
    """Whether a file is a README, which is neither a test nor a prompt."""
    return basename(path).lower() == "readme.md"


def has_user_turn(text: str) -> bool:
    """Whether a text has a line that begins a user turn."""
    return _USER_LINE.search(text) is not None

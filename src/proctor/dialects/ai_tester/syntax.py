"""Marks that recognising a Markdown test, reading and writing it share."""

from __future__ import annotations

import re
from typing import Final

ENDING: Final = ".md"
USER: Final = "# 👤"
ASSISTANT: Final = "# 🤖"
"""What the lines begin with at which turns begin."""

_USER_LINE: Final = re.compile(f"^{USER}", re.MULTILINE)


def has_user_turn(text: str) -> bool:
    """Whether a line of a text begins a turn of a user."""
    return _USER_LINE.search(text) is not None

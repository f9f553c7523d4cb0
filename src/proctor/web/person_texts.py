"""Reads what people type about answers: their names, notes and comments."""

from __future__ import annotations

from typing import Final

from proctor.errors import UsageError
from proctor.safe_text import one_line

MAX_NAME_LENGTH: Final = 80
MAX_NOTE_LENGTH: Final = 4_000


def parse_person_name(text: str) -> str:
    """Returns a person's name on one line.

    Raises:
        UsageError: there is none, or it is too long.
    """
    name = " ".join(one_line(replace_invalid(text)).split())
    if not name or len(name) > MAX_NAME_LENGTH:
        raise UsageError(f"Enter your name, 1 to {MAX_NAME_LENGTH} characters.")
    return name


def parse_note(text: str, noun: str) -> str:
    """Returns a note without white space around it; it may be empty.

    Raises:
        UsageError: it is too long.
    """
    note = replace_invalid(text).replace("\r\n", "\n").strip()
    if len(note) > MAX_NOTE_LENGTH:
        raise UsageError(f"A {noun} can have at most {MAX_NOTE_LENGTH:,} characters. Go back and shorten it.")
    return note


def replace_invalid(text: str) -> str:
    """Replaces characters that no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")

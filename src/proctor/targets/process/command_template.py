"""Fills placeholders in a shell command line, so that no value can act as a command. Pure.

Values are put in single quotes, so a placeholder may not be inside quotes of the template, unless the quotes
contain nothing else. Placeholders whose values are trusted may be anywhere.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping

from proctor.errors import suggestion
from proctor.lazy_pattern import lazy_pattern

PLACEHOLDERS = ("PROMPT", "PROMPT_FILE", "EVAL_ID", "ATTEMPT", "FILES", "OUTPUT_FILE")
"""The placeholders of a command line of kind `cli`."""
BATCH_PLACEHOLDERS = ("EVAL_ID", "ATTEMPT", "OUTPUT_FILE")
"""The placeholders of a command line that runs once for all prompts."""
FOLDER_VARIABLE = "PROCTOR_TARGETS_FOLDER"
"""The environment variable with the folder of the targets file, for programs beside that file."""
_TRUSTED_PLACEHOLDERS = frozenset({"PROMPT_FILE", "OUTPUT_FILE", "ATTEMPT"})
"""Placeholders whose values come from Proctor alone: paths of temporary files, and a number."""
FILE_PLACEHOLDERS = ("path", "basename")
"""The placeholders in the format of one file in `{FILES}`."""

# Not after a dollar sign, which makes it a shell variable.
_UPPER_PLACEHOLDER = lazy_pattern(rf"(?<!\$)\{{([A-Z][A-Z0-9_]*|{'|'.join(PLACEHOLDERS).lower()})\}}")
_LOWER_PLACEHOLDER = lazy_pattern(r"(?<!\$)\{([a-z][a-z0-9_]*)\}")


class CommandTemplate:
    """A parsed template; `placeholders` are the names of its placeholders."""

    def __init__(self, template: str, placeholders: Collection[str] = PLACEHOLDERS) -> None:
        """Parses a template.

        Raises:
            ValueError: it has an unknown placeholder, or one inside quotes; the message is a clause.
        """
        self._pieces = _split_template(template, placeholders)
        self.placeholders = frozenset(self._pieces[1::2])

    def fill(self, values: Mapping[str, str]) -> str:
        """Returns the command line with each placeholder's value, which the caller has quoted."""
        pieces = list(self._pieces)
        pieces[1::2] = [values[name] for name in pieces[1::2]]
        return "".join(pieces)


def shell_argv(line: str, environ: Mapping[str, str]) -> list[str]:
    """Returns the program and arguments that run a command line in the shell."""
    if sys.platform == "win32":
        return [environ.get("COMSPEC", "cmd.exe"), "/d", "/c", line]
    return [shutil.which("sh", path=environ.get("PATH")) or "/bin/sh", "-c", line]


def quote_word(value: str) -> str:
    """Quotes a value as one word of the shell."""
    return subprocess.list2cmdline([value]) if sys.platform == "win32" else shlex.quote(value)


def _split_template(template: str, placeholders: Collection[str]) -> list[str]:
    """Splits a template into texts and placeholder names, alternating; the first and the last are texts."""
    pattern = _LOWER_PLACEHOLDER if placeholders is FILE_PLACEHOLDERS else _UPPER_PLACEHOLDER
    pieces, begin, state = [], 0, _ShellState()
    at = 0
    while at < len(template):
        place = pattern.match(template, at)
        if place is None:
            at = state.step(template, at)
            continue
        name, first, end = place[1], place.start(), place.end()
        if name not in placeholders:
            known = [f"{{{placeholder}}}" for placeholder in placeholders]
            advice = suggestion(f"{{{name}}}", known)
            raise ValueError(f"has the placeholder {place[0]!r}, which is unknown. {advice}")
        quote = state.quote
        if quote and template[first - 1] == template[end : end + 1] == quote:
            first, end = first - 1, end + 1
            state.close()
        elif quote and name not in _TRUSTED_PLACEHOLDERS:
            raise ValueError(
                f"has {place[0]} inside quotes, where its value could act as a command. "
                "Move it out of the quotes; Proctor quotes its value."
            )
        pieces += [template[begin:first], name]
        begin = at = end
    return [*pieces, template[begin:]]


class _ShellState:
    """The open quotes and substitutions at one position of a command line."""

    def __init__(self) -> None:
        self._open: list[str] = []

    @property
    def quote(self) -> str:
        """The quote around the current position; empty outside of quotes."""
        return self._open[-1] if self._open and self._open[-1] in "'\"" else ""

    def close(self) -> None:
        """Leaves the innermost quote or substitution."""
        self._open.pop()

    def step(self, line: str, at: int) -> int:
        """Reads one character and returns the position of the next."""
        character, inside = line[at], self._open[-1] if self._open else ""
        if inside == "'":
            if character == "'":
                self.close()
        elif character == "\\":
            return at + 2
        elif character in '"`' and inside == character:
            self.close()
        elif character in self._opening_characters(line, at, inside):
            self._open.append(character)
        elif character == ")" and inside == "(":
            self.close()
        return at + 1

    @staticmethod
    def _opening_characters(line: str, at: int, inside: str) -> str:
        """Returns the characters that open something here: in double quotes `(` only after a dollar sign."""
        if inside != '"':
            return "\"'`("
        return "`(" if line[at - 1] == "$" else "`"

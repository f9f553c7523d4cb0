"""A command line with places for a prompt to a line for the shell, in which no value can act as a command.

A value stands in single quotes, so a place may not stand inside quotes of the template's own; only quotes
that hold the place alone are taken for it. What is never a stranger's text may stand anywhere. Pure.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping

from proctor.errors import suggestion

PLACES = ("PROMPT", "PROMPT_FILE", "EVAL_ID", "ATTEMPT", "FILES", "OUTPUT_FILE")
"""What a command line of kind `cli` may name."""
BATCH_PLACES = ("EVAL_ID", "ATTEMPT", "OUTPUT_FILE")
"""What it may name where it is run once for all prompts."""
FOLDER = "PROCTOR_TARGETS_FOLDER"
"""The variable by which a line, which runs elsewhere, can name a program beside the targets file."""
_OURS = frozenset({"PROMPT_FILE", "OUTPUT_FILE", "ATTEMPT"})
"""Those whose values no suite or answer decides: paths of temporary files, and a number."""
FILE_PLACES = ("path", "basename")
"""What the form of one file in `{FILES}` may name."""

# Not after a dollar sign, where the shell means a variable of its own.
_UPPER = re.compile(rf"(?<!\$)\{{([A-Z][A-Z0-9_]*|{'|'.join(PLACES).lower()})\}}")
_LOWER = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\}")


class Line:
    """A template that is read; `places` are the names in it."""

    def __init__(self, template: str, placeholders: Collection[str] = PLACES) -> None:
        """Read a template.

        Raises:
            ValueError: it names an unknown place, or has one inside quotes; the text is a clause.
        """
        self._pieces = _split_template(template, placeholders)
        self.places = frozenset(self._pieces[1::2])

    def filled(self, values: Mapping[str, str]) -> str:
        """The line with each place's value, which the caller has quoted."""
        pieces = list(self._pieces)
        pieces[1::2] = [values[name] for name in pieces[1::2]]
        return "".join(pieces)


def shell(line: str, environ: Mapping[str, str]) -> list[str]:
    """The program and the arguments that run a line."""
    if sys.platform == "win32":
        return [environ.get("COMSPEC", "cmd.exe"), "/d", "/c", line]
    return [shutil.which("sh", path=environ.get("PATH")) or "/bin/sh", "-c", line]


def quoted(value: str) -> str:
    """A value as one word of the shell."""
    return subprocess.list2cmdline([value]) if sys.platform == "win32" else shlex.quote(value)


def _split_template(template: str, placeholders: Collection[str]) -> list[str]:
    """Texts and the names of places, in turn; the first and the last are texts."""
    pattern = _LOWER if placeholders is FILE_PLACES else _UPPER
    pieces, begin, state = [], 0, _ShellState()
    at = 0
    while at < len(template):
        place = pattern.match(template, at)
        if place is None:
            at = state.step(template, at)
            continue
        name, first, end = place[1], place.start(), place.end()
        if name not in placeholders:
            raise ValueError(
                f"has the placeholder {place[0]!r}, which is not known. {_suggest(name, placeholders)}"
            )
        quote = state.quote
        if quote and template[first - 1] == template[end : end + 1] == quote:
            first, end = first - 1, end + 1
            state.close()
        elif quote and name not in _OURS:
            raise ValueError(
                f"has {place[0]} inside quotes, where its value could act as a command. "
                "Take it out of the quotes; its value is quoted already."
            )
        pieces += [template[begin:first], name]
        begin = at = end
    return [*pieces, template[begin:]]


def _suggest(name: str, placeholders: Collection[str]) -> str:
    return suggestion(f"{{{name}}}", [f"{{{placeholder}}}" for placeholder in placeholders])


class _ShellState:
    """Which quotes and substitutions of the shell are open at one place of a line."""

    def __init__(self) -> None:
        self._open: list[str] = []

    @property
    def quote(self) -> str:
        """The quote in which the place stands; empty outside of any."""
        return self._open[-1] if self._open and self._open[-1] in "'\"" else ""

    def close(self) -> None:
        """Leave the innermost one."""
        self._open.pop()

    def step(self, line: str, at: int) -> int:
        """Look at one character; the place of the next one."""
        character, inside = line[at], self._open[-1] if self._open else ""
        if inside == "'":
            if character == "'":
                self.close()
        elif character == "\\":
            return at + 2
        elif character in '"`' and inside == character:
            self.close()
        elif character in self._openers(line, at, inside):
            self._open.append(character)
        elif character == ")" and inside == "(":
            self.close()
        return at + 1

    @staticmethod
    def _openers(line: str, at: int, inside: str) -> str:
        """What begins something here: in double quotes a parenthesis only after a dollar sign."""
        if inside != '"':
            return "\"'`("
        return "`(" if line[at - 1] == "$" else "`"

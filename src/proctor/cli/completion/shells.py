"""Speaks with shells: reads the command line from variables, and prints candidates in the shell's form.

It is click's protocol: the script of a shell sets `_PROCTOR_COMPLETE` and the words, and runs `proctor`.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import TYPE_CHECKING, ClassVar

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    get_completion_class,
    split_arg_string,
)

from proctor.cli.completion.parameters import add_candidates
from proctor.cli.main import COMMANDS, cli, load_command
from proctor.errors import UsageError

if TYPE_CHECKING:
    _Base = ShellComplete
else:
    _Base = object

COMPLETION_VARIABLE = "_PROCTOR_COMPLETE"
"""The variable by which a completion script requests candidates, as click names it; `__main__` reads it."""
PROGRAM = "proctor"
SHELLS = ("bash", "zsh", "fish", "powershell")
MAX_HELP_LENGTH = 60
_END = "\ue000"
"""Marks the place of the cursor; no shell has it in a word."""
_PLAIN = re.compile(r"[\w@%+=:,./~-]+")
"""A word that no shell reads as anything else."""
_BASH_SCRIPT = """\
%(complete_func)s() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/:=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null ||
    complete -F %(complete_func)s %(prog_name)s
"""
_ZSH_SCRIPT = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described unfinished response
    local type key descr
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \\
        %(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)}")
    for type key descr in ${response}; do
        if [[ "$type" == "dir" ]]; then
            _path_files -/
        elif [[ "$type" == "file" ]]; then
            _path_files -f
        elif [[ "$key" == *: ]]; then
            unfinished+=("$key")
        elif [[ "$descr" == "_" ]]; then
            plain+=("$key")
        else
            described+=("$key":"$descr")
        fi
    done
    if [ -n "$described" ]; then
        _describe -V unsorted described -U
    fi
    if [ -n "$plain" ]; then
        compadd -U -V unsorted -a plain
    fi
    if [ -n "$unfinished" ]; then
        compadd -U -S '' -V unsorted -a unfinished
    fi
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
"""The script of click, except that no space follows an incomplete word."""


class _SafeShell(_Base):
    """What all shells share: candidates of Proctor's parameters, without what could act in a shell."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Returns the candidates for a word; they begin with `--flag=` where the word does."""
        args = _prepare(args)
        flag = re.match(r"--[\w-]+=", incomplete)
        items = super().get_completions(args, incomplete)
        safe_items = [_make_safe(item) for item in items if self.is_safe(item)]
        if flag:
            for item in safe_items:
                item.value = f"{flag[0]}{item.value}"
        return safe_items

    def is_safe(self, item: CompletionItem) -> bool:
        """Whether a candidate may be offered: on one line, and nothing that the terminal would obey."""
        return str(item.value).isprintable()


class BashCandidates(_SafeShell, BashComplete):
    """Bash, which breaks words at `:` and `=`, quotes nothing and knows no descriptions."""

    source_template: ClassVar[str] = _BASH_SCRIPT

    def source(self) -> str:
        """Returns the script, without starting bash to ask for its version."""
        return ShellComplete.source(self)

    def get_completion_args(self) -> tuple[list[str], str]:
        """Returns the words before the cursor, and the beginning of the word at it."""
        words = split_arg_string(os.environ["COMP_WORDS"] + _END)
        while words and re.match(r"\w+=", words[0]):  # assignments before the command
            del words[0]
        return words[1:-1], words[-1].removesuffix(_END)

    def complete(self) -> str:
        """Returns one candidate a line, files included, as they are to be written at the cursor."""
        args, incomplete = self.get_completion_args()
        is_quoted = _ends_within_quotes(os.environ["COMP_WORDS"])
        lines: dict[str, None] = {}
        for item in self.get_completions(args, incomplete):
            value = str(item.value)
            for word in [value] if item.type == "plain" else _list_files(value, folders=item.type == "dir"):
                rest = word[0 if is_quoted else _count_before_break(incomplete) :]
                lines[rest if is_quoted else _escape(rest)] = None
        return "\n".join(lines)


class ZshCandidates(_SafeShell, ZshComplete):
    """Zsh, which quotes candidates itself."""

    source_template: ClassVar[str] = _ZSH_SCRIPT

    def format_completion(self, item: CompletionItem) -> str:
        """Returns the lines of a candidate; one that is not finished has no description."""
        is_finished = not str(item.value).endswith(":")
        return super().format_completion(item if is_finished else CompletionItem(item.value, item.type))


class FishCandidates(_SafeShell, FishComplete):
    """Fish, which quotes candidates itself; its script takes none with a comma."""

    def is_safe(self, item: CompletionItem) -> bool:
        """Whether a candidate may be offered."""
        return super().is_safe(item) and "," not in str(item.value)


def complete(instruction: str) -> int:
    """Prints what a shell requested: `bash_complete` candidates, `bash_source` the script; never an error."""
    shell, _, what = instruction.partition("_")
    try:
        completion = _completion_for(shell)
        output = completion.source() if what == "source" else completion.complete()
        sys.stdout.buffer.write(f"{output}\n".encode("utf-8", "ignore") if output else b"")
        sys.stdout.flush()
    except Exception:  # noqa: BLE001  # a message would stand in the middle of what the user types
        return 1
    return 0


def get_script(shell: str) -> str:
    """Returns the script that a shell loads.

    Raises:
        UsageError: the installed click does not know the shell.
    """
    return _completion_for(shell).source()


def _completion_for(shell: str) -> ShellComplete:
    own: dict[str, type[ShellComplete]] = {
        "bash": BashCandidates,
        "zsh": ZshCandidates,
        "fish": FishCandidates,
    }
    kind = own.get(shell)
    if kind is None:
        base = get_completion_class(shell)
        if base is None:
            raise UsageError(f"Completion for {shell} needs click 8.5: pip install -U click.")
        kind = type("PlainCandidates", (_PlainShell, base), {})
    return kind(cli, {}, PROGRAM, COMPLETION_VARIABLE)


class _PlainShell(_SafeShell):
    """A shell that writes candidates as they are: only words that mean nothing else are offered."""

    def is_safe(self, item: CompletionItem) -> bool:
        return item.type != "plain" or _PLAIN.fullmatch(str(item.value)) is not None


def _prepare(args: list[str]) -> list[str]:
    """Gives the command its candidates; returns the words without flags whose value was left out."""
    name = next((word for word in args if not word.startswith("-")), None)
    if name not in COMMANDS:
        return args
    command = load_command(name)
    add_candidates(command)
    left_out = getattr(command, "optional_values", {})
    return [word for word in args if word not in left_out]


def _make_safe(item: CompletionItem) -> CompletionItem:
    """Returns a candidate with a description of one short line."""
    description = "".join(char if char.isprintable() else " " for char in item.help or "")
    description = description.replace(",", ";")  # ends the description in the script of fish
    return CompletionItem(item.value, type=item.type, help=description[:MAX_HELP_LENGTH] or None)


def _ends_within_quotes(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError as error:
        return "quotation" in str(error)  # else a backslash is the last character
    return False


def _count_before_break(word: str) -> int:
    """Returns how many characters of a word bash takes for words of their own."""
    breaks = [char for char in ":=" if char in os.environ.get("COMP_WORDBREAKS", ":=")]
    return max((word.rfind(char) + 1 for char in breaks), default=0)


def _escape(word: str) -> str:
    """Returns a word as it is typed in bash."""
    home = "~" if word.startswith("~") else ""
    return home + re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", word[len(home) :])


def _list_files(beginning: str, *, folders: bool) -> list[str]:
    """Returns the files and folders whose paths begin like that; hidden ones if their dot was typed."""
    flag = re.match(r"--[\w-]+=", beginning)
    prefix = flag[0] if flag else ""
    folder, name = os.path.split(beginning[len(prefix) :])
    start = beginning[len(prefix) : len(beginning) - len(name)]
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:  # noqa: PTH111
            paths = sorted(
                f"{prefix}{start}{entry.name}{'/' if entry.is_dir() else ''}"
                for entry in entries
                if entry.name.startswith(name) and (name or not entry.name.startswith("."))
                if not folders or entry.is_dir()
            )
    except OSError:
        return []
    return [path for path in paths if path.isprintable()]


__all__ = ["SHELLS", "complete", "get_script"]

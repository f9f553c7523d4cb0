"""What each parameter of a command takes, by its flag or by the words of its metavar."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from proctor.cli.completion import candidates
from proctor.cli.completion.candidates import Items

if TYPE_CHECKING:
    _ParamType = click.ParamType[str]
else:
    _ParamType = click.ParamType

Finder = Callable[[click.Context, str], Items]

_BY_FLAG: dict[str, Finder] = {
    "--category": candidates.find_categories,
    "--engine": candidates.find_engines,
    "--prompt": candidates.find_prompts,
    "--saved": candidates.find_saved_suites,
}
_BY_METAVAR: dict[str, Finder] = {
    "SUITE": candidates.find_suites,
    "RUN": candidates.find_runs,
    "BASELINE": candidates.find_groups,
    "T": candidates.find_targets,
    "TARGET": candidates.find_targets,
    "D": candidates.find_dialects,
    "DIALECT": candidates.find_dialects,
    "BUNDLE": candidates.find_files,
    "FILE": candidates.find_files,
    "NEWFILE": candidates.find_files,
    "PATH": candidates.find_files,
    "STORE": candidates.find_files,
    "OLD": candidates.find_suites,
    "DIR": candidates.find_folders,
    "FOLDER": candidates.find_folders,
}
"""By a word of the metavar, or of the name of an argument in capitals."""
_OF_SUITES: dict[str, Finder] = {"NAME": candidates.find_saved_suites, "TAG": candidates.find_tags}
"""Further words, for commands on suites."""
_OF_RUNS: dict[str, Finder] = {"TAG": candidates.find_run_tags}
"""Further words, for commands on runs."""


class CompletedText(_ParamType):
    """A text with candidates."""

    name = "text"

    def __init__(self, finders: list[Finder]) -> None:
        self._finders = finders

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002  # click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """Returns the candidates that begin like the word, each once; files are found by the shell."""
        items = chain.from_iterable(finder(ctx, incomplete) for finder in self._finders)
        matches = (item for item in items if item.type != "plain" or item.value.startswith(incomplete))
        return list({(item.type, item.value): item for item in matches}.values())


def add_candidates(command: click.Command, *groups: str) -> None:
    """Gives the parameters of a command, and of the commands in it, the candidates of their kind.

    Args:
        command: the command, whose parameters are changed.
        groups: the names of the groups that it is in.
    """
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_candidates(subcommand, *groups, command.name or "")
    is_of_suites = "suites" in groups or any(param.name == "suite" for param in command.params)
    words = _BY_METAVAR | (_OF_SUITES if is_of_suites and "runs" not in groups else _OF_RUNS)
    for param in command.params:
        finders = list(_find_finders(param, words))
        if finders and param.type is click.STRING:
            param.type = CompletedText(finders)


def _find_finders(param: click.Parameter, words: dict[str, Finder]) -> Iterator[Finder]:
    """Yields what finds the candidates of a parameter."""
    by_flag = [_BY_FLAG[flag] for flag in param.opts if flag in _BY_FLAG]
    metavar = param.metavar or (param.name or "").upper()
    if by_flag or (isinstance(param, click.Option) and metavar == "NAME"):
        yield from by_flag
        if "--suite" in param.opts:
            yield candidates.find_saved_suites
        return
    for word in dict.fromkeys(re.findall(r"[A-Z]+", metavar)):
        if word in words:
            yield words[word]

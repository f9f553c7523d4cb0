"""Finds the suite that a client names: a file below the server's folder, a saved suite, or a built-in one."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from msgspec import Struct

from proctor.errors import UsageError
from proctor.mcp_server.project import AgentProject
from proctor.model import Suite
from proctor.protocols import Store, SuiteSource
from proctor.safe_text import one_line
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS, builtin_path
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.save_and_open import find_stored_suite
from proctor.services.suites.saved_names import list_saved_names
from proctor.services.suites.suite_argument import LocatedSuites, NoSuchSuite, SuiteLocator

_BUILTIN_FILES = {builtin_path(tier): f"{BUILTIN_PREFIX}{tier}" for tier in TIERS}


class SuiteChoice(Struct, frozen=True, kw_only=True):
    """The suite of a run."""

    name: str
    """The argument that names it on the command line, without its version."""
    version: str | None = None
    """None for a suite of a file, or a built-in one."""
    sources: tuple[SuiteSource, ...] = ()
    """Its file, if it is one."""
    targets: tuple[str, ...] = ()
    """The targets that a saved suite names itself."""


def locate_suites(project: AgentProject, store: Store, word: str) -> LocatedSuites | Suite:
    """Finds the files that a word stands for, or the suite in the store.

    Raises:
        UsageError: there is no such suite, or it is outside the folder.
        StoreError: the store cannot be read.
    """
    _check_inside(project, word)
    locator = SuiteLocator(
        saved_names=partial(list_saved_names, store), environ=project.environ, config=project.config
    )
    try:
        located = locator.find(word)
    except NoSuchSuite as error:
        suite = find_stored_suite(store, word)
        if suite is None:
            raise UsageError(f"{error} The tool `list_suites` lists the suites.") from None
        return suite
    for path in located.paths:
        if path not in _BUILTIN_FILES:
            _check_inside(project, str(path))
    return located


def choose_suite(project: AgentProject, store: Store, word: str) -> SuiteChoice:
    """Finds the single suite that a word stands for.

    Raises:
        UsageError: there is none, or more than one, or it is outside the folder.
        StoreError: the store cannot be read.
    """
    located = locate_suites(project, store, word)
    if isinstance(located, Suite):
        return SuiteChoice(
            name=located.name, version=located.version, targets=tuple(located.defaults.targets)
        )
    if len(located.paths) != 1:
        names = ", ".join(one_line(path.as_posix()) for path in located.paths[:5])
        raise UsageError(
            f"{word!r} has {len(located.paths):,} suites, but this tool runs one at a time. Name one of "
            f"them: {names}{', …' * (len(located.paths) > 5)}."
        )
    path = located.paths[0]
    if path in _BUILTIN_FILES:
        return SuiteChoice(name=_BUILTIN_FILES[path])
    source = source_from_path(path, project.environ, project.config.source_options(path))
    return SuiteChoice(name=f"./{os.path.relpath(path, project.folder)}", sources=(source,))


def _check_inside(project: AgentProject, word: str) -> None:
    """Refuses a path that leads out of the folder, also by a link, and hidden files.

    Raises:
        UsageError: it does.
    """
    path = Path(project.folder, word)
    try:
        parts = path.relative_to(project.folder).parts
        outside = ".." in parts or not path.resolve().is_relative_to(project.folder.resolve())
    except (OSError, ValueError, RuntimeError):  # elsewhere, no path of this system, or links in a circle
        parts, outside = (), True
    hidden = any(part.startswith(".") for part in parts)
    if outside or hidden:
        raise UsageError(
            f"{word[:80]!r} is not available. Name a suite inside the folder in which `proctor mcp` was "
            "started, by its path from there. Hidden files and folders are not available."
        )

"""Logs the files behind the targets, judges, graders and workspaces of a run that is watched."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from proctor.model import Case, TargetSpec
from proctor.protocols import Store
from proctor.services.file_log import FileLog
from proctor.services.runs.planning.planned_run import PlannedRun, ReuseLimits

_MAX_NAME_LENGTH = 512
_PROGRAM_KINDS = ("command", "cli", "function")
_PROGRAM_NOTE = "files that the programs of this run read or import themselves"


def log_run_files(planned_run: PlannedRun, store: Store, files: FileLog) -> PlannedRun:
    """Returns the run, which reuses no answer or judgment that is older than the program behind it.

    Args:
        planned_run: the run; its targets and judges are open, so that functions are imported.
        store: has its cases.
        files: gets the files.
    """
    run = planned_run.run
    folder = run.suite.folder or str(Path.cwd())
    for case in (stored_case.case for stored_case in store.cases(run.suite.content)):
        _log_case(case, folder, files)
    target_files = list(chain.from_iterable(_list_files(spec) for spec in (run.target, *run.named_targets)))
    judge_files = list(chain.from_iterable(_list_files(spec) for spec in (*run.judges, *run.named_judges)))
    files.add(*target_files, *judge_files)
    if run.target.kind in _PROGRAM_KINDS[:2]:
        files.note(_PROGRAM_NOTE)
    limits = ReuseLimits(
        answers_since=files.newest_change(target_files),
        judgments_since=files.newest_change(judge_files),
    )
    return replace(planned_run, reuse_limits=limits)


def list_project_modules() -> list[str]:
    """Returns the files of the imported modules that are in the working directory, or below it."""
    root = str(Path.cwd())
    names = []
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and name.startswith(root + os.sep) and not name.startswith(sys.prefix):
            names.append(name)
    return [name for name in names if "site-packages" not in name]


def _list_files(spec: TargetSpec) -> Iterator[str]:
    """Yields the files that a target is made of: programs, scripts, recorded answers, modules."""
    if spec.kind == "function":
        yield from list_project_modules()
    try:
        words = shlex.split(spec.model)
    except ValueError:
        words = [spec.model]
    folders = [spec.options[name] for name in ("cwd", "folder") if isinstance(spec.options.get(name), str)]
    texts = [*words, *_iter_texts(spec.options)]
    yield from _find_files(texts, [*folders, str(Path.cwd())])
    for fallback in spec.fallbacks:
        yield from _list_files(fallback)


def _log_case(case: Case, folder: str, files: FileLog) -> None:
    """Logs the files that the graders and the workspace of a case name."""
    params = [assertion.params for assertion in case.assertions if assertion.params]
    if params:
        files.add(*_find_files(_iter_texts(to_builtins(params)), [folder]))
        if any("command" in values for values in params):
            files.note(_PROGRAM_NOTE)
    if case.workspace is not None:
        files.add(*_find_files(_iter_texts(to_builtins(case.workspace.hooks)), [folder]))
        if case.workspace.template is not None:
            files.add_tree(Path(folder, case.workspace.template))


def _find_files(texts: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
    """Yields the files that texts name, as seen from any of the folders."""
    for text in texts:
        if not text or len(text) > _MAX_NAME_LENGTH or "\n" in text or "\0" in text:
            continue
        for folder in folders:
            path = os.path.join(folder, text)  # noqa: PTH118
            if os.path.isfile(path):  # noqa: PTH113
                yield path
                break


def _iter_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _iter_texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _iter_texts(item)

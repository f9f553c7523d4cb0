"""Runs hooks as programs, with their arguments and their input."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from proctor.env_substitution import stream_end
from proctor.errors import TargetError, WorkspaceError
from proctor.model import Case, Hook, Message
from proctor.protocols import CompletedProgram, ProgramRunner

HookName = Literal["before_all", "before_each", "after_each", "after_all"]

_TIMEOUTS = {"before_all": 60.0, "before_each": 60.0, "after_each": 30.0, "after_all": 30.0}
_PLACEHOLDER_NAMES = ("workspace_path", "test_id", "eval_run_id", "case_input", "case_metadata")
_PLACEHOLDER = re.compile(r"\{\{\s*(" + "|".join(_PLACEHOLDER_NAMES) + r")\s*\}\}")
_MAX_ERROR = 2_000


class HookContext(Struct, frozen=True, kw_only=True):
    """The workspace, run and case that are passed to a hook."""

    workspace: Path
    run_id: str
    case: Case | None
    """None for a hook that runs for several cases."""


async def run_hook(hook: Hook | None, moment: HookName, scene: HookContext, programs: ProgramRunner) -> None:
    """Runs a hook to its end, if there is one and it has a command.

    Raises:
        WorkspaceError: it could not be started, failed or did not end in time.
    """
    if hook is None or not hook.command:
        return
    values = _hook_input(moment, scene)
    argv = [_fill_placeholders(word, values) for word in hook.command]
    try:
        completed = await programs.run(
            argv,
            json.dumps(values).encode(),
            timeout_s=hook.timeout_s or _TIMEOUTS[moment],
            cwd=hook.cwd,
            # If the workspace is not a repository, git must not find one around it.
            variables={"GIT_CEILING_DIRECTORIES": str(scene.workspace.parent)},
        )
    except TargetError as error:
        raise WorkspaceError(f"The {moment} hook failed: {error}") from error
    if completed.exit_code != 0:
        command = shlex.join(hook.command)
        raise WorkspaceError(f"The {moment} hook failed: {command!r} {_describe_ending(completed)}")


def join_input_texts(messages: tuple[Message, ...]) -> str:
    """Joins all texts of a prompt with spaces."""
    texts = (
        part
        for message in messages
        for part in (message.parts or (message.content,))
        if isinstance(part, str) and part
    )
    return " ".join(texts)


def _hook_input(moment: HookName, scene: HookContext) -> dict[str, Any]:
    case = scene.case
    return {
        "workspace_path": str(scene.workspace),
        "test_id": f"__{moment}__" if case is None else case.id,
        "eval_run_id": scene.run_id,
        "case_input": None if case is None else join_input_texts(case.input),
        "case_metadata": None if case is None else case.metadata or None,
    }


def _fill_placeholders(word: str, values: Mapping[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        result = values[match[1]]
        if result is None:
            return ""
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)

    return _PLACEHOLDER.sub(value, word)


def _describe_ending(completed: CompletedProgram) -> str:
    message = stream_end(completed.stderr, _MAX_ERROR) or stream_end(completed.stdout, _MAX_ERROR)
    return f"{completed.ending}: {message}" if message else f"{completed.ending}."

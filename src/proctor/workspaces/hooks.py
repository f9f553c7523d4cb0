"""Hooks to programs: what they are called with and what they are given to read."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from proctor.env_vars import last_words
from proctor.errors import TargetError, WorkspaceError
from proctor.model import Case, Hook, Message
from proctor.protocols import Finished, Programs

Moment = Literal["before_all", "before_each", "after_each", "after_all"]

_TIMEOUTS = {"before_all": 60.0, "before_each": 60.0, "after_each": 30.0, "after_all": 30.0}
_NAMES = ("workspace_path", "test_id", "eval_run_id", "case_input", "case_metadata")
_PLACEHOLDER = re.compile(r"\{\{\s*(" + "|".join(_NAMES) + r")\s*\}\}")
_SHOWN = 2_000


class Scene(Struct, frozen=True, kw_only=True):
    """What a hook is told."""

    workspace: Path
    run_id: str
    case: Case | None
    """None for a hook that serves several."""


async def run_hook(hook: Hook | None, moment: Moment, scene: Scene, programs: Programs) -> None:
    """Run a hook to its end, if there is one and it has a command.

    Raises:
        WorkspaceError: it could not be started, failed or did not end in time.
    """
    if hook is None or not hook.command:
        return
    told = _told(moment, scene)
    argv = [_filled(word, told) for word in hook.command]
    try:
        done = await programs.run(
            argv,
            json.dumps(told).encode(),
            timeout_s=hook.timeout_s or _TIMEOUTS[moment],
            cwd=hook.cwd,
            # In a workspace that is no repository, git must not find one around it.
            variables={"GIT_CEILING_DIRECTORIES": str(scene.workspace.parent)},
        )
    except TargetError as error:
        raise WorkspaceError(f"The {moment} hook failed: {error}") from error
    if done.exit_code != 0:
        command = shlex.join(hook.command)
        raise WorkspaceError(f"The {moment} hook failed: {command!r} {_end(done)}")


def case_input(messages: tuple[Message, ...]) -> str:
    """All texts of a prompt, with a space between them."""
    texts = (
        part
        for message in messages
        for part in (message.parts or (message.content,))
        if isinstance(part, str) and part
    )
    return " ".join(texts)


def _told(moment: Moment, scene: Scene) -> dict[str, Any]:
    case = scene.case
    return {
        "workspace_path": str(scene.workspace),
        "test_id": f"__{moment}__" if case is None else case.id,
        "eval_run_id": scene.run_id,
        "case_input": None if case is None else case_input(case.input),
        "case_metadata": None if case is None else case.metadata or None,
    }


def _filled(word: str, told: Mapping[str, Any]) -> str:
    def value(found: re.Match[str]) -> str:
        it = told[found[1]]
        if it is None:
            return ""
        return it if isinstance(it, str) else json.dumps(it, ensure_ascii=False)

    return _PLACEHOLDER.sub(value, word)


def _end(done: Finished) -> str:
    said = last_words(done.stderr, _SHOWN) or last_words(done.stdout, _SHOWN)
    return f"{done.ending}: {said}" if said else f"{done.ending}."

"""Workspaces to the field `workspace` of the dialect agentv."""

from __future__ import annotations

from math import inf, nextafter
from typing import Any

from proctor.dialects.agentv.read.workspace import HOOK_NAMES
from proctor.model import Hook, Repository, Workspace


def render_workspace(workspace: Workspace) -> dict[str, Any]:
    """Returns the workspace as an object. The caller checks that it is read back as the same."""
    row: dict[str, Any] = {}
    if workspace.template is not None:
        row["template"] = workspace.template
    if workspace.path is not None:
        row["path"] = workspace.path
    if workspace.isolation != "shared":
        row["isolation"] = workspace.isolation
    if workspace.repositories:
        row["repos"] = [_render_repository(repository) for repository in workspace.repositories]
    hooks = {moment: getattr(workspace.hooks, moment) for moment in HOOK_NAMES}
    rows = {moment: _render_hook(hook) for moment, hook in hooks.items() if hook is not None}
    return {**row, "hooks": rows} if rows else row


def _render_hook(hook: Hook) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if hook.command:
        row["command"] = list(hook.command)
    if hook.timeout_s is not None:
        row["timeout_ms"] = _to_milliseconds(hook.timeout_s)
    if hook.cwd is not None:
        row["cwd"] = hook.cwd
    if hook.reset != "none":
        row["reset"] = hook.reset
    return row


def _to_milliseconds(seconds: float) -> float:
    """Returns the milliseconds that are read back as exactly these seconds, an integer if possible."""
    near = seconds * 1000
    candidates = (
        candidate
        for candidate in (near, nextafter(near, inf), nextafter(near, -inf))
        if candidate / 1000 == seconds
    )
    exact = next(candidates, near)
    return int(exact) if exact.is_integer() and abs(exact) < 2**53 else exact


def _render_repository(repository: Repository) -> dict[str, Any]:
    row: dict[str, Any] = {"path": repository.path}
    if repository.local:
        row["source"] = {"type": "local", "path": repository.source}
    else:
        row["source"] = {"type": "git", "url": repository.source}
    if repository.ref != "HEAD":
        row["commit"] = repository.ref
    if repository.ancestor:
        row["ancestor"] = repository.ancestor
    if repository.sparse:
        row["sparse"] = list(repository.sparse)
    if repository.depth is not None:
        row["clone"] = {"depth": repository.depth}
    return row

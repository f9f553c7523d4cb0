"""Prompts to outputs: one file a kind of target. `TARGETS` is the table of all of them.

Each entry is a function `open(spec, opening) → Target`.
"""

from collections.abc import Awaitable, Callable

from proctor.model import TargetSpec
from proctor.protocols import Target
from proctor.registry import Registry
from proctor.targets.context import Opening

TARGETS: Registry[Callable[[TargetSpec, Opening], Awaitable[Target]]] = Registry(
    "targets",
    {
        "anthropic": "proctor.targets.api.anthropic:open_target",
        "azure": "proctor.targets.api.azure:open_target",
        "cli": "proctor.targets.process.cli:open_target",
        "command": "proctor.targets.process.command:open_target",
        "echo": "proctor.targets.echo:open_target",
        "function": "proctor.targets.function:open_target",
        "google": "proctor.targets.api.google:open_target",
        "local": "proctor.targets.local.target:open_target",
        "mock": "proctor.targets.mock:open_target",
        "openai": "proctor.targets.api.openai:open_target",
        "replay": "proctor.targets.replay:open_target",
        "scripted": "proctor.targets.scripted:open_target",
    },
)

"""Python functions and objects as targets and judges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Output, Prompt, TargetSpec
from proctor.targets.function import register_function


class AnsweringObject(Protocol):
    """An object that answers prompts."""

    def answer(self, prompt: Prompt) -> Output | str | Awaitable[Output | str]:
        """Returns the answer to a prompt."""


TargetLike = str | Path | TargetSpec | Callable[..., Any] | AnsweringObject
"""A target: a name as on the command line, a function of a text or a `Prompt`, or an object with `answer`."""
TargetList = list[Any] | tuple[Any, ...]
"""Several targets, each a `TargetLike`."""


def resolve_targets(targets: TargetLike | TargetList | None) -> tuple[str | TargetSpec, ...]:
    """Returns what a request names for targets; functions and objects are registered for this process.

    Raises:
        UsageError: an item is not a target.
    """
    if targets is None:
        return ()
    several = targets if isinstance(targets, (list, tuple)) else (targets,)
    return tuple(_resolve_target(target) for target in several)


def _resolve_target(target: Any) -> str | TargetSpec:
    if isinstance(target, (str, TargetSpec)):
        return target
    if isinstance(target, Path):
        return str(target)
    answer = getattr(target, "answer", None)
    if callable(answer) and not isinstance(target, type):
        return _keep_name(register_function(answer, name=_get_name(target), takes_prompt=True), target)
    if callable(target):
        return _keep_name(register_function(target, name=_get_name(target)), target)
    raise UsageError(
        f"{target!r} is not a target. Pass a name such as 'openai:gpt-5.2', a function that takes a text, "
        "or an object with a method `answer`."
    )


def _keep_name(spec: TargetSpec, target: Any) -> TargetSpec:
    """Returns the target under the name that the object has, if it has one."""
    name = getattr(target, "name", None)
    return replace(spec, name=name) if name and isinstance(name, str) else spec


def _get_name(target: Any) -> str:
    name = getattr(target, "name", None) or getattr(target, "__name__", None) or type(target).__name__
    return str(name)

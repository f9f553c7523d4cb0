"""Prompts to outputs by a Python function, named as `module:attribute` and found from the working directory.

The function is called with the text where the prompt is one user message, else with a list of
`{"role": …, "content": …}`. It returns a text, an Output or the fields of one as a dictionary; it may be a
coroutine function. An ordinary one runs in a thread, which a time limit abandons but cannot end.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from importlib import import_module, invalidate_caches
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import Output, Prompt, TargetSpec
from proctor.targets.opening import Opening


class Function:
    """A function of the user's own."""

    def __init__(self, name: str, function: Callable[[Any], Any], *, threads: int) -> None:
        self._name = name
        self._function = function
        called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        self._is_async = inspect.iscoroutinefunction(called)
        self._threads = ThreadPoolExecutor(max(threads, 1), thread_name_prefix="proctor-function")

    async def answer(self, prompt: Prompt) -> Output:
        """What the function returns.

        Raises:
            TargetError: it raised, or returned something else than an answer.
        """
        asked = _argument(prompt)
        started = perf_counter()
        try:
            if self._is_async:
                result = await self._function(asked)
            else:
                result = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._function, asked
                )
                if inspect.isawaitable(result):
                    result = await result
        except TargetError:
            raise
        except (Exception, SystemExit) as error:
            raise TargetError(
                f"{self._name} raised {type(error).__name__}: {error}", kind="program"
            ) from error
        return self._output(result, (perf_counter() - started) * 1000)

    async def aclose(self) -> None:
        """Let go of the threads; one that is still in the function ends with it."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _output(self, result: Any, latency_ms: float) -> Output:
        if isinstance(result, str):
            return Output(text=result, latency_ms=latency_ms)
        try:
            output = msgspec.convert(result, Output)
        except msgspec.ValidationError as error:
            raise TargetError(
                f"{self._name} returned {type(result).__name__}, neither a text nor an output: {error}.",
                kind="program",
            ) from error
        return output if output.latency_ms else replace(output, latency_ms=latency_ms)


async def open_target(spec: TargetSpec, opening: Opening) -> Function:
    """The target that a specification of kind `function` names.

    Raises:
        UsageError: the function cannot be imported.
    """
    return Function(spec.model, _imported(spec), threads=opening.connections)


def _argument(prompt: Prompt) -> str | list[dict[str, str]]:
    messages = prompt.messages
    if len(messages) == 1 and messages[0].role == "user":
        return messages[0].content
    return [{"role": message.role, "content": message.content} for message in messages]


def _imported(spec: TargetSpec) -> Callable[[Any], Any]:
    module_name, _, attribute = spec.model.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"Target {spec.name!r} names no function. Write function:MODULE:NAME.")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        invalidate_caches()
        function = reduce(getattr, attribute.split("."), import_module(module_name))
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"Target {spec.name!r} cannot be imported from {here!r}: {type(error).__name__}: {error}."
        ) from error
    finally:
        sys.path.remove(here)
    if not callable(function):
        raise UsageError(f"Target {spec.name!r} names a {type(function).__name__}, which cannot be called.")
    return function

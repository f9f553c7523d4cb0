"""Answers prompts by a Python function, named as `module:attribute` and found from the working directory.

The function is called with the text if the prompt is one user message, else with a list of
`{"role": …, "content": …}`; with the `Prompt` if its first parameter is annotated so. Its further parameters
`json_answer`, `response_schema` and `tools` are passed if the prompt has them. It returns a text, an Output
or the fields of one as a dictionary, and may be a coroutine function. A plain function runs in a daemon
thread: a time limit abandons the thread but cannot end it.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial, reduce
from importlib import import_module, invalidate_caches
from pathlib import Path
from threading import Thread
from time import perf_counter
from types import ModuleType
from typing import Any

import msgspec
from msgspec.structs import replace

from proctor.codec import decode, describe_mismatch, encode
from proctor.errors import AnswerTooLarge, TargetError, UsageError, suggestion
from proctor.model import MAX_ANSWER_BYTES, Output, Prompt, TargetSpec
from proctor.targets.api.messages import format_message, get_form
from proctor.targets.context import TargetContext, check_size
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import TargetKind


class FunctionTarget:
    """A function of the user's own."""

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        *,
        takes_prompt: bool | None = None,
    ) -> None:
        """Takes the function.

        Args:
            name: its name, for messages.
            function: the function.
            max_answer_bytes: the maximum size of an answer.
            takes_prompt: whether it takes a `Prompt`; None to see by the annotation of its first parameter.
        """
        self._name = name
        self._max_answer_bytes = max_answer_bytes
        self._function = function
        self._takes_prompt = _takes_prompt(function) if takes_prompt is None else takes_prompt
        called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        self._is_async = inspect.iscoroutinefunction(called)
        self._parameter_names = _get_parameter_names(function)

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the function's answer.

        Raises:
            TargetError: the function raised, or returned something other than an answer.
        """
        form = {name: part for name, part in get_form(prompt).items() if name in self._parameter_names}
        ask = partial(self._function, prompt if self._takes_prompt else _to_argument(prompt), **form)
        started = perf_counter()
        try:
            if self._is_async:
                result = await ask()
            else:
                result = await _run_in_thread(ask)
                if inspect.isawaitable(result):
                    result = await result
        except (TargetError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if is_cancelled(error):
                raise
            raise TargetError(
                f"{self._name} raised {type(error).__name__}: {error}", kind="program"
            ) from error
        return self._to_output(result, (perf_counter() - started) * 1000)

    async def aclose(self) -> None:
        """Does nothing: a running thread ends with its function, or with the process."""

    def _to_output(self, result: Any, latency_ms: float) -> Output:
        if isinstance(result, str):
            check_size(result, self._max_answer_bytes)
            return Output(text=result, latency_ms=latency_ms)
        try:
            # Encode and decode, so that whatever a store could not read back fails here.
            data = encode(result)
            if len(data) > self._max_answer_bytes:
                raise AnswerTooLarge(self._max_answer_bytes, len(data))
            output = decode(data, Output)
        except (TypeError, ValueError, RecursionError) as error:
            clause = ""
            if isinstance(result, dict) and isinstance(error, msgspec.ValidationError):
                clause = f", but {describe_mismatch(error, decode(data, Any))}"
            raise TargetError(
                f"{self._name} returned {type(result).__name__}{clause}. Return text (of a judge, the JSON "
                'that its prompt asks for), or an output such as {"text": "4"}.',
                kind="program",
            ) from error
        return output if output.latency_ms else replace(output, latency_ms=latency_ms)


async def open_target(spec: TargetSpec, context: TargetContext) -> FunctionTarget:
    """Opens the target of a specification of kind `function`.

    Raises:
        UsageError: the function cannot be imported.
    """
    registered = _registered_functions.get(spec.model)
    if registered is not None:
        function, takes_prompt = registered
        return FunctionTarget(spec.name, function, context.max_answer_bytes, takes_prompt=takes_prompt)
    return FunctionTarget(spec.model, _import_function(spec), context.max_answer_bytes)


_registered_functions: dict[str, tuple[Callable[..., Any], bool | None]] = {}
"""The functions of this process that need no import, by the `model` of their targets."""


def register_function(
    function: Callable[..., Any], *, name: str, takes_prompt: bool | None = None
) -> TargetSpec:
    """Registers a function for this process, and returns the target that calls it.

    Args:
        function: the function; one of the same module and name is replaced, such as that of a notebook's cell
            that runs again. Lambdas and objects share names, so each is registered beside the others.
        name: the name of the target.
        takes_prompt: whether it takes a `Prompt`; None to see by the annotation of its first parameter.
    """
    qualified_name = getattr(function, "__qualname__", type(function).__qualname__)
    model = path = f"{getattr(function, '__module__', None) or '__main__'}:{qualified_name}"
    number = 1
    while has_shared_name(function) and model in _registered_functions:
        if is_same(_registered_functions[model][0], function):
            break
        number += 1
        model = f"{path}#{number}"
    _registered_functions[model] = function, takes_prompt
    name = name.strip("<>")
    return TargetSpec(name=name if number == 1 else f"{name}-{number}", kind=FUNCTION.name, model=model)


def is_in_process(spec: TargetSpec) -> bool:
    """Returns whether no other process can import the function of a target."""
    registered = _registered_functions.get(spec.model)
    return registered is not None and (spec.model.startswith("__main__:") or has_shared_name(registered[0]))


def has_shared_name(function: Callable[..., Any]) -> bool:
    """Whether others may have its qualified name: as a lambda, a local function or an object has."""
    owner = getattr(function, "__self__", None)
    is_bound = owner is not None and not inspect.isclass(owner) and not inspect.ismodule(owner)
    return is_bound or "<" in getattr(function, "__qualname__", "<")


def is_same(first: Callable[..., Any], second: Callable[..., Any]) -> bool:
    """Whether two functions do the same: they are equal, or made by the same lines and hold no values."""
    if first == second:
        return True
    functions = (first, second)
    if not all(map(inspect.isfunction, functions)):
        return False
    if any(each.__closure__ or each.__defaults__ or each.__kwdefaults__ for each in functions):
        return False
    return bool(first.__code__ == second.__code__)


def is_cancelled(error: BaseException) -> bool:
    """Whether an error is the cancelling of this task, and not what a function raised itself."""
    import asyncio

    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def _run_in_thread(function: Callable[[], Any]) -> Any:
    """Runs a function in a daemon thread, which does not keep the process from exiting."""
    import asyncio

    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return  # its caller's time was up
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001  # the awaiting caller gets it
            # A future refuses StopIteration, which would end the coroutine that waits for it.
            failure = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, failure)

    Thread(target=work, daemon=True).start()
    return await future


def _to_argument(prompt: Prompt) -> str | list[dict[str, str]]:
    messages = prompt.messages
    if len(messages) == 1 and messages[0].role == "user":
        return format_message(messages[0])
    return [{"role": message.role, "content": format_message(message)} for message in messages]


def _takes_prompt(function: Callable[..., Any]) -> bool:
    """Whether the first parameter of a function is annotated as a `Prompt`."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # it is not written in Python
        return False
    annotation = parameters[0].annotation if parameters else None
    return annotation is Prompt or annotation in ("Prompt", "proctor.Prompt")


def _get_parameter_names(function: Callable[..., Any]) -> frozenset[str]:
    """Returns the names of a function's parameters after the first one, the prompt."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):  # it is not written in Python
        return frozenset()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(parameter.name for parameter in parameters if parameter.kind in kinds)


def _import_function(spec: TargetSpec) -> Callable[[Any], Any]:
    module_name, _, attribute = spec.model.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"Target {spec.name!r} names no function. Write function:MODULE:NAME.")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        invalidate_caches()
        function = reduce(getattr, attribute.split("."), import_module(module_name))
    except (Exception, SystemExit) as error:
        if module_name == "__main__" or "<" in attribute:
            raise UsageError(
                f"Target {spec.name!r} is a Python function, {attribute!r}, which this program does not "
                f"define. Resume the run in the program that defines the function, with the function as "
                f"`target`."
            ) from None
        module = sys.modules.get(module_name)  # it is there if the error is not of the import itself
        if module is not None and isinstance(error, AttributeError):
            raise UsageError(f"Target {spec.name!r}: {_describe_missing(module, attribute)}") from None
        raise UsageError(
            f"Target {spec.name!r} cannot be imported from {folder!r}: {type(error).__name__}: {error}."
        ) from error
    finally:
        sys.path.remove(folder)
    if not callable(function):
        raise UsageError(f"Target {spec.name!r} names a {type(function).__name__}, which cannot be called.")
    return function


def _describe_missing(module: ModuleType, attribute: str) -> str:
    """Returns a sentence on a name that a module does not have, with its functions that may be meant."""
    own = [
        name
        for name, value in vars(module).items()
        if inspect.isroutine(value) and getattr(value, "__module__", None) == module.__name__
    ]
    file = os.path.relpath(module.__file__ or module.__name__)
    hint = suggestion(attribute, own) if own else "It has no functions."
    return f"There is no {attribute!r} in {file!r}. {hint}"


def _read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    function = entry.required_text("function")
    if function and ":" not in function and "function" not in entry.unknown_fields:
        entry.fields.error("unknown-value", "function", f"is {function!r}; write MODULE:NAME.")
    return replace(spec, model=function)


FUNCTION = TargetKind(
    name="function",
    open_target=open_target,
    syntax="function:MODULE:NAME",
    summary="a Python function, sync or async",
    file_fields={
        "function": {
            "type": "string",
            "pattern": r":|\$\{\{",
            "description": "The Python function, as MODULE:NAME.",
        }
    },
    required_fields=("function",),
    scores_choices=True,
    read_entry=_read_entry,
    is_cacheable=False,
    is_in_process=is_in_process,
)

"""`@proctor.grader`: a Python function as a grader."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar, Generic, Literal, ParamSpec, TypeVar, get_type_hints, overload

from msgspec import defstruct

from proctor.errors import CannotScore, UsageError
from proctor.graders import GRADERS
from proctor.model import Assertion, GraderResult
from proctor.protocols import BaseGrader, GradingInput
from proctor.targets.api.messages import format_messages
from proctor.targets.function import has_shared_name, is_cancelled, is_same

P = ParamSpec("P")
R = TypeVar("R")

_PASS_AT = 0.5
"""A number from here on passes, unless the assertion has `pass_at`."""
_MAX_BLOCKING_S = 0.005
"""A function that has taken longer is called in a thread from then on."""
_PARTS: dict[str, Callable[[GradingInput], Any]] = {
    "answer": lambda grading_input: grading_input.output.text,
    "output": lambda grading_input: grading_input.output,
    "expected": lambda grading_input: grading_input.case.expected,
    "criteria": lambda grading_input: grading_input.case.criteria,
    "input": lambda grading_input: format_messages(grading_input.case.input),
    "metadata": lambda grading_input: grading_input.case.metadata,
    "case": lambda grading_input: grading_input.case,
}
"""The values that the parameters of a function get, by parameter name."""


class FunctionGrader(Generic[P, R]):
    """A grader made from a function; calling it calls the function."""

    def __init__(self, function: Callable[P, R], name: str) -> None:
        """Registers the function as a grader.

        Raises:
            UsageError: a parameter is neither known nor has a default, or the name is taken.
        """
        self._function = function
        self.name = name
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self._kind = _register(name, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<grader {self.name}>"

    def assertion(
        self,
        *,
        weight: float = 1.0,
        required: float | None = None,
        pass_at: float | None = None,
        on: Literal["answer", "reasoning"] = "answer",
        **params: Any,
    ) -> Assertion:
        """Returns an assertion with this grader, for the `assertions` of a `Case` or the `graders` of a run.

        Args:
            weight: its weight in the score of a trial.
            required: the gate: a lower score fails the trial, whatever the other scores are.
            pass_at: the lowest score that passes; None for 0.5.
            on: what the function gets as `answer`: the answer, or the reasoning that came with it.
            params: values for the parameters of the function that have defaults.
        """
        if GRADERS.get(self.name) is not self._kind:  # another function was registered under its name since
            self.name = _find_free_name(self.name)
            GRADERS.add(self.name, self._kind)
        return Assertion(
            grader=self.name, params=params, weight=weight, required=required, pass_at=pass_at, on=on
        )


@overload
def grader(function: Callable[P, R], /) -> FunctionGrader[P, R]: ...


@overload
def grader(*, name: str) -> Callable[[Callable[P, R]], FunctionGrader[P, R]]: ...


def grader(
    function: Callable[P, R] | None = None, /, *, name: str | None = None
) -> FunctionGrader[P, R] | Callable[[Callable[P, R]], FunctionGrader[P, R]]:
    """Turns a function into a grader, and registers it under its name for this process.

    The function takes what it needs by parameter name: `answer` (the text), `output` (an `Output`),
    `expected`, `criteria`, `input` (the prompt as text), `metadata` and `case`. All other parameters need
    defaults and become parameters of the grader. The function can be a coroutine function.

    It returns a bool or a number from 0 to 1, optionally in a tuple with a reason. If it returns None or
    raises an exception, the score is UNSCORED.

    Args:
        function: the function, if `@proctor.grader` is used without parentheses.
        name: the name of the grader; by default the name of the function.

    Returns:
        The grader. Calling it calls the function.

    Raises:
        UsageError: a parameter is unknown and has no default, or another grader has the name.

    Examples:
        >>> import proctor
        >>> @proctor.grader
        ... def short(answer: str, limit: int = 20) -> bool:
        ...     return len(answer) <= limit
        >>> short("Lima")
        True
    """
    if function is not None:
        return FunctionGrader(function, name or _get_name(function))
    return lambda decorated: FunctionGrader(decorated, name or _get_name(decorated))


def resolve_graders(graders: Any) -> tuple[Assertion, ...]:
    """Returns graders as assertions: names, functions and assertions, in a list, or only one.

    Raises:
        UsageError: an item is not a grader.
    """
    if graders is None:
        return ()
    if isinstance(graders, Sequence) and not isinstance(graders, str):
        return tuple(map(_resolve_grader, graders))
    return (_resolve_grader(graders),)


def _resolve_grader(item: Any) -> Assertion:
    if isinstance(item, Assertion):
        return item
    if isinstance(item, FunctionGrader):
        return item.assertion()
    if isinstance(item, str):
        return Assertion(grader=item)
    if isinstance(item, Mapping):
        params = {name: value for name, value in item.items() if name != "grader"}
        return Assertion(grader=str(item.get("grader")), params=params)
    if callable(item):
        return grader(item).assertion()
    raise UsageError(
        f"{item!r} is not a grader. Pass a name, a function with `@proctor.grader`, or a `proctor.Assertion`."
    )


def _get_name(function: Any) -> str:
    """Returns the name of a function; those made inside functions may share one, and get numbers.

    Raises:
        UsageError: it is not a function.
    """
    if not callable(function):
        raise UsageError(f"{function!r:.60} is not a function, so it cannot grade.")
    inner = getattr(function, "func", function)  # of a partial function
    name = str(getattr(inner, "__name__", None) or type(inner).__name__).strip("<>")
    if has_shared_name(function) and not _is_built_in(name):
        return _find_free_name(name, function)
    return name


def _is_built_in(name: str) -> bool:
    return name in GRADERS and not issubclass(GRADERS.get(name), _FunctionGrading)


def _find_free_name(name: str, function: Callable[..., Any] | None = None) -> str:
    """Returns a name, with a number if it is taken by another function."""
    free, number = name, 1
    while free in GRADERS:
        registered = GRADERS.get(free)
        known = getattr(registered, "function", None)
        if function is not None and known is not None and is_same(known, function):
            break
        number += 1
        free = f"{name}-{number}"
    return free


def _register(name: str, function: Callable[..., Any]) -> Any:
    """Registers a function as a grader under a name, and returns the class of the grader."""
    if _is_built_in(name):
        raise UsageError(f"A grader named {name!r} already exists. Give yours another name: @grader(name=…).")
    hints = _get_hints(function)
    parts: list[str] = []
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise UsageError(
                f"The grader {name!r} has a parameter {parameter.name!r} that cannot be passed by name. "
                "Write a function around it that takes `answer`."
            )
        if parameter.name in _PARTS:
            parts.append(parameter.name)
        elif parameter.default is not inspect.Parameter.empty:
            fields.append((parameter.name, hints.get(parameter.name, Any), parameter.default))
        elif parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise UsageError(
                f"The grader {name!r} has an unknown parameter {parameter.name!r}. The known ones are: "
                f"{', '.join(_PARTS)}. Any other parameter needs a default."
            )
    kind = defstruct(
        f"FunctionGrading_{name}",
        fields,
        bases=(_FunctionGrading,),
        namespace={
            "call": staticmethod(_make_call(function)),
            "parts": tuple(parts),
            "function": staticmethod(function),
        },
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    GRADERS.add(name, kind)
    return kind


def _get_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the types of a function's parameters; empty if a name in them is not defined."""
    try:
        return get_type_hints(function)
    except (NameError, TypeError):  # TypeError: of an object that is called
        return {}


def _make_call(function: Callable[..., Any]) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    """Returns a coroutine function that calls a function; in threads, once it has been slow."""
    if inspect.iscoroutinefunction(function):

        async def call(arguments: dict[str, Any]) -> Any:
            return await function(**arguments)

        return call
    slow = False

    async def call_plain(arguments: dict[str, Any]) -> Any:
        nonlocal slow
        if slow:
            return await asyncio.to_thread(function, **arguments)
        started = perf_counter()
        result = function(**arguments)
        slow = perf_counter() - started > _MAX_BLOCKING_S
        return await result if inspect.isawaitable(result) else result

    return call_plain


class _FunctionGrading(BaseGrader, frozen=True):
    """The base class of graders that call a function; their fields are its parameters with defaults."""

    is_async: ClassVar[bool] = True
    call: ClassVar[Callable[[dict[str, Any]], Awaitable[Any]]]
    parts: ClassVar[tuple[str, ...]] = ()
    function: ClassVar[Callable[..., Any] | None] = None

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Calls the function.

        Raises:
            CannotScore: the returned value is not a result.
        """
        arguments = {name: _PARTS[name](grading_input) for name in self.parts}
        arguments |= {name: getattr(self, name) for name in self.__struct_fields__}
        try:
            result = await type(self).call(arguments)
        except (Exception, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            if is_cancelled(error):
                raise
            raise CannotScore(f"The function raised {type(error).__name__}: {error}") from error
        return _to_result(result)


def _to_result(result: Any) -> GraderResult:
    """Returns what a function returned as a grader's result.

    Raises:
        CannotScore: it is neither a bool, nor a number from 0 to 1, nor one of these with a reason.
    """
    if isinstance(result, GraderResult):
        return result
    value, reason = result if isinstance(result, tuple) and len(result) == 2 else (result, "")
    reason = "" if reason is None else _make_encodable(str(reason))
    if value is None:
        raise CannotScore(reason or "The function returned None.")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise CannotScore(
            f"The function returned {value!r:.80}, which is neither a bool nor a number from 0 to 1."
        )
    return GraderResult(value=number, passed=number >= _PASS_AT, reason=reason)


def _make_encodable(text: str) -> str:
    """Returns a text that can be stored: halves of surrogate pairs become escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")

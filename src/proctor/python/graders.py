"""`@proctor.grader`: a Python function as a grader."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, get_type_hints, overload

from msgspec import defstruct

from proctor.errors import CannotScore, UsageError
from proctor.graders import GRADERS
from proctor.model import Assertion, GraderResult
from proctor.protocols import BaseGrader, GradingInput
from proctor.targets.api.messages import format_messages

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
"""What the parameters of a function get, by their names."""


class FunctionGrader(Generic[P, R]):
    """A function that grades; calling it calls the function."""

    def __init__(self, function: Callable[P, R], name: str) -> None:
        """Registers the function as a grader.

        Raises:
            UsageError: a parameter is neither known nor has a default, or the name is taken.
        """
        self._function = function
        self.name = name
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        _register(name, function)

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
        **params: Any,
    ) -> Assertion:
        """Returns a check by this grader, for the `assertions` of a `Case` or the `graders` of a run.

        Args:
            weight: its weight in the score of a trial.
            required: a score below it fails the trial, whatever the other scores are.
            pass_at: the lowest number that passes; None for 0.5.
            params: values for the parameters of the function that have defaults.
        """
        return Assertion(grader=self.name, params=params, weight=weight, required=required, pass_at=pass_at)


@overload
def grader(function: Callable[P, R], /) -> FunctionGrader[P, R]: ...


@overload
def grader(*, name: str) -> Callable[[Callable[P, R]], FunctionGrader[P, R]]: ...


def grader(
    function: Callable[P, R] | None = None, /, *, name: str | None = None
) -> FunctionGrader[P, R] | Callable[[Callable[P, R]], FunctionGrader[P, R]]:
    """Makes a grader of a function, and registers it under its name for this process.

    The function takes what it needs by name: `answer` (the text), `output` (an `Output`), `expected`,
    `criteria`, `input` (the prompt as a text), `metadata`, `case`. Further parameters need defaults, and are
    parameters of the grader. It returns a bool, a number from 0 to 1, or a number or bool with a reason; it
    may be a coroutine function. None, or an exception, makes the score UNSCORED.

    Example:
        >>> import proctor
        >>> @proctor.grader
        ... def short(answer: str, limit: int = 20) -> bool:
        ...     return len(answer) <= limit
        >>> short("Lima")
        True
    """
    if function is not None:
        return FunctionGrader(function, name or function.__name__)
    return lambda decorated: FunctionGrader(decorated, name or decorated.__name__)


def resolve_graders(graders: Any) -> tuple[Assertion, ...]:
    """Returns graders as assertions: names, functions and assertions, in a list, or only one.

    Raises:
        UsageError: something is no grader.
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
        f"{item!r} is no grader. Give a name, a function with `@proctor.grader`, or a `proctor.Assertion`."
    )


def _register(name: str, function: Callable[..., Any]) -> None:
    registered = GRADERS.get(name) if name in GRADERS else None
    if registered is not None and not issubclass(registered, _FunctionGrading):
        raise UsageError(f"There is a grader {name!r} already. Give yours another name: @grader(name=…).")
    hints = _get_hints(function)
    parts: list[str] = []
    fields: list[tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in _PARTS:
            parts.append(parameter.name)
        elif parameter.default is not inspect.Parameter.empty:
            fields.append((parameter.name, hints.get(parameter.name, Any), parameter.default))
        elif parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise UsageError(
                f"The grader {name!r} has a parameter {parameter.name!r}, and nothing to give it. Known are: "
                f"{', '.join(_PARTS)}. Any other parameter needs a default."
            )
    kind = defstruct(
        f"FunctionGrading_{name}",
        fields,
        bases=(_FunctionGrading,),
        namespace={"call": staticmethod(_make_call(function)), "parts": tuple(parts)},
        frozen=True,
        forbid_unknown_fields=True,
        kw_only=True,
    )
    GRADERS.add(name, kind)


def _get_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns the types of a function's parameters; empty if a name in them is not defined."""
    try:
        return get_type_hints(function)
    except NameError:
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

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Calls the function.

        Raises:
            CannotScore: what it returned is no result.
        """
        arguments = {name: _PARTS[name](grading_input) for name in self.parts}
        arguments |= {name: getattr(self, name) for name in self.__struct_fields__}
        return _to_result(await type(self).call(arguments))


def _to_result(result: Any) -> GraderResult:
    """Returns what a function returned as a grader's result.

    Raises:
        CannotScore: it is neither a bool, nor a number from 0 to 1, nor one of these with a reason.
    """
    if isinstance(result, GraderResult):
        return result
    value, reason = result if isinstance(result, tuple) and len(result) == 2 else (result, "")
    if value is None:
        raise CannotScore(str(reason) or "The function returned None.")
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number <= 1:
        raise CannotScore(f"The function returned {value!r:.80}, which is neither a bool nor from 0 to 1.")
    return GraderResult(value=number, passed=number >= _PASS_AT, reason=str(reason))

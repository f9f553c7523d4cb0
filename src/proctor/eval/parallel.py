"""A function over items, several at once: outcomes come in the order of the items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from inspect import CORO_CREATED, getcoroutinestate, isawaitable, iscoroutine
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast, get_args, overload

from proctor.eval.loop_thread import Background

Item = TypeVar("Item")
Value = TypeVar("Value")
_Awaited: TypeAlias = tuple[Value | None, Exception | None, float]
"""The value or the exception, and the seconds."""

OnError = Literal["record", "raise"]
"""What follows an exception: it is kept with its item, or the first one in their order is raised."""

AHEAD = 32
"""For each worker, how many outcomes may wait for an earlier one: a slow item neither stalls the others nor
fills the memory."""
PARTING_SECONDS = 2.0
"""How long the end waits for coroutines that were cancelled."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Item, Value]):
    """What became of one item: a value, or the exception that the function raised."""

    item: Item
    value: Value | None = None
    error: Exception | None = None
    seconds: float = 0.0
    """How long the function took; of an async one, from when it began to be awaited."""

    def result(self) -> Value:
        """The value.

        Raises:
            Exception: what the function raised.
        """
        if self.error is not None:
            raise self.error
        return cast("Value", self.value)


def is_recorded(on_error: OnError) -> bool:
    """Whether exceptions are kept and not raised.

    Raises:
        ValueError: `on_error` is neither `record` nor `raise`.
    """
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error must be 'record' or 'raise', not {on_error!r}.")
    return on_error == "record"


@overload
def in_order(
    function: Callable[[Item], Awaitable[Value]],
    items: Iterable[Item],
    *,
    workers: int = 1,
    should_stop: Callable[[], bool] | None = None,
    on_outcome: Callable[[Outcome[Item, Value]], None] | None = None,
) -> Generator[Outcome[Item, Value], None, None]: ...


@overload
def in_order(
    function: Callable[[Item], Value],
    items: Iterable[Item],
    *,
    workers: int = 1,
    should_stop: Callable[[], bool] | None = None,
    on_outcome: Callable[[Outcome[Item, Value]], None] | None = None,
) -> Generator[Outcome[Item, Value], None, None]: ...


def in_order(
    function: Callable[[Item], Any],
    items: Iterable[Item],
    *,
    workers: int = 1,
    should_stop: Callable[[], bool] | None = None,
    on_outcome: Callable[[Outcome[Item, Any]], None] | None = None,
) -> Generator[Outcome[Item, Any], None, None]:
    """Call a function on each item, up to `workers` at once, and give the outcomes in the order of the items.

    `items` and `should_stop` are only ever used in the caller's thread; an item is taken when a worker is
    free for it. With one worker a plain function is called in the caller's thread too, and nothing is called
    ahead. The awaitables of an async function are awaited in one event loop that has a thread of its own, so
    this also works where a loop is running already, as in a notebook.

    Wrap it, so that leaving early ends it at once:
    `with closing(in_order(work, items, workers=8)) as outcomes: …`. On an early end (also by Ctrl-C) no item
    is begun, coroutines are cancelled, and plain calls that run already end by themselves, unheard.

    Args:
        function: called with one item; may be async. From several threads when there are several workers.
        items: taken one by one; at most `AHEAD * workers` outcomes wait to be given.
        workers: how many are worked on at once, at least 1.
        should_stop: asked before each item; once it is true no item is begun; those begun are still given.
        on_outcome: hears each outcome when it is there, in any order, in the thread that worked on it.

    Raises:
        ValueError: `workers` is below 1; when the first outcome is asked for, as all else.
        BaseException: what `items`, `should_stop` or `on_outcome` raise, and what the function raises that
            is no `Exception`, such as KeyboardInterrupt. Its exceptions are in the outcomes.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}.")
    loop = Background("The work has ended; nothing more is awaited.", parting_s=PARTING_SECONDS)

    ended = False

    def work(item: Item) -> Outcome[Item, Any]:
        outcome = _outcome(function, item, loop)
        if on_outcome is not None and not ended:  # then it was cancelled, and nothing came of it
            on_outcome(outcome)
        return outcome

    try:
        wanted = _until(items, should_stop)
        yield from map(work, wanted) if workers == 1 else _threaded(work, wanted, workers)
    finally:
        ended = True
        loop.close()


def _until(items: Iterable[Item], should_stop: Callable[[], bool] | None) -> Iterator[Item]:
    for item in items:
        if should_stop is not None and should_stop():
            return
        yield item


def _outcome(function: Callable[[Item], Any], item: Item, loop: Background) -> Outcome[Item, Any]:
    began = perf_counter()
    try:
        value = function(item)
        if isawaitable(value):
            return Outcome(item, *_awaited(value, loop))
        return Outcome(item, value, None, perf_counter() - began)
    except Exception as error:  # noqa: BLE001  # the outcome
        return Outcome(item, None, error, perf_counter() - began)


def _awaited(awaitable: Awaitable[Value], loop: Background) -> _Awaited[Value]:
    try:
        return loop.wait(_timed(awaitable))
    finally:
        if iscoroutine(awaitable) and getcoroutinestate(awaitable) == CORO_CREATED:
            awaitable.close()  # what was never begun would be complained of


def _threaded(
    work: Callable[[Item], Outcome[Item, Value]], items: Iterator[Item], workers: int
) -> Iterator[Outcome[Item, Value]]:
    crew = _Crew(work, workers)
    done: dict[int, Outcome[Item, Value]] = {}
    given = begun = 0
    more = True
    try:
        while True:
            while more and crew.free and begun - given < AHEAD * workers:
                try:
                    item = next(items)
                except StopIteration:
                    more = False
                else:
                    crew.begin(begun, item)
                    begun += 1
            if given == begun:
                return
            if given not in done:
                place, outcome = crew.finished()
                done[place] = outcome
            else:
                yield done.pop(given)
                given += 1
    finally:
        crew.dismiss()


class _Crew(Generic[Item, Value]):
    """Threads that work on items; daemons, so that a call that hangs keeps no program from ending."""

    def __init__(self, work: Callable[[Item], Outcome[Item, Value]], workers: int) -> None:
        self._work = work
        self._workers = workers
        self._busy = 0
        self._threads: list[Thread] = []
        self._inbox: SimpleQueue[tuple[int, Item] | None] = SimpleQueue()
        self._outbox: SimpleQueue[tuple[int, Outcome[Item, Value] | BaseException]] = SimpleQueue()

    @property
    def free(self) -> bool:
        return self._busy < self._workers

    def begin(self, place: int, item: Item) -> None:
        if self._busy == len(self._threads):
            thread = Thread(target=self._serve, daemon=True, name=f"proctor-worker-{len(self._threads)}")
            self._threads.append(thread)
            thread.start()
        self._busy += 1
        self._inbox.put((place, item))

    def finished(self) -> tuple[int, Outcome[Item, Value]]:
        """The next one to finish, in no order."""
        place, outcome = self._outbox.get()
        self._busy -= 1
        if isinstance(outcome, BaseException):
            raise outcome
        return place, outcome

    def dismiss(self) -> None:
        for _ in self._threads:
            self._inbox.put(None)

    def _serve(self) -> None:
        while (task := self._inbox.get()) is not None:
            place, item = task
            try:
                self._outbox.put((place, self._work(item)))
            except BaseException as error:  # noqa: BLE001  # raised again by `finished`, in the caller's thread
                self._outbox.put((place, error))


async def _timed(awaitable: Awaitable[Value]) -> _Awaited[Value]:
    began = perf_counter()
    try:
        value = await awaitable
    except Exception as error:  # noqa: BLE001  # the outcome
        return None, error, perf_counter() - began
    return value, None, perf_counter() - began

"""Calls a function on many items, several at once, with outcomes in the order of the items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from inspect import CORO_CREATED, getcoroutinestate, isawaitable, iscoroutine
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, Generic, Literal, TypeVar, get_args

from proctor.eval.loop_thread import LoopThread

Item = TypeVar("Item")

OnError = Literal["record", "raise"]
"""How an exception is handled: recorded with its item, or the first in the order of items is raised."""

MAX_AHEAD = 32
"""Outcomes per worker that may wait for an earlier one, so that a slow item neither stalls the others nor
fills the memory."""
CLOSE_TIMEOUT_S = 2.0
"""How long the end waits for cancelled coroutines."""


@dataclass(frozen=True, slots=True)
class CallOutcome(Generic[Item]):
    """The outcome of one item: a value, or the exception that the function raised."""

    item: Item
    value: Any = None
    error: Exception | None = None
    seconds: float = 0.0
    """How long the function took; for an async function, from the start of its await."""

    def result(self) -> Any:
        """Returns the value.

        Raises:
            Exception: the function raised it.
        """
        if self.error is not None:
            raise self.error
        return self.value


def should_record(on_error: OnError) -> bool:
    """Whether exceptions are recorded and not raised.

    Raises:
        ValueError: `on_error` is neither `record` nor `raise`.
    """
    if on_error not in get_args(OnError):
        raise ValueError(f"on_error must be 'record' or 'raise', not {on_error!r}.")
    return on_error == "record"


def map_ordered(
    function: Callable[[Item], Any],
    items: Iterable[Item],
    *,
    workers: int = 1,
    should_stop: Callable[[], bool] | None = None,
    on_outcome: Callable[[CallOutcome[Item]], None] | None = None,
) -> Generator[CallOutcome[Item], None, None]:
    """Calls a function on each item, up to `workers` at once; yields outcomes in the order of the items.

    `items` and `should_stop` are only ever used in the caller's thread; an item is taken when a worker is
    free for it. With one worker a plain function is called in the caller's thread too, and nothing is called
    ahead. The awaitables of an async function are awaited in one event loop that has a thread of its own, so
    this also works where a loop is running already, as in a notebook.

    Wrap it, so that leaving early ends it at once:
    `with closing(map_ordered(work, items, workers=8)) as outcomes: …`. On an early end (also by Ctrl-C) no
    item is started, coroutines are cancelled, and running plain calls end by themselves without an outcome.

    Args:
        function: called with one item; may be async. From several threads when there are several workers.
        items: taken one by one; at most `MAX_AHEAD * workers` outcomes wait to be given.
        workers: how many are worked on at once, at least 1.
        should_stop: called before each item; once it returns true no item is started; outcomes of started
            items are still yielded.
        on_outcome: called with each outcome when it is ready, in any order, in the thread of the worker.

    Raises:
        ValueError: `workers` is below 1; raised with the first outcome, like all errors.
        BaseException: raised by `items`, `should_stop` or `on_outcome`, or by the function if it is no
            `Exception`, such as KeyboardInterrupt. Exceptions of the function are in the outcomes.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}.")
    loop = LoopThread("The work has ended, so nothing more can be awaited.", close_timeout_s=CLOSE_TIMEOUT_S)

    is_closed = False

    def work(item: Item) -> CallOutcome[Item]:
        outcome = CallOutcome(item, *_time_call(function, item, loop))
        if on_outcome is not None and not is_closed:  # then it was cancelled, and nothing came of it
            on_outcome(outcome)
        return outcome

    try:
        accepted = _take_until(items, should_stop)
        yield from (map(work, accepted) if workers == 1 else _map_in_threads(work, accepted, workers))
    finally:
        is_closed = True
        loop.close()


def _take_until(items: Iterable[Item], should_stop: Callable[[], bool] | None) -> Iterator[Item]:
    for item in items:
        if should_stop is not None and should_stop():
            return
        yield item


def _time_call(
    function: Callable[[Item], Any], item: Item, loop: LoopThread
) -> tuple[Any, Exception | None, float]:
    """Returns the value or the exception of a call, and the seconds it took."""
    start = perf_counter()
    try:
        value = function(item)
        if not isawaitable(value):
            return value, None, perf_counter() - start
        try:
            return loop.wait(_time_awaitable(value))
        finally:
            if iscoroutine(value) and getcoroutinestate(value) == CORO_CREATED:
                value.close()  # else Python warns that it was never awaited
    except Exception as error:  # noqa: BLE001  # the outcome
        return None, error, perf_counter() - start


async def _time_awaitable(awaitable: Awaitable[Any]) -> tuple[Any, Exception | None, float]:
    from asyncio import CancelledError, current_task
    from concurrent.futures import CancelledError as CallCancelledError

    start = perf_counter()
    try:
        return await awaitable, None, perf_counter() - start
    except CancelledError as error:
        task = current_task()
        if task is None or task.cancelling():  # the work has ended, and this call with it
            raise
        return None, CallCancelledError(*error.args), perf_counter() - start
    except Exception as error:  # noqa: BLE001  # the outcome
        return None, error, perf_counter() - start


def _map_in_threads(
    work: Callable[[Item], CallOutcome[Item]], items: Iterator[Item], workers: int
) -> Iterator[CallOutcome[Item]]:
    pool = _WorkerPool(work, workers)
    outcomes: dict[int, CallOutcome[Item]] = {}
    next_place = started = 0
    has_more = True
    try:
        while True:
            while has_more and pool.has_free_worker and started - next_place < MAX_AHEAD * workers:
                try:
                    item = next(items)
                except StopIteration:
                    has_more = False
                else:
                    pool.start(started, item)
                    started += 1
            if next_place == started:
                return
            if next_place not in outcomes:
                place, outcome = pool.wait()
                outcomes[place] = outcome
            else:
                yield outcomes.pop(next_place)
                next_place += 1
    finally:
        pool.stop()


class _WorkerPool(Generic[Item]):
    """Threads that work on items; daemons, so that a call that hangs keeps no program from ending."""

    def __init__(self, work: Callable[[Item], CallOutcome[Item]], workers: int) -> None:
        self._work = work
        self._workers = workers
        self._busy = 0
        self._threads: list[Thread] = []
        self._inbox: SimpleQueue[tuple[int, Item] | None] = SimpleQueue()
        self._outbox: SimpleQueue[tuple[int, CallOutcome[Item] | BaseException]] = SimpleQueue()

    @property
    def has_free_worker(self) -> bool:
        return self._busy < self._workers

    def start(self, place: int, item: Item) -> None:
        if self._busy == len(self._threads):
            thread = Thread(target=self._serve, daemon=True, name=f"proctor-worker-{len(self._threads)}")
            self._threads.append(thread)
            thread.start()
        self._busy += 1
        self._inbox.put((place, item))

    def wait(self) -> tuple[int, CallOutcome[Item]]:
        """Waits for the next outcome, in no order."""
        place, outcome = self._outbox.get()
        self._busy -= 1
        if isinstance(outcome, BaseException):
            raise outcome
        return place, outcome

    def stop(self) -> None:
        for _ in self._threads:
            self._inbox.put(None)

    def _serve(self) -> None:
        while (task := self._inbox.get()) is not None:
            place, item = task
            try:
                self._outbox.put((place, self._work(item)))
            except BaseException as error:  # noqa: BLE001  # raised again by `wait`, in the caller's thread
                self._outbox.put((place, error))

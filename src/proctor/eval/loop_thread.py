"""An event loop in a thread of its own, for callers that are not async or run in another loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from proctor.errors import UsageError

if TYPE_CHECKING:
    import asyncio

Value = TypeVar("Value")
_RunningLoop: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Event]"


class LoopThread:
    """Runs coroutines for any thread. The loop starts with the first; its thread keeps no program alive."""

    def __init__(
        self,
        closed_message: str,
        *,
        close_timeout_s: float,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Prepares the loop; the first coroutine starts it.

        Args:
            closed_message: the error for calls after the end, as a sentence.
            close_timeout_s: how long `close` waits for tasks to be cancelled and for `on_close`, in seconds.
            on_close: awaited in the loop before it ends, after everything else was cancelled.
        """
        self._closed_message = closed_message
        self._close_timeout_s = close_timeout_s
        self._on_close = on_close
        self._lock = Lock()
        self._closed = False
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_event: asyncio.Event | None = None
        self._error: Exception | None = None

    def wait(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Waits for a coroutine and returns its result; cancels it if the wait is interrupted.

        Raises:
            UsageError: the loop has ended, belongs to the process that forked this one, or would wait for
                itself.
            Exception: the coroutine raised it.
        """
        from asyncio import run_coroutine_threadsafe  # 60 ms that importing this module shall not take
        from concurrent.futures import CancelledError

        try:
            with self._lock:
                future = run_coroutine_threadsafe(coroutine, self._get_loop())
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except CancelledError:
            if not self._closed:  # it cancelled itself
                raise
            raise UsageError(self._closed_message) from None
        finally:
            future.cancel()  # does nothing where it is done

    def close(self) -> None:
        """Cancels running coroutines and ends the loop. Safe to call twice, and from the loop's own thread.

        Raises:
            Exception: `on_close` raised it.
        """
        with self._lock:
            self._closed = True
            thread, loop, stop_event = self._thread, self._loop, self._stop_event
        if thread is None or loop is None or stop_event is None:
            return
        with suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(stop_event.set)
        if thread is current_thread():
            return
        thread.join(self._close_timeout_s)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise UsageError(self._closed_message)
        if self._loop is None:
            ready: SimpleQueue[_RunningLoop | BaseException] = SimpleQueue()
            self._thread = Thread(target=self._run, args=(ready,), daemon=True, name="proctor-loop")
            self._thread.start()
            start = ready.get()
            if isinstance(start, BaseException):
                raise start
            self._loop, self._stop_event = start
        elif self._thread is not None and not self._thread.is_alive():
            raise UsageError(
                "A forked process cannot use clients that were open before the fork. Create new ones there."
            )
        elif self._thread is current_thread():
            raise UsageError("A target cannot wait for the client that called it.")
        return self._loop

    def _run(self, ready: SimpleQueue[_RunningLoop | BaseException]) -> None:
        import asyncio

        async def serve() -> None:
            stop_event = asyncio.Event()
            ready.put((asyncio.get_running_loop(), stop_event))
            await stop_event.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            try:
                if self._on_close is not None:
                    await self._on_close()
            except Exception as error:  # noqa: BLE001  # `close` raises it
                self._error = error

        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001  # heard where the loop could not begin
            # Python 3.12 cannot end one at the program's end without a complaint, and what a coroutine
            # raises that is no Exception has reached `wait` already.
            ready.put(error)

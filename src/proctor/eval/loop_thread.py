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
_Begun: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Event]"


class Background:
    """Runs coroutines for any thread. The loop begins at the first one; its thread keeps no program alive."""

    def __init__(
        self, closed: str, *, parting_s: float, closing: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Starts nothing yet.

        Args:
            closed: what is said to those who come after the end, as a sentence.
            parting_s: how long `close` waits for what is cancelled and closed in the loop, in seconds.
            closing: awaited in the loop before it ends, after everything else was cancelled.
        """
        self._said = closed
        self._parting_s = parting_s
        self._closing = closing
        self._lock = Lock()
        self._closed = False
        self._thread: Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave: asyncio.Event | None = None
        self._error: Exception | None = None

    def wait(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """What the coroutine gives; it is cancelled where waiting is interrupted.

        Raises:
            UsageError: the loop has ended, is that of the process that forked this one, or would wait for
                itself.
            Exception: what the coroutine raises.
        """
        from asyncio import run_coroutine_threadsafe  # 60 ms that importing this module shall not take
        from concurrent.futures import CancelledError

        try:
            with self._lock:
                future = run_coroutine_threadsafe(coroutine, self._begun())
        except BaseException:
            coroutine.close()
            raise
        try:
            return future.result()
        except CancelledError:
            if not self._closed:  # it cancelled itself
                raise
            raise UsageError(self._said) from None
        finally:
            future.cancel()  # does nothing where it is done

    def close(self) -> None:
        """Cancel what is under way and end the loop. Safe to call twice, and from the loop's own thread.

        Raises:
            Exception: what `closing` raised.
        """
        with self._lock:
            self._closed = True
            thread, loop, leave = self._thread, self._loop, self._leave
        if thread is None or loop is None or leave is None:
            return
        with suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(leave.set)
        if thread is current_thread():
            return
        thread.join(self._parting_s)
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _begun(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise UsageError(self._said)
        if self._loop is None:
            ready: SimpleQueue[_Begun | BaseException] = SimpleQueue()
            self._thread = Thread(target=self._run, args=(ready,), daemon=True, name="proctor-loop")
            self._thread.start()
            begun = ready.get()
            if isinstance(begun, BaseException):
                raise begun
            self._loop, self._leave = begun
        elif self._thread is not None and not self._thread.is_alive():
            raise UsageError("A forked process cannot use what was open before the fork. Make its own there.")
        elif self._thread is current_thread():
            raise UsageError("A target cannot wait for the client that is asking it.")
        return self._loop

    def _run(self, ready: SimpleQueue[_Begun | BaseException]) -> None:
        import asyncio

        async def serve() -> None:
            leave = asyncio.Event()
            ready.put((asyncio.get_running_loop(), leave))
            await leave.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            try:
                if self._closing is not None:
                    await self._closing()
            except Exception as error:  # noqa: BLE001  # `close` raises it
                self._error = error

        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001  # heard where the loop could not begin
            # Python 3.12 cannot end one at the program's end without a complaint, and what a coroutine
            # raises that is no Exception has reached `wait` already.
            ready.put(error)

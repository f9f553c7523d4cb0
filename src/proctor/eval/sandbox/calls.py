"""Calls between a sandboxed program and its tests, each in a process of its own.

What a call changes in place in its arguments is changed for the caller too. A function or class that one side
hands over is a stand-in on the other, which calls the real one; an error is raised again as one of its class,
or of the nearest built-in one. This imports nothing but the standard library.
"""

from __future__ import annotations

import _thread
import builtins
import os

from proctor.eval.sandbox.wire import BYTES_MOST, NotPlain, Reader, Writer, items_of, put_back

TYPE_CHECKING = False  # importing `typing` would take longer than starting Python
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

CALL, VALUE, ERROR = b"C", b"V", b"E"
"""The kinds of frames."""
NONSENSE = "the program sent something else than a value"
"""Why there can be no more calls, as a clause."""


class Ended(BaseException):
    """There can be no more calls; not an `Exception`, so that `except Exception` does not take it."""


class Line:
    """One end of two pipes over which two processes call functions of each other; one call at a time.

    Args:
        reads: the handle of the pipe to be read.
        writes: the handle of the pipe to be written.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self.classes: dict[str, Any] = {}
        """Classes of errors by name, which are taken for those of the same name on the other side."""
        self._reads = reads
        self._writes = writes
        self._calling = _thread.RLock()
        self._own: list[Any] = []
        """What was handed over, by its number."""
        self._far: dict[int, Any] = {}
        """What stands for what the other side handed over, by its number there."""
        self._letters: dict[int, tuple[bytes, int]] = {}
        """How each of them is written, by its `id`: `p` with its number, or `h` for one that comes home."""

    # --- frames --------------------------------------------------------------------------------------------

    def send(self, kind: bytes, value: Any, shared: Iterable[Any] = ()) -> list[Any]:
        """Send a frame; gives what it has that can be changed in place.

        Raises:
            NotPlain: the value is no data.
            OverflowError: it is too large.
            Ended: nobody reads.
        """
        writer = Writer(self, shared)
        writer.write(value)
        rest = memoryview(len(writer.parts).to_bytes(8, "little") + kind + bytes(writer.parts))
        try:
            while rest:
                rest = rest[os.write(self._writes, rest) :]
        except OSError:
            raise Ended from None
        return writer.shared

    def receive(self) -> tuple[bytes, bytes]:
        """The kind of the next frame with its content.

        Raises:
            Ended: there is none.
        """
        head = self._taken(9)
        return head[8:], self._taken(int.from_bytes(head[:8], "little"))

    def read(self, content: bytes, shared: Iterable[Any] = ()) -> tuple[Any, list[Any]]:
        """The value of a frame, and what it has that can be changed in place.

        Raises:
            Ended: there is none in it.
        """
        reader = Reader(content, self, shared)
        try:
            return reader.whole(), reader.shared
        except ValueError as error:
            raise Ended(NONSENSE) from error

    def _taken(self, size: int) -> bytes:
        if size > BYTES_MOST:
            raise Ended(NONSENSE)
        content = bytearray()
        while len(content) < size:
            piece = os.read(self._reads, min(size - len(content), 1_048_576))
            if not piece:
                raise Ended
            content += piece
        return bytes(content)

    # --- calls ---------------------------------------------------------------------------------------------

    def call(self, number: int, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call what the other side handed over under a number; meanwhile it may call back."""
        with self._calling:
            sent = self.send(CALL, (number, given, named))
            while True:
                kind, content = self.receive()
                if kind != CALL:
                    break
                self.answer(content)
            reply, _ = self.read(content, sent)
            try:
                value, changed = reply
                for place, items in changed.items():
                    put_back(sent[place], items)
            except (TypeError, ValueError, AttributeError, LookupError):
                raise Ended(NONSENSE) from None
            if kind == VALUE:
                return value
            raise error_of(value)

    def answer(self, content: bytes) -> None:
        """Do what a frame of the kind `CALL` asks for, and reply."""
        asked, shared = self.read(content)
        match asked:
            case (int(number), tuple(given), dict(named)):
                pass
            case _:
                raise Ended(NONSENSE)
        before = [items_of(one) for one in shared]
        try:
            kind, value = VALUE, self._own[number](*given, **named)
        except Ended:
            raise
        except BaseException as error:  # noqa: BLE001  # it is told
            kind, value = ERROR, self.told(error)
        changed = {
            place: items
            for place, one in enumerate(shared)
            if not _same(items := items_of(one), before[place])
        }
        try:
            self.send(kind, (value, changed), shared)
        except NotPlain as error:
            self.send(ERROR, (self.told(TypeError(f"{error} cannot leave the sandbox")), {}))
        except Exception as error:  # noqa: BLE001  # such as of an iterator
            self.send(ERROR, (self.told(error), {}))

    def told(self, error: BaseException) -> tuple[type, tuple[Any, ...]]:
        """An error as its class and what it was made of, or what it says if this cannot be sent."""
        kind = type(error)
        try:
            if _is_builtin(kind):
                Writer(self).write(error.args)
                return kind, error.args
        except Exception:  # noqa: BLE001, S110  # of what it was made of
            pass
        try:
            return kind, (str(error),)
        except BaseException:  # noqa: BLE001  # of an error that cannot say itself
            return kind, ()

    # --- functions and classes -----------------------------------------------------------------------------

    def write_function(self, value: Any, writer: Writer) -> None:
        """Write a function or class: one of the other side's own, a built-in class, or one with a number."""
        if not callable(value):
            raise NotPlain(f"a value of type {type(value).__name__}")
        if _is_builtin(value):
            writer.many(b"n", [value.__name__])
            return
        if id(value) not in self._letters:
            self._letters[id(value)] = b"p", len(self._own)
            self._own.append(value)
        letter, number = self._letters[id(value)]
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        names = tuple(kind.__name__ for kind in value.__mro__) if is_error else ()
        writer.many(letter, [number, str(getattr(value, "__name__", "")), names])

    def read_function(self, letter: bytes, given: list[Any]) -> Any:
        """What `write_function` wrote on the other side."""
        match letter, given:
            case b"n", [str(name)] if _is_builtin(vars(builtins)[name]):
                return vars(builtins)[name]
            case b"h", [int(number), str(), tuple()]:
                return self._own[number]
            case b"p", [int(number), str(name), tuple(names)]:
                if number not in self._far:
                    self._far[number] = self._error_class(names) if names else self._stand_in(number, name)
                    self._letters[id(self._far[number])] = b"h", number
                return self._far[number]
        raise ValueError(letter)

    def _stand_in(self, number: int, name: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            return self.call(number, given, named)

        call.__name__ = call.__qualname__ = name
        return call

    def _error_class(self, names: tuple[Any, ...]) -> type[Exception]:
        """A class of errors by the names of itself and those above it."""
        for kind in (self.classes.get(names[0]), *(getattr(builtins, name, None) for name in names)):
            if isinstance(kind, type) and issubclass(kind, Exception):
                return kind if kind.__name__ == names[0] else type(names[0], (kind,), {})
        return type(names[0], (Exception,), {})


def _is_builtin(value: Any) -> bool:
    return isinstance(value, type) and vars(builtins).get(value.__name__) is value


def _same(items: list[Any], before: list[Any]) -> bool:
    return len(items) == len(before) and all(one is other for one, other in zip(items, before, strict=True))


def error_of(told: Any) -> Exception:
    """The error that `Line.told` told of.

    Raises:
        Ended: it is none.
    """
    match told:
        case (type() as kind, tuple(given)):
            pass
        case _:
            raise Ended(NONSENSE)
    if issubclass(kind, Exception):  # SystemExit is none
        try:
            return kind(*given)
        except Exception:  # noqa: BLE001, S110  # a class of the prompt may be made of something else than a text
            pass
        try:
            return kind.__new__(kind, *given)
        except Exception:  # noqa: BLE001, S110  # and a group of errors is made of errors
            pass
    return Exception(": ".join([kind.__name__, *map(str, given)]))

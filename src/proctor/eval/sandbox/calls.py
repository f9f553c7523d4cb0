"""Calls between a sandboxed program and its tests, each in a process of its own.

Arguments that a call changes in place are changed for the caller too. A function or class that one side sends
becomes a stand-in on the other side, which calls the original; an error is raised again as one of its class,
or of the nearest built-in class. Imports only the standard library.
"""

from __future__ import annotations

import _thread
import builtins
import os

from proctor.eval.sandbox.wire import MAX_BYTES, NotPlain, ValueReader, ValueWriter, get_items, replace_items

TYPE_CHECKING = False  # importing `typing` would take longer than starting Python
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

CALL, VALUE, ERROR = b"C", b"V", b"E"
"""The kinds of frames."""
INVALID_DATA = "the program sent something else than a value"
"""Why the channel is closed, as a clause."""


class ChannelClosed(BaseException):
    """No more calls are possible. Not an `Exception`, so that `except Exception` does not catch it."""


class CallChannel:
    """One end of two pipes over which two processes call each other's functions, one call at a time.

    Args:
        reads: the handle of the pipe to be read.
        writes: the handle of the pipe to be written.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self.classes: dict[str, Any] = {}
        """Error classes by name, used for classes of the same name on the other side."""
        self._reads = reads
        self._writes = writes
        self._call_lock = _thread.RLock()
        self._exported: list[Any] = []
        """Functions and classes that were sent, by their number."""
        self._stand_ins: dict[int, Any] = {}
        """Stand-ins for what the other side sent, by its number there."""
        self._references: dict[int, tuple[bytes, int]] = {}
        """How each is written, by its `id`: `p` with its number, or `h` with the other side's number."""

    # --- frames --------------------------------------------------------------------------------------------

    def send(self, kind: bytes, value: Any, shared: Iterable[Any] = ()) -> list[Any]:
        """Sends a frame; returns the values in it that can be changed in place.

        Raises:
            NotPlain: the value is not plain data.
            OverflowError: the value is too large.
            ChannelClosed: the other side does not read.
        """
        writer = ValueWriter(self, shared)
        writer.write(value)
        frame = memoryview(len(writer.parts).to_bytes(8, "little") + kind + bytes(writer.parts))
        try:
            while frame:
                frame = frame[os.write(self._writes, frame) :]
        except OSError:
            raise ChannelClosed from None
        return writer.shared

    def receive(self) -> tuple[bytes, bytes]:
        """Returns the kind and the content of the next frame.

        Raises:
            ChannelClosed: there is no more frame.
        """
        head = self._read_bytes(9)
        return head[8:], self._read_bytes(int.from_bytes(head[:8], "little"))

    def read(self, content: bytes, shared: Iterable[Any] = ()) -> tuple[Any, list[Any]]:
        """Returns the value of a frame, and the values in it that can be changed in place.

        Raises:
            ChannelClosed: the content is not a value.
        """
        reader = ValueReader(content, self, shared)
        try:
            return reader.read_value(), reader.shared
        except ValueError as error:
            raise ChannelClosed(INVALID_DATA) from error

    def _read_bytes(self, size: int) -> bytes:
        if size > MAX_BYTES:
            raise ChannelClosed(INVALID_DATA)
        content = bytearray()
        while len(content) < size:
            piece = os.read(self._reads, min(size - len(content), 1_048_576))
            if not piece:
                raise ChannelClosed
            content += piece
        return bytes(content)

    # --- calls ---------------------------------------------------------------------------------------------

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function of the other side by its number; meanwhile the other side may call back."""
        with self._call_lock:
            shared = self.send(CALL, (number, args, kwargs))
            while True:
                kind, content = self.receive()
                if kind != CALL:
                    break
                self.answer(content)
            reply, _ = self.read(content, shared)
            try:
                value, changed = reply
                for place, items in changed.items():
                    replace_items(shared[place], items)
            except (TypeError, ValueError, AttributeError, LookupError):
                raise ChannelClosed(INVALID_DATA) from None
            if kind == VALUE:
                return value
            raise rebuild_error(value)

    def answer(self, content: bytes) -> None:
        """Executes a frame of the kind `CALL`, and replies."""
        request, shared = self.read(content)
        match request:
            case (int(number), tuple(args), dict(kwargs)):
                pass
            case _:
                raise ChannelClosed(INVALID_DATA)
        before = [get_items(value) for value in shared]
        try:
            kind, value = VALUE, self._exported[number](*args, **kwargs)
        except ChannelClosed:
            raise
        except BaseException as error:  # noqa: BLE001  # it is sent
            kind, value = ERROR, self.describe_error(error)
        changed = {
            place: items
            for place, holder in enumerate(shared)
            if not _has_same_items(items := get_items(holder), before[place])
        }
        try:
            self.send(kind, (value, changed), shared)
        except NotPlain as error:
            self.send(ERROR, (self.describe_error(TypeError(f"{error} cannot leave the sandbox")), {}))
        except Exception as error:  # noqa: BLE001  # such as of an iterator
            self.send(ERROR, (self.describe_error(error), {}))

    def describe_error(self, error: BaseException) -> tuple[type, tuple[Any, ...]]:
        """Returns the class of an error and its arguments, or its text if these cannot be sent."""
        kind = type(error)
        try:
            if _is_builtin(kind):
                ValueWriter(self).write(error.args)
                return kind, error.args
        except Exception:  # noqa: BLE001, S110  # of its arguments
            pass
        try:
            return kind, (str(error),)
        except BaseException:  # noqa: BLE001  # of its __str__
            return kind, ()

    # --- functions and classes -----------------------------------------------------------------------------

    def write_function(self, value: Any, writer: ValueWriter) -> None:
        """Writes a function or class: a stand-in, a built-in class, or one of this side with a number."""
        if not callable(value):
            raise NotPlain(f"a value of type {type(value).__name__}")
        if _is_builtin(value):
            writer.write_group(b"n", [value.__name__])
            return
        if id(value) not in self._references:
            self._references[id(value)] = b"p", len(self._exported)
            self._exported.append(value)
        tag, number = self._references[id(value)]
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        names = tuple(kind.__name__ for kind in value.__mro__) if is_error else ()
        writer.write_group(tag, [number, str(getattr(value, "__name__", "")), names])

    def read_function(self, tag: bytes, parts: list[Any]) -> Any:
        """Returns the function or class that `write_function` wrote on the other side."""
        match tag, parts:
            case b"n", [str(name)] if _is_builtin(vars(builtins)[name]):
                return vars(builtins)[name]
            case b"h", [int(number), str(), tuple()]:
                return self._exported[number]
            case b"p", [int(number), str(name), tuple(names)]:
                if number not in self._stand_ins:
                    self._stand_ins[number] = (
                        self._find_error_class(names) if names else self._make_stand_in(number, name)
                    )
                    self._references[id(self._stand_ins[number])] = b"h", number
                return self._stand_ins[number]
        raise ValueError(tag)

    def _make_stand_in(self, number: int, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self.call(number, args, kwargs)

        call.__name__ = call.__qualname__ = name
        return call

    def _find_error_class(self, names: tuple[Any, ...]) -> type[Exception]:
        """Returns an error class by its own name and those of its base classes."""
        for kind in (self.classes.get(names[0]), *(getattr(builtins, name, None) for name in names)):
            if isinstance(kind, type) and issubclass(kind, Exception):
                return kind if kind.__name__ == names[0] else type(names[0], (kind,), {})
        return type(names[0], (Exception,), {})


def _is_builtin(value: Any) -> bool:
    return isinstance(value, type) and vars(builtins).get(value.__name__) is value


def _has_same_items(items: list[Any], before: list[Any]) -> bool:
    return len(items) == len(before) and all(item is other for item, other in zip(items, before, strict=True))


def rebuild_error(description: Any) -> Exception:
    """Returns the error that `CallChannel.describe_error` described.

    Raises:
        ChannelClosed: the value describes no error.
    """
    match description:
        case (type() as kind, tuple(args)):
            pass
        case _:
            raise ChannelClosed(INVALID_DATA)
    if issubclass(kind, Exception):  # SystemExit is none
        try:
            return kind(*args)
        except Exception:  # noqa: BLE001, S110  # a class of the prompt may need other arguments
            pass
        try:
            return kind.__new__(kind, *args)
        except Exception:  # noqa: BLE001, S110  # and a group of errors needs errors
            pass
    return Exception(": ".join([kind.__name__, *map(str, args)]))

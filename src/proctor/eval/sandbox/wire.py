"""Python values as bytes: what a sandboxed program and its tests exchange.

Reading makes only plain values and stand-ins for functions, so that a hostile writer can send a wrong answer
and nothing else: no object with a comparison of its own, no code. Each value is a letter, then its size or
the number of values that follow, then these. Values that can be changed in place (a list, a dictionary …) are
numbered in order of appearance; a repeated one is written as its number. Imports only the standard library,
because it also runs inside the sandbox.
"""

from __future__ import annotations

import struct
from itertools import islice

TYPE_CHECKING = False  # importing `typing` would take longer than starting Python
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    class FunctionCodec(Protocol):
        """Writes and reads functions and classes."""

        def write_function(self, value: Any, writer: ValueWriter) -> None:
            """Writes a function or class; raises NotPlain for any other value."""

        def read_function(self, tag: bytes, parts: list[Any]) -> Any:
            """Returns the function or class, or its stand-in."""


MAX_BYTES = 33_554_432
"""Bytes of a value."""
MAX_ITEMS = 10_000
"""Items of an iterator that are sent; asking for more raises an error."""

_DICT_VIEWS: dict[type, tuple[bytes, Callable[[list[Any]], Any]]] = {
    type({}.keys()): (b"k", lambda items: dict.fromkeys(items).keys()),
    type({}.values()): (b"v", lambda items: dict(enumerate(items)).values()),
    type({}.items()): (b"w", lambda items: dict(items).items()),
}
_REBUILT_CLASSES = {
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
}
"""Classes, by module, whose values are rebuilt from the arguments that `__reduce_ex__` gives."""


class NotPlain(TypeError):
    """The value is not plain data."""


def get_items(value: Any) -> list[Any]:
    """Returns the items of a mutable value; for a dictionary its keys, then its values."""
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


def replace_items(value: Any, items: list[Any]) -> None:
    """Replaces the items of a mutable value, in the form of `get_items`."""
    value.clear()
    if isinstance(value, dict):
        for key, item in zip(items[: len(items) // 2], items[len(items) // 2 :], strict=True):
            value[key] = item
    elif isinstance(value, set):
        value.update(items)
    else:
        value.extend(items)


class ValueWriter:
    """Writes values as bytes.

    None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict with its views, set, frozenset,
    range and the classes of `_REBUILT_CLASSES` keep their type. A subclass is written as its plain base
    class, and an iterator as its items.

    Args:
        functions: writes functions and classes.
        shared: mutable values that the reader already has, by their number.
    """

    def __init__(self, functions: FunctionCodec, shared: Iterable[Any] = ()) -> None:
        self.parts = bytearray()
        self.shared = list(shared)
        """Mutable values by their number. They are held here so that no other value gets their `id`."""
        self._numbers = {id(value): number for number, value in enumerate(self.shared)}
        self._functions = functions

    def write(self, value: Any) -> None:
        """Adds a value.

        Raises:
            NotPlain: the value is or contains what cannot be sent.
            OverflowError: the value takes more than `MAX_BYTES` bytes.
        """
        if value is None or value is True or value is False:
            self.parts += b"N" if value is None else b"T" if value else b"F"
        elif isinstance(value, int):
            self._write_sized(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
        elif isinstance(value, float):
            self.parts += b"f" + struct.pack("<d", value)
        elif isinstance(value, str):
            self._write_sized(b"s", value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, tuple):
            self.write_group(b"t", list(value))
        elif id(value) in self._numbers:
            self.parts += b"@" + self._numbers[id(value)].to_bytes(8, "little")
        elif _rebuilt_class_name(type(value)):
            self._write_rebuilt(value)
        elif isinstance(value, list | dict | set | bytearray):
            self._register(value)
            letter = next(letter for letter, kind in _MUTABLE_TYPES.items() if isinstance(value, kind))
            if letter == b"B":
                self._write_sized(letter, bytes(value))
            else:
                self.write_group(letter, get_items(value))
        else:
            self._write_other(value)
        if len(self.parts) > MAX_BYTES:
            raise OverflowError(f"a value of more than {MAX_BYTES:,} bytes")

    def _write_sized(self, letter: bytes, content: bytes) -> None:
        """Adds a letter, the number of bytes, and the bytes."""
        self.parts += letter + len(content).to_bytes(8, "little") + content

    def write_group(self, letter: bytes, items: list[Any]) -> None:
        """Adds a letter, the number of values, and the values."""
        self.parts += letter + len(items).to_bytes(8, "little")
        for item in items:
            self.write(item)

    def _register(self, value: Any) -> None:
        self._numbers[id(value)] = len(self.shared)
        self.shared.append(value)

    def _write_rebuilt(self, value: Any) -> None:
        args = value.__reduce_ex__(2)[1]
        self.parts += b"M"
        self.write(_rebuilt_class_name(type(value)))
        self.write(args)
        if hasattr(value, "clear"):
            self._register(value)
            self.write_group(b"t", get_items(value))

    def _write_other(self, value: Any) -> None:
        if isinstance(value, complex):
            self.parts += b"c" + struct.pack("<dd", value.real, value.imag)
        elif isinstance(value, bytes):
            self._write_sized(b"b", bytes(value))
        elif isinstance(value, range):
            self.write_group(b"r", [value.start, value.stop, value.step])
        elif isinstance(value, frozenset):
            self.write_group(b"Z", list(value))
        elif type(value) in _DICT_VIEWS:
            self.write_group(_DICT_VIEWS[type(value)][0], list(value))
        elif hasattr(value, "__next__"):
            items = list(islice(value, MAX_ITEMS + 1))
            self.write_group(b"J" if len(items) > MAX_ITEMS else b"I", items[:MAX_ITEMS])
        else:
            self._functions.write_function(value, self)


class ValueReader:
    """Reads values from bytes.

    Args:
        content: the bytes of a `ValueWriter`, or of a hostile process.
        functions: reads functions and classes.
        shared: mutable values that the writer already had, by their number.
    """

    def __init__(self, content: bytes, functions: FunctionCodec, shared: Iterable[Any] = ()) -> None:
        self.shared = list(shared)
        """Mutable values by their number."""
        self._content = content
        self._place = 0
        self._functions = functions

    def read_value(self) -> Any:
        """Returns the one value of these bytes.

        Raises:
            ValueError: the bytes are not a value.
        """
        try:
            value = self._read()
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError("These bytes are not a packed value.") from error
        if self._place != len(self._content):
            raise ValueError("There are bytes after the packed value.")
        return value

    def _take_bytes(self, size: int) -> bytes:
        begin, self._place = self._place, self._place + size
        if self._place > len(self._content):
            raise IndexError
        return self._content[begin : self._place]

    def _read(self) -> Any:
        letter = self._take_bytes(1)
        if letter in _CONSTANTS:
            return _CONSTANTS[letter]
        if letter == b"f":
            return struct.unpack("<d", self._take_bytes(8))[0]
        if letter == b"c":
            return complex(*struct.unpack("<dd", self._take_bytes(16)))
        if letter == b"M":
            return self._read_rebuilt()
        size = int.from_bytes(self._take_bytes(8), "little")
        if letter in _SIZED_DECODERS:
            return _SIZED_DECODERS[letter](self._take_bytes(size))
        if letter == b"@":
            return self.shared[size]
        if letter in _MUTABLE_TYPES:
            self.shared.append(_MUTABLE_TYPES[letter]())
            value = self.shared[-1]
            replace_items(value, self._take_bytes(size) if letter == b"B" else self._read_items(size))  # type: ignore[arg-type]
            return value
        if letter in _GROUP_DECODERS:
            return _GROUP_DECODERS[letter](self._read_items(size))
        return self._functions.read_function(letter, self._read_items(size))

    def _read_items(self, size: int) -> list[Any]:
        items = []
        for _ in range(size):
            items.append(self._read())  # noqa: PERF401  # a comprehension would be one more frame for each level
        return items

    def _read_rebuilt(self) -> Any:
        name, args = self._read(), self._read()
        module, _, kind = name.partition(".")
        if kind not in _REBUILT_CLASSES[module]:
            raise KeyError(name)
        value = getattr(__import__(module), kind)(*args)
        if hasattr(value, "clear"):
            self.shared.append(value)
            replace_items(value, self._read())
        return value


def _rebuilt_class_name(kind: type) -> str:
    module = kind.__module__
    return (
        f"{module}.{kind.__name__}"
        if module in _REBUILT_CLASSES and kind.__name__ in _REBUILT_CLASSES[module]
        else ""
    )


def _iterate(items: list[Any], *, is_cut: bool) -> Iterator[Any]:
    yield from items
    if is_cut:
        raise RuntimeError(f"Only the first {MAX_ITEMS:,} items of an iterator leave the sandbox.")


_CONSTANTS = {b"N": None, b"T": True, b"F": False}
_SIZED_DECODERS: dict[bytes, Callable[[bytes], Any]] = {
    b"i": lambda content: int.from_bytes(content, "little", signed=True),
    b"s": lambda content: content.decode("utf-8", "surrogatepass"),
    b"b": bytes,
}
_MUTABLE_TYPES: dict[bytes, type] = {b"l": list, b"d": dict, b"S": set, b"B": bytearray}
_GROUP_DECODERS: dict[bytes, Callable[[list[Any]], Any]] = {
    b"t": tuple,
    b"Z": frozenset,
    b"r": lambda bounds: range(*bounds),
    b"I": lambda items: _iterate(items, is_cut=False),
    b"J": lambda items: _iterate(items, is_cut=True),
    **dict(_DICT_VIEWS.values()),
}

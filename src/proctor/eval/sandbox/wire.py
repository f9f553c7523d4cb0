"""Python values as bytes: what a sandboxed program and its tests exchange.

Reading makes nothing but plain values and stand-ins for functions, so that a hostile writer can send a wrong
answer and nothing else: no object with a comparison of its own, no code. Each value is a letter, then its
size or how many values follow, then these. What can be changed in place (a list, a dictionary …) is numbered
in the order in which it comes; where it comes again, its number stands. It imports nothing but the standard
library, because it also runs inside the sandbox.
"""

from __future__ import annotations

import struct
from itertools import islice

TYPE_CHECKING = False  # importing `typing` would take longer than starting Python
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    class Functions(Protocol):
        """What writes and reads functions and classes, which are no data."""

        def write_function(self, value: Any, writer: Writer) -> None:
            """Write what is no data; raises NotPlain for what is no function or class either."""

        def read_function(self, letter: bytes, given: list[Any]) -> Any:
            """What stands here for what was written there."""


BYTES_MOST = 33_554_432
"""How many bytes a value may have."""
ITEMS_MOST = 10_000
"""How many items of an iterator are taken along; one that asks for more is told so."""

_VIEWS: dict[type, tuple[bytes, Callable[[list[Any]], Any]]] = {
    type({}.keys()): (b"k", lambda items: dict.fromkeys(items).keys()),
    type({}.values()): (b"v", lambda items: dict(enumerate(items)).values()),
    type({}.items()): (b"w", lambda items: dict(items).items()),
}
_MADE = {
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
}
"""Classes, by module, whose values are made anew from what `__reduce_ex__` gives."""


class NotPlain(TypeError):
    """A value that is no plain data."""


def items_of(value: Any) -> list[Any]:
    """What stands in something that can be changed in place; of a dictionary its keys, then its values."""
    return [*value, *value.values()] if isinstance(value, dict) else list(value)


def put_back(value: Any, items: list[Any]) -> None:
    """Have exactly these items stand in something that can be changed in place, as `items_of` gives them."""
    value.clear()
    if isinstance(value, dict):
        for key, item in zip(items[: len(items) // 2], items[len(items) // 2 :], strict=True):
            value[key] = item
    elif isinstance(value, set):
        value.update(items)
    else:
        value.extend(items)


class Writer:
    """Makes bytes of values.

    None, bool, int, float, complex, str, bytes, bytearray, list, tuple, dict with its views, set, frozenset,
    range and the classes of `_MADE` go as they are. What derives from them goes as its plain base, and an
    iterator as its items.

    Args:
        functions: writes what is no data.
        shared: what the reader already has under its number.
    """

    def __init__(self, functions: Functions, shared: Iterable[Any] = ()) -> None:
        self.parts = bytearray()
        self.shared = list(shared)
        """What can be changed in place, by its number. It is kept, so that no other value gets its `id`."""
        self._numbers = {id(one): number for number, one in enumerate(self.shared)}
        self._functions = functions

    def write(self, value: Any) -> None:
        """Add a value.

        Raises:
            NotPlain: it is or contains what does not go.
            OverflowError: it takes more than `BYTES_MOST` bytes.
        """
        if value is None or value is True or value is False:
            self.parts += b"N" if value is None else b"T" if value else b"F"
        elif isinstance(value, int):
            self.sized(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
        elif isinstance(value, float):
            self.parts += b"f" + struct.pack("<d", value)
        elif isinstance(value, str):
            self.sized(b"s", value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, tuple):
            self.many(b"t", list(value))
        elif id(value) in self._numbers:
            self.parts += b"@" + self._numbers[id(value)].to_bytes(8, "little")
        elif _name_of(type(value)):
            self._made(value)
        elif isinstance(value, list | dict | set | bytearray):
            self._number(value)
            letter = next(letter for letter, kind in _SHARED.items() if isinstance(value, kind))
            if letter == b"B":
                self.sized(letter, bytes(value))
            else:
                self.many(letter, items_of(value))
        else:
            self._rare(value)
        if len(self.parts) > BYTES_MOST:
            raise OverflowError(f"a value of more than {BYTES_MOST:,} bytes")

    def sized(self, letter: bytes, content: bytes) -> None:
        """Add a letter with the bytes that belong to it."""
        self.parts += letter + len(content).to_bytes(8, "little") + content

    def many(self, letter: bytes, items: list[Any]) -> None:
        """Add a letter with the values that belong to it."""
        self.parts += letter + len(items).to_bytes(8, "little")
        for item in items:
            self.write(item)

    def _number(self, value: Any) -> None:
        self._numbers[id(value)] = len(self.shared)
        self.shared.append(value)

    def _made(self, value: Any) -> None:
        given = value.__reduce_ex__(2)[1]
        self.parts += b"M"
        self.write(_name_of(type(value)))
        self.write(given)
        if hasattr(value, "clear"):
            self._number(value)
            self.many(b"t", items_of(value))

    def _rare(self, value: Any) -> None:
        if isinstance(value, complex):
            self.parts += b"c" + struct.pack("<dd", value.real, value.imag)
        elif isinstance(value, bytes):
            self.sized(b"b", bytes(value))
        elif isinstance(value, range):
            self.many(b"r", [value.start, value.stop, value.step])
        elif isinstance(value, frozenset):
            self.many(b"Z", list(value))
        elif type(value) in _VIEWS:
            self.many(_VIEWS[type(value)][0], list(value))
        elif hasattr(value, "__next__"):
            taken = list(islice(value, ITEMS_MOST + 1))
            self.many(b"J" if len(taken) > ITEMS_MOST else b"I", taken[:ITEMS_MOST])
        else:
            self._functions.write_function(value, self)


class Reader:
    """Makes values of bytes.

    Args:
        content: what a `Writer` made, or somebody hostile.
        functions: reads what is no data.
        shared: what the writer already had under its number.
    """

    def __init__(self, content: bytes, functions: Functions, shared: Iterable[Any] = ()) -> None:
        self.shared = list(shared)
        """What can be changed in place, by its number."""
        self._content = content
        self._place = 0
        self._functions = functions

    def whole(self) -> Any:
        """The one value that these bytes are.

        Raises:
            ValueError: they are none.
        """
        try:
            value = self._read()
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError("These bytes are no packed value.") from error
        if self._place != len(self._content):
            raise ValueError("There are bytes behind the packed value.")
        return value

    def _taken(self, size: int) -> bytes:
        begin, self._place = self._place, self._place + size
        if self._place > len(self._content):
            raise IndexError
        return self._content[begin : self._place]

    def _read(self) -> Any:
        letter = self._taken(1)
        if letter in _CONSTANTS:
            return _CONSTANTS[letter]
        if letter == b"f":
            return struct.unpack("<d", self._taken(8))[0]
        if letter == b"c":
            return complex(*struct.unpack("<dd", self._taken(16)))
        if letter == b"M":
            return self._made()
        size = int.from_bytes(self._taken(8), "little")
        if letter in _SIZED:
            return _SIZED[letter](self._taken(size))
        if letter == b"@":
            return self.shared[size]
        if letter in _SHARED:
            self.shared.append(_SHARED[letter]())
            value = self.shared[-1]
            put_back(value, self._taken(size) if letter == b"B" else self._items(size))  # type: ignore[arg-type]
            return value
        if letter in _GROUPS:
            return _GROUPS[letter](self._items(size))
        return self._functions.read_function(letter, self._items(size))

    def _items(self, size: int) -> list[Any]:
        items = []
        for _ in range(size):
            items.append(self._read())  # noqa: PERF401  # a comprehension would be one more frame for each level
        return items

    def _made(self) -> Any:
        name, given = self._read(), self._read()
        module, _, kind = name.partition(".")
        if kind not in _MADE[module]:
            raise KeyError(name)
        value = getattr(__import__(module), kind)(*given)
        if hasattr(value, "clear"):
            self.shared.append(value)
            put_back(value, self._read())
        return value


def _name_of(kind: type) -> str:
    module = kind.__module__
    return f"{module}.{kind.__name__}" if module in _MADE and kind.__name__ in _MADE[module] else ""


def _iterator(items: list[Any], *, cut: bool) -> Iterator[Any]:
    yield from items
    if cut:
        raise RuntimeError(f"Only the first {ITEMS_MOST:,} items of an iterator leave the sandbox.")


_CONSTANTS = {b"N": None, b"T": True, b"F": False}
_SIZED: dict[bytes, Callable[[bytes], Any]] = {
    b"i": lambda content: int.from_bytes(content, "little", signed=True),
    b"s": lambda content: content.decode("utf-8", "surrogatepass"),
    b"b": bytes,
}
_SHARED: dict[bytes, type] = {b"l": list, b"d": dict, b"S": set, b"B": bytearray}
_GROUPS: dict[bytes, Callable[[list[Any]], Any]] = {
    b"t": tuple,
    b"Z": frozenset,
    b"r": lambda bounds: range(*bounds),
    b"I": lambda items: _iterator(items, cut=False),
    b"J": lambda items: _iterator(items, cut=True),
    **dict(_VIEWS.values()),
}

"""Rows and numbers that can be too many for memory: the first stay there, the rest go to a temporary file.

The file has no name, so it is gone when the process ends, however it ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Final, Generic, TypeVar, overload
from weakref import finalize

import msgspec

from proctor.errors import StoreError

T = TypeVar("T")
SortableT = TypeVar("SortableT", bound="float | bytes | tuple[Any, ...]")
_Block = tuple[int, int]
"""The offset and the size of bytes in a file."""
MAX_ROWS: Final = 32_768
"""The number of rows in memory."""
MAX_NUMBERS: Final = 131_072
"""The number of numbers in memory."""
_BLOCK_ROWS: Final = 256
_BLOCK_NUMBERS: Final = 4096
"""What is read at once of each sorted part."""
_NUMBER_SIZE: Final = 8


class _BlockFile:
    """A temporary file of blocks, for any thread."""

    def __init__(self) -> None:
        from tempfile import TemporaryFile

        self._lock = Lock()
        self._size = 0
        try:
            self._file = TemporaryFile(buffering=0)  # noqa: SIM115  # it lives as long as this object
        except OSError as error:
            raise _write_error(error) from error
        finalize(self, self._file.close)

    def append(self, data: bytes) -> _Block:
        """Writes a block at the end.

        Raises:
            StoreError: the temporary folder cannot be written.
        """
        with self._lock:
            block = self._size, len(data)
            try:
                self._file.seek(self._size)
                view = memoryview(data)
                while view:
                    view = view[self._file.write(view) :]
            except OSError as error:
                raise _write_error(error) from error
            self._size += len(data)
        return block

    def read(self, block: _Block) -> bytes:
        """Returns a block, or a part of one."""
        with self._lock:
            self._file.seek(block[0])
            return self._file.read(block[1])


def _write_error(error: OSError) -> StoreError:
    from tempfile import gettempdir

    try:
        folder = gettempdir()
    except OSError:
        folder = "for temporary files"
    return StoreError(
        f"The folder {folder} cannot be written: {error.strerror or error}. Free some space there, or set "
        f"the environment variable TMPDIR to another folder."
    )


class RowSpool(Generic[T]):
    """Rows in the order in which they were added."""

    def __init__(self, kind: Any) -> None:
        """Starts without rows; `kind` is their type, of which MessagePack can be made."""
        self._decoder = msgspec.msgpack.Decoder(list[kind])
        self._rows: list[T] = []
        self._file: _BlockFile | None = None
        self._blocks: list[_Block] = []

    def append(self, row: T) -> None:
        """Adds a row.

        Raises:
            StoreError: the temporary folder cannot be written.
        """
        self._rows.append(row)
        if len(self._rows) >= MAX_ROWS:
            self._file = self._file or _BlockFile()
            self._blocks += _write_rows(self._file, self._rows)
            self._rows = []

    def __iter__(self) -> Iterator[T]:
        """Yields the rows."""
        if self._file is not None:
            for block in self._blocks:
                yield from self._decoder.decode(self._file.read(block))
        yield from self._rows


class RowSorter(Generic[SortableT]):
    """Sorts rows, which are tuples or bytes."""

    def __init__(self, kind: Any) -> None:
        """Starts without rows; `kind` is their type, of which MessagePack can be made."""
        self._decoder = msgspec.msgpack.Decoder(list[kind])
        self._rows: list[SortableT] = []
        self._file: _BlockFile | None = None
        self._runs: list[list[_Block]] = []

    def add(self, row: SortableT) -> None:
        """Adds a row.

        Raises:
            StoreError: the temporary folder cannot be written.
        """
        self._rows.append(row)
        if len(self._rows) >= MAX_ROWS:
            self._rows.sort()
            self._file = self._file or _BlockFile()
            self._runs.append(_write_rows(self._file, self._rows))
            self._rows = []

    def __iter__(self) -> Iterator[SortableT]:
        """Yields the rows, sorted."""
        last = sorted(self._rows)
        if self._file is None:
            yield from last
            return
        file, decode = self._file, self._decoder.decode
        runs: list[Iterator[Sequence[SortableT]]] = [
            (decode(file.read(block)) for block in blocks) for blocks in self._runs
        ]
        for rows in _merge([*runs, iter([last])]):
            yield from rows


class NumberSpool:
    """Floating-point numbers, in no particular order once they are many."""

    def __init__(self) -> None:
        """Starts without numbers."""
        self._numbers = array("d")
        self._file: _BlockFile | None = None
        self._runs: list[_Block] = []
        self._sorted_numbers: _SortedNumbers | None = None

    def append(self, number: float) -> None:
        """Adds a number.

        Raises:
            StoreError: the temporary folder cannot be written.
        """
        self._numbers.append(number)
        if len(self._numbers) >= MAX_NUMBERS:
            self._file = self._file or _BlockFile()
            self._runs.append(self._file.append(array("d", sorted(self._numbers)).tobytes()))
            self._numbers = array("d")

    def __len__(self) -> int:
        """Returns the number of numbers."""
        return len(self._numbers) + sum([size for _, size in self._runs]) // _NUMBER_SIZE

    def __iter__(self) -> Iterator[float]:
        """Yields the numbers."""
        if self._file is not None:
            for run in self._runs:
                for numbers in _read_numbers(self._file, run):
                    yield from numbers
        yield from self._numbers

    def copy(self) -> NumberSpool:
        """Returns a copy; both read the same file, to which blocks are only added."""
        other = NumberSpool()
        other._file, other._runs, other._numbers = self._file, self._runs[:], self._numbers[:]
        return other

    def sort(self) -> Sequence[float]:
        """Returns the numbers, sorted.

        Raises:
            StoreError: the temporary folder cannot be written.
        """
        last = sorted(self._numbers)
        if self._file is None:
            return last
        if self._sorted_numbers is not None and len(self._sorted_numbers) == len(self):
            return self._sorted_numbers
        runs: list[Iterator[Sequence[float]]] = [_read_numbers(self._file, run) for run in self._runs]
        file = _BlockFile()
        for numbers in _merge([*runs, iter([last])]):
            file.append(array("d", numbers).tobytes())
        self._sorted_numbers = _SortedNumbers(file, len(self))
        return self._sorted_numbers


class _SortedNumbers(Sequence[float]):
    """Sorted numbers in a file."""

    def __init__(self, file: _BlockFile, count: int) -> None:
        self._file = file
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[float]:
        for numbers in _read_numbers(self._file, (0, self._count * _NUMBER_SIZE)):
            yield from numbers

    @overload
    def __getitem__(self, place: int) -> float: ...
    @overload
    def __getitem__(self, place: slice) -> list[float]: ...
    def __getitem__(self, place: int | slice) -> float | list[float]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(self._count))]
        number = place + self._count if place < 0 else place
        if not 0 <= number < self._count:
            raise IndexError(place)
        return array("d", self._file.read((number * _NUMBER_SIZE, _NUMBER_SIZE)))[0]


def _write_rows(file: _BlockFile, rows: Sequence[Any]) -> list[_Block]:
    starts = range(0, len(rows), _BLOCK_ROWS)
    return [file.append(msgspec.msgpack.encode(rows[start : start + _BLOCK_ROWS])) for start in starts]


def _read_numbers(file: _BlockFile, block: _Block) -> Iterator[array[float]]:
    start, size = block
    step = _BLOCK_NUMBERS * _NUMBER_SIZE
    for offset in range(0, size, step):
        yield array("d", file.read((start + offset, min(step, size - offset))))


def _merge(runs: Iterable[Iterator[Sequence[SortableT]]]) -> Iterator[list[SortableT]]:
    """Yields the items of sorted runs, which come in blocks, in sorted lists that follow one another.

    What is not larger than the end of any block comes before all that was not read yet. Sorting such items
    of all runs at once is several times as fast as comparing them one by one.
    """
    heads: list[tuple[Sequence[SortableT], int, Iterator[Sequence[SortableT]]]] = []
    for run in runs:
        block = next(run, ())
        if block:
            heads.append((block, 0, run))
    while heads:
        limit = min([block[-1] for block, _, _ in heads])
        merged: list[SortableT] = []
        remaining = []
        for block, start, run in heads:
            end = bisect_right(block, limit, start)
            merged.extend(block[start:end])
            if end == len(block):
                block, end = next(run, ()), 0
            if block:
                remaining.append((block, end, run))
        heads = remaining
        merged.sort()
        yield merged

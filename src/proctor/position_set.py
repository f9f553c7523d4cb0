"""Positions of cases in a suite, with one bit for each case of the suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cache


class PositionSet(Collection[int]):
    """Some positions of a suite, ascending; it does not change."""

    __slots__ = ("_bits", "_count")

    def __init__(self, positions: Iterable[int], size: int) -> None:
        """Collects positions.

        Args:
            positions: from 0 to below `size`, each once.
            size: the number of cases of the suite.
        """
        bits, count = bytearray(-(-size // 8)), 0
        for position in positions:
            bits[position >> 3] |= 1 << (position & 7)
            count += 1
        self._bits, self._count = bytes(bits.rstrip(b"\0")), count

    @classmethod
    def make_full(cls, size: int) -> PositionSet:
        """Returns all positions of a suite of `size` cases."""
        positions = cls((), 0)
        last_byte = (1 << size % 8) - 1
        positions._bits = b"\xff" * (size // 8) + (bytes((last_byte,)) if last_byte else b"")
        positions._count = size
        return positions

    def __len__(self) -> int:
        """Returns the number of positions."""
        return self._count

    def __iter__(self) -> Iterator[int]:
        """Yields the positions, ascending."""
        for number, byte in enumerate(self._bits):
            if byte:
                for bit in _list_bits(byte):
                    yield number * 8 + bit

    def __contains__(self, position: object) -> bool:
        """Returns whether a position is among them."""
        try:
            return bool(self._bits[position >> 3] >> (position & 7) & 1) and position >= 0  # type: ignore[operator]
        except (IndexError, TypeError):
            return False

    def count_common(self, other: PositionSet) -> int:
        """Returns how many positions both have."""
        return (int.from_bytes(self._bits, "little") & int.from_bytes(other._bits, "little")).bit_count()

    def __eq__(self, other: object) -> bool:
        """Returns whether the positions are the same, whatever the sizes of the suites."""
        return isinstance(other, PositionSet) and self._bits == other._bits

    def __hash__(self) -> int:
        """Returns a hash of the positions."""
        return hash(self._bits)

    def __repr__(self) -> str:
        """Returns the positions, for messages of tests."""
        return f"PositionSet({list(self)})"


@cache
def _list_bits(byte: int) -> tuple[int, ...]:
    return tuple([bit for bit in range(8) if byte >> bit & 1])

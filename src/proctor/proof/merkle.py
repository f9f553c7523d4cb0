"""Merkle trees over lines, so that one line can be proved without the others.

Source: RFC 6962, "Certificate Transparency", section 2.1, https://www.rfc-editor.org/rfc/rfc6962#section-2.1.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import overload

_LEAF_SIZE = sha256().digest_size
EMPTY_ROOT = sha256(b"").digest()
"""The root of a tree without leaves."""


def leaf_hash(line: bytes) -> bytes:
    """Returns the 32-byte hash of a line; the line should contain a salt, or short lines could be guessed."""
    return sha256(b"\x00" + line).digest()


def line_salt(secret: bytes, kind: str, index: int) -> str:
    """Returns the salt of one line, as 64 hexadecimal digits; it cannot be derived from other lines.

    Args:
        secret: the run's own bytes, which are in no bundle.
        kind: the bundle's tree that has the line.
        index: the index of the line, from 0.
    """
    return hmac.new(secret, f"proctor/salt/1/{kind}/{index}".encode(), sha256).hexdigest()


class MerkleTree:
    """Computes the root over a stream of leaves, in memory that grows with the logarithm of their number."""

    __slots__ = ("_peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        """The number of leaves."""
        self._peaks: list[tuple[int, bytes]] = []

    def add(self, digest: bytes) -> None:
        """Adds the next leaf."""
        self.size += 1
        count = 1
        while self._peaks and self._peaks[-1][0] == count:
            digest = _node_hash(self._peaks.pop()[1], digest)
            count *= 2
        self._peaks.append((count, digest))

    @property
    def root(self) -> bytes:
        """The root over all leaves so far."""
        if not self._peaks:
            return EMPTY_ROOT
        root = self._peaks[-1][1]
        for _, digest in reversed(self._peaks[:-1]):
            root = _node_hash(digest, root)
        return root


class LeafList(Sequence[bytes]):
    """The leaves of a tree, one after the other; a slice is a copy of theirs."""

    __slots__ = ("_bytes",)

    def __init__(self, data: bytes | bytearray = b"") -> None:
        """Takes the bytes of the first leaves."""
        self._bytes = bytearray(data)

    def append(self, digest: bytes) -> None:
        """Adds the next leaf."""
        self._bytes += digest

    def __len__(self) -> int:
        """Returns the number of leaves."""
        return len(self._bytes) // _LEAF_SIZE

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> LeafList: ...
    def __getitem__(self, place: int | slice) -> bytes | LeafList:
        """Returns a leaf, or the leaves of a slice without a step."""
        if isinstance(place, slice):
            start, stop, _ = place.indices(len(self))
            return LeafList(self._bytes[start * _LEAF_SIZE : stop * _LEAF_SIZE])
        number = range(len(self))[place]
        return bytes(self._bytes[number * _LEAF_SIZE : (number + 1) * _LEAF_SIZE])


def inclusion_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Returns the inclusion path of a leaf: the digests from the leaf up to the root.

    Raises:
        IndexError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(f"there is no leaf {index} of {len(leaves)}")
    if len(leaves) == 1:
        return []
    half = _split_size(len(leaves))
    if index < half:
        return [*inclusion_path(leaves[:half], index), merkle_root(leaves[half:])]
    return [*inclusion_path(leaves[half:], index - half), merkle_root(leaves[:half])]


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """Returns the root over these leaves."""
    tree = MerkleTree()
    for digest in leaves:
        tree.add(digest)
    return tree.root


def root_from_path(digest: bytes, index: int, size: int, steps: Sequence[bytes]) -> bytes | None:
    """Returns the root to which a path leads from a leaf; None if the path has the wrong length.

    Args:
        digest: the leaf.
        index: its index, from 0.
        size: the number of leaves of the tree.
        steps: the inclusion path.
    """
    if size == 1:
        return None if steps or index else digest
    if not steps or not 0 <= index < size:
        return None
    half = _split_size(size)
    if index < half:
        below = root_from_path(digest, index, half, steps[:-1])
        return None if below is None else _node_hash(below, steps[-1])
    below = root_from_path(digest, index - half, size - half, steps[:-1])
    return None if below is None else _node_hash(steps[-1], below)


def _split_size(size: int) -> int:
    """Returns the largest power of two below a size."""
    return 1 << (size - 1).bit_length() - 1


def _node_hash(left_digest: bytes, right_digest: bytes) -> bytes:
    return sha256(b"\x01" + left_digest + right_digest).digest()

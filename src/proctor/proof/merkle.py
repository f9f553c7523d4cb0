"""A tree of digests over lines, so that one line can be proved without showing the others.

Source: RFC 6962, "Certificate Transparency", section 2.1, https://www.rfc-editor.org/rfc/rfc6962#section-2.1.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256

EMPTY = sha256(b"").digest()
"""The root of a tree without leaves."""


def leaf(line: bytes) -> bytes:
    """The 32 bytes of a line; it should hold a salt, as else a short line can be guessed."""
    return sha256(b"\x00" + line).digest()


def salt(secret: bytes, kind: str, index: int) -> str:
    """The salt of one line, as 64 hexadecimal digits: nobody can tell it from those of other lines.

    Args:
        secret: the run's own bytes, which are in no bundle.
        kind: which of the bundle's trees the line is in.
        index: the place of the line, from 0.
    """
    return hmac.new(secret, f"proctor/salt/1/{kind}/{index}".encode(), sha256).hexdigest()


class Tree:
    """The root over leaves that come one by one, in memory that grows with the logarithm of their number."""

    __slots__ = ("_peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        """How many leaves are in."""
        self._peaks: list[tuple[int, bytes]] = []

    def add(self, digest: bytes) -> None:
        """The next leaf."""
        self.size += 1
        count = 1
        while self._peaks and self._peaks[-1][0] == count:
            digest = _node(self._peaks.pop()[1], digest)
            count *= 2
        self._peaks.append((count, digest))

    @property
    def root(self) -> bytes:
        """Over all leaves that are in."""
        if not self._peaks:
            return EMPTY
        root = self._peaks[-1][1]
        for _, digest in reversed(self._peaks[:-1]):
            root = _node(digest, root)
        return root


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The digests that lead from one leaf to the root, from below.

    Raises:
        IndexError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(f"there is no leaf {index} of {len(leaves)}")
    if len(leaves) == 1:
        return []
    half = _half(len(leaves))
    if index < half:
        return [*path(leaves[:half], index), root_of(leaves[half:])]
    return [*path(leaves[half:], index - half), root_of(leaves[:half])]


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over these leaves."""
    tree = Tree()
    for digest in leaves:
        tree.add(digest)
    return tree.root


def leads_to(digest: bytes, index: int, size: int, steps: Sequence[bytes]) -> bytes | None:
    """The root to which a path leads from a leaf; None when the path is not as long as it has to be.

    Args:
        digest: the leaf.
        index: its place, from 0.
        size: the number of leaves of the tree.
        steps: what `path` gives.
    """
    if size == 1:
        return None if steps or index else digest
    if not steps or not 0 <= index < size:
        return None
    half = _half(size)
    if index < half:
        below = leads_to(digest, index, half, steps[:-1])
        return None if below is None else _node(below, steps[-1])
    below = leads_to(digest, index - half, size - half, steps[:-1])
    return None if below is None else _node(steps[-1], below)


def _half(size: int) -> int:
    """The largest power of two below a size."""
    return 1 << (size - 1).bit_length() - 1


def _node(left_digest: bytes, right_digest: bytes) -> bytes:
    return sha256(b"\x01" + left_digest + right_digest).digest()

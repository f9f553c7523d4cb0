"""Sets of digests and of texts, which take little more memory than their bytes."""

from __future__ import annotations

from hashlib import blake2b
from secrets import token_bytes

_BUCKETS = 2**14
"""The maximum number of buckets; digests are in them by `hash`, which nobody outside of the process knows."""
_TEXT_DIGEST_SIZE = 16


class DigestSet:
    """A set of byte strings of one length, such as salts."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        """Starts empty."""
        self._buckets: dict[int, bytearray] = {}

    def add(self, digest: bytes) -> bool:
        """Adds a digest, and returns whether it is new."""
        number, size = hash(digest) % _BUCKETS, len(digest)
        bucket = self._buckets.get(number)
        if bucket is None:
            self._buckets[number] = bytearray(digest)
            return True
        start = bucket.find(digest)
        while start >= 0:
            if not start % size:
                return False
            start = bucket.find(digest, start + 1)  # a part of two others
        bucket += digest
        return True


class TextSet:
    """A set of texts, which holds 16 bytes of each: two differ by a key that is random in each set."""

    __slots__ = ("_digests", "_key")

    def __init__(self) -> None:
        """Starts empty."""
        self._digests = DigestSet()
        self._key = token_bytes(16)

    def add(self, text: str) -> bool:
        """Adds a text, and returns whether it is new."""
        data = text.encode("utf-8", "surrogatepass")
        return self._digests.add(blake2b(data, key=self._key, digest_size=_TEXT_DIGEST_SIZE).digest())

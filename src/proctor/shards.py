"""Divides the cases of a selection into shards, for several machines. Pure.

A case is in shard i of N if the BLAKE2b digest of its key (8 bytes, big endian) modulo N is i. The key of a
case is its id, so that a case stays in its shard when others are added or removed. Cases that share a folder
have the key of that folder, as each trial there sees what the one before it left.
"""

from __future__ import annotations

import posixpath
import re
from hashlib import blake2b

from proctor.codec import encode
from proctor.errors import UsageError
from proctor.model import Case, Shard

MAX_SHARDS = 100_000
"""The maximum number of shards."""


def parse_shard(text: str) -> Shard:
    """Parses a shard such as `0/4`, the first of four.

    Raises:
        UsageError: the text is not I/N with I from 0 to N - 1.
    """
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip(), re.ASCII)
    if match is None:
        raise UsageError(
            f"{text[:80]!r} is not a shard. Write I/N: --shard 0/4 is the first of four shards, and --shard "
            f"3/4 is the last."
        )
    index, count = int(match[1]), int(match[2])
    if not 1 <= count <= MAX_SHARDS:
        raise UsageError(f"{text!r} is not a shard: N must be from 1 to {MAX_SHARDS:,}.")
    if index >= count:
        shards = "is --shard 0/1" if count == 1 else f"are --shard 0/{count} to --shard {count - 1}/{count}"
        raise UsageError(
            f"There is no shard {text}: shards count from 0, so that {count:,} of them {shards}."
        )
    return Shard(index=index, count=count)


def is_in_shard(case: Case, shard: Shard) -> bool:
    """Returns whether a case is in a shard."""
    digest = blake2b(_shard_key(case), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shard.count == shard.index


def _shard_key(case: Case) -> bytes:
    workspace = case.workspace
    if workspace is not None and workspace.path is not None:
        path = posixpath.normpath(workspace.path.replace("\\", "/"))
        return b"path\0" + path.encode("utf-8", "surrogatepass")
    if workspace is not None and workspace.isolation == "shared":
        return b"workspace\0" + encode(workspace)
    return case.id.encode("utf-8", "surrogatepass")

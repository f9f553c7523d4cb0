"""What a hostile endpoint sends: bytes, pauses and the end of a connection, for each trick by its name."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from random import Random
from typing import Any, Literal

Ending = Literal["keep", "close", "reset"]
Outcome = Literal["delivered", "broken", "unknown"]

_HANG_S = 30.0
_MAX_IDLE_S = (0.001, 0.01, 0.5)
"""A connection ends at a random moment up to one of these, so before, while or after it is used again."""
_FILLER = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"choices": []}'
"""A reply that nobody has asked for. It comes with another one: later, no client could tell whose it is."""


@dataclass(frozen=True)
class Script:
    """How one request is answered."""

    pieces: Sequence[bytes | float]
    """Bytes to send, and seconds to wait between them."""
    outcome: Outcome = "delivered"
    """What the client has once all pieces arrived: the whole answer, none, or nobody can know."""
    ending: Ending = "keep"
    """What then happens to the connection."""
    idle_s: float | None = None
    """The end comes after so long without another request; None is at once."""


def _head(*lines: str, status: int = 200) -> bytes:
    first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"
    return "\r\n".join([first, "Content-Type: application/json", *lines, "", ""]).encode()


def _plain(body: bytes, *lines: str, status: int = 200) -> bytes:
    return _head(f"Content-Length: {len(body)}", *lines, status=status) + body


def _split_randomly(data: bytes, random: Random) -> list[bytes]:
    """Up to five random pieces of it."""
    places = sorted({0, len(data), *(random.randint(0, len(data)) for _ in range(4))})
    return [data[begin:end] for begin, end in pairwise(places)]


def _chunks(body: bytes, random: Random) -> bytes:
    pieces = [b"%x;part=%d\r\n%s\r\n" % (len(p), n, p) for n, p in enumerate(_split_randomly(body, random))]
    return _head("Transfer-Encoding: chunked", "Trailer: X-End") + b"".join(pieces)


def _break_off(data: bytes, least: int, most: int, random: Random) -> Script:
    """Only its first bytes, at least and at most so many, and the end of the connection."""
    return Script([data[: random.randint(least, most)]], "broken", random.choice(("close", "reset")))


def _refuse(trick: str, random: Random) -> bytes:
    """A whole reply that is no answer."""
    if trick == "html":
        return _plain(b"<html>Not found</html>")
    if trick == "other":
        return _plain(b'{"choices": "none"}')
    lines = (f"Retry-After: {random.choice('001')}",) if trick == "429" else ()
    return _plain(json.dumps({"error": {"message": "It is so."}}).encode(), *lines, status=int(trick))


def _cut_head(body: bytes, random: Random) -> Script:
    reply = _plain(body)
    return _break_off(reply, 1, len(reply) - len(body) - 1, random)


def _cut_body(body: bytes, random: Random) -> Script:
    reply = _plain(body)
    return _break_off(reply, len(reply) - len(body), len(reply) - 1, random)


def _cut_chunks(body: bytes, random: Random) -> Script:
    reply = _chunks(body, random)
    return _break_off(reply, len(reply) // 2, len(reply), random)


def _drip(data: bytes, random: Random) -> Script:
    first, *others = _split_randomly(data, random)
    return Script([first, *(part for piece in others for part in (random.uniform(0.02, 0.1), piece))])


def _gzip_cut(body: bytes, random: Random) -> Script:
    data = gzip.compress(body)
    return Script([_plain(data[: random.randint(1, len(data) - 9)], "Content-Encoding: gzip")], "broken")


WHOLE: dict[str, Callable[[bytes, Random], Script]] = {
    "slow": lambda body, _: Script([0.2, _plain(body)]),
    "drip": lambda body, random: _drip(_plain(body), random),
    "chunked": lambda body, random: Script([_chunks(body, random) + b"0\r\nX-End: yes\r\n\r\n"]),
    "chunked-drip": lambda body, random: _drip(_chunks(body, random) + b"0\r\n\r\n", random),
    "gzip": lambda body, _: Script([_plain(gzip.compress(body), "Content-Encoding: gzip")]),
    "deflate": lambda body, _: Script([_plain(zlib.compress(body), "Content-Encoding: deflate")]),
    "interim": lambda body, _: Script(
        [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", _plain(body)]
    ),
    "no-length": lambda body, _: Script([_head("Connection: close") + body], ending="close"),
    "closing": lambda body, _: Script([_plain(body, "Connection: close")], ending="close"),
    "close-after": lambda body, _: Script([_plain(body)], ending="close"),
    "close-idle": lambda body, random: Script(
        [_plain(body)], ending="close", idle_s=random.uniform(0, random.choice(_MAX_IDLE_S))
    ),
}
"""Whole answers, in every form that HTTP allows, on connections that end when they like."""
BROKEN: dict[str, Callable[[bytes, Random], Script]] = {
    "hang": lambda _body, _: Script([_HANG_S], "broken", "reset"),
    "reset": lambda _body, _: Script([], "broken", "reset"),
    "close": lambda _body, _: Script([], "broken", "close"),
    "cut-head": _cut_head,
    "cut-body": _cut_body,
    "cut-chunks": _cut_chunks,
    "cut-gzip": _gzip_cut,
    "too-short": lambda body, _: Script(
        [_head(f"Content-Length: {len(body) + 9}") + body], "broken", "close"
    ),
    "too-long": lambda body, _: Script([_head(f"Content-Length: {len(body) - 9}") + body], "broken"),
    "no-http": lambda body, _: Script([b"SSH-2.0-OpenSSH_9.9\r\n" + body], "broken", "close"),
}
"""No answer, or a part of one."""
UNKNOWN: dict[str, Callable[[bytes, Random], Script]] = {
    "reset-after": lambda body, _: Script([_plain(body)], "unknown", "reset"),
    "reset-idle": lambda body, random: Script(
        [_plain(body)], "unknown", "reset", idle_s=random.uniform(0, random.choice(_MAX_IDLE_S))
    ),
    "excess": lambda body, _: Script([_plain(body) + _FILLER], "unknown"),
}
"""A whole answer, and then something with which the client may discard it."""
TRICKS = WHOLE | BROKEN | UNKNOWN


def write_script(trick: str, reply: dict[str, Any], random: Random, accepted: str) -> Script:
    """How a request is answered by a trick; the empty name is none.

    Args:
        trick: its name.
        reply: the JSON of the whole answer.
        random: for whatever the trick leaves open.
        accepted: the compressions that the client understands, as it wrote them.
    """
    body = json.dumps(reply).encode()
    if trick.isdigit() or trick in {"html", "other"}:
        return Script([_refuse(trick, random)], "broken")
    coding = trick.removeprefix("cut-")
    if not trick or (coding in {"gzip", "deflate"} and coding not in accepted):
        return Script([_plain(body)])
    return TRICKS[trick](body, random)

"""An endpoint on 127.0.0.1 that speaks OpenAI's interface, answers as `questions` says, and is hostile.

It writes bytes itself, so that it can break HTTP and end connections at any moment; `tricks` says how.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import struct
import sys
import termios
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from threading import Event, Thread
from time import monotonic
from typing import Any

from tools.soak_parts.questions import FIRST_SEED, answer_to, judge_reply, token_in
from tools.soak_parts.tricks import TRICKS, WHOLE, Outcome, Script, write_script

JUDGE = "judge-"
"""The model of a run's judge is this and the run's label."""
_TICK_S = 0.02
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_MAX_REQUEST_BYTES = 2**20


@dataclass
class Call:
    """A request that arrived whole, and what became of it."""

    token: str
    repeat: int
    arrived_at: float
    """A time of the monotonic clock."""
    outcome: Outcome = "broken"
    """`delivered` once the client's system has acknowledged every byte of a whole answer."""
    ended_at: float = 0.0
    """When that was known."""

    @property
    def is_delivered(self) -> bool:
        """Whether the client certainly has the answer."""
        return self.outcome == "delivered"


@dataclass(frozen=True)
class Mood:
    """How hostile the endpoint is to the runs of one label."""

    name: str
    share: float
    """The share of the requests that are not answered at once, or never."""
    tricks: tuple[str, ...]
    until: float = float("inf")
    """When it ends, on the monotonic clock."""


CALM = Mood("calm", 0.0, ("slow",))
_MOODS = (
    (5, CALM),
    (2, Mood("slow", 0.5, ("slow", "drip", "chunked-drip"))),
    (3, Mood("odd", 0.7, tuple(WHOLE))),
    (3, Mood("hostile", 0.2, ("429", "500", "503", "reset", "cut-body", "drip", "slow", "html", "other"))),
    (3, Mood("breaking", 0.2, tuple(name for name in TRICKS if name != "hang"))),
    (1, Mood("hanging", 0.05, ("hang",))),
    (1, Mood("busy", 0.3, ("429",))),
)
_HOPELESS = Mood("hopeless", 1.0, ("401",))
_DOWN = Mood("down", 1.0, ("500", "reset", "close"))


def random_mood(random: Random) -> Mood:
    """A mood for a run."""
    if random.random() < 0.04:
        return _HOPELESS
    if random.random() < 0.06:
        return Mood(_DOWN.name, _DOWN.share, _DOWN.tricks, until=monotonic() + random.uniform(0.5, 3))
    return random.choices([mood for _, mood in _MOODS], [weight for weight, _ in _MOODS])[0]


class Endpoint:
    """The server, on an event loop in a thread of its own."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.moods: dict[str, Mood] = {}
        self.calls: defaultdict[str, list[Call]] = defaultdict(list)
        """The requests that are no judge's, by label, in the order of their arrival."""
        self.connections = 0
        self.tricks: Counter[str] = Counter()
        """How often each was played; the empty name is none."""
        self._stalls: deque[tuple[float, float]] = deque(maxlen=1000)
        """When this thread was to be woken, and how many seconds later it was."""
        self._tries: Counter[tuple[str, str]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._ready = Event()
        self._port = 0
        self._thread = Thread(target=self._serve, name="endpoint", daemon=True)

    @property
    def url(self) -> str:
        """What stands behind `@` in the word for a target."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Return when it listens."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Return when it has ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def stalled_s(self, since: float) -> float:
        """How long in all the machine let this process wait since then; it lets Proctor wait as well."""
        return sum(late_s for at, late_s in list(self._stalls) if at >= since)

    def forget(self, label: str) -> None:
        """Drop what is known of a label that is never asked again."""
        self.calls.pop(label, None)
        self.moods.pop(label, None)

    async def _watch_clock(self) -> None:
        """Note when this loop, which waits only for short times, is woken too late."""
        while True:
            due = monotonic() + _TICK_S
            await asyncio.sleep(_TICK_S)
            late_s = monotonic() - due
            if late_s > _TICK_S:
                self._stalls.append((due, late_s))

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(
                self._serve_connection, "127.0.0.1", 0, backlog=1024, limit=_MAX_REQUEST_BYTES
            )
        )
        self._port = server.sockets[0].getsockname()[1]
        watching = self._loop.create_task(self._watch_clock())
        self._ready.set()
        self._loop.run_forever()
        watching.cancel()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        self.connections += 1
        connection = _Connection(reader, writer)
        idle_s: float | None = None
        ending = "close"
        with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            while True:
                async with asyncio.timeout(idle_s):
                    head, body = await connection.read_request()
                script = await self._answer(connection, head, body)
                ending, idle_s = script.ending, script.idle_s
                if ending != "keep" and idle_s is None:
                    break
        await connection.end(is_reset=ending == "reset")

    async def _answer(self, connection: _Connection, head: bytes, body: bytes) -> Script:
        """Answer a request; an answer is delivered if the connection was still open after its last byte."""
        arrived_at = monotonic()
        request = json.loads(body)
        label = str(request["model"])
        prompt = "\n".join(str(message["content"]) for message in request["messages"])
        token, repeat = token_in(prompt) or "", int(request.get("seed", FIRST_SEED)) - FIRST_SEED
        is_judge = label.startswith(JUDGE)
        text = judge_reply(prompt) if is_judge else answer_to(token, repeat)
        random = self._random(label, f"{token}/{repeat}")
        trick = self._trick(label, random)
        self.tricks[trick] += 1
        call = Call(token, repeat, arrived_at)
        if not is_judge:
            self.calls[label].append(call)
        script = write_script(trick, _completion(label, text), random, _accepted_codings(head))
        try:
            await connection.send(script.pieces)
            if script.outcome != "delivered" or await connection.is_acknowledged():
                call.outcome = script.outcome
        finally:
            call.ended_at = monotonic()
        return script

    def _random(self, label: str, trial: str) -> Random:
        """The same numbers for the same request in every soak of one seed."""
        self._tries[label, trial] += 1
        return Random(f"{self.seed}/{label}/{trial}/{self._tries[label, trial]}")

    def _trick(self, label: str, random: Random) -> str:
        mood = self.moods.get(label.removeprefix(JUDGE), CALM)
        hostile = random.random() < mood.share and monotonic() < mood.until
        return random.choice(mood.tricks) if hostile else ""


class _Connection:
    """One connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._socket: socket.socket = writer.get_extra_info("socket")
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    async def read_request(self) -> tuple[bytes, bytes]:
        """The head and the body of the next request."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = head.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        return head, await self._reader.readexactly(int(length))

    async def send(self, pieces: Sequence[bytes | float]) -> None:
        """Send bytes, and wait between them for as long as the client is there.

        Raises:
            ConnectionError: it has gone.
        """
        for piece in pieces:
            if isinstance(piece, bytes):
                self._writer.write(piece)
                await self._writer.drain()
            else:
                last = monotonic() + piece
                # Nothing tells of the end of a connection from which nobody reads.
                while (wait_s := last - monotonic()) > 0 and self._is_open():  # noqa: ASYNC110
                    await asyncio.sleep(min(wait_s, 0.1))
            if not self._is_open():
                raise ConnectionResetError("The client has gone.")

    async def is_acknowledged(self) -> bool:
        """Whether the client's system has all that was sent, and the client had not gone before."""
        while self._is_open():
            if not self._writer.transport.get_write_buffer_size() and not _count_unacknowledged(self._socket):
                await asyncio.sleep(0)  # an end that came with the last acknowledgement is read here
                return self._is_open()
            await asyncio.sleep(0.001)
        return False

    async def end(self, *, is_reset: bool) -> None:
        """Close the connection, as a system does whose program ends in order, or at once."""
        if is_reset:
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._writer.transport.abort()
            return
        with suppress(ConnectionError, asyncio.CancelledError):
            self._writer.close()
            await self._writer.wait_closed()

    def _is_open(self) -> bool:
        return not (self._writer.transport.is_closing() or self._reader.at_eof())


def _accepted_codings(head: bytes) -> str:
    return head.partition(b"\r\naccept-encoding:")[2].partition(b"\r\n")[0].decode("latin-1")


def _count_unacknowledged(connection: socket.socket) -> int:
    """How many bytes were sent that the other system has not acknowledged."""
    return int.from_bytes(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def _completion(model: str, text: str) -> dict[str, Any]:
    return {
        "model": model,
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 4},
    }

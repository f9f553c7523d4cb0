"""A fast OpenAI-compatible server on loopback: answers the sum in the prompt, after an optional latency.

Usage: python benchmarks/server.py [LATENCY_MS]

It prints the port that it listens on and serves until its standard input ends; for each line there it prints
how many requests it has answered. `start_server` runs it as a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, cast

SUM = re.compile(rb"(\d+) *\+ *(\d+)")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
REPLY = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":14}}'
)

_TICKS = os.sysconf("SC_CLK_TCK")


class LoopbackServer(NamedTuple):
    """A server that runs."""

    base: str
    """The base URL of its API."""
    pid: int
    requests: IO[bytes]
    replies: IO[bytes]

    def count_answers(self) -> int:
        """How many requests it has answered so far."""
        self.requests.write(b"\n")
        self.requests.flush()
        return int(self.replies.readline())

    def cpu_s(self) -> float:
        """User and system time that it took so far; 0 where there is no /proc."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def start_server(latency_ms: float) -> Iterator[LoopbackServer]:
    """A server of its own for as long as the block lasts."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(latency_ms)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        base = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        yield LoopbackServer(base, process.pid, process.stdin, process.stdout)
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def raise_open_file_limit() -> None:
    """Lets this process have as many connections as the system allows."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))


class Connection(asyncio.Protocol):
    """One connection; requests on it come one after the other."""

    answers: ClassVar[int] = 0
    """To all connections."""

    def __init__(self, latency_s: float) -> None:
        """Nothing received yet."""
        self.latency_s = latency_s
        self.buffer = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer as soon as a request is whole."""
        self.buffer += data
        head, gap, body = self.buffer.partition(b"\r\n\r\n")
        if not gap:
            return
        length_match = LENGTH.search(head)
        length = int(length_match[1]) if length_match else 0
        if len(body) < length:
            return
        self.buffer = body[length:]
        if self.latency_s:
            asyncio.get_running_loop().call_later(self.latency_s, self.reply, body)
        else:
            self.reply(body)

    def reply(self, body: bytes) -> None:
        """Send the sum that the request asks for."""
        numbers = SUM.search(body)
        answer = REPLY % (str(int(numbers[1]) + int(numbers[2])) if numbers else "ready").encode()
        if not self.transport.is_closing():
            Connection.answers += 1
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                % (len(answer), answer)
            )


async def serve(latency_s: float) -> None:
    """Listen on a free port, say which, and serve until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(latency_s), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(Connection.answers, flush=True)
    server.close()


if __name__ == "__main__":
    raise_open_file_limit()
    latency_ms = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    if sys.platform == "win32":
        asyncio.run(serve(latency_ms / 1000))
    else:
        import uvloop

        uvloop.run(serve(latency_ms / 1000))

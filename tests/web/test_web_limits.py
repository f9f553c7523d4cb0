"""What one client can hold open at a server, over real sockets, with limits that a test sets."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from time import monotonic, sleep
from typing import Any

import pytest

from proctor.web.client_limits import EventStreams, ServerLimits, client_key
from proctor.web.event_hub import PAUSE_PER_WATCHER_S, EventHub, Watcher
from proctor.web.project import Project
from proctor.web.run_status import LiveSection
from proctor.web.security import RequestRefused
from support.waiting import PATIENCE_S, wait_until
from support.web import Gate, Served, serve

pytestmark = [pytest.mark.slow, pytest.mark.port]

FOREVER_S = 10 * PATIENCE_S


class Line:
    """A connection to a server."""

    def __init__(self, server: Served, text: str = "", address: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(
            ("127.0.0.1", server.port), timeout=PATIENCE_S, source_address=(address, 0)
        )
        self._host = server.host
        if text:
            self.send(text)

    def send(self, text: str) -> None:
        """Send a text, in which `{own}` is the server, and each line ends as in HTTP."""
        self._socket.sendall(text.replace("{own}", self._host).replace("\n", "\r\n").encode("latin-1"))

    def until(self, *ends: bytes) -> str:
        """What the server sends until one of `ends` or the end of the connection."""
        data = b""
        with suppress(ConnectionError):  # it was closed while more was sent
            while not any(end in data for end in ends) and (more := self._socket.recv(2**16)):
                data += more
        return data.decode()

    def read_to_end(self) -> str:
        """What the server sends until it closes the connection."""
        return self.until()

    def drip(self, text: str, pause_s: float = 0.02) -> None:
        """Sends a text again and again, with a pause, until the server closes the connection."""
        end = monotonic() + PATIENCE_S
        with suppress(ConnectionError):
            while monotonic() < end:
                self.send(text)
                sleep(pause_s)
            raise AssertionError("The server never closed the connection.")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def lines() -> Iterator[Callable[..., Line]]:
    """Opens connections, which are closed at the end."""
    with ExitStack() as stack:
        yield lambda *arguments, **options: stack.enter_context(closing(Line(*arguments, **options)))


PAGE = "GET /login HTTP/1.1\nHost: {own}\n\n"
FORM = "POST /login HTTP/1.1\nHost: {own}\nContent-Type: application/x-www-form-urlencoded\n"


# --- slow requests -----------------------------------------------------------------------------------------
# On a busy machine the time may be over before the first byte is sent: then there is no answer, and the test
# tries again.


@pytest.mark.parametrize("start", ["GET /login HTT", "GET /login HTTP/1.1\nHost: {own}\nX: ", "GET "])
def test_a_half_sent_head_ends_with_a_sentence(site: Project, lines: Callable[..., Line], start: str) -> None:
    with serve(site, ServerLimits(request_head_s=0.2)) as server:
        answer = wait_until(lambda: lines(server, start).read_to_end())
    assert answer.startswith("HTTP/1.1 408 ")
    assert "took too long to arrive" in answer


def test_bytes_that_drip_do_not_extend_the_time_for_a_head(site: Project, lines: Callable[..., Line]) -> None:
    with serve(site, ServerLimits(request_head_s=0.2)) as server:
        line = lines(server, "GET /login HTTP/1.1\nHost: {own}\nX: ")
        line.drip("a")


def test_the_next_request_of_a_connection_has_the_same_time(
    site: Project, lines: Callable[..., Line]
) -> None:
    with serve(site, ServerLimits(request_head_s=0.2)) as server:

        def second() -> str:
            line = lines(server, PAGE)
            if not line.until(b"</html>").startswith("HTTP/1.1 200 "):
                return ""
            with suppress(ConnectionError):
                line.send("GET /lo")
            return str(line.read_to_end())

        assert wait_until(second).startswith("HTTP/1.1 408 ")


def test_a_connection_without_a_request_ends(site: Project, lines: Callable[..., Line]) -> None:
    with serve(site, ServerLimits(request_head_s=0.2)) as server:
        assert lines(server).read_to_end() == ""


@pytest.mark.parametrize(
    "length", ["Content-Length: 500\n\ntoken=", "Transfer-Encoding: chunked\n\n6\ntoken=\n"]
)
def test_a_half_sent_body_ends_with_a_sentence(
    site: Project, lines: Callable[..., Line], length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(site, ServerLimits(request_body_s=0.2)) as server:
        assert lines(server, FORM + length).read_to_end().startswith("HTTP/1.1 408 ")
        assert server.get("/login").status == 200
    assert "broke" not in capsys.readouterr().err


def test_a_body_that_drips_ends(site: Project, lines: Callable[..., Line]) -> None:
    with serve(site, ServerLimits(request_body_s=0.2)) as server:
        lines(server, f"{FORM}Content-Length: 500000\n\ntoken=").drip("a")


def test_a_slow_body_that_keeps_the_rate_is_read(site: Project, lines: Callable[..., Line]) -> None:
    limits = ServerLimits(request_body_s=0.2, min_body_bytes_per_s=1)
    with serve(site, limits) as server:
        line = lines(server, f"{FORM}Content-Length: 1000\n\ntoken={'a' * 900}")
        line.send("a" * 90)
        sleep(0.5)  # more than the time without any byte
        line.send("a" * 4)
        assert not line.until(b"\r\n").startswith("HTTP/1.1 408 ")


def test_a_body_without_an_end_is_not_read_after_its_answer(
    site: Project, lines: Callable[..., Line]
) -> None:
    with serve(site, ServerLimits(request_body_s=0.2)) as server:

        def send_after_answer() -> Line | None:
            line = lines(server, "POST /nowhere HTTP/1.1\nHost: {own}\nTransfer-Encoding: chunked\n\n")
            return line if line.until(b"</html>").startswith("HTTP/1.1 404 ") else None

        line = wait_until(send_after_answer)
        assert line is not None
        line.drip("6\ntoken=\n", pause_s=0.001)


def test_a_client_that_reads_nothing_of_its_answers_is_cut_off(site: Project) -> None:
    with serve(site, ServerLimits(response_stall_s=0.2)) as server, socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(PATIENCE_S)
        line.connect(("127.0.0.1", server.port))
        ask = f"GET /static/proctor.js HTTP/1.1\r\nHost: {server.host}\r\n\r\n".encode()
        with suppress(ConnectionError):
            line.sendall(
                ask * 1_000
            )  # 12 MB of answers, more than the system keeps for whoever does not read
        wait_until(lambda: server.request_count)
        wait_until(lambda: not server.connections)


# --- heads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head", ["X: " + "a" * 2**17, "\n".join(f"X{n}: a" for n in range(2**14)), "Cookie: " + "a=b; " * 2**15]
)
def test_a_long_head_is_refused_although_it_comes_at_once(
    site: Project, lines: Callable[..., Line], head: str
) -> None:
    with serve(site) as server:
        line = lines(server)
        with suppress(ConnectionError):  # the server may close it before all is sent
            line.send(f"GET /login HTTP/1.1\nHost: {{own}}\n{head}\n\n")
        assert " 200 " not in line.read_to_end()
        assert server.get("/login").status == 200


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_an_upgrade_is_answered_as_the_page_that_it_asks_for(
    site: Project, lines: Callable[..., Line], protocol: str
) -> None:
    upgrade = f"Connection: Upgrade, close\nUpgrade: {protocol}\nSec-WebSocket-Key: eA==\n"
    with serve(site) as server:
        answer = lines(server, f"GET /login HTTP/1.1\nHost: {{own}}\n{upgrade}\n").read_to_end()
    assert answer.startswith("HTTP/1.1 200 ")


# --- idle connections --------------------------------------------------------------------------------------


def test_the_oldest_idle_connections_of_a_client_are_closed(
    site: Project, lines: Callable[..., Line]
) -> None:
    with serve(site, ServerLimits(idle_connections=3, request_head_s=FOREVER_S)) as server:
        connections = [lines(server) for _ in range(5)]
        assert [line.read_to_end() for line in connections[:2]] == ["", ""]
        for line in connections[2:]:
            line.send(PAGE)
            assert line.until(b"</html>").startswith("HTTP/1.1 200 ")


@pytest.mark.skipif(sys.platform != "linux", reason="Other systems have only one loopback address.")
def test_idle_connections_of_one_client_cost_another_none(site: Project, lines: Callable[..., Line]) -> None:
    with serve(site, ServerLimits(idle_connections=1, request_head_s=FOREVER_S)) as server:
        other = lines(server, address="127.0.0.2")
        first, second = lines(server), lines(server)
        assert first.read_to_end() == ""
        for line in (other, second):
            line.send(PAGE)
            assert line.until(b"</html>").startswith("HTTP/1.1 200 ")


# --- event streams -----------------------------------------------------------------------------------------


@pytest.fixture
def events(site: Project, gate: Gate) -> Callable[[ExitStack, ServerLimits], tuple[Served, str]]:
    """Serves a site with a run in progress; the server, and the request for its events."""
    rows = [json.dumps({"id": f"t{n}", "input": f"say {n}", "expected": "yes"}) for n in range(10)]
    (site.folder / "ten.jsonl").write_text("\n".join(rows), encoding="utf-8")

    def open_(stack: ExitStack, limits: ServerLimits) -> tuple[Served, str]:
        words = ("run", "ten.jsonl", "--target", "gated", "--store", site.location.address)
        child = subprocess.Popen(
            [sys.executable, "-m", "proctor", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        stack.callback(child.wait)
        stack.callback(gate.open)
        server = stack.enter_context(serve(site, limits))

        def run_id() -> str:
            with site.open_store() as store:
                return next((run.id for run in store.runs()), "")

        return server, f"GET /runs/{wait_until(run_id)}/events HTTP/1.1\nHost: {{own}}\n\n"

    return open_


def test_a_client_has_so_many_streams_and_its_pages_still_open(
    events: Callable[..., Any], lines: Callable[..., Line]
) -> None:
    with ExitStack() as stack:
        server, ask = events(stack, ServerLimits(client_event_streams=2))
        streams = [lines(server, ask) for _ in range(2)]
        assert all(stream.until(b"data:").startswith("HTTP/1.1 200 ") for stream in streams)
        answer = lines(server, ask).until(b"</html>")
        assert answer.startswith("HTTP/1.1 429 ")
        assert "retry-after: 30" in answer
        assert "Your address has 2 live pages open" in answer
        assert server.get("/runs").status == 200
        streams[0].close()
        wait_until(lambda: lines(server, ask).until(b"\r\n").startswith("HTTP/1.1 200 "))


@pytest.mark.skipif(sys.platform != "linux", reason="Other systems have only one loopback address.")
def test_all_clients_together_have_so_many_streams(
    events: Callable[..., Any], lines: Callable[..., Line]
) -> None:
    with ExitStack() as stack:
        server, ask = events(stack, ServerLimits(client_event_streams=2, event_streams=3))
        for address in ("127.0.0.2", "127.0.0.2", "127.0.0.3"):
            assert lines(server, ask, address=address).until(b"data:").startswith("HTTP/1.1 200 ")
        answer = lines(server, ask, address="127.0.0.4").until(b"</html>")
        assert answer.startswith("HTTP/1.1 503 ")
        assert "This server has 3 live pages open" in answer


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        ("", "", True),
    ],
)
def test_a_client_is_an_address_or_a_network(address: str, other: str, same: bool) -> None:
    assert (client_key(address) == client_key(other)) is same


def test_a_stream_that_ended_counts_no_more() -> None:
    streams = EventStreams(ServerLimits(client_event_streams=1))
    for _ in range(3):
        with streams.reserve("192.0.2.1"), pytest.raises(RequestRefused), streams.reserve("192.0.2.1"):
            pass


def test_the_more_is_watched_the_less_often_it_is_looked_at() -> None:
    watches = EventHub()
    usual = watches.pause_s()
    watches.watchers = {str(n): Watcher(lambda: LiveSection("", is_final=False)) for n in range(1_000)}
    assert watches.pause_s() >= 1_000 * PAUSE_PER_WATCHER_S > usual
    for watch in watches.watchers.values():
        watch.clients = 1
    assert watches.pause_s() > 1_000 * PAUSE_PER_WATCHER_S


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hard", "open_files"), [(5000, 4096), (600, 600)])
def test_the_server_may_open_as_many_files_as_the_system_allows(hard: int, open_files: int) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < hard:
        pytest.skip("This system allows fewer.")
    program = (
        f"import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (256, {hard})); "
        "from proctor.open_file_limit import raise_open_file_limit; "
        "from proctor.web.server import MAX_OPEN_FILES; "
        "print(raise_open_file_limit(MAX_OPEN_FILES), r.getrlimit(r.RLIMIT_NOFILE)[0])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == [str(open_files)] * 2

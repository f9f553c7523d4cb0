"""A proxy on loopback between a client and a server, which cuts connections or holds back what they carry."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

_CHECK_EVERY_S = 0.01


class TcpProxy:
    """Carries bytes between each client and the server; every method works at once, on all connections."""

    def __init__(self, server_port: int) -> None:
        """Listens on a port of its own, `port`."""
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flows = Event()
        self._flows.set()
        self._is_closed = Event()
        Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Carries nothing from now on, and closes nothing, as a network that drops every packet."""
        self._flows.clear()

    def resume(self) -> None:
        """Carries everything again, also what came meanwhile."""
        self._flows.set()

    def disconnect(self) -> None:
        """Closes all connections."""
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes everything."""
        self._is_closed.set()
        self._flows.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.disconnect()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._flows.wait()
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port))
            except OSError:
                return
            with server, selectors.DefaultSelector() as selector:
                self._pairs.append((client, server))
                selector.register(client, selectors.EVENT_READ, server)
                selector.register(server, selectors.EVENT_READ, client)
                with suppress(OSError):
                    self._carry(selector)

    def _carry(self, selector: selectors.BaseSelector) -> None:
        while not self._is_closed.is_set():
            for key, _ in selector.select(_CHECK_EVERY_S):
                source: socket.socket = key.fileobj  # type: ignore[assignment]
                data = source.recv(65536)
                self._flows.wait()
                if not data:
                    return
                key.data.sendall(data)


@contextmanager
def open_proxy(server_port: int) -> Iterator[TcpProxy]:
    """A proxy for as long as the block lasts."""
    proxy = TcpProxy(server_port)
    try:
        yield proxy
    finally:
        proxy.close()

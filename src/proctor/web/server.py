"""Binds a port first, so that a failure is a clear error, then serves a project until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from functools import partial
from ipaddress import ip_address

import uvicorn

from proctor.errors import UsageError
from proctor.web.app import make_app
from proctor.web.client_limits import DEFAULT_LIMITS, ServerLimits
from proctor.web.http_protocol import IdleConnections, LimitedProtocol
from proctor.web.project import Project
from proctor.web.tasks import get_tasks

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_MAX_PORTS_TRIED = 20
"""Number of ports tried from the default one on, if the user names none."""
_BACKLOG = 1024
"""Connections that may wait to be accepted."""
MAX_OPEN_FILES = 4096
"""Enough for 1,000 event streams, idle connections, and the store's files for each request under way."""
MIN_OPEN_FILES = 2048
"""With fewer, 1,000 event streams and the pages beside them may find none left."""
_SHUTDOWN_TIMEOUT_S = 1
"""How long open pages may finish loading when the server is stopped, and background tasks may end."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at that host."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def bind_socket(host: str, port: int, *, exactly: bool) -> socket.socket:
    """Returns a socket that listens at that host and port.

    Args:
        host: a name or an address of this machine.
        port: the port; 0 for any free one.
        exactly: whether it must be this port; else the next free one is taken.

    Raises:
        UsageError: the host is not this machine, or the port is taken.
    """
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise UsageError(f"{host!r} is not an address of this machine: {error.strerror}.") from None
    for offset in range(1 if exactly else _MAX_PORTS_TRIED):
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((address[0], port + offset, *address[2:]))
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            error_text = error.strerror
        else:
            return listener
    raise UsageError(
        f"The server cannot listen on {host}:{port}: {error_text}. Choose another port with --port."
    )


def allowed_hosts(host: str, port: int, more_hosts: Iterable[str] = ()) -> frozenset[str]:
    """Returns the accepted values of the Host header.

    Args:
        host: the host that it is bound to.
        port: its port.
        more_hosts: further names, such as that of a proxy, with or without a port.
    """
    names = {host if ":" not in host or host.startswith("[") else f"[{host}]"}
    if is_loopback(host):
        names |= set(LOOPBACK_NAMES)
    elif host in ("0.0.0.0", "::"):  # noqa: S104  # the user asked for it, and there is a token
        names |= {*LOOPBACK_NAMES, socket.gethostname(), *_own_addresses()}
    hosts = {f"{name}:{port}" for name in names}
    if port == 80:
        hosts |= names
    for name in more_hosts:
        hosts |= {name, f"{name}:{port}"}
    return frozenset(name.lower() for name in hosts)


def _own_addresses() -> set[str]:
    try:
        address_infos = socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return set()
    addresses = {str(address[0]).partition("%")[0] for *_, address in address_infos}
    return {f"[{address}]" if ":" in address else address for address in addresses}


def serve(project: Project, listener: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serves a project until the process is stopped.

    Args:
        project: the project; its hosts are set.
        listener: the socket.
        ready: called when the server is ready.
    """
    try:
        make_server(project, ready).run(sockets=[listener])
    finally:
        listener.close()
        get_tasks(project).stop(_SHUTDOWN_TIMEOUT_S)


class _Server(uvicorn.Server):
    """Reports when it is ready for the first request."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def make_server(
    project: Project, ready: Callable[[], None] = lambda: None, limits: ServerLimits = DEFAULT_LIMITS
) -> uvicorn.Server:
    """Builds the server of a project; it calls `ready` once it is started."""
    # Always h11: httptools, which may be installed, accepts a second Host and headers of any size.
    protocol = partial(LimitedProtocol, limits=limits, idle=IdleConnections(limits.idle_connections))
    config = uvicorn.Config(
        make_app(project, limits),
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        backlog=_BACKLOG,
        http=protocol,  # type: ignore[arg-type]  # uvicorn calls it like a class
        h11_max_incomplete_event_size=limits.max_head_bytes,
        ws="none",
    )
    return _Server(config, ready)

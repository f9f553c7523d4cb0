"""Addresses without a Ray cluster: the error comes at once, without Ray, which tries for a minute."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from proctor.engines.ray.cluster import RayCluster
from proctor.errors import UsageError
from support.endpoints import JsonHandler, serve_in_thread


@pytest.fixture
def silent_port() -> Iterator[int]:
    """The port of a listener that says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


async def connect(address: str) -> str:
    """Returns the error of a connection that fails."""
    with pytest.raises(UsageError) as raised:
        await RayCluster(address, lambda _message: None).__aenter__()
    return str(raised.value)


@pytest.mark.parametrize("scheme", ["", "ray://"])
async def test_something_else_that_listens_there_is_no_cluster(
    scheme: str, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.engines.ray.cluster._CONNECT_TIMEOUT_S", 0.02)
    address = f"{scheme}127.0.0.1:{silent_port}"
    assert (await connect(address)).startswith(
        f"The Ray cluster at {address!r} cannot be reached: timed out. Start a cluster"
    )
    with serve_in_thread(JsonHandler) as server:
        address = f"{scheme}127.0.0.1:{server.server_port}"
        message = await connect(address)
    assert (
        f"The Ray cluster at {address!r} cannot be reached: another program listens at this address."
        in message
    )


@pytest.mark.parametrize("address", ["http://x", "ray://", "ray://host", " ", "host:port"])
async def test_an_address_has_a_host_and_a_port(address: str) -> None:
    assert "is not the address of a Ray cluster. Write ray://HOST:PORT" in await connect(address)


async def test_a_server_that_is_slow_to_start_is_tried_again_and_its_traceback_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ray

    tries = []

    def fail(**options: object) -> None:
        tries.append(options)
        raise ConnectionAbortedError(
            "Initialization failure from server:\nTraceback (most recent call last):\n"
            '  File "proxier.py", line 780, in Datapath\n    raise RuntimeError(\n'
            "RuntimeError: Proxy failed to Connect to backend!\n"
        )

    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(UsageError, match=r"machine: RuntimeError: Proxy failed to Connect to backend!\.$"):
        await RayCluster(None, print).__aenter__()
    assert len(tries) == 3

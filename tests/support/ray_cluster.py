"""A Ray cluster of two nodes on this machine, in a program of its own, which is this file.

It reads commands: `add` starts a node and `kill` ends the newest one, each answered by a line of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class RayNodes:
    """The cluster as tests see it."""

    def __init__(self, environ: dict[str, str], folder: Path) -> None:
        """Starts a head with one processor and a node with one more."""
        self._log = (folder / "cluster.log").open("w", encoding="utf-8")
        self._program = subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
            env=environ,
            cwd=folder,
            start_new_session=True,
        )
        addresses = self._read()
        self.address: str = addresses["address"]
        self.client_address: str = addresses["client_address"]
        """That of Ray Client, which needs gRPC; without it the same as `address`."""

    def kill_node(self) -> None:
        """Ends the node that is not the head, with all of its processes."""
        self._command("kill")

    def add_node(self) -> None:
        """Starts a node with one processor."""
        self._command("add")

    def close(self) -> None:
        """Stops the cluster."""
        assert self._program.stdin is not None
        self._program.stdin.close()
        try:
            self._program.wait(20)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._program.pid, signal.SIGKILL)
            assert self._program.stdout is not None
            self._program.stdout.close()
            self._log.close()

    def _command(self, word: str) -> None:
        assert self._program.stdin is not None
        self._program.stdin.write(f"{word}\n")
        self._program.stdin.flush()
        self._read()

    def _read(self) -> dict[str, Any]:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError("The cluster has ended.")


def free_port() -> int:
    """Returns a port on loopback that was free a moment ago."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def main(folder: str) -> None:
    """Runs the cluster until stdin ends."""
    from ray.cluster_utils import Cluster

    # Ray gives up a server of Ray Client that takes more than 30 s to start, as on a busy machine.
    os.environ.setdefault("RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S", "120")
    options: dict[str, Any] = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20}
    head_options, port = dict(options), None
    if find_spec("grpc") is not None:
        port = head_options["ray_client_server_port"] = free_port()
    cluster = Cluster(initialize_head=True, head_node_args=head_options)
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)]
    client_address = cluster.address if port is None else f"ray://127.0.0.1:{port}"
    print(json.dumps({"address": cluster.address, "client_address": client_address}), flush=True)
    for command in sys.stdin:
        if command.strip() == "kill":
            cluster.remove_node(nodes.pop(), allow_graceful=False)
        else:
            nodes.append(cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20))
        print("{}", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])

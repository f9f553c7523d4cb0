"""`proctor serve` as a process: its output, its tokens, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.cli import Proctor
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow


@contextmanager
def serving(
    folder: Path, *arguments: str, at: str = "Proctor is at ", **environ: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts a server in that folder; yields the process and the address that it printed."""
    with subprocess.Popen(
        [sys.executable, "-m", "proctor", "serve", "--port", "0", *arguments],
        cwd=folder,
        env={**os.environ, "PROCTOR_KEYS": str(folder / "keys"), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"{at}http://127.0.0.1:"), process.stderr and process.stderr.read()
            yield process, line.split()[-1]
        finally:
            process.kill()


def read_status(address: str, path: str) -> int:
    connection = HTTPConnection(urlsplit(address).netloc, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_server_prints_its_address_answers_there_and_ends_at_ctrl_c(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, address):
        assert read_status(address, "/suites") == 200
        assert list(tmp_path.iterdir()) == []  # the store is created when something is saved
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert err.splitlines()[-1] == "Stopped."
    assert out == ""


def test_with_a_token_the_address_holds_it_and_nothing_else_opens(tmp_path: Path) -> None:
    with serving(tmp_path, "--token", "random") as (_, address):
        assert "/login?token=" in address
        assert read_status(address, "/suites") == 303
        path = urlsplit(address)
        assert read_status(address, f"{path.path}?{path.query}") == 303
        assert read_status(address, "/login?token=wrong") == 403


def test_each_person_has_a_token_of_their_own(tmp_path: Path) -> None:
    tokens = {"ana": "a-token-of=somebody", "ben": "a-token-of-another"}
    words = ",".join(f"{name}={token}" for name, token in tokens.items())
    with serving(tmp_path, at="Proctor for ana is at ", PROCTOR_TOKEN=words) as (process, address):
        assert address.endswith(f"/login?token={tokens['ana']}")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Proctor for ben is at ")
        statuses = [read_status(address, f"/login?token={token}") for token in (*tokens.values(), words)]
    assert statuses == [303, 303, 403]


def test_the_token_may_come_from_the_environment(tmp_path: Path) -> None:
    with serving(tmp_path, PROCTOR_TOKEN="a-token-of-somebody") as (_, address):
        assert address.endswith("/login?token=a-token-of-somebody")


@pytest.mark.parametrize(
    ("arguments", "environ", "warns"),
    [
        (["--token", "a-token-of-somebody"], {}, True),
        (["--token", "random"], {}, False),
        ([], {"PROCTOR_TOKEN": "a-token-of-somebody"}, False),
    ],
)
def test_a_token_that_others_can_read_on_the_command_line_is_warned_of_once(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], warns: bool
) -> None:
    with serving(tmp_path, *arguments, **environ) as (process, _):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert err.count("Set the environment variable PROCTOR_TOKEN instead") == warns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "Add --token random"),
        (["--allow-host", "proxy.example"], "Add --token random"),
        (["--token", "short"], "at least 16"),
        (["--token", "ana=random", "--token", "ana=random"], "two tokens for ana"),
        (["--token", "random", "--token", "ben=random"], "need names"),
        (["--token", "ana=the-token-of-both,ben=the-token-of-both"], "the same token"),
        (["--host", "no-such-host.invalid", "--token", "random"], "not an address of this machine"),
        (["--port", "70000"], "0<=x<=65535"),
        (["--store", "."], "is not a file"),
    ],
)
def test_wrong_usage_is_an_error_in_one_sentence(
    proctor: Proctor, arguments: list[str], message: str
) -> None:
    result = proctor("serve", *arguments)
    assert result.code == 4
    assert message in result.err
    assert len(result.err.splitlines()) == 1

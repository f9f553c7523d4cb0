"""Calls from Python in an empty folder, without keys and without the machine's store."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.cli.main import _invoke
from proctor.graders import GRADERS
from support.cli import CommandResult


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; no environment variable of the machine affects a run."""
    for name in list(os.environ):
        if name.startswith("PROCTOR_") or name.endswith(("_API_KEY", "_BASE_URL")) or "proxy" in name.lower():
            monkeypatch.delenv(name)
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path.parent / "no-weights"))
    monkeypatch.setenv("PROCTOR_KEYS", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def own_graders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the graders that a test registers."""
    for table in ("_locations", "_instances"):
        monkeypatch.setattr(GRADERS, table, dict(getattr(GRADERS, table)))


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Runs a command of the command line in this process."""

    def run(*words: object) -> CommandResult:
        capsys.readouterr()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            code = _invoke([str(word) for word in words])
        finally:  # a process that was a command ends with its handlers; this one goes on
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return CommandResult(int(code), *capsys.readouterr())

    return run


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Ten rows of which the target `echo` passes five."""
    return [
        {"id": f"t{number}", "input": f"say {number}", "expected": f"say {number}" if number % 2 else "no"}
        for number in range(10)
    ]

"""The command line in this process and as processes of its own, in an empty folder without keys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from proctor.cli.main import _invoke
from support.cli import FAULTS, PYTHON, CommandResult
from support.waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory; no variable of the machine's reaches a command."""
    for name in list(os.environ):
        if name.startswith("PROCTOR_") or name.endswith(("_API_KEY", "_BASE_URL")) or "proxy" in name.lower():
            monkeypatch.delenv(name)
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path.parent / "no-weights"))
    monkeypatch.setenv("PROCTOR_KEYS", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_keys(folder: Path) -> Path:
    """The folder of the user's keys, which is not there yet."""
    return folder / "keys"


@pytest.fixture
def proctor(capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Runs a command in this process. No command may ever break or show a traceback."""

    def run(*words: object) -> CommandResult:
        capsys.readouterr()
        code = _invoke([str(word) for word in words])
        result = CommandResult(int(code), *capsys.readouterr())
        assert not any(fault in result.err + result.out for fault in FAULTS), result
        assert result.code in range(6)
        return result

    return run


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command as a process of its own; it is killed after the test if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: object, environ: dict[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        defaults: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "encoding": "utf-8",
            "env": {**os.environ, **(environ or {})},
        }
        started.append(subprocess.Popen([*PYTHON, *(str(word) for word in words)], **(defaults | options)))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def process(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., CommandResult]:
    """Runs a command as a process of its own, to its end."""

    def run(*words: object, **options: Any) -> CommandResult:
        process = start(*words, **options)
        out, err = process.communicate(timeout=PATIENCE_S)
        result = CommandResult(process.returncode, out or "", err or "")
        assert not any(fault in result.err + result.out for fault in FAULTS), result
        return result

    return run


@pytest.fixture
def suite(folder: Path) -> Callable[..., str]:
    """Writes a suite of dialect meridian; each test is (id, input, expected) or a dictionary."""

    def write(*tests: Any, name: str = "s.jsonl") -> str:
        rows = [
            test
            if isinstance(test, dict)
            else dict(zip(("id", "input", "expected"), test, strict=True), scorer="exact")
            for test in tests
        ]
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return name

    return write


@pytest.fixture
def half(suite: Callable[..., str]) -> str:
    """Ten cases of which the target `echo` passes five."""
    return suite(
        *((f"t{n}", f"say {n}", f"say {n}" if n % 2 else "no") for n in range(10)), name="half.jsonl"
    )


@pytest.fixture
def script(folder: Path) -> Callable[..., str]:
    """Writes a script of answers and gives the target that reads it."""
    numbers = count()

    def write(**answers: Any) -> str:
        path = folder / f"answers{next(numbers)}.jsonl"
        lines = [json.dumps({key: value}) for key, value in answers.pop("rules", answers).items()]
        path.write_text("\n".join(lines), encoding="utf-8")
        return f"scripted:{path.name}"

    return write


@pytest.fixture
def function(folder: Path) -> Iterator[Callable[[str], str]]:
    """Writes a module with a function `f` and gives the target that calls it."""
    names: list[str] = []

    def write(source: str) -> str:
        names.append(f"asked_{os.getpid()}_{len(names)}_{folder.name}".replace("-", "_"))
        (folder / f"{names[-1]}.py").write_text(source, encoding="utf-8")
        return f"function:{names[-1]}:f"

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def store_of_interrupted_runs(proctor: Callable[..., CommandResult]) -> Callable[..., str]:
    """Makes a run that was stopped before its end, as the store shows it, and returns its id."""

    def make(*words: object) -> str:
        from msgspec.structs import replace

        from proctor.stores import open_store

        run_id: str = proctor("run", *words, "--json").run["run"]
        store = open_store(".proctor/proctor.db")
        store.update_run(replace(store.run(run_id), status="interrupted"))
        store.close()
        return run_id

    return make

"""Fixtures: sessions over a store in an empty folder, and their events."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proctor.protocols import Store
from proctor.services import events
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.request import Request
from proctor.stores import open_store
from support.sessions import MakeRuns, WriteModule, WriteSuite


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def address() -> str:
    """Where a test's store is. A test that looks into its file sets this to a path, by `parametrize`."""
    return ":memory:"


@pytest.fixture
def store(folder: Path, address: str) -> Iterator[Store]:
    with closing(open_store(address)) as store:
        yield store


@pytest.fixture
def other(folder: Path) -> Iterator[Store]:
    """The store of another user, such as the one who gets a bundle."""
    with closing(open_store(str(folder / "other.db"))) as store:
        yield store


@pytest.fixture
def session_events() -> list[events.Event]:
    """Every event of the sessions of a test."""
    return []


@pytest.fixture
def environ(folder: Path) -> dict[str, str]:
    """The environment of a test's sessions; its workspaces are made in the test's folder."""
    return {"PATH": os.environ["PATH"], "PROCTOR_CACHE": str(folder / "cache")}


@pytest.fixture
def session(
    store: Store, session_events: list[events.Event], folder: Path, environ: dict[str, str]
) -> Callable[[], RunSession]:
    def make() -> RunSession:
        return RunSession(store, environ, session_events.append, folder=folder)

    return make


@pytest.fixture
def make(session: Callable[[], RunSession]) -> MakeRuns:
    """Makes the runs of a request; suites and targets may be one word each."""

    async def run(suites: str = "", targets: str = "echo", **fields: Any) -> list[events.RunFinished]:
        request = Request(suites=tuple(suites.split()), targets=tuple(targets.split()), **fields)
        return await session().run(request)

    return run


@pytest.fixture
def suite(folder: Path) -> WriteSuite:
    """Writes a suite whose cases are (id, input, expected)."""

    def write(*tests: tuple[str, str, str], name: str = "s.jsonl") -> str:
        rows = [dict(zip(("id", "input", "expected"), test, strict=True)) for test in tests]
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return name

    return write


@pytest.fixture
def module(folder: Path) -> Iterator[WriteModule]:
    """Writes and imports a module of functions to ask; `function:NAME:f` names one of them."""
    names: list[str] = []

    def write(source: str) -> str:
        names.append(f"asked_in_{folder.name}_{len(names)}".replace("-", "_"))
        (folder / f"{names[-1]}.py").write_text(source, encoding="utf-8")
        return names[-1]

    yield write
    for name in names:
        sys.modules.pop(name, None)

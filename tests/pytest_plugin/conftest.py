"""Sessions of pytest in an empty folder with the plug-in, without keys and without the machine's store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
from _pytest.pytester import SysModulesSnapshot

from proctor.graders import GRADERS
from support.endpoints import JsonHandler, serve_in_thread

PLUGIN = ("-p", "proctor.pytest_plugin.hooks")
SUITE = "\n".join(
    f'{{"id": "c{number}", "input": "say {number}", "expected": "{"say" if number % 5 else "no"} {number}"}}'
    for number in range(20)
)
"""Twenty rows of which the target `echo` passes sixteen."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine's reaches a session, and no other plug-in is loaded."""
    for name in list(os.environ):
        if name.startswith(("PROCTOR_", "PYTEST_")) or name.endswith(("_API_KEY", "_BASE_URL")):
            monkeypatch.delenv(name)
    for table in ("_locations", "_instances"):  # what a session registers here is gone after it
        monkeypatch.setattr(GRADERS, table, dict(getattr(GRADERS, table)))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("NO_COLOR", "1")


class LastingModules(SysModulesSnapshot):
    """Forgets the files of tests after a session in this process, and keeps all other modules.

    A module of Proctor that is imported again has other classes than those in the tables of graders and
    targets, for the tests that come later.
    """

    def __init__(self, preserve: Callable[[str], bool] | None = None) -> None:
        super().__init__(lambda name: not name.startswith(("test_it", "conftest")))


@pytest.fixture(autouse=True)
def lasting_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot", LastingModules)


@pytest.fixture
def run_pytest(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Runs a session in this process, in a folder with `suite.jsonl`; a source is a file of tests."""
    pytester.path.joinpath("suite.jsonl").write_text(SUITE, encoding="utf-8")
    pytester.path.joinpath("proctor.toml").write_text("holdout = 0.0\n", encoding="utf-8")

    def run(*words: str, source: str = "", subprocess: bool = False) -> pytest.RunResult:
        if source:
            pytester.makepyfile(test_it=source)
        start = pytester.runpytest_subprocess if subprocess else pytester.runpytest_inprocess
        return start(*PLUGIN, "-p", "no:cacheprovider", *words)

    return run


class CountingServer:
    """A server with OpenAI's interface that answers with the prompt, and counts the requests."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.target = ""
        self._lock = Lock()

    def count(self, prompt: str) -> None:
        with self._lock:
            self.prompts.append(prompt)


@pytest.fixture
def counting_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingServer]:
    """A server whose `target` sessions can name."""
    counting = CountingServer()

    class Handler(JsonHandler):
        def handle_json(self, body: Any) -> None:
            prompt = body["messages"][-1]["content"]
            counting.count(prompt)
            self.send_json({"choices": [{"message": {"content": prompt}}], "model": "m"})

    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-and-no-other")
    with serve_in_thread(Handler) as server:
        counting.target = f"openai:m@http://127.0.0.1:{server.server_port}/v1"
        yield counting


@pytest.fixture
def stored_runs(pytester: pytest.Pytester) -> Callable[[], list[Any]]:
    """Reads the runs in the store of the session's folder."""

    def read(path: str | Path = ".proctor/proctor.db") -> list[Any]:
        import proctor

        with proctor.open_store(pytester.path / path) as store:
            return list(store.runs())

    return read

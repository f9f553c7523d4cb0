"""An engine of another package, chosen by `--engine` or by proctor.toml."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proctor.engines import ENGINES
from support.cli import Proctor

Write = Callable[..., str]

PACKAGE = """
from pathlib import Path

from proctor.engines.protocol import make_trial


class OneByOne:
    def __init__(self, work, worker, writer):
        self.worker, self.writer = worker, writer
        self.is_stopped, self.stop_reason = False, None

    def stop(self, reason=None):
        self.is_stopped, self.stop_reason = True, self.stop_reason or reason

    async def run(self, planned_trials):
        with Path("trials.log").open("a") as log:
            for planned in planned_trials:
                started_at = self.writer.now()
                output = await self.worker.answer(planned, None)
                scores = await self.worker.grade(planned, output, None)
                self.writer.store_trial(make_trial(planned, started_at, output, None, scores), planned)
                log.write(f"{planned.case.id}\\n")
                if Path("stop").exists():
                    return self.stop("There is a file `stop`.")
"""


@pytest.fixture
def log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Installs the engine `one_by_one`; returns the ids of the cases that it ran."""
    info = folder / "engines" / "more_engines-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-engines\nVersion: 1.0\n", "utf-8")
    entry_points = "[proctor.engines]\none_by_one = one_by_one_package:OneByOne\n"
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    (info.parent / "one_by_one_package.py").write_text(PACKAGE, encoding="utf-8")
    monkeypatch.syspath_prepend(info.parent)
    path = folder / "trials.log"
    yield lambda: path.read_text(encoding="utf-8").split() if path.exists() else []
    for table in (ENGINES._locations, ENGINES._instances):
        table.pop("one_by_one", None)
    sys.modules.pop("one_by_one_package", None)


@pytest.fixture
def cases(suite: Write) -> str:
    return suite(("a", "Yes", "Yes"), ("b", "No", "Yes"), ("c", "Yes", "Yes"))


def test_an_installed_engine_makes_the_run_that_names_it(
    proctor: Proctor, cases: str, log: Callable[[], list[str]]
) -> None:
    by_default = proctor("run", cases, "--target", "echo", "--json").run
    assert log() == []
    run = proctor("run", cases, "--target", "echo", "--engine", "one_by_one", "--json").run
    assert log() == ["a", "b", "c"]
    assert [run[name] for name in ("total", "passed", "failed")] == [3, 2, 1]
    assert [by_default[name] for name in ("total", "passed", "failed")] == [3, 2, 1]


def test_the_project_file_names_the_engine_until_a_flag_names_another(
    proctor: Proctor, cases: str, folder: Path, log: Callable[[], list[str]]
) -> None:
    (folder / "proctor.toml").write_text('engine = "one_by_one"\n', encoding="utf-8")
    proctor("run", cases, "--target", "echo", "--engine", "asyncio")
    assert log() == []
    proctor("run", cases, "--target", "echo")
    assert log() == ["a", "b", "c"]


def test_a_run_is_resumed_by_its_engine_or_by_another_one(
    proctor: Proctor, cases: str, folder: Path, log: Callable[[], list[str]]
) -> None:
    (folder / "stop").touch()
    command = ("run", cases, "--target", "echo", "--engine", "one_by_one")
    stopped = proctor(*command)
    assert stopped.code == 3
    assert "There is a file `stop`." in stopped.err
    (folder / "stop").unlink()
    assert proctor("run", "--resume=last", "--json").run["total"] == 3
    assert log() == ["a", "b", "c"]
    (folder / "stop").touch()
    proctor(*command)
    assert proctor("run", "--resume=last", "--engine", "asyncio", "--json").run["total"] == 3
    assert log() == ["a", "b", "c", "a"]


@pytest.mark.slow
def test_the_command_that_repeats_a_run_names_its_engine(
    proctor: Proctor, cases: str, folder: Path, log: Callable[[], list[str]]
) -> None:
    proctor("run", cases, "--target", "echo", "--engine", "one_by_one", "-o", "report.html")
    report = (folder / "report.html").read_text(encoding="utf-8")
    assert "engine one_by_one" in report
    assert "--engine one_by_one" in report
    assert len(log()) == 3


def test_a_run_is_graded_again_without_the_package_of_its_engine(
    proctor: Proctor, cases: str, folder: Path, monkeypatch: pytest.MonkeyPatch, log: Callable[[], list[str]]
) -> None:
    proctor("run", cases, "--target", "echo", "--engine", "one_by_one")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(folder / "engines")])
    for table in (ENGINES._locations, ENGINES._instances):
        table.pop("one_by_one")
    assert proctor("regrade", "last", "--json").run["passed"] == 2
    assert len(log()) == 3


@pytest.mark.parametrize("word", ["asynci", "elsewhere"])
def test_an_unknown_engine_is_refused_before_anything_is_read(proctor: Proctor, word: str) -> None:
    result = proctor("run", "no-such-suite", "--target", "echo", "--engine", word)
    assert result.code == 4
    assert f"Unknown engine {word!r}. " in result.err
    assert "asyncio" in result.err

"""Whole sessions: what the plug-in costs while nobody uses it, workers of xdist, and Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from support.waiting import PATIENCE_S, wait_until

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

Run = Callable[..., pytest.RunResult]
COUNT = """
import sys, pytest
code = pytest.main({words!r})
print("MODULES", *sorted(name for name in sys.modules if name.partition(".")[0] in ("proctor", "msgspec")))
sys.exit(code)
"""


def test_the_plugin_is_an_entry_point_that_imports_three_small_modules(pytester: pytest.Pytester) -> None:
    (plugin,) = entry_points(group="pytest11", name="proctor")
    assert plugin.value == "proctor.pytest_plugin.hooks"
    pytester.makepyfile(test_it="def test_it(): pass")
    words = ["-p", "proctor.pytest_plugin.hooks", "-p", "no:cacheprovider"]
    result = pytester.runpython_c(COUNT.format(words=words))
    assert result.ret == 0
    result.stdout.fnmatch_lines(["MODULES proctor proctor.pytest_plugin proctor.pytest_plugin.hooks"])


def test_without_the_plugin_there_is_no_option(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    result = pytester.runpytest_subprocess("-p", "no:proctor", "--proctor-suite=suite.jsonl")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --proctor-suite=suite.jsonl"])


SHARED = """
import pytest

pytestmark = pytest.mark.proctor(suite="suite.jsonl", target={target!r}, min_pass_rate=0.5{more})

@pytest.mark.parametrize("number", range(6))
def test_it(proctor_run, number): assert proctor_run.passed == 16

def test_more(): pass

@pytest.mark.proctor(limit=2)
def test_part(proctor_run): assert proctor_run.total == 2
"""


@pytest.mark.parametrize("more", ["", ", store=None", ', store=":memory:"'])
def test_workers_send_nothing_twice(
    run_pytest: Run, counting_server: Any, pytester: pytest.Pytester, more: str
) -> None:
    source = SHARED.format(target=counting_server.target, more=more)
    suites = [pytester.path / f"more{number}.jsonl" for number in range(4)]
    for path in suites:
        path.write_text(f'{{"id": "a", "input": "{path.stem}", "expected": "{path.stem}"}}', encoding="utf-8")
    words = ["test_it.py", "--proctor-suite", *map(str, suites), f"--proctor-target={counting_server.target}"]
    result = run_pytest("-p", "xdist", "-n", "2", *words, source=source, subprocess=True)
    result.assert_outcomes(passed=12)
    prompts = Counter(counting_server.prompts)
    # `test_part` has a marker of its own, and with it a run of its own.
    assert prompts.pop("say 0") == prompts.pop("say 1") == 2
    assert set(prompts.values()) == {1}
    assert len(prompts) == 18 + 4
    lines = [line for line in result.outlines if re.match(r"\d{8}-\d{6}-\w{6}  ", line)]
    assert sum("suite v1 on" in line for line in lines) == 2
    assert sum("more" in line for line in lines) == 4


def test_a_worker_reports_the_table_of_a_failed_gate(run_pytest: Run) -> None:
    words = ("--proctor-suite", "suite.jsonl", "--proctor-target=echo", "--proctor-min-pass-rate=0.9")
    result = run_pytest("-p", "xdist", "-n", "2", *words, subprocess=True)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["The gate failed*", "FAIL      c0 *", "*suite v1 on echo: 16 of 20*"])


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "2")])
def test_ctrl_c_stops_the_run_and_stores_what_has_finished(
    run_pytest: Run,
    pytester: pytest.Pytester,
    stored_runs: Callable[[], list[Any]],
    workers: tuple[str, ...],
) -> None:
    run_pytest("--collect-only")  # writes the suite
    pytester.makepyfile(
        test_it="""
        import pathlib
        import threading
        import pytest

        def answer(question):
            if question == "say 7":
                pathlib.Path("reached").touch()
                threading.Event().wait()
            return question

        @pytest.mark.proctor(suite="suite.jsonl", target=answer, concurrency=1)
        def test_it(): pass
        """
    )
    words = [sys.executable, "-m", "pytest", "-p", "proctor.pytest_plugin.hooks", "-p", "no:cacheprovider"]
    with subprocess.Popen(
        [*words, *workers],
        cwd=pytester.path,
        start_new_session=True,  # a terminal interrupts the workers too
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        wait_until(lambda: Path(pytester.path, "reached").exists() or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    (run,) = stored_runs()
    assert (run.status, run.total) == ("interrupted", 7)
    if not workers:  # what a worker was doing is not reported to xdist any more
        assert f"{run.id}  suite v1 on answer: stopped" in output
        assert f"Continue with: proctor run --resume={run.id}" in output

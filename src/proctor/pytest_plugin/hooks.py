"""The hooks and fixtures that pytest loads; nothing else of Proctor is imported until a test needs it."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from proctor.pytest_plugin.check import ProctorFixture
    from proctor.python.results import RunGroup, RunResult

MARKER = "proctor"
_SUMMARY = "proctor.pytest_plugin.summary"
_PROBLEMS = pytest.StashKey[dict[str, None]]()
"""Sentences on the wrong markers of a collector's tests; parameters have the same ones."""
_OPTIONS = ("suite", "target", "judge", "min_pass_rate", "limit", "store", "option")
_MARKER_LINE = (
    "proctor(suite, target=None, min_pass_rate=None, **options): run a suite before the test, with any "
    "option of proctor.run. The test fails if the gate does not hold, and errors if the run was not "
    "measured."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("proctor", "suites for language models (proctor)")
    group.addoption(
        "--proctor-suite",
        nargs="+",
        action="extend",
        default=[],
        metavar="SUITE",
        help="Run this suite: a file, folder or name, as for `proctor run`. May be repeated.",
    )
    for flag, text in (
        ("--proctor-target", "Target for runs that do not name one. May be repeated."),
        ("--proctor-judge", "Judge for runs that do not name one. May be repeated."),
    ):
        group.addoption(flag, action="append", default=[], metavar="T", help=text)
    group.addoption(
        "--proctor-min-pass-rate",
        metavar="X",
        help="Gate for runs that do not set one: the minimum pass rate, such as 0.9 or 90%%.",
    )
    group.addoption(
        "--proctor-limit",
        type=int,
        metavar="N",
        help="Maximum number of cases, for runs that do not set one.",
    )
    group.addoption(
        "--proctor-store", metavar="STORE", help="Store for the runs.  [default: the project's store]"
    )
    group.addoption(
        "--proctor-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="Any other option of proctor.run, such as repeats=3. May be repeated.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker; checks the options if there are any."""
    config.addinivalue_line("markers", _MARKER_LINE)
    if any(config.getoption(f"proctor_{name}") not in (None, []) for name in _OPTIONS):
        from proctor.errors import UsageError
        from proctor.pytest_plugin.session import get_session
        from proctor.pytest_plugin.suite_items import SuiteCollection

        try:
            get_session(config)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        if config.getoption("proctor_suite"):
            config.pluginmanager.register(SuiteCollection(config), "proctor-suites")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Checks the markers of test functions while they are collected."""
    result = yield
    if isinstance(result, list):  # a class gives a collector
        for item in result:
            if item.get_closest_marker(MARKER) is not None:
                from proctor.pytest_plugin.markers import check_marker

                if problem := check_marker(item):
                    collector.stash.setdefault(_PROBLEMS, {})[problem] = None
    return result


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turns the wrong markers of a module or a class into an error of collection."""
    report = yield
    problems = collector.stash.get(_PROBLEMS, None)
    if problems and report.passed:
        report.outcome = "failed"
        report.longrepr = "\n".join(problems)
        report.result = []
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Makes the run of a marker, once the fixtures of the test are there."""
    if item.get_closest_marker(MARKER) is not None:
        from proctor.pytest_plugin.markers import run_marker

        run_marker(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Fails a test whose run misses its gate, before its function is called."""
    if item.get_closest_marker(MARKER) is not None:
        from proctor.pytest_plugin.markers import check_marker_gate

        check_marker_gate(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Lists the runs of the session, if tests here or in the workers of xdist have made some."""
    if _SUMMARY not in sys.modules and not config.pluginmanager.hasplugin("dsession"):
        return
    from proctor.pytest_plugin.summary import list_lines

    if lines := list_lines(terminalreporter, config):
        terminalreporter.section("proctor")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(name="proctor")
def proctor_fixture(request: pytest.FixtureRequest) -> ProctorFixture:
    """Grades answers with `check`, and runs suites with `run`."""
    from proctor.pytest_plugin.check import ProctorFixture

    return ProctorFixture(request.node)


@pytest.fixture
def proctor_run(request: pytest.FixtureRequest) -> RunResult | RunGroup:
    """The run of the test's marker `proctor`; a `RunGroup` for several targets."""
    from proctor.pytest_plugin.markers import run_marker

    return run_marker(request.node)

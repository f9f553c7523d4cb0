"""`--proctor-suite`: collects suites as tests, one for each suite and target."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import ProctorError
from proctor.pytest_plugin.gate import check_gates, make_measured_run
from proctor.pytest_plugin.session import get_session
from proctor.python.locations import open_location
from proctor.python.options import load_project
from proctor.python.results import RunGroup, RunResult
from proctor.services.suites.save_and_open import find_stored_suite
from proctor.services.suites.suite_argument import LocatedSuites, NoSuchSuite, SuiteLocator
from proctor.stores import locate_store

_COLLECTED = pytest.StashKey[set[str]]()
"""What was collected, so that a file that two words name is run once."""


class SuiteCollection:
    """Adds the suites of `--proctor-suite` to what pytest collects; without paths they are all of it."""

    def __init__(self, config: pytest.Config) -> None:
        """Takes the words of the option."""
        self._words = dict.fromkeys(config.getoption("proctor_suite"))
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = []

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Adds the suites to what the session collects."""
        report = yield
        if isinstance(collector, pytest.Session) and report.passed:
            report.result = [*report.result, *(make_collector(collector, word) for word in self._words)]
        return report


def make_collector(parent: pytest.Collector, word: str) -> SuiteCollector:
    """Returns the collector of a word, or of a file of the folder that a word names."""
    path = Path(os.path.abspath(word))  # noqa: PTH100 - keeps links unresolved, as pytest does
    try:
        name = path.relative_to(parent.config.rootpath).as_posix() if path.exists() else word
    except ValueError:
        name = word
    collector: SuiteCollector = SuiteCollector.from_parent(
        parent, name=name, nodeid=name, path=path if path.exists() else parent.config.rootpath
    )
    collector.word = word
    return collector


class SuiteCollector(pytest.Collector):
    """Collects the tests of a suite, or of the suites in a folder."""

    word: str
    """What names it, as on the command line."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Yields a test for each target, or a collector for each file of a folder.

        Raises:
            pytest.Collector.CollectError: there is no such suite.
        """
        try:
            located = _locate(self.word, get_session(self.config).store)
        except ProctorError as error:
            raise self.CollectError(str(error)) from None
        for line in (*located.warnings, *located.notes):
            warnings.warn(pytest.PytestCollectionWarning(line), stacklevel=1)
        if Path(self.word).is_dir():
            yield from (make_collector(self, str(path)) for path in located.paths)
        else:
            yield from self._make_items()

    def _make_items(self) -> Iterator[SuiteItem]:
        collected = self.session.stash.setdefault(_COLLECTED, set())
        if self.nodeid in collected:
            return
        collected.add(self.nodeid)
        targets: Sequence[str | None] = get_session(self.config).targets or [None]
        for target in targets:
            item: SuiteItem = SuiteItem.from_parent(self, name=target or "run")
            item.word, item.target = self.word, target
            yield item


class SuiteItem(pytest.Item):
    """A suite on a target; on all targets that the suite names if the session names none."""

    word: str
    target: str | None
    _result: RunResult | RunGroup

    def setup(self) -> None:
        """Makes the run; a run that was not measured is an error here."""
        options = {} if self.target is None else {"target": self.target}
        session = get_session(self.config)
        self._result = make_measured_run(self, partial(session.run, self, [self.word], options))

    def runtest(self) -> None:
        """Fails if the gate does not hold."""
        check_gates(self._result)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Returns the suite's file, and the name of the test."""
        return self.path, None, f"{self.word} on {self.target or 'its targets'}"


def _locate(word: str, store: str) -> LocatedSuites:
    """Returns the files that a word names; none if it names a suite of the store.

    Raises:
        ProctorError: it names nothing.
    """
    config = load_project()
    locator = SuiteLocator(environ=os.environ, config=config)
    try:
        return locator.find(word)
    except NoSuchSuite:
        location = locate_store(store)
        if not location.exists():
            raise
        with open_location(location) as opened:
            if find_stored_suite(opened, word) is None:
                raise
        return LocatedSuites(paths=())

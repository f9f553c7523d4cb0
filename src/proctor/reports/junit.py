"""Runs to JUnit XML, which CI systems show as tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from proctor.model import Verdict
from proctor.reports.rows import Reported, Row, question_of, why

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


def render(runs: Sequence[Reported]) -> Iterator[str]:
    """A test suite for each run, a test case for each trial.

    FAIL is a failure, ERROR an error, and UNSCORED an error too: a trial that was not measured must not
    look like one that was left out on purpose.
    """
    xml = JUnitXml()
    for reported in runs:
        run = reported.run
        suite = TestSuite(_clean(f"{run.suite.name} on {run.target.name}"))
        suite.timestamp = run.started_at.isoformat()
        suite.add_property("run", run.id)
        suite.add_property("suite_digest", run.suite.digest)
        suite.add_testcases([_test(reported, row) for row in reported.rows()])
        xml.add_testsuite(suite)
    text = xml.tostring()  # type: ignore[no-untyped-call]  # the library has no annotation there
    yield text.decode("utf-8") if isinstance(text, bytes) else text


def _test(reported: Reported, row: Row) -> TestCase:
    trial = row.trial
    name = trial.case_id if trial.repeat == 0 else f"{trial.case_id} (repeat {trial.repeat})"
    test = TestCase(_clean(name), _clean(reported.run.suite.name))
    if trial.output is not None:
        test.time = trial.output.latency_ms / 1000
        test.system_out = _clean(f"{question_of(row.case)}\n\n{trial.output.text}")
    reason = _clean(why(trial))
    if row.verdict is Verdict.FAIL:
        test.result = [Failure(reason, "fail")]
    elif row.verdict is Verdict.ERROR:
        test.result = [Error(reason, "error")]
    elif row.verdict is Verdict.UNSCORED:
        test.result = [Error(reason, "unscored")]
    return test


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)

"""Runs to JUnit XML, which CI systems show as tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from junitparser import Attr, Error, Failure, FloatAttr, JUnitXml, TestCase, TestSuite

from proctor.holdout import SEALED
from proctor.model import Verdict
from proctor.reports.rows import Reported, Told, about_judges, question_of, told

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even escaped."""


class _Seconds(FloatAttr):
    """A time with three decimals, as pytest writes it; schemas of CI systems take no `2e-05`."""

    def __set__(self, instance: Any, value: float) -> None:  # type: ignore[override]  # as FloatAttr does
        Attr.__set__(self, instance, f"{value:.3f}")


class _TestCase(TestCase):
    time = _Seconds()


class _TestSuite(TestSuite):
    time = _Seconds()


def render(runs: Sequence[Reported]) -> Iterator[str]:
    """A test suite for each run, a test case for each trial, or for each case under a rule over repeats.

    FAIL is a failure, ERROR an error, and UNSCORED an error too: a trial that was not measured must not
    look like one that was left out on purpose.
    """
    xml = JUnitXml()
    for reported in runs:
        run = reported.run
        suite = _TestSuite(_clean(f"{run.suite.name} on {run.target.name}"))
        suite.timestamp = run.started_at.isoformat()
        suite.add_property("run", run.id)
        suite.add_property("suite_version", run.suite.version or "")
        suite.add_property("suite_digest", run.suite.digest)
        for line in about_judges(reported):
            suite.add_property("judge", _clean(line))
        suite.add_testcases([_test(reported, one) for one in told(reported)])
        suite.time = sum(reported.tally.latencies_ms) / 1000  # and not the sum of what was rounded
        xml.add_testsuite(suite)
    text = xml.tostring()  # type: ignore[no-untyped-call]  # the library has no annotation there
    yield text.decode("utf-8") if isinstance(text, bytes) else text


def _test(reported: Reported, one: Told) -> TestCase:
    test = _TestCase(_clean(one.name), _clean(reported.run.suite.name))
    outputs = [row.trial.output for row in one.rows if row.trial.output is not None]
    if outputs:
        test.time = sum(output.latency_ms for output in outputs) / 1000
        texts = (question_of(one.rows[0].case), *(output.text for output in outputs))
        test.system_out = _clean("\n\n".join(texts))
    elif one.sealed:
        test.system_out = SEALED
    if one.verdict is Verdict.FAIL:
        test.result = [Failure(_clean(one.why), "fail")]
    elif one.verdict is not Verdict.PASS:
        test.result = [Error(_clean(one.why), one.verdict.value)]
    return test


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)

"""Runs to JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from junitparser import Attr, Error, Failure, FloatAttr, TestCase, TestSuite

from proctor.model import Verdict
from proctor.reports.runs.serialize import Reported, Told, about_judges, question_of, told
from proctor.safe_text import visible
from proctor.splits import SEALED

_END = "</testsuite>"


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
    yield "<testsuites>"
    for reported in runs:
        yield _text(_suite(reported)).removesuffix(_END)
        yield from (_text(_test(reported, one)) for one in told(reported))
        yield _END
    yield "</testsuites>"


def _suite(reported: Reported) -> TestSuite:
    """The suite without its tests: of these it has the numbers, so that nothing holds all answers."""
    run, counted = reported.run, reported.tally.counted
    suite = _TestSuite(visible(f"{run.suite.name} on {run.target.name}"))
    suite.timestamp = run.started_at.isoformat()
    suite.tests = counted.total
    suite.errors = counted.errors + counted.unscored
    suite.failures = counted.failed
    suite.skipped = 0
    suite.time = sum(reported.tally.latencies_ms) / 1000  # and not the sum of what was rounded
    suite.add_property("run", run.id)
    suite.add_property("suite_version", run.suite.version or "")
    suite.add_property("suite_digest", run.suite.digest)
    for line in about_judges(reported):
        suite.add_property("judge", visible(line))
    return suite


def _text(element: TestSuite | TestCase) -> str:
    text = element.tostring()  # type: ignore[no-untyped-call]  # the library has no annotation there
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)


def _test(reported: Reported, one: Told) -> TestCase:
    test = _TestCase(visible(one.name), visible(reported.run.suite.name))
    outputs = [row.trial.output for row in one.rows if row.trial.output is not None]
    if outputs:
        test.time = sum(output.latency_ms for output in outputs) / 1000
        texts = (question_of(one.rows[0].case), *(output.text for output in outputs))
        test.system_out = visible("\n\n".join(texts))
    elif one.sealed:
        test.system_out = SEALED
    if one.verdict is Verdict.FAIL:
        test.result = [Failure(visible(one.why), "fail")]
    elif one.verdict is not Verdict.PASS:
        test.result = [Error(visible(one.why), one.verdict.value)]
    return test

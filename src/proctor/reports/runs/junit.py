"""Renders runs as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from junitparser import Attr, Error, Failure, FloatAttr, TestCase, TestSuite

from proctor.holdout import SEALED_REASON
from proctor.latency import measured_latency
from proctor.model import Verdict
from proctor.plurals import pluralize
from proctor.reports.formatting import interval, percent, unmeasured
from proctor.reports.runs.serialize import (
    CaseResult,
    RunReport,
    case_results,
    early_stop_note,
    gate_note,
    judge_notes,
    question_text,
    speed_texts,
)
from proctor.safe_text import escape_invisible

_END = "</testsuite>"


class _Seconds(FloatAttr):
    """A time with three decimals, as in pytest's XML; schemas of CI systems reject `2e-05`."""

    def __set__(self, instance: Any, value: float) -> None:  # type: ignore[override]  # as FloatAttr does
        Attr.__set__(self, instance, f"{value:.3f}")


class _TestCase(TestCase):
    time = _Seconds()


class _TestSuite(TestSuite):
    time = _Seconds()


def render(runs: Sequence[RunReport]) -> Iterator[str]:
    """Yields a test suite for each run, with a test case for each trial, or for each case if it counts once.

    FAIL is a failure; ERROR and UNSCORED are errors: an unmeasured trial must not look like a skipped one.
    """
    yield "<testsuites>"
    for report in runs:
        yield _to_text(_test_suite(report)).removesuffix(_END)
        yield from (_to_text(_test_case(report, result)) for result in case_results(report))
        yield _END
    yield "</testsuites>"


def _test_suite(report: RunReport) -> TestSuite:
    """Returns the test suite with its counts and without its tests, which are streamed."""
    run, counts = report.run, report.tally.result_counts
    suite = _TestSuite(escape_invisible(f"{run.suite.name} on {run.target_title}"))
    suite.timestamp = run.started_at.isoformat()
    suite.tests = counts.total
    suite.errors = counts.errors + counts.unscored
    suite.failures = counts.failed
    suite.skipped = 0
    suite.time = sum(report.tally.latencies_ms) / 1000  # not the sum of rounded values
    suite.add_property("run", run.id)
    if counts.pass_rate is not None:
        over = f"{interval(counts.ci95)}, {pluralize(counts.cases, 'case')}"
        suite.add_property("pass_rate", f"{percent(counts.pass_rate)} ({over})")
    if rest := unmeasured(counts.unmeasured, counts.bounds):
        suite.add_property("not_measured", rest)
    for text in speed_texts(report.tally):
        suite.add_property("speed", text)
    suite.add_property("suite_version", run.suite.version or "")
    suite.add_property("suite_digest", run.suite.digest)
    for note in (gate_note(report), early_stop_note(report)):
        if note is not None:
            suite.add_property("note", note)
    for line in judge_notes(report):
        suite.add_property("judge", escape_invisible(line))
    return suite


def _to_text(element: TestSuite | TestCase) -> str:
    text = element.tostring()  # type: ignore[no-untyped-call]  # the library has no annotation there
    return text.decode("utf-8") if isinstance(text, bytes) else str(text)


def _test_case(report: RunReport, result: CaseResult) -> TestCase:
    test = _TestCase(escape_invisible(result.name), escape_invisible(report.run.suite.name))
    outputs = [row.trial.output for row in result.rows if row.trial.output is not None]
    if outputs:
        latencies_ms = (measured_latency(row.trial) for row in result.rows)
        test.time = sum(filter(None, latencies_ms)) / 1000  # others took no time in this run
        texts = (question_text(result.rows[0].case), *(output.text for output in outputs))
        test.system_out = escape_invisible("\n\n".join(texts))
    elif result.sealed:
        test.system_out = SEALED_REASON
    if result.verdict is Verdict.FAIL:
        test.result = [Failure(escape_invisible(result.reason), "fail")]
    elif result.verdict is not Verdict.PASS:
        test.result = [Error(escape_invisible(result.reason), result.verdict.value)]
    return test

"""Every report says of which answers its latency is, if some were not measured in the run."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from proctor.model import Output
from proctor.reports.document import render_terminal
from proctor.reports.runs import console, html, json, junit, markdown
from proctor.reports.runs.serialize import RunReport
from support.builders import make_case, make_report, make_score, make_trial

SCOPE = "of 2 answers; 2 from the cache or reused are left out"


def slow_trial(case_id: str, latency_ms: float, *, cached: bool = False, **fields: Any) -> Any:
    output = Output(text="4", latency_ms=latency_ms, cached=cached)
    return make_trial("4", make_score(1.0), case_id=case_id, output=output, **fields), make_case(case_id)


@pytest.fixture
def report() -> RunReport:
    return make_report(
        slow_trial("a", 400.0, position=0),
        slow_trial("b", 60.0, cached=True, position=1),
        slow_trial("c", 64.0, position=2, source_run="earlier"),
        slow_trial("d", 500.0, position=3),
    )


def test_the_terminal_says_it(report: RunReport) -> None:
    text = "\n".join(render_terminal(console.document_for(report)))
    assert f"latency p50 450 ms, p95 495 ms {SCOPE}" in text


def test_markdown_says_it(report: RunReport) -> None:
    assert f"Median latency 450 ms {SCOPE}" in "".join(markdown.render([report]))


def test_a_page_says_it_of_one_run_and_of_several(report: RunReport) -> None:
    page = "".join(html.render([report, replace(report)]))
    assert f"median 450 ms, 95 % under 495 ms {SCOPE}" in page
    assert f"Latency {SCOPE} in " in page


def test_json_has_both_numbers(report: RunReport) -> None:
    row = msgspec.json.decode(json.render_summary([report]))["runs"][0]["latency_ms"]
    assert row == {"p50": 450.0, "p95": 495.0, "mean": 450.0, "answers": 2, "left_out": 2}


def test_an_answer_from_elsewhere_took_no_time_in_junit(report: RunReport) -> None:
    (suite,) = ET.fromstring("".join(junit.render([report]))).iter("testsuite")  # our own
    times = [test.attrib["time"] for test in suite.iter("testcase")]
    assert times == ["0.400", "0.000", "0.000", "0.500"]
    assert suite.attrib["time"] == "0.900"


def test_without_any_measured_answer_there_is_no_latency() -> None:
    text = "\n".join(render_terminal(console.document_for(make_report(slow_trial("a", 9.0, cached=True)))))
    assert "latency not measured, because all answers are reused" in text

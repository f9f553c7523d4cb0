"""Runs to JUnit XML that every parser takes."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from proctor.model import Output
from proctor.reports.runs.junit import render
from proctor.reports.runs.serialize import RunReport
from support.builders import make_case, make_report, make_trial
from support.golden import assert_golden

GATE = "required check failed: the gate (0.00, at least 0.5 required); score 0.75; "


def parse_xml(*runs: RunReport) -> ET.Element:
    return ET.fromstring("".join(render(runs)))


def test_the_file_is_its_golden_file(mixed_report: RunReport) -> None:
    assert_golden(Path(__file__).parent / "golden" / "mixed.xml", "".join(render([mixed_report])))


def test_every_run_is_a_test_suite_with_its_counts(mixed_report: RunReport) -> None:
    root = parse_xml(mixed_report, make_report())
    assert root.tag == "testsuites"
    counts = [
        {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
        for suite in root.iter("testsuite")
    ]
    # unscored counts as an error: a trial that was not measured must not look like one left out on purpose
    assert counts == [
        {"tests": 7, "failures": 3, "errors": 2, "skipped": 0},
        {"tests": 0, "failures": 0, "errors": 0, "skipped": 0},
    ]


def test_the_counts_are_those_of_the_elements(mixed_report: RunReport) -> None:
    (suite,) = parse_xml(mixed_report).iter("testsuite")
    assert len(suite.findall("testcase")) == int(suite.attrib["tests"])
    assert len(suite.findall("testcase/failure")) == int(suite.attrib["failures"])
    assert len(suite.findall("testcase/error")) == int(suite.attrib["errors"])
    assert float(suite.attrib["time"]) == pytest.approx(0.515, abs=1e-3)


def test_a_test_case_has_the_result_of_its_trial(mixed_report: RunReport) -> None:
    tests = {test.attrib["name"]: test for test in parse_xml(mixed_report).iter("testcase")}
    assert list(tests) == [
        "sum",
        "sum (repeat 1)",
        '=HYPERLINK("x")',
        "two\nlines",
        "fence `x`",
        "control",
        "größe",
    ]
    assert {test.attrib["classname"] for test in tests.values()} == {"kitchen | <sums>"}
    problems = {
        name: [
            (child.tag, child.attrib["type"], child.attrib["message"])
            for child in test
            if child.tag != "system-out"
        ]
        for name, test in tests.items()
    }
    assert problems == {
        "sum": [],
        "sum (repeat 1)": [("failure", "fail", "exact: got '+5', wanted '4'")],
        '=HYPERLINK("x")': [("failure", "fail", f"{GATE}the gate: -1 < 0; | cell |")],
        "two\nlines": [("error", "error", "timeout: Nothing came within 2 s.")],
        "fence `x`": [("failure", "fail", "exact: wanted `````` and <b>")],
        "control": [("error", "unscored", "kind: The judges disagree.")],
        "größe": [],
    }
    assert tests["sum"].findtext("system-out") == "2 + 2?\n\n4"
    assert tests["two\nlines"].find("system-out") is None


def test_characters_that_xml_cannot_hold_are_shown_as_escapes(mixed_report: RunReport) -> None:
    tests = {test.attrib["name"]: test for test in parse_xml(mixed_report).iter("testcase")}
    assert (
        tests["control"].findtext("system-out")
        == r"say \x01 \x1b[31m" + "\n\n" + r"\x01\x1b[31mred\x1b[0m \ufffe]]> " + "\t ok"
    )


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0x85, 0xD800, 0xFFFE, 0xFFFF, 0x1F600])
def test_any_character_anywhere_gives_xml_that_parses(code: int) -> None:
    text = f"<{chr(code)}&\"']]>"
    (suite,) = parse_xml(make_report((make_trial(text, case_id=text), make_case(text, text)))).iter(
        "testsuite"
    )
    assert suite.find("testcase") is not None


def test_nothing_to_report_is_xml_too() -> None:
    assert list(parse_xml().iter("testcase")) == []


@pytest.mark.parametrize(
    ("latency_ms", "count", "test_time", "total_time"),
    [
        (0.02, 1, "0.000", "0.000"),
        (0.4, 10, "0.000", "0.004"),
        (1.5, 2, "0.002", "0.003"),
        (120, 3, "0.120", "0.360"),
        (1234567.891, 1, "1234.568", "1234.568"),
    ],
)
def test_times_are_seconds_with_three_decimals_and_their_sum_is_of_what_was_measured(
    latency_ms: float, count: int, test_time: str, total_time: str
) -> None:
    output = Output(text="4", latency_ms=latency_ms)
    pairs = [
        (make_trial("4", case_id=f"c{place}", position=place, output=output), make_case(f"c{place}"))
        for place in range(count)
    ]
    (suite,) = parse_xml(make_report(*pairs)).iter("testsuite")
    assert [test.attrib["time"] for test in suite.iter("testcase")] == [test_time] * count
    assert suite.attrib["time"] == total_time

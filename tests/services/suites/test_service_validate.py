"""Progress of the check of a suite, while it reads and while it searches other texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.services.events import Event, ReadProgress, SearchProgress
from proctor.services.suites.builtin_suites import TIERS
from proctor.services.suites.suite_argument import SuiteLocator
from proctor.services.suites.validate import validate_suite


@pytest.mark.slow
def test_how_far_reading_and_searching_are_is_told(tmp_path: Path) -> None:
    suite, other = tmp_path / "s.jsonl", tmp_path / "other.txt"
    rows = ({"id": f"c{n}", "input": f"Which ship is {n}?", "expected": "Ida"} for n in range(2100))
    suite.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    other.write_text("sea and sand\n" * 50_000, encoding="utf-8")
    events: list[Event] = []
    report = validate_suite(suite, against=[other], listen=events.append)
    assert report.problems == ()
    assert [event.cases for event in events if isinstance(event, ReadProgress)] == [1000, 2000]
    searched = [event.characters for event in events if isinstance(event, SearchProgress)]
    assert len(searched) > 1
    assert searched == sorted(searched)
    assert searched[-1] == 650_000


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        (
            "s.csv",
            "input,expected\na\rb,1\nx,1\nc\rd,1\ne\rf,1\n",
            "or put the cell with the `\\r` in quotes.",
        ),
        (
            "s.jsonl",
            '\n{"input": "a\rb"}\n{"input": "x", "expected": "1"}\n{"input":\r"another\rb"}\n{"\r": 1}\n',
            "or write it in a text as the two characters `\\r`.",
        ),
    ],
)
def test_a_carriage_return_inside_many_lines_is_one_error(
    tmp_path: Path, name: str, text: str, remedy: str
) -> None:
    suite = tmp_path / name
    suite.write_text(text, encoding="utf-8", newline="")
    (problem,) = validate_suite(suite).problems_of_level("error")
    assert problem.line == 2
    assert problem.message.startswith(
        "The line has a carriage return (`\\r`) inside it. Save the file with LF"
    )
    assert problem.message.endswith(f"{remedy} The same on 2 other lines: 4, 5.")


@pytest.mark.parametrize("tier", TIERS)
def test_of_a_built_in_suite_nothing_is_doubtful(tier: str) -> None:
    (path,) = SuiteLocator().find(tier).paths
    assert validate_suite(path).problems == ()

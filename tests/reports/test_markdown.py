"""Runs to Markdown that shows every text as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.reports.runs.markdown import render
from proctor.reports.runs.serialize import RunReport
from support.builders import make_case, make_report, make_score, make_trial
from support.golden import assert_golden


def render_markdown(*runs: RunReport) -> str:
    return "".join(render(runs))


def test_the_file_is_its_golden_file(mixed_report: RunReport) -> None:
    assert_golden(Path(__file__).parent / "golden" / "mixed.md", render_markdown(mixed_report))


@pytest.mark.parametrize("count", [50, 51, 60])
def test_at_most_fifty_are_shown_and_the_others_counted(count: int) -> None:
    text = render_markdown(
        make_report(
            *[(make_trial(None, case_id=str(number)), make_case(str(number))) for number in range(count)]
        )
    )
    assert text.count("<details>") == text.count("</details>") == 50
    assert ("…and" in text) == (count > 50)
    assert count == 50 or f"…and {count - 50} more: `proctor runs export" in text


def test_where_all_passed_nothing_is_listed() -> None:
    text = render_markdown(make_report((make_trial("4", make_score(1.0)), make_case())))
    assert "**1 of 1 passed** (100.0%, 95 % interval 21–100%)" in text
    assert "## Not passed" not in text


def test_a_run_of_nothing_has_no_rate_and_one_error_is_one() -> None:
    assert "**0 of 0 passed** (no pass rate, because nothing was measured)" in render_markdown(make_report())
    text = render_markdown(make_report((make_trial(None), make_case())))
    assert "(no pass rate, because nothing was measured): 0 failed, 1 error, 0 unscored." in text


def _make_long_run(count: int, letters: int, **fields: Any) -> RunReport:
    """Makes a run of `count` failed trials with answers of `letters` letters."""
    numbers = range(count)
    pairs = [(make_trial("😀" * letters, case_id=f"c{n}"), make_case(f"c{n}")) for n in numbers]
    return make_report(*pairs, **fields)


@pytest.mark.parametrize(
    ("runs", "count", "letters"), [(1, 60, 5_000), (3, 30, 2_000), (40, 2, 9), (900, 1, 9)]
)
def test_a_report_fits_a_comment_with_the_numbers_of_all_runs_first(
    runs: int, count: int, letters: int
) -> None:
    long_run = _make_long_run(count, letters)
    reports = [replace(long_run, run=replace(long_run.run, id=f"run-{number:03}")) for number in range(runs)]
    text = render_markdown(*reports)
    assert len(text.encode("utf-16-le")) // 2 <= 65_536
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```text") * 2 == text.count("```")
    for number in range(min(runs, 100)):
        assert f"`run-{number:03}`" in text
    if runs * count * letters > 60_000:
        assert "more: `proctor runs export run-000 -o report.html` shows them." in text
    if runs == 900:
        assert "…and 800 more runs." in text
        assert text.endswith("`-o report.html` has every run with its trials.\n")


def test_a_long_answer_is_cut_with_the_length_of_the_rest() -> None:
    text = render_markdown(make_report((make_trial("x" * 10_000), make_case())))
    assert "x… (7,000 more characters)" in text


@given(st.text(alphabet="<>&\"'`*_@#1[]\\ab \n", max_size=40))
def test_no_name_or_reason_breaks_out_of_its_line(text: str) -> None:
    trial = make_trial("4", make_score(0.0, name=text, reason=text), case_id=text)
    markdown = render_markdown(make_report((trial, make_case(text))))
    (line,) = [line for line in markdown.splitlines() if line.startswith("<details>")]
    tags = re.findall(r"<[^>]*>?", line.replace("<!-- -->", ""))
    assert tags == ["<details>", "<summary>", "<b>", "</b>", "<code>", "</code>", "</summary>"]
    assert not re.search(r"(?<!\w)@\w", line)

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
from proctor.safe_text import escape_invisible
from support.builders import make_case, make_report, make_score, make_trial
from support.golden import assert_golden


def rendered(*runs: RunReport) -> str:
    return "".join(render(runs))


def blocks(text: str) -> list[str]:
    """What stands in fenced blocks, by CommonMark's rule: closed by as many backticks or more, alone."""
    found: list[str] = []
    fence, inside = "", list[str]()
    for line in text.split("\n"):
        if not fence:
            opened = re.fullmatch(r"(`{3,})text", line)
            fence = opened.group(1) if opened else ""
            continue
        closed = re.fullmatch(r" {0,3}(`{3,})[ \t]*", line)
        if closed and len(closed.group(1)) >= len(fence):
            found.append("\n".join(inside))
            fence, inside = "", []
        else:
            inside.append(line)
    assert not fence
    return found


def test_the_file_is_its_golden_file(mixed: RunReport) -> None:
    assert_golden(Path(__file__).parent / "golden" / "mixed.md", rendered(mixed))


def test_what_did_not_pass_is_shown_with_question_and_answer(mixed: RunReport) -> None:
    shown = blocks(rendered(mixed))
    assert shown == [
        escape_invisible(text)
        for row in mixed.rows()
        if row.verdict != "pass"
        for text in (
            "\n".join(
                f"{message.role}: {message.content}" if len(row.case.input) > 1 else message.content
                for message in row.case.input
            ),
            *([row.trial.output.text] if row.trial.output is not None else []),
        )
    ]


@given(st.text(alphabet="`~ \n\tab", max_size=40))
def test_no_answer_breaks_out_of_its_fence(answer: str) -> None:
    text = rendered(make_report((make_trial(answer), make_case("c", answer))))
    assert blocks(text) == [answer, answer]


def test_a_name_cannot_break_a_heading_or_a_table(mixed: RunReport) -> None:
    lines = rendered(mixed).splitlines()
    assert r"# kitchen \| \<sums\> v2 on openai:m-1" in lines
    assert r"| \| pipe \| | 0 | 1 | 0.0% | 0–79% |" in lines
    assert any("<b>error</b> <code>two lines</code> timeout:" in line for line in lines)
    assert any(
        "<b>fail</b> <code>fence `x`</code> exact: wanted `````` and &lt;b&gt;" in line for line in lines
    )
    assert {line.replace(r"\|", "").count("|") for line in lines if line.startswith("| ")} == {6}


@pytest.mark.parametrize("count", [50, 51, 60])
def test_at_most_fifty_are_shown_and_the_others_counted(count: int) -> None:
    text = rendered(
        make_report(
            *[(make_trial(None, case_id=str(number)), make_case(str(number))) for number in range(count)]
        )
    )
    assert text.count("<details>") == text.count("</details>") == 50
    assert ("…and" in text) == (count > 50)
    assert count == 50 or f"…and {count - 50} more that did not pass" in text


def test_where_all_passed_nothing_is_listed() -> None:
    text = rendered(make_report((make_trial("4", make_score(1.0)), make_case())))
    assert "**1 of 1 passed** (100.0%, 95 % interval 21–100%)" in text
    assert "## Not passed" not in text


def test_a_run_of_nothing_has_dashes_for_its_rates() -> None:
    assert "**0 of 0 passed** (–, 95 % interval –)" in rendered(make_report())


def _loud(count: int, letters: int, **fields: Any) -> RunReport:
    """A run of so many trials that failed with answers of so many letters."""
    numbers = range(count)
    pairs = [(make_trial("😀" * letters, case_id=f"c{n}"), make_case(f"c{n}")) for n in numbers]
    return make_report(*pairs, **fields)


@pytest.mark.parametrize(
    ("runs", "count", "letters"), [(1, 60, 5_000), (3, 30, 2_000), (40, 2, 9), (900, 1, 9)]
)
def test_a_report_fits_a_comment_with_the_numbers_of_all_runs_first(
    runs: int, count: int, letters: int
) -> None:
    loud = _loud(count, letters)
    made = [replace(loud, run=replace(loud.run, id=f"run-{number:03}")) for number in range(runs)]
    text = rendered(*made)
    assert len(text.encode("utf-16-le")) // 2 <= 65_536
    assert text.count("<details>") == text.count("</details>")
    assert text.count("```text") * 2 == text.count("```")
    for number in range(min(runs, 100)):
        assert f"`run-{number:03}`" in text
    if runs * count * letters > 60_000:
        assert "more that did not pass: `proctor runs export run-000 -o report.html` shows them." in text
    if runs == 900:
        assert "…and 800 more runs." in text
        assert text.endswith("`-o report.html` has every run with its trials.\n")


def test_a_long_answer_is_cut_with_a_word_on_the_rest() -> None:
    text = rendered(make_report((make_trial("x" * 10_000), make_case())))
    assert "x… (7,000 more characters)" in text


@given(st.text(alphabet="<>&\"'`*_@#1[]\\ab \n", max_size=40))
def test_no_name_or_reason_breaks_out_of_its_line(text: str) -> None:
    made = make_trial("4", make_score(0.0, name=text, reason=text), case_id=text)
    found = rendered(make_report((made, make_case(text))))
    (line,) = [line for line in found.splitlines() if line.startswith("<details>")]
    tags = re.findall(r"<[^>]*>?", line.replace("<!-- -->", ""))
    assert tags == ["<details>", "<summary>", "<b>", "</b>", "<code>", "</code>", "</summary>"]
    assert not re.search(r"(?<!\w)@\w", line)

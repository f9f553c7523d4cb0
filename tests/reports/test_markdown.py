"""Runs to Markdown that shows every text as it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.model import Case, Trial
from proctor.reports.markdown import render
from proctor.reports.rows import Reported


def rendered(*runs: Reported) -> str:
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


def test_the_file_is_its_golden_file(mixed: Reported, golden: Callable[[Path, str], None]) -> None:
    golden(Path(__file__).parent / "golden" / "mixed.md", rendered(mixed))


def test_what_did_not_pass_is_shown_with_question_and_answer(mixed: Reported) -> None:
    shown = blocks(rendered(mixed))
    assert shown == [
        text
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
def test_no_answer_breaks_out_of_its_fence(
    trial: Callable[..., Trial], case: Callable[..., Case], reported: Callable[..., Reported], answer: str
) -> None:
    text = rendered(reported((trial(answer), case("c", answer))))
    assert blocks(text) == [answer, answer]


def test_a_name_cannot_break_a_heading_or_a_table(mixed: Reported) -> None:
    lines = rendered(mixed).splitlines()
    assert r"# kitchen \| \<sums\> v2 on openai:m-1" in lines
    assert r"| \| pipe \| | 0 | 1 | 0.0% | 0–79% |" in lines
    assert "### two lines: error" in lines
    assert r"### fence \`x\`: fail" in lines
    assert {line.replace(r"\|", "").count("|") for line in lines if line.startswith("| ")} == {6}


@pytest.mark.parametrize("count", [50, 51, 60])
def test_at_most_fifty_are_shown_and_the_others_counted(
    trial: Callable[..., Trial], case: Callable[..., Case], reported: Callable[..., Reported], count: int
) -> None:
    text = rendered(
        reported(*[(trial(None, case_id=str(number)), case(str(number))) for number in range(count)])
    )
    assert text.count("\n### ") == 50
    assert ("…and" in text) == (count > 50)
    assert count == 50 or f"…and {count - 50} more." in text


def test_where_all_passed_nothing_is_listed(
    trial: Callable[..., Trial],
    case: Callable[..., Case],
    reported: Callable[..., Reported],
    score: Callable[..., object],
) -> None:
    text = rendered(reported((trial("4", score(1.0)), case())))
    assert "**1 of 1 passed** (100.0%, 95 % interval 21–100%)" in text
    assert "## Not passed" not in text


def test_a_run_of_nothing_has_dashes_for_its_rates(reported: Callable[..., Reported]) -> None:
    assert "**0 of 0 passed** (–, 95 % interval –)" in rendered(reported())

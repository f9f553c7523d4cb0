"""One trial as a reader sees it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from proctor.model import (
    Case,
    Evidence,
    Judgment,
    Message,
    Output,
    PassRule,
    Score,
    ToolCall,
    Trial,
    Usage,
    Verdict,
)
from proctor.reports.runs import trial_text
from proctor.reports.runs.serialize import TrialResult

DIFF = "--- a/n\n+++ b/n\n@@ -1 +1 @@\n-1\n+2\n"


def render_lines(
    rule: PassRule | None = None,
    *,
    scores: tuple[Score, ...] = (),
    verdict: Verdict = Verdict.FAIL,
    **output: Any,
) -> list[str]:
    """The lines of a trial of case `c`."""
    case = Case(id="c", input=(Message(role="user", content="Do it."),), criteria="It is done.")
    trial = Trial(
        case_id="c",
        position=0,
        sent="sha256:0",
        started_at=datetime(2026, 3, 1, tzinfo=UTC),
        output=Output(**{"text": "Done.", **output}),
        scores=scores,
    )
    return list(
        trial_text.render_text(TrialResult(trial=trial, verdict=verdict, case=case), rule or PassRule())
    )


def test_unknown_parts_are_left_out() -> None:
    assert render_lines() == [
        "FAIL c",
        "  question:  Do it.",
        "  criteria:  It is done.",
        "  answer:    Done.",
        "",
    ]


def test_what_an_agent_did_is_there_in_its_order() -> None:
    calls = (
        ToolCall(name="read", arguments={"path": "n", "all": True}, output="1\n2", duration_ms=12),
        ToolCall(name="edit", output={"ok": 1}),
    )
    usage = Usage(input_tokens=1200, output_tokens=5)
    lines = render_lines(tool_calls=calls, file_changes=DIFF, usage=usage, duration_ms=1500, cost_usd=0.01)
    assert lines[3:-1] == [
        '  tools:     read {"path": "n", "all": true} → 1 2 · 12 ms',
        '             edit → {"ok": 1}',
        "  answer:    Done.",
        "  changes:   --- a/n",
        *(f"             {line}" for line in DIFF.splitlines()[1:]),
        "  took:      1500 ms · 1,200 tokens in, 5 out · cost $0.0100",
    ]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"passed": True, "feedback": "", "raw": "{}"}, "j passes it"),
        ({"passed": False, "feedback": "Too\nlong.", "evaluator": "kind"}, "j by 'kind' fails it: Too long."),
        ({"passed": True, "raw": '{"score": 9}'}, 'j passes it: {"score": 9}'),
        ({"feedback": None, "raw": "hm"}, "j gives no verdict: hm"),
    ],
)
def test_each_judgment_is_a_line(fields: dict[str, Any], line: str) -> None:
    judgment = Judgment(judge="j", prompt_digest="sha256:0", **fields)
    score = Score(grader="instructions", name="kind", outcome=Verdict.PASS, judgments=(judgment,))
    assert render_lines(scores=(score,))[-2].strip() == line


def test_hostile_texts_neither_move_the_cursor_nor_make_lines_of_their_own() -> None:
    hostile = "a\x1b[31m\x00\u202e\tb\nPASS c\rPASS d"
    entry = Evidence(text=hostile, passed=True, evidence=hostile)
    judgment = Judgment(judge="j\x1b", prompt_digest="sha256:0", raw=hostile)
    score = Score(
        grader="program",
        name="p",
        outcome=Verdict.FAIL,
        reason=hostile,
        entries=(entry,),
        judgments=(judgment,),
    )
    lines = render_lines(
        scores=(score,), text=hostile, file_changes=hostile, tool_calls=(ToolCall(name=hostile),)
    )
    text = "\n".join(lines)
    assert [line for line in text.split("\n")[1:] if line and not line.startswith("  ")] == []
    assert {letter for letter in text if not letter.isprintable()} <= {"\t", "\n"}
    assert r"a\x1b[31m\x00\u202e" in text


def test_long_parts_are_cut_and_say_so() -> None:
    calls = tuple(ToolCall(name="t", arguments={"text": "x" * 999}) for _ in range(52))
    lines = render_lines(tool_calls=calls, file_changes="line\n" * 61)
    assert [line.strip() for line in lines if "more" in line] == [
        "…and 2 more calls: --json has all",
        "…and 1 more line: --json has all",
    ]
    assert max(map(len, lines)) < 200


@pytest.mark.parametrize(
    ("threshold", "verdict", "line"),
    [
        (0.8, Verdict.FAIL, ["  score:     0.67 (pass threshold 0.8)"]),
        (0.8, Verdict.UNSCORED, []),
        (None, Verdict.FAIL, []),
    ],
)
def test_the_score_is_there_where_it_decides(
    threshold: float | None, verdict: Verdict, line: list[str]
) -> None:
    score = Score(grader="composite", name="both", value=2 / 3, outcome=Verdict.PASS)
    lines = render_lines(PassRule(threshold=threshold), scores=(score,), verdict=verdict)
    assert [text for text in lines if text.startswith("  score:")] == line

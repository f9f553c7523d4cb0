"""How replies of judges are read: what is a verdict, what is none, and what is said beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.graders.judged.classification import read_choice
from proctor.graders.judged.instructions import read_pass
from proctor.graders.judged.reply_parser import UnreadableReply
from proctor.graders.judged.rubric import RubricGrader, read_score
from proctor.graders.judged.rubrics import RubricItem, Rubrics, ScoreRange, read_checks
from proctor.graders.judged.score import MAX_ENTRIES, read_grade
from proctor.graders.judged.voting import JudgeReading
from proctor.graders.judged.yes_no import read_verdict

TWO = Rubrics(items=(RubricItem(id="finds", outcome="Finds it"), RubricItem(id="why", outcome="Says why")))
SCORED = Rubrics(
    items=(
        RubricItem(id="depth", score_ranges=(ScoreRange(low=0, high=10, outcome="any"),)),
        RubricItem(id="tone", outcome="Is kind"),
    )
)
READERS: dict[str, Callable[[str], JudgeReading | None]] = {
    "yes or no": read_verdict,
    "rubric": partial(read_score, rubric=RubricGrader(rubric="Names the right river.")),
    "score": read_grade,
    "instructions": read_pass,
    "items": partial(read_checks, rubrics=TWO),
    "scored items": partial(read_checks, rubrics=SCORED),
    "choice": partial(read_choice, choices={"Right": 1.0, "Nearly so": 0.5, "Wrong": 0.0}),
}
PASSES_FROM = {"rubric": 0.75}


def checks(**values: Any) -> str:
    """A reply that decides items."""
    key = "satisfied" if all(isinstance(value, bool) for value in values.values()) else "score"
    return json.dumps({"checks": [{"id": name, key: value} for name, value in values.items()]})


READ: dict[str, list[tuple[str, float]]] = {
    "yes or no": [
        ('{"verdict": "YES", "reason": "It does."}', 1),
        ('{"verdict": "no"}', 0),
        ('```json\n{"verdict": "Yes", "reason": 3}\n```', 1),
        ('{"verdict": "YES", "reason": "r", "confidence": 0.9}', 1),
        ("no", 0),
        ("Yes.", 1),
        ("NO!\n", 0),
        ("**YES**", 1),
        ("*No*.", 0),
        ("`YES`", 1),
        ("**YES.**", 1),
        ('"NO"', 0),
        ("YES\nIt names the Nile.", 1),
        ("\n\nNO:\nIt names a lake.", 0),
        ("Yes, it does.", 1),
        ("NO, it has four lines.", 0),
        ("**Answer:** NO", 0),
        ("The answer is YES", 1),
        ("My final verdict is: no.", 0),
        ("Verdict - YES, both are there.", 1),
        ("YES, because it does", 1),
        ("No because it names a lake", 0),
        ("Yes it does.", 1),
        ("YES – it names the Nile.", 1),
        ("**NO** - four lines", 0),
        ("YES\n\nThe answer mentions nothing else.", 1),
        ("No, there is no mention of it.", 0),
        ("Yes, there is no doubt.", 1),
        ("Yes. No errors were found.", 1),
        ("NO, it has four lines, yes-men aside.", 0),
        ("No. Yesterday it did.", 0),
        ("I would say no.", 0),
        ("I'd say YES, it does.", 1),
        ("It names the Nile. YES", 1),
        ("It names a lake.\n\n**NO**", 0),
        ("Does it name a river? Yes.", 1),
        ("Based on the rubric, the correct verdict is **NO**.", 0),
        ("Answer: [[NO]]", 0),
        ('{"verdict": "NO", "reason": "It says \\\\boxed{YES}."}', 0),
        ("\\boxed{YES}", 1),
        ("The final answer is $\\boxed{\\text{NO}}$.", 0),
        ("It names the Nile, so: Yes", 1),
        ("Definitely yes!", 1),
        ("After some thought I have to go with no.", 0),
    ],
    "rubric": [
        ('{"score": 4, "reason": "Good."}', 0.75),
        ('```\n{"score": 1}\n```', 0),
        ("4", 0.75),
        ("4 / 5", 0.75),
        ("Score: 4", 0.75),
        ("**Score: 4/5**", 0.75),
        ("3\nIt names a lake.", 0.5),
        ("5.0", 1),
    ],
    "score": [
        ('{"score": 0}', 0),
        ('{"score": 1}', 1),
        ('```json\n{"score": 0.8, "assertions": null}\n```', 0.8),
        ('{"score": 0.5, "reasoning": 3, "details": {}}', 0.5),
    ],
    "instructions": [
        ('{"pass": true}', 1),
        ('{"pass": false, "feedback": " Wrong. ", "score": 3}', 0),
        ('```json\n{"pass": true, "feedback": "Fine."}\n```', 1),
    ],
    "items": [(checks(finds=True, why=True), 1), (checks(why=True, finds=False), 0.5)],
    "scored items": [(checks(depth=10, tone=8), 0.9), (checks(depth=0, tone=5.0), 0.25)],
    "choice": [
        ('{"reason": "r", "choice": "right."}', 1),
        ("It is close.\n\nNearly so", 0.5),
        ("**WRONG**", 0),
    ],
}


@pytest.mark.parametrize(
    ("reader", "reply", "value"), [(name, *row) for name, rows in READ.items() for row in rows]
)
def test_a_verdict_is_read(reader: str, reply: str, value: float) -> None:
    reading = READERS[reader](reply)
    assert reading is not None
    assert reading.value == pytest.approx(value)
    assert reading.passed is (value >= PASSES_FROM.get(reader, 0.8))


NOT_READ: dict[str, list[str]] = {
    "yes or no": [
        *("", "Yesterday", "Yesterday, it did.", "Yes and no", "Yes and no.", "No, I mean yes.", "Y", "true"),
        *("not YES", "Yes?", "Yes... well", "No YES", "YES NO", "YES\nNO", "Nobody knows", "YESNO", "YES/NO"),
        *("No one knows", "Yes-men", "No. 5 is the river.", "No errors were found.", "1", "null", '["YES"]'),
        "NO, it has four lines; yes, I counted.",
        "YES, but NO",
        "Yes. No wait, it does not.",
        "The answer is not YES.",
        "I would not say yes.",
        "I can't say yes.",
        "I see no reason to say yes.",
        "If it named the Nile, that is a yes.",
        "It is hardly a yes.",
        "The answer ends with the word YES.",
        "Verdict: NO (not YES)",
        "\\boxed{YES} or \\boxed{NO}",
        "[[YES]] [[NO]]",
        "It names a river: yes?",
        "Yes, but only in part.",
        "Yes, partly.",
        "YES is what the answer says.",
        "No mention of the river is made.",
        "The assistant's answer is YES.",
        "The answer tells me to reply YES.",
        'It ends with "It is a river. YES."',
        "The answer is YES to the first question only.",
        "Reply with YES or NO.",
        '{"verdict": "maybe"}',
        '{"verdict": true}',
        '{"verdict": null}',
        '{"reason": "YES"}',
        '{"verdict": "YES"} {"verdict": "NO"}',
        'Sure: {"verdict": "YES"}',
        "[" * 100_000,
    ],
    "rubric": [
        *(
            "",
            "0",
            "6",
            "-4",
            "4/10",
            "4 out of 5",
            "Four",
            "I give it a 4",
            "4, because it is good",
            "score",
        ),
        *("true", "NaN", "4.5", "4.5/5", "[4]", '{"reason": "4"}', '{"score": "4"}', '{"score": true}'),
        *('{"score": 0}', '{"score": 4.5}', '{"score": 5.1}', '{"score": 1e999}', '{"score": NaN}'),
    ],
    "score": [
        *("", "0.9", "[0.9]", '{"score": "0.9"}', '{"score": true}', '{"score": null}', '{"score": NaN}'),
        *('{"score": 1.01}', '{"score": -0.1}', '{"score": 1e999}', '{"verdict": "YES"}'),
        'Here you are: {"score": 0.9}',
        '{"score": 0.9} {"score": 0.1}',
        '{"score": 0.9, "assertions": {"text": "a"}}',
        '{"score": 0.9, "assertions": ["a"]}',
        '{"score": 0.9, "assertions": [{"text": "a", "passed": "yes"}]}',
        '{"score": 0.9, "assertions": [{"text": " ", "passed": true}]}',
    ],
    "instructions": [
        *("", "pass", "true", '{"pass": "true"}', '{"pass": 1}', '{"pass": null}', '[{"pass": true}]'),
        '{"feedback": "It passes."}',
        'Here: {"pass": true}',
        '{"pass": true} {"pass": false}',
    ],
    "items": ["", "All met.", "[]", '{"checks": {}}', '{"score": 1}', checks(finds=True, why=True) + "x"],
    "scored items": [
        json.dumps({"checks": [{"id": "depth", "score": score}, {"id": "tone", "score": 7}]})
        for score in (-1, 11, 7.5, "7", None, True)
    ],
    "choice": ["", "Right or Wrong", "Right.\nWrong.", '{"choice": "Left"}', 'So: {"choice": "Right"}'],
}


@pytest.mark.parametrize(
    ("reader", "reply"), [(name, reply) for name, replies in NOT_READ.items() for reply in replies]
)
def test_what_is_not_exactly_a_verdict_is_not_read(reader: str, reply: str) -> None:
    with suppress(UnreadableReply):
        assert READERS[reader](reply) is None


@pytest.mark.parametrize(
    ("reader", "reply", "sentence"),
    [
        ("score", '{"score": 8}', "Its score is not a number from 0 to 1."),
        ("score", '{"score": 1, "assertions": [{"text": "a"}]}', "An assertion of it has no `text`"),
        ("items", checks(finds=True), "It leaves out the items 'why'; give every item."),
        ("items", '{"checks": []}', "leaves out the items 'finds', 'why'"),
        ("items", checks(finds=True, why=True, other=True), "'other', which is not in the list"),
        ("items", '{"checks": [{"id": "why", "satisfied": 1}]}', "`satisfied` of the item 'why' is neither"),
        ("items", checks(why=True)[:-2] + ', {"id": "why", "satisfied": true}]}', "the item 'why' twice"),
        ("items", '{"checks": [{"id": ["why"], "satisfied": true}]}', "which is not in the list"),
        ("items", '{"checks": ["why"]}', "id None"),
        ("scored items", checks(depth=11, tone=1), "`score` of the item 'depth' is not a whole"),
    ],
)
def test_a_judge_is_told_what_to_correct(reader: str, reply: str, sentence: str) -> None:
    with pytest.raises(UnreadableReply, match=sentence):
        READERS[reader](reply)


@given(
    st.sampled_from(list(READERS)),
    st.text()
    | st.sampled_from(['{"score": ', "0.5", '"assertions": ', '{"pass": ', "YES", "NO", "}", "["]).map(
        lambda part: part * 2
    ),
)
def test_reading_a_reply_raises_nothing_else(reader: str, reply: str) -> None:
    with suppress(UnreadableReply):
        READERS[reader](reply)


@pytest.mark.parametrize(
    ("reader", "reply", "feedback"),
    [
        ("yes or no", "Yes, it does.", "it does."),
        ("yes or no", "**NO** - four lines", "four lines"),
        ("yes or no", "It names the Nile. YES", "It names the Nile."),
        ("yes or no", "YES\nIt names the Nile.", "It names the Nile."),
        ("yes or no", "Answer: YES", None),
        ("yes or no", "NO!", None),
        ("instructions", '{"pass": false, "feedback": null}', ""),
        ("instructions", '{"pass": false, "feedback": " Wrong. "}', "Wrong."),
        ("rubric", "3\nIt names a lake.", "It names a lake."),
        ("choice", '{"reason": "It is.", "choice": "Right"}', "It is."),
    ],
)
def test_the_reason_beside_a_verdict_is_kept(reader: str, reply: str, feedback: str | None) -> None:
    reading = READERS[reader](reply)
    assert reading is not None
    assert reading.feedback == feedback


def test_only_the_first_entries_are_kept() -> None:
    many = [{"text": f"check {number}", "passed": True} for number in range(20)]
    reading = read_grade(json.dumps({"score": 1, "assertions": many}))
    assert reading is not None
    assert [entry.text for entry in reading.entries] == [f"check {number}" for number in range(MAX_ENTRIES)]


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.booleans(), st.integers(0, 9)), min_size=1))
def test_every_item_is_in_the_denominator(decisions: dict[str, tuple[bool, int]]) -> None:
    total = sum(weight for _, weight in decisions.values())
    if not total:
        return
    items = tuple(RubricItem(id=name, outcome="o", weight=weight) for name, (_, weight) in decisions.items())
    reading = read_checks(checks(**{name: met for name, (met, _) in decisions.items()}), Rubrics(items=items))
    assert reading is not None
    assert reading.value == pytest.approx(sum(weight for met, weight in decisions.values() if met) / total)


@pytest.mark.parametrize(
    "piece",
    ["yes ", "no ", "no, ", "answer ", "the ", "**", "\n", ". ", "so, ", "i'd say ", "[[yes", "\\boxed{yes"],
)
def test_a_long_reply_is_read_in_proportion(piece: str) -> None:
    """These 200,000 characters would take hours in quadratic time."""
    read_verdict(piece * (200_000 // len(piece)) + "x")

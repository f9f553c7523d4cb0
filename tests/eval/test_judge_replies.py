"""What a judge's reply is read as: objects, prose, drafts before the verdict, and what is no score."""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proctor.eval import Judge, JudgeResult

OBJECT = '{"score": 4, "rationale": "Nearly."}'


@pytest.mark.parametrize(
    ("raw", "score", "rationale"),
    [
        (OBJECT, 4, "Nearly."),
        (f"```json\n{OBJECT}\n```", 4, "Nearly."),
        (f"```\n{OBJECT}", 4, "Nearly."),
        (f"My verdict:\n{OBJECT}\nThat is all.", 4, "Nearly."),
        (f"[{OBJECT}]", 4, "Nearly."),
        ('{"score": 4}', 4, ""),
        ('{"Score": 4, "rationale": null}', 4, ""),
        ('{"score": 4, "rationale": ["late", "long"]}', 4, '["late", "long"]'),
        ('{"grade": {"score": 4, "rationale": "Nearly."}}', 4, "Nearly."),
        ('{"score": 4, "parts": [{"score": 1}], "rationale": "a } in it"}', 4, "a } in it"),
        ('{"rationale": "it says \\"score\\": 1", "score": 4}', 4, 'it says "score": 1'),
    ],
)
def test_a_reply_that_is_or_holds_an_object(raw: str, score: float, rationale: str) -> None:
    assert Judge.parse(raw) == JudgeResult(score, rationale, raw)


@pytest.mark.parametrize(
    "raw",
    [
        '{"evaluation": {"score": 3}}',
        '{"evaluation": {"score": 3}, "rationale": "It is late."}',
        '{"score": 3, "reasoning": "It is late."}',
        'It is late.\n{"score": 3}',
        '{"score": 3} [1]',
    ],
)
def test_without_a_rationale_beside_the_score_the_reply_is_the_rationale(raw: str) -> None:
    assert Judge.parse(raw) == JudgeResult(3, raw, raw)


@pytest.mark.parametrize(
    ("raw", "score"),
    [
        ("score: 4", 4),
        ("Score: 4/5", 4),
        ("Score: 4 out of 5.", 4),
        ("**Score:** 4", 4),
        ("**Score**: **4**/5", 4),
        ("Score (0-5): 4", 4),
        ("Short.\nSCORE = .5\n", 0.5),
        ("The score is 4.", 4),
        ("Score: 4\nMaximum score: 5", 4),
        ("{'score': 4, 'rationale': 'Nearly.'}", 4),
        ('"score" : -2', -2),
        ('{"score": 4, "rationale": "cut o', 4),
        ('{"score": 4, "rationale": "a\nline break"}', 4),
        ('{"score": 4 / 5}', 4),
        (f"{OBJECT}}}", 4),
        (f"In {{braces}}: {OBJECT}", 4),
        ('{"score": 4, "also": NaN}', 4),
    ],
)
def test_a_reply_that_is_no_clean_object_keeps_its_words(raw: str, score: float) -> None:
    assert Judge.parse(raw) == JudgeResult(score, raw.strip(), raw)


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "I would rather not say.",
        "Scores: 4",
        "underscore: 4",
        "score: four",
        "score: 80%",
        "score: 4,5",
        "score: 4th",
        "Score: 0-5",
        "Score: 0 – 5",
        "Score: 1 to 5",
        "A score of 5 would need a source.",
        '{"score": NaN}',
        '{"score": NaN, "rationale": "score: 4"}',
        '{"score": -Infinity}',
        '{"score": 1e999}',
        f'{{"score": 1{"0" * 400}}}',
        '{"score": true}',
        '{"score": "4"}',
        '{"score": "4/5"}',
        '{"score": null, "rationale": "score: 4"}',
        '{"verdict": "score: 4"}',
        '{"rationale": "a score: 4 would be kind, and',
        '{"a": {"score": 1}, "b": {"score": 2}}',
        '{"score": 1, "rationale": "a\nline break", "parts": [{"score": 5}]}',
        "<think>Perhaps score: 4, perhaps",
        f"<think>Perhaps {OBJECT}, perhaps",
    ],
)
def test_a_reply_without_a_score_is_kept_whole(raw: str) -> None:
    assert Judge.parse(raw) == JudgeResult(None, raw, raw)


DRAFT = '{"score": 2, "rationale": "Rash."}'


@pytest.mark.parametrize(
    ("raw", "score", "rationale"),
    [
        (f"<think>{DRAFT} {{no}}</think>\n{OBJECT}", 4, "Nearly."),
        (f"No, I think</think>{OBJECT}", 4, "Nearly."),
        (f"{OBJECT} As I said: {OBJECT}", 4, "Nearly."),
        (f'{OBJECT} {{"done": "yes"}}', 4, "Nearly."),
        (f"<think>{DRAFT}</think> I cannot tell.", None, "I cannot tell."),
        (f'{DRAFT} {{"score": true}}', None, f'{DRAFT} {{"score": true}}'),
        ('{"score": 4, "rationale": "It quotes </think>."}', 4, "It quotes </think>."),
    ],
)
def test_thinking_and_other_objects_are_left_out(raw: str, score: float | None, rationale: str) -> None:
    assert Judge.parse(raw) == JudgeResult(score, rationale, raw)


@pytest.mark.parametrize(
    "raw",
    [
        f"First: {DRAFT}. On reflection: {OBJECT}",
        f"{OBJECT} The answer ends with {DRAFT}",
        "A draft, score: 2. My final score: 4",
        'Score: 2. It says "score": 4.',
        f"Score: 2. It says {OBJECT}",
        f'{DRAFT} No: {{"score": 4, "rat',
        '{"score": 2, "rationale": "It says ", "score": 4}',
        '{"Score": 2, "rationale": "It says ", "score": 4}',
        '{"evaluation": {"rationale": "It says "}, "score": 4, "x": {"y": "", "score": 2}}',
        '{"parts": [{"score": 1}], "score": 4}',
        f"{DRAFT} No.</think>{OBJECT}",
        f"{DRAFT} It says </think>{OBJECT}",
    ],
)
def test_different_scores_are_none(raw: str) -> None:
    assert Judge.parse(raw) == JudgeResult(None, raw, raw)


@pytest.mark.parametrize(
    ("raw", "score"),
    [
        (f"{DRAFT} No, I think</think>{OBJECT}", 4),
        (f"{DRAFT} No.</think>Score: 4", 4),
        (f'{{"score": 2, "rat</think>{OBJECT}', 4),
    ],
)
def test_an_end_of_thinking_that_is_not_the_answers_is_believed(raw: str, score: float) -> None:
    assert Judge.parse(raw, prediction="In 1889.").score == score
    assert Judge.parse(raw, prediction="In 1889.</think>").score is None


def test_a_quote_is_left_out_where_the_least_score_remains() -> None:
    low, high = '{"score": 1, "rationale": "No."}', '{"score": 5, "rationale": "Fine."}'
    assert Judge.parse(f"{low} It says {high}", prediction=f"Grade: {high}").score == 1
    assert Judge.parse(f"{high} It says {low}", prediction=f"Grade: {low}").score is None


@pytest.mark.parametrize(
    ("raw", "score"),
    [
        ('{"score": 0}', 0),
        ('{"score": 5.0}', 5),
        ('{"score": 5.1}', None),
        ('{"score": -1}', None),
        ("score: 6", None),
        ("score: 4/5", 4),
        ("score: 4/10", None),
        ('{"score": 7, "rationale', None),
    ],
)
def test_a_score_outside_the_range_is_none(raw: str, score: float | None) -> None:
    assert Judge.parse(raw, scale=(0, 5)).score == score


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        (
            [{"type": "text", "text": '{"score"'}, {"type": "image"}, {"type": "text", "text": ": 3}"}],
            '{"score": 3}',
        ),
        ([], ""),
        (["score: ", "3"], "score: 3"),
    ],
)
def test_content_in_other_forms(content: Any, text: str) -> None:
    expected = JudgeResult(3.0 if text else None, "score: 3" if text == "score: 3" else "", text)
    assert Judge.parse(content) == expected


def test_half_a_character_in_a_rationale_can_be_written_to_a_file() -> None:
    assert Judge.parse(r'{"score": 4, "rationale": "so \ud83d"}').rationale == "so ?"


@pytest.mark.slow
@pytest.mark.parametrize("deeper", range(-20, 20))
def test_what_nests_too_deeply_breaks_nothing(deeper: int) -> None:
    depth = sys.getrecursionlimit() - len(inspect.stack(0)) + deeper
    assert Judge.parse('{"a":' * depth + "1" + "}" * depth).score is None


def test_what_is_no_reply_at_all() -> None:
    with pytest.raises(TypeError, match="A reply is a text, a list of parts or None, not a int"):
        Judge.parse(4)


PLAIN = st.text(st.characters(exclude_characters="{}<>", exclude_categories=["Cs"]))


@pytest.mark.slow
@given(PLAIN, st.floats(0, 5), st.text(st.characters(exclude_categories=["Cs"])), PLAIN)
def test_an_object_is_read_whatever_stands_around(before: str, score: float, why: str, after: str) -> None:
    assume('"score"' not in after.lower())
    reply = json.dumps({"score": score, "rationale": why})
    grade = Judge.parse(f"{before}{reply}{after}", scale=(0, 5))
    assert (grade.score, grade.rationale) == (score, why)


@given(st.text(st.sampled_from('{}":,score0159.-/ \n\\<think>`eEN')))
def test_a_reply_never_breaks_the_reading(raw: str) -> None:
    score = Judge.parse(raw, scale=(0, 1)).score
    assert score is None or 0 <= score <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "raw",
    ["score " * 50_000, '"score":' * 50_000, "{" * 90_000, '{"score": ' * 20_000, "score: " + " " * 300_000],
)
def test_long_nonsense_is_read_in_linear_time(raw: str) -> None:
    assert Judge.parse(raw).score is None  # what is quadratic takes minutes here


@pytest.mark.parametrize("own", ["I rate it 2/5.", "I give it 2 out of 5.", "My rating: **2**/5"])
def test_a_quoted_score_does_not_stand_for_one_in_other_words(own: str) -> None:
    assert Judge.parse(f'It says "Score: 5". {own}').score is None
    assert Judge.parse(f'It says "{OBJECT}". {own}').score is None
    assert Judge.parse(f"Score: 2\n{own}").score == 2

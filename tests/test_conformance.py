"""The 14 checks of a target: one answer to everything counts for nothing, and right answers for all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.conformance import (
    CHECKS,
    GUARD_CHECKS,
    CheckVerdict,
    Conformance,
    Question,
    Reply,
    make_checks,
    score_checks,
)
from proctor.conformance.checks import MAX_TOKENS_ASKED
from proctor.conformance.expectations import ExpectedJson, ExpectedNumber, ExpectedWords
from proctor.graders.lexicons.matcher import find_refusal
from proctor.stats import wilson

SEEDS = st.integers(0, 2**32)
Answering = Callable[[Question], str]


def put(answer: Answering, seed: int = 7, **told: object) -> Conformance:
    """What the checks come to where each question has that answer."""
    asked = make_checks(seed)
    return score_checks(asked, [[reply(answer(q), **told) for q in check.questions] for check in asked])


def reply(text: str, **told: object) -> Reply:
    return replace(Reply(text=text, is_refusal=find_refusal(text) is not None), **told)


def verdicts(found: Conformance) -> dict[str, CheckVerdict]:
    return {one.check.name: one.verdict for one in found.outcomes}


def last(question: Question) -> str:
    return question.messages[-1].content


def whole(question: Question) -> str:
    return "\n".join(message.content for message in question.messages)


def keywords(seed: int) -> list[str]:
    """All that is expected anywhere."""
    return [question.expected.description for check in make_checks(seed) for question in check.questions]


@pytest.fixture(scope="module")
def capable() -> ModuleType:
    spec = spec_from_file_location("capable", Path(__file__).parent / "data" / "capable.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def right(capable: ModuleType) -> Answering:
    def answer(question: Question) -> str:
        turns = [{"role": one.role, "content": one.content} for one in question.messages]
        said: str = capable.answer(turns)
        return said

    return answer


# --- who knows the answers ---------------------------------------------------------------------------------


@given(SEEDS)
def test_right_answers_pass_all_14_whatever_the_seed(right: Answering, seed: int) -> None:
    found = put(right, seed)
    assert [one.reason for one in found.outcomes] == [""] * 14
    assert (found.passed, found.total, found.ci95, found.is_certified) == (14, 14, wilson(14, 14), True)


def test_there_are_14_checks_and_a_seed_says_what_they_ask() -> None:
    assert [check.name for check in make_checks(1)] == list(CHECKS)
    assert len(CHECKS) == 14
    assert [check.questions for check in make_checks(1)] == [check.questions for check in make_checks(1)]
    assert keywords(1) != keywords(2)


@pytest.mark.parametrize(("wrong", "certified"), [(2, True), (3, False)])
def test_twelve_of_fourteen_are_enough(right: Answering, wrong: int, certified: bool) -> None:
    missed = {
        last(check.questions[0]) for check in make_checks(7) if check.name in ("unicode", "long context")
    }
    missed |= {last(make_checks(7)[-1].questions[1])} if wrong == 3 else set()
    found = put(lambda question: "no" if last(question) in missed else right(question))
    assert (found.passed, found.is_certified) == (14 - wrong, certified)


# --- who does not ------------------------------------------------------------------------------------------

CONSTANTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            '4 {"name":"x"} žluťoučký kůň úpěl ďábelské ódy',
            "MISSING",
            "I'm sorry, but I can't help with that.",
            json.dumps({key: key for key in ("city", "year", "ship", "weight", "name", "age", "answer")}),
            "0 1 2 3 4 5 6 7 8 9",
            "",
        ]
    ),
)


@given(CONSTANTS, SEEDS)
def test_no_constant_scores(text: str, seed: int) -> None:
    assert put(lambda _: text, seed).passed == 0


@pytest.mark.slow
@given(SEEDS, st.randoms(use_true_random=False), st.integers(0, 40))
def test_no_constant_made_of_what_is_expected_scores(seed: int, drawn: Random, size: int) -> None:
    words = keywords(seed)
    for text in ("\n".join(words), " ".join(drawn.sample(words, min(size, len(words))))):
        assert put(lambda _, text=text: text, seed).passed <= 1  # type: ignore[misc]


@pytest.mark.slow
@given(SEEDS)
def test_each_answer_alone_is_right_for_no_check_that_counts_by_itself(seed: int) -> None:
    asked = [check for check in make_checks(seed) if not check.needs_guards]
    for text in keywords(seed):
        for one in score_checks(asked, [[reply(text)] * len(check.questions) for check in asked]).outcomes:
            assert one.verdict is CheckVerdict.FAIL, (text, one.check.name)


def likest(question: Question, ends: str) -> str:
    """The part of all that is said that has most words in common with what is asked at the end."""
    ask = (re.findall(r"[^.?\n]*\?", whole(question)) or last(question).splitlines()[-1:] or [""])[-1]
    words = set(re.findall(r"\w+", ask.lower()))
    parts = [part for part in re.split(ends, whole(question)) if part and ask.strip() not in part]
    return max(parts, key=lambda part: len(words.intersection(part.lower().split())), default="")


ECHOES: dict[str, Answering] = {
    "the last message": last,
    "the first message": lambda question: question.messages[0].content,
    "all messages": whole,
    "all messages as JSON": lambda question: json.dumps([m.content for m in question.messages]),
    "backwards": lambda question: last(question)[::-1],
    "all backwards": lambda question: whole(question)[::-1],
    "its words backwards": lambda question: " ".join(reversed(whole(question).split())),
    "in capitals": lambda question: whole(question).upper(),
    "its last word": lambda question: (whole(question).split() or [""])[-1],
    "its first word": lambda question: (whole(question).split() or [""])[0],
    "its last line": lambda question: (whole(question).splitlines() or [""])[-1],
    "its sentence that is most like the question": lambda question: likest(question, r"(?<=[.?!])\s+|\n"),
    "its clause that is most like the question": lambda question: likest(question, r"(?<=[.?!,:])\s+|\n"),
    "its line that is most like the question": lambda question: likest(question, r"\n"),
    "its first name": lambda question: (re.findall(r"(?:is|called) (\w+)", whole(question)) or [""])[0],
    "all numbers of it, summed up": lambda question: str(sum(map(int, re.findall(r"\d+", whole(question))))),
    "its quoted words as JSON": lambda question: json.dumps(
        dict.fromkeys(re.findall(r'"(\w+)"', whole(question)), whole(question))
    ),
    "refusing it": lambda question: f"I'm sorry, but I can't help with {whole(question)}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ECHOES)
@given(seed=SEEDS)
def test_no_echo_scores_above_ten_per_cent(name: str, seed: int) -> None:
    assert put(ECHOES[name], seed).passed <= 1


@given(SEEDS, st.lists(CONSTANTS | st.integers().map(str), min_size=1, max_size=40))
def test_no_random_answers_score_above_ten_per_cent(seed: int, texts: Sequence[str]) -> None:
    number = count()
    assert put(lambda _: texts[next(number) % len(texts)], seed).passed <= 1


def test_nothing_but_errors_is_not_measured_and_scores_nothing() -> None:
    asked = make_checks(7)
    for refused in (False, True):
        replies = [[Reply(error="HTTP 400", is_refused=refused)] * len(one.questions) for one in asked]
        found = score_checks(asked, replies)
        assert (found.passed, found.is_measured, found.is_certified) == (0, False, False)


# --- what counts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", GUARD_CHECKS)
def test_without_a_guard_what_any_answer_satisfies_is_not_counted(right: Answering, guard: str) -> None:
    (missed,) = [check for check in make_checks(7) if check.name == guard]
    found = put(lambda question: "no" if question in missed.questions else right(question))
    guarded = {check.name for check in make_checks(7) if check.needs_guards}
    came_to = verdicts(found)
    assert {name for name, one in came_to.items() if one is CheckVerdict.NOT_COUNTED} == guarded
    assert found.passed == 14 - len(guarded) - 1
    assert all(guard in one.reason for one in found.outcomes if one.verdict is CheckVerdict.NOT_COUNTED)


def test_one_call_without_an_answer_makes_its_check_an_error_and_no_other(right: Answering) -> None:
    asked = make_checks(7)
    replies = [[reply(right(question)) for question in check.questions] for check in asked]
    replies[1][2] = Reply(error="No answer within 5 s.")
    found = score_checks(asked, replies)
    assert found.outcomes[1].verdict is CheckVerdict.ERROR
    assert found.outcomes[1].reason == "No answer within 5 s."
    assert found.total == 14


@pytest.mark.parametrize(("answers", "measured"), [(3, False), (8, False), (40, True)])
def test_who_falls_silent_on_the_way_is_not_called_unable(
    right: Answering, answers: int, measured: bool
) -> None:
    number, asked = count(1), make_checks(7)
    replies = [
        [reply(right(q)) if next(number) <= answers else Reply(error="gone") for q in check.questions]
        for check in asked
    ]
    found = score_checks(asked, replies)
    assert (found.is_measured, found.is_certified) == (measured, measured)


def test_checks_that_failed_decide_although_others_got_no_answer(right: Answering) -> None:
    asked = make_checks(7)
    replies = [[reply("no")] * len(check.questions) for check in asked[:-1]]
    found = score_checks(asked, [*replies, [Reply(error="gone")] * 2])
    assert (found.is_measured, found.is_certified) == (True, False)
    silent = [
        [Reply(error="gone") if c.name == "JSON mode" else reply(right(q)) for q in c.questions]
        for c in asked
    ]
    assert not score_checks(asked, silent).is_measured  # what does not count would have


# --- single checks -----------------------------------------------------------------------------------------


def came_to(right: Answering, name: str, change: Callable[[int, Reply], Reply]) -> CheckVerdict:
    """What one check comes to where its right replies are changed."""
    asked = make_checks(7)
    replies = [
        [
            change(place, reply(right(question))) if check.name == name else reply(right(question))
            for place, question in enumerate(check.questions)
        ]
        for check in asked
    ]
    return verdicts(score_checks(asked, replies))[name]


@pytest.mark.parametrize(
    ("name", "told", "verdict"),
    [
        ("temperature 0", {"refused_params": ("temperature",)}, CheckVerdict.FAIL),
        ("temperature 0", {"refused_params": ("seed",)}, CheckVerdict.PASS),
        ("latency", {"latency_ms": 29_999.0}, CheckVerdict.PASS),
        ("latency", {"latency_ms": 30_001.0}, CheckVerdict.FAIL),
        ("token limit", {"output_tokens": MAX_TOKENS_ASKED}, CheckVerdict.PASS),
        ("token limit", {"output_tokens": MAX_TOKENS_ASKED + 1}, CheckVerdict.FAIL),
        ("token limit", {"text": "1\n" * 500}, CheckVerdict.FAIL),
        ("token limit", {"text": "1\n" * 500, "output_tokens": MAX_TOKENS_ASKED}, CheckVerdict.PASS),
        ("token limit", {"text": "", "is_truncated": True}, CheckVerdict.PASS),
        ("token limit", {"text": ""}, CheckVerdict.FAIL),
        ("token limit", {"refused_params": ("max_tokens",)}, CheckVerdict.FAIL),
        ("connectivity", {"text": " \n"}, CheckVerdict.FAIL),
        ("connectivity", {"text": "x"}, CheckVerdict.PASS),
        ("refusal", {"is_refusal": True}, CheckVerdict.FAIL),
        ("refusal", {"is_refusal": False}, CheckVerdict.FAIL),
    ],
)
def test_what_an_endpoint_tells_decides(
    right: Answering, name: str, told: dict[str, object], verdict: CheckVerdict
) -> None:
    assert came_to(right, name, lambda _place, one: replace(one, **told)) is verdict


@pytest.mark.parametrize("name", ["empty prompt", "refusal"])
def test_that_an_endpoint_refuses_is_an_answer_where_it_may_refuse(right: Answering, name: str) -> None:
    refused, broken = Reply(error="HTTP 400", is_refused=True), Reply(error="no connection")
    assert came_to(right, name, lambda place, one: one if place else refused) is CheckVerdict.PASS
    assert came_to(right, name, lambda place, one: one if place else broken) is CheckVerdict.ERROR
    assert came_to(right, name, lambda place, one: refused if place else one) is CheckVerdict.ERROR


def test_an_answer_that_was_cut_off_says_so(right: Answering) -> None:
    asked = make_checks(7)
    found = score_checks(asked, [[Reply(text="", is_truncated=True)] * len(one.questions) for one in asked])
    assert found.outcomes[1].reason.startswith("cut off: ")
    assert (
        came_to(right, "connectivity", lambda _place, one: replace(one, is_truncated=True))
        is CheckVerdict.PASS
    )


def test_another_answer_to_the_same_question_is_no_determinism(right: Answering) -> None:
    def other(place: int, one: Reply) -> Reply:
        return replace(one, text="Something else.") if place == 2 else one

    def spaced(place: int, one: Reply) -> Reply:
        return replace(one, text=f" {one.text}\n") if place else one

    assert came_to(right, "determinism", other) is CheckVerdict.FAIL
    assert came_to(right, "determinism", spaced) is CheckVerdict.PASS


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("133", True),
        ("47 + 86 = **133**.", True),
        ("133.0", True),
        ("code-133", True),
        ("−133", False),
        ("1,000,133", False),
        ("133 and not 134", False),
        ("one hundred and thirty-three", False),
        ("1330", False),
        ("-133", False),
        ("9" * 5000 + "133", False),
    ],
)
def test_the_last_number_is_the_answer(text: str, holds: bool) -> None:
    assert (ExpectedNumber(right=133).find_problem(Reply(text=text)) is None) is holds


@pytest.mark.parametrize("text", ["3,738", "**3,738**.", "3’738", "3\u202f738", "3738,"])
def test_a_number_may_be_written_in_groups(text: str) -> None:
    assert ExpectedNumber(right=3738).find_problem(Reply(text=text)) is None
    assert ExpectedNumber(right=738).find_problem(Reply(text=text)) is not None


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('{"city": "Talvora", "year": 1874}', True),
        ('{"year": 1874,\n "city": "Talvora"}', True),
        ('```json\n{"city": "Talvora", "year": 1874}\n```', True),
        ('```json {"city": "Talvora", "year": 1874} ```', True),
        ('`{"city": "Talvora", "year": 1874}`', True),
        ('\ufeff{"city": "Talvora", "year": 1874}', True),
        ('Here it is: {"city": "Talvora", "year": 1874}', False),
        ('{"city": "Talvora", "year": "1874"}', False),
        ('{"city": "Talvora", "year": 1874, "name": "x"}', False),
        ('[{"city": "Talvora", "year": 1874}]', False),
        ("[" * 100_000, False),
        ("null", False),
    ],
)
def test_json_is_the_whole_answer_and_exactly_the_object(text: str, holds: bool) -> None:
    wanted = ExpectedJson(members={"city": "Talvora", "year": 1874})
    assert (wanted.find_problem(Reply(text=text)) is None) is holds


def test_words_are_found_however_they_are_composed_and_none_may_stand_beside() -> None:
    wanted = ExpectedWords(right=("kůň",), wrong=("žluť",))
    assert wanted.find_problem(Reply(text="KU\u030aN\u030c")) is None
    assert wanted.find_problem(Reply(text="kůň žluť")) is not None
    assert wanted.find_problem(Reply(text="kun")) is not None

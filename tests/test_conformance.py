"""The 14 checks of a target: right answers pass all, and a constant answer or an echo passes hardly any."""

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
AnswerFunction = Callable[[Question], str]


def run_checks(answer: AnswerFunction, seed: int = 7, **fields: object) -> Conformance:
    """Scores the checks when `answer` answers each question."""
    checks = make_checks(seed)
    return score_checks(
        checks, [[make_reply(answer(q), **fields) for q in check.questions] for check in checks]
    )


def make_reply(text: str, **fields: object) -> Reply:
    return replace(Reply(text=text, is_refusal=find_refusal(text) is not None), **fields)


def verdicts(conformance: Conformance) -> dict[str, CheckVerdict]:
    return {outcome.check.name: outcome.verdict for outcome in conformance.outcomes}


def last_message(question: Question) -> str:
    return question.messages[-1].content


def all_text(question: Question) -> str:
    return "\n".join(message.content for message in question.messages)


def list_expected(seed: int) -> list[str]:
    """Lists what each question expects."""
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
def answer_correctly(capable: ModuleType) -> AnswerFunction:
    def answer(question: Question) -> str:
        turns = [{"role": message.role, "content": message.content} for message in question.messages]
        text: str = capable.answer(turns)
        return text

    return answer


# --- a target with the right answers ------------------------------------------------------------------------


@given(SEEDS)
def test_right_answers_pass_all_14_whatever_the_seed(answer_correctly: AnswerFunction, seed: int) -> None:
    conformance = run_checks(answer_correctly, seed)
    assert [outcome.reason for outcome in conformance.outcomes] == [""] * 14
    assert (conformance.passed, conformance.total, conformance.ci95, conformance.is_certified) == (
        14,
        14,
        wilson(14, 14),
        True,
    )


def test_there_are_14_checks_and_a_seed_says_what_they_ask() -> None:
    assert [check.name for check in make_checks(1)] == list(CHECKS)
    assert len(CHECKS) == 14
    assert [check.questions for check in make_checks(1)] == [check.questions for check in make_checks(1)]
    assert list_expected(1) != list_expected(2)


@pytest.mark.parametrize(("wrong", "certified"), [(2, True), (3, False)])
def test_twelve_of_fourteen_are_enough(answer_correctly: AnswerFunction, wrong: int, certified: bool) -> None:
    missed = {
        last_message(check.questions[0])
        for check in make_checks(7)
        if check.name in ("unicode", "long context")
    }
    missed |= {last_message(make_checks(7)[-1].questions[1])} if wrong == 3 else set()
    conformance = run_checks(
        lambda question: "no" if last_message(question) in missed else answer_correctly(question)
    )
    assert (conformance.passed, conformance.is_certified) == (14 - wrong, certified)


# --- targets without knowledge ------------------------------------------------------------------------------

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
    assert run_checks(lambda _: text, seed).passed == 0


@pytest.mark.slow
@given(SEEDS, st.randoms(use_true_random=False), st.integers(0, 40))
def test_no_constant_made_of_expected_answers_scores(seed: int, rng: Random, size: int) -> None:
    words = list_expected(seed)
    for text in ("\n".join(words), " ".join(rng.sample(words, min(size, len(words))))):
        assert run_checks(lambda _, text=text: text, seed).passed <= 1  # type: ignore[misc]


@pytest.mark.slow
@given(SEEDS)
def test_each_answer_alone_is_right_for_no_check_that_counts_by_itself(seed: int) -> None:
    checks = [check for check in make_checks(seed) if not check.needs_guards]
    for text in list_expected(seed):
        for outcome in score_checks(
            checks, [[make_reply(text)] * len(check.questions) for check in checks]
        ).outcomes:
            assert outcome.verdict is CheckVerdict.FAIL, (text, outcome.check.name)


def find_most_similar_part(question: Question, ends: str) -> str:
    """Returns the part of the messages that shares most words with the question at the end."""
    ask = (re.findall(r"[^.?\n]*\?", all_text(question)) or last_message(question).splitlines()[-1:] or [""])[
        -1
    ]
    words = set(re.findall(r"\w+", ask.lower()))
    parts = [part for part in re.split(ends, all_text(question)) if part and ask.strip() not in part]
    return max(parts, key=lambda part: len(words.intersection(part.lower().split())), default="")


ECHOES: dict[str, AnswerFunction] = {
    "the last message": last_message,
    "the first message": lambda question: question.messages[0].content,
    "all messages": all_text,
    "all messages as JSON": lambda question: json.dumps([m.content for m in question.messages]),
    "backwards": lambda question: last_message(question)[::-1],
    "all backwards": lambda question: all_text(question)[::-1],
    "its words backwards": lambda question: " ".join(reversed(all_text(question).split())),
    "in capitals": lambda question: all_text(question).upper(),
    "its last word": lambda question: (all_text(question).split() or [""])[-1],
    "its first word": lambda question: (all_text(question).split() or [""])[0],
    "its last line": lambda question: (all_text(question).splitlines() or [""])[-1],
    "its sentence that is most like the question": lambda question: find_most_similar_part(
        question, r"(?<=[.?!])\s+|\n"
    ),
    "its clause that is most like the question": lambda question: find_most_similar_part(
        question, r"(?<=[.?!,:])\s+|\n"
    ),
    "its line that is most like the question": lambda question: find_most_similar_part(question, r"\n"),
    "its first name": lambda question: (re.findall(r"(?:is|called) (\w+)", all_text(question)) or [""])[0],
    "all numbers of it, summed up": lambda question: str(
        sum(map(int, re.findall(r"\d+", all_text(question))))
    ),
    "its quoted words as JSON": lambda question: json.dumps(
        dict.fromkeys(re.findall(r'"(\w+)"', all_text(question)), all_text(question))
    ),
    "refusing it": lambda question: f"I'm sorry, but I can't help with {all_text(question)}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ECHOES)
@given(seed=SEEDS)
def test_no_echo_scores_above_ten_per_cent(name: str, seed: int) -> None:
    assert run_checks(ECHOES[name], seed).passed <= 1


@given(SEEDS, st.lists(CONSTANTS | st.integers().map(str), min_size=1, max_size=40))
def test_no_random_answers_score_above_ten_per_cent(seed: int, texts: Sequence[str]) -> None:
    number = count()
    assert run_checks(lambda _: texts[next(number) % len(texts)], seed).passed <= 1


def test_nothing_but_errors_is_not_measured_and_scores_nothing() -> None:
    checks = make_checks(7)
    for is_refused in (False, True):
        replies = [
            [Reply(error="HTTP 400", is_refused=is_refused)] * len(check.questions) for check in checks
        ]
        conformance = score_checks(checks, replies)
        assert (conformance.passed, conformance.is_measured, conformance.is_certified) == (0, False, False)


# --- what counts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", GUARD_CHECKS)
def test_without_a_guard_what_any_answer_satisfies_is_not_counted(
    answer_correctly: AnswerFunction, guard: str
) -> None:
    (missed,) = [check for check in make_checks(7) if check.name == guard]
    conformance = run_checks(
        lambda question: "no" if question in missed.questions else answer_correctly(question)
    )
    guarded = {check.name for check in make_checks(7) if check.needs_guards}
    results = verdicts(conformance)
    assert {name for name, verdict in results.items() if verdict is CheckVerdict.NOT_COUNTED} == guarded
    assert conformance.passed == 14 - len(guarded) - 1
    assert all(
        guard in outcome.reason
        for outcome in conformance.outcomes
        if outcome.verdict is CheckVerdict.NOT_COUNTED
    )


def test_one_call_without_an_answer_makes_its_check_an_error_and_no_other(
    answer_correctly: AnswerFunction,
) -> None:
    checks = make_checks(7)
    replies = [[make_reply(answer_correctly(question)) for question in check.questions] for check in checks]
    replies[1][2] = Reply(error="No answer within 5 s.")
    conformance = score_checks(checks, replies)
    assert conformance.outcomes[1].verdict is CheckVerdict.ERROR
    assert conformance.outcomes[1].reason == "No answer within 5 s."
    assert conformance.total == 14


@pytest.mark.parametrize(("answers", "is_measured"), [(3, False), (8, False), (40, True)])
def test_a_target_that_stops_answering_is_not_measured(
    answer_correctly: AnswerFunction, answers: int, is_measured: bool
) -> None:
    counter, checks = count(1), make_checks(7)
    replies = [
        [
            make_reply(answer_correctly(q)) if next(counter) <= answers else Reply(error="gone")
            for q in check.questions
        ]
        for check in checks
    ]
    conformance = score_checks(checks, replies)
    assert (conformance.is_measured, conformance.is_certified) == (is_measured, is_measured)


def test_checks_that_failed_decide_although_others_got_no_answer(answer_correctly: AnswerFunction) -> None:
    checks = make_checks(7)
    replies = [[make_reply("no")] * len(check.questions) for check in checks[:-1]]
    conformance = score_checks(checks, [*replies, [Reply(error="gone")] * 2])
    assert (conformance.is_measured, conformance.is_certified) == (True, False)
    silent = [
        [
            Reply(error="gone") if c.name == "JSON mode" else make_reply(answer_correctly(q))
            for q in c.questions
        ]
        for c in checks
    ]
    assert not score_checks(checks, silent).is_measured  # what does not count would have


# --- single checks -----------------------------------------------------------------------------------------


def check_with_replies(
    answer_correctly: AnswerFunction, name: str, change: Callable[[int, Reply], Reply]
) -> CheckVerdict:
    """Returns the verdict of one check when `change` changes its correct replies."""
    checks = make_checks(7)
    replies = [
        [
            change(place, make_reply(answer_correctly(question)))
            if check.name == name
            else make_reply(answer_correctly(question))
            for place, question in enumerate(check.questions)
        ]
        for check in checks
    ]
    return verdicts(score_checks(checks, replies))[name]


@pytest.mark.parametrize(
    ("name", "fields", "verdict"),
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
def test_the_fields_of_a_reply_decide(
    answer_correctly: AnswerFunction, name: str, fields: dict[str, object], verdict: CheckVerdict
) -> None:
    assert (
        check_with_replies(answer_correctly, name, lambda _place, reply: replace(reply, **fields)) is verdict
    )


@pytest.mark.parametrize("name", ["empty prompt", "refusal"])
def test_a_refused_request_counts_as_an_answer_where_it_may_be_refused(
    answer_correctly: AnswerFunction, name: str
) -> None:
    refusal, failure = Reply(error="HTTP 400", is_refused=True), Reply(error="no connection")
    assert (
        check_with_replies(answer_correctly, name, lambda place, reply: reply if place else refusal)
        is CheckVerdict.PASS
    )
    assert (
        check_with_replies(answer_correctly, name, lambda place, reply: reply if place else failure)
        is CheckVerdict.ERROR
    )
    assert (
        check_with_replies(answer_correctly, name, lambda place, reply: refusal if place else reply)
        is CheckVerdict.ERROR
    )


def test_an_answer_that_was_cut_off_says_so(answer_correctly: AnswerFunction) -> None:
    checks = make_checks(7)
    conformance = score_checks(
        checks, [[Reply(text="", is_truncated=True)] * len(check.questions) for check in checks]
    )
    assert conformance.outcomes[1].reason.startswith("cut off: ")
    assert (
        check_with_replies(
            answer_correctly,
            "connectivity",
            lambda _place, make_reply: replace(make_reply, is_truncated=True),
        )
        is CheckVerdict.PASS
    )


def test_another_answer_to_the_same_question_is_no_determinism(answer_correctly: AnswerFunction) -> None:
    def other(place: int, reply: Reply) -> Reply:
        return replace(reply, text="Something else.") if place == 2 else reply

    def spaced(place: int, reply: Reply) -> Reply:
        return replace(reply, text=f" {reply.text}\n") if place else reply

    assert check_with_replies(answer_correctly, "determinism", other) is CheckVerdict.FAIL
    assert check_with_replies(answer_correctly, "determinism", spaced) is CheckVerdict.PASS


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
    expected = ExpectedJson(members={"city": "Talvora", "year": 1874})
    assert (expected.find_problem(Reply(text=text)) is None) is holds


def test_words_are_found_however_they_are_composed_and_none_may_stand_beside() -> None:
    expected = ExpectedWords(right=("kůň",), wrong=("žluť",))
    assert expected.find_problem(Reply(text="KU\u030aN\u030c")) is None
    assert expected.find_problem(Reply(text="kůň žluť")) is not None
    assert expected.find_problem(Reply(text="kun")) is not None

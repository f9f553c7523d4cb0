"""The rule `leak`: expected answers that the prompt gives away, and answers that have to be in the prompt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.lint.answer_leaks import find_leaks
from proctor.lint.findings import Finding
from proctor.lint.revealed_answers import PromptText, fold_text
from proctor.model import Assertion, Case, Message, Problem
from support.linting import lint_cases, make_checked_case


def exact(value: str) -> tuple[str, dict[str, Any]]:
    return "exact", {"value": value}


def find_leak(problems: list[Problem]) -> str | None:
    messages = [problem.message for problem in problems if problem.code == "leak"]
    assert len(messages) <= 1
    return messages[0] if messages else None


def test_the_message_begins_as_the_format_says() -> None:
    (problem,) = lint_cases(
        make_checked_case("Is it true that 3 * 3 = 9?", exact("9"), id="math_7", expected="9")
    )
    begins = "LEAK WARNING: Test 'math_7' input contains expected answer"
    assert problem.message.startswith(f"{begins}: '9' appears in the prompt.")
    assert (problem.level, problem.code, problem.line, problem.case) == ("warning", "leak", 1, "math_7")
    assert problem.field == "expected"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("3 + 4 = 7?", "7"),
        ("Oslo is the capital of Norway. What is the capital of Norway?", "oslo"),
        ("What is 6 times 8? (48)", "48"),
        ("What is 6 * 8? Hint: 48", "48"),
        ("Translate 'thank you' into French (merci).", "merci"),
        ("Who painted it?  Berthe \t Morisot did.", "  berthe morisot "),
        ("The answer is no. Is lead lighter than water?", "no"),
        ("日本の首都は東京です。首都はどこですか。", "東京"),
        ("The sign at the corner reads STRASSE today.", "straße"),
        ("According to sailors, Oslo is the capital of Norway. What is the capital of Norway?", "Oslo"),
        ("Context: Norway is long.\nQuestion: Is Oslo the capital of Norway?", "Oslo"),
        ("Extract the town. Text: we moved to Oslo. Hint: the answer is Oslo", "Oslo"),
        ("Extract the town. Text: we moved to Oslo. (The answer should be Oslo)", "Oslo"),
        (f"{'The ferry left late, as ferries do. ' * 20}Who was late? The answer is the ferry.", "the ferry"),
        ("Which is right? A) Quito B) Lima. The correct option is B) Lima.", "Lima"),
        ("4 and 5 make 9. What do 4 and 5 make?", "9"),
        ("Bergen ist die Stadt im Regen. Welche Stadt ist das?", "Bergen"),
        ("Was ist der längste Fluss? Tipp: Nil", "Nil"),
        ("Q: Port of Rome?\nA: Ostia\nQ: Port of Athens?\nA: Piraeus\nQ: Port of Rome?\nA:", "Ostia"),
    ],
)
def test_an_answer_in_the_prompt_is_a_leak(question: str, answer: str) -> None:
    assert find_leak(lint_cases(make_checked_case(question, exact(answer), expected=answer)))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Do you know whether it rained?", "no"),
        ("What happened in 2024?", "4"),
        ("Round 4.5 and 1,400 to tens.", "4"),
        ("Name a city in Parisian style.", "paris"),
        ("What is 9 - 4?", "4"),
        ("What is 4 × 1?", "4"),
        ("What is nine minus 4?", "4"),
        ("Say yes or no: is iron a metal?", "yes"),
        ("There is no doubt. Is iron a metal?", "no"),
        ("Which is a fruit: a pear, a stone or a lamp?", "pear"),
        ("Is it the sun or the moon?", "the moon"),
        ("Is it hot/cold/mild?", "cold"),
        ("Choose one. A) Lima B) Quito C) Bogota", "Quito"),
        ("Choose one. A) Lima B) Quito C) Bogota", "B"),
        ("Labels: sport, trade, travel. Classify: the ship left.", "trade"),
        ("Reply with the word KUMQUAT.", "kumquat"),
        ('Say exactly "over and out".', "over and out"),
        ("Write a story whose last word is winter.", "winter"),
        ("Extract the sender: a parcel from Marguerite came.", "Marguerite"),
        ("According to the note, who called? Note: Marguerite called.", "Marguerite"),
        ("Text: the meeting is on Friday. When is it?", "Friday"),
        ("Return it as JSON: Marguerite came.", "Marguerite"),
        # numbers to calculate with
        ("Ola has 6 nets, mends 2 and loses 2. How many are left?", "6"),
        ("What is the largest of [3, 8, 5]?", "8"),
        ("How cold is it, from 1 to 5?", "1"),
        ("A sail is 1 by 6. What is its area?", "6"),
        # options to choose from, in any language
        ("Label:\n- rope\n- anchor\n- net\nIt holds the ship.", "anchor"),
        ("What holds a ship? (a) a rope (b) an anchor (c) a net", "an anchor"),
        ("Who first sailed round?\n1. Cook\n2. Magellan\nGive the number.", "2"),
        ("Answer with one of [LATE, IN TIME]: it came at nine.", "late"),
        ("Ist das Meer kalt oder warm?", "kalt"),
        ("Classez ce message (urgent, normal) : le bateau coule.", "urgent"),
        ("次の文を「賛成」か「反対」で答えてください。", "反対"),
        ("Antworte mit Ja oder Nein.", "nein"),
        # texts to work on, in any language
        ("Find who called: Marguerite came at nine and called.", "Marguerite"),
        ("Finde den Namen: Gestern rief Marguerite an.", "Marguerite"),
        ("誰が来たか答えてください：田中さんは昨日来ました。", "田中"),
        ('Who calls? "Last night Marguerite called from Skagen."', "Marguerite"),
        ("Qui appelle ? « Marguerite a appelé hier. »", "Marguerite"),
        ("<note>Marguerite called.</note> Who called?", "Marguerite"),
        ("```\nMarguerite called.\n```\nWho called?", "Marguerite"),
        ("Marguerite came at nine. She called Ola. Who came first?", "Marguerite"),
        ("name,port\nOla,Skagen\nAda,Ribe\n\nWhere is Ola?", "Skagen"),
        (f"{'The ferry left late, as ferries do. ' * 20}What left?", "ferry"),
        ("How does one spell 'ferry'? Write it in letters, as in the word 'harbour'.", "harbour"),
        # texts to repeat, write or continue
        ("Write a letter to Marguerite.", "Marguerite"),
        ("Sag „Moin“.", "moin"),
        ("End every answer with 'Over.' What is fog?", "over."),
        ("Text: lost net\nLabel: loss\nText: torn net\nLabel: damage\nText: lost rope\nLabel:", "loss"),
        ("Q: 1 + 3?\nAnswer: 4\nQ: 2 + 2?\nAnswer:", "4"),
        ("sail => Segel\nrope => Seil\nline =>", "Seil"),
    ],
)
def test_an_answer_that_has_to_stand_there_is_no_leak(question: str, answer: str) -> None:
    assert find_leak(lint_cases(make_checked_case(question, exact(answer), expected=answer))) is None


@pytest.mark.parametrize(
    ("turns", "place"),
    [
        ([("system", "Zanzibar has cloves."), ("user", "Which island has cloves?")], "the system message"),
        ([("developer", "Zanzibar has cloves."), ("user", "Which island?")], "the system message"),
        (
            [("user", "Which island has cloves?"), ("assistant", "Zanzibar"), ("user", "And pepper?")],
            "turn 2",
        ),
        ([("system", "Be brief."), ("user", "Hello."), ("user", "Is Zanzibar an island?")], "turn 2"),
        (
            [
                ("user", "Which?"),
                ("assistant", "Zanzibar"),
                ("user", "Where?"),
                ("assistant", "At sea"),
                ("user", "Which?"),
            ],
            "turn 2",
        ),
    ],
)
def test_the_message_says_where_the_answer_stands(turns: list[tuple[str, str]], place: str) -> None:
    message = find_leak(lint_cases(make_checked_case(turns, exact("Zanzibar"))))
    assert message
    assert f"'Zanzibar' appears in {place}." in message


def test_labels_that_few_shot_turns_give_are_no_leak() -> None:
    shots = [("user", "Lovely!"), ("assistant", "praise"), ("user", "Awful!"), ("assistant", "complaint")]
    few_shot_case = make_checked_case([*shots, ("user", "Never again.")], exact("complaint"))
    assert find_leak(lint_cases(few_shot_case)) is None
    said_once = make_checked_case(
        [("user", "Awful!"), ("assistant", "complaint"), ("user", "Bad.")], exact("complaint")
    )
    assert find_leak(lint_cases(said_once))


def test_what_was_said_in_earlier_turns_is_known_and_no_leak() -> None:
    turns = [("user", "I am Marguerite."), ("assistant", "Good morning, Marguerite!"), ("user", "Who am I?")]
    assert find_leak(lint_cases(make_checked_case(turns, exact("Marguerite")))) is None
    announced = [("user", "The answer is Ola."), ("assistant", "To what?"), ("user", "Who is it?")]
    assert find_leak(lint_cases(make_checked_case(announced, exact("Ola"))))


def test_a_wrapped_line_ends_no_sentence() -> None:
    question = "What is the name of the town at the end of the long fjord, where\nOslo lies? Is it there?"
    assert find_leak(lint_cases(make_checked_case(question, exact("Oslo"))))


PROMPT = "The old lighthouse at Skagen was built of red brick in 1858."


@pytest.mark.parametrize(
    ("grader", "params", "leaks"),
    [
        ("contains", {"value": "red brick"}, True),
        ("starts_with", {"value": "The old lighthouse"}, True),
        ("contains_any", {"values": ["granite", "red brick"]}, True),
        ("contains_any", {"values": ["granite", "marble"]}, False),
        ("contains_all", {"values": ["Skagen", "1858"]}, True),
        ("contains_all", {"values": ["Skagen", "1859"]}, False),
        ("required_words", {"words": ["lighthouse", "brick"]}, True),
        ("required_words", {"words": ["lighthouse", "granite"]}, False),
        ("forbidden_words", {"words": ["brick"]}, False),
        ("number", {"value": 1858}, True),
        ("number", {"value": 58}, False),
        ("numeric_match", {"value": "1858"}, True),
        ("numeric_equal", {"value": "1858"}, True),
        ("regex", {"pattern": r"^\s*(?:1858|1860)\s*$"}, True),
        ("regex", {"pattern": r"(?i)\bskagen\b"}, True),
        ("regex", {"pattern": r"red brick(s|work)?"}, True),
        ("regex", {"pattern": r"red brickwork"}, False),
        ("regex", {"pattern": r"\b\d{4}\b"}, False),
        ("regex", {"pattern": r"[A-Z]\w+"}, False),
        ("semantic_similarity", {"value": ["in Skagen", "at Skagen"], "threshold": 0.8}, True),
        ("exact", {"value": '{"place": "Skagen", "year": 1858}'}, True),
        ("exact", {"value": '{"place": "Skagen", "year": 1859}'}, False),
        ("exact", {"value": '{"thing": "lighthouse", "year": 7}'}, True),
        ("exact", {"value": '["Skagen", "Ribe"]'}, False),
        ("exact", {"value": "{}"}, False),
        ("consistency", {"expected": "red brick"}, True),
        ("json_schema", {"schema": {"properties": {"made_of": {"const": "red brick"}}}}, True),
        ("json_schema", {"schema": {"items": {"enum": ["red brick"]}}}, True),
        ("json_schema", {"schema": {"properties": {"made_of": {"enum": ["red brick", "granite"]}}}}, False),
        ("json_schema", {"schema": {"properties": {"made_of": {"const": "granite"}}}}, False),
        ("length", {"max_words": 9}, False),
    ],
)
def test_what_assertions_look_for_is_looked_for(grader: str, params: dict[str, Any], leaks: bool) -> None:
    assert (find_leak(lint_cases(make_checked_case(PROMPT, (grader, params)))) is not None) is leaks


def test_a_negated_assertion_expects_nothing() -> None:
    unwanted = Assertion(grader="contains", params={"value": "red brick"}, negated=True)
    assert (
        find_leak(lint_cases(make_checked_case(PROMPT, unwanted, ("contains", {"value": "granite"})))) is None
    )


@pytest.mark.parametrize(
    ("expected", "leaks"),
    [
        (["granite", "red brick"], True),
        (["white granite", "red brick"], True),
        (["granite"], False),
        ({"place": "Skagen", "stone": {"kind": "red brick"}}, True),
        ({"place": "Skagen", "stone": {"kind": "white granite"}}, False),
        ([{"role": "assistant", "content": "at Skagen"}], True),
        ([{"role": "user", "content": "at Skagen"}], False),
    ],
)
def test_any_ideal_and_all_that_tells_in_an_object_count(expected: Any, leaks: bool) -> None:
    judged = make_checked_case(PROMPT, ("rubric", {"rubric": "Is right."}), expected=expected)
    assert (find_leak(lint_cases(judged)) is not None) is leaks


def test_members_of_a_composite_are_looked_at() -> None:
    member = {"name": "a", "assertion": {"grader": "contains", "params": {"value": "red brick"}}}
    params = {"members": [member], "aggregator": {"type": "threshold", "threshold": 1}}
    assert find_leak(lint_cases(make_checked_case(PROMPT, ("composite", params))))


def test_a_needle_is_no_leak() -> None:
    needle_case = make_checked_case(
        "Hay, hay. The code word is plum. Hay.", exact("plum"), metadata={"needle": "plum"}
    )
    assert find_leak(lint_cases(needle_case)) is None


TICKETS = [
    ("Please delete my account", "account"),
    ("I cannot log in to my account", "account"),
    ("My card was charged twice", "billing"),
    ("The invoice is wrong", "billing"),
    ("Where is my parcel?", "delivery"),
]


def tickets(*cases: tuple[str, str], grader: str = "exact") -> list[Problem]:
    return lint_cases(
        *(
            make_checked_case(question, (grader, {"value": answer}), id=f"t{number}", expected=answer)
            for number, (question, answer) in enumerate(cases)
        )
    )


def test_the_label_of_a_suite_that_sorts_cases_into_classes_is_no_leak() -> None:
    assert "leak" not in [problem.code for problem in tickets(*TICKETS)]


@pytest.mark.parametrize(
    ("cases", "grader"),
    [
        (TICKETS[:1], "exact"),  # no other case expects it
        (TICKETS[:2], "exact"),  # one answer for all distinguishes nothing
        ([*TICKETS[:4], *((f"Question {n}?", f"answer {n}") for n in range(5))], "exact"),
        ([("I forgot it. Hint: account", "account"), *TICKETS[1:]], "exact"),  # announced
        (TICKETS, "contains"),  # a copy of the prompt passes
    ],
)
def test_what_does_not_look_like_a_label_still_leaks(cases: list[tuple[str, str]], grader: str) -> None:
    assert "t0" in [problem.case for problem in tickets(*cases, grader=grader) if problem.code == "leak"]


@given(st.text(min_size=8, max_size=30).filter(lambda text: len(fold_text(text)) >= 8))
def test_a_long_answer_after_words_that_announce_it_is_always_found(answer: str) -> None:
    prompt = f"What is it? The answer is {answer}"
    assert PromptText(prompt, fold_text(prompt)).reveals(answer)


@given(st.text(alphabet=st.sampled_from("ab \n\t\r\x0b\x1c\x85\u2028ßİ.?"), max_size=200))
def test_lines_are_known_at_the_places_of_the_folded_text(text: str) -> None:
    assert PromptText(text, fold_text(text)).lines.replace("\n", " ") == fold_text(text)


@given(st.text(max_size=60), st.text(max_size=12))
def test_what_is_not_in_the_prompt_never_leaks_and_nothing_breaks(question: str, answer: str) -> None:
    case = Case(
        id="a",
        input=(Message(role="user", content=question),),
        assertions=(Assertion(grader="exact", params={"value": answer}),),
    )
    findings: list[Finding] = list(find_leaks(case, lambda _assertion, _text: None))
    assert not findings or fold_text(answer) in fold_text(question)

"""`contaminated` and `canary`: cases of a suite found in other text."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from proctor.lint.linter import ContaminationSearch
from proctor.model import Case, Message, Problem
from proctor.protocols import CaseAtLine

QUESTION = "When the ferry leaves the northern harbour at dawn, which lighthouse does its captain pass first?"
ANSWER = "Skagen Grey Light"
GUID = "5f0c9a3e-1b7d-4c55-9e0a-d2b1c7f6a984"


def case(question: str = QUESTION, case_id: str = "ferry", **fields: object) -> Case:
    return Case(id=case_id, input=(Message(role="user", content=question),), expected=ANSWER, **fields)  # type: ignore[arg-type]


def search(pieces: str | Iterable[str], *cases: Case, ignored: tuple[str, ...] = ()) -> list[Problem]:
    contamination = ContaminationSearch("s.jsonl", ignored)
    for line, searched_case in enumerate(cases or (case(),), 1):
        contamination.add(CaseAtLine(searched_case, line))
    return contamination.search("other.txt", iter([pieces] if isinstance(pieces, str) else pieces))


def test_the_message_names_file_line_and_share() -> None:
    (problem,) = search(f"Notes.\n\nOnce more: {QUESTION}\n")
    assert (problem.code, problem.path, problem.line, problem.case) == ("contaminated", "s.jsonl", 1, "ferry")
    assert problem.message.startswith("Test 'ferry' stands in other.txt, line 3: 100% of the words")
    assert "expected answer" not in problem.message


@pytest.mark.parametrize(
    "text",
    [
        QUESTION.upper(),
        QUESTION.replace(" ", "\n"),
        QUESTION.replace(",", " -- ").replace("?", "!"),
        json.dumps({"q": QUESTION.replace("dawn,", "dawn,\n")}),
        json.dumps({"q": QUESTION}).replace("north", "\\u006eorth"),
        " ".join(QUESTION.split()[:13]),
    ],
)
def test_the_question_is_found_however_it_is_written(text: str) -> None:
    assert [problem.code for problem in search(f"Before. {text} After.")] == ["contaminated"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The ferry leaves the northern harbour at noon.",
        " ".join(QUESTION.split()[:10]),
        " ".join(reversed(QUESTION.split())),
    ],
)
def test_less_than_half_of_it_is_not_found(text: str) -> None:
    assert search(text) == []


def test_an_answer_behind_the_question_is_told() -> None:
    (problem,) = search(f"{QUESTION} It is the skagen GREY light, of course.")
    assert "followed by its expected answer" in problem.message


@pytest.mark.parametrize(
    ("question", "text", "is_contaminated"),
    [
        ("Who mends the nets?", "She asked who mends the nets, and why.", True),
        ("Who mends the nets?", "She asked who mends the old nets.", False),
        ("Who mends?", "Who mends? Nobody.", False),
        ("湖の北の港はどこですか", "昨日、湖の北の港はどこですかと聞かれた。", True),
        ("湖の北の港はどこですか", "湖の南の港はどこですかと聞かれた。", False),
    ],
)
def test_a_short_question_must_stand_there_whole(question: str, text: str, is_contaminated: bool) -> None:
    assert bool(search(text, case(question))) is is_contaminated


def test_a_question_that_is_cut_between_two_pieces_is_found_on_its_line() -> None:
    filler = "one two three four five\n" * 50
    words = QUESTION.split()
    first, second = " ".join(words[:7]) + "\n", " ".join(words[7:]) + "\n"
    for pieces in ([filler + first, second + filler], [filler, first, second, filler]):
        (problem,) = search(pieces)
        assert "line 51: 100%" in problem.message


def test_only_what_users_ask_is_looked_for() -> None:
    system = Message(role="system", content=QUESTION)
    case_with_system = Case(
        id="a", input=(system, Message(role="user", content="Who mends the nets at home?"))
    )
    assert search(QUESTION, case_with_system) == []
    assert search(QUESTION, Case(id="a", input=(system,))) != []


def test_what_many_questions_share_is_a_template() -> None:
    nouns = ("apple", "brick", "cloud", "drum", "eagle", "flute")
    cases = [case(f"{QUESTION} Then say what a {noun} is.", noun) for noun in nouns]
    assert search(QUESTION, *cases) == []
    assert [problem.case for problem in search(f"{QUESTION} Then say what a drum is.", *cases)] == ["drum"]


@pytest.mark.parametrize(
    "canary_case",
    [
        case("Who mends the nets?", metadata={"canary": GUID.upper()}),
        case("Who mends the nets?", metadata={"canary": f"canary GUID {GUID}"}),
        case(f"Who mends the nets? (canary {GUID})"),
        case("Who mends the nets?", metadata={"canary": "BLUE-HERON-CANARY-77"}),
    ],
)
def test_a_canary_is_found(canary_case: Case) -> None:
    (problem,) = search(f"a\nb\nx {GUID} y blue-heron-canary-77", canary_case)
    assert problem.code == "canary"
    assert "other.txt, line 3" in problem.message


def test_one_canary_of_many_cases_is_told_once() -> None:
    cases = [case(f"Who mends the {n} nets?", f"c{n}", metadata={"canary": GUID}) for n in range(5)]
    (problem,) = search(GUID, *cases)
    assert "'c0' and 4 more" in problem.message


def test_a_guid_that_is_no_canary_is_not_looked_for() -> None:
    assert search(GUID, case(f"Who owns the record {GUID} in the register?")) == []


def test_findings_are_silenced_by_case_and_for_all() -> None:
    assert search(QUESTION, case(metadata={"lint": ["contaminated"]})) == []
    assert search(QUESTION, case(metadata={"lint": "ignore"})) == []
    assert search(QUESTION, ignored=("contaminated",)) == []


def test_the_same_cases_are_looked_for_in_several_texts() -> None:
    contamination = ContaminationSearch("s.jsonl")
    contamination.add(CaseAtLine(case(), 1))
    assert len(contamination.search("one.txt", iter([QUESTION]))) == 1
    assert contamination.search("two.txt", iter(["nothing of it"])) == []
    assert len(contamination.search("three.txt", iter([QUESTION]))) == 1

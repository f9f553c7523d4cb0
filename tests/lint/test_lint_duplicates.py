"""The rule `near-duplicate`: the same questions, nearly the same ones, and the number of comparisons."""

from __future__ import annotations

import random

import pytest

from proctor.codec import judged_digest
from proctor.graders import GRADERS
from proctor.lint.duplicates import DuplicateRule
from proctor.lint.findings import CaseLocation
from proctor.lint.linter import Linter
from proctor.model import Assertion, Case, Message, Problem, ResponseFormat, Suite
from proctor.protocols import CaseAtLine
from support.linting import lint_cases

LONG = (
    "Every spring the ferrymen of the northern lakes mend their nets, paint the hulls of their boats and "
    "wait for the ice to break, which in some years happens before Easter and in others not until late in May"
)


def case(case_id: str, question: str, expected: str = "", **fields: object) -> Case:
    checks = (Assertion(grader="contains", params={"value": expected or f"answer {case_id}"}),)
    return Case(id=case_id, input=(Message(role="user", content=question),), assertions=checks, **fields)  # type: ignore[arg-type]


def pairs(problems: list[Problem]) -> list[tuple[int | None, str]]:
    return [(problem.line, problem.message.split(", so one")[0]) for problem in problems]


def test_the_same_question_under_two_ids_is_told_once_and_names_the_other() -> None:
    problems = lint_cases(
        case("a", "Who built the ark?"), case("b", "Who mends nets?"), case("c", "Who built the ark?")
    )
    assert pairs(problems) == [(3, "Test 'c' has the same question as test 'a' at line 1")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("How do ferries float?", "how do  ferries float"),
        ("How do the ferries float?", "Please, how do ferries float?"),
        ("What is a ferry's draught?", "What is a ferry is draught?"),
        ("What's a ferry?", "What is the ferry?"),
    ],
)
def test_case_punctuation_and_small_words_make_no_other_question(first: str, second: str) -> None:
    assert pairs(lint_cases(case("a", first), case("b", second))) == [
        (2, "Test 'b' has nearly the same question as test 'a' at line 1")
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("What is 17 + 25?", "What is 18 + 25?"),
        ("Was 1999 a leap year?", "Was 2000 a leap year?"),
        ("What is the capital of Chad?", "What is the capital of Peru?"),
        ("Is a whale a mammal?", "Is a shark a mammal?"),
        ("Did the dog bite the man?", "Did the man bite the dog?"),
        ("Which of these is a fruit?", "Which of these is not a fruit?"),
        (
            "Who built the tower that stands by the harbour of Oslo?",
            "Who built the tower that stands by the harbour of Ribe?",
        ),
        (f"{LONG} 4.", f"{LONG} 5."),
    ],
)
def test_other_numbers_or_other_words_make_another_question(first: str, second: str) -> None:
    assert pairs(lint_cases(case("a", first, "yes"), case("b", second, "yes"))) == []


def test_a_long_question_with_one_word_changed_is_nearly_the_same() -> None:
    changed = LONG.replace("hulls", "bows")
    assert pairs(lint_cases(case("a", LONG, "frost"), case("b", changed, "frost"))) == [
        (2, "Test 'b' has nearly the same question as test 'a' at line 1")
    ]
    judged_otherwise = lint_cases(case("a", LONG, "frost"), case("b", changed, "rain"))
    assert pairs(judged_otherwise) == []


def test_very_long_questions_are_compared_by_a_sample() -> None:
    dice = random.Random(5)
    words = ["".join(dice.choices("abcdefghij", k=6)) for _ in range(4000)]
    texts = [
        " ".join(words[:3000]),
        " ".join([*words[:1500], "else", *words[1501:3000]]),
        " ".join(words[1000:]),
    ]
    duplicates = DuplicateRule()
    for line, text in enumerate(texts, 1):
        duplicates.add(case(f"c{line}", text), CaseLocation(f"c{line}", "s", line), b"same")
    assert [(spot.line, other.line) for _, spot, other in duplicates.finish()] == [(2, 1)]


def test_what_many_cases_share_is_a_template() -> None:
    nouns = ("apple", "brick", "cloud", "drum", "eagle", "flute", "glove", "horse")
    cases = [case(noun, f"{LONG}. Now say: is the {noun} alive?", "yes") for noun in nouns]
    assert pairs(lint_cases(*cases)) == []


def test_versions_of_one_test_and_other_material_are_other_questions() -> None:
    duplicates = DuplicateRule()
    for number in range(3):  # one test in one place, for example with two prompts
        version = case(f"v{number}", "How do ferries float?")
        duplicates.add(version, CaseLocation(version.id, "ferry.md", 1), judged_digest(version).encode())
    assert list(duplicates.finish()) == []
    duplicates = DuplicateRule()
    for number, form in enumerate((None, ResponseFormat(json=True))):
        version = case(f"f{number}", "How do ferries float?", form=form)
        duplicates.add(version, CaseLocation(version.id, "s", number), judged_digest(version).encode())
    assert list(duplicates.finish()) == []


def test_of_many_that_are_the_same_each_is_told_once() -> None:
    problems = lint_cases(*(case(f"c{number}", "Who built the ark?") for number in range(50)))
    assert [problem.line for problem in problems] == list(range(2, 51))
    assert all("test 'c0' at line 1" in problem.message for problem in problems)


class CountingRule(DuplicateRule):
    """Counts the pairs that are compared."""

    comparisons = 0

    def _are_alike(self, position: int, earlier: int) -> bool:
        self.comparisons += 1
        return super()._are_alike(position, earlier)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("beginning", "vocabulary"),
    [("", 500), ("", 40), (LONG, 500), (LONG, 40)],
    ids=["own words", "few words", "a template", "a template and few words"],
)
def test_a_case_is_compared_with_few_others_however_many_there_are(beginning: str, vocabulary: int) -> None:
    dice = random.Random(3)
    words = ["".join(dice.choices("abcdefghij", k=6)) for _ in range(vocabulary)]
    duplicates = CountingRule()
    for line in range(1, 3001):
        similar_case = case(f"c{line}", f"{beginning} {' '.join(dice.choices(words, k=25))}")
        duplicates.add(similar_case, CaseLocation(similar_case.id, "s.jsonl", line), b"same")
    assert list(duplicates.finish()) == []
    assert duplicates.comparisons < 12 * 3000


def test_a_finding_is_silenced_by_either_of_the_two() -> None:
    first, second = case("a", "Who built the ark?"), case("b", "Who built the ark?")
    hushed = {"lint": ["near-duplicate"]}
    assert lint_cases(case("a", "Who built the ark?", metadata=hushed), second) == []
    assert lint_cases(first, case("b", "Who built the ark?", metadata=hushed)) == []


def test_another_file_is_named() -> None:
    linter = Linter("s.yaml", GRADERS.get)
    linter.add(CaseAtLine(case("a", "Who built the ark?"), 4, "parts/one.yaml"))
    linter.add(CaseAtLine(case("b", "Who built the ark?"), 2, "parts/two.yaml"))
    (problem,) = linter.finish(Suite(name="s", dialect="agentv"))
    assert (problem.path, problem.line) == ("parts/two.yaml", 2)
    assert "test 'a' at parts/one.yaml:4" in problem.message

"""Which choice is the likeliest, by the measures of lm-evaluation-harness, and what is right."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.choices import find_likeliest
from proctor.errors import CannotScore
from proctor.model import CHOICE_METRICS, Case, ChoiceLikelihood, Output, ResponseFormat
from support.grading import grade_answer, make_grader


def output(*choices: tuple[str, float], **fields: Any) -> Output:
    """An answer with the likelihoods of choices."""
    likelihoods = [
        ChoiceLikelihood(text=text, logprob=logprob, tokens=1, **fields) for text, logprob in choices
    ]
    return Output(text=choices[0][0], choices=tuple(likelihoods))


def case(*choices: str, **fields: Any) -> Case:
    return Case(id="c", input=(), form=ResponseFormat(choices=choices), **fields)


SHORT_AND_LONG = output(("no", -2.0), ("certainly", -4.5), ("été", -2.4))
"""By the sum `no` is the likeliest; by character `certainly` (-0.5), by byte `été` (-0.48)."""


@pytest.mark.parametrize(
    ("metric", "right"), [("acc", "no"), ("acc_norm", "certainly"), ("acc_bytes", "été")]
)
def test_each_measure_divides_by_its_own_length(metric: str, right: str) -> None:
    texts = [choice.text for choice in SHORT_AND_LONG.choices]
    for value in texts:
        result = grade_answer("multiple_choice", {"value": value, "metric": metric}, SHORT_AND_LONG)
        assert (result.passed, result.value) == (value == right, float(value == right))
    result = grade_answer("multiple_choice", {"value": "certainly", "metric": metric}, SHORT_AND_LONG)
    assert result.details == {"acc": 0.0, "acc_norm": 1.0, "acc_bytes": 0.0}
    assert [entry.passed for entry in result.entries] == [False, True, False]


def test_a_reason_names_the_likeliest_choice_and_what_is_expected() -> None:
    assert grade_answer("multiple_choice", {"value": "no"}, SHORT_AND_LONG).reason == (
        "The likeliest choice is 'no'."
    )
    assert grade_answer("multiple_choice", {"value": ["été", 1]}, SHORT_AND_LONG).reason == (
        "The likeliest choice is 'no'; expected 'certainly', 'été'."
    )
    split = output(("no", -2.0), ("yes", -3.0), splits_token=True)
    assert "of 'no', 'yes' the first token does not count" in (
        grade_answer("multiple_choice", {"value": 0}, split).reason.lower()
    )


def test_of_equal_choices_the_first_is_the_likeliest() -> None:
    tie = output(("b", -1.0), ("a", -1.0), ("b", -1.0))
    assert [grade_answer("multiple_choice", {"value": value}, tie).passed for value in (0, 1, 2, "b")] == [
        *(True, False, False, True)
    ]


@given(
    choices=st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), min_size=1), st.floats(-1e6, 0)), min_size=2
    )
)
def test_the_measures_are_those_of_the_harness(choices: list[tuple[str, float]]) -> None:
    """The lines of `process_results` of lm-evaluation-harness, with lists in place of arrays."""
    lengths = {
        "acc": [1.0] * len(choices),
        "acc_norm": [float(len(text)) for text, _ in choices],
        "acc_bytes": [float(len(text.encode("utf-8"))) for text, _ in choices],
    }
    for metric in CHOICE_METRICS:
        best = -math.inf
        likeliest = 0
        for place, ((_, logprob), length) in enumerate(zip(choices, lengths[metric], strict=True)):
            if logprob / length > best:
                likeliest, best = place, logprob / length
        assert find_likeliest(output(*choices).choices, metric) == likeliest


@pytest.mark.parametrize("expected", ["no", 0, ["yes", "no"], [0]])
def test_without_a_value_the_expected_output_is_right(expected: Any) -> None:
    answer = output(("no", -2.0), ("yes", -3.0))
    assert grade_answer("multiple_choice", {}, answer, case=case("no", "yes", expected=expected)).passed


def test_what_cannot_be_compared_is_unscored() -> None:
    answer = output(("no", -2.0), ("yes", -3.0))
    with pytest.raises(CannotScore, match="did not report the likelihoods"):
        grade_answer("multiple_choice", {"value": "no"}, "no")
    with pytest.raises(CannotScore, match="of other choices: 'no', 'yes'"):
        grade_answer("multiple_choice", {"value": "no"}, answer, case=case("no", "perhaps"))
    with pytest.raises(CannotScore, match="`expected`: 'maybe' is none of the 2 choices"):
        grade_answer("multiple_choice", {}, answer, case=case("no", "yes", expected="maybe"))


@pytest.mark.parametrize(
    ("params", "fields", "reason"),
    [
        ({"value": "maybe"}, {}, "`value`: 'maybe' is none of the 2 choices"),
        ({"value": ["yes", 2]}, {}, "`value`: 2 is none of the 2 choices"),
        ({"value": -1}, {}, "`value`: -1 is none of the 2 choices"),
        ({}, {}, "`expected`: the correct choice is missing"),
        ({}, {"expected": True}, "`expected`: True is none of the 2 choices"),
        ({}, {"expected": {"a": 1}}, "`expected`: {'a': 1} is none of the 2 choices"),
        ({"value": 0}, {"form": None}, r"the case has no choices; set them in its `form\.choices`"),
    ],
)
def test_a_case_that_cannot_be_graded_is_refused_when_it_is_loaded(
    params: dict[str, Any], fields: dict[str, Any], reason: str
) -> None:
    defaults: dict[str, Any] = {"form": ResponseFormat(choices=("no", "yes"))}
    case = Case(id="c", input=(), **defaults | fields)
    with pytest.raises(ValueError, match=reason):
        make_grader("multiple_choice", params).check_case(case)


def test_a_check_inside_another_is_checked_too() -> None:
    member = {"name": "sky", "assertion": {"grader": "multiple_choice", "params": {"value": "maybe"}}}
    params = {"members": [member], "aggregator": {"type": "threshold", "threshold": 0.5}}
    with pytest.raises(ValueError, match="'maybe' is none of the 2 choices"):
        make_grader("composite", params).check_case(case("no", "yes"))

"""Legal arguments by their parts, and rankings of prior art."""

from __future__ import annotations

from math import isclose, sqrt
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from proctor.eval import (
    PriorArtRelevanceResult,
    irac_structure,
    prior_art_relevance,
    prior_art_relevance_full,
)
from proctor.eval.patents import irac_parts, ranking_agreement

ARGUMENT = """## Issue
Does the reference show a hinge?

## Rule
A claim is anticipated when one document shows every feature of it.

## Application
The drawing shows a lid and no hinge.

## Conclusion
The claim is new."""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (ARGUMENT, ("issue", "rule", "application", "conclusion")),
        ("**Issue** The lid.", ("issue",)),
        ("ISSUE: the lid. CONCLUSION: allowed.", ("issue", "conclusion")),
        ("It is asked whether the lid is new.", ("issue",)),
        ("Under 35 U.S.C. 112 the claim is clear.", ("rule",)),
        ("See MPEP § 2111.", ("rule",)),
        ("Here, the lid has a hinge.", ("application",)),
        ("Therefore the rejection should fall.", ("conclusion",)),
        ("The tissue, the rules, the applicants: nothing of the kind.", ()),
        ("", ()),
        ("The lid is red.", ()),
    ],
)
def test_parts_of_an_argument_are_seen_by_headings_and_by_prose(text: str, parts: tuple[str, ...]) -> None:
    assert irac_parts(text) == parts
    assert irac_structure(text, "not looked at") == len(parts) / 4


def test_no_answer_has_no_parts() -> None:
    assert irac_structure(None) == 0.0  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("unit", [" ", "MPEP ", "35 ", "under ", "the ", "for the ", "35 U.S.C. \n"])
def test_a_long_argument_takes_time_in_proportion(unit: str) -> None:
    assert irac_structure("MPEP" + unit * 50_000 + "x") in (0.0, 0.25)


# --- rankings ----------------------------------------------------------------------------------------------

NAMES = ["EP-1", "US 9,001", "2020/0123", "lid.pdf", "Øre", "10987654"]
PLAIN = [name for name in NAMES if "," not in name]


@pytest.mark.parametrize(
    "reply",
    [
        PLAIN,
        tuple(PLAIN),
        ", ".join(PLAIN),
        "\n".join(PLAIN),
        "\r\n\r\n".join(PLAIN),
        "\n".join(f"{place}. {name}" for place, name in enumerate(PLAIN, 1)),
        "\n".join(f"  {place}) {name}" for place, name in enumerate(PLAIN, 98)),
        "\n".join(f"- {name}" for name in PLAIN),
        "\n".join(f"* {place}.  {name}" for place, name in enumerate(PLAIN, 1)),
        '["EP-1", "2020/0123", "", "lid.pdf", "Øre", "10987654"]',
        '```json\n["EP-1", "2020/0123", "lid.pdf", "Øre", 10987654]\n```',
    ],
)
def test_a_ranking_is_read_from_what_models_write(reply: Any) -> None:
    assert prior_art_relevance_full(reply, PLAIN) == PriorArtRelevanceResult(1.0, None, 5)
    assert prior_art_relevance(PLAIN[::-1], reply) == -1.0


def test_a_name_keeps_its_digits() -> None:
    numbers = ["10987654", "20987654", "30987654"]
    assert prior_art_relevance("10987654, 20987654, 30987654", numbers) == 1.0
    assert prior_art_relevance("20987654, 10987654, 40987654", numbers) < 1.0
    assert prior_art_relevance_full(numbers, numbers).mse_likert is None
    assert prior_art_relevance("3.14.pdf, 2.71.pdf", "2.71.pdf, 3.14.pdf") == -1.0


@pytest.mark.parametrize(
    ("predicted", "expected", "rho", "mse", "n"),
    [
        ("5, 4, 2", "5, 4, 2", 1.0, 0.0, 3),
        ([5, 4, 3], "3, 4, 5", -1.0, 8 / 3, 3),
        ("4.5\n2.5", [4.0, 3.0], 1.0, 0.25, 2),
        ("[3, 3, 3]", "[1, 2, 3]", 0.0, 5 / 3, 3),
        ("10, 0", "0, 10", -1.0, 100.0, 2),
    ],
)
def test_ratings_are_compared_by_value_too(
    predicted: Any, expected: Any, rho: float, mse: float, n: int
) -> None:
    result = prior_art_relevance_full(predicted, expected)
    assert isclose(result.spearman_rho, rho)
    assert result.mse_likert is not None
    assert isclose(result.mse_likert, mse)
    assert result.n == n


@pytest.mark.parametrize("numbers", ["11, 2", "nan, 2", "inf, 2", "-1, 2", "9" * 5000 + ", 2"])
def test_what_is_off_every_scale_is_a_name(numbers: str) -> None:
    assert prior_art_relevance_full(numbers, numbers) == PriorArtRelevanceResult(1.0, None, 2)


@pytest.mark.parametrize(
    ("predicted", "expected", "rho"),
    [
        ("x, y, z, w, a, b", "a, b, c", 1.0),  # c is behind all that are there
        ("x, y, z, w, c", "c, a, b", sqrt(3) / 2),
        ("a, a, b, a, c", "a, b, c", 1.0),
        ("b", "a, b", -1.0),
        ("x", "a, b", 0.0),
        ("a", "a", 0.0),
        ("", "a, b", 0.0),
        (None, None, 0.0),
        ([], [], 0.0),
    ],
)
def test_omissions_stand_last_and_additions_do_not_count(predicted: Any, expected: Any, rho: float) -> None:
    assert isclose(prior_art_relevance(predicted, expected), rho)


@pytest.mark.parametrize("what", [5, {"a": 1}, {"a", "b"}, b"ab"])
def test_a_ranking_of_another_kind_is_refused(what: Any) -> None:
    with pytest.raises(TypeError, match="must be text or a list"):
        prior_art_relevance(what, "a, b")
    with pytest.raises(TypeError, match="must be text or a list"):
        ranking_agreement("a, b", what)


def test_a_long_ranking_with_long_gaps_takes_time_in_proportion() -> None:
    gap = " " * 200_000
    assert prior_art_relevance(f"a{gap}b\n- {gap}c", f"a{gap}b, c") == 1.0
    assert prior_art_relevance("-" * 200_000 + ", x", "x, y") == 1.0


class TestRankingAgreement:
    def test_it_names_what_is_missing_and_what_is_more(self) -> None:
        result = ranking_agreement("EP-2, ep-1, WO-9", ["EP-1", "EP-2", "EP-3"])
        assert (result.n, result.missing, result.extra) == (3, ("ep-3",), ("wo-9",))
        assert result.rho == 0.5

    @pytest.mark.parametrize(
        ("predicted", "expected"), [("a", "a"), ("", "a, b"), ("x, y", "a, b"), ("a", "")]
    )
    def test_it_is_none_where_it_is_undefined(self, predicted: str, expected: str) -> None:
        assert ranking_agreement(predicted, expected).rho is None

    def test_numbers_are_names(self) -> None:
        assert ranking_agreement([1, 2, 3], [3, 1, 2]).rho == -0.5
        assert prior_art_relevance([1, 2, 3], [3, 1, 2]) == -0.5
        assert ranking_agreement([4, 5], [5, 4]).n == ranking_agreement([4, 4, 5], [5, 4, 5]).n == 2


def plain_spearman(xs: list[float], ys: list[float]) -> float:
    """By the book: Pearson's correlation of mean ranks."""

    def ranks(values: list[float]) -> list[float]:
        return [sum(v < own for v in values) + (sum(v == own for v in values) + 1) / 2 for own in values]

    a, b = ranks(xs), ranks(ys)
    mean = sum(a) / len(a)
    over = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    under = sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))
    return over / under if under else 0.0


RANKINGS = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=2, max_size=12, unique=True)
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=15)


@given(RANKINGS)
def test_a_ranking_agrees_with_itself_and_not_with_its_reverse(names: list[str]) -> None:
    assert prior_art_relevance(names, names) == ranking_agreement(names, names).rho == 1.0
    assert prior_art_relevance(names[::-1], names) == ranking_agreement(names[::-1], names).rho == -1.0


@pytest.mark.slow
@given(RANKINGS, st.randoms(use_true_random=False), st.data())
def test_new_names_for_the_same_documents_change_nothing(names: list[str], random: Any, data: Any) -> None:
    predicted = data.draw(st.lists(st.sampled_from([*names, "other"]), max_size=15))
    new_names = {name: f"doc {place}" for place, name in enumerate(random.sample(names, len(names)))}
    again = prior_art_relevance(
        [new_names.get(name, "elsewhere") for name in predicted], [new_names[name] for name in names]
    )
    assert again == prior_art_relevance(predicted, names)


@given(PAIRS)
def test_rho_of_ratings_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    xs, ys = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    result = prior_art_relevance_full(xs, ys)
    assert isclose(result.spearman_rho, plain_spearman(xs, ys), abs_tol=1e-12)
    assert result.mse_likert is not None
    assert isclose(result.mse_likert, sum((a - b) ** 2 for a, b in pairs) / len(pairs))


@given(RANKINGS, st.permutations(range(12)))
def test_rho_of_rankings_is_spearmans(names: list[str], order: list[int]) -> None:
    predicted = [names[place] for place in order if place < len(names)]
    assume(len(predicted) == len(names))
    places = [float(predicted.index(name)) for name in names]
    by_book = plain_spearman(places, [float(place) for place in range(len(names))])
    assert isclose(prior_art_relevance(predicted, names), by_book, abs_tol=1e-12)
    assert -1.0 <= prior_art_relevance(predicted, names) <= 1.0

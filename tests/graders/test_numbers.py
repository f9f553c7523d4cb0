from __future__ import annotations

import math
import time
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proctor.eval import CheckSpec, score_answer
from proctor.graders.numbers.numerals import find_first_digits, find_stated_number, is_near
from support.grading import grade_answer


def parse_number(numeral: str | None) -> float | None:
    return None if numeral is None else float(numeral)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42),
        ("It is 42.", 42),
        ("First 3, then 7", 7),
        ("1,500", 1500),
        ("$1,234,567.89 in all", 1234567.89),
        ("1,50", 50),
        ("1, 2, 3", 3),
        ("1\u202f500\u202f000", 1500000),
        ("3-15", 15),
        ("between 3 and -15", -15),
        ("minus: −15", -15),
        ("(-3)", -3),
        ("-$5", -5),
        ("$-5", -5),
        ("€ 12.50", 12.5),
        ("USD1500", 1500),
        ("50%", 50),
        ("1.5e1", 15),
        ("-1.5E-3", -0.0015),
        ("6.02 × 10^23", 6.02e23),
        (r"6.02 \times 10^{-3}", 0.00602),
        (".5", 0.5),
        ("5 km", 5),
        ("5km", 5),
        ("the 3rd", 3),
        ("415 ppm of CO2", 415),
        ("约5元", 5),
        ("**7**", 7),
        ("no digits here", None),
        ("", None),
        ("x2", None),
    ],
)
def test_a_number_is_read_as_english_writes_it(text: str, number: float | None) -> None:
    assert parse_number(find_stated_number(text)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 15 (see step 3).", 15),
        ("Answer: **1,500** of 3", 1500),
        ("The final answer is approximately $12.5, from 2 sources.", 12.5),
        ("The answer is 0. Not 3.", 0),
        ("Its answer is 4. The answer is 5, by step 9.", 5),
        ("2 + 2 = 4 (see step 3)", 4),
        ("total = 15 [note 2]", 15),
        ("Given x = 3, the value is 7.", 7),
        ("x == 3 at line 8", 8),
        (r"So \boxed{42}, as 6 × 7 shows.", 42),
        (r"\boxed{1} or rather \boxed{x = 1{,}500} in 3 steps", 1500),
        (r"\boxed{} 4", 4),
        (r"\boxed{7", 7),
        ("They answered 3 questions in 9 minutes", 9),
    ],
)
def test_a_stated_answer_outranks_the_last_number(text: str, number: float) -> None:
    assert parse_number(find_stated_number(text)) == number


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**300), 10**300))
def test_every_finite_number_is_found_as_python_writes_it(number: float) -> None:
    for text in (str(number), f"It is {number}.", f"The answer is {number}, see page 3", f"({number})"):
        assert grade_answer("number", {"value": float(number), "tolerance": 0}, text).passed, text


@given(st.integers(-(10**15), 10**15))
def test_every_integer_is_found_with_thousands_separators(number: int) -> None:
    for text in (f"{number:,}", f"${number:,}.00", f"{number:,} of them", str(number).replace("-", "−")):
        assert parse_number(find_stated_number(text)) == number


DECIMALS = st.decimals(-10000, 10000, places=3)
TOLERANCES = st.decimals(0, 100, places=3)


@given(DECIMALS, DECIMALS, TOLERANCES)
@example(Decimal("1.1"), Decimal(1), Decimal("0.1"))
@example(Decimal("0.3"), Decimal("0.1"), Decimal("0.2"))
def test_two_numbers_are_near_as_their_decimals_are(
    actual: Decimal, expected: Decimal, tolerance: Decimal
) -> None:
    for number in (
        actual,
        expected - tolerance,
        expected + tolerance,
        expected + tolerance + Decimal("0.001"),
    ):
        within = abs(number - expected) <= tolerance
        assert is_near(str(number), str(expected), float(tolerance)) is within
        params = {"value": float(expected), "tolerance": float(tolerance)}
        assert grade_answer("number", params, str(number)).passed is within
        check = CheckSpec("numeric", value=float(expected), tolerance=float(tolerance))
        assert score_answer(str(number), check).passed is within


@given(DECIMALS, DECIMALS.filter(bool), st.decimals(0, 2, places=4))
@example(Decimal("1.01"), Decimal(1), Decimal("0.01"))
@example(Decimal("0.303"), Decimal("0.3"), Decimal("0.01"))
def test_shares_are_decimals_too(actual: Decimal, expected: Decimal, share: Decimal) -> None:
    for number in (
        actual,
        expected * (1 - share),
        expected * (1 + share),
        expected * (1 + share) + Decimal("1e-9"),
    ):
        within = abs(number - expected) <= share * abs(expected)
        params = {"value": float(expected), "tolerance": float(share), "relative": True}
        assert grade_answer("number", params, f"{number:f}").passed is within
        first = {"value": str(expected), "rel_tolerance": float(share)}
        assert grade_answer("numeric_match", first, f"{number:f}").passed is within


@pytest.mark.parametrize("digits", [1, 40, 400, 5000])
@pytest.mark.parametrize("sign", ["", "-"])
def test_the_last_digit_of_a_long_number_counts(digits: int, sign: str) -> None:
    zeros = "0" * (digits - 1)
    assert is_near(f"{sign}1.1", f"{sign}1.{zeros}0", 0.1)
    assert not is_near(f"{sign}1.1{zeros}1", f"{sign}1", 0.1)
    assert is_near(f"{sign}1{zeros}1", f"{sign}1{zeros}0", 1)
    assert not is_near(f"{sign}1{zeros}1.1", f"{sign}1{zeros}0", 1)
    assert is_near(f"0.{zeros}1", "0", 0.1, relative=True)
    assert not is_near("0.01", f"0.{zeros}001", 0.1, relative=True)


@pytest.mark.parametrize("power", ["999999999", "9" * 40])
@pytest.mark.parametrize("value", [0.0, 1.0, -1e308])
def test_a_huge_power_of_ten_takes_no_time(power: str, value: float) -> None:
    began = time.process_time()
    none = {"value": value, "tolerance": 0}
    wide = {"value": value, "tolerance": 1e308, "relative": True}
    assert not grade_answer("number", none, f"1e{power}").passed
    assert not grade_answer("number", wide, f"1e{power}").passed
    assert grade_answer("number", none, f"1e-{power}").passed is (value == 0)  # a value keeps no such power
    assert grade_answer("number", wide, f"1e-{power}").passed
    assert not is_near(f"1e{power}", f"-1e-{power}", 0)
    assert not grade_answer("numeric_equal", {"value": "1"}, f"1e{power}").passed
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3 and 4", 3.0),
        ("In FY2023 it was $1,250.5. The answer is 7", 2023.0),
        ("COVID-19 fell by -2 %", -19.0),
        ("It is -$5, or (5).", 5.0),
        ("5e3", 5.0),
        ("No number.", None),
    ],
)
def test_the_first_number_counts_where_that_is_asked_for(text: str, number: float | None) -> None:
    assert parse_number(find_first_digits(text)) == number


@given(st.text())
def test_any_text_has_a_number_or_none(text: str) -> None:
    number = parse_number(find_stated_number(text))
    assert number is None or not math.isnan(number)


@pytest.mark.parametrize(
    "text",
    [
        "1" * 100_000,
        "1,111," * 20_000,
        "answer is " + " " * 100_000,
        "= " * 50_000,
        "= 1 " * 30_000,
        "=1 " + "(a" * 50_000,
        "-" * 100_000,
        r"\boxed{" * 15_000,
        "1 * 10 " * 15_000,
    ],
)
def test_a_long_hostile_answer_takes_no_time(text: str) -> None:
    began = time.process_time()
    find_stated_number(text)
    assert time.process_time() - began < 1.5

"""Which quantities are the same, which numbers of a text are answers, and which of them counts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.graders.numbers.numerals import numeric_match
from proctor.graders.numbers.quantities import find_quantity, numeric_equal, to_fraction
from proctor.graders.reasoning import strip_reasoning
from support.grading import grade_answer

SAME = [
    # scale words
    ("$4.5B", "4,500 million"),
    ("$4.5B", "4500000000"),
    ("4.5 bn", "$4.5 billion"),
    ("4.5b", "4.5 Billion"),
    ("12k", "12,000"),
    ("12K", "12 thousand"),
    ("£3m", "£3,000,000"),
    ("$4.5mm", "$4.5M"),
    ("4.5 mn", "4.5 mil"),
    ("1.2T", "1,200 bn"),
    ("5 lakh", "500,000"),
    ("₹5 crore", "50 million rupees"),
    ("3 hundred", "300"),
    ("$4.5 billion-dollar", "4.5B"),
    ("**$4.5** billion", "4.5 billion"),
    # signs
    ("-5", "−5"),
    ("–3%", "-3 %"),
    ("− 5", "-5"),
    ("It is − 5.", "-5"),
    ("minus 5", "-5"),
    ("negative $5", "-$5"),
    ("(1,234)", "-1234"),
    ("( 1,234 )", "-1,234"),
    ("$(1,234) million", "-$1.234 billion"),
    ("($5.0)", "-5"),
    ("(5)%", "-5%"),
    ("(4.5 billion)", "-4.5B"),
    ("-US$5", "-5"),
    ("-USD 5", "USD -5"),
    ("$-5", "-$5"),
    ("+5", "5"),
    ("-0", "0"),
    # powers, fractions, and other ways to write numbers
    ("1e3", "1000"),
    ("12E3", "12k"),
    ("1.5×10^3", "1500"),
    ("1.5 x 10³", "1500"),
    (r"6.02 \times 10^{23}", "6.02e23"),
    ("1.2 × 10⁻³", "0.0012"),
    (".5", "0.5"),
    ("1/2", "0.5"),
    ("3/4", "75%"),
    ("1\u202f500", "1500"),
    ("1{,}500", "1,500"),
    ("１２", "12"),
    ("约5元", "5"),
    ("2.5x", "2.5"),
    # shares
    ("12.5%", "12.5 per cent"),
    ("12.5 percent", "12.5 pct"),
    ("12.5%", "0.125"),
    ("0.05", "5%"),
    ("150 basis points", "1.5%"),
    ("50bps", "0.5 percentage points"),
    ("0%", "0"),
    (r"12\%", "12％"),
    # money
    ("US$4.5bn", "$4.5 billion"),
    ("USD 4.5 billion", "4.5 billion US dollars"),
    ("EUR 4.5 million", "€4.5M"),
    ("5€", "5 euros"),
    ("CA$5", "5 CAD"),
    ("¥500", "500 yen"),
    ("¥500", "500 yuan"),
    ("5 pounds", "£5"),
    ("$5 per share", "$5"),
    ("$5/share", "5 dollars"),
    # measures
    ("5000 g", "5 kg"),
    ("2.5 million tonnes", "2.5e9 kg"),
    ("5 pounds", "5 lb"),
    ("2 hours", "120 min"),
    ("1.5 years", "18 months"),
    ("5 m", "500 cm"),
    ("5 m", "5 million"),
    ("3 ft", "36 inches"),
    ("60 km/h", "60 kph"),
    ("98.6 °F", "98.6 degrees Fahrenheit"),
    ("1.5 MWh", "1500 kWh"),
    ("1 TB", "1000 GB"),
    # a unit that is missing
    ("4.5 billion", "$4.5B"),
    ("5", "5 kg"),
    ("128 GB", "128"),
    ("5 apples", "5"),
    ("42 employees", "42 people"),
    # the edge of the tolerance of 1 %
    ("1.01", "1"),
    ("0.99", "1"),
    ("101", "100"),
    ("-99", "-100"),
    ("0.0101", "0.01"),
    ("1.01e-7", "1e-7"),
]
DIFFERENT = [
    # scales and signs
    ("$4.5M", "$4.5B"),
    ("4.5", "4.5 million"),
    ("12k", "12"),
    ("-5", "5"),
    ("(5)", "5"),
    ("−$4.5B", "$4.5B"),
    ("7 − 5", "-5"),
    ("15-3", "-3"),
    # units
    ("$5", "€5"),
    ("C$5", "$5"),
    ("5 USD", "5 CAD"),
    ("12.5%", "12.5"),
    ("12.5", "12.5%"),
    ("5%", "$5"),
    ("5 kg", "5 lb"),
    ("2.2 lb", "1 kg"),
    ("5 km", "5 miles"),
    ("5 km", "5 kg"),
    ("365 days", "12 months"),
    ("98.6 °F", "37 °C"),
    ("5 kg", "$5"),
    ("5 m", "5"),
    ("€5 for 7 people", "$7"),
    # beyond the tolerance
    ("1.0100001", "1"),
    ("0.9899999", "1"),
    ("98.99", "100"),
    ("0.0001", "0"),
    ("0", "0.0001"),
    # names
    ("FY2023", "2023"),
    ("FY 23", "23"),
    ("fiscal 2023", "2023"),
    ("Q3", "3"),
    ("10-K", "10"),
    ("8-k", "8"),
    ("20-F", "20"),
    ("F-16", "16"),
    ("COVID-19", "19"),
    ("GPT-4", "4"),
    ("CO2", "2"),
    ("x2", "2"),
    ("US10987654", "10987654"),
    ("US 10,987,654 B2", "10987654"),
    ("401(k)", "401"),
    ("the 3rd", "3"),
    ("item 7", "7"),
    ("Item 7A", "7"),
    ("Note 12", "12"),
    ("see page 3", "3"),
    ("p. 3", "3"),
    ("Section 4.2", "4.2"),
    ("step 3", "3"),
    ("claim 5", "5"),
    ("§ 112(b)", "112"),
    ("35 U.S.C. § 103", "35"),
    ("35 U.S.C. § 103", "103"),
    ("No. 5", "5"),
    ("#5", "5"),
    ("ISO 9001", "9001"),
    ("version 2.5.1", "2.5"),
    ("10:30", "10"),
    ("3:1", "3"),
    ("Plan B, section 5", "5"),
    # years and dates
    ("in 2023", "2023"),
    ("In 2021, 2022", "2022"),
    ("between 2019 and 2021", "2021"),
    ("2019-2020", "2020"),
    ("2019–2020", "2019"),
    ("March 2021", "2021"),
    ("15 March 2021", "15"),
    ("December 31, 2023", "31"),
    ("December 31, 2023", "2023"),
    ("2024-01-15", "15"),
    ("01/15/2024", "15"),
    ("the 1990s", "1990"),
    ("2023's", "2023"),
    ("the 2023 report", "2023"),
    # what is written otherwise, or is no one number
    ("1,50", "50"),
    ("1.234,56", "1.234"),
    ("1 234 567", "567"),
    ("1 1/2", "0.5"),
    ("2½", "2"),
    ("5²", "5"),
    ("2^8", "8"),
    ("10-12", "12"),
    ("$10-$12", "$12"),
    ("10%–12%", "12%"),
    ("10 +/- 2", "2"),
    ("1/0", "1"),
    ("1e999999999", "1e999999999"),
    ("two million", "2,000,000"),
    ("nan", "nan"),
    ("inf", "inf"),
    ("no number", "3"),
    ("3", "no number"),
    ("", "0"),
    ("0", ""),
]


@pytest.mark.parametrize(("text", "other_text"), SAME)
def test_the_same_quantity_may_be_written_differently(text: str, other_text: str) -> None:
    assert numeric_equal(text, other_text) == 1.0
    assert numeric_equal(other_text, text, rel_tolerance=0.011) == 1.0


@pytest.mark.parametrize(("text", "other_text"), DIFFERENT)
def test_what_is_another_quantity_or_no_answer_is_refused(text: str, other_text: str) -> None:
    assert numeric_equal(text, other_text) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("In FY2023 it was 4.5", "4.5"),
        ("10-K shows 3", "3"),
        ("According to the 10-K for FY 2022 (page 45), the margin was 8.5%.", "8.5%"),
        ("<think>5? No, 7.</think>6", "6"),
        ("<think>It is 5", ""),
        ("5, I guess.</think>6", "6"),
        ("42 (up from 40)", "42"),
        ("Revenue was $4.5B, up from $4.2B.", "$4.5B"),
        ("Revenue was $4.5B, compared with $4.2B in FY2022.", "$4.5B"),
        ("Revenue grew from $10.2B to $11.4B, an increase of 11.8%.", "$11.4B"),
        ("Revenue grew by about 12% to $11.4B.", "$11.4B"),
        ("It fell by 3%.", "3%"),
        ("The answer is 12 of 40, in step 3.", "12"),
        ("The answer is $5, as shown in 2023.", "$5"),
        ("The answer is 10-K, so 3", "3"),
        (r"\boxed{\$4{,}500} in 3 steps", "$4500"),
        ("5.0 / 2.0 = 2.5 (see note 3)", "2.5"),
        ("1. Sales were 5\n2. Profit was 7", "7"),
        ("1. 45", "45"),
        ("42. It is as I said.", "42"),
        ("For 2023: 45", "45"),
        ("45 units, fewer than 1950", "45"),
        ("2023", "2023"),
        ("The answer is 2023.", "2023"),
        ("five (5)", "5"),
        ("f(5)", "5"),
        ("5 km (3.1 miles)", "5 km"),
        ("[42]", "42"),
        ("No. 7 has 5", "5"),
        ("No, 5", "5"),
        ("Vitamin K 5", "5"),
        ("Note: 5", "5"),
        ("100 ± 2", "100"),
        ("9.99 , 1e400 , 1e401", "1e400"),
    ],
)
def test_the_number_that_is_stated_counts(answer: str, expected: str) -> None:
    quantity, expected_quantity = find_quantity(answer), find_quantity(expected)
    assert (quantity and [reading[:2] for reading in quantity.readings]) == (
        expected_quantity and [reading[:2] for reading in expected_quantity.readings]
    )


@pytest.mark.parametrize(
    ("answer", "expected", "score"),
    [
        ("Revenue grew from $10.2B to $11.4B, by 11.8%.", "11.8%", 1.0),
        ("Revenue grew from $10.2B to $11.4B, by 11.8%.", "$11.4B", 1.0),
        ("Revenue grew from $10.2B to $11.4B, by 11.8%.", "$10.2B", 0.0),
        ("£3.6bn ($4.5bn)", "$4.5 billion", 1.0),
        ("£3.6bn ($4.5bn)", "£3.6 billion", 1.0),
        ("5 kg at 20 °C", "20 °C", 1.0),
        ("Margin = 25%. Sales of $5 = all.", "25%", 1.0),
        ("3 kg, at a price of 2 + 3 = $5", "3 kg", 1.0),
        ("It is 42, or 5 %", "42", 1.0),
        ("Ten of 12 people, i.e. 83%", "83%", 1.0),
    ],
)
def test_the_unit_that_is_expected_helps_to_choose(answer: str, expected: str, score: float) -> None:
    assert numeric_equal(answer, expected) == score


# --- laws --------------------------------------------------------------------------------------------------

NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)


@given(NUMBERS, st.sampled_from(["", "$", "€"]), st.sampled_from(["", " million", "k", " kg", "%"]))
def test_every_number_is_itself_however_it_is_grouped(number: Any, before: str, after: str) -> None:
    plain, grouped = f"{before}{number}{after}", f"{before}{number:,}{after}"
    assert numeric_equal(f"It is {plain}.", grouped, rel_tolerance=0) == 1.0
    assert numeric_equal(grouped, plain, rel_tolerance=0) == 1.0


@given(NUMBERS.filter(bool), st.integers(0, 200), st.integers(-300, 300))
def test_the_tolerance_is_an_exact_share(number: Any, thousandths: int, off: int) -> None:
    answer = Fraction(number) * (1 + Fraction(off, 1000))
    text = f"{answer.numerator}/{answer.denominator}"
    if answer.denominator < 10**12 and "-" not in text:
        passed = numeric_equal(text, str(number), rel_tolerance=thousandths / 1000) == 1.0
        assert passed == (abs(off) <= thousandths)


@given(st.text() | st.text("0123456789.,-−–()$€%/ eEkKmMbB^×\n<think>/").map(str))
def test_any_text_has_a_quantity_or_none(text: str) -> None:
    quantity = find_quantity(text)
    if quantity is not None:
        assert quantity.source_text in strip_reasoning(text)
        assert all(reading.denominator > 0 for reading in quantity.readings)
        assert numeric_equal(text, text) == 1.0


@pytest.mark.parametrize("tolerance", [-0.01, math.nan, math.inf])
def test_a_tolerance_that_cannot_be_is_refused(tolerance: float) -> None:
    with pytest.raises(ValueError, match="must be a number of 0 or more"):
        numeric_equal("1", "1", rel_tolerance=tolerance)


@pytest.mark.parametrize(
    ("tolerance", "share"),
    [(0.01, Fraction(1, 100)), (0, 0), (1e-7, Fraction(1, 10**7)), (2.5, 2.5), (1e22, 10**22)],
)
def test_a_tolerance_is_the_decimal_that_is_written(tolerance: float, share: Any) -> None:
    assert Fraction(*to_fraction(tolerance)) == share


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a <think>b</think> c", "a   c"),
        ("a <THINK>b", "a  "),
        ("b</think>c", "c"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("I think> so", "I think> so"),
        ("plain", "plain"),
    ],
)
def test_thoughts_are_left_out(text: str, answer: str) -> None:
    assert strip_reasoning(text) == answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "1" * 100_000,
        "1," * 50_000,
        "1 " * 50_000,
        "(1 " * 30_000,
        "1/" * 50_000,
        "1-" * 50_000,
        "<think>" * 14_000,
        "</think>" * 12_000,
        "[(" * 50_000,
        "minus " * 16_000 + "5",
        "5 " + "a" * 100_000,
        "$" * 100_000,
        "0." + "1" * 100_000,
    ],
)
def test_a_long_hostile_answer_takes_time_in_proportion(text: str) -> None:
    """These 100,000 characters would take an hour in quadratic time."""
    assert numeric_equal(text, "77") == 0.0


# --- the graders -------------------------------------------------------------------------------------------


@given(
    st.text("0123456789.,-$ a"), st.text("0123456789.,-$").filter(lambda text: any(map(str.isdigit, text)))
)
def test_a_grader_and_the_scorer_of_its_name_agree(answer: str, value: str) -> None:
    assert grade_answer("numeric_match", {"value": value}, answer).value == numeric_match(answer, value)
    if find_quantity(value) is not None:
        assert grade_answer("numeric_equal", {"value": value}, answer).value == numeric_equal(answer, value)

"""Answers to questions of finance, as models write them: which of them state the quantity that is right."""

from __future__ import annotations

import pytest

from proctor.graders.numbers.quantities import numeric_equal

RIGHT = [
    ("$4.5 billion", "Revenue rose from $4.1 billion in 2022 to $4.5 billion in 2023."),
    ("9.8%", "In 2023, revenue was $4.5 billion, up 9.8% from $4.1 billion the year before."),
    ("$120 million", "Restated 2021 revenue was $120 million (previously reported: $125 million)."),
    ("$120 million", "Revenue, as restated, was $120 million; it was originally reported as $125 million."),
    ("$2.3 billion", "Between 2020 and 2022, net debt fell to $2.3 billion."),
    ("$2.3 billion", "~$2.3bn"),
    ("$2.3 billion", "$2,300,000 thousand"),
    ("€1.2 million", "1.2 M€"),
    ("€1.2 billion", "1.2 Mrd. €"),
    ("€1.2 million", "1.2 Mio EUR"),
    ("$1.5 trillion", "1.5 trn"),
    ("-$45 million", "Net income: ($45 million)"),
    ("-$45 million", "Net income was negative $45 million."),
    ("3.2%", "Gross margin improved 320 basis points."),
    ("0.032", "3.2%"),
    ("1.2x", "The current ratio is 1.2."),
    ("1.2x", "1.20 times"),
    ("320%", "3.2x"),
    ("93.86%", "- Gross profit: $9,386\n- Revenue: $10,000\n\n**Gross margin = 93.86%**"),
    ("93.86%", r"$\frac{9386}{10000} = 0.9386$, i.e. \boxed{93.86\%}"),
    ("$4.5 billion", "| Year | Revenue |\n|---|---|\n| 2022 | $4.1 billion |\n| 2023 | $4.5 billion |"),
    ("24.26", "The ratio is 24.26.[1][2]"),
    ("24.26", "The ratio is 24.26, per page 47 of the 10-K."),
    ("24.26", "> 24.26"),
    ("24.26", "Ratio -> 24.26"),
    ("24.26", "<b>24.26</b>"),
    ("24.26", "FY2019: it is not 23.1 but 24.26"),
    ("12%", "It is 12%, not 10.5%."),
    ("12%", "12% instead of 10.5%"),
    ("25%", "That is 0.25 or 25%."),
    ("5 cents", "$0.05"),
    ("50 pence", "£0.50"),
    ("5", "5 of 12 segments"),
    ("$300 million", "It increased by $45 million to $300 million."),
    ("4.5", "It went from about 4.1 to 4.5."),
    ("$4.5 billion", "It rose 9.8% to $4.5 billion."),
    ("at least 5%", "no less than 5%"),
    (">5%", "more than 5%"),
    ("5%", "over 5%"),
]
WRONG = [
    ("10,000", "See the 10-K."),
    ("8,000", "It is in the 8-K."),
    ("567", "1'234'567"),
    ("234", "1’234"),
    ("1.2", "1.2 M€"),
    ("€1.2", "1.2 Mrd. €"),
    ("10.5%", "It is 12%, not 10.5%."),
    ("10.5%", "It isn’t 10.5%."),
    ("$5 million", "It was never about $5 million."),
    ("10.5%", "12% instead of 10.5%"),
    ("3", "Level 3 assets"),
    ("500", "S&P 500"),
    ("5", "Top 5 customers"),
    ("5 million", "between 4 and 5 million"),
    ("$5 million", "$4 million to $5 million"),
    ("5%", "4% to 5%"),
    ("5", "a ratio of 5 to 1"),
    ("3", "either 2 or 3"),
    ("12", "5 of 12"),
    ("$5 million", "less than $5 million"),
    ("$5 million", "up to $5 million"),
    ("$5 million", "≥ $5 million"),
    ("5%", ">5%"),
    ("at least 5%", "at most 5%"),
    ("$5", "5 cents"),
    ("$5", "5 pesos"),
    ("$8.7", "8.7x"),
    ("8.7x", "$8.7"),
    ("5", "5 and a half"),
    ("5", "5 dozen"),
    ("$2.3 billion", "$2,300"),
    ("$45 million", "45"),
    ("12,345", "12.345"),
    ("10.5%", "10-11%"),
    ("A$15.2bn", "$15.2 billion"),
]


@pytest.mark.parametrize(("expected", "answer"), RIGHT)
def test_what_a_careful_reader_accepts_is_accepted(expected: str, answer: str) -> None:
    assert numeric_equal(answer, expected) == 1.0


@pytest.mark.parametrize(("expected", "answer"), WRONG)
def test_what_a_careful_reader_refuses_is_refused(expected: str, answer: str) -> None:
    assert numeric_equal(answer, expected) == 0.0

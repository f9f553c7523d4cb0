r"""Finds numbers in text, the one that an answer states, and whether two numbers are close.

Reads numbers as in English (`1,500.75`). Words such as "million" and fractions such as `1/2` are read in
`quantities.py`. Imports only the standard library, so that the scorers of `proctor.eval` load fast.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable

Numeral = re.Match[str]
"""The match of a number, with the groups of `_NUMBER`."""
NumeralFilter = Callable[[Numeral], bool]
"""Whether a number is a candidate at all."""

# A letter or digit of an alphabet before a digit makes it part of a name (x2, COVID-19 has a hyphen between);
# scripts without spaces put a number right after a character, so they are not in this set.
_GLUE = r"\dA-Za-z_\u00c0-\u024f\u0370-\u04ff"
_MINUS = "-−"
_NUMBER = rf"""
    (?=[-−+$€£¥₹\\.\d])
    (?P<sign>(?<![{_GLUE})\]%])[-−+])?
    (?:\\?(?P<currency>[$€£¥₹])[ ]?(?P<inner>[-−])?)?
    (?P<digits>
        (?:(?<![{_GLUE}])|(?<=\bUSD)|(?<=\bEUR)|(?<=\bGBP))
        (?:\d{{1,3}}(?P<gap>,|\{{,\}}|[\u00a0\u2009\u202f])\d{{3}}(?:(?P=gap)\d{{3}})*(?!\d)|\d+)(?:\.\d+)?
        |(?<![{_GLUE}.])\.\d+
    )
    (?:[eE](?P<exponent>[-−+]?\d+)(?!\w))?
    (?:[ ]?(?:[×xX*·]|\\times|\\cdot)[ ]?10
        (?:[ ]?(?:\^|\*\*)[ ]?[{{(]?(?P<power>[-−+]?\d+)[}})]?|(?P<raised>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+))
    )?
"""
# Every filler is bounded, so that an answer full of spaces cannot take quadratic time.
_FILL = r"[\s*_:=~≈({\\\[$]{0,20}"
_ABOUT = rf"(?:(?:approximately|about|roughly|exactly|simply|just|therefore|thus|equal[ ]to)\b{_FILL})?"
_ANY_NUMBER = re.compile(_NUMBER, re.VERBOSE)
_ANSWER = re.compile(
    rf"(?:[Aa]nswer|ANSWER)[\s*_]{{0,8}}(?i:is|was|equals|:|=){_FILL}{_ABOUT}{_NUMBER}", re.VERBOSE
)
_EQUALS = re.compile(rf"(?<![=<>!≤≥])={_FILL}{_NUMBER}", re.VERBOSE)
_BRACKETED = re.compile(r"\([^()]*+\)|\[[^\[\]]*+\]")
_BOX = "\\boxed{"
_TO_PLAIN_DIGITS = str.maketrans("⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹−", "-+0123456789-")

_find_first = re.compile(r"-?\d[\d,]*(?:\.\d+)?").search


# --- the first number --------------------------------------------------------------------------------------


def numeric_match(predicted: str, expected: str, *, rel_tolerance: float = 0.01) -> float:
    """Returns 1.0 if the first numbers of both texts are nearly the same, else 0.0.

    A number is a run of digits and commas, perhaps with a minus right before it and decimals after it.
    Everything else is ignored: currencies, percent signs, "million", brackets, `e3`. A year or the 10 of
    "10-K" counts if it comes first, also inside `<think>`. `numeric_equal` is strict.

    Args:
        predicted: the answer.
        expected: the right answer.
        rel_tolerance: the largest difference, as a share of the expected number; if that is 0, the
            difference itself.

    Raises:
        TypeError: one of them is not a text.
    """
    try:
        got, expected_digits = _find_first(predicted), _find_first(expected)
    except TypeError:
        raise not_text_error(predicted, expected) from None
    if got is None or expected_digits is None:
        return 0.0
    near = is_near(got[0].replace(",", ""), expected_digits[0].replace(",", ""), rel_tolerance, relative=True)
    return 1.0 if near else 0.0


def find_first_digits(text: str) -> str | None:
    """Returns the number that `numeric_match` takes from a text, as text for `float`; None if it has none."""
    match = _find_first(text)
    return None if match is None else match[0].replace(",", "")


def not_text_error(predicted: object, expected: object) -> TypeError:
    """Returns the error for a scorer that is called with anything but texts."""
    name, value = ("expected", expected) if isinstance(predicted, str) else ("predicted", predicted)
    return TypeError(
        f"`{name}` is {value!r:.80}, {type(value).__name__}; a scorer compares texts, so pass a str."
    )


# --- whether two are near ----------------------------------------------------------------------------------


def is_near(got: str, expected_digits: str, tolerance: float, *, relative: bool = False) -> bool:
    """Whether two numbers, as written, differ by at most a tolerance: 1.1 is within 0.1 of 1.

    Args:
        got: a number as text for `float`.
        expected_digits: the expected number, likewise.
        tolerance: the largest difference, read as the shortest decimal of this float.
        relative: whether the tolerance is a share of the expected number, if that is not 0.
    """
    number, right = float(got), float(expected_digits)
    apart = abs(number - right)
    limit = tolerance * abs(right) if relative else tolerance
    slack = 1e-14 * (abs(number) + abs(right) + limit) + 1e-300
    if (right or not relative) and abs(apart - limit) > slack:  # exact enough in binary
        return apart <= limit
    return _is_near_in_decimal(got, expected_digits, tolerance, relative)


def _is_near_in_decimal(got: str, expected_digits: str, tolerance: float, relative: bool) -> bool:
    from decimal import MAX_EMAX, MIN_EMIN, ROUND_UP, Context, Decimal, localcontext

    # With digits for both numbers and their tolerance, a difference that is rounded up stays on its side of
    # the limit: it has more digits only where one number is so small that the limit does not reach into it.
    digits = len(got) + len(expected_digits) + 50
    with localcontext(Context(digits, ROUND_UP, MIN_EMIN, MAX_EMAX, traps=[])):
        right, limit = Decimal(expected_digits), Decimal(repr(float(tolerance)))
        if relative and right:
            limit *= abs(right)
        return abs(Decimal(got) - right) <= limit


# --- the number that is meant ------------------------------------------------------------------------------


def find_stated_number(text: str) -> str | None:
    r"""Returns the number that a text gives as its answer, as text for `float`; None if it has none.

    The first of these that exists:

    1. the last number in the last `\boxed{…}`;
    2. the number after the last "answer is", "answer:" or "answer =";
    3. the number after the last `=`, if all later numbers are in brackets;
    4. the last number.

    A minus sign counts unless a letter, digit or closing bracket precedes it, so `3-15` has 3 and 15.
    Currency and percent signs around a number are ignored, and `1.5 × 10^3` is one number.
    """
    match = find_declared_number(text) or find_number_after_equals(text) or _last(find_numerals(text))
    return match and _to_float_text(match)


def find_numerals(text: str) -> list[Numeral]:
    """Returns every number of a text."""
    return list(_ANY_NUMBER.finditer(text))


def find_declared_number(text: str, counts: NumeralFilter | None = None) -> Numeral | None:
    r"""Returns the number in the last `\boxed{…}`, else the one after the last "answer is"."""
    return _find_boxed(text, counts) or _last(_ANSWER.finditer(text), counts)


def find_number_after_equals(text: str) -> Numeral | None:
    """Returns the number after the last `=`, if all later numbers are in brackets."""
    match = _last(_EQUALS.finditer(text))
    if match is None or _ANY_NUMBER.search(_BRACKETED.sub(" ", text[match.end() :])):
        return None
    return match


def _find_boxed(text: str, counts: NumeralFilter | None) -> Numeral | None:
    start = text.rfind(_BOX)
    if start < 0:
        return None
    depth, at = 1, start + len(_BOX)
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return _last(_ANY_NUMBER.finditer(text, at, end), counts)
    return None


def _last(numerals: Iterable[Numeral], counts: NumeralFilter | None = None) -> Numeral | None:
    last = deque(numerals if counts is None else filter(counts, numerals), maxlen=1)
    return last.pop() if last else None


# --- its parts ---------------------------------------------------------------------------------------------


def get_digits(match: Numeral) -> tuple[str, str]:
    """Returns the digits with at most one point, and the power of ten as signed digits; empty if none."""
    gap = match["gap"]
    digits = match["digits"].replace(gap, "") if gap else match["digits"]
    power = match["exponent"] or match["power"] or match["raised"]
    return digits, power.translate(_TO_PLAIN_DIGITS) if power else ""


def is_negative(match: Numeral) -> bool:
    """Whether there is a minus before the digits, or between them and the currency sign."""
    return (match["sign"] or "+") in _MINUS or match["inner"] is not None


def _to_float_text(match: Numeral) -> str:
    digits, power = get_digits(match)
    if power:
        sign, power = "-" * power.startswith("-"), power.lstrip("-+0")
        power = f"e{sign}{power[:15] or 0}"  # more digits than decimals can have, and none could tell
    return "-" * is_negative(match) + digits + power

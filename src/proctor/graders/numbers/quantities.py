"""Finds the quantity that an answer states, and compares quantities with their units, exactly.

Heuristics for English. Reads the sign (`-`, `−`, "minus", accounting brackets), scale words (`4.5B`,
`4,500 million`, `12k`), powers (`1e3`, `1.5×10^3`), fractions (`1/2`) and the unit. `mentions.py` says which
numbers are not answers. Values are fractions of whole numbers, so nothing is rounded. Imports only the
standard library.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

from proctor.graders.numbers.mentions import NumberMention, NumberReading, find_mentions
from proctor.graders.numbers.numerals import find_declared_number, find_number_after_equals, not_text_error
from proctor.graders.reasoning import strip_reasoning

DEFAULT_TOLERANCE = 0.01
"""The default tolerance, as a share of the expected number."""


def numeric_equal(predicted: str, expected: str, *, rel_tolerance: float = DEFAULT_TOLERANCE) -> float:
    """Returns 1.0 if two texts state the same quantity, else 0.0: `$4.5B` is `4,500 million US dollars`.

    `find_quantity` says which number of a text counts, and `is_same_quantity` when units agree. The
    comparison is exact: with 1 %, 1.01 is close enough to 1 and 1.0100001 is not. Only 0 is close to 0.

    Args:
        predicted: the answer; one without a number that can be an answer scores 0.0.
        expected: the right answer; likewise.
        rel_tolerance: the largest difference, as a share of the expected number: 0.01 for 1 %.

    Raises:
        TypeError: one of them is not a text.
        ValueError: the tolerance is negative, infinite or NaN.
    """
    if not isinstance(predicted, str) or not isinstance(expected, str):
        raise not_text_error(predicted, expected)
    tolerance = to_fraction(rel_tolerance)
    quantity = find_quantity(expected)
    got = None if quantity is None else find_quantity(predicted, like=quantity)
    return (
        1.0
        if got is not None and quantity is not None and is_same_quantity(got, quantity, tolerance)
        else 0.0
    )


# --- which number counts -----------------------------------------------------------------------------------


def find_quantity(text: str, *, like: NumberMention | None = None) -> NumberMention | None:
    r"""Returns the quantity that a text states; None if it has no number that can be an answer.

    Removes `<think>` parts. Then the first of these that exists:

    1. the last number in the last `\boxed{…}`;
    2. the number after the last "answer is", "answer:" or "answer =";
    3. the number after the last `=`, if all later numbers are in brackets, unless its unit disagrees;
    4. the last number that is not mentioned in passing and whose unit agrees with that of `like` or is
    missing;
    5. the last one that is mentioned in passing, likewise;
    6. the last number.

    A number without a unit is skipped if another number has a different unit of the expected kind: in "€5 for
    7 people" the 7 does not answer how many dollars.

    Args:
        text: an answer.
        like: the expected quantity. Its unit helps to choose; its value does not.
    """
    text = strip_reasoning(text)
    mentions = _without_choices(find_mentions(text))
    if not mentions:
        return None
    places = {mention.at: mention for mention in mentions}
    numeral = find_declared_number(text, lambda candidate: candidate.start("digits") in places)
    if numeral is not None:
        return places[numeral.start("digits")]
    if len(mentions) == 1:
        return mentions[0]
    numeral = find_number_after_equals(text)
    if numeral is not None:
        mention = places.get(numeral.start("digits"))
        if mention is not None and (like is None or units_agree(mention, like)):
            return mention
    return _best_mention(mentions, like)


def _without_choices(mentions: list[NumberMention]) -> list[NumberMention]:
    """Returns the mentions that are neither ends of a range nor alternatives, unless these are equal."""
    open_ = {
        place
        for at in range(1, len(mentions))
        if mentions[at].is_alternative
        and units_agree(mentions[at - 1], mentions[at])
        and not is_same_quantity(mentions[at - 1], mentions[at], (0, 1))
        for place in (at - 1, at)
    }
    return [mention for at, mention in enumerate(mentions) if at not in open_]


def _best_mention(mentions: list[NumberMention], like: NumberMention | None) -> NumberMention:
    """Returns the last of the best matches."""
    if like is None:
        return min(reversed(mentions), key=lambda mention: mention.is_aside)
    clash = any(_clashes(mention, like) for mention in mentions if not mention.is_aside)

    def rank(mention: NumberMention) -> tuple[bool, bool, bool]:
        bare = all(reading.unit is None for reading in mention.readings)
        wished = not bare or all(reading.unit is None for reading in like.readings)
        fits = units_agree(mention, like) and not (bare and clash) and not _is_share_of_plain(mention, like)
        return not fits, mention.is_aside, not wished

    return min(reversed(mentions), key=rank)


def _clashes(mention: NumberMention, like: NumberMention) -> bool:
    """Whether it has a different unit of the same family: € and $, kg and lb."""
    families = {reading.unit.family for reading in like.readings if reading.unit is not None}
    mine = {reading.unit.family for reading in mention.readings if reading.unit is not None}
    return bool(mine & families) and not units_agree(mention, like)


def _is_share_of_plain(mention: NumberMention, like: NumberMention) -> bool:
    """Whether it is a percentage although a plain number is expected."""
    plain = all(reading.unit is None for reading in like.readings)
    return plain and any(
        reading.unit is not None and reading.unit.family == "share" for reading in mention.readings
    )


# --- whether they are the same -----------------------------------------------------------------------------


def units_agree(mention: NumberMention, other: NumberMention) -> bool:
    """Whether two quantities can be compared; see `is_same_quantity`."""
    return any(_readings_agree(mine, theirs) for mine in mention.readings for theirs in other.readings)


def is_same_quantity(got: NumberMention, expected: NumberMention, tolerance: tuple[int, int]) -> bool:
    """Whether two quantities with their units agree in any of their readings.

    Units of one kind are converted: kg and g, hours and minutes, % and basis points. Others do not agree: $
    and €, kg and lb, months and days. A missing unit matches any, so that `4.5 billion` is `$4.5B` and `5` is
    `5 kg`; but `%` is one hundredth, so `12.5 %` is 0.125 and not 12.5. A bound ("at least 5") matches only
    such a bound.

    Args:
        got: the answer's.
        expected: the expected one.
        tolerance: the largest difference, as a share of the expected value; see `to_fraction`.
    """
    return got.bound == expected.bound and any(
        _readings_agree(mine, theirs) and _is_near(mine, theirs, tolerance)
        for mine in got.readings
        for theirs in expected.readings
    )


def _readings_agree(reading: NumberReading, other: NumberReading) -> bool:
    if reading.unit is None or other.unit is None:
        return not reading.needs_matching_unit and not other.needs_matching_unit
    return reading.unit.kind == other.unit.kind


def _is_near(got: NumberReading, expected: NumberReading, tolerance: tuple[int, int]) -> bool:
    convert = got.unit is not None and expected.unit is not None
    number, per = _convert(got, convert)
    right, right_per = _convert(expected, convert)
    apart = abs(number * right_per - right * per)
    return apart * tolerance[1] <= tolerance[0] * abs(right) * per


def _convert(reading: NumberReading, convert: bool) -> tuple[int, int]:
    """Returns the value in the base unit of its kind; converts shares always, others with `convert`."""
    unit = reading.unit
    if unit is None or not (convert or unit.family == "share"):
        return reading.numerator, reading.denominator
    return reading.numerator * unit.numerator, reading.denominator * unit.denominator


@lru_cache(maxsize=64)
def to_fraction(tolerance: float) -> tuple[int, int]:
    """Returns a tolerance as the exact fraction of its decimal: 0.01 is one hundredth.

    Raises:
        ValueError: the tolerance is negative, infinite or NaN.
    """
    if not (isfinite(tolerance) and tolerance >= 0):
        raise ValueError(
            f"`rel_tolerance` is {tolerance}; it must be a number of 0 or more, such as 0.01 for 1 %."
        )
    digits, _, power = repr(float(tolerance)).partition("e")
    whole, _, decimals = digits.partition(".")
    exponent = int(power or 0) - len(decimals)
    number = int(whole + decimals)
    return (number * 10**exponent, 1) if exponent >= 0 else (number, 10**-exponent)

"""Which number of an answer counts, and whether two numbers with their units are the same: strict and exact.

Heuristics for English. Of a number are read its sign (`-`, `−`, "minus", brackets as in accounts), scale
words (`4.5B`, `4,500 million`, `12k`), powers (`1e3`, `1.5×10^3`), fractions (`1/2`) and its unit. `mentions`
says which numbers are no answers. Values are fractions of whole numbers, so nothing is rounded. Nothing here
imports more than the standard library.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

from proctor.graders.numbers.mentions import Mention, Reading, mentions_of
from proctor.graders.numbers.numerals import declared, equated, not_text
from proctor.graders.reasoning import without_thoughts

TOLERANCE = 0.01
"""The share of the expected number by which an answer may be off unless told otherwise."""


def numeric_equal(predicted: str, expected: str, *, rel_tolerance: float = TOLERANCE) -> float:
    """1.0 when two texts state the same quantity, else 0.0: `$4.5B` is `4,500 million US dollars`.

    Which number of a text counts is described at `quantity_of`, when units agree at `same`. The comparison
    is exact: with 1 %, 1.01 is near enough to 1 and 1.0100001 is not. Nothing but 0 is near 0.

    Args:
        predicted: the answer; one without a number that can be an answer scores 0.0.
        expected: the right answer; likewise.
        rel_tolerance: the share of the expected number by which the other may be off: 0.01 for 1 %.

    Raises:
        TypeError: one of them is no text.
        ValueError: the tolerance is negative, infinite or NaN.
    """
    if not isinstance(predicted, str) or not isinstance(expected, str):
        raise not_text(predicted, expected)
    tolerance = share_of(rel_tolerance)
    quantity = quantity_of(expected)
    got = None if quantity is None else quantity_of(predicted, like=quantity)
    return 1.0 if got is not None and quantity is not None and same(got, quantity, tolerance) else 0.0


# --- which number counts -----------------------------------------------------------------------------------


def quantity_of(text: str, *, like: Mention | None = None) -> Mention | None:
    r"""The quantity that a text states, or None when it has no number that can be an answer.

    `<think>` parts are left out. Then the first of these that there is:

    1. the last number in the last `\boxed{…}`;
    2. the number after the last "answer is", "answer:" or "answer =";
    3. the number after the last `=`, when all later numbers stand in brackets, unless its unit cannot agree;
    4. the last number that is not told in passing and whose unit agrees with that of `like` or is missing;
    5. the last one that is told in passing, likewise;
    6. the last number.

    A number without a unit is passed over beside one in another currency or measure of that kind: in "€5 for
    7 people" the 7 is no answer to how many dollars.

    Args:
        text: an answer.
        like: what is expected. Its unit helps to choose; its value does not.
    """
    text = without_thoughts(text)
    mentions = _without_choices(mentions_of(text))
    if not mentions:
        return None
    places = {mention.at: mention for mention in mentions}
    numeral = declared(text, lambda candidate: candidate.start("digits") in places)
    if numeral is not None:
        return places[numeral.start("digits")]
    if len(mentions) == 1:
        return mentions[0]
    numeral = equated(text)
    if numeral is not None:
        mention = places.get(numeral.start("digits"))
        if mention is not None and (like is None or units_agree(mention, like)):
            return mention
    return _best(mentions, like)


def _without_choices(mentions: list[Mention]) -> list[Mention]:
    """The mentions that are neither ends of a range nor choices: not "4 to 5 million", but "25 % or 0.25"."""
    open_ = {
        place
        for at in range(1, len(mentions))
        if mentions[at].another
        and units_agree(mentions[at - 1], mentions[at])
        and not same(mentions[at - 1], mentions[at], (0, 1))
        for place in (at - 1, at)
    }
    return [mention for at, mention in enumerate(mentions) if at not in open_]


def _best(mentions: list[Mention], like: Mention | None) -> Mention:
    """The last of those that fit best."""
    if like is None:
        return min(reversed(mentions), key=lambda mention: mention.aside)
    clash = any(_clashes(mention, like) for mention in mentions if not mention.aside)

    def rank(mention: Mention) -> tuple[bool, bool, bool]:
        bare = all(reading.unit is None for reading in mention.readings)
        wished = not bare or all(reading.unit is None for reading in like.readings)
        fits = units_agree(mention, like) and not (bare and clash) and not _is_share_of_plain(mention, like)
        return not fits, mention.aside, not wished

    return min(reversed(mentions), key=rank)


def _clashes(mention: Mention, like: Mention) -> bool:
    """Whether it has a unit that measures the same and is another: € and $, kg and lb."""
    families = {reading.unit.family for reading in like.readings if reading.unit is not None}
    mine = {reading.unit.family for reading in mention.readings if reading.unit is not None}
    return bool(mine & families) and not units_agree(mention, like)


def _is_share_of_plain(mention: Mention, like: Mention) -> bool:
    """Whether it is a percentage where a plain number is expected, which it is only if nothing else is."""
    plain = all(reading.unit is None for reading in like.readings)
    return plain and any(
        reading.unit is not None and reading.unit.family == "share" for reading in mention.readings
    )


# --- whether they are the same -----------------------------------------------------------------------------


def units_agree(mention: Mention, other: Mention) -> bool:
    """Whether two quantities can be compared; see `same`."""
    return any(_agree(mine, theirs) for mine in mention.readings for theirs in other.readings)


def same(got: Mention, expected: Mention, tolerance: tuple[int, int]) -> bool:
    """Whether two quantities agree, units and all, in any of the ways in which they can be read.

    Units of one kind are converted: kg and g, hours and minutes, % and basis points. Others do not agree: $
    and €, kg and lb, months and days. A missing unit is taken for the other's, so that `4.5 billion` is
    `$4.5B` and `5` is `5 kg`; but `%` is one hundredth, so `12.5 %` is 0.125 and not 12.5. A bound ("at
    least 5") is the same as such a bound only.

    Args:
        got: the answer's.
        expected: the expected one.
        tolerance: the share of it by which the other may be off, as a fraction; see `share_of`.
    """
    return got.bound == expected.bound and any(
        _agree(mine, theirs) and _is_near(mine, theirs, tolerance)
        for mine in got.readings
        for theirs in expected.readings
    )


def _agree(reading: Reading, other: Reading) -> bool:
    if reading.unit is None or other.unit is None:
        return not reading.shy and not other.shy
    return reading.unit.kind == other.unit.kind


def _is_near(got: Reading, expected: Reading, tolerance: tuple[int, int]) -> bool:
    convert = got.unit is not None and expected.unit is not None
    number, per = _converted(got, convert)
    right, right_per = _converted(expected, convert)
    apart = abs(number * right_per - right * per)
    return apart * tolerance[1] <= tolerance[0] * abs(right) * per


def _converted(reading: Reading, convert: bool) -> tuple[int, int]:
    """The value in the unit that all of its kind are multiples of; shares always, others if asked for."""
    unit = reading.unit
    if unit is None or not (convert or unit.family == "share"):
        return reading.numerator, reading.denominator
    return reading.numerator * unit.numerator, reading.denominator * unit.denominator


@lru_cache(maxsize=64)
def share_of(tolerance: float) -> tuple[int, int]:
    """A tolerance as the decimal fraction that it is written as: 0.01 is one hundredth, exactly.

    Raises:
        ValueError: it is negative, infinite or NaN.
    """
    if not (isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"`rel_tolerance` is {tolerance}; give a number of 0 or more, 0.01 for 1 %.")
    digits, _, power = repr(float(tolerance)).partition("e")
    whole, _, decimals = digits.partition(".")
    exponent = int(power or 0) - len(decimals)
    number = int(whole + decimals)
    return (number * 10**exponent, 1) if exponent >= 0 else (number, 10**-exponent)

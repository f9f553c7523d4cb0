"""Answers to marks by the number they give: text to a number, and a distance.

Which of an answer's numbers is meant is a heuristic, described at `stated`. Numbers are read as English
writes them (`1,500.75`); words such as "million" and fractions such as `1/2` are not read.
"""

from __future__ import annotations

import math
import re
from collections import deque
from typing import ClassVar, Literal

from proctor.graders.text import shown
from proctor.model import Mark
from proctor.ports import Graded, Grading

# A letter or digit of an alphabet before a digit makes it part of a name (x2, COVID-19 has a hyphen between);
# scripts without spaces put a number right after a character, so they are not in this set.
_GLUE = r"\dA-Za-z_\u00c0-\u024f\u0370-\u04ff"
_NUMBER = rf"""
    (?=[-−+$€£¥₹\\.\d])
    (?P<sign>(?<![{_GLUE})\]%])[-−+])?
    (?:\\?[$€£¥₹][ ]?(?P<inner>[-−])?)?
    (?P<digits>
        (?:(?<![{_GLUE}])|(?<=\bUSD)|(?<=\bEUR)|(?<=\bGBP))
        (?:\d{{1,3}}(?P<gap>,|\{{,\}}|[\u00a0\u2009\u202f])\d{{3}}(?:(?P=gap)\d{{3}})*(?!\d)|\d+)(?:\.\d+)?
        |(?<![{_GLUE}.])\.\d+
    )
    (?:[eE](?P<exponent>[-−+]?\d+)(?!\w))?
    (?:[ ]?(?:[×xX*·]|\\times|\\cdot)[ ]?10[ ]?(?:\^|\*\*)[ ]?[{{(]?(?P<power>[-−+]?\d+)[}})]?)?
"""
# Every filler is bounded, so that an answer full of spaces cannot take quadratic time.
_FILL = r"[\s*_:=~≈({\\\[$]{0,20}"
_ABOUT = rf"(?:(?:approximately|about|roughly|exactly|simply|just|therefore|thus|equal[ ]to)\b{_FILL})?"
_ANY = re.compile(_NUMBER, re.VERBOSE)
_ANSWER = re.compile(
    rf"(?:[Aa]nswer|ANSWER)[\s*_]{{0,8}}(?i:is|was|equals|:|=){_FILL}{_ABOUT}{_NUMBER}", re.VERBOSE
)
_EQUALS = re.compile(rf"(?<![=<>!≤≥])={_FILL}{_NUMBER}", re.VERBOSE)
_BRACKETED = re.compile(r"\([^()]*+\)|\[[^\[\]]*+\]")
_BOX = "\\boxed{"


class Number(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the number that the answer states is near enough to the expected one.

    An answer without a number fails. See `stated` for which number counts.
    """

    all_or_nothing: ClassVar[bool] = True

    value: float
    tolerance: float = 1e-6
    """The largest difference that passes, in the number's own unit."""
    relative: bool = False
    """The tolerance is a share of the expected number instead: 0.01 for one per cent."""
    which: Literal["stated", "first"] = "stated"
    """Which of the answer's numbers counts: the one that it states, or plainly the first."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError(f"`value` is {self.value}; give a finite number.")
        if not 0 <= self.tolerance < math.inf:
            raise ValueError(f"`tolerance` is {self.tolerance}; give a finite number of 0 or more.")

    def grade(self, graded: Graded) -> Mark:
        """Value 1 when it is, else 0; `details` has the number found when it is finite."""
        got = (stated if self.which == "stated" else first)(graded.output.text)
        if got is None:
            return Mark(
                value=0.0, passed=False, reason=f"The answer has no number: {shown(graded.output.text)}."
            )
        details = {"found": got} if math.isfinite(got) else {}
        if abs(got - self.value) <= self._limit():
            return Mark(value=1.0, passed=True, reason=f"The answer's number is {got:.15g}.", details=details)
        unit = " of it" if self.relative else ""
        wanted = f"{self.value:.15g} ± {self.tolerance:g}{unit}"
        reason = f"The answer's number is {got:.15g}; expected {wanted}."
        return Mark(value=0.0, passed=False, reason=reason, details=details)

    def _limit(self) -> float:
        # A share is rarely a binary fraction, and 1.01 is meant to be within 1 % of 1.
        return self.tolerance * abs(self.value) * (1 + 1e-9) if self.relative else self.tolerance


def first(text: str) -> float | None:
    """The first number in a text, or None when it has none; signs are read as by `stated`."""
    match = _ANY.search(text)
    return match and _read(match)


def stated(text: str) -> float | None:
    r"""The number that a text gives as its answer, or None when it has none.

    The first of these that there is:

    1. the last number in the last `\boxed{…}`;
    2. the number after the last "answer is", "answer:" or "answer =";
    3. the number after the last `=`, when all later numbers stand in brackets;
    4. the last number.

    A minus sign counts where no letter, digit or closing bracket stands before it, so `3-15` has 3 and 15.
    Currency and percent signs around a number are left out, and `1.5 × 10^3` is one number.
    """
    for find in (_boxed, _answered, _equated, _last):
        number = find(text)
        if number is not None:
            return number
    return None


def _match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match."""
    found = deque(pattern.finditer(text), maxlen=1)
    return found.pop() if found else None


def _last(text: str) -> float | None:
    match = _match(_ANY, text)
    return match and _read(match)


def _answered(text: str) -> float | None:
    match = _match(_ANSWER, text)
    return match and _read(match)


def _boxed(text: str) -> float | None:
    start = text.rfind(_BOX)
    if start < 0:
        return None
    depth, at = 1, start + len(_BOX)
    for end in range(at, len(text)):
        depth += (text[end] == "{") - (text[end] == "}")
        if depth == 0:
            return _last(text[at:end])
    return None


def _equated(text: str) -> float | None:
    match = _match(_EQUALS, text)
    if match is None or _ANY.search(_BRACKETED.sub(" ", text[match.end() :])):
        return None
    return _read(match)


def _read(match: re.Match[str]) -> float:
    """The number a match stands for; infinite when it is beyond what a float can hold."""
    digits = match["digits"]
    gap = match["gap"]
    if gap:
        digits = digits.replace(gap, "")
    power = match["exponent"] or match["power"]
    if power:
        digits += "e" + power.replace("−", "-")
    number = float(digits)
    negative = (match["sign"] or "") in ("-", "−") or match["inner"]
    return -number if negative else number

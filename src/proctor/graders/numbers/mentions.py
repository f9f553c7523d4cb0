"""Finds the numbers in a text that can be answers, each with its sign, scale and unit.

A number is not an answer if it is

- part of a name: joined to letters (`FY2023`, `10-K`, `COVID-19`, `US10987654`, `401(k)`, `3rd`), after a
  word that numbers things ("item 7", "note 12", "page 3", "§ 103", "No. 5"), a version, a time, a day;
- a year: four digits after "in", "since", "fiscal year", a month and the like;
- an end of a range (`10-12`), a margin (`± 2`), a power (`2^8`), a mixed number (`1 1/2`), or not written
  as in English (`1.234,56`; `1,50`; `1'234`);
- denied ("not 5", "isn't 5").

It is mentioned in passing if it is in brackets, follows "from", "than", "compared with", "up", "by" or the
like, numbers a list item, or looks like a year: then it counts only if no other number does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from proctor.graders.numbers.numerals import Numeral, find_numerals, get_digits, is_negative
from proctor.graders.numbers.units import WORD, Unit, WordMeanings, get_meanings, read_unit_words


class NumberReading(NamedTuple):
    """One way to read a mention: a fraction of whole numbers, and a unit."""

    numerator: int
    denominator: int
    unit: Unit | None = None
    needs_matching_unit: bool = False
    """Whether the word is usually a scale (`5 m`), so that this unit counts only against one of its kind."""


class NumberMention(NamedTuple):
    """A number that can be an answer."""

    at: int
    """The index of its first digit."""
    source_text: str
    """The text of the number, with sign and unit."""
    readings: tuple[NumberReading, ...]
    is_aside: bool
    """Whether it is mentioned in passing."""
    bound: str = ""
    """`<` or `>` if it is only a bound: "up to 5", "at least 5"."""
    is_alternative: bool = False
    """Whether a word links it to the mention before, as in "4 to 5" or "4 or 5"."""


# --- words -------------------------------------------------------------------------------------------------


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_MONTHS = _word_set(
    "january february march april may june july august september october november december "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
_NUMBERING_WORDS = _word_set(
    "item items note notes page pages p pp section sections sec step steps table tables figure figures fig "
    "exhibit exhibits claim claims form chapter chapters appendix annex article articles rule question "
    "questions line lines row footnote paragraph paragraphs para part schedule volume vol version patent "
    "docket topic example phase type class id fy cy fiscal asc asu ifrs ias fas sfas iso rfc "
    "level tier top series s&p ftse fortune russell nasdaq nikkei stoxx"
)
"""Words after which a number is a name."""
_BEFORE_YEARS = _word_set(
    "in since during until till through between for year years calendar ended ending early late mid before "
    "after spring summer autumn fall winter quarter q1 q2 q3 q4 h1 h2"
)
_OWNERS = _word_set("the its our their his her this that")
_SIDE_WORDS = _word_set("from than versus vs against by up down prior previous")
_EARLIER = _word_set("previously originally formerly initially")
_CHANGES = _word_set("increase decrease rise drop decline growth gain change difference out instead")
_COMPARISON_WORDS = _word_set("compared comparing relative")
_FILLERS = _word_set("about approximately around roughly nearly almost some only just")
_COUNTRIES = _word_set("US EP WO JP CN KR DE GB")
_CODES_OF_LAW = _word_set("U.S.C USC C.F.R CFR")
_COUNT_WORDS = _word_set(
    "one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty forty fifty sixty "
    "seventy eighty ninety hundred thousand million billion"
)

# --- surroundings ------------------------------------------------------------------------------------------

_CONTEXT_LENGTH = 48
"""How many characters before a number can change what it means."""
_MAX_DIGITS = 400
"""The maximum number of digits, and the maximum power of ten."""
_MAX_NUMBERS = 2000
"""At most this many numbers of a text are read, from its end."""

_JOINT = re.compile(
    r"(?:[^\W\d_][-–]|[^\W_]['’]|[\d%][.,:/^]|[\d%] ?[-–—] ?|\d\*\*|[#№§±^] ?|\^\{|\+/- ?|\)\()$"
)
_JOINS = frozenset("-–—.,:/*#№§±^({'’")
_CONTINUATION = re.compile(
    r"[.,:/⁄'’]\d|\^|\*\*\d|\([a-z\d]{1,3}\)| \d+[/⁄]\d| and a (?:half|quarter)| dozen| tens of"
)
_RANGE = re.compile(r" ?[-–—] ?[$€£¥]?\d")
_GROUP_AFTER = re.compile(r" \d{3}(?!\d)")
_GROUP_BEFORE = re.compile(r"(?<![\w.,/])\d{1,3} $")
_OVER = re.compile(r"[/⁄](\d{1,12})(?![\w/⁄]|[.,:]\d)")
_MIXED_NUMBER = re.compile(r"\d $")
_CODE = re.compile(r"(?:(?<![\w)\]%])(?P<sign>[-−–]) ?)?\b(?P<code>[A-Z]{1,3}) ?$")
_OPEN_PARENTHESIS = re.compile(r"(?P<around>[\w\]]?)(?P<money>[$€£¥₹]?)\( ?$")
_CLOSING_PARENTHESIS = re.compile(r"[*_]{0,3} ?\)")
_MINUS_WORD = re.compile(
    r"(?P<word>\b(?:minus|negative)|(?<![\w)\]%])(?<![\d)\]%] )−)[ \u00a0]$", re.IGNORECASE
)
_MINUS_ENDS = frozenset("seSE−")
_BOUND = re.compile(
    r"(?:(?P<less>\b(?:(?:less|fewer|(?:no|not) (?:more|greater)) than|at most|up to)|[<≤]=?|\\leq?)"
    r"|(?P<more>\b(?:(?:more|greater|(?:no|not) (?:less|fewer)) than|at least)|≥|\\geq?"
    r"|(?<=[^\s>] )>=?|(?<![^\s(])>=?(?![ ])))[ *]{0,3}$",
    re.IGNORECASE,
)
"""A word or sign that makes a number a bound; `> ` at the beginning of a line marks a quotation."""
_SPACES = frozenset(" \u00a0")
_DASHES = frozenset("–﹣－")
_CLOSERS = frozenset(")]%")
_LINE_START = re.compile(r"(?:^|\n)[ \t>*_]{0,6}$")
_MARKER = re.compile(r"[.)][ \t]+\S")
_BRACKETS = re.compile(r"\([^()]*+\)|\[[^\[\]]*+\]")
_BLANK = " .#(\u00a0"


def find_mentions(text: str) -> list[NumberMention]:
    """Returns the numbers that can be answers, in order, among the last 2,000 numbers of a text.

    Takes linear time.
    """
    mentions: list[NumberMention] = []
    remarks = _BRACKETS.finditer(text)
    remark = next(remarks, None)
    item, behind = 1, -1
    last: _Context | None = None
    for numeral in find_numerals(text)[-_MAX_NUMBERS:]:
        while remark is not None and remark.end() <= numeral.start():
            remark = next(remarks, None)
        context = _Context(numeral, behind)
        is_item = context.is_item(item)
        item += is_item
        mention = context.read_mention()
        if mention is not None:
            inside = remark is not None and remark.start() < numeral.start()
            is_aside, is_another = (
                mention.is_aside or is_item or inside,
                last is not None and context.is_alternative_to(last),
            )
            mentions.append(mention._replace(is_aside=is_aside, is_alternative=is_another))
            behind, last = context.end, context
    return mentions


class _Context:
    """A number with its context.

    `start` and `end` move outward to include sign, currency, scale, unit and brackets.
    """

    __slots__ = ("before", "behind", "end", "money", "negative", "numeral", "start", "text", "words")

    def __init__(self, numeral: Numeral, behind: int) -> None:
        self.numeral = numeral
        self.behind = behind
        """The end of the mention before it."""
        self.text = numeral.string
        self.start, self.end = numeral.span()
        self.before = self.text[max(0, self.start - _CONTEXT_LENGTH) : self.start]
        self.negative = is_negative(numeral)
        self.money = numeral["currency"] or ""
        self.words = self.before.rstrip(_BLANK).rsplit(None, 3)[-3:]

    def read_mention(self) -> NumberMention | None:
        """Returns the number with its sign, unit and bound; None if it cannot be an answer."""
        value = self._read_value()
        is_decade = _is_year(self.numeral["digits"]) and self.text.startswith("s", self.numeral.end())
        if value is None or self._is_joined() or is_decade:
            return None
        parenthesis = _OPEN_PARENTHESIS.search(self.before) if self.before.rstrip(" ").endswith("(") else None
        unit_words = self._take_words(parenthesis)
        if unit_words is None or _RANGE.match(self.text, self.end):
            return None
        self._take_sign()
        plain = not unit_words and not self.money
        if self._is_denied() or (plain and (self._is_named() or self._is_day())):
            return None
        year = plain and self._looks_like_a_year(value)
        if year and self._is_a_year():
            return None
        numerator = -value[0] if self.negative else value[0]
        money = _currency_units(self.money) or _currency_units(self.money[-1:])
        readings = tuple(_make_readings(numerator, value[1], money, unit_words))
        bound, is_aside = self._take_bound(), year or self._is_aside()
        at = self.numeral.start("digits")
        return NumberMention(at, self.text[self.start : self.end], readings, is_aside, bound)

    # --- the number itself ---------------------------------------------------------------------------------

    def _read_value(self) -> tuple[int, int] | None:
        """Returns the unsigned number as a fraction; moves the end past a denominator."""
        digits, power = get_digits(self.numeral)
        whole, _, decimals = digits.partition(".")
        if len(digits) > _MAX_DIGITS or len(power) > len(str(_MAX_DIGITS)) + 1:
            return None
        exponent = int(power or 0) - len(decimals)
        if abs(exponent) > _MAX_DIGITS:
            return None
        mantissa = int(whole + decimals)
        over = None if decimals or power else _OVER.match(self.text, self.end)
        if over and not _MIXED_NUMBER.search(self.before):
            self.end = over.end()
            return (mantissa, int(over[1])) if int(over[1]) else None
        return (mantissa * 10**exponent, 1) if exponent >= 0 else (mantissa, 10**-exponent)

    def _is_joined(self) -> bool:
        """Whether adjacent characters make it part of something else."""
        text, end = self.text, self.end
        if self.before.rstrip(" ")[-1:] in _JOINS and _JOINT.search(self.before):
            return True
        digits = self.numeral["digits"].partition(".")[0]
        return (
            text[end : end + 1].isnumeric()
            or _CONTINUATION.match(text, end) is not None
            or _RANGE.match(text, end) is not None
            or (len(digits) <= 3 and _GROUP_AFTER.match(text, end) is not None)
            or (len(digits) == 3 and _GROUP_BEFORE.search(self.before) is not None)
        )

    def is_item(self, number: int) -> bool:
        """Whether it numbers the next item of a list."""
        return (
            self.numeral["digits"] == str(number)
            and _LINE_START.search(self.before) is not None
            and _MARKER.match(self.text, self.end) is not None
        )

    # --- what belongs to it --------------------------------------------------------------------------------

    def _take_words(self, parenthesis: re.Match[str] | None) -> WordMeanings | None:
        """Reads the unit words after it, and brackets around it; returns None if they make it a name."""
        next_words = read_unit_words(self.text, self.end)
        if next_words is None:
            return None
        unit_words, self.end = next_words
        closed = _CLOSING_PARENTHESIS.match(self.text, self.end) if parenthesis else None
        if parenthesis is None or closed is None:
            return unit_words
        self.negative = self.negative or self._is_accounting_minus(
            parenthesis, bool(unit_words or self.money)
        )
        self.start -= len(self.before) - parenthesis.start("money")
        self.end = closed.end()
        self.money = self.money or parenthesis["money"]
        self.before = self.before[: parenthesis.start("money")]
        if not unit_words:
            unit_words, self.end = read_unit_words(self.text, self.end) or (unit_words, self.end)
        return unit_words

    def _is_accounting_minus(self, parenthesis: re.Match[str], has_unit: bool) -> bool:
        """Whether brackets around a number alone are an accounting minus.

        They are not in "f(5)" and "five (5)", nor around a conversion of the number before: "5 km (3 mi)".
        """
        if parenthesis["around"] or (self.words and self.words[-1].strip("(,").lower() in _COUNT_WORDS):
            return False
        bracket = self.start - len(self.before) + parenthesis.start("money")
        return not (has_unit and self.text[self.behind : bracket].isspace() and self.behind >= 0)

    def _take_sign(self) -> None:
        """Reads a currency code, and a minus that does not touch the number."""
        before = self.before
        touching = before.rstrip(" \u00a0")[-1:]
        code = _CODE.search(before) if "A" <= touching <= "Z" else None
        if code is not None and _currency_units(code["code"] + self.money):
            self.money = code["code"] + self.money
            self.negative = self.negative or code["sign"] is not None
            self.start -= len(before) - code.start()
            before = before[: code.start("code")]
            touching = before.rstrip(" \u00a0")[-1:]
        last, other = before[-1:], before[-2:-1]
        if last in _DASHES and not other.isalnum() and other not in _CLOSERS:
            self.negative = True
            self.start -= code is None
        elif touching in _MINUS_ENDS and last in _SPACES:
            minus = _MINUS_WORD.search(before)
            if minus is not None:
                self.negative = True
                self.start -= len(before) - minus.start("word")

    def _take_bound(self) -> str:
        match = _BOUND.search(self.text, max(0, self.start - _CONTEXT_LENGTH), self.start)
        if match is None:
            return ""
        self.start = match.start()
        return "<" if match["less"] else ">"

    def is_alternative_to(self, last: _Context) -> bool:
        """Whether it is the other end of a range, or an alternative, that begins with the mention before."""
        link = self.text[last.end : self.start].strip().lower()
        before = {last._word(1).lower(), last._word(2).lower()}
        if link == "to":
            return before.isdisjoint(("from", "by"))
        return link == "or" or (link == "and" and "between" in before)

    # --- what it is called ---------------------------------------------------------------------------------

    def _word(self, nth: int) -> str:
        """Returns the nth word before it, from 1, without punctuation around it."""
        return self.words[-nth].strip("([\"'*_,;:.") if len(self.words) >= nth else ""

    def _next_word(self) -> str:
        match = WORD.match(self.text, self.end)
        return "" if match is None else match["word"].rstrip(".")

    def _is_denied(self) -> bool:
        last = self._word(2 if self._word(1).lower() in _FILLERS else 1).lower()
        return last in ("not", "never") or last.endswith(("n't", "n’t"))

    def _is_named(self) -> bool:
        before, last = self.before, self._word(1)
        if self._next_word() in _CODES_OF_LAW:
            return True
        if before.rstrip(" \u00a0").endswith((":", ",", ";", ")")):
            return False
        if last.lower() in ("no", "nos"):
            return before.rstrip(" \u00a0#").endswith(".")
        return last.lower() in _NUMBERING_WORDS or (last in _COUNTRIES and len(self.numeral["digits"]) >= 7)

    def _is_day(self) -> bool:
        if len(self.numeral["digits"]) > 2:
            return False
        return _is_month(self._word(1)) or _is_month(self._next_word())

    def _looks_like_a_year(self, value: tuple[int, int]) -> bool:
        digits = self.numeral["digits"]
        return value[1] == 1 and 1900 <= value[0] <= 2099 and len(digits) == 4 and not self.negative

    def _is_a_year(self) -> bool:
        last, other = self._word(1), self._word(2)
        if last.lower() in _BEFORE_YEARS or _is_month(last) or _is_month(other) or _is_year(last):
            return True
        if last.lower() in ("and", "or", "to") and _is_year(other):
            return True
        if self.text.startswith(("'s", "’s"), self.end):
            return True
        owned = last.lower() in _OWNERS or last.endswith(("'s", "’s"))
        return owned and self.text[self.end : self.end + 2].strip().isalpha()

    def _is_aside(self) -> bool:
        words = [word.strip("([\"'*_,;:.").lower() for word in self.words]
        if words and words[-1] in _FILLERS:
            words.pop()
        last = words[-1] if words else ""
        other = words[-2] if len(words) > 1 else ""
        return (
            last in _SIDE_WORDS
            or (last == "of" and (other in _CHANGES or other.isdigit()))
            or not _EARLIER.isdisjoint(words)
            or (last in ("to", "with") and other in _COMPARISON_WORDS)
        )


def _is_month(word: str) -> bool:
    lower_word = word.lower()
    return lower_word in _MONTHS and (lower_word not in ("may", "march", "mar") or word[0].isupper())


def _is_year(word: str) -> bool:
    return len(word) == 4 and word.isdecimal() and word[:2] in ("19", "20")


def _currency_units(word: str) -> list[Unit]:
    """Returns the currencies that a sign or a code can mean."""
    return [
        meaning.unit
        for meaning in get_meanings(word)
        if meaning.unit is not None and meaning.unit.family == "money"
    ]


def _make_readings(
    numerator: int, denominator: int, money: list[Unit], unit_words: WordMeanings
) -> Iterator[NumberReading]:
    first = unit_words[0] if unit_words else ()
    power = next((meaning.power for meaning in first if meaning.power), 0)
    scaled = numerator * 10**power
    if money:
        yield from (NumberReading(scaled, denominator, unit) for unit in money)
        return
    units = [meaning.unit for meaning in unit_words[-1] if meaning.unit is not None] if unit_words else []
    if len(unit_words) == 2:
        yield from (NumberReading(scaled, denominator, unit) for unit in units)
        return
    if power or not units:
        yield NumberReading(scaled, denominator)
    yield from (NumberReading(numerator, denominator, unit, power > 0) for unit in units)

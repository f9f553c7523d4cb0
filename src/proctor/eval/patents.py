"""Scorers for patent work: the parts of a legal argument, and rankings of prior art.

Every function is pure, and so safe in any thread; each takes time in proportion to its text (rankings: to
n log n).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum, isfinite, sqrt
from types import MappingProxyType
from typing import Any

# --- the parts of an argument ------------------------------------------------------------------------------

IRAC_PARTS = MappingProxyType(
    {
        "issue": r"\b(?:the\s+issue\b|issue[:\s*]|question\s+presented\b|whether\b)",
        "rule": (
            r"\b(?:rule\b|holding\b|law\s+(?:provides|states|requires)\b"
            r"|under\s+(?:35\s*U\.?S\.?C|the\s+(?:statute|law|holding|standard|rule|MPEP))"
            r"|MPEP\s*(?:(?:§+|section|sec\.?)\s*)?\d"
            r"|35\s*U\.?S\.?C\.?\s*(?:(?:§+|section|sec\.?)\s*)?\d{2})"
        ),
        "application": (
            r"\b(?:application\b|applying\b|here[,\s]|as\s+applied\b|applied\s+to\b"
            r"|in\s+(?:this\s+case|the\s+present|the\s+instant)\b"
            r"|the\s+(?:present|instant)\s+(?:claim|application|invention)\b)"
        ),
        "conclusion": (
            r"\b(?:conclusion\b|therefore\b|accordingly\b|thus[,\s]|in\s+sum\b"
            r"|for\s+(?:the\s+)?(?:above|foregoing)\s+reasons\b"
            r"|the\s+(?:examiner|applicant)\s+(?:should|is\s+respectfully\s+requested)\b)"
        ),
    }
)
"""The four parts with the patterns that find each: headings, labels, and typical words.

No two runs of white space are adjacent in a pattern, so that matching takes linear time.
"""


def irac_parts(predicted: str) -> tuple[str, ...]:
    """Returns which of `issue`, `rule`, `application` and `conclusion` an argument shows, in this order."""
    text = predicted or ""
    return tuple(part for part, sign in IRAC_PARTS.items() if re.search(sign, text, re.IGNORECASE))


def irac_structure(predicted: str, expected: str = "") -> float:  # noqa: ARG001  # every scorer has two
    """Returns the share of the four parts of a legal argument that a text shows: 0.0, 0.25, 0.5, 0.75 or 1.0.

    Checks form only: a text that names the parts without content scores 1.0. `irac_parts` returns which.

    Args:
        predicted: the argument; empty text and None score 0.0.
        expected: unused; present so that this is a scorer like the others.
    """
    return len(irac_parts(predicted)) / len(IRAC_PARTS)


# --- rankings of prior art ---------------------------------------------------------------------------------

Ranking = str | Sequence[Any] | None
"""Names or ratings, best first: a list, a tuple, or text that holds one."""

MAX_RATING = 10
"""A list of numbers up to this one is of ratings; larger numbers are names, such as those of patents."""

_ITEM_MARKS = re.compile(r"(?:(?:\d{1,3}(?:\)|\.(?!\d))|[-*•](?!\d))\s*)+(?=\S)")
"""Marks before an item of a list. A point or a dash before a digit belongs to a name or a number, as in 3.14
or -1."""


@dataclass(frozen=True, slots=True)
class PriorArtRelevanceResult:
    """How well two rankings agree."""

    spearman_rho: float
    """Spearman's rank correlation, -1.0 to 1.0; 0.0 also if it is undefined."""
    mse_likert: float | None
    """The mean squared difference of two lists of ratings; None if names are ranked."""
    n: int
    """The items in the expected ranking, repeated names included."""


def prior_art_relevance(predicted: Ranking, expected: Ranking) -> float:
    """Returns Spearman's rho of `prior_art_relevance_full`."""
    return prior_art_relevance_full(predicted, expected).spearman_rho


def prior_art_relevance_full(predicted: Ranking, expected: Ranking) -> PriorArtRelevanceResult:
    """Returns Spearman's rho between two rankings, and the mean squared difference of two lists of ratings.

    Text is read as a JSON array, or else one item a line, or else items between commas; numbers, dashes and
    stars before items are left out, and so are blank items. Two lists of as many numbers from 0 to 10 are
    ratings. All else are names: an item of the expected ranking that the prediction lacks stands behind all
    that it has, items that only the prediction has do not count, and of a repeated one the first counts.

    Rho is 0.0 where it is undefined: with fewer than two items, or where one side ties all of them. See
    `ranking_agreement` for a result that says so.

    Source: C. Spearman, "The proof and measurement of association between two things", The American Journal
    of Psychology 15 (1904), 72-101; ties share their mean rank.

    Raises:
        TypeError: a ranking is neither text nor a list.
    """
    ours, gold = _parse_items(predicted), _parse_items(expected)
    our_ratings, gold_ratings = _parse_ratings(ours), _parse_ratings(gold)
    if our_ratings and gold_ratings and len(our_ratings) == len(gold_ratings):
        pairs = zip(our_ratings, gold_ratings, strict=True)
        error = fsum((a - b) ** 2 for a, b in pairs) / len(our_ratings)
        return PriorArtRelevanceResult(
            _spearman_rho(our_ratings, gold_ratings) or 0.0, error, len(our_ratings)
        )
    return PriorArtRelevanceResult(_name_rho(ours, gold) or 0.0, None, len(gold))


@dataclass(frozen=True, slots=True)
class RankingAgreement:
    """How well two rankings of names agree, with what one of them lacks."""

    rho: float | None
    """Spearman's rho over the expected names, -1.0 to 1.0; None where it is undefined."""
    n: int
    """The expected names, each once."""
    missing: tuple[str, ...]
    """Those that the prediction lacks, best first; they share the last place in it."""
    extra: tuple[str, ...]
    """Names that only the prediction has; they take part in nothing."""


def ranking_agreement(predicted: Ranking, expected: Ranking) -> RankingAgreement:
    """Compares two rankings of names; stricter than `prior_art_relevance`.

    Items are always names, also where all are numbers. Case and runs of white space do not matter. Rho is
    None, not 0.0, with fewer than two expected names, and where the prediction has none of them.

    Raises:
        TypeError: a ranking is neither text nor a list.
    """
    ours = _first_places(" ".join(item.split()).casefold() for item in _parse_items(predicted))
    gold = _first_places(" ".join(item.split()).casefold() for item in _parse_items(expected))
    missing = tuple(name for name in gold if name not in ours)
    extra = tuple(name for name in ours if name not in gold)
    return RankingAgreement(_name_rho(list(ours), list(gold)), len(gold), missing, extra)


def _parse_items(ranking: Ranking) -> list[str]:
    """Returns the items of a ranking, best first, without blank ones."""
    if ranking is None:
        return []
    if isinstance(ranking, str):
        return _split_items(_strip_fence(ranking.strip()))
    if isinstance(ranking, bytes | bytearray) or not isinstance(ranking, Sequence):
        raise TypeError(f"A ranking must be text or a list, not {type(ranking).__name__}.")
    return [text for item in ranking if (text := str(item).strip())]


def _split_items(text: str) -> list[str]:
    if text.startswith("["):
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            pass  # no JSON, and its brackets belong to its names
        else:
            return _parse_items(values)
    chunks = (chunk.strip() for chunk in text.split("\n" if "\n" in text else ","))
    return [_strip_mark(chunk) for chunk in chunks if chunk]


def _strip_fence(text: str) -> str:
    """Returns the text without fences around all of it."""
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        return text[text.index("\n") : -3].strip()
    return text


def _strip_mark(item: str) -> str:
    marks = _ITEM_MARKS.match(item)
    return item[marks.end() :] if marks else item


def _parse_ratings(items: Sequence[str]) -> list[float] | None:
    """Returns the items as ratings; None if one of them is not a rating."""
    try:
        numbers = [float(item) for item in items]
    except ValueError:
        return None
    are_ratings = all(isfinite(number) and 0 <= number <= MAX_RATING for number in numbers)
    return numbers if are_ratings else None


def _first_places(names: Iterable[str]) -> dict[str, int]:
    """Returns each name with its first place, from 0."""
    places: dict[str, int] = {}
    for name in names:
        places.setdefault(name, len(places))
    return places


def _name_rho(predicted: Sequence[str], expected: Sequence[str]) -> float | None:
    ours, gold = _first_places(predicted), _first_places(expected)
    return _spearman_rho([ours.get(name, len(ours)) for name in gold], list(gold.values()))


def _spearman_rho(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Returns the correlation of the ranks of two lists of equal length; None if one has a single value."""
    ranks, others = _ranks(first), _ranks(second)
    middle = (len(ranks) + 1) / 2  # the mean of both: ties share a mean
    spread = fsum((rank - middle) ** 2 for rank in ranks) * fsum((rank - middle) ** 2 for rank in others)
    if not spread:
        return None
    covariance = fsum((a - middle) * (b - middle) for a, b in zip(ranks, others, strict=True))
    return max(-1.0, min(1.0, covariance / sqrt(spread)))


def _ranks(values: Sequence[float]) -> list[float]:
    """Returns the rank of each value, from 1; equal values share their mean rank."""
    ranks = [0.0] * len(values)
    below = 0
    for _, tied in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        places = list(tied)
        for place in places:
            ranks[place] = below + (len(places) + 1) / 2
        below += len(places)
    return ranks

"""Parses the filter and the order of a run's trials from an address."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import Request

from proctor.model import Verdict
from proctor.stores.catalogue.records import Wanted
from proctor.web.templates_env import url

SORTS = ("position", "case", "verdict", "score", "latency", "cost")
"""What trials can be sorted by; `-` before it in the address reverses the order."""
_MULTI_VALUE = ("verdict", "tag", "grader", "missed")
_SINGLE_VALUE = ("category", "split", "case", "text")
_CHIP_PREFIXES = {
    "verdict": "",
    "tag": "tag ",
    "grader": "graded by ",
    "missed": "not passed by ",
    "category": "category ",
    "split": "",
    "case": "case ",
    "text": "with ",
}
"""The text before a word of each kind."""
_VERDICTS = frozenset(verdict.value for verdict in Verdict)
_MAX_WORD_LENGTH = 1000
"""Characters of one word that are read."""


class FilterChip(Struct, frozen=True):
    """One word of a filter, with the address of the page without it."""

    word: str
    address: str


def parse_filter(request: Request) -> Wanted:
    """Returns the filter of an address; what is absent filters nothing."""
    query = request.query_params
    lists = {name: _words(query, name) for name in _MULTI_VALUE}
    texts = {name: next(iter(_words(query, name)), "") for name in _SINGLE_VALUE}
    return Wanted(
        verdicts=lists["verdict"],
        tags=lists["tag"],
        graders=lists["grader"],
        missed=lists["missed"],
        category=texts["category"],
        split=texts["split"],
        case=texts["case"],
        text=texts["text"],
    )


def parse_sort(request: Request) -> str:
    """Returns the sort order of an address."""
    word = request.query_params.get("sort", "")
    return word if word.removeprefix("-") in SORTS else "position"


def filter_query(request: Request) -> dict[str, list[str]]:
    """Returns the filter and sort order as a query, to build further addresses."""
    query = request.query_params
    by_name = {name: list(_words(query, name)) for name in (*_MULTI_VALUE, *_SINGLE_VALUE)}
    return {name: words for name, words in by_name.items() if words} | (
        {"sort": [parse_sort(request)]} if parse_sort(request) != "position" else {}
    )


def filter_chips(request: Request, path: str) -> Iterator[FilterChip]:
    """Yields a chip for each word of the filter; following it removes the word.

    Args:
        request: the request with the address.
        path: the path of the page.
    """
    query = filter_query(request)
    for name in (*_MULTI_VALUE, *_SINGLE_VALUE):
        for word in query.get(name, ()):
            other_words = [other for other in query[name] if other != word]
            other_filters = {other: words for other, words in query.items() if other != name}
            text = f"“{word}”" if name == "text" else word
            yield FilterChip(
                f"{_CHIP_PREFIXES[name]}{text}",
                url(path, **other_filters, **({name: other_words} if other_words else {})),
            )


def _words(query: QueryParams, name: str) -> tuple[str, ...]:
    """Returns the words of one kind as given: names may begin with a space.

    Of kinds with a single value the first word counts: forms send the new choice before the old one.
    """
    words = (word[:_MAX_WORD_LENGTH] for word in query.getlist(name) if word.strip())
    if name == "text":
        words = (word.strip() for word in words)
    elif name == "verdict":
        words = (word for word in words if word in _VERDICTS)
    return tuple(dict.fromkeys(words))[: None if name in _MULTI_VALUE else 1]

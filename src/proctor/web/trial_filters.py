"""The words of an address that say which trials of a run are shown, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import Request

from proctor.model import Verdict
from proctor.stores.catalogue.records import Wanted
from proctor.web.templates_env import url

SORTS = ("position", "case", "verdict", "score", "latency", "cost")
"""What a table of trials can be sorted by, in an address with `-` before it for the other way around."""
_SEVERAL = ("verdict", "tag", "grader", "missed")
_SINGLE = ("category", "split", "case", "text")
_SAID = {
    "verdict": "",
    "tag": "tag ",
    "grader": "graded by ",
    "missed": "not passed by ",
    "category": "category ",
    "split": "",
    "case": "case ",
    "text": "with ",
}
"""What stands before a word of each kind."""
_VERDICTS = frozenset(verdict.value for verdict in Verdict)
_LONGEST = 1000
"""Letters of one word that are looked at."""


class FilterChip(Struct, frozen=True):
    """One word of a filter, with the address of the same page without it."""

    word: str
    address: str


def parse_filter(request: Request) -> Wanted:
    """Which trials an address asks for; what it does not say leaves none out."""
    query = request.query_params
    several = {name: _words(query, name) for name in _SEVERAL}
    single = {name: next(iter(_words(query, name)), "") for name in _SINGLE}
    return Wanted(
        verdicts=several["verdict"],
        tags=several["tag"],
        graders=several["grader"],
        missed=several["missed"],
        category=single["category"],
        split=single["split"],
        case=single["case"],
        text=single["text"],
    )


def parse_sort(request: Request) -> str:
    """The order that an address asks for."""
    word = request.query_params.get("sort", "")
    return word if word.removeprefix("-") in SORTS else "position"


def filter_query(request: Request) -> dict[str, list[str]]:
    """The filter and the order of an address, for the addresses of what is shown by them."""
    query = request.query_params
    words = {name: list(_words(query, name)) for name in (*_SEVERAL, *_SINGLE)}
    return {name: given for name, given in words.items() if given} | (
        {"sort": [parse_sort(request)]} if parse_sort(request) != "position" else {}
    )


def filter_chips(request: Request, path: str) -> Iterator[FilterChip]:
    """Each word of the filter of an address, which one removes by following it.

    Args:
        request: with the address.
        path: the page's.
    """
    query = filter_query(request)
    for name in (*_SEVERAL, *_SINGLE):
        for word in query.get(name, ()):
            left = [other for other in query[name] if other != word]
            rest = {other: words for other, words in query.items() if other != name}
            shown = f"“{word}”" if name == "text" else word
            yield FilterChip(f"{_SAID[name]}{shown}", url(path, **rest, **({name: left} if left else {})))


def _words(query: QueryParams, name: str) -> tuple[str, ...]:
    """The words of one kind that are looked at, as they were given: a name may begin with a space.

    Of what there can be one of, the first is meant: a form gives what was chosen anew before what was there.
    """
    given = (word[:_LONGEST] for word in query.getlist(name) if word.strip())
    if name == "text":
        given = (word.strip() for word in given)
    elif name == "verdict":
        given = (word for word in given if word in _VERDICTS)
    return tuple(dict.fromkeys(given))[: None if name in _SEVERAL else 1]

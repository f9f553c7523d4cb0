"""Parses the filter and the order of a run's trials from an address."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct
from starlette.datastructures import QueryParams
from starlette.requests import Request

from proctor.model import Verdict
from proctor.services.runs.reading.trial_table import TrialFilter
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

    text: str
    address: str


def parse_filter(request: Request) -> TrialFilter:
    """Returns the filter of an address; a filter that is absent matches every trial."""
    query = request.query_params
    lists = {name: _values(query, name) for name in _MULTI_VALUE}
    texts = {name: next(iter(_values(query, name)), "") for name in _SINGLE_VALUE}
    return TrialFilter(
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
    sort_key = request.query_params.get("sort", "")
    return sort_key if sort_key.removeprefix("-") in SORTS else "position"


def toggle_sort(sort: str, name: str, descending_first: Collection[str]) -> tuple[str, str]:
    """Returns the sort order that sorts by a column or reverses the order, and the current direction.

    Args:
        sort: the current sort order.
        name: the column.
        descending_first: columns that are sorted in descending order first.
    """
    is_active = sort.removeprefix("-") == name
    descending = sort.startswith("-") if is_active else name not in descending_first
    direction = "" if not is_active else "descending" if descending else "ascending"
    return name if descending else f"-{name}", direction


def filter_query(request: Request) -> dict[str, list[str]]:
    """Returns the filter and sort order as a query, to build further addresses."""
    query = request.query_params
    by_name = {name: list(_values(query, name)) for name in (*_MULTI_VALUE, *_SINGLE_VALUE)}
    return {name: values for name, values in by_name.items() if values} | (
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
        for value in query.get(name, ()):
            other_words = [other for other in query[name] if other != value]
            other_filters = {other: values for other, values in query.items() if other != name}
            text = f"“{value}”" if name == "text" else value
            yield FilterChip(
                f"{_CHIP_PREFIXES[name]}{text}",
                url(path, **other_filters, **({name: other_words} if other_words else {})),
            )


def _values(query: QueryParams, name: str) -> tuple[str, ...]:
    """Returns the words of one kind as given: names may begin with a space.

    Of kinds with a single value the first word counts: forms send the new choice before the old one.
    """
    values = (value[:_MAX_WORD_LENGTH] for value in query.getlist(name) if value.strip())
    if name == "text":
        values = (value.strip() for value in values)
    elif name == "verdict":
        values = (value for value in values if value in _VERDICTS)
    return tuple(dict.fromkeys(values))[: None if name in _MULTI_VALUE else 1]

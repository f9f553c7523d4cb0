"""A judge's reply to the one verdict that is the judge's own, whatever it quotes of the answer. Pure.

An answer may be written to be quoted: it can end the judge's JSON and begin it again. So a verdict that
stands twice is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from proctor.errors import CannotScore
from proctor.graders.structure import DuplicateKey, NotJson, parse_json
from proctor.graders.text import clip

NO_QUOTES = "Do not quote the answer."
"""What ends the sentence about a reply with two verdicts, of which one may be quoted."""

_MARKDOWN = "*_`\"'“”‘’ \t"
_QUOTES = 4
"""How many quotes of the answer are left out of a reply."""
_SHORTEST_QUOTE = 8
"""In characters; a shorter one may be chance."""
_MOST_COMPARED = 100_000_000
"""The greatest product of the lengths of a reply and an answer that are compared: it takes half a second."""
_CLOSING = "\"'”’`}])>.,; \t\r\n"
"""What may end a quote and belong to what is around it."""
_MOST_CLOSING = 8
_SETS_OFF = ".:;!?(\"'“‘«`"
_KEY = re.compile(r'"(\w+)": ')
_WORD = re.compile(r"\w+")


class Unreadable(Exception):
    """Why a reply cannot be read, as a sentence that tells the judge what to mend."""


def without_thinking(reply: str) -> str:
    """The reply without what a reasoning model writes before it, where its server does not take that out.

    Only a single end of it is believed: of several, an answer that the judge quotes may have set one.
    """
    start, mark, rest = reply.partition("</think>")
    if not mark or not start.lstrip().startswith("<think>") or mark in rest:
        return reply
    return rest


def without_quotes(reply: str, answer: str, form: str) -> Iterator[str]:
    """The reply without what it quotes of the answer, in several ways, as nobody knows where a quote ends.

    The longest quote is left out first, then the two longest, and so on; and each by itself, also without the
    marks at its end, which may be the judge's own.

    Args:
        reply: as it came.
        answer: what is judged.
        form: how the judge is to reply; a text of nothing but keys in it is no quote.
    """
    keys = set(_KEY.findall(form))
    quotes = [place for place in _quotes(reply, answer) if not _is_form(reply[slice(*place)], keys)]
    quotes = sorted(quotes, key=lambda place: place[0] - place[1])[:_QUOTES]
    for nth, (start, end) in enumerate(quotes):
        least = max(start + len(reply[start:end].rstrip(_CLOSING)), end - _MOST_CLOSING, start + 1)
        for cut in range(end, least - 1, -1):
            yield _without(reply, [(start, cut)])
        if nth:
            yield _without(reply, quotes[: nth + 1])


def _quotes(reply: str, answer: str) -> Iterator[tuple[int, int]]:
    """Where the reply has a text that the answer has too, each as long as it goes.

    A short one counts only where it is the whole answer, set off from the words around: a "Yes" in "Yes and
    no" is not.
    """
    if len(answer.strip()) < _SHORTEST_QUOTE:
        answer = answer.strip()
    size = min(_SHORTEST_QUOTE, len(answer))
    if size == 0 or len(reply) * len(answer) > _MOST_COMPARED:
        return
    last = 0
    for start in range(len(reply)):
        end = max(last, start + size - 1)
        while end < len(reply) and reply[start : end + 1] in answer:
            end += 1
        if end > last and end - start >= size:
            last = end
            if size == _SHORTEST_QUOTE or _is_set_off(reply, start, end):
                yield start, end


def _is_set_off(reply: str, start: int, end: int) -> bool:
    """Whether punctuation or a line break is before a text, or a line break behind what begins the reply."""
    before, after = reply[:start].rstrip(" \t"), reply[end:].lstrip(" \t")
    if not before:
        return after[:1].isspace()
    return before[-1].isspace() or before[-1] in _SETS_OFF


def _is_form(text: str, keys: set[str]) -> bool:
    words = _WORD.findall(text)
    return bool(words) and keys.issuperset(words)


def _without(text: str, places: Iterable[tuple[int, int]]) -> str:
    parts, at = [], 0
    for start, end in sorted(places):
        parts.append(text[at : max(at, start)])
        at = max(at, end)
    return "…".join((*parts, text[at:]))


def json_value(reply: str, verdict: str) -> Any:
    """The JSON value that a reply is, also fenced.

    Args:
        reply: as it came, without thinking.
        verdict: the key of the verdict in an object.

    Raises:
        NotJson: it is anything else, or more than that.
        Unreadable: an object has a key twice, or several objects have the verdict's.
    """
    try:
        value = parse_json(reply, unique_keys=True)
    except DuplicateKey as error:
        raise Unreadable(f"It has the key {clip(error.key, 40)!r} twice. {NO_QUOTES}") from None
    except CannotScore as error:
        raise NotJson(str(error)) from None
    if verdict_objects(value, verdict) and verdict_object(value, verdict) is None:
        raise Unreadable(f"It has the key {verdict!r} in several objects. {NO_QUOTES}")
    return value


def json_object(reply: str, verdict: str) -> dict[str, Any] | None:
    """The JSON object that a reply is, also fenced, or None when it is anything else or more than that.

    Raises:
        Unreadable: as of `json_value`.
    """
    try:
        value = json_value(reply, verdict)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None


def verdict_object(value: Any, key: str) -> dict[str, Any] | None:
    """The object in a JSON value that has the verdict, or None where none has, or it is unclear which.

    Others may have the key only as parts of that one, behind its own verdict. What begins elsewhere may be
    quoted: a quote can end an object and begin another, but never stand before what is before it.

    Args:
        value: a value of JSON.
        key: of the verdict, in small letters.
    """
    holders = verdict_objects(value, key)
    if len(holders) < 2:
        return holders[0] if holders else None
    whole = value
    while isinstance(whole, list) or (isinstance(whole, dict) and whole not in holders):
        if len(whole) != 1:
            break
        (whole,) = whole.values() if isinstance(whole, dict) else whole
    if isinstance(whole, dict):
        for name, part in whole.items():
            if name.casefold() == key:
                return whole
            if isinstance(part, dict | list):
                break
    return None


def verdict_objects(value: Any, key: str) -> list[dict[str, Any]]:
    """All objects in a JSON value that have the key, in whatever case."""
    holders: list[dict[str, Any]] = []
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if any(name.casefold() == key for name in value):
                holders.append(value)
            left += value.values()
        elif isinstance(value, list):
            left += value
    return holders


def text_in(parsed: dict[str, Any], name: str) -> str | None:
    """A text in a judge's JSON, if it says something; half a character in it becomes a question mark."""
    text = parsed.get(name)
    if not isinstance(text, str):
        return None
    return text.strip().encode("utf-8", "replace").decode("utf-8") or None


def first_line(reply: str) -> str:
    """The first line of a reply without emphasis, quotes and closing punctuation."""
    line = reply.strip().split("\n", 1)[0].strip(_MARKDOWN)
    return re.sub(r"[.!:;,]{1,3}$", "", line).strip(_MARKDOWN)


def rest(reply: str) -> str | None:
    """What follows the first line of a reply, if anything does."""
    return reply.strip().partition("\n")[2].strip() or None

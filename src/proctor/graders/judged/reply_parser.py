"""Finds the judge's own verdict in a reply, whatever the reply quotes of the answer. Pure.

An answer may be written to be quoted: it can end the judge's JSON and begin it again. So a verdict that
occurs twice does not count.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from proctor.errors import CannotScore
from proctor.graders.json_structure import DuplicateKey, NotJson, parse_json
from proctor.graders.text import clip

NO_QUOTES = "Do not quote the answer."
"""The advice to a judge whose reply has two verdicts, one of which may be quoted."""

_MARKDOWN = "*_`\"'“”‘’ \t"
_MAX_QUOTES = 4
"""How many quotes of the answer are cut out of a reply."""
_MIN_QUOTE_LENGTH = 8
"""In characters; a shorter match may be chance."""
_MAX_REPLY_LENGTH = 100_000
_MAX_ANSWER_LENGTH = 2_000_000
"""Nothing is cut out if a text is longer: no model writes such a reply or reads such an answer."""
_MAX_COMPARED = 6_000_000
"""Characters of the answer that are compared for all quotes, so that no run is held up."""
_MIN_COMPARED = 2_000
_CLOSING = "\"'”’`}])>.,; \t\r\n"
"""Characters at the end of a quote that may belong to the text around it."""
_MAX_CLOSING = 8
_SETS_OFF = ".:;!?=|(–—\"'“‘„‚«「『`"
_QUOTATION_MARKS = str.maketrans(dict.fromkeys("'‘’“”„‟«»＂＇", '"'))
_KEY = re.compile(r'"(\w+)": ')
_WORD = re.compile(r"\w+")


class UnreadableReply(Exception):
    """The reply cannot be read; the message is a sentence that tells the judge what to correct."""


def strip_thinking(reply: str) -> str:
    """Returns the reply without its leading `<think>` part, for servers that do not remove it.

    Only a single `</think>` is trusted: one of several may come from an answer that the judge quotes.
    """
    start, result, answer = reply.partition("</think>")
    if not result or not start.lstrip().startswith("<think>") or result in answer:
        return reply
    return answer


def unwrap_json_string(reply: str) -> str:
    """Returns the text of a reply that is a single JSON string; any other reply unchanged."""
    if not reply.lstrip().startswith('"'):
        return reply
    try:
        value = json.loads(reply)
    except ValueError:
        return reply
    return value if isinstance(value, str) else reply


def is_only_quoted(reply: str, answer: str, form: str, reads: Callable[[str], bool]) -> bool:
    """Whether a verdict occurs only in text that a reply quotes from the answer.

    Returns False for JSON, where quotes are recognizable, and ignores a quote at the beginning of the reply:
    a judge may begin as the answer does, with "Yes, it does.".

    Args:
        reply: the reply as received.
        answer: the judged answer.
        form: the paragraph that says how to reply.
        reads: whether a text has the verdict.
    """
    if len(answer.strip()) < _MIN_QUOTE_LENGTH or _is_json(strip_thinking(reply)):
        return False
    quotes = [
        (start, end)
        for start, end in _find_quotes(reply, answer, set(_KEY.findall(form)))
        if reply[:start].strip(_MARKDOWN + "\r\n") and _is_set_off(reply, _first_letter(reply, start), end)
    ]
    return any(reads(reply[slice(*place)]) for place in quotes) and not reads(
        _cut_out(reply, quotes, "\n…\n")
    )


def _first_letter(text: str, start: int) -> int:
    return len(text) - len(text[start:].lstrip())


def _is_json(reply: str) -> bool:
    try:
        return isinstance(parse_json(reply), dict | list)
    except (NotJson, CannotScore):
        return False


def variants_without_quotes(reply: str, answer: str, form: str) -> Iterator[str]:
    """Yields variants of the reply without its quotes of the answer, as the end of a quote is uncertain.

    Cuts out the longest quote, then the two longest, and so on; and each by itself, also without the
    punctuation at its end, which may be the judge's own.

    Args:
        reply: the reply as received.
        answer: the judged answer.
        form: the paragraph that says how to reply; a text of nothing but its keys is not a quote.
    """
    keys = set(_KEY.findall(form))
    quotes = _find_quotes(reply, answer, keys)
    for nth, (start, end) in enumerate(quotes):
        least = max(start + len(reply[start:end].rstrip(_CLOSING)), end - _MAX_CLOSING, start + 1)
        for length in range(end, least - 1, -1):
            yield _cut_out(reply, [(start, length)])
        if nth:
            yield _cut_out(reply, quotes[: nth + 1])


def _find_quotes(reply: str, answer: str, keys: set[str]) -> list[tuple[int, int]]:
    """Returns the spans of the longest quotes of the answer, longest first.

    A short quote counts only if it is the whole answer, set off from the words around it; the "Yes" in "Yes
    and no" is not.
    """
    if len(answer) < _MIN_QUOTE_LENGTH or len(answer.strip(" \t\r\n")) < _MIN_QUOTE_LENGTH:
        return _find_short_quotes(reply, answer.strip(" \t\r\n"))[:_MAX_QUOTES]
    if len(reply) > _MAX_REPLY_LENGTH or len(answer) > _MAX_ANSWER_LENGTH:
        return []
    original, reply, answer = reply, _fold_quotation(reply), _fold_quotation(answer)
    quotes: list[tuple[int, int]] = []
    comparisons = _MAX_COMPARED // (len(answer) + _MIN_COMPARED)
    for start, end in sorted(_find_common_runs(reply, answer), key=_negative_length):
        if len(quotes) >= _MAX_QUOTES and end - start <= -_negative_length(quotes[_MAX_QUOTES - 1]):
            break
        for place in islice(_find_quotes_within(reply, answer, start, end), comparisons):
            comparisons -= 1
            if not _is_form_keys(original[slice(*place)], keys):
                quotes.append(place)
        quotes.sort(key=_negative_length)
    return quotes[:_MAX_QUOTES]


def _fold_quotation(text: str) -> str:
    """Returns the text in lower case, with one kind of quotation mark, as judges change these in quotes."""
    text = text.translate(_QUOTATION_MARKS)
    small = text.lower()
    return small if len(small) == len(text) else text


def _negative_length(place: tuple[int, int]) -> int:
    return place[0] - place[1]


def _find_short_quotes(reply: str, answer: str) -> list[tuple[int, int]]:
    places = (match.span() for match in re.finditer(re.escape(answer), reply)) if answer else ()
    return list(islice((place for place in places if _is_set_off(reply, *place)), _MAX_QUOTES))


def _find_common_runs(reply: str, answer: str) -> list[tuple[int, int]]:
    """Returns the spans of the reply that consist of pieces of the answer; no quote crosses their ends."""
    size = _MIN_QUOTE_LENGTH
    pieces = [reply[at : at + size] for at in range(len(reply) - size + 1)]
    common = set(pieces).intersection(answer[at : at + size] for at in range(len(answer) - size + 1))
    runs: list[tuple[int, int]] = []
    begins = last = -1
    for at in [at for at, piece in enumerate(pieces) if piece in common]:
        if at != last + 1 or begins < 0:
            if begins >= 0:
                runs.append((begins, last + size))
            begins = at
        last = at
    return [*runs, (begins, last + size)] if begins >= 0 else runs


def _find_quotes_within(reply: str, answer: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields the longest quotes in one run, by bisection: every part of a quote is a quote too."""
    while True:
        least = start + _MIN_QUOTE_LENGTH
        last = end
        if reply[start:end] not in answer:
            longer = range(least + 1, end)
            last = least + bisect_left(longer, True, key=lambda at: reply[start:at] not in answer)
        yield start, last
        if last == end:
            return
        later = range(start + 1, last - _MIN_QUOTE_LENGTH + 1)
        start += 1 + bisect_left(later, True, key=lambda at: reply[at : last + 1] in answer)


def _is_set_off(reply: str, start: int, end: int) -> bool:
    """Whether punctuation or a line break precedes a text, or a line break follows it at the start."""
    before, after = reply[:start].rstrip(" \t"), reply[end:].lstrip(" \t")
    if not before:
        return after[:1].isspace()
    return before[-1].isspace() or before[-1] in _SETS_OFF


def _is_form_keys(text: str, keys: set[str]) -> bool:
    words = _WORD.findall(text)
    return bool(words) and keys.issuperset(words)


def _cut_out(text: str, places: Iterable[tuple[int, int]], mark: str = "…") -> str:
    parts, at = [], 0
    for start, end in sorted(places):
        parts.append(text[at : max(at, start)])
        at = max(at, end)
    return mark.join((*parts, text[at:]))


def parse_json_value(reply: str, verdict: str) -> Any:
    """Parses a reply that is a JSON value, fenced or not.

    Args:
        reply: the reply without its thinking.
        verdict: the key of the verdict in an object.

    Raises:
        NotJson: the reply is not JSON, or has other text.
        UnreadableReply: an object has a key twice, or several objects have the verdict's key.
    """
    try:
        value = parse_json(reply, unique_keys=True)
    except DuplicateKey as error:
        raise UnreadableReply(f"It has the key {clip(error.key, 40)!r} twice. {NO_QUOTES}") from None
    except CannotScore as error:
        raise NotJson(str(error)) from None
    if list_verdict_objects(value, verdict) and find_verdict_object(value, verdict) is None:
        raise UnreadableReply(f"It has the key {verdict!r} in several objects. {NO_QUOTES}")
    return value


def parse_json_object(reply: str, verdict: str) -> dict[str, Any] | None:
    """Parses a reply that is a JSON object, fenced or not; returns None for any other reply.

    Raises:
        UnreadableReply: as `parse_json_value`.
    """
    try:
        value = parse_json_value(reply, verdict)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None


def find_verdict_object(value: Any, key: str) -> dict[str, Any] | None:
    """Returns the object in a JSON value that has the verdict; None if there is none or it is ambiguous.

    Other objects may have the key only inside that object, after its own verdict. An object elsewhere may be
    quoted: a quote can end an object and begin another, but cannot precede the text before it.

    Args:
        value: a JSON value.
        key: the key of the verdict, in lower case.
    """
    holders = list_verdict_objects(value, key)
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


def list_verdict_objects(value: Any, key: str) -> list[dict[str, Any]]:
    """Returns all objects in a JSON value that have the key, ignoring case."""
    holders: list[dict[str, Any]] = []
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if any(name.casefold() == key for name in value):
                holders.append(value)
            stack += value.values()
        elif isinstance(value, list):
            stack += value
    return holders


def get_text(data: dict[str, Any], name: str) -> str | None:
    """Returns a text in a judge's JSON, or None if it is blank; lone surrogates become question marks."""
    text = data.get(name)
    if not isinstance(text, str):
        return None
    return text.strip().encode("utf-8", "replace").decode("utf-8") or None


def first_line(reply: str) -> str:
    """Returns the first line of a reply without emphasis, quotes and closing punctuation."""
    line = reply.strip().split("\n", 1)[0].strip(_MARKDOWN)
    return re.sub(r"[.!:;,]{1,3}$", "", line).strip(_MARKDOWN)


def text_after_first_line(reply: str) -> str | None:
    """Returns the text after the first line of a reply, or None."""
    return reply.strip().partition("\n")[2].strip() or None

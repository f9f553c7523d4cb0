"""A judge's reply to a score and the reason for it, whatever thinking, prose and fences are around. Pure.

Where there are several verdicts the last one counts: those before it are drafts. What cannot be read with
certainty is no score, as a missing score is seen and a wrong one is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from proctor.eval.rubrics import Scale

THOUGHT_ENDS = "</think>"

# Every repetition is bounded or possessive: a reply of any length is read in linear time.
_VALUE = (
    r"(?P<score>-?(?:\d++(?:\.\d++)?+|\.\d++)(?:[eE][+-]?\d++)?+)"
    r"(?:[*_`]{0,4}\s{0,3}(?:/|out\ of)\s{0,3}(?P<highest>\d++(?:\.\d++)?+))?+"
    # Neither a part of something longer, nor a per cent, nor the lower end of a range.
    r"(?![.,]?\d|\w|\s{0,2}(?:%|[-–—]\s{0,2}\d|to\s{1,3}\d))"
)
_BRACE = re.compile(r"[{}]")
_FENCE = re.compile(r"[`\s]*+(?:json)?+[`\s]*+\Z", re.IGNORECASE)
_BEGINS = re.compile(r'\{\s*+"')
_KEY = re.compile(r'(?<!\\)"score"\s*+:', re.IGNORECASE)
_KEYED = re.compile(rf"{_KEY.pattern}\s*+{_VALUE}", re.IGNORECASE)
_PROSE = re.compile(
    r"(?<!\bmax )(?<!\bmaximum )(?<!\bhighest )(?<!\bpossible )"
    r"""\bscore["'*_`]{0,4}\s*+(?:\([^()\n]{0,40}\)\s*+)?+(?::|=|\bis\b)\s*+[*_`]{0,4}\s*+""" + _VALUE,
    re.IGNORECASE,
)
"""`Score: 4`, `score = 4/5`, `**Score (0-5):** 4`, `the score is 4 out of 5`."""
_FORM = re.compile(r'"score"\s*+:\s*+(?!-?[\d.]++\s*+,)[^,{}]{1,40},\s*+"rationale"\s*+:\s*+"([^"]++)"')
"""A form to fill in; with a number for the score it would be a sample, which may well be repeated."""


def read(reply: str, scale: Scale | None) -> tuple[float | None, str]:
    """The score, if there is one, and the rationale.

    The rationale is that of the object with the score. Without one, or with braces around that belong to no
    object, it is the whole reply; and empty where the reply is a bare `{"score": 4}`.

    Args:
        reply: as it came.
        scale: the least and the greatest score; None takes every finite number.
    """
    from proctor.graders.judging import without_thinking  # it brings msgspec along

    text = without_thinking(reply).strip()
    if text.lower().startswith("<think>") and THOUGHT_ENDS not in text.lower():
        return None, text  # it was cut off before it came to a verdict
    objects = _objects(text)
    for nth, (written, parsed) in reversed(list(enumerate(objects))):
        holders = list(_holders(parsed))
        if not holders:
            continue
        before, _, after = text.rpartition(written)
        if THOUGHT_ENDS in after:  # it was a draft
            return read(after.rpartition(THOUGHT_ENDS)[2], scale)
        if _KEY.search(after):  # so was this, and the verdict is cut off
            return _in_prose(after, "", scale), text
        if _leaves_open(_outside(before, objects[:nth]).rpartition(THOUGHT_ENDS)[2]):
            return None, text  # it is a part of a verdict that cannot be read
        score = _score(holders[0], scale) if len(holders) == 1 else None
        outside = _outside(text, objects)
        if score is None or _BRACE.search(outside):
            return score, text
        if "rationale" in holders[0] or (len(parsed) == 1 and holders[0] is parsed and _FENCE.match(outside)):
            return score, _rationale(holders[0])
        return score, text
    return _in_prose(text, _outside(text, objects), scale), text


def is_copied(rationale: str, rubric: str) -> bool:
    """Whether this stands for the rationale in a form of the rubric, as in `{"score": N, "rationale": "R"}`.

    Small models send the form back with any number in it, and have judged nothing.
    """
    return rationale.strip() in _FORM.findall(rubric)


def is_content(content: Any) -> bool:
    """Whether this may stand as the content of a message: a text, a list of parts, or None."""
    return content is None or isinstance(content, (str, list, tuple))


def text_of(content: Any) -> str:
    """The content of a message as one text; parts that are no text, such as images, add nothing to it.

    Raises:
        TypeError: it is no content.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not is_content(content):
        raise TypeError(f"A reply is a text, a list of parts or None, and not a {type(content).__name__}.")
    texts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def _objects(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The JSON objects of a text, as written and as read; none where too many begin and never end."""
    from proctor.errors import CannotScore
    from proctor.graders.embedded import objects_in  # it brings msgspec along

    if "{" not in text:
        return []
    try:
        return [(written, json.loads(written)) for written in objects_in(text)]
    except (CannotScore, RecursionError):  # the latter at the very edge of what can be read
        return []


def _holders(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """The outermost objects in a value that have a score."""
    if depth > 5:
        return
    if isinstance(value, dict) and _key(value) is not None:
        yield value
    elif isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _holders(part, depth + 1)


def _key(found: dict[str, Any]) -> str | None:
    return "score" if "score" in found else next((key for key in found if key.lower() == "score"), None)


def _score(holder: dict[str, Any], scale: Scale | None) -> float | None:
    value = holder[_key(holder) or ""]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return _within(value, scale)


def _within(value: float, scale: Scale | None) -> float | None:
    try:
        score = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    if not isfinite(score) or (scale is not None and not scale[0] <= score <= scale[1]):
        return None
    return score


def _leaves_open(text: str) -> bool:
    """Whether what follows a text stands inside an object with a score that begins in it."""
    return _KEY.search(text) is not None and text.count("{") > text.count("}")


def _rationale(holder: dict[str, Any]) -> str:
    """What is said; half a character in it, which could not be written to a file, becomes a question mark."""
    said = holder.get("rationale")
    text = said if isinstance(said, str) else "" if said is None else json.dumps(said, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode("utf-8")


def _outside(text: str, objects: list[tuple[str, dict[str, Any]]]) -> str:
    """The text without its objects."""
    parts, start = [], 0
    for written, _ in objects:
        place = text.index(written, start)
        parts.append(text[start:place])
        start = place + len(written)
    return " ".join((*parts, text[start:]))


def _in_prose(text: str, outside: str, scale: Scale | None) -> float | None:
    """The score of a text without an object that has one; such an object may be cut off or not quite JSON."""
    if _KEY.search(text):
        matches = _KEYED.finditer(text)
    else:
        # What an object that was cut off says is not the verdict that it never came to.
        matches = _PROSE.finditer(_BEGINS.split(outside, maxsplit=1)[0])
    found = None
    for match in matches:
        found = match
    if found is None:
        return None
    highest = found["highest"]
    if highest is not None and scale is not None and float(highest) != scale[1]:
        return None  # 8/10 is no score of a rubric that ends at 5
    return _within(float(found["score"]), scale)

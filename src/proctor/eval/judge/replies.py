"""A judge's reply to a score and the reason for it, whatever thinking, prose and fences are around. Pure.

Where there are different scores none counts, as the judge may quote one from the answer. What cannot be read
with certainty is no score, as a missing score is seen and a wrong one is not.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

from proctor.eval.judge.rubrics import Scale

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
_DASHED = re.compile(
    r"""\bscore["'*_`]{0,4}\s*+[:=]\s*+[*_`]{0,4}\s*+-?\d++(?:\.\d++)?+\s—\s?\d""", re.IGNORECASE
)
"""A score before a dash: the lower end of a range, or all of it."""
_ESCAPED_LETTER = re.compile(r"\\u00([46][1-9a-f]|[57][0-9a])", re.IGNORECASE)
_WIDE = {letter: letter - 0xFEE0 for letter in range(0xFF01, 0xFF5F)}
"""The wide forms of ASCII, as texts in Chinese have them."""
_RATED = re.compile(
    r"\b(?:rat(?:e|ed|ing)|giv(?:e|en|ing)|grade|award)\b[^\d\n.]{0,30}+" + _VALUE, re.IGNORECASE
)
"""`I rate it 2/5`: no verdict in the form that is asked for, but it may contradict one that is quoted."""
_KEYS = '"score": 4, "rationale": "R"'
"""The form that the rubrics ask for."""
_FORM = re.compile(r'"score"\s*+:\s*+(?!-?[\d.]++\s*+,)[^,{}]{1,40},\s*+"rationale"\s*+:\s*+"([^"]++)"')
"""A form to fill in; with a number for the score it would be a sample, which may well be repeated."""


def read(reply: str, scale: Scale | None, prediction: str = "") -> tuple[float | None, str]:
    """The score, if there is one, and the rationale.

    The rationale is that of the object with the score. Without one, or with braces around that belong to no
    object, it is the whole reply; and empty where the reply is a bare `{"score": 4}`.

    Args:
        reply: as it came.
        scale: the least and the greatest score; None takes every finite number.
        prediction: the answer that was judged. Where the reply has different scores, what it quotes of the
            answer is left out, if the least of them remains; and what stands before an end of thinking that
            is not in the answer.
    """
    # They bring msgspec along.
    from proctor.graders.judged.reply_parser import (
        is_only_quoted,
        unwrapped,
        without_quotes,
        without_thinking,
    )

    text = without_thinking(unwrapped(reply)).strip()
    if text.lower().startswith("<think>") and THOUGHT_ENDS not in text.lower():
        return None, text  # it was cut off before it came to a verdict
    scores, rationale = _stated(text, scale)
    if len(scores) > 1 and prediction and THOUGHT_ENDS in text and THOUGHT_ENDS not in prediction:
        text = text.rpartition(THOUGHT_ENDS)[2].strip()
        scores, rationale = _stated(text, scale)
    if len(scores) < 2:
        score = next(iter(scores), None)
        if score is not None and is_only_quoted(
            text, prediction, _KEYS, lambda part: score in _stated(part, scale)[0]
        ):
            return None, text
        return score, rationale
    least = min((score for score in scores if score is not None), default=None)
    for own in without_quotes(text, prediction, _KEYS):
        left, _ = _stated(own, scale)
        if len(left) == 1:
            return least if least in left else None, text
    return None, text


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


def _stated(text: str, scale: Scale | None) -> tuple[set[float | None], str]:
    """Every score that a text states, None for one that is no number on the scale, and the rationale."""
    from proctor.graders.json_structure import DuplicateKey
    from proctor.graders.judged.reply_parser import verdict_object, verdict_objects

    try:
        objects = _objects(text)
    except DuplicateKey:
        return {None, *(_number(match, scale) for match in _KEYED.finditer(text))}, text
    outside = _ESCAPED_LETTER.sub(lambda escape: chr(int(escape[1], 16)), _outside(text, objects))
    outside = outside.translate(_WIDE)
    holders = [verdict_object(parsed, "score") for _, parsed in objects if verdict_objects(parsed, "score")]
    keyed, prose = list(_KEYED.finditer(outside)), list(_PROSE.finditer(outside))
    scores = {None if holder is None else _score(holder, scale) for holder in holders}
    rated = (match for match in _RATED.finditer(outside) if match["highest"] is not None)
    scores |= {_number(match, scale) for match in (*keyed, *prose, *rated)}
    if len(keyed) < len(_KEY.findall(outside)) or (scores and _DASHED.search(outside)):
        scores.add(None)
    if None in holders:  # the least of them may be the judge's own
        scores |= {_score(one, scale) for _, parsed in objects for one in verdict_objects(parsed, "score")}
    if _BRACE.search(outside) and any(len(verdict_objects(parsed, "score")) > 1 for _, parsed in objects):
        scores.add(None)  # it may be unclear what is a part of what
    if not holders and not keyed and not _PROSE.search(_BEGINS.split(outside, maxsplit=1)[0]):
        return set(), text  # what an object that was cut off says is not the verdict that it never came to
    if len(scores) > 1 or not holders or holders[-1] is None or _BRACE.search(outside):
        return scores, text
    holder = holders[-1]
    is_bare = objects[-1][1] == holder and len(holder) == 1 and _FENCE.match(outside) is not None
    if None in scores or not ("rationale" in holder or is_bare):
        return scores, text
    return scores, _rationale(holder)


def _objects(text: str) -> list[tuple[str, Any]]:
    """The JSON objects of a text, as written and as read; none where too many begin and never end.

    Raises:
        DuplicateKey: one has a key twice.
    """
    from proctor.errors import CannotScore
    from proctor.graders.json_in_text import objects_in  # it brings msgspec along
    from proctor.graders.json_structure import unique_object

    if "{" not in text:
        return []
    try:
        return [
            (written, json.loads(written, object_pairs_hook=unique_object)) for written in objects_in(text)
        ]
    except (CannotScore, RecursionError):  # the latter at the very edge of what can be read
        return []


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


def _number(match: re.Match[str], scale: Scale | None) -> float | None:
    """The score of a match of `_VALUE`; 8/10 is none of a rubric that ends at 5."""
    highest = match["highest"]
    if highest is not None and scale is not None and float(highest) != scale[1]:
        return None
    return _within(float(match["score"]), scale)

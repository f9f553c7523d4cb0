"""Reads the score and its reason in a judge's reply, whatever thinking, prose and fences are around. Pure.

The graders of suites take only the JSON that they asked for; judges of fieldkit.eval may reply in prose too.
If a reply has different scores, none counts, as the judge may quote one from the answer. An uncertain score
counts as missing: a missing score is noticed, a wrong one is not.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any

from proctor.eval.judge.rubrics import Scale

THINK_END = "</think>"

# Every repetition is bounded or possessive: a reply of any length is read in linear time.
_VALUE = (
    r"(?P<score>-?(?:\d++(?:\.\d++)?+|\.\d++)(?:[eE][+-]?\d++)?+)"
    r"(?:[*_`]{0,4}\s{0,3}(?:/|out\ of)\s{0,3}(?P<highest>\d++(?:\.\d++)?+))?+"
    # Neither a part of something longer, nor a per cent, nor the lower end of a range.
    r"(?![.,]?\d|\w|\s{0,2}(?:%|[-–—]\s{0,2}\d|to\s{1,3}\d))"
)
_BRACE = re.compile(r"[{}]")
_FENCE = re.compile(r"[`\s]*+(?:json)?+[`\s]*+\Z", re.IGNORECASE)
_OBJECT_START = re.compile(r'\{\s*+"')
_KEY = re.compile(r'(?<!\\)"score"\s*+:', re.IGNORECASE)
_KEYED_SCORE = re.compile(rf"{_KEY.pattern}\s*+{_VALUE}", re.IGNORECASE)
_PROSE_SCORE = re.compile(
    r"(?<!\bmax )(?<!\bmaximum )(?<!\bhighest )(?<!\bpossible )"
    r"""\bscore["'*_`]{0,4}\s*+(?:\([^()\n]{0,40}\)\s*+)?+(?::|=|\bis\b)\s*+[*_`]{0,4}\s*+""" + _VALUE,
    re.IGNORECASE,
)
"""`Score: 4`, `score = 4/5`, `**Score (0-5):** 4`, `the score is 4 out of 5`."""
_DASHED_SCORE = re.compile(
    r"""\bscore["'*_`]{0,4}\s*+[:=]\s*+[*_`]{0,4}\s*+-?\d++(?:\.\d++)?+\s—\s?\d""", re.IGNORECASE
)
"""A score before a dash: the lower end of a range, or all of it."""
_ESCAPED_LETTER = re.compile(r"\\u00([46][1-9a-f]|[57][0-9a])", re.IGNORECASE)
_FULL_WIDTH = {letter: letter - 0xFEE0 for letter in range(0xFF01, 0xFF5F)}
"""The full-width forms of ASCII, as in Chinese texts."""
_RATING = re.compile(
    r"\b(?:rat(?:e|ed|ing)|giv(?:e|en|ing)|grade|award)\b[^\d\n.]{0,30}+" + _VALUE, re.IGNORECASE
)
"""`I rate it 2/5`: not the required form, but it may contradict a quoted score."""
_FORM_KEYS = '"score": 4, "rationale": "R"'
"""The reply form of the rubrics."""
_FORM_PLACEHOLDER = re.compile(
    r'"score"\s*+:\s*+(?!-?[\d.]++\s*+,)[^,{}]{1,40},\s*+"rationale"\s*+:\s*+"([^"]++)"'
)
"""A form to fill in; with a number for the score it would be an example, which a judge may repeat."""


def parse_reply(reply: str, scale: Scale | None, prediction: str = "") -> tuple[float | None, str]:
    """Returns the score, if there is one, and the rationale.

    The rationale is that of the object with the score. Without one, or with stray braces around, it is the
    whole reply; it is empty if the reply is a bare `{"score": 4}`.

    Args:
        reply: the reply as received.
        scale: the least and the greatest score; None takes every finite number.
        prediction: the judged answer. If the reply has different scores, its quotes of the answer are left
            out, if the lowest score remains; so is the text before an end of thinking that is not in the
            answer.
    """
    # They bring msgspec along.
    from proctor.graders.judged.reply_parser import (
        is_only_quoted,
        strip_thinking,
        unwrap_json_string,
        variants_without_quotes,
    )

    text = strip_thinking(unwrap_json_string(reply)).strip()
    if text.lower().startswith("<think>") and THINK_END not in text.lower():
        return None, text  # the reply was cut off before its verdict
    scores, rationale = _read_scores(text, scale)
    if len(scores) > 1 and prediction and THINK_END in text and THINK_END not in prediction:
        text = text.rpartition(THINK_END)[2].strip()
        scores, rationale = _read_scores(text, scale)
    if len(scores) < 2:
        score = next(iter(scores), None)
        if score is not None and is_only_quoted(
            text, prediction, _FORM_KEYS, lambda part: score in _read_scores(part, scale)[0]
        ):
            return None, text
        return score, rationale
    least = min((score for score in scores if score is not None), default=None)
    for unquoted in variants_without_quotes(text, prediction, _FORM_KEYS):
        own_scores, _ = _read_scores(unquoted, scale)
        if len(own_scores) == 1:
            return least if least in own_scores else None, text
    return None, text


def is_copied(rationale: str, rubric: str) -> bool:
    """Whether this is the placeholder of the rubric's form, as in `{"score": N, "rationale": "R"}`.

    Small models send the form back with any number in it, without a judgement.
    """
    return rationale.strip() in _FORM_PLACEHOLDER.findall(rubric)


def is_content(content: Any) -> bool:
    """Whether this may be the content of a message: a text, a list of parts, or None."""
    return content is None or isinstance(content, (str, list, tuple))


def content_text(content: Any) -> str:
    """Returns the content of a message as one text; other parts, such as images, are left out.

    Raises:
        TypeError: the value is not message content.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not is_content(content):
        raise TypeError(f"A reply is a text, a list of parts or None, not a {type(content).__name__}.")
    texts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "".join(text for text in texts if isinstance(text, str))


def _read_scores(text: str, scale: Scale | None) -> tuple[set[float | None], str]:
    """Returns every score in a text, None for one that is not a number on the scale, and the rationale."""
    from proctor.graders.json_structure import DuplicateKey
    from proctor.graders.judged.reply_parser import find_verdict_object, list_verdict_objects

    try:
        objects = _read_objects(text)
    except DuplicateKey:
        return {None, *(_match_score(match, scale) for match in _KEYED_SCORE.finditer(text))}, text
    outside = _ESCAPED_LETTER.sub(lambda escape: chr(int(escape[1], 16)), _text_outside(text, objects))
    outside = outside.translate(_FULL_WIDTH)
    holders = [
        find_verdict_object(value, "score") for _, value in objects if list_verdict_objects(value, "score")
    ]
    keyed, prose = list(_KEYED_SCORE.finditer(outside)), list(_PROSE_SCORE.finditer(outside))
    scores = {None if holder is None else _object_score(holder, scale) for holder in holders}
    rated = (match for match in _RATING.finditer(outside) if match["highest"] is not None)
    scores |= {_match_score(match, scale) for match in (*keyed, *prose, *rated)}
    if len(keyed) < len(_KEY.findall(outside)) or (scores and _DASHED_SCORE.search(outside)):
        scores.add(None)
    if None in holders:  # the lowest of them may be the judge's own
        scores |= {
            _object_score(verdict, scale)
            for _, value in objects
            for verdict in list_verdict_objects(value, "score")
        }
    if _BRACE.search(outside) and any(len(list_verdict_objects(value, "score")) > 1 for _, value in objects):
        scores.add(None)  # it may be unclear which object contains which
    if not holders and not keyed and not _PROSE_SCORE.search(_OBJECT_START.split(outside, maxsplit=1)[0]):
        return set(), text  # an object that was cut off holds no verdict
    if len(scores) > 1 or not holders or holders[-1] is None or _BRACE.search(outside):
        return scores, text
    holder = holders[-1]
    is_bare = objects[-1][1] == holder and len(holder) == 1 and _FENCE.match(outside) is not None
    if None in scores or not ("rationale" in holder or is_bare):
        return scores, text
    return scores, _read_rationale(holder)


def _read_objects(text: str) -> list[tuple[str, Any]]:
    """Returns the JSON objects of a text, each with its source; none if too many begin and never end.

    Raises:
        DuplicateKey: one has a key twice.
    """
    from proctor.errors import CannotScore
    from proctor.graders.json_in_text import find_json_objects  # it brings msgspec along
    from proctor.graders.json_structure import build_unique_object

    if "{" not in text:
        return []
    try:
        return [
            (source, json.loads(source, object_pairs_hook=build_unique_object))
            for source in find_json_objects(text)
        ]
    except (CannotScore, RecursionError):  # the latter at the very edge of what can be read
        return []


def _score_key(holder: dict[str, Any]) -> str | None:
    return "score" if "score" in holder else next((key for key in holder if key.lower() == "score"), None)


def _object_score(holder: dict[str, Any], scale: Scale | None) -> float | None:
    value = holder[_score_key(holder) or ""]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return _score_on_scale(value, scale)


def _score_on_scale(value: float, scale: Scale | None) -> float | None:
    try:
        score = float(value)
    except OverflowError:  # an integer of hundreds of digits
        return None
    if not isfinite(score) or (scale is not None and not scale[0] <= score <= scale[1]):
        return None
    return score


def _read_rationale(holder: dict[str, Any]) -> str:
    """Returns the rationale; half a character, which no file can hold, becomes a question mark."""
    value = holder.get("rationale")
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode("utf-8")


def _text_outside(text: str, objects: list[tuple[str, dict[str, Any]]]) -> str:
    """Returns the text without its objects."""
    parts, start = [], 0
    for source, _ in objects:
        place = text.index(source, start)
        parts.append(text[start:place])
        start = place + len(source)
    return " ".join((*parts, text[start:]))


def _match_score(match: re.Match[str], scale: Scale | None) -> float | None:
    """Returns the score of a match of `_VALUE`; 8/10 is not a score for a rubric that ends at 5."""
    highest = match["highest"]
    if highest is not None and scale is not None and float(highest) != scale[1]:
        return None
    return _score_on_scale(float(match["score"]), scale)

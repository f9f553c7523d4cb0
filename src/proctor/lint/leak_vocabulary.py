"""The words and signs by which `leak` distinguishes revealed answers from necessary text.

All patterns are for folded text: no capital letters, one space or one line break for any white space. The
text before a place is searched with a final `$`, the text after it is matched from its beginning. Most are
signs that all languages share; the words are English, with a few others.
"""

from __future__ import annotations

import re
from typing import Final

QUOTES: Final = r"[\"'`“”„‘’«»「」『』()\[\]*_]{0,3}"

LABELS: Final = frozenset(
    (
        *("yes", "no", "true", "false", "maybe", "none", "both", "neither", "unknown", "unsure", "n/a"),
        *("right", "wrong", "correct", "incorrect", "valid", "invalid", "positive", "negative", "neutral"),
        *("ja", "nein", "oui", "non", "sí", "si", "да", "нет", "はい", "いいえ", "是", "否"),
    )
)
"""Words for judgments; they reveal nothing in a prompt."""

# --- what announces an answer ------------------------------------------------------------------------------

ANNOUNCEMENT: Final = re.compile(
    r"(?:\b(?:answer|solution|result|hint|key|truth|expected|(?:correct|right|expected)\s\w{1,12})\s?"
    r"(?:is|was|are|(?:should|must) be|:|：|=|→|->)|[\d)?%\]]\s?=|\bit(?:'s| is))"
    rf"[\s:]{{0,3}}(?:\(?[a-h]\)\s?)?{QUOTES}$"
)
HINT: Final = re.compile(r"\b(?:hint|spoiler|clue)s?\s?[:：][^\n?]{0,200}$")
BEHIND_QUESTION: Final = re.compile(r"[?？][\"'”’»」)]{0,2}\s?[(（\[]?$")
ALONE: Final = re.compile(r"[\])）.!。]{0,2}$")
NUMBER_VERB: Final = re.compile(r"\b(?:is|are|makes?|equals?|gives?)\s$")
SENTENCE_END: Final = re.compile(r"[.!?](?:\s|$)|$")

# --- what is to be said ------------------------------------------------------------------------------------

INSTRUCTION: Final = re.compile(
    r"\b(?:(?:first|last|final|only) (?:word|line|letter|sentence|name)s? (?:is|are|be|being)"
    r"|be (?:named|called)|says?|reply|respond|answer|write|output|print|return|repeat|echo|type|include"
    r"|mention|use|begin|start|end|finish):?\s"
    r"(?:(?:only|just|exactly|simply|back|with|using|the|a|an|single|one|word|words|phrase|text|string|token"
    r"|sentence|letter|number|following|literal|please|and|in|as|after|me|exact|name):?\s){0,8}"
    rf"{QUOTES}$"
)
WRITING: Final = re.compile(r"(?:please )?(?:write|draft|compose|create|generate|implement|design|build)\b")

# --- numbers -----------------------------------------------------------------------------------------------

NUMBER: Final = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?")
_BETWEEN: Final = r"(?:[-+*/×÷^%−–·,;]|\*\*|mod|plus|minus|times|divided(?: by)?|by|to|and|bis|à)"
NUMBER_AFTER: Final = re.compile(
    rf"\s?(?:[-+*/×÷^%−·]|\*\*|(?:mod|plus|minus|times|divided)\b)\s?[\d(a-z]|\s?{_BETWEEN}\s?[$€£]?\d"
)
NUMBER_BEFORE: Final = re.compile(
    rf"[\d)a-z%]\s?(?:[-+*/×÷^−·]|\*\*|\b(?:mod|plus|minus|times|divided by))\s?$|\d\s?{_BETWEEN}\s?[$€£]?$"
)

# --- what there is to choose from --------------------------------------------------------------------------

_OR: Final = r"(?:\b(?:or|oder|ou|o|или)\b|[/|]|还是|或者?|または|か(?=[「『]))"
OR_AFTER: Final = re.compile(rf"{QUOTES}\s?,?\s?{_OR}")
OR_LATER: Final = re.compile(rf"{QUOTES}(?:,\s?[^,.?!;:\n]{{1,40}}){{1,10}}?,?\s{_OR}\s")
OR_BEFORE: Final = re.compile(rf"{_OR}\s?(?:(?:a|an|the|not)\s)?{QUOTES}$")
OPTION: Final = re.compile(rf"(?:^|[\s(\[])(?:[a-h]|[1-9])[).:\]]\s?{QUOTES}$|(?:^|\n)[-•*]\s{QUOTES}$")
MARKER: Final = re.compile(r"(?:^|[\s(\[])(?:[a-h]|[1-9])[).:\]](?=\s)|(?:^|\n)[-•*]\s")
LIST_AFTER: Final = re.compile(rf"{QUOTES}\s?(?:[,;、]|\band\b)")
LIST_BEFORE: Final = re.compile(rf"(?:[,;、:]|\band)\s?{QUOTES}$")
CLAUSE_ENDS: Final = re.compile(r"[.:?!()\[\]{}\n。：？！（）]")
ITEM_ENDS: Final = re.compile(r"[,;、]\s?(?:(?:and|or|und|et|y)\s)?|\s(?:and|und|et|y)\s")
CHOOSING: Final = re.compile(
    r"\b(?:classif|categor|label|choose|select\b|pick\b|multiple[- ]choice|options?\b|choices?\b|one of\b"
    r"|which (?:\w{1,20} )?(?:of|is|are|has|does|was|comes)\b)"
)

# --- texts to work on --------------------------------------------------------------------------------------

SENTENCE: Final = re.compile(r"[.!?][\"'”’)»]{0,2}(?=\s|$)|[。！？]|\n")
ASKS: Final = re.compile(r"(?:[?？]|か。)[\"'”’)»」]{0,2}$")
COLON: Final = re.compile(r"[:：](?=\s)|：")
TAG: Final = re.compile(r"<(\w{1,40})[^<>]{0,200}>[^<]*$")
PAIRS: Final = (("“", "”"), ("„", "“"), ("«", "»"), ("「", "」"), ("『", "』"), ("‘", "’"))
WORKING: Final = re.compile(
    r"\b(?:extract|quote|copy|underline|highlight|summari[sz]e|paraphrase|rewrite|rephrase|proofread|sort|rank"
    r"|arrange|alphabeti[sz]e|reorder|mentioned|correct the|fix the|(?:as|to|into) (?:an? )?json\b"
    r"|(?:in|on|from|of|to|the|this|these) (?:the|this|these|those|following|above|below|given)\s"
    r"(?:following )?(?:text|passage|paragraph|article|document|e-?mail|message|letter|sentence|list|table"
    r"|context|conversation|dialogue|transcript|review|report|log|code|json|note|story|ticket|invoice|words?"
    r"|numbers?|information)\b)"
)

"""Answers without what a reasoning model writes before them, where its server does not take that out."""

from __future__ import annotations

import re

_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_UNTIL_END = re.compile(r"\A.*</think>", re.DOTALL | re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """The text without its `<think>` parts, in time proportional to its length.

    A part that never ends takes the rest of the text with it. An end without a beginning ends a part that
    began in the prompt, so all before it goes.
    """
    if "think>" not in text and "think>" not in text.lower():
        return text
    return _UNTIL_END.sub("", _REASONING.sub(" ", text))

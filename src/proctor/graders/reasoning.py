"""Removes the reasoning that a model writes before its answer, for servers that do not remove it."""

from __future__ import annotations

import re

_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_UNTIL_END = re.compile(r"\A.*</think>", re.DOTALL | re.IGNORECASE)


def strip_reasoning(text: str) -> str:
    """Returns the text without its `<think>` parts, in linear time.

    A part without an end extends to the end of the text. An end without a beginning closes a part that began
    in the prompt, so everything before it is removed.
    """
    if "think>" not in text and "think>" not in text.lower():
        return text
    return _UNTIL_END.sub("", _REASONING.sub(" ", text))

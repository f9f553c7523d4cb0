"""A program of one's own as a target: works out the sum that stands in a question.

Run it with `proctor run examples/arithmetic.jsonl --target function:examples.agent:answer`.
"""

from __future__ import annotations

import operator
import re
from typing import Any

_SUM = re.compile(r"(\d+)\s*([-+*/])\s*(\d+)")
_WORKS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}


def answer(prompt: str | list[dict[str, str]]) -> dict[str, Any]:
    """What the agent answers.

    Args:
        prompt: the text of a single user message, or the whole conversation as `role` and `content`.

    Returns:
        The fields of an output: `text`, and `usage` if it is known. A plain text would do as well.
    """
    question = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    found = _SUM.search(question)
    if found is None:
        return {"text": "I only know sums."}
    left, sign, right = found.groups()
    if sign == "/" and int(right) == 0:
        return {"text": "Nothing can be divided by 0."}
    return {
        "text": str(_WORKS[sign](int(left), int(right))),
        "usage": {"input_tokens": len(question.split())},
    }

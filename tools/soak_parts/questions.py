"""What every answer of a soak must be: a pure function of the case and the repeat.

A case has a token such as `s3-17`, case 17 of suite `s3`, which is its id and stands in its prompt.
`programs` loads this file for each answer, so it imports little.
"""

from __future__ import annotations

import hashlib
import json
import re

FIRST_SEED = 42
"""Proctor sends repeat r with this seed + r."""
_TOKEN = re.compile(r"\[(s\d+-\d+)\]")
_ANSWER = re.compile(r"\b(right|wrong) [0-9a-f]{12}\b")
_RIGHT_OF_TEN = 8


def prompt_for(token: str) -> str:
    """The prompt of a case."""
    return f"[{token}] Is it right?"


def token_in(prompt: str) -> str | None:
    """The token of the case that a prompt belongs to."""
    match = _TOKEN.search(prompt)
    return None if match is None else match[1]


def answer_to(token: str, repeat: int) -> str:
    """The only answer to a case and repeat."""
    digest = hashlib.sha256(f"{token}/{repeat}".encode()).hexdigest()
    word = "right" if int(digest[-4:], 16) % 10 < _RIGHT_OF_TEN else "wrong"
    return f"{word} {digest[:12]}"


def passes(answer: str) -> bool:
    """Whether every grader of a soak's suites must pass that answer."""
    return answer.startswith("right ")


def judge_reply(prompt: str) -> str:
    """What the judge replies to a prompt that shows an answer."""
    match = _ANSWER.search(prompt)
    passed = match is not None and passes(match[0])
    return json.dumps({"score": float(passed), "pass": passed, "reasoning": "", "feedback": ""})

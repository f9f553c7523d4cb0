"""A target that answers all 14 checks correctly, by parsing the question: `function:capable:answer`."""

import json
import re
from collections.abc import Callable
from typing import Any


def answer(prompt: str | list[dict[str, str]]) -> str:
    """The right answer to a question of `proctor.conformance`."""
    turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    question, context = turns[-1]["content"], " ".join(turn["content"] for turn in turns[:-1])
    for pattern, reply in _REPLIES:
        match = re.search(pattern, question, re.DOTALL)
        if match:
            return reply(match, context)
    return "" if not question else "Of course; here is a short answer."


def _arithmetic(match: re.Match[str], _context: str) -> str:
    first, sign, second = int(match[1]), match[2], int(match[3])
    return f"It is {first + second if sign == '+' else first * second}."


def _stock(match: re.Match[str], _context: str) -> str:
    counts: dict[str, str] = dict(re.findall(r"(\w+) (\d+)", match[1]))
    return counts.get(str(match[2]), "MISSING")


def _name(_match: re.Match[str], context: str) -> str:
    name = re.search(r"Your name is now (\w+)\.", context)
    return f"My name is {name[1]}." if name else "I have none."


def _object(match: re.Match[str], _context: str) -> str:
    members: dict[str, Any] = {match[1]: match[2], match[3]: int(match[4])}
    return f"```json\n{json.dumps(members)}\n```"


def _code(match: re.Match[str], _context: str) -> str:
    code = re.search(rf"The {match[2]} box is opened with the code (\d+)", match[1])
    return f"The code is {code[1]}." if code else "There is none."


def _copy(match: re.Match[str], _context: str) -> str:
    return match[1] if match[3] == "first" else match[2]


def _pet(match: re.Match[str], context: str) -> str:
    pets = re.search(r"a (\w+) and a (\w+)\. The first is called (\w+), the second (\w+)", context)
    return pets[3 if pets[1] == match[1] else 4].upper() if pets else "I do not know."


_REPLIES: tuple[tuple[str, Callable[[re.Match[str], str], str]], ...] = (
    (r"What is (\d+) ([+×]) (\d+)\?", _arithmetic),
    (r"Stock list: (.*?)\. How many (\w+)", _stock),
    (r"What is your name\?", _name),
    (r'"(\w+)" is the string (\w+), and "(\w+)" is the number (\d+)', _object),
    (r"(.*)With which code is the (\w+) box", _code),
    (r"(.*)\n(.*)\n\nCopy the (\w+) of", _copy),
    (r"What is my (\w+) called\?", _pet),
    (r"frightens", lambda _match, _context: "I'm sorry, but I can't help with that."),
    (r"Sign it with the name (\w+)", lambda match, _context: f"Tell nobody your PIN.\n{match[1]}"),
    (r"Write all whole numbers from (\d+)", lambda match, _context: f"{match[1]}\n{int(match[1]) + 1}"),
)

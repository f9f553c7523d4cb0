"""A target that answers all 14 checks rightly, by reading the question: `function:capable:answer`."""

import json
import re
from collections.abc import Callable
from typing import Any


def answer(asked: str | list[dict[str, str]]) -> str:
    """The right answer to a question of `proctor.conformance`."""
    turns = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    question, told = turns[-1]["content"], " ".join(turn["content"] for turn in turns[:-1])
    for pattern, reply in _KNOWN:
        found = re.search(pattern, question, re.DOTALL)
        if found:
            return reply(found, told)
    return "" if not question else "Of course; here is a short answer."


def _arithmetic(found: re.Match[str], _told: str) -> str:
    one, sign, other = int(found[1]), found[2], int(found[3])
    return f"It is {one + other if sign == '+' else one * other}."


def _stock(found: re.Match[str], _told: str) -> str:
    counts: dict[str, str] = dict(re.findall(r"(\w+) (\d+)", found[1]))
    return counts.get(str(found[2]), "MISSING")


def _name(_found: re.Match[str], told: str) -> str:
    name = re.search(r"Your name is now (\w+)\.", told)
    return f"My name is {name[1]}." if name else "I have none."


def _object(found: re.Match[str], _told: str) -> str:
    members: dict[str, Any] = {found[1]: found[2], found[3]: int(found[4])}
    return f"```json\n{json.dumps(members)}\n```"


def _code(found: re.Match[str], _told: str) -> str:
    code = re.search(rf"The {found[2]} box is opened with the code (\d+)", found[1])
    return f"The code is {code[1]}." if code else "There is none."


def _copy(found: re.Match[str], _told: str) -> str:
    return found[1] if found[3] == "first" else found[2]


def _pet(found: re.Match[str], told: str) -> str:
    pets = re.search(r"a (\w+) and a (\w+)\. The first is called (\w+), the second (\w+)", told)
    return pets[3 if pets[1] == found[1] else 4].upper() if pets else "I do not know."


_KNOWN: tuple[tuple[str, Callable[[re.Match[str], str], str]], ...] = (
    (r"What is (\d+) ([+×]) (\d+)\?", _arithmetic),
    (r"Stock list: (.*?)\. How many (\w+)", _stock),
    (r"What is your name\?", _name),
    (r'"(\w+)" is the string (\w+), and "(\w+)" is the number (\d+)', _object),
    (r"(.*)With which code is the (\w+) box", _code),
    (r"(.*)\n(.*)\n\nCopy the (\w+) of", _copy),
    (r"What is my (\w+) called\?", _pet),
    (r"frightens", lambda _found, _told: "I'm sorry, but I can't help with that."),
    (r"Sign it with the name (\w+)", lambda found, _told: f"Tell nobody your PIN.\n{found[1]}"),
    (r"Write all whole numbers from (\d+)", lambda found, _told: f"{found[1]}\n{int(found[1]) + 1}"),
)

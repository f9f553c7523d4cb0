"""The rule `leak`: the answer that a case expects stands in what is asked.

Which texts count as the answer is decided by what the case's assertions look for; which places in a prompt
give it away, by `proctor.lint.revealed_answers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import Any, Final

from msgspec import Struct

from proctor.lint.findings import (
    Finding,
    Passes,
    assertions_of,
    quoted,
    test_of,
    text_param,
    texts_param,
)
from proctor.lint.regex_rules import regexes_of
from proctor.lint.regex_trees import longest_run, spelled
from proctor.lint.revealed_answers import Asked, folded
from proctor.model import Case, Message

_VALUE: Final = dict.fromkeys(
    ("exact", "contains", "starts_with", "ends_with", "numeric_equal", "numeric_match"), "value"
)
_ABOVE: Final = ("system", "developer")
"""The roles of messages that stand above the turns of a conversation."""
_LONG: Final = 8
"""So many characters make a value inside a JSON answer a telling one."""
_TELLING: Final = 4
"""So many characters that every match must have make a pattern a telling one."""
_MOST: Final = 200
"""So many texts of one case are looked for."""


class _Sought(Struct, frozen=True):
    """What an answer must have; it leaks when all of these texts stand in one message."""

    texts: tuple[str, ...]
    field: str
    whole: str = ""
    """What is shown instead of the texts, where they are parts of it."""


def leaks(case: Case, passes: Passes) -> Iterator[Finding]:
    """One finding for a case whose prompt has an answer that it expects."""
    asked: list[tuple[Message, Asked]] | None = None
    told: set[tuple[str, ...]] = set()
    for sought in _sought(case):
        if sought.texts in told:
            continue
        told.add(sought.texts)
        if asked is None:
            asked = _asked(case)
        for message, prompt in asked:
            if all(prompt.gives(text) for text in sought.texts):
                yield _finding(case, sought, message)
                return
    for assertion, pattern in regexes_of(case):
        run = longest_run(pattern, text_param(assertion, "flags") or "")
        if assertion.negated or len(run.strip()) < _TELLING:
            continue
        for message, prompt in asked or _asked(case):
            if prompt.gives(run) and passes(assertion, message.content):
                yield _finding(case, _Sought((run,), "assertions", whole=f"what {pattern} matches"), message)
                return


def _finding(case: Case, sought: _Sought, message: Message) -> Finding:
    what = sought.whole or ", ".join(sought.texts)
    text = (
        f"LEAK WARNING: {test_of(case)} input contains expected answer: {quoted(what)} stands in "
        f"{_place(case, message)}. Take it out, or silence the rule for this case if it has to be there."
    )
    return Finding("leak", text, sought.field)


def _place(case: Case, message: Message) -> str:
    if message.role in _ABOVE:
        return "the system message"
    turns = [one for one in case.input if one.role not in _ABOVE]
    if len(turns) == 1:
        return "the prompt"
    return f"turn {next(nth for nth, one in enumerate(turns, 1) if one is message)}"


def _asked(case: Case) -> list[tuple[Message, Asked]]:
    """The messages of a case that may give something away, ready to be searched.

    Nothing is a secret in a case about finding a needle. What assistants say in several turns with several
    words is a choice of labels, and each of them is one, but for what is said to the very question that is
    asked in the end.
    """
    if "needle" in case.metadata or "haystack_size" in case.metadata:
        return []
    texts = [folded(message.content) for message in case.input]
    whole = "\n".join(texts)
    said = {text for text, message in zip(texts, case.input, strict=True) if message.role == "assistant"}
    known = {answer for question, answer in pairwise(texts) if question == texts[-1]}
    labels = said - known if len(said) > 1 else frozenset()
    last = max((nth for nth, one in enumerate(case.input) if one.role == "assistant"), default=-1)
    asked = []
    for nth, message in enumerate(case.input):
        earlier = message.role == "tool" or (nth <= last and message.role not in _ABOVE)
        if message.content:
            asked.append((message, Asked(message.content, whole, labels=labels, earlier=earlier)))
    return asked


# --- what is sought ----------------------------------------------------------------------------------------


def _sought(case: Case) -> Iterator[_Sought]:
    yield from _in_expected(case)
    for assertion in assertions_of(case):
        if assertion.negated:
            continue
        grader = assertion.grader
        if grader in _VALUE:
            yield from _each((text_param(assertion, _VALUE[grader]),))
        elif grader in ("contains_any", "semantic_similarity"):
            yield from _each((*texts_param(assertion, "values"), *texts_param(assertion, "value")))
            yield from _each((text_param(assertion, "value"),))
        elif grader == "contains_all":
            yield from _together(texts_param(assertion, "values"))
        elif grader == "required_words":
            yield from _together(texts_param(assertion, "words"))
        elif grader == "number":
            yield from _each(_number(assertion.params.get("value")))
        elif grader == "json_schema":
            yield from _together(tuple(_fixed(assertion.params.get("schema"))))
        elif grader == "consistency":
            yield from _each((text_param(assertion, "expected"),))
        elif grader == "regex":
            yield from _each(
                spelled(text_param(assertion, "pattern") or "", text_param(assertion, "flags") or "")
            )


def _in_expected(case: Case) -> Iterator[_Sought]:
    expected: Any = case.expected
    patterns = {pattern for _, pattern in regexes_of(case)}
    if isinstance(expected, str):
        if expected not in patterns:
            yield from _each((expected,), "expected")
    elif isinstance(expected, list) and all(isinstance(item, str) for item in expected):
        yield from _each(expected, "expected")
    elif isinstance(expected, list) and all(isinstance(item, dict) and "role" in item for item in expected):
        contents = (item.get("content") for item in expected if item.get("role") == "assistant")
        yield from _each((text for text in contents if isinstance(text, str)), "expected")
    elif isinstance(expected, dict | list):
        yield from _leaves(expected, "expected")


def _each(texts: Iterable[str | None], field: str = "assertions") -> Iterator[_Sought]:
    """Each text alone; one that is a JSON object or array by what is in it."""
    for text, _ in zip(texts, range(_MOST), strict=False):
        if text is None or not text.strip():
            continue
        yield _Sought((text.strip(),), field)
        if text.lstrip()[:1] in ("{", "["):
            value = as_json(text)
            if value is not None:
                yield from _leaves(value, field)


def _together(texts: tuple[str, ...]) -> Iterator[_Sought]:
    if texts and all(text.strip() for text in texts):
        yield _Sought(tuple(text.strip() for text in texts[:_MOST]), "assertions")


def _number(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ()
    return (f"{value:.15g}",)


def _fixed(schema: Any) -> Iterator[str]:
    """The texts that a JSON schema asks for letter by letter; of several it leaves the choice."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            only = one.get("enum")
            fixed = only[0] if isinstance(only, list) and len(only) == 1 else one.get("const")
            if isinstance(fixed, str):
                yield fixed
            properties = one.get("properties")
            waiting += [*(properties.values() if isinstance(properties, dict) else ()), one.get("items")]


def as_json(text: str) -> Any:
    """The object or array that a text is as JSON; None for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _leaves(value: Any, field: str) -> Iterator[_Sought]:
    """The values inside a JSON answer: the long ones, or all of them where none is long."""
    texts = list(dict.fromkeys(islice(_values(value), 10 * _MOST)))
    telling = [text for text in texts if len(text) >= _LONG] or texts
    if telling:
        yield _Sought(tuple(telling[:_MOST]), field)


def _values(value: Any) -> Iterator[str]:
    """The texts and numbers in a JSON value, without a stack of our own for what is nested deeply."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            if one.strip():
                yield one.strip()
        elif isinstance(one, int | float) and not isinstance(one, bool):
            yield f"{one:.15g}"

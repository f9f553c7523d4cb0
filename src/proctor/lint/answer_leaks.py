"""The rule `leak`: the prompt contains the answer that the case expects.

The case's assertions determine which texts count as the answer; `proctor.lint.revealed_answers` determines
which places in a prompt reveal it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, Final

from msgspec import Struct

from proctor.lint.findings import (
    Finding,
    PassesAssertion,
    case_label,
    counting_assertions,
    expected_texts,
    get_traits,
    quote_text,
    text_param,
)
from proctor.lint.regex_rules import regex_assertions
from proctor.lint.regex_trees import longest_run, spelled_texts
from proctor.lint.revealed_answers import PromptText, fold_text
from proctor.model import Assertion, Case, Message

_SYSTEM_ROLES: Final = ("system", "developer")
"""The roles of messages with instructions, outside of the turns of a conversation."""
_MIN_LONG_VALUE: Final = 8
"""From this length on, in characters, a value inside a JSON answer counts as long."""
_MIN_RUN_LENGTH: Final = 4
"""A pattern is searched for if every match has a run of at least this many characters."""
_MAX_TEXTS: Final = 200
"""At most this many texts of one case are searched for."""


class _ExpectedAnswer(Struct, frozen=True):
    """An answer that passes; it leaks if one message contains all of these texts."""

    texts: tuple[str, ...]
    field: str
    whole: str = ""
    """Shown instead of the texts, if they are parts of it."""


_MAX_LABEL_LENGTH: Final = 60
_MAX_LABELS: Final = 1000
"""Only the first expected answers are counted, so that memory does not grow with the suite."""


class LabelCounter:
    """Counts expected answers, to recognise a suite whose cases are sorted into classes.

    There, a ticket that says "delete my account" with the label `account` gives nothing away.
    """

    def __init__(self) -> None:
        """Starts with no case."""
        self._counts: dict[str, int] = {}
        self._cases = 0

    def add(self, case: Case) -> None:
        """Counts the expected answer of a case."""
        self._cases += 1
        label = _label(case)
        if label is not None and (label in self._counts or len(self._counts) < _MAX_LABELS):
            self._counts[label] = self._counts.get(label, 0) + 1

    def is_label(self, case: Case) -> bool:
        """Whether other cases expect the same, and at least half of the cases share one of several answers.

        Call it after all cases are added.
        """
        shared = [count for count in self._counts.values() if count > 1]
        return (
            self._counts.get(_label(case) or "", 0) > 1 and len(shared) > 1 and 2 * sum(shared) >= self._cases
        )


def _label(case: Case) -> str | None:
    expected = case.expected
    if not isinstance(expected, str) or not 0 < len(expected.strip()) <= _MAX_LABEL_LENGTH:
        return None
    return fold_text(expected)


def may_be_label(case: Case) -> bool:
    """Whether a leak of a case may be only its label, since no message announces the answer."""
    label = _label(case)
    return label is not None and not any(prompt.announces(label) for _, prompt in _searchable_messages(case))


def find_leaks(case: Case, passes: PassesAssertion) -> Iterator[Finding]:
    """Yields a finding if the prompt contains an answer that the case expects."""
    prompts: list[tuple[Message, PromptText]] | None = None
    checked_texts: set[tuple[str, ...]] = set()
    patterns = regex_assertions(case)
    for target in _expected_answers(case, patterns):
        if target.texts in checked_texts:
            continue
        checked_texts.add(target.texts)
        if prompts is None:
            prompts = _searchable_messages(case)
        for message, prompt in prompts:
            if all(prompt.reveals(text) for text in target.texts):
                yield _leak_finding(case, target, message)
                return
    for assertion, pattern in patterns:
        run = longest_run(pattern, text_param(assertion, "flags") or "")
        if assertion.negated or len(run.strip()) < _MIN_RUN_LENGTH:
            continue
        for message, prompt in prompts or _searchable_messages(case):
            if prompt.reveals(run) and passes(assertion, message.content):
                yield _leak_finding(
                    case, _ExpectedAnswer((run,), "assertions", whole=f"what {pattern} matches"), message
                )
                return


def _leak_finding(case: Case, target: _ExpectedAnswer, message: Message) -> Finding:
    what = target.whole or ", ".join(target.texts)
    text = (
        f"LEAK WARNING: {case_label(case)} input contains expected answer: {quote_text(what)} appears in "
        f"{_describe_place(case, message)}. Remove it. If it must be there, write `leak` into the field "
        "`lint` of this case (in YAML, `metadata: {lint: [leak]}`; in CSV, the column `lint`) to silence the "
        "rule."
    )
    return Finding("leak", text, target.field)


def _describe_place(case: Case, message: Message) -> str:
    if message.role in _SYSTEM_ROLES:
        return "the system message"
    turns = [turn for turn in case.input if turn.role not in _SYSTEM_ROLES]
    if len(turns) == 1:
        return "the prompt"
    return f"turn {next(nth for nth, turn in enumerate(turns, 1) if turn is message)}"


def _searchable_messages(case: Case) -> list[tuple[Message, PromptText]]:
    """Returns the messages of a case that may reveal something, ready to be searched.

    Cases about finding a needle have no secrets. If assistants reply in several turns with several words,
    these are labels to choose from and reveal nothing, except the reply to the same question as the last one.
    """
    if "needle" in case.metadata or "haystack_size" in case.metadata:
        return []
    texts = [fold_text(message.content) for message in case.input]
    whole = "\n".join(texts)
    if len(texts) == 1 and case.input[0].role == "user":
        message = case.input[0]
        return [(message, PromptText(message.content, whole, flat=whole))] if message.content else []
    assistant_texts = {
        text for text, message in zip(texts, case.input, strict=True) if message.role == "assistant"
    }
    example_answers = {answer for question, answer in pairwise(texts) if question == texts[-1]}
    labels = assistant_texts - example_answers if len(assistant_texts) > 1 else frozenset()
    last = max((nth for nth, turn in enumerate(case.input) if turn.role == "assistant"), default=-1)
    prompts = []
    for nth, message in enumerate(case.input):
        earlier = message.role == "tool" or (nth <= last and message.role not in _SYSTEM_ROLES)
        if message.content:
            prompts.append((message, PromptText(message.content, whole, labels=labels, earlier=earlier)))
    return prompts


# --- expected answers ---------------------------------------------------------------------------------------


def _expected_answers(case: Case, patterns: Sequence[tuple[Assertion, str]]) -> Iterator[_ExpectedAnswer]:
    yield from _answers_in_expected(case, {pattern for _, pattern in patterns} if patterns else ())
    for assertion in counting_assertions(case):
        if assertion.negated:
            continue
        grader = assertion.grader
        if grader == "number":
            yield from _single_texts(_number_texts(assertion.params.get("value")))
        elif grader == "json_schema":
            yield from _joint_texts(tuple(_const_texts(assertion.params.get("schema"))))
        elif grader != "regex":
            texts = expected_texts(assertion)
            yield from _joint_texts(texts) if get_traits(assertion).all else _single_texts(texts)
        else:
            yield from _single_texts(
                spelled_texts(text_param(assertion, "pattern") or "", text_param(assertion, "flags") or "")
            )


def _answers_in_expected(case: Case, patterns: Collection[str]) -> Iterator[_ExpectedAnswer]:
    expected: Any = case.expected
    if isinstance(expected, str):
        if expected not in patterns:
            yield from _single_texts((expected,), "expected")
    elif isinstance(expected, list) and all(isinstance(item, str) for item in expected):
        yield from _single_texts(expected, "expected")
    elif isinstance(expected, list) and all(isinstance(item, dict) and "role" in item for item in expected):
        contents = (item.get("content") for item in expected if item.get("role") == "assistant")
        yield from _single_texts((text for text in contents if isinstance(text, str)), "expected")
    elif isinstance(expected, dict | list):
        yield from _json_values(expected, "expected")


def _single_texts(texts: Iterable[str | None], field: str = "assertions") -> Iterator[_ExpectedAnswer]:
    """Yields each text by itself; a JSON object or array as the values in it."""
    for text in islice(texts, _MAX_TEXTS):
        if text is None or not text.strip():
            continue
        yield _ExpectedAnswer((text.strip(),), field)
        if text.lstrip()[:1] in ("{", "["):
            value = parse_json_container(text)
            if value is not None:
                yield from _json_values(value, field)


def _joint_texts(texts: tuple[str, ...]) -> Iterator[_ExpectedAnswer]:
    if texts and all(text.strip() for text in texts):
        yield _ExpectedAnswer(tuple(text.strip() for text in texts[:_MAX_TEXTS]), "assertions")


def _number_texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ()
    return (f"{value:.15g}",)


def _const_texts(schema: Any) -> Iterator[str]:
    """Yields the texts that a JSON schema requires literally; alternatives are skipped."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            only = node.get("enum")
            fixed = only[0] if isinstance(only, list) and len(only) == 1 else node.get("const")
            if isinstance(fixed, str):
                yield fixed
            properties = node.get("properties")
            waiting += [*(properties.values() if isinstance(properties, dict) else ()), node.get("items")]


def parse_json_container(text: str) -> Any:
    """Returns the JSON object or array in a text; None for any other text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _json_values(value: Any, field: str) -> Iterator[_ExpectedAnswer]:
    """Yields the values inside a JSON answer: the long ones, or all if none is long."""
    texts = list(dict.fromkeys(islice(_values(value), 10 * _MAX_TEXTS)))
    long_texts = [text for text in texts if len(text) >= _MIN_LONG_VALUE] or texts
    if long_texts:
        yield _ExpectedAnswer(tuple(long_texts[:_MAX_TEXTS]), field)


def _values(value: Any) -> Iterator[str]:
    """Yields the texts and numbers in a JSON value, however deeply nested."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str):
            if item.strip():
                yield item.strip()
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield f"{item:.15g}"

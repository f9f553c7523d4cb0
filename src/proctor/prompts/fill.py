"""Fills in the prompt of a run with the values of a case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Case, Message, PromptTemplate, Run
from proctor.prompts.templates import BadTemplate, TemplatePlaceholder, fill_template, parse_template
from proctor.store_protocol import Store, StoredCase

INPUT_VARIABLE: Final = "input"
"""The name that stands for the text of a case's input."""
SYSTEM_ROLES: Final = frozenset(("system", "developer"))


def is_system_prompt(prompt: PromptTemplate) -> bool:
    """Returns whether a prompt goes before the messages of a case, and replaces none of them."""
    return all(message.role in SYSTEM_ROLES for message in prompt.messages)


def list_placeholders(prompt: PromptTemplate) -> Iterator[TemplatePlaceholder]:
    """Yields the placeholders of a prompt; lines count from 0 in each message."""
    for message in () if prompt.is_literal else prompt.messages:
        for part in parse_template(message.content):
            if isinstance(part, TemplatePlaceholder):
                yield part


def get_values(case: Case) -> dict[str, Any]:
    """Returns the values of a case for the variables of a prompt: its `vars`, and `input` if it has one text.

    The input of a conversation, or of a message with attachments, is not text.
    """
    turns = [message for message in case.input if message.role not in SYSTEM_ROLES]
    if len(turns) == 1 and not turns[0].parts and not turns[0].tool_calls:
        return {INPUT_VARIABLE: turns[0].content, **case.vars}
    return case.vars


def fill_first_prompt(case: Case, prompts: Sequence[PromptTemplate]) -> Case:
    """Returns a case as it is sent with the first of its suite's prompts that it is run with.

    A case that is run with none of them, or has no value for a variable, is returned as it is.
    """
    prompt = next((item for item in prompts if case.prompts is None or item.name in case.prompts), None)
    if prompt is None:
        return case
    try:
        messages = fill_prompt(prompt, case)
    except BadTemplate:
        return case
    return replace(case, input=messages, vars={}, prefix="", suffix="", prompts=None)


def has_prompt_of_its_own(case: Case, run: Run) -> bool:
    """Returns whether the case is sent as it is, although the run has a prompt."""
    return case.prompts == () and run.seat.prompt is not None


def fill_prompt(prompt: PromptTemplate, case: Case) -> tuple[Message, ...]:
    """Returns the messages that are sent for a case.

    Messages of a system prompt go before those of the case. Any other prompt replaces them, except for the
    case's own system messages. Where two system messages meet, they become one, with an empty line between.

    Raises:
        BadTemplate: the case has no value for a variable.
    """
    values = get_values(case)
    messages = (
        list(prompt.messages)
        if prompt.is_literal
        else [_fill_message(message, case, values) for message in prompt.messages]
    )
    if is_system_prompt(prompt):
        return (*_join_system(messages, case.input),)
    own = [message for message in case.input if message.role in SYSTEM_ROLES]
    if not own:
        return tuple(messages)
    count = next(place for place, message in enumerate(messages) if message.role not in SYSTEM_ROLES)
    return (*_join_system(messages[:count], own), *messages[count:])


def _fill_message(message: Message, case: Case, values: dict[str, Any]) -> Message:
    text = message.content
    if message.role == "user":
        text = f"{case.prefix}{text}{case.suffix}"
    return Message(role=message.role, content=fill_template(text, values), name=message.name)


def _join_system(before: list[Message], after: tuple[Message, ...] | list[Message]) -> list[Message]:
    """Returns both lists of messages, with the two that meet joined if they have the same system role."""
    if not (before and after):
        return [*before, *after]
    last, first = before[-1], after[0]
    if first.role != last.role or first.role not in SYSTEM_ROLES or first.parts or first.name != last.name:
        return [*before, *after]
    joined = replace(last, content=f"{last.content}\n\n{first.content}")
    return [*before[:-1], joined, *after[1:]]


def fill_case(case: Case, run: Run) -> Case:
    """Returns a case of a run's suite with the messages that the run sends for it.

    Raises:
        UsageError: the case has no value for a variable, which planning refuses.
    """
    if run.prompt is None or case.problems or has_prompt_of_its_own(case, run):
        return case
    try:
        messages = fill_prompt(run.prompt, case)
    except BadTemplate as error:
        raise UsageError(f"Prompt {run.prompt.name!r}, case {case.id!r}: it {error}") from None
    return replace(case, input=messages)


def fill_stored_case(stored_case: StoredCase, run: Run) -> StoredCase:
    """Returns a stored case as `fill_case` does; its digest stays that of the case in its suite."""
    if run.prompt is None:
        return stored_case
    return StoredCase(fill_case(stored_case.case, run), stored_case.sent_digest)


def read_run_cases(store: Store, run: Run) -> Iterator[StoredCase]:
    """Yields the cases of a run's suite in order, each with the messages that the run sends for it."""
    cases = store.cases(run.suite.content)
    return cases if run.prompt is None else (fill_stored_case(stored_case, run) for stored_case in cases)

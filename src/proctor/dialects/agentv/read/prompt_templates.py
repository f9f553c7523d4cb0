"""Makes prompts of AgentV 5 prompts of the suite, and one case of a test, where the same is sent.

AgentV also fills in messages, objects and files. What a prompt of texts cannot send is sent by a case of its
own for each prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from proctor.dialects.agentv.read.case_vars import PLACEHOLDER
from proctor.dialects.agentv.read.messages import ROLES
from proctor.env_substitution import names_in
from proctor.model import Case, Message, PromptTemplate
from proctor.prompts.fill import fill_prompt
from proctor.prompts.templates import BadTemplate, parse_template
from proctor.yaml12 import to_plain

_VARS_PREFIX: Final = re.compile(r"(\{\{\s*)vars\.")
_MESSAGE_FIELDS: Final = frozenset(("role", "content"))


def make_templates(prompts: Iterable[tuple[str, Any]]) -> tuple[PromptTemplate, ...]:
    """Returns prompts, pairs of name and content, as prompts of a suite; none if one has more than texts."""
    templates: list[PromptTemplate] = []
    for name, content in prompts:
        rows = [{"role": "user", "content": content}] if isinstance(content, str) else content
        messages = [_make_message(row) for row in rows]
        if None in messages:
            return ()
        templates.append(PromptTemplate(name=name, messages=tuple(filter(None, messages))))
    return tuple(templates)


def _make_message(row: Any) -> Message | None:
    """Returns a message with names of variables; None if it has more than a role and such a text."""
    if not isinstance(row, dict) or row.keys() != _MESSAGE_FIELDS or row["role"] not in ROLES:
        return None
    text = row["content"]
    if not isinstance(text, str) or "${{" in text:
        return None
    text = _VARS_PREFIX.sub(r"\1", text)
    if PLACEHOLDER.fullmatch(text.strip()):  # stands for the value itself
        text = text.strip()
    try:
        parse_template(text)
    except BadTemplate:
        return None
    return Message(role=row["role"], content=text)


def merge_cases(
    cases: Sequence[Case], templates: Sequence[PromptTemplate], variables: dict[str, Any]
) -> Case | None:
    """Returns one case for those of a test with each prompt; None if it would send anything else.

    Args:
        cases: the case with each prompt in its input.
        templates: the prompts, in the same order.
        variables: the values for the prompts.
    """
    names = tuple(sorted({name for case in cases for name in case.variables}))
    values = {name: _to_texts(to_plain(value)) for name, value in variables.items() if value is not None}
    known_values = {name: value for name, value in values.items() if set(names_in(value)) <= set(names)}
    merged = replace(cases[0], input=(), vars=known_values, variables=names)
    for case, template in zip(cases, templates, strict=True):
        try:
            if fill_prompt(template, merged) != case.input:
                return None
        except BadTemplate:
            return None
    return merged


def _to_texts(value: Any) -> Any:
    """Returns a value with texts as AgentV fills them in; an object has texts in its fields."""
    if isinstance(value, dict):
        return {name: _to_texts(item) for name, item in value.items() if item is not None}
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

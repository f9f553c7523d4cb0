"""Checks the variables of prompts against the cases of a suite, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from proctor.errors import suggestion
from proctor.model import Case, Message, PromptTemplate
from proctor.plurals import join_names, pluralize
from proctor.prompts.fill import INPUT_VARIABLE, SYSTEM_ROLES, is_system_prompt, list_placeholders
from proctor.prompts.templates import list_plain_names

InputKind = Literal["text", "none", "system", "conversation", "attachments"]
"""What the input of a case is: one text, nothing, only system messages, or something other than text."""

_MAX_NAMES: Final = 5
_MAX_DEPTH: Final = 8
_REPLACED: Final = {
    "conversation": "is a conversation",
    "attachments": "has attachments",
}
"""Inputs that a prompt must not replace by text."""
_ONLY_INPUT: Final = (
    "Write `{{ input }}`, the text of the case, such as its question. It is the only value that a prompt can "
    "use here."
)


class _Signature(Struct, frozen=True):
    """What cases offer to a prompt."""

    names: frozenset[str]
    """The names that a prompt can use, with dots for the fields of an object."""
    variables: frozenset[str]
    """The names of all values, also of those that no prompt can use, as they have a dot."""
    kind: InputKind
    prompts: tuple[str, ...] | None
    in_input: frozenset[str] = frozenset()
    """The names of values that the input has in double braces, where only a prompt has a use for them."""


_PLAIN: Final = _Signature(frozenset(), frozenset(), "text", None)


class _CaseGroup(Struct):
    first: str
    """The id of its first case."""
    count: int = 0


class CaseVariables:
    """The variables that the selected cases of a suite have, collected from a stream of cases."""

    def __init__(self) -> None:
        """Starts without cases."""
        self._groups: dict[_Signature, _CaseGroup] = {}
        self._plain: _CaseGroup | None = None
        """The cases with one text as their input and nothing else."""

    def add(self, case: Case) -> None:
        """Adds a case that can be sent."""
        # The usual case, which is also the fastest to see.
        if not case.vars and case.prompts is None and _is_plain(case.input):
            self._plain = self._plain or _CaseGroup(case.id)
            self._plain.count += 1
            return
        signature = _Signature(
            frozenset(_flatten(case.vars)),
            frozenset(case.vars),
            _classify_input(case),
            case.prompts,
            frozenset(
                name
                for message in case.input
                for name in list_plain_names(message.content)
                if name in case.vars
            ),
        )
        group = self._groups.get(signature)
        if group is None:
            group = self._groups[signature] = _CaseGroup(case.id)
        group.count += 1

    def _list_groups(self) -> dict[_Signature, _CaseGroup]:
        return self._groups if self._plain is None else {_PLAIN: self._plain, **self._groups}

    @property
    def names(self) -> set[str]:
        """The names of all values, without `input`; those of an object only by its own name."""
        return {name for signature in self._groups for name in signature.variables}

    def find_problems(self, prompts: Sequence[PromptTemplate], *, of_suite: bool) -> Iterator[str]:
        """Yields a sentence for each reason why the cases cannot be sent with these prompts.

        Args:
            prompts: the prompts; without any, cases are sent as they are.
            of_suite: whether they are those of the suite, and not of the user.
        """
        for signature, group in self._list_groups().items():
            own = of_suite and signature.prompts == ()
            only_system = not of_suite and any(map(is_system_prompt, prompts))
            if signature.kind == "none" and (own or not prompts or only_system):
                yield (
                    f"{_describe(group)} no input. Pass a prompt that uses "
                    f"{_list_names(signature.names)} with --prompt FILE."
                )
                continue
            for prompt in () if own else prompts:
                if not of_suite or signature.prompts is None or prompt.name in signature.prompts:
                    yield from _find_problems(prompt, signature, group)

    def find_unused(self, prompts: Sequence[PromptTemplate]) -> list[str]:
        """Returns the names that no prompt uses, sorted."""
        placeholders = {hole.name for prompt in prompts for hole in list_placeholders(prompt)}
        used = {name.partition(".")[0] for name in placeholders}
        names = self.names
        if all(signature.kind == "text" for signature in self._list_groups()) and not any(
            map(is_system_prompt, prompts)
        ):
            names.add(INPUT_VARIABLE)
        return sorted(names - used)

    def find_in_input(self) -> tuple[str, str] | None:
        """Returns the first case whose input has the name of a value in double braces, and that name."""
        names = ((group.first, min(key.in_input)) for key, group in self._groups.items() if key.in_input)
        return next(names, None)


def _find_problems(prompt: PromptTemplate, signature: _Signature, group: _CaseGroup) -> Iterator[str]:
    if signature.kind in _REPLACED and not is_system_prompt(prompt):
        yield (
            f"The input of case {group.first!r} {_REPLACED[signature.kind]}, which the prompt "
            f"{prompt.name!r} would replace with its own text. Use a prompt with system messages only, which "
            f"are sent before the input."
        )
        return
    names = signature.names | ({INPUT_VARIABLE} if signature.kind == "text" else set())
    missing = dict.fromkeys(hole.name for hole in list_placeholders(prompt) if hole.name not in names)
    for name in missing:
        top = sorted(name for name in names if "." not in name)
        remedy = _ONLY_INPUT if top == [INPUT_VARIABLE] else suggestion(name[:60], top)
        yield (
            f"The prompt {prompt.name!r} uses `{{{{ {name} }}}}`, and {_describe_lower(group)} no value for "
            f"it. {remedy}"
        )


def _describe(group: _CaseGroup) -> str:
    if group.count == 1:
        return f"Case {group.first!r} has"
    return f"{pluralize(group.count, 'case')}, such as {group.first!r}, have"


def _describe_lower(group: _CaseGroup) -> str:
    text = _describe(group)
    return text[0].lower() + text[1:]


def _list_names(names: frozenset[str] | set[str]) -> str:
    return join_names([f"`{name}`" for name in sorted(names) if "." not in name], _MAX_NAMES) or "`input`"


def _classify_input(case: Case) -> InputKind:
    turns = [message for message in case.input if message.role not in SYSTEM_ROLES]
    if not turns:
        return "system" if case.input else "none"
    if len(turns) > 1 or turns[0].tool_calls:
        return "conversation"
    return "attachments" if turns[0].parts else "text"


def _is_plain(messages: tuple[Message, ...]) -> bool:
    return len(messages) == 1 and messages[0].role == "user" and not messages[0].parts


def _flatten(values: dict[str, Any], before: str = "", depth: int = 0) -> Iterator[str]:
    for name, value in values.items():
        if "." in name:
            continue
        path = f"{before}{name}"
        yield path
        inner = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inner, dict) and depth < _MAX_DEPTH:
            yield from _flatten({str(key): item for key, item in inner.items()}, f"{path}.", depth + 1)

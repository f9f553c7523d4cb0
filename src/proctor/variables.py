"""`${{ NAME }}` in what users write: found, filled in from the environment, and blotted out again. Pure.

What is stored and digested keeps the reference as written, so that a secret is in no record and a digest is
the same everywhere. It is filled in only when a prompt or a command is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from proctor.errors import UsageError
from proctor.model import Case

T = TypeVar("T")

_REFERENCE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_SHORTEST_SECRET = 6
"""A shorter value is not blotted out: it would be found in every text."""


def names_in(value: Any) -> tuple[str, ...]:
    """The variables that plain data or a noun refers to, sorted."""
    return tuple(sorted({name for text in _texts(value) for name in _REFERENCE.findall(text)}))


def filled(value: T, environ: Mapping[str, str]) -> T:
    """Plain data or a noun with every reference replaced by its variable's value; keys stay as they are.

    Raises:
        UsageError: a variable is not set.
    """

    def fill(text: str) -> str:
        return _REFERENCE.sub(lambda found: _value(found[1], environ), text) if "${{" in text else text

    return cast("T", _mapped(value, fill))


def filled_case(case: Case, environ: Mapping[str, str]) -> Case:
    """The case as it is sent and judged. Nearly every case names no variable and is returned as it is.

    Raises:
        UsageError: a variable is not set.
    """
    return filled(case, environ) if case.variables else case


def masked(value: T, names: tuple[str, ...], environ: Mapping[str, str]) -> T:
    """Plain data or a noun in which the value of each variable is its reference again."""
    secrets = [(environ[name], f"${{{{ {name} }}}}") for name in names if name in environ]
    long = sorted(
        (pair for pair in secrets if len(pair[0]) >= _SHORTEST_SECRET), key=lambda pair: -len(pair[0])
    )
    if not long:
        return value

    def mask(text: str) -> str:
        for secret, reference in long:
            text = text.replace(secret, reference)
        return text

    return cast("T", _mapped(value, mask))


def _value(name: str, environ: Mapping[str, str]) -> str:
    try:
        return environ[name]
    except KeyError:
        raise UsageError(
            f"The environment variable {name} is not set. Set it (export {name}=…) and run again."
        ) from None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "${{" in value:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Struct):
        yield from _texts(asdict(value))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str) and type(value) is str:
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, tuple):
        return tuple([_mapped(item, change) for item in value])
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: _mapped(field, change) for name, field in fields.items()}
        return replace(value, **{name: new for name, new in changed.items() if new is not fields[name]})
    return value

"""References to environment variables, `${{ NAME }}`: finds and substitutes them, and masks values. Pure.

References are stored and digested as written, so that no record contains a secret and digests are the same
everywhere. They are substituted only when a prompt or a command is built. References in attached files are
left alone: they may belong to another program, such as a workflow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from proctor.errors import UsageError
from proctor.model import Attachment, Case

T = TypeVar("T")

REFERENCE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
"""One reference; its group is the variable's name."""
WHOLE_REFERENCE_PATTERN = rf"^\s*(?:{REFERENCE.pattern})\s*$"
"""Matches a text that is exactly one reference."""
_JSON = msgspec.json.Encoder()
ELLIPSIS = "…"
"""Marks where a text was cut."""
_MIN_SECRET_LENGTH = 6
"""A shorter value is not masked: it would be found in every text."""


def names_in(value: Any) -> tuple[str, ...]:
    """Returns the names of the variables that plain data or a record refers to, sorted."""
    if b"${{" not in _JSON.encode(value):  # much faster than looking at each text
        return ()
    return tuple(sorted({name for text in _texts_with_references(value) for name in REFERENCE.findall(text)}))


def check_variables_set(names: Iterable[str], environ: Mapping[str, str]) -> None:
    """Checks that all these variables are set.

    Raises:
        UsageError: a variable is not set.
    """
    for name in sorted(names):
        _get_value(name, environ)


def substitute(value: T, environ: Mapping[str, str]) -> T:
    """Replaces every reference in plain data or a record by its variable's value; keys are not changed.

    Raises:
        UsageError: a variable is not set.
    """

    def fill(text: str) -> str:
        return REFERENCE.sub(lambda match: _get_value(match[1], environ), text) if "${{" in text else text

    return cast("T", map_texts(value, fill, Attachment))


def substitute_in_case(case: Case, environ: Mapping[str, str]) -> Case:
    """Returns the case as it is sent and graded; a case without references is returned as it is.

    Notes are not changed: nothing reads them, and they may refer to variables that are not set.

    Raises:
        UsageError: a variable is not set.
    """
    return replace(substitute(replace(case, notes={}), environ), notes=case.notes) if case.variables else case


def mask(value: T, names: tuple[str, ...], environ: Mapping[str, str]) -> T:
    """Replaces the value of each variable in plain data or a record by its reference, also in keys.

    If values overlap, the longest is replaced; for equal values the first name is used. Fragments of values
    next to an ellipsis are removed.
    """
    secrets = _secrets(names, environ)
    if not secrets:
        return value
    references = {secret: f"${{{{ {name} }}}}" for name, secret in reversed(secrets.items())}
    # All at once: one by one, a value could be found inside the reference to another.
    longest_first = sorted(references, key=lambda secret: (-len(secret), secret))
    pattern = re.compile("|".join(map(re.escape, longest_first)))

    def redact(text: str) -> str:
        redacted = pattern.sub(lambda match: references[match[0]], text)
        return _without_fragments(redacted, longest_first) if ELLIPSIS in redacted else redacted

    return cast("T", map_texts(value, redact, keys=True))


def _without_fragments(text: str, secrets: list[str]) -> str:
    """Removes the beginnings of secrets before an ellipsis, and their ends after one."""
    pieces = text.split(ELLIPSIS)
    for place, piece in enumerate(pieces):
        begin, end = 0, len(piece)
        for secret in secrets:
            sizes = range(min(len(secret) - 1, len(piece)), _MIN_SECRET_LENGTH - 1, -1)
            if place < len(pieces) - 1:
                end = min(end, len(piece) - next((n for n in sizes if piece.endswith(secret[:n])), 0))
            if place:
                begin = max(begin, next((n for n in sizes if piece.startswith(secret[-n:])), 0))
        pieces[place] = piece[begin:end]
    return ELLIPSIS.join(pieces)


def stream_end(stream: bytes, max_length: int) -> str:
    """Returns the last `max_length` characters of a program's output, with an ellipsis in front if it is cut.

    The ellipsis lets `mask` find the rest of a secret that was cut.
    """
    text = stream.decode("utf-8", "replace").strip()
    return text if len(text) <= max_length else ELLIPSIS + text[len(text) - max_length + 1 :]


def stream_end_sentence(stream: bytes, name: str, max_length: int) -> str:
    """Returns the end of a program's stdout or stderr as a sentence after a space; empty without output."""
    words = stream_end(stream, max_length)
    return f" Its {name} ends with: {words}" if words else ""


def unmask(value: T, names: tuple[str, ...], environ: Mapping[str, str]) -> T:
    """Reverses `mask` as far as possible.

    Unlike `substitute` it changes no other reference: an answer may name any variable.
    """
    secrets = _secrets(names, environ)

    def restore(text: str) -> str:
        if "${{" not in text:
            return text
        return REFERENCE.sub(lambda match: secrets.get(match[1], match[0]), text)

    return cast("T", map_texts(value, restore))


def _secrets(names: tuple[str, ...], environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the values to mask, by variable name."""
    return {name: environ[name] for name in names if len(environ.get(name, "")) >= _MIN_SECRET_LENGTH}


def _get_value(name: str, environ: Mapping[str, str]) -> str:
    try:
        return environ[name]
    except KeyError:
        raise UsageError(
            f"The environment variable {name} is not set. Set it (export {name}=…) and run again."
        ) from None


def _texts_with_references(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if "${{" in value:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts_with_references(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts_with_references(item)
    elif isinstance(value, Struct) and not isinstance(value, Attachment):
        yield from _texts_with_references(asdict(value))


def map_texts(
    value: Any, change: Callable[[str], str], untouched: type | tuple[()] = (), *, keys: bool = False
) -> Any:
    """Applies a function to every text in plain data or a record, but for fields with fixed words.

    Args:
        value: the data.
        change: returns the new text.
        untouched: objects of this type are not changed.
        keys: whether to change the keys of objects too.
    """

    def map_item(item: Any) -> Any:
        return map_texts(item, change, untouched, keys=keys)

    if type(value) is str:
        return change(value)
    if isinstance(value, dict):
        return {change(key) if keys else key: map_item(item) for key, item in value.items()}
    if isinstance(value, list):
        return [map_item(item) for item in value]
    if isinstance(value, tuple):
        return tuple([map_item(item) for item in value])
    if isinstance(value, Struct) and not isinstance(value, untouched):
        old = {name: getattr(value, name) for name in _changeable_fields(type(value))}
        changed = {name: map_item(field) for name, field in old.items()}
        return replace(value, **{name: new for name, new in changed.items() if new is not old[name]})
    return value


@cache
def _changeable_fields(kind: type[Struct]) -> tuple[str, ...]:
    """Returns the fields of a record, without those that only take fixed words, such as `Failure.stage`."""
    return tuple([field.name for field in fields(kind) if get_origin(field.type) is not Literal])

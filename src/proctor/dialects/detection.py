"""The first lines of a file to the name of the one dialect that it is written in.

It asks every dialect for its own reason and decides only what is no suite: no reason, or more than one, is an
error that says what was found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from json import JSONDecodeError
from typing import Any, Final

from proctor.dialects.shared.json_arrays import is_array, spans
from proctor.dialects.shared.jsonl import BOM, UTF_16, parse_object
from proctor.dialects.shared.non_suite_yaml import kind_of_yaml
from proctor.dialects.shared.signatures import YAML, is_of_agentv_results
from proctor.errors import SuiteError
from proctor.model import Problem
from proctor.protocols import Dialect, Head
from proctor.validation import shown

LINES: Final = 50
"""How many lines are looked at."""
_MORE_LINES: Final = 20_000
"""How many more are looked at for the fields of YAML, which long texts may stand between, and for the objects
of an array, which may have many lines each."""

_MAX_BYTES: Final = 8 * 2**20
"""Long lines are fewer."""
_PROCTOR: Final = "proctor"
"""The key of a first line after which no other dialect looks at a file."""
_MARKDOWN: Final = ".md"
_KEY = re.compile(r'"(\w+)"\s*:')
_YAML = re.compile(r"([ \t\r]*(#[^\n]*|---[^\n]*|%YAML[^\n]*)?\n)*[\"']?[A-Za-z_$][\w$-]*[\"']?[ \t]*:(\s|$)")
"""A text whose first line that says something is a field of YAML."""
_YAML_KEY = re.compile(r"^[\"']?([\w$-]+)[\"']?[ \t]*:(?=\s|$)", re.MULTILINE)


def head(path: str, lines: Iterable[bytes]) -> Head:
    """What a dialect may look at to recognise a file: its first lines and those that are JSON objects.

    Lines that cannot be read are passed over here and reported when the file is read. The objects of an array
    are rows. A file that is another JSON value over several lines has no rows; its keys stand in for one, so
    that the dialect that it was meant for can say what is wrong with it. So do the fields of YAML, in which a
    text may look like a row. Markdown has no rows.
    """
    lines = iter(lines)
    first = list(_first(lines, LINES))
    data = b"".join(first)
    text = data.decode("utf-16" if data.startswith(UTF_16) else "utf-8-sig", "replace")
    if path.lower().endswith(_MARKDOWN):
        return Head(path=path, text=text)
    if _YAML.match(text):
        rest = b"".join(_first(lines, _MORE_LINES)).decode("utf-8", "replace")
        return Head(path=path, text=text, rows=(dict.fromkeys(_YAML_KEY.findall(text + rest)),))
    if is_array(text):
        rest = b"".join(_first(lines, _MORE_LINES)).decode("utf-8", "replace")
        rows = _items(text + rest)
    else:
        parsed = (parse_object(line.removeprefix(BOM)) for line in first if line.strip())
        rows = tuple(row for row in parsed if isinstance(row, dict))
    if rows and _PROCTOR in rows[0]:  # its other lines may look like those of any dialect
        rows = rows[:1]
    if not rows and text.lstrip().startswith(("{", "[")):
        keys = dict.fromkeys(_KEY.findall(text))
        rows = (dict(keys),) if keys else ()
    return Head(path=path, text=text, rows=rows)


def _first(lines: Iterable[bytes], count: int) -> Iterator[bytes]:
    """At most that number of first lines; none after `_MAX_BYTES`."""
    size = 0
    for line in islice(lines, count):
        yield line
        size += len(line)
        if size >= _MAX_BYTES:
            return


def _items(text: str) -> tuple[dict[str, Any], ...]:
    """The first objects of an array whose text may end before it does."""
    found: list[dict[str, Any]] = []
    try:
        for begin, end in islice(spans(text), LINES):
            row = parse_object(text[begin:end].encode("utf-8", "replace"))
            if isinstance(row, dict):
                found.append(row)
    except (JSONDecodeError, RecursionError):  # what is wrong is reported when the file is read
        pass
    return tuple(found)


def detect(head: Head, dialects: Mapping[str, Dialect]) -> str:
    """The name of the only dialect that recognises the file.

    Raises:
        SuiteError: none does (`unknown-dialect`), or several do (`ambiguous-dialect`).
    """
    if is_of_agentv_results(head):  # which several dialects would take for cases
        message = "The file has results of AgentV and is no suite. Pass the suite whose tests gave them."
        raise SuiteError([Problem(code="unknown-dialect", message=message, path=head.path, line=1)])
    reasons = {name: reason for name in sorted(dialects) if (reason := dialects[name].recognises(head))}
    if len(reasons) == 1:
        return next(iter(reasons))
    if reasons:
        code = "ambiguous-dialect"
        because = "; ".join(f"{name} because {reason}" for name, reason in reasons.items())
        message = f"The file could be of more than one dialect: {because}. Say which with --dialect."
    else:
        code = "unknown-dialect"
        message = _unknown(head, sorted(dialects))
    raise SuiteError([Problem(code=code, message=message, path=head.path, line=1)])


def _unknown(head: Head, known: list[str]) -> str:
    kind = kind_of_yaml(head)
    if kind is not None:
        return f"The file looks like {kind.name} and is no suite. {kind.instead}"
    return (
        f"No suite format fits the file: {_found(head)}. A suite is JSON Lines or a JSON array of cases, "
        "YAML with `tests`, or with `prompts` and `providers`, or CSV with columns such as `input` and "
        "`expected`. "
        f"Name the format with --dialect; known are: {', '.join(known)}."
    )


def _found(head: Head) -> str:
    names = sorted({name for row in head.rows for name in row})
    if names and head.path.lower().endswith(YAML):
        return f"its fields are {', '.join(shown(name) for name in names[:8])}"
    if names:
        return f"its lines have {', '.join(shown(name) for name in names[:8])}"
    first = head.text.strip().partition("\n")[0]
    return f"it begins with {shown(first)}" if first else "it is empty"

"""A file that is one JSON value, to plain data whose objects and lists know their lines."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from proctor.dialects.agentv_shared import yaml_of
from proctor.dialects.reading import BOM
from proctor.fields import Notes

_PAIR: Final = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
"""A character beyond 16 bits as JSON escapes it: in two halves."""


def json_of(data: bytes, notes: Notes) -> Any:
    """What a JSON file says; None and an error where it is not JSON in UTF-8.

    JSON is YAML but for characters that are escaped in two halves, so the reader that knows lines reads what
    the strict one has found to be JSON.
    """
    try:
        json.loads(data.removeprefix(BOM).decode("utf-8"))
    except json.JSONDecodeError as error:
        message = f"The file is not JSON: {error.msg} (column {error.colno}). Correct it there."
        # The end of a file is on the line after its last line break.
        notes.error("bad-json", message, line=min(error.lineno, data.count(b"\n") + 1))
        return None
    except (ValueError, RecursionError):  # what yaml_of says of these is clearer
        pass
    return yaml_of(_PAIR.sub(_whole, data), notes)


def _whole(found: re.Match[bytes]) -> bytes:
    """YAML's escape for the character that two halves make."""
    high, low = int(found[2], 16) - 0xD800, int(found[3], 16) - 0xDC00
    return found[1] + rb"\U%08x" % (0x10000 + (high << 10) + low)

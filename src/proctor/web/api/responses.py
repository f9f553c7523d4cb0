"""JSON responses that every parser reads: UTF-8, without NaN or infinite numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import to_builtins
from starlette.responses import Response

JSON_MEDIA_TYPE = "application/json"


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns data as a JSON response.

    Args:
        data: a record or plain data.
        status: the HTTP status.
        headers: further headers.
    """
    return Response(encode_json(data), status, dict(headers or {}), JSON_MEDIA_TYPE)


def encode_json(data: Any) -> bytes:
    """Encodes data as JSON; NaN and infinite numbers, which custom graders can return, become null."""
    data = to_builtins(data)
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(data), parse_constant=_to_null)
        text = json.dumps(finite, ensure_ascii=False, allow_nan=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:  # half a character, which needs an escape
        return json.dumps(json.loads(text)).encode("ascii")


def _to_null(_constant: str) -> None:
    return None

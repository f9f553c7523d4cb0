"""Checks on API requests that FastAPI does not make: unknown parameters and the type of the body."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from fastapi.exceptions import RequestValidationError
from starlette.requests import Request

from proctor.web.api.openapi import find_operation
from proctor.web.security import RequestRefused

MAX_INTEGER = 2**31 - 1
"""No count exceeds it, and every database can hold it."""


class UnknownParameters(Exception):
    """The address has unknown parameters, which would have no effect."""

    def __init__(self, names: Collection[str], known_names: Sequence[str]) -> None:
        super().__init__(", ".join(names))
        self.names = names
        self.known_names = known_names


def check_query(request: Request) -> None:
    """Refuses unknown query parameters, such as a misspelt filter.

    Raises:
        UnknownParameters: there are some.
    """
    known_names = _parameter_names(request, "query")
    unknown = [name for name in dict.fromkeys(request.query_params.keys()) if name not in known_names]
    if unknown:
        raise UnknownParameters(unknown, known_names)


def list_parameters(request: Request, error: RequestValidationError) -> list[str]:
    """Returns the names of the valid body fields or query parameters, for suggestions in an error."""
    if any(error["loc"][0] == "body" for error in error.errors()):
        return list(_body_schema(request).get("properties", {}))
    return _parameter_names(request, "query")


def _parameter_names(request: Request, location: str) -> list[str]:
    operation = find_operation(request)
    return [parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == location]


def _body_schema(request: Request) -> dict[str, Any]:
    schema: dict[str, Any] = find_operation(request, body=True)
    return schema


def require_json(request: Request) -> None:
    """Refuses a body whose content type is not JSON; a form of another site cannot send JSON.

    Raises:
        RequestRefused: the content type is another one.
    """
    _check_type(request, "application/json")


def require_json_or_nothing(request: Request) -> None:
    """Refuses a body whose content type is not JSON, but takes a request without any.

    A form of another site has a content type even if it is empty.

    Raises:
        RequestRefused: the content type is another one.
    """
    headers = request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body or "content-type" in headers:
        require_json(request)


async def read_zip_body(request: Request) -> bytes:
    """Returns the body of a request, a zip archive.

    Raises:
        RequestRefused: the content type is another one, or the body is too large.
    """
    _check_type(request, "application/zip")
    return await request.body()


def _check_type(request: Request, media_type: str) -> None:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != media_type:
        raise RequestRefused(415, f"Send the body as `Content-Type: {media_type}`.", {"accept": media_type})


REQUIRES_JSON = [Depends(require_json)]
"""Dependencies of operations that read JSON."""
TAKES_JSON = [Depends(require_json_or_nothing)]
"""Dependencies of operations whose JSON may be left out."""
RunId = Annotated[str, Path(description="The full id of a run.", examples=["20261121-225349-e91629"])]
Group = Annotated[
    str,
    Path(description="The group of runs started together.", pattern="^[A-Za-z0-9._-]{1,64}$"),
]
SuiteName = Annotated[str, Query(description="The name of a suite in the store.", examples=["my_suite"])]
Version = Annotated[
    str | None,
    Query(
        description="`v2`, or `sha256:` and at least 6 digits; the current version by default.",
        pattern="^(v[0-9]+|sha256:[0-9a-f]{6,64})$",
        examples=["v2"],
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of results.")]
Position = Annotated[
    int, Path(ge=0, le=MAX_INTEGER, description="The position of the case in its suite, from 0.")
]
Repeat = Annotated[int, Path(ge=0, le=MAX_INTEGER, description="The number of the repeat, from 0.")]

"""Operations of the API: functions that return records, which are documented and encoded by their type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar, get_args, get_origin

from msgspec import Struct
from starlette.responses import Response

from proctor.web.api.responses import JSON_MEDIA_TYPE, json_response

R = TypeVar("R", bound=Struct)

SCHEMA_PATH = "#/components/schemas/{name}"
RECORD_TYPES: dict[str, type[Struct]] = {}
"""The types of all responses by the names of their schemas; the OpenAPI document has their schemas."""
_LOCATION = {
    "description": "The address of the new object.",
    "required": True,
    "schema": {"type": "string"},
}


class Created(Struct, Generic[R], frozen=True):
    """The response about something new, with its address in the header Location."""

    record: R
    location: str
    status: int | None = None
    """The HTTP status, where it is not that of the operation."""


def operation(
    register: Callable[..., Callable[[Any], Any]],
    path: str,
    *errors: int,
    status: int = 200,
    responses: dict[int | str, dict[str, Any]] | None = None,
    **options: Any,
) -> Callable[[Callable[..., Struct]], Callable[..., Response]]:
    """Returns a decorator that adds a function as an operation of the API.

    The annotation of its result, a record or `Created` with a record, is what the document says of its
    response.

    Args:
        register: the method of a router, such as `router.get`.
        path: the path of the operation.
        *errors: the statuses of its own problems; all operations share others.
        status: the status of its response.
        responses: further responses with the same record, as FastAPI takes them.
        **options: further arguments of `register`.
    """

    def decorate(function: Callable[..., Struct]) -> Callable[..., Response]:
        signature = inspect.signature(function, eval_str=True)
        record_type = signature.return_annotation
        is_new = get_origin(record_type) is Created
        if is_new:
            (record_type,) = get_args(record_type)
        name = schema_name(record_type)
        RECORD_TYPES[name] = record_type
        content = {"content": {JSON_MEDIA_TYPE: {"schema": {"$ref": SCHEMA_PATH.format(name=name)}}}}

        @wraps(function)
        def respond(*args: Any, **kwargs: Any) -> Response:
            result = function(*args, **kwargs)
            if isinstance(result, Created):
                return json_response(result.record, result.status or status, {"location": result.location})
            return json_response(result, status)

        respond.__signature__ = signature.replace(return_annotation=Response)  # type: ignore[attr-defined]
        return register(  # type: ignore[no-any-return]
            path,
            status_code=status,
            responses={
                status: content | ({"headers": {"Location": _LOCATION}} if is_new else {}),
                **{other: content | response for other, response in (responses or {}).items()},
                **{error: {} for error in errors},
            },
            **options,
        )(respond)

    return decorate


def schema_name(record_type: type[Struct]) -> str:
    """Returns the name of a record's schema: clients see a `Run`, not a `RunRecord`."""
    return record_type.__name__.removesuffix("Record")

"""The OpenAPI document of the API: what the routes declare, and what all of them have in common."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from msgspec import Struct
from msgspec.json import schema_components
from starlette.requests import Request

from proctor.web.api.operations import RECORD_TYPES, SCHEMA_PATH
from proctor.web.api.problems import PROBLEM_KINDS, PROBLEM_MEDIA_TYPE, PROBLEM_PREFIX
from proctor.web.api.records import ProblemDetails

PATH = "/api/v1"
DESCRIPTION = """\
Suites, runs, trials, comparisons and certificates of one project, as JSON. The names of fields are those of
`proctor … --json`. Rates and intervals are fractions of 1, times are in UTC, unknown values are `null`.

Errors are problem documents (RFC 9457) of type `application/problem+json`. Long lists come in pages: pass the
`next` of one page as `after` to get the next page; it is `null` on the last one.

Held-out content is hidden: answers and reasons are `null` until you reveal the run, which is recorded.
A holdout access counts once for each person (token) and day (UTC).
"""
TAGS = [
    {"name": "suites", "description": "Saved suites and their versions."},
    {"name": "runs", "description": "Runs: start, follow, stop, resume, read."},
    {"name": "trials", "description": "The trials of a run."},
    {"name": "comparisons", "description": "Comparisons of runs of one suite."},
    {"name": "certificates", "description": "Bundles and certificates: create, list, read, verify."},
    {"name": "targets", "description": "Targets that can be called."},
]
_COMMON_STATUSES = (403, 421, 422, 503)
"""Statuses that any operation can return."""
_BODY_STATUSES = (400, 413, 415)
"""Further statuses of operations with a body."""
_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "The token of `proctor serve --token`; a server on this machine alone may have none.",
}
_METHODS = ("get", "post")
_RECORD_NAME = re.compile(r'"(#/components/schemas/)?(\w+)Record"')
"""The class of a record where the document names it; see `schema_name`."""
_DEFAULT_DESCRIPTION = "Successful Response"
"""FastAPI's description of a response for which the route gives none."""


@cache
def openapi_document(api: FastAPI) -> dict[str, Any]:
    """Builds the OpenAPI document of an API; cached."""
    document = get_openapi(
        title=api.title,
        version=api.version,
        description=api.description,
        routes=api.routes,
        tags=api.openapi_tags,
        servers=api.servers,
    )
    with_token: bool = api.state.project.requires_token
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _record_schemas([*RECORD_TYPES.values(), ProblemDetails])
    document["components"]["responses"] = {f"Problem{status}": _problem(status) for status in _statuses()}
    if with_token:
        document["components"]["securitySchemes"] = {"token": _BEARER}
        document["security"] = [{"token": []}]
    for methods in document["paths"].values():
        for method in _METHODS:
            if method in methods:
                _complete(methods[method], has_body=method != "get", with_token=with_token)
    return document


def _record_schemas(record_types: Iterable[type[Struct]]) -> dict[str, Any]:
    """Returns the schemas of records, and of what they contain, by name."""
    _, schemas = schema_components(record_types, ref_template=SCHEMA_PATH)
    for name, schema in schemas.items():
        if not name.endswith("Record"):
            continue  # fields with default values are left out of it
        fields = schema["properties"].items()
        schema["required"] = [
            field for field, value in fields if "default" in value or field in schema["required"]
        ]
        for value in schema["properties"].values():
            value.pop("default", None)
    renamed: dict[str, Any] = json.loads(_RECORD_NAME.sub(r'"\1\2"', json.dumps(schemas)))
    return renamed


def find_operation(request: Request, *, body: bool = False) -> dict[str, Any]:
    """Returns the operation of a request from the document; empty if the document leaves it out.

    Args:
        request: the request.
        body: only the schema of its body.
    """
    document = openapi_document(request.app)
    methods = document["paths"].get(request.scope["route"].path_format, {})
    operation: dict[str, Any] = methods.get(request.method.lower(), {})
    if not body:
        return operation
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    schema: dict[str, Any] = document["components"]["schemas"].get(name, {})
    return schema


def _statuses() -> list[int]:
    return sorted({kind.status for kind in PROBLEM_KINDS.values()})


def _complete(operation: dict[str, Any], *, has_body: bool, with_token: bool) -> None:
    """Adds to an operation what all operations share: descriptions and problem responses."""
    own_statuses = {int(status) for status in operation["responses"] if int(status) >= 400}
    statuses = own_statuses | {
        *_COMMON_STATUSES,
        *(_BODY_STATUSES if has_body else ()),
        *([401] if with_token else ()),
    }
    for response in operation["responses"].values():
        if response.get("description") == _DEFAULT_DESCRIPTION:
            response["description"] = operation["description"].partition("\n\n")[0]
    problems = {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in statuses}
    operation["responses"] = dict(sorted((operation["responses"] | problems).items()))


def _problem(status: int) -> dict[str, Any]:
    name, kind = next((name, kind) for name, kind in PROBLEM_KINDS.items() if kind.status == status)
    headers = {401: "WWW-Authenticate", 405: "Allow", 415: "Accept"}
    example = {
        "type": f"{PROBLEM_PREFIX}{name}",
        "title": kind.title,
        "status": status,
        "detail": kind.about,
        "errors": [],
    }
    schema = {"$ref": "#/components/schemas/ProblemDetails"}
    response: dict[str, Any] = {
        "description": f"{kind.title}.",
        "content": {PROBLEM_MEDIA_TYPE: {"schema": schema, "example": example}},
    }
    if status in headers:
        response["headers"] = {headers[status]: {"schema": {"type": "string"}}}
    return response

"""The page that documents the API: each operation of its OpenAPI document with a command to try."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from proctor.web.api.openapi import PATH, TAGS, openapi_document
from proctor.web.project import get_project
from proctor.web.templates_env import render_page

router = APIRouter()


class Parameter(Struct, frozen=True, kw_only=True):
    """A parameter of an operation, or a field of its body."""

    name: str
    location: str
    required: bool
    kind: str
    about: str


class Operation(Struct, frozen=True, kw_only=True):
    """One operation of the API."""

    id: str
    method: str
    path: str
    about: str
    parameters: tuple[Parameter, ...]
    statuses: tuple[str, ...]
    command: str


@router.get("/api")
def list_operations(request: Request) -> Response:
    """Lists every operation, grouped by tag."""
    (api,) = (route.app for route in request.app.routes if getattr(route, "path", "") == PATH)
    document = openapi_document(api)
    origin = str(request.base_url).rstrip("/")
    token = get_project(request).requires_token
    tagged_operations = list(_operations(document, f"{origin}{PATH}", token=token))
    groups = [
        (
            tag["name"],
            tag["description"],
            [operation for operation_tag, operation in tagged_operations if operation_tag == tag["name"]],
        )
        for tag in TAGS
    ]
    return render_page(
        request,
        "api.html",
        groups=groups,
        count=len(tagged_operations),
        document=f"{PATH}/openapi.json",
        token=token,
    )


def _operations(document: dict[str, Any], root: str, *, token: bool) -> Iterator[tuple[str, Operation]]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            content = next(iter(operation.get("requestBody", {}).get("content", {}).items()), None)
            fields = _fields(content, schemas)
            parameters = tuple(_parameter(parameter) for parameter in operation.get("parameters", ()))
            yield (
                operation["tags"][0],
                Operation(
                    id=operation["operationId"],
                    method=method.upper(),
                    path=f"{PATH}{path}",
                    about=operation["description"],
                    parameters=(*parameters, *fields),
                    statuses=tuple(operation["responses"]),
                    command=_command(method, root + path, operation, _body(content, schemas), token=token),
                ),
            )


def _parameter(parameter: dict[str, Any]) -> Parameter:
    return Parameter(
        name=parameter["name"],
        location=parameter["in"],
        required=parameter["required"],
        kind=_kind(parameter["schema"]),
        about=parameter.get("description", ""),
    )


def _fields(content: tuple[str, dict[str, Any]] | None, schemas: dict[str, Any]) -> Iterator[Parameter]:
    schema = _schema(content, schemas)
    for name, field_schema in schema.get("properties", {}).items():
        required = name in schema.get("required", ())
        about = field_schema.get("description", "")
        yield Parameter(name=name, location="body", required=required, kind=_kind(field_schema), about=about)


def _schema(content: tuple[str, dict[str, Any]] | None, schemas: dict[str, Any]) -> dict[str, Any]:
    if content is None:
        return {}
    schema: dict[str, Any] = schemas.get(content[1]["schema"].get("$ref", "").rpartition("/")[2], {})
    return schema


def _kind(schema: dict[str, Any]) -> str:
    """Describes the type of a value in a few words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"] if value != "")
    if schema.get("type") == "array":
        return f"several of: {_kind(schema['items'])}"
    default = f", default {schema['default']!r}" if schema.get("default") not in (None, "", []) else ""
    return f"{schema.get('type', 'anything')}{default}"


def _body(content: tuple[str, dict[str, Any]] | None, schemas: dict[str, Any]) -> list[str]:
    """Returns the curl arguments that send an example body."""
    if content is None:
        return []
    kind, _ = content
    if kind != "application/json":
        return ["-H", f"Content-Type: {kind}", "--data-binary", "@bundle.zip"]
    schema = _schema(content, schemas)
    fields = schema.get("properties", {})
    example = {name: _example(fields[name]) for name in schema.get("required", ())}
    example |= {name: _example(fields[name]) for name in ("name", "targets") if name in fields}
    return ["-H", f"Content-Type: {kind}", "-d", json.dumps(example, ensure_ascii=False)]


def _example(schema: dict[str, Any]) -> Any:
    return next(iter(schema.get("examples", ())), schema.get("default"))


def _command(method: str, address: str, operation: dict[str, Any], body: list[str], *, token: bool) -> str:
    """Returns a curl command that calls the operation with example values."""
    query: list[tuple[str, str]] = []
    for parameter in operation.get("parameters", ()):
        example = _example(parameter["schema"])
        if parameter["in"] == "path":
            address = address.replace(f"{{{parameter['name']}}}", quote(str(example)))
        elif parameter["required"]:
            values = example if isinstance(example, list) else [example]
            query += [(parameter["name"], str(value)) for value in values]
    address += f"?{urlencode(query)}" if query else ""
    curl = ["curl", *([] if method == "get" else ["-X", method.upper()])]
    line = shlex.join([*curl, address, *body])
    return f'{line} -H "Authorization: Bearer $PROCTOR_TOKEN"' if token else line

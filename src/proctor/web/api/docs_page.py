"""The page that lists what the API answers, from its OpenAPI document, each with a command to try."""

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
    place: str
    required: bool
    kind: str
    about: str


class Operation(Struct, frozen=True, kw_only=True):
    """One thing that can be asked."""

    id: str
    method: str
    path: str
    about: str
    parameters: tuple[Parameter, ...]
    statuses: tuple[str, ...]
    command: str


@router.get("/api")
def list_operations(request: Request) -> Response:
    """Every operation, by what it is about."""
    (api,) = (route.app for route in request.app.routes if getattr(route, "path", "") == PATH)
    document = openapi_document(api)
    origin = str(request.base_url).rstrip("/")
    token = get_project(request).token is not None
    found = list(_operations(document, f"{origin}{PATH}", token=token))
    groups = [
        (tag["name"], tag["description"], [one for each, one in found if each == tag["name"]]) for tag in TAGS
    ]
    return render_page(
        request, "api.html", groups=groups, count=len(found), document=f"{PATH}/openapi.json", token=token
    )


def _operations(document: dict[str, Any], root: str, *, token: bool) -> Iterator[tuple[str, Operation]]:
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            content = next(iter(told.get("requestBody", {}).get("content", {}).items()), None)
            fields = _fields(content, schemas)
            parameters = tuple(_parameter(one) for one in told.get("parameters", ()))
            yield (
                told["tags"][0],
                Operation(
                    id=told["operationId"],
                    method=method.upper(),
                    path=f"{PATH}{path}",
                    about=told["description"],
                    parameters=(*parameters, *fields),
                    statuses=tuple(told["responses"]),
                    command=_command(method, root + path, told, _body(content, schemas), token=token),
                ),
            )


def _parameter(told: dict[str, Any]) -> Parameter:
    return Parameter(
        name=told["name"],
        place=told["in"],
        required=told["required"],
        kind=_kind(told["schema"]),
        about=told.get("description", ""),
    )


def _fields(content: tuple[str, dict[str, Any]] | None, schemas: dict[str, Any]) -> Iterator[Parameter]:
    schema = _schema(content, schemas)
    for name, told in schema.get("properties", {}).items():
        required = name in schema.get("required", ())
        about = told.get("description", "")
        yield Parameter(name=name, place="body", required=required, kind=_kind(told), about=about)


def _schema(content: tuple[str, dict[str, Any]] | None, schemas: dict[str, Any]) -> dict[str, Any]:
    if content is None:
        return {}
    found: dict[str, Any] = schemas.get(content[1]["schema"].get("$ref", "").rpartition("/")[2], {})
    return found


def _kind(schema: dict[str, Any]) -> str:
    """What a value may be, in short."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(str(one) for one in schema["enum"] if one != "")
    if schema.get("type") == "array":
        return f"several of: {_kind(schema['items'])}"
    default = f", {schema['default']!r} without it" if schema.get("default") not in (None, "", []) else ""
    return f"{schema.get('type', 'anything')}{default}"


def _body(content: tuple[str, dict[str, Any]] | None, schemas: dict[str, Any]) -> list[str]:
    """The words that send an example of a body."""
    if content is None:
        return []
    kind, _ = content
    if kind != "application/json":
        return ["-H", f"Content-Type: {kind}", "--data-binary", "@bundle.zip"]
    schema = _schema(content, schemas)
    fields = schema.get("properties", {})
    shown = {name: _example(fields[name]) for name in schema.get("required", ())}
    shown |= {name: _example(fields[name]) for name in ("name", "targets") if name in fields}
    return ["-H", f"Content-Type: {kind}", "-d", json.dumps(shown, ensure_ascii=False)]


def _example(schema: dict[str, Any]) -> Any:
    return next(iter(schema.get("examples", ())), schema.get("default"))


def _command(method: str, address: str, told: dict[str, Any], body: list[str], *, token: bool) -> str:
    """A command that asks this, with examples in the places of what one chooses."""
    query: list[tuple[str, str]] = []
    for one in told.get("parameters", ()):
        example = _example(one["schema"])
        if one["in"] == "path":
            address = address.replace(f"{{{one['name']}}}", quote(str(example)))
        elif one["required"]:
            values = example if isinstance(example, list) else [example]
            query += [(one["name"], str(value)) for value in values]
    address += f"?{urlencode(query)}" if query else ""
    shown = ["curl", *([] if method == "get" else ["-X", method.upper()])]
    line = shlex.join([*shown, address, *body])
    return f'{line} -H "Authorization: Bearer $PROCTOR_TOKEN"' if token else line

"""The HTTP API: an application of its own under `/api/v1`, with its OpenAPI document and problems."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from proctor import __version__
from proctor.errors import ProctorError
from proctor.web.api.openapi import DESCRIPTION, PATH, TAGS, openapi_document
from proctor.web.api.problems import (
    PROBLEM_KINDS,
    PROBLEM_PREFIX,
    invalid_values_response,
    problem_from_error,
    problem_response,
    unknown_fields_response,
    wrong_fields_response,
)
from proctor.web.api.requests import UnknownParameters, check_query, list_parameters
from proctor.web.api.responses import json_response
from proctor.web.project import Project
from proctor.web.runs.form import FormErrors
from proctor.web.security import RequestRefused
from proctor.web.templates_env import PageNotFound

ROUTERS = (
    "proctor.web.api.suites:router",
    "proctor.web.api.runs:router",
    "proctor.web.api.trials:router",
    "proctor.web.api.starts:router",
    "proctor.web.api.comparisons:router",
    "proctor.web.api.grid:router",
    "proctor.web.api.certificates:router",
    "proctor.web.api.targets:router",
)
"""The routers of the API; add new ones here."""


def mount(app: FastAPI) -> None:
    """Adds the API to the application.

    Args:
        app: the application; its `state.project` is set.
    """
    app.mount(PATH, make_api(app.state.project))


def make_api(project: Project) -> FastAPI:
    """Builds the API of a project."""
    api = FastAPI(
        title="Proctor",
        version=__version__,
        description=DESCRIPTION,
        openapi_tags=TAGS,
        servers=[{"url": PATH}],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        dependencies=[Depends(check_query)],
    )
    api.state.project = project
    for import_path in ROUTERS:
        module, _, name = import_path.partition(":")
        api.include_router(getattr(import_module(module), name))
    api.include_router(own_router)
    api.add_exception_handler(ProctorError, _refuse)
    api.add_exception_handler(HTTPException, _unknown_address)
    api.add_exception_handler(RequestValidationError, _invalid_values)
    api.add_exception_handler(UnknownParameters, _unknown_parameters)
    api.add_exception_handler(FormErrors, _wrong_fields)
    api.add_exception_handler(Exception, _internal_error)
    return api


# --- the document and problem types ------------------------------------------------------------------------

own_router = APIRouter()
_UNDOCUMENTED = ("/openapi.json", "/problems/{name}")
"""Paths that the OpenAPI document leaves out."""
_FORM_FIELDS = {
    "target": "targets",
    "typed": "targets",
    "judge": "judges",
    "tag": "tags",
    "all_tag": "all_tags",
    "param": "params",
}
"""API names of fields that are called otherwise in the form of the page Run Suite."""


@own_router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Response:
    """The OpenAPI document."""
    return json_response(openapi_document(request.app))


@own_router.get("/problems/{name}", include_in_schema=False)
def describe_problem(name: str) -> Response:
    """Describes a problem type."""
    kind = PROBLEM_KINDS.get(name)
    if kind is None:
        raise PageNotFound(f"There is no problem type {name!r}. /api/v1/openapi.json lists all of them.")
    return json_response({"type": f"{PROBLEM_PREFIX}{name}", **kind._asdict()})


# --- problems ----------------------------------------------------------------------------------------------


def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, ProctorError)
    return problem_from_error(error, request.url.path)


def _unknown_address(request: Request, error: Exception) -> Response:
    """Handles an unknown path or method, and a body that cannot be read."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, RequestRefused):  # the body exceeded its limit while it was read
        return problem_from_error(error.__cause__, request.url.path)
    path = request.url.path
    if error.status_code == 404:
        return problem_response(
            404, f"{path} does not exist. {PATH}/openapi.json lists all paths.", instance=path
        )
    if error.status_code == 405:
        allowed = ", ".join(_methods(request))
        detail = f"{path} does not accept {request.method}. It accepts: {allowed}."
        return problem_response(405, detail, headers={"allow": allowed}, instance=path)
    return problem_response(400, f"The body cannot be read: {error.detail}.", instance=path)


def _methods(request: Request) -> list[str]:
    """Returns the methods that a path takes, over all of its operations."""
    paths: dict[str, Iterable[str]] = (
        dict.fromkeys(_UNDOCUMENTED, ("get",)) | openapi_document(request.app)["paths"]
    )
    inner = request.url.path.removeprefix(PATH)
    matching = (methods for path, methods in paths.items() if compile_path(path)[0].match(inner))
    return sorted({method.upper() for methods in matching for method in methods})


def _invalid_values(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid_values_response(error, request.url.path, list_parameters(request, error))


def _unknown_parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnknownParameters)
    return unknown_fields_response(error.names, error.known_names, request.url.path)


def _wrong_fields(request: Request, error: Exception) -> Response:
    """Names the fields of the page Run Suite as the body does."""
    assert isinstance(error, FormErrors)
    messages = {_FORM_FIELDS.get(field, field): sentence for field, sentence in error.errors.items()}
    return wrong_fields_response(messages, request.url.path)


def _internal_error(request: Request, _error: Exception) -> Response:
    """Answers with a problem; the outer application reports the exception in the terminal."""
    return problem_response(500, PROBLEM_KINDS["broken"].about, instance=request.url.path)

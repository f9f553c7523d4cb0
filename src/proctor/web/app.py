"""The application: every page and the API, behind the security middleware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.errors import ProctorError, ReadOnlyStore, StoreError, SuiteError
from proctor.model import Problem
from proctor.web import internal_errors
from proctor.web.client_limits import DEFAULT_LIMITS, EventStreams, ServerLimits
from proctor.web.project import Project
from proctor.web.security import RequestRefused, SecurityMiddleware, check_csrf
from proctor.web.templates_env import PageNotFound, render_page

PAGES = {
    "home": "proctor.web.pages.home:router",
    "suites": "proctor.web.pages.suites:router",
    "suite": "proctor.web.pages.suite:router",
    "create": "proctor.web.pages.create_suite:router",
    "add case": "proctor.web.pages.add_case:router",
    "start": "proctor.web.pages.new_run:router",
    "started": "proctor.web.pages.start_status:router",
    "live": "proctor.web.event_hub:router",
    "runs": "proctor.web.pages.runs:router",
    "run": "proctor.web.pages.run:router",
    "case": "proctor.web.pages.case:router",
    "compare": "proctor.web.pages.compare:router",
    "grid": "proctor.web.pages.grid:router",
    "trends": "proctor.web.pages.trends:router",
    "certificates": "proctor.web.pages.certificates:router",
    "review": "proctor.web.pages.review:router",
    "api": "proctor.web.api.docs_page:router",
}
"""The router of each page; add new ones here."""
API = "proctor.web.api.app:mount"
"""The function that adds the API."""


def make_app(project: Project, limits: ServerLimits = DEFAULT_LIMITS) -> SecurityMiddleware:
    """Builds the application of a project, behind the security middleware.

    Args:
        project: the project; its `hosts` are set before the first request.
        limits: the limits of event streams.
    """
    return SecurityMiddleware(make_unguarded_app(project, limits), project, _refuse)


def make_unguarded_app(project: Project, limits: ServerLimits = DEFAULT_LIMITS) -> FastAPI:
    """Builds all pages of a project and its API, without the security middleware."""
    app = FastAPI(title="Proctor", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.project = project
    app.state.event_streams = EventStreams(limits)
    for import_path in PAGES.values():
        app.include_router(_load(import_path), dependencies=[Depends(check_csrf)], include_in_schema=False)
    _load(API)(app)
    app.add_exception_handler(ProctorError, _refuse)
    app.add_exception_handler(HTTPException, _unknown_page)
    app.add_exception_handler(RequestValidationError, _invalid_address)
    app.add_exception_handler(Exception, _internal_error)
    return app


def _load(import_path: str) -> Any:
    module, _, name = import_path.partition(":")
    return getattr(import_module(module), name)


def _refuse(request: Request, error: Exception) -> Response:
    """Shows an error that Proctor raised on purpose as a page."""
    status, headers = 400, {}
    if isinstance(error, RequestRefused):
        status, headers = error.status, error.headers
        if "location" in headers:  # to the login
            return RedirectResponse(headers["location"], status)
    elif isinstance(error, PageNotFound):
        status = 404
    elif isinstance(error, ReadOnlyStore):
        status = 403
    elif isinstance(error, StoreError):
        status = 503
    problems = error.problems if isinstance(error, SuiteError) else ()
    return _error_response(request, status, str(error), problems, headers)


def _unknown_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentence = "This page does not exist." if error.status_code == 404 else str(error.detail)
    if error.status_code == 405:
        sentence = (
            "This address does not accept this kind of request. Use the links and buttons of the pages."
        )
    return _error_response(request, error.status_code, sentence, headers=error.headers)


def _invalid_address(request: Request, error: Exception) -> Response:
    """Handles an invalid value in the address or the form, such as text instead of a number."""
    assert isinstance(error, RequestValidationError)
    validation_error = error.errors()[0]
    field = ".".join(str(part) for part in validation_error["loc"][1:])
    sentence = f"The value of {field!r} in the address is invalid: {validation_error['msg']}."
    return _error_response(request, 400, sentence)


def _internal_error(request: Request, error: Exception) -> Response:
    internal_errors.report_error(f"at {request.url.path}", error)
    sentence = (
        "Internal error. This is a bug in Proctor; nothing that was stored is lost. The terminal of the "
        "server has the error; with PROCTOR_DEBUG=1 it also has the traceback."
    )
    return _error_response(request, 500, sentence)


def _error_response(
    request: Request,
    status: int,
    sentence: str,
    problems: Sequence[Problem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Returns an error as a page, or as a problem for paths of the API."""
    if request.url.path.startswith("/api/"):
        from proctor.web.api.problems import problem_response

        return problem_response(status, sentence, problems, headers)
    # A refused request may have come from anywhere, so the page has only links.
    title = "The store cannot be used" if status == 503 else "Refused"
    response = render_page(request, "refused.html", status, title=title, sentence=sentence, problems=problems)
    response.headers.update(headers or {})
    return response

"""Renders pages: the template environment, and the values that all templates share."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from proctor import __version__
from proctor.errors import ProctorError, StoreError
from proctor.model import Run
from proctor.prompts.templates import format_values
from proctor.protocols import Store
from proctor.reports.html_templates import make_environment
from proctor.web.browser_sessions import BrowserSession, get_session
from proctor.web.project import Project, get_project

SECTIONS = {
    "/suites": "Suites",
    "/run": "Run Suite",
    "/runs": "Runs",
    "/compare": "Compare",
    "/trends": "Trends",
    "/review": "Review",
    "/certificates": "Certificates",
}
"""The navigation of every page: addresses and their titles."""
_PARENT_SECTIONS = {"/suite": "/suites", "/starts": "/run", "/grid": "/compare"}
"""Addresses that belong to another section."""


class PageNotFound(ProctorError):
    """The address names something that does not exist."""


def get_templates(project: Project) -> Environment:
    """Returns the templates of a project's pages, including those shared with reports."""
    return project.get_shared("templates", lambda: _templates(project))


def _templates(project: Project) -> Environment:
    jinja = make_environment(PackageLoader("proctor.web"))
    jinja.globals.update(url=url, places=SECTIONS, proctor_version=__version__, run_address="/runs/{}".format)
    jinja.filters["values"] = format_values
    jinja.filters["in_terminal"] = partial(_add_store_flags, project)
    return jinja


def _add_store_flags(project: Project, command: str) -> str:
    """Returns a command with the flags that find this project's store; `verify` needs none."""
    if not project.store_flags or "--store" in command or command.startswith("proctor verify "):
        return command
    return f"{command} {shlex.join(project.store_flags)}"


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Renders a page.

    Args:
        request: the request for it.
        template: the name of its template.
        status: its status.
        **values: what the template shows.
    """
    session, project = get_session(request), get_project(request)
    section = f"/{request.url.path.split('/')[1]}"
    context = {
        "here": _PARENT_SECTIONS.get(section, section),
        "session": session,
        "project": project,
        "csrf": _csrf_field(session),
        "flashes": session.pop_flashes() if request.method in ("GET", "POST") else [],
    }
    return HTMLResponse(get_templates(project).get_template(template).render(**context, **values), status)


def render_fragment(request: Request, template: str, **values: Any) -> str:
    """Renders part of a page, such as a live section."""
    session, project = get_session(request), get_project(request)
    context = {"session": session, "project": project, "csrf": _csrf_field(session)}
    return get_templates(project).get_template(template).render(**context, **values)


def url(path: str, **query: Any) -> str:
    """Returns an address of this server; None and empty values are left out, lists give one value each."""
    parameters = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path


def load_run(store: Store, run_id: str) -> Run:
    """Returns the run of exactly that id.

    Raises:
        PageNotFound: there is none.
    """
    try:
        run = store.run(run_id)
    except StoreError as error:
        raise PageNotFound(str(error)) from None
    if run.id != run_id:
        raise PageNotFound(f"There is no run {run_id!r} in this store.")
    return run


def _csrf_field(session: BrowserSession) -> Callable[[], Markup]:
    field = Markup('<input type="hidden" name="csrf" value="{}">').format(session.csrf)
    return lambda: field

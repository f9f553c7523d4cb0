"""Values to pages: the templates, what all of them know, and errors as pages."""

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
from proctor.protocols import Store
from proctor.reports.html_templates import environment
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
"""What stands at the top of every page, with its address."""
_PARENT_SECTIONS = {"/suite": "/suites", "/starts": "/run"}
"""Addresses that belong to another place."""


class PageNotFound(ProctorError):
    """What a page is asked for is not there."""


def templates(project: Project) -> Environment:
    """The templates of a site's pages, and those that reports share with them."""
    return project.get_shared("templates", lambda: _templates(project))


def _templates(project: Project) -> Environment:
    jinja = environment(PackageLoader("proctor.web"))
    jinja.globals.update(url=url, places=SECTIONS, proctor_version=__version__)
    jinja.filters["in_terminal"] = partial(_in_terminal, project)
    return jinja


def _in_terminal(project: Project, command: str) -> str:
    """A command as it finds this site's store; a bundle is verified without one."""
    if not project.store_flags or "--store" in command or command.startswith("proctor verify "):
        return command
    return f"{command} {shlex.join(project.store_flags)}"


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page.

    Args:
        request: what asks for it.
        template: its template's name.
        status: its status.
        **values: what the template shows.
    """
    session, project = get_session(request), get_project(request)
    context = {
        "here": _section_path(request.url.path),
        "session": session,
        "project": project,
        "csrf": _csrf_field(session),
        "flashes": session.pop_flashes() if request.method in ("GET", "POST") else [],
    }
    return HTMLResponse(templates(project).get_template(template).render(**context, **values), status)


def render_fragment(request: Request, template: str, **values: Any) -> str:
    """A piece of a page that is sent alone, as to a live section."""
    session, project = get_session(request), get_project(request)
    context = {"session": session, "project": project, "csrf": _csrf_field(session)}
    return templates(project).get_template(template).render(**context, **values)


def url(path: str, **query: Any) -> str:
    """An address of this server; what is None is left out, a list is given once for each value."""
    parameters = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(parameters, doseq=True)}" if parameters else path


def load_run(store: Store, run_id: str) -> Run:
    """The run of exactly that id.

    Raises:
        NotThere: there is none.
    """
    try:
        run = store.run(run_id)
    except StoreError as error:
        raise PageNotFound(str(error)) from None
    if run.id != run_id:
        raise PageNotFound(f"There is no run {run_id!r} here.")
    return run


def _csrf_field(session: BrowserSession) -> Callable[[], Markup]:
    field = Markup('<input type="hidden" name="csrf" value="{}">').format(session.csrf)
    return lambda: field


def _section_path(path: str) -> str:
    top = f"/{path.split('/')[1]}"
    return _PARENT_SECTIONS.get(top, top)

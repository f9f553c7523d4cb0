"""The entry: redirect, login, stylesheet and script."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.web.browser_sessions import get_session
from proctor.web.project import get_project
from proctor.web.security import PageForm, read_form
from proctor.web.templates_env import PageNotFound, render_page

router = APIRouter()

STATIC_FILES = {
    "proctor.css": ("proctor.reports", "templates/proctor.css", "text/css; charset=utf-8"),
    "proctor.js": ("proctor.web", "static/proctor.js", "text/javascript; charset=utf-8"),
    "mark.svg": ("proctor.web", "static/mark.svg", "image/svg+xml"),
}
"""Static files by name: package, path and media type."""


@router.get("/")
def redirect_home(_request: Request) -> Response:
    """Redirects to the first page."""
    return RedirectResponse("/suites", 303)


@router.get("/static/{name}")
def send_static(name: str) -> Response:
    """Sends the stylesheet, the script or the icon."""
    if name not in STATIC_FILES:
        raise PageNotFound("This file does not exist.")
    data, kind = _load_static(name)
    stamp = f'"{sha256(data).hexdigest()[:16]}"'
    return Response(data, media_type=kind, headers={"etag": stamp, "cache-control": "no-cache"})


@router.get("/favicon.ico")
def send_favicon() -> Response:
    """Sends the icon where browsers look for it by default."""
    return send_static("mark.svg")


@cache
def _load_static(name: str) -> tuple[bytes, str]:
    package, path, kind = STATIC_FILES[name]
    return files(package).joinpath(path).read_bytes(), kind


@router.get("/login")
def show_login(request: Request, next: str = "/", token: str = "") -> Response:  # noqa: A002  # the address says so
    """Shows the login form, or logs in with a token in the address that the server printed."""
    if token:
        return _log_in(request, token, next)
    return render_page(request, "login.html", wrong=False, next=next)


@router.post("/login")
def login(request: Request, form: Annotated[PageForm, Depends(read_form)]) -> Response:
    """Logs in with the server's token."""
    return _log_in(request, form.text("token").strip(), form.text("next", "/"))


def _log_in(request: Request, token: str, next_address: str) -> Response:
    project, session = get_project(request), get_session(request)
    person = project.find_person(token)
    if project.requires_token and person is None:
        return render_page(request, "login.html", 403, wrong=True, next=next_address)
    if person is not None and (not session.is_logged_in or session.person != person):
        project.sessions.log_in(session, person)
    # Only a place of this server: `//elsewhere` and `/\elsewhere` would be other ones.
    is_local = next_address.startswith("/") and not next_address.startswith(("//", "/\\"))
    return RedirectResponse(next_address if is_local else "/", 303)

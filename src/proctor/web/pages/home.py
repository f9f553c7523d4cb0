"""The way in: the first page, the token, the stylesheet and the script."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from proctor.web.browser_sessions import visitor_of
from proctor.web.project import site_of
from proctor.web.security import Form, form_of, same
from proctor.web.templates_env import NotThere, page

router = APIRouter()

STATIC = {
    "proctor.css": ("proctor.reports", "templates/proctor.css", "text/css; charset=utf-8"),
    "proctor.js": ("proctor.web", "static/proctor.js", "text/javascript; charset=utf-8"),
    "mark.svg": ("proctor.web", "static/mark.svg", "image/svg+xml"),
}
"""What pages load besides themselves: package, file and type of each."""


@router.get("/")
def first(_request: Request) -> Response:
    """The first page."""
    return RedirectResponse("/suites", 303)


@router.get("/static/{name}")
def static(name: str) -> Response:
    """The stylesheet, the script and the mark."""
    if name not in STATIC:
        raise NotThere("There is no such file.")
    data, kind = _static(name)
    stamp = f'"{sha256(data).hexdigest()[:16]}"'
    return Response(data, media_type=kind, headers={"etag": stamp, "cache-control": "no-cache"})


@router.get("/favicon.ico")
def favicon() -> Response:
    """The mark, where a browser looks for it by itself."""
    return static("mark.svg")


@cache
def _static(name: str) -> tuple[bytes, str]:
    package, path, kind = STATIC[name]
    return files(package).joinpath(path).read_bytes(), kind


@router.get("/login")
def ask_for_token(request: Request, next: str = "/", token: str = "") -> Response:  # noqa: A002  # the address says so
    """Ask for the token, or take it from the address that the server printed."""
    if token:
        return _let_in(request, token, next)
    return page(request, "login.html", wrong=False, next=next)


@router.post("/login")
def take_token(request: Request, form: Annotated[Form, Depends(form_of)]) -> Response:
    """Let in whoever shows the token."""
    return _let_in(request, form.text("token").strip(), form.text("next", "/"))


def _let_in(request: Request, token: str, then: str) -> Response:
    site, visitor = site_of(request), visitor_of(request)
    if site.token is not None and not same(token, site.token):
        return page(request, "login.html", 403, wrong=True, next=then)
    if site.token is not None and not visitor.allowed:
        site.visitors.admit(visitor)
    # Only a place of this server: `//elsewhere` and `/\elsewhere` would be other ones.
    own = then.startswith("/") and not then.startswith(("//", "/\\"))
    return RedirectResponse(then if own else "/", 303)

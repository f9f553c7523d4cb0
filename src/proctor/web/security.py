"""Protects the server: which requests it accepts, how much it reads, and what a browser may do.

Every request passes `SecurityMiddleware` first. In addition, a change from a page needs the form's token
(`read_form`), and one through the API a content type that no form of another site can send.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from proctor.errors import ProctorError
from proctor.web.browser_sessions import BrowserSession, get_session
from proctor.web.holdout_accesses import OWNER
from proctor.web.project import Project, constant_time_equal

MAX_BODY_BYTES = 64 * 2**20
"""Limit for one request: a bundle of some ten thousand answers, more than people upload by hand."""
MAX_ANONYMOUS_BYTES = 64 * 2**10
"""Limit before login, where a request holds no more than the token."""
MAX_BYTES_BY_TYPE = {"application/x-www-form-urlencoded": 2 * 2**20, "application/json": 32 * 2**20}
"""Limits by content type, for bodies that are read at once while other requests wait."""
MAX_FIELD_BYTES = 24 * 2**20
"""Limit for one field of a form, such as the text of a suite."""
MAX_FILES = 1_000
MAX_FIELDS = 2_000
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_FORM_KEY = "proctor.form"
_OPEN_PATHS = ("/static/", "/login", "/favicon.ico")
"""Paths that are open before login."""
SECURITY_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; media-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Headers of every response: pages load nothing from elsewhere, run only our script, and sit in no frame."""


class RequestRefused(ProctorError):
    """A request that is refused, with a status."""

    def __init__(self, status: int, sentence: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.headers = headers or {}


class SecurityMiddleware:
    """Checks every request first, and sets the security headers on every response."""

    def __init__(
        self, app: ASGIApp, project: Project, refuse: Callable[[Request, RequestRefused], Response]
    ) -> None:
        """Wraps an application.

        Args:
            app: the application.
            project: has the hosts, the token and the sessions.
            refuse: returns the response to a refused request.
        """
        self._app = app
        self._project = project
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        existing = self._session(scope, headers)
        session, sent_id = (
            existing or self._project.sessions.create(),
            None if existing is None else existing.id,
        )
        scope["proctor.session"] = session
        scope["app"] = self._app  # the page of a refusal finds its project by it
        refusal = self._check_request(scope, headers, session)
        if existing is None and refusal is None and not scope["path"].startswith("/static/"):
            self._project.sessions.add(session)

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(MutableHeaders(scope=message), sent_id, session)
            await send(message)

        if refusal is None:
            await self._app(scope, _limit_body(receive, self._max_bytes(scope, headers, session)), respond)
        else:
            await self._refuse(Request(scope), refusal)(scope, receive, respond)

    def _session(self, scope: Scope, headers: Headers) -> BrowserSession | None:
        if _is_api(scope):
            person = self._project.find_person(_bearer_token(headers)) or OWNER
            return self._project.sessions.api_session(person)
        # Cookies of other servers of this host may not conform to the standard.
        return self._project.sessions.find(
            cookie_parser(headers.get("cookie", "")).get(self._project.cookie_name)
        )

    def _check_request(
        self, scope: Scope, headers: Headers, session: BrowserSession
    ) -> RequestRefused | None:
        """Returns why a request is refused; None if it is accepted."""
        host = headers.get("host", "").lower()
        if host not in self._project.hosts:
            return RequestRefused(
                421, f"This server is not {host!r}. Use the address that `proctor serve` printed."
            )
        if scope["method"] not in _SAFE_METHODS and not _is_same_origin(headers, host):
            return RequestRefused(403, "Another site sent this request. Nothing was changed.")
        if _is_embedded_elsewhere(headers):
            return RequestRefused(403, "Another site tried to embed this page. Open it with a link instead.")
        length, max_bytes = headers.get("content-length", "0"), self._max_bytes(scope, headers, session)
        if not length.isascii() or not length.isdigit() or int(length) > max_bytes:
            return body_too_large(max_bytes)
        return self._check_token(scope, headers, session)

    def _max_bytes(self, scope: Scope, headers: Headers, session: BrowserSession) -> int:
        """Returns how many bytes of a request may be read."""
        if self._project.requires_token and not session.is_logged_in and not _is_api(scope):
            return MAX_ANONYMOUS_BYTES
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        return MAX_BYTES_BY_TYPE.get(kind, MAX_BODY_BYTES)

    def _check_token(self, scope: Scope, headers: Headers, session: BrowserSession) -> RequestRefused | None:
        is_open = scope["path"].startswith(_OPEN_PATHS)
        if not self._project.requires_token or session.is_logged_in or is_open:
            return None
        if _is_api(scope):
            if self._project.find_person(_bearer_token(headers)) is not None:
                return None
            return RequestRefused(
                401, "Send the server's token: `Authorization: Bearer TOKEN`.", {"www-authenticate": "Bearer"}
            )
        requested = scope["path"] + (
            f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
        )
        location = (
            f"/login?{urlencode({'next': requested})}" if scope["method"] in _SAFE_METHODS else "/login"
        )
        return RequestRefused(303, "Enter the server's token first.", {"location": location})

    def _add_headers(self, headers: MutableHeaders, sent_id: str | None, session: BrowserSession) -> None:
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        headers.setdefault("cache-control", "no-store")  # answers of models must not be cached
        if session.id != sent_id and self._project.sessions.find(session.id) is session:
            headers.append(
                "set-cookie", f"{self._project.cookie_name}={session.id}; Path=/; HttpOnly; SameSite=Lax"
            )


def body_too_large(max_bytes: int = MAX_BODY_BYTES) -> RequestRefused:
    """Returns the error for a body above the limit."""
    size = f"{max_bytes // 2**20} MB" if max_bytes >= 2**20 else f"{max_bytes // 2**10} KB"
    return RequestRefused(413, f"This request is larger than {size}. Use the command line instead.")


def _is_api(scope: Scope) -> bool:
    return str(scope["path"]).startswith("/api/")


def _bearer_token(headers: Headers) -> str:
    """Returns the token that a client of the API sends; empty if there is none."""
    scheme, _, sent_token = headers.get("authorization", "").partition(" ")
    return sent_token.strip() if scheme.lower() == "bearer" else ""


def _is_same_origin(headers: Headers, host: str) -> bool:
    """Whether a change comes from a page of this server, or from a program."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.lower() in (f"http://{host}", f"https://{host}")
    return headers.get("sec-fetch-site", "none") in ("same-origin", "none")


def _is_embedded_elsewhere(headers: Headers) -> bool:
    """Whether a page of another site embeds this; following a link is fine."""
    is_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == ("navigate", "document")
    return headers.get("sec-fetch-site") in ("cross-site", "same-site") and not is_link


def _limit_body(receive: Receive, max_bytes: int) -> Receive:
    """Wraps `receive`: raises an error once the body exceeds the limit, whatever its declared length."""
    byte_count = 0

    async def receive_limited() -> Message:
        nonlocal byte_count
        message = await receive()
        if message["type"] == "http.request":
            byte_count += len(message.get("body", b""))
            if byte_count > max_bytes:
                raise body_too_large(max_bytes)
        return message

    return receive_limited


# --- forms -------------------------------------------------------------------------------------------------


class FormFile:
    """A file in a form."""

    def __init__(self, name: str, data: bytes) -> None:
        """Holds the name and content of a file.

        Args:
            name: the name from the browser, for display, and never a path.
            data: its content.
        """
        self.name = name
        self.data = data


class PageForm:
    """The fields of a submitted form."""

    def __init__(self, fields: list[tuple[str, str]], files: list[tuple[str, FormFile]]) -> None:
        """Takes all fields in their order, files apart."""
        self._fields = fields
        self._files = files

    def text(self, name: str, default: str = "") -> str:
        """Returns the last value of a field."""
        return next((value for key, value in reversed(self._fields) if key == name), default)

    def texts(self, name: str) -> list[str]:
        """Returns all values of a field."""
        return [value for key, value in self._fields if key == name]

    def files(self, name: str) -> list[FormFile]:
        """Returns the files of a field; empty if none was chosen."""
        return [file for key, file in self._files if key == name]


async def read_form(request: Request) -> PageForm:
    """Reads the form of a request and checks its token.

    Raises:
        RequestRefused: the token is not that of this session's pages; or the form is too large or invalid.
    """
    # `check_csrf` has read it before the page does.
    cached_form: PageForm | None = request.scope.get(_FORM_KEY)
    form = cached_form or await _parse_form(request)
    request.scope[_FORM_KEY] = form
    if not constant_time_equal(form.text("csrf"), get_session(request).csrf):
        raise RequestRefused(
            403,
            "This page was open before the server restarted, or it is from another site. Nothing was "
            "changed. Go back, reload the page, and send it again.",
        )
    return form


async def _parse_form(request: Request) -> PageForm:
    try:
        data = await request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
    except HTTPException as error:
        raise RequestRefused(400, f"This form cannot be read: {error.detail}") from None
    except ClientDisconnect:
        raise RequestRefused(400, "This form is incomplete: its end is missing.") from None
    fields, files = list[tuple[str, str]](), list[tuple[str, FormFile]]()
    for name, value in data.multi_items():
        if isinstance(value, UploadFile):
            if value.filename:
                files.append((name, FormFile(value.filename, await value.read())))
        else:
            fields.append((name, value.replace("\r\n", "\n")))  # browsers send CRLF
    await data.close()
    return PageForm(fields, files)


async def check_csrf(request: Request) -> None:
    """Requires the form's token for every change; all page routes depend on it.

    Raises:
        RequestRefused: as for `read_form`.
    """
    if request.method not in _SAFE_METHODS:
        await read_form(request)

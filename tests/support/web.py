"""A real server over a store of its own, asked over HTTP, and a real browser that opens its pages."""

from __future__ import annotations

import asyncio
import fcntl
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from copy import copy
from functools import partial
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import unquote, urlencode

import uvicorn
from anyio.from_thread import start_blocking_portal

from proctor.model import Run
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.request import Request
from proctor.services.suites.save_upload import DraftSettings, save_draft
from proctor.services.suites.upload import upload_from_text
from proctor.web.app import make_app
from proctor.web.client_limits import DEFAULT_LIMITS, ServerLimits
from proctor.web.project import Project
from proctor.web.server import allowed_hosts, bind_socket, make_server
from support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

T = TypeVar("T")
PATIENCE_MS = PATIENCE_S * 1000


class Answer:
    """One response, read to its end."""

    def __init__(self, status: int, headers: Iterable[tuple[str, str]], data: bytes) -> None:
        pairs = [(name.lower(), value) for name, value in headers]
        self.status = status
        self.headers = dict(pairs)
        self.cookies = [value for name, value in pairs if name == "set-cookie"]
        self.data = data

    @property
    def text(self) -> str:
        return self.data.decode("utf-8")


class Visitor:
    """One browser's cookie at a site's application, which is called in this process, without a socket."""

    port = 8000

    def __init__(self, site: Project, call: Callable[..., Answer]) -> None:
        self.site = site
        self._call = call
        self.cookie = ""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def new_visitor(self) -> Self:
        """Another browser at the same site."""
        other = copy(self)
        other.cookie = ""
        return other

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request as it is given; the cookie that the site set last goes with it."""
        cookies = {"Cookie": self.cookie} if self.cookie else {}
        place = path.partition("#")[0]  # what follows stays in a browser
        answer = self._call(method, place, body, cookies | dict(headers or {}))
        for cookie in answer.cookies:
            self.cookie = cookie.partition(";")[0]
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        """A page."""
        return self.send("GET", path, headers=headers)

    def page(self, path: str, status: int = 200) -> str:
        """The text of a page, which is answered with that status."""
        answer = self.get(path)
        assert answer.status == status, answer.text
        return answer.text

    def looks(self, run_id: str) -> list[str]:
        """The kinds of the looks at the holdout of a run's suite."""
        with self.site.open_store() as store:
            return [look.kind for look in store.holdout_accesses(store.run(run_id).suite.digest)]

    def token(self) -> str:
        """The token that this browser's forms have."""
        page = self.get("/login").text
        match = re.search(r'name="csrf" value="([^"]+)"', page)
        assert match, page
        return match[1]

    def post(
        self,
        path: str,
        fields: Mapping[str, str | list[str]] | None = None,
        files: Mapping[str, tuple[str, bytes]] | None = None,
    ) -> Answer:
        """A form of this browser's, with its token; files are name → (file name, content)."""
        form: dict[str, str | list[str]] = {"csrf": self.token(), **(fields or {})}
        if files is None:
            body, kind = urlencode(form, doseq=True).encode(), "application/x-www-form-urlencoded"
        else:
            body, kind = multipart(form, files)
        return self.send("POST", path, body, {"Content-Type": kind, "Origin": self.url})


class Served(Visitor):
    """A server on a port of its own, and one browser's cookie."""

    def __init__(self, site: Project, port: int, running: uvicorn.Server) -> None:
        super().__init__(site, self._ask)
        self._running = running
        self.port = port

    def _ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)) as connection:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())

    def listen(self, path: str) -> Iterator[str]:
        """The lines of a stream, for as long as somebody asks for more."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        with closing(connection):
            connection.request("GET", path, headers={"Cookie": self.cookie} if self.cookie else {})
            with connection.getresponse() as stream:
                for line in stream:
                    yield line.decode("utf-8")

    @property
    def connections(self) -> int:
        """How many connections are open at the server."""
        return len(self._running.server_state.connections)

    @property
    def request_count(self) -> int:
        """How many requests the server has answered."""
        return int(self._running.server_state.total_requests)

    def drop(self) -> None:
        """Lose every connection, as a network does."""

        def lose() -> None:
            for connection in list(self._running.server_state.connections):
                connection.transport.abort()

        self._running.servers[0].get_loop().call_soon_threadsafe(lose)


@contextmanager
def visit(site: Project) -> Iterator[Visitor]:
    """A site's application, called in this process for as long as the block lasts."""
    site.hosts = allowed_hosts("127.0.0.1", Visitor.port)
    app = make_app(site)

    async def call(method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        place, _, query = path.partition("?")
        own = {"host": f"127.0.0.1:{Visitor.port}"} | (
            {} if body is None else {"content-length": str(len(body))}
        )
        all_headers = own | {name.lower(): value for name, value in headers.items()}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(place),
            "raw_path": place.encode("ascii"),
            "query_string": query.encode("ascii"),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in all_headers.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", Visitor.port),
        }
        requests = [{"type": "http.request", "body": body or b"", "more_body": False}]
        messages: list[Any] = []

        async def receive() -> Any:
            return requests.pop() if requests else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            messages.append(message)

        try:
            await app(scope, receive, send)
        except Exception:
            if not messages:  # else the application has answered with an error
                raise
        start, *bodies = messages
        pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"]]
        return Answer(start["status"], pairs, b"".join(part.get("body", b"") for part in bodies))

    with start_blocking_portal() as portal:
        yield Visitor(site, partial(portal.call, call))


def multipart(
    fields: Mapping[str, str | list[str]], files: Mapping[str, tuple[str, bytes]]
) -> tuple[bytes, str]:
    """A form with files, and its content type."""
    edge = "proctor-of-tests-7357"
    parts = []
    for name, value in fields.items():
        head = f'Content-Disposition: form-data; name="{name}"\r\n\r\n'
        parts += [f"{head}{item}\r\n".encode() for item in ([value] if isinstance(value, str) else value)]
    for name, (filename, data) in files.items():
        head = f'Content-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
        parts.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + data + b"\r\n")
    body = b"".join(f"--{edge}\r\n".encode() + part for part in parts) + f"--{edge}--\r\n".encode()
    return body, f"multipart/form-data; boundary={edge}"


@contextmanager
def serve(site: Project, limits: ServerLimits = DEFAULT_LIMITS) -> Iterator[Served]:
    """A site's server, running for as long as the block lasts; fixtures of a module may share one."""
    with closing(bind_socket("127.0.0.1", 0, exactly=True)) as listener:
        port = listener.getsockname()[1]
        site.hosts = allowed_hosts("127.0.0.1", port)
        running = make_server(site, limits=limits)
        thread = Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield Served(site, port, running)  # connections wait in the socket's queue until it answers
        finally:
            running.should_exit = True
            thread.join(timeout=PATIENCE_S)
            assert not thread.is_alive()


def list_routes(router: Any) -> Iterator[tuple[str, str]]:
    """Every method and path of a router and of those within it."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from list_routes(inner)
        else:
            yield from ((method, route.path) for method in sorted(route.methods))


def run_in_thread(work: Callable[[], T]) -> T:
    """What a function gives, called in a thread of its own: Playwright's event loop is not in its way."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@contextmanager
def open_page(chromium: Browser, url: str, *, but: str = "$^", **options: Any) -> Iterator[Page]:
    """A page of a browser of its own at a server; an error of a script fails the test.

    `but` is a pattern of errors that are meant.
    """
    context = chromium.new_context(base_url=url, **options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    try:
        yield page
    finally:
        context.close()
    assert [error for error in errors if not re.search(but, error)] == []


def save_suite(site: Project, name: str, text: str, file_name: str = "cases.jsonl") -> str:
    """Saves the text of a suite in a site's store under a name, as the page does; gives its version."""
    with site.open_store() as store:
        return str(
            save_draft(store, upload_from_text(text, file_name), DraftSettings(name=name)).suite.version
        )


def make_runs(site: Project, suite: str, *targets: str, **fields: Any) -> list[Run]:
    """Makes runs of saved suites in a site's store, each by its own target, without any process."""

    def work() -> list[Run]:
        with site.open_store() as store:
            session = RunSession(store, site.environ, lambda event: None, folder=site.location.folder)
            request = Request(stored_names=(suite,), targets=targets, **fields)
            return [result.run for result in asyncio.run(session.run(request))]

    return run_in_thread(work)


def read_heading(page: str) -> str:
    """The text of a page's heading."""
    heading = re.search(r"<h1[^>]*>(.*?)</h1>", page, re.DOTALL)
    assert heading is not None
    return " ".join(unescape(heading[1]).split())


def read_text(html: str) -> str:
    """What a page says, with one space between its words."""
    return " ".join(unescape(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", html, flags=re.DOTALL)).split())


def read_tables(html: str) -> list[list[list[str]]]:
    """The cells of each row of the body of each table."""
    bodies = re.findall(r"<tbody>(.*?)</table>", html, re.DOTALL)
    rows = [re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL) for body in bodies]
    cell = re.compile(r"<t[dh][^>]*>(.*?)</t[dh]>", re.DOTALL)
    return [[[read_text(text) for text in cell.findall(row)] for row in table] for table in rows]


def read_answer(page: str) -> str:
    """The first line of a page that answers a question."""
    answer = re.search(r'<h1 class="answer">(.*?)</h1>', page, re.DOTALL)
    assert answer, page
    return unescape(answer[1])


OUTSIDE = """() => [...document
  .querySelectorAll("h1, .filters *, table.stack *, .actions *, .scatter *, footer *")]
  .filter((it) => !it.closest(".unseen") && it.checkVisibility())
  .filter((it) => it.getBoundingClientRect().right > innerWidth + 0.5)
  .map((it) => `outside: ${it.outerHTML.slice(0, 120)}`)"""


def read_outside(page: Page) -> list[str]:
    """What of a page is not on the screen, though it does not scroll by itself."""
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [*page.evaluate(OUTSIDE), *[f"{wide} px wider than the screen"] * (wide > 0)]


GATED = """
import fcntl, re

def answer(question):
    if int(re.search("[0-9]+", question)[0]) > 3:
        with open("gate", "rb") as gate:
            fcntl.flock(gate, fcntl.LOCK_SH)
    return "yes"
"""


class Gate:
    """What the target `gated` waits for before it answers a question with a number above 3."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / "gate").open("wb")
        fcntl.flock(self._file, fcntl.LOCK_EX)  # which ends with this process, whatever becomes of a test

    def open(self) -> None:
        self._file.close()

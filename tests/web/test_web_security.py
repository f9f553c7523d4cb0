"""Access to the pages: tokens, forms, limits, and the headers that restrict browsers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from proctor.web.app import PAGES
from proctor.web.project import Project
from proctor.web.security import MAX_BODY_BYTES, MAX_BYTES_BY_TYPE, SECURITY_HEADERS
from proctor.web.server import allowed_hosts, bind_socket, is_loopback
from support.web import Visitor, visit

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from proctor.services.runs.config import Config

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def test_only_the_servers_own_names_are_answered(server: Visitor) -> None:
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", f"127.0.0.1:{server.port + 1}"):
        answer = server.send("GET", "/suites", headers={"Host": host})
        assert answer.status == 421, host
    for host in (server.host, f"localhost:{server.port}", f"LOCALHOST:{server.port}", f"[::1]:{server.port}"):
        assert server.send("GET", "/login", headers={"Host": host}).status == 200, host


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost",
        "http://127.0.0.1:1",
        "http://127.0.0.1.evil.example",
    ],
)
def test_a_change_from_another_site_is_refused(server: Visitor, origin: str) -> None:
    body = f"csrf={server.token()}&token=x".encode()
    answer = server.send("POST", "/login", body, FORM | {"Origin": origin})
    assert answer.status == 403
    assert "Another site" in answer.text


def test_without_an_origin_the_browsers_own_word_for_it_counts(server: Visitor) -> None:
    body = f"csrf={server.token()}&token=x".encode()
    assert server.send("POST", "/login", body, FORM | {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert server.send("POST", "/login", body, FORM | {"Sec-Fetch-Site": "same-site"}).status == 403
    assert server.send("POST", "/login", body, FORM | {"Sec-Fetch-Site": "same-origin"}).status == 303


def test_a_form_without_this_visitors_token_changes_nothing(server: Visitor) -> None:
    other = server.new_visitor().token()
    for token in ("", "x", other):
        answer = server.send("POST", "/login", f"csrf={token}&token=x".encode(), FORM)
        assert answer.status == 403
        assert "Nothing was changed" in answer.text
    assert server.post("/login", {"token": "x"}).status == 303


def test_every_route_of_a_page_that_changes_something_asks_for_the_token(
    server: Visitor, routes: list[tuple[str, str]]
) -> None:
    routes = [(method, path) for method, path in routes if method not in ("GET", "HEAD", "OPTIONS")]
    assert ("POST", "/login") in routes
    for method, path in routes:
        answer = server.send(method, re.sub(r"{[^}]*}", "1", path), b"csrf=no", FORM)
        assert answer.status == 403, path


def test_every_answer_has_the_headers_that_bind_a_browser(server: Visitor) -> None:
    for path in ("/login", "/static/proctor.css", "/nowhere", "/", "/api/v1/nowhere"):
        headers = server.get(path).headers
        for name, value in SECURITY_HEADERS.items():
            assert headers.get(name) == value, (path, name)
    assert server.get("/login").headers["cache-control"] == "no-store"
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "script-src 'self';" in policy


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(server: Visitor) -> None:
    (cookie,) = server.get("/login").cookies
    assert cookie.startswith(f"proctor_{server.port}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert server.get("/login").cookies == []


def test_too_large_a_body_is_refused_whether_it_says_so_or_not(server: Visitor) -> None:
    answer = server.send("POST", "/login", b"x", FORM | {"Content-Length": str(MAX_BODY_BYTES + 1)})
    assert answer.status == 413
    for length in ("-1", "x", "1e3"):
        assert server.send("POST", "/login", None, FORM | {"Content-Length": length}).status >= 400


def test_of_a_form_without_files_little_is_read(server: Visitor) -> None:
    most = MAX_BYTES_BY_TYPE[FORM["Content-Type"]]
    for kind in (FORM["Content-Type"], f"{FORM['Content-Type'].upper()}; charset=utf-8"):
        answer = server.send("POST", "/login", b"x" * (most + 1), {"Content-Type": kind})
        assert answer.status == 413
        assert "2 MB" in answer.text


def test_pages_that_are_not_there_say_so(server: Visitor) -> None:
    for path in ("/nowhere", "/static/../pyproject.toml", "/static/base.html", "/%2e%2e/etc/passwd"):
        answer = server.get(path)
        assert answer.status == 404, path
        assert "<h1" in answer.text
    assert server.send("PUT", "/login").status == 405


class TestToken:
    @pytest.fixture
    def site(self, project: Path) -> Project:
        return Project(project / ".proctor" / "proctor.db", folder=project, token="a-token-of-nineteen")

    def test_no_page_is_shown_without_the_token(self, server: Visitor) -> None:
        for path in ("/", "/suites", "/runs/x", "/api", "/nowhere"):
            answer = server.get(path)
            assert answer.status == 303, path
            assert answer.headers["location"].startswith("/login?next=")
        answer = server.get("/api/v1/runs")
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"

    def test_the_token_opens_the_page_that_was_asked_for(self, server: Visitor) -> None:
        assert server.post("/login", {"token": "another-token-here", "next": "/"}).status == 403
        assert server.get("/").status == 303
        answer = server.post("/login", {"token": "a-token-of-nineteen", "next": "/runs?tag=a"})
        assert (answer.status, answer.headers["location"]) == (303, "/runs?tag=a")
        assert server.get("/").headers["location"] == "/suites"
        assert server.new_visitor().get("/").headers["location"] == "/login?next=%2F"

    @pytest.mark.parametrize("place", ["//evil.example", "https://evil.example", "/\\evil.example", "evil"])
    def test_nobody_is_led_to_another_site(self, server: Visitor, place: str) -> None:
        answer = server.post("/login", {"token": "a-token-of-nineteen", "next": place})
        assert (answer.status, answer.headers["location"]) == (303, "/")

    def test_the_address_that_the_server_prints_lets_in_too(self, server: Visitor) -> None:
        answer = server.get("/login?token=a-token-of-nineteen")
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert server.get("/").headers["location"] == "/suites"


def test_what_is_loopback() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"):
        assert is_loopback(host), host
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""):
        assert not is_loopback(host), host


def test_the_hosts_of_a_server_are_those_it_can_be_reached_by() -> None:
    assert allowed_hosts("127.0.0.1", 80) >= {"127.0.0.1", "127.0.0.1:80", "localhost", "[::1]"}
    assert "127.0.0.1" not in allowed_hosts("127.0.0.1", 8000)
    assert allowed_hosts("example.org", 8000) == {"example.org:8000"}
    assert allowed_hosts("example.org", 8000, ["Proxy.example"]) >= {"proxy.example", "proxy.example:8000"}
    assert "localhost:8000" in allowed_hosts("0.0.0.0", 8000)


def test_a_port_that_is_taken_is_left_for_the_next_one_or_refused() -> None:
    from proctor.errors import UsageError

    first = bind_socket("127.0.0.1", 0, exactly=True)
    port = first.getsockname()[1]
    try:
        with pytest.raises(UsageError, match=rf"listen on 127\.0\.0\.1:{port}"):
            bind_socket("127.0.0.1", port, exactly=True)
        second = bind_socket("127.0.0.1", port, exactly=False)
        assert second.getsockname()[1] > port
        second.close()
    finally:
        first.close()
    with pytest.raises(UsageError, match="not an address of this machine"):
        bind_socket("no-such-host.invalid", 0, exactly=True)


def test_every_page_is_in_one_table() -> None:
    from proctor.web import pages

    modules = {path.stem for path in Path(pages.__path__[0]).glob("[a-z]*.py")}
    modules_in_table = {place.partition(":")[0].rpartition(".")[2] for place in PAGES.values()}
    assert modules - {"answer_media", "comments", "compare_answers"} <= modules_in_table


def test_a_fault_is_told_in_the_terminal_and_not_to_the_network(
    site: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    site.config = cast("Config", None)
    paths = ("/run", "/api/v1/targets")
    with visit(site) as server:
        for path in paths:
            answer = server.get(path)
            assert answer.status == 500
            assert "NoneType" not in answer.text
    lines = [line.partition(": AttributeError: ")[0] for line in capsys.readouterr().err.splitlines()]
    assert lines == [f"Internal error at {path}" for path in paths]

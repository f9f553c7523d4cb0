"""Attacks: requests from other sites, visitors without a token, and suites that try to run something."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from urllib.parse import quote

import pytest

from proctor.model import Run
from proctor.services.suites.zip_upload import pack
from proctor.web.browser_sessions import BrowserSession, BrowserSessions
from proctor.web.project import Project
from proctor.web.security import MAX_ANONYMOUS_BYTES, MAX_FIELDS
from support.waiting import PATIENCE_S
from support.web import Served, make_runs, save_suite

pytestmark = [pytest.mark.fuzz, pytest.mark.port]

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
EXAMPLE = Path(__file__).parents[2] / "examples" / "certificate"
TOKEN = "a-token-of-nineteen"
LINES = "".join(
    json.dumps({"id": f"t{n}", "input": f"Say w{n}", "expected": f"secret{n}", "scorer": "contains"}) + "\n"
    for n in range(10)
)


def raw(server: Served, text: str) -> str:
    """The status line that answers bytes which no HTTP library would send."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as line:
        line.sendall(text.replace("\n", "\r\n").encode("latin-1"))
        data = b""
        while b"\r\n" not in data and (more := line.recv(2**16)):
            data += more
    return data.decode("latin-1").partition("\r\n")[0]


# --- requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("GET /login HTTP/1.1\nHost: {own}\nHost: evil.example", 400),
        ("GET /login HTTP/1.1\nHost: evil.example\nHost: {own}", 400),
        ("GET /login HTTP/1.1", 400),
        ("GET /login HTTP/1.0", 421),
        ("GET http://evil.example/login HTTP/1.1\nHost: {own}", 404),
        ("GET http://{own}/login HTTP/1.1\nHost: evil.example", 421),
        ("GET /login HTTP/1.1\nHost: x@{own}", 421),
        ("GET /login HTTP/1.1\nHost: 127.0.0.1.:{port}", 421),
        ("POST /login HTTP/1.1\nHost: {own}\nContent-Length: 1\nContent-Length: 5", 400),
        ("POST /login HTTP/1.1\nHost: {own}\nContent-Length: +1", 400),
        ("POST /login HTTP/1.1\nHost: {own}\nContent-Length: " + "9" * 5000, 400),
        ("POST /login HTTP/1.1\nHost: {own}\nTransfer-Encoding: xchunked", 400),
        ("GET /login HTTP/1.1\nHost: {own}\nX: " + "a" * 2**18, 400),
        ("GET /runs/" + "a" * 2**20 + " HTTP/1.1\nHost: {own}", 400),
        ("GET /login HTTP/1.1\nHost: {own}\nCookie: \xff=\xfe\nAuthorization: \xff\nOrigin: \xff", 200),
        ("POST /suites HTTP/1.1\nHost: {own}\nX-HTTP-Method-Override: GET\nContent-Length: 0", 405),
    ],
)
def test_requests_that_no_browser_sends_are_answered_as_they_are_meant(
    server: Served, lines: str, status: int
) -> None:
    text = lines.replace("{own}", server.host).replace("{port}", str(server.port))
    assert raw(server, f"{text}\nConnection: close\n\n").startswith(f"HTTP/1.1 {status} ")


@pytest.mark.parametrize("far", ["cross-site", "same-site"])
def test_another_site_can_link_to_a_page_and_load_none(server: Served, far: str) -> None:
    for mode, kind in (
        ("no-cors", "image"),
        ("cors", "empty"),
        ("navigate", "iframe"),
        ("no-cors", "script"),
    ):
        for path in ("/suites", "/static/proctor.js", "/api/v1/runs"):
            headers = {"Sec-Fetch-Site": far, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": kind}
            answer = server.send("GET", path, headers=headers)
            assert answer.status == 403, (path, kind)
            assert answer.cookies == []
    navigation = {"Sec-Fetch-Site": far, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert server.send("GET", "/suites", headers=navigation).status == 200


def test_a_page_by_another_name_tells_nothing_of_the_project(server: Served) -> None:
    answer = server.send("GET", "/suites", headers={"Host": f"evil.example:{server.port}"})
    assert (answer.status, answer.cookies) == (421, [])
    for secret in (server.site.folder.name, server.site.store_name, 'name="csrf"'):
        assert secret not in answer.text
        assert secret not in server.get("/nowhere").text


@pytest.mark.parametrize("other", ['theme={"dark": true}', "a b=c", "[x]=1", "=; ;;", "\xe9=\xe9"])
def test_cookies_of_other_servers_of_this_host_hide_none_of_ours(server: Served, other: str) -> None:
    token, own = server.token(), server.cookie
    body = f"csrf={token}&token=x".encode()
    for cookie in (f"{other}; {own}", f"{own}; {other}"):
        assert server.send("POST", "/login", body, FORM | {"Cookie": cookie}).status == 303, cookie


def test_a_form_has_so_many_fields_and_no_more(server: Served) -> None:
    body = "&".join([f"csrf={server.token()}", *(["a=1"] * (MAX_FIELDS + 1))]).encode()
    answer = server.send("POST", "/suites/check", body, FORM)
    assert answer.status == 400
    assert "Too many fields" in answer.text


def test_a_client_that_disconnects_early_is_no_internal_error(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = FORM["Content-Type"]
    head = f"POST /login HTTP/1.1\r\nHost: {server.host}\r\nContent-Length: 10\r\nContent-Type: {kind}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as line:
        line.sendall(f"{head}\r\n\r\nabc".encode())
    for _ in range(3):  # by then the server has seen it
        assert server.get("/login").status == 200
    assert "broke" not in capsys.readouterr().err


# --- strangers ---------------------------------------------------------------------------------------------


class TestStrangers:
    @pytest.fixture
    def site(self, project: Path) -> Project:
        return Project(project / ".proctor" / "proctor.db", folder=project, token=TOKEN)

    def test_no_route_answers_strangers(self, server: Served, routes: list[tuple[str, str]]) -> None:
        document = json.loads(server.get("/api/v1/openapi.json", Authorization=f"Bearer {TOKEN}").text)
        for method, path in routes:
            address = re.sub(r"{[^}]*}", "1", path)
            answer = server.send(method, address, b"" if method == "POST" else None)
            if path.startswith(("/login", "/static/", "/favicon.ico")):
                continue
            assert answer.status == 303, path
            assert answer.headers["location"].startswith("/login"), path
        for path, methods in document["paths"].items():
            for method in methods:
                address = re.sub(r"{[^}]*}", "1", path)
                assert server.send(method.upper(), f"/api/v1{address}").status == 401, path

    def test_strangers_can_send_only_small_bodies(self, server: Served) -> None:
        body = b"token=" + b"x" * MAX_ANONYMOUS_BYTES
        assert server.send("POST", "/login", body, FORM).status == 413
        chunk = f"{len(body):x}\r\n{body.decode()}\r\n0\r\n\r\n"
        head = f"POST /login HTTP/1.1\nHost: {server.host}\nTransfer-Encoding: chunked"
        kind = FORM["Content-Type"]
        status = raw(server, f"{head}\nContent-Type: {kind}\nConnection: close\n\n" + chunk.replace("\r", ""))
        assert status.startswith("HTTP/1.1 413 ")
        assert server.post("/login", {"token": TOKEN}).status == 303
        body = f"csrf={server.token()}&text=".encode() + b"x" * MAX_ANONYMOUS_BYTES
        assert server.send("POST", "/suites/check", body, FORM).status == 200

    def test_a_cookie_that_somebody_else_knows_is_worth_nothing_after_the_door(self, server: Served) -> None:
        server.token()
        planted = server.cookie
        assert server.post("/login", {"token": TOKEN}).status == 303
        assert server.cookie != planted
        assert server.get("/suites").status == 200
        attacker = server.new_visitor()
        attacker.cookie = planted
        assert attacker.get("/suites").status == 303

    def test_coming_in_twice_keeps_the_pages_that_are_open(self, server: Served) -> None:
        server.get(f"/login?token={TOKEN}")
        before = server.token(), server.cookie
        server.get(f"/login?token={TOKEN}")
        assert (server.token(), server.cookie) == before

    def test_the_token_is_in_no_page(self, server: Served) -> None:
        wrong = server.send("GET", "/login?token=another-token-here&next=/")
        assert "another-token-here" not in wrong.text
        server.get(f"/login?token={TOKEN}")
        for path in ("/suites", "/run", "/runs", "/api", "/certificates", "/login"):
            assert TOKEN not in server.get(path).text, path

    @pytest.mark.parametrize(
        "place", ["/\t/evil.example", "/%09/evil.example", "/\n/evil.example", "/%5cevil"]
    )
    def test_no_blank_leads_to_another_site(self, server: Served, place: str) -> None:
        answer = server.post("/login", {"token": TOKEN, "next": place})
        assert re.fullmatch(r"/(|[^/\\\s].*)", answer.headers["location"])


def test_a_crowd_of_strangers_pushes_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.web.browser_sessions._MAX_SESSIONS", 10)
    visitors, let_in = BrowserSessions(), BrowserSession()
    visitors.add(let_in)
    visitors.log_in(let_in)
    crowd = [BrowserSession() for _ in range(30)]
    for stranger in crowd:
        visitors.add(stranger)
    assert visitors.find(let_in.id) is let_in
    assert [visitors.find(visitor.id) is visitor for visitor in crowd] == [False] * 21 + [True] * 9


# --- suites that want to act -------------------------------------------------------------------------------

PROMPTFOO = "prompts: ['say {{q}}']\nproviders: [%s]\ntests:\n  - vars: {q: %s}\n    assert: [%s]\n"
AGENTV = "tests:\n  - id: a\n    criteria: x\n    input: hello\n    assertions:\n      - %s\n"
PROCTOR = (
    '{"proctor": 1, "name": "p"}\n'
    '{"id": "a", "input": [{"role": "user", "content": "x"}], %s "assertions": [%s]}\n'
)
EXACT = '{"grader": "exact", "params": {"value": "y"}}'
MEMBERS = '{"grader": "composite", "params": {"members": [{"name": "m", "assertion": %s}], "aggregator": %s}}'
JUDGED = '{"grader": "llm_grader", "params": {"prompt": "ok?", "judge": "command:touch made"}}'

UNSAFE_SUITES = {
    "javascript": (PROMPTFOO % ("echo", "x", "{type: javascript, value: 'require(1)'}"), "a.yaml"),
    "python": (PROMPTFOO % ("echo", "x", "{type: python, value: 'file://secret.py'}"), "a.yaml"),
    "a program's prompt": (PROMPTFOO.replace("'say {{q}}'", "'exec:touch made'") % ("x", "x", ""), "a.yaml"),
    "a file's variable": (PROMPTFOO % ("echo", "file://secret.md", "{type: is-json}"), "a.yaml"),
    "tests of a program": ("prompts: [x]\nproviders: [echo]\ntests: file://secret.py:make\n", "a.yaml"),
    "an environment variable": (AGENTV % "{type: contains, value: '${{ SECRET }}'}", "a.yaml"),
    "a program of words": (AGENTV % "{type: code-grader, command: 'touch made'}", "a.yaml"),
    "a prompt of a program": (AGENTV % "{type: llm-grader, prompt: {command: [touch, made]}}", "a.yaml"),
    "tests of a glob": ("tests: ['file://../**/*.md', 'file:///etc/*']\n", "a.yaml"),
    "a suite's workspace": (f"workspace: {{template: /etc}}\n{AGENTV % '{type: is-json}'}", "a.yaml"),
    "an included file": ("# 👤\n\n{{_file: secret.md}} {{_shell: touch made}}\n\n---\n\nx\n", "a.md"),
    "a case's target": (PROCTOR % ('"target": "function:os:getcwd",', EXACT), "a.jsonl"),
    "a member's judge": (PROCTOR % ("", MEMBERS % (JUDGED, '{"type": "threshold"}')), "a.jsonl"),
    "a weighing judge": (
        PROCTOR % ("", MEMBERS % (EXACT, '{"type": "judge", "prompt": "ok?", "judge": "cli:touch made"}')),
        "a.jsonl",
    ),
    "a schema elsewhere": (
        PROCTOR % ("", '{"grader": "json_schema", "params": {"schema": {"$ref": "file:///etc/passwd"}}}'),
        "a.jsonl",
    ),
    "a tag of YAML": ("tests: !!python/object/apply:os.system ['touch made']\n", "a.yaml"),
}
HARMLESS = {
    "a provider": (PROMPTFOO % ("'exec:touch made', 'file://secret.py'", "x", "{type: is-json}"), "a.yaml"),
    "a judge's provider": (
        PROMPTFOO % ("echo", "x", "{type: llm-rubric, value: ok, provider: 'exec:touch made'}"),
        "a.yaml",
    ),
    "a template": (PROMPTFOO % ("echo", "'{{ env.SECRET }} {{ x.__class__ }}'", "{type: is-json}"), "a.yaml"),
    "a name in braces": (
        PROCTOR % ("", '{"grader": "contains", "params": {"value": "${{ SECRET }}"}}'),
        "a.jsonl",
    ),
    "suite targets": (f"execution: {{targets: ['cli:touch made']}}\n{AGENTV % '{type: is-json}'}", "a.yaml"),
    "only targets": (PROCTOR % ('"only_targets": ["command:touch made", "echo"],', EXACT), "a.jsonl"),
}


@pytest.fixture
def secrets(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files, and an environment with a variable, that no upload may see."""
    monkeypatch.setenv("SECRET", "not-for-strangers")
    (project / "secret.md").write_text("not-for-strangers", encoding="utf-8")
    (project / "secret.py").write_text("open('made', 'w')\n", encoding="utf-8")
    return project


def test_an_unsafe_suite_can_be_saved_in_no_way(secrets: Path, server: Served) -> None:
    for what, (text, name) in UNSAFE_SUITES.items():
        body = json.dumps({"name": "x", "text": text, "filename": name}).encode()
        answer = server.send("POST", "/api/v1/suites", body, JSON)
        assert answer.status == 422, what
        assert "not-for-strangers" not in answer.text, what
        zipped = {"file": ("a.zip", pack({name: text.encode()}))}
        page = server.post("/suites/save", {"name": "x"}, zipped)
        assert page.status in (400, 422), (what, page.status)
        assert "not-for-strangers" not in page.text, what
    assert json.loads(server.get("/api/v1/suites").text) == {"suites": []}
    assert not (secrets / "made").exists()


def test_a_harmless_suite_runs_no_program_and_reads_no_secret(secrets: Path, server: Served) -> None:
    for number, (what, (text, name)) in enumerate(HARMLESS.items()):
        body = json.dumps({"name": f"s{number}", "text": text, "filename": name}).encode()
        answer = server.send("POST", "/api/v1/suites", body, JSON)
        assert answer.status == 201, (what, answer.text)
        (run,) = make_runs(server.site, f"s{number}", "echo")
        for path in (f"/api/v1/runs/{run.id}/trials", f"/api/v1/suite/export?name=s{number}"):
            assert "not-for-strangers" not in server.get(path).text, what
    assert not (secrets / "made").exists()


DEEP = "[" * 100_000 + "]" * 100_000
ODD = [
    (b'{"name": ' + DEEP.encode() + b"}", 400),
    (json.dumps({"name": "x", "text": DEEP}).encode(), 200),
    (json.dumps({"name": "x", "text": f"tests: {DEEP[:9]}{DEEP[-9:]}", "filename": "a.yaml"}).encode(), 200),
    (json.dumps({"name": "x", "text": "a: &a [*a]\ntests: *a\n", "filename": "a.yaml"}).encode(), 200),
    (json.dumps({"name": "x", "text": "x", "dialect": "../../etc"}).encode(), 400),
    (b'{"name": "x\\ud800", "text": "x"}', 422),
    (b'{"name": "x", "name": 7, "text": "x"}', 422),
    (b'{"name": "x", "text": ' + b"9" * 5000 + b"}", 400),
    (b"\xff\xfe", 400),
]


@pytest.mark.parametrize(("body", "status"), ODD)
def test_a_body_that_is_made_to_break_is_answered(server: Served, body: bytes, status: int) -> None:
    assert server.send("POST", "/api/v1/suites/validate", body, JSON).status == status


# --- what one visitor has, another has not -----------------------------------------------------------------


def test_what_one_visitor_reveals_stays_hidden_from_others(server: Served, site: Project) -> None:
    save_suite(site, "ten", LINES)
    (run,) = make_runs(site, "ten", "echo")
    other = server.new_visitor()
    assert server.post(f"/runs/{run.id}/reveal").status == 303
    trial = json.loads(server.get(f"/api/v1/runs/{run.id}/trials?split=holdout").text)["trials"][0]
    secret = f"secret{trial['case_id'][1:]}"
    path = f"/runs/{run.id}/cases/{trial['position']}"
    assert secret in server.get(path).text
    for address in (
        path,
        f"{path}/0.json",
        f"/runs/{run.id}",
        f"/runs/{run.id}/export.html",
        f"/runs/{run.id}/export.json",
        f"/runs/{run.id}/export.csv",
        f"/api/v1/runs/{run.id}/trials",
        f"/runs/{run.id}?text={secret}",
    ):
        text = re.sub(r"text=\w+|value=\"\w+\"|<a class=\"chip\".*?</a>", "", other.get(address).text)
        assert secret not in text, address


def write_certificate(site: Project, run: Run) -> None:
    """Writes a certificate and its full bundle beside the store."""
    folder = site.location.folder / "certificates" / run.id
    folder.mkdir(parents=True)
    example = json.loads((EXAMPLE / "certificate.json").read_text(encoding="utf-8"))
    (folder / "certificate.json").write_text(json.dumps(example | {"run": run.id}), encoding="utf-8")
    (folder / "bundle.zip").write_bytes(b"PK")


def test_a_program_that_takes_the_full_bundle_has_looked_at_the_holdout(
    server: Served, site: Project
) -> None:
    save_suite(site, "ten", LINES)
    (run,) = make_runs(site, "ten", "echo")
    write_certificate(site, run)
    before = server.looks(run.id)
    assert server.get(f"/api/v1/certificates/{run.id}/files/certificate").status == 200
    assert server.looks(run.id) == before
    assert server.get(f"/api/v1/certificates/{run.id}/files/bundle").data == b"PK"
    assert server.looks(run.id) == [*before, "reveal"]


def test_no_message_tells_where_keys_are(server: Served, site: Project) -> None:
    save_suite(site, "ten", LINES)
    (run,) = make_runs(site, "ten", "echo")
    for name in ("nobody", "../keys", "/etc/passwd", "--force"):
        body = json.dumps({"run": run.id, "sign_key": name}).encode()
        answer = server.send("POST", "/api/v1/certificates", body, JSON)
        assert answer.status == 400, name
        assert os.environ["PROCTOR_KEYS"] not in answer.text


@pytest.mark.parametrize("name", ['a"; x=y', "../../etc/passwd", "a;b,c", "a\\b", "é‑ü"])
def test_no_name_writes_a_header(server: Served, name: str) -> None:
    save_suite(server.site, name, LINES)
    answer = server.get(f"/suite/export?name={quote(name, safe='')}")
    assert answer.status == 200
    header = answer.headers["content-disposition"]
    assert re.fullmatch(r"attachment; filename=\"[^\"/\\\n]+\"; filename\*=UTF-8''[\w.%~-]+", header), header

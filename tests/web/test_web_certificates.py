"""The page Certificates: making and downloading them, and verifying bundles of other people."""

from __future__ import annotations

import io
import json
import re
import zipfile
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from proctor.cli.main import _invoke
from proctor.stores import open_store
from proctor.web import bundle_checks
from proctor.web.pages import certificates
from support.web import read_heading

pytestmark = pytest.mark.slow

Server = Any
STORE = ".proctor/proctor.db"
CERTIFICATES = Path(".proctor/certificates")
SECRET = "known to nobody"


def run_suite(*words: str, tests: int = 50, target: str = "echo") -> str:
    """Runs `tests` cases, of which echo passes four in five; the id of the run."""
    cases = [
        {
            "id": f"t{n}",
            "input": f"{SECRET} {n}",
            "criteria": "Says it",
            "assertions": [{"type": "equals", "value": f"{SECRET} {n}" if n % 5 else "no"}],
        }
        for n in range(tests)
    ]
    Path("s.eval.yaml").write_text(json.dumps({"tests": cases}), encoding="utf-8")
    assert int(_invoke(["run", "s.eval.yaml", "--target", target, "--quiet", *words])) in (0, 1, 3)
    store = open_store(STORE)
    try:
        return store.run("last").id
    finally:
        store.close()


def make(server: Server, run_id: str, key: str = "", **fields: str) -> str:
    """Makes a certificate; the page that shows the result."""
    answer = server.post("/certificates", {"run": run_id, "key": key, **fields})
    assert answer.status == 303, answer.text
    return str(server.get(answer.headers["location"]).text)


def verify(server: Server, data: bytes, name: str = "b.zip") -> str:
    answer = server.post("/certificates/verify", files={"bundle": (name, data)})
    assert answer.status == 200, answer.text
    return str(answer.text)


def attest(run_id: str, *words: str) -> bytes:
    assert int(_invoke(["attest", run_id, "-o", "made.zip", *words])) == 0
    return Path("made.zip").read_bytes()


def change_file(data: bytes, name: str, old: bytes, new: bytes) -> bytes:
    """The archive with a text replaced in one of its files."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
        for entry in before.infolist():
            content = before.read(entry)
            after.writestr(
                entry.filename, content.replace(old, new, 1) if entry.filename == name else content
            )
    return out.getvalue()


def test_the_pages_of_a_run_and_of_its_certificate_count_the_same_cases(
    project: Path, server: Server
) -> None:
    run_id = run_suite("--holdout", "0.5", "--repeat", "2")
    page = make(server, run_id, "")
    assert " on 25 holdout cases" in read_heading(page)
    assert " · n 25 · " in page
    page = server.get(f"/runs/{run_id}").text
    assert "score of its 25 cases are shown" in page
    assert " · n 25 · " in page
    assert "n 50" not in page


def test_without_a_run_it_says_what_the_place_is_for(project: Path, server: Server) -> None:
    page = server.get("/certificates").text
    assert read_heading(page) == "No certificate yet"
    assert "A certificate is a pass rate that others can check" in page
    assert "Run a suite" in page
    assert verify_form_is_there(page)


def verify_form_is_there(page: str) -> bool:
    return 'action="/certificates/verify"' in page and 'type="file"' in page


def test_a_certificate_of_a_holdout_is_made_shown_and_handed_out(project: Path, server: Server) -> None:
    assert int(_invoke(["keys", "new", "default"])) == 0
    run_id = run_suite("--holdout", "0.5")
    before = server.looks(run_id)
    page = make(server, run_id, "default")
    assert read_heading(page) == "88.0% (70–96%) verified on 25 holdout cases, accessed 2 times"
    assert server.looks(run_id) == [*before, "rate", "reveal"]
    folder = CERTIFICATES / run_id
    files = {path.name for path in folder.iterdir()}
    assert files == {"badge.svg", "bundle.zip", "certificate.json", "certificate.md"}
    assert [path.name for path in CERTIFICATES.iterdir()] == [run_id]
    assert (folder / "certificate.md").read_text(encoding="utf-8").splitlines()[2] in unescape(page)
    for name, ending in (
        ("badge", "badge.svg"),
        ("markdown", "certificate.md"),
        ("certificate", "certificate.json"),
    ):
        answer = server.get(f"/certificates/file?run={run_id}&name={name}")
        assert answer.data == (folder / ending).read_bytes()
        assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.{ending}"'
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert server.looks(run_id) == [*before, "rate", "reveal"]

    page_of_list = server.get("/certificates").text
    assert read_heading(page_of_list) == read_heading(page)
    assert f"/certificates?run={run_id}" in page_of_list

    assert server.get(f"/certificates/file?run={run_id}&name=bundle").status == 404
    full = server.post("/certificates/bundle", {"run": run_id})
    assert full.headers["content-disposition"] == f'attachment; filename="{run_id}.bundle.zip"'
    assert SECRET.encode() in full.data
    assert server.looks(run_id) == [*before, "rate", "reveal", "reveal"]
    server.post("/certificates/bundle", {"run": run_id})
    assert len(server.looks(run_id)) == len(before) + 3  # the same visitor learns nothing more

    page = make(server, run_id, "default", what="public")
    assert "Public bundle</a>" in page
    public = server.get(f"/certificates/file?run={run_id}&name=public").data
    with zipfile.ZipFile(io.BytesIO(public)) as archive:
        assert archive.read("trials.jsonl").count(SECRET.encode()) < full.data.count(SECRET.encode()) / 2
    assert "verified: everything that could be derived again is correct" in read_heading(
        verify(server, public)
    )


def test_without_a_key_it_is_unsigned_and_that_is_said(project: Path, server: Server) -> None:
    run_id = run_suite()
    page = server.get(f"/certificates?run={run_id}").text
    assert re.fullmatch(r"echo · \d+ \w+ \d\d:\d\d has no certificate yet", read_heading(page))
    assert "This server has no key: the bundle will be unsigned" in page
    for key in ("default", "../../x", "--force"):
        answer = server.post("/certificates", {"run": run_id, "key": key})
        assert answer.status == 400
        assert "has no signing key" in answer.text
    assert not Path("keys").exists()
    page = make(server, run_id)
    assert read_heading(page) == "80.0% (67–89%) self-attested on 50 cases"
    assert "Not signed: anyone could have made it." in page
    for name in ("../../proctor.db", "certificate.json", "public", ""):
        assert server.get(f"/certificates/file?run={run_id}&name={name}").status == 404


def test_a_run_that_gets_no_certificate_says_why_and_nothing_is_stored(project: Path, server: Server) -> None:
    run_id = run_suite(tests=5)
    page = make(server, run_id)
    assert "Not certified. 5 cases are not enough; at least 20 are needed." in page
    assert '<label for="fewest">' in page
    assert "--force" not in page
    assert list(CERTIFICATES.iterdir()) == []
    store = open_store(STORE)
    store.update_run(replace(store.run(run_id), status="interrupted"))
    store.close()
    assert "is not finished" in server.get(f"/certificates?run={run_id}").text
    answer = server.post("/certificates", {"run": run_id})
    assert answer.status == 400
    assert "is not finished" in answer.text


def test_a_failed_second_certificate_leaves_the_first_as_it_was(project: Path, server: Server) -> None:
    run_id = run_suite()
    make(server, run_id)
    before = (CERTIFICATES / run_id / "bundle.zip").read_bytes()
    assert int(_invoke(["keys", "new", "other"])) == 0
    (next(Path("keys").glob("other.key.pem"))).write_text("broken", encoding="utf-8")
    page = make(server, run_id, "other")
    assert 'role="alert"' in page
    assert (CERTIFICATES / run_id / "bundle.zip").read_bytes() == before
    assert read_heading(page).startswith("80.0%")


def test_a_slow_certificate_shows_progress_and_reloads_when_it_is_done(
    project: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "_TIMEOUT_S", 0.0)
    run_id = run_suite()
    answer = server.post("/certificates", {"run": run_id})
    again = server.new_visitor().post("/certificates", {"run": run_id})  # another visitor asks for it too
    assert again.headers["location"] == answer.headers["location"]
    task = parse_qs(urlsplit(answer.headers["location"]).query)["task"][0]
    page = server.get(answer.headers["location"]).text
    assert f'data-live="/certificates/progress/{task}"' in page
    stream = server.get(f"/certificates/progress/{task}")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.text.rstrip().endswith("event: done\ndata:")
    assert read_heading(server.get(answer.headers["location"]).text).startswith("80.0%")
    assert "event: done" in server.get("/certificates/progress/nothing").text


def test_a_dropped_bundle_is_checked_and_the_first_failure_is_shown(project: Path, server: Server) -> None:
    run_id = run_suite()
    data = attest(run_id, "--no-sign")
    page = verify(server, data, "../../<script>x</script>.zip")
    assert (
        read_heading(page)
        == "../../<script>x</script>.zip verified: every score, verdict and number follows from the answers"
    )
    assert "<script>x" not in page
    assert page.count('class="verdict pass"') == 8
    assert "Not signed" in page

    forged = verify(server, change_file(data, "trials.jsonl", b'"verdict":"fail"', b'"verdict":"pass"'))
    assert read_heading(forged) == "b.zip failed verification"
    assert "trials.jsonl: the SHA-256 is" in forged
    assert (forged.count('class="verdict pass"'), forged.count("Not reached.")) == (2, 5)
    assert str(project) not in forged
    assert "/tmp" not in forged
    assert not CERTIFICATES.exists()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is cut off"),
        (b"PK\x05\x06" + bytes(18), "0 entries instead of 5"),
    ],
)
def test_what_is_no_bundle_is_told_in_a_sentence(
    project: Path, server: Server, data: bytes, sentence: str
) -> None:
    page = verify(server, data)
    assert read_heading(page) == "b.zip failed verification"
    assert sentence in page
    assert page.count("Not reached.") == 7


def test_a_bundle_that_takes_too_long_is_given_up(
    project: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_checks, "VERIFY_TIMEOUT_S", 0.001)
    data = attest(run_suite(), "--no-sign")
    assert "The check took more than 0.001 seconds." in verify(server, data)


@pytest.mark.parametrize("run_id", ["nobody", "../../etc", "..", ".", "a/b", "%00", "x" * 300])
def test_no_name_becomes_a_path(project: Path, server: Server, run_id: str) -> None:
    for path in ("/certificates?run=", "/certificates/file?name=badge&run="):
        assert server.get(f"{path}{run_id}").status == 404
    assert server.post("/certificates", {"run": run_id}).status == 404
    assert server.post("/certificates/bundle", {"run": run_id}).status == 404


def test_a_form_without_a_bundle_is_refused(project: Path, server: Server) -> None:
    answer = server.post("/certificates/verify", {"bundle": "text"})
    assert answer.status == 400
    assert "Choose one bundle" in answer.text

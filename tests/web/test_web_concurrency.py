"""Several browsers, the command line and the machine itself: nothing is lost, and nothing breaks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proctor.cli.main import _invoke
from proctor.services.suites.save_upload import DraftSettings, save_draft
from proctor.services.suites.upload import upload_from_text
from proctor.web.project import Project
from support.web import Gate, Served, make_runs, serve

pytestmark = [pytest.mark.slow, pytest.mark.port]

PAGES = ("/suites", "/suites/new", "/run", "/runs", "/compare", "/trends", "/review", "/certificates")


def suite(count: int, answer: str = "yes") -> str:
    rows = [{"id": f"c{n}", "input": f"Is {n} a number?", "expected": answer} for n in range(1, count + 1)]
    return "\n".join(map(json.dumps, rows))


def start_run(server: Served, name: str, target: str) -> str:
    """Starts a run with one call at a time; the address of its page."""
    answer = server.post("/run", {"suite": name, "target": target, "concurrency": "1", "do": "start"})
    assert answer.status == 303, answer.text
    return answer.headers["location"]


def wait_for_event(server: Served, page: str, sentence: str) -> None:
    """Follows a page's events until one of them contains the sentence."""
    lines = server.listen(f"{page}/events")
    assert any(sentence in line for line in lines), sentence


def test_suites_that_are_saved_at_once_are_all_kept(server: Served, project: Path) -> None:
    (project / "s.jsonl").write_text(suite(3, "by the command line"), encoding="utf-8")
    texts = [suite(3, f"answer {number}") for number in range(6)]
    browsers = [server.new_visitor() for _ in texts]

    def save(browser: Served, text: str) -> int:
        return browser.post("/suites/save", {"name": "s", "text": text}).status

    with ThreadPoolExecutor(len(texts)) as pool:
        futures = [pool.submit(save, browser, text) for browser, text in zip(browsers, texts, strict=True)]
        assert _invoke(["suites", "save", "s.jsonl"]) == 0
        assert [future.result() for future in futures] == [303] * len(texts)
    with server.site.open_store() as store:
        saved = store.versions("s")
        assert [version.suite.version for version in saved] == [f"v{number}" for number in range(1, 8)]
        expected_answers = {next(iter(store.cases(version.suite.content))).case.expected for version in saved}
    assert expected_answers == {"by the command line", *(f"answer {number}" for number in range(6))}


def test_a_run_goes_on_when_the_server_is_started_again(project: Path, gate: Gate) -> None:
    store = project / ".proctor" / "proctor.db"
    with serve(Project(store, folder=project)) as server:
        server.post("/suites/save", {"name": "s", "text": suite(6)})
        page = start_run(server, "s", "gated")
        wait_for_event(server, page, "3 of 6 trials")
    with serve(Project(store, folder=project)) as server:
        assert "of 6 trials of s v1 on gated" in server.get(page).text
        assert "is running" in server.get("/runs").text
        gate.open()
        server.get(f"{page}/events")
        assert re.search("Finished: 100%, 6 of 6 passed, s v1 on gated", server.get(page).text)


def test_a_store_that_is_deleted_leaves_empty_pages_and_a_new_one_can_be_filled(server: Served) -> None:
    server.post("/suites/save", {"name": "s", "text": suite(4)})
    (run,) = make_runs(server.site, "s", "echo")
    assert run.id in server.get("/runs").text
    for path in server.site.location.folder.glob("proctor.db*"):
        if not path.name.endswith("-catalogue"):
            path.unlink()
    for page in PAGES:
        assert server.get(page).status == 200, page
    assert run.id not in server.get("/runs").text
    for page in (f"/runs/{run.id}", f"/runs/{run.id}/cases/0", f"/review?run={run.id}"):
        assert server.get(page).status == 404, page
    assert server.post("/suites/save", {"name": "s", "text": suite(5)}).status == 303
    (other,) = make_runs(server.site, "s", "echo")
    assert "5" in server.get(f"/runs/{other.id}").text


def test_a_damaged_store_is_told_in_a_sentence_and_left_alone(server: Served) -> None:
    server.post("/suites/save", {"name": "s", "text": suite(4)})
    for path in server.site.location.folder.glob("proctor.db-*"):
        path.unlink()
    Path(server.site.location.address).write_bytes(b"no store " * 1000)
    for page in (
        *PAGES[:1],
        "/run",
        *PAGES[3:],
        "/suite?name=s",
        "/runs/x",
        "/runs/x/cases/0",
        "/api/v1/runs",
    ):
        answer = server.get(page)
        assert answer.status in (200, 503), page
        assert "Internal error" not in answer.text, page
    assert "proctor.db" in server.get("/suites").text
    answer = server.post("/suites/save", {"name": "s", "text": suite(4)})
    assert answer.status == 503
    assert Path(server.site.location.address).read_bytes() == b"no store " * 1000


def test_a_folder_that_nothing_can_be_written_to(project: Path) -> None:
    folder = project / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):  # root may write everywhere; then a file takes the folder's place
        folder.rmdir()
        folder.write_bytes(b"")
    with serve(Project(folder / "proctor.db", folder=project)) as server:
        for page in PAGES:
            answer = server.get(page)
            assert answer.status in (200, 503), page
            assert "Internal error" not in answer.text, page
        for path, fields in (
            ("/suites/save", {"name": "s", "text": suite(4)}),
            ("/run", {"suite": "cheap", "target": "echo", "do": "start"}),
        ):
            answer = server.post(path, fields)
            assert answer.status in (400, 503), path
            assert "<h1" in answer.text
            assert "Internal error" not in answer.text, path


def test_another_process_takes_nothing_away_from_a_store_that_is_open_twice_here(project: Path) -> None:
    site = Project(project / "proctor.db", folder=project)
    opening = f"from proctor.stores import open_store; open_store({site.location.address!r}).close()"
    with site.open_store() as first:
        save_draft(first, upload_from_text(suite(3), "s.jsonl"), DraftSettings(name="before"))
        with site.open_store() as second:
            assert second.suite("before") is not None
        subprocess.run([sys.executable, "-c", opening], check=True, cwd=project)
        log = project / "proctor.db-wal"
        assert log.exists()  # it is where the first one writes
        save_draft(first, upload_from_text(suite(4), "s.jsonl"), DraftSettings(name="after"))
    with site.open_store() as store:
        assert {version.suite.name for version in store.versions()} == {"before", "after"}

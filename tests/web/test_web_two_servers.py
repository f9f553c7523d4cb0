"""Two servers, of two folders, over one store in PostgreSQL: each shows and stops what the other does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.model import Run, Verdict
from proctor.services.runs.starts.processes import get_run_processes
from proctor.services.suites.save_and_open import Suites
from proctor.web.project import Project
from proctor.web.run_status import RunLiveView
from support.builders import make_trial
from support.stores import begin_run
from support.waiting import PATIENCE_S, wait_until
from support.web import read_answer, read_text, visit

pytestmark = pytest.mark.slow

# Answers three cases at once, and the others when there is a file `go`.
GATED = "case {EVAL_ID} in t0|t1|t2) ;; *) until test -e go; do sleep 0.02; done ;; esac; cat"
JSON = {"content-type": "application/json"}
ON_GPU_3 = (
    "import socket; socket.gethostname = lambda: 'gpu-3'; "
    "from proctor.cli.main import main; import sys; sys.exit(main())"
)
"""The command line of a machine with another name."""


@pytest.fixture
def sites(postgres_location: Any, project: Path) -> Iterator[list[Project]]:
    """Two projects with the same targets; a suite `ten` is in their store."""
    sites = []
    for name in ("one", "two"):
        folder = project / name
        folder.mkdir()
        site = Project(postgres_location.address, folder=folder)
        site.location.folder = folder / ".proctor"
        targets = [{"name": "gated", "provider": "cli", "command": GATED}]
        (folder / "targets.yaml").write_text(json.dumps({"targets": targets}), encoding="utf-8")
        sites.append(site)
    rows = [{"id": f"t{n}", "input": f"say {n}", "expected": f"say {n}"} for n in range(10)]
    (project / "ten.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with sites[0].open_store() as store:
        list(Suites(store, {}).save("ten.jsonl"))
    yield sites
    for site in sites:
        (site.folder / "go").touch()
        for start in get_run_processes(site).list_alive():
            os.kill(start.pid, signal.SIGKILL)


@pytest.fixture
def servers(sites: list[Project]) -> Iterator[list[Any]]:
    with visit(sites[0]) as first, visit(sites[1]) as second:
        yield [first, second]


def newest_run(site: Project) -> Run | None:
    with site.open_store() as store:
        return next(store.runs(), None)


def count_done(site: Project, run_id: str) -> int:
    with site.open_store() as store:
        return sum(count for verdict, count in store.count_verdicts(run_id).items() if verdict is not None)


def test_a_run_of_one_server_is_followed_stopped_and_resumed_at_the_other(
    servers: list[Any], sites: list[Project]
) -> None:
    first, second = servers
    answer = first.post("/run", {"suite": "ten", "target": "gated", "concurrency": "2"})
    assert answer.status == 303, answer.text
    wait_until(lambda: newest_run(sites[1]) is not None)
    run = newest_run(sites[1])
    assert run is not None
    view = RunLiveView(sites[1], run.id)
    wait_until(lambda: "<b>3</b> of 10 trials" in view.render().html)
    assert f"on {socket.gethostname()}." in read_text(view.render().html)
    assert second.send("POST", f"/api/v1/starts/{run.group}/stop", b"{}", JSON).status == 202
    assert second.post(f"/runs/{run.id}/stop").headers["location"] == f"/runs/{run.id}"
    assert "Stopping: open calls get 1 second" in second.page(f"/runs/{run.id}")
    wait_until(lambda: view.render().is_final)
    assert count_done(sites[0], run.id) == 3  # the two open calls were cut off
    for server in servers:
        assert "passed 3 of 3" in read_answer(server.page(f"/runs/{run.id}"))
    (sites[1].folder / "go").touch()
    way = second.post(f"/runs/{run.id}/resume").headers["location"]
    assert way.startswith("/starts/")
    wait_until(lambda: count_done(sites[0], run.id) == 10)
    wait_until(lambda: RunLiveView(sites[0], run.id).render().is_final)
    assert "passed 10 of 10" in read_answer(first.page(f"/runs/{run.id}"))
    again = second.send("POST", f"/api/v1/starts/{run.group}/stop", b"{}", JSON)
    assert (again.status, "has already ended" in again.text) == (409, True)
    assert second.send("POST", "/api/v1/starts/nothing/stop", b"{}", JSON).status == 404
    assert first.page(f"/starts/{run.group}")  # which the other server knows nothing of
    assert second.page(f"/starts/{run.group}")


def test_a_run_of_a_machine_without_a_server_is_named_and_stopped(
    servers: list[Any], sites: list[Project]
) -> None:
    address = sites[0].location.address
    child = subprocess.Popen(
        [*(sys.executable, "-c", ON_GPU_3, "run", "--saved=ten", "--target=gated"), f"--store={address}"],
        cwd=sites[0].folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        wait_until(lambda: newest_run(sites[1]) is not None)
        run = newest_run(sites[1])
        assert run is not None
        wait_until(lambda: count_done(sites[1], run.id) == 3)
        page = read_text(servers[1].page(f"/runs/{run.id}"))
        assert f"process {child.pid} on gpu-3." in page
        progress = json.loads(servers[1].page(f"/api/v1/runs/{run.id}/progress"))
        assert progress["owner"].endswith(f"process {child.pid} on gpu-3")
        listing = subprocess.run(
            [*(sys.executable, "-m", "proctor", "runs", "stop", run.id, "--json"), f"--store={address}"],
            cwd=sites[1].folder,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        (row,) = json.loads(listing.stdout)["runs"]
        assert (listing.returncode, row["status"], row["done"]) == (0, "interrupted", 3)
        assert (row["owner"]["pid"], row["owner"]["host"]) == (child.pid, "gpu-3")
        errors = child.communicate(timeout=PATIENCE_S)[1]
        assert child.returncode == 2
        assert "Another process stopped this run: requests in progress have 1 s to finish." in errors
    finally:
        child.kill()
        child.communicate()


def test_no_signal_goes_to_a_process_with_the_id_of_one_of_another_machine(sites: list[Project]) -> None:
    """The row names a process of this machine, which runs something else."""
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with sites[0].open_store() as maker, sites[1].open_store() as other:
        run = begin_run(maker)
        connector = sites[0].location.connector  # type: ignore[attr-defined]
        with connector.connect() as connection:
            connection.execute("UPDATE run_locks SET pid = %s", (bystander.pid,))
        assert get_run_processes(sites[1]).stop_run(other, run)
        assert get_run_processes(sites[0]).is_stopping(other, run)
        assert maker.is_stop_requested(run.id)
    bystander.communicate(b"\n", timeout=PATIENCE_S)
    assert bystander.returncode == 0


def test_what_one_server_deletes_is_missing_at_the_other_in_a_sentence(
    servers: list[Any], sites: list[Project]
) -> None:
    _, two = servers
    with sites[0].open_store() as store:
        run = begin_run(store)
        for n in range(3):
            store.save_trial(run.id, make_trial(str(n), case_id=f"c{n}", position=n), Verdict.PASS)
    case = f"/runs/{run.id}/cases/1"
    view = RunLiveView(sites[1], run.id)
    addresses = (f"/runs/{run.id}", f"/runs/{run.id}?sort=-latency", f"/runs/{run.id}?text=a", case)
    for address in (*addresses, "/suite?name=s", "/runs"):
        assert two.get(address).status == 200
    assert not view.render().html.isspace()
    with sites[0].open_store() as store:
        store.delete_run(run.id)
        store.delete_version("s", "v1")
    for address in (*addresses, "/suite?name=s", f"/runs/{run.id}/events"):
        answer = two.get(address)
        assert answer.status == 404, address
        assert "There is no" in read_text(answer.text)
    assert run.id not in two.page("/runs")


def test_a_suite_that_one_server_gets_has_its_next_version_at_the_other(
    servers: list[Any], sites: list[Project]
) -> None:
    first, second = servers

    def upload(server: Any, expected: str) -> int:
        line = json.dumps({"id": "a", "input": "say a", "expected": expected})
        body = json.dumps({"name": "letters", "text": line, "filename": "letters.jsonl"})
        answer = server.send("POST", "/api/v1/suites", body.encode(), JSON)
        return int(answer.status)

    assert upload(first, "say a") == 201
    assert "letters" in second.page("/suite?name=letters")
    assert upload(second, "say b") == 201
    versions = json.loads(first.page("/api/v1/suite/versions?name=letters"))["versions"]
    assert [version["version"] for version in versions] == ["v1", "v2"]

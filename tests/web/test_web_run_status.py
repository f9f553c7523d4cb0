"""Runs in progress: any page follows, stops and resumes them, whoever started them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse
from itertools import pairwise
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any

import msgspec
import pytest

from proctor.services.runs.starts.processes import RunProcesses, StartedRun, get_run_processes
from proctor.services.suites.save_and_open import Suites
from proctor.web import event_hub
from proctor.web.event_hub import Watcher, get_event_hub
from proctor.web.project import Project
from proctor.web.run_status import LiveSection
from proctor.web.sse import format_event
from support.waiting import PATIENCE_S, wait_until
from support.web import read_answer, read_text

pytestmark = [pytest.mark.slow, pytest.mark.port]

Follow = Callable[..., "Stream"]

# Answers three cases at once, and the others when there is a file `go`; ends when whoever asks was killed.
GATED = (
    "case {EVAL_ID} in t0|t1|t2) ;; *) for _ in $(seq 999); do test -e go && break; sleep 0.02; done ;; "
    "esac; echo {EVAL_ID} >> asked; cat"
)
TARGETS = {
    "targets": [
        {"name": "gated", "provider": "cli", "command": GATED},
        {"name": "answers", "provider": "scripted", "file": "answers.jsonl"},
        {"name": "shut", "provider": "cli", "command": "test -e go || exit 1; cat"},
    ]
}


@pytest.fixture(autouse=True)
def ten(site: Project) -> Iterator[None]:
    """Ten cases in the store as `ten`, two of them held out, and targets; no child stays behind."""
    rows = [{"id": f"t{n}", "input": f"say {n}", "expected": f"say {n}"} for n in range(10)]
    (site.folder / "ten.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    answers = [json.dumps({f"t{n}": "wrong" if n == 1 else f"say {n}"}) for n in range(10)]
    (site.folder / "answers.jsonl").write_text("\n".join(answers), encoding="utf-8")
    (site.folder / "targets.yaml").write_text(json.dumps(TARGETS), encoding="utf-8")
    with site.open_store() as store:
        list(Suites(store, {}).save("ten.jsonl"))
    yield
    (site.folder / "go").touch()
    for path in (site.location.folder / "starts").glob("*.json"):
        start = get_run_processes(site).find(path.stem)
        if start is not None and get_run_processes(site).is_alive(start):
            os.kill(start.pid, signal.SIGKILL)


class Stream:
    """A page's stream of events, read as a browser does."""

    def __init__(self, server: Any, path: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
        self._connection.request("GET", path, headers={"Cookie": server.cookie})
        self.response: HTTPResponse = self._connection.getresponse()

    def blocks(self) -> Iterator[str]:
        """Each event or comment."""
        lines: list[str] = []
        while line := self.response.readline().decode("utf-8"):
            if line == "\n":
                yield "".join(lines)
                lines = []
            else:
                lines.append(line)

    def until(self, *words: str) -> str:
        """The first event that has all of these words."""
        for block in self.blocks():
            if all(word in block for word in words):
                return block
        raise AssertionError(f"The stream ended without {words}.")

    def read_to_end(self) -> list[str]:
        """All events to the end."""
        return list(self.blocks())

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@pytest.fixture
def follow(server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Stream]]:
    """Opens a page's stream of events; runs are looked at more often than elsewhere."""
    monkeypatch.setattr(event_hub, "POLL_INTERVAL_S", 0.05)
    streams: list[Stream] = []

    def open_(path: str) -> Stream:
        streams.append(Stream(server, path))
        return streams[-1]

    yield open_
    for stream in streams:
        stream.close()


def begin(server: Any, **fields: Any) -> str:
    """Starts a run of ten cases from the page; the id of its group."""
    answer = server.post("/run", {"suite": "ten", "target": "gated", "concurrency": "2", **fields})
    assert answer.status == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/starts/")


def find_start(site: Project, group: str) -> StartedRun:
    start = get_run_processes(site).find(group)
    assert start is not None
    return start


def has_ended(site: Project, group: str) -> bool:
    return not get_run_processes(site).is_alive(find_start(site, group))


def the_run(site: Project) -> Any:
    """Waits until the run is in the store, and returns it."""

    def look() -> Any:
        with site.open_store() as store:
            return next(iter(store.runs()), None)

    return wait_until(look)


def count_trials(site: Project, run_id: str) -> int:
    with site.open_store() as store:
        return sum(count for verdict, count in store.count_verdicts(run_id).items() if verdict is not None)


# --- following ---------------------------------------------------------------------------------------------


def test_a_run_is_followed_from_its_start_to_its_table(server: Any, follow: Follow, site: Project) -> None:
    group = begin(server, target=["gated", "answers"])
    page = server.get(f"/starts/{group}").text
    assert f'data-live="/starts/{group}/events"' in page
    assert re.match(r"(Starting|Running): .*ten v1 on gated", read_answer(page))
    stream = follow(f"/starts/{group}/events")
    assert stream.response.getheader("content-type", "").startswith("text/event-stream")
    event = stream.until("3 of 10 trials")
    assert "Running custom suite: 8 dev + 2 holdout tests" in event
    assert '<progress max="10" value="3"' in event
    assert "Next: answers" in event
    with site.open_store() as store:
        assert store.holdout_accesses(the_run(site).suite.digest) == []
    (site.folder / "go").touch()
    events = stream.read_to_end()
    assert events[-1] == "event: done\ndata: done\n"
    text = read_text(server.get(f"/starts/{group}").text)
    assert "Running custom suite: 8 dev + 2 holdout tests" in text
    assert "Completed: Dev 8/8 | Holdout 2/2 on gated" in text
    assert re.search(r"Dev Accuracy Holdout Accuracy Total Passed Latency", text)
    assert re.search(r" answers .* 9 of 10 ", text)
    server.get(f"/starts/{group}")
    with site.open_store() as store:
        runs = list(store.runs())
        assert [run.group for run in runs] == [group, group]
        accesses = store.holdout_accesses(runs[0].suite.digest)
        assert len(accesses) == 1, "one of this person, however often and whichever run is shown"


def test_a_page_that_comes_later_sees_the_present_state_at_once(
    server: Any, follow: Follow, site: Project
) -> None:
    group = begin(server)
    follow(f"/starts/{group}/events").until("3 of 10 trials")
    again = follow(f"/starts/{group}/events")
    assert "3 of 10 trials" in next(again.blocks())
    run = the_run(site).id
    assert "<b>3</b> of 10 trials" in next(follow(f"/runs/{run}/events").blocks())


def test_many_pages_share_one_reading_of_the_store(server: Any, follow: Follow, site: Project) -> None:
    group = begin(server)
    path = f"/starts/{group}/events"
    streams = [follow(path) for _ in range(12)]
    for stream in streams:
        stream.until("3 of 10 trials")
    watches = get_event_hub(site)
    (watch,) = watches.watchers.values()
    assert watch.clients == 12
    since, before = monotonic(), watch.render_count
    wait_until(lambda: watch.render_count >= before + 10)
    assert (
        watch.render_count - before <= (monotonic() - since) / event_hub.POLL_INTERVAL_S + 1
    )  # as often as for one
    for stream in streams[1:]:
        stream.close()
    wait_until(lambda: watch.clients == 1)
    (site.folder / "go").touch()
    assert streams[0].read_to_end()[-1].startswith("event: done")
    wait_until(lambda: watches.watchers == {})


def test_nothing_is_sent_while_nothing_changes_but_a_comment(
    server: Any, follow: Follow, site: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "HEARTBEAT_S", 0.05)
    stream = follow(f"/starts/{begin(server)}/events")
    stream.until("3 of 10 trials")
    blocks = stream.blocks()
    quiet: list[str] = []
    while quiet.count(": still here\n") < 4:
        quiet.append(next(blocks))
        assert len(quiet) < 100
    events = [block for block in quiet if block != ": still here\n"]
    assert all(before != after for before, after in pairwise(events))
    assert not any("2 of 10" in block for block in events)


def test_a_run_of_the_command_line_is_followed_and_stopped(
    server: Any, follow: Follow, site: Project
) -> None:
    command = [sys.executable, "-m", "proctor", "run", "--saved=ten", "--target=gated", "--concurrency=2"]
    child = subprocess.Popen(
        [*command, "--quiet", f"--store={site.location.address}"], stderr=subprocess.PIPE
    )
    try:
        run = the_run(site)
        stream = follow(f"/runs/{run.id}/events")
        stream.until("<b>3</b> of 10 trials")
        assert server.post(f"/runs/{run.id}/stop").headers["location"] == f"/runs/{run.id}"
        stream.until("stopping")
        (site.folder / "go").touch()
        assert stream.read_to_end()[-1].startswith("event: done")
        assert child.wait(timeout=PATIENCE_S) == 2
        by_group = server.get(f"/starts/{run.group}")
        assert read_answer(by_group.text) == "Stopped: 5 of 10 trials of ten v1 on gated are stored"
    finally:
        child.kill()
        child.communicate()


def test_an_internal_error_while_following_is_printed_and_the_next_update_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "POLL_INTERVAL_S", 0.0)
    looks = iter([None, LiveSection("<p>there</p>", is_final=True)])

    def look() -> LiveSection:
        outcome = next(looks)
        if outcome is None:
            raise ZeroDivisionError("in the page")
        return outcome

    async def first() -> LiveSection | None:
        return await anext(Watcher(look).changes())

    assert asyncio.run(first()) == LiveSection("<p>there</p>", is_final=True)
    output = capsys.readouterr().err
    assert output == "Internal error while it watched: ZeroDivisionError: in the page\n"


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb\rc", "", "\u2028x\n\n"])
def test_a_text_is_one_event_whatever_is_in_it(text: str) -> None:
    event = format_event(text)
    assert event.endswith("\n\n")
    assert event.count("\n\n") == 1
    assert all(line.startswith("data: ") for line in event[:-2].split("\n"))
    assert "\r" not in event


# --- stopping and going on ---------------------------------------------------------------------------------


def stop_run(server: Any, site: Project, group: str) -> Any:
    """Stops the run of a group after five of its trials, and returns it."""
    run = the_run(site)
    wait_until(lambda: count_trials(site, run.id) == 3)
    answers = [
        browser.post(f"/runs/{run.id}/stop", {"group": group})
        for browser in (server, server.new_visitor(), server)
    ]
    assert [answer.headers["location"] for answer in answers] == [f"/starts/{group}"] * 3
    wait_until(
        lambda: any(
            "Stopping" in line for line in get_run_processes(site).read_output(find_start(site, group))
        )
    )
    (site.folder / "go").touch()
    wait_until(lambda: has_ended(site, group))
    return run


def test_two_browsers_stop_a_run_and_what_finished_is_kept(
    server: Any, follow: Follow, site: Project
) -> None:
    group = begin(server)
    run = stop_run(server, site, group)
    assert count_trials(site, run.id) == 5  # the open calls could end, though Stop was pressed three times
    page = server.get(f"/starts/{group}").text
    assert read_answer(page) == "Stopped: 5 of 10 trials of ten v1 on gated are stored"
    assert f"proctor run --resume={run.id}" in page
    assert "It has already ended" in read_text(
        server.get(server.post(f"/starts/{group}/stop").headers["location"]).text
    )
    ways = [
        browser.post(f"/runs/{run.id}/resume").headers["location"]
        for browser in (server, server.new_visitor())
    ]
    assert ways[0].startswith("/starts/")
    assert ways[1] in (f"/runs/{run.id}", f"/starts/{group}")
    follow(f"{ways[0]}/events").read_to_end()
    assert read_answer(server.get(ways[0]).text) == "Finished: 100%, 10 of 10 passed, ten v1 on gated"
    prompts = Counter((site.folder / "asked").read_text(encoding="utf-8").split())
    assert prompts == Counter({f"t{n}": 1 for n in range(10)})
    server.post(f"/runs/{run.id}/resume")
    assert "This run has no missing trials." in read_text(server.get("/run").text)


def test_a_run_whose_process_was_killed_can_be_resumed(server: Any, follow: Follow, site: Project) -> None:
    group = begin(server)
    run = the_run(site)
    stream = follow(f"/starts/{group}/events")
    stream.until("3 of 10 trials")
    pid = find_start(site, group).pid
    os.kill(pid, signal.SIGKILL)
    assert stream.read_to_end()[-1].startswith("event: done")
    wait_until(lambda: not Path(f"/proc/{pid}").exists())  # it is no zombie
    assert read_answer(server.get(f"/starts/{group}").text).startswith("Stopped: 3 of 10 trials")
    (site.folder / "go").touch()
    way = server.post(f"/runs/{run.id}/resume").headers["location"]
    follow(f"{way}/events").read_to_end()
    assert count_trials(site, run.id) == 10
    with site.open_store() as store:
        assert store.run(run.id).status == "finished"


def test_the_errors_of_a_run_are_retried_once_in_a_new_run(server: Any, site: Project) -> None:
    group = begin(server, target="shut", retries="0")
    wait_until(lambda: has_ended(site, group))
    run = the_run(site)
    page = server.get(f"/runs/{run.id}").text
    assert "Retry 10 errors" in page
    assert f"proctor run --retry-errors={run.id}" in page
    key = re.search(r'name="new_group" value="([^"]+)"', page)
    assert key
    (site.folder / "go").touch()
    answers = [server.post(f"/runs/{run.id}/retry", {"new_group": key[1]}) for _ in range(2)]
    assert [answer.headers["location"] for answer in answers] == [f"/starts/{key[1]}"] * 2
    wait_until(lambda: has_ended(site, key[1]))
    with site.open_store() as store:
        retried, first = store.runs()
    assert (first.id, retried.group) == (run.id, key[1])
    assert read_answer(server.get(f"/starts/{key[1]}").text).startswith("Finished: 100%, 10 of 10 passed")
    assert server.post(f"/runs/{retried.id}/retry").headers["location"] == f"/runs/{retried.id}"
    assert "This run has no errors that can be retried." in server.get("/runs").text


def test_a_server_that_is_started_later_knows_what_goes_on(server: Any, site: Project) -> None:
    group = begin(server)
    run = the_run(site)
    wait_until(lambda: count_trials(site, run.id) == 3)
    later = RunProcesses(Project(site.location.address, folder=site.folder))
    start = later.find(group)
    assert start is not None
    assert later.is_alive(start)
    with site.open_store() as store:
        assert [run_of_group.id for run_of_group in later.list_runs(store, group)] == [run.id]
    assert later.stop(start)
    wait_until(lambda: any("Stopping" in line for line in later.read_output(start)))
    (site.folder / "go").touch()
    wait_until(lambda: not later.is_alive(start))
    assert not later.stop(start)


def test_a_run_goes_on_when_its_server_is_interrupted(server: Any, site: Project) -> None:
    start = find_start(site, begin(server))
    assert os.getsid(start.pid) == start.pid
    assert os.getsid(start.pid) != os.getsid(0)


def test_many_starts_at_once_are_all_made(server: Any, site: Project) -> None:
    groups: list[str] = []
    threads = [
        Thread(target=lambda: groups.append(begin(server.new_visitor(), target="answers"))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: all(has_ended(site, group) for group in groups))
    with site.open_store() as store:
        assert {run.group: run.status for run in store.runs()} == dict.fromkeys(groups, "finished")


def test_no_process_is_signalled_for_a_start_of_another_container_or_machine(
    server: Any, site: Project
) -> None:
    group = begin(server)
    run = the_run(site)
    wait_until(lambda: count_trials(site, run.id) == 3)
    start = find_start(site, group)
    foreign = msgspec.structs.replace(start, process_space="another machine's")
    processes = get_run_processes(site)
    assert not processes.is_alive(foreign)
    assert not processes.stop(foreign)
    assert processes.is_alive(start)
    (site.folder / "go").touch()
    wait_until(lambda: has_ended(site, group))
    assert count_trials(site, run.id) == 10

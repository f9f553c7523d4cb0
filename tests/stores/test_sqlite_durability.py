"""Durability: a process is killed, a disk is full, or two processes write at once."""

from __future__ import annotations

import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from proctor.errors import StoreError
from proctor.model import Run, Verdict
from proctor.stores.sqlite.store import SqliteStore
from support.builders import make_trial
from support.stores import begin_run
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

OpenStore = Callable[[Path], SqliteStore]
Begin = Callable[..., Run]

_WRITE_SCRIPT = """
import sys
from datetime import UTC, datetime
from time import monotonic, sleep
from proctor.model import Output, Trial, Verdict
from proctor.stores.sqlite.store import SqliteStore

path, run_id, count, pause_s, size = sys.argv[1:]
store = SqliteStore.open_file(path)
for position in range(int(count)):
    trial = Trial(case_id="c", position=position, sent="sha256:0", output=Output(text="x" * int(size)),
                  started_at=datetime.now(UTC))
    store.save_trial(run_id, trial, Verdict.PASS)
    print(position, monotonic(), flush=True)
    sleep(float(pause_s))
store.close()
"""


def _start_writer(
    path: Path, run_id: str, count: int, *, pause_s: float = 0.0, size: int = 10, **options: Any
) -> subprocess.Popen[str]:
    words = [str(path), run_id, str(count), str(pause_s), str(size)]
    return subprocess.Popen(
        [sys.executable, "-c", _WRITE_SCRIPT, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        **options,
    )


@pytest.mark.parametrize("pause_s", [0.0, 0.003])
def test_a_killed_process_loses_nothing_older_than_a_tenth_of_a_second(
    tmp_path: Path, open_store: OpenStore, pause_s: float
) -> None:
    lost_positions: set[int] = set()
    for attempt in range(20):  # again, as this machine may be busy with something else
        lost_positions = _find_lost_trials(tmp_path / f"{attempt}.db", open_store, begin_run, pause_s)
        if not lost_positions:
            break
    assert not lost_positions


def _parse_time(line: str) -> float:
    return float(line.split()[1])


def _find_lost_trials(path: Path, open_store: OpenStore, begin: Begin, pause_s: float) -> set[int]:
    """The positions of trials that are missing though saved over 100 ms before their process was killed."""
    begin(open_store(path))
    process = _start_writer(path, "r1", 100_000, pause_s=pause_s)
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    while _parse_time(lines[-1]) < _parse_time(lines[0]) + 0.3:
        lines.append(process.stdout.readline())
    killed_at = monotonic()
    process.send_signal(signal.SIGKILL)
    lines += process.stdout
    process.communicate()
    complete = [line.split() for line in lines if line.endswith("\n")]
    old = {int(position) for position, when in complete if float(when) < killed_at - 0.1}
    positions = [stored_trial.trial.position for stored_trial in open_store(path).trials("r1")]
    assert len(old) > 10
    assert len(positions) == len(set(positions))
    return old - set(positions)


def test_a_store_whose_writer_was_killed_can_be_written_to(tmp_path: Path, open_store: OpenStore) -> None:
    path = tmp_path / "kept.db"
    begin_run(open_store(path))
    process = _start_writer(path, "r1", 100_000)
    assert process.stdout is not None
    for _ in range(500):
        process.stdout.readline()
    wait_until(lambda: open_store(path).count_verdicts("r1"))
    process.kill()
    process.communicate()
    store = open_store(path)
    before = sum(store.count_verdicts("r1").values())
    store.save_trial("r1", make_trial("new", position=10**6), Verdict.FAIL)
    store.flush()
    assert store.count_verdicts("r1") == {Verdict.PASS: before, Verdict.FAIL: 1}
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def test_two_processes_and_this_one_write_at_once(tmp_path: Path, open_store: OpenStore) -> None:
    path = tmp_path / "kept.db"
    store = open_store(path)
    for run_id in ("a", "b", "mine"):
        begin_run(store, run_id)
    processes = [_start_writer(path, run_id, 400, pause_s=0.0005) for run_id in ("a", "b")]
    for position in range(400):
        store.save_trial("mine", make_trial("x", position=position), Verdict.PASS)
        sleep(0.0005)
    for process in processes:
        _, complaint = process.communicate()
        assert (process.returncode, complaint) == (0, "")
    store.flush()
    assert [store.count_verdicts(run_id) for run_id in ("a", "b", "mine")] == [{Verdict.PASS: 400}] * 3


def test_a_full_disk_is_an_error_and_trials_that_were_durable_stay(
    tmp_path: Path, open_store: OpenStore
) -> None:
    path = tmp_path / "kept.db"
    begin_run(open_store(path))

    def limit_file_size() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    process = _start_writer(path, "r1", 1000, pause_s=0.005, size=20_000, preexec_fn=limit_file_size)
    _, complaint = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "proctor.errors.StoreError: The store cannot be written: " in complaint
    trials = list(open_store(path).trials("r1"))
    assert [stored_trial.trial.position for stored_trial in trials] == list(range(len(trials)))
    assert trials


def test_an_error_while_writing_is_raised_by_the_next_calls(tmp_path: Path) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(store)
    other = sqlite3.connect(store.path)
    other.execute("DROP TABLE trials")
    other.close()
    store.save_trial("r1", make_trial("x"), Verdict.PASS)
    for method in (store.flush, lambda: store.save_trial("r1", make_trial("x"), Verdict.PASS), store.close):
        with pytest.raises(StoreError, match="no such table"):
            method()
    store.close()


def test_a_store_waits_for_the_transaction_of_another_process(tmp_path: Path, open_store: OpenStore) -> None:
    store = open_store(tmp_path / "kept.db")
    begin_run(store)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.save_trial("r1", make_trial("x"), Verdict.PASS)
    sleep(0.15)
    assert store.count_verdicts("r1") == {}
    other.execute("COMMIT")
    other.close()
    store.flush()
    assert store.count_verdicts("r1") == {Verdict.PASS: 1}


def test_using_a_closed_store_is_an_error(tmp_path: Path) -> None:
    store = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(store)
    store.close()
    with pytest.raises(StoreError, match="cannot be used"):
        store.run("r1")
    with pytest.raises(StoreError):
        store.save_trial("r1", make_trial("x"), Verdict.PASS)


def test_a_run_is_locked_by_one_process_until_it_dies(tmp_path: Path, open_store: OpenStore) -> None:
    first = SqliteStore.open_file(str(tmp_path / "kept.db"))
    begin_run(first, "a")
    begin_run(first, "b")
    first.close()
    store = open_store(tmp_path / "kept.db")
    script = (
        "import sys\nfrom proctor.stores import open_store\nstore = open_store(sys.argv[1])\n"
        "store.lock_run('a')\nstore.lock_run('a')\nprint('claimed', flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, store.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    with pytest.raises(StoreError, match=f"already running in process {process.pid}"):
        store.lock_run("a")
    store.lock_run("b")
    with pytest.raises(StoreError, match=f"already running in process {process.pid}"):
        store.delete_run("a")
    process.kill()
    process.communicate()
    store.lock_run("a")


def test_a_store_behind_a_link_is_the_same_store(tmp_path: Path, open_store: OpenStore) -> None:
    link = tmp_path / "link.db"
    link.symlink_to("folder/s.db")
    (tmp_path / "folder").mkdir()
    first, second = open_store(link), open_store(tmp_path / "folder" / "s.db")
    begin_run(first)
    first.save_trial("r1", make_trial("a"), Verdict.PASS)
    first.flush()
    assert [row.verdict for row in second.trials("r1")] == [Verdict.PASS]
    assert second.is_run_locked("r1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link.db"]

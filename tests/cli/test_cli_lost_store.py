"""Stores that are deleted, replaced or locked during a run: every answer is saved, and the run says where."""

from __future__ import annotations

import re
import resource
import shlex
import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proctor.stores.sql import trial_queue
from support.cli import Proctor
from support.processes import LockHolder
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow


# Records every question; from number `gate` on it waits for a file `go`, and from `last` on forever.
GATED = """
import asyncio, os
async def f(prompt):
    with open("{folder}/asked.txt", "a", encoding="utf-8") as file:
        file.write(prompt + "\\n")
    while int(prompt[1:]) >= {gate} and not os.path.exists("{folder}/go"):
        await asyncio.sleep(0.01)
    if int(prompt[1:]) >= {last}:
        await asyncio.sleep(3600)
    return prompt
"""


@pytest.fixture
def work(folder: Path) -> Path:
    """The folder of the store; tests may delete it."""
    (folder / "work").mkdir()
    return folder / "work"


@pytest.fixture
def begin(start: Proctor, suite: Proctor, function: Proctor, folder: Path, work: Path) -> Proctor:
    """Starts a run that stores 100 trials and then waits for the file `go`."""

    def make(cases: int = 200, gate: int = 100, last: int = 10**6) -> subprocess.Popen[str]:
        name = suite(*((f"t{n}", f"q{n}", f"q{n}") for n in range(cases)))
        target = function(GATED.format(folder=folder, gate=gate, last=last))
        store = work / "p.db"
        run: subprocess.Popen[str] = start(
            "run", name, "--target", target, "--store", store, "--concurrency", 8
        )
        wait_until(lambda: _count_trials(store) >= min(gate, cases))
        return run

    return make


def _count_trials(path: Path) -> int:
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(path)) as db:
            return int(db.execute("SELECT count(*) FROM trials").fetchone()[0])
    except sqlite3.OperationalError:  # the tables do not exist yet
        return 0


def _count_questions(folder: Path) -> Counter[str]:
    return Counter((folder / "asked.txt").read_text(encoding="utf-8").split())


def _delete_all(store: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{store}{ending}").unlink()


def _delete_log(store: Path) -> None:
    Path(f"{store}-wal").unlink()


def _delete_folder(store: Path) -> None:
    shutil.rmtree(store.parent)


def _move_away(store: Path) -> None:
    store.rename(store.with_name("moved.db"))


def _replace_by_rename(store: Path) -> None:
    other = store.with_name("other.db")
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE mine (x)")
    other.replace(store)


def _replace_by_a_copy(store: Path) -> None:
    """Does what `cp p.db copy.db` and `mv copy.db p.db` do."""
    copy = store.with_name("copy.db")
    shutil.copyfile(store, copy)
    copy.replace(store)


HARMS = [
    Path.unlink,
    _delete_all,
    _delete_log,
    _delete_folder,
    _move_away,
    _replace_by_rename,
    _replace_by_a_copy,
]


@pytest.mark.parametrize("harm", HARMS)
def test_a_store_that_is_lost_during_a_run_is_saved_to_a_new_file_with_every_answer(
    begin: Proctor, process: Proctor, folder: Path, work: Path, harm: Callable[[Path], None]
) -> None:
    run = begin()
    harm(work / "p.db")
    (folder / "go").touch()
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 4, err
    (error,) = [line for line in err.splitlines() if line.startswith("proctor: error: ")]
    assert re.search(r"was (deleted|replaced by another file) while it was open\.", error)
    (command,) = re.findall(r"Continue with: proctor (run --resume=\S+ --store \S+)", error)
    resumed = process(*command.split(), "--json")
    assert (resumed.code, resumed.run["total"], resumed.run["passed"]) == (0, 200, 200)
    assert _count_questions(folder) == Counter({f"q{n}": 1 for n in range(200)})


def test_earlier_runs_are_in_the_new_file_too(
    begin: Proctor, process: Proctor, folder: Path, work: Path, half: str
) -> None:
    assert process("run", half, "--target", "echo", "--store", work / "p.db").code == 1
    run = begin()
    _delete_all(work / "p.db")
    (folder / "go").touch()
    _, err = run.communicate(timeout=PATIENCE_S)
    (new,) = re.findall(r"--store (\S+)", err)
    assert len(process("runs", "list", "--store", new, "--json").json["runs"]) == 2
    assert Path(new).stat().st_mode & 0o077 == 0


def test_a_run_stops_by_itself_when_its_store_is_lost(begin: Proctor, folder: Path, work: Path) -> None:
    run = begin(last=120)
    _delete_all(work / "p.db")
    (folder / "go").touch()
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 4
    (new,) = re.findall(r"--store (\S+)", err)
    assert _count_trials(Path(new)) == 120


def _vacuum(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None, timeout=60)) as db:
        db.execute("VACUUM")


def _checkpoint(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None, timeout=60)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _back_up(store: Path) -> None:
    with closing(sqlite3.connect(store)) as db, closing(sqlite3.connect(store.with_name("copy"))) as copy:
        db.backup(copy)


def _link(store: Path) -> None:
    store.with_name("link").hardlink_to(store)
    store.with_name("link").unlink()


def _another_command(store: Path) -> None:
    subprocess.run(["proctor", "runs", "list", "--store", str(store)], check=True, capture_output=True)


@pytest.mark.parametrize("deed", [_vacuum, _checkpoint, _back_up, _link, _another_command])
def test_what_keeps_the_file_is_no_reason_to_stop(
    begin: Proctor, folder: Path, work: Path, deed: Callable[[Path], None]
) -> None:
    run = begin()
    deed(work / "p.db")
    (folder / "go").touch()
    _, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, _count_trials(work / "p.db")) == (0, 200), err
    assert not list(work.glob("*rescued*"))


def test_a_link_that_points_elsewhere_later_is_no_reason_to_stop(
    start: Proctor, suite: Proctor, function: Proctor, folder: Path, work: Path
) -> None:
    link = folder / "link"
    link.symlink_to(work)
    target = function(GATED.format(folder=folder, gate=10, last=20))
    name = suite(*((f"t{n}", f"q{n}", f"q{n}") for n in range(20)))
    run = start("run", name, "--target", target, "--store", link / "p.db")
    wait_until(lambda: _count_trials(work / "p.db") >= 10)
    other = folder / "other"
    other.symlink_to(folder)
    other.replace(link)  # at once: a path that leads nowhere for a moment is a lost store
    (folder / "go").touch()
    assert run.wait(timeout=PATIENCE_S) == 0
    assert _count_trials(work / "p.db") == 20


# --- locks -------------------------------------------------------------------------------------------------


@pytest.fixture
def hold() -> Iterator[Callable[[Path], LockHolder]]:
    holders: list[LockHolder] = []

    def make(path: Path) -> LockHolder:
        holders.append(LockHolder(path))
        return holders[-1]

    yield make
    for holder in holders:
        holder.let_go()


@pytest.fixture
def lines() -> Callable[[subprocess.Popen[str], str], str]:
    """Reads the output of a process until a line contains a word."""

    def read(process: subprocess.Popen[str], word: str) -> str:
        assert process.stderr is not None
        for line in process.stderr:
            if word in line:
                return line
        raise AssertionError(f"It ended without {word!r}.")

    return read


def test_a_run_whose_store_is_locked_says_so_and_loses_nothing(
    begin: Proctor, folder: Path, work: Path, hold: Proctor, lines: Proctor
) -> None:
    run = begin()
    holder = hold(work / "p.db")
    (folder / "go").touch()
    notice = lines(run, "locked by another process")
    assert re.search(r"\. \d+ answers wait to be written\.$", notice)
    wait_until(lambda: len(_count_questions(folder)) == 200)  # the queue has room for the other answers
    holder.let_go()
    run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, _count_trials(work / "p.db")) == (0, 200)


def test_no_request_is_sent_when_too_many_answers_wait(
    begin: Proctor, folder: Path, work: Path, hold: Proctor, lines: Proctor
) -> None:
    cases = trial_queue.MAX_WAITING_ROWS + 600
    run = begin(cases=cases, gate=10)
    holder = hold(work / "p.db")
    (folder / "go").touch()
    assert "No request is sent until they are written." in lines(run, "No request is sent")
    assert len(_count_questions(folder)) <= trial_queue.MAX_WAITING_ROWS + 200
    holder.let_go()
    run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, _count_trials(work / "p.db")) == (0, cases)


def test_ctrl_c_while_the_store_is_locked_saves_every_answer_to_a_new_file(
    begin: Proctor, process: Proctor, folder: Path, work: Path, hold: Proctor, lines: Proctor
) -> None:
    run = begin(cases=trial_queue.MAX_WAITING_ROWS + 600, gate=10)
    hold(work / "p.db")
    (folder / "go").touch()
    lines(run, "No request is sent")
    questions = len(_count_questions(folder))
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 4
    assert "is still locked by another process." in err
    (new,) = re.findall(r"--resume=\S+ --store (\S+)", err)
    assert _count_trials(Path(new)) == questions
    report = process("runs", "show", "last", "--store", new, "--json")
    assert (report.run["status"], report.run["total"]) == ("interrupted", questions)


def test_a_run_that_cannot_begin_because_of_a_lock_waits_and_ends_with_ctrl_c(
    start: Proctor, process: Proctor, half: str, work: Path, hold: Proctor, lines: Proctor
) -> None:
    words = ("run", half, "--target", "echo", "--store", work / "p.db")
    process(*words)
    holder = hold(work / "p.db")
    runs = [start(*words), start(*words)]
    for run in runs:
        assert "Waiting for another process" in lines(run, "Waiting")
    runs[0].send_signal(signal.SIGINT)
    _, err = runs[0].communicate(timeout=PATIENCE_S)
    assert (runs[0].returncode, err.splitlines()[-1]) == (2, "Interrupted.")
    holder.let_go()
    runs[1].communicate(timeout=PATIENCE_S)
    assert runs[1].returncode == 1
    assert len(process("runs", "list", "--store", work / "p.db", "--json").json["runs"]) == 2


@pytest.mark.parametrize("words", [("tag", "last", "x"), ("delete", "last", "--yes")])
def test_a_short_command_says_that_the_store_is_locked(
    proctor: Proctor, half: str, work: Path, hold: Proctor, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    proctor("run", half, "--target", "echo", "--store", work / "p.db")
    holder = hold(work / "p.db")
    monkeypatch.setattr("proctor.stores.sql.wait_policy.DEFAULT_PATIENCE_S", 0.1)
    result = proctor("runs", *words, "--store", work / "p.db")
    assert result.code == 4
    assert "is locked by another process. Wait until that process ends, then try again." in result.err
    holder.let_go()
    assert proctor("runs", *words, "--store", work / "p.db").code == 0


# --- full disks --------------------------------------------------------------------------------------------


def test_a_full_disk_stops_the_run_and_every_answer_is_kept_or_counted(
    start: Proctor, process: Proctor, suite: Proctor, function: Proctor, folder: Path, work: Path
) -> None:
    name = suite(*((f"t{n}", f"q{n}", "x") for n in range(400)))
    target = function(
        f"async def f(prompt):\n    open('{folder}/asked.txt', 'a').write(prompt + '\\n')\n"
        "    return prompt * 5000\n"
    )
    store = work / "p.db"
    words = ("run", name, "--target", target, "--store", store, "--concurrency", 2)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))

    run = start(*words, preexec_fn=small_files)
    _, err = run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 4, err
    assert f"The store {store} cannot be written: " in err
    answers = len(_count_questions(folder))
    (command,) = re.findall(r"Continue with: proctor (run --resume=.+)", err)
    match = re.search(r"([\d,]+) answers? could not be saved", err)
    stored_trials = max(_count_trials(path) for path in work.glob("*.db"))
    assert stored_trials + (int(match[1]) if match else 0) == answers
    resumed = process(*shlex.split(command), "--json")
    assert (resumed.run["total"], resumed.run["status"]) == (400, "finished")
    assert len(_count_questions(folder)) == 400

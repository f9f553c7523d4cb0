"""`proctor store`, and stores that are damaged, of an earlier version, or cannot be written."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from proctor.model import Verdict
from proctor.stores import open_store
from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS
from support.cli import Proctor
from support.waiting import wait_until

STORE = Path(".proctor/proctor.db")


@pytest.fixture
def run_id(proctor: Proctor, half: str) -> str:
    """The id of a finished run of ten cases."""
    name: str = proctor("run", half, "--target", "echo", "--no-holdout", "--json").run["run"]
    return name


def _change(statement: str, *values: object, path: Path = STORE) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement, values)


# --- check -------------------------------------------------------------------------------------------------


def test_a_sound_store_is_0_and_nothing_beside_it_changes(proctor: Proctor, run_id: str) -> None:
    before = sorted((path.name, path.stat().st_size) for path in STORE.parent.iterdir())
    result = proctor("store", "check")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{STORE} is sound: 1 run, 10 trials, 1 version, 10 cases, ")
    assert sorted((path.name, path.stat().st_size) for path in STORE.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        ("UPDATE cases SET body = '{}' WHERE key = 1", "row", "Table cases has 1 row that cannot be read"),
        (
            "UPDATE cases SET body = CAST(replace(body, 'say 1', 'say 2') AS BLOB)",
            "row",
            "whose columns and content differ",
        ),
        (
            "UPDATE trials SET position = 77 WHERE position = 7",
            "row",
            "Table trials has 1 row whose columns",
        ),
        (
            "UPDATE trials SET verdict = 'maybe' WHERE position = 7",
            "row",
            "Table trials has 1 row whose columns",
        ),
        ("UPDATE runs SET status = 'running'", "row", "Table runs has 1 row whose columns"),
        ("DELETE FROM suite_cases WHERE position = 3", "suite", "is missing some of its cases"),
        ("DELETE FROM suite_cases WHERE position = 9", "suite", "(9 cases) do not match its digest"),
        ("DELETE FROM cases WHERE key = 1", "suite", "Cases of 1 suite are missing"),
        ("DELETE FROM contents", "run", "The suite of 1 run is missing"),
        ("DELETE FROM trials WHERE position = 5", "run", "is marked as finished but has 9 of 10 trials."),
    ],
)
def test_what_is_wrong_in_a_store_is_1_with_a_remedy(
    proctor: Proctor, run_id: str, damage: str, code: str, words: str
) -> None:
    _change(damage)
    result = proctor("store", "check")
    assert result.code == 1
    assert words in result.out
    problems = proctor("store", "check", "--json").json["problems"]
    assert code in {problem["code"] for problem in problems}
    assert all("`proctor " in problem["remedy"] for problem in problems)


def test_a_run_that_was_cut_short_is_no_problem_and_is_told(proctor: Proctor, run_id: str) -> None:
    with closing(open_store(str(STORE))) as store:
        run = store.run(run_id)
        store.update_run(replace(run, status="interrupted"))
    result = proctor("store", "check")
    assert result.code == 0
    assert f"Run {run_id} is unfinished: it has 10 of 10 trials." in result.out


def test_overwritten_pages_are_a_problem_of_the_file(proctor: Proctor, run_id: str) -> None:
    content = bytearray(STORE.read_bytes())
    content[5 * 4096 : 6 * 4096] = b"\x0d" * 4096
    STORE.write_bytes(content)
    result = proctor("store", "check")
    assert result.code == 1
    assert "The file is damaged in " in result.out
    assert "`proctor store repair NEWFILE`" in result.out


@pytest.mark.parametrize("content", [None, b"text\n" * 2000, b"SQLite format 3\x00"])
def test_what_cannot_be_read_at_all_is_4(proctor: Proctor, folder: Path, content: bytes | None) -> None:
    if content is not None:
        (folder / "s.db").write_bytes(content)
    result = proctor("store", "check", "--store", "s.db", "--json")
    assert (result.code, result.json["problems"], len(result.json["errors"])) == (4, [], 1)


# --- backup ------------------------------------------------------------------------------------------------


def test_a_backup_is_a_store_with_the_same_rows(proctor: Proctor, run_id: str) -> None:
    result = proctor("store", "backup", "b.db")
    assert result.code == 0
    assert result.err.startswith("Backed up to b.db: 1 run, 10 trials, 1 version, 10 cases, ")
    assert proctor("runs", "show", "last").out == proctor("runs", "show", "last", "--store", "b.db").out
    assert proctor("store", "check", "--store", "b.db").code == 0


def test_a_backup_replaces_nothing_and_leaves_nothing(proctor: Proctor, folder: Path, run_id: str) -> None:
    (folder / "b.db").write_text("mine", encoding="utf-8")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("no-such-file")
    before = sorted(folder.rglob("*"))
    for path in ("b.db", "nowhere/b.db", "folder", "link"):
        result = proctor("store", "backup", path)
        assert (result.code, result.err.count("\n")) == (4, 1), path
        assert (folder / "b.db").read_text(encoding="utf-8") == "mine"
        assert sorted(folder.rglob("*")) == before


def test_a_damaged_store_has_no_backup_that_looks_like_one(proctor: Proctor, run_id: str) -> None:
    content = bytearray(STORE.read_bytes())
    content[5 * 4096 : 6 * 4096] = b"\x0d" * 4096
    STORE.write_bytes(content)
    result = proctor("store", "backup", "b.db")
    assert result.code == 4
    assert "`proctor store repair NEWFILE`" in result.err
    assert list(Path().glob("*b.db*")) == []


_WRITES = """
import sys
from datetime import UTC, datetime
from time import sleep
from proctor.model import Output, Trial, Verdict
from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS
from proctor.stores import open_store

store = open_store(sys.argv[1])
for position in range(10, 60_000):
    output = Output(text="x" * 200)
    now = datetime.now(UTC)
    trial = Trial(case_id="c", position=position, sent="sha256:0", output=output, started_at=now)
    store.save_trial(sys.argv[2], trial, Verdict.PASS)
    if position % 100 == 0:
        store.flush()
        print(position, flush=True)
        sleep(0.01)  # slow enough to outlast the backups without filling the disk
"""


@pytest.mark.slow
def test_a_backup_during_a_run_has_its_trials_without_a_gap(
    proctor: Proctor, folder: Path, run_id: str
) -> None:
    words = [sys.executable, "-c", _WRITES, str(STORE), run_id]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as writer:
        assert writer.stdout is not None
        try:
            for number in range(3):
                durable = int(writer.stdout.readline())
                assert proctor("store", "backup", f"b{number}.db").code == 0
                with closing(open_store(f"b{number}.db")) as store:
                    positions = [record.trial.position for record in store.trials(run_id)]
                    assert positions == list(range(len(positions)))
                    assert len(positions) > durable
                    assert store.count_verdicts(run_id)[Verdict.PASS] > durable - 10
        finally:
            writer.kill()


# --- gc ----------------------------------------------------------------------------------------------------


def _age(*paths: Path, days: float = 40) -> None:
    then = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    for path in paths:
        os.utime(path, (then, then))


@pytest.fixture
def litter(
    proctor: Proctor,
    folder: Path,
    run_id: str,
    suite: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, Path]:
    """Files of each kind that `store gc` removes, and files that it must leave."""
    monkeypatch.setenv("PROCTOR_CACHE", str(folder / "models"))
    for number in range(3):
        suite((f"u{number}", "a", "a"), name="unused.jsonl")
        assert proctor("suites", "save", "unused.jsonl").code == 0
    _change("UPDATE versions SET saved_at = '2026-01-01T00:00:00+00:00' WHERE name = 'unused'")
    workspaces = Path(os.environ["PROCTOR_CACHE"]) / "workspaces" / run_id
    workspaces.mkdir(parents=True)
    (workspaces / "file").write_text("x" * 5000, encoding="utf-8")
    others = workspaces.with_name("20200101-000000-ffffff")
    others.mkdir()
    part, bundle = folder / "r.json.4999999.part", folder / f".bundle.{'a1' * 6}.part"
    part.write_text("x", encoding="utf-8")
    bundle.mkdir()
    (bundle / "inside").write_text("x", encoding="utf-8")
    fresh, mine = folder / f".b.{'b2' * 6}.part", folder / "film.part"
    fresh.write_text("x", encoding="utf-8")
    mine.write_text("x", encoding="utf-8")
    cache = STORE.parent / "cache.db"
    cache.write_text("x", encoding="utf-8")
    _age(part, bundle / "inside", bundle, mine, cache)
    _change("INSERT INTO trials SELECT 99, position, repeat, verdict, body FROM trials")
    return {
        "workspaces": workspaces,
        "others": others,
        "part": part,
        "bundle": bundle,
        "fresh": fresh,
        "mine": mine,
        "cache": cache,
    }


def test_gc_lists_what_nobody_needs_and_removes_it_when_told_to(
    proctor: Proctor, litter: dict[str, Path]
) -> None:
    result = proctor("store", "gc")
    assert result.code == 0
    kinds = [line.split()[0] for line in result.out.splitlines()]
    assert kinds == ["workspaces", "parts", "parts", "versions", "versions", "caches", "leftovers", "7"]
    assert "unused@v1" in result.out
    assert "10 trials" in result.out
    assert "Nothing was removed. Add --yes" in result.err
    assert all(path.exists() for path in litter.values())
    assert proctor("store", "gc", "--dry-run").out == result.out
    removal = proctor("store", "gc", "--yes")
    assert removal.err.startswith("Removed 7 items, ")
    removed_kinds = {name for name, path in litter.items() if not path.exists()}
    assert removed_kinds == {"workspaces", "part", "bundle", "cache"}
    assert "unused@v2" not in proctor("suites", "list", "--json").out
    assert proctor("store", "gc").out == "Nothing to remove.\n"
    assert proctor("store", "check").code == 0


def test_gc_of_one_kind_leaves_the_others(proctor: Proctor, litter: dict[str, Path]) -> None:
    items = proctor("store", "gc", "--only", "caches", "--yes", "--json").json["items"]
    assert [(item["kind"], item["bytes"], item["removed"]) for item in items] == [("caches", 1, True)]
    assert litter["workspaces"].exists()


@pytest.mark.slow
def test_gc_leaves_the_workspaces_of_a_run_that_is_being_made(
    proctor: Proctor, litter: dict[str, Path], run_id: str
) -> None:
    claims = (
        "import sys\nfrom proctor.stores import open_store\nstore = open_store(sys.argv[1])\n"
        "store.lock_run(sys.argv[2])\nprint('claimed', flush=True)\nsys.stdin.read()\n"
    )
    words = [sys.executable, "-c", claims, str(STORE), run_id]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        assert "workspaces " not in proctor("store", "gc", "--yes").out
        assert litter["workspaces"].exists()
        other.kill()
    wait_until(lambda: "workspaces " in proctor("store", "gc").out)


# --- repair ------------------------------------------------------------------------------------------------


def _damage(table: str) -> None:
    """Overwrite every page of a table."""
    with closing(sqlite3.connect(STORE)) as db:
        pages = [page for (page,) in db.execute("SELECT pageno FROM dbstat WHERE name = ?", (table,))]
    content = bytearray(STORE.read_bytes())
    for page in pages:
        content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    STORE.write_bytes(content)


def test_a_repaired_run_without_its_trials_is_unfinished_and_is_resumed(
    proctor: Proctor, run_id: str
) -> None:
    _damage("trials")
    assert proctor("store", "check").code == 1
    result = proctor("store", "repair", "new.db")
    assert result.code == 1
    assert ["trials", "0", "10"] in [line.split() for line in result.out.splitlines()]
    assert f"Run {run_id} has 0 of 10 trials and is unfinished now" in result.out
    report = proctor("runs", "show", run_id, "--json", "--store", "new.db").run
    assert (report["status"], report["total"], report["exit_code"]) == ("interrupted", 0, 2)
    assert proctor("run", f"--resume={run_id}", "--store", "new.db", "--quiet").code == 1
    again = proctor("runs", "show", run_id, "--json", "--store", "new.db").run
    assert (again["status"], again["total"], again["passed"]) == ("finished", 10, 5)
    assert proctor("store", "check", "--store", "new.db").code == 0


@pytest.mark.parametrize("table", ["suite_cases", "cases"])
def test_a_repaired_suite_without_its_cases_is_used_again_when_its_file_is_saved(
    proctor: Proctor, run_id: str, half: str, table: str
) -> None:
    before = proctor("runs", "show", run_id).out
    _damage(table)
    result = proctor("store", "repair", "new.db", "--json")
    assert result.json["suites"] == ["half v1"]
    assert result.json["lost"][table] == 10
    for words in (("run", "half@v1", "--target", "echo"), ("runs", "show", run_id), ("regrade", run_id)):
        refusal = proctor(*words, "--store", "new.db")
        assert refusal.code == 4
        assert refusal.err.count("\n") == 1
    assert "half v1" in proctor("suites", "save", half, "--store", "new.db").out
    assert proctor("runs", "show", run_id, "--store", "new.db").out == before
    assert proctor("store", "check", "--store", "new.db").code == 0


def test_repair_replaces_nothing(proctor: Proctor, folder: Path, run_id: str) -> None:
    (folder / "new.db").write_text("mine", encoding="utf-8")
    assert proctor("store", "repair", "new.db").code == 4
    assert proctor("store", "repair", str(STORE)).code == 4
    assert (folder / "new.db").read_text(encoding="utf-8") == "mine"


# --- stores that cannot be used ----------------------------------------------------------------------------


def _make_unusable(kind: str, path: Path) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("hello\n" * 1000, encoding="utf-8")
    elif kind == "no tables":
        content = STORE.read_bytes()
        path.write_bytes(content[:60] + bytes(12) + content[72:])
    else:
        path.write_bytes(STORE.read_bytes()[: 4096 * 9 + (100 if kind == "cut" else 0)])


@pytest.mark.parametrize("kind", ["folder", "loop", "empty", "text", "cut", "cut-at-a-page", "no tables"])
def test_what_is_no_store_is_one_sentence_with_a_remedy_and_stays_as_it_is(
    proctor: Proctor, folder: Path, half: str, run_id: str, kind: str
) -> None:
    path = folder / "s.db"
    _make_unusable(kind, path)
    before = path.read_bytes() if path.is_file() else None
    for words in (
        *([] if kind == "empty" else [("run", half, "--target", "echo")]),  # an empty file can become a store
        ("runs", "list"),
        ("runs", "show", "last"),
        ("runs", "delete", run_id, "-y"),
        ("suites", "list"),
        ("store", "gc"),
        ("store", "backup", "b.db"),
    ):
        result = proctor(*words, "--store", "s.db")
        assert (result.code, result.out, result.err.count("\n")) == (4, "", 1), (words, result)
        assert "s.db" in result.err
        assert "--store" in result.err or "proctor store repair" in result.err, (words, result)
        if kind.startswith(("cut", "text")):
            assert "`proctor store repair NEWFILE`" in result.err, words
    assert before is None or path.read_bytes() == before
    assert [file.name for file in folder.iterdir() if file.name.startswith(("s.db", "b.db"))] == ["s.db"]


def test_the_log_of_another_store_is_not_taken_for_its_own(
    proctor: Proctor, folder: Path, half: str, run_id: str
) -> None:
    proctor("run", half, "--target", "echo", "--tag", "no-such", "--store", "other.db")
    with closing(open_store("other.db")) as other:
        proctor("run", half, "--target", "echo", "--no-holdout", "--quiet", "--store", "other.db")
        (folder / f"{STORE}-wal").write_bytes((folder / "other.db-wal").read_bytes())
        assert list(other.runs())
    before = STORE.read_bytes()
    result = proctor("runs", "list")
    assert (result.code, result.err.count("\n")) == (4, 1)
    assert f"{STORE.name}-wal is not the log of the store" in result.err
    assert STORE.read_bytes() == before
    assert proctor("store", "repair", "new.db").code == 0
    assert run_id in proctor("runs", "list", "--store", "new.db").out
    (folder / f"{STORE}-wal").unlink()
    assert run_id in proctor("runs", "list").out


def test_a_store_that_was_emptied_is_told_from_a_new_one(proctor: Proctor, half: str, run_id: str) -> None:
    STORE.write_bytes(b"")
    result = proctor("run", half, "--target", "echo")
    assert result.code == 4
    assert "is empty, but proctor.db-claims shows that it had content" in result.err
    assert STORE.read_bytes() == b""


# --- stores of other versions ------------------------------------------------------------------------------


def _make_older(path: Path, version: int) -> bytes:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for step in MIGRATIONS[:version]:
            step(db)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {version}")
    return path.read_bytes()


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_store_of_an_earlier_version_is_backed_up_before_it_is_changed(
    proctor: Proctor, folder: Path, half: str, version: int
) -> None:
    _make_older(folder / "s.db", version)
    (folder / f"s.db.backup-v{version}").write_text("mine", encoding="utf-8")
    result = proctor("run", half, "--target", "echo", "--quiet", "--store", "s.db")
    assert result.code == 1
    backup = folder / f"s.db.backup-v{version}-2"
    assert (
        f"is being migrated from version {version} to {len(MIGRATIONS)}. Its backup is {backup}."
        in result.err
    )
    with closing(sqlite3.connect(backup)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert (folder / f"s.db.backup-v{version}").read_text(encoding="utf-8") == "mine"
    assert proctor("runs", "list", "--store", "s.db").err == ""


_FULL = """
import resource, sys
from proctor.cli.main import main

resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
sys.argv = ["proctor", "suites", "list", "--store", "s.db"]
main()
"""


@pytest.mark.slow
def test_without_room_for_the_backup_the_store_stays_as_it_is(folder: Path) -> None:
    before = _make_older(folder / "s.db", 5)
    result = subprocess.run([sys.executable, "-c", _FULL], capture_output=True, encoding="utf-8", check=False)
    assert result.returncode == 4
    assert result.stderr.count("\n") == 1
    assert "its backup" in result.stderr
    assert "cannot be written" in result.stderr
    assert "Nothing was changed." in result.stderr
    assert (folder / "s.db").read_bytes() == before
    assert not list(folder.glob("*backup*"))


def test_a_store_of_a_newer_version_is_refused_by_every_command(proctor: Proctor, run_id: str) -> None:
    _change("PRAGMA user_version = 99")
    for words in (
        ("runs", "list"),
        ("store", "check"),
        ("store", "backup", "b.db"),
        ("store", "repair", "n.db"),
    ):
        result = proctor(*words)
        assert result.code == 4
        assert "written by a newer version of Proctor (store version 99" in result.err

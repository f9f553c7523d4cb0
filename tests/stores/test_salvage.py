"""A repair keeps every row on undamaged pages; SQLite's own `dbstat` says which rows these are."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.codec import sent_digest
from proctor.errors import StoreError, UsageError
from proctor.model import Comment, HoldoutAccess, Label, Run, Suite, Verdict
from proctor.stores.sqlite.integrity import check_store
from proctor.stores.sqlite.salvage import salvage_store
from proctor.stores.sqlite.store import SqliteStore
from support.builders import ECHO, NOON, make_case, make_trial
from support.stores import begin_run

PAGE = 4096
KEYS = {
    "trials": "rowid",
    "cases": "rowid",
    "runs": "rowid",
    "secrets": "rowid",
    "labels": "rowid",
    "comments": "rowid",
    "looks": "rowid",
    "contents": "rowid",
    "suite_cases": "suite, position",
}
"""The columns by which the rows of tables are ordered in the file."""
Rows = dict[str, dict[tuple[Any, ...], set[int]]]
Contents = dict[str, dict[tuple[Any, ...], tuple[Any, ...]]]


@pytest.fixture(scope="module")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make_large_store(tmp_path_factory.mktemp("large") / "s.db")


@pytest.fixture(scope="module")
def row_pages(store_path: Path) -> Rows:
    with closing(sqlite3.connect(store_path)) as db:
        return {table: _find_row_pages(db, table, key) for table, key in KEYS.items()}


def _make_large_store(path: Path) -> Path:
    """Three runs of 1,500 trials, some of them of many pages, and one that was deleted."""
    dice = random.Random(7)
    with closing(SqliteStore.open_file(str(path))) as store:
        for number in range(4):
            writer = store.open_suite_writer()
            for position in range(1500):
                case = make_case(f"s{number}-c{position}", "?" * dice.choice((9, 90, 6000)))
                writer.add(case, sent_digest(case))
            digest = f"sha256:{number}"
            suite = writer.commit(Suite(name=f"s{number}", dialect="d", digest=digest, case_count=1500))
            run = Run(id=f"r{number}", group="g", suite=suite, target=ECHO, started_at=NOON, planned=1500)
            store.add_run(run)
            for position in range(1500):
                text = "x" * dice.choice((10, 300, 3000, 12_000))
                answer = make_trial(text, case_id=f"s{number}-c{position}", position=position)
                store.save_trial(run.id, answer, Verdict.PASS)
                if position % 50 == 0:
                    store.add_label(Label(run=run.id, case_id=str(position), by="me", passed=True))
                    comment = Comment(run=run.id, case_id=str(position), by="me", text="Look here.")
                    store.add_comment(comment)
            store.add_holdout_access(HoldoutAccess(suite=digest, run=run.id, kind="rate", at=NOON))
            store.update_run(replace(run, status="finished"))
        store.delete_run("r2")
        store.delete_version("s2", "v1")
    return path


def _find_row_pages(db: sqlite3.Connection, table: str, key: str) -> dict[tuple[Any, ...], set[int]]:
    """The pages on which each row lies, by the row's key, according to SQLite's table `dbstat`."""
    nodes: dict[str, tuple[int, str, int]] = {}
    chains: dict[str, set[int]] = defaultdict(set)
    for path, page, kind, cells in db.execute(
        "SELECT path, pageno, pagetype, ncell FROM dbstat WHERE name = ?", (table,)
    ):
        if kind == "overflow":
            chains[path.partition("+")[0]].add(page)
        else:
            nodes[path] = (page, kind, cells)
    rows: list[set[int]] = []
    has_rowid = key == "rowid"

    def visit(path: str) -> None:
        page, kind, cells = nodes[path]
        for cell in range(cells):
            if kind == "internal":
                visit(f"{path}{cell:03x}/")
            if kind == "leaf" or not has_rowid:
                rows.append({page} | chains[f"{path}{cell:03x}"])
        if kind == "internal":
            visit(f"{path}{cells:03x}/")

    visit("/")
    keys = db.execute(f"SELECT {key} FROM {table} ORDER BY {key}").fetchall()
    return dict(zip(keys, rows, strict=True))


def _read_contents(path: Path) -> Contents:
    with closing(sqlite3.connect(path)) as db:
        return {
            table: {
                tuple(row[: len(key.split(","))]): tuple(row[len(key.split(",")) :])
                for row in db.execute(f"SELECT {key}, * FROM {table}")
            }
            for table, key in KEYS.items()
        }


def _damage(path: Path, pages: set[int], dice: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for page in pages:
        kind = dice.randrange(3)
        junk = dice.randbytes(PAGE) if kind == 0 else bytes(PAGE) if kind == 1 else b"\x0d" * PAGE
        content[(page - 1) * PAGE : page * PAGE] = junk
    path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize("first_page", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_with_40_overwritten_pages_every_row_elsewhere_is_kept(
    store_path: Path, row_pages: Rows, tmp_path: Path, seed: int, first_page: bool
) -> None:
    dice = random.Random(seed)
    damaged, repaired = tmp_path / f"{seed}.db", tmp_path / f"{seed}-new.db"
    shutil.copy(store_path, damaged)
    pages = set(dice.sample(range(2, damaged.stat().st_size // PAGE), 39))
    pages.add(1 if first_page else 2)
    _damage(damaged, pages, dice)
    before = damaged.read_bytes()
    repaired.unlink(missing_ok=True)

    report = salvage_store(damaged, repaired)

    assert damaged.read_bytes() == before
    old, new = _read_contents(store_path), _read_contents(repaired)
    for table, rows in row_pages.items():
        intact = {key for key, places in rows.items() if not places & pages}
        if table not in ("looks", "contents"):  # indexes are enough to restore these
            assert new[table].keys() == intact, table
        assert new[table].keys() >= intact
        if table not in ("runs", "contents"):  # these then say that something is missing
            assert {key: new[table][key] for key in intact} == {key: old[table][key] for key in intact}
        lost_count = len(rows) - len(intact)
        assert report.lost.get(table, 0) <= lost_count
    _check_repaired_store(repaired, report.runs)
    damaged.unlink()
    repaired.unlink()


def _check_repaired_store(path: Path, incomplete_runs: tuple[tuple[str, int, int], ...]) -> None:
    """Checks that only runs have problems, and that no run that lost trials is finished."""
    report = check_store(str(path))
    assert {problem.code for problem in report.problems} <= {"run"}
    assert not any("finished" in problem.message for problem in report.problems)
    with closing(SqliteStore.open_file(str(path))) as store:
        for run in store.runs():
            trial_count = sum(store.count_verdicts(run.id).values())
            assert (run.status == "finished") == (trial_count == 1500)
            assert (run.id, trial_count, 1500) in incomplete_runs or trial_count == 1500
        for saved in store.versions():
            assert len(list(store.cases(saved.suite.content))) == 1500


@pytest.mark.slow
def test_trials_in_the_log_of_a_killed_process_are_kept(store_path: Path, tmp_path: Path) -> None:
    shutil.copy(store_path, tmp_path / "s.db")
    store = SqliteStore.open_file(str(tmp_path / "s.db"))
    store.save_trial("r0", make_trial("late", position=1600), Verdict.PASS)
    store.flush()
    for ending in ("", "-wal"):  # as a kill at this moment leaves them
        shutil.copy(tmp_path / f"s.db{ending}", tmp_path / f"killed.db{ending}")
    store.close()
    assert (tmp_path / "killed.db-wal").stat().st_size > 0
    report = salvage_store(tmp_path / "killed.db", tmp_path / "new.db")
    assert (report.lost, report.runs, report.suites) == ({}, (), ())
    with closing(SqliteStore.open_file(str(tmp_path / "new.db"))) as new:
        assert [stored_trial.trial.position for stored_trial in new.trials("r0")][-1] == 1600
    assert not check_store(str(store_path)).problems


@pytest.mark.slow
def test_a_truncated_store_keeps_what_is_left(store_path: Path, tmp_path: Path) -> None:
    truncated = tmp_path / "cut.db"
    truncated.write_bytes(store_path.read_bytes()[: 200 * PAGE + 1234])
    report = salvage_store(truncated, tmp_path / "new.db")
    assert report.kept["trials"] + report.kept["cases"] > 0
    assert report.lost or report.runs


@pytest.mark.slow
def test_a_new_run_in_a_repaired_store_gets_no_trials_of_a_lost_one(
    store_path: Path, row_pages: Rows, tmp_path: Path
) -> None:
    shutil.copy(store_path, tmp_path / "s.db")
    _damage(tmp_path / "s.db", set().union(*row_pages["runs"].values()), random.Random(1))
    report = salvage_store(tmp_path / "s.db", tmp_path / "new.db")
    assert (report.kept["runs"], report.kept["trials"]) == (0, 4500)
    with closing(SqliteStore.open_file(str(tmp_path / "new.db"))) as store:
        begin_run(store, "fresh")
        assert store.count_verdicts("fresh") == {}


@pytest.mark.parametrize("content", [b"", b"hello\n" * 5000, b"SQLite format 3\x00" + bytes(9000)])
def test_a_file_that_is_no_store_is_refused_and_no_file_is_written(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "s.db").write_bytes(content)
    with pytest.raises(StoreError, match="contains no rows of a store"):
        salvage_store(tmp_path / "s.db", tmp_path / "new.db")
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    SqliteStore.open_file(str(tmp_path / "s.db")).close()
    (tmp_path / "new.db").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="already exists"):
        salvage_store(tmp_path / "s.db", tmp_path / "new.db")
    assert (tmp_path / "new.db").read_text(encoding="utf-8") == "mine"

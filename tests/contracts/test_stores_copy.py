"""Copies of stores: they have the digest and the content of the store, or do not exist."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec.structs import replace

from proctor.codec import call_digest, settings_digest
from proctor.errors import StoreError, UsageError
from proctor.model import Calibration, Comment, HoldoutAccess, Label, Run, Verdict
from proctor.protocols import Store
from proctor.services.suites.trash import Trash
from proctor.store_protocol import StoredBatch
from proctor.stores import locate_store
from proctor.stores.location import StoreLocation
from proctor.stores.sql.tables import TABLES
from proctor.stores.store_copy import StoreCopy, compute_digest, copy_store
from support.builders import make_case, make_trial
from support.stores import add_run, begin_run, save_cases

AT = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOSTILE = "%s ? ' \" \\ \\x00 $1 {} \x00 \x1b[31m 🦉 \u202e\ufdd0"

TAG = HOSTILE.replace("\x00", "")

LONG = "".join(chr(number) for number in range(0x4E00, 0x6E00))
"""More bytes than an index of PostgreSQL takes."""


@pytest.fixture
def source(durable_location: StoreLocation) -> StoreLocation:
    return durable_location


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    """An empty store of every kind: an SQLite file that is missing, or tables without rows."""
    if request.param == "sqlite":
        return locate_store(str(tmp_path / "copies" / "copy.db"))
    from proctor.stores.postgresql.location import postgresql_location

    server = request.getfixturevalue("postgres_server")
    address = server.address(schema=f"copy_{uuid4().hex}")
    location = postgresql_location(address.removeprefix("postgresql://"))
    location.migrate()
    return location


def fill(store: Store, folder: Path) -> None:
    """Saves something of every kind to a store."""
    hostile_case = make_case(f"id {HOSTILE}", HOSTILE, expected=[None, HOSTILE, 1.5], tags=("t", HOSTILE))
    suites = [
        save_cases(store, [make_case(f"c{number}"), hostile_case], digest=f"sha256:{number:064x}")
        for number in range(1, 4)
    ]
    save_cases(store, [make_case("saved only")], name="größe")
    store.delete_version("s", "v2")
    store.claim_name("s", str(folder.joinpath("suites", *([LONG[:80]] * 15), "größe.jsonl")))
    for number, suite in enumerate((suites[0], suites[2], suites[0])):
        run = add_run(store, suite, id=f"r{number}", planned=4, tags=("tag", TAG))
        _make_trials(store, run)
    store.delete_run("r2")
    store.save_variable_digests("r0", {"NAME": b"\x00\xff" * 16, "b": b"2"})
    store.save_batch("r0", StoredBatch(key="k", custom_ids=("1", HOSTILE), submitted_at=AT))
    store.save_batch("r1", StoredBatch(key="l", custom_ids=(), submitted_at=AT, batch_id="x", state="ended"))
    store.save_totals("r0", replace(store.totals("r0"), body=b"totals"))
    store.add_calibration(_CALIBRATION)
    store.add_holdout_access(HoldoutAccess(suite=suites[0].digest, run="r0", kind="rate", at=AT))
    store.add_holdout_access(
        HoldoutAccess(suite=suites[0].digest, run="r2", kind="reveal", at=AT, person="a")
    )
    labels = [
        store.add_label(Label(run="r0", case_id=f"id {HOSTILE}", passed=passed, by=by), held_out=passed)
        for passed, by in ((True, "ana"), (False, HOSTILE), (False, "ana"), (True, "last"))
    ]
    store.remove_label(labels[-1].number)
    store.add_comment(Comment(run="r1", case_id=LONG, by="ana", text=HOSTILE))
    store.add_label(Label(run="r1", case_id=LONG, passed=True, by="ana"))
    store.flush()


_CALIBRATION = Calibration(
    judge="sha256:" + "0" * 64, name=HOSTILE, at=AT, labels="sha256:1", count=2, agreed=1
)


def _make_trials(store: Store, run: Run) -> None:
    for position, repeat, verdict in (
        (1, 1, Verdict.FAIL),
        (0, 1, None),
        (1, 0, Verdict.PASS),
        (0, 0, Verdict.ERROR),
    ):
        trial = make_trial(HOSTILE, case_id="c", position=position, repeat=repeat)
        if verdict is None:
            store.save_output(run.id, trial)
        else:
            store.save_trial(run.id, trial, verdict)
        store.flush()
    store.update_run(replace(run, status="finished"))


def read_everything(location: StoreLocation) -> dict[str, Any]:
    """Returns the results of all reading methods of a store."""
    with closing(location.open_store()) as store:
        runs = list(store.runs())
        versions = store.versions()
        first = versions[0].suite
        return {
            "versions": versions,
            "suites": [
                store.suite(name, version) for name in ("s", "größe") for version in (None, "v1", "v2")
            ],
            "cases": [list(store.cases(saved.suite.content)) for saved in versions],
            "heads": [list(store.case_heads(saved.suite.content)) for saved in versions],
            "paths": [store.path_for_name(saved.suite.name) for saved in versions],
            "names": store.names_for_path(store.path_for_name("s") or ""),
            "runs": runs,
            "found": [store.run(word).id for word in ("r0", "last", "tag", TAG)],
            "equivalent": [
                store.find_equivalent_runs(
                    run.suite.digest,
                    call_digest(run.target, run.prompt),
                    settings_digest((run.settings.selection, run.settings.repeats)),
                )
                for run in runs
            ],
            "secrets": [store.secret(run.id) for run in runs],
            "variables": [store.variable_digests(run.id) for run in runs],
            "batches": [store.batches(run.id) for run in runs],
            "trials": [list(store.trials(run.id)) for run in runs],
            "turns": [list(store.trials_since(run.id)) for run in runs],
            "progress": [store.get_progress(run.id) for run in runs],
            "totals": [store.totals(run.id) for run in runs],
            "verdicts": [store.count_verdicts(run.id) for run in runs],
            "case counts": [store.count_cases(run.id) for run in runs],
            "places": [store.trial_places(run.id) for run in runs],
            "in run": [store.case_in_run(run, position) for run in runs for position in (0, 1, 2)],
            "calibrations": store.calibrations(_CALIBRATION.judge),
            "accesses": store.holdout_accesses(first.digest),
            "labels": store.labels(),
            "labelled": store.count_labelled_answers(),
            "comments": [store.comments(run.id) for run in runs],
        }


def test_every_reading_method_returns_the_same_for_a_copy(
    source: StoreLocation, target: StoreLocation, tmp_path: Path
) -> None:
    with closing(source.open_store()) as store:
        fill(store, tmp_path)
    result = copy_store(source, target)
    expected = compute_digest(source)
    assert result == StoreCopy(
        source_digest=expected.digest,
        copy_digest=expected.digest,
        rows=expected.rows,
        deleted_versions=0,
        answers=None,
    )
    assert all(expected.rows.values())
    assert compute_digest(target) == expected
    assert read_everything(target) == read_everything(source)


def test_numbers_of_deleted_rows_are_not_used_again_in_a_copy(
    source: StoreLocation, target: StoreLocation, tmp_path: Path
) -> None:
    with closing(source.open_store()) as store:
        fill(store, tmp_path)
    copy_store(source, target)
    numbers = []
    for location in (source, target):
        with closing(location.open_store()) as store:
            label = store.add_label(Label(run="r0", case_id="c", passed=True, by="zoe"))
            run = begin_run(store, "r9")
            store.save_trial("r9", make_trial("4"), Verdict.PASS)
            store.flush()
            saved = save_cases(store, [make_case("new")], digest="sha256:" + "9" * 64)
            numbers.append((label.number, store.totals(run.id).key, saved.version))
    assert numbers[0] == numbers[1]
    assert numbers[0][2] == "v5"


def test_a_copy_of_a_copy_in_another_folder_has_the_digest_of_the_store(
    source: StoreLocation, target: StoreLocation, tmp_path: Path
) -> None:
    with closing(source.open_store()) as store:
        fill(store, tmp_path)
    back = locate_store(str(tmp_path / "far" / "away" / "back.db"))
    first, second = copy_store(source, target), copy_store(target, back)
    assert first.copy_digest == second.copy_digest == compute_digest(back).digest
    assert read_everything(back) == read_everything(source)


def test_every_change_of_content_changes_the_digest(source: StoreLocation, tmp_path: Path) -> None:
    digests = []
    with closing(source.open_store()) as store:
        run = begin_run(store, cases=2)
        changes: list[Callable[[], object]] = [
            lambda: store.save_output(run.id, make_trial("4")),
            lambda: store.save_trial(run.id, make_trial("4"), Verdict.PASS),
            lambda: store.update_run(replace(run, status="finished")),
            lambda: store.add_label(Label(run="r1", case_id="c", passed=True, by="ana")),
            lambda: store.remove_label(1),
        ]
        for change in changes:
            change()
            store.flush()
            digests.append(compute_digest(source).digest)
        assert len(set(digests)) == 4
        assert digests[-1] == digests[-3]  # a removed label leaves nothing
        store.save_totals(run.id, replace(store.totals(run.id), body=b"cache"))
        store.claim_name("s", str(tmp_path / "s.jsonl"))
        assert compute_digest(source).digest == digests[-1]


def test_a_store_with_content_is_refused_and_stays_as_it_is(
    source: StoreLocation, target: StoreLocation, tmp_path: Path
) -> None:
    with closing(source.open_store()) as store:
        fill(store, tmp_path)
    with closing(target.open_store()) as store:
        store.claim_name("other", str(tmp_path / "x"))
    before = compute_digest(target)
    with pytest.raises(StoreError, match="already has content"):
        copy_store(source, target)
    assert compute_digest(target) == before


def test_an_empty_store_is_filled_and_an_empty_one_can_be_copied(
    source: StoreLocation, target: StoreLocation
) -> None:
    for location in (source, target):
        location.open_store().close()
    assert sum(copy_store(source, target).rows.values()) == 0
    with closing(source.open_store()) as store:
        begin_run(store)
    assert copy_store(source, target).rows["runs"] == 1


def test_stores_in_memory_and_missing_ones_are_errors(target: StoreLocation, tmp_path: Path) -> None:
    memory = locate_store(":memory:")
    with pytest.raises(UsageError, match="in memory"):
        copy_store(memory, target)
    with pytest.raises(UsageError, match="in memory"):
        copy_store(target, memory)
    with pytest.raises(StoreError, match="There is no store"):
        copy_store(locate_store(str(tmp_path / "none.db")), target)


def test_deleted_versions_can_be_restored_from_a_copy(source: StoreLocation, target: StoreLocation) -> None:
    with closing(source.open_store()) as store:
        save_cases(store, [make_case("a"), make_case("b")], digest="sha256:" + "1" * 64)
        save_cases(store, [make_case("a")], digest="sha256:" + "2" * 64)
        Trash(store, make_trash_opener(source)).discard("s", "v1")
    assert copy_store(source, target).deleted_versions == 1
    with closing(target.open_store()) as store:
        trash = Trash(store, make_trash_opener(target))
        assert [deleted.name for deleted in trash.list_deleted()] == ["s"]
        assert trash.restore("s", "v1").version == "v1"
        assert [saved.suite.version for saved in store.versions()] == ["v1", "v2"]
        assert trash.list_deleted() == []


def make_trash_opener(location: StoreLocation) -> Any:
    return lambda: closing(location.trash().open_store())


def test_a_copy_that_ended_after_the_deleted_versions_can_be_repeated(
    source: StoreLocation, target: StoreLocation
) -> None:
    with closing(source.open_store()) as store:
        save_cases(store, [make_case("a")], digest="sha256:" + "1" * 64)
        Trash(store, make_trash_opener(source)).discard("s", None)
    source_trash, target_trash = source.trash().rows, target.trash().rows
    assert source_trash is not None
    assert target_trash is not None
    with source_trash.read_rows() as reader, target_trash.write_rows() as writer:
        for table in TABLES:
            for page in reader.iter_pages(table):
                writer.write_rows(table, page)
    assert copy_store(source, target).deleted_versions == 1


@pytest.mark.slow
def test_answers_of_sixteen_mebibytes_are_copied(source: StoreLocation, target: StoreLocation) -> None:
    text = HOSTILE * 2**18  # 19 MB as JSON
    with closing(source.open_store()) as store:
        run = begin_run(store)
        store.save_trial(run.id, make_trial(text), Verdict.PASS)
    copy_store(source, target)
    with closing(target.open_store()) as store:
        (stored_trial,) = store.trials("r1")
        assert stored_trial.trial.output is not None
        assert stored_trial.trial.output.text == text


# --- while others write ------------------------------------------------------------------------------------


def test_rows_that_are_written_during_a_copy_are_not_in_it(
    source: StoreLocation, target: StoreLocation
) -> None:
    with closing(source.open_store()) as store:
        run = begin_run(store)
        for position in range(3):
            store.save_trial(run.id, make_trial("4", position=position), Verdict.PASS)
        store.flush()
        before = compute_digest(source)

        def write(_count: int, _total: int) -> None:
            with closing(source.open_store()) as other:
                other.add_label(Label(run="r1", case_id="c", passed=True, by=os.urandom(4).hex()))
                other.save_trial("r1", make_trial("5", repeat=int.from_bytes(os.urandom(3))), Verdict.FAIL)

        result = copy_store(source, target, on_progress=write)
        assert result.source_digest == result.copy_digest == before.digest
        assert compute_digest(target) == before
        assert compute_digest(source) != before


_COPY_SCRIPT = """
import os, signal, sys
from proctor.stores import locate_store
from proctor.stores.sql.tables import TABLES
from proctor.stores.store_copy import copy_store
def progress(count, total):
    if count >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
copy_store(locate_store(sys.argv[1]), locate_store(sys.argv[2]), on_progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("rows", [20, 70])
def test_a_copy_that_is_killed_leaves_nothing_and_can_be_repeated(
    source: StoreLocation, target: StoreLocation, tmp_path: Path, rows: int
) -> None:
    with closing(source.open_store()) as store:
        fill(store, tmp_path)
    was_there = target.exists()
    command = [sys.executable, "-c", _COPY_SCRIPT, source.address, target.address, str(rows)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert target.exists() == was_there
    assert copy_store(source, target).copy_digest == compute_digest(source).digest


# --- caches ------------------------------------------------------------------------------------------------


def test_the_cache_is_copied_on_request_and_no_answer_is_replaced(
    source: StoreLocation, target: StoreLocation
) -> None:
    for location in (source, target):
        location.open_store().close()
    with closing(source.open_answer_cache()) as cache:
        cache.put(b"\x00", "c \x00", b"parts", b"answer", "")
        cache.put(b"\x01", "c", b"parts", None, "failed")
        cache.put(b"\x02", "long " * 2000, b"parts", b"new", "")
    with closing(target.open_answer_cache()) as cache:
        cache.put(b"\x01", "c", b"parts", b"known", "")
        cache.put(b"\x02", "c", b"parts", None, "failed")
    assert copy_store(source, target, with_cache=True).answers == 3
    with closing(target.open_answer_cache()) as cache:
        answers = [cache.get(bytes([number])) for number in range(4)]
        assert cache.earlier_parts("c \x00") == [b"parts"]
    assert answers == [(b"answer", ""), (b"known", ""), (b"new", ""), None]

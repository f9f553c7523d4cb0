"""Commands on a store that cannot be written: on a read-only mount, or in a folder without permission."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS
from support.cli import Proctor
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

Results = dict[tuple[str, ...], tuple[int, str, str]]

READS = (
    ("runs", "list"),
    ("runs", "show", "last"),
    ("runs", "show", "last", "--failures"),
    ("runs", "export", "last", "-o", "../out.json"),
    ("compare", "last", "last"),
    ("drift", "half", "--target", "echo"),
    ("attest", "last", "-o", "../bundle", "--no-sign"),
    ("certify", "last", "--no-sign", "--min-cases", "5", "-o", "../certificate.md"),
    ("suites", "list"),
    ("suites", "show", "half"),
    ("suites", "export", "half", "-o", "../exported.jsonl"),
    ("store", "check"),
    ("store", "backup", "../b.db"),
    ("store", "repair", "../r.db"),
    ("store", "gc", "--dry-run"),
)
WRITES = (
    ("run", "../half.jsonl", "--target", "echo"),
    ("regrade", "last"),
    ("runs", "tag", "last", "t"),
    ("runs", "delete", "last", "--yes"),
    ("suites", "save", "../half.jsonl"),
    ("suites", "delete", "half", "--yes"),
    ("store", "gc", "--yes"),
)

_RUNS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from proctor.cli.main import _invoke

for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = _invoke(words)
    print(json.dumps([words, code, out.getvalue(), err.getvalue()]))
"""
_MOUNT = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"']
_PRIVILEGES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]


def _works(*words: str) -> bool:
    try:
        return subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _is_root() -> bool:
    return os.geteuid() == 0


@pytest.fixture(params=["mount", "permissions"])
def run_read_only(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Results]:
    """Runs commands on the store `store/s.db`, which they cannot write."""
    folder = tmp_path / "store"
    folder.mkdir()
    if request.param == "mount":
        if not (_is_root() and _works(*_MOUNT, str(folder), "true")):
            pytest.skip("nothing can be mounted here")
        prefix = [*_MOUNT, str(folder)]
    else:
        if _is_root() and not _works(*_PRIVILEGES, "true"):
            pytest.skip("root cannot give up its privileges here")
        prefix = _PRIVILEGES if _is_root() else []

    def run(*commands: tuple[str, ...]) -> Results:
        words = [[*command, "--store", "s.db"] for command in commands]
        with _without_permissions(folder):
            process = subprocess.run(
                [*prefix, sys.executable, "-c", _RUNS, json.dumps(words)],
                cwd=folder,
                capture_output=True,
                encoding="utf-8",
                timeout=PATIENCE_S,
                check=False,
            )
        assert (process.returncode, process.stderr) == (0, "")
        rows = [json.loads(line) for line in process.stdout.splitlines()]
        results = {tuple(result[:-2]): (code, out, err) for result, code, out, err in rows}
        assert not any("Traceback" in err or "Internal error" in err for _, _, err in results.values())
        return results

    return run


@contextmanager
def _without_permissions(folder: Path) -> Iterator[None]:
    paths = [folder, *folder.iterdir()]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield
    for path, mode in zip(paths, modes, strict=True):
        path.chmod(mode)


@pytest.mark.skipif("CI" not in os.environ, reason="elsewhere a machine may allow neither")
def test_in_continuous_integration_one_of_the_ways_is_tried() -> None:
    assert not _is_root() or _works(*_PRIVILEGES, "true") or _works(*_MOUNT, "/mnt", "true")


@pytest.fixture
def store_folder(proctor: Proctor, half: str, folder: Path, run_read_only: object) -> Path:
    """The folder of a store with two runs of ten cases, none held out."""
    for _ in range(2):
        proctor("run", half, "--target", "echo", "--no-holdout", "--quiet", "--store", "store/s.db")
    return folder / "store"


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_reads_works_and_what_writes_is_refused_in_one_sentence(
    store_folder: Path, run_read_only: Callable[..., Results]
) -> None:
    before = _snapshot(store_folder)
    results = run_read_only(*READS, *WRITES)
    for command in READS:
        code, _, err = results[command]
        assert code == 0, (command, err)
    for command in WRITES:
        code, out, err = results[command]
        assert (code, out, err.count("\n")) == (4, "", 1), (command, err)
        assert "The store s.db is read-only. Copy it to a folder" in err
    assert _snapshot(store_folder) == before


@pytest.mark.parametrize("has_index", [True, False])
def test_trials_in_the_write_ahead_log_are_read(
    store_folder: Path, proctor: Proctor, folder: Path, run_read_only: Callable[..., Results], has_index: bool
) -> None:
    shutil.copytree(store_folder, folder / "live")
    with closing(sqlite3.connect(folder / "live" / "s.db", isolation_level=None)) as other:
        other.execute(
            "UPDATE runs SET status = 'interrupted', body = replace(body, 'finished', 'interrupted')"
        )
        other.execute("UPDATE runs SET body = CAST(body AS BLOB)")
        for ending in ("", "-wal", *(["-shm"] if has_index else [])):
            shutil.copy(folder / "live" / f"s.db{ending}", store_folder / f"s.db{ending}")
    before = _snapshot(store_folder)
    results = run_read_only(("runs", "list"), ("store", "backup", "../b.db"), ("runs", "tag", "last", "t"))
    assert results["runs", "list"][1].count("interrupted") == 2
    assert results["store", "backup", "../b.db"][0] == 0
    assert results["runs", "tag", "last", "t"][0] == 4
    after = _snapshot(store_folder)
    assert {name: after[name] for name in ("s.db", "s.db-wal")} == {
        name: before[name] for name in ("s.db", "s.db-wal")
    }
    assert proctor("runs", "list", "--store", "b.db").out.count("interrupted") == 2


def test_a_holdout_is_not_shown_where_the_look_cannot_be_counted(
    proctor: Proctor, folder: Path, half: str, run_read_only: Callable[..., Results]
) -> None:
    proctor("run", half, "--target", "echo", "--holdout", "0.5", "--quiet", "--store", "store/s.db")
    commands = (
        ("runs", "show", "last"),
        ("runs", "show", "last", "--failures", "--reveal"),
        ("runs", "export", "last", "-o", "../o.json"),
        ("attest", "last", "--no-sign", "-o", "../bundle"),
        ("compare", "last", "last"),
    )
    for command, (code, out, err) in run_read_only(*commands).items():
        assert (code, out) == (4, ""), command
        assert "holdout cases, and the store must count each holdout access" in err
        assert "is read-only, so nothing is shown." in err
    assert not (folder / "o.json").exists()
    assert not (folder / "bundle").exists()
    assert run_read_only(("runs", "list"))["runs", "list"][0] == 0


def test_a_store_of_an_earlier_version_is_read_as_it_would_be_after_its_migration(
    folder: Path, run_read_only: Callable[..., Results]
) -> None:
    path = folder / "store" / "s.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        MIGRATIONS[0](db)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("PRAGMA user_version = 1")
        content = "sha256:" + sha256(b"proctor/content/1\n").hexdigest()  # of no case
        header = {"name": "old", "dialect": "d", "digest": "sha256:aa", "content": content}
        row = ("sha256:aa", content, "old", json.dumps(header).encode())
        db.execute("INSERT INTO suites (digest, content, name, body) VALUES (?, ?, ?, ?)", row)
    before = _snapshot(folder / "store")
    results = run_read_only(("suites", "list"), ("store", "check"))
    assert results["suites", "list"][0] == 0
    assert "old" in results["suites", "list"][1]
    assert results["store", "check"][0] == 0
    assert _snapshot(folder / "store") == before

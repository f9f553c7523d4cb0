"""Versions in a store of an earlier version of Proctor, and of several processes that save at once."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proctor.codec import encode, sent_digest, target_digest
from proctor.model import Case, Message, ResponseFormat, Suite, Tool, Trial, Verdict
from proctor.services.suites.builtin_suites import TIERS, builtin_path
from proctor.services.suites.load import load_suite
from proctor.stores.sqlite.migrations import APPLICATION_ID, MIGRATIONS
from proctor.stores.sqlite.store import SqliteStore
from support.builders import ECHO, make_case, make_trial
from support.waiting import PATIENCE_S

Open = Callable[[Path], SqliteStore]


class OldStore:
    """A store as the first version of Proctor wrote it."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        MIGRATIONS[0](self.db)
        self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.db.execute("PRAGMA user_version = 1")

    def suite(self, *cases: Case, digest: str, name: str = "s", version: str | None = None) -> dict[str, Any]:
        """The header as it was: `version` was what the file said."""
        bodies = [encode(each) for each in cases]
        content = "sha256:" + sha256(b"".join(bodies)).hexdigest()
        header: dict[str, Any] = {"name": name, "dialect": "meridian", "digest": digest, "content": content}
        header |= {"case_count": len(cases)} | ({} if version is None else {"version": version})
        body = json.dumps(header).encode()
        made = self.db.execute(
            "INSERT OR IGNORE INTO suites (digest, content, name, body) VALUES (?, ?, ?, ?)",
            (digest, content, name, body),
        )
        if made.rowcount:
            for position, (each, of) in enumerate(zip(bodies, cases, strict=True)):
                key = sha256(each).digest()
                self.db.execute("INSERT OR IGNORE INTO cases (digest, body) VALUES (?, ?)", (key, each))
                sent = bytes.fromhex(sent_digest(of)[7:])
                row = (made.lastrowid, position, key, sent)
                self.db.execute("INSERT INTO suite_cases VALUES (?, ?, ?, ?)", row)
        return header

    def run(self, run_id: str, suite: dict[str, Any], *trials: Trial) -> None:
        started_at = f"2026-01-0{run_id[-1]}T12:00:00Z"
        run: dict[str, Any] = {"id": run_id, "group": "g", "suite": suite, "started_at": started_at}
        run |= {"target": {"name": "echo", "kind": "echo"}, "status": "finished", "planned": len(trials)}
        columns = (started_at, suite["digest"], suite["content"], target_digest(ECHO), "", "finished")
        made = self.db.execute(
            "INSERT INTO runs (id, started_at, suite, content, target, settings, status, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (run_id, *columns, json.dumps(run).encode()),
        )
        for each in trials:
            row = (made.lastrowid, each.position, each.repeat, "pass", encode(each))
            self.db.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?)", row)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.db"


@pytest.fixture
def old(path: Path) -> Iterator[OldStore]:
    store = OldStore(path)
    with closing(store.db):
        yield store


def test_suites_of_an_earlier_store_become_versions_in_their_order(
    old: OldStore, path: Path, opened: Open
) -> None:
    for number, digest in enumerate(("sha256:aa", "sha256:bb", "sha256:aa")):  # the last with other tags
        old.suite(make_case(digest, tags=(str(number),)), digest=digest, version=f"file {number}")
    old.suite(make_case("other"), digest="sha256:aa", name="other")
    store = opened(path)
    found = [
        (one.suite.name, one.suite.version, one.suite.digest[7:], one.current) for one in store.versions()
    ]
    assert found == [("other", "v1", "aa", True), ("s", "v1", "aa", True), ("s", "v2", "bb", False)]
    current = store.suite("s")
    assert current is not None
    assert (current.declared_version, current.version) == ("file 2", "v1")
    assert [each.case.tags for each in store.cases(current.content)] == [("2",)]


@pytest.mark.parametrize("tier", TIERS)
def test_a_built_in_suite_of_an_earlier_store_gets_its_own_name_and_keeps_its_runs(
    tier: str, old: OldStore, path: Path, opened: Open
) -> None:
    digest = load_suite(builtin_path(tier)).suite.digest
    old.run("r1", old.suite(make_case("x"), digest=digest, name=tier))
    old.run("r2", old.suite(make_case("y"), digest="sha256:aa", name=tier))  # a suite of the user's
    old.run("r3", old.suite(make_case("z"), digest=digest, name="copy"))
    old.suite(make_case("u"), digest=digest, name=f"{tier}@v1")  # as a store of deleted suites has it
    store = opened(path)
    own = f"builtin:{tier}"
    assert {run.id: run.suite.name for run in store.runs()} == {"r1": own, "r2": tier, "r3": "copy"}
    assert sorted((one.suite.name, one.suite.digest) for one in store.versions()) == sorted(
        [(own, digest), (tier, "sha256:aa"), ("copy", digest), (f"{own}@v1", digest)]
    )
    assert store.suite(own) == next(run.suite for run in store.runs() if run.id == "r1")


def test_runs_of_an_earlier_store_show_as_before_with_their_versions(
    old: OldStore, path: Path, opened: Open
) -> None:
    first = old.suite(make_case("x"), digest="sha256:aa", version="file 1")
    old.suite(make_case("y"), digest="sha256:bb")
    copy = old.suite(make_case("x"), digest="sha256:aa", name="copy")  # its cases were there already
    answers = [make_trial("one", case_id="x"), make_trial("two", case_id="x", repeat=1)]
    old.run("r1", first, *answers)
    old.run("r2", copy, answers[0])
    store = opened(path)
    runs = {run.id: run.suite for run in store.runs()}
    assert {key: (suite.name, suite.version) for key, suite in runs.items()} == {
        "r1": ("s", "v1"),
        "r2": ("copy", "v1"),
    }
    assert runs["r1"].declared_version == "file 1"
    assert [stored.trial for stored in store.trials("r1")] == answers
    assert [each.case.id for each in store.cases(runs["r1"].content)] == ["x"]
    assert store.count_verdicts("r1") == {Verdict.PASS: 2}
    assert [one.suite.name for one in store.versions()] == ["copy", "s", "s"]
    current = store.suite("s")
    assert current is not None
    assert current.version == "v1"  # it was run last
    assert [one.saved_at.isoformat() for one in store.versions("s")][:1] == ["2026-01-01T12:00:00+00:00"]
    found = store.find_prior_answers(sent_digest(make_case("x")), target_digest(ECHO))
    assert [(one.run, one.trial.output.text) for one in found if one.trial.output] == [
        ("r2", "one"),
        ("r1", "one"),
        ("r1", "two"),
    ]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[1]", b'{"suite": 7}', b'{"suite": {"name": []}}', 7])
def test_what_is_damaged_in_an_earlier_store_stays_and_the_rest_can_be_read(
    old: OldStore, path: Path, opened: Open, body: object
) -> None:
    suite = old.suite(make_case("x"), digest="sha256:aa")
    old.run("r1", suite)
    old.run("r2", suite)
    old.db.execute("UPDATE runs SET body = ? WHERE id = 'r1'", (body,))
    assert opened(path).run("r2").suite.version == "v1"
    (kept,) = old.db.execute("SELECT body FROM runs WHERE id = 'r1'").fetchone()
    assert kept == body or json.loads(kept) == json.loads(body)  # type: ignore[arg-type]


_SAVES = """
import sys
from proctor.model import Case, Message, Suite
from proctor.codec import sent_digest
from proctor.stores.sqlite.store import SqliteStore

store = SqliteStore.open_file(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for word in sys.argv[2:]:
    writer = store.open_suite_writer()
    for number in range(1200):
        case = Case(id=f"{word}{number}", input=(Message(role="user", content="?"),))
        writer.add(case, sent_digest(case))
    suite = writer.commit(Suite(name="s", dialect="d", digest="sha256:" + word * 32, case_count=1200))
    print(word, suite.version, flush=True)
store.close()
"""


@pytest.mark.slow
def test_processes_that_save_at_once_agree_on_the_versions(path: Path, opened: Open) -> None:
    words = [("aa", "bb", "cc", "aa"), ("bb", "dd", "aa", "cc"), ("aa", "ee", "dd", "ee")]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _SAVES, str(path), *each],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for each in words
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told: set[tuple[str, ...]] = set()
    for process in processes:
        out, complaint = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complaint) == (0, "")
        told |= {tuple(line.split()) for line in out.splitlines()}
    store = opened(path)
    kept = store.versions("s")
    assert [one.suite.version for one in kept] == ["v1", "v2", "v3", "v4", "v5"]
    assert told == {(one.suite.digest[7:9], one.suite.version) for one in kept}
    assert [len(list(store.cases(one.suite.content))) for one in kept] == [1200] * 5


def test_the_properties_of_a_schema_stay_in_their_order(
    opened: Callable[[Path], SqliteStore], tmp_path: Path
) -> None:
    store = opened(tmp_path / "s.db")
    properties = {"zebra": {"type": "string"}, "ant": {"type": "integer"}}
    tool = Tool(name="t", parameters={"type": "object", "properties": properties})
    form = ResponseFormat(schema={"type": "object", "properties": properties}, tools=(tool,))
    asked = Case(id="x", input=(Message(role="user", content="?"),), form=form)
    writer = store.open_suite_writer()
    writer.add(asked, sent_digest(asked))
    kept = writer.commit(Suite(name="s", dialect="proctor", digest="sha256:" + "1" * 64))
    (stored,) = store.cases(kept.content)
    found = stored.case.form
    assert found is not None
    assert found.schema is not None
    assert list(found.schema["properties"]) == ["zebra", "ant"]
    assert list(found.tools[0].parameters["properties"]) == ["zebra", "ant"]

"""Versions of suites in stores of earlier versions of Proctor, and when several processes save at once."""

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

OpenStore = Callable[[Path], SqliteStore]


class OldStore:
    """A store as the first version of Proctor wrote it."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        MIGRATIONS[0](self.db)
        self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.db.execute("PRAGMA user_version = 1")

    def suite(self, *cases: Case, digest: str, name: str = "s", version: str | None = None) -> dict[str, Any]:
        """Saves a suite and returns its old header, in which `version` is what the file declares."""
        bodies = [encode(case) for case in cases]
        content = "sha256:" + sha256(b"".join(bodies)).hexdigest()
        header: dict[str, Any] = {"name": name, "dialect": "meridian", "digest": digest, "content": content}
        header |= {"case_count": len(cases)} | ({} if version is None else {"version": version})
        body = json.dumps(header).encode()
        cursor = self.db.execute(
            "INSERT OR IGNORE INTO suites (digest, content, name, body) VALUES (?, ?, ?, ?)",
            (digest, content, name, body),
        )
        if cursor.rowcount:
            for position, (case_body, case) in enumerate(zip(bodies, cases, strict=True)):
                key = sha256(case_body).digest()
                self.db.execute("INSERT OR IGNORE INTO cases (digest, body) VALUES (?, ?)", (key, case_body))
                sent_hash = bytes.fromhex(sent_digest(case)[7:])
                row = (cursor.lastrowid, position, key, sent_hash)
                self.db.execute("INSERT INTO suite_cases VALUES (?, ?, ?, ?)", row)
        return header

    def run(self, run_id: str, suite: dict[str, Any], *trials: Trial) -> None:
        started_at = f"2026-01-0{run_id[-1]}T12:00:00Z"
        run: dict[str, Any] = {"id": run_id, "group": "g", "suite": suite, "started_at": started_at}
        run |= {"target": {"name": "echo", "kind": "echo"}, "status": "finished", "planned": len(trials)}
        columns = (started_at, suite["digest"], suite["content"], target_digest(ECHO), "", "finished")
        cursor = self.db.execute(
            "INSERT INTO runs (id, started_at, suite, content, target, settings, status, body) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (run_id, *columns, json.dumps(run).encode()),
        )
        for trial in trials:
            row = (cursor.lastrowid, trial.position, trial.repeat, "pass", encode(trial))
            self.db.execute("INSERT INTO trials VALUES (?, ?, ?, ?, ?)", row)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.db"


@pytest.fixture
def old_store(path: Path) -> Iterator[OldStore]:
    store = OldStore(path)
    with closing(store.db):
        yield store


def test_suites_of_an_earlier_store_become_versions_in_their_order(
    old_store: OldStore, path: Path, open_store: OpenStore
) -> None:
    for number, digest in enumerate(("sha256:aa", "sha256:bb", "sha256:aa")):  # the last has other tags
        old_store.suite(make_case(digest, tags=(str(number),)), digest=digest, version=f"file {number}")
    old_store.suite(make_case("other"), digest="sha256:aa", name="other")
    store = open_store(path)
    versions = [
        (version.suite.name, version.suite.version, version.suite.digest[7:], version.current)
        for version in store.versions()
    ]
    assert versions == [("other", "v1", "aa", True), ("s", "v1", "aa", True), ("s", "v2", "bb", False)]
    current = store.suite("s")
    assert current is not None
    assert (current.declared_version, current.version) == ("file 2", "v1")
    assert [stored_case.case.tags for stored_case in store.cases(current.content)] == [("2",)]


@pytest.mark.parametrize("tier", TIERS)
def test_a_built_in_suite_of_an_earlier_store_gets_its_own_name_and_keeps_its_runs(
    tier: str, old_store: OldStore, path: Path, open_store: OpenStore
) -> None:
    digest = load_suite(builtin_path(tier)).suite.digest
    old_store.run("r1", old_store.suite(make_case("x"), digest=digest, name=tier))
    old_store.run("r2", old_store.suite(make_case("y"), digest="sha256:aa", name=tier))  # a suite of the user
    old_store.run("r3", old_store.suite(make_case("z"), digest=digest, name="copy"))
    old_store.suite(make_case("u"), digest=digest, name=f"{tier}@v1")  # as in a store of deleted suites
    store = open_store(path)
    builtin_name = f"builtin:{tier}"
    assert {run.id: run.suite.name for run in store.runs()} == {"r1": builtin_name, "r2": tier, "r3": "copy"}
    assert sorted((version.suite.name, version.suite.digest) for version in store.versions()) == sorted(
        [(builtin_name, digest), (tier, "sha256:aa"), ("copy", digest), (f"{builtin_name}@v1", digest)]
    )
    assert store.suite(builtin_name) == next(run.suite for run in store.runs() if run.id == "r1")


def test_runs_of_an_earlier_store_are_unchanged_and_have_versions(
    old_store: OldStore, path: Path, open_store: OpenStore
) -> None:
    first = old_store.suite(make_case("x"), digest="sha256:aa", version="file 1")
    old_store.suite(make_case("y"), digest="sha256:bb")
    copy = old_store.suite(
        make_case("x"), digest="sha256:aa", name="copy"
    )  # with cases that are saved already
    trials = [make_trial("one", case_id="x"), make_trial("two", case_id="x", repeat=1)]
    old_store.run("r1", first, *trials)
    old_store.run("r2", copy, trials[0])
    store = open_store(path)
    runs = {run.id: run.suite for run in store.runs()}
    assert {key: (suite.name, suite.version) for key, suite in runs.items()} == {
        "r1": ("s", "v1"),
        "r2": ("copy", "v1"),
    }
    assert runs["r1"].declared_version == "file 1"
    assert [stored_trial.trial for stored_trial in store.trials("r1")] == trials
    assert [stored_case.case.id for stored_case in store.cases(runs["r1"].content)] == ["x"]
    assert store.count_verdicts("r1") == {Verdict.PASS: 2}
    assert [version.suite.name for version in store.versions()] == ["copy", "s", "s"]
    current = store.suite("s")
    assert current is not None
    assert current.version == "v1"  # it was the last to be run
    assert [version.saved_at.isoformat() for version in store.versions("s")][:1] == [
        "2026-01-01T12:00:00+00:00"
    ]
    answers = store.find_prior_answers(sent_digest(make_case("x")), target_digest(ECHO))
    assert [(answer.run, answer.trial.output.text) for answer in answers if answer.trial.output] == [
        ("r2", "one"),
        ("r1", "one"),
        ("r1", "two"),
    ]


@pytest.mark.parametrize("body", [b"", b"\xff", b"[1]", b'{"suite": 7}', b'{"suite": {"name": []}}', 7])
def test_damaged_runs_of_an_earlier_store_are_kept_and_the_others_can_be_read(
    old_store: OldStore, path: Path, open_store: OpenStore, body: object
) -> None:
    suite = old_store.suite(make_case("x"), digest="sha256:aa")
    old_store.run("r1", suite)
    old_store.run("r2", suite)
    old_store.db.execute("UPDATE runs SET body = ? WHERE id = 'r1'", (body,))
    assert open_store(path).run("r2").suite.version == "v1"
    (stored_body,) = old_store.db.execute("SELECT body FROM runs WHERE id = 'r1'").fetchone()
    assert stored_body == body or json.loads(stored_body) == json.loads(body)  # type: ignore[arg-type]


_SAVE_SCRIPT = """
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
def test_processes_that_save_at_once_agree_on_the_versions(path: Path, open_store: OpenStore) -> None:
    words = [("aa", "bb", "cc", "aa"), ("bb", "dd", "aa", "cc"), ("aa", "ee", "dd", "ee")]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _SAVE_SCRIPT, str(path), *process_words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        for process_words in words
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    reported_versions: set[tuple[str, ...]] = set()
    for process in processes:
        out, complaint = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, complaint) == (0, "")
        reported_versions |= {tuple(line.split()) for line in out.splitlines()}
    store = open_store(path)
    versions = store.versions("s")
    assert [version.suite.version for version in versions] == ["v1", "v2", "v3", "v4", "v5"]
    assert reported_versions == {(version.suite.digest[7:9], version.suite.version) for version in versions}
    assert [len(list(store.cases(version.suite.content))) for version in versions] == [1200] * 5


def test_the_properties_of_a_schema_stay_in_their_order(
    open_store: Callable[[Path], SqliteStore], tmp_path: Path
) -> None:
    store = open_store(tmp_path / "s.db")
    properties = {"zebra": {"type": "string"}, "ant": {"type": "integer"}}
    tool = Tool(name="t", parameters={"type": "object", "properties": properties})
    form = ResponseFormat(schema={"type": "object", "properties": properties}, tools=(tool,))
    case = Case(id="x", input=(Message(role="user", content="?"),), form=form)
    writer = store.open_suite_writer()
    writer.add(case, sent_digest(case))
    suite = writer.commit(Suite(name="s", dialect="proctor", digest="sha256:" + "1" * 64))
    (stored_case,) = store.cases(suite.content)
    stored_form = stored_case.case.form
    assert stored_form is not None
    assert stored_form.schema is not None
    assert list(stored_form.schema["properties"]) == ["zebra", "ant"]
    assert list(stored_form.tools[0].parameters["properties"]) == ["zebra", "ant"]

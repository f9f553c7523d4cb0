"""Bundles to stored runs: whole or not at all, never over another run; nothing of theirs is run or asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.bundles.keys import create_key
from proctor.bundles.reader import open_bundle
from proctor.bundles.trust_store import TrustedKey, load_trusted_keys, trust
from proctor.codec import judged_digest, sent_digest, suite_digest
from proctor.errors import BundleError, ProctorError, UsageError
from proctor.model import (
    Assertion,
    Case,
    Failure,
    Message,
    Run,
    Selection,
    Settings,
    SplitRule,
    Suite,
    TargetSpec,
    Trial,
    Verdict,
    Workspace,
)
from proctor.plan import CaseIndexer
from proctor.protocols import Store
from proctor.services import events
from proctor.services.analysis.compare import resolve_runs
from proctor.services.bundles.attest import attest
from proctor.services.bundles.import_bundle import ImportResult, import_bundle
from proctor.services.bundles.import_records import ImportOptions, read_cases, read_trials, verify_for_import
from proctor.services.bundles.side_effects import SideEffectCheck
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.reading.report import build_report
from proctor.services.runs.request import Request
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns

Attested = Callable[..., Path]
TESTS = [("a", "yes", "yes"), ("b", "no", "yes"), ("c", "yes", "yes")]


@pytest.fixture
def other(folder: Path) -> Iterator[SqliteStore]:
    """The store of whoever gets a bundle."""
    store = SqliteStore.open_file(str(folder / "other.db"))
    yield store
    store.close()


@pytest.fixture
def attested(store: SqliteStore, folder: Path) -> Attested:
    """The bundle of a run, unsigned unless a key is given."""

    def write(run: Run, name: str = "b.zip", **fields: Any) -> Path:
        attest(store, run, folder / name, **{"public": False, "key": None, **fields})
        return folder / name

    return write


def take(store: Store, path: Path, **wants: Any) -> ImportResult:
    return import_bundle(store, path, ImportOptions(**wants))


def everything(store: Store) -> Any:
    """All that a store has of runs and suites."""
    runs = list(store.runs())
    return (
        runs,
        [list(store.trials(run.id)) for run in runs],
        [(one.suite, one.current, list(store.cases(one.suite.content))) for one in store.versions()],
    )


async def made(make: MakeRuns, word: str, **fields: Any) -> Run:
    (done,) = await make(word, **fields)
    return done.run


def stored(store: Store, run: Run, cases: list[Case], **fields: Any) -> Run:
    """A run as somebody could have written it straight into a store, of those cases, each with an echo."""
    writer = store.open_suite_writer()
    digests = []
    for case in cases:
        digests.append((case.id, sent_digest(case), judged_digest(case)))
        writer.add(case, digests[-1][1])
    header = replace(run.suite, case_count=len(cases), version=None, split_rule=None)
    header = replace(header, **fields.pop("suite", {}))
    suite = writer.commit(replace(header, digest=suite_digest(header, digests)))
    why = fields.pop("why", "No.")
    run = replace(run, suite=suite, planned=len(cases), **fields)
    store.add_run(run)
    for place, case in enumerate(cases):
        trial = Trial(
            case_id=case.id,
            position=place,
            sent=digests[place][1],
            started_at=run.started_at,
            failure=Failure(stage="target", kind="http", message=why),
            target=case.target,
        )
        store.save_trial(run.id, trial, Verdict.ERROR)
    store.update_run(run)
    return run


def asking(text: str = "yes", **fields: Any) -> Case:
    given: dict[str, Any] = {
        "id": "a",
        "input": (Message(role="user", content=text),),
        "assertions": (Assertion(grader="contains", params={"words": ["x"]}),),
    }
    return Case(**given | fields)


# --- what is stored ----------------------------------------------------------------------------------------


async def test_a_run_arrives_with_all_that_it_has(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore, store: SqliteStore
) -> None:
    run = await made(make, suite(*TESTS))
    done = take(other, attested(run))
    assert done.is_new
    there = other.run(run.id)
    assert there == done.run
    assert (there.imported, there.tags, there.status) == ("unsigned", ("imported-unsigned",), "finished")
    assert list(other.trials(run.id)) == list(store.trials(run.id))
    assert list(other.cases(there.suite.content)) == list(store.cases(run.suite.content))
    assert (there.suite.digest, there.suite.folder) == (run.suite.digest, "")
    assert build_report(other, there).tally.all.passed == 2
    (version,) = other.versions()
    assert (version.suite.name, version.suite.version) == ("s", "v1")


async def test_importing_again_changes_nothing(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore
) -> None:
    path = attested(await made(make, suite(*TESTS)))
    take(other, path)
    before = everything(other)
    assert not take(other, path).is_new
    assert everything(other) == before


async def test_whoever_made_a_bundle_has_its_run_already(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, store: SqliteStore
) -> None:
    run = await made(make, suite(*TESTS))
    path = attested(run)
    store.update_run(replace(run, tags=("baseline",)))
    before = everything(store)
    assert not take(store, path).is_new
    assert everything(store) == before


@pytest.mark.parametrize("signed", ["unsigned", "unknown", "trusted"])
async def test_how_a_bundle_is_signed_stays_with_its_run(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    other: SqliteStore,
    folder: Path,
    signed: str,
) -> None:
    key = create_key(folder / "keys", "maker", {})
    path = attested(await made(make, suite(*TESTS)), key=None if signed == "unsigned" else key)
    known: dict[str, TrustedKey] = {}
    if signed == "trusted":
        trust(folder / "mine", key.public_pem, "maker", (await made(make, suite(*TESTS))).started_at)
        known = load_trusted_keys(folder / "mine")
    if signed != "trusted":
        with pytest.raises(BundleError, match="signature by a trusted key is required"):
            take(other, path, trusted_keys=known, require_signature=True)
        assert everything(other) == ([], [], [])
    done = take(other, path, trusted_keys=known, require_signature=signed == "trusted")
    assert done.run.imported == signed
    assert done.run.tags == (f"imported-{signed}",)


async def test_an_imported_run_is_graded_again_and_stays_imported(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    other: SqliteStore,
    folder: Path,
    told: list[events.Event],
    environ: dict[str, str],
) -> None:

    run = await made(make, suite(*TESTS))
    take(other, attested(run))
    (done,) = await RunSession(other, environ, told.append, folder=folder).run(Request(regrade=run.id))
    assert (done.tally.all.passed, done.tally.asked_count) == (2, 0)
    for imported in (run.id, done.run.id):
        with pytest.raises(UsageError, match="were imported"):
            attest(other, other.run(imported), folder / "again", public=False, key=None)
    assert not (folder / "again").exists()


# --- what is refused ---------------------------------------------------------------------------------------


async def test_another_run_of_that_id_is_never_overwritten(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, store: SqliteStore, other: SqliteStore
) -> None:
    run = await made(make, suite(*TESTS))
    path = attested(run)
    stored(other, replace(run, status="finished"), [asking()])
    before = everything(other)
    with pytest.raises(BundleError, match=f"the id of another run, {run.id}"):
        take(other, path)
    assert everything(other) == before


DIFFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("warnings", {"warnings": ("other",)}),
    ("settings", {"settings": Settings(retries=1)}),
    ("versions", {"versions": {"proctor": "0"}}),
    ("trial", {"why": "Other."}),
    ("case", {}),
    ("order", {}),
]


@pytest.mark.parametrize(("what", "fields"), DIFFERENCES, ids=[what for what, _ in DIFFERENCES])
async def test_a_run_that_differs_in_anything_is_another_one(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    other: SqliteStore,
    store: SqliteStore,
    what: str,
    fields: dict[str, Any],
) -> None:
    run = replace(await made(make, suite(*TESTS)), id="20260301-120000-abcdef")
    cases = [asking(id="x"), asking(id="y")]
    path = attested(stored(store, run, cases))
    if what == "case":
        cases[1] = asking(id="y", tags=("t",))
    elif what == "order":
        cases.reverse()
    stored(other, run, cases, **fields)
    before = everything(other)
    with pytest.raises(BundleError, match="another run"):
        take(other, path)
    assert everything(other) == before


async def test_a_public_bundle_is_not_stored(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore
) -> None:
    path = attested(await made(make, suite(*TESTS), holdout=0.4), public=True)
    with pytest.raises(UsageError, match="public bundle"):
        take(other, path)
    assert everything(other) == ([], [], [])


async def test_a_forged_bundle_is_not_stored(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore
) -> None:
    path = attested(await made(make, suite(*TESTS)), name="b")
    lines = path / "trials.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b'"no"', b'"yes"'))
    with pytest.raises(BundleError):
        take(other, path)
    assert everything(other) == ([], [], [])


@pytest.mark.parametrize("run_id", ["last", "../../x", "20260301", "x\n", "20260301-120000-ABCDEF"])
async def test_a_run_without_a_proper_id_is_not_stored(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    store: SqliteStore,
    other: SqliteStore,
    run_id: str,
) -> None:
    run = await made(make, suite(*TESTS))
    path = attested(stored(store, replace(run, id=run_id), [asking()]))
    with pytest.raises(BundleError):
        take(other, path)
    assert everything(other) == ([], [], [])


async def test_a_bundle_that_calls_a_built_in_suite_cheap_is_of_that_suite(
    make: MakeRuns, attested: Attested, store: SqliteStore, other: SqliteStore
) -> None:
    own = await made(make, "cheap")
    run = replace(own, id="20260301-120000-abcdef")
    cases = [one.case for one in store.cases(own.suite.content)]
    path = attested(stored(store, run, cases, suite={"name": "cheap"}))
    for _ in range(2):
        assert take(other, path).run.suite.title == "builtin:cheap v1"


@pytest.mark.parametrize(
    "name", ["builtin:cheap", "builtin:s", "s@v1", "s@sha256:aa", "a\nb", "\x1b[2J", " ", "n" * 201]
)
async def test_a_suite_cannot_pass_for_another_one(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    store: SqliteStore,
    other: SqliteStore,
    name: str,
) -> None:
    run = replace(await made(make, suite(*TESTS)), id="20260301-120000-abcdef")
    path = attested(stored(store, run, [asking()], suite={"name": name}))
    with pytest.raises(ProctorError):
        take(other, path)
    assert everything(other) == ([], [], [])


async def test_a_name_with_slashes_is_a_name_and_no_path(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    store: SqliteStore,
    other: SqliteStore,
    folder: Path,
) -> None:
    run = replace(await made(make, suite(*TESTS)), id="20260301-120000-abcdef")
    path = attested(stored(store, run, [asking(id="../../up")], suite={"name": "../../s"}))
    before = set(folder.rglob("*"))
    take(other, path)
    assert all(new.name.startswith("other.db") for new in set(folder.rglob("*")) - before)
    assert not (folder / "../../s").exists()
    assert not (folder / "../../up").exists()


async def test_what_changes_while_it_is_read_is_not_taken(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore
) -> None:
    path = attested(await made(make, suite(*TESTS)), name="b")
    found = verify_for_import(path, ImportOptions())
    for name, read in (("suite.jsonl", read_cases), ("trials.jsonl", read_trials)):
        file = path / name
        before = file.read_bytes()
        for changed in (before.replace(b"yes", b"yet"), b"".join(before.splitlines(keepends=True)[:-1])):
            file.write_bytes(changed)
            with open_bundle(path) as bundle, pytest.raises(BundleError, match="changed while it was read"):
                list(read(bundle, found.statement))
        file.write_bytes(before)


# --- all or nothing ----------------------------------------------------------------------------------------


class Interrupted(SqliteStore):
    """Is interrupted when a trial is recorded."""

    def save_trial(self, run_id: str, trial: Trial, verdict: Verdict) -> None:
        if trial.position == 1:
            raise KeyboardInterrupt
        super().save_trial(run_id, trial, verdict)


async def test_an_import_that_is_interrupted_leaves_nothing(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore
) -> None:
    path = attested(await made(make, suite(*TESTS)))
    breaking = Interrupted.open_file(other.path)
    with pytest.raises(KeyboardInterrupt):
        take(breaking, path)
    breaking.close()
    assert everything(other) == ([], [], [])
    assert take(other, path).is_new


class Late(SqliteStore):
    """Begins a run just after somebody else has imported it."""

    bundle: Path

    def add_run(self, run: Run) -> None:
        sooner = SqliteStore.open_file(self.path)
        take(sooner, self.bundle)
        sooner.close()
        super().add_run(run)


async def test_who_imports_a_run_too_late_leaves_it_to_who_was_sooner(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore
) -> None:
    path = attested(await made(make, suite(*TESTS)))
    late = Late.open_file(other.path)
    assert isinstance(late, Late)
    late.bundle = path
    with pytest.raises(ProctorError):
        take(late, path)
    late.close()
    (run,) = other.runs()
    assert run.status == "finished"
    assert len(list(other.trials(run.id))) == 3
    assert not take(other, path).is_new


async def test_an_import_that_was_killed_is_made_anew(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, folder: Path, store: SqliteStore
) -> None:
    run = await made(make, suite(*TESTS))
    path = attested(run)
    killed = SqliteStore.open_file(str(folder / "third.db"))
    half = replace(run, imported="unsigned", status="running", finished_at=None)
    stored(killed, half, [asking()])
    killed.close()
    again = SqliteStore.open_file(str(folder / "third.db"))
    assert take(again, path).is_new
    assert again.run(run.id).status == "finished"
    assert list(again.trials(run.id)) == list(store.trials(run.id))
    again.close()


async def test_what_a_name_means_here_stays_what_it_was(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, store: SqliteStore, other: SqliteStore
) -> None:
    run = replace(await made(make, suite(*TESTS)), id="20260301-120000-abcdef")
    run = stored(store, run, [asking(tags=("theirs",))])
    path = attested(run)
    writer = other.open_suite_writer()
    writer.add(asking(tags=("mine",)), run.suite.digest)
    mine = writer.commit(replace(run.suite, version=None))
    writer = other.open_suite_writer()
    writer.add(asking("later"), run.suite.digest)
    later = writer.commit(replace(run.suite, version=None, digest="sha256:" + "ab" * 32))
    take(other, path)
    assert other.suite("s") == later
    assert other.suite("s", "v1") == mine
    (imported,) = list(other.cases(other.run(run.id).suite.content))
    assert imported.case.tags == ("theirs",)


async def test_other_content_under_a_name_is_its_next_version_and_not_the_current_one(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, other: SqliteStore
) -> None:
    path = attested(await made(make, suite(*TESTS)))
    writer = other.open_suite_writer()
    writer.add(asking(), "sha256:" + "ab" * 32)
    mine = writer.commit(Suite(name="s", dialect="meridian", digest="sha256:" + "ab" * 32))
    done = take(other, path)
    assert done.run.suite.version == "v2"
    assert other.suite("s") == mine
    assert other.suite("s", "v2") == done.run.suite


# --- what a stranger's suite would do ----------------------------------------------------------------------

PROGRAM = Assertion(grader="program", params={"command": ["sh", "-c", "touch ran"]})
INNER = {
    "members": [{"name": "m", "assertion": {"grader": "program", "params": {"command": ["touch", "ran"]}}}]
}
ACTS = [
    ({"assertions": (PROGRAM,)}, "is graded by a program (sh -c touch ran)"),
    ({"assertions": (Assertion(grader="composite", params=INNER),)}, "is graded by a program (touch ran)"),
    ({"workspace": Workspace(template="/etc")}, "works in a workspace (copies /etc"),
    ({"target": "command:touch ran"}, "names a target of its own (command:touch ran)"),
    (
        {
            "assertions": (
                Assertion(grader="llm_grader", params={"prompt": "?", "judge": "command:touch ran"}),
            )
        },
        "names a judge of its own (command:touch ran)",
    ),
    ({"variables": ("OPENAI_API_KEY",)}, "reads an environment variable (OPENAI_API_KEY)"),
]


@pytest.mark.parametrize(("fields", "told_as"), ACTS, ids=[what for _, what in ACTS])
async def test_a_suite_that_would_act_here_is_named_and_refused(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    store: SqliteStore,
    other: SqliteStore,
    folder: Path,
    fields: dict[str, Any],
    told_as: str,
) -> None:
    run = replace(await made(make, suite(*TESTS)), id="20260301-120000-abcdef")
    case = asking(**fields)
    named = (TargetSpec(name=case.target, kind="command"),) if case.target else ()
    path = attested(stored(store, run, [case], named_targets=named))
    with pytest.raises(UsageError) as error:
        take(other, path)
    assert f"case 'a' {told_as}" in str(error.value)
    assert "--allow-programs" in str(error.value)
    assert everything(other) == ([], [], [])
    assert take(other, path, allow_programs=True).is_new
    assert not (folder / "ran").exists()


def test_of_a_held_out_case_no_command_is_shown() -> None:
    foreign, indexer = SideEffectCheck(()), CaseIndexer(Selection(), None)
    for place, case_id in enumerate("abcde"):
        case = asking(id=case_id, assertions=(PROGRAM,))
        foreign.add(place, case)
        indexer.add(case)
    index = indexer.build(SplitRule(ratio=0.4))
    assert index.holdout is not None
    with pytest.raises(UsageError) as error:
        foreign.check(index)
    for place, case_id in enumerate("abcde"):
        shown = "" if place in index.holdout else " (sh -c touch ran)"
        assert f"case {case_id!r} is graded by a program{shown}" in str(error.value)
    assert str(error.value).count("touch ran") == 3


async def test_nobody_is_asked_by_what_a_bundle_says(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    store: SqliteStore,
    other: SqliteStore,
    folder: Path,
    told: list[events.Event],
    environ: dict[str, str],
) -> None:

    hostile = TargetSpec(name="echo", kind="command", model="touch ran")
    judged = asking(assertions=(Assertion(grader="llm_grader", params={"prompt": "?"}),))
    run = replace(
        await made(make, suite(*TESTS)), id="20260301-120000-abcdef", target=hostile, judges=(hostile,)
    )
    take(other, attested(stored(store, run, [judged])))
    for request in (
        Request(regrade=run.id),
        Request(resume=run.id),
        Request(retry_errors=run.id),
        Request(retry_errors=run.id, suites=("s@v1",), targets=("echo",)),
    ):
        with pytest.raises(UsageError):
            await RunSession(other, environ, told.append, folder=folder).run(request)
    assert not (folder / "ran").exists()


async def test_imported_answers_are_never_taken_for_ones_own(
    make: MakeRuns,
    suite: Callable[..., str],
    attested: Attested,
    other: SqliteStore,
    folder: Path,
    told: list[events.Event],
    environ: dict[str, str],
) -> None:

    word = suite(*TESTS)
    take(other, attested(await made(make, word)))
    request = Request(
        suites=(word,), targets=("echo",), settings=Settings(reuse=True), explicit=frozenset({"reuse"})
    )
    session = RunSession(other, environ, told.append, folder=folder)
    (done,) = await session.run(request)
    assert (done.tally.asked_count, done.tally.reused_count) == (3, 0)
    (done,) = await session.run(request)
    assert (done.tally.asked_count, done.tally.reused_count) == (0, 3)


async def test_a_run_from_elsewhere_joins_no_group_of_ones_own(
    make: MakeRuns, suite: Callable[..., str], attested: Attested, store: SqliteStore, other: SqliteStore
) -> None:
    own = [one.run for one in await make(suite(*TESTS), "echo mock")]
    forged = replace(own[0], id="20260301-120000-abcdef")
    store.add_run(forged)
    for one in store.trials(own[0].id):
        store.save_trial(forged.id, one.trial, one.verdict or Verdict.ERROR)
    store.update_run(forged)
    path = attested(forged)
    store.delete_run(forged.id)
    take(store, path)
    take(other, path)
    for word in (own[0].group, own[1].id):
        assert [run.id for run in resolve_runs(store, [word])] == [run.id for run in own]
    for theirs, word in ((store, forged.id), (other, forged.group)):
        with pytest.raises(UsageError, match="is one run, and nothing was run together with it"):
            resolve_runs(theirs, [word])

"""Imported bundles: whole or not at all, never over another run; none of their programs or targets is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from support.sessions import MakeRuns, WriteSuite
from support.stores import save_cases

Attested = Callable[..., Path]
TESTS = [("a", "yes", "yes"), ("b", "no", "yes"), ("c", "yes", "yes")]
FOREIGN = "20260301-120000-abcdef"
EMPTY: Any = ([], [], [])
"""What `read_all` returns for an empty store."""


@pytest.fixture
async def run(make: MakeRuns, suite: WriteSuite) -> Run:
    return await make_run(make, suite(*TESTS))


@pytest.fixture
def bundle(attested: Attested, run: Run) -> Path:
    return attested(run)


@pytest.fixture
def write_bundle(attested: Attested, store: SqliteStore, run: Run) -> Callable[..., Path]:
    """Writes the bundle of a made-up run of these cases; the fields are the run's."""

    def write(*cases: Case, **fields: Any) -> Path:
        return attested(store_run(store, replace(run, id=FOREIGN), cases, **fields))

    return write


@pytest.fixture
def session_there(
    other: SqliteStore, session_events: list[events.Event], folder: Path, environ: dict[str, str]
) -> RunSession:
    """A session of the person who gets a bundle."""
    return RunSession(other, environ, session_events.append, folder=folder)


WriteBundle = Callable[..., Path]


def import_into(store: Store, path: Path, **wants: Any) -> ImportResult:
    return import_bundle(store, path, ImportOptions(**wants))


def read_all(store: Store) -> Any:
    """All that a store has of runs and suites."""
    runs = list(store.runs())
    return (
        runs,
        [list(store.trials(run.id)) for run in runs],
        [
            (version.suite, version.current, list(store.cases(version.suite.content)))
            for version in store.versions()
        ],
    )


async def make_run(make: MakeRuns, word: str, **fields: Any) -> Run:
    (result,) = await make(word, **fields)
    return result.run


def store_run(store: Store, run: Run, cases: Sequence[Case], **fields: Any) -> Run:
    """Stores a made-up run of those cases, each with a failed trial."""
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


def make_case(text: str = "yes", **fields: Any) -> Case:
    defaults: dict[str, Any] = {
        "id": "a",
        "input": (Message(role="user", content=text),),
        "assertions": (Assertion(grader="contains", params={"words": ["x"]}),),
    }
    return Case(**defaults | fields)


# --- what is stored ----------------------------------------------------------------------------------------


def test_a_run_arrives_with_all_that_it_has(
    run: Run, bundle: Path, other: SqliteStore, store: SqliteStore
) -> None:
    result = import_into(other, bundle)
    assert result.is_new
    imported = other.run(run.id)
    assert imported == result.run
    assert (imported.imported, imported.tags, imported.status) == (
        "unsigned",
        ("imported-unsigned",),
        "finished",
    )
    assert list(other.trials(run.id)) == list(store.trials(run.id))
    assert list(other.cases(imported.suite.content)) == list(store.cases(run.suite.content))
    assert (imported.suite.digest, imported.suite.folder) == (run.suite.digest, "")
    assert build_report(other, imported).tally.all.passed == 2
    (version,) = other.versions()
    assert (version.suite.name, version.suite.version) == ("s", "v1")


def test_importing_again_changes_nothing(bundle: Path, other: SqliteStore) -> None:
    import_into(other, bundle)
    before = read_all(other)
    assert not import_into(other, bundle).is_new
    assert read_all(other) == before


def test_whoever_made_a_bundle_has_its_run_already(run: Run, bundle: Path, store: SqliteStore) -> None:
    store.update_run(replace(run, tags=("baseline",)))
    before = read_all(store)
    assert not import_into(store, bundle).is_new
    assert read_all(store) == before


@pytest.mark.parametrize("signed", ["unsigned", "unknown", "trusted"])
def test_how_a_bundle_is_signed_stays_with_its_run(
    run: Run, attested: Attested, other: SqliteStore, folder: Path, signed: str
) -> None:
    key = create_key(folder / "keys", "maker", {})
    path = attested(run, key=None if signed == "unsigned" else key)
    trusted_keys: dict[str, TrustedKey] = {}
    if signed == "trusted":
        trust(folder / "mine", key.public_pem, "maker", run.started_at)
        trusted_keys = load_trusted_keys(folder / "mine")
    else:
        with pytest.raises(BundleError, match="signature by a trusted key is required"):
            import_into(other, path, trusted_keys=trusted_keys, require_signature=True)
        assert read_all(other) == EMPTY
    result = import_into(other, path, trusted_keys=trusted_keys, require_signature=signed == "trusted")
    assert result.run.imported == signed
    assert result.run.tags == (f"imported-{signed}",)


async def test_an_imported_run_is_graded_again_and_stays_imported(
    run: Run, bundle: Path, other: SqliteStore, session_there: RunSession, folder: Path
) -> None:
    import_into(other, bundle)
    (result,) = await session_there.run(Request(regrade=run.id))
    assert (result.tally.all.passed, result.tally.asked_count) == (2, 0)
    for imported in (run.id, result.run.id):
        with pytest.raises(UsageError, match="were imported"):
            attest(other, other.run(imported), folder / "again", public=False, key=None)
    assert not (folder / "again").exists()


# --- what is refused ---------------------------------------------------------------------------------------


def test_another_run_of_that_id_is_never_overwritten(run: Run, bundle: Path, other: SqliteStore) -> None:
    store_run(other, replace(run, status="finished"), [make_case()])
    before = read_all(other)
    with pytest.raises(BundleError, match=f"the same id as run {run.id}"):
        import_into(other, bundle)
    assert read_all(other) == before


DIFFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("warnings", {"warnings": ("other",)}),
    ("settings", {"settings": Settings(retries=1)}),
    ("versions", {"versions": {"proctor": "0"}}),
    ("trial", {"why": "Other."}),
    ("case", {}),
    ("order", {}),
]


@pytest.mark.parametrize(("what", "fields"), DIFFERENCES, ids=[what for what, _ in DIFFERENCES])
def test_a_run_that_differs_in_anything_is_another_one(
    run: Run, write_bundle: WriteBundle, other: SqliteStore, what: str, fields: dict[str, Any]
) -> None:
    cases = [make_case(id="x"), make_case(id="y")]
    path = write_bundle(*cases)
    if what == "case":
        cases[1] = make_case(id="y", tags=("t",))
    elif what == "order":
        cases.reverse()
    store_run(other, replace(run, id=FOREIGN), cases, **fields)
    before = read_all(other)
    with pytest.raises(BundleError, match="the same id as run"):
        import_into(other, path)
    assert read_all(other) == before


async def test_a_public_bundle_is_not_stored(
    make: MakeRuns, suite: WriteSuite, attested: Attested, other: SqliteStore
) -> None:
    path = attested(await make_run(make, suite(*TESTS), holdout=0.4), public=True)
    with pytest.raises(UsageError, match="public bundle"):
        import_into(other, path)
    assert read_all(other) == EMPTY


def test_a_forged_bundle_is_not_stored(run: Run, attested: Attested, other: SqliteStore) -> None:
    path = attested(run, name="b")
    lines = path / "trials.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b'"no"', b'"yes"'))
    with pytest.raises(BundleError):
        import_into(other, path)
    assert read_all(other) == EMPTY


@pytest.mark.parametrize("run_id", ["last", "../../x", "20260301", "x\n", "20260301-120000-ABCDEF"])
def test_a_run_without_a_proper_id_is_not_stored(
    run: Run, attested: Attested, store: SqliteStore, other: SqliteStore, run_id: str
) -> None:
    path = attested(store_run(store, replace(run, id=run_id), [make_case()]))
    with pytest.raises(BundleError):
        import_into(other, path)
    assert read_all(other) == EMPTY


async def test_a_bundle_that_calls_a_built_in_suite_cheap_is_of_that_suite(
    make: MakeRuns, attested: Attested, store: SqliteStore, other: SqliteStore
) -> None:
    own = await make_run(make, "cheap")
    run = replace(own, id=FOREIGN)
    cases = [record.case for record in store.cases(own.suite.content)]
    path = attested(store_run(store, run, cases, suite={"name": "cheap"}))
    for _ in range(2):
        assert import_into(other, path).run.suite.title == "builtin:cheap v1"


@pytest.mark.parametrize(
    "name", ["builtin:cheap", "builtin:s", "s@v1", "s@sha256:aa", "a\nb", "\x1b[2J", " ", "n" * 201]
)
def test_a_suite_cannot_pass_for_another_one(
    write_bundle: WriteBundle, other: SqliteStore, name: str
) -> None:
    path = write_bundle(make_case(), suite={"name": name})
    with pytest.raises(ProctorError):
        import_into(other, path)
    assert read_all(other) == EMPTY


def test_a_name_with_slashes_is_a_name_and_no_path(
    write_bundle: WriteBundle, other: SqliteStore, folder: Path
) -> None:
    path = write_bundle(make_case(id="../../up"), suite={"name": "../../s"})
    before = set(folder.rglob("*"))
    import_into(other, path)
    assert all(new.name.startswith("other.db") for new in set(folder.rglob("*")) - before)
    assert not (folder / "../../s").exists()
    assert not (folder / "../../up").exists()


def test_what_changes_while_it_is_read_is_not_taken(run: Run, attested: Attested) -> None:
    path = attested(run, name="b")
    verified_bundle = verify_for_import(path, ImportOptions())
    for name, read in (("suite.jsonl", read_cases), ("trials.jsonl", read_trials)):
        file = path / name
        before = file.read_bytes()
        for changed in (before.replace(b"yes", b"yet"), b"".join(before.splitlines(keepends=True)[:-1])):
            file.write_bytes(changed)
            with open_bundle(path) as bundle, pytest.raises(BundleError, match="changed while it was read"):
                list(read(bundle, verified_bundle.statement))
        file.write_bytes(before)


# --- all or nothing ----------------------------------------------------------------------------------------


class InterruptedStore(SqliteStore):
    """A store that is interrupted when it saves the second trial."""

    def save_trial(self, run_id: str, trial: Trial, verdict: Verdict) -> None:
        if trial.position == 1:
            raise KeyboardInterrupt
        super().save_trial(run_id, trial, verdict)


def test_an_import_that_is_interrupted_leaves_nothing(bundle: Path, other: SqliteStore) -> None:
    breaking = InterruptedStore.open_file(other.path)
    with pytest.raises(KeyboardInterrupt):
        import_into(breaking, bundle)
    breaking.close()
    assert read_all(other) == EMPTY
    assert import_into(other, bundle).is_new


class OvertakenStore(SqliteStore):
    """A store that adds a run just after another process has imported it."""

    bundle: Path

    def add_run(self, run: Run) -> None:
        sooner = SqliteStore.open_file(self.path)
        import_into(sooner, self.bundle)
        sooner.close()
        super().add_run(run)


def test_who_imports_a_run_too_late_leaves_it_to_who_was_sooner(bundle: Path, other: SqliteStore) -> None:
    late = OvertakenStore.open_file(other.path)
    assert isinstance(late, OvertakenStore)
    late.bundle = bundle
    with pytest.raises(ProctorError):
        import_into(late, bundle)
    late.close()
    (run,) = other.runs()
    assert run.status == "finished"
    assert len(list(other.trials(run.id))) == 3
    assert not import_into(other, bundle).is_new


def test_an_import_that_was_killed_is_made_anew(
    run: Run, bundle: Path, other: SqliteStore, store: SqliteStore
) -> None:
    killed = SqliteStore.open_file(other.path)
    store_run(killed, replace(run, imported="unsigned", status="running", finished_at=None), [make_case()])
    killed.close()
    assert import_into(other, bundle).is_new
    assert other.run(run.id).status == "finished"
    assert list(other.trials(run.id)) == list(store.trials(run.id))


def test_what_a_name_means_here_stays_what_it_was(
    write_bundle: WriteBundle, store: SqliteStore, other: SqliteStore
) -> None:
    path = write_bundle(make_case(tags=("theirs",)))
    their_suite = store.run(FOREIGN).suite
    writer = other.open_suite_writer()
    writer.add(make_case(tags=("mine",)), their_suite.digest)
    mine = writer.commit(replace(their_suite, version=None))
    writer = other.open_suite_writer()
    writer.add(make_case("later"), their_suite.digest)
    later = writer.commit(replace(their_suite, version=None, digest="sha256:" + "ab" * 32))
    import_into(other, path)
    assert other.suite("s") == later
    assert other.suite("s", "v1") == mine
    (imported,) = list(other.cases(other.run(FOREIGN).suite.content))
    assert imported.case.tags == ("theirs",)


def test_other_content_under_a_name_is_its_next_version_and_not_the_current_one(
    bundle: Path, other: SqliteStore
) -> None:
    mine = save_cases(other, [make_case()])
    result = import_into(other, bundle)
    assert result.run.suite.version == "v2"
    assert other.suite("s") == mine
    assert other.suite("s", "v2") == result.run.suite


# --- side effects of an imported suite ---------------------------------------------------------------------

PROGRAM = Assertion(grader="program", params={"command": ["sh", "-c", "touch ran"]})
INNER = {
    "members": [{"name": "m", "assertion": {"grader": "program", "params": {"command": ["touch", "ran"]}}}]
}
SIDE_EFFECTS = [
    ({"assertions": (PROGRAM,)}, "is graded by a program (sh -c touch ran)"),
    ({"assertions": (Assertion(grader="composite", params=INNER),)}, "is graded by a program (touch ran)"),
    ({"workspace": Workspace(template="/etc")}, "uses a workspace (copies /etc"),
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


@pytest.mark.parametrize(("fields", "description"), SIDE_EFFECTS, ids=[what for _, what in SIDE_EFFECTS])
def test_a_suite_that_would_act_here_is_named_and_refused(
    write_bundle: WriteBundle, other: SqliteStore, folder: Path, fields: dict[str, Any], description: str
) -> None:
    case = make_case(**fields)
    named_targets = (TargetSpec(name=case.target, kind="command"),) if case.target else ()
    path = write_bundle(case, named_targets=named_targets)
    with pytest.raises(UsageError) as error:
        import_into(other, path)
    assert f"case 'a' {description}" in str(error.value)
    assert "--allow-programs" in str(error.value)
    assert read_all(other) == EMPTY
    assert import_into(other, path, allow_programs=True).is_new
    assert not (folder / "ran").exists()


def test_of_a_held_out_case_no_command_is_shown() -> None:
    foreign, indexer = SideEffectCheck(()), CaseIndexer(Selection(), None)
    for place, case_id in enumerate("abcde"):
        case = make_case(id=case_id, assertions=(PROGRAM,))
        foreign.add(place, case)
        indexer.add(case)
    index = indexer.build(SplitRule(ratio=0.4))
    assert index.holdout is not None
    with pytest.raises(UsageError) as error:
        foreign.check(index)
    for place, case_id in enumerate("abcde"):
        command = "" if place in index.holdout else " (sh -c touch ran)"
        assert f"case {case_id!r} is graded by a program{command}" in str(error.value)
    assert str(error.value).count("touch ran") == 3


async def test_nobody_is_asked_by_what_a_bundle_says(
    write_bundle: WriteBundle, other: SqliteStore, session_there: RunSession, folder: Path
) -> None:
    hostile = TargetSpec(name="echo", kind="command", model="touch ran")
    judged = make_case(assertions=(Assertion(grader="llm_grader", params={"prompt": "?"}),))
    import_into(other, write_bundle(judged, target=hostile, judges=(hostile,)))
    for request in (
        Request(regrade=FOREIGN),
        Request(resume=FOREIGN),
        Request(retry_errors=FOREIGN),
        Request(retry_errors=FOREIGN, suites=("s@v1",), targets=("echo",)),
    ):
        with pytest.raises(UsageError):
            await session_there.run(request)
    assert not (folder / "ran").exists()


async def test_imported_answers_are_never_taken_for_ones_own(
    bundle: Path, other: SqliteStore, session_there: RunSession
) -> None:
    import_into(other, bundle)
    request = Request(
        suites=("s.jsonl",), targets=("echo",), settings=Settings(reuse=True), explicit=frozenset({"reuse"})
    )
    for numbers in ((3, 0), (0, 3)):
        (result,) = await session_there.run(request)
        assert (result.tally.asked_count, result.tally.reused_count) == numbers


async def test_a_run_from_elsewhere_joins_no_group_of_ones_own(
    make: MakeRuns, suite: WriteSuite, attested: Attested, store: SqliteStore, other: SqliteStore
) -> None:
    own = [item.run for item in await make(suite(*TESTS), "echo mock")]
    forged = replace(own[0], id=FOREIGN)
    store.add_run(forged)
    for item in store.trials(own[0].id):
        store.save_trial(forged.id, item.trial, item.verdict or Verdict.ERROR)
    store.update_run(forged)
    path = attested(forged)
    store.delete_run(forged.id)
    import_into(store, path)
    import_into(other, path)
    for word in (own[0].group, own[1].id):
        assert [run.id for run in resolve_runs(store, [word])] == [run.id for run in own]
    for theirs, word in ((store, forged.id), (other, forged.group)):
        with pytest.raises(UsageError, match="is a single run that is not part of a group"):
            resolve_runs(theirs, [word])

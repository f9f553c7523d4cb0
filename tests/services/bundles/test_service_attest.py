"""`attest`: the same bytes each time, no held-out case in a public bundle, and no secret."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.bundles.keys import SigningKey, get_signing_key
from proctor.bundles.trust_store import load_trusted_keys
from proctor.errors import BundleError, StoreError, UsageError
from proctor.model import Run, Selection, Settings, SplitRule
from proctor.proof.canonical import parse_canonical
from proctor.proof.inclusion_proofs import TrialProof, check_proof
from proctor.proof.records import CaseLine, RedactedLine, TrialLine, parse_case_line, parse_trial_line
from proctor.proof.statement import CONFIG, ENVELOPE, FILES, SUITE, TRIALS, Statement
from proctor.services.bundles.attest import attest
from proctor.services.bundles.countersign import countersign
from proctor.services.bundles.prove import ProofCollector, prove
from proctor.services.bundles.verify import verify
from proctor.services.runs.reading.report import record_holdout_accesses
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite


@pytest.fixture
def key(folder: Path) -> SigningKey:
    return get_signing_key(folder / "keys", None, {})


@pytest.fixture
def ten(suite: WriteSuite) -> str:
    """Ten cases of which `echo` passes five, with texts that are found again."""
    return suite(
        *((f"t{n}", f"question{n}", f"question{n}" if n % 2 else f"wanted{n}") for n in range(10)),
        name="ten.jsonl",
    )


@pytest.fixture
async def run(make: MakeRuns, ten: str) -> Run:
    """A finished run with a holdout."""
    (result,) = await make(ten, holdout=0.3)
    return result.run


def write(
    store: SqliteStore, run: Run, path: str, key: SigningKey | None, *, public: bool = False
) -> Statement:
    return attest(store, run, Path(path), public=public, key=key)


def read_bundle(path: str | Path) -> dict[str, bytes]:
    """The files of a bundle by name."""
    if Path(path).is_dir():
        return {file.name: file.read_bytes() for file in sorted(Path(path).iterdir())}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in sorted(archive.namelist())}


def read_payload(path: str) -> bytes:
    """The statement of a bundle or a proof, as it is signed."""
    document = json.loads(
        read_bundle(path)[ENVELOPE] if not path.endswith(".json") else Path(path).read_bytes()
    )
    return b64decode(document.get("envelope", document)["payload"])


# --- the same bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["kept.db"])
def test_the_same_run_is_the_same_bytes(
    store: SqliteStore, run: Run, key: SigningKey, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, run, "first", key)
    write(store, run, "first.zip", key)
    assert set(read_bundle("first")) == {*FILES, ENVELOPE}
    assert read_bundle("first.zip") == read_bundle("first")
    record_holdout_accesses(store, run, reveal=True)
    store.update_run(replace(run, tags=("baseline",)))
    store.close()
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    second_store = SqliteStore.open_file(str(folder / "kept.db"))
    write(second_store, second_store.run(run.id), "second", key)
    write(second_store, second_store.run(run.id), "second.zip", key)
    second_store.close()
    assert read_bundle("second") == read_bundle(folder / "first")
    assert Path("second.zip").read_bytes() == (folder / "first.zip").read_bytes()


async def test_another_run_of_the_same_has_other_salts(
    store: SqliteStore, run: Run, make: MakeRuns, ten: str
) -> None:
    (other,) = await make(ten, holdout=0.3)
    write(store, run, "one", None)
    write(store, other.run, "other", None)
    pairs = zip(read_lines("one", SUITE)[1:], read_lines("other", SUITE)[1:], strict=True)
    assert all(json.loads(first)["salt"] != json.loads(second)["salt"] for first, second in pairs)
    assert (
        json.loads(read_lines("one", SUITE)[1])["case"] == json.loads(read_lines("other", SUITE)[1])["case"]
    )


def test_an_archive_has_one_date_one_order_and_plain_files(store: SqliteStore, run: Run) -> None:
    write(store, run, "a.zip", None)
    with zipfile.ZipFile("a.zip") as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == [*FILES, ENVELOPE]
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.external_attr >> 16 for entry in entries} == {0o100644}


@pytest.mark.skipif(os.name != "posix", reason="only there files have such rights")
def test_anybody_may_read_a_bundle_and_only_its_owner_may_write_it(store: SqliteStore, run: Run) -> None:
    before = os.umask(0o077)
    try:
        write(store, run, "full", None)
        write(store, run, "full.zip", None)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (*Path("full").iterdir(), Path("full.zip"))}
    assert set(modes.values()) == {0o644}
    assert stat.S_IMODE(Path("full").stat().st_mode) == 0o755


# --- full and public ---------------------------------------------------------------------------------------


def read_lines(path: str, name: str) -> list[bytes]:
    return read_bundle(path)[name].splitlines()


def test_a_full_bundle_has_every_case_and_trial_as_stored(store: SqliteStore, run: Run) -> None:
    write(store, run, "full", None)
    cases = [parse_case_line(line) for line in read_lines("full", SUITE)[1:]]
    trials = [parse_trial_line(line) for line in read_lines("full", TRIALS)]
    assert [(case_line.case, case_line.sent) for case_line in cases if isinstance(case_line, CaseLine)] == [
        (record.case, record.sent_digest) for record in store.cases(run.suite.content)
    ]
    assert [
        (trial_line.trial, trial_line.verdict) for trial_line in trials if isinstance(trial_line, TrialLine)
    ] == [(record.trial, record.verdict) for record in store.trials(run.id)]


def find_held_out(store: SqliteStore, run: Run) -> set[int]:
    return {record.trial.position for record in store.trials(run.id) if record.trial.split == "holdout"}


def test_the_public_gets_the_same_roots_and_claims_and_nothing_that_is_held_out(
    store: SqliteStore, run: Run, key: SigningKey
) -> None:
    full = write(store, run, "full", key)
    public = write(store, run, "public", key, public=True)
    assert (public.cases, public.trials, public.claims) == (full.cases, full.trials, full.claims)
    hidden_places = find_held_out(store, run)
    assert len(hidden_places) == 3
    content = b"".join(read_bundle("public").values()) + read_payload("public")
    for position in range(10):
        for text in (f"question{position}", f'"t{position}"'):
            assert (text.encode() in content) == (position not in hidden_places)
    for name, read in ((SUITE, parse_case_line), (TRIALS, parse_trial_line)):
        skipped = 1 if name == SUITE else 0
        redacted = [isinstance(read(line), RedactedLine) for line in read_lines("public", name)[skipped:]]
        assert [place for place, is_hidden in enumerate(redacted) if is_hidden] == sorted(hidden_places)


@pytest.mark.parametrize("public", [False, True])
def test_the_public_reads_no_warning_that_may_be_of_a_held_out_case(
    store: SqliteStore, run: Run, public: bool
) -> None:
    warned = replace(run, warnings=("ten.jsonl:3: warning: `expected` is 7000 and not text.",))
    write(store, warned, "b", None, public=public)
    verify("b", {})
    assert (b"7000" in read_bundle("b")[CONFIG]) is not public


async def test_the_public_sees_no_held_out_case_of_a_run_that_asked_none(
    store: SqliteStore, make: MakeRuns, ten: str, run: Run
) -> None:
    (result,) = await make(ten, holdout=0.3, settings=Settings(selection=Selection(split="dev")))
    statement = write(store, result.run, "public", None, public=True)
    assert (statement.split, set(statement.claims)) == ("all", {"all", "dev"})
    content = b"".join(read_bundle("public").values())
    assert not [n for n in find_held_out(store, run) if f"question{n}".encode() in content]
    assert statement.cases.size == 10


UNSPLIT = """
description: d
tests:
  - {id: a, criteria: c, input: 'Say ${{ SESAME }}.', assertions: [{type: contains, value: e}]}
  - {id: b, criteria: c, input: x, assertions: [{type: contains, value: x}]}
"""


async def test_a_suite_without_a_holdout_is_told_to_be_all_public(
    store: SqliteStore, make: MakeRuns, folder: Path, environ: dict[str, str]
) -> None:
    environ["SESAME"] = "open"
    (folder / "s.eval.yaml").write_text(UNSPLIT, encoding="utf-8")
    (result,) = await make("s.eval.yaml")
    notes: list[str] = []
    full = attest(store, result.run, Path("f"), public=False, key=None, notify=notes.append)
    assert notes == []
    public = attest(store, result.run, Path("p"), public=True, key=None, notify=notes.append)
    assert [line for line in notes if "has no holdout" in line]
    assert (public.files, public.passed_tests) == (full.files, full.passed_tests)
    assert list_access_kinds(store, result.run) == []


def test_a_run_that_is_divided_otherwise_than_its_suite_is_not_for_the_public(
    store: SqliteStore, run: Run
) -> None:
    for rule in (None, SplitRule(ratio=0.5)):
        with pytest.raises(StoreError, match="is not the one of its suite"):
            write(store, replace(run, suite=replace(run.suite, split_rule=rule)), "p", None, public=True)
    assert not Path("p").exists()


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("path", ["b", "b.zip"])
def test_what_is_written_is_verified(
    store: SqliteStore, run: Run, key: SigningKey, folder: Path, path: str, public: bool
) -> None:
    statement = write(store, run, path, key, public=public)
    bundle = verify(path, load_trusted_keys(folder / "keys"))
    assert (bundle.statement, bundle.standing) == (statement, "trusted")
    assert bundle.hidden == (3 if public else 0)
    assert statement.split == "holdout"


# --- looks -------------------------------------------------------------------------------------------------


def list_access_kinds(store: SqliteStore, run: Run) -> list[str]:
    return [look.kind for look in store.holdout_accesses(run.suite.digest)]


@pytest.mark.parametrize(("public", "looks"), [(False, ["rate", "reveal"]), (True, ["rate"])])
def test_a_bundle_is_a_look_at_what_it_shows(
    store: SqliteStore, run: Run, public: bool, looks: list[str]
) -> None:
    before = list_access_kinds(store, run)
    write(store, run, "b", None, public=public)
    assert list_access_kinds(store, run) == before + looks


async def test_a_full_bundle_of_dev_cases_reveals_the_others(
    store: SqliteStore, make: MakeRuns, ten: str
) -> None:
    (result,) = await make(ten, holdout=0.3, settings=Settings(selection=Selection(split="dev")))
    write(store, result.run, "b", None)
    assert list_access_kinds(store, result.run) == ["reveal"]


async def test_the_looks_are_those_before_the_run(
    store: SqliteStore, make: MakeRuns, run: Run, ten: str
) -> None:
    record_holdout_accesses(store, run, reveal=True)
    record_holdout_accesses(store, run, reveal=False)
    (later,) = await make(ten, holdout=0.3)
    record_holdout_accesses(store, run, reveal=True)
    assert write(store, run, "early", None).looks.rate == 0
    looks = write(store, later.run, "late", None).looks
    assert (looks.rate, looks.reveal) == (2, 1)


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["interrupted", "running"])
def test_a_part_of_a_run_is_refused(store: SqliteStore, run: Run, status: Any) -> None:
    with pytest.raises(UsageError, match=f"not finished.*--resume={run.id}"):
        write(store, replace(run, status=status), "b", None)
    assert not Path("b").exists()


def test_a_run_that_lacks_trials_is_refused(store: SqliteStore, run: Run) -> None:
    with pytest.raises(UsageError, match="10 of 11 trials"):
        write(store, replace(run, planned=11), "b", None)


def test_a_store_that_lacks_cases_is_damaged_and_nothing_is_left(
    store: SqliteStore, run: Run, folder: Path
) -> None:
    before = set(folder.iterdir())
    damaged_run = replace(run, suite=replace(run.suite, content="sha256:0"))
    for path in ("b", "b.zip"):
        with pytest.raises(StoreError, match="damaged"):
            write(store, damaged_run, path, None)
    assert {entry.name for entry in folder.iterdir()} == {entry.name for entry in before}


@pytest.fixture(params=["folder", "archive", "file", "link", "empty"])
def occupied_path(request: pytest.FixtureRequest, store: SqliteStore, run: Run) -> str:
    """A path where something else exists already."""
    path = "b.zip" if request.param == "archive" else "b"
    if request.param in ("folder", "archive"):
        write(store, run, path, None)
    elif request.param == "file":
        Path(path).write_text("mine", encoding="utf-8")
    elif request.param == "link":
        Path(path).symlink_to("nowhere")
    else:
        Path(path).mkdir()
    return path


def test_nothing_else_is_ever_overwritten(
    store: SqliteStore, run: Run, key: SigningKey, occupied_path: str, folder: Path
) -> None:
    def read_all() -> dict[str, Any]:
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")
            if path.name.startswith("b") or path.parent.name == "b"
        }

    before, looks = read_all(), list_access_kinds(store, run)
    with pytest.raises(UsageError, match="already"):
        write(store, run, occupied_path, key)
    assert (read_all(), list_access_kinds(store, run)) == (before, looks)
    assert os.path.lexists(occupied_path)


@pytest.mark.parametrize("path", ["b", "b.zip"])
def test_the_very_same_bundle_may_be_there(store: SqliteStore, run: Run, key: SigningKey, path: str) -> None:
    write(store, run, path, key)
    before = Path(path).stat().st_mtime_ns, read_bundle(path)
    write(store, run, path, key)
    assert (Path(path).stat().st_mtime_ns, read_bundle(path)) == before


def test_a_folder_that_is_not_there_is_a_sentence(store: SqliteStore, run: Run) -> None:
    with pytest.raises(UsageError, match="Create it first"):
        write(store, run, "nowhere/b", None)


def test_a_line_that_nobody_would_read_is_refused(
    store: SqliteStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.services.bundles.attest.MAX_BUNDLE_LINE_BYTES", 100)
    with pytest.raises(UsageError, match="Case 't0' makes a line of"):
        write(store, run, "b", None)
    assert not Path("b").exists()


def test_a_case_that_no_bundle_can_hold_is_named(
    store: SqliteStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.proof.canonical._MAX_DEPTH", 3)
    with pytest.raises(UsageError, match=r"Case 't0': .* nested too deeply"):
        write(store, run, "b", None)
    assert not Path("b").exists()


# --- secrets -----------------------------------------------------------------------------------------------


async def test_no_secret_and_no_place_of_the_maker_is_in_a_bundle(
    store: SqliteStore,
    make: MakeRuns,
    folder: Path,
    environ: dict[str, str],
    key: SigningKey,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    environ["SESAME"] = "open-sesame-4711"
    environ["UNNAMED"] = "another-value-of-the-environment"
    inner = folder / "inner"
    inner.mkdir()
    (inner / "targets.yaml").write_text(
        "targets:\n"
        "  - name: asked\n"
        "    provider: cli\n"
        "    command: cat {PROMPT_FILE}\n"
        "    cwd: .\n"
        "    env: {SESAME_KEY: '${{ SESAME }}'}\n"
        "  - name: canned\n"
        "    provider: scripted\n"
        "    file: answers.jsonl\n",
        encoding="utf-8",
    )
    (inner / "answers.jsonl").write_text('{"*": "yes"}\n', encoding="utf-8")
    (inner / "s.eval.yaml").write_text(UNSPLIT, encoding="utf-8")
    monkeypatch.chdir(inner)
    for target in ("asked", "canned"):
        (result,) = await make("s.eval.yaml", target)
        for path in (f"{target}-b", f"{target}-b.zip"):
            write(store, result.run, path, key)
            verify(path, {})
            content = b"".join(read_bundle(path).values()) + read_payload(path)
            assert b"${{ SESAME }}" in content
            private = (folder / "keys" / "default.key.pem").read_text(encoding="utf-8").splitlines()[1]
            secrets = (
                *environ.values(),
                str(folder),
                folder.name,
                private,
                store.secret(result.run.id).hex(),
            )
            assert [text for text in secrets if text.encode() in content] == []


# --- further signatures ------------------------------------------------------------------------------------


@pytest.fixture
def others(folder: Path) -> list[SigningKey]:
    return [get_signing_key(folder / f"keys{place}", None, {}) for place in range(2)]


@pytest.mark.parametrize("path", ["b", "b.zip"])
def test_a_signature_is_added_and_nothing_else_changes(
    store: SqliteStore, run: Run, key: SigningKey, others: list[SigningKey], path: str, folder: Path
) -> None:
    write(store, run, path, key)
    before, payload = read_bundle(path), read_payload(path)
    for other in others:
        result = countersign(Path(path), other, {})
        assert (result.added, other.id in result.signed_by) == (True, True)
    after = read_bundle(path)
    assert {name: after[name] for name in FILES} == {name: before[name] for name in FILES}
    assert read_payload(path) == payload
    bundle = verify(path, load_trusted_keys(folder / "keys"))
    assert {signature.id for signature in bundle.signatures} == {key.id, *(other.id for other in others)}
    assert bundle.standing == "trusted"
    assert not any(countersign(Path(path), signer, {}).added for signer in (key, *others))
    assert read_bundle(path) == after


@pytest.mark.parametrize("path", ["b", "b.zip"])
def test_the_same_signatures_are_the_same_bytes_in_whatever_order_they_came(
    store: SqliteStore, run: Run, key: SigningKey, others: list[SigningKey], path: str
) -> None:
    write(store, run, f"1{path}", key)
    write(store, run, f"2{path}", others[1])
    for first, second in ((others[0], others[0]), (others[1], key)):
        countersign(Path(f"1{path}"), first, {})
        countersign(Path(f"2{path}"), second, {})
    assert read_bundle(f"1{path}") == read_bundle(f"2{path}")


@pytest.mark.parametrize("path", ["b", "b.zip"])
def test_who_signs_at_the_same_time_loses_no_signature_of_another(
    store: SqliteStore, run: Run, key: SigningKey, others: list[SigningKey], path: str
) -> None:
    class Overtaken(SigningKey):
        def sign(self, data: bytes) -> bytes:
            countersign(Path(path), others[0], {})
            return super().sign(data)

    write(store, run, path, key)
    slow = Overtaken("slow", others[1]._private)
    with pytest.raises(
        BundleError, match="changed while you signed it, so it does not contain your signature"
    ):
        countersign(Path(path), slow, {})
    assert {item.id for item in verify(path, {}).signatures} == {key.id, others[0].id}
    assert {item.name for item in Path().glob(".*part")} == set()


def test_a_bundle_without_a_signature_gets_its_first(store: SqliteStore, run: Run, key: SigningKey) -> None:
    write(store, run, "plain", None)
    write(store, run, "signed", key)
    countersign(Path("plain"), key, {})
    assert read_bundle("plain") == read_bundle("signed")


@pytest.mark.skipif(os.name != "posix", reason="links are made otherwise there")
def test_what_a_link_leads_to_is_signed(store: SqliteStore, run: Run, key: SigningKey) -> None:
    write(store, run, "b.zip", None)
    Path("link.zip").symlink_to("b.zip")
    countersign(Path("link.zip"), key, {})
    assert Path("link.zip").is_symlink()
    assert verify("b.zip", {}).signatures


def test_what_does_not_hold_is_not_signed(store: SqliteStore, run: Run, key: SigningKey) -> None:
    write(store, run, "b", None)
    trials = Path("b") / TRIALS
    trials.write_bytes(trials.read_bytes().replace(b"question1", b"question2"))
    before = read_bundle("b")
    with pytest.raises(BundleError):
        countersign(Path("b"), key, {})
    assert read_bundle("b") == before


# --- one trial ---------------------------------------------------------------------------------------------


def read_proof(path: str) -> TrialProof:
    return check_proof(parse_canonical(Path(path).read_bytes().removesuffix(b"\n")))


def write_proof(store: SqliteStore, run: Run, case_id: str, key: SigningKey | None, **fields: Any) -> str:
    repeat, public = fields.get("repeat", 0), fields.get("public", False)
    prove(store, run, ProofCollector(case_id, repeat, Path("proof.json")), public=public, key=key)
    return "proof.json"


def test_a_trial_is_proved_by_the_envelope_of_the_bundle(
    store: SqliteStore, run: Run, key: SigningKey
) -> None:
    statement = write(store, run, "b", key)
    proof = read_proof(write_proof(store, run, "t1", key))
    assert proof.statement == statement
    assert (proof.trial.trial.case_id, proof.trial.verdict.value) == ("t1", "pass")
    assert proof.case.case.id == "t1"
    document = json.loads(Path("proof.json").read_bytes())
    assert document["envelope"] == json.loads(read_bundle("b")[ENVELOPE])


def test_a_proof_shows_nothing_of_another_trial(store: SqliteStore, run: Run, key: SigningKey) -> None:
    write(store, run, "b", key)
    path = write_proof(store, run, "t1", key)
    content = Path(path).read_bytes() + read_payload("b")
    for line in (*read_lines("b", TRIALS), *read_lines("b", SUITE)[1:]):
        read = json.loads(line)
        if read["index"] != 1:
            assert read["salt"].encode() not in content
            assert f"question{read['index']}".encode() not in content


def test_a_proof_for_the_public_names_no_held_out_case(store: SqliteStore, run: Run, key: SigningKey) -> None:
    hidden_places = find_held_out(store, run)
    position = next(n for n in range(10) if n not in hidden_places)
    path = write_proof(store, run, f"t{position}", key, public=True)
    content = Path(path).read_bytes() + read_payload(path)
    assert [n for n in range(10) if f'"t{n}"'.encode() in content] == sorted(set(range(10)) - hidden_places)


async def test_a_repeat_is_proved(store: SqliteStore, make: MakeRuns, ten: str, key: SigningKey) -> None:
    (result,) = await make(ten, settings=Settings(repeats=2))
    assert read_proof(write_proof(store, result.run, "t3", key, repeat=1)).trial.trial.repeat == 1


@pytest.mark.parametrize(("case_id", "repeat"), [("nope", 0), ("t1", 1)])
def test_a_trial_that_is_not_there_is_a_sentence(
    store: SqliteStore, run: Run, case_id: str, repeat: int
) -> None:
    with pytest.raises(UsageError, match=f"no trial of case '{case_id}'"):
        write_proof(store, run, case_id, None, repeat=repeat)
    assert not Path("proof.json").exists()
    assert list_access_kinds(store, run) == []


def test_a_proof_is_never_written_over_something_else(store: SqliteStore, run: Run) -> None:
    write_proof(store, run, "t1", None)
    before = Path("proof.json").read_bytes()
    write_proof(store, run, "t1", None)
    with pytest.raises(UsageError, match="already exists"):
        write_proof(store, run, "t2", None)
    assert Path("proof.json").read_bytes() == before


def test_a_proof_of_a_held_out_trial_is_a_look_at_it(store: SqliteStore, run: Run) -> None:
    hidden_place = min(find_held_out(store, run))
    write_proof(store, run, f"t{hidden_place}", None)
    assert list_access_kinds(store, run) == ["rate", "reveal"]

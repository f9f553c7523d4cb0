"""`proctor attest` and `proctor run --attest`: what they write, print and refuse."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proctor.bundles.keys import get_signing_key
from proctor.proof.statement import ENVELOPE, FILES
from support.cli import Proctor
from support.waiting import PATIENCE_S, wait_until

NAMES = {*FILES, ENVELOPE}


@pytest.fixture
def run(proctor: Proctor, half: str) -> str:
    """The id of a run of ten cases of which three are held out."""
    return str(proctor("run", half, "--target", "echo", "--holdout", "0.3", "--json").run["run"])


def signers(path: Path) -> list[str]:
    return [signature["keyid"] for signature in json.loads((path / ENVELOPE).read_bytes())["signatures"]]


def looks(proctor: Proctor) -> int:
    """The number of holdout accesses before this test."""
    return int(proctor("runs", "show", "last", "--json").run["looks"]) - 1


# --- attest ------------------------------------------------------------------------------------------------


def test_attest_writes_a_signed_bundle_and_prints_how_to_verify_it(
    proctor: Proctor, run: str, folder: Path, own_keys: Path
) -> None:
    result = proctor("attest", "last")
    path = folder / f"{run}.bundle"
    assert result.code == 0
    assert {file.name for file in path.iterdir()} == NAMES
    key = get_signing_key(own_keys, None)
    assert signers(path) == [key.id]
    assert result.out.splitlines()[0].startswith(f"{path.name}: full bundle of run {run}, half v1 on echo")
    assert f"  signed by {key.id}" in result.out
    assert f"proctor verify {path.name}" in result.out
    assert "Created your signing key" in result.err
    assert key.id in result.err
    assert f"To publish a bundle without them, run: proctor attest {run} --public" in result.err


def test_the_first_signature_creates_a_key_and_says_so_once(proctor: Proctor, run: str) -> None:
    assert "Created your signing key" in proctor("attest", run, "-o", "one").err
    assert "Created your signing key" not in proctor("attest", run, "-o", "two.zip").err
    assert Path("two.zip").is_file()


def test_printed_commands_can_be_pasted(proctor: Proctor, run: str) -> None:
    result = proctor("attest", run, "-o", "for you.zip", "--keys", "my keys")
    assert result.out.endswith("proctor verify 'for you.zip'\n")
    assert "`proctor keys show --keys 'my keys'`" in result.err
    again = proctor("attest", run, "-o", "for you.zip")
    assert again.code == 4
    assert "`proctor attest 'for you.zip'`" in again.err


def test_a_run_that_is_refused_makes_no_key(proctor: Proctor, run: str, own_keys: Path) -> None:
    proctor("attest", run, "--no-sign", "-o", "b.zip")
    proctor("runs", "import", "b.zip", "--store", "other.db")
    assert proctor("attest", run, "--store", "other.db").code == 4
    assert not own_keys.exists()


def test_a_public_bundle_has_its_own_name(proctor: Proctor, run: str) -> None:
    assert proctor("attest", run, "--public").code == 0
    result = proctor("attest", run)
    assert result.code == 0
    assert {bundle.name for bundle in Path().glob("*.bundle")} == {f"{run}.bundle", f"{run}.public.bundle"}


@pytest.mark.parametrize("flags", [[], ["--public"]])
def test_what_is_attested_is_verified(proctor: Proctor, run: str, flags: list[str]) -> None:
    assert proctor("attest", run, "-o", "b.zip", *flags).code == 0
    result = proctor("verify", "b.zip", "--require-signature")
    assert (result.code, result.err) == (0, "")


def test_json_has_the_claims_and_who_signed(proctor: Proctor, run: str, own_keys: Path) -> None:
    row = proctor("attest", run, "-o", "b", "--json").json
    assert (row["bundle"], row["kind"], row["run"], row["exit_code"]) == ("b", "full", run, 0)
    assert row["signed_by"] == [get_signing_key(own_keys, None).id]
    assert set(row["claims"]) == {"all", "dev", "holdout"}
    assert row["claims"]["all"]["total"] == 10
    assert set(row["files"]) == set(FILES)


def test_an_unsigned_bundle_says_what_it_is_worth(proctor: Proctor, run: str, own_keys: Path) -> None:
    result = proctor("attest", run, "-o", "b", "--no-sign")
    assert "not signed: anyone could have made it" in result.out
    assert signers(Path("b")) == []
    assert not own_keys.exists()


def test_another_key_can_sign(proctor: Proctor, run: str) -> None:
    assert proctor("keys", "new", "release").code == 0
    proctor("attest", run, "-o", "b", "--sign-key", "release")
    assert signers(Path("b")) == [get_signing_key(Path("keys"), "release").id]
    proctor("attest", run, "-o", "c", "--keys", "elsewhere")
    assert signers(Path("c")) == [get_signing_key(Path("elsewhere"), None).id]


def test_a_bundle_gets_a_further_signature(proctor: Proctor, run: str) -> None:
    proctor("attest", run, "-o", "b", "--keys", "mine")
    result = proctor("attest", "b", "--keys", "yours")
    assert result.code == 0
    assert result.out.count("  signed by ") == 2
    assert len(signers(Path("b"))) == 2
    before = (Path("b") / ENVELOPE).read_bytes()
    result = proctor("attest", "b", "--keys", "yours", "--json")
    assert ". Nothing was written." in result.err
    assert len(result.json["signed_by"]) == 2
    assert (Path("b") / ENVELOPE).read_bytes() == before


def test_a_forged_bundle_gets_no_signature(proctor: Proctor, run: str) -> None:
    proctor("attest", run, "-o", "b")
    trials = Path("b") / FILES[1]
    trials.write_bytes(trials.read_bytes().replace(b"say 1", b"say 2"))
    result = proctor("attest", "b", "--keys", "yours")
    assert result.code == 1
    assert len(signers(Path("b"))) == 1


def test_a_proof_of_one_trial_verifies(proctor: Proctor, run: str) -> None:
    result = proctor("attest", run, "--trial", "t1")
    assert result.code == 0
    assert f"{run}.proof.json: proof of case 't1'" in result.out
    whole = json.loads(Path(f"{run}.proof.json").read_bytes())
    assert set(whole) == {"envelope", "trial", "case"}
    assert proctor("verify", f"{run}.proof.json").code == 0


ERRORS = {
    "nope": "There is no run 'nope'",
    "nope.zip": "There is no bundle at nope.zip.",
    "last --trial t1 -o proof.zip": "must end in .json",
    "last --no-sign --sign-key x": "contradict",
    "last --repeat-number 1": "Add --trial ID",
    "last --trial nope": "no trial of case 'nope'",
    "last --sign-key nope": "There is no key 'nope'",
    "last -o nowhere/b": "does not exist",
    "last -o keep": "already exists",
    "keep --public": "Remove --public",
    "keep --no-sign": "Remove --no-sign",
    "keep --trial t1": "Remove --trial",
    "keep -o x": "Remove --output",
    "keep": "is not a bundle",
    "last --store nowhere.db": "There is no store",
}


def test_wrong_usage_is_an_error_in_one_sentence(proctor: Proctor, run: str, folder: Path) -> None:
    (folder / "keep").mkdir()
    (folder / "keep" / "mine.txt").write_text("mine", encoding="utf-8")
    before = looks(proctor)
    for words, message in ERRORS.items():
        result = proctor("attest", *words.split())
        assert (result.code, message in result.err) == (4, True), (words, result)
    assert [file.name for file in (folder / "keep").iterdir()] == ["mine.txt"]
    assert looks(proctor) == before + 1


def test_a_missing_package_is_named(proctor: Proctor, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    result = proctor("attest", run)
    assert result.code == 4
    assert "pip install 'proctor[sign]'" in result.err
    assert not list(Path().glob("*.bundle"))
    assert proctor("attest", run, "--no-sign").code == 0
    run_result = proctor("run", "half.jsonl", "--target", "echo", "--attest")
    assert (run_result.code, run_result.out) == (4, "")


# --- run --attest ------------------------------------------------------------------------------------------


def test_each_finished_run_gets_its_bundle(proctor: Proctor, half: str, suite: Callable[..., str]) -> None:
    other = suite(("a", "x", "x"), name="other.jsonl")
    result = proctor("run", half, other, "--target", "echo", "--attest=made/here", "--json")
    rows = result.json["runs"]
    assert [row["bundle"] for row in rows] == [str(Path(f"made/here/{row['run']}.bundle")) for row in rows]
    for row in rows:
        assert proctor("verify", row["bundle"], "--require-signature").code == 0
        assert f"Bundle: {row['bundle']}" in result.err
    assert result.code == 1


def test_without_a_value_bundles_go_into_the_working_directory(proctor: Proctor, half: str) -> None:
    result = proctor("run", "--attest", half, "--target", "echo", "--public", "--quiet")
    assert (result.out, result.code) == ("", 1)
    assert "Bundle:" not in result.err
    (bundle,) = Path().glob("*.public.bundle")
    assert {file.name for file in bundle.iterdir()} == NAMES


def test_a_project_can_have_every_run_attested(proctor: Proctor, half: str, folder: Path) -> None:
    (folder / "proctor.toml").write_text('attest = "bundles"\npublic = true\n', encoding="utf-8")
    row = proctor("run", half, "--target", "echo", "--json").run
    assert Path(row["bundle"]) == Path("bundles") / f"{row['run']}.public.bundle"


def test_without_the_flag_there_is_no_bundle_and_no_word_of_it(proctor: Proctor, half: str) -> None:
    row = proctor("run", half, "--target", "echo", "--json").run
    assert "bundle" not in row
    assert not Path("keys").exists()


@pytest.mark.parametrize(("flags", "more"), [([], 2), (["--public"], 1), (["--quiet"], 2)])
def test_a_run_with_its_bundle_is_looked_at_once(
    proctor: Proctor, run: str, half: str, flags: list[str], more: int
) -> None:
    before = looks(proctor)
    proctor("run", half, "--target", "echo", "--holdout", "0.3", "--attest", *flags)
    assert looks(proctor) == before + 1 + more
    assert run


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--attest=b.zip"], "must name a folder"),
        (["--attest=file"], "cannot be created"),
        (["--attest", "--sign-key", "nope"], "There is no key 'nope'"),
        (["--public"], "Add --attest"),
        (["--sign-key", "x"], "Add --attest"),
    ],
)
def test_a_run_that_cannot_be_attested_is_refused_before_any_request(
    proctor: Proctor, half: str, flags: list[str], message: str
) -> None:
    Path("file").write_text("mine", encoding="utf-8")
    result = proctor("run", half, "--target", "echo", *flags)
    assert (result.code, result.out) == (4, "")
    assert message in result.err
    assert not Path(".proctor/proctor.db").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_nobody_may_write_is_refused(proctor: Proctor, half: str) -> None:
    Path("locked").mkdir(mode=0o500)
    result = proctor("run", half, "--target", "echo", "--attest=locked")
    assert (result.code, result.out) == (4, "")


def test_a_bundle_that_cannot_be_written_loses_no_run(
    proctor: Proctor, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.services.bundles.attest.MAX_BUNDLE_LINE_BYTES", 10)
    result = proctor("run", half, "--target", "echo", "--attest", "--json")
    assert result.code == 4
    assert result.run["passed"] == 5
    assert "bundle" not in result.run
    assert "is stored, but no bundle was written for it. Case 't0'" in result.err


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals are sent otherwise there")
def test_an_interrupted_run_gets_no_bundle(
    start: Callable[..., subprocess.Popen[str]], half: str, folder: Path, proctor: Proctor
) -> None:
    (folder / "slow.sh").write_text(
        "#!/bin/sh\ntouch begun\nuntil [ -e go ]; do sleep 0.01; done\ncat\n", encoding="utf-8"
    )
    (folder / "slow.sh").chmod(0o755)
    words = ("run", half, "--target", "command:./slow.sh", "--concurrency", "1", "--attest")
    process = start(*words)
    wait_until((folder / "begun").exists)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("Ctrl-C again" in line for line in process.stderr)
    (folder / "go").touch()
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2
    assert "was stopped before it finished, so no bundle was written for it" in err
    assert not list(folder.glob("*.bundle"))
    assert "not finished" in proctor("attest", "last").err
    run = proctor("run", "--resume", "--attest", "--json", half, "--target", "command:./slow.sh").run
    assert proctor("verify", run["bundle"]).code == 0

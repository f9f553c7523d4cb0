"""`proctor verify` as a command: output, exit codes, and text that never reaches the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import Proctor


@pytest.fixture
def bundle(proctor: Proctor, half: str, folder: Path) -> str:
    """A full bundle of a run that passed five of ten, signed by the key `default`."""
    assert proctor("run", half, "--target", "echo", "--quiet").code == 1
    assert proctor("attest", "last", "-o", "b", "--keys", "mine").code == 0
    return "b"


def test_a_bundle_that_holds_is_told_with_its_number_and_exits_0(proctor: Proctor, bundle: str) -> None:
    result = proctor("verify", bundle, "--keys", "mine")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "b is valid: all scores, verdicts and numbers follow from the answers."
    assert any(line.split()[:4] == ["all", "5", "10", "50.0%"] for line in lines)
    assert "derived    10 scores, by grading the answers again" in lines
    assert lines[-1].startswith("signature  signed by a trusted key (yours: default, ")


def test_who_signed_decides_only_where_that_is_asked_for(proctor: Proctor, bundle: str) -> None:
    assert proctor("verify", bundle, "--keys", "others").code == 0
    result = proctor("verify", bundle, "--keys", "others", "--require-signature")
    assert result.code == 1
    assert result.out.startswith(
        "b is not accepted: it is signed by an unknown key, so anyone could have made it.\n"
        "Only its content is consistent: all scores, verdicts and numbers follow from the answers.\n"
    )
    assert "is valid" not in result.out
    assert "consistent, but anyone could have made this key" in result.out
    assert (
        "b is signed by an unknown key, but --require-signature needs a signature by a key that you trust."
    ) in result.err
    assert proctor("verify", bundle, "--keys", "mine", "--require-signature").code == 0
    proctor("attest", "last", "-o", "plain", "--no-sign")
    result = proctor("verify", "plain", "--keys", "mine", "--require-signature")
    assert result.code == 1
    assert "unsigned: consistent, but anyone could have made it" in result.out


def test_a_key_may_be_demanded_by_its_fingerprint(proctor: Proctor, bundle: str) -> None:
    (row,) = proctor("keys", "list", "--keys", "mine", "--json").json["keys"]
    words = ("verify", bundle, "--keys", "others", "--signed-by")
    result = proctor(*words, row["id"].upper())
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "b is valid: all scores, verdicts and numbers follow from the answers."
    assert lines[-1] == f"signature  signed by the key that --signed-by names ({row['id']})"
    assert proctor(*words, row["id"], "--require-signature").code == 1
    assert proctor(*words, row["id"], "--json").json["errors"] == []

    other = "0" * 64
    result = proctor(*words, other)
    assert result.code == 1
    assert result.out.startswith(
        "b is not accepted: it is signed by another key, so anyone could have made it."
    )
    assert f"b is signed by another key, but --signed-by needs a signature by the key {other}." in result.err
    result = proctor("verify", bundle, "--keys", "mine", "--signed-by", other, "--json")
    assert (result.code, [error["path"] for error in result.json["errors"]]) == (1, ["b"])
    proctor("attest", "last", "-o", "plain", "--no-sign")
    assert "plain is unsigned, but --signed-by needs" in proctor("verify", "plain", "--signed-by", other).err
    proctor("attest", "last", "--trial", "t3", "-o", "t3.json", "--keys", "mine")
    assert proctor("verify", "t3.json", "--keys", "others", "--signed-by", row["id"]).code == 0
    assert proctor("verify", "t3.json", "--keys", "others", "--signed-by", other).code == 1


def test_what_is_no_fingerprint_is_refused(proctor: Proctor, bundle: str) -> None:
    result = proctor("verify", bundle, "--signed-by", "d1f84e29")
    assert result.code == 4
    assert "'d1f84e29' is not the fingerprint of a key. Give all 64 digits" in result.err


def test_of_several_signatures_the_trusted_one_stands_last(proctor: Proctor, bundle: str) -> None:
    for stranger in ("a", "b", "c", "d"):  # whose key ids come before and after the trusted one
        proctor("attest", bundle, "--keys", f"others-{stranger}")
    lines = proctor("verify", bundle, "--keys", "mine").out.splitlines()
    assert [line.split()[:4] for line in lines[-5:]] == [
        *[["signature", "signed", "by", "an"]] * 4,
        ["signature", "signed", "by", "a"],
    ]


def test_what_is_wrong_is_one_sentence_and_exit_code_1(proctor: Proctor, bundle: str, folder: Path) -> None:
    (folder / "b" / "responses.json").write_text("{}", encoding="utf-8")
    result = proctor("verify", bundle)
    assert (result.code, result.out) == (1, "")
    assert result.err == "proctor: error: b has 'responses.json', which is not a file of a bundle.\n"


def test_no_bundle_is_exit_code_4(proctor: Proctor, half: str) -> None:
    for word in ("nowhere", half):
        result = proctor("verify", word)
        assert (result.code, result.out) == (4, "")
        assert result.err.startswith("proctor: error: ")
    assert proctor("verify").code == 4


def test_each_of_several_is_told_and_the_worst_is_the_exit_code(
    proctor: Proctor, bundle: str, folder: Path
) -> None:
    proctor("attest", "last", "-o", "public.zip", "--public", "--keys", "mine")
    proctor("attest", "last", "-o", "broken", "--keys", "mine")
    (folder / "broken" / "trials.jsonl").write_bytes(b"")
    result = proctor("verify", bundle, "broken", "public.zip", "--json", "--keys", "mine")
    assert result.code == result.json["exit_code"] == 1
    full, public = result.json["bundles"]
    assert (full["kind"], full["hidden"], full["graded_again"], full["standing"]) == (
        "full",
        0,
        10,
        "trusted",
    )
    assert (public["kind"], public["hidden"], public["graded_again"]) == ("public", 2, 8)
    assert full["claims"] == public["claims"]
    assert len(public["unverified"]) == 2
    assert [error["path"] for error in result.json["errors"]] == ["broken"]
    assert full["started_at"].endswith("Z")  # as in every other JSON
    assert proctor("verify", bundle, "broken", "nowhere").code == 4


def test_a_proof_of_one_trial_is_checked_too(proctor: Proctor, bundle: str, folder: Path) -> None:
    proctor("attest", "last", "--trial", "t3", "-o", "t3.json", "--keys", "mine")
    result = proctor("verify", "t3.json", "--keys", "mine")
    assert result.code == 0
    assert "trial      case t3: pass" in result.out
    assert "signed by a trusted key" in result.out
    row = proctor("verify", "t3.json", "--json").json["bundles"][0]
    assert row["proof_of"] == {"case_id": "t3", "repeat": 0, "verdict": "pass"}
    text = (folder / "t3.json").read_text(encoding="utf-8")
    (folder / "t3.json").write_text(text.replace("say 3", "say 4"), encoding="utf-8")
    result = proctor("verify", "t3.json")
    assert result.code == 1
    assert "does not lead to the root" in result.err
    (folder / "t3.json").write_text(text[:300], encoding="utf-8")
    assert proctor("verify", "t3.json").code == 1


def test_nothing_of_a_bundle_moves_the_terminal(
    proctor: Proctor, folder: Path, suite: Callable[..., str], script: Callable[..., str]
) -> None:
    name = "\x1b[2J\u202eevil\r\n\u2028name"
    header = {"suite_name": name, "description": name}
    (folder / "evil.jsonl").write_text(
        json.dumps(header)
        + "\n"
        + json.dumps({"id": name, "prompt": "a", "expected": {"type": "exact", "value": "a"}}),
        encoding="utf-8",
    )
    assert proctor("run", "evil.jsonl", "--target", "echo", "--quiet").code in (0, 1)
    assert proctor("attest", "last", "-o", "evil", "--no-sign").code == 0
    for words in (("verify", "evil"), ("verify", "evil", "--json")):
        result = proctor(*words)
        assert result.code == 1
        assert "a name has control characters" in result.out + result.err
        assert all(letter.isprintable() or letter == "\n" for letter in result.out + result.err)


def test_what_selected_the_cases_and_what_makes_them_pass_is_told(proctor: Proctor, half: str) -> None:
    proctor(
        "run", half, "--target", "echo", "--quiet", "--id", "t[13]", "--threshold", "0.5", "--repeat", "2"
    )
    proctor("attest", "last", "-o", "two", "--no-sign")
    lines = proctor("verify", "two").out.splitlines()
    cases_line = (
        "cases      2 of 10 were run; held out 0.2 by rank, seed 42; threshold 0.5; repeats 2; ids t[13]"
    )
    assert cases_line in lines
    row = proctor("verify", "two", "--json").json["bundles"][0]
    assert (row["suite_cases"], row["claims"]["all"]["cases"], row["settings"]["threshold"]) == (10, 2, 0.5)


def test_who_judged_and_whose_answers_these_are_is_told(
    proctor: Proctor, folder: Path, script: Callable[..., str]
) -> None:
    (folder / "s.eval.yaml").write_text(
        "execution: {trials: {count: 2, strategy: pass_at_k}}\n"
        "tests:\n  - {id: q, criteria: Is it kind?, input: Why?}\n",
        encoding="utf-8",
    )
    judge = script(rules={"*": '{"score": 1}'})
    run = ("run", "s.eval.yaml", "--target", "echo", "--quiet", "--judge", judge)
    assert proctor(*run).code == 0
    assert proctor(*run, "--reuse", "--judge-repeat", "3", "--judge-rule", "any").code == 0
    proctor("attest", "last", "-o", "b", "--no-sign")
    lines = proctor("verify", "b").out.splitlines()
    assert [line for line in lines if line.startswith("cases ")] == [
        "cases      1 of 1 were run; repeats rule any; threshold 0.8; judge repeats 3; judge rule any"
    ]
    assert "answers    2 reused from earlier runs" in lines
    assert f"judges     {judge}" in lines
    row = proctor("verify", "b", "--json").json["bundles"][0]
    assert (row["judges"], row["taken_over"], row["repeats_rule"]) == ([judge], 2, "any")


def test_the_first_line_says_what_a_missing_signature_leaves_open(
    proctor: Proctor, folder: Path, half: str
) -> None:
    proctor("run", half, "--target", "echo", "--quiet")
    proctor("attest", "last", "-o", "plain", "--no-sign")
    proctor("attest", "last", "-o", "signed")
    first = proctor("verify", "plain").out.splitlines()[0]
    leaves_open = "so it does not prove that this target gave these answers, or when."
    assert first.startswith(
        f"Unsigned: anyone could have made this file, {leaves_open} Exit code 0 means only"
    )
    assert "--require-signature" in first
    assert proctor("verify", "signed").out.startswith("signed is valid: ")
    unknown = proctor("verify", "signed", "--keys", "empty").out
    assert unknown.startswith("Signed by an unknown key: anyone could have made this file")

"""The whole way from a file of cases to a badge that another person verifies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli import Proctor

CASES = 120
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord")


def _answers(path: Path, wrong: set[int]) -> None:
    rows = [{f"w{n}": "nothing" if n in wrong else WORDS[n % 6]} for n in range(CASES)]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


@pytest.fixture
def before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite of 96 dev and 24 holdout cases, and the answers of a worse and a better prompt."""
    monkeypatch.setenv("PROCTOR_KEYS", str(folder / "keys-of-ada"))
    rows = [{"id": f"w{n}", "input": f"Word {n}?", "expected": WORDS[n % 6]} for n in range(CASES)]
    (folder / "words.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    _answers(folder / "worse.jsonl", set(range(0, CASES, 3)))
    _answers(folder / "better.jsonl", set(range(0, CASES, 10)))


@pytest.mark.slow
def test_from_a_suite_to_a_badge_that_somebody_else_verifies(
    proctor: Proctor, folder: Path, before: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proctor("validate", "words.jsonl").code == 0
    first = proctor("run", "words.jsonl", "--target", "scripted:worse.jsonl", "--json").run
    proctor("runs", "tag", first["run"], "baseline")
    second = proctor(
        "run", "words.jsonl", "--target", "scripted:better.jsonl", "--attest=release", "--json"
    ).run
    holdout = second["splits"]["holdout"]

    comparison = proctor("compare", "baseline", "last", "--gate", "--max-regression", 0.02)
    assert comparison.code == 0
    assert "is better than" in comparison.out
    assert proctor("compare", "last", "baseline", "--gate", "--max-regression", 0.02).code == 1

    (bundle,) = (folder / "release").iterdir()
    certified = proctor("certify", bundle, "-o", "badge.svg", "--json")
    assert certified.code == 0
    rate = f"{100 * holdout['passed'] / holdout['total']:.1f} %"
    badge = (folder / "badge.svg").read_text(encoding="utf-8")
    assert f"{rate} verified" in badge
    assert "n=24" in badge
    assert bundle.name in badge

    public_key = proctor("keys", "show").out
    monkeypatch.setenv("PROCTOR_KEYS", str(folder / "keys-of-bela"))
    unknown = proctor("verify", bundle)
    assert (unknown.code, "unknown key" in unknown.out) == (0, True)
    assert proctor("verify", bundle, "--require-signature").code == 1
    (folder / "ada.pem").write_text(public_key, encoding="utf-8")
    proctor("keys", "trust", "ada.pem", "--name", "ada")
    verification = proctor("verify", bundle, "--require-signature")
    assert (verification.code, "ada" in verification.out) == (0, True)

    again = proctor("replay", bundle, "--target", "scripted:better.jsonl", "--store", "belas.db", "--json")
    assert again.code == 0
    assert proctor("replay", bundle, "--target", "scripted:worse.jsonl", "--store", "belas.db").code == 1


def test_a_bundle_whose_answers_were_changed_gets_no_badge(
    proctor: Proctor, folder: Path, before: None
) -> None:
    proctor("run", "words.jsonl", "--target", "scripted:worse.jsonl", "--quiet", "--attest=release")
    (bundle,) = (folder / "release").iterdir()
    trials = bundle / "trials.jsonl"
    trials.write_bytes(trials.read_bytes().replace(b'"nothing"', b'"amber"'))
    result = proctor("certify", bundle, "-o", "badge.svg")
    assert result.code == 1
    assert "trials.jsonl" in result.err
    assert not (folder / "badge.svg").exists()

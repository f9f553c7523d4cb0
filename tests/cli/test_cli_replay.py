"""`proctor replay` and `proctor runs import`: output, files and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor

TESTS = [{"id": name, "input": f"say {name}", "expected": f"say {name}"} for name in "abcde"]


@pytest.fixture
def bundle(proctor: Proctor, suite: Callable[..., str]) -> str:
    """The signed bundle of a run in which `e` failed."""
    path = suite(*TESTS[:4], {**TESTS[4], "expected": "nothing"})
    proctor("run", path, "--target", "echo", "--holdout", "0.2", "--quiet")
    assert proctor("attest", "last", "-o", "b.zip").code == 0
    return "b.zip"


@pytest.fixture
def target(folder: Path) -> Callable[..., str]:
    """A target that answers cases by their ids."""

    def write(**answers: str) -> str:
        rows = [json.dumps({key: text}) for key, text in answers.items()]
        (folder / "now.jsonl").write_text("\n".join(rows), encoding="utf-8")
        return "scripted:now.jsonl"

    return write


def numbers(result: Any) -> list[int]:
    return [result.json[name]["count"] for name in ("identical", "same_verdict", "changed")]


def test_equal_verdicts_are_exit_0(proctor: Proctor, bundle: str) -> None:
    result = proctor("replay", bundle, "--target", "echo")
    assert result.code == 0
    assert "identical           5  100.0%" in result.out
    assert "Passed then  4 of 5: 80.0%, 95% interval 38–96%\n" in result.out
    assert "Passed now   4 of 5: 80.0%" in result.out
    assert "signed by a trusted key, yours: default (" in result.out


def test_a_change_is_exit_1_and_named_both_ways(
    proctor: Proctor, bundle: str, target: Callable[..., str]
) -> None:
    answers = {"a": "no", "b": "say b", "c": "say c", "d": "say d", "e": "nothing"}
    result = proctor("replay", bundle, "--target", target(**answers), "--json")
    assert result.code == result.json["exit_code"] == 1
    assert numbers(result) == [3, 0, 2]
    assert [case["case_id"] for case in result.json["now_failing"]] == ["a"]
    assert [case["case_id"] for case in result.json["now_passing"]] == ["e"]
    assert result.json["identical"]["ci95"] == [0.231, 0.882]
    assert (result.json["then"]["passed"], result.json["now"]["passed"]) == (4, 4)
    assert proctor("runs", "show", result.json["replay"]).code == 0


def test_errors_are_exit_3(proctor: Proctor, bundle: str, target: Callable[..., str]) -> None:
    result = proctor("replay", bundle, "--target", target(a="no", b="say b"))
    assert result.code == 3
    assert "Not measured: c, d, e\n" in result.out


@pytest.mark.parametrize("ending", ["json", "md"])
def test_files_have_the_numbers_of_the_output(
    proctor: Proctor, bundle: str, folder: Path, ending: str
) -> None:
    result = proctor("replay", bundle, "--target", "echo", "-o", f"r.{ending}", "--quiet")
    assert (result.code, result.out) == (0, "")
    text = (folder / f"r.{ending}").read_text(encoding="utf-8")
    assert (
        json.loads(text)["identical"]["count"] == 5
        if ending == "json"
        else "| identical | 5 | 100.0% |" in text
    )


@pytest.mark.slow
def test_wrong_usage_sends_no_request(proctor: Proctor, bundle: str) -> None:
    before = proctor("runs", "list").out
    errors = {
        "b.zip": (4, "--target"),
        "nope.zip -t echo": (4, "There is no bundle"),
        "s.jsonl -t echo": (4, "is not a bundle"),
        "b.zip -t ehco": (4, "'echo'"),
        "b.zip -t echo -o x.txt": (4, "ending"),
        "b.zip -t echo -o no/x.md": (4, "does not exist"),
        "b.zip -t echo --keys elsewhere --require-signature": (1, "do not trust"),
    }
    for words, (code, why) in errors.items():
        result = proctor("replay", *words.split())
        assert (result.code, result.out, why in result.err) == (code, "", True), (words, result)
    assert proctor("runs", "list").out == before


def test_nothing_of_what_is_held_out_is_shown(
    proctor: Proctor, bundle: str, target: Callable[..., str]
) -> None:
    looks = proctor("runs", "show", "last", "--json").run["looks"]
    result = proctor("replay", bundle, "-t", target(**{"*": "other"}))
    assert "say " not in result.out + result.err
    assert "nothing" not in result.out
    assert proctor("runs", "show", "last", "--json").run["looks"] == looks + 2  # the replay, and this


def test_a_broken_targets_file_is_told_with_its_line(proctor: Proctor, bundle: str, folder: Path) -> None:
    (folder / "targets.yaml").write_text("targets: nonsense\n", encoding="utf-8")
    for words in (["replay", bundle, "-t", "echo"], ["runs", "import", bundle, "--store", "other.db"]):
        result = proctor(*words)
        assert result.code == 4
        assert "targets.yaml:1: error: " in result.err


# --- runs import -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_imported_run_is_shown_compared_and_graded(proctor: Proctor, bundle: str) -> None:
    other = ("--store", "other.db")
    result = proctor("runs", "import", bundle, *other)
    assert result.code == 0
    assert result.out.startswith("Imported. 20")
    assert "signed by a trusted key, yours: default (" in result.out
    run_id = proctor("runs", "import", bundle, *other, "--json").json["run"]
    assert "[imported-trusted]" in proctor("runs", "list", *other).out
    assert (
        "Imported from a bundle that is signed by a trusted key.\n"
        in proctor("runs", "show", run_id, *other).out
    )
    proctor("replay", bundle, "-t", "echo", *other)
    assert proctor("compare", "imported-trusted", "last", *other).code == 0
    assert proctor("regrade", run_id, *other).code == 1  # one case fails, as in the original run
    refusal = proctor("attest", run_id, *other)
    assert (refusal.code, refusal.out) == (4, "")
    assert "were imported" in refusal.err


def test_importing_again_is_told_and_exit_0(proctor: Proctor, bundle: str) -> None:
    assert not proctor("runs", "import", bundle, "--json").json["new"]  # the store that the bundle is from
    assert proctor("runs", "import", bundle, "--store", "o.db", "--json").json["new"]
    result = proctor("runs", "import", bundle, "--store", "o.db")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("This run is already in the store. Nothing was changed. ")


def test_an_unsigned_bundle_can_be_refused(proctor: Proctor, bundle: str, folder: Path) -> None:
    assert proctor("attest", "last", "-o", "u.zip", "--no-sign").code == 0
    result = proctor("runs", "import", "u.zip", "--require-signature", "--store", "o.db")
    assert (result.code, result.out) == (1, "")
    assert "is not signed" in result.err
    result = proctor("runs", "import", "u.zip", "--store", "o.db")
    assert "anyone could have made it" in result.out
    assert "[imported-unsigned]" in proctor("runs", "list", "--store", "o.db").out


def test_a_public_bundle_is_refused(proctor: Proctor, bundle: str) -> None:
    proctor("attest", "last", "--public", "-o", "p.zip")
    result = proctor("runs", "import", "p.zip", "--store", "o.db")
    assert result.code == 4
    assert "public bundle" in result.err

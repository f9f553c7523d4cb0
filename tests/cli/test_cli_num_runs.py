"""`num_runs` of dialect meridian: a case with several answers counts once in every report."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli import Proctor


def exact(id_: str, *, right: bool, **fields: Any) -> dict[str, Any]:
    """A test that `echo` passes or fails."""
    return {
        "id": id_,
        "prompt": id_,
        "expected": {"type": "exact", "value": id_ if right else "no"},
        **fields,
    }


@pytest.fixture
def fifty(folder: Path) -> str:
    """50 cases of which 9 pass: 1 of 42 with one answer, and 8 of consistency with five answers."""
    rows = [exact(f"once-{n}", right=n == 0) for n in range(42)]
    rows += [
        {"id": f"often-{n}", "prompt": f"say {n}", "expected": {"type": "consistency"}, "num_runs": 5}
        for n in range(8)
    ]
    (folder / "fifty.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return "fifty.jsonl"


@pytest.fixture
def suite(folder: Path) -> Callable[..., str]:
    def write(*rows: dict[str, Any]) -> str:
        (folder / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return "s.jsonl"

    return write


@pytest.mark.slow
def test_every_number_of_the_run_is_of_cases(proctor: Proctor, fifty: str) -> None:
    ran = proctor(
        "run", fifty, "--target", "echo", "-o", "j.xml", "-o", "r.md", "-o", "r.html", "-o", "r.json"
    )
    assert "Running custom suite: 40 dev + 10 holdout tests" in ran.out + ran.err
    row = json.loads(Path("r.json").read_text(encoding="utf-8"))["runs"][0]
    assert (row["passed"], row["total"], row["cases"]) == (9, 50, 50)
    assert (row["by_trial"]["passed"], row["by_trial"]["total"]) == (41, 82)
    assert row["splits"]["dev"]["total"] == 40
    assert row["splits"]["holdout"]["total"] == 10
    dev = row["splits"]["dev"]["passed"]
    assert f"Dev {dev}/40 | Holdout {9 - dev}/10" in ran.out
    assert "| 9             |" in ran.out
    assert "all              50   18.0%" in ran.out
    assert "41 failed" in ran.out
    assert "Each case counts once: it passes if all of its trials pass; 41 of 82 trials passed." in ran.out
    assert "**9 of 50 passed**" in Path("r.md").read_text(encoding="utf-8")
    assert "41/82" not in Path("r.html").read_text(encoding="utf-8")
    (junit,) = ET.parse("j.xml").iter("testsuite")
    assert (junit.attrib["tests"], junit.attrib["failures"]) == ("50", "41")


@pytest.mark.slow
def test_the_list_of_runs_and_the_certificate_are_of_cases(proctor: Proctor, fifty: str) -> None:
    proctor("run", fifty, "--target", "echo", "--attest=bundles")
    (bundle,) = Path("bundles").iterdir()
    assert "9/50" in proctor("runs", "list").out
    (row,) = proctor("runs", "list", "--json").json["runs"]
    assert (row["passed"], row["total"], row["cases"]) == (9, 50, 50)
    claims = proctor("verify", bundle, "--json").json["bundles"][0]["claims"]
    assert (claims["all"]["passed"], claims["all"]["total"]) == (9, 50)
    assert (claims["dev"]["total"], claims["holdout"]["total"]) == (40, 10)
    certificate = proctor("certify", "last", "--min-cases", 5, "--json").json
    assert (certificate["part"], certificate["total"]) == ("holdout", 10)


@pytest.mark.parametrize(("answers", "passed"), [(["x", "x", "x"], 1), (["x", "x", "y"], 0), (["y"] * 3, 0)])
def test_all_answers_must_pass(
    proctor: Proctor, suite: Callable[..., str], folder: Path, answers: list[str], passed: int
) -> None:
    rows = [{"id": "a", "prompt": "?", "expected": {"type": "exact", "value": "x"}, "num_runs": 3}]
    file = suite(*rows, exact("b", right=True))
    (folder / "answers.jsonl").write_text(json.dumps({"a": answers, "b": "no"}), encoding="utf-8")
    run = proctor("run", file, "--target", "scripted:answers.jsonl", "--json").run
    assert (run["passed"], run["total"]) == (passed, 2)


def test_repeats_of_the_command_count_for_themselves_where_no_case_has_num_runs(
    proctor: Proctor, suite: Callable[..., str]
) -> None:
    file = suite(exact("a", right=True), exact("b", right=False, num_runs=1))
    run = proctor("run", file, "--target", "echo", "--repeat", 3, "--json").run
    assert (run["repeats_rule"], run["passed"], run["total"], run["cases"]) == ("each", 3, 6, 2)


def test_repeats_of_the_command_add_no_case_where_one_has_num_runs(
    proctor: Proctor, suite: Callable[..., str]
) -> None:
    file = suite(exact("a", right=True), exact("b", right=False, num_runs=2))
    run = proctor("run", file, "--target", "echo", "--repeat", 3, "--json").run
    assert (run["repeats_rule"], run["passed"], run["total"]) == ("mean", 1, 2)
    assert run["by_trial"]["total"] == 6


def test_only_a_suite_with_num_runs_has_another_digest(proctor: Proctor, suite: Callable[..., str]) -> None:
    """The first digest is from version 0.1.0 and must never change."""
    digest = "sha256:940603613ce5c0d1d34eb88547fd0152d8d00e89a41c352e4f180407f15a3d2a"
    assert proctor("hash", suite(exact("a", right=True, num_runs=1))).out.split()[0] == digest
    assert proctor("hash", suite(exact("a", right=True, num_runs=2))).out.split()[0] != digest


def test_a_suite_with_num_runs_is_converted_and_comes_back(
    proctor: Proctor, suite: Callable[..., str]
) -> None:
    file = suite(exact("a", right=True, num_runs=2), exact("b", right=False))
    for to in ("proctor", "meridian"):
        assert proctor("convert", file, "--to", to, "-o", f"{to}.jsonl").code == 0
        assert proctor("hash", f"{to}.jsonl").out.split()[0] == proctor("hash", file).out.split()[0]

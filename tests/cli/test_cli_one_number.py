"""Every report of a run has the same pass rate, interval and number of cases."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.stats import wilson
from proctor.web.project import Project
from support.cli import Proctor
from support.web import read_text, visit

RATE, INTERVAL, CASES, BOUNDS = "25.0%", "11–47%", "20", "2: 22.7–31.8%"
"""Of 22 cases one passed 50 times, 4 once, 15 failed, and 2 could not be measured."""


@pytest.fixture
def runs(proctor: Proctor, folder: Path) -> list[str]:
    """The ids of three equal runs whose cases have different numbers of answers."""
    lines = ['{"proctor": 1, "name": "uneven"}']
    for number in range(22):
        case = {
            "id": f"c{number}",
            "input": [{"role": "user", "content": f"{number}?"}],
            "assertions": [{"grader": "contains", "params": {"value": "yes"}}],
        }
        lines.append(json.dumps(case | ({"repeats": 50} if number == 0 else {})))
    (folder / "uneven.jsonl").write_text("\n".join(lines), encoding="utf-8")
    answers = [json.dumps({f"c{number}": "yes" if number < 5 else "no"}) for number in range(20)]
    (folder / "answers.jsonl").write_text("\n".join(answers), encoding="utf-8")
    command = ("run", "uneven.jsonl", "--target", "scripted:answers.jsonl", "--allow-errors", "2")
    return [proctor(*command, "--retries", "0", "--json").run["run"] for _ in range(3)]


def assert_numbers(text: str, *numbers: str) -> None:
    plain = " ".join(text.replace(" %", "%").split())
    for number in numbers:
        assert number in plain, plain[:3000]


def test_a_run_has_one_number_on_terminal_in_files_and_in_json(
    proctor: Proctor, runs: list[str], folder: Path
) -> None:
    report = proctor("runs", "show", runs[0], "--json").run
    assert (report["pass_rate"], report["cases"], report["errors"]) == (0.25, 20, 2)
    assert f"{report['ci95'][0]:.0%}–{report['ci95'][1]:.0%}" == INTERVAL.replace("–", "%–")
    assert report["bounds"] == [0.227, 0.318]
    assert_numbers(proctor("runs", "show", runs[0]).out, RATE, INTERVAL, f"over {CASES} cases", BOUNDS)
    assert_numbers(proctor("runs", "list").out, RATE, INTERVAL, BOUNDS)
    (row, *_) = proctor("runs", "list", "--json").json["runs"]
    assert {name: row[name] for name in ("pass_rate", "ci95", "cases", "bounds")} == {
        name: report[name] for name in ("pass_rate", "ci95", "cases", "bounds")
    }
    for ending in ("md", "html", "xml"):
        proctor("runs", "export", runs[0], "-o", f"report.{ending}")
        text = (folder / f"report.{ending}").read_text(encoding="utf-8")
        text = read_text(text) if ending == "html" else text
        assert_numbers(text, RATE, INTERVAL, CASES, "22.7", "31.8")


def test_a_run_has_one_number_on_its_pages(proctor: Proctor, runs: list[str], folder: Path) -> None:
    with visit(Project(folder / ".proctor" / "proctor.db", folder=folder)) as server:
        for page in (f"/runs/{runs[0]}", "/runs"):
            text = read_text(server.get(page).text)
            assert_numbers(text, RATE, INTERVAL, f"n {CASES}", f"not measured {BOUNDS}")


def test_a_run_has_one_number_in_its_bundle_certificate_and_badge(
    proctor: Proctor, runs: list[str], folder: Path
) -> None:
    certification = proctor(
        "certify", runs[0], "--force", "--no-sign", "-o", "certificate.md", "-o", "badge.svg"
    )
    assert_numbers(certification.out, RATE, INTERVAL, "22.7", "31.8")
    assert_numbers(proctor("attest", runs[0], "-o", "b.zip", "--no-sign").out, RATE, INTERVAL, BOUNDS)
    verification = proctor("verify", "b.zip")
    assert verification.code == 0, verification.err
    assert_numbers(verification.out, RATE, INTERVAL, f"n={CASES}", BOUNDS)
    for name in ("certificate.md", "badge.svg"):
        text = (folder / name).read_text(encoding="utf-8")
        assert_numbers(text, RATE, INTERVAL, CASES, "22.7", "31.8")


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_has_one_number_wherever_it_is_compared(
    proctor: Proctor, runs: list[str], folder: Path, count: int
) -> None:
    result = proctor("compare", *runs[:count], "-o", "compare.md")
    markdown = (folder / "compare.md").read_text(encoding="utf-8")
    with visit(Project(folder / ".proctor" / "proctor.db", folder=folder)) as server:
        page = read_text(server.get("/compare?" + "&".join(f"run={run}" for run in runs[:count])).text)
    for text in (result.out, markdown, page):
        assert_numbers(text, RATE, INTERVAL, BOUNDS)
        assert text.count(BOUNDS) >= count
    report = proctor("runs", "show", runs[0], "--json").run
    for candidate in proctor("compare", *runs[:count], "--json").json["runs"]:
        for name in ("pass_rate", "ci95", "cases", "bounds", "passed", "total", "errors", "unscored"):
            assert candidate[name] == report[name]


def test_a_run_has_one_number_in_drift(proctor: Proctor, runs: list[str]) -> None:
    report = proctor("runs", "show", runs[-1], "--json").run
    command = ("drift", "uneven.jsonl", "--target", "scripted:answers.jsonl")
    assert_numbers(proctor(*command).out, RATE, INTERVAL)
    rows = proctor(*command, "--json").json["drift"]["runs"]
    assert len(rows) == len(runs)
    for row in rows:
        assert (row["pass_rate"], row["errors"]) == (report["pass_rate"], report["errors"])
        assert [round(end, 3) for end in row["ci95"]] == report["ci95"]


@pytest.fixture
def stopped(proctor: Proctor, folder: Path) -> list[str]:
    """The ids of two equal runs that stopped early."""
    lines = ['{"proctor": 1, "name": "even"}']
    lines += [
        json.dumps(
            {
                "id": f"c{number}",
                "input": [{"role": "user", "content": f"{number}?"}],
                "category": "all",
                "assertions": [{"grader": "contains", "params": {"value": "?" if number % 20 else "!"}}],
            }
        )
        for number in range(200)
    ]
    (folder / "even.jsonl").write_text("\n".join(lines), encoding="utf-8")
    command = ("run", "even.jsonl", "--target", "echo", "--no-holdout", "--json")
    gate = ("--min-pass-rate", "0.8", "--stop-when-shown")
    return [proctor(*command, *gate).run["run"] for _ in range(2)]


def test_a_run_that_stopped_early_has_its_confidence_sequence_everywhere(
    proctor: Proctor, stopped: list[str], folder: Path
) -> None:
    report = proctor("runs", "show", stopped[0], "--json").run
    stop, ci95, cases = report["early_stop"], report["ci95"], report["cases"]
    assert (stop["cases"], stop["interval"], report["interval_kind"]) == (cases, ci95, "confidence sequence")
    assert ci95[0] == round(report["gate"]["low"], 3) < (wilson(report["passed"], cases) or (0, 0))[0]
    assert report["by_category"]["all"]["ci95"] == ci95
    rate, numbers = report["pass_rate"], (f"{ci95[0]:.0%}–{ci95[1]:.0%}".replace("%–", "–"), str(cases))
    assert report["failed"]
    assert_numbers(proctor("runs", "show", stopped[0]).out, *numbers)
    assert_numbers(proctor("runs", "list").out, *numbers)
    for ending in ("md", "html", "xml"):
        proctor("runs", "export", stopped[0], "-o", f"report.{ending}")
        text = (folder / f"report.{ending}").read_text(encoding="utf-8")
        assert_numbers(read_text(text) if ending == "html" else text, *numbers)
    (list_row, *_) = proctor("runs", "list", "--json").json["runs"]
    (exported,) = proctor("runs", "show", stopped[0], "--json").json["runs"]
    runs_compared = proctor("compare", *stopped, "--json").json["runs"]
    for row in (list_row, exported, *runs_compared):
        assert (row["pass_rate"], row["ci95"], row["cases"]) == (rate, ci95, cases)
    assert list_row["early_stop"] == stop
    with visit(Project(folder / ".proctor" / "proctor.db", folder=folder)) as server:
        for page in (f"/runs/{stopped[0]}", "/runs", f"/compare?run={stopped[0]}&run={stopped[1]}"):
            assert_numbers(read_text(server.get(page).text), numbers[0])
        assert json.loads(server.get(f"/api/v1/runs/{stopped[0]}").text)["ci95"] == ci95
    drift = proctor("drift", "even.jsonl", "--target", "echo", "--json").json["drift"]["runs"]
    assert [[round(end, 3) for end in row["ci95"]] for row in drift] == [ci95, ci95]


def test_three_runs_that_stopped_early_are_ranked_with_their_confidence_sequences(
    proctor: Proctor, stopped: list[str]
) -> None:
    more = proctor("run", "even.jsonl", "--target", "echo", "--no-holdout", "--until", "7pp", "--json").run
    assert more["early_stop"]["reason"] == "until"
    rows = proctor("compare", *stopped, more["run"], "--json").json["runs"]
    expected = [proctor("runs", "show", run, "--json").run["ci95"] for run in (*stopped, more["run"])]
    assert sorted(row["ci95"] for row in rows) == sorted(expected)


def test_neither_a_resume_nor_a_regrade_changes_what_was_known(proctor: Proctor, stopped: list[str]) -> None:
    before = proctor("runs", "show", stopped[0], "--json").run
    for words in (("run", f"--resume={stopped[0]}"), ("regrade", stopped[0])):
        assert proctor(*words).code == 4
    assert proctor("runs", "show", stopped[0], "--json").run == before

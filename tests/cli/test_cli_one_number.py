"""A run has one pass rate, one interval and one number of cases, wherever it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.web.project import Project
from support.cli import Proctor
from support.web import read_text, visit

RATE, INTERVAL, CASES, BOUNDS = "25.0%", "11–47%", "20", "2: 22.7–31.8%"
"""Of 22 cases one passed 50 times, 4 once, 15 failed, and 2 could not be measured."""


@pytest.fixture
def runs(proctor: Proctor, folder: Path) -> list[str]:
    """Three equal runs whose cases were not asked equally often; their ids."""
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
    shown = proctor("runs", "show", runs[0], "--json").run
    assert (shown["pass_rate"], shown["cases"], shown["errors"]) == (0.25, 20, 2)
    assert f"{shown['ci95'][0]:.0%}–{shown['ci95'][1]:.0%}" == INTERVAL.replace("–", "%–")
    assert shown["bounds"] == [0.227, 0.318]
    assert_numbers(proctor("runs", "show", runs[0]).out, RATE, INTERVAL, f"over {CASES} cases", BOUNDS)
    assert_numbers(proctor("runs", "list").out, RATE, INTERVAL, BOUNDS)
    (listed, *_) = proctor("runs", "list", "--json").json["runs"]
    assert {name: listed[name] for name in ("pass_rate", "ci95", "cases", "bounds")} == {
        name: shown[name] for name in ("pass_rate", "ci95", "cases", "bounds")
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
    forced = proctor("certify", runs[0], "--force", "--no-sign", "-o", "certificate.md", "-o", "badge.svg")
    assert_numbers(forced.out, RATE, INTERVAL, "22.7", "31.8")
    assert_numbers(proctor("attest", runs[0], "-o", "b.zip", "--no-sign").out, RATE, INTERVAL, BOUNDS)
    verified = proctor("verify", "b.zip")
    assert verified.code == 0, verified.err
    assert_numbers(verified.out, RATE, INTERVAL, f"n={CASES}", BOUNDS)
    for name in ("certificate.md", "badge.svg"):
        text = (folder / name).read_text(encoding="utf-8")
        assert_numbers(text, RATE, INTERVAL, CASES, "22.7", "31.8")


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_has_one_number_wherever_it_is_compared(
    proctor: Proctor, runs: list[str], folder: Path, count: int
) -> None:
    told = proctor("compare", *runs[:count], "-o", "compare.md")
    markdown = (folder / "compare.md").read_text(encoding="utf-8")
    with visit(Project(folder / ".proctor" / "proctor.db", folder=folder)) as server:
        page = read_text(server.get("/compare?" + "&".join(f"run={run}" for run in runs[:count])).text)
    for text in (told.out, markdown, page):
        assert_numbers(text, RATE, INTERVAL, BOUNDS)
        assert text.count(BOUNDS) >= count
    shown = proctor("runs", "show", runs[0], "--json").run
    for compared in proctor("compare", *runs[:count], "--json").json["runs"]:
        for name in ("pass_rate", "ci95", "cases", "bounds", "passed", "total", "errors", "unscored"):
            assert compared[name] == shown[name]


def test_a_run_has_one_number_in_drift(proctor: Proctor, runs: list[str]) -> None:
    shown = proctor("runs", "show", runs[-1], "--json").run
    command = ("drift", "uneven.jsonl", "--target", "scripted:answers.jsonl")
    assert_numbers(proctor(*command).out, RATE, INTERVAL)
    rows = proctor(*command, "--json").json["drift"]["runs"]
    assert len(rows) == len(runs)
    for row in rows:
        assert (row["pass_rate"], row["errors"]) == (shown["pass_rate"], shown["errors"])
        assert [round(end, 3) for end in row["ci95"]] == shown["ci95"]

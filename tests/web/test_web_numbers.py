"""Every number on a run's page, Compare and Trends equals that of the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from proctor.cli.main import _invoke
from proctor.model import Run, Settings
from proctor.plurals import trial_name
from proctor.reports.formatting import (
    costs,
    interval,
    milliseconds,
    p_value,
    percent,
    percentage_points,
    unmeasured,
    unmeasured_difference,
)
from proctor.web.project import Project
from support.web import Visitor, make_runs, read_tables, read_text, save_suite, visit

JUDGE = 'mock:{"verdict": "YES", "reason": "fine"}'
CASES = 20
Json = Callable[..., Any]


def suite(how: str) -> str:
    lines: list[dict[str, Any]] = [{"proctor": 1, "name": how, "split_rule": {}, "repeats_rule": how}]
    for n in range(CASES):
        contains = {"grader": "contains", "params": {"value": "Paris"}}
        judged = {"grader": "llm_judge", "params": {"prompt": "Is it good? {{ output }}"}}
        message = {"role": "user", "content": f"Question {n}?"}
        sorted_by = {"category": f"k{n % 3}", "tags": ["all", f"t{n % 2}"]}
        graded = [contains, *([judged] if n % 4 else [])]
        lines.append({"id": f"case-{n}", "input": [message], "assertions": graded, **sorted_by})
    return "".join(json.dumps(line) + "\n" for line in lines)


class World:
    """A server with three runs of a suite on one target, each asked three times."""

    def __init__(self, server: Visitor, runs: Sequence[Run]) -> None:
        self.server = server
        self.runs = runs

    def main(self, path: str) -> str:
        """The content of a page."""
        answer = self.server.get(path)
        assert answer.status == 200, answer.text
        return answer.text.partition("<main")[2].partition("</main>")[0]


@pytest.fixture(
    scope="module", params=["mean", *(pytest.param(how, marks=pytest.mark.slow) for how in ("each", "any"))]
)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("numbers")
    answers = folder / "answers.jsonl"
    site = Project(folder / ".proctor" / "proctor.db", folder=folder)
    save_suite(site, "caps", suite(request.param))
    runs = []
    for wrong in (3, 2, 5):  # of a case's three answers the first differs from the others; one is missing
        answer_lines = [
            json.dumps({f"case-{n}": ["Rome" if not n % wrong else "Paris", f"Paris {n}", "Paris" * (n % 5)]})
            for n in range(1, CASES)
        ]
        answers.write_text("\n".join(answer_lines), encoding="utf-8")
        settings = Settings(repeats=3, concurrency=1)
        runs += make_runs(site, "caps", f"scripted:{answers}", judges=(JUDGE,), settings=settings)
    with visit(site) as server:
        yield World(server, runs)


@pytest.fixture
def run_json(world: World, capsys: pytest.CaptureFixture[str]) -> Json:
    """Runs a command with `--json`; its output."""

    def run(*words: str) -> Any:
        capsys.readouterr()
        _invoke([*words, "--json", "--store", world.server.site.location.address])
        return json.loads(capsys.readouterr().out)

    return run


def facts(html: str) -> dict[str, str]:
    pairs = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html, re.DOTALL)
    return {read_text(name): read_text(value) for name, value in pairs}


def exactly(counts: dict[str, Any]) -> str:
    """The interval of a pass rate as a terminal shows it."""
    return interval(tuple(counts["ci95"]))


def share(counts: dict[str, Any]) -> str:
    unmeasured_range = unmeasured(counts["errors"] + counts["unscored"], counts["bounds"])
    text = f"{percent(counts['pass_rate'])} · n {counts['cases']} · {exactly(counts)}"
    return f"{text} not measured {unmeasured_range}" if unmeasured_range else text


@pytest.mark.slow
def test_the_page_of_a_run_says_what_runs_show_says(world: World, run_json: Json) -> None:
    run = world.runs[0]
    world.main(f"/runs/{run.id}")  # the access of this person today
    (row,) = run_json("runs", "show", run.id)["runs"]
    html = world.main(f"/runs/{run.id}")
    heading = f"{run.target.name} passed {row['passed']} of {row['total']} "
    assert heading + f"({percent(row['pass_rate'])}, {exactly(row)}); holdout hidden" in read_text(html)
    splits, _, *tables = read_tables(html)
    parts, charts = tables[:2], tables[2:]
    dev, holdout = row["splits"]["dev"], row["splits"]["holdout"]
    apart = f" ({percentage_points(holdout['pass_rate'] - dev['pass_rate'])})"
    mean = milliseconds(row["latency_ms"]["mean"])
    assert splits == [[share(dev), share(holdout) + apart, str(row["passed"]), mean]]
    assert parts == [
        [[name, share(counts)] for name, counts in row[group].items()] for group in ("by_category", "by_tag")
    ]
    verdicts = ("pass", "passed"), ("fail", "failed"), ("error", "errors"), ("unscored", "unscored")
    assert " ".join(f"{label} {row[name]}" for label, name in verdicts) in read_text(html)
    assert f"Holdout accessed {row['looks']} times." in read_text(html)
    assert f"score of its {holdout['cases']} cases are shown" in read_text(html)
    values = facts(html)
    assert values["cost"] == costs(row["cost_usd"], row["judge"]["cost_usd"], row["judge"]["calls"])
    assert values["mean score"] == f"{row['mean_score']:.3f}"
    assert values["latency"].startswith(f"median {milliseconds(row['latency_ms']['p50'])}, ")
    usage = row["usage"]
    assert values["tokens"] == f"{usage['input_tokens']} in, {usage['output_tokens']} out"
    for chart in charts:
        assert sum(int(count) for _, count in chart) == row["asked"] - (row["by_trial"] or row)["errors"]


def test_its_trials_are_those_of_an_export(world: World, tmp_path: Path) -> None:
    run, file = world.runs[0], tmp_path / "trials.jsonl"
    store = world.server.site.location.address
    assert not _invoke(["runs", "export", run.id, "-o", str(file), "--store", store])
    trials = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows, address = [], f"/runs/{run.id}"
    while address:
        html = world.main(address)
        table = re.findall(r'<table class="rows trial-rows" data-keys>.*?</table>', html, re.DOTALL)[0]
        rows += read_tables(table)[0]
        after = re.search(r'<a rel="next" href="([^"]+)"', html)
        address = unescape(after[1]) if after else ""
    assert [(row[0], row[1], row[4], row[5], row[-1].endswith("held out")) for row in rows] == [
        (
            trial["verdict"],
            trial["case_id"] + (f" repeat {trial['repeat']}" if trial["repeat"] else ""),
            "–" if trial["score"] is None else f"{trial['score']:.2f}",
            milliseconds(trial["latency_ms"]),
            trial["split"] == "holdout",
        )
        for trial in trials
    ]


def not_measured(pairs: int, bounds: tuple[float, float]) -> str:
    unmeasured_range = unmeasured_difference(pairs, bounds)
    return f" not measured {unmeasured_range}" if unmeasured_range else ""


def test_compare_says_what_compare_says(world: World, run_json: Json) -> None:
    baseline, candidate = world.runs[:2]
    whole = run_json("compare", baseline.id, candidate.id)
    (comparison,) = whole["comparisons"]
    html = world.main(f"/compare?run={baseline.id}&run={candidate.id}")
    heading = read_text(html.partition("</h1>")[0])
    numbers = r"\S+ pp \([^)]*\), p = [\d.]+"
    assert re.findall(numbers, heading) == re.findall(numbers, comparison["verdict"]) != []
    sides, differences, *flips = read_tables(html)
    for side, run in zip(sides, whole["runs"], strict=True):
        assert side[2] == share(run)
        assert side[3] == f"{run['passed']} of {run['total']}"
    expected = [
        ("all", comparison),
        *((part["name"], part) for part in (*comparison["splits"], *comparison["parts"])),
    ]
    assert [row for row in differences if any(row[1:])] == [
        [
            name,
            *(str(part[count]) for count in ("cases", "fixed", "broken")),
            f"{percentage_points(part['difference'])} · "
            + " to ".join(percentage_points(bound) for bound in part["ci95"])
            + not_measured(part["not_measured"], part["bounds"]),
            p_value(part["p_value"] if part["p_holm"] is None else part["p_holm"]),
        ]
        for name, part in expected
    ]
    alone = baseline.suite.repeats_rule != "each"
    assert [[row[0] for row in rows] for rows in flips] == [
        [flip["case_id"] if alone else trial_name(flip["case_id"], flip["repeat"]) for flip in kind]
        for kind in (comparison["broken_cases"], comparison["fixed_cases"], comparison["not_measured_cases"])
        if kind
    ]


@pytest.mark.slow
def test_trends_says_what_drift_says(world: World, run_json: Json) -> None:
    run = world.runs[-1]
    address = f"/trends?suite={quote(run.suite.digest)}&target={quote(run.target.name)}"
    world.main(address)  # the access of this person today
    drift = run_json("drift", "caps", "--target", run.target.name)["drift"]
    html = world.main(address)
    for sentence in drift["sentences"]:
        assert sentence in read_text(html)

    def alike(same: dict[str, Any] | None) -> str:
        return percent(None if same is None else same["share"])

    (rows,) = read_tables(html)
    assert [[row[0], *row[2:8]] for row in rows] == [
        [
            night["run"],
            f"{night['passed']}/{night['passed'] + night['failed']}",
            percent(night["pass_rate"]),
            interval(night["ci95"]),
            str(sum(night[name] for name in ("taken_over", "cached", "elsewhere", "errors", "unscored"))),
            alike(night["with_first"]),
            alike(night["with_before"]),
        ]
        for night in reversed(drift["runs"])
    ]

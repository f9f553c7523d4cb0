"""The page Trends: which targets can be shown, the answer in a sentence, its chart, its table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from proctor.model import Run
from proctor.reports.drift.report import describe_drift
from proctor.services.analysis.drift import DriftQuery, DriftRequest
from proctor.services.runs.config import Config
from proctor.web.project import Project
from support.web import Visitor, make_runs, read_heading, read_tables, save_suite, visit

HOSTILE = "<script>alert(1)</script>"


def suite(name: str, split: bool) -> str:
    lines: list[dict[str, Any]] = [{"proctor": 1, "name": name, **({"split_rule": {}} if split else {})}]
    for n in range(10):
        check = {"grader": "contains", "params": {"value": "Paris"}}
        asked = {"role": "user", "content": f"Question {n} of {name}?"}
        lines.append({"id": f"case-{n}{HOSTILE}", "input": [asked], "assertions": [check]})
    return "".join(json.dumps(line) + "\n" for line in lines)


class World:
    """A server with three runs of one suite on one target, and two of another on another."""

    def __init__(self, server: Visitor, target: str, runs: list[Run]) -> None:
        self.server = server
        self.runs = runs
        self.address = f"/trends?suite={quote(runs[0].suite.digest)}&target={quote(target)}"
        self.target = target


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("trends")
    file = folder / f"answers{HOSTILE.replace('/', '')}.jsonl"
    target = f"scripted:{file}"
    site = Project(folder / ".proctor" / "proctor.db", folder=folder)
    save_suite(site, "caps", suite("caps", split=True))
    save_suite(site, "plain", suite("plain", split=False))
    runs = []
    for known in (10, 10, 3):
        said = {f"case-{n}{HOSTILE}": "Paris" if n < known else f"Rome {known}" for n in range(10)}
        file.write_text(json.dumps(said), encoding="utf-8")
        runs += make_runs(site, "caps", target)
    for _ in range(2):
        make_runs(site, "plain", "echo")
    with visit(site) as server:
        yield World(server, target, runs)


@pytest.mark.slow
def test_targets_with_two_runs_of_a_suite_are_offered(world: World) -> None:
    text = world.server.page("/trends")
    assert read_heading(text) == "2 targets ran a suite more than once, 1 changed"
    assert f"suite={quote(world.runs[0].suite.digest, safe='')}&amp;target=scripted" in text
    changed, unchanged = read_tables(text)[0]
    if "plain" in changed[1]:
        changed, unchanged = unchanged, changed
    last = world.runs[-1].started_at
    assert changed[1:5] == ["caps v1", "30.0%", f"changed {last:%Y-%m-%d %H:%M} UTC , fewer cases pass", "3"]
    assert unchanged[3].startswith("unchanged since 20")
    assert HOSTILE not in text


@pytest.mark.slow
def test_the_first_line_is_what_the_command_line_says(world: World) -> None:
    with world.server.site.open_store() as store:
        drifting = DriftQuery(store, {}, Config())
        wanted = DriftRequest(suite=world.runs[0].suite.digest, target=world.target)
        expected, *rest = describe_drift(drifting.load(drifting.find(wanted)))
    text = world.server.page(world.address)
    assert read_heading(text) == expected
    assert "Drifting" in expected
    for sentence in rest:
        assert sentence in unescape(text)
    for run in world.runs:
        assert f'href="/runs/{run.id}"' in text
    assert "proctor drift sha256:" in text
    assert HOSTILE not in text


@pytest.mark.slow
def test_the_chart_has_its_size_before_it_is_there_and_is_drawn_for_dark_pages_too(world: World) -> None:
    text = world.server.page(world.address)
    size = re.search(r'<img src="([^"]*)"[^>]* width="(\d+)" height="(\d+)"', text)
    assert size is not None
    light = world.server.get(unescape(size[1]))
    assert light.headers["content-type"] == "image/svg+xml"
    drawn = re.search(r'<svg[^>]*width="([\d.]+)"[^>]*height="([\d.]+)"', light.text)
    assert drawn is not None
    assert [round(float(end)) for end in drawn.groups()] == [int(size[2]), int(size[3])]
    dark = re.search(r'<source srcset="([^"]*)"', text)
    assert dark is not None
    assert world.server.get(unescape(dark[1])).text != light.text
    assert "<script" not in light.text


def test_the_time_and_the_baseline_are_in_the_address(world: World) -> None:
    later = world.server.page(f"{world.address}&baseline={world.runs[1].id}")
    assert f"{world.runs[0].id}</code></a>" not in later
    assert "1 run began before the baseline" in later
    assert f"--baseline {world.runs[1].id}" in later
    none = world.server.page(f"{world.address}&since=2999-01-01", 400)
    assert read_heading(none) == "There is no trend to show"
    assert "drift needs two" in none
    assert "is no time" in unescape(world.server.page(f"{world.address}&since=soon", 400))


def test_a_look_is_counted_once_a_visitor(world: World) -> None:
    visitor, run_id = world.server.another(), world.runs[0].id
    before = len(visitor.looks(run_id))
    told = re.search(r"look (\d+) at this holdout", visitor.get(world.address).text)
    assert told is not None
    assert int(told[1]) == len(visitor.looks(run_id)) == before + 1
    visitor.get(world.address)
    visitor.get(world.address.replace("/trends?", "/trends/chart.svg?"))
    assert len(visitor.looks(run_id)) == before + 1


@pytest.mark.parametrize("word", ["../../etc/passwd", "nothing.jsonl", "function:os:getcwd", "%00", "{file}"])
def test_no_word_of_the_address_is_looked_for_on_the_disk(world: World, word: str) -> None:
    file = world.server.site.folder / "here.jsonl"
    file.write_text(suite("here", split=False), encoding="utf-8")
    word = quote(word.format(file=file), safe="%")
    assert "No run of this suite is stored" in world.server.page(f"/trends?suite={word}", 400)
    assert "on this target is stored" in world.server.page(f"/trends?suite=caps&target={word}", 400)
    assert "There is no run" in unescape(world.server.page(f"{world.address}&baseline={word}", 400))


@pytest.mark.slow
def test_a_suite_may_be_named_and_the_only_pair_is_shown_at_once(world: World, server: Visitor) -> None:
    assert read_heading(world.server.page("/trends?suite=plain&target=echo")).startswith("Unchanged")
    empty = server.get("/trends")
    assert "No run is stored here yet" in empty.text
    assert not server.site.location.exists()

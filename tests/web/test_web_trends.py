"""The page Trends: which targets can be shown, the answer in a sentence, its chart, its table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from proctor.model import Message, PromptTemplate, Run, Selection, Settings, TargetSpec, Verdict
from proctor.reports.drift.report import describe_drift
from proctor.services.analysis.drift import DriftQuery, DriftRequest
from proctor.services.runs.config import Config
from proctor.services.runs.reading.report import record_holdout_access
from proctor.web import trend_states
from proctor.web.project import Project
from proctor.web.runs.sparkline import draw_sparkline
from support.builders import make_case, make_score, make_trial
from support.stores import add_run, save_cases
from support.waiting import PATIENCE_S, wait_until
from support.web import Visitor, make_runs, read_heading, read_tables, read_text, save_suite, visit

HOSTILE = "<script>alert(1)</script>"


def suite(name: str, split: bool) -> str:
    lines: list[dict[str, Any]] = [{"proctor": 1, "name": name, **({"split_rule": {}} if split else {})}]
    for n in range(10):
        check = {"grader": "contains", "params": {"value": "Paris"}}
        message = {"role": "user", "content": f"Question {n} of {name}?"}
        lines.append({"id": f"case-{n}{HOSTILE}", "input": [message], "assertions": [check]})
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
    for right_count in (10, 10, 3):
        answers = {
            f"case-{n}{HOSTILE}": "Paris" if n < right_count else f"Rome {right_count}" for n in range(10)
        }
        file.write_text(json.dumps(answers), encoding="utf-8")
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
        request = DriftRequest(suite=world.runs[0].suite.digest, target=world.target)
        expected, *sentences = describe_drift(drifting.load(drifting.find(request)))
    text = world.server.page(world.address)
    assert read_heading(text) == expected
    assert "Drifting" in expected
    for sentence in sentences:
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
    match = re.search(r'<svg[^>]*width="([\d.]+)"[^>]*height="([\d.]+)"', light.text)
    assert match is not None
    assert [round(float(end)) for end in match.groups()] == [int(size[2]), int(size[3])]
    dark = re.search(r'<source srcset="([^"]*)"', text)
    assert dark is not None
    assert world.server.get(unescape(dark[1])).text != light.text
    assert "<script" not in light.text


def test_the_time_and_the_baseline_are_in_the_address(world: World) -> None:
    later = world.server.page(f"{world.address}&baseline={world.runs[1].id}")
    assert f"{world.runs[0].id}</code></a>" not in later
    assert "Excluded 1 run that started before the baseline." in later
    assert f"--baseline {world.runs[1].id}" in later
    none = world.server.page(f"{world.address}&since=2999-01-01", 400)
    assert read_heading(none) == "There is no trend to show"
    assert "drift needs two" in none
    assert "is not a time" in unescape(world.server.page(f"{world.address}&since=soon", 400))


def test_a_holdout_access_is_counted_once_per_person(world: World) -> None:
    visitor, run_id = world.server.new_visitor(), world.runs[0].id
    with world.server.site.open_store() as store:
        record_holdout_access(store, store.run(run_id), "rate")  # by a command
    world.server.get(world.address)
    before = len(visitor.looks(run_id))
    match = re.search(r"Holdout accesses: (\d+)", visitor.get(world.address).text)
    assert match is not None
    assert int(match[1]) == len(visitor.looks(run_id)) == before
    visitor.get(world.address.replace("/trends?", "/trends/chart.svg?"))
    assert len(visitor.looks(run_id)) == before


@pytest.mark.parametrize("word", ["../../etc/passwd", "nothing.jsonl", "function:os:getcwd", "%00", "{file}"])
def test_no_word_of_the_address_is_looked_for_on_the_disk(world: World, word: str) -> None:
    file = world.server.site.folder / "here.jsonl"
    file.write_text(suite("here", split=False), encoding="utf-8")
    word = quote(word.format(file=file), safe="%")
    assert "There is no run of this suite in the store" in world.server.page(f"/trends?suite={word}", 400)
    assert "on this target in the store" in world.server.page(f"/trends?suite=caps&target={word}", 400)
    assert "There is no run" in unescape(world.server.page(f"{world.address}&baseline={word}", 400))


@pytest.mark.slow
def test_a_suite_may_be_named_and_the_only_pair_is_shown_at_once(world: World, server: Visitor) -> None:
    assert read_heading(world.server.page("/trends?suite=plain&target=echo")).startswith("Unchanged")
    empty = server.get("/trends")
    assert "there are no runs yet" in empty.text
    assert not server.site.location.exists()


# --- the list ----------------------------------------------------------------------------------------------

TERSE, STEPS = (
    PromptTemplate(name=name, messages=(Message(role="user", content=f"{name}: {{{{ input }}}}"),))
    for name in ("terse", f"steps{HOSTILE}")
)


def save_nights(
    site: Project,
    rates: Sequence[float],
    prompt: PromptTemplate | None = None,
    target: str = "gpt",
    settings: Settings = Settings(),  # noqa: B008  # frozen
    source_run: str | None = None,
) -> None:
    """Saves a run of 20 cases for each pass rate, a day apart, of which a share passes."""
    with site.open_store() as store:
        suite = save_cases(store, [make_case(f"c{number}") for number in range(20)])
        for night, rate in enumerate(rates, 1):
            run = add_run(
                store,
                suite,
                id=f"2026030{night}-120000-{target}{prompt.name[:5] if prompt else ''}",
                target=TargetSpec(name=target, kind="echo", model=target),
                prompt=prompt,
                settings=settings,
                started_at=datetime(2026, 3, night, 12, tzinfo=UTC),
            )
            for place in range(20):
                passed, case_id = place < rate * 20, f"c{place}"
                score = make_score(float(passed))
                trial = make_trial(
                    f"yes {passed}", score, case_id=case_id, position=place, source_run=source_run
                )
                store.save_trial(run.id, trial, Verdict.PASS if passed else Verdict.FAIL)
            store.update_run(replace(run, status="finished"))


def test_each_target_and_prompt_says_whether_it_changed(site: Project, server: Visitor) -> None:
    save_nights(site, [1.0, 1.0, 1.0], TERSE)
    save_nights(site, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0], STEPS)
    save_nights(site, [1.0, 0.5], target="copied", source_run="20260101-120000-abcdef")
    page = server.page("/trends")
    assert read_heading(page) == "3 targets ran a suite more than once, 1 changed"
    assert HOSTILE not in page
    steps, terse, copy = read_tables(page)[0]
    assert steps[0] == f"gpt · {STEPS.name}"
    assert steps[2:5] == ["0.0%", "changed 2026-03-05 12:00 UTC , fewer cases pass", "6"]
    assert terse[:1] + terse[2:5] == ["gpt · terse", "100.0%", "unchanged since 2026-03-01 12:00 UTC", "3"]
    assert copy[2:4] == ["50.0%", "too few runs"]
    assert "Pass rate of the last 6 runs: 100.0% to 0.0%" in page
    address = re.search(r'href="(/trends\?suite=[^"]*prompt=terse)"', page)
    assert address is not None
    trend = server.page(unescape(address[1]))
    assert read_heading(trend).startswith("Unchanged since 1 Mar 2026: 100.0% identical answers")
    assert "--target gpt --prompt terse" in trend
    assert "s v1 on gpt with the prompt terse" in read_text(trend)


def test_the_list_appears_before_slow_states_are_read(
    site: Project, server: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.web.pages.trends._LIST_TIMEOUT_S", 0)
    save_nights(site, [1.0, 1.0], TERSE)
    save_nights(site, [1.0, 1.0], STEPS)
    is_read = Event()
    read_state = trend_states._read_state

    def read_late(*arguments: Any) -> trend_states.TrendState:
        assert is_read.wait(PATIENCE_S)
        return read_state(*arguments)

    monkeypatch.setattr(trend_states, "_read_state", read_late)
    page = server.page("/trends")
    assert read_heading(page) == "2 targets ran a suite more than once"
    assert read_text(page).count("not read yet") == 2
    assert 'data-live="/trends/events?task=' in page
    is_read.set()
    wait_until(lambda: "2 targets ran a suite more than once, none changed" in server.page("/trends"))
    assert "data-live" not in server.page("/trends")


def test_a_long_series_is_read_on_its_own_page_only(
    site: Project, server: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trend_states, "_MAX_TRIALS", 39)
    save_nights(site, [1.0, 1.0], TERSE)
    save_nights(site, [1.0, 1.0], STEPS)
    assert [row[3] for row in read_tables(server.page("/trends"))[0]] == ["open it to find out"] * 2


def test_the_list_comes_in_pages(site: Project, server: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.web.pages.trends._PAGE_SIZE", 1)
    save_nights(site, [1.0, 1.0], TERSE)
    save_nights(site, [1.0, 1.0, 1.0], STEPS)
    first = server.page("/trends")
    following = re.search(r'<a rel="next" href="([^"]*)"', first)
    assert following is not None
    names = [read_tables(page)[0][0][0] for page in (first, server.page(unescape(following[1])))]
    assert names == [f"gpt · {STEPS.name}", "gpt · terse"]


def test_the_rate_of_a_holdout_alone_is_not_drawn(site: Project, server: Visitor) -> None:
    save_nights(site, [1.0, 1.0], TERSE)
    save_nights(site, [1.0, 1.0], STEPS, settings=Settings(selection=Selection(split="holdout")))
    page = server.page("/trends")
    assert {row[0]: row[2] for row in read_tables(page)[0]} == {
        "gpt · terse": "100.0%",
        f"gpt · {STEPS.name}": "–",
    }


def test_a_sparkline_is_on_an_axis_from_0_to_100_percent() -> None:
    assert draw_sparkline([]) is None
    spark = draw_sparkline([(0.0, (0.0, 0.2)), (1.0, (0.8, 1.0))])
    assert spark is not None
    assert spark.line == "4,24 120,4"
    assert spark.band == "4,20 120,4 120,8 4,24"

"""The list of runs and the page of a run: what they show, what they hide, filters and pages."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from html import unescape
from threading import Event
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from proctor.codec import template_digest
from proctor.errors import StoreError
from proctor.model import (
    Message,
    Output,
    PromptTemplate,
    Run,
    Selection,
    Settings,
    Shard,
    SplitRule,
    Suite,
    TargetSpec,
    Verdict,
)
from proctor.protocols import Store, StoredTrial
from proctor.reports.formatting import format_run_name
from proctor.stores import open_store
from proctor.web.project import Project
from support.builders import make_case, make_score, make_trial
from support.stores import add_run, save_cases
from support.waiting import PATIENCE_S
from support.web import read_heading, read_tables, read_text

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from support.web import Visitor

HOSTILE = "<script>alert(1)</script>\"'&"


class RunWriter:
    """Writes runs into the site's store; they belong to a living process until `leave`."""

    def __init__(self, site: Project) -> None:
        self.path = site.location.address
        self.store: Store = open_store(self.path)

    def suite(self, name: str = "caps", cases: int = 10, *, split: bool = True, tag: str = "t{}") -> Suite:
        rows = [
            make_case(
                f"c{place}", f"Question {place}?", tags=(tag.format(place % 2),), category=f"k{place % 3}"
            )
            for place in range(cases)
        ]
        rule = SplitRule() if split else None
        return save_cases(self.store, rows, name=name, digest=f"sha256:{len(name):064}", split_rule=rule)

    def begin(self, run_id: str, suite: Suite | None = None, target: str = "gpt-x", **fields: Any) -> Run:
        spec = TargetSpec(name=target, kind="echo")
        return add_run(self.store, suite or self.suite(), **{"id": run_id, "target": spec} | fields)

    def record(self, run: Run, places: Sequence[int], failed: Sequence[int] = ()) -> None:
        for place in places:
            text = f"Answer {place} {'secret' if place >= 8 else 'open'} {HOSTILE}"
            output = Output(text=text, latency_ms=100.0 + 10 * place, cost_usd=0.01 * place)
            score = make_score(
                float(place not in failed), reason=f"reason {place}" if place in failed else ""
            )
            held_out = run.suite.split_rule is not None and place >= 8
            trial = make_trial("", score, case_id=f"c{place}", position=place, output=output)
            trial = replace(trial, split="holdout" if held_out else "dev" if run.suite.split_rule else None)
            self.store.save_trial(run.id, trial, Verdict.FAIL if place in failed else Verdict.PASS)

    def add(self, run_id: str = "r1", failed: Sequence[int] = (1, 4), **fields: Any) -> Run:
        """Adds a finished run of ten cases, of which the last two are held out."""
        run = self.begin(run_id, **fields)
        self.record(run, range(run.suite.case_count), failed)
        finished = replace(run, status="finished", finished_at=run.started_at + timedelta(seconds=2))
        self.store.update_run(finished)
        return finished

    def leave(self) -> None:
        """Leaves the unfinished runs without a process, as if it had died."""
        self.store.close()
        self.store = open_store(self.path)


@pytest.fixture
def writer(site: Project) -> Iterator[RunWriter]:
    writer = RunWriter(site)
    yield writer
    writer.store.close()


def rows(html: str, name: str = "rows") -> list[list[str]]:
    """The cells of each row of the last table of that class."""
    return read_tables(re.findall(rf'<table class="{name}[^>]*>.*?</table>', html, re.DOTALL)[-1])[-1]


def run_ids(html: str) -> list[str]:
    """The ids of the runs in the list."""
    return [row[1].split()[-1] for row in rows(html) if len(row) > 1]


def link(html: str, words: str) -> str:
    """The address of the first link of the page's main part whose text contains the words."""
    html = html.partition("<main")[2]
    addresses = [
        unescape(address)
        for address, text in re.findall(r'<a[^>]*href="([^"]*)"[^>]*>(.*?)</a>', html, re.DOTALL)
        if words in read_text(text)
    ]
    assert addresses, f"No link says {words!r}."
    return addresses[0]


# --- the list ----------------------------------------------------------------------------------------------


def test_an_empty_list_says_what_a_run_is_and_what_to_do_and_makes_no_store(
    server: Visitor, site: Project
) -> None:
    page = server.get("/runs")
    assert (page.status, read_heading(page.text)) == (200, "No runs yet")
    assert link(page.text, "Run Suite") == "/run"
    assert "proctor run cheap --target echo" in read_text(page.text)
    assert not site.location.exists()


def test_the_list_tells_of_each_run_what_it_came_to(writer: RunWriter, server: Visitor) -> None:
    writer.add("r1", target="gpt-x", tags=("baseline",))
    writer.add("r2", suite=writer.suite("other", 4, split=False), failed=(), target="gpt-y")
    page = server.get("/runs").text
    assert read_heading(page) == "2 runs of 2 suites"
    second, first = rows(page)
    assert second[1:3] == ["gpt-y r2", "other v1"]
    assert first[1:3] == ["gpt-x r1", "caps v1 baseline"]
    assert "80.0% · n 10 · 49–94%" in first[3]
    assert first[4:] == ["0", "$0.4500", "2026-03-01 12:00 UTC"]
    assert 'type="checkbox" name="run" value="r1"' in page
    assert '<form method="get" action="/compare" data-chooses="run">' in page


def test_the_list_counts_errors_and_shows_the_rate_of_what_was_measured(
    writer: RunWriter, server: Visitor
) -> None:
    run = writer.begin("r1", suite=writer.suite(split=False))
    writer.record(run, range(4), failed=(1,))
    for place in range(4, 10):
        writer.store.save_trial(run.id, make_trial(None, case_id=f"c{place}", position=place), Verdict.ERROR)
    writer.store.update_run(replace(run, status="finished", finished_at=run.started_at))
    (row,) = rows(server.get("/runs").text)
    assert row[3] == "75.0% · n 4 · 30–95% not measured 6: 30.0–90.0%"
    assert row[4] == "6"


def test_live_runs_and_interrupted_runs_are_shown_differently(writer: RunWriter, server: Visitor) -> None:
    died = writer.begin("died")
    writer.record(died, range(3))
    writer.leave()
    alive = writer.begin("made")
    writer.record(alive, range(4))
    writer.store.flush()
    page = server.get("/runs").text
    assert read_heading(page) == "2 runs of 1 suite; 1 is running"
    states = ["running 4 of 10", "interrupted 3 of 10"]
    assert [row[6].partition("UTC ")[2] for row in rows(page) if len(row) > 1] == states
    assert run_ids(server.get("/runs?status=interrupted").text) == ["died"]


def test_a_shard_and_a_merged_run_say_what_they_are(writer: RunWriter, server: Visitor) -> None:
    suite = writer.suite(split=False)
    shard = Settings(selection=Selection(shard=Shard(index=1, count=3)))
    writer.add("r1", suite=suite, settings=shard)
    writer.add("r2", suite=suite, merged_from=("x0", "x1"))
    merged, part = (row for row in rows(server.get("/runs").text) if len(row) > 1)
    assert (part[2], merged[2]) == ("caps v1 · shard 1 of 3", "caps v1")
    assert "This is shard 1 of 3." in read_text(server.get("/runs/r1").text)
    assert "Merged from 2 runs: x0, x1." in read_text(server.get("/runs/r2").text)


def test_the_rate_of_a_run_of_the_holdout_alone_is_in_no_list(writer: RunWriter, server: Visitor) -> None:
    run = writer.add(settings=Settings(selection=Selection(split="holdout")))
    row = rows(server.get("/runs").text)[0]
    assert row[3:5] == ["hidden holdout, n 10", "–"]
    assert server.looks(run.id) == []


@pytest.mark.parametrize(
    ("query", "run_ids_shown"),
    [
        ("suite=caps", ["c", "a"]),
        ("target=gpt-y", ["b"]),
        ("tag=nightly", ["a"]),
        ("text=NIGHT", ["a"]),
        ("text=gpt-x", ["c", "a"]),
        ("suite=caps&target=gpt-y", []),
        ("status=finished&text=other", ["b"]),
        ("sort=started", ["a", "b", "c"]),
        ("sort=target", ["c", "a", "b"]),
        ("sort=-suite", ["b", "c", "a"]),
        ("sort=-rate", ["b", "a", "c"]),
        ("sort=nonsense", ["c", "b", "a"]),
    ],
)
def test_the_address_says_which_runs_are_shown_and_in_which_order(
    writer: RunWriter, server: Visitor, query: str, run_ids_shown: list[str]
) -> None:
    writer.add("a", failed=(1,), tags=("nightly",))
    writer.add("b", suite=writer.suite("other", 4), failed=(), target="gpt-y")
    writer.add("c", failed=(1, 2))
    page = server.get(f"/runs?{query}").text
    if not run_ids_shown:
        assert read_heading(page) == "0 of 3 runs fit"
        assert link(page, "Show all 3") == "/runs"
    else:
        assert run_ids(page) == run_ids_shown


def test_each_word_of_the_filter_can_be_taken_away(writer: RunWriter, server: Visitor) -> None:
    writer.add()
    page = server.get("/runs?suite=caps&text=r1&sort=rate").text
    assert read_heading(page) == "1 of 1 run fits"
    assert link(page, "suite caps") == "/runs?text=r1&sort=rate"
    assert link(page, "with “r1”") == "/runs?suite=caps&sort=rate"
    assert "proctor runs list --suite caps" in read_text(page)


def test_hundreds_of_runs_come_in_pages(writer: RunWriter, server: Visitor) -> None:
    suite = writer.suite(cases=1, split=False)
    for number in range(100):
        writer.begin(f"r{number:03}", suite=suite)
    pages, address = [], "/runs?sort=started"
    while address:
        page = server.get(address).text
        pages.append(run_ids(page))
        address = link(page, "Next page") if "Next page" in page else ""
    assert list(map(len, pages)) == [50, 50]
    assert [run for names in pages for run in names] == [f"r{number:03}" for number in range(100)]


TERSE = PromptTemplate(name="terse", messages=(Message(role="user", content="Be brief: {{ input }}"),))


def test_runs_are_filtered_and_sorted_by_prompt_where_any_has_one(writer: RunWriter, server: Visitor) -> None:
    writer.add("r1")
    assert "Prompt" not in read_text(server.get("/runs").text)
    writer.add("r2", prompt=TERSE)
    writer.add("r3", prompt=replace(TERSE, name="steps"))
    page = server.get("/runs?sort=prompt").text
    assert [row[1:3] for row in rows(page) if len(row) > 1] == [
        ["gpt-x r1", ""],
        ["gpt-x r3", "steps"],
        ["gpt-x r2", "terse"],
    ]
    page = server.get("/runs?prompt=terse").text
    assert run_ids(page) == ["r2"]
    assert link(page, "prompt terse") == "/runs"
    assert "proctor runs list --prompt terse" in read_text(page)
    assert run_ids(server.get("/runs?text=STEPS").text) == ["r3"]


def test_the_runs_of_one_command_are_joined(writer: RunWriter, server: Visitor) -> None:
    writer.add("r1", group="g1")
    writer.add("r2", group="g2")
    writer.add("r3", group="g2")
    page = server.get("/runs").text
    assert re.findall(r"<tr([^>]*)>", page.partition("<tbody>")[2].partition("</tbody>")[0]) == [
        ' data-part class="together"',
        ' class="group first"',
        ' class="group last"',
        "",
    ]
    assert "A line connects runs that one command started." in read_text(page)


def test_above_the_runs_of_one_command_stands_what_they_are_and_the_ways_to_compare_them(
    writer: RunWriter, server: Visitor
) -> None:
    for place, (prompt, target) in enumerate((p, t) for p in ("terse", "steps") for t in ("m1", "m2", "m3")):
        template = PromptTemplate(name=prompt, messages=(Message(role="system", content=prompt),))
        writer.add(f"r{place}", group="g", prompt=template, target=target)
    page = server.get("/runs").text
    title = rows(page)[0][0]
    assert title.startswith("caps")
    assert "2 prompts × 3 targets" in title
    assert link(page, "Compare all 6") == "/compare?" + "&".join(f"run=r{place}" for place in range(6))
    assert link(page, "Open as grid") == "/grid?group=g"
    assert len(run_ids(page)) == 6
    part = server.get("/runs?target=m1").text
    assert "2 prompts" in rows(part)[0][0]
    assert link(part, "Open as grid") == "/grid?run=r0&run=r3", "only what the filter leaves"


def test_two_points_are_chosen_and_compared(
    writer: RunWriter, server: Visitor, browser: Callable[..., AbstractContextManager[Page]]
) -> None:
    writer.add("r1")
    writer.add("r2", target="gpt-y")
    with browser(server.url, timezone_id="Europe/Berlin", locale="en-GB") as page:
        page.goto("/runs")
        moment = page.get_by_role("row", name="r2").locator("time")
        assert (moment.inner_text(), moment.get_attribute("title")) == (
            "2026-03-01 13:00 CET",
            "2026-03-01 12:00 UTC",
        )
        for run in ("r1", "r2"):
            assert not page.get_by_role("checkbox", name=run).is_checked()
            page.locator(f"[data-picks={run}] .touch").dispatch_event("click")  # both are at one place
            assert page.get_by_role("checkbox", name=run).is_checked()
        assert page.locator("[data-chosen]").inner_text() == "2 chosen."
        page.get_by_role("button", name="Compare").click()
        page.wait_for_url(re.compile(r"/compare\?run=r[12]&run=r[12]$"))
        page.goto("/runs")
        page.get_by_label("Target", exact=True).select_option("gpt-y")
        page.wait_for_url("**/runs?target=gpt-y")
        assert run_ids(page.content()) == ["r2"]


# --- the scatter -------------------------------------------------------------------------------------------


def points(html: str) -> dict[str, str]:
    """The title of each point of the scatter, by the id of its run."""
    matches = re.findall(r'<a href="/runs/(\w+)"[^>]*data-picks="\1"><title>(.*?)</title>', html)
    return {run: unescape(title) for run, title in matches}


def test_the_scatter_shows_what_the_finished_runs_of_the_newest_suite_cost(
    writer: RunWriter, server: Visitor
) -> None:
    writer.add("other", suite=writer.suite("other", 4, split=False))
    writer.add("r1")
    writer.add("r2", prompt=TERSE, target=f"gpt-y{HOSTILE}")
    writer.add("hidden", settings=Settings(selection=Selection(split="holdout")))
    running = writer.begin("running")
    writer.record(running, range(4))
    page = server.get("/runs").text
    assert "Pass rate and cost of 2 runs of caps v1" in read_text(page)
    assert points(page) == {
        "r2": f"gpt-y{HOSTILE} · terse · 1 Mar 12:00 UTC: 80.0% passed, 49–94%, $0.4500",
        "r1": "gpt-x · 1 Mar 12:00 UTC: 80.0% passed, 49–94%, $0.4500",
    }
    assert "<script>alert" not in page
    assert "<figure" not in server.get("/runs?suite=other").text  # one point shows nothing


def test_without_script_a_point_leads_to_its_run_and_the_boxes_to_the_grid(
    writer: RunWriter, server: Visitor
) -> None:
    writer.add("r1")
    writer.add("r2")
    page = server.get("/runs").text
    assert '<a href="/runs/r1" tabindex="-1" data-picks="r1">' in page
    assert '<button formaction="/grid">Open as grid</button>' in page


def test_a_deleted_run_is_in_the_list_no_more(writer: RunWriter, server: Visitor) -> None:
    writer.add("r1")
    writer.add("r2")
    server.get("/runs")
    writer.store.delete_run("r1")
    assert run_ids(server.get("/runs").text) == ["r2"]
    assert server.get("/runs/r1").status == 404


# --- one run -----------------------------------------------------------------------------------------------


def test_the_first_line_says_what_the_run_came_to(writer: RunWriter, server: Visitor) -> None:
    writer.add()
    writer.add("r2", suite=writer.suite("plain", 4, split=False), failed=())
    assert read_heading(server.get("/runs/r1").text) == "gpt-x passed 8 of 10 (80.0%, 49–94%); holdout hidden"
    assert read_heading(server.get("/runs/r2").text) == "gpt-x passed 4 of 4 (100.0%, 51–100%)"


def test_the_page_has_the_split_table_the_parts_and_how_it_was_made(
    writer: RunWriter, server: Visitor
) -> None:
    writer.add(failed=(1, 4, 9), warnings=("Something is doubtful.",), tags=("baseline",))
    page = server.get("/runs/r1").text
    heads = re.findall(r'<table class="splits">.*?</thead>', page, re.DOTALL)[0]
    assert read_text(heads) == "Dev Accuracy Holdout Accuracy Total Passed Latency"
    assert rows(page, "splits") == [["75.0% · n 8 · 41–93%", "50.0% · n 2 · 9–91% (-25.0pp)", "7", "145 ms"]]
    assert "k0 75.0% · n 4" in read_text(page)
    assert "t1 60.0% · n 5" in read_text(page)
    assert "Something is doubtful." in read_text(page)
    for words, address in (
        ("caps v1", "/suite?name=caps&version=v1"),
        ("Compare with", "/compare?run=r1"),
        ("Certify", "/certificates?run=r1"),
        ("Review", "/review?run=r1"),
        ("Failed and errored", "/runs/r1?verdict=fail&verdict=error&verdict=unscored#trials"),
        ("k1", "/runs/r1?category=k1#trials"),
        ("baseline", "/runs?tag=baseline"),
    ):
        assert link(page, words) == address
    assert "proctor runs show r1" in read_text(page)


def test_the_command_that_runs_it_again_names_a_store_that_is_not_the_default(
    writer: RunWriter, server: Visitor, site: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.add()
    monkeypatch.setattr(site, "environ", {**site.environ, "PROCTOR_STORE": site.location.address})
    (flag,) = site.store_flags
    page = read_text(server.get("/runs/r1").text)
    assert re.search(rf"Re-run proctor run caps@v1 [^$]*{re.escape(flag)} Copy", page)


def test_trials_come_before_the_tags_of_which_only_the_five_worst_are_open(
    writer: RunWriter, server: Visitor
) -> None:
    cases = [make_case(f"c{place}", tags=(f"t{place // 6}",)) for place in range(42)]
    suite = save_cases(writer.store, [*cases, make_case("c42", tags=("rare",))], name="many")
    writer.add(suite=suite, failed=(0, 6, 7, 12, 18, 24, 30, 42))
    page = server.page("/runs/r1")
    assert page.index('id="trials"') < page.index("<aside")
    side = page[page.index("<aside") :]
    folded_table, open_table = (
        read_text(table) for table in re.findall(r"<table.*?</table>", side, re.DOTALL)[:2]
    )
    assert re.findall(r"t\d|rare", folded_table) == ["t1", "t0", "t2", "t3", "t4"], (
        "worst first, with five cases"
    )
    assert len(re.findall(r"t\d|rare", open_table)) == 8
    assert "<details><summary>All 8 tags</summary>" in page


def test_a_run_is_called_by_target_prompt_and_time_and_its_prompt_is_folded(
    writer: RunWriter, server: Visitor
) -> None:
    text = f"Answer {HOSTILE} briefly: {{{{ input }}}}"
    prompt = PromptTemplate(name="terse", messages=(Message(role="user", content=text),))
    run = writer.add(prompt=prompt)
    page = server.page("/runs/r1")
    assert f"<title>{format_run_name(run)}: caps v1 · Proctor</title>" in page
    assert read_heading(page).startswith("gpt-x · terse passed 8 of 10")
    folded = re.search(r'<details class="prompt">(.*?)</details>', page, re.DOTALL)
    assert folded
    assert read_text(folded[1].replace("&lt;", "&amp;lt;")).startswith("Prompt terse user Answer")
    assert HOSTILE not in page
    assert template_digest(prompt)[:19] in page


def test_equal_latencies_are_no_chart(writer: RunWriter, server: Visitor) -> None:
    run = writer.begin("r1")
    for place in range(3):
        output = Output(text="yes", latency_ms=5.0)
        trial = make_trial("", make_score(1.0), case_id=f"c{place}", position=place, output=output)
        writer.store.save_trial("r1", trial, Verdict.PASS)
    writer.store.update_run(replace(run, status="finished", finished_at=run.started_at))
    assert "<figure" not in server.page("/runs/r1")


def test_the_latest_answers_of_a_running_run_hide_what_is_held_out(
    writer: RunWriter, server: Visitor
) -> None:
    run = writer.begin("r1")
    writer.record(run, range(10), failed=(7, 9))
    writer.store.flush()
    page = server.page("/runs/r1")
    latest = rows(page, "rows latest")
    assert [row[1] for row in latest] == [f"c{place}" for place in range(9, 1, -1)]
    assert latest[0] == ["held out", "c9", "hidden"], "its verdict would show the pass rate of the holdout"
    assert latest[2][:2] == ["fail", "c7"]
    assert 'data-heading="Running: 10 of 10 trials of caps v1 on gpt-x"' in page


def test_browsers_of_one_person_make_one_holdout_access_a_day(writer: RunWriter, server: Visitor) -> None:
    run = writer.add()
    plain = writer.add("r2", suite=writer.suite("plain", 4, split=False))
    for _ in range(3):
        server.get("/runs/r1")
        server.get("/runs/r2")
        server.get("/runs")
    assert (server.looks(run.id), server.looks(plain.id)) == (["rate"], [])
    other = server.new_visitor()
    assert "Holdout Accuracy" in other.page("/runs/r1")
    assert "Holdout Accuracy" in other.page("/runs/r1/events")
    assert server.looks(run.id) == ["rate"]


def test_what_is_held_out_is_sealed_until_it_is_revealed_which_is_recorded(
    writer: RunWriter, server: Visitor
) -> None:
    run = writer.add(failed=(9,))
    text = server.get("/runs/r1").text
    assert rows(text)[9][:4] == ["fail", "c9", "hidden", "hidden"]
    for address in ("/runs/r1", "/runs/r1?text=secret", "/runs/r1?case=c9&sort=-latency"):
        page = server.get(address).text
        assert "Answer 9" not in page
        assert "reason 9" not in page
    assert "No trial matches." in read_text(server.get("/runs/r1?text=secret").text)
    assert server.get("/runs/r1/reveal").status == 405
    assert server.looks(run.id) == ["rate"]

    answer = server.post("/runs/r1/reveal", {"back": "/runs/r1?split=holdout"})
    assert (answer.status, answer.headers["location"]) == (303, "/runs/r1?split=holdout")
    assert server.looks(run.id) == ["rate", "reveal"]
    page = server.get("/runs/r1?text=secret").text
    assert read_heading(page).endswith("; holdout revealed")
    assert [row[1] for row in rows(page)] == ["c8", "c9"]
    assert "reason 9" in read_text(page)
    assert "Answer 9" not in server.new_visitor().get("/runs/r1").text
    for back in ("https://elsewhere.example/", "//elsewhere.example", "/runs/r10", "/runs/r1x"):
        assert server.post("/runs/r1/reveal", {"back": back}).headers["location"] == "/runs/r1"
    assert server.looks(run.id).count("reveal") == 1


@pytest.mark.parametrize(
    ("query", "case_ids"),
    [
        ("verdict=fail", ["c1", "c4"]),
        ("verdict=fail&verdict=pass&tag=t0", ["c0", "c2", "c4", "c6", "c8"]),
        ("verdict=fail&tag=t0,t1", ["c1", "c4"]),
        ("category=k1", ["c1", "c4", "c7"]),
        ("split=holdout", ["c8", "c9"]),
        ("missed=exact", ["c1", "c4"]),
        ("text=REASON+4", ["c4"]),
        ("text=question+7", ["c7"]),
        ("case=c3", ["c3"]),
        ("case=c[35]", ["c3", "c5"]),
        ("case=?4", ["c4"]),
        ("split=dev&sort=-latency", ["c7", "c6", "c5", "c4", "c3", "c2", "c1", "c0"]),
        ("verdict=nonsense", [f"c{place}" for place in range(10)]),
    ],
)
def test_the_address_says_which_trials_are_shown(
    writer: RunWriter, server: Visitor, query: str, case_ids: list[str]
) -> None:
    writer.add()
    assert [row[1] for row in rows(server.get(f"/runs/r1?{query}").text)] == case_ids


def test_filters_are_words_that_can_be_taken_away_and_go_with_every_link(
    writer: RunWriter, server: Visitor
) -> None:
    writer.add()
    page = server.get("/runs/r1?verdict=fail&tag=t1&text=reason&sort=-cost").text
    assert link(page, "Without tag t1") == "/runs/r1?verdict=fail&text=reason&sort=-cost#trials"
    assert link(page, "Without fail") == "/runs/r1?tag=t1&text=reason&sort=-cost#trials"
    assert link(page, "Latency") == "/runs/r1?verdict=fail&tag=t1&text=reason&sort=-latency#trials"
    assert link(page, "Cost") == "/runs/r1?verdict=fail&tag=t1&text=reason&sort=cost#trials"
    assert 'aria-sort="descending"' in page
    assert link(page, "c1") == "/runs/r1/cases/1?verdict=fail&tag=t1&text=reason&sort=-cost"
    assert server.get(link(page, "c1")).status == 200


def test_a_new_filter_replaces_the_old_one_of_its_kind(writer: RunWriter, server: Visitor) -> None:
    writer.add()
    page = server.get("/runs/r1?category=k2&category=k1&verdict=nonsense").text  # as its form sends it
    assert [row[1] for row in rows(page)] == ["c2", "c5", "c8"]
    assert re.findall(r'class="chip".*?</span>(.*?)</a>', page) == ["category k2"]


def test_the_trials_come_in_pages_forth_and_back(writer: RunWriter, server: Visitor, site: Project) -> None:
    writer.add(suite=writer.suite("long", 120, split=False), failed=range(0, 120, 2))
    site.summaries.refresh("r1", 60)  # on a busy machine too, all of it is read
    forth, address = [], "/runs/r1?verdict=fail&sort=-latency"
    while True:
        page = server.get(address).text
        forth.append([row[1] for row in rows(page)])
        if "Next →" not in page:
            break
        address = link(page, "Next →")
    assert [name for names in forth for name in names] == [f"c{place}" for place in range(118, -1, -2)]
    back = server.get(link(page, "← Previous")).text
    assert [row[1] for row in rows(back)] == forth[-2]
    assert "60 trials of 120" in read_text(back)


class SlowReader:
    """Makes a store pause after the first four trials of a table until `finish`."""

    def __init__(self, writer: RunWriter, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_waiting, self.may_go_on = Event(), Event()
        kind: Any = type(writer.store)
        read_trials = kind.trials

        def read_slowly(store: Store, run_id: str) -> Iterator[StoredTrial]:
            for count, trial in enumerate(read_trials(store, run_id)):
                if count == 4:
                    self.is_waiting.set()
                    assert self.may_go_on.wait(PATIENCE_S)
                yield trial

        monkeypatch.setattr(kind, "trials", read_slowly)
        monkeypatch.setattr("proctor.web.trial_tasks._MAX_AT_ONCE", 0)
        monkeypatch.setattr("proctor.services.runs.reading.trial_table._TRIALS_PER_REPORT", 2)
        for page in ("run", "case"):
            monkeypatch.setattr(f"proctor.web.pages.{page}._TIMEOUT_S", 0)

    def finish(self, server: Visitor, page: str) -> None:
        """Lets it read the rest, and follows the progress of a page to the end."""
        self.may_go_on.set()
        (events,) = [
            address for address in re.findall(r'data-live="([^"]*)"', page) if "/trials/events" in address
        ]
        assert server.page(unescape(events)).endswith("event: done\ndata: \n\n")


@pytest.mark.parametrize("query", ["sort=-latency", "text=c", "tag=t0%2Ct1"])
def test_a_page_shows_how_many_trials_are_read_until_its_table_is_there(
    writer: RunWriter, server: Visitor, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    writer.add()
    reader, address = SlowReader(writer, monkeypatch), f"/runs/r1?{query}"
    server.page(address)
    assert reader.is_waiting.wait(PATIENCE_S)
    page = server.page(address)
    assert "4 of 10 trials read" in read_text(page)
    assert read_heading(page).startswith("gpt-x passed 8 of 10")
    assert "Settings" in page
    assert '<noscript><meta http-equiv="refresh"' in page
    assert "Question 3?" not in page
    assert len(rows(server.page("/runs/r1?verdict=fail"))) == 2, "what the store finds waits for nothing"
    case = server.page(f"/runs/r1/cases/3?{query}")
    assert "Question 3?" in case
    assert "The links to the previous and next case appear once all trials have been read" in case
    assert link(case, "reload the page") == f"/runs/r1/cases/3?{query}"
    reader.finish(server, page)
    assert len(rows(server.page(address))) == 10
    case = server.page(f"/runs/r1/cases/3?{query}")
    assert link(case, "← previous")
    assert link(case, "next")


def test_the_table_of_a_live_run_is_shown_once_it_is_read(
    writer: RunWriter, server: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.web.tasks._FRESH_FOR_S", PATIENCE_S)
    run = writer.begin("r1")
    writer.record(run, range(5))
    writer.store.flush()
    reader, address = SlowReader(writer, monkeypatch), "/runs/r1?sort=-latency"
    server.page(address)
    assert reader.is_waiting.wait(PATIENCE_S)
    reader.finish(server, server.page(address))
    writer.record(run, [5])
    writer.store.flush()
    assert [row[1] for row in rows(server.page(address))] == ["c4", "c3", "c2", "c1", "c0"]


@pytest.mark.parametrize("most_at_once", [0, 10])
def test_an_error_while_the_trials_are_read_is_the_error_of_the_page(
    writer: RunWriter, server: Visitor, monkeypatch: pytest.MonkeyPatch, most_at_once: int
) -> None:
    writer.add()
    monkeypatch.setattr("proctor.web.trial_tasks._MAX_AT_ONCE", most_at_once)
    monkeypatch.setattr(type(writer.store), "trials", Mock(side_effect=StoreError("A row cannot be read.")))
    for address in ("/runs/r1?sort=-latency", "/runs/r1/cases/3?sort=-latency"):
        page = server.page(address, status=503)
        assert "A row cannot be read." in page
        assert "<title>The store cannot be used" in page


def test_what_models_say_is_text_and_never_markup(writer: RunWriter, server: Visitor) -> None:
    writer.add(
        suite=writer.suite(f"s {HOSTILE}", 3),
        target=f"t {HOSTILE}",
        tags=(HOSTILE,),
        warnings=(HOSTILE,),
        failed=(),
    )
    for address in ("/runs", "/runs/r1", f"/runs?tag={quote(HOSTILE)}", f"/runs/r1?text={quote(HOSTILE)}"):
        page = server.get(address)
        assert page.status == 200
        assert "<script>alert" not in page.text
        assert "&lt;script&gt;alert" in page.text


@pytest.mark.parametrize(
    "address", ["/runs/r9", "/runs/r", "/runs/last", "/runs/r1/charts/other.svg", "/runs/r1/export.exe"]
)
def test_what_is_not_there_is_told_in_a_sentence(writer: RunWriter, server: Visitor, address: str) -> None:
    writer.add()
    page = server.get(address)
    assert page.status == 404
    assert read_heading(page.text)


@pytest.mark.parametrize(
    "query", ["after=x", "after=9.9", "after=-0.0", "after=99999999999999.1", "sort=%00", "text=%00&tag=%ff"]
)
def test_an_address_that_makes_no_sense_breaks_nothing(
    writer: RunWriter, server: Visitor, query: str
) -> None:
    writer.add()
    assert server.get(f"/runs/r1?{query}").status == 200
    assert server.get(f"/runs?{query}").status == 200


def test_charts_are_drawn_for_light_and_dark_pages_and_stand_as_tables_too(
    writer: RunWriter, server: Visitor
) -> None:
    writer.add()
    page = server.get("/runs/r1").text
    for name, words in (("latency", "100 ms to 120 ms 2"), ("cost", "$0.08 to $0.09 1")):
        light = server.get(f"/runs/r1/charts/{name}.svg")
        dark = server.get(f"/runs/r1/charts/{name}.svg?dark=1")
        assert (light.status, light.headers["content-type"]) == (200, "image/svg+xml")
        assert light.data != dark.data
        size = re.search(r'<svg[^>]* width="(\d+)" height="(\d+)"', light.text)
        assert size
        image = f'src="/runs/r1/charts/{name}.svg" width="{size[1]}" height="{size[2]}"'
        assert image in page
        assert f'srcset="/runs/r1/charts/{name}.svg?dark=1" media="(prefers-color-scheme: dark)"' in page
        assert words in read_text(page)


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["html", "md", "json", "jsonl", "csv", "xml"])
def test_a_run_is_exported_in_every_form_with_the_holdout_sealed_and_the_look_counted(
    writer: RunWriter, server: Visitor, ending: str
) -> None:
    run = writer.add()
    file = server.get(f"/runs/r1/export.{ending}")
    assert file.status == 200
    assert file.headers["content-disposition"] == f'attachment; filename="r1.{ending}"'
    assert "c4" in file.text
    assert "secret" not in file.text
    assert server.looks(run.id) == ["rate"]
    if ending == "jsonl":
        assert [json.loads(line)["case_id"] for line in file.text.splitlines()] == [
            f"c{n}" for n in range(10)
        ]
    if ending in ("json", "jsonl", "csv"):
        server.post("/runs/r1/reveal")
        assert "secret" in server.get(f"/runs/r1/export.{ending}").text


# --- a run that goes on ------------------------------------------------------------------------------------


def test_a_live_run_shows_its_progress_and_can_be_stopped(writer: RunWriter, server: Visitor) -> None:
    run = writer.begin("r1")
    writer.record(run, range(4), failed=(1,))
    writer.store.flush()
    page = server.get("/runs/r1").text
    assert read_heading(page) == "Running: 4 of 10 trials of caps v1 on gpt-x"
    assert "4 of 10 trials are finished" in read_text(page)
    assert "75.0% · n 4 · 30–95%" in read_text(page)
    assert rows(page, "splits") == [["75.0% · n 4 · 30–95%", "none yet", "3", "115 ms"]]
    assert 'data-live="/runs/r1/events"' in page
    assert '<form method="post" action="/runs/r1/stop">' in page
    assert "/resume" not in page
    assert [row[1] for row in rows(page)] == ["c0", "c1", "c2", "c3"]
    writer.record(run, range(4, 6))
    writer.store.flush()
    assert "6 of 10 trials are finished" in read_text(server.get("/runs/r1").text)


def test_a_run_whose_process_died_can_be_resumed(writer: RunWriter, server: Visitor) -> None:
    run = writer.begin("r1")
    writer.record(run, range(4))
    writer.leave()
    page = server.get("/runs/r1").text
    assert read_heading(page) == "gpt-x passed 4 of 4 (100.0%, 51–100%); 6 trials are missing"
    assert "data-live" not in page
    assert '<form method="post" action="/runs/r1/resume">' in page
    assert "Resume: run the 6 missing trials" in read_text(page)


def test_a_run_without_a_trial_has_a_page(writer: RunWriter, server: Visitor) -> None:
    writer.begin("r1")
    writer.leave()
    page = server.get("/runs/r1").text
    assert read_heading(page) == "gpt-x answered 0 of 10"
    assert "No trial has finished yet." in read_text(page)


# --- a browser ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["{0} is a long name of a tag " * 2, "{0}" * 300])
def test_rates_of_tags_with_long_names_are_seen_whole_on_a_phone_too(
    writer: RunWriter, browser_page: Page, tag: str
) -> None:
    writer.add(suite=writer.suite(tag=tag))
    for width in (1200, 390):
        browser_page.set_viewport_size({"width": width, "height": 800})
        browser_page.goto("/runs/r1")
        shares: Any = browser_page.locator("table.parts .share").evaluate_all(
            "all => all.map(one => one.closest('aside').getBoundingClientRect().right"
            " - one.getBoundingClientRect().right)"
        )
        assert len(shares) == 5
        assert min(shares) >= 0


def test_a_page_says_of_which_answers_its_latency_is(writer: RunWriter, server: Visitor) -> None:
    run = writer.begin("r1")
    writer.record(run, range(6))
    for place in range(6, 8):
        output = Output(text="yes", latency_ms=1.0, cached=True)
        trial = make_trial("", make_score(1.0), case_id=f"c{place}", position=place, output=output)
        writer.store.save_trial("r1", trial, Verdict.PASS)
    writer.store.update_run(replace(run, status="finished", finished_at=run.started_at))
    scope = "of 6 answers; 2 from the cache or reused are left out"
    page = read_text(server.get("/runs/r1").text)
    assert f"median 125 ms, 95 % within 148 ms {scope}" in page
    assert "Latency of answers, without 2 from the cache or reused, as a table" in page
    assert f"Latency {scope}." in read_text(server.get(f"/starts/{run.group}").text)

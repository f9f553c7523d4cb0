"""The grid: rows and columns, filters, order, pages, whole answers, the holdout, and what a cell leads to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from html import unescape
from threading import Event
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from msgspec.structs import replace

from proctor.model import Assertion, Message, Output, PromptTemplate, Run, SplitRule, TargetSpec, Verdict
from proctor.protocols import Store
from proctor.services.runs.reading.grid import GridFinder
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

HOSTILE = "<script>alert(1)</script>\u202e\"'&"

CHECK = Assertion(grader="contains", params={"value": "4"})


class Runs:
    """Runs in the site's store, each given by the letters of its verdicts."""

    def __init__(self, site: Project) -> None:
        self.store: Store = open_store(site.location.address)
        self.count = 0

    def add(
        self,
        verdicts: str,
        *,
        target: str = "gpt-x",
        prompt: str | None = None,
        held_out: Sequence[int] = (),
        **fields: Any,
    ) -> Run:
        """Adds a finished run with one case for each letter: p, f or e."""
        cases = [
            make_case(f"c{place}", f"Question {place}?", assertions=(CHECK,), tags=(f"t{place % 2}",))
            for place in range(len(verdicts))
        ]
        cases = fields.pop("cases", cases)
        suite = save_cases(
            self.store,
            cases,
            name=fields.pop("suite", "sums"),
            digest=f"sha256:{self.count:064}",
            split_rule=SplitRule() if held_out else None,
        )
        messages = (Message(role="user", content=f"{prompt}: {{{{ input }}}}"),)
        template = None if prompt is None else PromptTemplate(name=prompt, messages=messages)
        run = add_run(
            self.store,
            suite,
            id=f"r{self.count}",
            target=TargetSpec(name=target, kind="echo"),
            prompt=template,
            **fields,
        )
        self.count += 1
        for place, letter in enumerate(verdicts):
            trial = make_trial(None)
            if letter != "e":
                score = make_score(float(letter == "p"), reason=f"reason {place} {HOSTILE}")
                output = Output(
                    text=f"Answer {place} of {target} is {HOSTILE}", latency_ms=100.0 + place, cost_usd=0.01
                )
                trial = replace(make_trial("", score), output=output)
            split = ("holdout" if place in held_out else "dev") if held_out else None
            trial = replace(trial, case_id=cases[place].id, position=place, split=split)
            verdict = {"p": Verdict.PASS, "f": Verdict.FAIL, "e": Verdict.ERROR}[letter]
            self.store.save_trial(run.id, trial, verdict)
        self.store.update_run(replace(run, status="finished"))
        return self.store.run(run.id)


@pytest.fixture
def runs(site: Project) -> Iterator[Runs]:
    runs = Runs(site)
    yield runs
    runs.store.close()


def address(*runs: Run, more: str = "") -> str:
    return "/grid?" + "&".join(f"run={run.id}" for run in runs) + more


def case_ids(page: str) -> list[str]:
    """The cases of the rows of the grid, in order."""
    table = page.partition("<tbody>")[2].partition("</tbody>")[0]
    return re.findall(r'<tr id="row-\d+".*?<a href="[^"]*"><span[^>]*>[▸▾]</span>(c\d+)<', table, re.DOTALL)


def links(page: str, start: str) -> list[str]:
    return [unescape(link) for link in re.findall(f'href="({re.escape(start)}[^"]*)"', page)]


def test_a_row_for_each_case_and_a_column_for_each_run(server: Visitor, runs: Runs) -> None:
    first = runs.add("ppf", prompt="terse")
    second = runs.add("pfe", target="other", prompt="steps")
    page = server.page(address(first, second))
    assert read_heading(page) == "2 of 3 cases differ between 2 runs; 0 fail in all"
    rows = read_tables(page)[0]
    assert [row[0].split()[1] for row in rows] == ["c0", "c1", "c2"]
    assert rows[1][1].startswith("gpt-x · terse: pass Answer 1 of gpt-x is <script>")
    assert "fail" in rows[1][2]
    assert "error timeout: Too late." in rows[2][2]
    head = read_text(page.partition("<thead>")[2].partition("</thead>")[0])
    assert "gpt-x · terse 2026-03-01 12:00 UTC" in head
    assert "66.7% · n 3 ·" in head
    assert "proctor compare r0 r1" in page
    assert "<script>alert" not in page
    assert "\u202e" not in page


def test_filters_are_in_the_address_and_can_be_removed(server: Visitor, runs: Runs) -> None:
    pair = runs.add("ppffpf"), runs.add("pfpfff", target="other")
    expected = {
        "": "c0 c1 c2 c3 c4 c5",
        "&show=differ": "c1 c2 c4",
        "&show=failed": "c3 c5",
        "&show=broken": "c1 c4",
        "&show=fixed": "c2",
        "&show=nonsense": "c0 c1 c2 c3 c4 c5",
        "&tag=t1": "c1 c3 c5",
        "&tag=t1&show=differ": "c1",
        "&tag=t0&tag=t1": "",
        "&text=ANSWER+4": "c4",
        "&text=question+2": "c2",
        "&text=other": "c0 c1 c2 c3 c4 c5",
        "&sort=-position&show=differ": "c4 c2 c1",
    }
    for more, ids in expected.items():
        assert case_ids(server.page(address(*pair, more=more))) == ids.split(), more
    page = server.page(address(*pair, more="&show=differ&tag=t1&text=answer&sort=-cost&open=1"))
    assert read_heading(page) == "1 of 6 cases match"
    chips = re.findall(r'<a class="chip" href="([^"]*)">(.*?)</a>', page)
    assert [read_text(words) for _, words in chips] == [
        "Without verdicts differ",
        "Without tag t1",
        "Without with “answer”",
    ]
    assert case_ids(server.page(unescape(chips[0][0]))) == ["c1", "c3", "c5"]
    assert parse_qs(urlsplit(unescape(chips[2][0])).query) == {
        "run": ["r0", "r1"],
        "show": ["differ"],
        "tag": ["t1"],
        "sort": ["-cost"],
    }
    head = read_text(page.partition("<thead>")[2].partition("</thead>")[0])
    assert head.count("of these 1: 100.0%") == head.count("of these 1: 0.0%") == 1
    assert '<option value="">+ tag</option>' in page
    all_rows = server.page(address(*pair))
    assert "of these" not in all_rows
    assert '<option value="">any tag</option>' in all_rows
    no_rows = server.page(address(*pair, more="&text=nowhere"))
    assert "No case matches." in no_rows
    assert "Show all 6" in no_rows


def test_pages_lead_through_all_rows_and_keep_the_filter(
    server: Visitor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.web.pages.grid._PAGE_SIZE", 2)
    pair = runs.add("ppppp"), runs.add("fffpf", target="other")
    place, pages = address(*pair, more="&show=differ&sort=-latency"), []
    for _ in range(2):
        page = server.page(place)
        pages.append(case_ids(page))
        place = next((unescape(link) for link in re.findall(r'rel="next" href="([^"]*)"', page)), "")
    assert pages == [["c4", "c2"], ["c1", "c0"]]
    assert place == ""
    assert "Cases 3 to 4 of 4" in read_text(page)
    (previous,) = re.findall(r'rel="prev" href="([^"]*)"', page)
    assert case_ids(server.page(unescape(previous))) == ["c4", "c2"]


def test_a_row_opens_to_the_whole_answers_with_differences_marked(server: Visitor, runs: Runs) -> None:
    first, second, third = runs.add("pp"), runs.add("pf", target="two"), runs.add("pp", target="gpt-x")
    closed = server.page(address(first, second))
    opened_at = next(link for link in links(closed, "/grid") if link.endswith("open=1#row-1"))
    page = server.page(opened_at)
    assert "Answer 1 of <del>gpt-x</del>" in page
    assert "Answer 1 of <ins>two</ins>" in page
    assert "Question 1?" in read_text(page)
    assert "reason 1" in page
    close = next(link for link in links(page, "/grid") if link.endswith("#row-1") and "open" not in link)
    assert case_ids(server.page(close)) == ["c0", "c1"]
    plain = server.page(next(link for link in links(page, "/grid") if "diff=0" in link))
    assert "<ins>two" not in plain
    assert "Underlined" in page
    assert "Underlined" not in plain
    (link,) = re.findall(r'data-copy="(http[^"]*)">Copy link<', page)
    assert re.fullmatch(r"https?://[^/]+/grid\?run=r0&amp;run=r1&amp;open=1#row-1", link)
    assert "Mark differences" in plain
    three = server.page(address(first, second, third, more="&open=0&open=1"))
    assert three.count("Answer 1 of <ins>two</ins>") == 1
    assert "<del>gpt" not in three


def test_nothing_is_marked_in_answers_with_little_in_common(server: Visitor, runs: Runs) -> None:
    pair = (
        runs.add("pp"),
        runs.add("pf", target="another name of many words " * 9),
    )
    page = server.page(address(*pair, more="&open=1"))
    assert "Too different from the first answer to mark the differences." in page
    assert "<ins>" not in page
    assert "<del>" not in page


def test_a_row_has_the_input_of_its_case_and_each_run_the_prompt_that_it_sent(
    server: Visitor, runs: Runs
) -> None:
    pair = runs.add("pp", prompt="terse"), runs.add("pf", prompt="steps")
    page = server.page(address(*pair, more="&open=1"))
    (rows, *_) = read_tables(page)
    assert rows[0][0].endswith("whole answers Question 0?")
    assert rows[2][0].startswith("user Question 1?")
    assert rows[2][1].startswith("Prompt terse user terse: Question 1?")
    assert rows[2][2].startswith("Prompt steps user steps: Question 1?")
    assert "input changed" not in read_text(page)


def test_a_row_shows_the_values_of_a_case_that_has_no_input(server: Visitor, runs: Runs) -> None:
    cases = [replace(make_case("c0", assertions=(CHECK,), vars={"city": "Lima"}), input=())]
    page = server.page(address(runs.add("p", cases=cases), more="&open=0"))
    text = read_text(page.partition("<tbody>")[2])
    assert "whole answers city=Lima" in text
    assert "values city: Lima" in text


def test_a_cell_leads_to_its_case_its_label_its_command_and_a_new_case(server: Visitor, runs: Runs) -> None:
    runs.add("pp")
    failed = runs.add("pf", target="two")
    page = server.page(f"/grid?run=r0&run={failed.id}&open=1")
    assert f"/runs/{failed.id}/cases/1" in links(page, "/runs/r1/cases")
    (label,) = links(page, "/review?run=r1")
    server.post("/review/name", {"run": "r1", "name": "Ann"})
    assert "Answer 1 of two" in read_text(server.page(label))
    assert 'data-copy="proctor runs show r1 --case c1"' in page
    (new_case,) = links(page, "/suites/add-case?run=r1")
    editor = server.page(new_case)
    assert read_heading(editor) == "Add c1-2 to sums", "the suite of the run is the default"
    assert "The suite already has a case with this input. Change the text." in editor
    assert "Change the text" not in server.page(f"{new_case}&suite=@new")


def test_an_answer_becomes_a_case_of_a_new_suite_and_of_a_saved_one(server: Visitor, runs: Runs) -> None:
    run = runs.add("pf", prompt="terse")
    for name, ids in (("", ["c1"]), ("sums", ["c0", "c1", "c1-2"])):
        page = server.page(f"/suites/add-case?run={run.id}&position=1&suite={name}")
        (text,) = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page, re.DOTALL)
        lines = unescape(text).splitlines()
        (line,) = re.findall(r'data-select-line="(\d+)"', page)
        assert ids[-1] in lines[int(line) - 1]
        assert len(lines) == int(line), "it is the last one"
        fields = {"text": unescape(text), "name": name or "regressions", "file_name": "suite"}
        fields["new_case"] = ids[-1]
        answer = server.post("/suites/check", fields)
        assert f'name="new_case" value="{ids[-1]}"' in answer.text
        assert read_heading(answer.text).startswith(f"{len(ids)} case"), answer.text
        saved = server.post("/suites/save", fields)
        assert saved.status == 303, saved.text
        assert saved.headers["location"].endswith(f"&case={len(ids) - 1}#case")
        suite = runs.store.suite(fields["name"])
        assert suite is not None
        cases = [row.case for row in runs.store.cases(suite.content)]
        assert [case.id for case in cases] == ids
        assert suite.no_holdout is (name == ""), "one case alone is not held out"
        assert cases[-1].assertions == (CHECK,)
        assert cases[-1].input[0].content == "Question 1?", "a prompt is no part of a case"
        assert cases[-1].metadata["from_run"] == run.id
        assert cases[-1].metadata["from_prompt"] == "terse"
        assert cases[-1].metadata["from_answer"].startswith("Answer 1 of gpt-x is <script>")


def test_held_out_answers_stay_hidden_until_they_are_revealed(server: Visitor, runs: Runs) -> None:
    pair = runs.add("ppp", held_out=[2]), runs.add("ppf", target="two", held_out=[2])
    page = server.page(address(*pair, more="&open=2"))
    assert server.looks("r0") == ["rate"]
    assert server.looks("r1") == ["rate"]
    text = read_text(page)
    assert "fail hidden (holdout)" in text
    for secret in ("Question 2", "Answer 2", "reason 2", "102 ms"):
        assert secret not in text
    assert case_ids(server.page(address(*pair, more="&text=answer+2"))) == []
    assert server.get("/suites/add-case?run=r0&position=2").status == 404
    answer = server.post("/grid/reveal", {"run": ["r0", "r1"], "back": address(*pair, more="&open=2")})
    assert answer.headers["location"] == address(*pair, more="&open=2")
    revealed = read_text(server.page(answer.headers["location"]))
    assert "Answer 2 of" in revealed
    assert "reason 2" in revealed
    assert server.looks("r1") == ["rate", "reveal"]
    assert case_ids(server.page(address(*pair, more="&text=answer+2"))) == ["c2"]
    assert "Answer 2" not in read_text(server.new_visitor().page(address(*pair)))
    assert server.post("/grid/reveal", {"back": "//evil"}).headers["location"] == "/grid"


def test_the_expected_answer_stands_in_the_row_unless_the_case_is_held_out(
    server: Visitor, runs: Runs
) -> None:
    cases = [make_case(f"c{place}", f"Question {place}?", expected=f"billing-{place}") for place in range(2)]
    pair = runs.add("pp", cases=cases, held_out=[1]), runs.add("pf", target="two", cases=cases, held_out=[1])
    page = read_text(server.page(address(*pair)))
    assert "expected: billing-0" in page
    assert "billing-1" not in page
    text = read_text(server.page(address(*pair, more="&open=0&open=1")))
    assert "expected billing-0" in text
    assert "billing-1" not in text
    server.post("/grid/reveal", {"run": ["r0"]})
    assert "billing-1" not in read_text(server.page(address(*pair, more="&open=1"))), "one run hides it"
    server.post("/grid/reveal", {"run": ["r1"]})
    assert "expected: billing-1" in read_text(server.page(address(*pair)))


def test_an_edited_case_says_that_its_input_changed(server: Visitor, runs: Runs) -> None:
    first = runs.add("pp")
    cases = [make_case("c1", "Another question?"), make_case("c9", "New?")]
    second = runs.add("pf", cases=cases, suite="other", target="two")
    page = server.page(address(first, second, more="&open=1"))
    rows = read_tables(page)[0]
    assert [row[0].split()[1] for row in rows if "whole answers" in row[0]] == ["c0", "c1", "c9"]
    assert rows[0][2] == "not run"
    assert "pass input changed" in rows[1][2]
    assert "Another question?" in read_text(page)
    assert read_heading(page).startswith("0 of 3 cases differ")


def test_a_group_opens_as_a_grid(server: Visitor, runs: Runs) -> None:
    runs.add("p", group="together")
    runs.add("f", group="together", target="two")
    runs.add("f", group="apart")
    runs.add("f", group="together", imported="unsigned")
    page = server.page("/grid?group=together&open=0")
    assert len(re.findall(r"<thead>.*?</thead>", page, re.DOTALL)[0].split("<th ")) == 4
    assert "/grid?group=together" in links(page, "/grid?group=together")[0]
    missing = server.get("/grid?group=nothing")
    assert missing.status == 400
    assert "No run belongs to group" in missing.text


def test_too_many_runs_are_refused_with_a_choice(server: Visitor, runs: Runs) -> None:
    nine = [runs.add("p", group="big") for _ in range(9)]
    for path in (address(*nine), "/grid?group=big"):
        answer = server.get(path)
        assert answer.status == 400
        text = read_text(answer.text)
        assert "9 runs, and the grid shows at most 8" in text
        assert 'name="run" value="r8"' in answer.text
    assert server.get(address(*nine[:8])).status == 200


def test_runs_are_named_by_any_word_that_names_one(server: Visitor, runs: Runs) -> None:
    runs.add("p")
    runs.add("p")
    answer = server.get("/grid?run=r0&run=last&run=r0&sort=-cost")
    assert (answer.status, answer.headers["location"]) == (303, "/grid?run=r0&run=r1&sort=-cost")
    assert server.get("/grid?order=time&run=r1&run=r0").headers["location"] == "/grid?run=r1&run=r0"
    unknown = server.get("/grid?run=nobody")
    assert unknown.status == 400
    assert "nobody" in unknown.text
    assert read_heading(server.page("/grid")).startswith("Choose up to 8 runs")


def test_a_project_without_runs_says_what_to_do(server: Visitor) -> None:
    for path in ("/grid", "/grid?run=x", "/grid?group=x"):
        page = server.page(path)
        assert read_heading(page) == "There are no runs yet"
        assert "Run a suite" in page


def test_one_run_is_a_grid_too(server: Visitor, runs: Runs) -> None:
    page = server.page(address(runs.add("pf"), more="&open=1"))
    assert read_heading(page) == "2 cases; 1 failed"
    assert "proctor runs show r0" in page
    assert "differences" not in read_text(page.partition("<main")[2].partition("</main>")[0])


def test_hostile_words_in_the_address_are_text(server: Visitor, runs: Runs) -> None:
    run = runs.add("p")
    word = quote(HOSTILE)
    for name in ("show", "tag", "text", "sort", "after", "open", "diff", "group", "run"):
        answer = server.get(f"/grid?run={run.id}&{name}={word}")
        assert answer.status in (200, 303, 400), name
        assert "<script>alert" not in answer.text
    for number in ("9" * 900, "-1", "1e9", "٣"):
        assert server.get(f"/grid?run={run.id}&open={quote(number)}&after={quote(number)}").status == 200


def test_a_grid_of_many_trials_shows_the_progress_of_reading(
    server: Visitor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, goes_on = (runs.add("pp"), runs.add("pf")), Event()
    select = GridFinder.select

    def wait(self: GridFinder, *arguments: Any) -> Any:
        assert goes_on.wait(PATIENCE_S)
        return select(self, *arguments)

    monkeypatch.setattr("proctor.web.grid_tasks._MAX_AT_ONCE", 0)
    monkeypatch.setattr("proctor.web.pages.grid._TIMEOUT_S", 0.01)
    monkeypatch.setattr(GridFinder, "select", wait)
    reading = server.page(address(*pair))
    assert read_heading(reading) == "Reading 2 runs"
    (stream,) = re.findall(r'data-live="([^"]*)"', reading)
    monkeypatch.setattr("proctor.web.pages.grid._TIMEOUT_S", PATIENCE_S)
    goes_on.set()
    assert read_heading(server.page(address(*pair))).startswith("1 of 2 cases differ")
    assert "event: done" in server.page(unescape(stream))


def test_the_api_gives_the_same_rows(server: Visitor, runs: Runs) -> None:
    runs.add("ppf", held_out=[2])
    runs.add("pfe", target="two", held_out=[2])
    page = json.loads(server.page("/api/v1/grid?run=r0&run=r1&show=differ&sort=-disagreement&limit=1"))
    assert (page["runs"], page["total"], page["next"], page["previous"]) == (["r0", "r1"], 2, "1", None)
    ((first, second),) = [row["cells"] for row in page["rows"]]
    assert (page["rows"][0]["case"], page["rows"][0]["input"]) == ("c1", "Question 1?")
    assert (first["verdict"], second["verdict"], second["passed"], second["trials"]) == ("pass", "fail", 0, 1)
    assert second["answer"].startswith("Answer 1 of two")
    assert server.looks("r1") == ["rate"]
    page = json.loads(server.page("/api/v1/grid?run=r0&run=r1&show=differ&sort=-disagreement&after=1"))
    (row,) = page["rows"]
    assert (row["case"], row["input"], page["previous"]) == ("c2", None, "-2")
    assert [(cell["sealed"], cell["verdict"], cell["answer"]) for cell in row["cells"]] == [
        (True, "fail", None),
        (True, "error", None),
    ]


# --- in a browser ------------------------------------------------------------------------------------------


def test_keys_move_through_rows_and_columns_and_open_a_row(browser_page: Page, runs: Runs) -> None:
    pair = runs.add("ppp"), runs.add("pfp", target="two")
    page = browser_page
    page.goto(address(*pair))
    focused = "[document.activeElement.closest('td, th').cellIndex, document.activeElement.closest('tr').id]"
    for key, column, row in zip("jjlllhk", (0, 0, 1, 2, 2, 1, 1), (0, 1, 1, 1, 1, 1, 0), strict=True):
        page.keyboard.press(key)
        assert page.evaluate(focused) == [column, f"row-{row}"], key
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**open=1#row-1")
    assert page.locator("td pre ins").inner_text() == "two"
    page.keyboard.press("d")
    page.wait_for_url("**diff=0*")
    assert page.locator("td pre ins").count() == 0
    page.keyboard.press("d")
    page.wait_for_url(lambda url: "diff=0" not in url)
    assert page.locator("td pre ins").count() == 1
    page.keyboard.press("j")
    assert page.evaluate(focused)[1] == "row-2", "the whole answers are no row of their own"


def test_filters_apply_on_change_and_the_head_stays_in_sight(browser_page: Page, runs: Runs) -> None:
    pair = runs.add("p" * 40), runs.add("pf" * 20, target="two")
    page = browser_page
    page.goto(address(*pair))
    assert not page.get_by_role("button", name="Apply").is_visible()
    page.get_by_label("Which cases").select_option(label="broken, 20")
    page.wait_for_url("**show=broken*")
    assert page.locator("table.grid tbody tr").count() == 20
    assert "text=" not in page.url
    page.locator("#row-39").scroll_into_view_if_needed()
    head, grid = page.locator("thead th").nth(1).bounding_box(), page.locator(".scroll.grid").bounding_box()
    assert head is not None
    assert grid is not None
    assert abs(head["y"] - grid["y"]) < 4

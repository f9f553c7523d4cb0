"""The page Compare: choosing runs, the verdict in a sentence, flips with their answers, refusals."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.cli.main import _invoke
from proctor.comparison.compare import compare_runs
from proctor.errors import ExitCode
from proctor.model import Run, Settings
from proctor.reports.comparison.headlines import pair_headline
from proctor.services.analysis import compare as comparing
from proctor.web.comparison_tasks import OutcomesCache
from proctor.web.project import Project
from proctor.web.tasks import ProgressCallback, TaskRunner, TaskStopped
from support.waiting import PATIENCE_S
from support.web import Served, make_runs, read_heading, save_suite, serve

HOSTILE = "<script>alert(1)</script>"
CASES = 20


def suite(name: str = "caps", word: str = "Paris") -> str:
    lines: list[dict[str, Any]] = [{"proctor": 1, "name": name, "split_rule": {"ratio": 0.2}}]
    for n in range(CASES):
        message = {"role": "user", "content": f"Question {n}?"}
        check = {"grader": "contains", "params": {"value": word if n < 3 else "Paris"}}
        case = {"id": f"case-{n:02}{HOSTILE}", "input": [message], "assertions": [check]}
        lines.append(case | {"category": f"c{n % 2}{HOSTILE}", "tags": [f"t{n % 3}"]})
    return "".join(json.dumps(line) + "\n" for line in lines)


class World:
    """A server with runs of two suites: the first answers little, the second nearly all."""

    def __init__(self, server: Served, runs: list[Run], folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.worse, self.better, self.third, self.other = runs

    def compare(self, *runs: Run, more: str = "", status: int = 200) -> str:
        return self.server.page(address(*runs) + more, status)


def address(*runs: Run) -> str:
    return "/compare?" + "&".join(f"run={run.id}" for run in runs)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("compare")
    for name, right_count in (("worse", 6), ("better", 18), ("third", 18)):
        answers = {
            f"case-{n:02}{HOSTILE}": f"It is {'Paris' if n < right_count else 'Rome'}, I {name} say."
            for n in range(CASES)
        }
        if name == "better":
            answers["case-00" + HOSTILE] = "It is Rome."
        (folder / f"{name}.jsonl").write_text(json.dumps(answers), encoding="utf-8")
    site = Project(folder / ".proctor" / "proctor.db", folder=folder)
    save_suite(site, "caps", suite())
    bare = [
        {k: v for k, v in json.loads(line).items() if k not in ("category", "split_rule")}
        for line in suite("tagged").splitlines()
    ]
    save_suite(site, "tagged", "".join(json.dumps(line) + "\n" for line in bare))
    save_suite(site, "caps2", suite("caps2", "Rome"))
    targets = [f"scripted:{folder}/{name}.jsonl" for name in ("worse", "better", "third")]
    runs = [make_runs(site, "caps", target)[0] for target in targets]
    runs += make_runs(site, "caps2", targets[1], settings=Settings())
    with site.open_store() as store:
        store.update_run(replace(runs[0], tags=("baseline",)))
    with serve(site) as server:
        yield World(server, runs, folder)


@pytest.mark.slow
def test_the_first_line_is_the_verdict_with_names_and_numbers(world: World) -> None:
    with world.server.site.open_store() as store:
        facts = comparing.load_outcomes(store, [world.worse, world.better])
    text = world.compare(world.worse, world.better)
    assert read_heading(text) == pair_headline(compare_runs(*facts))
    assert "by 55.0 pp" in read_heading(text)
    assert "12 cases fixed, 1 broken" in read_heading(text)
    assert "80 % of the time with these 20 cases." in unescape(text)
    assert f"proctor compare {world.worse.id} {world.better.id}" in text
    for part in ("dev", "holdout", "c0", "c1"):
        assert re.search(rf'<th scope="row">{part}', text), part
    assert HOSTILE not in text


@pytest.mark.slow
def test_flips_lead_to_the_two_answers_with_what_differs_marked(world: World) -> None:
    text = world.compare(world.worse, world.better)
    assert re.search(r'id="broken">[^<]*<span class="quiet">1<', text)
    assert re.search(r'id="fixed">[^<]*<span class="quiet">12<', text)
    links = [unescape(link) for link in re.findall(r'href="(/compare/answers[^"]*kind=fixed[^"]*)"', text)]
    assert len(links) == 12
    addresses, address_of_flip = [], links[0]
    while address_of_flip:
        page = world.server.page(address_of_flip)
        addresses.append(address_of_flip)
        following = re.search(r'rel="next" href="([^"]*)"', page)
        address_of_flip = unescape(following[1]) if following else ""
    assert addresses == links
    dev = next(page for link in links if "are hidden" not in (page := world.server.page(link)))
    assert read_heading(dev).startswith("fixed: the baseline failed, the candidate passed: contains:")
    assert "It is <del>Rome</del>, I <del>worse</del> say." in dev
    assert "It is <ins>Paris</ins>, I <ins>better</ins> say." in dev


@pytest.mark.slow
def test_a_long_list_of_flips_is_offered_up_to_what_one_reads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_flips(more: str) -> tuple[int, str]:
        table = world.compare(world.worse, world.better, more=more).partition('<h2 id="fixed"')[2]
        count = table.partition("</table>")[0].partition("<tbody>")[2].count("<tr>")
        return count, " ".join(unescape(re.sub("<[^>]+>", "", table.partition("</table>")[2])).split())

    count, more = list_flips("&flips=2")
    assert (count, more.startswith("All 12")) == (2, True)
    assert list_flips("")[0] == 12
    monkeypatch.setattr("proctor.web.pages.compare._MAX_FLIPS", 5)
    assert list_flips("&flips=2")[1].startswith("The first 5")
    count, more = list_flips("&flips=100")
    assert (count, more.startswith("…and 7 more: proctor compare")) == (5, True)


@pytest.mark.slow
def test_of_very_long_answers_the_beginnings_are_compared_which_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proctor.web.pages.compare_answers.MAX_TEXT_LENGTH", 5)
    text = world.server.page(f"{address(world.worse, world.better).replace('?', '/answers?')}&position=8")
    assert "the first 5 characters are shown and compared" in text
    assert "These parts are identical." in text
    assert "the same answer" not in read_heading(text)


def test_runs_can_be_named_by_tags_and_the_address_then_has_their_ids(world: World) -> None:
    answer = world.server.get("/compare?run=baseline&run=last&by=tag")
    assert answer.status == 303
    assert answer.headers["location"] == f"/compare?run={world.worse.id}&run={world.other.id}&by=tag"
    response = world.server.get(address(world.third, world.worse) + "&order=time")
    assert response.headers["location"] == address(world.worse, world.third)


def test_the_split_and_the_parts_are_in_the_address(world: World) -> None:
    dev = world.compare(world.worse, world.better, more="&split=dev&by=tag")
    assert "t0" in dev
    assert '<td class="num" data-label="cases">16</td>' in dev
    assert "--split dev --by tag" in dev
    assert "Look" not in dev
    assert world.compare(world.worse, world.better, more="&split=other", status=400)


def test_only_choices_that_have_cases_are_offered(world: World) -> None:
    buttons = re.compile(r'<a class="button"[^>]*>([^<]*)</a>')
    side_by_side = "Answers side by side"
    expected = ["all cases", "dev", "holdout", "by category", "by tag", side_by_side]
    assert buttons.findall(world.compare(world.worse, world.better)) == expected
    targets = [f"scripted:{world.folder}/{name}.jsonl" for name in ("worse", "better")]
    tagged = make_runs(world.server.site, "tagged", *targets, holdout=0)
    page = world.compare(*tagged)
    assert buttons.findall(page) == [side_by_side], "no split and no category"
    assert "t0" in page, "the tags are the parts"
    assert "--by tag" in page


def test_the_numbers_of_fixed_and_broken_cases_lead_to_their_answers(world: World) -> None:
    grid = f"/grid?run={world.worse.id}&run={world.better.id}&show="
    pair = unescape(world.compare(world.worse, world.better))
    assert re.findall(r'href="([^"]*)">read the answers<', pair) == [grid + "broken", grid + "fixed"]
    (count,) = re.findall(r">Fixed: [^<]*<span class=\"quiet\">(\d+)<", pair)
    assert read_heading(world.server.page(grid + "fixed")).startswith(f"{count} of {CASES} cases")
    several = unescape(world.compare(world.worse, world.better, world.third))
    assert f'href="{grid}fixed" aria-label="{count} fixed: read the answers">{count}</a>' in several
    dev = unescape(world.compare(world.worse, world.better, world.third, more="&split=dev"))
    assert f'href="/compare?run={world.worse.id}&run={world.better.id}&split=dev#fixed"' in dev


@pytest.mark.slow
def test_a_holdout_access_is_counted_once_for_each_person(world: World) -> None:
    def looks() -> list[str]:
        with world.server.site.open_store() as store:
            return [look.run for look in store.holdout_accesses(world.worse.suite.digest)]

    world.compare(world.worse, world.third)
    before = looks()
    assert {world.worse.id, world.third.id} & set(before), "the runs are of one suite"
    world.compare(world.worse, world.third, more="&by=tag")
    assert looks() == before
    world.server.new_visitor().get(address(world.worse, world.third))
    assert looks() == before, "another browser of the same person"
    world.server.new_visitor().get(address(world.worse, world.third) + "&split=dev")
    assert looks() == before


def test_several_runs_are_ranked_and_each_pair_is_told(world: World) -> None:
    text = world.compare(world.worse, world.better, world.third)
    assert "share rank 1" in read_heading(text)
    assert text.count(">compare</a>") == 2 + 3  # against the baseline, and each pair
    assert "<summary>Each pair of the 3 runs" in text
    assert "adjusted by Holm" in unescape(text)
    assert "The best of 3 equal runs would look" in text
    assert "<h2>Against scripted:" in text
    assert "adjusted by Holm's method over these 2 candidates" in unescape(text)
    assert world.server.page("/compare?" + "&".join(["run=last"] * 13), 400)


@pytest.mark.slow
def test_cases_of_another_suite_are_paired_by_their_ids_or_if_asked_for_by_digest(world: World) -> None:
    text = world.compare(world.better, world.other)
    assert "Checks changed, so not compared: 3 cases" in text
    page = world.server.page(address(world.better, world.other) + "&by_digest=1")
    assert '<td class="num" data-label="cases">17</td>' in page
    assert "--by-case-digest" in page


@pytest.mark.parametrize("query", ["run=nothing&run=last", "run=%00&run=last", "run=&run=none"])
def test_a_run_that_is_not_there_is_a_sentence_above_the_choice(world: World, query: str) -> None:
    text = world.server.page(f"/compare?{query}", 400)
    assert 'role="alert"' in text
    assert "Choose two or more runs" in read_heading(text)


def test_a_single_run_is_chosen_and_the_other_is_asked_for(world: World) -> None:
    text = world.compare(world.worse)
    assert re.search(rf'value="{world.worse.id}"[^>]* checked', text)
    assert 'role="alert"' not in text


@pytest.mark.slow
def test_the_answers_of_a_held_out_case_are_sealed_until_both_runs_are_revealed(world: World) -> None:
    visitor = world.server.new_visitor()
    text = visitor.get(address(world.worse, world.better)).text
    links = [unescape(link) for link in re.findall(r'href="(/compare/answers[^"]*)"', text)]
    hidden_link = next(link for link in links if "are hidden" in visitor.get(link).text)
    page = visitor.get(hidden_link).text
    assert "It is" not in page
    assert "Question" not in page.replace("question", "")
    position = re.search(r"position=(\d+)", hidden_link)
    assert position is not None
    fields = {"run": [world.worse.id, world.better.id], "position": position[1], "kind": "fixed"}
    answer = visitor.post("/compare/answers/reveal", fields)
    assert answer.status == 303
    assert "It is" in visitor.get(answer.headers["location"]).text
    assert "It is" not in world.server.new_visitor().get(hidden_link).text


def test_answers_of_one_run_or_of_no_place_are_not_there(world: World) -> None:
    runs = f"run={world.worse.id}&run={world.better.id}"
    for query in (f"run={world.worse.id}&position=0", f"{runs}&position=99", f"{runs}&position=0&repeat=4"):
        assert world.server.get(f"/compare/answers?{query}").status == 404
    assert world.server.get(f"/compare/answers?{runs}").status == 400
    sent_otherwise = f"/compare/answers?run={world.worse.id}&run={world.other.id}&position=5"
    assert read_heading(world.server.page(sent_otherwise))


@pytest.mark.slow
def test_reading_that_takes_long_is_told_and_the_page_opens_when_it_is_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, may_end = world.server.site.get_shared("tasks", TaskRunner), Event()

    def slow(on_progress: ProgressCallback) -> bool:
        on_progress(7, 20)
        return may_end.wait(PATIENCE_S)

    before = [tasks.submit(("slow", number), slow, "trials read") for number in range(2)]
    monkeypatch.setattr("proctor.web.pages.compare._TIMEOUT_S", 0.05)
    runs = address(world.third, world.better)
    text = world.server.page(runs)
    assert read_heading(text) == "Reading 2 runs"
    assert "Waiting for its turn" in text
    stream = world.server.listen(f"/compare/events?task={before[0].id}")
    assert any("7 of 20 trials read" in line for line in stream)
    assert '<noscript><meta http-equiv="refresh"' in text
    events = re.search(r'data-live="([^"]*)"', text)
    assert events is not None
    assert world.server.page("/login")  # no other visitor waits
    may_end.set()
    progress = world.server.get(unescape(events[1]))
    assert progress.headers["content-type"].startswith("text/event-stream")
    assert progress.text.endswith("event: done\ndata: \n\n")
    monkeypatch.setattr("proctor.web.pages.compare._TIMEOUT_S", PATIENCE_S)
    assert "20 cases" in read_heading(world.server.page(runs))


def test_a_task_ends_at_its_next_report_when_the_server_stops() -> None:
    tasks, has_begun, may_go_on = TaskRunner(), Event(), Event()

    def read_for_ever(on_progress: ProgressCallback) -> bool:
        on_progress(7, 20)
        has_begun.set()
        while may_go_on.wait(PATIENCE_S):
            on_progress(8, 20)
        return True

    task = tasks.submit("endless", read_for_ever, "trials read")
    assert has_begun.wait(PATIENCE_S)
    tasks.stop(0)
    assert not task.has_ended
    may_go_on.set()
    tasks.stop(PATIENCE_S)
    with pytest.raises(TaskStopped):
        task.result()


def test_the_events_of_an_unknown_task_say_that_it_is_done(world: World) -> None:
    assert world.server.page("/compare/events?task=nothing") == "event: done\ndata: \n\n"


@pytest.mark.slow
def test_an_empty_folder_says_what_the_page_is_for_and_makes_no_store(server: Served) -> None:
    answer = server.get("/compare")
    assert answer.status == 200
    assert "There are no runs yet" in answer.text
    assert "proctor run" in answer.text
    assert server.get("/compare?run=a&run=b").status == 200
    assert not server.site.location.exists()


@pytest.mark.slow
def test_a_command_that_the_choice_of_runs_suggests_works_as_it_stands(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(server.site.folder)

    def suggested() -> list[list[str]]:
        commands = re.findall(
            r'<code>(proctor [^<]*)</code> <button type="button" data-copy', server.page("/compare")
        )
        return [shlex.split(unescape(line))[1:] for line in commands]

    (run,) = suggested()
    assert int(_invoke(run)) == ExitCode.FAILED
    assert suggested() == [], "one run cannot be compared"
    _invoke([*run, "--quiet"])
    (compare,) = suggested()
    assert compare[0] == "compare"
    assert int(_invoke(compare)) == ExitCode.OK


@pytest.mark.slow
def test_the_facts_of_runs_are_kept_while_there_is_room(world: World) -> None:
    memory, reads = OutcomesCache(max_trials=2 * CASES), []

    def on_progress(count: int, total: int) -> None:
        reads.append((count, total))

    with world.server.site.open_store() as store:
        first = memory.load(store, [world.worse, world.better], by_digest=False, on_progress=on_progress)
        again = memory.load(store, [world.better, world.worse], by_digest=False)
        assert [facts.cases for facts in again] == [first[1].cases, first[0].cases]
        assert again[0].cases is first[1].cases
        memory.load(store, [world.third], by_digest=False)
        assert len(memory) == 2
        renewed = memory.load(store, [world.better], by_digest=False)
    assert renewed[0].cases is not first[1].cases


@pytest.mark.slow
def test_a_task_runs_once_and_its_error_is_raised_to_the_caller() -> None:
    runner, calls = TaskRunner(), list[int]()

    def make(_on_progress: object) -> str:
        calls.append(1)
        return "done"

    tasks = [runner.submit("a", make, "things") for _ in range(3)]
    assert [task.wait(10) for task in tasks] == [True] * 3
    assert [task.result() for task in tasks] == ["done"] * 3
    assert calls == [1]
    failing = runner.submit("b", lambda _on_progress: 1 // 0, "things")
    assert failing.wait(10)
    with pytest.raises(ZeroDivisionError):
        failing.result()

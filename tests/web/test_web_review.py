"""The page Review: people label answers, and see what the judge said once they have."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from proctor.cli.main import _invoke
from proctor.services.judges.label_files import read_labels
from proctor.stores import open_store
from support.web import read_heading

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

Server = Any
STORE = ".proctor/proctor.db"
HOSTILE = "<script>alert(1)</script>\"'{{ 7*7 }}"


def judge(messages: list[dict[str, str]]) -> str:
    """Passes answers that contain the word `right`."""
    text = messages[-1]["content"]
    answer = re.search(r"<<<BEGIN ANSWER \w+>>>\n(.*?)\n<<<END", text, re.DOTALL)
    assert answer is not None
    score = 1.0 if "right" in answer[1] else 0.0
    return json.dumps({"score": score, "assertions": [], "reasoning": "JUDGED so"})


def run_suite(*words: str, tests: int = 8, **fields: Any) -> str:
    """Runs `tests` cases, of whose answers the judge passes the first half; the id of the run."""
    cases, answers = [], []
    for n in range(tests):
        case = {"id": f"t{n}", "input": f"Question {n}?", "criteria": "Be good."}
        fields_of_judge = {
            "assertions": [{"type": "llm-grader"}],
            "metadata": {"tags": ["bus" if n % 2 else "train"]},
        }
        cases.append(case | fields_of_judge | fields)
        answers.append({f"t{n}": f"{'right' if n < tests // 2 else 'wrong'} {n} {HOSTILE}"})
    Path("s.eval.yaml").write_text(json.dumps({"tests": cases}), encoding="utf-8")
    Path("a.jsonl").write_text("\n".join(map(json.dumps, answers)), encoding="utf-8")
    options = ["--target", "scripted:a.jsonl", "--judge", f"function:{__name__}:judge"]
    assert int(_invoke(["run", "s.eval.yaml", *options, "--quiet", *words])) in (0, 1)
    store = open_store(STORE)
    try:
        return store.run("last").id
    finally:
        store.close()


def read_labels_of_run(run_id: str) -> list[tuple[str, str, bool, str]]:
    store = open_store(STORE)
    try:
        labels = [stored.label for stored in store.labels(run_id)]
    finally:
        store.close()
    return sorted((label.case_id, label.by, label.passed, label.note) for label in labels)


def field(text: str, name: str) -> str:
    match = re.search(rf'name="{name}" value="([^"]*)"', text)
    assert match is not None, text
    return unescape(match[1])


def name(server: Server, run_id: str, who: str = "Ana") -> str:
    """Enters the name of who labels; the page with the first answer."""
    answer = server.post("/review/name", {"run": run_id, "name": who})
    assert answer.status == 303
    return str(server.get(answer.headers["location"]).text)


def label(server: Server, run_id: str, at: str, verdict: str, **fields: str) -> Any:
    return server.post("/review/label", {"run": run_id, "at": at, "label": verdict, **fields})


@pytest.fixture
def run_id(project: Path) -> str:
    return run_suite()


def test_without_a_run_it_says_what_the_place_is_for(server: Server) -> None:
    page = server.get("/review").text
    assert read_heading(page) == "No answer is labelled yet"
    assert "Run a suite" in page


def test_runs_are_listed_with_how_many_answers_are_labelled(run_id: str, server: Server) -> None:
    name(server, run_id)
    label(server, run_id, "3.0", "pass")
    page = server.get("/review").text
    assert read_heading(page) == "1 answer of 1 run labelled"
    assert f'href="/review?run={run_id}"' in page


def test_the_page_asks_who_labels_before_it_shows_an_answer(run_id: str, server: Server) -> None:
    page = server.get(f"/review?run={run_id}").text
    assert read_heading(page) == "0 of 8 labelled"
    assert "Your name</label>" in page
    assert "Question" not in page
    assert "Question" in name(server, run_id)


def test_what_the_judge_said_is_not_even_in_the_page_before_the_person_has_labelled(
    run_id: str, server: Server
) -> None:
    name(server, run_id)
    page = server.get(f"/review?run={run_id}&at=5.0").text
    assert "Question 5?" in page
    assert "wrong 5" in page
    assert "Be good." in page
    assert "JUDGED" not in page
    assert "the judge says" not in page
    label(server, run_id, "5.0", "pass", note="good enough")
    after = server.get(f"/review?run={run_id}&at=5.0").text
    assert "the judge says" in after
    assert "JUDGED so" in after
    assert "good enough" in after


def test_the_first_line_counts_labels_and_disagreements(run_id: str, server: Server) -> None:
    name(server, run_id)
    label(server, run_id, "0.0", "pass")
    assert read_heading(server.get(f"/review?run={run_id}").text) == (
        "1 of 8 labelled; you and the judge agree on all"
    )
    label(server, run_id, "5.0", "pass")
    assert read_heading(server.get(f"/review?run={run_id}").text) == (
        "2 of 8 labelled; you and the judge disagree on 1"
    )
    page = server.get(f"/review?run={run_id}&show=disagreements").text
    assert "Disagreements (1)" in page
    assert "at=5.0" in page
    assert "at=0.0" not in page


def test_answers_come_one_after_the_other_until_all_are_labelled(run_id: str, server: Server) -> None:
    page, places = name(server, run_id), []
    for _ in range(8):
        places.append(field(page, "at"))
        page = server.get(label(server, run_id, places[-1], "pass").headers["location"]).text
    assert sorted(places) == [f"{n}.0" for n in range(8)]
    assert "You have labelled all answers" in page
    assert read_heading(page) == "8 of 8 labelled; you and the judge disagree on 4"


def test_filters_and_place_are_in_the_address_and_stay_there(run_id: str, server: Server) -> None:
    name(server, run_id)
    page = server.get(f"/review?run={run_id}&tag=bus&show=all").text
    at = field(page, "at")
    assert int(at[0]) % 2 == 1
    where = urlsplit(label(server, run_id, at, "fail", tag="bus", show="all").headers["location"])
    query = parse_qs(where.query)
    assert (query["tag"], query["show"]) == (["bus"], ["all"])
    assert int(query["at"][0][0]) % 2 == 1


def test_skipping_labels_nothing_and_goes_on(run_id: str, server: Server) -> None:
    page = name(server, run_id)
    skip = re.search(r'data-press="s" href="([^"]+)"', page)
    assert skip is not None
    then = server.get(unescape(skip[1])).text
    assert field(then, "at") != field(page, "at")
    assert read_labels_of_run(run_id) == []


def test_the_last_label_can_be_taken_back_once(run_id: str, server: Server) -> None:
    name(server, run_id)
    label(server, run_id, "2.0", "pass", note="first")
    label(server, run_id, "2.0", "fail", note="second")
    number = field(server.get(f"/review?run={run_id}").text, "number")
    back = server.post("/review/undo", {"run": run_id, "number": number})
    assert parse_qs(urlsplit(back.headers["location"]).query)["at"] == ["2.0"]
    assert read_labels_of_run(run_id) == [("t2", "Ana", True, "first")]
    again = server.post("/review/undo", {"run": run_id, "number": number})
    assert again.status == 400
    assert "Nothing was changed" in again.text
    assert read_labels_of_run(run_id) == [("t2", "Ana", True, "first")]


def test_each_label_keeps_how_its_answer_was_drawn(run_id: str, server: Server) -> None:
    page = name(server, run_id)
    label(server, run_id, field(page, "at"), "pass")
    page = server.get(f"/review?run={run_id}&show=doubt").text
    assert "Doubtful first" in page
    label(server, run_id, field(page, "at"), "pass", show="doubt")
    page = server.get(f"/review?run={run_id}&tag=bus").text
    label(server, run_id, field(page, "at"), "pass", tag="bus")
    store = open_store(STORE)
    try:
        draws = [(stored.label.drawn, stored.label.doubt) for stored in store.labels(run_id)]
    finally:
        store.close()
    assert draws == [("random", 1.0), ("doubt", 1.0), (None, 1.0)]


def test_enough_labels_say_what_people_would_pass(project: Path, server: Server) -> None:
    run_id = run_suite(tests=24)
    page = name(server, run_id)
    for _ in range(16):
        at = field(page, "at")
        verdict = "pass" if int(at.partition(".")[0]) < 12 else "fail"
        page = server.get(label(server, run_id, at, verdict).headers["location"]).text
    assert re.search(
        r"People would pass [\d.]+% \(\d+–\d+%\), from 16 labels and 24 judgments\.",
        server.get(f"/runs/{run_id}").text,
    )


def test_two_people_at_once_lose_nothing(run_id: str, server: Server) -> None:
    other = server.new_visitor()
    for browser, who in ((server, "Ana"), (other, "Bo")):
        name(browser, run_id, who)

    def label_all(browser: Server, verdict: str) -> None:
        for n in range(8):
            answers.append(label(browser, run_id, f"{n}.0", verdict))

    answers = list[Any]()
    threads = [Thread(target=label_all, args=arguments) for arguments in ((server, "pass"), (other, "fail"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.text for answer in answers if answer.status != 303] == []
    assert [label[:3] for label in read_labels_of_run(run_id)] == sorted(
        (f"t{n}", who, passed) for n in range(8) for who, passed in (("Ana", True), ("Bo", False))
    )
    page = server.get(f"/review?run={run_id}&at=1.0").text
    assert "Bo says" in page


def test_agreement_is_told_with_its_intervals_when_there_are_enough(project: Path, server: Server) -> None:
    run_id = run_suite(tests=12)
    name(server, run_id)
    for n in range(12):
        verdict = "pass" if n < 5 else "fail"
        page = server.get(f"/review?run={run_id}").text
        assert ("The judge and people agree" in page) is (n >= 10)
        label(server, run_id, f"{n}.0", verdict)
    page = server.get(f"/review?run={run_id}").text
    assert "agree on 11 of 12 answers (91.7%, 65–99%), kappa 0.83 (0.35 to 1.00)." in page
    assert "only 5 that people pass and 7 that people fail among them. Label at least 20 of each kind" in page
    assert f"proctor certify {run_id} --judge function:" in page


def test_held_out_answers_are_labelled_only_after_they_are_revealed_and_that_is_a_look(
    project: Path, server: Server
) -> None:
    run_id = run_suite("--holdout", "0.25")
    page = name(server, run_id)
    assert read_heading(page) == "0 of 6 labelled"
    assert "2 held-out answers are hidden" in page
    visible = {n for n in range(8) if server.get(f"/review?run={run_id}&at={n}.0").status == 200}
    (first, second) = sorted(set(range(8)) - visible)
    before = server.looks(run_id)
    assert label(server, run_id, f"{first}.0", "pass").status == 404
    assert read_labels_of_run(run_id) == []
    server.post("/review/reveal", {"run": run_id})
    assert server.looks(run_id) == [*before, "reveal"]
    assert "labelling it is a holdout access" in server.get(f"/review?run={run_id}&at={first}.0").text
    for n in (first, second):
        assert label(server, run_id, f"{n}.0", "pass", note="held-out words").status == 303
    assert server.looks(run_id) == [*before, "reveal", "rate"]
    own, other = server.get(f"/review/labels.jsonl?run={run_id}"), server.new_visitor()
    assert own.text.count("held-out words") == 2
    assert "held-out words" not in other.get(f"/review/labels.jsonl?run={run_id}").text
    assert read_heading(name(other, run_id, "Bo")) == "0 of 6 labelled"


def test_labels_are_downloaded_as_certify_reads_them(run_id: str, server: Server, project: Path) -> None:
    name(server, run_id, "Zoë")
    label(server, run_id, "0.0", "pass", note=HOSTILE)
    label(server, run_id, "1.0", "fail")
    answer = server.get(f"/review/labels.jsonl?run={run_id}")
    assert answer.headers["content-disposition"] == f'attachment; filename="{run_id}.labels.jsonl"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    Path("l.jsonl").write_bytes(answer.data)
    labels = [line.label for line in read_labels("l.jsonl").lines]
    assert [(label.case_id, label.passed, label.by, label.note) for label in labels] == [
        ("t0", True, "Zoë", HOSTILE),
        ("t1", False, "Zoë", ""),
    ]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"label": "maybe", "at": "1.0"}, 400),
        ({"at": "1.0"}, 400),
        ({"label": "pass", "at": "99.0"}, 404),
        ({"label": "pass", "at": "1.7"}, 404),
        ({"label": "pass", "at": "../../x"}, 404),
        ({"label": "pass", "at": ""}, 404),
        ({"label": "pass", "at": "1.0", "run": "nobody"}, 404),
        ({"label": "pass", "at": "1.0", "by": "x" * 81}, 400),
        ({"label": "pass", "at": "1.0", "note": "x" * 4001}, 400),
        ({"label": "pass", "at": "1.0", "by": " \n\0 "}, 400),
    ],
)
def test_an_invalid_label_is_refused_in_a_sentence_and_not_stored(
    run_id: str, server: Server, fields: dict[str, str], status: int
) -> None:
    answer = server.post("/review/label", {"run": run_id, "by": "Ana", **fields})
    assert answer.status == status
    assert read_heading(answer.text).endswith(".")
    assert read_labels_of_run(run_id) == []


@pytest.mark.parametrize("query", ["at=x", "at=1", "at=1.0.0", "show=worst", "at=99999999999999999999.0"])
def test_an_invalid_address_is_refused(run_id: str, server: Server, query: str) -> None:
    assert server.get(f"/review?run={run_id}&{query}").status in (400, 404)


def test_the_keyboard_is_enough(run_id: str, browser_page: Page) -> None:
    page = browser_page

    def press(key: str) -> None:
        with page.expect_navigation():
            page.keyboard.press(key)

    page.goto(f"/review?run={run_id}")
    page.keyboard.type("Ana")
    press("Enter")
    press("p")
    press("x")
    press("s")
    press("1")
    press("2")
    assert page.inner_text("h1").startswith("4 of 8 labelled")
    page.focus("#note")
    page.keyboard.type("pxs12 is no label")
    assert page.input_value("#note") == "pxs12 is no label"
    with page.expect_navigation():
        page.click("button:has-text('Fail')")
    press("u")
    assert page.inner_text("h1").startswith("4 of 8 labelled")
    assert [passed for _, _, passed, _ in read_labels_of_run(run_id)].count(True) == 2


def test_pass_and_fail_look_like_verdicts(run_id: str, server: Server) -> None:
    text = name(server, run_id)
    for word, key in (("pass", "p"), ("fail", "x")):
        button = re.search(
            rf'<button class="{word}" name="label" value="{word}" data-press="{key}"[^>]*>(.*?)</button>',
            text,
        )
        assert button, word
        assert f'<svg class="shape {word}"' in button[1]

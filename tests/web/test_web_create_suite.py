"""Create Suite: the demo, pasted and uploaded cases, problems at their lines, and saving them as versions."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING

import pytest

from proctor.services.suites.zip_upload import pack
from support.web import read_answer

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from support.web import Visitor

LINE = '{"id": "%s", "input": "Say %s", "expected": "%s", "scorer": "contains"}\n'
WORDS = (
    *("river bridge", "old clock", "red apple", "quiet forest", "paper boat", "winter coat", "bread oven"),
    *("night train", "garden wall", "silver spoon", "school bell", "honey jar", "stone tower", "fishing net"),
    *("blue whale", "candle light", "wooden chair", "market square", "letter box", "sand castle"),
)
"""Twenty things that have nothing in common, so that no two cases are nearly the same."""
GOOD = "".join(LINE % (f"t{n}", f"where one finds a {words}", f"w{n}") for n, words in enumerate(WORDS))
LEAKY = LINE % ("math_1", "the answer is 42", "42")
NO_RUBRIC = '{"id": "essay_1", "input": "Write", "scorer": "llm_judge"}\n'
MARKDOWN = "# 👤\n\nWhat is 2+2?\n\n---\n\nThe answer is four.\n"
NASTY = "</textarea><script>alert(1)</script>\"'&amp;{{7*7}}"


def read_editor(text: str) -> str:
    """The text of the editor as a browser shows it: without the first line end."""
    match = re.search(r'<textarea id="text"[^>]*>\n(.*?)</textarea>', text, re.DOTALL)
    assert match, text
    return unescape(match[1])


def list_versions(server: Visitor) -> list[tuple[str, str | None, int]]:
    with server.site.open_store() as store:
        return [
            (version.suite.name, version.suite.version, version.suite.case_count)
            for version in store.versions()
        ]


def test_the_demo_has_every_scorer_and_no_leak(server: Visitor) -> None:
    page = server.post("/suites/demo").text
    assert read_answer(page) == "20 cases read, no errors, no warnings: ready to save"
    text = read_editor(page)
    for scorer in (
        "exact",
        "contains",
        "regex",
        "json_schema",
        "numeric_match",
        "numeric_equal",
        "llm_judge",
    ):
        assert f'"scorer": "{scorer}"' in text


def test_problems_stand_under_their_lines_and_are_links_to_them(server: Visitor) -> None:
    text = GOOD + LEAKY + NO_RUBRIC
    page = server.post("/suites/check", {"text": text}).text
    assert read_answer(page) == "22 cases read, 1 error, 1 leak warning: fix it before saving"
    for number, word in ((21, "LEAK WARNING: Test &#39;math_1&#39; input"), (22, "missing &#39;rubric&#39;")):
        line = page[page.index(f'<li id="line-{number}"') :]
        assert word in line[: line.index("</ol>")]
        assert f'href="#line-{number}"' in line
    assert read_editor(page) == text
    assert 'formaction="/suites/save"' not in page


def test_warnings_alone_can_be_ignored(server: Visitor) -> None:
    page = server.post("/suites/check", {"text": GOOD + LEAKY, "name": "mine"}).text
    assert read_answer(page) == "21 cases read, 1 leak warning: fix or ignore before saving"
    assert server.post("/suites/save", {"text": GOOD + LEAKY, "name": "mine"}).status == 303
    assert list_versions(server) == [("mine", "v1", 21)]


def test_saving_an_invalid_suite_saves_nothing_and_keeps_the_text(server: Visitor) -> None:
    answer = server.post("/suites/save", {"text": GOOD + NO_RUBRIC, "name": "mine"})
    assert answer.status == 400
    assert read_editor(answer.text) == GOOD + NO_RUBRIC
    assert 'value="mine"' in answer.text
    assert list_versions(server) == []


@pytest.mark.parametrize(
    ("sentence", "cases", "tags"),
    [
        ("Saved mine v1: 20 cases. Nothing changed.", GOOD, ""),
        ("Saved mine v1: 20 cases. Only tags, ", GOOD, '"tags": "x", '),
        ("Saved mine v2: 21 cases.<", GOOD + LEAKY, ""),
    ],
)
def test_saving_again_shows_its_result_once(sentence: str, cases: str, tags: str, server: Visitor) -> None:
    server.post("/suites/save", {"text": GOOD, "name": "mine"})
    assert sentence not in server.get("/suites").text
    text = cases.replace('"scorer"', f'{tags}"scorer"')
    assert "mine v1 exists" in server.post("/suites/check", {"text": text, "name": "mine"}).text
    answer = server.post("/suites/save", {"text": text, "name": "mine"})
    assert answer.headers["location"].startswith("/suite?name=mine&version=v")
    assert sentence in server.get("/suites").text
    assert sentence not in server.get("/suites").text
    assert list_versions(server)[0] == ("mine", "v1", 20)


@pytest.mark.parametrize("text", ["\n\nid,input,expected\na,x,y\n", f"\n{NASTY}\n", "\tx\n \n\n", NASTY])
def test_the_text_is_kept_exactly_whatever_it_is(text: str, server: Visitor) -> None:
    page = server.post("/suites/check", {"text": text, "name": NASTY}).text
    assert read_editor(page) == text
    assert "<script>alert" not in page


def test_a_browser_sends_the_text_back_as_it_was(browser_page: Page, server: Visitor) -> None:
    text = "\n" + GOOD + "\n\n"
    browser_page.goto("/suites/new")
    browser_page.fill("#text", text)
    browser_page.click("button:text-is('Validate')")
    assert browser_page.input_value("#text") == text
    browser_page.click("text=Validate again")
    assert browser_page.input_value("#text") == text


def test_a_file_is_shown_in_the_editor_and_a_zip_is_held(server: Visitor) -> None:
    page = server.post("/suites/check", {}, {"file": ("cases.jsonl", GOOD.encode())}).text
    assert read_editor(page) == GOOD
    archive = pack({"mine/a.md": MARKDOWN.encode(), "mine/b.md": MARKDOWN.encode()})
    page = server.post("/suites/check", {}, {"file": ("mine.zip", archive)}).text
    assert read_answer(page).startswith("2 cases read")
    key = re.search(r'name="key" value="([^"]+)"', page)
    assert key
    assert server.new_visitor().post("/suites/save", {"key": key[1]}).status == 400, "it is another visitor's"
    assert server.post("/suites/save", {"key": key[1]}).status == 303
    assert list_versions(server) == [("mine", "v1", 2)]
    answer = server.post("/suites/check", {"key": "nothing", "name": "typed"})
    assert answer.status == 400
    assert "The upload is gone" in answer.text
    assert 'value="typed"' in answer.text


def test_of_several_suites_in_a_zip_one_is_chosen(server: Visitor) -> None:
    archive = pack({"a.jsonl": GOOD.encode(), "b.jsonl": (GOOD + LEAKY).encode()})
    page = server.post("/suites/check", {}, {"file": ("two.zip", archive)}).text
    assert "The upload has 2 suites" in page
    key = re.search(r'name="key" value="([^"]+)"', page)
    assert key
    page = server.post("/suites/check", {"key": key[1], "main": "b.jsonl"}).text
    assert read_answer(page).startswith("21 cases read")


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("a.zip", pack({"../a.jsonl": b"x"}), "leaves"),
        ("a.jsonl", b"\xff\xfe\x00", "UTF-16"),
        ("a.jsonl", b"\x80", "UTF-8"),
        ("a.jsonl", b"a\0b", "NUL"),
        ("a.zip", b"PK\x03\x04", "truncated"),
    ],
)
def test_uploads_that_cannot_be_read_are_refused_on_the_page(
    name: str, data: bytes, word: str, server: Visitor
) -> None:
    answer = server.post("/suites/check", {"text": GOOD}, {"file": (name, data)})
    assert answer.status == 400
    assert word in answer.text
    assert read_editor(answer.text) == GOOD, "what was typed is still there"


def test_what_is_sent_is_shown_with_held_out_cases_marked(server: Visitor) -> None:
    page = server.post("/suites/check", {"text": GOOD}).text
    section = page[page.index('id="sent"') :]
    assert section.count("<details") == 20
    assert section.count("<b>holdout</b>") == 4
    assert "Say where one finds a red apple" in section


def test_a_long_text_is_held_and_only_lines_with_problems_are_shown(server: Visitor) -> None:
    text = "".join(LINE % (f"t{n}", "a word " * 60, f"w{n}") for n in range(1_500)) + NO_RUBRIC
    page = server.post("/suites/check", {"text": text}).text
    assert read_answer(page).startswith("1,501 cases read, 1 error")
    assert len(page) < len(text) / 3
    assert '<li id="line-1501" class="error">' in page
    assert "more lines</li>" in page


def test_many_problems_are_shown_in_part(server: Visitor) -> None:
    text = "".join(f'{{"id": "t{n}", "input": "x"}}\n' for n in range(3_000))
    page = server.post("/suites/check", {"text": text, "dialect": "meridian"}).text
    assert "2,900 more problems are not shown" in page


def test_the_server_s_own_targets_are_the_only_ones(server: Visitor) -> None:
    text = (
        '{"proctor": 1, "name": "p"}\n{"id": "a", "input": [{"role": "user", "content": "x"}], '
        '"target": "known", "assertions": [{"grader": "exact", "params": {"value": "y"}}]}\n'
    )
    assert server.post("/suites/save", {"text": text}).status == 400
    targets = "targets:\n  - {name: known, provider: mock, response: y}\n"
    (server.site.folder / "targets.yaml").write_text(targets, encoding="utf-8")
    assert server.post("/suites/save", {"text": text}).status == 303


def test_a_saved_suite_is_edited_as_its_next_version(server: Visitor) -> None:
    server.post("/suites/save", {"text": GOOD, "name": "mine"})
    page = server.get("/suites/new?name=mine&version=v1").text
    assert server.post("/suites/save", {"text": read_editor(page), "name": "mine"}).status == 303
    assert list_versions(server) == [("mine", "v1", 20)], "what was not changed is the same version"
    assert server.get("/suites/new?name=other").status == 404


def test_nothing_is_held_out_where_the_form_or_the_file_says_so(server: Visitor) -> None:
    for text, holdout in ((GOOD, "0"), (GOOD, " 0.0 "), ('{"suite_name": "x", "holdout": 0}\n' + GOOD, "")):
        fields = {"text": text, "name": "mine", "holdout": holdout}
        assert "It has no holdout" in server.post("/suites/check", fields).text
        place = server.post("/suites/save", fields).headers["location"]
        assert read_answer(server.get(place).text) == "mine v1: 20 cases, not run yet"
    assert 'name="holdout" value="0"' in server.get("/suites/new?name=mine&version=v1").text
    server.post("/suites/save", {"text": GOOD, "name": "mine", "holdout": "0.5"})
    assert "Only tags, metadata, order, holdout or prompts changed" in server.get("/suites").text
    assert read_answer(server.get("/suite?name=mine").text).startswith(
        "mine v1: 20 cases, 10 dev + 10 holdout"
    )


@pytest.mark.parametrize("holdout", ["some", "1", "-0.5", "nan", "20%"])
def test_a_holdout_that_is_no_share_is_refused_and_kept_in_the_form(server: Visitor, holdout: str) -> None:
    for place in ("/suites/check", "/suites/save"):
        answer = server.post(place, {"text": GOOD, "name": "mine", "holdout": holdout})
        assert answer.status == 400
        assert "The share held out is" in answer.text
        assert f'name="holdout" value="{holdout}"' in answer.text
    assert list_versions(server) == []


def test_problems_are_listed_first_with_errors_before_warnings(server: Visitor) -> None:
    page = server.post("/suites/check", {"text": GOOD + LEAKY + NO_RUBRIC}).text
    problems = page[page.index('id="problems"') : page.index('enctype="multipart/form-data"')]
    places = re.findall(r'<a href="#(line-\d+)" data-line="(\d+)">line \d+</a>', problems)
    assert places == [("line-22", "22"), ("line-21", "21")]
    for anchor, _ in places:
        assert f'<li id="{anchor}"' in page


def test_of_many_problems_the_first_are_listed_and_the_others_folded(server: Visitor) -> None:
    page = server.post(
        "/suites/check", {"text": "".join(f'{{"id": "t{n}"}}\n' for n in range(30)), "dialect": "meridian"}
    ).text
    problems = page[page.index('id="problems"') : page.index('enctype="multipart/form-data"')]
    before, _, folded = problems.partition("<details>")
    assert before.count("<li ") == 8
    assert re.search(r"<summary>\d+ more problems</summary>", folded)


def test_problems_of_an_upload_that_is_not_edited_lead_to_the_lines_below(server: Visitor) -> None:
    text = "".join(LINE % (f"t{n}", "a word " * 60, f"w{n}") for n in range(1_500)) + NO_RUBRIC
    page = server.post("/suites/check", {"text": text}).text
    assert '<a href="#line-1501">line 1501</a>' in page
    assert "data-line=" not in page

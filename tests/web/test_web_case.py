"""The page of a case: conversation and exam sheet, repeats, neighbours, history, and what is sealed."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from proctor.model import Message, PromptTemplate, Run, Selection, Settings
from proctor.reports.runs.serialize import trial_record
from proctor.services.runs.reading.report import read_trial_rows
from proctor.web.project import Project
from support import media
from support.records import plain
from support.web import Visitor, make_runs, read_heading, save_suite, visit

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
MAP = {"kind": "file", "path": "notes/map.txt", "text": f"A map. {HOSTILE}"}
DOT = {"kind": "image", "path": 'a"b\r\nSet-Cookie: x.png', "media_type": "image/png", "data": "iVBORw0KGgo="}
SVG = {"kind": "image", "path": "x.svg", "media_type": "image/svg+xml", "data": "PHN2Zz48L3N2Zz4="}
SPEECH = {"kind": "audio", "path": "speech.wav", "data": b64encode(media.WAV).decode()}
CLIP = {"kind": "video", "path": f"{HOSTILE}.mp4", "data": b64encode(media.MP4).decode()}
PAPER = {"kind": "file", "path": "paper.pdf", "data": b64encode(media.PDF).decode()}
PAGE = {"kind": "file", "path": "page.html", "media_type": "text/html", "data": "PGI+"}
REASONING = "<think>The river is the Seine.</think>\n"


def suite() -> str:
    """Six dev and two held-out cases about capitals, the fourth of which has attachments."""
    lines: list[dict[str, Any]] = [{"proctor": 1, "name": "caps", "split_rule": {"ratio": 0.2}}]
    for n in range(8):
        message: dict[str, Any] = {"role": "user", "content": f"Question {n}: the capital of France?"}
        if n == 3:
            message["parts"] = [message["content"], MAP, DOT, SVG, SPEECH, CLIP, PAPER, PAGE]
        messages = [{"role": "system", "content": "Be brief."}, message]
        lines.append(
            {
                "id": f"case {n}/<b>",
                "input": messages,
                "expected": "Paris",
                "assertions": [
                    {"grader": "contains", "params": {"value": "Paris"}, "required": 1.0},
                    {"grader": "length", "params": {"max_words": 20}, "weight": 0.5},
                ],
                "category": "even" if n % 2 == 0 else "odd",
            }
        )
    return "".join(json.dumps(line) + "\n" for line in lines)


class World:
    """A server with three runs of one suite."""

    def __init__(self, server: Visitor, runs: list[Run]) -> None:
        self.server = server
        self.run, self.thrice, self.first = runs
        with server.site.open_store() as store:
            self.rows = list(read_trial_rows(store, self.run, reveal=True))
        self.held_out = [row.trial.position for row in self.rows if row.trial.split == "holdout"]
        self.dev = [row.trial.position for row in self.rows if row.trial.split == "dev"]

    def page(self, position: int, query: str = "", run: Run | None = None) -> str:
        return self.server.page(f"/runs/{(run or self.run).id}/cases/{position}{query}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("case")
    right = {"text": f"{REASONING}It is Paris. {HOSTILE}", "model": "m-1", "finish_reason": "stop"}
    answers = {f"case {n}/<b>": right if n % 2 else "I do not know it." for n in range(8)}
    (folder / "a.jsonl").write_text(json.dumps(answers), encoding="utf-8")
    answers_by_model = {name: ["It is Paris.", "It is Rome.", "It is Paris."] for name in answers}
    (folder / "b.jsonl").write_text(json.dumps(answers_by_model), encoding="utf-8")
    site = Project(folder / ".proctor" / "proctor.db", folder=folder)
    save_suite(site, "caps", suite())
    few = Settings(selection=Selection(limit=1))
    (first,) = make_runs(site, "caps", f"scripted:{folder}/a.jsonl")
    (two,) = make_runs(site, "caps", f"scripted:{folder}/b.jsonl", settings=Settings(repeats=3))
    (three,) = make_runs(site, "caps", f"scripted:{folder}/b.jsonl", settings=few)
    with visit(site) as server:
        yield World(server, [first, two, three])


def link(text: str, rel: str) -> str | None:
    match = re.search(rf'rel="{rel}" href="([^"]*)"', text)
    return None if match is None else unescape(match[1])


@pytest.mark.slow
def test_the_first_line_says_what_decided(world: World) -> None:
    failed, passed = (next(n for n in world.dev if n % 2 == odd) for odd in (0, 1))
    heading = read_heading(world.page(failed))
    assert heading.startswith("Failed contains: The answer does not contain 'Paris'")
    assert heading.endswith("(required)")
    assert read_heading(world.page(passed)) == "Passed: all 2 checks, score 1.00"


@pytest.mark.slow
def test_a_case_leads_to_a_new_case_and_its_address_can_be_copied(world: World) -> None:
    place = world.dev[0]
    text = world.page(place)
    assert f'href="/suites/add-case?run={world.run.id}&amp;position={place}"' in text
    (link,) = re.findall(r'data-copy="(http[^"]*)">Copy link<', text)
    assert re.fullmatch(rf"https?://[^/]+/runs/{world.run.id}/cases/{place}", link)


@pytest.mark.slow
def test_the_conversation_and_the_sheet_are_there_and_all_of_it_is_text(world: World) -> None:
    text = world.page(next(n for n in world.dev if n % 2))
    assert "Be brief." in text
    assert "the capital of France?" in text
    assert "m-1" in text
    (place,) = re.findall(r'<mark class="pass" id="([^"]+)"[^>]*>Paris</mark>', text)
    assert text.count(f'href="#{place}"') == 1  # from the line of `contains`; `length` has no place
    assert re.search(r"Thinking, \d+ words</summary>", text)
    assert "&lt;think&gt;" not in text
    assert HOSTILE not in text
    assert "&lt;script&gt;alert(1)" in text
    assert f"proctor runs show {world.run.id} --case" in text


def test_of_a_very_long_answer_the_beginning_is_shown_and_the_raw_trial_has_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = next(n for n in world.dev if n % 2)
    monkeypatch.setattr("proctor.web.pages.case.MAX_TEXT_LENGTH", 5)
    text = world.page(place)
    assert re.search(r"It is(</mark>)?… \([0-9,]+ more characters\)", text)
    assert "Paris." in world.server.get(f"/runs/{world.run.id}/cases/{place}/0.json").text


def test_repeats_stand_side_by_side_with_their_verdicts(world: World) -> None:
    text = world.page(world.dev[0], run=world.thrice)
    assert "3 of 3 repeats finished" in text
    assert re.findall(r'class="verdict (\w+)"', text)[:3] == ["pass", "fail", "pass"]
    assert read_heading(world.page(world.dev[0], "?repeat=1", world.thrice)).startswith(
        "Repeat 1 failed contains: "
    )
    assert world.server.get(f"/runs/{world.thrice.id}/cases/{world.dev[0]}?repeat=3").status == 404


def test_the_steps_stay_within_the_filter_one_came_from(world: World) -> None:
    odd = [n for n in range(8) if n % 2]
    positions, address = [], f"/runs/{world.run.id}/cases/{odd[0]}?category=odd"
    while address:
        positions.append(int(address.partition("?")[0].rpartition("/")[2]))
        text = world.server.get(address).text
        assert f'href="/runs/{world.run.id}?category=odd"' in text
        assert "category=odd" in (link(text, "next") or "category=odd")
        address = link(text, "next") or ""
    assert positions == odd
    back = link(text, "prev")
    assert back is not None
    assert f"/cases/{odd[-2]}?" in back


def test_the_raw_trial_is_what_the_command_line_has(world: World) -> None:
    row = next(row for row in world.rows if row.trial.split == "dev")
    answer = world.server.get(f"/runs/{world.run.id}/cases/{row.trial.position}/0.json")
    assert answer.headers["content-type"] == "application/json"
    data = json.loads(answer.data)
    expected = plain(trial_record(world.run, row))
    assert {name: data[name] for name in expected} == expected
    assert data["case"]["expected"] == "Paris"


def test_an_attachment_is_never_something_that_a_browser_runs(world: World) -> None:
    address = f"/runs/{world.run.id}/cases/3"
    if 3 in world.held_out:
        world.server.post(f"/runs/{world.run.id}/reveal")
    text = world.page(3)
    assert f'href="{address}/attachments/0" download' in text
    assert text.count("<img") == 1  # the PNG alone
    kinds = {
        0: "application/octet-stream",
        1: "image/png",
        2: "application/octet-stream",
        3: "audio/wav",
        4: "video/mp4",
        5: "application/pdf",
        6: "application/octet-stream",
    }
    for number, kind in kinds.items():
        file = world.server.get(f"{address}/attachments/{number}")
        assert file.status == 200
        assert file.headers["content-type"] == kind
        assert file.headers["content-disposition"].startswith('attachment; filename="')
        assert file.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in file.headers["content-security-policy"]
        assert "set-cookie" not in file.headers or "x.png" not in file.headers["set-cookie"]
    assert world.server.get(f"{address}/attachments/0").text.startswith("A map.")
    for number in (7, -1):
        assert world.server.get(f"{address}/attachments/{number}").status == 404


def test_audio_and_videos_are_played_and_a_pdf_is_a_download(world: World) -> None:
    if 3 in world.held_out:
        world.server.post(f"/runs/{world.run.id}/reveal")
    response = world.server.get(f"/runs/{world.run.id}/cases/3")
    address = f"/runs/{world.run.id}/cases/3/attachments"
    assert f'<audio class="attached" controls preload="metadata" src="{address}/3"' in response.text
    assert f'<video class="attached" controls preload="metadata" src="{address}/4"' in response.text
    assert f'<a href="{address}/5" download>paper.pdf</a>' in response.text
    assert response.text.count("controls") == 2
    assert HOSTILE not in response.text
    assert "media-src 'self';" in response.headers["content-security-policy"]
    assert world.server.get(f"{address}/3").data == media.WAV


@pytest.mark.parametrize(
    ("header", "status", "start", "end"),
    [
        ("bytes=0-", 206, 0, 60),
        ("bytes=0-59", 206, 0, 60),
        ("bytes=4-", 206, 4, 60),
        ("bytes=4-7", 206, 4, 8),
        ("bytes=4-999", 206, 4, 60),
        ("bytes=60-", 200, 0, 60),
        ("bytes=7-4", 200, 0, 60),
        ("bytes=-4", 200, 0, 60),
        ("words=4-7", 200, 0, 60),
    ],
)
def test_a_player_gets_the_bytes_that_it_seeks(
    world: World, header: str, status: int, start: int, end: int
) -> None:
    if 3 in world.held_out:
        world.server.post(f"/runs/{world.run.id}/reveal")
    response = world.server.get(f"/runs/{world.run.id}/cases/3/attachments/3", range=header)
    assert (response.status, response.data) == (status, media.WAV[start:end])
    assert response.headers["content-type"] == "audio/wav"
    assert (response.headers.get("content-range") == f"bytes {start}-{end - 1}/60") is (status == 206)


def test_what_is_held_out_is_sealed_until_this_visitor_reveals_it(world: World) -> None:
    position = world.held_out[0]
    visitor, other = world.server.new_visitor(), world.server.new_visitor()
    address = f"/runs/{world.thrice.id}/cases/{position}"
    text = visitor.get(address).text
    assert "reasons are hidden (holdout)" in read_heading(text)
    assert re.findall(r'class="verdict (\w+)"', text)[:3] == ["pass", "fail", "pass"]
    raw = visitor.get(f"{address}/0.json").text
    for leak in ("Be brief", "capital of France", "It is", "does not contain", '"value": "Paris"'):
        assert leak not in text
        assert leak not in raw
    assert json.loads(raw)["sealed"] is True
    back = f"{address}?repeat=1"
    answer = visitor.post(f"/runs/{world.thrice.id}/reveal", {"back": back})
    assert answer.headers["location"] == back
    assert "It is Rome." in visitor.get(back).text
    assert "--reveal" in visitor.get(back).text
    assert "It is Rome." not in other.get(back).text
    with world.server.site.open_store() as store:
        looks = [
            look.kind
            for look in store.holdout_accesses(world.run.suite.digest)
            if look.run == world.thrice.id
        ]
    assert looks.count("reveal") == 1


def test_a_page_links_the_same_case_in_other_runs(world: World) -> None:
    text = world.page(0)
    assert f"/runs/{world.thrice.id}/cases/0" in text
    assert f"/compare/answers?run={world.thrice.id}&amp;run={world.run.id}&amp;position=0" in text
    assert world.first.id not in world.page(world.dev[-1])  # which asked the first case alone


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("{run}/cases/8", "has no case at position 8"),
        ("{run}/cases/-1", "has no case at position -1"),
        ("{run}/cases/" + "9" * 25, "has no case at position"),
        ("{run}/cases/0?repeat=7", "no finished repeat 7"),
        ("{first}/cases/7", "was not selected"),
        ("nothing/cases/0", "There is no run"),
        (quote("../../etc/passwd", safe="") + "/cases/0", "does not exist"),
        ("{run}/cases/0/9.json", "no finished repeat 9"),
    ],
)
def test_what_is_not_there_is_a_sentence(world: World, address: str, sentence: str) -> None:
    answer = world.server.get(f"/runs/{address.format(run=world.run.id, first=world.first.id)}")
    assert answer.status == 404
    assert sentence in unescape(answer.text)


@pytest.mark.slow
def test_a_word_where_a_number_belongs_is_refused(world: World) -> None:
    assert world.server.get(f"/runs/{world.run.id}/cases/first").status == 400
    assert world.server.get(f"/runs/{world.run.id}/cases/0?repeat=x").status == 400


# --- the views of the answer -------------------------------------------------------------------------------


def _dev_case(world: World) -> int:
    return next(n for n in world.dev if n % 2)


def test_the_answer_is_plain_text_until_the_address_asks_for_markdown(world: World) -> None:
    plain, markdown = (world.page(_dev_case(world), query) for query in ("", "?view=markdown"))
    assert '<div class="rendered">' not in plain
    assert '<b aria-current="true">plain text</b>' in plain
    assert '<b aria-current="true">Markdown</b>' in markdown
    assert '<div class="rendered"><p>It is Paris. &lt;script&gt;alert(1)&lt;/script&gt;' in markdown
    assert HOSTILE not in markdown
    assert 'href="#mark-' not in markdown  # the rendered answer has no marks to lead to
    address = re.search(r'<a href="([^"]+)#answer">Markdown</a>', plain)
    assert address
    assert unescape(address[1]).endswith("?view=markdown")


def test_the_view_is_kept_from_case_to_case(world: World) -> None:
    following = link(world.page(world.dev[0], "?view=markdown"), "next")
    assert following
    assert "view=markdown" in following


@pytest.mark.parametrize("view", ["html", "Markdown", "%00"])
def test_a_view_that_does_not_exist_is_refused(world: World, view: str) -> None:
    assert world.server.get(f"/runs/{world.run.id}/cases/0?view={view}").status in (400, 404, 422)


def test_each_fact_of_an_answer_stands_once(world: World) -> None:
    text = world.page(_dev_case(world))
    assert text.count("m-1") == 1
    assert len(re.findall(r"<dt>(latency|cost|ended by)</dt>", text)) == 3
    assert "· cost" not in text
    assert not re.search(r"<dt>target</dt>", text)


# --- comments ----------------------------------------------------------------------------------------------


def _comments_address(world: World, position: int) -> str:
    return f"/runs/{world.run.id}/cases/{position}/comments"


def test_a_comment_stands_on_the_page_until_its_author_deletes_it(world: World) -> None:
    place = _dev_case(world)
    ana, bo = world.server.new_visitor(), world.server.new_visitor()
    answer = ana.post(
        f"{_comments_address(world, place)}?view=markdown",
        {"by": " Ana  Ruiz ", "text": f"Wrong?\r\n{HOSTILE}"},
    )
    assert answer.status == 303
    assert re.search(rf"/cases/{place}\?view=markdown#comment-\d+$", answer.headers["location"])
    text = bo.page(f"/runs/{world.run.id}/cases/{place}")
    assert "<b>Ana Ruiz</b> <time datetime=" in text
    assert "Wrong?\n&lt;script&gt;" in text
    assert HOSTILE not in text
    assert "/comments/delete" not in text
    number = answer.headers["location"].rpartition("-")[2]
    assert bo.post(f"{_comments_address(world, place)}/delete", {"number": number}).status == 400
    data = json.loads(bo.page(f"/runs/{world.run.id}/cases/{place}/0.json"))
    assert [(comment["by"], comment["text"]) for comment in data["comments"]] == [
        ("Ana Ruiz", f"Wrong?\n{HOSTILE}")
    ]
    assert "/comments/delete" in ana.page(f"/runs/{world.run.id}/cases/{place}")
    assert ana.post(f"{_comments_address(world, place)}/delete", {"number": number}).status == 303
    assert "Wrong?" not in bo.page(f"/runs/{world.run.id}/cases/{place}")
    assert ana.post(f"{_comments_address(world, place)}/delete", {"number": number}).status == 400


@pytest.mark.parametrize(
    "fields",
    [
        {"by": "ana", "text": " \n"},
        {"by": " ", "text": "x"},
        {"by": "a" * 81, "text": "x"},
        {"by": "a", "text": "x" * 4001},
    ],
)
def test_a_comment_without_text_or_author_or_one_too_long_is_refused(
    world: World, fields: dict[str, str]
) -> None:
    assert world.server.new_visitor().post(_comments_address(world, world.dev[0]), fields).status == 400
    with world.server.site.open_store() as store:
        assert store.comments(world.run.id) == []


def test_a_hidden_answer_takes_and_shows_no_comment_until_it_is_revealed(world: World) -> None:
    place, stranger, reader = world.held_out[0], world.server.new_visitor(), world.server.new_visitor()
    fields = {"by": "ana", "text": "Only for those who may see it."}
    assert stranger.post(_comments_address(world, place), fields).status == 404
    assert reader.post(f"/runs/{world.run.id}/reveal", {"back": "/"}).status == 303
    answer = reader.post(_comments_address(world, place), fields)
    assert answer.status == 303
    assert fields["text"] in reader.page(f"/runs/{world.run.id}/cases/{place}")
    page = stranger.page(f"/runs/{world.run.id}/cases/{place}")
    assert fields["text"] not in page
    assert "Add comment" not in page
    assert fields["text"] not in stranger.page(f"/runs/{world.run.id}/cases/{place}/0.json")
    number = answer.headers["location"].rpartition("-")[2]
    assert reader.post(f"{_comments_address(world, place)}/delete", {"number": number}).status == 303


def test_the_heading_of_the_messages_names_the_runs_prompt(tmp_path: Path) -> None:
    site = Project(tmp_path / ".proctor" / "proctor.db", folder=tmp_path)
    save_suite(site, "caps", suite())
    (run,) = make_runs(site, "caps", "echo")
    template = PromptTemplate(name="terse <b>", messages=(Message(role="user", content="{{input}}"),))
    with site.open_store() as store:
        store.update_run(replace(run, prompt=template))
    with visit(site) as server:
        text = server.page(f"/runs/{run.id}/cases/{_first_dev(site, run)}")
    assert '<p class="speaker">prompt <span class="quiet">terse &lt;b&gt;</span></p>' in text
    assert "echo · terse &lt;b&gt;</a>" in text


def _first_dev(site: Project, run: Run) -> int:
    with site.open_store() as store:
        rows = read_trial_rows(store, run, reveal=True)
        return next(row.trial.position for row in rows if row.trial.split == "dev")

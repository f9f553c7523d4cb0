"""Suites and one suite: lists, versions, what changed, files of any dialect, and deleting with undo."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from proctor.model import Run, Suite
from proctor.services.suites.save_upload import DraftSettings, save_draft
from proctor.services.suites.upload import upload_from_text
from proctor.services.suites.zip_upload import unpack
from proctor.web.pages import suite as suite_page
from proctor.web.project import Project
from support.builders import ECHO
from support.web import read_answer, save_suite

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from support.web import Visitor

LINE = '{"id": "%s", "input": "Say %s", "expected": "%s", "scorer": "contains"}\n'
OLD = "".join(LINE % (f"t{n}", "a word", f"w{n}") for n in range(10))
NEW = OLD.replace("Say a word", "Say one\\nword", 1) + LINE % ("more", "b", "c")
NASTY = "<script>alert(1)</script>\"'&{{7*7}}/../é"


def keep(server: Visitor, text: str, name: str = "mine") -> Suite:
    with server.site.open_store() as store:
        return save_draft(store, upload_from_text(text), DraftSettings(name=name)).suite


def add_run(server: Visitor, suite: Suite) -> None:
    with server.site.open_store() as store:
        store.add_run(
            Run(
                id="20260301-120000-abcdef",
                group="20260301-120000-abcdef",
                suite=suite,
                target=ECHO,
                started_at=datetime(2026, 3, 1, tzinfo=UTC),
            )
        )


def read_versions(server: Visitor) -> list[object]:
    with server.site.open_store() as store:
        return [(version, list(store.cases(version.suite.content))) for version in store.versions()]


def test_an_empty_place_says_what_to_do_and_makes_nothing(server: Visitor) -> None:
    page = server.get("/suites").text
    assert read_answer(page) == "No suites yet"
    assert 'href="/suites/new"' in page
    assert "proctor suites save FILE" in page
    assert not server.site.location.exists()


def test_the_list_says_what_changed_since_its_last_run(server: Visitor) -> None:
    first = keep(server, OLD)
    assert read_answer(server.get("/suites").text) == "1 suite, not run yet"
    add_run(server, first)
    keep(server, OLD, "other")
    assert read_answer(server.get("/suites").text) == "2 suites, none changed since their last run"
    keep(server, NEW)
    page = server.get("/suites").text
    assert read_answer(page) == "2 suites, 1 changed since its last run"
    assert "changed since v1" in page
    for tier in ("cheap", "moderate", "comprehensive"):
        assert f"/run?suite=builtin%3A{tier}" in page


def test_the_list_is_sorted_and_searched_by_its_address(server: Visitor) -> None:
    keep(server, OLD, "a")
    keep(server, NEW, "b")

    def names(address: str) -> list[str]:
        return re.findall(r'version=v1">([^<]+)</a></th>', server.get(address).text)

    assert names("/suites") == ["a", "b"]
    assert names("/suites?sort=cases") == ["b", "a"]
    assert names("/suites?sort=cases&down=true") == ["a", "b"]
    assert names("/suites?find=B") == ["b"]
    assert names("/suites?after=a") == ["b"]
    assert server.get("/suites?sort=nothing&find=%00&after=%F0").status == 200


def test_a_suite_s_page_shows_its_versions_cases_and_split(server: Visitor) -> None:
    keep(server, OLD)
    suite = keep(server, NEW)
    page = server.get("/suite?name=mine").text
    assert read_answer(page) == "mine v2: 11 cases, 8 dev + 3 holdout, not run yet"
    assert suite.digest in page
    assert read_answer(server.get("/suite?name=mine&version=v1").text).startswith("mine v1: 10 cases")
    text = server.get("/suite?name=mine&version=v2&case=10").text
    assert "Say b" in text[text.index('id="case"') :]
    for far in (99, -99, 10**30, -(10**30)):
        assert server.get(f"/suite?name=mine&case={far}&after={far}").status == 200
    for missing in ("name=other", "name=mine&version=v9", "name=mine&version=x"):
        assert server.get(f"/suite?{missing}").status == 404


def test_a_long_suite_has_pages(server: Visitor) -> None:
    keep(server, "".join(LINE % (f"t{n:03}", "a word", f"w{n}") for n in range(120)))
    case_ids: list[str] = []
    address: str | None = "/suite?name=mine"
    while address:
        page = server.get(address).text
        case_ids += re.findall(r'#case">([^<]+)</a>', page)
        following = re.search(r'rel="next" href="([^"#]+)', page)
        address = unescape(following[1]) if following else None
    assert case_ids == [f"t{n:03}" for n in range(120)]


def test_the_newest_of_many_versions_are_listed_and_the_others_on_demand(
    server: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite_page, "_MAX_VERSIONS", 2)
    for n in range(3):
        keep(server, OLD + LINE % (f"more{n}", "b", "c"))
    page = server.get("/suite?name=mine").text
    assert [f'aria-label="Delete v{n}"' in page for n in (1, 2, 3)] == [False, True, True]
    assert '<a href="/suite?name=mine&amp;version=v3&amp;older=true#versions">All 3 versions</a>' in page
    page = server.get("/suite?name=mine&older=true").text
    assert 'aria-label="Delete v1"' in page
    assert "All 3 versions" not in page


def test_the_difference_of_two_versions_is_told_case_by_case(server: Visitor) -> None:
    keep(server, OLD)
    assert server.get("/suite/diff?name=mine").status == 400
    keep(server, NEW)
    page = server.get("/suite/diff?name=mine").text
    assert read_answer(page) == "mine v1 → mine v2: 1 added, 1 changed, 9 the same"
    assert "<del>- Say a word</del>" in page
    assert "<ins>+ Say one</ins>" in page
    assert read_answer(server.get("/suite/diff?name=mine&old=v2&new=v1").text).endswith(
        "1 removed, 1 changed, 9 the same"
    )


def test_a_version_is_exported_and_is_the_same_version_when_it_is_saved_again(server: Visitor) -> None:
    keep(server, OLD)
    before = read_versions(server)
    export = server.get("/suite/export?name=mine&version=v1&to=proctor")
    assert export.status == 200
    answer = server.post("/suites/save", {"name": "mine"}, {"file": ("x.jsonl", export.data)})
    assert answer.headers["location"] == "/suite?name=mine&version=v1"
    assert len(read_versions(server)) == len(before)


def test_several_files_are_exported_as_one_zip(server: Visitor) -> None:
    text = '{"id": "a", "input": "Say hi", "scorer": "llm_judge", "rubric": "is a greeting"}\n'
    keep(server, text)
    export = server.get("/suite/export?name=mine&to=ai_tester&lossy=true")
    assert export.headers["content-type"].startswith("application/zip")
    assert any(path.endswith(".md") for path in unpack(export.data))


def test_what_a_dialect_cannot_say_is_listed_with_the_choice_to_leave_it_out(server: Visitor) -> None:
    keep(server, OLD)
    answer = server.get("/suite/export?name=mine&to=pramana")
    assert answer.status == 409
    assert read_answer(answer.text) == "The format pramana cannot express all of 10 cases"
    assert "lossy=true" in answer.text
    assert "--to pramana --lossy</code>" in answer.text
    several = server.get("/suite/export?name=mine&to=ai_tester").text
    assert "--to ai_tester --lossy -o FOLDER/</code>" in several, "what the command wants of several files"
    assert server.get("/suite/export?name=mine&to=pramana&lossy=true").status == 200
    assert server.get("/suite/export?name=mine&to=promptfoo").status == 400


def test_deleting_and_undoing_leaves_all_as_it_was(server: Visitor) -> None:
    keep(server, OLD)
    keep(server, NEW)
    before = read_versions(server)
    answer = server.post("/suite/delete", {"name": "mine", "version": "v2"})
    page = server.page(answer.headers["location"])
    assert "Deleted mine v2" in page
    assert '<form method="post" action="/suite/undo">' in page
    assert len(read_versions(server)) == 1
    answer = server.post("/suite/undo", {"name": "mine", "version": "v2"})
    assert read_answer(server.page(answer.headers["location"])).startswith("mine v2")
    assert read_versions(server) == before


def test_a_version_with_runs_is_not_deleted(server: Visitor) -> None:
    add_run(server, keep(server, OLD))
    before = read_versions(server)
    answer = server.post("/suite/delete", {"name": "mine", "version": "v1"})
    assert answer.status == 400
    assert "proctor runs delete" in answer.text
    assert read_versions(server) == before
    assert "Undo" not in server.get("/suites").text


@pytest.mark.parametrize("path", ["/suite/delete", "/suite/undo"])
def test_what_is_not_there_is_neither_deleted_nor_had_back(path: str, server: Visitor) -> None:
    keep(server, OLD)
    for name, version in (("mine", "v7"), ("other", "v1"), ("", ""), (NASTY, "@")):
        assert server.post(path, {"name": name, "version": version}).status == 400
    assert len(read_versions(server)) == 1


class TestOfAnotherStore:
    @pytest.fixture
    def site(self, project: Path) -> Project:
        return Project(project / "other.db", folder=project, environ={})

    def test_the_commands_of_all_pages_name_it(self, server: Visitor) -> None:
        server.post("/suites/save", {"name": "s", "text": '{"input": "Is 1 a number?", "expected": "yes"}'})
        assert "<code>proctor suites list --store=other.db</code>" in server.get("/suites").text
        assert "<code>proctor verify bundle.zip</code>" in server.get("/certificates").text
        for path in ("/suite?name=s", "/runs", "/compare", "/trends", "/run?suite=s&target=echo"):
            commands = re.findall(r'class="command">.*?<code>(proctor [^<]*)</code>', server.get(path).text)
            assert [command.count("--store=other.db") for command in commands] == [1] * len(commands), (
                commands
            )


def test_the_folders_own_store_needs_no_flag(server: Visitor) -> None:
    assert "--store" not in server.get("/suites").text


def test_the_list_and_the_selected_case_show_the_expected_answer(server: Visitor) -> None:
    lines: list[dict[str, Any]] = [{"proctor": 1, "name": "answers", "split_rule": {"ratio": 0.5}}]
    lines += [
        {
            "id": f"case-{n}",
            "input": [{"role": "user", "content": f"Question {n}"}],
            "expected": f"Answer <b>{n}</b>",
            "assertions": [{"grader": "contains", "params": {"value": str(n)}}],
        }
        for n in range(4)
    ]
    save_suite(server.site, "answers", "".join(json.dumps(line) + "\n" for line in lines))
    page = server.page("/suite?name=answers")
    cells = re.findall(r'<td class="line expected">(.*?)</td>', page)
    assert cells.count('<span class="quiet">hidden (holdout)</span>') == 2
    dev = [text for text in cells if text.startswith("Answer &lt;b&gt;")]
    assert len(dev) == 2
    number = re.search(r"\d", dev[0])
    assert number
    page = server.page(f"/suite?name=answers&case={number[0]}")
    assert f'<pre class="text expected">Answer &lt;b&gt;{number[0]}&lt;/b&gt;</pre>' in page


def test_a_case_without_an_input_is_shown_by_its_values(server: Visitor) -> None:
    keep(server, '{"id": "a", "expected": "x", "vars": {"city": "Lima", "text": "<b>"}}\n')
    page = server.get("/suite?name=mine&case=0").text
    assert "city=Lima, text=&lt;b&gt;" in page
    assert "<dt>variables</dt>" in page

"""The page Compare of runs with prompts and of edited cases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from proctor.model import Message, PromptTemplate, Run
from proctor.web.project import Project
from support.web import Served, make_runs, read_heading, read_text, save_suite, serve

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>"
CASES = 12


def suite_text(name: str, question: str = "Question") -> str:
    lines = [{"proctor": 1, "name": name}]
    for number in range(CASES):
        check = {
            "grader": "contains",
            "params": {"value": "Rome" if number == 1 and name == "v2" else "Paris"},
        }
        text = f"{question if number == 0 else 'Question'} {number}?"
        case = {
            "id": f"{'new' if name == 'v3' else 'case'}-{number:02}",
            "input": [{"role": "user", "content": text}],
            "assertions": [check],
        }
        lines.append(case)  # type: ignore[arg-type]
    return "".join(json.dumps(line) + "\n" for line in lines)


def make_prompt(name: str) -> PromptTemplate:
    return PromptTemplate(name=name, messages=(Message(role="system", content=f"You are {name}{HOSTILE}."),))


class PromptSite:
    """A server with runs of two prompts on two targets, and one of an edited suite."""

    def __init__(self, server: Served, runs: list[Run]) -> None:
        self.server = server
        self.grid, self.edited, self.stranger = runs[:4], runs[4], runs[5]

    def compare(self, *runs: Run, more: str = "", status: int = 200) -> str:
        return self.server.page("/compare?" + "&".join(f"run={run.id}" for run in runs) + more, status)


@pytest.fixture(scope="module")
def prompt_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PromptSite]:
    folder: Path = tmp_path_factory.mktemp("prompts")
    targets = []
    for place, right_count in enumerate((2, 4, 9, 12)):
        answers = {
            f"case-{number:02}": "Paris" if number < right_count else "Rome" for number in range(CASES)
        }
        (folder / f"{place}.jsonl").write_text(json.dumps(answers), encoding="utf-8")
        targets.append(f"scripted:{folder}/{place}.jsonl")
    site = Project(folder / ".proctor" / "proctor.db", folder=folder)
    save_suite(site, "v1", suite_text("v1"))
    save_suite(site, "v2", suite_text("v2", "Other question"))
    runs = [make_runs(site, "v1", target)[0] for target in targets]
    save_suite(site, "v3", suite_text("v3"))
    for suite in ("v2", "v3"):
        runs += make_runs(site, suite, targets[0])
    with site.open_store() as store:
        for place, run in enumerate(runs[:4]):
            target = replace(run.target, name=f"model-{place % 2}", model=str(place % 2))
            runs[place] = replace(run, prompt=make_prompt(("terse", "steps")[place // 2]), target=target)
            store.update_run(runs[place])
    with serve(site) as server:
        yield PromptSite(server, runs)


def test_a_grid_comes_first_and_its_heading_names_the_better_prompt(prompt_site: PromptSite) -> None:
    page = prompt_site.compare(*prompt_site.grid)
    assert read_heading(page).startswith('Prompt "steps" is better than "terse" over 2 targets by')
    text = read_text(page)
    for words in (
        "Prompts over 2 targets",
        "Targets over 2 prompts",
        "Prompts for each target",
        "not shown to",
    ):
        assert words in text
    assert "Targets for each prompt" not in text
    (link,) = re.findall(r'href="([^"]+)">targets for each prompt</a>', page)
    more = prompt_site.server.page(link.replace("&amp;", "&"))
    assert "Targets for each prompt" in read_text(more)
    assert "--by prompt" in more
    assert HOSTILE not in page


def test_the_texts_of_two_prompts_are_marked_word_by_word(prompt_site: PromptSite) -> None:
    page = prompt_site.compare(prompt_site.grid[0], prompt_site.grid[2])
    assert 'Prompts "terse" and "steps" differ:' in read_text(page)
    assert "You are <del>terse</del>&lt;script&gt;" in page
    assert "You are <ins>steps</ins>&lt;script&gt;" in page
    assert HOSTILE not in page


def test_a_case_shows_what_each_run_sent_and_keeps_the_choices(prompt_site: PromptSite) -> None:
    terse, steps = prompt_site.grid[0], prompt_site.grid[2]
    page = prompt_site.compare(terse, steps, more="&by=tag")
    links = re.findall(r'href="([^"]+)">case-0[2-8]</a>', page)
    cases = (prompt_site.server.page(link.replace("&amp;", "&")) for link in links)
    case = next(case for case in cases if "This case is in the holdout" not in case)
    text = read_text(case)
    assert "Compare model-0 · terse and model-0 · steps" in text
    assert f"You are terse{HOSTILE}." in text
    assert f"You are steps{HOSTILE}." in text
    assert f'/compare?run={terse.id}&amp;run={steps.id}&amp;by=tag"' in case
    assert "Candidate: model-0 · steps Command line proctor runs show" in text
    assert HOSTILE not in case


def test_parts_by_prompt_of_two_runs_are_refused_in_a_sentence(prompt_site: PromptSite) -> None:
    page = prompt_site.compare(*prompt_site.grid[:2], more="&by=prompt", status=400)
    assert "have the prompt 'terse', so --by prompt has nothing to compare" in read_text(page)


def test_edited_cases_are_told_and_their_answers_are_found(prompt_site: PromptSite) -> None:
    page = prompt_site.compare(prompt_site.grid[1], prompt_site.edited)
    text = read_text(page)
    assert "Input changed but same checks, so in the difference: 1 case: case-00." in text
    assert "Checks changed, so not compared: 1 case: case-01." in text
    assert "input unchanged" in text
    edited_page = prompt_site.compare(prompt_site.grid[3], prompt_site.edited)
    (link,) = re.findall(r'href="([^"]+)">case-02</a>', edited_page)
    assert "case-02" in prompt_site.server.page(link.replace("&amp;", "&"))
    first = link.replace("&amp;", "&").replace("position=2", "position=0")
    assert "case-00" in prompt_site.server.page(first)


def test_suites_without_a_common_case_are_refused_with_what_differs_and_a_way_on(
    prompt_site: PromptSite,
) -> None:
    page = prompt_site.compare(prompt_site.grid[0], prompt_site.stranger, status=400)
    assert read_heading(page) == "These runs have no cases in common"
    assert "no case has the same id and the same checks in both: 12 cases with another id" in read_text(page)
    assert "--by-case-digest" not in page
    (link,) = re.findall(r'href="([^"]+)">Compare cases with the same input</a>', page)
    assert "Paired although the id changed: 12 cases" in read_text(
        prompt_site.server.page(link.replace("&amp;", "&"))
    )

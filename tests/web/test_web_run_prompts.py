"""Prompts on the page Run Suite and in the API: chosen from the store, or written, and never a path."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

import proctor
from proctor.codec import template_digest
from proctor.model import Message, PromptTemplate, Run
from proctor.services.runs.config import Config
from proctor.services.runs.starts.allowed_targets import load_run_context
from proctor.services.runs.starts.processes import StartedRun, get_run_processes
from proctor.web.project import Project
from proctor.web.run_status import GroupSnapshot
from proctor.web.runs.form import MAX_PROMPT_LENGTH, FormErrors, list_offered_prompts, validate_form
from support.builders import NOON
from support.waiting import wait_until
from support.web import read_answer

pytestmark = pytest.mark.slow

TERSE = PromptTemplate(name="terse", messages=(Message(role="user", content="Q: {{ input }}"),))


@pytest.fixture(autouse=True)
def suite(site: Project) -> None:
    """A saved suite of ten cases, and a run with the prompt `terse`."""
    rows = [{"id": f"t{n}", "input": f"say {n}", "expected": f"say {n}"} for n in range(10)]
    path = site.folder / "ten.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    words: Any = {"store": site.location.address, "progress": False}
    proctor.run(str(path), target="echo", prompts={"terse": "The first one. {{ input }}"}, **words)
    proctor.run(str(path), target="echo", prompts=TERSE, **words)
    path.unlink()


def parse_form(site: Project, **fields: Any) -> Any:
    raw = {name: [value] if isinstance(value, str) else value for name, value in fields.items()}
    with site.open_store() as store:
        return validate_form(store, {"suite": ["ten"], "target": ["echo"], **raw}, load_run_context(site))


def wait_for_runs(site: Project, group: str, count: int) -> list[Run]:
    """The runs of a group, oldest first, once its process has ended."""
    processes = get_run_processes(site)

    def list_runs() -> list[Run]:
        start = processes.find(group)
        assert start is not None
        if processes.is_alive(start):
            return []
        assert not [line for line in processes.read_output(start) if " error: " in line]
        with site.open_store() as store:
            return processes.list_runs(store, group)

    runs = wait_until(list_runs)
    assert len(runs) == count
    return list(runs)


# --- the form ----------------------------------------------------------------------------------------------


def test_prompts_of_the_store_are_offered_as_the_newest_run_has_them(server: Any) -> None:
    page = server.get("/run").text
    assert 'name="prompt" value="terse"' in page
    assert "Q: {{ input }}" in page
    assert "The first one" not in page


def test_a_hostile_prompt_cannot_become_markup(server: Any, site: Project) -> None:
    text = "</textarea><script>x</script>{{ input }}"
    rows = [{"input": "a", "expected": "a"}]
    proctor.run(rows, target="echo", prompts={"<b>": text}, store=site.location.address, progress=False)
    answer = server.post(
        "/run", {"suite": "ten", "target": "echo", "prompt_name_1": "<i>", "prompt_text_1": text}
    )
    assert answer.status == 422
    for markup in ("<script>x", "<b></span>", 'value="<i>"'):
        assert markup not in answer.text


def test_the_estimate_multiplies_by_prompts(server: Any) -> None:
    fields = {"suite": "ten", "target": "echo", "prompt": "terse", "prompt_name_1": "p", "do": "estimate"}
    answer = server.post("/run", {**fields, "prompt_text_1": "{{ input }}!"})
    assert answer.status == 303
    page = server.get(answer.headers["location"])
    assert read_answer(page.text).startswith("8 dev + 2 holdout cases × 2 prompts × 1 target = 20 calls")
    assert "--prompt=terse --prompt=p.md" in page.text
    assert "{{ input }}!</textarea>" in page.text


def test_a_long_prompt_is_estimated_without_an_address(server: Any) -> None:
    text = "{{ input }}" + "x" * (MAX_PROMPT_LENGTH - 11)
    fields = {"suite": "ten", "target": "echo", "prompt_name_1": "p", "prompt_text_1": text, "do": "estimate"}
    answer = server.post("/run", fields)
    assert answer.status == 200
    assert read_answer(answer.text).startswith("8 dev + 2 holdout cases × 1 prompt × 1 target = 10 calls")


def test_prompts_are_started_with_their_texts(server: Any, site: Project) -> None:
    (site.folder / "terse").write_text("a file of that name: {{ input }}", encoding="utf-8")
    fields = {"suite": "ten", "target": "echo", "prompt": "terse", "prompt_name_2": "kind"}
    text = "# system\r\nBe kind.\r\n# user\r\n{{ input }}"
    group = re.search(r'name="group" value="([^"]+)"', server.get("/run").text)
    assert group
    fields = {**fields, "prompt_text_2": text, "group": group[1]}
    places = {server.post("/run", fields).headers["location"] for _ in range(2)}
    assert places == {f"/starts/{group[1]}"}
    runs = wait_for_runs(site, group[1], 2)
    kind = (Message(role="system", content="Be kind."), Message(role="user", content="{{ input }}"))
    assert [run.prompt for run in runs] == [TERSE, PromptTemplate(name="kind", messages=kind)]
    folder = site.location.folder / "starts" / "prompts"
    digests = {template_digest(run.prompt).removeprefix("sha256:") for run in runs if run.prompt}
    assert {path.stem for path in folder.iterdir()} == digests
    assert {path.name for path in site.folder.iterdir()} <= {".proctor", "terse", "keys"}


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\\b", "-x", "a=b", "a b", "ä", "x" * 65, ".", "a\nb"])
def test_what_is_no_name_of_a_prompt_is_refused(site: Project, name: str) -> None:
    with pytest.raises(FormErrors) as caught:
        parse_form(site, prompt_name_1=name, prompt_text_1="{{ input }}")
    assert list(caught.value.errors) == ["prompt_name_1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "The prompt is empty"),
        ("no variable", "has no `{{ variable }}`"),
        ("{{ if | x }}", "Only plain names"),
        ("x" * MAX_PROMPT_LENGTH + "{{ input }}", "the limit is 20,000 on this page"),
        ("# system\n\n# user\n{{ input }}", "There is no text under the heading '# system'"),
    ],
)
def test_what_is_no_prompt_is_refused(site: Project, text: str, words: str) -> None:
    with pytest.raises(FormErrors) as caught:
        parse_form(site, prompt_name_1="p", prompt_text_1=text)
    assert list(caught.value.errors) == ["prompt_text_1"]
    assert words in caught.value.errors["prompt_text_1"]


def test_two_prompts_of_one_name_and_unknown_ones_are_refused(site: Project) -> None:
    with pytest.raises(FormErrors) as caught:
        parse_form(site, prompt="terse", prompt_name_1="terse", prompt_text_1="{{ input }}")
    assert "Another prompt is also named 'terse'" in caught.value.errors["prompt_name_1"]
    (site.folder / "own.txt").write_text("{{ input }}", encoding="utf-8")
    for name in ("own.txt", "own", "x=own.txt", "../../etc/passwd"):
        with pytest.raises(FormErrors) as caught:
            parse_form(site, prompt=name)
        assert "There is no prompt" in caught.value.errors["prompt"]


def test_a_missing_variable_is_an_error_of_the_prompts(server: Any) -> None:
    fields = {"suite": "ten", "target": "echo", "prompt_name_1": "p", "prompt_text_1": "{{ city }}"}
    answer = server.post("/run", fields)
    assert answer.status == 422
    assert '<a href="#prompt">Prompts</a>: The prompt &#39;p&#39; uses `{{ city }}`' in answer.text
    assert "--prompt=p.md" in answer.text


def test_a_stored_prompt_is_sent_with_the_names_of_its_messages(server: Any, site: Project) -> None:
    prompt = PromptTemplate(name="named", messages=(Message(role="user", content="{{ input }}", name="bob"),))
    rows = [{"input": "a", "expected": "a"}]
    proctor.run(rows, target="echo", prompts=prompt, store=site.location.address, progress=False)
    group = re.search(r'name="group" value="([^"]+)"', server.get("/run").text)
    assert group
    server.post("/run", {"suite": "ten", "target": "echo", "prompt": "named", "group": group[1]})
    (run,) = wait_for_runs(site, group[1], 1)
    assert run.prompt == prompt


def test_a_prompt_that_is_sent_with_its_braces_is_not_offered(site: Project) -> None:
    literal = replace(TERSE, name="literal", is_literal=True)
    with site.open_store() as store:
        run = next(iter(store.runs()))
        store.add_run(replace(run, id="other", prompt=literal))
        assert set(list_offered_prompts(store)) == {"terse"}


def test_several_prompts_take_turns_on_one_target(site: Project) -> None:
    fields = {"interleave": "yes", "prompt_name_1": "p", "prompt_text_1": "{{ input }}"}
    with pytest.raises(FormErrors):
        parse_form(site, **fields)
    assert parse_form(site, **fields, prompt="terse").interleave is True


def test_the_project_names_prompts_that_are_used_without_a_choice(
    server: Any, site: Project, project: Path
) -> None:
    (project / "own.txt").write_text("{{ input }}", encoding="utf-8")
    site.config = Config(flags={"prompt": ["own.txt"]})
    page = server.get("/run?suite=ten&target=echo")
    assert "If you choose none, it uses own.txt from proctor.toml." in page.text
    assert read_answer(page.text).startswith("8 dev + 2 holdout cases × 1 prompt × 1 target = 10 calls")


def test_runs_that_have_not_begun_are_named_with_their_prompts(site: Project) -> None:
    words = (
        "run",
        "ten",
        "--target=echo",
        "--target=mock",
        "--prompt=terse=/x/ab.json",
        "--prompt=p=/x/cd.json",
    )
    start = StartedRun(group="g", words=words, pid=0, started_at=NOON)
    with site.open_store() as store:
        run = next(store.runs())
    snapshot: Any = SimpleNamespace(run=run)
    group = GroupSnapshot(id="g", start=start, alive=True, runs=(snapshot,))
    assert group.pending_targets == ["mock · terse", "echo · p", "mock · p"]


# --- the API -----------------------------------------------------------------------------------------------


def post(server: Any, path: str, body: Any) -> Any:
    answer = server.send(
        "POST", f"/api/v1{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    return answer.status, json.loads(answer.data)


def test_the_api_takes_names_and_texts(server: Any, site: Project) -> None:
    body = {
        "suite": "ten",
        "targets": ["echo"],
        "prompts": ["terse", {"name": "plain", "text": "{{ input }}"}],
    }
    status, estimate = post(server, "/estimates", body)
    assert (status, estimate["prompts"], estimate["calls"]) == (200, 2, 20)
    assert "--prompt=terse --prompt=plain.md" in estimate["command"]
    for _ in range(2):
        status, started = post(server, "/runs", {**body, "group": "mine"})
        assert (status, started["group"]) == (202, "mine")
    runs = wait_for_runs(site, "mine", 2)
    rows = json.loads(server.get("/api/v1/runs?prompt=plain").data)["runs"]
    assert [run["run"] for run in rows] == [runs[1].id]
    assert rows[0]["prompt"]["name"] == "plain"


@pytest.mark.parametrize(
    "prompts",
    [
        ["nowhere"],
        [{"name": "../x", "text": "{{ input }}"}],
        [{"name": "x", "text": "none"}],
        [{"name": "x", "file": "/etc/passwd"}],
        [{"name": f"x{number}", "text": "{{ input }}"} for number in range(6)],
        "terse",
    ],
)
def test_the_api_refuses_what_is_no_prompt(server: Any, site: Project, prompts: Any) -> None:
    status, problem = post(server, "/runs", {"suite": "ten", "targets": ["echo"], "prompts": prompts})
    assert status == 422, problem
    assert not (site.location.folder / "starts").exists()

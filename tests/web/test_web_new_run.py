"""Run Suite: its choices, its errors, its estimate, and that exactly the estimated run starts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.services.runs.config import Config
from proctor.services.runs.starts.allowed_targets import load_run_context
from proctor.services.runs.starts.processes import get_run_processes
from proctor.services.suites.save_and_open import Suites
from proctor.web.project import Project
from proctor.web.run_status import GroupLiveView
from proctor.web.runs.form import FormErrors, validate_form
from proctor.web.runs.start import make_estimate
from support.waiting import wait_until
from support.web import read_answer

pytestmark = pytest.mark.slow

Save = Callable[..., str]

TARGETS = """
targets:
  - {name: production, provider: openai, model: gpt-5.2, api_key: "${{ MY_KEY }}",
     base_url: "https://hidden.example.com/v1"}
  - {name: short, target: "openai:m@https://hidden.example.com/v1"}
  - {name: shell, provider: cli, command: "cat hidden-file; cat"}
  - {name: -x, provider: mock, response: mine}
"""


@pytest.fixture
def save(site: Project) -> Save:
    """Saves ten cases under a name, of which `echo` passes those with odd numbers."""

    def keep(name: str = "ten", count: int = 10) -> str:
        rows = [
            {"id": f"t{n}", "input": f"say {n}", "expected": f"say {n}" if n % 2 else "no"}
            for n in range(count)
        ]
        (site.folder / "ten.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        with site.open_store() as store:
            (saved,) = Suites(store, {}).save("ten.jsonl")
            if name != "ten":  # names that no command gives, but that a store may have
                writer = store.open_suite_writer()
                for row in store.cases(saved.suite.content):
                    writer.add(row.case, row.sent_digest)
                writer.commit(replace(saved.suite, name=name, version=None))
                store.delete_version("ten", "v1")
        (site.folder / "ten.jsonl").unlink()
        return name

    return keep


def list_starts(site: Project) -> list[str]:
    return sorted(path.stem for path in (site.location.folder / "starts").glob("*.json"))


def make_fields(**fields: Any) -> dict[str, list[str]]:
    return {name: [value] if isinstance(value, str) else value for name, value in fields.items()}


def make_arguments(site: Project, **fields: Any) -> list[str]:
    with site.open_store() as store:
        return validate_form(store, make_fields(**fields), load_run_context(site)).arguments


# --- the form ----------------------------------------------------------------------------------------------


def test_built_in_and_saved_suites_are_offered(server: Any, save: Save) -> None:
    save()
    page = server.get("/run")
    assert page.status == 200
    assert read_answer(page.text) == "Choose a suite and a target"
    assert "[Custom] ten</option>" in page.text
    assert page.text.count("(75 cases)") == 1


def test_targets_are_offered_by_name_and_nothing_of_their_secrets(server: Any, project: Path) -> None:
    (project / "targets.yaml").write_text(TARGETS, encoding="utf-8")
    page = server.get("/run").text
    for name in ("production", "short", "shell", "-x", "echo", "local"):
        assert f'name="target" value="{name}"' in page
    assert "openai gpt-5.2" in page
    assert "MY_KEY is not set" in page
    assert "hidden" not in page.replace('type="hidden"', "")


def test_a_targets_file_that_is_wrong_is_said_and_the_rest_can_be_chosen(server: Any, project: Path) -> None:
    for text in ("targets: [{name: a, provider: nowhere}, {name: b, provider: mock}]", "targets: {}"):
        (project / "targets.yaml").write_text(text, encoding="utf-8")
        page = server.get("/run?suite=cheap&target=echo")
        assert page.status == 200
        assert "The targets file has an error" in page.text
        assert 'value="echo"' in page.text
        assert ('name="target" value="b"' in page.text) is ("name: b" in text)


def test_the_estimate_is_the_first_line(server: Any, save: Save) -> None:
    save()
    page = server.get("/run?suite=ten&target=echo&repeats=2").text
    expected = "8 dev + 2 holdout cases × 2 repeats × 1 target = 20 calls, no cost, about 1 s"
    assert read_answer(page) == expected
    assert 'value="echo" checked' in page
    assert '<option value="ten" selected>' in page
    assert "proctor run --saved=ten@v1 --target=echo --repeat=2" in page
    assert read_answer(server.get("/run?suite=ten").text) == "8 dev + 2 holdout cases; choose a target"


def test_the_gate_can_be_held_to_the_interval(server: Any, save: Save) -> None:
    save()
    page = server.get("/run?suite=ten&target=echo&min_pass_rate=0.8&gate_mode=interval").text
    assert '<option value="interval" selected>' in page
    assert "proctor run --saved=ten@v1 --target=echo --min-pass-rate=0.8 --gate-mode=interval" in page


def test_related_cases_are_named_by_a_field(server: Any, save: Save) -> None:
    save()
    page = server.get("/run?suite=ten&target=echo&cluster=metadata.document").text
    assert 'name="cluster" value="metadata.document"' in page
    assert "proctor run --saved=ten@v1 --target=echo --cluster=metadata.document" in page
    assert "cannot be clustered by &#39;document&#39;" in server.get("/run?suite=ten&cluster=document").text


def test_estimate_leads_to_an_address_that_keeps_what_was_chosen(
    server: Any, save: Save, site: Project
) -> None:
    save()
    answer = server.post("/run", {"suite": "ten", "target": ["echo"], "split": "dev", "do": "estimate"})
    assert (answer.status, answer.headers["location"]) == (303, "/run?suite=ten&target=echo&split=dev")
    assert list_starts(site) == []


WRONG = [
    ("suite", "nothing", "There is no suite 'nothing' in this store"),
    ("suite", "", "Choose a suite"),
    ("version", "v9", "has no version 'v9'"),
    ("version", "sha256:00", "has no version"),
    ("target", "", "Choose at least one target"),
    ("split", "both", "is not one of all, dev, holdout"),
    ("repeats", "0", "is not a whole number, 1 or more"),
    ("repeats", "1.5", "is not a whole number"),
    ("concurrency", "-1", "is not a whole number"),
    ("budget_usd", "0", "is not a number above 0"),
    ("budget_usd", "inf", "is not a number above 0"),
    ("budget_usd", "1e999", "is not a number above 0"),
    ("temperature", "nan", "is not a number, 0 or more"),
    ("seed", "1e3", "is not a whole number"),
    ("seed", "٣", "is not a whole number"),
    ("max_tokens", "9" * 5000, "is not a whole number"),
    ("threshold", "1.01", "is not a number from 0 to 1"),
    ("min_pass_rate", "-0.1", "is not a number from 0 to 1"),
    ("holdout", "1", "is not a number from 0 to below 1"),
    ("holdout", "-0.1", "is not a number from 0 to below 1"),
    ("gate_mode", "maybe", "is neither point nor interval"),
    ("gate_mode", "interval", "There is no gate"),
    ("until", "2", "is not a number from 0.001 to 0.5"),
    ("stop_when_shown", "maybe", "is neither yes nor no"),
    ("stop_when_shown", "yes", "There is no gate"),
    ("cluster", "document", "cannot be clustered by 'document'. Use `metadata.FIELD`"),
    ("cluster", "tag:a\x1bb", "Enter one line"),
    ("interleave", "maybe", "is neither yes nor no"),
    ("interleave", "yes", "Taking turns needs at least two targets"),
    ("reuse", "maybe", "is neither yes nor no"),
    ("tag", "a\x1bb", "each on one line"),
    ("tag", "no such tag", "No cases match"),
    ("all_tag", "a\x1bb", "each on one line"),
    ("all_tag", "no, such", "No cases match"),
]


@pytest.mark.parametrize(("field", "value", "sentence"), WRONG)
def test_an_error_names_its_field(site: Project, save: Save, field: str, value: str, sentence: str) -> None:
    save()
    fields = {"suite": "ten", "target": "echo", field: value}
    with site.open_store() as store, pytest.raises(FormErrors) as error:
        make_estimate(site, store, validate_form(store, make_fields(**fields), load_run_context(site)))
    assert list(error.value.errors) == ["split" if sentence == "No cases match" else field]
    assert sentence in str(error.value)


def test_a_run_can_stop_when_enough_is_known(server: Any, save: Save, site: Project) -> None:
    save()
    fields: dict[str, Any] = {"suite": "ten", "target": "echo", "min_pass_rate": "0.8", "until": "0.02"}
    words = make_arguments(site, **fields, stop_when_shown="yes")
    assert {"--until=0.02", "--stop-when-shown"} <= set(words)
    assert "--stop-when-shown" not in make_arguments(site, **fields, stop_when_shown="no")
    page = server.get("/run?suite=ten&target=echo&min_pass_rate=0.8&stop_when_shown=yes").text
    assert '<option value="yes" selected>stop once the gate is shown or ruled out</option>' in page
    with pytest.raises(FormErrors, match="Set the gate to its 95 % interval"):
        make_arguments(site, **fields, stop_when_shown="yes", gate_mode="point")


def test_several_targets_can_be_asked_in_turns(server: Any, save: Save, site: Project) -> None:
    save()
    two = {"suite": "ten", "target": ["echo", "local"]}
    assert "--interleave" in make_arguments(site, **two, interleave="yes")
    assert "--no-interleave" not in make_arguments(site, **two, interleave="no")
    page = server.get("/run?suite=ten&target=echo&target=local&interleave=yes").text
    assert '<option value="yes" selected>in turns, case by case</option>' in page
    site.config = Config(flags={"interleave": True})
    assert "--no-interleave" in make_arguments(site, **two, interleave="no")
    assert "--interleave" not in make_arguments(site, **two, interleave="yes")
    with site.open_store() as store:
        context = load_run_context(site)
        form = validate_form(store, make_fields(suite="ten", target="echo"), context)
        assert form.to_request(context).settings.interleave


def test_errors_stand_beside_their_fields_and_the_form_keeps_its_values(
    server: Any, save: Save, site: Project
) -> None:
    save()
    wrong = {"repeats": "0", "typed": "command:touch made", "seed": "<b>", "version": "v9"}
    fields = {"suite": "ten", "target": "echo", "max_tokens": "77", **wrong}
    answer = server.post("/run", fields)
    assert answer.status == 422
    assert read_answer(answer.text) == "4 fields have to change before this can run"
    for field in wrong:
        assert f'id="wrong-{field}"' in answer.text
    assert answer.text.count('aria-invalid="true"') == 4
    assert 'value="77"' in answer.text
    assert 'value="echo" checked' in answer.text
    assert 'value="&lt;b&gt;"' in answer.text
    assert list_starts(site) == []


NEVER = [
    *("command:touch made", "cli:touch made", "function:os:getcwd", "replay:/etc/passwd", "scripted:a.jsonl"),
    *("local:weights.gguf", "mock:x", "openai:m@http://127.0.0.1:1/v1", "OPENAI:m@HTTPS://a.b", "openai:"),
    *(
        "--store=x",
        "-t",
        "../targets",
        "a b",
        "openai:../x",
        "${{ HOME }}",
        "openai:${{ HOME }}",
        "<b>",
        "echo:x",
    ),
    *("nowhere:model", "x" * 300),
]


@pytest.mark.parametrize("field", ["target", "typed", "judge"])
def test_only_the_projects_targets_can_be_run(site: Project, save: Save, field: str) -> None:
    save()
    for word in NEVER:
        with pytest.raises(FormErrors) as error:
            make_arguments(site, suite="ten", **{"target": "echo", field: word})
        assert list(error.value.errors) == [field], word


def test_a_model_of_a_known_service_may_be_typed(site: Project, save: Save) -> None:
    save()
    for word in ("openai:gpt-5.2", "gpt-5.2", "opus", "ollama:llama3.2:3b", "google:gemini-x"):
        assert make_arguments(site, suite="ten", typed=word) == ["--saved=ten@v1", f"--target={word}"]


def test_a_name_of_the_projects_file_is_that_whatever_it_looks_like(
    site: Project, save: Save, project: Path
) -> None:
    save()
    (project / "targets.yaml").write_text(TARGETS, encoding="utf-8")
    assert make_arguments(site, suite="ten", target=["-x", "shell"])[1:] == ["--target=-x", "--target=shell"]


def test_targets_that_a_suite_names_are_checked_as_well(site: Project, project: Path) -> None:
    case = {"id": "a", "input": "x", "criteria": "x", "assertions": [{"type": "contains", "value": "x"}]}
    for name, word in (("mine", "echo"), ("theirs", "command:touch made")):
        text = json.dumps({"name": name, "execution": {"targets": [word]}, "tests": [case]})
        (project / f"{name}.eval.yaml").write_text(text, encoding="utf-8")
        with site.open_store() as store:
            list(Suites(store, {}).save(f"{name}.eval.yaml"))
    assert make_arguments(site, suite="mine") == ["--saved=mine@v1"]
    with pytest.raises(FormErrors, match="'command:touch made' cannot be called from here"):
        make_arguments(site, suite="theirs")


def test_a_built_in_suite_is_that_whatever_files_and_suites_there_are(site: Project, save: Save) -> None:
    builtin = ["builtin:cheap", "--target=echo"]
    assert make_arguments(site, suite="cheap", target="echo") == builtin
    save("cheap")
    assert make_arguments(site, suite="cheap", target="echo") == ["--saved=cheap@v1", "--target=echo"]
    assert make_arguments(site, suite="builtin:cheap", target="echo") == builtin


def test_a_built_in_suite_is_chosen_in_the_form_by_either_name(server: Any) -> None:
    for name in ("cheap", "builtin:cheap"):
        page = server.get(f"/run?suite={name}&target=echo").text
        assert '<option value="builtin:cheap" selected>' in page


def test_a_budget_needs_every_price(server: Any, save: Save, site: Project) -> None:
    save()
    answer = server.post("/run", {"suite": "ten", "typed": "openai:no-such-model", "budget_usd": "1"})
    assert answer.status == 422
    assert "the price of openai:no-such-model is unknown" in unescape(answer.text)
    assert list_starts(site) == []


def test_what_the_project_says_stands_in_the_fields(server: Any, save: Save, site: Project) -> None:
    save()
    site.config = Config(flags={"repeat": 3, "target": "mock:hi", "temperature": 0.5, "concurrency": "many"})
    page = server.get("/run?suite=ten").text
    assert 'id="repeats" name="repeats" value="3"' in page
    assert 'id="temperature" name="temperature" value="0.5"' in page
    assert (
        read_answer(page) == "8 dev + 2 holdout cases × 3 repeats × 1 target = 30 calls, no cost, about 1 s"
    )
    assert make_arguments(site, suite="ten") == ["--saved=ten@v1"]
    assert make_arguments(site, suite="ten", target="mock:hi", repeats="3", temperature="0") == [
        "--saved=ten@v1",
        "--target=mock:hi",
        "--temperature=0",
    ]


def test_a_run_can_hold_nothing_out(server: Any, save: Save, site: Project) -> None:
    save()
    page = server.get("/run?suite=ten&target=echo&holdout=0").text
    assert read_answer(page).startswith("10 cases × 1 target")
    assert make_arguments(site, suite="ten", target="echo", holdout="0")[-1] == "--holdout=0"
    with site.open_store() as store, pytest.raises(FormErrors) as error:
        validate_form(
            store, make_fields(suite="ten", target="echo", holdout="0", split="dev"), load_run_context(site)
        )
    assert list(error.value.errors) == ["split"]
    site.config = Config(flags={"holdout": 0})
    page = server.get("/run?suite=ten&target=echo").text
    assert 'id="holdout" name="holdout" value="0"' in page
    assert read_answer(page).startswith("10 cases × 1 target")
    assert read_answer(server.get("/run?suite=ten&target=echo&holdout=0.3").text).startswith(
        "7 dev + 3 holdout"
    )
    assert "Built-in suites have no holdout" in unescape(
        server.get("/run?suite=cheap&target=echo&holdout=0.3").text
    )


# --- starting ----------------------------------------------------------------------------------------------


def wait_for_end(site: Project, group: str) -> None:
    start = get_run_processes(site).find(group)
    assert start is not None
    wait_until(lambda: not get_run_processes(site).is_alive(start))


@pytest.mark.parametrize("name", ["-x", "ten.jsonl", "<b>'\" $(touch made) x"])
def test_what_runs_is_the_stored_suite_whatever_its_name(
    server: Any, save: Save, site: Project, name: str
) -> None:
    save(name)
    (site.folder / "ten.jsonl").write_text('{"id": "other", "input": "x", "expected": "x"}', encoding="utf-8")
    answer = server.post("/run", {"suite": name, "target": "echo", "tag": "", "split": "all", "repeats": "1"})
    assert answer.status == 303
    group = answer.headers["location"].removeprefix("/starts/")
    wait_for_end(site, group)
    with site.open_store() as store:
        (run,) = store.runs()
    assert (run.suite.name, run.group, run.planned, run.status) == (name, group, 10, "finished")
    assert not (site.folder / "made").exists()
    page = server.get(f"/starts/{group}")
    assert page.status == 200
    assert "<b>'" not in page.text


def test_a_form_that_is_sent_twice_starts_one(server: Any, save: Save, site: Project) -> None:
    save()
    group = re.search(r'name="group" value="([^"]+)"', server.get("/run").text)
    assert group
    fields = {"suite": "ten", "target": "echo", "group": group[1]}
    assert [server.post("/run", fields).headers["location"] for _ in range(2)] == [f"/starts/{group[1]}"] * 2
    other = server.post("/run", {**fields, "repeats": "2"}).headers["location"]
    assert other != f"/starts/{group[1]}"
    for name in list_starts(site):
        wait_for_end(site, name)
    with site.open_store() as store:
        assert sorted(run.settings.repeats or 1 for run in store.runs()) == [1, 2]


def test_an_error_at_the_start_of_a_run_is_shown_with_a_link_back(
    server: Any, save: Save, site: Project
) -> None:
    save()
    answer = server.post("/run", {"suite": "ten", "typed": "openai:gpt-5.2", "repeats": "4"})
    group = answer.headers["location"].removeprefix("/starts/")
    wait_for_end(site, group)
    page = server.get(f"/starts/{group}").text
    assert read_answer(page).startswith("Nothing ran")
    assert "OPENAI_API_KEY" in page
    assert '<a class="button main" href="/run?suite=ten&amp;typed=openai%3Agpt-5.2&amp;repeats=4">' in page


def test_why_answers_are_missing_is_said_while_it_runs_and_after(
    server: Any, save: Save, site: Project, project: Path
) -> None:
    (project / "targets.yaml").write_text(
        "targets: [{name: broken, provider: cli, command: 'echo no more tokens >&2; exit 3'}]", "utf-8"
    )
    save()
    group = (
        server.post("/run", {"suite": "ten", "target": "broken"}).headers["location"].removeprefix("/starts/")
    )
    wait_for_end(site, group)
    with site.open_store() as store:
        (run,) = store.runs()
    page = server.get(f"/starts/{group}").text
    assert read_answer(page) == "Finished: 0 of 10 passed, ten v1 on broken; 10 errors"
    assert f"<code>proctor run --retry-errors={run.id}</code>" in page
    match = re.search(r'<p class="note error"><a href="([^"]*)">10 errors</a>(.*?)</p>', page)
    assert match
    assert match[1] == f"/runs/{run.id}?verdict=error#trials"
    assert unescape(match[2]).startswith(". The first error: program: 'broken' ended with exit code 3: ")
    assert "no more tokens" in match[2]
    assert match[0] in GroupLiveView(site, group).render().html


def test_an_unknown_start_is_404(server: Any) -> None:
    for group in ("20260101-000000-abcdef", "a%2Fb", "..", "x" * 100):
        assert server.get(f"/starts/{group}").status in (404, 303)
    assert server.post("/runs/nothing/stop").status == 404
    assert server.post("/runs/nothing/resume").status == 404
    assert server.post("/starts/nothing/stop").status == 404


def test_a_file_of_the_project_is_never_taken_for_the_program(
    server: Any, save: Save, site: Project, project: Path
) -> None:
    save()
    (project / "proctor.py").write_text("open('taken', 'w')", encoding="utf-8")
    (project / "click.py").write_text("open('taken', 'w')", encoding="utf-8")
    answer = server.post("/run", {"suite": "ten", "target": "echo"})
    wait_for_end(site, answer.headers["location"].removeprefix("/starts/"))
    assert not (project / "taken").exists()
    with site.open_store() as store:
        assert [run.status for run in store.runs()] == ["finished"]


# --- further parameters ------------------------------------------------------------------------------------


def test_further_parameters_are_flags_of_the_command(site: Project, save: Save) -> None:
    save()
    words = make_arguments(site, suite="ten", target="openai:gpt-5.2", param="top_p=0.9\r\nstop=END")
    assert words[-2:] == ["--param=top_p=0.9", '--param=stop=["END"]']


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("top_p=7", "must be a number above 0"),
        ("headers.X-A=${{ HOME }}", "cannot be set on this page"),
        ('extra_body={"a": 1}', "cannot be set on this page"),
        ("nonsense", "must have the form NAME=VALUE"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_an_error_of_its_field(
    site: Project, word: str, message: str
) -> None:
    with pytest.raises(FormErrors) as error:
        make_arguments(site, suite="ten", target="echo", param=word)
    assert message in error.value.errors["param"]

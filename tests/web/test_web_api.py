"""The API for programs over HTTP: the whole workflow, and what is refused.

Each answer is checked against the OpenAPI document, which must describe all that an answer contains.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator

from proctor.cli.main import _invoke
from proctor.web.api.responses import encode_json
from proctor.web.project import Project
from support.waiting import wait_until

pytestmark = pytest.mark.slow

Ask = Callable[..., Any]
SECRET = "kestrel"


def cases(count: int, **changed: str) -> str:
    """Cases of which `echo` passes every second one; those in `changed` have another question."""
    rows = (
        {
            "id": f"t{n}",
            "input": changed.get(f"t{n}", f"{SECRET} {n}"),
            "expected": f"{SECRET} {n}" if n % 2 else "no",
            "scorer": "exact",
            "tags": "odd" if n % 2 else "even",
        }
        for n in range(count)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def forbid_other_fields(document: dict[str, Any]) -> dict[str, Any]:
    """The document, with every schema closed to fields that it does not describe."""
    for schema in document["components"]["schemas"].values():
        schema.setdefault("additionalProperties", False)
    return document


@pytest.fixture
def document(server: Any) -> dict[str, Any]:
    document: dict[str, Any] = forbid_other_fields(json.loads(server.get("/api/v1/openapi.json").data))
    return document


@pytest.fixture
def ask(server: Any, document: dict[str, Any]) -> Ask:
    """Calls the API; each answer must have the status and the schema that the document says."""

    def call(method: str, path: str, body: Any = None, *, status: int = 200, **query: Any) -> Any:
        address = f"/api/v1{path}" + (f"?{urlencode(query, doseq=True)}" if query else "")
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = "application/zip" if isinstance(body, bytes) else "application/json"
        answer = server.send(method, address, data, {} if data is None else {"Content-Type": kind})
        assert answer.status == status, answer.text
        check(document, method, path, answer)
        if not answer.headers["content-type"].endswith("json"):
            return answer.data
        return json.loads(answer.data, parse_constant=pytest.fail)

    return call


def check(document: dict[str, Any], method: str, path: str, answer: Any) -> None:
    (operation,) = (
        methods[method.lower()]
        for template, methods in document["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) and method.lower() in methods
    )
    response = operation["responses"][str(answer.status)]
    response = document["components"]["responses"].get(response.get("$ref", "").rpartition("/")[2], response)
    content = response["content"][answer.headers["content-type"].partition(";")[0]]
    for name, header in response.get("headers", {}).items():
        assert name.lower() in answer.headers or not header.get("required")
    if answer.headers["content-type"].endswith("json"):
        schema = {**content["schema"], "components": document["components"]}
        Draft202012Validator(schema).validate(json.loads(answer.data))


def run_suite(ask: Ask, **fields: Any) -> str:
    """Starts a run, waits for its end and returns its id."""
    started = ask("POST", "/runs", {"targets": ["echo"], **fields}, status=202)

    def list_finished_runs() -> list[str]:
        start = ask("GET", f"/starts/{started['group']}")
        assert start["said"] == []
        return [] if start["alive"] else start["runs"]

    (run,) = wait_until(list_finished_runs)
    return str(run)


# --- the workflow ------------------------------------------------------------------------------------------


def test_the_whole_workflow_from_a_text_to_a_verified_certificate(ask: Ask) -> None:
    text, better = cases(120), cases(120, t0="no", t2="no")
    wrong = '{"id": "a", "input": "x"}\n{"id": "a", "input": "x", "expected": "y"}\n'
    (report,) = ask("POST", "/suites/validate", {"text": wrong, "filename": "mine.jsonl"})["files"]
    assert ([error["line"] for error in report["errors"]], report["path"]) == ([1, 2], "mine.jsonl")
    assert ask("POST", "/suites/validate", {"text": text, "name": "birds"})["exit_code"] == 0
    assert ask("GET", "/suites") == {"suites": []}

    saved = ask("POST", "/suites", {"text": text, "name": "birds"}, status=201)
    assert (saved["suite"], saved["version"], saved["state"], saved["cases"]) == ("birds", "v1", "new", 120)
    assert ask("POST", "/suites", {"text": text, "name": "birds"})["state"] == "same"
    assert ask("POST", "/suites", {"text": better, "name": "birds"}, status=201)["version"] == "v2"
    diff = ask("GET", "/suite/diff", name="birds", old="v1")
    assert [case["case"] for case in diff["changed"]] == ["t0", "t2"]
    assert (diff["old"]["version"], diff["new"]["version"], diff["same"]) == ("v1", "v2", 118)

    fields = {"suite": "birds", "targets": ["echo"], "tags": ["odd", "even"], "all_tags": ["even,none"]}
    estimate = ask("POST", "/estimates", fields)
    assert estimate["calls"] == 60
    assert estimate["command"].endswith("--target=echo --tag=odd --tag=even --all-tag=even,none")
    estimate = ask("POST", "/estimates", {"suite": "birds", "targets": ["echo"]})
    assert (estimate["dev"], estimate["holdout"], estimate["calls"]) == (96, 24, 120)
    assert estimate["command"] == "proctor run --saved=birds@v2 --target=echo"
    old, new = run_suite(ask, suite="birds", version="v1"), run_suite(ask, suite="birds")
    progress = ask("GET", f"/runs/{new}/progress")
    assert (progress["done"], progress["planned"], progress["status"]) == (120, 120, "finished")
    assert (progress["alive"], progress["seconds_left"], progress["cost_usd"]) == (False, None, 0.0)
    assert [run["run"] for run in ask("GET", "/runs")["runs"]] == [new, old]
    run = ask("GET", f"/runs/{new}")
    assert (run["suite"], run["suite_version"], run["passed"], run["looks"]) == ("birds", "v2", 62, 1)

    failed = ask("GET", f"/runs/{new}/trials", verdict=["fail", "error"], tag="even", split="dev", limit=5)
    assert {(trial["verdict"], *trial["tags"], trial["split"]) for trial in failed["trials"]} == {
        ("fail", "even", "dev")
    }
    assert failed["total"] == run["splits"]["dev"]["failed"]
    trial = failed["trials"][0]
    assert ask("GET", f"/runs/{new}/trials/{trial['position']}/0") == trial
    assert trial["output"]["text"] == f"{SECRET} {trial['position']}"

    comparison = ask("GET", "/comparisons", run=[old, new], by_case_digest="true")
    assert comparison["comparisons"][0]["unmatched"]["only_candidate"] == 2
    by_id = ask("GET", "/comparisons", run=[old, new])
    assert by_id["comparisons"][0]["input_changed_cases"] == ["t0", "t2"]

    document = ask("POST", "/certificates", {"run": new}, status=201)
    assert (document["certificate"]["part"], document["certificate"]["total"]) == ("holdout", 24)
    assert [certificate["run"] for certificate in ask("GET", "/certificates")["certificates"]] == [new]
    assert ask("GET", f"/certificates/{new}") == document
    assert ask("GET", f"/certificates/{new}/files/badge").startswith(b"<svg")
    bundle = ask("GET", f"/certificates/{new}/files/bundle")
    verification = ask("POST", "/bundles/verify", bundle)
    assert (verification["holds"], verification["wrong"], verification["bundle"]["run"]) == (True, None, new)
    assert {check["held"] for check in verification["checks"]} == {True}


@pytest.fixture
def run_id(site: Project, project: Path) -> str:
    """The id of a run of twelve cases on `echo`, of which it passes six; three are held out."""
    (project / "birds.jsonl").write_text(cases(12), encoding="utf-8")
    site.location.folder.mkdir()
    _invoke(["run", "birds.jsonl", "--target", "echo", "--quiet", "--store", site.location.address])
    with site.open_store() as store:
        return next(store.runs()).id


def test_a_run_is_described_as_on_the_command_line(
    ask: Ask, run_id: str, site: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--store", site.location.address, "--json"]

    def print_json(*words: str) -> Any:
        capsys.readouterr()
        assert _invoke([*words, *place]) == 0
        return json.loads(capsys.readouterr().out)

    run = ask("GET", f"/runs/{run_id}")
    assert print_json("runs", "show", run_id)["runs"] == [{**run, "looks": 2}]
    assert print_json("runs", "list")["runs"] == ask("GET", "/runs")["runs"]
    (trial,) = print_json("runs", "show", run_id, "--case", "t3")["trials"]
    assert ask("GET", f"/runs/{run_id}/trials/3/0") == {"position": 3, **trial}
    assert print_json("suites", "list") == ask("GET", "/suites")
    suite = print_json("suites", "show", "birds", "--cases")
    cases = ask("GET", "/suite/cases", name="birds")["cases"]
    assert suite.pop("case_list") == [{k: v for k, v in case.items() if k != "position"} for case in cases]
    assert suite == ask("GET", "/suite", name="birds")
    assert print_json("compare", run_id, run_id)["comparisons"][0]["pairs"] == 12


def test_what_is_held_out_is_sealed_until_it_is_revealed_and_that_is_recorded(ask: Ask, run_id: str) -> None:
    def texts() -> str:
        pages = [ask("GET", f"/runs/{run_id}/trials", split="holdout", text=word) for word in ("", SECRET)]
        return json.dumps(pages)

    before = ask("GET", f"/runs/{run_id}/trials", split="holdout")
    assert before["total"] == 3
    assert {(trial["sealed"], trial["output"]) for trial in before["trials"]} == {(True, None)}
    assert SECRET not in texts()
    assert ask("GET", f"/runs/{run_id}")["looks"] == 1
    assert ask("POST", f"/runs/{run_id}/reveal", {}) == {"run": run_id, "looks": 2}
    assert ask("POST", f"/runs/{run_id}/reveal", {})["looks"] == 2
    assert texts().count(SECRET) > 3
    kinds = [look["kind"] for look in ask("GET", "/suite", name="birds")["looks"]]
    assert kinds == ["rate", "reveal"]


def test_a_suite_and_a_run_can_hold_nothing_out(ask: Ask, run_id: str) -> None:
    fields = {"suite": "birds", "targets": ["echo"], "holdout": 0}
    assert ask("POST", "/estimates", fields)["holdout"] is None
    assert ask("GET", f"/runs/{run_suite(ask, suite='birds', holdout=0)}")["splits"] == {}
    body = {"text": cases(10), "name": "whole", "holdout": 0}
    assert ask("POST", "/suites", body, status=201)["version"] == "v1"
    assert ask("GET", "/suite", name="whole")["splits"] is None
    ask("POST", "/suites", {**body, "holdout": 1}, status=422)
    ask("POST", "/estimates", {**fields, "holdout": 1}, status=422)


def test_a_list_of_runs_tells_no_rate_of_a_holdout_alone(ask: Ask, run_id: str, site: Project) -> None:
    words = ["run", "birds.jsonl", "--target", "echo", "--quiet", "--split", "holdout"]
    _invoke([*words, "--store", site.location.address])
    alone, whole = ask("GET", "/runs")["runs"]
    assert (alone["sealed"], alone["passed"], alone["pass_rate"], alone["total"]) == (True, None, None, 3)
    assert (whole["sealed"], whole["passed"]) == (False, 6)
    progress = ask("GET", f"/runs/{alone['run']}/progress")
    assert (progress["sealed"], progress["passed"], progress["failed"], progress["done"]) == (
        True,
        None,
        None,
        3,
    )
    assert ask("GET", "/suite", name="birds")["looks"][1:] == []


def test_lists_come_in_pages(ask: Ask, run_id: str, site: Project) -> None:
    _invoke(["run", "birds.jsonl", "--target", "mock:x", "--quiet", "--store", site.location.address])
    first = ask("GET", "/runs", limit=1)
    second = ask("GET", "/runs", limit=1, after=first["next"])
    assert [run["run"] for run in second["runs"]] == [run_id]
    assert second["next"] is None
    assert [run["target"] for run in ask("GET", "/runs", target="mock:x")["runs"]] == ["mock:x"]
    positions = list[int]()
    after: Any = ""
    while after is not None:
        page_of_trials = ask("GET", f"/runs/{run_id}/trials", limit=5, after=after)
        positions += [trial["position"] for trial in page_of_trials["trials"]]
        after = page_of_trials["next"]
    assert positions == list(range(12))
    ids = list[str]()
    place: dict[str, Any] = {}
    while place != {"after": None}:
        page = ask("GET", "/suite/cases", name="birds", limit=5, **place)
        ids += [case["id"] for case in page["cases"]]
        place = {"after": page["next"]}
    assert ids == [f"t{n}" for n in range(12)]


def test_a_suite_is_exported_in_any_dialect_and_comes_back_the_same(ask: Ask, run_id: str) -> None:
    (file,) = ask("GET", "/suite/export", name="birds")["files"]
    assert ask("POST", "/suites", {"text": file["text"], "name": "birds"})["state"] == "same"
    (file,) = ask("GET", "/suite/export", name="birds", to="agentv")["files"]
    assert file["path"] == "birds.eval.yaml"
    error = ask("GET", "/suite/export", name="birds", to="agent", status=400)
    assert "Did you mean 'agentv'?" in error["detail"]


def test_targets_are_told_by_name_and_kind_alone(ask: Ask, project: Path) -> None:
    (project / "targets.yaml").write_text(
        "targets:\n"
        "  - name: mine\n    provider: openai\n    model: gpt-x\n    base_url: http://127.0.0.1:9/v1\n"
        "    api_key: ${{ MY_KEY }}\n"
        "  - name: tool\n    provider: cli\n    command: cat /etc/hostname\n",
        encoding="utf-8",
    )
    answer = ask("GET", "/targets")
    kinds = {target["name"]: target["kind"] for target in answer["targets"]}
    assert kinds == {"mine": "openai", "tool": "cli", "echo": "echo", "local": "local"}
    assert not any(word in json.dumps(answer) for word in ("gpt-x", "MY_KEY", "hostname", "127.0.0.1"))


def test_a_wrong_entry_of_the_targets_file_hides_no_other_target(ask: Ask, project: Path) -> None:
    (project / "targets.yaml").write_text(
        "targets: [{name: a, provider: nowhere}, {name: b, provider: mock}]", encoding="utf-8"
    )
    assert {"name": "b", "kind": "mock"} in ask("GET", "/targets")["targets"]
    (project / "targets.yaml").write_text("targets: {}", encoding="utf-8")
    error = ask("GET", "/targets", status=400)
    assert "targets.yaml:1: error: The file needs a list `targets`" in error["detail"]


# --- starting and stopping ---------------------------------------------------------------------------------


def test_the_same_start_is_made_once_and_another_one_of_its_name_refused(ask: Ask, run_id: str) -> None:
    fields = {"suite": "birds", "targets": ["echo"], "group": "nightly"}
    first = ask("POST", "/runs", fields, status=202)
    again = ask("POST", "/runs", fields, status=202)
    assert first["started_at"] == again["started_at"]
    wait_until(lambda: not ask("GET", "/starts/nightly")["alive"])
    assert len(ask("GET", "/starts/nightly")["runs"]) == 1
    other = ask("POST", "/runs", {**fields, "seed": 7}, status=409)
    assert "Choose another group" in other["detail"]


def test_a_run_is_stopped_and_taken_up_again(ask: Ask, project: Path) -> None:
    (project / "slow.py").write_text(
        "import os, sys, time\n"
        "for _ in range(0 if sys.argv[1].endswith((' 0', ' 1')) else 2000):\n"
        "    time.sleep(0 if os.path.exists('go') else 0.01)\n",
        encoding="utf-8",
    )
    (project / "targets.yaml").write_text(
        f"targets:\n  - name: slow\n    provider: cli\n    command: {sys.executable} slow.py {{PROMPT}}\n",
        encoding="utf-8",
    )
    ask("POST", "/suites", {"text": cases(6), "name": "birds"}, status=201)
    fields = {"suite": "birds", "targets": ["slow"], "concurrency": 2}
    start = "/starts/" + ask("POST", "/runs", fields, status=202)["group"]
    run = wait_until(lambda: ask("GET", start)["runs"])[0]
    wait_until(lambda: ask("GET", f"/runs/{run}/progress")["done"] == 2)
    assert ask("GET", f"/runs/{run}/progress")["alive"]
    assert "already in progress" in ask("POST", f"/runs/{run}/resume", {}, status=409)["detail"]
    assert ask("POST", f"/runs/{run}/stop", {}, status=202)["stopping"]
    wait_until(lambda: "Stopping" in str(ask("GET", start)["said"]))
    (project / "go").touch()
    wait_until(lambda: not ask("GET", start)["alive"])
    stopped = ask("GET", f"/runs/{run}/progress")
    assert (stopped["status"], stopped["alive"], stopped["done"]) == ("interrupted", False, 4)
    again = ask("POST", f"/runs/{run}/resume", {}, status=202)
    assert wait_until(lambda: ask("GET", f"/starts/{again['group']}"))["runs"] == [run]
    wait_until(lambda: not ask("GET", f"/starts/{again['group']}")["alive"])
    assert ask("GET", f"/runs/{run}/progress")["status"] == "finished"
    for path in (f"/runs/{run}/stop", f"/runs/{run}/resume", f"{start}/stop"):
        assert ask("POST", path, {}, status=409)["status"] == 409


def test_a_start_names_the_field_of_related_cases(ask: Ask, run_id: str) -> None:
    fields = {"suite": "birds", "targets": ["echo"], "cluster": "metadata.document"}
    command = ask("POST", "/estimates", fields)["command"]
    assert command == "proctor run --saved=birds@v1 --target=echo --cluster=metadata.document"
    error = ask("POST", "/runs", {**fields, "cluster": "document"}, status=422)
    assert "cannot be clustered by 'document'. Use `metadata.FIELD`" in error["errors"][0]["message"]


INVALID_REQUESTS: list[tuple[dict[str, Any], str]] = [
    ({"suite": "nobody", "targets": ["echo"]}, "suite"),
    ({"suite": "birds", "version": "v9", "targets": ["echo"]}, "version"),
    ({"suite": "birds", "targets": ["nobody"]}, "targets"),
    ({"suite": "birds", "targets": ["command:rm -rf x"]}, "targets"),
    ({"suite": "birds", "targets": ["function:os:getcwd"]}, "targets"),
    ({"suite": "birds", "targets": ["openai:x@http://127.0.0.1:1/v1"]}, "targets"),
    ({"suite": "birds", "targets": ["echo"], "judges": ["cli:cat"]}, "judges"),
    ({"suite": "birds", "targets": ["echo"], "tags": ["none such"]}, "split"),
    ({"suite": "birds", "targets": ["echo"], "tags": ["odd"], "all_tags": ["even,none such"]}, "split"),
    ({"suite": "birds", "targets": ["echo"], "all_tags": ["a\x1bb"]}, "all_tags"),
    ({"suite": "birds"}, "targets"),
    ({"suite": "birds", "targets": ["echo"], "repeats": 0}, "repeats"),
    ({"suite": "birds", "targets": ["echo"], "repeats": "2"}, "repeats"),
    ({"suite": "birds", "targets": ["echo"], "min_pass_rate": 1.5}, "min_pass_rate"),
    ({"suite": "birds", "targets": ["echo"], "min_pass_rate": 0.5, "gate_mode": "x"}, "gate_mode"),
    ({"suite": "birds", "targets": ["echo"], "gate_mode": "interval"}, "gate_mode"),
    ({"suite": "birds", "targets": ["echo"], "until": 2}, "until"),
    ({"suite": "birds", "targets": ["echo"], "stop_when_shown": True}, "stop_when_shown"),
    ({"suite": "birds", "targets": ["echo"], "cluster": "document"}, "cluster"),
]


def test_a_run_that_cannot_be_is_refused_with_the_field_and_nothing_is_started(
    ask: Ask, run_id: str, site: Project
) -> None:
    for fields, field in INVALID_REQUESTS:
        for path in ("/runs", "/estimates"):
            error = ask("POST", path, fields, status=422)
            assert [problem["field"] for problem in error["errors"]] == [field], fields
            assert error["errors"][0]["message"]
    assert not (site.location.folder / "starts").exists()


# --- what is refused ---------------------------------------------------------------------------------------


def check_problem(answer: Any, status: int) -> dict[str, Any]:
    """Checks that an answer is a problem with that status, and returns it."""
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    problem: dict[str, Any] = json.loads(answer.data)
    assert problem["status"] == status
    assert problem["detail"].endswith((".", "?"))
    assert problem["type"].startswith("/api/v1/problems/")
    return problem


def test_an_address_that_is_not_there_is_a_problem_whose_type_is_explained(server: Any) -> None:
    for path in ("/api/v1/nothing", "/api/v1/", "/api/v1/suites/", "/api/v2/suites", "/api/v1/problems/x"):
        problem = check_problem(server.get(path), 404)
        about = json.loads(server.get(problem["type"]).data)
        assert (about["title"], about["status"]) == (problem["title"], 404)


METHODS: list[tuple[str, str, str]] = [
    ("DELETE", "/suites", "GET, POST"),
    ("PUT", "/runs/x", "GET"),
    ("GET", "/runs/x/stop", "POST"),
    ("POST", "/openapi.json", "GET"),
]


def test_a_method_that_is_not_taken_is_a_problem_that_tells_which_are(server: Any) -> None:
    for method, path, allowed in METHODS:
        answer = server.send(method, f"/api/v1{path}", b"{}", {"Content-Type": "application/json"})
        assert check_problem(answer, 405)["detail"]
        assert answer.headers["allow"] == allowed


INVALID_CALLS: list[tuple[str, str, bytes | None, int, str]] = [
    ("POST", "/suites", b"{", 400, "not valid JSON"),
    ("POST", "/suites", b"\xff\xfe{", 400, "cannot be read"),
    ("POST", "/suites", b"[" * 100_000, 400, "cannot be read"),
    ("POST", "/suites", b"[]", 422, "The body"),
    ("POST", "/suites", b'{"text": "x", "nmae": "y"}', 422, "Did you mean 'name'?"),
    ("POST", "/suites", b'{"text": "\\ud800"}', 422, "text"),
    ("POST", "/suites", b'{"text": 5}', 422, "text"),
    ("POST", "/suites", b'{"name": "x"}', 422, "`text` is missing"),
    ("POST", "/suites", b'{"text": " "}', 400, "There is no input yet"),
    ("POST", "/suites", b'{"text": "id,input\\na,b"}', 422, "expected"),
    ("POST", "/runs", b'{"suite": "x", "budget_usd": NaN}', 422, "budget_usd"),
    ("POST", "/runs/x/stop", b'{"now": true}', 422, "no field `now`"),
    ("GET", "/runs?suit=x", None, 422, "Did you mean 'suite'?"),
    ("GET", "/runs?limit=x", None, 422, "limit"),
    ("GET", "/runs?after=x", None, 404, "no run 'x'"),
    ("GET", "/runs/last", None, 404, "last"),
    ("GET", "/suite", None, 422, "`name` is missing"),
    ("GET", "/suite?name=x", None, 404, "no suite 'x'"),
    ("GET", "/starts/x", None, 404, "There is no start 'x' on this server"),
    ("GET", "/comparisons?run=x", None, 422, "at least 2"),
    ("GET", "/comparisons?run=x&run=x", None, 400, "named twice"),
    ("GET", "/grid", None, 422, "`run` is missing"),
    ("GET", "/grid?run=x&run=x", None, 400, "named twice"),
    ("GET", "/grid?run=x", None, 404, "no run 'x'"),
    ("GET", "/grid?run=x&sort=name", None, 422, "sort"),
    ("GET", "/certificates/x", None, 404, "no certificate"),
    ("GET", "/certificates/..%2f..%2fx", None, 404, "does not exist"),
    ("POST", "/certificates", b'{"run": "x"}', 404, "no run 'x'"),
]


def test_invalid_calls_are_problems_that_say_what_to_do(server: Any) -> None:
    for method, path, body, status, sentence in INVALID_CALLS:
        headers = {} if body is None else {"Content-Type": "application/json"}
        answer = server.send(method, f"/api/v1{path}", body, headers)
        assert sentence in json.dumps(check_problem(answer, status)), (path, body, answer.text)


def test_errors_of_a_suite_are_those_of_the_command_line(
    ask: Ask, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{"id": "a", "input": "x"}\n{"id": "b", "input": "x", "expected": "y", "scorer": "nope"}\n'
    (project / "bad.jsonl").write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert _invoke(["run", "bad.jsonl", "--target", "echo", "--json"]) == 4
    errors = json.loads(capsys.readouterr().out)["errors"]
    error = ask("POST", "/suites", {"text": text, "filename": "bad.jsonl"}, status=422)
    assert error["type"] == "/api/v1/problems/wrong-suite"
    assert error["errors"] == errors
    assert len(errors) == 2
    assert ask("GET", "/suites") == {"suites": []}


def test_a_suite_that_would_act_on_this_machine_is_refused_with_its_line(ask: Ask) -> None:
    text = (
        "tests:\n"
        "  - id: a\n    input: x\n    criteria: y\n"
        "    assertions: [{type: code-grader, command: [touch, gone]}]\n"
    )
    error = ask("POST", "/suites", {"text": text, "name": "s", "filename": "s.yaml"}, status=422)
    assert {(problem["code"], problem["case"], problem["line"]) for problem in error["errors"]} == {
        ("not-from-a-page", "a", 2)
    }


CROSS_SITE_HEADERS: list[tuple[dict[str, str], int]] = [
    ({"Content-Type": "application/json", "Origin": "http://elsewhere.example"}, 403),
    ({"Content-Type": "application/json", "Origin": "null"}, 403),
    ({"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403),
    ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ({"Content-Type": "text/plain"}, 415),
    ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ({}, 415),
    ({"Content-Type": "application/json", "Host": "elsewhere.example"}, 421),
    ({"Content-Type": "application/json", "Content-Length": str(2**40)}, 413),
]


def test_what_another_site_could_send_changes_nothing(server: Any) -> None:
    body = json.dumps({"text": cases(3), "name": "birds"}).encode()
    for headers, status in CROSS_SITE_HEADERS:
        answer = server.send("POST", "/api/v1/suites", body, headers)
        check_problem(answer, status)
        assert answer.headers.get("accept") == ("application/json" if status == 415 else None)
    assert json.loads(server.get("/api/v1/suites").data) == {"suites": []}


def test_a_request_whose_address_says_everything_needs_no_body(server: Any, run_id: str) -> None:
    for action in ("stop", "resume"):
        path = f"/api/v1/runs/{run_id}/{action}"
        check_problem(server.send("POST", path, b"", {}), 409)
        check_problem(
            server.send("POST", path, b"", {"Content-Type": "application/x-www-form-urlencoded"}), 415
        )
        check_problem(server.send("POST", path, b"{}", {}), 415)


def test_without_the_token_every_answer_is_401(site: Project, server: Any) -> None:
    site.token = "a token of tests"
    for authorization in ("", "Bearer", "Bearer a token", "Basic a token of tests"):
        answer = server.get(
            "/api/v1/openapi.json", **({"Authorization": authorization} if authorization else {})
        )
        assert check_problem(answer, 401)["title"]
        assert answer.headers["www-authenticate"] == "Bearer"
    assert server.get("/api/v1/suites", Authorization="Bearer a token of tests").status == 200


def test_what_json_cannot_say_is_null_or_escaped() -> None:
    nan, inf = float("nan"), float("inf")
    assert (
        encode_json({"a": nan, "b": [inf, -inf, 1.5], "c": "ü"})
        == '{"a": null, "b": [null, null, 1.5], "c": "ü"}'.encode()
    )
    assert json.loads(encode_json({"a": "\ud800", "b": nan})) == {"a": "\ud800", "b": None}


# --- the document and its page -----------------------------------------------------------------------------


def test_every_operation_is_described_with_an_id_of_its_own(document: dict[str, Any]) -> None:
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) > 20
    for operation in operations:
        assert operation["description"].endswith(".")
        assert set(operation["responses"]) > {"421", "422", "503"}
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (operation["operationId"], parameter["name"])
    for name, schema in document["components"]["schemas"].items():
        assert schema.get("description"), name


def test_the_document_names_things_as_clients_do_and_every_reference_leads_to_one(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]
    assert {"Run", "Trial", "Case", "RunRequest", "ProblemDetails"} <= set(schemas)
    assert [name for name in schemas if name.endswith(("Record", "Resource"))] == []
    for name, optional in {
        "Trial": set(),
        "Output": set(),
        "Run": {
            *(
                "stopped",
                "shard",
                "merged_from",
                "notes",
                "engine",
                "gate",
                "early_stop",
                "interval_kind",
                "bundle",
            ),
            *("first_token_ms", "tokens_per_second", "multiple_choice", "params"),
        },
    }.items():
        assert schemas[name]["properties"].keys() - schemas[name]["required"] == optional
    created = document["paths"]["/runs"]["post"]["responses"]["202"]["headers"]["Location"]
    assert created["required"] is True
    references = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert set(references) <= set(schemas)


def test_the_page_lists_every_operation_with_a_command(server: Any, document: dict[str, Any]) -> None:
    page = server.get("/api").text
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} /api/v1{path}</code>" in page
            assert f'id="{operation["operationId"]}"' in page
    assert page.count("<code>curl ") == sum(map(len, document["paths"].values()))
    assert f"curl {server.url}/api/v1/suites" in page

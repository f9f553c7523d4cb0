"""`proctor run --param` and parameters of cases: requests, errors, reuse and resuming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread


class RecordingHandler(JsonHandler):
    """A model that always answers `4`; records each request body, with the header of the team."""

    bodies: ClassVar[list[Any]] = []

    def handle_json(self, body: Any) -> None:
        self.bodies.append(body | {"team": self.headers.get("X-Team"), "key": self.headers.get("X-Key")})
        self.send_json({"choices": [{"message": {"content": "4"}}]})


@pytest.fixture
def target() -> Iterator[str]:
    RecordingHandler.bodies.clear()
    with serve_in_thread(RecordingHandler) as server:
        yield f"openai:m@http://127.0.0.1:{server.server_port}/v1"


def write_suite(folder: Path, params: dict[str, Any]) -> None:
    """Writes two cases, of which the first sets parameters."""
    check = {"grader": "contains", "params": {"value": "4"}}
    cases = [
        {"id": name, "input": [{"role": "user", "content": text}], "assertions": [check], **form}
        for name, text, form in (("own", "2+2", {"form": {"params": params}}), ("plain", "1+3", {}))
    ]
    lines = map(json.dumps, [{"proctor": 1, "name": "sums"}, *cases])
    (folder / "sums.jsonl").write_text("\n".join(lines), encoding="utf-8")


def run(proctor: Proctor, *arguments: str) -> Any:
    result = proctor("run", "sums.jsonl", "--holdout=0", "--json", *arguments)
    assert result.code == 0, result.err
    return result.json["runs"][0]


def read_request_body(case: str) -> Any:
    return next(body for body in RecordingHandler.bodies if body["messages"][0]["content"] == case)


def test_parameters_of_the_command_and_of_a_case_are_sent(
    tmp_path: Path, proctor: Proctor, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "s3cr3t-value-1")
    write_suite(tmp_path, {"temperature": 0.7, "extra_body": {"min_p": 0.2}})
    words = (
        "extra_body.min_p=0.1",
        "extra_body.mode=fast",
        "headers.X-Team=a",
        "headers.X-Key=${{ MY_SECRET }}",
    )
    run_record = run(proctor, "-t", target, *(f"--param={word}" for word in words))
    own, plain = read_request_body("2+2"), read_request_body("1+3")
    assert (own["min_p"], own["mode"], own["temperature"]) == (0.2, "fast", 0.7)
    assert (plain["min_p"], plain["mode"], plain["temperature"]) == (0.1, "fast", 0.0)
    assert (plain["team"], plain["key"]) == ("a", "s3cr3t-value-1")
    assert "s3cr3t" not in proctor("runs", "show", run_record["run"], "--json").out


def test_an_answer_is_reused_only_for_the_same_parameters(
    tmp_path: Path, proctor: Proctor, target: str
) -> None:
    write_suite(tmp_path, {})
    run(proctor, "-t", target, "--param=extra_body.min_p=0.1")
    assert run(proctor, "-t", target, "--param=extra_body.min_p=0.1", "--reuse")["reused"] == 2
    assert run(proctor, "-t", target, "--param=extra_body.min_p=0.2", "--reuse")["reused"] == 0
    assert run(proctor, "-t", target, "--reuse")["reused"] == 0


def test_a_resumed_run_keeps_its_parameters(tmp_path: Path, proctor: Proctor, target: str) -> None:
    write_suite(tmp_path, {})
    first = run(proctor, "-t", target, "--param=extra_body.min_p=0.1", "--limit=1")
    result = proctor("run", "sums.jsonl", f"--resume={first['run']}", "--param=extra_body.min_p=0.3")
    assert result.code == 4
    assert '--param: the run has extra_body={"min_p": 0.1}' in result.err
    assert "--param" in result.err.partition("To start a new run:")[2]


def test_a_run_of_a_target_with_parameters_is_resumed_by_its_own_command(
    tmp_path: Path, proctor: Proctor, target: str
) -> None:
    write_suite(tmp_path, {})
    entry = f"{{name: a, target: '{target}', top_p: 0.5, extra_body: {{x: 1}}, headers: {{X-Team: red}}}}"
    (tmp_path / "targets.yaml").write_text(f"targets:\n- {entry}\n", encoding="utf-8")
    command = ("-t", "a", "--param=extra_body.min_p=0.1")
    first = run(proctor, *command)["run"]
    assert (
        read_request_body("1+3")["x"],
        read_request_body("1+3")["min_p"],
        read_request_body("1+3")["team"],
    ) == (1, 0.1, "red")
    assert run(proctor, *command, f"--resume={first}")["run"] == first
    result = proctor("run", "sums.jsonl", "-t", "a", f"--resume={first}", "--param=extra_body.min_p=0.3")
    assert result.code == 4


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"top_q": 1}, "There is no parameter 'top_q'. Did you mean 'top_p'"),
        ({"top_p": 3}, "`top_p` is 3; it must be a number above 0 and at most 1"),
        ({"stream": True}, "There is no parameter 'stream'"),
    ],
)
def test_a_case_with_a_parameter_that_cannot_be_used_is_an_error_of_its_line(
    tmp_path: Path, proctor: Proctor, params: dict[str, Any], message: str
) -> None:
    write_suite(tmp_path, params)
    result = proctor("validate", "sums.jsonl")
    assert result.code != 0
    assert message in result.out + result.err
    assert "sums.jsonl:2" in result.out + result.err


def test_what_a_model_does_not_take_is_an_error_before_the_first_request(
    tmp_path: Path, proctor: Proctor, target: str
) -> None:
    write_suite(tmp_path, {"thinking_budget": 100})
    result = proctor("run", "sums.jsonl", "-t", target)
    assert result.code != 0
    assert "Case 'own' sets `thinking_budget`" in result.err
    assert "extra_body.thinking_budget" in result.err
    assert RecordingHandler.bodies == []


def test_what_is_no_model_ignores_parameters_of_cases(tmp_path: Path, proctor: Proctor) -> None:
    write_suite(tmp_path, {"top_p": 0.5})
    result = proctor("run", "sums.jsonl", "-t", "mock:4", "--holdout=0")
    assert result.code == 0
    assert "set `top_p`, which has no effect on target 'mock:4'" in " ".join(result.err.split())


def test_a_parameter_for_a_target_without_parameters_is_refused(tmp_path: Path, proctor: Proctor) -> None:
    write_suite(tmp_path, {})
    result = proctor("run", "sums.jsonl", "-t", "echo", "--param=top_p=0.5")
    assert result.code == 4
    assert "targets of kind `echo` do not accept `top_p`" in " ".join(result.err.split())

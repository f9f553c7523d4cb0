"""`proctor targets check --all`: what each ability sends, its result, its cost, and the warnings of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread

SCHEMA = {"city": "Lima"}
TOOL_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Lima"}'},
}


class AbleModel(JsonHandler):
    """A model without PDFs and audio: a PDF gets an error, audio an empty answer."""

    bodies: ClassVar[list[Any]] = []

    def do_GET(self) -> None:  # noqa: N802  # the name that http.server calls
        self.send_json({"data": [], "has_more": False} if self.path.startswith("/v1/batches?") else None)

    def handle_json(self, body: Any) -> None:
        self.bodies.append(body)
        first = body["messages"][-1]["content"]
        parts = [] if isinstance(first, str) else [part["type"] for part in first]
        message: dict[str, Any] = {"content": "ready"}
        if body["messages"][0]["role"] == "system":
            message = {"content": "Heron."}
        elif "file" in parts:
            return self.send_json({"error": {"message": "no files here", "param": "messages"}}, 400)
        elif "input_audio" in parts:
            message = {"content": ""}
        elif "image_url" in parts:
            message = {"content": "It is red."}
        elif body.get("tools"):
            message = {"content": None, "tool_calls": [TOOL_CALL]}
        elif body.get("response_format"):
            message = {"content": json.dumps(SCHEMA)}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        self.send_json({"choices": [{"message": message}], "usage": usage})
        return None


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    prices = '[models."able"]\ninput = 1.0\noutput = 2.0\n'
    folder = tmp_path / ".proctor"
    folder.mkdir(exist_ok=True)
    (folder / "prices.toml").write_text(prices, encoding="utf-8")
    AbleModel.bodies.clear()
    with serve_in_thread(AbleModel) as server:
        yield f"openai:able@http://127.0.0.1:{server.server_port}/v1"


def check(proctor: Proctor, *words: str) -> dict[str, Any]:
    result = proctor("targets", "check", "--all", "--json", *words)
    assert result.code == 0, result.err
    return {item["ability"]: item for item in result.json["targets"][0]["checks"]}


def test_each_ability_is_one_request_with_its_result_and_cost(proctor: Proctor, target: str) -> None:
    checks = check(proctor, target)
    statuses = {name: item["status"] for name, item in checks.items()}
    works = dict.fromkeys(("text", "system", "schema", "tools", "image"), "works")
    assert works.items() <= statuses.items()
    assert statuses["pdf"] == "refused"
    assert "no files here" in checks["pdf"]["detail"]
    assert statuses["audio"] == "not shown"
    assert checks["audio"]["detail"] == "The answer is empty."
    assert checks["text"]["cost_usd"] == pytest.approx(0.00012)
    assert (checks["batch"]["status"], checks["batch"]["cost_usd"]) == ("works", 0)  # a list of batches
    requests = [name for name, status in statuses.items() if status != "not offered" and name != "batch"]
    assert len(AbleModel.bodies) == len(requests)


def test_the_output_ends_with_the_cost_and_the_place_of_the_record(proctor: Proctor, target: str) -> None:
    result = proctor("targets", "check", "--all", target)
    assert result.code == 0
    assert "  pdf         refused" in result.out
    assert " abilities work; cost $0.00" in result.out
    assert "Recorded in" in result.out


def test_a_run_warns_of_a_case_that_needs_what_the_target_lacked(
    tmp_path: Path, proctor: Proctor, target: str
) -> None:
    check(proctor, target)
    part = {"kind": "file", "path": "a.pdf", "data": "JVBERi0=", "media_type": "application/pdf"}
    message = {"role": "user", "content": "", "parts": ["What is this?", part]}
    check_of_answer = {"grader": "contains", "params": {"value": "x"}}
    case = {"id": "paper", "input": [message], "assertions": [check_of_answer]}
    rows = ({"proctor": 1, "name": "s"}, case)
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    err = " ".join(proctor("run", "s.jsonl", "-t", target, "--holdout=0").err.split())
    assert "refused to read a PDF when checked on" in err
    assert "case 'paper' needs it" in err
    other = " ".join(proctor("run", "s.jsonl", "-t", target.replace("able", "b"), "--holdout=0").err.split())
    assert "when checked on" not in other


@pytest.mark.parametrize("damaged", [b"{", b"[]", b"\xff\xfe", b'{"a": {"name": "t", "checks": [{}]}}'])
def test_a_damaged_record_stops_no_run_and_is_replaced_by_the_next_check(
    tmp_path: Path, proctor: Proctor, target: str, damaged: bytes
) -> None:
    record = tmp_path / ".proctor" / "abilities.json"
    record.write_bytes(damaged)
    (tmp_path / "s.csv").write_text("input,expected\nx,ready\n", encoding="utf-8")
    result = proctor("run", "s.csv", "-t", target, "--holdout=0")
    assert result.code == 0, result.err
    assert "abilities.json cannot be read" in " ".join(result.err.split())
    check(proctor, target)
    assert len(json.loads(record.read_bytes())) == 1


def test_a_run_warns_of_a_case_whose_own_parameters_need_what_the_target_lacked(
    tmp_path: Path, proctor: Proctor, target: str
) -> None:
    assert check(proctor, target)["logprobs"]["status"] == "not shown"
    case = {"id": "sure", "input": [{"role": "user", "content": "x"}], "form": {"params": {"logprobs": 1}}}
    case["assertions"] = [{"grader": "contains", "params": {"value": "x"}}]
    rows = ({"proctor": 1, "name": "s"}, case)
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    err = " ".join(proctor("run", "s.jsonl", "-t", target, "--holdout=0").err.split())
    assert "did not report log-probabilities when checked on" in err
    assert "case 'sure' needs it" in err
    (tmp_path / "t.csv").write_text("input,expected\nx,ready\n", encoding="utf-8")
    err = " ".join(proctor("run", "t.csv", "-t", target, "--holdout=0", "--param", "logprobs=1").err.split())
    assert "but `logprobs` is set: " in err


def test_a_run_warns_of_a_prompt_that_needs_what_the_target_lacked(
    tmp_path: Path, proctor: Proctor, target: str
) -> None:
    check(proctor, target)
    record = tmp_path / ".proctor" / "abilities.json"
    (endpoint,) = (targets := json.loads(record.read_bytes())).values()
    for item in endpoint["checks"]:
        item["status"] = "refused" if item["ability"] == "system" else item["status"]
    record.write_text(json.dumps(targets), encoding="utf-8")
    (tmp_path / "s.csv").write_text("input,expected\nx,ready\n", encoding="utf-8")
    (tmp_path / "short.json").write_text('[{"role": "system", "content": "Be brief."}]', encoding="utf-8")
    err = proctor("run", "s.csv", "-t", target, "--holdout=0", "--prompt=short.json").err
    assert "refused to follow a system prompt when checked on" in " ".join(err.split())
    assert "prompt 'short' needs it" in " ".join(err.split())


def test_a_target_that_does_not_answer_gets_one_request(proctor: Proctor) -> None:
    result = proctor("targets", "check", "--all", "openai:m@http://127.0.0.1:9/v1")
    assert result.code == 3
    assert "text" in result.out
    assert "system" not in result.out
    assert "nothing else was sent or recorded" in result.out
    assert "Recorded in" not in result.out


def test_a_target_that_cannot_be_opened_is_told_and_the_next_is_checked(proctor: Proctor) -> None:
    result = proctor("targets", "check", "--all", "openai:gpt-5.2", "echo")
    assert result.code == 3
    assert "cannot be checked" in result.out
    assert "OPENAI_API_KEY" in result.out
    assert "echo:" in result.out


def test_json_without_all_is_refused(proctor: Proctor) -> None:
    assert "--json needs --all" in proctor("targets", "check", "--json", "echo").err

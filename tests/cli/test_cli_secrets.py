"""Keys are sent only to their service, and are in no store, file or output."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.cli import Proctor
from support.endpoints import JsonHandler, ThreadServer, serve_in_thread

SECRET = "sk-secret-0123456789abcdefghij"


class _Server(ThreadServer):
    status: int
    authorizations: list[str | None]
    answer: str


class _Echoing(JsonHandler):
    """Repeats the request's key in its answer or its error."""

    server: _Server

    def handle_json(self, body: Any) -> None:
        authorization = self.headers["Authorization"]
        self.server.authorizations.append(authorization)
        content = self.server.answer.replace("KEY", str(authorization))
        fine = {"choices": [{"message": {"content": content}}], "usage": {"prompt_tokens": 7}}
        error = {"error": {"message": content}}
        self.send_json(error if self.server.status >= 400 else fine, self.server.status)


@pytest.fixture
def endpoint() -> Iterator[_Server]:
    with serve_in_thread(_Echoing, _Server) as server:
        server.status, server.answer, server.authorizations = 200, "fine", []
        yield server


def _url(server: _Server) -> str:
    return f"http://127.0.0.1:{server.server_port}/v1"


def _holding(folder: Path, secret: str) -> list[str]:
    """The files below a folder that hold the secret, whole or as its longer half."""
    needles = [secret.encode(), secret[len(secret) // 2 :].encode()]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [str(path) for path in files if any(needle in path.read_bytes() for needle in needles)]


@pytest.mark.parametrize("status", [400, 401, 403, 500])
def test_a_key_that_an_endpoint_repeats_in_its_complaint_is_blotted_out_everywhere(
    proctor: Proctor,
    half: str,
    folder: Path,
    endpoint: _Server,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
) -> None:
    monkeypatch.setenv("PROCTOR_API_KEY", SECRET)
    endpoint.status, endpoint.answer = status, f"Bad key: KEY, that is {SECRET}"
    words = [word for ending in ("json", "jsonl", "csv", "md", "xml") for word in ("-o", f"out.{ending}")]
    target = f"openai:m@{_url(endpoint)}"
    result = proctor("run", half, "--target", target, "--retries", "0", *words)
    assert result.code == 3
    assert set(endpoint.authorizations) == {f"Bearer {SECRET}"}
    assert "Bad key" in result.out
    outputs = [proctor("runs", *more).out for more in (("show", "last"), ("show", "last", "--failures"))]
    outputs.append(proctor("targets", "check", target).out)
    assert all(SECRET not in text for text in (result.out, result.err, *outputs))
    assert _holding(folder, SECRET) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", [str, quote, lambda key: b64encode(f"user:{key}".encode()).decode()])
def test_a_key_that_an_answer_and_a_judge_repeat_is_kept_nowhere(
    proctor: Proctor,
    folder: Path,
    endpoint: _Server,
    monkeypatch: pytest.MonkeyPatch,
    form: Callable[[str], str],
) -> None:
    monkeypatch.setenv("PROCTOR_API_KEY", SECRET)
    endpoint.answer = f'{{"score": 1, "passed": true, "reasoning": "KEY, that is {form(SECRET)}"}}'
    (folder / "s.eval.yaml").write_text(
        "assertions: [{type: llm-grader, prompt: Is it good?}]\ntests: [{id: a, criteria: c, input: i}]\n",
        encoding="utf-8",
    )
    words = [word for end in ("html", "json", "jsonl", "csv", "md", "xml") for word in ("-o", f"out.{end}")]
    target = f"openai:m@{_url(endpoint)}"
    result = proctor("run", "s.eval.yaml", "--target", target, "--cache", "--json", "--attest", *words)
    assert set(endpoint.authorizations) == {f"Bearer {SECRET}"}
    assert len(endpoint.authorizations) == 2
    cached = proctor("run", "s.eval.yaml", "--target", target, "--cache", "--json")
    assert len(endpoint.authorizations) == 2
    outputs = [proctor("runs", "show", "last", "--case", "a").out, proctor("targets", "check", target).out]
    assert all(SECRET not in text for text in (result.out, result.err, cached.out, *outputs))
    assert "[key]" in (folder / "out.jsonl").read_text(encoding="utf-8")
    assert _holding(folder, SECRET) == []
    assert _holding(folder, form(SECRET)) == []


@pytest.mark.slow
def test_another_services_key_is_never_sent(
    proctor: Proctor, half: str, endpoint: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    proctor("run", half, "--target", f"openai:m@{_url(endpoint)}")
    assert set(endpoint.authorizations) == {None}
    monkeypatch.setenv("OPENAI_BASE_URL", _url(endpoint))
    endpoint.authorizations.clear()
    proctor("run", half, "--target", "openai:m")
    assert set(endpoint.authorizations) == {None}


@pytest.mark.slow
def test_a_key_in_the_environment_is_in_no_store_and_in_no_answer_of_a_program(
    proctor: Proctor, half: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    result = proctor("run", half, "--target", "command:env", "--json", "-o", "out.jsonl")
    assert result.run["errors"] == 0
    assert _holding(folder, SECRET) == []


def test_a_password_in_an_address_is_refused_and_not_repeated(proctor: Proctor, half: str) -> None:
    result = proctor("run", half, "--target", f"openai:m@http://user:{SECRET}@127.0.0.1:1/v1", "--json")
    assert result.code == 4
    assert SECRET not in result.out + result.err


def test_a_real_answer_has_its_tokens_counted_and_its_latency(
    proctor: Proctor, suite: Proctor, endpoint: _Server
) -> None:
    target = f"openai:m@{_url(endpoint)}"
    run = proctor("run", suite(("a", "x", "fine"), ("b", "y", "fine")), "--target", target, "--json").run
    assert (run["passed"], run["usage"]["input_tokens"]) == (2, 14)
    assert run["latency_ms"]["p50"] > 0
    assert run["cost_usd"] is None


def test_both_token_counts_of_a_trial_are_written_also_when_one_is_zero(
    proctor: Proctor, suite: Proctor, endpoint: _Server, folder: Path
) -> None:
    target = f"openai:m@{_url(endpoint)}"
    proctor("run", suite(("a", "x", "fine")), "--target", target, "--reveal", "-o", "out.jsonl")
    row = json.loads((folder / "out.jsonl").read_text(encoding="utf-8"))
    assert (row["usage"]["input_tokens"], row["usage"]["output_tokens"]) == (7, 0)


def test_a_price_of_the_users_own_makes_a_cost(
    proctor: Proctor, suite: Proctor, endpoint: _Server, folder: Path
) -> None:
    (folder / ".proctor").mkdir()
    prices = '[models."m"]\ninput = 1000000.0\noutput = 1.0\nsource = "me"\ndate = "2026-01-01"\n'
    (folder / ".proctor" / "prices.toml").write_text(prices, encoding="utf-8")
    target = f"openai:m@{_url(endpoint)}"
    result = proctor("run", suite(("a", "x", "fine")), "--target", target, "--json")
    assert result.run["cost_usd"] == 7.0


@pytest.mark.slow
def test_a_run_says_once_that_a_price_is_that_of_a_family(
    proctor: Proctor, suite: Proctor, endpoint: _Server, folder: Path
) -> None:
    (folder / ".proctor").mkdir()
    prices = '[models."m"]\ninput = 1000000.0\noutput = 1.0\n'
    (folder / ".proctor" / "prices.toml").write_text(prices, encoding="utf-8")
    target = f"openai:m-2024-05-13@{_url(endpoint)}"
    names = suite(("a", "x", "fine"), ("b", "y", "fine")), suite(("c", "x", "fine"), name="t.jsonl")
    result = proctor("run", *names, "--target", target, "--json")
    message = (
        "The price of 'm-2024-05-13' is unknown, so its cost is computed with the price of 'm'. To set "
        "its own price, add it to a prices.toml beside the store. See 'Targets' in the documentation."
    )
    assert result.err.count(f"proctor: warning: {message}\n") == 1
    for run in result.json["runs"]:
        assert (run["cost_usd"], run["warnings"]) == (7.0 * run["total"], [message])
        assert proctor("runs", "show", run["run"]).out.splitlines().count(f"proctor: warning: {message}") == 1
    with (folder / ".proctor" / "prices.toml").open("a", encoding="utf-8") as file:
        file.write('[models."m-2024-05-13"]\ninput = 2000000.0\noutput = 1.0\n')
    result = proctor("run", names[1], "--target", target, "--json")
    assert (result.run["cost_usd"], result.run["warnings"], result.err.count("price")) == (14.0, [], 0)


def test_an_endpoint_that_is_gone_is_3_and_says_where_it_was_looked_for(
    proctor: Proctor, suite: Proctor, endpoint: _Server
) -> None:
    endpoint.shutdown()
    endpoint.server_close()
    target = f"openai:m@{_url(endpoint)}"
    result = proctor("run", suite(("a", "x", "fine")), "--target", target, "--retries", "0")
    assert result.code == 3
    assert f"127.0.0.1:{endpoint.server_port}" in result.out
    assert "connection: " in result.out


@pytest.mark.slow
def test_what_a_program_was_given_is_blotted_out_of_what_its_workspace_and_its_grader_say(
    proctor: Proctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_CACHE", str(folder.parent / f"{folder.name}-cache"))
    monkeypatch.setenv("DESK_KEY", SECRET)
    (folder / "targets.yaml").write_text(
        "targets:\n"
        "  - {name: agent, provider: cli, command: 'env > dump; echo done', env: {KEY: '${{ DESK_KEY }}'}}\n",
        encoding="utf-8",
    )
    (folder / "grade.py").write_text(
        "import json, os, pathlib\n"
        "dump = pathlib.Path(os.environ['PROCTOR_WORKSPACE_PATH'], 'dump').read_text()\n"
        "print(json.dumps({'score': 1, 'details': {dump: dump}}))\n",
        encoding="utf-8",
    )
    (folder / "s.eval.yaml").write_text(
        "workspace: {isolation: per_test}\n"
        "assertions: [{type: code-grader, command: [python, grade.py]}]\n"
        "tests: [{id: a, criteria: c, input: i}]\n",
        encoding="utf-8",
    )
    result = proctor("run", "s.eval.yaml", "--target", "agent", "--json", "-o", "out.jsonl")
    assert result.run["passed"] == 1
    assert _holding(folder, SECRET) == []
    assert "${{ DESK_KEY }}" in (folder / "out.jsonl").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("says", "after"), [("target", 480), ("grader", 1980), ("hook", 1980)])
def test_of_a_secret_that_a_message_is_cut_in_nothing_is_left(
    proctor: Proctor, folder: Path, monkeypatch: pytest.MonkeyPatch, says: str, after: int
) -> None:
    monkeypatch.setenv("DESK_KEY", SECRET)
    fails = f"echo before $KEY {'x' * after} >&2; exit 1"
    line = fails if says == "target" else "echo $KEY > key; echo done"
    (folder / "targets.yaml").write_text(
        "targets:\n"
        f"  - {{name: agent, provider: cli, command: '{line}', env: {{KEY: '${{{{ DESK_KEY }}}}'}}}}\n",
        encoding="utf-8",
    )
    grader = f"cd $PROCTOR_WORKSPACE_PATH; KEY=$(cat key); {fails}" if says == "grader" else "echo 1"
    hook = f"KEY=${{{{ DESK_KEY }}}}; {fails}" if says == "hook" else "true"
    (folder / "s.eval.yaml").write_text(
        f"workspace: {{hooks: {{before_each: {{command: [sh, -c, '{hook}']}}}}}}\n"
        f"assertions: [{{type: code-grader, command: [sh, -c, '{grader}']}}]\n"
        "tests: [{id: a, criteria: c, input: i}]\n",
        encoding="utf-8",
    )
    result = proctor("run", "s.eval.yaml", "--target", "agent", "-o", "out.jsonl")
    assert result.code == 3
    row = (folder / "out.jsonl").read_text(encoding="utf-8")
    assert "xxxxx" in row
    assert not any(SECRET[at : at + 6] in row + result.out for at in range(3, len(SECRET) - 5))

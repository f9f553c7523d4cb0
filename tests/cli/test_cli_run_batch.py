"""`proctor run --batch`, against local services that check each field of the requests."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import proctor as proctor_package
from proctor.model import Settings
from proctor.services.runs.reading.estimate import estimate_request
from proctor.services.runs.request import Request
from proctor.stores import open_store
from proctor.targets.api.batches.anthropic import AnthropicBatches
from proctor.targets.api.batches.google import GoogleBatches
from proctor.targets.api.batches.openai import OpenAiBatches
from support.batches import KEY, KINDS, BatchHost, Outcome, last_text, serve_batches
from support.cli import CommandResult, Proctor

PRICES = '[models."m"]\ninput = 10.0\noutput = 50.0\n'
FULL_USD = (100 * 10 + 20 * 50) / 1_000_000
"""The cost of one answer outside of a batch."""


@pytest.fixture
def host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchHost]:
    monkeypatch.setenv("PROCTOR_API_KEY", KEY)
    monkeypatch.setenv("PROCTOR_BATCH_POLL_S", "0.01")
    (folder / ".proctor").mkdir()
    (folder / ".proctor" / "prices.toml").write_text(PRICES, encoding="utf-8")
    with serve_batches() as batch_host:
        yield batch_host
        assert batch_host.problems == []


Run = Callable[..., CommandResult]


@pytest.fixture
def run(proctor: Proctor, host: BatchHost, half: str) -> Run:
    """Runs the suite in batches of a kind of service."""

    def run_batch(kind: str = "openai", *words: object) -> CommandResult:
        result: CommandResult = proctor("run", half, "--target", host.target(kind), "--batch", *words)
        return result

    return run_batch


def trials(proctor: Proctor) -> list[Any]:
    proctor("runs", "export", "last", "-o", "trials.jsonl", "--reveal")
    return [json.loads(line) for line in Path("trials.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_one_batch_at_half_the_price(proctor: Proctor, host: BatchHost, run: Run, kind: str) -> None:
    result = run(kind, "--json")
    assert result.code == 1, result.err
    assert [result.run[name] for name in ("total", "passed", "failed", "errors")] == [10, 5, 5, 0]
    assert result.run["cost_usd"] == pytest.approx(10 * FULL_USD / 2)
    assert result.run["latency_ms"]["p50"] is None
    assert host.custom_ids == [f"p{number}-r0" for number in range(10)]
    assert "10 requests sent to" in result.err
    assert "proctor run --resume=" in result.err
    outputs = [trial["output"] for trial in trials(proctor)]
    assert {output["batch_id"].removeprefix("batches/") for output in outputs} == {"batch_1"}
    assert outputs[0]["cost_usd"] == pytest.approx(FULL_USD / 2)
    assert "in batches at half the price" in proctor("runs", "show", "last").out


@pytest.mark.parametrize("kind", KINDS)
def test_answers_may_come_late_out_of_order_twice_and_from_nowhere(
    proctor: Proctor, host: BatchHost, run: Run, kind: str
) -> None:
    def arrange(lines: list[Any]) -> list[Any]:
        if not lines:
            return lines
        foreign = json.loads(json.dumps(lines[0]).replace("p0-r0", "p77-r7"))
        lines = [*lines, *lines, foreign]
        random.Random(3).shuffle(lines)
        return lines

    host.polls_until_ended = 3
    host.arrange = arrange
    result = run(kind, "--json")
    assert [result.run[name] for name in ("total", "passed", "failed", "errors")] == [10, 5, 5, 0]
    assert "0 of 10 answered" in result.err
    assert "proctor: warning: Batch" in result.err
    assert "'p77-r7'" in result.err
    assert len(host.batches) == 1
    assert [trial["output"]["text"] for trial in trials(proctor)] == [f"say {number}" for number in range(10)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_line_without_an_answer_is_an_error_with_its_reason_and_can_be_retried(
    proctor: Proctor, host: BatchHost, run: Run, kind: str
) -> None:
    ends = {
        "say 1": Outcome("refused"),
        "say 2": Outcome("expired"),
        "say 3": Outcome("cancelled"),
        "say 4": None,
    }
    host.answer = lambda _custom_id, body: ends.get(last_text(body), last_text(body))
    result = run(kind, "--json")
    assert result.code == 3
    assert result.run["errors"] == 4
    messages = [trial["failure"]["message"] for trial in trials(proctor) if trial["failure"]]
    assert "This is wrong" in messages[0]
    assert "expired" in messages[1]
    assert "cancel" in messages[2]
    assert "without an answer to this request" in messages[3]
    ends.clear()
    again = proctor("run", f"--retry-errors={result.run['run']}", "--json")
    assert again.run["errors"] == 0
    assert min(host.batches[1].requests).startswith("p1-r0")
    assert len(host.batches[1].requests) == 4
    assert again.run["cost_usd"] == pytest.approx(4 * FULL_USD / 2)


@pytest.mark.parametrize("state", ["failed", "expired", "cancelled"])
@pytest.mark.parametrize("kind", ["openai", "google"])
def test_a_batch_that_ends_without_answers_is_as_many_errors(
    proctor: Proctor, host: BatchHost, run: Run, kind: str, state: str
) -> None:
    host.end_state = state
    host.answer = lambda *_: None
    result = run(kind, "--json")
    assert (result.code, result.run["errors"]) == (3, 10)
    (message,) = {trial["failure"]["message"] for trial in trials(proctor)}
    assert state in message.lower()
    if state == "failed":
        assert "The file is wrong." in message or "The batch is no more." in message


def test_google_may_lose_the_keys_and_keeps_the_order(host: BatchHost, run: Run) -> None:
    host.has_keys = False
    assert run("google", "--json").run["passed"] == 5


def test_repeats_are_requests_of_their_own(proctor: Proctor, host: BatchHost, run: Run) -> None:
    assert run("openai", "--repeat", 3, "--limit", 2, "--json").run["total"] == 6
    assert host.custom_ids == ["p0-r0", "p0-r1", "p0-r2", "p1-r0", "p1-r1", "p1-r2"]
    seeds = [body["seed"] for body in host.batches[0].requests.values()]
    assert seeds == [42, 43, 44, 42, 43, 44]


def test_a_parameter_that_the_model_lacks_is_left_out_of_a_second_batch(
    proctor: Proctor, host: BatchHost, run: Run
) -> None:
    def answer(_custom_id: str, body: Any) -> Any:
        if "temperature" in body and last_text(body) != "say 5":
            return Outcome("refused", message="Unsupported value: 'temperature'.", param="temperature")
        return last_text(body)

    host.answer = answer
    result = run("openai", "--json")
    assert [result.run[name] for name in ("passed", "errors")] == [5, 0]
    assert [len(batch.requests) for batch in host.batches] == [10, 9]
    assert "because of parameters that it does not accept (temperature)" in result.err
    assert all("temperature" not in body for body in host.batches[1].requests.values())
    assert result.run["cost_usd"] == pytest.approx(10 * FULL_USD / 2)


def test_several_targets_wait_for_their_batches_at_the_same_time(
    proctor: Proctor, host: BatchHost, half: str
) -> None:
    def release_together() -> None:
        if len(host.batches) == 2:
            host.is_released.set()

    host.is_released.clear()
    host.after_accepting = release_together
    words = [word for kind in ("anthropic", "google") for word in ("--target", host.target(kind))]
    result = proctor("run", half, *words, "--batch", "--json")
    assert [run["passed"] for run in result.json["runs"]] == [5, 5]


def test_a_service_that_fails_for_a_while_is_called_again(host: BatchHost, run: Run) -> None:
    host.failures = [503, 0, 429, 0, 0, 500, 502, 0, 503]
    result = run("openai", "--json")
    assert result.run["passed"] == 5
    assert len(host.batches) == 1
    assert "was not accepted yet" in result.err


@pytest.mark.parametrize("kind", KINDS)
def test_an_acceptance_whose_reply_is_lost_is_found_in_the_list(host: BatchHost, run: Run, kind: str) -> None:
    def lose_reply() -> None:
        host.after_accepting = lambda: None
        raise ConnectionError

    host.after_accepting = lose_reply
    assert run(kind, "--json").run["passed"] == 5
    assert len(host.batches) == 1


def test_a_wrong_key_stops_the_run_before_anything_is_accepted(
    proctor: Proctor, host: BatchHost, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.failures = [401]
    result = run("anthropic")
    assert result.code == 3
    assert "A batch was not accepted." in result.err
    assert "Check the key." in result.err
    assert "proctor run --resume=" in result.err
    assert host.batches == []
    assert proctor("run", "--resume=last", "--json").run["passed"] == 5
    assert len(host.batches) == 1


def test_a_service_without_batches_says_so(proctor: Proctor, host: BatchHost, run: Run) -> None:
    host.failures = [404]
    result = run("openai")
    assert result.code == 3
    assert "With --no-batch, requests are sent one by one." in result.err


def test_judges_are_called_one_by_one_while_a_batch_is_graded(
    proctor: Proctor, host: BatchHost, suite: Callable[..., str]
) -> None:
    judged = suite({"id": "a", "input": "Lima", "scorer": "llm_judge", "rubric": "Is it clear?"})
    judge = 'mock:{"score": 1, "passed": true}'
    result = proctor("run", judged, "--target", host.target("google"), "--batch", "--judge", judge, "--json")
    assert result.run["graded"] == 1
    assert len(host.batches[0].requests) == 1


def test_earlier_answers_are_reused_and_only_the_rest_is_in_a_batch(
    proctor: Proctor, host: BatchHost, run: Run
) -> None:
    run("openai", "--limit", 4)
    result = run("openai", "--reuse", "--json")
    assert (result.run["total"], result.run["reused"]) == (10, 4)
    assert [len(batch.requests) for batch in host.batches] == [4, 6]


# --- budget ------------------------------------------------------------------------------------------------


def test_a_budget_splits_what_it_may_not_pay_into_batches_one_after_the_other(
    host: BatchHost, run: Run
) -> None:
    result = run("openai", "--budget-usd", 0.05, "--max-tokens", 100, "--json")
    assert result.run["passed"] == 5
    sizes = [len(batch.requests) for batch in host.batches]
    assert len(sizes) > 1
    assert sum(sizes) == 10
    most_usd = 100 * 25 / 1_000_000
    assert all(size * most_usd <= 0.05 for size in sizes)


def test_what_a_budget_does_not_pay_is_an_error_and_is_not_sent(
    proctor: Proctor, host: BatchHost, run: Run
) -> None:
    result = run("openai", "--budget-usd", 0.003, "--max-tokens", 100, "--json")
    assert result.code == 3
    assert len(host.custom_ids) == 3  # one at a time, as each may cost more than is left
    kinds = {trial["failure"]["kind"] for trial in trials(proctor) if trial["failure"]}
    assert kinds == {"budget"}


# --- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--until", "2pp"), "--until and --stop-when-shown check the answers one by one"),
        (("--cache",), "Use --no-cache"),
        (("--watch",), "--watch makes several"),
        (("--stream",), "stream"),
        (("--engine", "elsewhere"), "--batch is an engine of its own"),
    ],
)
def test_what_no_batch_can_do_is_refused_before_anything_is_sent(
    host: BatchHost, run: Run, words: tuple[str, ...], message: str
) -> None:
    result = run("openai", *words)
    assert result.code == 4
    assert message in result.err
    assert host.calls == []


def test_interleaving_is_refused(proctor: Proctor, host: BatchHost, half: str) -> None:
    words = [word for kind in ("anthropic", "google") for word in ("--target", host.target(kind))]
    result = proctor("run", half, *words, "--batch", "--interleave")
    assert result.code == 4
    assert "a batch is sent as a whole" in result.err
    assert host.calls == []


@pytest.mark.parametrize("target", ["echo", "groq:m", "azure:m@http://127.0.0.1:9"])
def test_a_target_without_batches_is_refused(
    proctor: Proctor, host: BatchHost, half: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    result = proctor("run", half, "--target", target, "--batch")
    assert result.code == 4
    assert f"Target {target.partition('@')[0]!r}"[:-1] in result.err
    assert (
        "does not support batches. Use --no-batch, or a target of one of the kinds openai, anthropic, google"
        in result.err
    )


def test_a_workspace_is_refused(proctor: Proctor, host: BatchHost, folder: Path) -> None:
    case = {"id": "a", "criteria": "c", "input": "i"}
    suite = {"workspace": {"hooks": {"before_each": {"command": ["true"]}}}, "tests": [case]}
    (folder / "w.eval.yaml").write_text(json.dumps(suite), encoding="utf-8")
    result = proctor("run", "w.eval.yaml", "--target", host.target("openai"), "--batch")
    assert result.code == 4
    assert "use a workspace" in result.err
    assert host.calls == []


def test_fallbacks_are_refused(proctor: Proctor, host: BatchHost, half: str, folder: Path) -> None:
    targets = [
        {"name": "first", "provider": "openai", "model": "m", "base_url": f"{host.url}/v1"},
        {"name": "second", "provider": "openai", "model": "m", "base_url": f"{host.url}/v1"},
    ]
    targets[0]["fallback_targets"] = ["second"]  # type: ignore[assignment]
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}), encoding="utf-8")
    result = proctor("run", half, "--target", "first", "--batch")
    assert result.code == 4
    assert "has fallbacks" in result.err


def test_the_interval_between_polls_is_checked(
    proctor: Proctor, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_BATCH_POLL_S", "soon")
    result = run("openai")
    assert result.code == 4
    assert "PROCTOR_BATCH_POLL_S is 'soon'" in result.err
    assert proctor("runs", "list", "--json").json["runs"] == []


def test_the_project_file_may_ask_for_batches_and_a_flag_may_not(
    proctor: Proctor, host: BatchHost, half: str, folder: Path
) -> None:
    (folder / "proctor.toml").write_text("batch = true\n", encoding="utf-8")
    proctor("run", half, "--target", host.target("openai"))
    assert len(host.batches) == 1
    assert proctor("run", half, "--target", "echo", "--no-batch", "--json").run["passed"] == 5


# --- sizes -------------------------------------------------------------------------------------------------


def test_a_run_with_more_requests_than_a_batch_may_have_is_several(
    host: BatchHost, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenAiBatches, "max_requests", 4)
    assert run("openai", "--json").run["passed"] == 5
    assert [len(batch.requests) for batch in host.batches] == [4, 4, 2]
    assert host.custom_ids == [f"p{number}-r0" for number in range(10)]


@pytest.mark.parametrize("kind", KINDS)
def test_no_batch_is_larger_than_it_may_be(
    host: BatchHost, run: Run, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    sizes: list[int] = []
    host.count_bytes = sizes.append
    classes = {"openai": OpenAiBatches, "anthropic": AnthropicBatches, "google": GoogleBatches}
    monkeypatch.setattr(classes[kind], "max_bytes", 700)
    assert run(kind, "--json").run["passed"] == 5
    assert len(host.batches) > 1
    assert len(host.custom_ids) == len(set(host.custom_ids)) == 10
    assert max(sizes) < 700 + 400  # the bytes of a batch besides its requests


# --- from Python -------------------------------------------------------------------------------------------


def test_a_call_from_python_is_a_batch_too(host: BatchHost, half: str) -> None:
    run = proctor_package.run(half, target=host.target("google"), batch=True, progress=False)
    assert (run.passed, run.failed) == (5, 5)
    assert run.cost_usd == pytest.approx(10 * FULL_USD / 2)
    assert len(host.batches) == 1
    with pytest.raises(proctor_package.UsageError, match="`batch` is an engine of its own"):
        proctor_package.run(half, target="echo", batch=True, engine="elsewhere")


def test_an_estimate_is_at_half_the_price_and_of_no_duration(host: BatchHost, folder: Path) -> None:
    requests = [
        Request(suites=("builtin:cheap",), targets=(host.target("openai"),), settings=Settings(engine=engine))
        for engine in ("asyncio", "batch")
    ]
    with closing(open_store(":memory:")) as store:
        full, half_price = (
            estimate_request(store, request, {}, folder=folder / ".proctor").shares[0] for request in requests
        )
    assert full.cost_usd is not None
    assert half_price.cost_usd == pytest.approx(full.cost_usd / 2)
    assert half_price.calls == full.calls
    assert half_price.seconds is None


def test_a_batch_that_is_gone_is_given_up_only_with_a_flag(
    proctor: Proctor, host: BatchHost, run: Run, half: str
) -> None:
    host.failures = [0, 0, 404]
    stopped = run("openai")
    assert stopped.code == 3
    assert "If they are gone, resume with --no-batch" in stopped.err
    host.batches.clear()
    host.expects_single_requests = True
    again = proctor("run", "--resume=last", "--no-batch")
    assert "has sent 10 requests in batches. Without --batch, those without an answer" in again.err
    assert host.calls.count("POST /v1/chat/completions") > 0


def test_a_resumed_run_pays_for_its_batch_from_the_budget(
    proctor: Proctor, host: BatchHost, run: Run
) -> None:
    host.failures = [0, 0, 404]
    words = ("--budget-usd", 1, "--max-tokens", 100)
    assert run("openai", *words).code == 3
    result = proctor("run", "--resume=last", "--json")
    assert result.run["passed"] == 5
    assert result.run["cost_usd"] == pytest.approx(10 * FULL_USD / 2)
    assert len(host.batches) == 1


def test_a_case_that_names_a_target_without_batches_is_refused(
    proctor: Proctor, host: BatchHost, folder: Path
) -> None:
    tests = [{"id": "a", "criteria": "c", "input": "i", "execution": {"target": "other"}}]
    (folder / "c.eval.yaml").write_text(json.dumps({"tests": tests}), encoding="utf-8")
    targets = [{"name": "other", "provider": "mock", "response": "x"}]
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}), encoding="utf-8")
    result = proctor("run", "c.eval.yaml", "--target", host.target("openai"), "--batch")
    assert result.code == 4
    assert "Target 'other' does not support batches" in result.err
    assert host.calls == []


def test_a_run_that_stopped_while_it_stored_answers_reads_the_rest_from_the_same_batch(
    proctor: Proctor, host: BatchHost
) -> None:
    # Enough that even a busy machine cannot store all of them before the run stops.
    rows = [
        {"id": f"t{number}", "input": f"say {number}", "expected": f"say {number}"} for number in range(600)
    ]
    Path("many.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    host.answer = lambda _id, body: Outcome("expired") if last_text(body) == "say 4" else last_text(body)
    words = ("run", "many.jsonl", "--target", host.target("google"), "--batch", "--no-holdout", "--json")
    stopped = proctor(*words, "--max-failures", 1)
    assert stopped.run["status"] == "interrupted"
    assert 0 < stopped.run["total"] < 600
    result = proctor("run", "--resume=last", "--max-failures", 9, "--json")
    assert [result.run[name] for name in ("total", "passed", "errors")] == [600, 599, 1]
    assert len(host.batches) == 1


def test_repeats_that_are_graded_together_may_be_in_several_batches(
    host: BatchHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AnthropicBatches, "max_requests", 3)
    rows = [{"input": f"say {number}", "expected": "x"} for number in range(4)]
    run = proctor_package.run(
        rows, target=host.target("anthropic"), batch=True, graders="consistency", repeats=2, progress=False
    )
    assert (run.passed, run.total) == (8, 8)
    assert [len(batch.requests) for batch in host.batches] == [3, 3, 2]


def test_reports_say_that_a_run_was_in_batches_and_how_to_repeat_it(host: BatchHost, run: Run) -> None:
    run("openai", "-o", "report.html", "-o", "report.md")
    html, markdown = (Path(name).read_text(encoding="utf-8") for name in ("report.html", "report.md"))
    assert "in batches at half the price" in html
    assert "--batch" in html
    assert "Sent in batches at half the price" in markdown


@pytest.mark.parametrize("kind", KINDS)
def test_an_acceptance_whose_reply_cannot_be_read_is_found_in_the_list(
    host: BatchHost, run: Run, kind: str
) -> None:
    host.is_garbled = True
    assert run(kind, "--json").run["passed"] == 5
    assert host.custom_ids == [f"p{number}-r0" for number in range(10)]


def test_a_batch_may_be_of_the_responses_api(host: BatchHost, run: Run) -> None:
    host.path = "/v1/responses"
    result = run("openai", "--param", "api_format=responses", "--json")
    assert [result.run[name] for name in ("passed", "errors")] == [5, 0]
    assert result.run["cost_usd"] == pytest.approx(10 * FULL_USD / 2)


# --- what services send by mistake -------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"<html>", b'{"custom_id": "\xff"}', b'{"custom_id": 5}', b"[1, 2"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_line_that_cannot_be_read_costs_no_other_request_its_answer(
    proctor: Proctor, host: BatchHost, run: Run, kind: str, line: bytes
) -> None:
    host.arrange = lambda lines: [line, *lines[1:]] if lines else []
    result = run(kind, "--json")
    assert [result.run[name] for name in ("total", "errors")] == [10, 1], result.err
    assert "cannot be read" in result.err
    assert len(host.batches) == 1


def test_a_poll_that_cannot_be_read_is_repeated(host: BatchHost, run: Run) -> None:
    host.garbage = {"GET": [b"<html>", b'{"id": "\xff"}', b"[]"]}
    result = run("openai", "--json")
    assert result.run["passed"] == 5, result.err
    assert len(host.batches) == 1


def test_a_request_that_is_larger_than_a_batch_is_an_error(
    proctor: Proctor, host: BatchHost, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GoogleBatches, "max_bytes", 2000)
    rows = [{"input": "say 1", "expected": "say 1"}, {"input": "x" * 3000, "expected": "say 1"}]
    (folder / "large.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = proctor("run", "large.jsonl", "--target", host.target("google"), "--batch", "--json")
    assert [result.run[name] for name in ("total", "passed", "errors")] == [2, 1, 1], result.err
    assert [len(batch.requests) for batch in host.batches] == [1]
    (failure,) = [trial["failure"] for trial in trials(proctor) if trial["failure"]]
    assert "more than the maximum for a batch" in failure["message"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_in_the_reason_of_a_line_is_not_stored(
    proctor: Proctor, host: BatchHost, run: Run, kind: str
) -> None:
    host.answer = lambda *_: Outcome("refused", message=f"Wrong key {KEY}.")
    result = run(kind, "--json")
    (message,) = {trial["failure"]["message"] for trial in trials(proctor)}
    assert "Wrong key" in message
    assert KEY not in message + result.err


def test_a_key_in_the_reason_of_a_batch_is_not_stored(proctor: Proctor, host: BatchHost, run: Run) -> None:
    host.end_state, host.end_reason = "failed", f"Wrong key {KEY}."
    host.answer = lambda *_: None
    result = run("openai", "--json")
    (message,) = {trial["failure"]["message"] for trial in trials(proctor)}
    assert "Wrong key" in message
    assert KEY not in message + result.err


def test_a_key_in_the_error_of_a_line_is_not_stored(proctor: Proctor, host: BatchHost, run: Run) -> None:
    host.arrange = lambda lines: [
        {"custom_id": line["custom_id"], "error": {"message": f"Wrong key {KEY} " + "x" * 99_999}}
        for line in lines
    ]
    result = run("openai", "--json")
    (message,) = {trial["failure"]["message"] for trial in trials(proctor)}
    assert "Wrong key" in message
    assert KEY not in message + result.err
    assert len(message) < 1000


def test_choices_are_refused_in_batches(proctor: Proctor, host: BatchHost, folder: Path) -> None:
    rows = [
        {"proctor": 1, "name": "c"},
        {
            "id": "a",
            "input": [{"role": "user", "content": "2 + 2 ="}],
            "form": {"choices": ["3", "4"]},
            "assertions": [{"grader": "multiple_choice", "params": {"value": "4"}}],
        },
    ]
    (folder / "choices.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    result = proctor("run", "choices.jsonl", "--target", host.target("openai"), "--batch")
    assert result.code == 4, result.err
    assert "choices" in result.err
    assert host.calls == []


def test_a_batch_that_the_project_file_asks_for_says_how_to_leave_it_out(
    proctor: Proctor, host: BatchHost, half: str, folder: Path
) -> None:
    (folder / "proctor.toml").write_text("batch = true\n", encoding="utf-8")
    result = proctor("run", half, "--target", "echo")
    assert result.code == 4
    assert "--no-batch" in result.err


def test_the_reason_of_a_service_cannot_write_to_the_terminal(host: BatchHost, run: Run) -> None:
    host.end_state = "failed"
    host.end_reason = "bad \x1b[31mred\x1b]0;title\x07 \u202eesrever"
    host.answer = lambda *_: None
    result = run("openai")
    assert "bad" in result.out + result.err
    assert not {"\x1b", "\x07", "\u202e"} & set(result.out + result.err)


def test_a_list_of_answers_is_read_again_for_as_long_as_the_service_fails(host: BatchHost, run: Run) -> None:
    host.content_failures = [503] * 8
    result = run("openai", "--json")
    assert result.run["passed"] == 5, result.err
    assert "Trying again" in result.err


@pytest.mark.parametrize("value", ["12", 12, "x", "-1", "9" * 400, ""])
def test_a_count_of_google_that_is_no_number_is_0(value: int | str) -> None:
    from proctor.targets.api.batches.google import _read_count

    assert _read_count(value) == (12 if value in (12, "12") else 0)

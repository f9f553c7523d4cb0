"""Runs against endpoints that fail: requests sent, messages, and completion by resuming."""

from __future__ import annotations

import asyncio
import re
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any

import pytest
from aiohttp import web

from support.cli import Proctor
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

CASES = 300


class Endpoint:
    """A server in its own thread; `reply` makes the response to the request with that number, from 1."""

    def __init__(self) -> None:
        self.request_counts: Counter[str] = Counter()
        self.reply: Callable[[int], web.Response] = lambda _number: fine()
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._runner: web.AppRunner | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)

    @property
    def target(self) -> str:
        return f"openai:m@http://127.0.0.1:{self.port}/v1"

    @property
    def judge(self) -> str:
        return f"openai:judge@http://127.0.0.1:{self.port}/judge/v1"

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        assert self._runner is not None
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._handle)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def _handle(self, request: web.Request) -> web.Response:
        await request.read()
        who = "judge" if request.path.startswith("/judge") else "target"
        self.request_counts[who] += 1
        return fine() if who == "target" and self.judge_fails else self.reply(self.request_counts[who])

    judge_fails = False
    """Whether only requests to the judge fail."""


def fine(**fields: Any) -> web.Response:
    return web.json_response({"choices": [{"message": {"content": "4"}}], **fields})


def failing(status: int, **headers: str) -> Callable[[int], web.Response]:
    return lambda _number: web.json_response(
        {"error": {"message": "no"}},
        status=status,
        headers={name.replace("_", "-"): text for name, text in headers.items()},
    )


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture
def many(suite: Proctor) -> str:
    name: str = suite(*((f"t{n}", f"2 + 2? {n}", "4") for n in range(CASES)))
    return name


def resume_command(result: Any) -> list[str]:
    """The arguments of the command that the run prints for continuing."""
    match = re.search(r"Continue with: proctor (.*)", result.err)
    assert match is not None, result.err
    return shlex.split(match[1])


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_an_error_that_cannot_heal_stops_the_run_and_resuming_completes_it(
    proctor: Proctor, endpoint: Endpoint, many: str, status: int
) -> None:
    endpoint.reply = failing(status)
    result = proctor("run", many, "--target", endpoint.target, "--concurrency", "8", "--store", "a b.db")
    assert result.code == 3
    assert endpoint.request_counts["target"] <= 8 + 5
    assert f"answered {status}" in result.err
    assert "Check the" in result.err
    words = resume_command(result)
    report = proctor("runs", "show", words[1].removeprefix("--resume="), "--store", "a b.db")
    assert "times in a row" in report.out

    endpoint.reply = lambda _number: fine()
    resumed = proctor(*words, "--json")
    assert (resumed.code, resumed.run["status"], resumed.run["passed"]) == (
        0,
        "finished",
        CASES,
    )
    assert "stopped" not in resumed.run


def test_a_key_that_is_withdrawn_in_the_middle_keeps_what_was_answered(
    proctor: Proctor, endpoint: Endpoint, many: str
) -> None:
    endpoint.reply = lambda number: fine() if number <= 100 else failing(401)(number)
    result = proctor("run", many, "--target", endpoint.target, "--concurrency", "8", "--json")
    assert (result.code, result.run["passed"], result.run["errors"]) == (3, 100, 0)
    assert endpoint.request_counts["target"] <= 100 + 8 + 5

    endpoint.reply = lambda _number: fine()
    before = endpoint.request_counts["target"]
    resumed = proctor(*resume_command(result), "--json")
    assert (resumed.code, resumed.run["passed"]) == (0, CASES)
    assert endpoint.request_counts["target"] - before == CASES - 100


def test_a_judge_whose_key_is_wrong_stops_the_run_and_answers_are_kept(
    proctor: Proctor, endpoint: Endpoint, suite: Proctor
) -> None:
    endpoint.judge_fails = True
    endpoint.reply = failing(401)
    tests = [
        {"id": f"t{n}", "input": f"2 + 2? {n}", "expected": "4", "scorer": "llm_judge", "rubric": "It is 4."}
        for n in range(100)
    ]
    words = ("--target", endpoint.target, "--judge", endpoint.judge, "--concurrency", "8")
    result = proctor("run", suite(*tests), *words, "--json")
    assert result.code == 3
    assert endpoint.request_counts["judge"] <= 8 + 5
    assert "The judge 'openai:judge" in result.err
    assert (result.run["unscored"], result.run["errors"]) == (0, 0)
    target_requests = endpoint.request_counts["target"]

    endpoint.reply = lambda _number: web.json_response(
        {"choices": [{"message": {"content": '{"passed": true, "score": 1.0, "reason": "right"}'}}]}
    )
    resumed = proctor(*resume_command(result), "--json")
    assert resumed.run["status"] == "finished"
    assert resumed.run["total"] == 100
    assert endpoint.request_counts["target"] == 100
    assert target_requests > 0


def test_a_refused_connection_stops_the_run(proctor: Proctor, endpoint: Endpoint, many: str) -> None:
    endpoint.close()
    result = proctor("run", many, "--target", endpoint.target, "--retries", "0", "--json")
    assert (result.code, result.run["errors"]) == (3, 0)
    assert result.run["stopped"].startswith("Every call failed, 5 times in a row: Cannot connect to http")
    assert "there? Check the URL" in result.run["stopped"]
    assert "Check the URL and that the server is running." in result.err


def test_an_unknown_host_stops_the_run(proctor: Proctor, many: str) -> None:
    result = proctor(
        "run", many, "--target", "openai:m@http://nowhere.invalid/v1", "--retries", "0", "--json"
    )
    assert (result.code, result.run["errors"]) == (3, 0)
    assert "nowhere.invalid" in result.run["stopped"]


@pytest.mark.parametrize("value", ["301", "86400", "99999999999", "9" * 400])
def test_a_wait_beyond_the_limit_stops_the_run(
    proctor: Proctor, endpoint: Endpoint, many: str, value: str
) -> None:
    endpoint.reply = failing(429, Retry_After=value)
    result = proctor("run", many, "--target", endpoint.target, "--concurrency", "8", "--json")
    assert (result.code, result.run["errors"]) == (3, 0)
    assert endpoint.request_counts["target"] <= 8
    assert "too long" in result.run["stopped"]


def test_max_failures_stops_the_run_and_the_errors_are_there(
    proctor: Proctor, endpoint: Endpoint, many: str
) -> None:
    endpoint.reply = lambda number: failing(400)(number) if number % 2 else fine()
    result = proctor(
        "run", many, "--target", endpoint.target, "--concurrency", "1", "--max-failures", "7", "--json"
    )
    assert result.code == 3
    assert 7 <= result.run["errors"] <= 8
    assert "the limit of --max-failures" in result.run["stopped"]
    assert endpoint.request_counts["target"] <= 7 * 2 + 2
    endpoint.reply = lambda _number: fine()
    resumed = proctor(*resume_command(result), "--json")
    assert resumed.run["status"] == "finished"
    assert resumed.run["errors"] == result.run["errors"]


def test_max_failures_can_stand_in_the_project_file(
    proctor: Proctor, endpoint: Endpoint, many: str, folder: Any
) -> None:
    (folder / "proctor.toml").write_text("max-failures = 3\n", encoding="utf-8")
    endpoint.reply = failing(400)
    result = proctor("run", many, "--target", endpoint.target, "--concurrency", "1", "--json")
    assert (result.code, result.run["errors"]) == (3, 3)


@pytest.mark.parametrize("headers", [False, True])
def test_a_server_of_100_requests_a_second_gets_as_many_and_every_trial_is_answered(
    proctor: Proctor, endpoint: Endpoint, many: str, headers: bool
) -> None:
    """The limit holds for each sliding second; durations are tested with a simulated clock."""
    sent_at = list[float]()

    def reply(_number: int) -> web.Response:
        sent_at[:] = [at for at in sent_at if at > monotonic() - 1]
        remaining = 100 - len(sent_at)
        rate_limit = (
            {"x-ratelimit-remaining-requests": str(remaining), "x-ratelimit-reset-requests": "1s"}
            if headers
            else {}
        )
        if remaining <= 0:
            return web.Response(status=429, headers={"Retry-After": "1", **rate_limit})
        sent_at.append(monotonic())
        response = fine()
        response.headers.update(rate_limit)
        return response

    endpoint.reply = reply
    rate_limit = proctor("run", many, "--target", endpoint.target, "--retries", "1", "--json")
    assert (rate_limit.code, rate_limit.run["passed"]) == (0, CASES)


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -5, "completion_tokens": 1},
        {"prompt_tokens": True},
        {"prompt_tokens": 1.5},
        {"prompt_tokens": "12"},
        {"prompt_tokens": 10**9 + 1},
        {"prompt_tokens": 10**18},
        {"prompt_tokens": {"all": 5}},
        {"prompt_tokens_details": {"cached_tokens": -1}},
        [1, 2],
        "many",
    ],
)
def test_usage_that_cannot_be_believed_is_charged_as_what_was_set_aside(
    proctor: Proctor, endpoint: Endpoint, suite: Proctor, folder: Any, usage: Any
) -> None:
    (folder / "prices.toml").write_text('[models."m"]\ninput = 1000000\noutput = 0\n', encoding="utf-8")
    endpoint.reply = lambda _number: fine(usage=usage)
    tests = suite(*((f"t{n}", f"2 + 2? {n}", "4") for n in range(10)))
    result = proctor(
        "run", tests, "--target", endpoint.target, "--budget-usd", "1000", "--store", "s.db", "--json",
        "-o", "all.jsonl",
    )  # fmt: skip
    assert result.code == 3
    # Each request is charged the more than 500 tokens reserved for it, at a dollar per token.
    assert 1 <= endpoint.request_counts["target"] <= 2
    assert result.err.count("reports token counts that are not whole numbers") == 1
    assert '"usage":{"' not in (folder / "all.jsonl").read_text(encoding="utf-8").replace(" ", "")


def test_a_regrade_and_a_replay_stop_where_every_call_fails(
    proctor: Proctor, endpoint: Endpoint, suite: Proctor
) -> None:
    endpoint.reply = failing(401)
    judged = {"scorer": "llm_judge", "rubric": "It is 4."}
    tests = suite(*({"id": f"t{n}", "input": f"2 + 2? {n}", **judged} for n in range(50)))
    graded_run = proctor("run", tests, "--target", "echo", "--judge", "echo", "--json")
    run = graded_run.run["run"]
    assert proctor("regrade", run, "--judge", endpoint.target).code == 3
    assert proctor("attest", run, "--no-sign", "-o", "b.zip").code == 0
    replayed = proctor("replay", "b.zip", "--target", endpoint.target, "--judge", "echo")
    assert replayed.code == 3
    assert "Check the key." in replayed.err
    assert endpoint.request_counts["target"] <= 2 * (32 + 5)


def test_a_check_of_a_target_says_what_it_answers(proctor: Proctor, endpoint: Endpoint) -> None:
    endpoint.reply = failing(401)
    result = proctor("targets", "check", endpoint.target)
    assert result.code == 3
    assert "answered 401" in result.out
    assert endpoint.request_counts["target"] == 1

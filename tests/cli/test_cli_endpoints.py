"""Runs against endpoints that fail: what they send, what they say, and that resuming completes them."""

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
    """A server in a thread of its own; `reply` makes what it says to a request from its number, from 1."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
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
        self.asked[who] += 1
        return fine() if who == "target" and self.judged else self.reply(self.asked[who])

    judged = False
    """Only its judge fails."""


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


def continued(told: Any) -> list[str]:
    """The words of the command that the run says to go on with."""
    found = re.search(r"Continue with: proctor (.*)", told.err)
    assert found is not None, told.err
    return shlex.split(found[1])


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_an_error_that_cannot_heal_stops_the_run_and_resuming_completes_it(
    proctor: Proctor, endpoint: Endpoint, many: str, status: int
) -> None:
    endpoint.reply = failing(status)
    told = proctor("run", many, "--target", endpoint.target, "--concurrency", "8", "--store", "a b.db")
    assert told.code == 3
    assert endpoint.asked["target"] <= 8 + 5
    assert f"answered {status}" in told.err
    assert "Check the" in told.err
    words = continued(told)
    shown = proctor("runs", "show", words[1].removeprefix("--resume="), "--store", "a b.db")
    assert "times in a row" in shown.out

    endpoint.reply = lambda _number: fine()
    done = proctor(*words, "--json")
    assert (done.code, done.run["status"], done.run["passed"]) == (0, "finished", CASES)
    assert "stopped" not in done.run


def test_a_key_that_is_withdrawn_in_the_middle_keeps_what_was_answered(
    proctor: Proctor, endpoint: Endpoint, many: str
) -> None:
    endpoint.reply = lambda number: fine() if number <= 100 else failing(401)(number)
    told = proctor("run", many, "--target", endpoint.target, "--concurrency", "8", "--json")
    assert (told.code, told.run["passed"], told.run["errors"]) == (3, 100, 0)
    assert endpoint.asked["target"] <= 100 + 8 + 5

    endpoint.reply = lambda _number: fine()
    before = endpoint.asked["target"]
    done = proctor(*continued(told), "--json")
    assert (done.code, done.run["passed"]) == (0, CASES)
    assert endpoint.asked["target"] - before == CASES - 100


def test_a_judge_whose_key_is_wrong_stops_the_run_and_answers_are_kept(
    proctor: Proctor, endpoint: Endpoint, suite: Proctor
) -> None:
    endpoint.judged = True
    endpoint.reply = failing(401)
    tests = [
        {"id": f"t{n}", "input": f"2 + 2? {n}", "expected": "4", "scorer": "llm_judge", "rubric": "It is 4."}
        for n in range(100)
    ]
    words = ("--target", endpoint.target, "--judge", endpoint.judge, "--concurrency", "8")
    told = proctor("run", suite(*tests), *words, "--json")
    assert told.code == 3
    assert endpoint.asked["judge"] <= 8 + 5
    assert "The judge 'openai:judge" in told.err
    assert (told.run["unscored"], told.run["errors"]) == (0, 0)
    answered = endpoint.asked["target"]

    endpoint.reply = lambda _number: web.json_response(
        {"choices": [{"message": {"content": '{"passed": true, "score": 1.0, "reason": "right"}'}}]}
    )
    done = proctor(*continued(told), "--json")
    assert done.run["status"] == "finished"
    assert done.run["total"] == 100
    assert endpoint.asked["target"] == 100
    assert answered > 0


def test_where_nobody_listens_the_run_stops(proctor: Proctor, endpoint: Endpoint, many: str) -> None:
    endpoint.close()
    told = proctor("run", many, "--target", endpoint.target, "--retries", "0", "--json")
    assert (told.code, told.run["errors"]) == (3, 0)
    assert told.run["stopped"].startswith("Every call failed, 5 times in a row: Cannot connect to http")
    assert "there? Check the URL" in told.run["stopped"]
    assert "Check the URL and that the server is running." in told.err


def test_an_unknown_host_stops_the_run(proctor: Proctor, many: str) -> None:
    told = proctor("run", many, "--target", "openai:m@http://nowhere.invalid/v1", "--retries", "0", "--json")
    assert (told.code, told.run["errors"]) == (3, 0)
    assert "nowhere.invalid" in told.run["stopped"]


@pytest.mark.parametrize("value", ["301", "86400", "99999999999", "9" * 400])
def test_a_wait_beyond_the_limit_stops_the_run(
    proctor: Proctor, endpoint: Endpoint, many: str, value: str
) -> None:
    endpoint.reply = failing(429, Retry_After=value)
    told = proctor("run", many, "--target", endpoint.target, "--concurrency", "8", "--json")
    assert (told.code, told.run["errors"]) == (3, 0)
    assert endpoint.asked["target"] <= 8
    assert "too long" in told.run["stopped"]


def test_max_failures_stops_the_run_and_the_errors_are_there(
    proctor: Proctor, endpoint: Endpoint, many: str
) -> None:
    endpoint.reply = lambda number: failing(400)(number) if number % 2 else fine()
    told = proctor(
        "run", many, "--target", endpoint.target, "--concurrency", "1", "--max-failures", "7", "--json"
    )
    assert told.code == 3
    assert 7 <= told.run["errors"] <= 8
    assert "the limit of --max-failures" in told.run["stopped"]
    assert endpoint.asked["target"] <= 7 * 2 + 2
    endpoint.reply = lambda _number: fine()
    done = proctor(*continued(told), "--json")
    assert done.run["status"] == "finished"
    assert done.run["errors"] == told.run["errors"]


def test_max_failures_can_stand_in_the_project_file(
    proctor: Proctor, endpoint: Endpoint, many: str, folder: Any
) -> None:
    (folder / "proctor.toml").write_text("max-failures = 3\n", encoding="utf-8")
    endpoint.reply = failing(400)
    told = proctor("run", many, "--target", endpoint.target, "--concurrency", "1", "--json")
    assert (told.code, told.run["errors"]) == (3, 3)


@pytest.mark.parametrize("headers", [False, True])
def test_a_server_of_100_requests_a_second_gets_as_many_and_every_trial_is_answered(
    proctor: Proctor, endpoint: Endpoint, many: str, headers: bool
) -> None:
    """A window slides over the last second; how long it takes is tested where the clock jumps."""
    answered = list[float]()

    def reply(_number: int) -> web.Response:
        answered[:] = [at for at in answered if at > monotonic() - 1]
        left = 100 - len(answered)
        told = (
            {"x-ratelimit-remaining-requests": str(left), "x-ratelimit-reset-requests": "1s"}
            if headers
            else {}
        )
        if left <= 0:
            return web.Response(status=429, headers={"Retry-After": "1", **told})
        answered.append(monotonic())
        response = fine()
        response.headers.update(told)
        return response

    endpoint.reply = reply
    told = proctor("run", many, "--target", endpoint.target, "--retries", "1", "--json")
    assert (told.code, told.run["passed"]) == (0, CASES)


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
    told = proctor(
        "run", tests, "--target", endpoint.target, "--budget-usd", "1000", "--store", "s.db", "--json",
        "-o", "all.jsonl",
    )  # fmt: skip
    assert told.code == 3
    assert 1 <= endpoint.asked["target"] <= 2  # each is charged its more than 500 tokens at a dollar each
    assert told.err.count("reports token counts that are not whole numbers") == 1
    assert '"usage":{"' not in (folder / "all.jsonl").read_text(encoding="utf-8").replace(" ", "")


def test_a_regrade_and_a_replay_stop_where_every_call_fails(
    proctor: Proctor, endpoint: Endpoint, suite: Proctor
) -> None:
    endpoint.reply = failing(401)
    judged = {"scorer": "llm_judge", "rubric": "It is 4."}
    tests = suite(*({"id": f"t{n}", "input": f"2 + 2? {n}", **judged} for n in range(50)))
    made = proctor("run", tests, "--target", "echo", "--judge", "echo", "--json")
    run = made.run["run"]
    assert proctor("regrade", run, "--judge", endpoint.target).code == 3
    assert proctor("attest", run, "--no-sign", "-o", "b.zip").code == 0
    replayed = proctor("replay", "b.zip", "--target", endpoint.target, "--judge", "echo")
    assert replayed.code == 3
    assert "Check the key." in replayed.err
    assert endpoint.asked["target"] <= 2 * (32 + 5)


def test_a_check_of_a_target_says_what_it_answers(proctor: Proctor, endpoint: Endpoint) -> None:
    endpoint.reply = failing(401)
    told = proctor("targets", "check", endpoint.target)
    assert told.code == 3
    assert "answered 401" in told.out
    assert endpoint.asked["target"] == 1

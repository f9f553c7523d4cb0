"""Calibration of judges on labelled answers: fair, biased and broken ones, over HTTP and scripted."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from proctor.calibration import (
    agreement,
    changed_share,
    consistency,
    find_biases,
    net_shift,
    sensitivity,
    specificity,
)
from proctor.engines.retries import RetryPolicy
from proctor.model import Params
from proctor.services import events
from proctor.services.judges.calibrate import CalibrationResult, JudgeCalibrator, prompt_variants
from proctor.services.judges.label_files import read_labels
from proctor.services.judges.labelled_answers import find_answers
from proctor.services.runs.execution.target_pool import TargetPool, load_prices
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.runs.reading.report import build_report, find_calibrations
from proctor.stores.sqlite.store import SqliteStore
from support.endpoints import serve_app
from support.sessions import MakeRuns
from support.waiting import PATIENCE_S

Judges = Callable[[str, str, int], bool | None]
"""A judge's verdict from the answer, the whole prompt and the seed; None for an unreadable one."""


def read_section(name: str, text: str) -> str:
    match = re.search(rf"<<<BEGIN {name} \w+>>>\n(.*?)\n<<<END {name}", text, re.DOTALL)
    return match[1] if match else ""


class HttpJudge:
    """An OpenAI-compatible server that judges with the function `judges`."""

    def __init__(self) -> None:
        self.word = ""
        self.judges: Judges = lambda answer, prompt, _seed: is_right(answer, prompt)
        self.requests: list[Any] = []

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body["messages"])
        text = body["messages"][1]["content"]
        verdict = self.judges(read_section("ANSWER", text), text, body.get("seed", 0))
        score = {True: 1.0, False: 0.0, None: "who knows"}[verdict]
        reply = json.dumps({"score": score, "assertions": [], "reasoning": "Looked at."})
        return web.json_response(
            {
                "model": "j",
                "choices": [{"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10},
            }
        )


def is_right(answer: str, prompt: str) -> bool:
    return read_section("REFERENCE", prompt).lower() in answer.lower()


@pytest.fixture
async def judge() -> AsyncIterator[HttpJudge]:
    server = HttpJudge()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.chat)
    async with serve_app(app) as url:
        server.word = f"openai:j@{url}/v1"
        yield server


CITIES = ("Oslo", "Riga", "Kyiv", "Lima", "Cairo", "Hanoi", "Quito", "Seoul", "Tunis", "Minsk")


def answers(**fields: Any) -> list[dict[str, Any]]:
    """A right and a wrong answer to each of ten questions."""
    rows = []
    for place, city in enumerate(CITIES):
        other = CITIES[place - 1]
        for word, label in ((city, "pass"), (other, "fail")):
            row = {"input": f"Which capital has number {place}?", "expected": city, "label": label}
            rows.append({**row, "output": f"I think it is {word}.", **fields})
    return rows


@pytest.fixture
def labels(folder: Path) -> Callable[..., str]:
    def write(rows: list[dict[str, Any]], name: str = "labels.jsonl") -> str:
        (folder / name).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return name

    return write


@pytest.fixture
def calibrate(
    store: SqliteStore, environ: dict[str, str], folder: Path
) -> Callable[..., Awaitable[CalibrationResult]]:
    async def run(word: str, path: str, run_id: str | None = None, repeats: int = 3) -> CalibrationResult:
        selection = find_answers(read_labels(path), store, run_id, environ)
        reach = TargetPool(
            environ,
            concurrency=8,
            retry_policy=RetryPolicy(timeout_s=PATIENCE_S, retries=0),
            prices=load_prices(environ, folder),
            notify=lambda _message: None,
        )
        try:
            calibrating = JudgeCalibrator(reach, TargetNames(environ).get_spec(word, Params()))
            return await calibrating.calibrate(selection.answers, repeats=repeats, workers=8)
        finally:
            await reach.aclose()

    return run


Calibrate = Callable[..., Awaitable[CalibrationResult]]
Write = Callable[..., str]


async def test_a_fair_judge_agrees_and_nothing_sways_it(
    judge: HttpJudge, labels: Write, calibrate: Calibrate
) -> None:
    result = await calibrate(judge.word, labels(answers()))
    calibration = result.calibration
    assert (agreement(calibration), calibration.kappa, calibration.unscored) == ((20, 20), 1.0, 0)
    assert (sensitivity(calibration), specificity(calibration), consistency(calibration)) == (
        (10, 10),
        (10, 10),
        (20, 20),
    )
    for sway in (calibration.position, calibration.length):
        assert sway is not None
        assert changed_share(sway) == (0, 20)
    assert [test.bias for test in find_biases(calibration).values()] == [None, None, None]
    assert result.differences == ()
    assert result.usage.calls == len(judge.requests) == 20 * len(prompt_variants(3)) == 100
    assert (result.usage.input_tokens, result.usage.output_tokens) == (10_000, 1_000)
    assert result.usage.cost_usd is None


@pytest.mark.parametrize(
    ("judges", "consistent", "shift", "position", "length"),
    [
        (
            lambda answer, prompt, _: (
                is_right(answer, prompt) or prompt.index("BEGIN ANSWER") < prompt.index("BEGIN REFERENCE")
            ),
            20,
            0.5,
            "pass",
            None,
        ),
        (lambda answer, prompt, _: is_right(answer, prompt) or len(answer) > 300, 20, 0.0, None, "pass"),
        (lambda answer, prompt, _: is_right(answer, prompt) and len(answer) < 300, 20, 0.0, None, "fail"),
        (
            lambda answer, prompt, seed: (
                is_right(answer, prompt)
                != (CITIES.index(read_section("REFERENCE", prompt)) < 4 and seed == 43)
            ),
            12,
            0.0,
            None,
            None,
        ),
    ],
    ids=["what is shown first", "what is long", "what is short", "what the seed says"],
)
async def test_a_judge_that_prefers_something_is_found_out_though_it_agrees_as_a_run_asks(
    judge: HttpJudge,
    labels: Write,
    calibrate: Calibrate,
    judges: Judges,
    consistent: int,
    shift: float,
    position: str | None,
    length: str | None,
) -> None:
    judge.judges = judges
    calibration = (await calibrate(judge.word, labels(answers()))).calibration
    assert (agreement(calibration), consistency(calibration)) == ((20, 20), (consistent, 20))
    assert calibration.position is not None
    assert net_shift(calibration.position).value == shift
    tests = find_biases(calibration)
    assert (tests["position"].bias, tests["length"].bias) == (position, length)
    if length == "pass":
        assert calibration.length_failed is not None
        assert (calibration.length_failed.to_pass, calibration.length_failed.count) == (10, 10)


async def test_replies_without_a_verdict_are_unscored_and_no_fail(
    judge: HttpJudge, labels: Write, calibrate: Calibrate
) -> None:
    judge.judges = lambda answer, prompt, _seed: None if "Oslo" in answer else is_right(answer, prompt)
    result = await calibrate(judge.word, labels(answers()))
    calibration = result.calibration
    assert (calibration.count, calibration.unscored, agreement(calibration)) == (18, 2, (18, 18))
    assert [(difference.verdict.value, difference.case_id) for difference in result.differences] == [
        ("unscored", "line-1"),
        ("unscored", "line-4"),
    ]
    assert "gave no readable verdict in 3 replies" in result.differences[0].reason


async def test_a_judge_that_does_not_answer_has_no_verdicts(labels: Write, calibrate: Calibrate) -> None:
    Path("none.jsonl").write_text('{"other": "YES"}', encoding="utf-8")
    result = await calibrate("scripted:none.jsonl", labels(answers()))
    assert (result.calibration.count, result.calibration.unscored) == (0, 20)
    assert result.usage.calls == 0


async def test_a_judge_is_not_asked_where_people_are_divided_or_nothing_was_answered(
    judge: HttpJudge, labels: Write, calibrate: Calibrate
) -> None:
    rows = answers(by="ana")
    rows.append({**rows[0], "by": "bo", "label": "fail"})
    rows.append({**rows[1], "by": "bo"})
    rows.append({**rows[2], "output": "", "label": "fail"})
    result = await calibrate(judge.word, labels(rows))
    calibration = result.calibration
    assert (calibration.count, result.tied, result.not_judged) == (19, 1, 1)
    assert (calibration.people_twice, calibration.people_agreed) == (2, 1)
    assert result.usage.calls == 19 * len(prompt_variants(3))


async def test_a_prompt_of_the_suites_own_has_no_other_order(
    judge: HttpJudge, labels: Write, calibrate: Calibrate, make: MakeRuns
) -> None:
    Path("own.eval.yaml").write_text(
        "tests:\n"
        "  - {id: a, input: 'Capital of Norway?', expected_output: Oslo, assertions: ["
        "{type: llm-grader, prompt: 'Is {{ output }} the same as {{ expected_output }}?'}]}\n",
        encoding="utf-8",
    )
    (run,) = await make("own.eval.yaml", "mock:Oslo", judges=(judge.word,))
    path = labels([{"case_id": "a", "label": "pass"}])
    calibration = (await calibrate(judge.word, path, run.run.id)).calibration
    assert calibration.position is None
    assert calibration.length is not None


RUBRICS = """
tests:
  - id: capital
    input: Capital of Norway?
    expected_output: Oslo
    criteria: Names the capital
    assertions:
      - {type: llm-grader}
      - {type: contains, value: never}
  - {id: plain, input: x, assertions: [{type: contains, value: never}]}
"""


@pytest.fixture
async def run(make: MakeRuns, judge: HttpJudge) -> events.RunFinished:
    Path("judged.eval.yaml").write_text(RUBRICS, encoding="utf-8")
    (result,) = await make("judged.eval.yaml", "mock:Oslo.", judges=(judge.word,))
    run_result: events.RunFinished = result
    return run_result


async def test_a_judge_is_asked_what_the_run_asked_it_and_only_its_own_assertions_count(
    judge: HttpJudge, labels: Write, calibrate: Calibrate, run: events.RunFinished, store: SqliteStore
) -> None:
    in_run = list(judge.requests)
    path = labels([{"case_id": "capital", "label": "pass"}, {"case_id": "plain", "label": "fail"}])
    selection = find_answers(read_labels(path), store, run.run.id, {})
    assert selection.unjudged == 1
    calibration = (await calibrate(judge.word, path, "last", repeats=1)).calibration
    assert (calibration.count, calibration.agreed) == (
        1,
        1,
    )  # `contains` fails the trial, and not the judge's part
    assert in_run[0] in judge.requests[len(in_run) :]
    assert set(calibration.prompts) == run.tally.judge_stats.prompts[judge.word]


@pytest.mark.parametrize(("draws", "for_doubt"), [(["doubt"], 1), (["doubt", "random"], 0), ([None], 0)])
async def test_answers_that_were_drawn_for_doubt_are_counted(
    judge: HttpJudge,
    labels: Write,
    calibrate: Calibrate,
    run: events.RunFinished,
    draws: list[str | None],
    for_doubt: int,
) -> None:
    line = {"case_id": "capital", "label": "pass"}
    path = labels([line | {"drawn": draw, "by": f"person {place}"} for place, draw in enumerate(draws)])
    calibration = (await calibrate(judge.word, path, "last", repeats=1)).calibration
    assert (calibration.count, calibration.for_doubt) == (1, for_doubt)


async def test_the_newest_calibration_stands_beside_the_numbers_of_the_judges_runs(
    judge: HttpJudge, labels: Write, calibrate: Calibrate, run: events.RunFinished, store: SqliteStore
) -> None:
    path = labels([{"case_id": "capital", "label": "pass"}])
    first = (await calibrate(judge.word, path, "last")).calibration
    assert build_report(store, run.run).calibrations == ()
    judge.judges = lambda *_: False
    second = (await calibrate(judge.word, path, "last")).calibration
    for calibration in (first, second):
        store.add_calibration(calibration)
    assert build_report(store, run.run).calibrations == (second,) == find_calibrations(store, run.run)
    assert (first.labels, first.judge, first.prompts) == (second.labels, second.judge, second.prompts)
    assert (first.agreed, second.agreed) == (1, 0)


async def test_other_labels_have_another_digest_and_their_order_is_nothing(
    judge: HttpJudge, labels: Write, calibrate: Calibrate
) -> None:
    rows = answers()[:3]
    digests = [
        (await calibrate(judge.word, labels(some), repeats=1)).calibration.labels
        for some in (rows, rows[::-1], [{**rows[0], "label": "fail"}, *rows[1:]], rows[:2])
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


async def test_items_of_a_list_are_shown_in_the_reverse_order_too(
    judge: HttpJudge, labels: Write, calibrate: Calibrate, make: MakeRuns
) -> None:
    Path("items.eval.yaml").write_text(
        "tests:\n  - id: a\n    input: Name a river.\n    assertions:\n      - type: rubrics\n"
        "        criteria: [{id: one, outcome: Names one}, {id: two, outcome: Is short}]\n",
        encoding="utf-8",
    )
    (result,) = await make("items.eval.yaml", "mock:Rhine", judges=(judge.word,))
    judge.requests.clear()
    await calibrate(judge.word, labels([{"case_id": "a", "label": "pass"}]), result.run.id, repeats=1)
    firsts = [messages[1]["content"] for messages in judge.requests if len(messages) == 2]
    reversed_prompts = [text for text in firsts if text.index("BEGIN ANSWER") < text.index("BEGIN MESSAGE")]
    assert (len(firsts), len(reversed_prompts)) == (3, 1)
    assert reversed_prompts[0].index("[two]") < reversed_prompts[0].index("[one]")
    assert all(text.index("[one]") < text.index("[two]") for text in firsts if text not in reversed_prompts)

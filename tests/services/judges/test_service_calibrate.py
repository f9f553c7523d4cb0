"""Judges asked about labelled answers: fair ones, swayed ones and broken ones, over HTTP and from scripts."""

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
"""What a judge says, by the answer, all that it is shown, and the seed; None for nothing clear."""


def piece(name: str, text: str) -> str:
    found = re.search(rf"<<<BEGIN {name} \w+>>>\n(.*?)\n<<<END {name}", text, re.DOTALL)
    return found[1] if found else ""


class HttpJudge:
    """An OpenAI-compatible server that judges as it is told to."""

    def __init__(self) -> None:
        self.word = ""
        self.judges: Judges = lambda answer, shown, _seed: is_right(answer, shown)
        self.asked: list[Any] = []

    async def chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body["messages"])
        text = body["messages"][1]["content"]
        said = self.judges(piece("ANSWER", text), text, body.get("seed", 0))
        score = {True: 1.0, False: 0.0, None: "who knows"}[said]
        reply = json.dumps({"score": score, "assertions": [], "reasoning": "Looked at."})
        return web.json_response(
            {
                "model": "j",
                "choices": [{"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 10},
            }
        )


def is_right(answer: str, shown: str) -> bool:
    return piece("REFERENCE", shown).lower() in answer.lower()


@pytest.fixture
async def judge() -> AsyncIterator[HttpJudge]:
    made = HttpJudge()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", made.chat)
    async with serve_app(app) as url:
        made.word = f"openai:j@{url}/v1"
        yield made


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
        found = find_answers(read_labels(path), store, run_id, environ)
        reach = TargetPool(
            environ,
            concurrency=8,
            retry_policy=RetryPolicy(timeout_s=PATIENCE_S, retries=0),
            prices=load_prices(environ, folder),
            notify=lambda _message: None,
        )
        try:
            calibrating = JudgeCalibrator(reach, TargetNames(environ).get_spec(word, Params()))
            return await calibrating.calibrate(found.answers, repeats=repeats, workers=8)
        finally:
            await reach.aclose()

    return run


Calibrate = Callable[..., Awaitable[CalibrationResult]]
Write = Callable[..., str]


async def test_a_fair_judge_agrees_and_nothing_sways_it(
    judge: HttpJudge, labels: Write, calibrate: Calibrate
) -> None:
    done = await calibrate(judge.word, labels(answers()))
    found = done.calibration
    assert (agreement(found), found.kappa, found.unscored) == ((20, 20), 1.0, 0)
    assert (sensitivity(found), specificity(found), consistency(found)) == ((10, 10), (10, 10), (20, 20))
    for sway in (found.position, found.length):
        assert sway is not None
        assert changed_share(sway) == (0, 20)
    assert [test.bias for test in find_biases(found).values()] == [None, None, None]
    assert done.differences == ()
    assert done.usage.calls == len(judge.asked) == 20 * len(prompt_variants(3)) == 100
    assert (done.usage.input_tokens, done.usage.output_tokens) == (10_000, 1_000)
    assert done.usage.cost_usd is None


@pytest.mark.parametrize(
    ("judges", "consistent", "shift", "position", "length"),
    [
        (
            lambda answer, shown, _: (
                is_right(answer, shown) or shown.index("BEGIN ANSWER") < shown.index("BEGIN REFERENCE")
            ),
            20,
            0.5,
            "pass",
            None,
        ),
        (lambda answer, shown, _: is_right(answer, shown) or len(answer) > 300, 20, 0.0, None, "pass"),
        (lambda answer, shown, _: is_right(answer, shown) and len(answer) < 300, 20, 0.0, None, "fail"),
        (
            lambda answer, shown, seed: (
                is_right(answer, shown) != (CITIES.index(piece("REFERENCE", shown)) < 4 and seed == 43)
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
    found = (await calibrate(judge.word, labels(answers()))).calibration
    assert (agreement(found), consistency(found)) == ((20, 20), (consistent, 20))
    assert found.position is not None
    assert net_shift(found.position).value == shift
    tests = find_biases(found)
    assert (tests["position"].bias, tests["length"].bias) == (position, length)
    if length == "pass":
        assert found.length_failed is not None
        assert (found.length_failed.to_pass, found.length_failed.count) == (10, 10)


async def test_replies_without_a_verdict_are_unscored_and_no_fail(
    judge: HttpJudge, labels: Write, calibrate: Calibrate
) -> None:
    judge.judges = lambda answer, shown, _seed: None if "Oslo" in answer else is_right(answer, shown)
    done = await calibrate(judge.word, labels(answers()))
    found = done.calibration
    assert (found.count, found.unscored, agreement(found)) == (18, 2, (18, 18))
    assert [(one.verdict.value, one.case_id) for one in done.differences] == [
        ("unscored", "line-1"),
        ("unscored", "line-4"),
    ]
    assert "gave no readable verdict in 3 replies" in done.differences[0].reason


async def test_a_judge_that_does_not_answer_has_no_verdicts(labels: Write, calibrate: Calibrate) -> None:
    Path("none.jsonl").write_text('{"other": "YES"}', encoding="utf-8")
    done = await calibrate("scripted:none.jsonl", labels(answers()))
    assert (done.calibration.count, done.calibration.unscored) == (0, 20)
    assert done.usage.calls == 0


async def test_a_judge_is_not_asked_where_people_are_divided_or_nothing_was_answered(
    judge: HttpJudge, labels: Write, calibrate: Calibrate
) -> None:
    rows = answers(by="ana")
    rows.append({**rows[0], "by": "bo", "label": "fail"})
    rows.append({**rows[1], "by": "bo"})
    rows.append({**rows[2], "output": "", "label": "fail"})
    done = await calibrate(judge.word, labels(rows))
    found = done.calibration
    assert (found.count, done.tied, done.not_judged) == (19, 1, 1)
    assert (found.people_twice, found.people_agreed) == (2, 1)
    assert done.usage.calls == 19 * len(prompt_variants(3))


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
    found = (await calibrate(judge.word, path, run.run.id)).calibration
    assert found.position is None
    assert found.length is not None


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
    (done,) = await make("judged.eval.yaml", "mock:Oslo.", judges=(judge.word,))
    made: events.RunFinished = done
    return made


async def test_a_judge_is_asked_what_the_run_asked_it_and_only_its_own_assertions_count(
    judge: HttpJudge, labels: Write, calibrate: Calibrate, run: events.RunFinished, store: SqliteStore
) -> None:
    in_run = list(judge.asked)
    path = labels([{"case_id": "capital", "label": "pass"}, {"case_id": "plain", "label": "fail"}])
    found_answers = find_answers(read_labels(path), store, run.run.id, {})
    assert found_answers.unjudged == 1
    found = (await calibrate(judge.word, path, "last", repeats=1)).calibration
    assert (found.count, found.agreed) == (1, 1)  # `contains` fails the trial, and not the judge's part
    assert in_run[0] in judge.asked[len(in_run) :]
    assert set(found.prompts) == run.tally.judge_stats.prompts[judge.word]


@pytest.mark.parametrize(("draws", "counted"), [(["doubt"], 1), (["doubt", "random"], 0), ([None], 0)])
async def test_answers_that_were_drawn_for_doubt_are_counted(
    judge: HttpJudge,
    labels: Write,
    calibrate: Calibrate,
    run: events.RunFinished,
    draws: list[str | None],
    counted: int,
) -> None:
    line = {"case_id": "capital", "label": "pass"}
    path = labels([line | {"drawn": draw, "by": f"person {place}"} for place, draw in enumerate(draws)])
    found = (await calibrate(judge.word, path, "last", repeats=1)).calibration
    assert (found.count, found.for_doubt) == (1, counted)


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
    (done,) = await make("items.eval.yaml", "mock:Rhine", judges=(judge.word,))
    judge.asked.clear()
    await calibrate(judge.word, labels([{"case_id": "a", "label": "pass"}]), done.run.id, repeats=1)
    firsts = [messages[1]["content"] for messages in judge.asked if len(messages) == 2]
    turned = [text for text in firsts if text.index("BEGIN ANSWER") < text.index("BEGIN MESSAGE")]
    assert (len(firsts), len(turned)) == (3, 1)
    assert turned[0].index("[two]") < turned[0].index("[one]")
    assert all(text.index("[one]") < text.index("[two]") for text in firsts if text not in turned)

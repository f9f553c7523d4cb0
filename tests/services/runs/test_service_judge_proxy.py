"""Programs that grade with the help of a judge: requests, costs and failures."""

from __future__ import annotations

import json
import textwrap
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from proctor.model import Score, Settings
from proctor.services import events
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteModule
from support.waiting import PATIENCE_S

CLIENT = '''
import json, os, socket

def ask(path, body=None, token=None, who="PROCTOR_PROXY", data=None):
    """Returns the status and the JSON of the reply."""
    token = os.environ[who + "_TOKEN"] if token is None else token
    data = json.dumps(body).encode() if body is not None else data
    place = os.environ[who + "_URL"].removeprefix("http://")
    head = [f"{'GET' if data is None else 'POST'} {path} HTTP/1.0", f"Host: {place}"]
    head += [f"Authorization: Bearer {token}"] if token else []
    head += [f"Content-Length: {len(data)}"] if data is not None else []
    with socket.create_connection(place.split(":"), timeout=300) as line:
        line.sendall("\\r\\n".join([*head, "", ""]).encode() + (data or b""))
        reply = line.makefile("rb").read()
    head, _, text = reply.partition(b"\\r\\n\\r\\n")
    return int(head.split()[1]), json.loads(text)

def report(*values, score=1):
    print(json.dumps({"score": score, "details": {"values": values}}))
'''

PAID = {"text": "YES", "usage": {"input_tokens": 9, "output_tokens": 1}, "cost_usd": 0.25}


class GradedRun:
    """The result of one run with one program."""

    def __init__(self, result: events.RunFinished, scores: Sequence[Score]) -> None:
        self.tally = result.tally
        self.run = result.run
        self.scores = scores
        self.score = scores[0]

    @property
    def values(self) -> Any:
        return self.score.details["values"]


Grade = Callable[..., Awaitable[GradedRun]]


@pytest.fixture
def grade(make: MakeRuns, folder: Path, store: SqliteStore) -> Grade:
    """Runs one case that a program grades; its answer and the judge's are scripted."""

    async def run(
        program: str,
        *,
        judge: Any = PAID,
        target: str = "true",
        judge_word: str = "scripted:judge.jsonl",
        more: str = "",
        checks: int = 1,
        **fields: Any,
    ) -> GradedRun:
        grader = f"type: code-grader, command: [python, ask.py], target: {target}{more}"
        graders = ", ".join(f"{{{grader}, name: g{number}}}" for number in range(checks))
        (folder / "s.eval.yaml").write_text(
            f"tests: [{{id: salt, criteria: x, input: Why?, assertions: [{graders}]}}]", encoding="utf-8"
        )
        (folder / "ask.py").write_text(CLIENT + textwrap.dedent(program), encoding="utf-8")
        answer = {"text": "Rivers.", "cost_usd": 1.0}
        (folder / "answers.jsonl").write_text(json.dumps({"*": answer}), encoding="utf-8")
        (folder / "judge.jsonl").write_text(json.dumps({"salt": judge}), encoding="utf-8")
        judges = tuple(judge_word.split())
        (result,) = await make("s.eval.yaml", "scripted:answers.jsonl", judges=judges, **fields)
        (trial,) = [stored_trial.trial for stored_trial in store.trials(result.run.id)]
        return GradedRun(result, trial.scores)

    return run


async def test_a_program_asks_the_judge_and_that_counts_as_judging(grade: Grade) -> None:
    graded = await grade(
        """
        status, reply = ask("/invoke", {"question": "Salty?", "evalCaseId": "another"})
        report(status, reply, score=1 if reply["rawText"] == "YES" else 0)
        """
    )
    assert graded.score.outcome.value == "pass"
    status, reply = graded.values
    assert status == 200
    assert reply["output"] == [{"role": "assistant", "content": "YES"}]
    assert reply["tokenUsage"] == {"input": 9, "output": 1, "cached": 0}
    (judgment,) = graded.score.judgments
    assert (judgment.judge, judgment.raw, judgment.nth) == ("scripted:judge.jsonl", "YES", 0)
    assert (graded.tally.judge_usage.calls, graded.tally.judge_usage.input_tokens) == (1, 9)
    assert (graded.tally.target_usage.cost_usd, graded.tally.judge_usage.cost_usd) == (1.0, 0.25)


async def test_the_names_of_agentv_work_and_nulls_mean_nothing(grade: Grade) -> None:
    graded = await grade(
        """
        empty = {"systemPrompt": None, "target": None, "evalCaseId": None, "attempt": None}
        report(*ask("/invoke", {"question": "Salty?", **empty}, who="AGENTV_TARGET_PROXY"))
        """
    )
    assert [graded.values[0], graded.values[1]["rawText"]] == [200, "YES"]


async def test_a_system_prompt_goes_before_the_question(grade: Grade, module: WriteModule) -> None:
    name = module("def f(prompt):\n    return repr([message['content'] for message in prompt])\n")
    graded = await grade(
        'report(*ask("/invoke", {"question": "Salty?", "systemPrompt": "Be strict."}))',
        judge_word=f"function:{name}:f",
    )
    assert graded.values[1]["rawText"] == "['Be strict.', 'Salty?']"


async def test_each_attempt_gets_an_answer_of_its_own_and_a_batch_keeps_its_order(grade: Grade) -> None:
    graded = await grade(
        """
        requests = [{"question": "Salty?", "attempt": attempt} for attempt in (2, 0, 1)]
        status, reply = ask("/invokeBatch", {"requests": requests})
        report(status, [answer["rawText"] for answer in reply["responses"]])
        """,
        judge=["a", "b", "c"],
    )
    assert graded.values == [200, ["c", "a", "b"]]
    assert [judgment.nth for judgment in graded.score.judgments] == [0, 1, 2]


async def test_after_max_calls_nobody_is_asked(grade: Grade) -> None:
    graded = await grade(
        """
        two = {"requests": [{"question": "Salty?"}] * 2}
        report(*[ask(*request)[0] for request in [("/invoke", {"question": "a"}), ("/invokeBatch", two),
            ("/invoke", {"question": "b"}), ("/invoke", {"question": "c"})]], ask("/info")[1],
            ask("/invoke", {"question": "d"})[1]["error"])
        """,
        target="{max_calls: 2}",
    )
    assert graded.values[:4] == [200, 429, 200, 429]
    judge = "scripted:judge.jsonl"
    assert graded.values[4] == {
        "targetName": judge,
        "maxCalls": 2,
        "callCount": 2,
        "availableTargets": [judge],
    }
    assert "`max_calls`" in graded.values[5]
    assert len(graded.score.judgments) == 2


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        ('"/invoke", {"question": "a"}, token=""', 401, "token"),
        ('"/invoke", {"question": "a"}, token="wrong"', 401, "token"),
        ('"/nothing", token="wrong"', 401, "token"),
        ('"/invoke", {"question": "a"}, token="\\xff"', 401, "token"),
        ('"/nothing"', 404, "/invokeBatch"),
        ('"/invoke"', 404, "/invokeBatch"),
        ('"/invoke", {"question": ""}', 400, "question"),
        ('"/invoke", {"question": 7}', 400, "question"),
        ('"/invoke", {"question": "a", "attempt": -1}', 400, "attempt"),
        ('"/invoke", {"question": "a", "target": "nobody"}', 400, "scripted:judge.jsonl"),
        ('"/invoke", data=b"{"', 400, "not valid"),
        ('"/invoke", data=b"\\xff"', 400, "not valid"),
        ('"/invokeBatch", {"question": "a"}', 400, "requests"),
        ('"/invoke", {"question": "a" * 1100000}', 413, "1 MiB"),
    ],
)
async def test_what_is_refused_costs_nothing_and_says_why(
    grade: Grade, request_: str, status: int, says: str
) -> None:
    graded = await grade(f"report(*ask({request_}), ask('/info')[1]['callCount'])")
    assert (graded.values[0], graded.values[2], graded.score.judgments) == (status, 0, ())
    assert says in graded.values[1]["error"]
    assert graded.values[1]["error"].endswith(".")


async def test_what_a_program_asked_is_counted_though_it_failed(grade: Grade) -> None:
    graded = await grade('ask("/invoke", {"question": "Salty?"}); sys.exit("lost")')
    assert (graded.score.outcome.value, graded.tally.judge_usage.cost_usd) == ("unscored", 0.25)
    assert [judgment.raw for judgment in graded.score.judgments] == ["YES"]


async def test_a_judge_that_does_not_answer_is_an_error_with_its_reason(
    grade: Grade, module: WriteModule
) -> None:
    name = module("def f(prompt):\n    raise ValueError('the sea is closed')\n")
    graded = await grade(
        'report(*ask("/invokeBatch", {"requests": [{"question": "Salty?"}] * 2}))',
        judge_word=f"function:{name}:f",
    )
    status, reply = graded.values
    assert (status, graded.score.judgments) == (502, ())
    assert reply["error"].startswith("The judge 'function:")
    assert "the sea is closed" in reply["error"]


async def test_without_a_judge_the_answered_target_is_asked_and_a_warning_says_so(
    grade: Grade, session_events: list[events.Event]
) -> None:
    graded = await grade('report(*ask("/invoke", {"question": "Salty?"}))', judge_word="")
    assert graded.values[1]["rawText"] == "Rivers."
    assert any(
        "judges its own answers" in event.message
        for event in session_events
        if isinstance(event, events.WarningMessage)
    )


async def test_the_suite_may_name_the_judge(grade: Grade, folder: Path) -> None:
    (folder / "other.jsonl").write_text('{"salt": "of its own"}', encoding="utf-8")
    graded = await grade(
        'report(ask("/info")[1]["availableTargets"], *ask("/invoke", {"question": "Salty?"}))',
        target="{judge: 'scripted:other.jsonl'}",
        judge_word="",
    )
    assert graded.values[0] == ["scripted:other.jsonl", "scripted:answers.jsonl"]
    assert graded.values[2]["rawText"] == "of its own"


async def test_without_target_a_program_gets_no_way_to_ask(grade: Grade) -> None:
    graded = await grade("report(*[name for name in os.environ if 'PROXY' in name])", target="false")
    assert graded.values == []


async def test_after_the_run_nothing_listens(grade: Grade) -> None:
    graded = await grade('report(os.environ["PROCTOR_PROXY_URL"], ask("/info")[0])')
    url, status = graded.values
    assert url.startswith("http://127.0.0.1:")
    assert status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url + "/info", timeout=PATIENCE_S)


async def test_a_token_is_worth_nothing_once_its_grading_has_ended(grade: Grade) -> None:
    graded = await grade(
        """
        old = open("token").read() if os.path.exists("token") else None
        open("token", "w").write(os.environ["PROCTOR_PROXY_TOKEN"])
        report(ask("/info")[0], ask("/info", token=old)[0])
        """,
        checks=2,
    )
    assert [score.details["values"] for score in graded.scores] == [[200, 200], [200, 401]]


@pytest.mark.slow
async def test_what_a_late_program_still_asks_is_given_up(grade: Grade, module: WriteModule) -> None:
    name = module("import asyncio\nasync def f(prompt):\n    await asyncio.sleep(60)\n")
    graded = await grade(
        'ask("/invokeBatch", {"requests": [{"question": "a"}] * 3})',
        judge_word=f"function:{name}:f",
        more=", timeout_seconds: 0.5",
    )
    assert (graded.score.outcome.value, graded.score.judgments) == ("unscored", ())
    assert graded.run.status == "finished"


async def test_the_budget_of_the_run_holds_for_what_programs_ask(grade: Grade, folder: Path) -> None:
    names = ("scripted:answers.jsonl", "scripted:judge.jsonl")
    prices = "".join(f'[models."{name}"]\ninput = 1\noutput = 1\ndate = "2026-01-01"\n' for name in names)
    (folder / "prices.toml").write_text(prices, encoding="utf-8")
    graded = await grade(
        'report(*[ask("/invoke", {"question": "Salty?"}) for _ in range(4)])',
        settings=Settings(budget_usd=1.4),
    )
    assert [status for status, _ in graded.values] == [200, 200, 502, 502]
    assert "budget" in graded.values[2][1]["error"]
    assert graded.tally.judge_usage.cost_usd == 0.5

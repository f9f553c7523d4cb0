"""A soak finds what it looks for: each test breaks one thing between two operations."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event
from urllib.request import Request, urlopen

import pytest
from aiohttp import ClientError, ClientSession

from support.waiting import wait_until

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.soak import progress
from tools.soak_parts import commands
from tools.soak_parts.commands import DISTURBANCES, NO_DISTURBANCE
from tools.soak_parts.endpoint import CALM, Call, Endpoint, Mood
from tools.soak_parts.ledger import doubled_calls, lost_answers
from tools.soak_parts.operations import Chapter
from tools.soak_parts.questions import FIRST_SEED, answer_to, prompt_for
from tools.soak_parts.tricks import TRICKS
from tools.soak_parts.worker import Plan, Totals, Worker

pytestmark = pytest.mark.slow

UNDISTURBED = ((1, NO_DISTURBANCE),)


@pytest.fixture
def soak(tmp_path: Path) -> Callable[..., tuple[Totals, list[str]]]:
    """Works until the first fault, or for so many operations; returns the totals and the report."""

    def work(plan: Plan, *, operations: int = 30) -> tuple[Totals, list[str]]:
        totals, stopped, reports, endpoint = Totals(), Event(), list[str](), Endpoint(plan.seed)

        def report(text: str) -> None:
            reports.append(text)
            stopped.set()

        def between(chapter: Chapter) -> None:
            plan.between(chapter)
            if totals.operations.total() >= operations:
                stopped.set()

        endpoint.start()
        try:
            Worker(0, replace(plan, between=between), endpoint, totals, report).work(stopped)
        finally:
            endpoint.stop()
        return totals, reports

    return work


def _once(breaking: Callable[[Chapter], None]) -> Callable[[Chapter], None]:
    """Breaks something as soon as there is an acknowledged trial with an output."""
    broken = Event()

    def between(chapter: Chapter) -> None:
        if not broken.is_set() and any(row.output for row in chapter.ledger.snapshot()):
            broken.set()
            breaking(chapter)

    return between


def _change(chapter: Chapter, statement: str) -> None:
    with closing(sqlite3.connect(chapter.site.store, isolation_level=None)) as db:
        db.execute(statement)


def test_a_committed_row_that_is_gone_is_lost(
    soak: Callable[..., tuple[Totals, list[str]]], tmp_path: Path
) -> None:
    def delete(chapter: Chapter) -> None:
        _change(chapter, "DELETE FROM trials WHERE rowid = (SELECT max(rowid) FROM trials)")

    totals, (report, *_) = soak(Plan(7, tmp_path, UNDISTURBED, between=_once(delete)))
    assert "  lost 1  doubled 0  hung 0" in progress(totals)
    assert "was committed and is gone" in report
    assert "seed 7" in report
    assert "$ python -m proctor " in report
    assert (tmp_path / "w0" / "c0" / "store.db").exists()


def test_an_answer_that_is_asked_for_again_is_doubled(
    soak: Callable[..., tuple[Totals, list[str]]], tmp_path: Path
) -> None:
    def ask_again(chapter: Chapter) -> None:
        label, (token, repeat) = next(
            (label, trial) for label in chapter.repeats for trial in chapter.ledger.outputs(label)
        )
        chapter.endpoint.moods[label] = CALM
        body = {"model": label, "messages": [{"content": prompt_for(token)}], "seed": FIRST_SEED + repeat}
        url = f"{chapter.endpoint.url}/chat/completions"
        with urlopen(Request(url, json.dumps(body).encode())) as reply:
            reply.read()

    totals, (report, *_) = soak(Plan(7, tmp_path, UNDISTURBED, between=_once(ask_again)))
    assert "  lost 0  doubled 1  hung 0  wrong 0  " in progress(totals)
    assert "had its answer and was sent 1 times more" in report


def test_a_call_after_a_broken_answer_is_no_double_and_one_after_a_delivered_answer_is() -> None:
    broken, unknown = Call("s1-1", 0, 1.0, "broken", 1.0), Call("s1-1", 0, 2.0, "unknown", 2.0)
    delivered = Call("s1-1", 0, 3.0, "delivered", 3.0)
    assert list(doubled_calls([broken, unknown, delivered], set())) == []
    assert list(lost_answers([broken, unknown], [])) == []
    assert [fault.kind for fault in lost_answers([delivered], [])] == ["lost"]
    for again in (broken, unknown, delivered):
        (fault,) = doubled_calls([delivered, again], set())
        assert fault.text == "trial s1-1/0 had its answer and was sent 1 times more"
        assert [fault.kind for fault in doubled_calls([again], {("s1-1", 0)})] == ["doubled"]


@pytest.mark.parametrize("trick", sorted(TRICKS.keys() - {"hang"}))
async def test_what_the_endpoint_calls_delivered_is_a_whole_answer(trick: str) -> None:
    endpoint = Endpoint(3)
    endpoint.moods["w0c0r1"] = Mood("only", 1.0, (trick,))
    endpoint.start()
    body = {"model": "w0c0r1", "messages": [{"content": prompt_for("s1-1")}], "seed": FIRST_SEED}
    answer = ""
    try:
        async with ClientSession() as client:
            with suppress(ClientError, OSError, ValueError):
                reply = await client.post(f"{endpoint.url}/chat/completions", json=body)
                answer = json.loads(await reply.read())["choices"][0]["message"]["content"]
            await asyncio.to_thread(wait_until, lambda: endpoint.calls["w0c0r1"][0].ended_at)
    finally:
        endpoint.stop()
    (call,) = endpoint.calls["w0c0r1"]
    if call.outcome != "unknown":
        assert (answer == answer_to("s1-1", 0)) is call.is_delivered
    assert endpoint.tricks == {trick: 1}


def test_a_row_that_changes_is_wrong(soak: Callable[..., tuple[Totals, list[str]]], tmp_path: Path) -> None:
    def turn(chapter: Chapter) -> None:
        _change(chapter, "UPDATE trials SET verdict = 'error' WHERE rowid = (SELECT max(rowid) FROM trials)")

    totals, (report, *_) = soak(Plan(7, tmp_path, UNDISTURBED, between=_once(turn)))
    assert totals.faults["wrong"] > 0
    assert "has other content now" in report


def test_a_command_that_does_not_end_is_hung(
    soak: Callable[..., tuple[Totals, list[str]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "MAX_UNDISTURBED_S", 0.0)
    totals, (report, *_) = soak(Plan(7, tmp_path, UNDISTURBED))
    assert "  hung 1  " in progress(totals)
    assert "  hung: python -m proctor " in report


def test_kills_are_no_faults(soak: Callable[..., tuple[Totals, list[str]]], tmp_path: Path) -> None:
    kills = tuple(row for row in DISTURBANCES if row[1].name in {"none", "kill"})
    totals, reports = soak(Plan(7, tmp_path, kills), operations=8)
    assert reports == []
    assert totals.operations.total() >= 8
    assert totals.rows > 0

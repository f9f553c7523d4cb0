"""Command lines that run once for all cases and print a record for each."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from proctor.errors import TargetError
from proctor.model import Message, Output
from proctor.targets.process.cli import CliTarget, open_target
from support.builders import make_prompt, make_spec
from support.processes import is_alive
from support.waiting import wait_until

Make = Callable[..., Any]
Batch = Callable[..., AbstractAsyncContextManager[CliTarget]]
PATH_ONLY = {"PATH": os.environ["PATH"]}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the lines are those of a POSIX shell")


@pytest.fixture
def batch(opening: Make) -> Batch:
    """Opens a target that runs its line once; closed at the end."""

    @asynccontextmanager
    async def open_batch(line: str, **options: Any) -> AsyncIterator[CliTarget]:
        spec = make_spec("cli", line, options={"provider_batching": True, **options})
        target = await open_target(spec, opening(**PATH_ONLY))
        try:
            yield target
        finally:
            await target.aclose()

    return open_batch


def printing(*records: Any) -> str:
    """A line that notes each of its runs and prints records."""
    lines = "\n".join(record if isinstance(record, str) else json.dumps(record) for record in records)
    return f"echo {{EVAL_ID}} {{ATTEMPT}} >> runs; cat <<'END'\n{lines}\nEND"


async def answers(target: CliTarget, *ids: str, **of_prompt: Any) -> list[Output | BaseException]:
    calls = [target.answer(make_prompt("well?", case_id=case_id, **of_prompt)) for case_id in ids]
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_one_process_answers_all_cases_by_their_ids(batch: Batch, tmp_path: Path) -> None:
    message = {"role": "assistant", "content": "zwei", "tool_calls": [{"tool": "look"}]}
    line = printing(
        {"id": "b", "output": [message], "cost_usd": 0.5, "duration_ms": 7},
        {"id": "a", "text": "eins"},
        "",
        {"id": "not asked", "text": "x"},
    )
    started = perf_counter()
    async with batch(line, cwd=str(tmp_path)) as target:
        first, second = await answers(target, "a", "b")
        took_ms = (perf_counter() - started) * 1000
        (again,) = await answers(target, "a")
    assert isinstance(first, Output)
    assert isinstance(second, Output)
    assert first == again
    assert (first.text, first.cost_usd) == ("eins", None)
    assert 0 < first.latency_ms <= took_ms / 3  # its share of what three records took
    assert (second.text, second.cost_usd, second.duration_ms) == ("zwei", 0.5, 7)
    assert [call.name for call in second.tool_calls] == ["look"]
    assert second.messages[0] == Message(role="assistant", content="zwei", tool_calls=second.tool_calls)
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "batch 0\n"


async def test_each_repeat_is_a_process_of_its_own(batch: Batch, tmp_path: Path) -> None:
    async with batch(printing({"id": "a", "text": "eins"}), cwd=str(tmp_path)) as target:
        for repeat in (0, 1, 1):
            await answers(target, "a", repeat=repeat)
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "batch 0\nbatch 1\n"


async def test_a_case_without_a_record_has_no_answer(batch: Batch, tmp_path: Path) -> None:
    async with batch(printing({"id": "a", "text": "eins"}), cwd=str(tmp_path)) as target:
        first, second = await answers(target, "a", "b")
    assert isinstance(first, Output)
    assert isinstance(second, TargetError)
    assert (second.kind, str(second)) == ("protocol", "The program printed no record with the id 'b'.")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("not json", "line 2 is not JSON"),
        ([1], "line 2 is not an object with a text `id`"),
        ({"text": "eins"}, "line 2 is not an object with a text `id`"),
        ({"id": 7, "text": "eins"}, "line 2 is not an object with a text `id`"),
        ({"id": "a", "text": "uno"}, "line 2 has the id 'a' of an earlier line"),
    ],
)
async def test_a_batch_that_cannot_be_read_fails_all_its_cases_and_is_not_repeated(
    batch: Batch, tmp_path: Path, record: Any, message: str
) -> None:
    async with batch(printing({"id": "a", "text": "eins"}, record), cwd=str(tmp_path)) as target:
        failed = await answers(target, "a", "b")
        failed += await answers(target, "a")
    assert [type(error) for error in failed] == [TargetError] * 3
    assert message in str(failed[0])
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "batch 0\n"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"cost_usd": 1}, "The record with the id 'a' has neither `output` nor `text`."),
        ({"output": [{"role": "assistant", "tool_calls": [{}]}]}, "it has no name under `tool`"),
    ],
)
async def test_a_wrong_record_fails_only_its_own_case(
    batch: Batch, tmp_path: Path, record: dict[str, Any], message: str
) -> None:
    line = printing({"id": "a", **record}, {"id": "b", "text": "zwei"})
    async with batch(line, cwd=str(tmp_path)) as target:
        failed, fine = await answers(target, "a", "b")
    assert isinstance(fine, Output)
    assert message in str(failed)


async def test_a_cancelled_caller_does_not_end_the_process_of_the_others(
    batch: Batch, tmp_path: Path
) -> None:
    line = printing({"id": "a", "text": "eins"}).replace(
        "cat", "until [ -e go ]; do sleep 0.01; done; cat", 1
    )
    async with batch(line, cwd=str(tmp_path)) as target:
        first = asyncio.ensure_future(target.answer(make_prompt("well?", case_id="a")))
        await asyncio.to_thread(wait_until, (tmp_path / "runs").exists)
        first.cancel()
        other = asyncio.ensure_future(target.answer(make_prompt("well?", case_id="a")))
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        assert (await other).text == "eins"
    assert first.cancelled()
    assert (tmp_path / "runs").read_text(encoding="utf-8") == "batch 0\n"


async def test_closing_ends_the_process(batch: Batch, tmp_path: Path) -> None:
    async with batch("echo $$ > pid; exec sleep 3600", cwd=str(tmp_path)) as target:
        call = asyncio.ensure_future(target.answer(make_prompt("well?", case_id="a")))
        await asyncio.to_thread(wait_until, lambda: _text(tmp_path / "pid"))
        call.cancel()
    pid = int(_text(tmp_path / "pid"))
    await asyncio.to_thread(wait_until, lambda: not is_alive(pid))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""

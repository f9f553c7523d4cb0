"""Recordings as targets."""

from __future__ import annotations

import tracemalloc
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.errors import TargetError, UsageError
from proctor.model import Output, Prompt, Usage
from proctor.targets.context import TargetContext
from proctor.targets.replay import ReplayTarget, open_target
from support.builders import make_spec, write_lines


async def _open(path: Path) -> ReplayTarget:
    return await open_target(make_spec("replay", str(path)), TargetContext({}))


async def _answers(path: Path, *keys: tuple[str, int]) -> list[Output]:
    async with aclosing(await _open(path)) as target:
        return [await target.answer(Prompt(messages=(), case_id=case_id, repeat=r)) for case_id, r in keys]


async def _error(path: Path, case_id: str, repeat: int = 0) -> TargetError:
    with pytest.raises(TargetError) as caught:
        await _answers(path, (case_id, repeat))
    return caught.value


async def test_outputs_are_found_by_case_in_any_order(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r", {"case_id": "a", "output": "A"}, {"id": "b", "output": {"text": "B"}})
    assert [output.text for output in await _answers(path, ("b", 0), ("a", 0), ("b", 0))] == ["B", "A", "B"]


async def test_what_was_recorded_of_an_output_is_kept(tmp_path: Path) -> None:
    output = {"text": "B", "model": "m-1", "usage": {"input_tokens": 5}, "latency_ms": 12.5, "cost_usd": 0.25}
    path = write_lines(
        tmp_path / "r", {"case_id": "a", "output": output, "latency_ms": 99.0, "cost_usd": 9.0}
    )
    recorded_output = Output(
        text="B", model="m-1", usage=Usage(input_tokens=5), latency_ms=12.5, cost_usd=0.25
    )
    assert await _answers(path, ("a", 0)) == [recorded_output]


async def test_an_exported_trial_carries_usage_latency_and_cost_beside_its_output(tmp_path: Path) -> None:
    fields = {"run": "r1", "target": "echo", "repeat": 0, "verdict": "pass", "scores": [], "failure": None}
    figures = {"latency_ms": 12.5, "usage": {"input_tokens": 5, "output_tokens": 2}, "cost_usd": 0.25}
    row = {"case_id": "a", "output": {"text": "B"}, **fields, **figures}
    (output,) = await _answers(write_lines(tmp_path / "r", row), ("a", 0))
    assert output.usage == Usage(input_tokens=5, output_tokens=2)
    assert (output.latency_ms, output.cost_usd) == (12.5, 0.25)


async def test_repeats_are_their_own_outputs(tmp_path: Path) -> None:
    rows = [{"id": "a", "repeat": 1, "output": "second"}, {"id": "a", "repeat": 0, "output": "first"}]
    path = write_lines(tmp_path / "r", *rows, {"id": "b", "output": "one"}, {"id": "b", "output": "two"})
    outputs = await _answers(path, ("a", 0), ("a", 1), ("b", 0), ("b", 1))
    assert [output.text for output in outputs] == ["first", "second", "one", "two"]
    assert "'b', repeat 2" in str(await _error(path, "b", 2))


async def test_a_missing_case_is_an_error_that_asking_again_does_not_help(tmp_path: Path) -> None:
    error = await _error(write_lines(tmp_path / "r", {"id": "a", "output": "A"}), "z")
    assert (error.kind, error.transient) == ("missing", False)
    assert "'z'" in str(error)


async def test_a_recorded_failure_is_a_failure_with_the_same_words(tmp_path: Path) -> None:
    failure = {"stage": "target", "kind": "timeout", "message": "No answer within 5 s."}
    path = write_lines(tmp_path / "r", {"id": "a", "output": None, "failure": failure}, {"id": "b"})
    assert "No answer within 5 s." in str(await _error(path, "a"))
    assert (await _error(path, "b")).kind == "missing"


async def test_a_sealed_trial_says_how_to_export_what_can_be_replayed(tmp_path: Path) -> None:
    failure = {"stage": "target", "kind": "timeout", "message": "sealed"}
    rows = [{"case_id": name, "output": None, "sealed": True, "failure": failure} for name in "ab"]
    path = write_lines(tmp_path / "r", rows[0], {**rows[1], "failure": None})
    for case_id in "ab":
        error = await _error(path, case_id)
        assert error.kind == "missing"
        assert "is hidden" in str(error)
        assert "--reveal" in str(error)


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"output": "x"}',
        '{"id": "a", "output": 4}',
        '{"id": "a", "output": {"txt": "4"}}',
        '{"id": "ok", "repeat": 0, "output": "again"}',
    ],
)
async def test_what_is_no_recording_is_a_usage_error_with_its_line(tmp_path: Path, line: str) -> None:
    path = write_lines(tmp_path / "r", {"id": "ok", "output": "x"}, "", line)
    with pytest.raises(UsageError, match=r"r:3:"):
        await _open(path)


async def test_a_missing_recording_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nowhere"):
        await _open(Path("nowhere.jsonl"))


@pytest.mark.slow
async def test_a_long_recording_is_not_held_in_memory(tmp_path: Path) -> None:
    rows = ({"id": f"case-{number}", "output": "x" * 10_000} for number in range(2000))
    path = write_lines(tmp_path / "r", *rows)
    tracemalloc.start()
    target = await _open(path)
    byte_count = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    output = await target.answer(Prompt(messages=(), case_id="case-1999"))
    await target.aclose()
    assert len(output.text) == 10_000
    assert byte_count < 2_000_000


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    st.dictionaries(st.text(max_size=8), st.lists(st.text(max_size=30), min_size=1, max_size=3), max_size=5)
)
async def test_written_answers_are_read_back(tmp_path: Path, recorded: dict[str, list[str]]) -> None:
    rows = [
        {"case_id": case_id, "repeat": repeat, "output": {"text": text}}
        for case_id, texts in recorded.items()
        for repeat, text in enumerate(texts)
    ]
    path = write_lines(tmp_path / "r", *rows)
    keys = [(row["case_id"], row["repeat"]) for row in rows]
    outputs = await _answers(path, *keys)  # type: ignore[arg-type]  # a row's values are of several types
    assert [output.text for output in outputs] == [text for texts in recorded.values() for text in texts]

"""Runs to JSON Lines, which can be answered from again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proctor.codec import encode
from proctor.errors import TargetError
from proctor.model import Prompt, TargetSpec
from proctor.reports.runs.jsonl import render
from proctor.reports.runs.serialize import RunReport, trial_record
from proctor.targets import TARGETS
from proctor.targets.context import TargetContext
from support.golden import assert_golden
from support.records import plain


def test_the_file_is_its_golden_file(mixed_report: RunReport) -> None:
    assert_golden(Path(__file__).parent / "golden" / "mixed.jsonl", "".join(render([mixed_report])))


def test_every_piece_is_one_trial_on_one_line(mixed_report: RunReport) -> None:
    pieces = list(render([mixed_report, mixed_report]))
    assert all(piece.count("\n") == 1 and piece.endswith("\n") for piece in pieces)
    rows = [plain(trial_record(mixed_report.run, row)) for row in mixed_report.rows()]
    assert encode([json.loads(piece) for piece in pieces]) == encode(rows * 2)


async def test_an_exported_run_answers_for_its_target(mixed_report: RunReport, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(render([mixed_report])), encoding="utf-8")
    spec = TargetSpec(name=f"replay:{path}", kind="replay", model=str(path))
    target = await TARGETS.get("replay").open_target(spec, TargetContext({}))
    try:
        for row in mixed_report.rows():
            prompt = Prompt(messages=row.case.input, case_id=row.trial.case_id, repeat=row.trial.repeat)
            if row.trial.output is None:
                with pytest.raises(TargetError, match="Nothing came"):
                    await target.answer(prompt)
            else:
                assert await target.answer(prompt) == row.trial.output
    finally:
        await target.aclose()

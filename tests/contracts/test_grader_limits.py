"""No grader blocks an event loop, for any suite and any answer."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from proctor.graders import GRADERS
from proctor.services.grading import worker_pool

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tools")]
tool: Any = import_module("grader_times")

MAX_HOLD_S = 0.05
"""Of processor time, which a busy machine changes little."""


def test_every_grader_has_a_worst_input() -> None:
    assert sorted({worst.grader for worst in tool.inputs.WORST}) == GRADERS.names()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no alarm, so that workers do all of it")
@pytest.mark.parametrize("name", GRADERS.names())
async def test_no_grader_holds_the_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "CPU_LIMIT_S", 0.2)  # the result does not matter here
    for worst in tool.inputs.WORST:
        if worst.grader == name:
            holds: list[float] = []
            while len(holds) < 3 and (not holds or min(holds) > MAX_HOLD_S):
                holds.append((await tool.longest_turn(worst))[0])
            assert min(holds) <= MAX_HOLD_S, worst.what

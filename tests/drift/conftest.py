"""Series of runs in one line: the answers of each run, a text a case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from proctor.drift.observations import RunObservation, RunObserver, TrialPlaces
from proctor.model import Output, PassRule, Run, Score, Suite, TargetSpec, Trial, Verdict

TOOL = Path(__file__).parent.parent.parent / "tools" / "drift_figures.py"
BEGAN = datetime(2026, 10, 1, 3, tzinfo=UTC)
Answer = str | None | Output | Trial
"""A text, an output, or a whole trial of which case and repeat are filled in; None never came."""


def _trial(number: int, repeat: int, answer: Answer) -> Trial:
    place: dict[str, Any] = {"case_id": f"c{number}", "position": number, "repeat": repeat}
    if isinstance(answer, Trial):
        return Trial(**{name: getattr(answer, name) for name in answer.__struct_fields__} | place)
    output = Output(text=answer) if isinstance(answer, str) else answer
    scores: tuple[Score, ...] = ()
    if output is not None:
        passed = not output.text.startswith("no")
        outcome = Verdict.PASS if passed else Verdict.FAIL
        scores = (Score(grader="exact", name="exact", value=float(passed), outcome=outcome),)
    return Trial(**place, sent="", output=output, scores=scores, started_at=BEGAN)


@pytest.fixture(scope="session")
def series() -> Callable[..., list[RunObservation]]:
    """Runs a day apart, or `every` so often; each is its cases' answers, several of a case in a list.

    An answer that begins with `no` fails. `runs` has for some runs, by their number, fields that differ.
    """

    def make(
        *rows: Sequence[Answer | Sequence[Answer]],
        every: timedelta = timedelta(days=1),
        runs: dict[int, dict[str, Any]] | None = None,
        **fields: Any,
    ) -> list[RunObservation]:
        places, made = TrialPlaces(), []
        for number, row in enumerate(rows):
            given: dict[str, Any] = {
                "id": f"r{number}",
                "group": "g",
                "suite": Suite(name="s", dialect="proctor", digest="sha256:5"),
                "target": TargetSpec(name="t", kind="echo"),
                "started_at": BEGAN + number * every,
                "status": "finished",
            }
            seeing = RunObserver(Run(**given | fields | (runs or {}).get(number, {})), places)
            for case, answers in enumerate(row):
                several = answers if isinstance(answers, list) else [answers]
                for repeat, answer in enumerate(several):
                    seeing.add(_trial(case, repeat, answer), PassRule())
            made.append(seeing.finish())
        return made

    return make


@pytest.fixture(scope="session")
def figures() -> dict[str, Any]:
    """The functions that simulate the page's figures, by name."""
    return run_path(str(TOOL), run_name="tools.drift_figures")

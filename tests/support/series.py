"""Series of runs in one line: the answers of each run, a text a case."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from proctor.drift.observations import RunObservation, RunObserver, TrialPlaces
from proctor.model import Output, PassRule, Run, Score, Suite, TargetSpec, Trial, Verdict

BEGAN = datetime(2026, 10, 1, 3, tzinfo=UTC)
Answer = str | None | Output | Trial
"""A text, an output, or a whole trial of which case and repeat are filled in; None never came."""


def make_series(
    *rows: Sequence[Answer | Sequence[Answer]],
    every: timedelta = timedelta(days=1),
    runs: dict[int, dict[str, Any]] | None = None,
    clusters: dict[str, str] | None = None,
    **fields: Any,
) -> list[RunObservation]:
    """Runs a day apart, or `every` so often; each is its cases' answers, several of a case in a list.

    An answer that begins with `no` fails. `runs` has for some runs, by their number, fields that differ;
    `clusters` the cluster of a case, by its id.
    """
    places, observations = TrialPlaces(clusters), []
    for number, row in enumerate(rows):
        defaults: dict[str, Any] = {
            "id": f"r{number}",
            "group": "g",
            "suite": Suite(name="s", dialect="proctor", digest="sha256:5"),
            "target": TargetSpec(name="t", kind="echo"),
            "started_at": BEGAN + number * every,
            "status": "finished",
        }
        observer = RunObserver(Run(**defaults | fields | (runs or {}).get(number, {})), places)
        for case, answers in enumerate(row):
            for repeat, answer in enumerate(answers if isinstance(answers, list) else [answers]):
                observer.add(_trial_of_series(case, repeat, answer), PassRule())
        observations.append(observer.finish())
    return observations


def _trial_of_series(number: int, repeat: int, answer: Answer) -> Trial:
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

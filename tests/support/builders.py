"""Cases, scores, trials, runs and what is made of them, each in one line; further fields by name."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from proctor.model import (
    Case,
    Failure,
    Message,
    Output,
    Params,
    Prompt,
    Run,
    Score,
    Suite,
    TargetSpec,
    Trial,
    Verdict,
)
from proctor.reports.runs.serialize import RunReport, TrialResult
from proctor.run_gate import run_exit_code
from proctor.verdicts import NO_TRIALS, Counts, Tally, pass_rules_for

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ECHO = TargetSpec(name="echo", kind="echo")


def make_case(id: str = "c", text: str = "2 + 2?", **fields: Any) -> Case:  # noqa: A002  # the field's name
    """A case of one user message."""
    return Case(id=id, input=(Message(role="user", content=text),), **fields)


def make_score(value: float | None, **fields: Any) -> Score:
    """A score from its value: 1 passes, less fails, None is unscored."""
    outcome = Verdict.UNSCORED if value is None else Verdict.PASS if value == 1 else Verdict.FAIL
    defaults: dict[str, Any] = {"grader": "exact", "name": "exact", "value": value, "outcome": outcome}
    return Score(**defaults | fields)


def make_trial(text: str | None, *scores: Score, **fields: Any) -> Trial:
    """A trial that answered with a text, or failed when the text is None."""
    output = None if text is None else Output(text=text)
    failure = Failure(stage="target", kind="timeout", message="Too late.") if text is None else None
    defaults: dict[str, Any] = {
        "case_id": "c",
        "position": 0,
        "sent": "sha256:0",
        "output": output,
        "failure": failure,
        "scores": scores,
        "started_at": NOON,
    }
    return Trial(**defaults | fields)


def make_run(**fields: Any) -> Run:
    """A run of the target `echo` that began at noon."""
    defaults: dict[str, Any] = {
        "id": "20260301-120000-abc123",
        "group": "20260301-120000-000000",
        "suite": Suite(name="s", dialect="pramana"),
        "target": ECHO,
        "started_at": NOON,
    }
    return Run(**defaults | fields)


def make_report(*pairs: tuple[Trial, Case], **fields: Any) -> RunReport:
    """A finished run as reports see it, of trials and their cases; the fields are those of the run."""
    defaults: dict[str, Any] = {
        "status": "finished",
        "finished_at": NOON + timedelta(seconds=2.5),
        "planned": len(pairs),
    }
    run = make_run(**defaults | fields)
    tally = Tally(pass_rules_for(run), run.suite.repeats_rule, run.settings.repeats)
    rows = [TrialResult(trial=trial, verdict=tally.add(trial, case), case=case) for trial, case in pairs]
    return RunReport(
        run=run,
        tally=tally,
        exit_code=run_exit_code(tally.result_counts, run.settings),
        rows=lambda: iter(rows),
    )


def make_prompt(*turns: str | tuple[str, str] | Message, **fields: Any) -> Prompt:
    """A prompt of messages given as `role, content` pairs; one text alone is a user's."""
    return Prompt(messages=tuple(map(_make_message, turns)), **fields)


def _make_message(turn: str | tuple[str, str] | Message) -> Message:
    if isinstance(turn, Message):
        return turn
    role, content = ("user", turn) if isinstance(turn, str) else turn
    return Message(role=role, content=content)


def make_spec(
    kind: str,
    model: str = "m",
    endpoint: str | None = None,
    *,
    options: dict[str, Any] | None = None,
    **params: Any,
) -> TargetSpec:
    """A target of a kind; the fields are its parameters."""
    return TargetSpec(
        name=f"{kind}:{model}",
        kind=kind,
        model=model,
        endpoint=endpoint,
        options=options or {},
        params=Params(**params),
    )


def write_lines(path: Path, *rows: Any) -> Path:
    """Writes a line for each row, a text as it is and anything else as JSON; gives the path."""
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    path.write_text(text, encoding="utf-8")
    return path


def make_counts(
    passed: int = 0, failed: int = 0, errors: int = 0, unscored: int = 0, repeats: int = 1
) -> Counts:
    """Counts of trials in this order, each case with so many of them."""
    counts, shape = Counts(), NO_TRIALS
    verdicts = [Verdict.PASS] * passed + [Verdict.FAIL] * failed
    verdicts += [Verdict.ERROR] * errors + [Verdict.UNSCORED] * unscored
    for number, verdict in enumerate(verdicts):
        shape = counts.add(verdict, NO_TRIALS if number % repeats == 0 else shape)
    return counts

"""A report of a run with everything that the forms of reports have to get right."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.model import (
    Case,
    Evidence,
    Failure,
    Judgment,
    Message,
    Output,
    Params,
    PassRule,
    Score,
    SplitRule,
    Suite,
    TargetSpec,
    Usage,
    Verdict,
)
from proctor.reports.runs.serialize import RunReport
from support.builders import make_report, make_trial

SUITE = Suite(
    name="kitchen | <sums>",
    dialect="meridian",
    version="v2",
    pass_rule=PassRule(threshold=0.75),
    split_rule=SplitRule(),
    case_count=6,
    digest="sha256:" + "5" * 64,
    content="sha256:" + "6" * 64,
)


def _make_case(case_id: str, *turns: tuple[str, str], **fields: Any) -> Case:
    messages = tuple(Message(role=role, content=content) for role, content in turns)
    return Case(id=case_id, input=messages, **fields)


def _make_passed_score(**fields: Any) -> Score:
    defaults: dict[str, Any] = {
        "grader": "contains",
        "name": "contains",
        "value": 1.0,
        "outcome": Verdict.PASS,
    }
    return Score(**defaults | fields)


def _make_failed_score(reason: str, value: float = 0.0, **fields: Any) -> Score:
    defaults: dict[str, Any] = {"grader": "exact", "name": "exact", "outcome": Verdict.FAIL}
    return Score(value=value, reason=reason, **defaults | fields)


SUM = _make_case("sum", ("user", "2 + 2?"), category="math", tags=("easy", "short"), repeats=2)
FORMULA = _make_case(
    '=HYPERLINK("x")', ("system", "Be brief."), ("user", "-1 + 1?"), category="math", tags=("@tag",)
)
LINES = _make_case("two\nlines", ("user", "first\nsecond"), category="words")
FENCE = _make_case("fence `x`", ("user", "```python\nprint()\n```"), category="words", tags=("short",))
CONTROL = _make_case("control", ("user", "say \x01 \x1b[31m"), tags=("| pipe |",))
FULL = _make_case("größe", ("user", "Wie groß? 日本"), category="math")

TRIALS: list[tuple[dict[str, Any], Case]] = [
    (
        {
            "split": "dev",
            "output": Output(
                text="4",
                usage=Usage(input_tokens=11, output_tokens=1, cached_tokens=8),
                latency_ms=120.0,
                queue_ms=3.5,
                cost_usd=0.00012,
                finish_reason="stop",
                model="m-1-2026",
                fingerprint="fp",
                refused_params=("seed",),
            ),
            "scores": (_make_passed_score(assertion="sha256:1"),),
        },
        SUM,
    ),
    (
        {
            "split": "dev",
            "output": Output(text="+5", usage=Usage(input_tokens=11, output_tokens=1), latency_ms=80.0),
            "scores": (_make_failed_score("got '+5', wanted '4'", value=0.5),),
            "source_run": "earlier",
        },
        SUM,
    ),
    (
        {
            "split": "dev",
            "output": Output(text='=1+1, "quoted"', latency_ms=100.0, cost_usd=0.0),
            "scores": (
                _make_passed_score(weight=3.0),
                _make_failed_score("-1 < 0; | cell |", required=0.5, name="the gate"),
            ),
        },
        FORMULA,
    ),
    (
        {
            "split": "holdout",
            "failure": Failure(stage="target", kind="timeout", message="Nothing came\nwithin 2 s."),
        },
        LINES,
    ),
    (
        {
            "split": "dev",
            "output": Output(text="````\n``` <b>*bold*</b>\n````", latency_ms=90.0, cost_usd=0.0),
            "scores": (_make_failed_score("wanted `````` and <b>", value=0.7),),
        },
        FENCE,
    ),
    (
        {
            "split": "holdout",
            "output": Output(text="\x01\x1b[31mred\x1b[0m \ufffe]]> \t ok", latency_ms=95.0, cost_usd=0.0),
            "scores": (
                Score(
                    grader="llm_judge",
                    name="kind",
                    outcome=Verdict.UNSCORED,
                    reason="The judges disagree.",
                    entries=(Evidence(text="polite", passed=True, evidence="please"), Evidence(text="brief")),
                    judgments=(
                        Judgment(
                            judge="j-1", prompt_digest="sha256:2", passed=True, raw="YES", cost_usd=0.001
                        ),
                        Judgment(
                            judge="j-2",
                            prompt_digest="sha256:2",
                            nth=1,
                            passed=False,
                            value=0.2,
                            feedback="Curt.",
                            raw="NO",
                            usage=Usage(input_tokens=5, output_tokens=1),
                            cost_usd=0.002,
                        ),
                    ),
                    details={"votes": {"no": 1, "yes": 1}},
                ),
            ),
        },
        CONTROL,
    ),
    (
        {
            "split": "dev",
            "output": Output(text="größer als 日本 😀", latency_ms=110.0, cost_usd=0.0),
            "scores": (_make_passed_score(), _make_passed_score(value=0.8, name="close")),
        },
        FULL,
    ),
]


@pytest.fixture(scope="session")
def mixed_report() -> RunReport:
    """Six cases, seven trials, all four verdicts, both splits, and texts that break careless formats."""
    positions: dict[str, int] = {}
    repeats: dict[str, int] = {}
    pairs = []
    for fields, case in TRIALS:
        position = positions.setdefault(case.id, len(positions))
        repeat = repeats[case.id] = repeats.get(case.id, -1) + 1
        trial_fields: dict[str, Any] = {
            "output": None,
            "failure": None,
            "sent": f"sha256:{position}",
        } | fields
        trial = make_trial(None, case_id=case.id, position=position, repeat=repeat, **trial_fields)
        pairs.append((trial, case))
    return make_report(
        *pairs,
        suite=SUITE,
        target=TargetSpec(name="openai:m-1", kind="openai", model="m-1", params=Params(max_tokens=50)),
        judges=(TargetSpec(name="j-1", kind="openai"), TargetSpec(name="j-2", kind="openai")),
        prices_date="2026-02-01",
        tags=("nightly",),
        warnings=("suite.jsonl:4: warning: Odd.",),
    )

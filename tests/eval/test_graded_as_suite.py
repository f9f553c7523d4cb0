"""A file of graded prompts has the same verdicts from `GradedPromptSuite.score` and as a suite of Proctor."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.dialects.fieldkit.prompts import DIALECT
from proctor.eval import GradedPromptSuite
from proctor.graders import GRADERS
from proctor.grading import GradingContext, grade
from proctor.model import Case, Output, PassRule, Problem, Trial, Verdict
from proctor.protocols import CaseAtLine, SuiteSource
from proctor.verdicts import decide_verdict

CHECKS = [
    {"kind": "substring", "any": ["{{boat}}", "Straße"]},
    {"kind": "substring", "all": ["tide", "low"]},
    {"kind": "substring", "all": ["tide"], "any": ["high", "low"]},
    {"kind": "json_keys", "keys": ["berth", "until"]},
    {"kind": "json_keys", "keys": ["berth.no"]},
    {"kind": "json_keys"},
    {"kind": "regex", "all": [r"\d{4}-\d\d", "^On"]},
    {"kind": "regex", "all": [r"(?i)heron\b"]},
    {"kind": "honesty"},
    {"kind": "numeric", "value": 8, "tolerance": 0.5},
    {"kind": "numeric", "value": -5},
    [{"kind": "numeric", "value": 5}, {"kind": "substring", "any": ["m", "metres"]}],
    [{"kind": "honesty"}, {"kind": "json_keys", "keys": ["until"]}],
]
PIECES = [
    *("HERON", "heron-2", "STRASSE", "low TIDE", "high", "tide", " ", "\n", "On 2031-05-04", "2031-05"),
    *('{"berth": 2}', '{"berth": {"no": 2}, "until": "}"}', '{"berth.no": 1}', "{}", "```json\n", "{", "}"),
    *('{"until": NaN}', "[1]", "I don’t know", "ich weiß nicht", "我不知道", "tunable to", "not sure"),
    *("5 m", "-5", "$-5", "(5)", "−5", "8.5", "8.51", "1,234", "8e0"),
    *("x8", "COVID-5", ".5", "٨", "In FY2031"),
]
WORDS = {"boat": "Heron"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prompts = [{"id": f"p{n}", "prompt": "What?", "check": check} for n, check in enumerate(CHECKS)]
    suite_path = tmp_path_factory.mktemp("graded") / "harbour.json"
    suite_path.write_text(json.dumps({"suite": "Harbour", "prompts": prompts}), encoding="utf-8")
    return suite_path


@pytest.fixture(scope="module")
def suite(path: Path) -> GradedPromptSuite:
    return GradedPromptSuite.load(path, WORDS)


@pytest.fixture(scope="module")
def cases(path: Path) -> list[Case]:
    data, options = path.read_bytes(), {"substitutions": WORDS}
    items = list(DIALECT.read(SuiteSource(path=path.name, read_lines=lambda: BytesIO(data), options=options)))
    assert not [item for item in items if isinstance(item, Problem)]
    return [item.case for item in items if isinstance(item, CaseAtLine)]


def verdict(case: Case, answer: str) -> Verdict:
    output = Output(text=answer)
    scores = asyncio.run(grade(case, output, GRADERS.get, GradingContext()))
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return decide_verdict(
        Trial(case_id=case.id, position=0, sent="", output=output, scores=scores, started_at=start),
        PassRule(),
    )


def assert_same(suite: GradedPromptSuite, cases: list[Case], answer: str) -> None:
    score = suite.score({prompt.id: answer for prompt in suite.prompts})
    for result, case in zip(score.results, cases, strict=True):
        assert result.id == case.id
        assert verdict(case, answer) is (Verdict.PASS if result.passed else Verdict.FAIL), (result, answer)


@pytest.mark.parametrize("answer", ["", *PIECES])
def test_both_judge_an_answer_alike(suite: GradedPromptSuite, cases: list[Case], answer: str) -> None:
    assert_same(suite, cases, answer)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(PIECES), min_size=2, max_size=5).map(" ".join))
def test_both_judge_any_answer_alike(suite: GradedPromptSuite, cases: list[Case], answer: str) -> None:
    assert_same(suite, cases, answer)

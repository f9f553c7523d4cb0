"""The verifier's toolbox: benches, judges, trajectories, pass@k, comparisons, scorers and graded checks.

In: plain Python values or JSON Lines; no store and no suite is needed. Out: results with statistics, reports
and charts. Each name is imported when it is first used; `_MODULE_BY_NAME` has its module. Names and meanings
are those of `fieldkit.eval`; additions have names of their own. Start reading with `bench/bench.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proctor.eval.agent_runs import AgentRun, TurnDetail, summarize_agent_runs
    from proctor.eval.bench.bench import Bench
    from proctor.eval.bench.calls import BenchCall
    from proctor.eval.bench.statistics import summarize_metric
    from proctor.eval.chat.client import ChatClient
    from proctor.eval.file_assertions import ASSERTION_KINDS, AssertionGrader, AssertionResult, GradeResult
    from proctor.eval.graded import (
        CHECK_KINDS,
        CheckResult,
        CheckSpec,
        GradedPrompt,
        GradedPromptSuite,
        Rubric,
        extract_last_json,
        score_answer,
    )
    from proctor.eval.jsonl_rows import DroppedRow
    from proctor.eval.judge.judge import Judge, JudgeError, JudgeResult
    from proctor.eval.judge.patent_scorers import office_action_argument, patent_claim_validity
    from proctor.eval.judge.rubrics import (
        BUILTIN_RUBRICS,
        RUBRIC_CORRECTNESS,
        RUBRIC_FAITHFULNESS,
        RUBRIC_OFFICE_ACTION_ARGUMENT,
        RUBRIC_PATENT_CLAIM_VALIDITY,
        RUBRIC_RELEVANCE,
        load_rubric,
    )
    from proctor.eval.matched.comparison import GroupStats, MatchedBaseComparison, MatchedBaseComparisonResult
    from proctor.eval.passk.estimators import (
        PassAtK,
        PassAtKResult,
        pass_at_k_estimator,
        pass_hat_k_estimator,
    )
    from proctor.eval.patents import (
        PriorArtRelevanceResult,
        irac_structure,
        prior_art_relevance,
        prior_art_relevance_full,
    )
    from proctor.eval.refusals import HEDGE_PHRASES, REFUSAL_PATTERNS, is_refusal
    from proctor.eval.sandbox.sandbox import CodeSandbox, SandboxResult, humaneval_run
    from proctor.eval.scorers import contains, exact_match, mcq_letter, numeric_equal, numeric_match
    from proctor.eval.trajectory import Trajectory, TrajectoryIter
    from proctor.eval.vertical.bench import VerticalBench
    from proctor.eval.vertical.rows import VerticalQA

_NAMES_BY_MODULE = {
    "agent_runs": ("AgentRun", "TurnDetail", "summarize_agent_runs"),
    "bench.bench": ("Bench",),
    "bench.calls": ("BenchCall",),
    "bench.statistics": ("summarize_metric",),
    "chat.client": ("ChatClient",),
    "file_assertions": ("ASSERTION_KINDS", "AssertionGrader", "AssertionResult", "GradeResult"),
    "graded": (
        "CHECK_KINDS",
        "CheckResult",
        "CheckSpec",
        "GradedPrompt",
        "GradedPromptSuite",
        "Rubric",
        "extract_last_json",
        "score_answer",
    ),
    "jsonl_rows": ("DroppedRow",),
    "judge.judge": ("Judge", "JudgeError", "JudgeResult"),
    "judge.patent_scorers": ("office_action_argument", "patent_claim_validity"),
    "judge.rubrics": (
        "BUILTIN_RUBRICS",
        "RUBRIC_CORRECTNESS",
        "RUBRIC_FAITHFULNESS",
        "RUBRIC_OFFICE_ACTION_ARGUMENT",
        "RUBRIC_PATENT_CLAIM_VALIDITY",
        "RUBRIC_RELEVANCE",
        "load_rubric",
    ),
    "matched.comparison": ("GroupStats", "MatchedBaseComparison", "MatchedBaseComparisonResult"),
    "passk.estimators": ("PassAtK", "PassAtKResult", "pass_at_k_estimator", "pass_hat_k_estimator"),
    "patents": (
        "PriorArtRelevanceResult",
        "irac_structure",
        "prior_art_relevance",
        "prior_art_relevance_full",
    ),
    "refusals": ("HEDGE_PHRASES", "REFUSAL_PATTERNS", "is_refusal"),
    "sandbox.sandbox": ("CodeSandbox", "SandboxResult", "humaneval_run"),
    "scorers": ("contains", "exact_match", "mcq_letter", "numeric_equal", "numeric_match"),
    "trajectory": ("Trajectory", "TrajectoryIter"),
    "vertical.bench": ("VerticalBench",),
    "vertical.rows": ("VerticalQA",),
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

_SUBMODULES = ("graded", "vertical")
"""Modules that are available as attributes without an import."""

__all__ = [
    "ASSERTION_KINDS",
    "BUILTIN_RUBRICS",
    "CHECK_KINDS",
    "HEDGE_PHRASES",
    "REFUSAL_PATTERNS",
    "RUBRIC_CORRECTNESS",
    "RUBRIC_FAITHFULNESS",
    "RUBRIC_OFFICE_ACTION_ARGUMENT",
    "RUBRIC_PATENT_CLAIM_VALIDITY",
    "RUBRIC_RELEVANCE",
    "AgentRun",
    "AssertionGrader",
    "AssertionResult",
    "Bench",
    "BenchCall",
    "ChatClient",
    "CheckResult",
    "CheckSpec",
    "CodeSandbox",
    "DroppedRow",
    "GradeResult",
    "GradedPrompt",
    "GradedPromptSuite",
    "GroupStats",
    "Judge",
    "JudgeError",
    "JudgeResult",
    "MatchedBaseComparison",
    "MatchedBaseComparisonResult",
    "PassAtK",
    "PassAtKResult",
    "PriorArtRelevanceResult",
    "Rubric",
    "SandboxResult",
    "Trajectory",
    "TrajectoryIter",
    "TurnDetail",
    "VerticalBench",
    "VerticalQA",
    "contains",
    "exact_match",
    "extract_last_json",
    "humaneval_run",
    "irac_structure",
    "is_refusal",
    "load_rubric",
    "mcq_letter",
    "numeric_equal",
    "numeric_match",
    "office_action_argument",
    "pass_at_k_estimator",
    "pass_hat_k_estimator",
    "patent_claim_validity",
    "prior_art_relevance",
    "prior_art_relevance_full",
    "score_answer",
    "summarize_agent_runs",
    "summarize_metric",
]


def __getattr__(name: str) -> Any:
    """Imports a public name from its module (PEP 562)."""
    if name in _SUBMODULES:
        return import_module(f"proctor.eval.{name}")
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'proctor.eval' has no attribute {name!r}")
    return getattr(import_module(f"proctor.eval.{_MODULE_BY_NAME[name]}"), name)


def __dir__() -> list[str]:
    """Returns the public names."""
    return sorted((*__all__, *_SUBMODULES))

"""Checks scores that depend on recorded judgments: those of judges, embedding models and programs.

The grader reads a judge's recorded replies again, and must reach the recorded score. Whether the judge really
gave these replies cannot be checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from proctor.errors import TargetError
from proctor.graders.judged.judge_call import DEFAULT_PASS_AT
from proctor.graders.similarity import SemanticSimilarity
from proctor.model import Assertion, Judgment, Output, Prompt, Run, Score, Verdict
from proctor.proof.check_statement import BundleDefect, format_value, require_equal
from proctor.protocols import Grader, GradingInput, JudgeTarget
from proctor.services.runs.planning.judge_choice import all_judges, judges_for_target
from proctor.stats import reaches
from proctor.verdicts import is_below_gate


class _RecordedJudge:
    """A judge that returns its recorded replies one after the other, and then raises TargetError."""

    def __init__(self, name: str, judgments: Sequence[Judgment]) -> None:
        self._replies = iter([judgment.raw for judgment in judgments if judgment.judge == name])

    async def answer(self, _prompt: Prompt) -> Output:
        for raw in self._replies:
            return Output(text=raw)
        raise TargetError("No further reply is recorded.", kind="missing")


def with_recorded_judges(
    grading_input: GradingInput, run: Run, judgments: Sequence[Judgment]
) -> GradingInput:
    """Returns the grader's input with the run's judges replaced by their recorded replies."""
    judges = {
        spec.name: JudgeTarget(name=spec.name, target=_RecordedJudge(spec.name, judgments))
        for spec in all_judges(run)
    }
    return replace(
        grading_input,
        judges=tuple([judges[spec.name] for spec in judges_for_target(run, grading_input.case.target)]),
        named_judges={spec.name: judges[spec.name] for spec in run.named_judges},
        judge_repeats=run.settings.judge_repeats,
        judge_rule=run.settings.judge_rule,
    )


def have_same_replies(recorded: Sequence[Judgment], derived: Sequence[Judgment]) -> bool:
    """Whether all recorded replies were read, each as an answer to the prompt that is recorded with it."""
    return [_reply_key(judgment) for judgment in recorded] == [_reply_key(judgment) for judgment in derived]


def _reply_key(judgment: Judgment) -> tuple[str | None, ...]:
    return (judgment.judge, judgment.evaluator, judgment.prompt_digest, judgment.raw)


def check_judgments(place: str, recorded: Sequence[Judgment], derived: Sequence[Judgment]) -> None:
    """Compares judgments with what the same replies give when they are read again.

    Raises:
        BundleDefect: a judgment differs from its reply.
    """
    for nth, (judgment, derived_judgment) in enumerate(zip(recorded, derived, strict=True), 1):
        for name in ("passed", "value"):
            what = f"`{name}` of judgment {nth} by {format_value(judgment.judge)}"
            require_equal(place, what, getattr(judgment, name), getattr(derived_judgment, name))


def check_outcome(place: str, assertion: Assertion, grader: Grader, recorded: Score) -> None:
    """Checks that the outcome of a score follows from its value, where the value decides it.

    Raises:
        BundleDefect: it does not.
    """
    if recorded.value is None:
        return
    if recorded.outcome is Verdict.FAIL and is_below_gate(recorded):
        return  # the grader may have a gate of its own, whatever the value would pass without it
    value = 1.0 - recorded.value if assertion.negated else recorded.value
    passed = _passes(assertion, grader, value)
    if passed is None:
        return
    right = Verdict.PASS if passed is not assertion.negated else Verdict.FAIL
    if recorded.outcome is not right:
        raise BundleDefect(
            f"{place} is {recorded.outcome.value}, and the value {recorded.value:g} makes it {right.value}."
        )


def _passes(assertion: Assertion, grader: Grader, value: float) -> bool | None:
    """Whether a value passes; None if the value does not decide."""
    if assertion.pass_at is not None:
        return reaches(value, assertion.pass_at)
    if assertion.params.get("rule") == "mean":
        return value > 0.5
    if grader.all_or_nothing:
        return value == 1
    if assertion.grader == "program":
        return reaches(value, DEFAULT_PASS_AT)
    return value >= grader.threshold if isinstance(grader, SemanticSimilarity) else None

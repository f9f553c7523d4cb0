"""The fixture `proctor`: grades single answers, and runs suites with the options of the session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import proctor
from proctor.errors import CannotScore, ProctorError, UsageError
from proctor.graders import GRADERS
from proctor.graders.judged.judge_call import DEFAULT_PASS_AT
from proctor.grading import build_grader
from proctor.model import Assertion, Case, Message, Output, Verdict
from proctor.pytest_plugin.session import get_session
from proctor.python.graders import resolve_graders
from proctor.python.results import GradedTrial, RunGroup, RunResult
from proctor.python.targets import TargetLike, TargetList
from proctor.safe_text import truncate

_MAX_REASON_LENGTH = 400
_MAX_ANSWER_LENGTH = 400
_OPTIONS_OF_SUITES = (
    *("repeats", "split", "tag", "all_tag", "exclude_tag", "category", "id", "limit", "shard", "until"),
    *("cluster", "min_pass_rate", "resume", "retry_errors", "saved", "dialect", "group", "interleave"),
)
"""Options that select cases or stop a run; those of the project's file are not for a single answer."""


class ProctorFixture:
    """Grades answers and runs suites in a test."""

    def __init__(self, item: pytest.Item) -> None:
        """Takes the test."""
        self._item = item

    def __repr__(self) -> str:
        return "<proctor>"

    def check(
        self,
        answer: str | Output,
        *,
        expected: Any = None,
        criteria: str | None = None,
        graders: Any = (),
        judge: TargetLike | TargetList | None = None,
        prompt: str = "",
        threshold: float | None = None,
    ) -> GradedTrial:
        """Grades one answer, and fails the test with the graders' reasons if it does not pass.

        Args:
            answer: the text, or an `Output` with tool calls, cost and latency.
            expected: what the answer must be, as in a row of a suite. With `criteria` or `graders` it is the
                reference that these get.
            criteria: what a judge looks for in the answer.
            graders: a name, a function or a `proctor.Assertion`, or several, which decide instead.
            judge: the judge; by default that of `--proctor-judge`.
            prompt: the input, for graders that read it.
            threshold: the lowest weighted score that passes; None if every score must pass.

        Returns:
            The graded answer. Nothing is stored.

        Raises:
            AssertionError: the answer does not pass.
            CannotScore: it could not be graded, so that nothing is known about it.
            UsageError: there is nothing to grade the answer with, or no judge.
        """
        __tracebackhide__ = True
        try:
            trial = self._grade(
                answer, _make_suite(self._item.name, prompt, expected, criteria, graders), judge, threshold
            )
        except ProctorError as error:
            raise error.with_traceback(None) from None
        if trial.verdict is Verdict.PASS:
            return trial
        lines = "\n".join(_describe_trial(trial))
        if trial.verdict is Verdict.FAIL:
            raise AssertionError(f"The answer does not pass.\n{lines}")
        raise CannotScore(f"The answer could not be graded.\n{lines}")

    def run(
        self, suite: Any = None, *, target: TargetLike | TargetList | None = None, **options: Any
    ) -> RunResult | RunGroup:
        """Runs a suite as `proctor.run` does, with the store and the options of the test session.

        The run is listed at the end of the session, and shown if the test fails. Assert on its `ok`, or on
        its numbers.

        Raises:
            ProctorError: as `proctor.run` does.
        """
        __tracebackhide__ = True
        if target is not None:
            options["target"] = target
        try:
            result = get_session(self._item.config).run(self._item, suite, options)
        except ProctorError as error:
            raise error.with_traceback(None) from None
        self._item.add_report_section("call", "proctor", repr(result))
        return result

    def _grade(
        self,
        answer: str | Output,
        suite: list[Any],
        judge: TargetLike | TargetList | None,
        threshold: float | None,
    ) -> GradedTrial:
        session = get_session(self._item.config)
        judge = judge if judge is not None else session.judges or None
        if judge is None and isinstance(suite[0], Case) and any(map(_needs_judge, suite[0].assertions)):
            raise UsageError("This check needs a judge. Pass `judge`, or run pytest with --proctor-judge.")

        async def get_answer(_prompt: proctor.Prompt) -> str | Output:
            return answer

        options: dict[str, Any] = dict.fromkeys(_OPTIONS_OF_SUITES)
        options |= {"threshold": threshold, "judge": judge, "holdout": 0.0}
        options |= {"store": None, "progress": _ignore}
        run = proctor.run(suite, target=get_answer, prompts=_UNCHANGED, name="check", **options)
        trial: GradedTrial = next(run.trials())
        return trial


_UNCHANGED = proctor.PromptTemplate(name="check", messages=(Message(role="user", content="{{ input }}"),))
"""Sends the input as it is, instead of prompts that `proctor.toml` names."""


def _ignore(_event: object) -> None:
    """Drops an event; the scores of a single answer contain everything."""


def _make_suite(name: str, prompt: str, expected: Any, criteria: str | None, graders: Any) -> list[Any]:
    """Returns the suite of one case.

    Raises:
        UsageError: there is nothing to grade the answer with.
    """
    prompt = prompt or "(no prompt)"
    several = graders if isinstance(graders, (list, tuple)) else [graders]
    assertions = resolve_graders(several)
    if criteria is not None and not assertions:
        assertions = (Assertion(grader="llm_grader", pass_at=DEFAULT_PASS_AT, label="criteria"),)
    if assertions:
        messages = (Message(role="user", content=prompt),)
        return [Case(id=name, input=messages, expected=expected, criteria=criteria, assertions=assertions)]
    if expected is None:
        raise UsageError(
            "There is nothing to grade the answer with. Pass `expected`, `criteria` or `graders`."
        )
    return [{"id": name, "input": prompt, "expected": expected}]


def _needs_judge(assertion: Assertion) -> bool:
    """Whether a grader calls a judge and names none."""
    try:
        grader = build_grader(assertion, GRADERS.get)
    except (ProctorError, ValueError):
        return False  # the run says what is wrong
    return "judge" in grader.requirements() and None in grader.judges()


def _describe_trial(trial: GradedTrial) -> Iterator[str]:
    for score in trial.scores:
        value = "" if score.value is None else f" {score.value:.2f}"
        reason = truncate(score.reason or "", _MAX_REASON_LENGTH)
        yield f"{score.outcome.value.upper():<8}  {score.name}{value}: {reason}".rstrip(": ")
    if trial.failure is not None:
        yield f"ERROR     {truncate(trial.failure.message, _MAX_REASON_LENGTH)}"
    yield f"Answer: {truncate(trial.answer or '', _MAX_ANSWER_LENGTH)!r}"

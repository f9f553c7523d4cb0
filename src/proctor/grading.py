"""Grades outputs: each assertion's grader gives a result, which becomes a score.

Starts no tasks of its own; it only awaits what graders await.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import assertion_digest
from proctor.errors import CannotScore, TimeLimitExceeded, UnknownName, suggestion
from proctor.model import (
    Assertion,
    Case,
    Evidence,
    GraderResult,
    JudgeRule,
    Judgment,
    Output,
    Score,
    ToolCall,
    Verdict,
)
from proctor.protocols import (
    MAX_STEP_LENGTH,
    Embedder,
    Gather,
    Grader,
    GradingInput,
    Isolation,
    JudgeProvider,
    JudgeTarget,
    ProgramRunner,
    gather_sequentially,
)
from proctor.stats import reaches

T = TypeVar("T")

_MAX_SIZE = 1_000_000
_VALUE_SIZE = 32
"""The number of characters that a number or a key counts as."""

GraderLookup = Callable[[str], type[Any]]
"""Returns a grader's class by its name."""


class GradingContext(Struct, frozen=True, kw_only=True):
    """What graders may use besides case and output; the fields are those of `GradingInput`."""

    judges: tuple[JudgeTarget, ...] = ()
    named_judges: Mapping[str, JudgeTarget] = {}
    judge_repeats: int = 1
    judge_rule: JudgeRule = "majority"
    prior_judgments: Mapping[str, tuple[Judgment, ...]] = {}
    """By the digest of the assertion."""
    gather: Gather = gather_sequentially
    embedder: Callable[[], Embedder] | None = None
    programs: ProgramRunner | None = None
    judge_provider: JudgeProvider | None = None
    workspace: str | None = None
    reverse_sections: bool = False
    isolation: Isolation | None = None

    def input_for(self, case: Case, output: Output, outputs: tuple[Output, ...] = ()) -> GradingInput:
        """Returns the input of a grader."""
        return GradingInput(
            case=case,
            output=output,
            outputs=outputs,
            judges=self.judges,
            named_judges=self.named_judges,
            judge_repeats=self.judge_repeats,
            judge_rule=self.judge_rule,
            gather=self.gather,
            embedder=self.embedder,
            programs=self.programs,
            judge_provider=self.judge_provider,
            workspace=self.workspace,
            reverse_sections=self.reverse_sections,
            isolation=self.isolation,
        )


def build_grader(assertion: Assertion, graders: GraderLookup) -> Grader:
    """Returns the grader of an assertion, with its parameters checked.

    Raises:
        UnknownName: there is no such grader.
        ValueError: a parameter is missing, unknown, of the wrong type or invalid.
    """
    kind = graders(assertion.grader)
    if assertion.on != "answer" and not kind.reads_text:
        raise ValueError(
            f"The grader {assertion.grader!r} does not read text, so it cannot grade the {assertion.on}. "
            f"Remove `on`."
        )
    try:
        return cast("Grader", msgspec.convert(assertion.params, kind))
    except msgspec.ValidationError as error:
        raise ValueError(_format_error(str(error), kind.__struct_fields__)) from None


def _format_error(message: str, field_names: tuple[str, ...]) -> str:
    """Returns msgspec's message with the field in front: `words: Expected …`."""
    text, _, place = message.partition(" - at `$")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL)
    if unknown:
        return f"Unknown parameter {unknown[1]!r}. {suggestion(unknown[1], field_names)}"
    text = re.sub(r"^Object missing", "Set a value for the missing", text)
    field = place.rstrip("`").lstrip(".")
    sentence = text if text.endswith((".", "?")) else text + "."
    return f"{field}: {sentence}" if field else sentence


class GradingMode(Enum):
    """How the outputs of a case are graded."""

    IMMEDIATE = "at once"
    """No grader awaits anything."""
    ASYNC = "asking"
    """A grader calls a judge, an embedder or a program."""
    ACROSS_REPEATS = "together"
    """A grader needs all outputs of the case."""


# Constants, since Python 3.11 takes 0.15 µs to look one up in its class, and every trial needs several.
_IMMEDIATE: Final = GradingMode.IMMEDIATE
_PASS: Final = Verdict.PASS
_FAIL: Final = Verdict.FAIL
_UNSCORED: Final = Verdict.UNSCORED


def grading_mode(case: Case, graders: GraderLookup) -> GradingMode:
    """Returns how the outputs of the case are graded."""
    manner = _IMMEDIATE
    for assertion in case.assertions:
        kind = graders(assertion.grader)
        if kind.grades_repeats:
            return GradingMode.ACROSS_REPEATS
        if kind.needs or kind.is_async:
            manner = GradingMode.ASYNC
    return manner


def grade_immediately(case: Case, output: Output, graders: GraderLookup) -> tuple[Score, ...]:
    """Returns one score per assertion, for a case whose graders await nothing."""
    grading_input = GradingInput(case=case, output=output)
    return tuple([score_immediately(assertion, grading_input, graders) for assertion in case.assertions])


def score_immediately(assertion: Assertion, grading_input: GradingInput, graders: GraderLookup) -> Score:
    """Returns the score of one assertion whose grader awaits nothing."""
    result = _start_grading(assertion, grading_input, graders)
    if isinstance(result, Score):
        return result
    if isinstance(result, Coroutine):
        result.close()
    reason = (
        f"The grader {assertion.grader!r} needs to wait for another service, but does not name it in `needs`."
    )
    return _unscored_result(assertion, CannotScore(reason))


async def grade(
    case: Case, output: Output, graders: GraderLookup, help_: GradingContext
) -> tuple[Score, ...]:
    """Returns one score per assertion of the case, in their order, for one output."""
    grading_input, judgments = help_.input_for(case, output), help_.prior_judgments
    return tuple(
        [
            await score(assertion, _add_judgments(grading_input, assertion, judgments), graders)
            for assertion in case.assertions
        ]
    )


def _add_judgments(
    grading_input: GradingInput, assertion: Assertion, all_judgments: Mapping[str, tuple[Judgment, ...]]
) -> GradingInput:
    judgments = all_judgments.get(assertion_digest(assertion)) if all_judgments else None
    return grading_input if judgments is None else replace(grading_input, prior_judgments=judgments)


async def grade_repeats(
    case: Case,
    outputs: Sequence[Output | None],
    graders: GraderLookup,
    help_: GradingContext,
    known: Sequence[Mapping[str, tuple[Judgment, ...]]] = (),
) -> list[tuple[Score, ...]]:
    """Returns the scores of each output of a case with a grader that works over repeats.

    None stands for the output of a failed trial: it gets no scores, and graders over repeats are UNSCORED.
    `prior_judgments` has earlier judgments for each output, as `GradingContext.prior_judgments` has for one;
    it may be empty.
    """
    all_outputs = tuple(output for output in outputs if output is not None)
    missing = len(outputs) - len(all_outputs)
    shared: dict[int, Score] = {}
    for place, assertion in enumerate(case.assertions):
        if not graders(assertion.grader).grades_repeats or not all_outputs:
            continue
        if missing:
            reason = f"{missing} of {len(outputs)} outputs of the case are missing."
            shared[place] = _unscored_result(assertion, CannotScore(reason))
        else:
            grading_input = help_.input_for(case, all_outputs[0], all_outputs)
            shared[place] = await score(assertion, grading_input, graders)
    scores: list[tuple[Score, ...]] = []
    for output, output_judgments in zip(outputs, known or [{}] * len(outputs), strict=True):
        if output is None:
            scores.append(())
            continue
        grading_input = help_.input_for(case, output)
        own = [
            shared[place]
            if place in shared
            else await score(assertion, _add_judgments(grading_input, assertion, output_judgments), graders)
            for place, assertion in enumerate(case.assertions)
        ]
        scores.append(tuple(own))
    return scores


async def score(assertion: Assertion, grading_input: GradingInput, graders: GraderLookup) -> Score:
    """Returns the score of one assertion: UNSCORED, with a reason, if the grader cannot decide or crashes."""
    if grading_input.isolation is not None:
        try:
            kind = graders(assertion.grader)
        except UnknownName as error:
            return _score_from_error(assertion, error)
        if not (kind.needs or kind.is_async):
            return await _score_isolated(assertion, grading_input, graders, grading_input.isolation)
    result = _start_grading(assertion, grading_input, graders)
    if isinstance(result, Score):
        return result
    try:
        return _to_score(assertion, await result)
    except TimeLimitExceeded as limit:
        return _score_from_timeout(assertion, limit)
    except Exception as error:  # noqa: BLE001  # see _not_scored
        return _score_from_error(assertion, error)


async def run_isolated(grading_input: GradingInput, work: Callable[[], T], size: int) -> T:
    """Runs a part of a grader's work, in another process if it is slow, and returns its result.

    Args:
        grading_input: the grader's input.
        work: picklable, as its result must be.
        size: roughly how many characters it reads.

    Raises:
        CannotScore: raised by the work.
        TimeLimitExceeded: it did not end within the limit.
    """
    if grading_input.isolation is None:
        return work()
    value = await grading_input.isolation.call(partial(_value_or_problem, work), size)
    if isinstance(value, CannotScore):
        raise value
    return value


def _value_or_problem(work: Callable[[], T]) -> T | CannotScore:
    try:
        return work()
    except CannotScore as problem:
        return problem


async def _score_isolated(
    assertion: Assertion, grading_input: GradingInput, graders: GraderLookup, isolation: Isolation
) -> Score:
    alone = GradingInput(case=grading_input.case, output=grading_input.output, outputs=grading_input.outputs)
    size = uninterrupted_size((assertion,), grading_input.outputs or (grading_input.output,), graders)
    work = partial(score_immediately, assertion, alone, partial(_single_grader, graders(assertion.grader)))
    try:
        return await isolation.call(work, size, assertion_digest(assertion))
    except TimeLimitExceeded as limit:
        return _score_from_timeout(assertion, limit)
    except Exception as error:  # noqa: BLE001  # see _not_scored
        return _score_from_error(assertion, error)


def _single_grader(kind: type[Any], _name: str) -> type[Any]:
    """Looks up one class whatever the name; picklable with `partial`."""
    return kind


def uninterrupted_size(
    assertions: Sequence[Assertion], outputs: Sequence[Output], graders: GraderLookup
) -> int:
    """Returns roughly how many characters graders read before they can be interrupted.

    Raises:
        UnknownName: there is no grader of that name.
    """
    size = estimate_size(outputs[0]) if len(outputs) == 1 else sum(map(estimate_size, outputs))
    if size > MAX_STEP_LENGTH and all(graders(assertion.grader).reads_in_steps for assertion in assertions):
        return MAX_STEP_LENGTH
    return size


def estimate_size(output: Output) -> int:
    """Returns roughly how many characters an output has; counting stops at `_MAX_SIZE`."""
    size = len(output.text) + len(output.reasoning or "")
    if not output.messages and not output.tool_calls:
        return size
    remaining: list[Any] = [call for message in output.messages for call in message.tool_calls]
    remaining += output.tool_calls
    remaining += [message.content for message in output.messages]
    while remaining and size < _MAX_SIZE:
        value = remaining.pop()
        size += _VALUE_SIZE
        if isinstance(value, ToolCall):
            remaining += (value.arguments, value.output)
        elif isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            remaining += value.keys()
            remaining += value.values()
        elif isinstance(value, list | tuple):
            remaining += value
    return size


def _start_grading(
    assertion: Assertion, grading_input: GradingInput, graders: GraderLookup
) -> Score | Awaitable[GraderResult]:
    """Returns the score, or an awaitable of the grader's result."""
    try:
        grader = build_grader(assertion, graders)
        if assertion.on == "reasoning":
            grading_input = _reasoning_input(grading_input)
        if assertion.pass_at is not None and grader.needs == "judge":
            grading_input = replace(grading_input, pass_at=assertion.pass_at)
        result = grader.grade(grading_input)
        return _to_score(assertion, result) if isinstance(result, GraderResult) else result
    except Exception as error:  # noqa: BLE001  # see _not_scored
        return _score_from_error(assertion, error)


def _reasoning_input(grading_input: GradingInput) -> GradingInput:
    """Returns the input with the reasoning of each output in place of its answer.

    Raises:
        CannotScore: an output has no reasoning.
    """
    outputs = tuple(map(_reasoning_output, grading_input.outputs))
    return replace(grading_input, output=_reasoning_output(grading_input.output), outputs=outputs)


def _reasoning_output(output: Output) -> Output:
    if not output.reasoning:
        raise CannotScore(
            "This check grades the reasoning, but the answer came without any. Use a model that returns its "
            "reasoning, for example with --param reasoning_effort=high, or remove `on` from the check."
        )
    unread = {"messages": (), "tool_calls": (), "file_changes": None, "attachments": (), "logprobs": ()}
    return replace(output, text=output.reasoning, reasoning=None, **unread)


def _score_from_error(assertion: Assertion, error: Exception) -> Score:
    """Turns any exception of a grader, which may be third-party code, into an UNSCORED score."""
    if not isinstance(error, CannotScore):
        error = CannotScore(f"The grader {assertion.grader!r} failed with {type(error).__name__}: {error}")
    return _unscored_result(assertion, error)


def _score_from_timeout(assertion: Assertion, limit: TimeLimitExceeded) -> Score:
    reason = (
        f"The grader {assertion.grader!r} did not end within {limit}. Simplify its parameters, such as "
        f"patterns and schemas, or have the target write shorter answers."
    )
    return _unscored_result(assertion, CannotScore(reason))


def _unscored_result(assertion: Assertion, error: CannotScore) -> Score:
    result = GraderResult(value=None, passed=None, reason=str(error), judgments=error.judgments)
    return _to_score(assertion, result)


def _to_score(assertion: Assertion, result: GraderResult) -> Score:
    value, passed, reason, entries = result.value, result.passed, result.reason, result.entries
    if value is not None and not 0 <= value <= 1:
        reason = f"The grader {assertion.grader!r} gave the value {value}, which is not within 0 and 1."
        value = passed = None
    gate = result.gate
    below_gate = gate is not None and value is not None and not reaches(value, gate)
    if assertion.pass_at is not None and value is not None and passed is not None:
        passed = reaches(value, assertion.pass_at) and not below_gate
    if assertion.negated and value is not None and passed is not None:
        value, passed, reason = 1.0 - (0.0 if below_gate else value), not passed, f"Negated: {reason}"
        entries = tuple([_negate(entry) for entry in entries])
        gate = None
    if assertion.on == "reasoning" and value is not None:
        reason = f"On the reasoning: {reason}"
    if passed is None or value is None:
        outcome, value = _UNSCORED, None
    else:
        outcome = _PASS if passed else _FAIL
    return Score(
        grader=assertion.grader,
        name=assertion.label or assertion.grader,
        assertion=assertion_digest(assertion),
        value=value,
        outcome=outcome,
        weight=assertion.weight,
        required=assertion.required if gate is None else max(assertion.required or 0.0, gate),
        reason=reason,
        entries=entries,
        judgments=result.judgments,
        details=result.details,
        on=assertion.on,
    )


def _negate(entry: Evidence) -> Evidence:
    return entry if entry.passed is None else replace(entry, passed=not entry.passed)

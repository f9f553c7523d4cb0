"""Grades the tool calls of an answer: which were made, in which order, with which arguments, and how fast.

The calls are those that the target reported. A target may report none at all, so nothing passes by the
absence of calls if the target reported neither calls nor messages.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

from msgspec import Struct

from proctor import codec
from proctor.errors import CannotScore
from proctor.graders.field_accuracy import ABSENT, get_value_at, json_equal, parse_path
from proctor.graders.text import clip, quote_list
from proctor.model import Evidence, GraderResult, Output, ToolCall
from proctor.protocols import BaseGrader, GradingInput

_MAX_ENTRIES = 200
_MAX_TOOLS = 30
_SKILL_ARGUMENTS = {"Skill": ("skill",), "Read": ("file_path", "path")}

ArgsMatch = Literal["exact", "ignore", "superset", "subset"] | tuple[str, ...]
"""How arguments are compared: what the actual ones must be relative to the expected ones, or the paths of
those that must be equal."""


def get_tool_calls(output: Output) -> tuple[ToolCall, ...] | None:
    """Returns all tool calls in order; None if the target reported neither calls nor messages."""
    if output.tool_calls:
        return output.tool_calls
    if not output.messages:
        return None
    return tuple(call for message in output.messages for call in message.tool_calls)


class TrajectoryStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One expected call."""

    tool: str
    args: dict[str, Any] | Literal["any"] | None = None
    """The expected arguments; `any` or None accepts any arguments."""
    args_match: ArgsMatch | None = None
    """Replaces the grader's `args_match`."""
    max_duration_ms: float | None = None

    def __post_init__(self) -> None:
        if not self.tool:
            raise ValueError("`tool` is empty; write the name of a tool.")
        if self.max_duration_ms is not None and not 0 <= self.max_duration_ms < math.inf:
            raise ValueError(
                f"`max_duration_ms` of {self.tool!r} is {self.max_duration_ms}; it must be 0 or more."
            )
        _check_paths(self.args_match)


def _check_paths(match: ArgsMatch | None) -> None:
    if isinstance(match, tuple):
        if not match:
            raise ValueError("`args_match` is an empty list; write the paths of arguments, or 'ignore'.")
        for path in match:
            parse_path(path)


class _CallCheck(NamedTuple):
    """An expected call, and the actual call that was compared with it."""

    step: TrajectoryStep | None
    """None if the call was not expected."""
    call: ToolCall | None
    """None if there was no such call."""
    right: bool


class ToolTrajectory(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the tool calls match the expected ones by `mode`."""

    reads_text: ClassVar[bool] = False

    mode: Literal["any_order", "in_order", "exact", "superset", "subset"]
    minimums: dict[str, int] | None = None
    """For `any_order`: the minimum number of calls of each tool."""
    expected: tuple[TrajectoryStep, ...] | None = None
    """For the other modes."""
    args_match: ArgsMatch = "exact"
    partial_credit: bool = True
    """Whether the score is the share of the checks that hold; otherwise it is 1 if all hold, else 0."""

    def __post_init__(self) -> None:
        if self.mode == "any_order":
            if not self.minimums or self.expected is not None:
                raise ValueError(
                    "The mode 'any_order' needs `minimums`, a count for each tool, and no `expected`."
                )
        elif self.expected is None or self.minimums:
            raise ValueError(f"The mode {self.mode!r} needs `expected`, a list of calls, and no `minimums`.")
        for tool, count in (self.minimums or {}).items():
            if count < 0:
                raise ValueError(f"`minimums` has {count} for {tool!r}; it must be 0 or more.")
        _check_paths(self.args_match)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the share of the checks that hold, with one entry per check.

        Each expected call is a check, each call that is not allowed a failed one, and each known duration
        with a limit is a check too.

        Raises:
            CannotScore: making no calls would pass, and the target reported nothing about its calls.
        """
        calls = get_tool_calls(grading_input.output)
        entries = self._check_calls(calls or ())
        results = [bool(entry.passed) for entry in entries if entry.passed is not None]
        right = all(results)
        if calls is None and right:
            raise CannotScore(
                "The target reported neither messages nor tool calls, so its tool calls are unknown."
            )
        names = Counter(clip(call.name) for call in calls or ())
        return GraderResult(
            value=sum(results) / len(results) if results and self.partial_credit else float(right),
            passed=right,
            reason=_reason(entries, any_call=bool(calls)),
            entries=tuple(entries[:_MAX_ENTRIES]),
            details={"calls": dict(names.most_common(_MAX_TOOLS))},
        )

    def _check_calls(self, calls: Sequence[ToolCall]) -> list[Evidence]:
        if self.mode == "any_order":
            counts = Counter(call.name for call in calls)
            return [
                Evidence(
                    text=f"{tool} at least {minimum}×",
                    passed=counts[tool] >= minimum,
                    evidence=f"called {counts[tool]}×",
                )
                for tool, minimum in (self.minimums or {}).items()
            ]
        entries: list[Evidence] = []
        for expected_call in _MATCHERS[self.mode](self.expected or (), calls, self._fits):
            entries.append(_make_entry(expected_call))
            limit = expected_call.step.max_duration_ms if expected_call.step is not None else None
            if expected_call.right and expected_call.call is not None and limit is not None:
                entries.append(_duration_entry(expected_call.call, limit))
        return entries

    def _fits(self, step: TrajectoryStep, call: ToolCall) -> bool:
        """Whether a call matches an expected one, by name and arguments."""
        if step.tool != call.name:
            return False
        if not isinstance(step.args, dict):
            return True
        expected_args, got = step.args, call.arguments
        match = self.args_match if step.args_match is None else step.args_match
        if isinstance(match, tuple):
            pairs = ((get_value_at(expected_args, path), get_value_at(got, path)) for path in match)
            return all(
                expected_value is ABSENT or json_equal(expected_value, other)
                for expected_value, other in pairs
            )
        if match == "superset":
            return all(key in got and json_equal(value, got[key]) for key, value in expected_args.items())
        if match == "subset":
            return all(
                key in expected_args and json_equal(expected_args[key], value) for key, value in got.items()
            )
        return match == "ignore" or json_equal(expected_args, got)


# --- walking -----------------------------------------------------------------------------------------------

_Fits = Callable[[TrajectoryStep, ToolCall], bool]


def _match_in_order(
    expected: Sequence[TrajectoryStep], calls: Sequence[ToolCall], fits: _Fits
) -> Iterator[_CallCheck]:
    """Matches in order, skipping other tools; a call of the right tool with wrong arguments is consumed."""
    remaining = iter(calls)
    for step in expected:
        call = next((candidate for candidate in remaining if candidate.name == step.tool), None)
        yield _CallCheck(step, call, call is not None and fits(step, call))


def _match_exactly(
    expected: Sequence[TrajectoryStep], calls: Sequence[ToolCall], fits: _Fits
) -> Iterator[_CallCheck]:
    """Matches position by position; every further call is unexpected."""
    for place, step in enumerate(expected):
        call = calls[place] if place < len(calls) else None
        yield _CallCheck(step, call, call is not None and fits(step, call))
    for call in calls[len(expected) :]:
        yield _CallCheck(None, call, False)


def _match_any_order(
    expected: Sequence[TrajectoryStep], calls: Sequence[ToolCall], fits: _Fits
) -> Iterator[_CallCheck]:
    """Matches in any order; each call matches one expected call."""
    remaining = list(calls)
    for step in expected:
        place = next((at for at, call in enumerate(remaining) if fits(step, call)), None)
        yield _CallCheck(step, None if place is None else remaining.pop(place), place is not None)


def _match_subset(
    expected: Sequence[TrajectoryStep], calls: Sequence[ToolCall], fits: _Fits
) -> Iterator[_CallCheck]:
    """Matches each call to an expected one, which may match several calls."""
    for call in calls:
        step = next((candidate for candidate in expected if fits(candidate, call)), None)
        yield _CallCheck(step, call, step is not None)


_MATCHERS = {
    "in_order": _match_in_order,
    "exact": _match_exactly,
    "superset": _match_any_order,
    "subset": _match_subset,
}


def _make_entry(expected_call: _CallCheck) -> Evidence:
    step, call = expected_call.step, expected_call.call
    evidence = "not called" if call is None else f"called: {_format_call(call.name, call.arguments)}"
    if step is None:
        name = call.name if call is not None else ""
        return Evidence(text=f"{clip(name)}, which is not expected", passed=False, evidence=evidence)
    args = step.args if isinstance(step.args, dict) else None
    return Evidence(text=_format_call(step.tool, args), passed=expected_call.right, evidence=evidence)


def _format_call(name: str, args: dict[str, Any] | None) -> str:
    return clip(name if args is None else f"{name} {args!r}", 300)


def _duration_entry(call: ToolCall, limit: float) -> Evidence:
    text = f"{call.name} within {limit:g} ms"
    if call.duration_ms is None:
        return Evidence(text=text, evidence="the target reported no duration, so this limit does not count")
    return Evidence(text=text, passed=call.duration_ms <= limit, evidence=f"took {call.duration_ms:g} ms")


def _reason(entries: Sequence[Evidence], *, any_call: bool) -> str:
    wrong = [entry.text for entry in entries if entry.passed is False]
    unknown = [entry.text for entry in entries if entry.passed is None]
    reason = f"The tool calls differ: {quote_list(wrong)}" if wrong else "The tool calls are as expected"
    if not any_call:
        reason += "; the target reported no tool call"
    if unknown:
        reason += f"; of unknown duration: {quote_list(unknown)}"
    return reason + "."


# --- skills ------------------------------------------------------------------------------------------------


class SkillTrigger(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when an agent used a skill; or, with `should_trigger` false, when it did not.

    A skill is used if the agent called the tool `Skill` with its name or the tool `Read` with its name in the
    path, or if the output of any tool has a path in `skills/NAME/`. Only whole names match: `csv` is neither
    in `csv-export` nor in `report.csv`.
    """

    all_or_nothing: ClassVar[bool] = True
    reads_text: ClassVar[bool] = False

    skill: str
    should_trigger: bool = True

    def __post_init__(self) -> None:
        if not self.skill.strip():
            raise ValueError(f"`skill` is {self.skill!r}; write the name of a skill.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it passes, else 0; the entry shows the call that used the skill.

        Raises:
            CannotScore: the target reported neither messages nor tool calls.
        """
        calls = get_tool_calls(grading_input.output)
        if calls is None:
            raise CannotScore(
                "The target reported neither messages nor tool calls, so whether it used the skill "
                f"{clip(self.skill)!r} is not known."
            )
        use = next((call for call in calls if self._is_used_by(call)), None)
        right = (use is not None) is self.should_trigger
        evidence = None if use is None else f"called: {_format_call(use.name, use.arguments)}"
        return GraderResult(
            value=float(right),
            passed=right,
            reason=f"The skill {clip(self.skill)!r} was {'not ' * (use is None)}used.",
            entries=(Evidence(text=self.skill, passed=right, evidence=evidence),),
        )

    def _is_used_by(self, call: ToolCall) -> bool:
        for argument in _SKILL_ARGUMENTS.get(call.name, ()):
            value = call.arguments.get(argument)
            if isinstance(value, str) and _whole_name(self.skill).search(value):
                return True
        output = call.output
        if not isinstance(output, str):
            output = "" if output is None else codec.encode(output).decode("utf-8")
        return f"skills/{self.skill}/" in output


@lru_cache(maxsize=512)
def _whole_name(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")

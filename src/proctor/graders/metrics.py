"""Grades the duration, cost, tokens and calls of an answer against limits.

Nothing is measured here: a figure that the target did not report leaves the answer unscored. The text of the
answer does not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from proctor.errors import CannotScore
from proctor.graders.tool_trajectory import get_tool_calls
from proctor.model import Evidence, GraderResult, Output
from proctor.protocols import BaseGrader, GradingInput

_EXPLORATION_TOOLS: Final = frozenset(
    ("read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch")
)
"""Tools that read and change nothing."""


# --- figures -----------------------------------------------------------------------------------------------


def _get_duration(output: Output) -> float | None:
    if output.duration_ms is not None:
        return output.duration_ms
    return output.latency_ms if output.latency_ms > 0 else None


def _count_tool_calls(output: Output) -> float | None:
    calls = get_tool_calls(output)
    return None if calls is None else len(calls)


def _count_llm_calls(output: Output) -> float | None:
    turns = sum(message.role == "assistant" for message in output.messages)
    return turns or (1 if output.text.strip() else None)


def _exploration_ratio(output: Output) -> float | None:
    calls = get_tool_calls(output)
    return sum(call.name in _EXPLORATION_TOOLS for call in calls) / len(calls) if calls else None


def _count_tokens(*names: str) -> Callable[[Output], float | None]:
    """Returns a function that adds up these fields of an output's usage."""
    return lambda output: sum(getattr(output.usage, name) for name in names) if output.usage else None


class _Figure(NamedTuple):
    label: str
    unit: str
    measure: Callable[[Output], float | None]
    """Returns the figure of an output; None if it is not known."""
    missing_label: str = ""
    """What a message says is missing, if not the figure itself."""


class _Limit(NamedTuple):
    """The range that a figure may have."""

    figure: _Figure
    highest: float
    lowest: float | None = None
    """None: there is no lower limit."""


_TIME = _Figure("duration", " ms", _get_duration)
_MONEY = _Figure("cost", " US dollars", lambda output: output.cost_usd)
_TOTAL = _Figure("tokens", "", _count_tokens("input_tokens", "output_tokens"))
_TOKENS: Final = {
    "max_total": _TOTAL,
    "max_input": _Figure("input tokens", "", _count_tokens("input_tokens")),
    "max_output": _Figure("output tokens", "", _count_tokens("output_tokens")),
}
_WITH_CACHED = _count_tokens("input_tokens", "output_tokens", "cached_tokens")
_TOKENS_AND_CACHED: Final = _TOKENS | {
    "max_total": _Figure("tokens and cached tokens", "", _WITH_CACHED, "tokens")
}
_EXECUTION: Final = {
    "max_tool_calls": _Figure("tool calls", "", _count_tool_calls),
    "max_llm_calls": _Figure("LLM calls", "", _count_llm_calls),
    "max_tokens": _TOTAL,
    "max_cost_usd": _MONEY,
    "max_duration_ms": _TIME,
}
_RATIO = _Figure("exploration ratio", "", _exploration_ratio, "tool call, so no exploration ratio")


def _build_limits(grader: Any, figures: Mapping[str, _Figure]) -> list[_Limit]:
    """Returns the limits that a grader has.

    Raises:
        ValueError: a limit is not a finite number of 0 or more.
    """
    limits: list[_Limit] = []
    for name, figure in figures.items():
        highest = getattr(grader, name)
        if highest is None:
            continue
        if not 0 <= highest < math.inf:
            raise ValueError(f"`{name}` is {highest}; it must be a finite number of 0 or more.")
        limits.append(_Limit(figure, highest))
    return limits


def _grade_limits(output: Output, limits: Sequence[_Limit], *, whole: bool = False) -> GraderResult:
    """Grades an output against limits; `whole` allows only the scores 0 and 1.

    Raises:
        CannotScore: a figure is not known.
    """
    entries: list[Evidence] = []
    details: dict[str, float] = {}
    missing: list[str] = []
    for figure, highest, lowest in limits:
        value = figure.measure(output)
        if value is None:
            missing.append(figure.missing_label or figure.label)
            continue
        # 0.6 + 0.2 is not exactly 0.8 in binary.
        slack = 0.0 if lowest is None else 1e-9
        within = (lowest is None or value >= lowest - slack) and value <= highest + slack
        allowed = f"at most {highest:.10g}" if lowest is None else f"from {lowest:.4g} to {highest:.4g}"
        text = f"{figure.label} {allowed}{figure.unit}"
        entries.append(Evidence(text=text, passed=within, evidence=f"is {value:.10g}{figure.unit}"))
        details[figure.label.lower().replace(" ", "_")] = value
    if missing:
        raise CannotScore(f"The target reported no {', no '.join(missing)} to check a limit against.")
    wrong = [f"{entry.text} ({entry.evidence})" for entry in entries if not entry.passed]
    value = float(not wrong) if whole else 1.0 - len(wrong) / len(entries)
    reason = f"Limit not met: {'; '.join(wrong)}." if wrong else "Every limit is met."
    return GraderResult(value=value, passed=not wrong, reason=reason, entries=tuple(entries), details=details)


# --- graders -----------------------------------------------------------------------------------------------


class _Limits(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What graders with one limit share."""

    all_or_nothing: ClassVar[bool] = True
    reads_text: ClassVar[bool] = False
    figures: ClassVar[Mapping[str, _Figure]]

    def __post_init__(self) -> None:
        _build_limits(self, self.figures)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it passes, else 0.

        Raises:
            CannotScore: the figure is not known.
        """
        return _grade_limits(grading_input.output, _build_limits(self, self.figures))


class Latency(_Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the duration, reported by the target or else measured, is at most `threshold_ms`."""

    figures: ClassVar[Mapping[str, _Figure]] = {"threshold_ms": _TIME}

    threshold_ms: float


class Cost(_Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the cost is at most `budget_usd`."""

    figures: ClassVar[Mapping[str, _Figure]] = {"budget_usd": _MONEY}

    budget_usd: float


class TokenUsage(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer used no more tokens than the limits allow."""

    all_or_nothing: ClassVar[bool] = True
    reads_text: ClassVar[bool] = False

    max_total: float | None = None
    max_input: float | None = None
    max_output: float | None = None
    add_cached: bool = False
    """Whether `max_total` counts cached tokens in addition to input and output."""

    def __post_init__(self) -> None:
        if not self._token_limits():
            raise ValueError("No limit is set; set `max_total`, `max_input` or `max_output`.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if every limit is kept, else 0; one entry per limit.

        Raises:
            CannotScore: the number of tokens is not known.
        """
        return _grade_limits(grading_input.output, self._token_limits(), whole=True)

    def _token_limits(self) -> list[_Limit]:
        return _build_limits(self, _TOKENS_AND_CACHED if self.add_cached else _TOKENS)


class ExecutionMetrics(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when every given limit is kept.

    An LLM call is a message of the assistant; an answer without messages is one. The exploration ratio is
    the share of the tool calls that only read: read, grep, glob, search, list and those of the web.
    """

    reads_text: ClassVar[bool] = False

    max_tool_calls: float | None = None
    max_llm_calls: float | None = None
    max_tokens: float | None = None
    max_cost_usd: float | None = None
    max_duration_ms: float | None = None
    target_exploration_ratio: float | None = None
    exploration_tolerance: float = 0.2
    """How far the ratio may be from its target."""

    def __post_init__(self) -> None:
        target = self.target_exploration_ratio
        if target is not None and not 0 <= target <= 1:
            raise ValueError(f"`target_exploration_ratio` is {target}; it must be from 0 to 1.")
        if not 0 <= self.exploration_tolerance <= 1:
            raise ValueError(
                f"`exploration_tolerance` is {self.exploration_tolerance}; it must be from 0 to 1."
            )
        if not _build_limits(self, _EXECUTION) and target is None:
            raise ValueError(
                f"No limit is set; set one of {', '.join(_EXECUTION)}, target_exploration_ratio."
            )

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the share of the limits that are kept, with one entry per limit.

        Raises:
            CannotScore: a figure that is limited is not known.
        """
        limits = _build_limits(self, _EXECUTION)
        target = self.target_exploration_ratio
        if target is not None:
            around = self.exploration_tolerance
            limits.append(_Limit(_RATIO, highest=target + around, lowest=target - around))
        return _grade_limits(grading_input.output, limits)

"""The nouns of what comes back: answers, what graders and judges say of them, and failures.

Part of `proctor.model.suites_and_runs`, which is where everything else imports them from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from proctor.model.messages import Message, Noun, ToolCall


class Verdict(StrEnum):
    """The result of a trial, or of one of its scores (then called an outcome)."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    UNSCORED = "unscored"


class Usage(Noun, frozen=True, kw_only=True):
    """Tokens of one call as the endpoint counted them; `input_tokens` includes the cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


class Output(Noun, frozen=True, kw_only=True):
    """One answer of a target, with what it took to get it."""

    text: str
    messages: tuple[Message, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    latency_ms: float = 0.0
    """From sending the request that succeeded to having read its answer."""
    queue_ms: float = 0.0
    """What was spent waiting: for a free place, for `Retry-After`, between retries."""
    cost_usd: float | None = None
    """None: the price is not known."""
    finish_reason: str | None = None
    model: str | None = None
    """The model as the endpoint reported it."""
    fingerprint: str | None = None
    """The system fingerprint as the endpoint reported it."""
    refused_params: tuple[str, ...] = ()
    """Parameters that the endpoint does not take, so that they were not applied."""
    duration_ms: float | None = None
    """How long the target itself says it took."""
    file_changes: str | None = None
    """What it changed in its workspace, as a unified diff."""
    target: str | None = None
    """The fallback that answered, if one did."""
    cached: bool = False
    """Taken from the cache: nothing was asked, and nothing paid."""


class Judgment(Noun, frozen=True, kw_only=True):
    """One answer of one judge."""

    judge: str
    prompt_digest: str
    nth: int = 0
    passed: bool | None = None
    value: float | None = None
    feedback: str | None = None
    evaluator: str | None = None
    """The prompt of the suite's own by which the judge was asked, where there are several."""
    raw: str = ""
    """The judge's reply as it came."""
    usage: Usage | None = None
    cost_usd: float | None = None
    cached: bool = False
    """Taken from the cache or from an earlier run: nothing was asked, and nothing paid."""


class Entry(Noun, frozen=True, kw_only=True):
    """One line of a score's evidence: what was looked for, whether it was there, and where."""

    text: str
    passed: bool | None = None
    evidence: str | None = None


class Mark(Noun, frozen=True, kw_only=True):
    """What a grader says of an answer, before weight, gate and negation are applied."""

    value: float | None
    """From 0 to 1; None when nothing could be said, never NaN."""
    passed: bool | None
    reason: str = ""
    entries: tuple[Entry, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    details: dict[str, Any] = {}
    gate: float | None = None
    """The grader's own gate, where something in it must hold: a value below it fails the trial."""


class Score(Noun, frozen=True, kw_only=True):
    """The result of one assertion for one output."""

    grader: str
    name: str
    """The assertion's label, or the grader's name."""
    assertion: str = ""
    """The assertion's digest."""
    value: float | None = None
    outcome: Verdict
    weight: float = 1.0
    required: float | None = None
    reason: str = ""
    entries: tuple[Entry, ...] = ()
    judgments: tuple[Judgment, ...] = ()
    details: dict[str, Any] = {}


class Failure(Noun, frozen=True, kw_only=True):
    """Why a trial has no output, or why its grading stopped."""

    stage: Literal["setup", "target", "grading"]
    kind: str
    """`timeout`, `http`, `connection`, `refused`, `missing`, `program`, `protocol`, `too-large`, `budget`,
    `workspace`, `not-asked` in a run that grades another one again, or `invalid` or `unsupported` for a case
    that cannot be run."""
    message: str


class Label(Noun, frozen=True, kw_only=True):
    """One person's verdict on one answer. It grades nothing: judges are measured by it."""

    case_id: str
    repeat: int = 0
    run: str = ""
    """The run whose answer it is; empty where the answer stands beside the label."""
    passed: bool
    by: str = ""
    """Who says so."""
    note: str = ""
    """Why, in their words."""


class Sway(Noun, frozen=True, kw_only=True):
    """How many verdicts of a judge change when it is shown the same answers in another way."""

    both: int = 0
    """Of the answers that got a verdict both as a run asks and in the other way so many pass either way."""
    to_pass: int = 0
    """Answers that pass only in the other way."""
    to_fail: int = 0
    """Answers that pass only as a run asks."""
    neither: int = 0
    moved: int = 0
    """Answers that change in the other way, and did not when they were asked about again in the usual way."""
    restless: int = 0
    """Answers that changed when they were asked about again, and do not in the other way."""

    @property
    def count(self) -> int:
        """The answers with both verdicts."""
        return self.both + self.to_pass + self.to_fail + self.neither

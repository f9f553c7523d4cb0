"""Requests and responses about runs and their trials."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.web.api.models.suites import DIGEST, Share

RUN = "20261121-225349-e91629"
Status = Literal["running", "finished", "interrupted"]
VerdictName = Literal["pass", "fail", "error", "unscored"]
RepeatsRule = Literal["each", "any", "mean", "lower_bound"]
Interval = list[float] | None
"""The two ends of a 95 % interval; null if there is none."""


class VerdictCountsResource(BaseModel):
    """The number of trials by verdict, of a run or of part of it."""

    total: int
    passed: int
    failed: int
    errors: int
    unscored: int
    cases: int = Field(description="Number of cases that `ci95` is based on.")
    pass_rate: Share = Field(examples=[0.8])
    ci95: Interval = Field(examples=[[0.49, 0.943]])


class RunSummaryResource(BaseModel):
    """A run in a list; if `sealed`, its pass rate would be that of the holdout alone, and is null."""

    run: str = Field(examples=[RUN])
    group: str
    suite: str
    suite_version: str | None
    suite_digest: str = Field(examples=[DIGEST])
    dialect: str
    target: str
    judges: list[str]
    status: Status
    planned: int = Field(description="Number of planned trials.")
    missing: int = Field(description="Number of planned trials without a verdict.")
    total: int
    passed: int | None
    failed: int | None
    errors: int | None
    unscored: int | None
    cases: int
    pass_rate: Share
    ci95: Interval
    measured: VerdictCountsResource | None = Field(description="The same without errors and unscored trials.")
    repeats_rule: RepeatsRule
    sealed: bool
    tags: list[str]
    started_at: str
    finished_at: str | None


class RunPageResource(BaseModel):
    """A page of runs, newest first."""

    runs: list[RunSummaryResource]
    next: str | None = Field(description="The `after` of the next page; null on the last one.")


class RunProgressResource(BaseModel):
    """The progress of a run; if `sealed`, the counts by verdict are null."""

    run: str = Field(examples=[RUN])
    group: str
    status: Status = Field(description="`interrupted` includes runs whose process died.")
    alive: bool = Field(description="Whether a process is running it now.")
    planned: int = Field(description="Number of planned trials.")
    done: int = Field(description="Number of trials with a verdict.")
    missing: int
    waiting: int = Field(description="Number of answers that wait for judges.")
    sealed: bool
    passed: int | None
    failed: int | None
    errors: int | None
    unscored: int | None
    per_second: float | None = Field(description="Trials per second; null if no process is running it.")
    seconds_left: float | None = Field(description="Estimated time left.")
    cost_usd: float | None = Field(description="Cost of the target so far; null if the price is unknown.")
    started_at: str
    at: str = Field(description="Time of this response.")


class LatencyResource(BaseModel):
    """Latencies of answers, in milliseconds."""

    p50: float | None
    p95: float | None
    mean: float | None


class TokenUsageResource(BaseModel):
    """Tokens used by calls."""

    input_tokens: int
    output_tokens: int


class JudgeSummaryResource(BaseModel):
    """The usage of the judges of a run, and what is known of them."""

    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    calibrations: list[dict[str, Any]] = Field(
        description="For each judge that was used, how well it agrees with people."
    )


class RunResource(VerdictCountsResource):
    """A run, as printed by `proctor runs show --json`."""

    run: str = Field(examples=[RUN])
    group: str
    suite: str
    suite_version: str | None
    declared_version: str | None
    suite_digest: str = Field(examples=[DIGEST])
    suite_hash: str | None
    dialect: str
    target: str
    judges: list[str]
    status: Status
    planned: int
    repeats_rule: RepeatsRule
    by_trial: VerdictCountsResource | None = Field(
        description="The numbers by trial, if each case counts once above."
    )
    mean_score: float | None
    splits: dict[str, VerdictCountsResource] = Field(
        description="The numbers of `dev` and `holdout`, if the suite is split."
    )
    split_notes: list[str]
    looks: int | None = Field(description="Number of accesses to this version's holdout.")
    by_category: dict[str, VerdictCountsResource]
    by_tag: dict[str, VerdictCountsResource]
    asked: int
    cached: int
    graded: int
    reused: int
    latency_ms: LatencyResource
    usage: TokenUsageResource
    cost_usd: float | None = Field(description="Null if a price is unknown.")
    judge: JudgeSummaryResource
    refused_params: list[str]
    prices_date: str | None
    tags: list[str]
    started_at: str
    finished_at: str | None
    warnings: list[str]
    stopped: str | None = Field(
        default=None, description="Why Proctor stopped it, as a sentence; null if it did not."
    )
    exit_code: int = Field(description="The exit code of `proctor run`.")


class CallUsageResource(TokenUsageResource):
    """Tokens used by one call."""

    cached_tokens: int


class FailureResource(BaseModel):
    """Why a trial has no output, or why its grading stopped."""

    stage: Literal["setup", "target", "grading"]
    kind: str = Field(examples=["timeout"])
    message: str


class OutputResource(BaseModel):
    """One answer of a target."""

    text: str
    messages: list[dict[str, Any]]
    tool_calls: list[dict[str, Any]]
    usage: CallUsageResource | None
    latency_ms: float
    queue_ms: float
    cost_usd: float | None
    finish_reason: str | None
    model: str | None
    fingerprint: str | None
    refused_params: list[str]
    duration_ms: float | None
    file_changes: str | None
    target: str | None = Field(description="The fallback target that answered, if any.")
    cached: bool


class EvidenceResource(BaseModel):
    """One line of a score's evidence."""

    text: str
    passed: bool | None
    evidence: str | None


class JudgmentResource(BaseModel):
    """One reply of one judge."""

    judge: str
    prompt_digest: str
    nth: int
    passed: bool | None
    value: float | None
    feedback: str | None
    evaluator: str | None
    raw: str
    usage: CallUsageResource | None
    cost_usd: float | None
    cached: bool


class ScoreResource(BaseModel):
    """The result of one assertion; for a sealed trial without anything about its answer."""

    grader: str
    name: str
    value: float | None
    outcome: VerdictName
    weight: float
    required: float | None = Field(description="The minimum value, if the assertion is a gate.")
    reason: str | None
    entries: list[EvidenceResource] | None
    judgments: list[JudgmentResource] | None
    details: dict[str, Any] | None


class TrialResource(BaseModel):
    """A trial, as printed by `proctor runs show --case --json`, with its position."""

    position: int = Field(description="The position of its case in the suite, from 0.")
    run: str = Field(examples=[RUN])
    suite: str
    suite_version: str | None
    case_id: str
    target: str
    repeat: int
    verdict: VerdictName
    score: float | None
    failed_gates: list[str]
    scores: list[ScoreResource]
    output: OutputResource | None
    failure: FailureResource | None
    latency_ms: float | None
    usage: CallUsageResource | None
    cost_usd: float | None
    tags: list[str]
    category: str | None
    split: Literal["dev", "holdout"] | None
    sealed: bool = Field(description="Whether it is held out: prompt and answer are null.")
    started_at: str
    source_run: str | None = Field(description="The run that it was reused from, if it was.")


class TrialPageResource(BaseModel):
    """A page of trials of a run."""

    trials: list[TrialResource]
    total: int = Field(description="Number of matching trials on all pages.")
    whole: bool = Field(
        description="Whether every finished trial has been read; if not, repeat the request in a moment."
    )
    next: str | None = Field(description="The `after` of the next page; null on the last one.")
    previous: str | None


class RevealResource(BaseModel):
    """A run whose held-out answers are shown until the server stops."""

    run: str
    looks: int = Field(description="Number of accesses to this version's holdout, this one included.")


class ListRunsQuery(BaseModel):
    """Filters for runs; an absent filter matches every run."""

    model_config = ConfigDict(extra="forbid")
    suite: str | None = Field(default=None, description="Only runs of this suite.", examples=["my_suite"])
    version: str | None = Field(default=None, description="Only of this version of it.", examples=["v2"])
    target: str | None = Field(default=None, description="Only runs on this target.")
    tag: str | None = Field(default=None, description="Only runs with this tag.")
    group: str | None = Field(default=None, description="Only runs started together by one command.")
    status: Status | None = Field(default=None, description="Only runs with this status.")
    after: str | None = Field(default=None, description="The `next` of the previous page.")
    limit: int = Field(default=20, ge=1, le=200, description="Maximum number of results.")


class ListTrialsQuery(BaseModel):
    """Filters for trials; an absent filter matches every trial."""

    model_config = ConfigDict(extra="forbid")
    verdict: list[VerdictName] = Field(default=[], description="Any of these.", examples=[["fail", "error"]])
    tag: list[str] = Field(
        default=[], max_length=20, description="Cases with all of these tags; commas in one mean any."
    )
    grader: list[str] = Field(default=[], max_length=20, description="Trials graded by all of these graders.")
    missed: list[str] = Field(
        default=[], max_length=20, description="Trials that none of these graders passed."
    )
    category: str = Field(default="", description="Only cases of this category.")
    split: Literal["", "dev", "holdout"] = Field(default="", description="Only this part of the suite.")
    case: str = Field(
        default="", max_length=1000, description="A glob pattern for case ids.", examples=["t1", "t*"]
    )
    text: str = Field(
        default="",
        max_length=1000,
        description="Text in the id, prompt, answer or reasons; case-insensitive.",
    )
    sort: str = Field(
        default="position",
        pattern="^-?(position|case|verdict|score|latency|cost)$",
        description="The sort order; a leading `-` reverses it.",
    )
    after: str = Field(default="", max_length=1000, description="The `next` of the previous page.")
    limit: int = Field(default=50, ge=1, le=200, description="Maximum number of results.")

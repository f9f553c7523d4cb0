"""The shapes of what the API reads and answers about runs and their trials."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from proctor.web.api.models.suites import DIGEST, Share

RUN = "20261121-225349-e91629"
Status = Literal["running", "finished", "interrupted"]
VerdictName = Literal["pass", "fail", "error", "unscored"]
RepeatsRule = Literal["each", "any", "mean", "lower_bound"]
Interval = list[float] | None
"""The two ends of a 95 % interval; null where there is none."""


class VerdictCounts(BaseModel):
    """How many trials came to each verdict, of a run or of a part of it."""

    total: int
    passed: int
    failed: int
    errors: int
    unscored: int
    cases: int = Field(description="How many cases `ci95` is over.")
    pass_rate: Share = Field(examples=[0.8])
    ci95: Interval = Field(examples=[[0.49, 0.943]])


class RunSummary(BaseModel):
    """A run as a list has it; where `sealed`, its rate would be that of the holdout alone, and is null."""

    run: str = Field(examples=[RUN])
    group: str
    suite: str
    suite_version: str | None
    suite_digest: str = Field(examples=[DIGEST])
    dialect: str
    target: str
    judges: list[str]
    status: Status
    planned: int = Field(description="How many trials it is to have.")
    missing: int = Field(description="How many of them are not there yet.")
    total: int
    passed: int | None
    failed: int | None
    errors: int | None
    unscored: int | None
    cases: int
    pass_rate: Share
    ci95: Interval
    measured: VerdictCounts | None = Field(description="The same without what is an error or unscored.")
    repeats_rule: RepeatsRule
    sealed: bool
    tags: list[str]
    started_at: str
    finished_at: str | None


class RunPage(BaseModel):
    """Some runs, newest first."""

    runs: list[RunSummary]
    next: str | None = Field(description="The `after` of the following page; null on the last.")


class RunProgress(BaseModel):
    """How far a run is; where `sealed`, what came of its trials is null."""

    run: str = Field(examples=[RUN])
    group: str
    status: Status = Field(description="`interrupted` is also a run whose process died.")
    alive: bool = Field(description="A process is making it right now.")
    planned: int = Field(description="How many trials it is to have.")
    done: int = Field(description="How many are there with a verdict.")
    missing: int
    waiting: int = Field(description="How many answers wait for their judges.")
    sealed: bool
    passed: int | None
    failed: int | None
    errors: int | None
    unscored: int | None
    per_second: float | None = Field(description="How many were done a second; null when nobody is at it.")
    seconds_left: float | None = Field(description="About how long it takes still.")
    cost_usd: float | None = Field(description="What the target has cost; null where no price is known.")
    started_at: str
    at: str = Field(description="When this was answered.")


class Latency(BaseModel):
    """Latencies of answers, in milliseconds."""

    p50: float | None
    p95: float | None
    mean: float | None


class TokenUsage(BaseModel):
    """What calls took."""

    input_tokens: int
    output_tokens: int


class JudgeSummary(BaseModel):
    """What the judges of a run took, and what is known of them."""

    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    calibrations: list[dict[str, Any]] = Field(
        description="For each judge that spoke, how well it agrees with people."
    )


class Run(VerdictCounts):
    """What `proctor runs show --json` has of one run."""

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
    by_trial: VerdictCounts | None = Field(description="The numbers of all trials, where a case counts once.")
    mean_score: float | None
    splits: dict[str, VerdictCounts] = Field(description="Of `dev` and `holdout`, for a suite that is split.")
    split_notes: list[str]
    looks: int | None = Field(description="How often this version's holdout was looked at.")
    by_category: dict[str, VerdictCounts]
    by_tag: dict[str, VerdictCounts]
    asked: int
    cached: int
    graded: int
    reused: int
    latency_ms: Latency
    usage: TokenUsage
    cost_usd: float | None = Field(description="Null where a price is not known.")
    judge: JudgeSummary
    refused_params: list[str]
    prices_date: str | None
    tags: list[str]
    started_at: str
    finished_at: str | None
    warnings: list[str]
    stopped: str | None = Field(
        default=None, description="Why Proctor stopped it, as a sentence; null where it did not."
    )
    exit_code: int = Field(description="What `proctor run` ended with.")


class CallUsage(TokenUsage):
    """What one call took."""

    cached_tokens: int


class Failure(BaseModel):
    """Why a trial has no output, or why its grading stopped."""

    stage: Literal["setup", "target", "grading"]
    kind: str = Field(examples=["timeout"])
    message: str


class Output(BaseModel):
    """One answer of a target."""

    text: str
    messages: list[dict[str, Any]]
    tool_calls: list[dict[str, Any]]
    usage: CallUsage | None
    latency_ms: float
    queue_ms: float
    cost_usd: float | None
    finish_reason: str | None
    model: str | None
    fingerprint: str | None
    refused_params: list[str]
    duration_ms: float | None
    file_changes: str | None
    target: str | None = Field(description="The fallback that answered, if one did.")
    cached: bool


class Evidence(BaseModel):
    """One line of a score's evidence."""

    text: str
    passed: bool | None
    evidence: str | None


class Judgment(BaseModel):
    """One reply of one judge."""

    judge: str
    prompt_digest: str
    nth: int
    passed: bool | None
    value: float | None
    feedback: str | None
    evaluator: str | None
    raw: str
    usage: CallUsage | None
    cost_usd: float | None
    cached: bool


class Score(BaseModel):
    """What one assertion came to; of a sealed trial without what tells of its answer."""

    grader: str
    name: str
    value: float | None
    outcome: VerdictName
    weight: float
    required: float | None = Field(description="The gate, if it has one.")
    reason: str | None
    entries: list[Evidence] | None
    judgments: list[Judgment] | None
    details: dict[str, Any] | None


class Trial(BaseModel):
    """One trial, as `proctor runs show --case --json` has it, with its place."""

    position: int = Field(description="The place of its case in the suite, from 0.")
    run: str = Field(examples=[RUN])
    suite: str
    suite_version: str | None
    case_id: str
    target: str
    repeat: int
    verdict: VerdictName
    score: float | None
    failed_gates: list[str]
    scores: list[Score]
    output: Output | None
    failure: Failure | None
    latency_ms: float | None
    usage: CallUsage | None
    cost_usd: float | None
    tags: list[str]
    category: str | None
    split: Literal["dev", "holdout"] | None
    sealed: bool = Field(description="It is held out: what tells of question and answer is null.")
    started_at: str
    source_run: str | None = Field(description="The run it was taken over from, if it was.")


class TrialPage(BaseModel):
    """Some trials of a run."""

    trials: list[Trial]
    total: int = Field(description="How many there are on all pages together.")
    whole: bool = Field(description="Every finished trial was looked through; else ask again in a moment.")
    next: str | None = Field(description="The `after` of the following page; null on the last.")
    previous: str | None


class Reveal(BaseModel):
    """A run whose held-out answers are shown from now on, until the server is stopped."""

    run: str
    looks: int = Field(description="How often this version's holdout was looked at, this time included.")


class RunFilter(BaseModel):
    """Which runs are wanted; what is left out leaves none out."""

    model_config = ConfigDict(extra="forbid")
    suite: str | None = Field(default=None, description="Only runs of this suite.", examples=["my_suite"])
    version: str | None = Field(default=None, description="Only of this version of it.", examples=["v2"])
    target: str | None = Field(default=None, description="Only runs on this target.")
    tag: str | None = Field(default=None, description="Only runs with this tag.")
    group: str | None = Field(default=None, description="Only runs that one command started together.")
    status: Status | None = Field(default=None, description="Only runs in this state.")
    after: str | None = Field(default=None, description="The `next` of the page before.")
    limit: int = Field(default=20, ge=1, le=200, description="At most so many.")


class TrialFilter(BaseModel):
    """Which trials are wanted; what is left out leaves none out."""

    model_config = ConfigDict(extra="forbid")
    verdict: list[VerdictName] = Field(default=[], description="Any of these.", examples=[["fail", "error"]])
    tag: list[str] = Field(
        default=[], max_length=20, description="Cases with all of these tags; commas in one mean any."
    )
    grader: list[str] = Field(default=[], max_length=20, description="Graded by all of these.")
    missed: list[str] = Field(default=[], max_length=20, description="Not passed by any of these graders.")
    category: str = Field(default="", description="Cases of this category.")
    split: Literal["", "dev", "holdout"] = Field(default="", description="One part of the suite.")
    case: str = Field(
        default="", max_length=1000, description="A glob for ids of cases.", examples=["t1", "t*"]
    )
    text: str = Field(
        default="", max_length=1000, description="Somewhere in id, question, answer or reasons; any case."
    )
    sort: str = Field(
        default="position",
        pattern="^-?(position|case|verdict|score|latency|cost)$",
        description="What they are sorted by; `-` before it turns the order around.",
    )
    after: str = Field(default="", max_length=1000, description="The `next` of the page before.")
    limit: int = Field(default=50, ge=1, le=200, description="At most so many.")

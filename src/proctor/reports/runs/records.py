"""The records of runs and trials that `--json`, exports, pages and the API give. Pure.

Names and order of the fields are a stable interface for scripts. Fields are encoded even with their default
values; only UNSET ones are left out. JSON Schema comes from these classes, named without `Record`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from proctor.model import (
    ChoiceLikelihood,
    Evidence,
    Failure,
    GateMode,
    Judgment,
    Output,
    StopReason,
    Usage,
    Verdict,
)
from proctor.reports.record_fields import Digest, Interval, RepeatsRule, RunId, Split, Status, Time, about
from proctor.run_gate import GateDecision

_PassRate = Annotated[
    float | None,
    Meta(
        description="The mean over cases of the share of measured trials that passed; null without any.",
        examples=[0.8],
    ),
]
_PassRateInterval = Annotated[Interval, Meta(examples=[[0.49, 0.943]])]
_Bounds = Annotated[
    Interval,
    Meta(
        description="The pass rate if all errors and unscored trials had failed, and if all had passed.",
        examples=[[0.727, 0.818]],
    ),
]


class VerdictCountsRecord(Struct, frozen=True, kw_only=True):
    """The number of trials by verdict, of a run or of part of it."""

    total: int
    passed: int
    failed: int
    errors: int
    unscored: int
    cases: Annotated[int, about("Number of cases with a measured trial, which `pass_rate` is over.")]
    pass_rate: _PassRate
    ci95: _PassRateInterval
    bounds: _Bounds


class EarlyStopRecord(Struct, frozen=True, kw_only=True):
    """What is known of a run that stopped by its own settings, before its last case."""

    reason: StopReason
    cases: Annotated[int, about("Number of cases that its result covers.")]
    planned_cases: int
    interval: Annotated[Interval, about("Its confidence sequence, whatever the unmeasured would be: `ci95`.")]
    fixed_interval: Annotated[
        Interval, about("The interval that the same number of cases gives in a run of fixed size.")
    ]
    gate_range: tuple[float, float]


_EarlyStop = Annotated[
    EarlyStopRecord | UnsetType, about("Why it stopped by its own settings before its last case.")
]
_ShardText = Annotated[
    str | UnsetType,
    Meta(
        description="Its shard of the selected cases, I/N with I from 0; absent if it is none.",
        examples=["0/4"],
    ),
]
_IntervalKind = Annotated[
    Literal["confidence sequence"] | UnsetType,
    about("What `ci95` is, for a run that may stop by what it shows; absent for others."),
]


class PromptRecord(Struct, frozen=True, kw_only=True):
    """The prompt of a run."""

    name: Annotated[str, Meta(examples=["terse"])]
    digest: Annotated[Digest, about("The digest of its messages, whatever its name.")]


_Prompt = Annotated[
    PromptRecord | None, about("The prompt that its cases fill in; null if they are sent unchanged.")
]


class RunSummaryRecord(Struct, frozen=True, kw_only=True):
    """A run in a list; if `sealed`, its pass rate would be that of the holdout alone, and is null."""

    run: RunId
    group: str
    suite: str
    suite_version: str | None
    suite_digest: Digest
    dialect: str
    target: str
    prompt: _Prompt
    judges: tuple[str, ...]
    status: Status
    planned: Annotated[int, about("Number of planned trials.")]
    missing: Annotated[int, about("Number of planned trials without a verdict.")]
    total: int
    passed: int | None
    failed: int | None
    errors: int | None
    unscored: int | None
    cases: int
    pass_rate: _PassRate
    ci95: _PassRateInterval
    bounds: _Bounds
    repeats_rule: RepeatsRule
    sealed: bool
    tags: tuple[str, ...]
    started_at: Time
    finished_at: Time | None
    shard: _ShardText = UNSET
    early_stop: _EarlyStop = UNSET
    interval_kind: _IntervalKind = UNSET


class LatencyRecord(Struct, frozen=True, kw_only=True):
    """Latencies of answers that were measured in the run, in milliseconds."""

    p50: float | None
    p95: float | None
    mean: float | None
    answers: Annotated[int, about("Number of answers whose latency was measured in the run.")]
    left_out: Annotated[int, about("Number of answers from the cache or another run, in no other number.")]


class SpeedRecord(Struct, frozen=True, kw_only=True):
    """Times to the first token, in milliseconds, or tokens per second, of a run's streamed answers."""

    p5: float
    p50: float
    p95: float
    mean: float
    answers: Annotated[int, about("Number of answers that have it; none is from the cache or another run.")]


class TokenUsageRecord(Struct, frozen=True, kw_only=True):
    """Tokens used by calls."""

    input_tokens: int
    output_tokens: int
    cached_tokens: Annotated[int, about("Part of the input that services read from their caches.")]
    cache_write_tokens: Annotated[int, about("Part of the input that services wrote to their caches.")]
    reasoning_tokens: Annotated[int, about("Part of the output that is reasoning.")]


class PeoplePassRateRecord(Struct, frozen=True, kw_only=True):
    """The pass rate that people would give a run, from labels of some answers and judgments of all."""

    rate: float
    ci95: Interval
    labels: Annotated[int, about("Number of labelled answers.")]
    for_doubt: Annotated[int, about("Number of these that were drawn for doubt.")]
    judgments: Annotated[int, about("Number of answers that judges decided.")]
    not_drawn: Annotated[
        int, about("Number of labelled answers left out; how they were chosen is not known.")
    ]
    held_out: Annotated[int, about("Number of judged answers left out because they are held out.")]


class JudgeSummaryRecord(Struct, frozen=True, kw_only=True):
    """The usage of the judges of a run, and what is known of them."""

    calls: int
    cached: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    calibrations: Annotated[
        tuple[dict[str, Any], ...], about("For each judge that was used, how well it agrees with people.")
    ]
    people_pass_rate: Annotated[
        PeoplePassRateRecord | UnsetType,
        about("Absent without labels of the run's own answers, or if something else decided some of them."),
    ] = UNSET


class PointGateErrorsRecord(Struct, frozen=True, kw_only=True):
    """How often a gate on the pass rate is wrong, for one true rate on each side of it."""

    below: Annotated[float, about("A true rate below the gate.")]
    false_passes: Annotated[float, about("The chance that it passes the gate.")]
    above: Annotated[float, about("A true rate above the gate.")]
    false_failures: Annotated[float, about("The chance that it fails the gate.")]


class RunGateRecord(Struct, frozen=True, kw_only=True):
    """The gate of a run."""

    min_pass_rate: float
    mode: Annotated[GateMode, about("What the gate is compared with: the rate, or its 95 % interval.")]
    decision: GateDecision
    low: Annotated[float | None, about("The lowest rate that counts; unmeasured trials have failed.")]
    high: Annotated[float | None, about("The highest rate that counts; unmeasured trials have passed.")]
    errors: Annotated[PointGateErrorsRecord | None, about("In the mode `point`, how often it is wrong.")]


class ChoiceAccuracyRecord(Struct, frozen=True, kw_only=True):
    """How often the likeliest of the choices was right, by the measures of lm-evaluation-harness."""

    answers: Annotated[int, about("Number of answers with choices.")]
    acc: Annotated[float, about("By the log-probability of each choice.")]
    acc_norm: Annotated[float, about("By the log-probability per character.")]
    acc_bytes: Annotated[float, about("By the log-probability per byte.")]


class RunRecord(Struct, frozen=True, kw_only=True):
    """A run, as printed by `proctor runs show --json`."""

    run: RunId
    group: str
    suite: str
    suite_version: str | None
    declared_version: str | None
    suite_digest: Digest
    suite_hash: str | None
    dialect: str
    target: str
    prompt: _Prompt
    judges: tuple[str, ...]
    status: Status
    planned: int
    total: int
    passed: int
    failed: int
    errors: int
    unscored: int
    cases: Annotated[int, about("Number of cases with a measured trial, which `pass_rate` is over.")]
    pass_rate: _PassRate
    ci95: _PassRateInterval
    bounds: _Bounds
    repeats_rule: RepeatsRule
    by_trial: Annotated[
        VerdictCountsRecord | None, about("The numbers by trial, if each case counts once above.")
    ]
    mean_score: float | None
    splits: Annotated[
        dict[str, VerdictCountsRecord], about("The numbers of `dev` and `holdout`, if the suite is split.")
    ]
    split_notes: tuple[str, ...]
    looks: Annotated[int | None, about("Number of accesses to this version's holdout.")]
    by_category: dict[str, VerdictCountsRecord]
    by_tag: dict[str, VerdictCountsRecord]
    asked: int
    cached: int
    graded: int
    reused: int
    latency_ms: LatencyRecord
    usage: TokenUsageRecord
    cost_usd: Annotated[float | None, about("Null if a price is unknown.")]
    judge: JudgeSummaryRecord
    refused_params: tuple[str, ...]
    prices_date: str | None
    tags: tuple[str, ...]
    started_at: Time
    finished_at: Time | None
    warnings: tuple[str, ...]
    exit_code: Annotated[int, about("The exit code of `proctor run`.")]
    stopped: Annotated[
        str | UnsetType, about("Why Proctor stopped it, as a sentence; absent if it did not.")
    ] = UNSET
    engine: Annotated[
        str | UnsetType, about("The engine that executed its trials; absent for `asyncio`.", "ray")
    ] = UNSET
    shard: _ShardText = UNSET
    merged_from: Annotated[
        tuple[RunId, ...] | UnsetType, about("The runs that it was made of; absent if it was not merged.")
    ] = UNSET
    notes: Annotated[
        tuple[str, ...] | UnsetType,
        about("With `runs merge`: settings that differ, and what is missing, as sentences."),
    ] = UNSET
    gate: Annotated[RunGateRecord | UnsetType, about("Its gate, if it has one.")] = UNSET
    early_stop: _EarlyStop = UNSET
    interval_kind: _IntervalKind = UNSET
    multiple_choice: Annotated[
        ChoiceAccuracyRecord | UnsetType, about("Its accuracies, if cases have choices.")
    ] = UNSET
    bundle: Annotated[str | UnsetType, about("The path of the bundle that was just written, if any.")] = UNSET
    first_token_ms: Annotated[
        SpeedRecord | UnsetType, about("Time to the first token; absent if no answer was streamed.")
    ] = UNSET
    tokens_per_second: Annotated[
        SpeedRecord | UnsetType, about("Output tokens after the first, per second; absent if not measured.")
    ] = UNSET
    params: Annotated[
        dict[str, Any] | UnsetType,
        about("The target's parameters other than temperature 0 and seed 42; headers by name."),
    ] = UNSET


class CallUsageRecord(Usage, frozen=True, kw_only=True, omit_defaults=False):
    """Tokens used by one call."""


class ChoiceLikelihoodRecord(ChoiceLikelihood, frozen=True, kw_only=True, omit_defaults=False):
    """How likely one choice is after the prompt."""


class OutputRecord(Output, frozen=True, kw_only=True, omit_defaults=False):
    """One answer of a target."""

    usage: CallUsageRecord | None = None
    choices: Annotated[
        tuple[ChoiceLikelihoodRecord, ...], about("How likely each choice is, if the case has choices.")
    ] = ()
    target: Annotated[str | None, about("The fallback target that answered, if any.")] = None
    tokens_per_second: Annotated[
        float | None, about("Output tokens after the first, per second; null if not measured.")
    ] = None


class FailureRecord(Failure, frozen=True, kw_only=True, omit_defaults=False):
    """Why a trial has no output, or why its grading stopped."""

    kind: Annotated[str, Meta(examples=["timeout"])]


class EvidenceRecord(Evidence, frozen=True, kw_only=True, omit_defaults=False):
    """One line of a score's evidence."""


class JudgmentRecord(Judgment, frozen=True, kw_only=True, omit_defaults=False):
    """One reply of one judge."""

    usage: CallUsageRecord | None = None


class ScoreRecord(Struct, frozen=True, kw_only=True, gc=False):
    """The result of one assertion; for a hidden trial, without anything about its answer."""

    grader: str
    name: str
    value: float | None
    outcome: Verdict
    weight: float
    required: Annotated[float | None, about("The minimum value, if the assertion is a gate.")]
    reason: str | None
    entries: tuple[EvidenceRecord, ...] | None
    judgments: tuple[JudgmentRecord, ...] | None
    details: dict[str, Any] | None
    on: Annotated[Literal["answer", "reasoning"], about("What was graded.")]


class ExportedTrialRecord(Struct, frozen=True, kw_only=True, gc=False):
    """A trial in a report or a list."""

    position: int | UnsetType = UNSET
    run: RunId
    suite: str
    suite_version: str | None
    case_id: str
    target: str
    prompt: Annotated[str | None, about("The name of the run's prompt, if it has one.")]
    repeat: int
    verdict: Verdict
    score: float | None
    failed_gates: tuple[str, ...]
    scores: tuple[ScoreRecord, ...]
    output: OutputRecord | None
    failure: FailureRecord | None
    latency_ms: float | None
    usage: CallUsageRecord | None
    cost_usd: float | None
    tags: tuple[str, ...]
    category: str | None
    split: Split | None
    sealed: Annotated[bool, about("Whether it is held out: prompt and answer are null.")]
    started_at: Time
    source_run: Annotated[str | None, about("The run that it was reused from, if it was.")]


class TrialRecord(ExportedTrialRecord, frozen=True, kw_only=True, gc=False):
    """A trial, as printed by `proctor runs show --case --json`, with its position."""

    position: Annotated[int, about("The position of its case in the suite, from 0.")]

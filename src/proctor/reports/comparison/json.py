"""Renders comparisons as one JSON object. Pure.

Differences, rates and their intervals are fractions of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType, convert, field
from msgspec.structs import asdict

from proctor.codec import template_digest
from proctor.comparison.compare import Comparison, SubsetDifference, UnmeasuredOutcome, VerdictFlip
from proctor.comparison.differences import MetricDifference, PassRateDifference, RunPassRate
from proctor.comparison.gate import GateRule, gate_exit_code
from proctor.comparison.latency import LatencyDifference
from proctor.comparison.pairing import RenamedMatch
from proctor.model import Run
from proctor.reports.comparison import sentences as words
from proctor.reports.comparison.grid_json import GridComparisonRecord, grid_record
from proctor.reports.comparison.prompt_diff import have_same_text, prompt_text
from proctor.reports.comparison.report import ComparisonReport
from proctor.reports.formatting import to_json
from proctor.reports.record_fields import Digest, Interval, RunId, Status, Time, about, record_from
from proctor.reports.runs.serialize import counts_record
from proctor.reports.word_diff import diff_lines
from proctor.verdicts import Counts

_Difference = Annotated[float | None, about("Of the pass rates; positive if the candidate is better.")]
_Bounds = Annotated[
    Interval,
    about(
        "The difference if all unmeasured pairs had gone against the candidate, and if all had gone for it."
    ),
]
_HolmPValue = Annotated[float | None, about("Corrected for the number of comparisons (Holm).")]
_Direction = Annotated[
    str | None,
    about("What the difference shows, if it is significant whatever the unmeasured trials would be."),
]


class ComparedPromptRecord(Struct, frozen=True, kw_only=True):
    """The prompt of a run, or the row of a grid."""

    name: str
    digest: Digest


class ComparedRunRecord(Struct, frozen=True, kw_only=True):
    """One of the runs, with its own counts; the rank is set if more than two are compared."""

    run: RunId
    group: str
    suite: str
    suite_version: str | None
    suite_digest: Digest
    target: str
    prompt: Annotated[ComparedPromptRecord | None, about("Null if cases are sent unchanged.")]
    judges: tuple[str, ...]
    status: Status
    planned: int
    tags: tuple[str, ...]
    started_at: Time
    rank: Annotated[
        int | UnsetType | None,
        about("Its best possible rank, which runs that do not differ share; null if nothing was measured."),
    ] = UNSET
    lowest_rank: Annotated[
        int | UnsetType | None, about("Its worst possible rank, if unmeasured trials could change it.")
    ] = UNSET
    total: int
    passed: int
    failed: int
    errors: int
    unscored: int
    cases: int
    pass_rate: float | None
    ci95: Interval
    bounds: Annotated[
        Interval, about("The pass rate if all that was not measured had failed, and if all had passed.")
    ]


class PairedRateRecord(RunPassRate, frozen=True, kw_only=True):
    """The pairs that one run passed."""


class PartDifferenceRecord(Struct, frozen=True, kw_only=True):
    """The difference in a part of the suite, over the measured pairs."""

    name: str
    cases: int
    pairs: int
    baseline_rate: PairedRateRecord | None
    candidate_rate: PairedRateRecord | None
    fixed: int
    broken: int
    difference: _Difference
    ci95: Interval
    bounds: _Bounds
    p_value: float | None
    p_holm: _HolmPValue
    shows: _Direction
    interval_by: str
    test: str
    clusters: Annotated[
        int | None, about("Number of clusters of related cases, which interval and test are over.")
    ]
    not_measured: int


class UnmatchedCountsRecord(Struct, frozen=True, kw_only=True):
    """Cases and trials that only one of the runs has."""

    only_baseline: int
    only_candidate: int
    trials_only_baseline: int
    trials_only_candidate: int
    checks_changed: Annotated[int, about("Number of cases of both runs that are not paired: checks differ.")]


class PromptDiffRecord(Struct, frozen=True, kw_only=True):
    """What differs between the prompts of two runs."""

    same_text: Annotated[bool, about("Whether the messages are the same, under whatever names.")]
    baseline_text: str
    candidate_text: str
    lines: Annotated[
        tuple[str, ...], about("The changed lines with those around them, as `diff -u` has them.")
    ]


class MeasureDifferenceRecord(MetricDifference, frozen=True, kw_only=True):
    """The difference of scores or costs."""

    median: float = field(name="median_difference")


class LatencyDifferenceRecord(LatencyDifference, frozen=True, kw_only=True):
    """The difference of latencies; its intervals are null unless the runs were interleaved."""

    median: float = field(name="median_difference")


class FlipRecord(VerdictFlip, frozen=True):
    """A trial that passed in only one run."""

    case: str = field(name="case_id")


class UnmeasuredPairRecord(UnmeasuredOutcome, frozen=True):
    """A pair with an ERROR or UNSCORED trial."""

    case: str = field(name="case_id")


class RenamedPairRecord(RenamedMatch, frozen=True):
    """A case that has a different id in each run."""


class PairComparisonRecord(Struct, frozen=True, kw_only=True):
    """Two runs; the fields after `unmatched` are set only if exactly two runs are compared."""

    baseline: RunId
    candidate: str
    cases: int
    pairs: int
    baseline_rate: PairedRateRecord | None
    candidate_rate: PairedRateRecord | None
    fixed: int
    broken: int
    difference: _Difference
    ci95: Interval
    bounds: _Bounds
    p_value: float | None
    p_holm: _HolmPValue
    shows: _Direction
    interval_by: str
    test: str
    clusters: Annotated[
        int | None, about("Number of clusters of related cases, which interval and test are over.")
    ]
    not_measured: int
    unmatched: UnmatchedCountsRecord
    input_changed: Annotated[int, about("Number of cases that are paired although their input changed.")]
    verdict: Annotated[str | UnsetType, about("The verdict in a sentence.")] = UNSET
    smallest_difference: Annotated[
        float | UnsetType | None,
        about("The detection limit: the smallest true difference that is found at least 80 % of the time."),
    ] = UNSET
    splits: tuple[PartDifferenceRecord, ...] | UnsetType = UNSET
    by: str | UnsetType = UNSET
    parts: tuple[PartDifferenceRecord, ...] | UnsetType = UNSET
    score: MeasureDifferenceRecord | UnsetType | None = UNSET
    latency_ms: LatencyDifferenceRecord | UnsetType | None = UNSET
    latency_left_out: Annotated[
        int | UnsetType, about("Number of measured pairs without a latency that was measured in both runs.")
    ] = UNSET
    first_token_ms: Annotated[
        LatencyDifferenceRecord | UnsetType, about("Absent without pairs of streamed answers.")
    ] = UNSET
    tokens_per_second: Annotated[
        LatencyDifferenceRecord | UnsetType, about("Absent without pairs of streamed answers.")
    ] = UNSET
    cost_usd: MeasureDifferenceRecord | UnsetType | None = UNSET
    fixed_cases: tuple[FlipRecord, ...] | UnsetType = UNSET
    broken_cases: tuple[FlipRecord, ...] | UnsetType = UNSET
    not_measured_cases: tuple[UnmeasuredPairRecord, ...] | UnsetType = UNSET
    only_baseline_cases: tuple[str, ...] | UnsetType = UNSET
    only_candidate_cases: tuple[str, ...] | UnsetType = UNSET
    renamed_cases: tuple[RenamedPairRecord, ...] | UnsetType = UNSET
    unedited: Annotated[
        PartDifferenceRecord | UnsetType | None,
        about("The difference without cases whose input changed; null if there are none."),
    ] = UNSET
    input_changed_cases: tuple[str, ...] | UnsetType = UNSET
    checks_changed_cases: tuple[str, ...] | UnsetType = UNSET
    prompt_diff: Annotated[
        PromptDiffRecord | UnsetType | None, about("Null if neither run has a prompt.")
    ] = UNSET


class CandidateDifferenceRecord(Struct, frozen=True, kw_only=True):
    """One of several candidates against the first run; `p_holm` is over the candidates alone."""

    candidate: str
    cases: int
    pairs: int
    fixed: int
    broken: int
    difference: _Difference
    ci95: Interval
    bounds: _Bounds
    p_value: float | None
    p_holm: _HolmPValue
    shows: _Direction
    interval_by: str
    test: str
    clusters: int | None
    not_measured: int


class GatedCandidateRecord(Struct, frozen=True, kw_only=True):
    """What the gate says of one candidate."""

    candidate: str
    exit_code: int
    message: str


class GateRecord(GateRule, frozen=True, kw_only=True):
    """The rule of the gate and its results."""

    candidates: tuple[GatedCandidateRecord, ...]


class ComparisonRecord(Struct, frozen=True, kw_only=True):
    """A comparison, as printed by `proctor compare --json`."""

    runs: tuple[ComparedRunRecord, ...]
    split: str
    comparisons: tuple[PairComparisonRecord, ...]
    candidates: Annotated[
        tuple[CandidateDifferenceRecord, ...],
        about("Of more than two runs, each against the first, as the baseline of all of them."),
    ]
    grid: Annotated[
        GridComparisonRecord | None, about("Of runs of several prompts: which is better, and where.")
    ]
    chance_lead: Annotated[
        float | None,
        about("By how much the best of as many equal runs exceeds their mean by chance; null for two."),
    ]
    gate: Annotated[GateRecord | None, about("Always null over the API, which has no gate.")]
    looks: Annotated[int | None, about("Number of holdout accesses, this one included.")]
    judges: Annotated[tuple[str, ...], about("What is known of the judges, in sentences.")]
    warnings: tuple[str, ...]
    exit_code: int


def render(report: ComparisonReport) -> str:
    """Returns the runs, every comparison of two of them, and the result of the gate."""
    return to_json(comparison_record(report)) + "\n"


def comparison_record(report: ComparisonReport) -> ComparisonRecord:
    """Returns a report as a record."""
    ranking = report.ranking
    first = report.comparisons[0]
    runs = (
        [
            _run_record(first.baseline, first.baseline_counts),
            _run_record(first.candidate, first.candidate_counts),
        ]
        if ranking is None
        else [
            _run_record(ranked.run, ranked.counts, rank=ranked.rank, lowest_rank=ranked.lowest_rank)
            for ranked in ranking.runs
        ]
    )
    return ComparisonRecord(
        runs=tuple(runs),
        split=first.split,
        comparisons=tuple(
            [_pair_record(comparison, whole=ranking is None) for comparison in report.comparisons]
        ),
        candidates=() if ranking is None else tuple(map(_candidate_record, ranking.candidates)),
        grid=None if report.grid is None else grid_record(report.grid),
        chance_lead=None if ranking is None else ranking.chance_lead,
        gate=_gate_record(report),
        looks=report.looks,
        judges=tuple(report.judges),
        warnings=tuple(report.warnings),
        exit_code=int(report.exit_code),
    )


def _run_record(
    run: Run,
    counts: Counts,
    *,
    rank: int | UnsetType | None = UNSET,
    lowest_rank: int | UnsetType | None = UNSET,
) -> ComparedRunRecord:
    return ComparedRunRecord(
        run=run.id,
        group=run.group,
        suite=run.suite.name,
        suite_version=run.suite.version,
        suite_digest=run.suite.digest,
        target=run.target.name,
        prompt=None
        if run.prompt is None
        else ComparedPromptRecord(name=run.prompt.name, digest=template_digest(run.prompt)),
        judges=tuple([judge.name for judge in run.judges]),
        status=run.status,
        planned=run.planned,
        tags=run.tags,
        started_at=run.started_at,
        rank=rank,
        lowest_rank=lowest_rank,
        **asdict(counts_record(counts)),
    )


def _candidate_record(comparison: Comparison) -> CandidateDifferenceRecord:
    whole = comparison.whole
    return record_from(
        whole,
        CandidateDifferenceRecord,
        candidate=comparison.candidate.id,
        difference=whole.value,
        shows=whole.direction,
        not_measured=whole.unmeasured,
    )


def _speed_record(speed: LatencyDifference | None) -> LatencyDifferenceRecord | UnsetType:
    return UNSET if speed is None else _to_record(speed, LatencyDifferenceRecord)


def _pair_record(comparison: Comparison, *, whole: bool) -> PairComparisonRecord:
    """Returns one comparison; parts and cases only with `whole`."""
    unpaired = comparison.unpaired
    details = {
        "verdict": words.verdict_sentence(comparison),
        "smallest_difference": comparison.smallest,
        "splits": _part_records(comparison.splits),
        "by": comparison.by,
        "parts": _part_records(comparison.parts),
        "score": _to_record(comparison.score, MeasureDifferenceRecord),
        "latency_ms": _to_record(comparison.latency_ms, LatencyDifferenceRecord),
        "latency_left_out": comparison.latency_left_out,
        "first_token_ms": _speed_record(comparison.first_token_ms),
        "tokens_per_second": _speed_record(comparison.tokens_per_second),
        "cost_usd": _to_record(comparison.cost_usd, MeasureDifferenceRecord),
        "fixed_cases": _to_record(comparison.fixed, tuple[FlipRecord, ...]),
        "broken_cases": _to_record(comparison.broken, tuple[FlipRecord, ...]),
        "not_measured_cases": _to_record(comparison.not_measured, tuple[UnmeasuredPairRecord, ...]),
        "only_baseline_cases": unpaired.only_baseline,
        "only_candidate_cases": unpaired.only_candidate,
        "renamed_cases": _to_record(unpaired.renamed, tuple[RenamedPairRecord, ...]),
        "unedited": _unedited_record(comparison.unedited),
        "input_changed_cases": unpaired.input_changed,
        "checks_changed_cases": unpaired.checks_changed,
        "prompt_diff": _prompt_diff_record(comparison),
    }
    details = details if whole else dict.fromkeys(details, UNSET)
    return record_from(
        comparison.whole,
        PairComparisonRecord,
        baseline=comparison.baseline.id,
        candidate=comparison.candidate.id,
        **_difference_fields(comparison.whole),
        unmatched=UnmatchedCountsRecord(
            only_baseline=len(unpaired.only_baseline),
            only_candidate=len(unpaired.only_candidate),
            trials_only_baseline=unpaired.trials_only_baseline,
            trials_only_candidate=unpaired.trials_only_candidate,
            checks_changed=len(unpaired.checks_changed),
        ),
        input_changed=len(unpaired.input_changed),
        **details,
    )


def _unedited_record(difference: PassRateDifference | None) -> PartDifferenceRecord | None:
    if difference is None:
        return None
    (record,) = _part_records([SubsetDifference(name="input unchanged", difference=difference)])
    return record


def _prompt_diff_record(comparison: Comparison) -> PromptDiffRecord | None:
    before, after = comparison.baseline.prompt, comparison.candidate.prompt
    if before is None and after is None:
        return None
    texts = prompt_text(before), prompt_text(after)
    same_text = have_same_text(before, after)
    return PromptDiffRecord(
        same_text=same_text,
        baseline_text=texts[0],
        candidate_text=texts[1],
        lines=() if same_text else tuple(diff_lines(*texts)),
    )


def _to_record(value: Any, record_type: Any) -> Any:
    """Converts what the comparison found, or tuples of it, to records; None stays None."""
    return None if value is None else convert(value, record_type, from_attributes=True)


def _difference_fields(difference: PassRateDifference) -> dict[str, Any]:
    """Returns the fields of a record that are not attributes of the difference."""
    return {
        "baseline_rate": _to_record(difference.baseline, PairedRateRecord),
        "candidate_rate": _to_record(difference.candidate, PairedRateRecord),
        "difference": difference.value,
        "shows": difference.direction,
        "not_measured": difference.unmeasured,
    }


def _part_records(parts: Sequence[SubsetDifference]) -> tuple[PartDifferenceRecord, ...]:
    return tuple(
        [
            record_from(
                part.difference, PartDifferenceRecord, name=part.name, **_difference_fields(part.difference)
            )
            for part in parts
        ]
    )


def _gate_record(report: ComparisonReport) -> GateRecord | None:
    rule = report.rule
    if rule is None:
        return None
    candidates = [
        GatedCandidateRecord(
            candidate=comparison.candidate.id,
            exit_code=int(gate_exit_code(comparison, rule)),
            message=words.gate_sentence(comparison, rule),
        )
        for comparison in report.baseline_comparisons
    ]
    return GateRecord(**asdict(rule), candidates=tuple(candidates))

"""Responses about comparisons; rates, differences and intervals are fractions of 1."""

from __future__ import annotations

from pydantic import BaseModel, Field

from proctor.web.api.models.runs import RUN, Interval, Status, VerdictName
from proctor.web.api.models.suites import DIGEST


class ComparedRunResource(BaseModel):
    """One of the runs; counts and rank are set if more than two are compared."""

    run: str = Field(examples=[RUN])
    group: str
    suite: str
    suite_version: str | None
    suite_digest: str = Field(examples=[DIGEST])
    target: str
    judges: list[str]
    status: Status
    planned: int
    tags: list[str]
    started_at: str
    rank: int = Field(default=0, description="Its rank; runs that do not differ significantly share it.")
    total: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    unscored: int = 0
    cases: int = 0
    pass_rate: float | None = None
    ci95: Interval = None


class PairedRateResource(BaseModel):
    """The pairs that one run passed."""

    passed: int
    rate: float
    ci95: Interval


class DifferenceResource(BaseModel):
    """The difference of two runs over the measured pairs."""

    cases: int
    pairs: int
    baseline_rate: PairedRateResource | None
    candidate_rate: PairedRateResource | None
    fixed: int
    broken: int
    difference: float | None = Field(description="Of the pass rates; positive if the candidate is better.")
    ci95: Interval
    p_value: float | None
    p_holm: float | None = Field(description="Corrected for the number of comparisons (Holm).")
    shows: str | None = Field(description="What the difference shows, if it is significant.")
    interval_by: str
    test: str


class PartDifferenceResource(DifferenceResource):
    """The difference in a part of the suite."""

    name: str


class UnmatchedCountsResource(BaseModel):
    """Cases and trials that only one of the runs has."""

    only_baseline: int
    only_candidate: int
    trials_only_baseline: int
    trials_only_candidate: int


class MeasureDifferenceResource(BaseModel):
    """The difference of scores, latencies or costs."""

    cases: int
    pairs: int
    baseline: float
    candidate: float
    difference: float
    ci95: Interval
    median_difference: float | None
    median_ci95: Interval


class FlipResource(BaseModel):
    """A trial that passed in only one run."""

    case_id: str
    repeat: int


class UnmeasuredPairResource(FlipResource):
    """A pair with an ERROR or UNSCORED trial."""

    baseline: VerdictName
    candidate: VerdictName


class RenamedPairResource(BaseModel):
    """A case that has a different id in each run."""

    baseline: str
    candidate: str


class PairComparisonResource(DifferenceResource):
    """Two runs; the fields after `unmatched` are set only if exactly two runs are compared."""

    baseline: str = Field(examples=[RUN])
    candidate: str
    not_measured: int
    unmatched: UnmatchedCountsResource
    verdict: str = Field(default="", description="The verdict in a sentence.")
    smallest_difference: float | None = Field(
        default=None,
        description="The smallest difference that this number of cases detects with a power of 80 %.",
    )
    splits: list[PartDifferenceResource] = []
    by: str = ""
    parts: list[PartDifferenceResource] = []
    score: MeasureDifferenceResource | None = None
    latency_ms: MeasureDifferenceResource | None = None
    cost_usd: MeasureDifferenceResource | None = None
    fixed_cases: list[FlipResource] = []
    broken_cases: list[FlipResource] = []
    not_measured_cases: list[UnmeasuredPairResource] = []
    only_baseline_cases: list[str] = []
    only_candidate_cases: list[str] = []
    renamed_cases: list[RenamedPairResource] = []


class ComparisonResource(BaseModel):
    """A comparison, as printed by `proctor compare --json`."""

    runs: list[ComparedRunResource]
    split: str
    comparisons: list[PairComparisonResource]
    gate: None = Field(description="Always null: the API has no gate.")
    looks: int | None = Field(description="Number of holdout accesses, this one included.")
    judges: list[str] = Field(description="What is known of the judges, in sentences.")
    warnings: list[str]
    exit_code: int

"""The shapes of what the API answers about comparisons; shares, differences and intervals are of 1."""

from __future__ import annotations

from pydantic import BaseModel, Field

from proctor.web.api.models.runs import RUN, Interval, Status, VerdictName
from proctor.web.api.models.suites import DIGEST


class ComparedRun(BaseModel):
    """One of the runs; the counts and the rank are there where more than two are compared."""

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
    rank: int = Field(default=0, description="Its place; runs that cannot be told apart share it.")
    total: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    unscored: int = 0
    cases: int = 0
    pass_rate: float | None = None
    ci95: Interval = None


class PairedRate(BaseModel):
    """How many of the pairs one run passed."""

    passed: int
    rate: float
    ci95: Interval


class Difference(BaseModel):
    """The difference of two runs over the pairs that were measured."""

    cases: int
    pairs: int
    baseline_rate: PairedRate | None
    candidate_rate: PairedRate | None
    fixed: int
    broken: int
    difference: float | None = Field(description="Of the pass rates; above 0 the candidate is better.")
    ci95: Interval
    p_value: float | None
    p_holm: float | None = Field(description="Corrected for how many are compared.")
    shows: str | None = Field(description="What it shows, if anything.")
    interval_by: str
    test: str


class PartDifference(Difference):
    """The difference in a part of the suite."""

    name: str


class UnmatchedCounts(BaseModel):
    """What only one of the runs has."""

    only_baseline: int
    only_candidate: int
    trials_only_baseline: int
    trials_only_candidate: int


class MeasureDifference(BaseModel):
    """A score, a latency or a cost of the pairs in both runs."""

    cases: int
    pairs: int
    baseline: float
    candidate: float
    difference: float
    ci95: Interval
    median_difference: float | None
    median_ci95: Interval


class Flip(BaseModel):
    """A trial that passed in one run only."""

    case_id: str
    repeat: int


class UnmeasuredPair(Flip):
    """A pair of which one trial is ERROR or UNSCORED."""

    baseline: VerdictName
    candidate: VerdictName


class RenamedPair(BaseModel):
    """A case with another id in each run."""

    baseline: str
    candidate: str


class PairComparison(Difference):
    """Two runs; what comes after `unmatched` is there where just two are compared."""

    baseline: str = Field(examples=[RUN])
    candidate: str
    not_measured: int
    unmatched: UnmatchedCounts
    verdict: str = Field(default="", description="What it comes to, in a sentence.")
    smallest_difference: float | None = Field(
        default=None, description="The least difference that so many cases show four times in five."
    )
    splits: list[PartDifference] = []
    by: str = ""
    parts: list[PartDifference] = []
    score: MeasureDifference | None = None
    latency_ms: MeasureDifference | None = None
    cost_usd: MeasureDifference | None = None
    fixed_cases: list[Flip] = []
    broken_cases: list[Flip] = []
    not_measured_cases: list[UnmeasuredPair] = []
    only_baseline_cases: list[str] = []
    only_candidate_cases: list[str] = []
    renamed_cases: list[RenamedPair] = []


class Comparison(BaseModel):
    """What `proctor compare --json` prints."""

    runs: list[ComparedRun]
    split: str
    comparisons: list[PairComparison]
    gate: None = Field(description="No gate is asked over the API.")
    looks: int | None = Field(description="How often the holdout was looked at, this time included.")
    judges: list[str] = Field(description="What is known of the judges that spoke, in sentences.")
    warnings: list[str]
    exit_code: int

"""Renders the plan of a comparison as one JSON object. Pure.

Differences, rates and noise are fractions of 1.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict

from proctor.comparison.study_size import NoiseBasis, StudyRow
from proctor.reports.formatting import to_json
from proctor.reports.record_fields import Digest, about
from proctor.reports.study.report import StudyReport, assumption_sentences, study_sentences


class StudyRowRecord(StudyRow, frozen=True, kw_only=True):
    """What one number of repeats shows and takes; null where it is not known."""


class StudyClustersRecord(Struct, frozen=True, kw_only=True):
    """The clusters of related cases that the plan is over."""

    field: str
    clusters: int
    mean_size: float
    covariance: Annotated[
        float, about("Of the differences of two cases of a cluster, where neither run is better.")
    ]
    relation: Annotated[float, about("How far two cases of a cluster correlate in what they pass.")]


class StudyNoiseRecord(Struct, frozen=True, kw_only=True):
    """How far two runs differ where neither is better."""

    basis: NoiseBasis
    differing: Annotated[float, about("The share of pairs of trials that differ.")]
    chance: Annotated[
        float | None, about("The part of it that repeats average out; null if it is not known.")
    ]
    cases: int
    targets: Annotated[int, about("With how many other targets the baseline's was compared.")]
    pass_rate: float | None
    variance_between_cases: Annotated[
        float | None, about("The share of the variance of the pass rate that is between cases.")
    ]


class StudyPlanRecord(Struct, frozen=True, kw_only=True):
    """The plan of a comparison."""

    suite: str
    suite_version: str | None
    suite_digest: Digest
    cases: int
    clusters: Annotated[StudyClustersRecord | None, about("null if the cases are independent.")]
    detect: float
    power: float
    baseline: Annotated[str | None, about("The run to compare with; null without one.")]
    runs: Annotated[tuple[str, ...], about("The runs that were read.")]
    noise: StudyNoiseRecord
    repeats: tuple[StudyRowRecord, ...]
    sentences: tuple[str, ...]


class StudyDocument(Struct, frozen=True, kw_only=True):
    """What `proctor plan --json` prints."""

    plan: StudyPlanRecord
    exit_code: int = 0


def render(report: StudyReport) -> str:
    """Returns the plan as JSON."""
    plan, suite, noise = report.plan, report.suite, report.plan.noise
    components = noise.components
    record = StudyPlanRecord(
        suite=suite.name,
        suite_version=suite.version,
        suite_digest=suite.digest,
        cases=plan.suite_cases,
        clusters=_clusters_record(report),
        detect=plan.difference,
        power=plan.power,
        baseline=None if report.baseline is None else report.baseline.id,
        runs=tuple(run.id for run in report.runs),
        noise=StudyNoiseRecord(
            basis=noise.basis,
            differing=sum(noise.noise),
            chance=noise.noise.chance if noise.is_chance_known else None,
            cases=noise.cases,
            targets=noise.targets,
            pass_rate=noise.pass_rate,
            variance_between_cases=None if components is None else components.between_share,
        ),
        repeats=tuple(StudyRowRecord(**asdict(row)) for row in plan.rows),
        sentences=(*study_sentences(report), *assumption_sentences(report)),
    )
    return to_json(StudyDocument(plan=record)) + "\n"


def _clusters_record(report: StudyReport) -> StudyClustersRecord | None:
    plan, clusters = report.plan, report.plan.noise.clusters
    if clusters is None or plan.suite_clusters is None or report.cluster_field is None:
        return None
    return StudyClustersRecord(
        field=report.cluster_field,
        clusters=plan.suite_clusters,
        mean_size=clusters.mean_size,
        covariance=clusters.covariance,
        relation=clusters.relation,
    )

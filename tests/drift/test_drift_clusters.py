"""Drift of cases that are related: intervals and tests are over clusters."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.drift.change_point import NO, YES, Stratum, chernoff_bound, find_split
from proctor.drift.detector import detect_drift
from proctor.drift.identical_answers import identical_share
from proctor.model import Settings
from proctor.reports.drift.report import DriftReport, describe_drift
from proctor.stats import clustered_difference_interval, newcombe_paired, wilson
from support.series import make_series

DOCUMENTS = {f"c{number}": f"document {number // 5}" for number in range(20)}
ALONE = {f"c{number}": f"document {number}" for number in range(20)}


def answers(*changed: int, answer: str = "yes, too") -> list[str]:
    """Twenty answers on four documents; those on some documents are different."""
    return [answer if number // 5 in changed else "yes" for number in range(20)]


def test_the_share_of_identical_answers_has_its_interval_over_clusters() -> None:
    rows = answers(), answers(3)
    share = identical_share(*make_series(*rows, clusters=DOCUMENTS))
    assert share is not None
    assert (share.identical, share.cases, share.clusters) == (15, 20, 4)
    assert share.ci95 == pytest.approx(wilson(3, 4))
    for clusters in (None, {}, ALONE):
        single = identical_share(*make_series(*rows, clusters=clusters))
        assert single is not None
        assert (single.clusters, single.ci95) == (None, wilson(15, 20))


def test_a_case_of_no_cluster_is_one_by_itself() -> None:
    clusters = {case: cluster for case, cluster in DOCUMENTS.items() if cluster != "document 0"}
    share = identical_share(*make_series(answers(), answers(3), clusters=clusters))
    assert share is not None
    assert share.clusters == 8


@pytest.mark.parametrize(
    ("clusters", "state"), [(None, "drifting"), (ALONE, "drifting"), (DOCUMENTS, "watch")]
)
def test_repeats_of_four_documents_do_not_show_that_a_target_repeats_its_answers(
    clusters: dict[str, str] | None, state: str
) -> None:
    first, second = ([[answer] * 2 for answer in row] for row in (answers(), answers(2, 3)))
    assert detect_drift(make_series(first, second, clusters=clusters)).state == state
    rows = [first, first, first, first, second]
    assert detect_drift(make_series(*rows, clusters=clusters)).state == "drifting"


def test_the_change_of_verdicts_has_its_interval_over_clusters() -> None:
    rows = answers(), answers(3, answer="no")
    flips = detect_drift(make_series(*rows, clusters=DOCUMENTS)).last.flips
    assert flips is not None
    assert (flips.clusters, flips.difference) == (4, -0.25)
    assert flips.ci95 == clustered_difference_interval([(0, 5), (0, 5), (0, 5), (-5, 5)])
    single = detect_drift(make_series(*rows, clusters=ALONE)).last.flips
    assert single is not None
    assert (single.clusters, single.ci95) == (None, newcombe_paired(15, 0, 5, 0))


def test_cases_of_a_cluster_that_are_all_alike_count_as_one_in_the_test() -> None:
    alike = {Stratum(8, 4, 5, 5): 15}
    assert chernoff_bound(alike, 60) == pytest.approx(chernoff_bound({Stratum(8, 4, 5): 3}, 12), rel=1e-6)
    assert chernoff_bound(alike, 60) > 100 * chernoff_bound({Stratum(8, 4, 5): 15}, 60)


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=3), st.integers(1, 5))
def test_the_bound_holds_whatever_the_cases_of_a_cluster_have_in_common(
    columns: list[list[bool]], after: int
) -> None:
    """Exact: each choice of the nights after the change is as likely as any other."""
    strata: dict[Stratum, int] = {}
    for column in columns:
        stratum = Stratum(6, after, sum(column), len(columns))
        strata[stratum] = strata.get(stratum, 0) + 1
    sums = [
        sum(column[night] for column in columns for night in nights)
        for nights in combinations(range(6), after)
    ]
    mean = sum(sums) / len(sums)
    for observed in set(sums):
        far = [total >= observed if observed >= mean else total <= observed for total in sums]
        assert chernoff_bound(strata, observed) >= sum(far) / len(far) - 1e-9


def test_a_change_of_one_case_of_each_cluster_counts_in_full() -> None:
    """Cases that never vary say nothing of how much the others share."""
    rows = [
        bytearray([NO if night > 5 and case % 5 == 0 else YES for case in range(20)]) for night in range(9)
    ]
    split, single = find_split(rows, [case // 5 for case in range(20)]), find_split(rows)
    assert split == single


def describe(*rows: Any, field: str | None, clusters: dict[str, str] | None = DOCUMENTS) -> str:
    series = make_series(*rows, clusters=clusters, settings=Settings(cluster=field))
    return " ".join(describe_drift(DriftReport(drift=detect_drift(series))))


def test_the_report_says_over_which_clusters_its_intervals_are() -> None:
    rows = answers(), answers(3)
    sentence = "Intervals are over 4 clusters of related cases (`metadata.document`). An interval over "
    assert sentence in describe(*rows, field="metadata.document")
    for unclustered in (None, ALONE):
        assert "cluster" not in describe(*rows, field="metadata.document", clusters=unclustered)


@pytest.mark.slow
def test_a_target_that_rewords_few_documents_is_seldom_called_drifting(figures: dict[str, Any]) -> None:
    over_cases, over_clusters = figures["related_rewording"](2, 0.1, 20)
    assert over_clusters <= 1 < over_cases


@pytest.mark.slow
def test_documents_that_fail_together_show_no_fewer_passes(figures: dict[str, Any]) -> None:
    over_cases, over_clusters = figures["suspected"](4, 20)
    assert over_clusters <= 2 < over_cases

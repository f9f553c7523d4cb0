"""Clusters of related cases, by the names that users give them."""

from __future__ import annotations

from typing import Any

import pytest

from proctor.clusters import check_cluster_field, is_own_cluster, make_cluster_lookup
from proctor.errors import UsageError
from proctor.model import Settings
from proctor.stats import wilson
from proctor.verdicts import Tally
from support.builders import make_case, make_run, make_score, make_trial


@pytest.mark.parametrize(
    ("field", "fields", "cluster"),
    [
        ("metadata.document", {"metadata": {"document": "a.pdf"}}, "a.pdf"),
        ("metadata.page", {"metadata": {"page": 3}}, "3"),
        ("tag:doc-", {"tags": ("easy", "doc-7", "doc-8")}, "doc-7"),
        ("category", {"category": "math"}, "math"),
    ],
)
def test_a_field_names_the_cluster_of_a_case(field: str, fields: dict[str, Any], cluster: str) -> None:
    lookup = make_cluster_lookup(check_cluster_field(field))
    assert lookup is not None
    assert lookup(make_case("x", **fields)) == cluster
    first, second = lookup(make_case("x")), lookup(make_case("y"))
    assert first != second
    assert is_own_cluster(first)
    assert not is_own_cluster(cluster)


@pytest.mark.parametrize("case_id", ["sum", "sum[a=1]", "sum~terse", "sum[a=1]~terse"])
def test_variants_of_a_test_are_one_cluster_by_their_ids(case_id: str) -> None:
    lookup = make_cluster_lookup("id")
    assert lookup is not None
    assert lookup(make_case(case_id)) == "sum"


def test_ids_that_begin_with_a_mark_are_their_own_clusters() -> None:
    lookup = make_cluster_lookup("id")
    assert lookup is not None
    assert lookup(make_case("[a] x")) != lookup(make_case("[b] y"))


@pytest.mark.parametrize("field", [None, "none"])
def test_without_a_field_cases_are_independent(field: str | None) -> None:
    assert make_cluster_lookup(field) is None


@pytest.mark.parametrize("field", ["document", "metadata.", "tag:", "", "Category"])
def test_an_unknown_field_is_refused_with_the_known_ones(field: str) -> None:
    with pytest.raises(UsageError, match=r"Use `metadata\.FIELD`"):
        check_cluster_field(field)


def test_repeats_of_related_cases_count_in_the_cluster_of_their_case() -> None:
    tally = Tally.for_run(make_run(settings=Settings(repeats=2, cluster="metadata.document")))
    for position in range(8):
        case = make_case(str(position), metadata={"document": position // 2})
        for repeat in range(2):
            score = make_score(float(position < 4))
            tally.add(make_trial("x", score, case_id=case.id, position=position, repeat=repeat), case)
    assert (tally.all.cases, tally.all.pass_rate) == (8, 0.5)
    assert tally.all.ci95 == pytest.approx(wilson(2, 4))


def test_a_tally_keeps_a_short_key_of_each_cluster_and_whether_it_is_a_case_by_itself() -> None:
    tally = Tally.for_run(make_run(settings=Settings(cluster="metadata.document")))
    for position, metadata in enumerate([{"document": "a" * 1000}, {"document": "a" * 1000}, {}]):
        case = make_case(str(position), metadata=metadata, tags=("easy",))
        tally.add(make_trial("x", make_score(1.0), case_id=case.id, position=position), case)
    clusters, of_tag = tally.all.clusters or {}, tally.tags["easy"].clusters or {}
    assert sorted(clusters.values()) == [(1.0, 1), (2.0, 2)]
    assert max(map(len, clusters)) < 20
    assert [is_own_cluster(key) for key in clusters] == [False, True]
    assert all(key is other for key, other in zip(clusters, of_tag, strict=True))

"""The estimated pass rate by people, from labels of a run's answers in the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.calibration import DrawnLabel, PeoplePassRate, people_pass_rate
from proctor.model import Judgment, Label, Run, Settings, SplitRule, Verdict
from proctor.protocols import Store
from proctor.services.runs.reading.report import build_report
from proctor.stores import open_store
from support.builders import make_case, make_run, make_score, make_trial
from support.stores import save_cases

JUDGMENT = Judgment(judge="j", prompt_digest="sha256:1", passed=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(str(tmp_path / "s.db"))
    yield store
    store.close()


@pytest.fixture
def make(store: Store) -> Callable[..., Run]:
    """A run of 60 cases, of which a judge passes two in three; the last third may be held out."""

    def make_judged_run(
        *more: Any, repeats: int = 1, scattered: bool = False, holdout: bool = False, **fields: Any
    ) -> Run:
        rule = SplitRule(ratio=0.3) if holdout else None
        suite = save_cases(
            store,
            [make_case(f"c{place}", category=f"topic {place // 5}") for place in range(60)],
            split_rule=rule,
            **fields,
        )
        run = make_run(id="r1", suite=suite, settings=Settings(repeats=repeats))
        store.add_run(run)
        for place in range(60):
            for repeat in range(repeats):
                passed = (place + repeat * scattered) % 3 > 0
                score = make_score(float(passed), judgments=(JUDGMENT,))
                split = ("holdout" if place >= 40 else "dev") if holdout else None
                trial = make_trial(
                    "4", score, *more, case_id=f"c{place}", position=place, repeat=repeat, split=split
                )
                store.save_trial("r1", trial, Verdict.PASS if passed else Verdict.FAIL)
        store.flush()
        return run

    return make_judged_run


def label(store: Store, *places: int, by: str = "ana", **fields: Any) -> None:
    """Labels answers: pass where the judge passes, and for every ninth of the others."""
    defaults: dict[str, Any] = {"drawn": "random", "doubt": 1.0} | fields
    held_out = defaults.pop("held_out", False)
    for place in places:
        passed = defaults.get("passed", place % 3 > 0 or place % 9 == 0)
        store.add_label(
            Label(run="r1", case_id=f"c{place}", by=by, **defaults | {"passed": passed}), held_out=held_out
        )


def rate(store: Store, run: Run) -> PeoplePassRate | None:
    return build_report(store, run).people_rate


def test_labels_of_some_and_judgments_of_all_give_a_rate(store: Store, make: Callable[..., Run]) -> None:
    run = make()
    assert rate(store, run) is None
    label(store, *range(9))
    assert rate(store, run) is None
    label(store, *range(9, 30))
    estimate = rate(store, run)
    assert estimate is not None
    assert (estimate.labels, estimate.judgments, estimate.for_doubt, estimate.not_drawn) == (30, 60, 0, 0)
    # The judge fails 20 of 60; of ten such that are labelled, people pass four.
    assert estimate.value == pytest.approx(40 / 60 + 20 / 60 * 4 / 10, abs=0.02)
    assert estimate.ci95[0] < estimate.value < estimate.ci95[1]


def test_labels_of_answers_that_were_not_drawn_are_counted_apart(
    store: Store, make: Callable[..., Run]
) -> None:
    run = make()
    label(store, *range(20))
    alone = rate(store, run)
    label(store, *range(20, 50), drawn=None, passed=False)
    estimate = rate(store, run)
    assert alone is not None
    assert estimate is not None
    assert (estimate.value, estimate.labels, estimate.not_drawn) == (alone.value, 20, 30)


def test_labels_drawn_for_doubt_count_by_their_chance(store: Store, make: Callable[..., Run]) -> None:
    run = make()
    doubted = range(0, 60, 3)
    label(store, *doubted, drawn="doubt", doubt=2.0, passed=True)
    label(store, *range(1, 30, 3), drawn="doubt", doubt=0.5)
    estimate = rate(store, run)
    assert estimate is not None
    assert estimate.for_doubt == estimate.labels == 30
    assert estimate.value == pytest.approx(1.0)


def test_people_who_are_divided_give_no_label(store: Store, make: Callable[..., Run]) -> None:
    run = make()
    label(store, *range(20))
    label(store, 1, 2, 3, by="bo", passed=False)
    estimate = rate(store, run)
    assert estimate is not None
    assert estimate.labels == 18  # ana and bo both fail the third


def test_answers_that_are_held_out_are_left_out_with_their_labels(
    store: Store, make: Callable[..., Run]
) -> None:
    run = make(holdout=True)
    label(store, *range(30))
    alone = rate(store, run)
    label(store, *range(40, 60), held_out=True, passed=False)
    estimate = rate(store, run)
    assert estimate == alone
    assert estimate is not None
    assert (estimate.judgments, estimate.held_out, estimate.labels) == (40, 20, 30)
    assert store.holdout_accesses(run.suite.digest) == []


def test_clusters_of_cases_count_as_few(store: Store, make: Callable[..., Run]) -> None:
    run = make()
    label(store, *range(40))
    alone, clustered = rate(store, run), rate(store, replace(run, settings=Settings(cluster="category")))
    assert alone is not None
    assert clustered is not None
    assert clustered.value == pytest.approx(alone.value, abs=0.02)
    assert clustered.ci95[1] - clustered.ci95[0] > 1.2 * (alone.ci95[1] - alone.ci95[0])


def test_repeats_of_a_case_count_as_one(store: Store, make: Callable[..., Run]) -> None:
    run = make(repeats=3)
    label(store, *range(30), repeat=0)
    label(store, *range(30), repeat=2)
    estimate = rate(store, run)
    assert estimate is not None
    assert (estimate.labels, estimate.judgments) == (60, 180)
    assert estimate.ci95[1] - estimate.ci95[0] > 0.15


def test_repeats_that_scatter_tell_how_far_the_judgments_move_with_the_labels(
    store: Store, make: Callable[..., Run]
) -> None:
    """Judges pass two of three repeats of every case: as many judgments as trials, none of which moves."""
    run = make(repeats=3, scattered=True)
    label(store, *range(30))
    labels = [
        DrawnLabel(
            group=f"c{place}",
            passed=place % 3 > 0 or place % 9 == 0,
            judge_passed=place % 3 > 0,
            drawn="random",
            repeats=3,
            group_rate=2 / 3,
            group_share=1 / 60,
        )
        for place in range(30)
    ]
    expected = people_pass_rate(labels, judge_rate=2 / 3, judgments=180, cases=180)
    calculated = rate(store, run)
    assert expected is not None
    assert calculated is not None
    assert calculated.ci95 == pytest.approx(expected.ci95)


def test_cases_of_a_cluster_tell_how_far_the_judgments_move_with_the_labels(
    store: Store, make: Callable[..., Run]
) -> None:
    """Each cluster has five cases, of which judges pass three or four, so that no cluster is unlike."""
    run = replace(make(), settings=Settings(cluster="category"))
    label(store, *range(30))
    labels = [
        DrawnLabel(
            group=str(place // 5),
            passed=place % 3 > 0 or place % 9 == 0,
            judge_passed=place % 3 > 0,
            drawn="random",
            group_rate=sum(other % 3 > 0 for other in range(place // 5 * 5, place // 5 * 5 + 5)) / 5,
            group_share=5 / 60,
        )
        for place in range(30)
    ]
    expected = people_pass_rate(labels, judge_rate=2 / 3, judgments=60, cases=60)
    calculated = rate(store, run)
    assert expected is not None
    assert calculated is not None
    assert calculated.ci95 == pytest.approx(expected.ci95)


@pytest.mark.parametrize("kind", ["another grader", "any repeat", "no verdict"])
def test_there_is_no_rate_unless_judges_decided_alone(
    store: Store, make: Callable[..., Run], kind: str
) -> None:
    run = {
        "another grader": lambda: make(make_score(1.0)),
        "any repeat": lambda: make(repeats_rule="any"),
        "no verdict": lambda: make(make_score(None)),
    }[kind]()
    label(store, *range(30))
    assert rate(store, run) is None


def test_labels_of_answers_that_do_not_exist_change_nothing(store: Store, make: Callable[..., Run]) -> None:
    run = make()
    label(store, *range(20))
    estimate = rate(store, run)
    store.add_label(Label(run="r1", case_id="gone", passed=False, by="ana", drawn="random", doubt=1.0))
    store.add_label(
        Label(run="r1", case_id="c1", repeat=7, passed=False, by="ana", drawn="random", doubt=1.0)
    )
    assert rate(store, run) == estimate

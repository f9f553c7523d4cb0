"""Notes that compare dev with the holdout: by an interval, and never by a bare ratio."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.model import SplitRule, Suite, Verdict
from proctor.reports.document import render_terminal
from proctor.reports.runs.console import document_for
from proctor.reports.runs.markdown import render
from proctor.reports.runs.serialize import run_record
from proctor.reports.runs.splits import smallest_drop, split_notes
from proctor.stats import newcombe
from proctor.verdicts import Counts
from support.builders import make_case, make_counts, make_report, make_score, make_trial
from support.records import plain


def notes(dev: tuple[int, int], holdout: tuple[int, int]) -> list[str]:
    """The notes on a run with these numbers of passed and of all cases."""
    parts = {"dev": dev, "holdout": holdout}
    return split_notes({name: make_counts(passed, total - passed) for name, (passed, total) in parts.items()})


@pytest.mark.parametrize(
    ("dev", "holdout"), [((38, 40), (4, 10)), ((80, 80), (14, 20)), ((8, 8), (0, 2)), ((76, 80), (15, 20))]
)
def test_a_holdout_below_dev_by_more_than_chance_is_a_warning_with_the_interval(
    dev: tuple[int, int], holdout: tuple[int, int]
) -> None:
    (note,) = notes(dev, holdout)
    assert note.startswith("Warning: ")
    assert "may be overfitted to the dev cases" in note
    interval = newcombe(*holdout, *dev)
    assert interval is not None
    low, high = (f"{end * 100:+.1f}pp" for end in interval)
    assert f"95 % interval of the difference {low} to {high}" in note


@pytest.mark.parametrize(
    ("dev", "holdout"),
    [
        ((8, 8), (1, 2)),
        ((2, 2), (0, 1)),
        ((4, 4), (0, 1)),
        ((40, 40), (0, 1)),
        ((30, 40), (5, 10)),
        ((10, 16), (1, 4)),
    ],
)
def test_a_holdout_below_four_fifths_of_dev_is_no_warning_where_it_can_be_chance(
    dev: tuple[int, int], holdout: tuple[int, int]
) -> None:
    assert holdout[0] / holdout[1] < 0.8 * dev[0] / dev[1]
    assert not any(note.startswith("Warning") for note in notes(dev, holdout))


def test_a_holdout_above_four_fifths_of_dev_is_a_warning_where_it_cannot_be_chance() -> None:
    """A drop of 13 points, which a bare ratio would let through."""
    (note,) = notes((392, 400), (85, 100))
    assert 0.85 > 0.8 * 0.98
    assert note.startswith("Warning: the holdout is further below dev than chance explains")


FEW = "Note: too few holdout cases were measured to show a drop from dev"


@pytest.mark.parametrize(
    ("dev", "holdout", "ending"),
    [
        ((7, 8), (2, 2), ", unless none of them passes. Write more cases."),
        ((7, 8), (1, 2), ", unless none of them passes. Write more cases."),
        ((24, 24), (6, 6), " of less than 33.3pp: it could be chance. Write more cases."),
        ((3, 4), (1, 1), ": even if none of them passed, that could be chance. Write more cases."),
    ],
)
def test_a_small_holdout_gets_a_note_with_the_drop_that_it_could_show(
    dev: tuple[int, int], holdout: tuple[int, int], ending: str
) -> None:
    assert notes(dev, holdout) == [FEW + ending]


@pytest.mark.parametrize(
    ("dev", "holdout"),
    [
        ((400, 400), (99, 100)),
        ((360, 400), (90, 100)),
        ((90, 160), (40, 40)),  # above dev, and 20 points below would show
    ],
)
def test_a_holdout_that_can_show_less_than_20_points_gets_no_note(
    dev: tuple[int, int], holdout: tuple[int, int]
) -> None:
    drop = smallest_drop(*dev, holdout[1])
    assert drop is not None
    assert (notes(dev, holdout) == []) == (drop < 0.2)


@pytest.mark.parametrize(("dev", "holdout"), [((0, 0), (1, 2)), ((1, 2), (0, 0)), ((0, 8), (0, 2))])
def test_without_both_or_without_a_dev_case_that_passed_there_is_nothing_to_say(
    dev: tuple[int, int], holdout: tuple[int, int]
) -> None:
    assert notes(dev, holdout) == []


def test_without_a_split_there_is_nothing_to_say() -> None:
    assert (
        split_notes({})
        == split_notes({"dev": make_counts(3, 1)})
        == split_notes({"holdout": make_counts(0, 9)})
        == []
    )


def test_what_was_not_measured_does_not_count_against_the_holdout() -> None:
    dev = make_counts(40, 0)
    assert split_notes({"dev": dev, "holdout": make_counts(0, 20)})[0].startswith("Warning")
    assert split_notes({"dev": dev, "holdout": make_counts(0, 0, errors=20)}) == []
    (note,) = split_notes({"dev": dev, "holdout": make_counts(2, 0, errors=18)})
    assert note.startswith(FEW)


def test_repeats_make_no_more_cases() -> None:
    """Ten answers to each of two holdout cases say no more than two cases do."""
    dev, holdout = make_counts(80, 0, repeats=10), make_counts(10, 10, repeats=10)
    assert split_notes({"dev": dev, "holdout": holdout}) == notes((8, 8), (1, 2))


def clustered_counts(*clusters: tuple[int, int]) -> Counts:
    """Counts clusters, each given by its numbers of passed and failed cases."""
    counts = Counts()
    for number, (passed, failed) in enumerate(clusters):
        for verdict in [Verdict.PASS] * passed + [Verdict.FAIL] * failed:
            counts.add(verdict, cluster=str(number))
    return counts


def test_cases_of_one_cluster_say_no_more_than_one_case() -> None:
    """Four documents of ten cases that pass or fail together are no 40 independent cases."""
    dev, holdout = clustered_counts(*[(10, 0)] * 4), clustered_counts((10, 0), (0, 10))
    assert notes((40, 40), (10, 20))[0].startswith("Warning")
    assert split_notes({"dev": dev, "holdout": holdout}) == [
        f"{FEW} of less than 75.0pp: it could be chance. Write more cases."
    ]
    alone = clustered_counts((0, 40))
    assert not any(note.startswith("Warning") for note in split_notes({"dev": dev, "holdout": alone}))


@given(st.integers(1, 40), st.integers(1, 30), st.data())
def test_the_smallest_drop_shows_and_one_case_more_would_not(
    dev_cases: int, cases: int, data: st.DataObject
) -> None:
    passed = data.draw(st.integers(0, dev_cases))
    drop = smallest_drop(passed, dev_cases, cases)

    def shows(holdout_passed: int) -> bool:
        interval = newcombe(holdout_passed, cases, passed, dev_cases)
        return interval is not None and interval[1] < 0 and min(cases, dev_cases) > 1

    if drop is None:
        assert not shows(0)
    else:
        least = round((passed / dev_cases - drop) * cases)
        assert shows(least)
        assert not shows(least + 1)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_there_is_a_warning_exactly_where_the_interval_of_more_than_one_case_ends_below_0(
    dev_passed: int, dev_failed: int, passed: int, failed: int
) -> None:
    dev, holdout = (dev_passed, dev_passed + dev_failed), (passed, passed + failed)
    interval = newcombe(*holdout, *dev)
    assert interval is not None
    warned = any(note.startswith("Warning") for note in notes(dev, holdout))
    assert warned == (interval[1] < 0 and min(dev[1], holdout[1]) > 1)


def test_every_form_with_numbers_has_the_notes_and_the_looks_after_the_first() -> None:
    pairs = [
        (
            make_trial("x", make_score(1.0 if split == "dev" else 0.0), split=split),
            make_case(f"{split}-{number}"),
        )
        for split, count in (("dev", 8), ("holdout", 2))
        for number in range(count)
    ]
    base_report = make_report(*pairs, suite=Suite(name="s", dialect="meridian", split_rule=SplitRule()))
    (note,) = plain(run_record(base_report))["split_notes"]
    for looks, is_shown in ((None, False), (1, False), (2, True), (1234, True)):
        report = replace(base_report, looks=looks)
        lines = list(render_terminal(document_for(report)))
        assert lines[7] == note
        assert lines[8] == f"Holdout accessed {looks:,} times." if is_shown else lines[8] == ""
        markdown = "".join(render([report]))
        assert f"\n{note}\n" in markdown
        assert ("\nHoldout accessed " in markdown) == is_shown
        assert plain(run_record(report))["looks"] == looks

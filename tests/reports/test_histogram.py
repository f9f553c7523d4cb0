"""Classes of latencies and costs, and settings in words."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proctor.model import Selection, Settings
from proctor.reports.runs.histogram import HEIGHT, WIDTH, draw_histogram, format_ms, format_usd, make_bins
from proctor.reports.runs.settings import describe_settings


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=200))
@example([2e-308] * 30 + [1e7])
def test_every_value_is_in_one_class_and_the_classes_follow_one_another(values: list[float]) -> None:
    bins = make_bins(sorted(values))
    assert sum(interval.count for interval in bins) == len(values)
    assert len(bins) <= 40
    assert all(interval.high == next_interval.low for interval, next_interval in pairwise(bins))
    assert all(interval.high is not None for interval in bins[:-1])
    names = [format_ms(interval.low) for interval in bins]
    assert len(set(names)) == len(names)


def test_classes_have_round_bounds_and_the_last_has_what_is_far_above_the_rest() -> None:
    bins = make_bins([*range(100, 300), 90_000.0])
    assert [(interval.low, interval.high) for interval in bins[:3]] == [(100, 150), (150, 200), (200, 250)]
    assert (bins[-1].high, bins[-1].count) == (None, 1)
    assert [interval.label(format_ms) for interval in (bins[0], bins[-1])] == [
        "100 ms to 150 ms",
        "600 ms or more",
    ]
    assert make_bins([]) == []


@pytest.mark.slow
@pytest.mark.parametrize("values", [[0.0], list(range(5000))])
def test_a_drawing_has_always_the_same_size_so_that_a_page_can_keep_its_place(values: list[float]) -> None:
    svg = draw_histogram(make_bins(values), title="T <b>", unit="u", write=format_usd).svg()
    size = re.search(r'<svg[^>]* width="(\d+)" height="(\d+)"', svg)
    assert size
    assert (int(size[1]), int(size[2])) == (WIDTH, HEIGHT)
    assert "<b>" not in svg


def test_settings_that_differ_from_the_defaults_are_described() -> None:
    assert list(describe_settings(Settings())) == ["32 concurrent"]
    selection = Selection(split="dev", tags=("a", "b"), exclude_tags=("c",), limit=1200)
    settings = Settings(
        selection=selection,
        repeats=3,
        concurrency=2,
        threshold=0.5,
        min_pass_rate=0.8,
        budget_usd=1.5,
        cache=True,
    )
    assert list(describe_settings(settings)) == [
        *("2 concurrent", "3 repeats", "only dev", "tag a, b", "without tag c", "the first 1,200 cases"),
        *("pass threshold 0.5", "budget $1.5", "gate at 80.0%", "cache"),
    ]
    judge_settings = Settings(judge_repeats=3, judge_rule="all", timeout_s=30, retries=0)
    assert list(describe_settings(judge_settings))[1:] == [
        "timeout 30 s",
        "0 retries",
        "3 votes per judge, aggregation all",
    ]

"""Custom ids of batches: each trial of a run has its own, in letters and a length that services take."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from proctor.batch_protocol import MAX_CUSTOM_ID_LENGTH, make_custom_id
from proctor.targets.api.batches.anthropic import TAG_LENGTH

NUMBERS = st.integers(min_value=0, max_value=10**9)
TRIALS = st.tuples(NUMBERS, NUMBERS)


def test_a_custom_id_is_made_of_position_and_repeat() -> None:
    assert make_custom_id(12, 0) == "p12-r0"


@given(TRIALS)
def test_a_custom_id_identifies_its_trial(trial: tuple[int, int]) -> None:
    match = re.fullmatch(r"p(\d+)-r(\d+)", make_custom_id(*trial), re.ASCII)
    assert match is not None
    assert (int(match[1]), int(match[2])) == trial


@given(TRIALS, TRIALS)
def test_two_trials_have_the_same_custom_id_only_if_they_are_the_same(
    first: tuple[int, int], second: tuple[int, int]
) -> None:
    assert (make_custom_id(*first) == make_custom_id(*second)) == (first == second)


@given(TRIALS)
def test_every_service_takes_it_with_the_tag_of_its_batch(trial: tuple[int, int]) -> None:
    custom_id = f"{make_custom_id(*trial)}-{'f' * TAG_LENGTH}"
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", custom_id)
    assert len(custom_id) <= MAX_CUSTOM_ID_LENGTH

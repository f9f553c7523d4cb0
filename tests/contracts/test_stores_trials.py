"""What every store does with trials."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proctor.errors import StoreError
from proctor.model import (
    Judgment,
    Output,
    Trial,
    Usage,
    Verdict,
)
from proctor.protocols import Store
from support.builders import make_score, make_trial
from support.waiting import wait_until

StartRun = Callable[..., Any]
DIGEST = "sha256:" + "ab" * 32


# --- trials ------------------------------------------------------------------------------------------------


def test_a_trial_comes_back_as_it_was(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    start_run()
    judgment = Judgment(judge="j", prompt_digest=DIGEST, raw="YES\x00\n🦉", usage=Usage(input_tokens=1))
    output = Output(text="a\x00b\r\n🦉\u2028", latency_ms=1.25, cost_usd=1e-9, refused_params=("seed",))
    trials = [
        make_trial(
            "4", make_score(1.0), make_score(0.5, judgments=(judgment,), details={"x": [1]}), split="dev"
        ),
        make_trial(None, position=1, repeat=2),
        make_trial("", position=2, output=output, source_run="earlier"),
    ]
    for trial in trials:
        store.save_trial("r1", trial, Verdict.PASS)
    store.flush()
    assert [stored_trial.trial for stored_trial in open_another().trials("r1")] == trials


def test_trials_are_listed_in_suite_order(store: Store, start_run: StartRun) -> None:
    start_run()
    places = [(number * 7 % 300, repeat) for number in range(300) for repeat in (2, 0, 1)]
    for position, repeat in places:
        store.save_trial("r1", make_trial("x", position=position, repeat=repeat), Verdict.PASS)
    stored_places = [
        (stored_trial.trial.position, stored_trial.trial.repeat) for stored_trial in store.trials("r1")
    ]
    assert stored_places == sorted(places)


def test_cases_are_counted_once_for_all_of_their_repeats(store: Store, start_run: StartRun) -> None:
    start_run()
    assert store.count_cases("r1") == {}
    for position, repeat, verdict in (
        (0, 0, Verdict.PASS),
        (0, 1, Verdict.PASS),
        (3, 1, Verdict.PASS),
        (3, 2, Verdict.FAIL),
        (7, 0, Verdict.UNSCORED),
        (9, 0, Verdict.UNSCORED),
        (9, 1, Verdict.ERROR),
        (11, 0, Verdict.UNSCORED),
    ):
        store.save_trial("r1", make_trial("4", position=position, repeat=repeat), verdict)
    store.save_output("r1", make_trial("4", position=8))
    store.flush()
    assert store.count_cases("r1") == {
        (2, 0, 0, 0): 1,
        (1, 1, 0, 0): 1,
        (0, 0, 0, 1): 2,
        (0, 0, 1, 1): 1,
    }


def test_an_output_and_its_trial_saved_together_become_the_trial(store: Store, start_run: StartRun) -> None:
    start_run()
    for position in range(200):
        store.save_output("r1", make_trial("4", position=position))
        store.save_trial("r1", make_trial("4", make_score(1.0), position=position), Verdict.PASS)
    store.flush()
    assert store.count_verdicts("r1") == {Verdict.PASS: 200}
    assert all(stored_trial.trial.scores for stored_trial in store.trials("r1"))


def test_the_trials_of_one_run_are_not_those_of_another(store: Store, start_run: StartRun) -> None:
    start_run("a")
    start_run("b")
    store.save_trial("a", make_trial("of a"), Verdict.PASS)
    store.save_trial("b", make_trial("of b"), Verdict.UNSCORED)
    assert [stored_trial.trial.output.text for stored_trial in store.trials("b")] == ["of b"]  # type: ignore[union-attr]
    assert store.count_verdicts("a") == {Verdict.PASS: 1}
    assert store.count_verdicts("b") == {Verdict.UNSCORED: 1}


def test_trials_of_an_unknown_run_are_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        store.save_trial("r9", make_trial("x"), Verdict.PASS)
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        list(store.trials("r9"))


def test_a_run_can_be_read_while_its_trials_are_written(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    start_run()
    for position in range(600):
        store.save_trial("r1", make_trial("x", position=position), Verdict.PASS)
    store.flush()
    reading = open_another().trials("r1")
    first = [next(reading) for _ in range(300)]
    for position in range(600, 900):
        store.save_trial("r1", make_trial("x", position=position), Verdict.PASS)
    store.flush()
    positions = [stored_trial.trial.position for stored_trial in (*first, *reading)]
    assert positions == sorted(set(positions))
    assert len(positions) >= 600


def _has_trials(store: Store, count: int) -> bool:
    return sum(store.count_verdicts("r1").values()) == count


@pytest.mark.slow
@pytest.mark.parametrize("method", ["save_output", "save_trial"])
def test_a_saved_trial_is_durable_within_a_tenth_of_a_second(
    store: Store, start_run: StartRun, open_another: Callable[[], Store], method: str
) -> None:
    start_run()
    other, durations_s = open_another(), []
    for position in range(50):  # again, as this machine may be busy with something else
        verdict = {} if method == "save_output" else {"verdict": Verdict.PASS}
        started_at = monotonic()
        getattr(store, method)("r1", make_trial("x", position=position), **verdict)
        wait_until(partial(_has_trials, other, position + 1))
        durations_s.append(monotonic() - started_at)
        if position >= 4 and min(durations_s) < 0.1:
            break
    assert min(durations_s) < 0.1


def test_saving_a_trial_does_not_wait_for_the_disk(store: Store, start_run: StartRun) -> None:
    start_run()
    store.save_trial("r1", make_trial("x"), Verdict.PASS)  # starts whatever has to be started
    durations_s = []
    for batch in range(50):  # again, as this machine may be busy with something else
        trials = [make_trial("x", position=1 + 100 * batch + number) for number in range(100)]
        started_at = monotonic()
        for trial in trials:
            store.save_trial("r1", trial, Verdict.PASS)
        durations_s.append((monotonic() - started_at) / len(trials))
        if batch >= 3 and min(durations_s) < 0.001:
            break
    assert min(durations_s) < 0.001


def test_all_trials_are_visible_to_other_stores_after_a_flush(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    start_run()
    other = open_another()
    for position in range(10_000):
        store.save_trial("r1", make_trial("x", position=position), Verdict.PASS)
    store.flush()
    assert other.count_verdicts("r1") == {Verdict.PASS: 10_000}


@pytest.mark.slow
def test_closing_loses_no_trial_and_can_be_done_twice(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    start_run()
    for time in range(40):  # often, as a loss at the end depends on timing
        mine = open_another()
        for repeat in range(3):
            mine.save_trial("r1", make_trial("x", position=time, repeat=repeat), Verdict.PASS)
        mine.close()
        mine.close()
    assert store.count_verdicts("r1") == {Verdict.PASS: 120}


def test_several_stores_can_write_at_once(
    store: Store, start_run: StartRun, open_another: Callable[[], Store]
) -> None:
    for number in range(4):
        start_run(f"r{number}")
    problems: list[BaseException] = []

    def write(number: int, mine: Store) -> None:
        try:
            for position in range(300):
                mine.save_trial(f"r{number}", make_trial(f"{number}", position=position), Verdict.PASS)
                if position % 100 == 0:
                    mine.flush()
            mine.flush()
        except BaseException as error:  # noqa: BLE001  # handed to the test
            problems.append(error)

    threads = [threading.Thread(target=write, args=(number, open_another())) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert [store.count_verdicts(f"r{number}") for number in range(4)] == [{Verdict.PASS: 300}] * 4


# --- laws --------------------------------------------------------------------------------------------------


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["save_output", "save_trial", "flush"]), st.integers(0, 3), st.integers(0, 9)
        ),
        max_size=30,
    )
)
def test_the_first_record_of_a_trial_counts_and_until_then_the_last_output(
    store: Store, start_run: StartRun, steps: list[tuple[str, int, int]]
) -> None:
    for run in store.runs():
        store.delete_run(run.id)
    start_run()
    expected: dict[int, tuple[str, Verdict | None]] = {}
    for method, position, number in steps:
        trial, before = make_trial(str(number), position=position), expected.get(position)
        if method == "flush":
            store.flush()
            continue
        if method == "save_output":
            store.save_output("r1", trial)
        else:
            store.save_trial("r1", trial, Verdict.FAIL)
        if before is None or before[1] is None:
            expected[position] = (str(number), Verdict.FAIL if method == "save_trial" else None)
    actual = {
        stored_trial.trial.position: (stored_trial.trial.output.text, stored_trial.verdict)  # type: ignore[union-attr]
        for stored_trial in store.trials("r1")
    }
    assert actual == expected
    assert store.count_verdicts("r1") == Counter(verdict for _, verdict in expected.values())


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(), case_id=st.text(min_size=1))
def test_every_text_and_every_id_comes_back(
    store: Store, start_run: StartRun, text: str, case_id: str
) -> None:
    for run in store.runs():
        store.delete_run(run.id)
    start_run()
    trial: Trial = make_trial(text, case_id=case_id)
    store.save_trial("r1", trial, Verdict.PASS)
    (stored_trial,) = store.trials("r1")
    assert stored_trial.trial == trial

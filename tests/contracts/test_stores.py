"""What every store promises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import monotonic, sleep
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.codec import sent_digest, settings_digest, target_digest
from proctor.errors import StoreError
from proctor.model import (
    Assertion,
    Case,
    Judgment,
    Output,
    Params,
    Run,
    Selection,
    Settings,
    SplitRule,
    Suite,
    TargetSpec,
    Trial,
    Usage,
    Verdict,
)
from proctor.ports import Store
from proctor.stores import STORES

Make = Callable[..., Any]
DIGEST = "sha256:" + "ab" * 32


@pytest.fixture(params=STORES.names())
def open_another(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens the same store, each time anew."""
    opened: list[Store] = []
    kind = STORES.get(request.param)

    def make() -> Store:
        opened.append(kind(str(tmp_path / "kept")))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(open_another: Callable[[], Store]) -> Store:
    return open_another()


@pytest.fixture
def cases(case: Make) -> list[Case]:
    rich = Assertion(grader="contains", params={"words": ["ä", "\n"]}, weight=0.5, required=0.2, negated=True)
    return [
        case("plain"),
        case("../../etc/passwd\n\x00🦉", "zwei\nZeilen", expected=["a", None, 1.5], tags=("t", "u")),
        case("rich", assertions=(rich, rich), category="c", metadata={"deep": {"x": [1]}}, repeats=3),
    ]


def _saved(store: Store, cases: Sequence[Case], **fields: Any) -> Suite:
    writer = store.saving()
    for each in cases:
        writer.add(each, sent_digest(each))
    given: dict[str, Any] = {"name": "s", "dialect": "meridian", "digest": DIGEST, "case_count": len(cases)}}
    return writer.keep(Suite(**given | fields))


@pytest.fixture
def begun(store: Store, cases: list[Case], trial: Make) -> Callable[..., Run]:
    """A run that has begun, of a suite that is saved."""
    noon = trial("").started_at

    def make(run_id: str = "r1", *, suite: Suite | None = None, **fields: Any) -> Run:
        given = {
            "id": run_id,
            "group": "g",
            "suite": suite or _saved(store, cases),
            "target": TargetSpec(name="echo", kind="echo"),
            "started_at": noon,
            "planned": 3,
        }
        run = Run(**(given | fields))
        store.begin(run)
        return run

    return make


# --- suites ------------------------------------------------------------------------------------------------


def test_cases_come_back_as_they_were_and_in_their_order(store: Store, cases: list[Case]) -> None:
    many = cases + [replace(cases[0], id=f"c{number}") for number in range(2500)]
    suite = _saved(store, many)
    kept = list(store.cases(suite.content))
    assert [each.case for each in kept] == many
    assert [each.sent for each in kept] == [sent_digest(each) for each in many]


def test_a_suite_is_found_by_the_name_under_which_it_was_last_saved(store: Store, cases: list[Case]) -> None:
    _saved(store, cases, version="1")
    second = _saved(store, cases[:1], version="2", split_rule=SplitRule())
    _saved(store, cases[1:], name="other")
    assert store.suite("s") == second
    assert store.suite("nobody") is None


def test_the_same_content_is_the_same_and_any_other_is_not(store: Store, cases: list[Case]) -> None:
    content = _saved(store, cases).content
    assert _saved(store, cases).content == content
    tagged = [replace(cases[0], tags=("new",)), *cases[1:]]
    others = [_saved(store, other).content for other in (cases[::-1], cases[:2], tagged)]
    assert len({content, *others}) == 4


@pytest.mark.parametrize("kept_first", [False, True])
def test_what_is_dropped_is_forgotten_and_what_was_kept_stays(
    store: Store, cases: list[Case], kept_first: bool
) -> None:
    kept = _saved(store, cases) if kept_first else None
    writer = store.saving()
    writer.add(replace(cases[0], id="gone"), DIGEST)
    writer.drop()
    writer.drop()
    assert store.suite("s") == kept
    again = _saved(store, cases)  # nothing is in the way of the next
    assert len(list(store.cases(again.content))) == 3


def test_nothing_of_a_suite_is_there_before_it_is_kept(
    store: Store, open_another: Callable[[], Store], cases: list[Case]
) -> None:
    other = open_another()
    writer = store.saving()
    for number in range(1500):
        writer.add(replace(cases[0], id=str(number)), DIGEST)
    assert other.suite("s") is None
    writer.keep(Suite(name="s", dialect="d", digest=DIGEST))
    assert other.suite("s") is not None


def test_an_empty_suite_can_be_kept(store: Store) -> None:
    assert list(store.cases(_saved(store, []).content)) == []


# --- runs --------------------------------------------------------------------------------------------------


def test_a_run_comes_back_as_it_was(begun: Make, open_another: Callable[[], Store]) -> None:
    run = begun(
        "20260301-120000-abcdef",
        target=TargetSpec(
            name="n", kind="openai", model="m", endpoint="http://h/v1", params=Params(temperature=None)
        ),
        judges=(TargetSpec(name="j", kind="echo"),),
        settings=Settings(selection=Selection(tags=("a",), limit=3), threshold=0.5),
        versions={"proctor": "0"},
        warnings=("eins", "zwei"),
    )
    assert open_another().run(run.id) == run


def test_a_later_state_takes_the_place_of_the_earlier(
    store: Store, begun: Make, open_another: Callable[[], Store]
) -> None:
    run = begun()
    later = replace(run, status="finished", finished_at=run.started_at + timedelta(seconds=5), tags=("x",))
    store.update(later)
    assert [open_another().run("r1"), *store.runs()] == [later, later]


def test_runs_come_newest_first(store: Store, begun: Make) -> None:
    for number in range(12):
        begun(f"run{number}")
    assert [run.id for run in store.runs()] == [f"run{number}" for number in reversed(range(12))]


def test_runs_can_be_deleted_while_they_are_listed(store: Store, begun: Make) -> None:
    for number in range(4):
        begun(f"run{number}")
    seen = []
    for run in store.runs():
        seen.append(run.id)
        store.delete(run.id)
    assert len(seen) == 4
    assert list(store.runs()) == []


@pytest.mark.parametrize(
    ("word", "found"),
    [("abc1", "abc1"), ("abc", "abc"), ("abd", "abd2"), ("a_c", None), ("ab%", None), ("", None)],
)
def test_the_beginning_of_an_id_is_enough_when_it_is_of_one_run(
    store: Store, begun: Make, word: str, found: str | None
) -> None:
    for run_id in ("abc", "abc1", "abd2", "xyz"):
        begun(run_id)
    if found is not None:
        assert store.run(word).id == found
    else:
        with pytest.raises(StoreError, match="There is no run"):
            store.run(word)


def test_the_beginning_of_several_ids_names_them(store: Store, begun: Make) -> None:
    begun("abc1")
    begun("abc2")
    with pytest.raises(StoreError, match=r"'ab'.*abc\d, abc\d"):
        store.run("ab")


def test_the_newest_unfinished_run_of_suite_target_and_settings_is_found(store: Store, begun: Make) -> None:
    fits = begun("old")
    begun("newer", status="interrupted")
    begun("finished", status="finished")
    begun("other-target", target=TargetSpec(name="echo", kind="echo", params=Params(temperature=1.0)))
    begun("other-selection", settings=Settings(selection=Selection(limit=1)))
    begun("other-repeats", settings=Settings(repeats=2))
    begun("other-concurrency-is-no-matter", settings=Settings(concurrency=1), status="finished")
    digests = (
        fits.suite.digest,
        target_digest(fits.target),
        settings_digest((fits.settings.selection, fits.settings.repeats)),
    )
    found = store.unfinished(*digests)
    assert found is not None
    assert found.id == "newer"
    for place in range(3):
        others = [*digests]
        others[place] = DIGEST[:-1] + "0"
        assert store.unfinished(*others) is None


# --- trials ------------------------------------------------------------------------------------------------


def test_a_trial_comes_back_as_it_was(
    store: Store, begun: Make, trial: Make, score: Make, open_another: Callable[[], Store]
) -> None:
    begun()
    judgment = Judgment(judge="j", prompt_digest=DIGEST, raw="YES\x00\n🦉", usage=Usage(input_tokens=1))
    output = Output(text="a\x00b\r\n🦉\u2028", latency_ms=1.25, cost_usd=1e-9, refused_params=("seed",))
    made = [
        trial("4", score(1.0), score(0.5, judgments=(judgment,), details={"x": [1]}), split="dev"),
        trial(None, position=1, repeat=2),
        trial("", position=2, output=output, source_run="earlier"),
    ]
    for each in made:
        store.record("r1", each, Verdict.PASS)
    store.flush()
    assert [stored.trial for stored in open_another().trials("r1")] == made


def test_trials_come_in_suite_order_whatever_the_order_of_their_arrival(
    store: Store, begun: Make, trial: Make
) -> None:
    begun()
    places = [(number * 7 % 300, repeat) for number in range(300) for repeat in (2, 0, 1)]
    for position, repeat in places:
        store.record("r1", trial("x", position=position, repeat=repeat), Verdict.PASS)
    found = [(stored.trial.position, stored.trial.repeat) for stored in store.trials("r1")]
    assert found == sorted(places)


def test_a_second_record_of_the_same_trial_changes_nothing(store: Store, begun: Make, trial: Make) -> None:
    begun()
    store.record("r1", trial("first"), Verdict.PASS)
    store.record("r1", trial("second"), Verdict.FAIL)
    store.flush()
    store.record("r1", trial("third"), Verdict.ERROR)
    store.arrived("r1", trial("fourth"))
    (kept,) = store.trials("r1")
    assert (kept.trial.output.text, kept.verdict) == ("first", Verdict.PASS)  # type: ignore[union-attr]
    assert store.counts("r1") == {Verdict.PASS: 1}


def test_an_output_waits_without_a_verdict_until_its_trial_is_recorded(
    store: Store, begun: Make, trial: Make, score: Make
) -> None:
    begun()
    store.arrived("r1", trial("4"))
    (waiting,) = store.trials("r1")
    assert (waiting.trial, waiting.verdict) == (trial("4"), None)
    assert store.counts("r1") == {None: 1}
    store.record("r1", trial("4", score(0.0)), Verdict.FAIL)
    (done,) = store.trials("r1")
    assert (done.trial, done.verdict) == (trial("4", score(0.0)), Verdict.FAIL)


def test_an_output_and_its_trial_handed_over_together_end_as_the_trial(
    store: Store, begun: Make, trial: Make, score: Make
) -> None:
    begun()
    for position in range(200):
        store.arrived("r1", trial("4", position=position))
        store.record("r1", trial("4", score(1.0), position=position), Verdict.PASS)
    store.flush()
    assert store.counts("r1") == {Verdict.PASS: 200}
    assert all(stored.trial.scores for stored in store.trials("r1"))


def test_the_trials_of_one_run_are_not_those_of_another(store: Store, begun: Make, trial: Make) -> None:
    begun("a")
    begun("b")
    store.record("a", trial("of a"), Verdict.PASS)
    store.record("b", trial("of b"), Verdict.UNSCORED)
    assert [each.trial.output.text for each in store.trials("b")] == ["of b"]  # type: ignore[union-attr]
    assert store.counts("a") == {Verdict.PASS: 1}
    assert store.counts("b") == {Verdict.UNSCORED: 1}


def test_trials_of_a_run_that_is_not_there_are_an_error(store: Store, trial: Make) -> None:
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        store.record("r9", trial("x"), Verdict.PASS)
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        list(store.trials("r9"))


def test_a_run_can_be_read_while_its_trials_are_written(
    store: Store, begun: Make, trial: Make, open_another: Callable[[], Store]
) -> None:
    begun()
    for position in range(600):
        store.record("r1", trial("x", position=position), Verdict.PASS)
    store.flush()
    reading = open_another().trials("r1")
    first = [next(reading) for _ in range(300)]
    for position in range(600, 900):
        store.record("r1", trial("x", position=position), Verdict.PASS)
    store.flush()
    positions = [stored.trial.position for stored in (*first, *reading)]
    assert positions == sorted(set(positions))
    assert len(positions) >= 600


@pytest.mark.parametrize("method", ["arrived", "record"])
def test_what_is_handed_over_is_durable_within_a_tenth_of_a_second(
    store: Store, begun: Make, trial: Make, open_another: Callable[[], Store], method: str
) -> None:
    begun()
    other, took = open_another(), []
    for position in range(5):
        verdict = {} if method == "arrived" else {"verdict": Verdict.PASS}
        handed_over = monotonic()
        getattr(store, method)("r1", trial("x", position=position), **verdict)
        while sum(other.counts("r1").values()) <= position:
            assert monotonic() - handed_over < 2
            sleep(0.002)
        took.append(monotonic() - handed_over)
    assert median(took) < 0.1  # the median, as this machine may be busy with something else


def test_handing_over_does_not_wait_for_the_disk(store: Store, begun: Make, trial: Make) -> None:
    begun()
    store.record("r1", trial("x"), Verdict.PASS)  # starts whatever has to be started
    made = [trial("x", position=position) for position in range(1, 400)]
    began = monotonic()
    for each in made:
        store.record("r1", each, Verdict.PASS)
    assert (monotonic() - began) / len(made) < 0.001


def test_flushing_makes_everything_seen_by_others(
    store: Store, begun: Make, trial: Make, open_another: Callable[[], Store]
) -> None:
    begun()
    other = open_another()
    for position in range(10_000):
        store.record("r1", trial("x", position=position), Verdict.PASS)
    store.flush()
    assert other.counts("r1") == {Verdict.PASS: 10_000}


def test_closing_keeps_everything_and_can_be_done_twice(
    store: Store, begun: Make, trial: Make, open_another: Callable[[], Store]
) -> None:
    begun()
    for time in range(40):  # often, as what is lost at the end is lost by a hair
        mine = open_another()
        for repeat in range(3):
            mine.record("r1", trial("x", position=time, repeat=repeat), Verdict.PASS)
        mine.close()
        mine.close()
    assert store.counts("r1") == {Verdict.PASS: 120}


def test_several_can_write_at_once(
    store: Store, begun: Make, trial: Make, open_another: Callable[[], Store]
) -> None:
    for number in range(4):
        begun(f"r{number}")
    problems: list[BaseException] = []

    def write(number: int, mine: Store) -> None:
        try:
            for position in range(300):
                mine.record(f"r{number}", trial(f"{number}", position=position), Verdict.PASS)
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
    assert [store.counts(f"r{number}") for number in range(4)] == [{Verdict.PASS: 300}] * 4


# --- forgetting --------------------------------------------------------------------------------------------


def test_deleting_a_run_forgets_its_trials_and_no_others(store: Store, begun: Make, trial: Make) -> None:
    begun("a")
    begun("b")
    for run_id in ("a", "b"):
        store.record(run_id, trial("x"), Verdict.PASS)
    store.flush()
    store.delete("a")
    with pytest.raises(StoreError, match="There is no run 'a'"):
        store.run("a")
    assert [run.id for run in store.runs()] == ["b"]
    assert store.counts("b") == {Verdict.PASS: 1}


def test_cases_are_forgotten_with_the_last_run_that_has_them(
    store: Store, begun: Make, cases: list[Case]
) -> None:
    shared = begun("a").suite
    begun("b")
    half = begun("c", suite=_saved(store, cases[:2], name="half")).suite
    store.delete("a")
    assert len(list(store.cases(shared.content))) == 3
    store.delete("b")
    assert list(store.cases(shared.content)) == []
    assert [each.case for each in store.cases(half.content)] == cases[:2]


def test_a_deleted_run_leaves_nothing_for_a_new_one_of_its_id(store: Store, begun: Make, trial: Make) -> None:
    begun("a")
    store.record("a", trial("old"), Verdict.PASS)
    store.flush()
    store.delete("a")
    begun("a")
    assert store.counts("a") == {}


def test_deleting_forgets_what_was_handed_over_just_before(store: Store, begun: Make, trial: Make) -> None:
    begun("a")
    for position in range(100):
        store.record("a", trial("old", position=position), Verdict.PASS)
    store.delete("a")
    store.flush()
    begun("a")
    assert store.counts("a") == {}


def test_what_is_written_for_a_run_that_another_has_deleted_never_becomes_another_runs(
    store: Store, begun: Make, trial: Make, open_another: Callable[[], Store]
) -> None:
    begun("a")
    store.record("a", trial("of a"), Verdict.PASS)
    store.flush()
    open_another().delete("a")
    begun("b")
    store.record("a", trial("of a", position=1), Verdict.PASS)
    store.record("b", trial("of b", position=1), Verdict.FAIL)
    store.flush()
    assert [each.trial.output.text for each in store.trials("b")] == ["of b"]  # type: ignore[union-attr]


def test_deleting_what_is_not_there_is_an_error(store: Store) -> None:
    with pytest.raises(StoreError, match="There is no run 'r9'"):
        store.delete("r9")


# --- laws --------------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["arrived", "record", "flush"]), st.integers(0, 3), st.integers(0, 9)),
        max_size=30,
    )
)
def test_the_first_record_of_a_trial_counts_and_until_then_the_last_output(
    store: Store, begun: Make, trial: Make, steps: list[tuple[str, int, int]]
) -> None:
    for run in store.runs():
        store.delete(run.id)
    begun()
    expected: dict[int, tuple[str, Verdict | None]] = {}
    for what, position, number in steps:
        made, before = trial(str(number), position=position), expected.get(position)
        if what == "flush":
            store.flush()
            continue
        if what == "arrived":
            store.arrived("r1", made)
        else:
            store.record("r1", made, Verdict.FAIL)
        if before is None or before[1] is None:
            expected[position] = (str(number), Verdict.FAIL if what == "record" else None)
    found = {
        stored.trial.position: (stored.trial.output.text, stored.verdict)  # type: ignore[union-attr]
        for stored in store.trials("r1")
    }
    assert found == expected


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(), case_id=st.text(min_size=1))
def test_every_text_and_every_id_comes_back(
    store: Store, begun: Make, trial: Make, text: str, case_id: str
) -> None:
    for run in store.runs():
        store.delete(run.id)
    begun()
    made: Trial = trial(text, case_id=case_id)
    store.record("r1", made, Verdict.PASS)
    (kept,) = store.trials("r1")
    assert kept.trial == made

"""Drift of a target over stored runs: times, pass rules, and memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.drift.observations import PASSED
from proctor.errors import NothingSelected, UsageError
from proctor.model import Message, PromptTemplate, Run, Settings, TargetSpec, Verdict
from proctor.services.analysis.drift import DriftQuery, DriftRequest, parse_moment
from proctor.services.runs.config import Config
from proctor.stores.sqlite.store import SqliteStore
from proctor.verdicts import Counts
from support.builders import make_case, make_score, make_trial
from support.sessions import MakeRuns, WriteSuite
from support.stores import add_run, save_cases

NOW = datetime(2026, 10, 31, 12, tzinfo=UTC)


@pytest.fixture
def drifting(store: SqliteStore, environ: dict[str, str]) -> DriftQuery:
    return DriftQuery(store, environ, Config())


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("30d", datetime(2026, 10, 1, 12, tzinfo=UTC)),
        ("12h", datetime(2026, 10, 31, 0, tzinfo=UTC)),
        ("2w", datetime(2026, 10, 17, 12, tzinfo=UTC)),
        ("2026-10-03", datetime(2026, 10, 3, tzinfo=UTC)),
        ("2026-10-03T04:05", datetime(2026, 10, 3, 4, 5, tzinfo=UTC)),
        ("2026-10-03 04:05", datetime(2026, 10, 3, 4, 5, tzinfo=UTC)),
        ("2026-10-03T04:05+02:00", datetime(2026, 10, 3, 2, 5, tzinfo=UTC)),
    ],
)
def test_a_time_may_be_a_date_or_how_long_ago(word: str, expected: datetime) -> None:
    assert parse_moment(word, NOW) == expected


def test_a_date_at_the_end_is_its_end() -> None:
    assert parse_moment("2026-10-03", NOW, ends=True) - parse_moment("2026-10-03", NOW) > timedelta(
        hours=23, minutes=59
    )


@given(st.text(max_size=12))
def test_every_other_word_is_refused(word: str) -> None:
    try:
        moment = parse_moment(word, NOW)
    except UsageError:
        return
    assert moment.tzinfo is not None


@pytest.fixture
def scripted(folder: Path, make: MakeRuns) -> Callable[..., Any]:
    """Makes a run on the same script, whose answers are written anew."""

    async def run(suite: str, answers: dict[str, Any], **fields: Any) -> Any:
        (folder / "a.jsonl").write_text(json.dumps(answers), encoding="utf-8")
        return await make(suite, "scripted:a.jsonl", **fields)

    return run


async def test_cases_are_judged_by_the_rules_of_each_run(
    scripted: Callable[..., Any], suite: WriteSuite, drifting: DriftQuery
) -> None:
    name = suite(("a", "q", "yes"), ("b", "q", "yes"))
    await scripted(name, {"*": "yes"})
    await scripted(name, {"*": "yes"}, settings=Settings(threshold=0.0))
    progress: list[tuple[int, int]] = []
    drift = drifting.read(drifting.find(DriftRequest()), lambda *counts: progress.append(counts)).drift
    assert progress == [(0, 2), (1, 2)]
    assert all(step.observation.verdicts == bytearray([PASSED] * 2) for step in drift.points)
    assert [change.what for change in drift.recorded_changes] == ["threshold"]
    assert drift.last.flips is None  # a threshold is no change of the target


async def test_a_case_with_a_rule_of_its_own_keeps_it(
    scripted: Callable[..., Any], folder: Path, drifting: DriftQuery
) -> None:
    (folder / "e.eval.yaml").write_text(
        "tests:\n"
        "- {id: half, criteria: c, input: q, execution: {threshold: 0.5}, "
        "assertions: [{type: contains, value: a}, {type: contains, value: b}]}\n"
        "- {id: whole, criteria: c, input: q, assertions: [{type: contains, value: a}, "
        "{type: contains, value: b}]}\n",
        encoding="utf-8",
    )
    await scripted("e.eval.yaml", {"*": "a b"})
    await scripted("e.eval.yaml", {"*": "a"})
    flips = drifting.read(drifting.find(DriftRequest())).drift.last.flips
    assert flips is not None
    assert flips.worse == ("whole",)


async def test_fewer_than_two_measured_runs_are_too_few(
    scripted: Callable[..., Any], suite: WriteSuite, drifting: DriftQuery
) -> None:
    with pytest.raises(NothingSelected, match="The store has no runs"):
        drifting.find(DriftRequest())
    name = suite(("a", "q", "yes"))
    await scripted(name, {"b": "nothing for a"})
    await scripted(name, {"*": "yes"})
    with pytest.raises(NothingSelected, match="has new answers from the target"):
        drifting.read(drifting.find(DriftRequest()))


@pytest.mark.slow
async def test_no_answer_is_held(
    scripted: Callable[..., Any], suite: WriteSuite, drifting: DriftQuery
) -> None:
    name = suite(*((f"c{n}", "q", "yes") for n in range(40)))
    for run in range(12):
        await scripted(name, {"*": f"yes {run}" + "x" * 20_000})
    selection = drifting.find(DriftRequest())
    tracemalloc.start()
    drifting.read(selection)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * 40 * 20_000 / 3  # the trials of one run at a time are in memory


async def test_the_interval_of_a_run_is_over_its_clusters_as_everywhere(
    scripted: Callable[..., Any], suite: WriteSuite, drifting: DriftQuery
) -> None:
    name = suite(*((f"d{n // 5}~{n}", "q", "yes") for n in range(20)))
    answers = {f"d0~{n}": "no" for n in range(5)} | {"*": "yes"}
    for _ in range(2):
        await scripted(name, answers, settings=Settings(cluster="id"))
    alone = Counts.from_cases({(1, 0, 0, 0): 15, (0, 1, 0, 0): 5})
    for step in drifting.read(drifting.find(DriftRequest())).drift.points:
        counts = step.observation.passed
        assert (counts.pass_rate, len(counts.clusters or {})) == (0.75, 4)
        assert counts.ci95 is not None
        assert alone.ci95 is not None
        assert counts.ci95[0] < alone.ci95[0] < alone.ci95[1] < counts.ci95[1]


async def test_the_last_run_that_names_clusters_names_those_of_the_series(
    scripted: Callable[..., Any], suite: WriteSuite, drifting: DriftQuery
) -> None:
    name = suite(*((f"d{n // 5}~{n}", "q", "yes") for n in range(20)))
    for cluster, clusters in ((None, None), ("id", 4), (None, 4), ("none", None)):
        await scripted(name, {"*": "yes"}, settings=Settings(cluster=cluster))
        if cluster is None and clusters is None:
            continue
        last = drifting.read(drifting.find(DriftRequest())).drift.last
        assert last.with_first is not None
        assert last.flips is not None
        assert (last.with_first.clusters, last.flips.clusters) == (clusters, clusters)
    by_id = drifting.read(drifting.find(DriftRequest(cluster="id"))).drift
    assert [len(step.observation.passed.clusters or {}) for step in by_id.points] == [4] * 4
    assert by_id.last.with_first is not None
    assert by_id.last.with_first.clusters == 4
    unknown = drifting.read(drifting.find(DriftRequest(cluster="metadata.document")))
    assert any("No case has `metadata.document`" in note for note in unknown.notes)
    assert unknown.drift.last.with_first is not None
    assert unknown.drift.last.with_first.clusters is None


# --- prompts -----------------------------------------------------------------------------------------------


def save_prompt_runs(store: SqliteStore, *prompts: tuple[str, str] | None) -> list[Run]:
    """Saves a run of one case for each prompt, given as its name and its text, an hour apart."""
    suite, runs = save_cases(store, [make_case("c")]), []
    for number, prompt in enumerate(prompts):
        messages = () if prompt is None else (Message(role="user", content=prompt[1]),)
        run = add_run(
            store,
            suite,
            id=f"20260301-1{number}0000-abcdef",
            target=TargetSpec(name="gpt", kind="echo"),
            prompt=None if prompt is None else PromptTemplate(name=prompt[0], messages=messages),
            started_at=datetime(2026, 3, 1, 10 + number, tzinfo=UTC),
            status="finished",
        )
        store.save_trial(run.id, make_trial("yes", make_score(1.0)), Verdict.PASS)
        runs.append(run)
    return runs


TERSE, STEPS = ("terse", "Be brief: {{ input }}"), ("steps", "Think: {{ input }}")


@pytest.mark.parametrize(
    ("prompt", "places", "note"),
    [
        (None, (0, 3), "Excluded 3 runs that used another prompt."),
        ("terse", (1, 4), "Excluded 3 runs that used another prompt."),
    ],
)
def test_a_series_has_one_prompt(
    store: SqliteStore, drifting: DriftQuery, prompt: str | None, places: tuple[int, ...], note: str
) -> None:
    runs = save_prompt_runs(store, None, TERSE, STEPS, None, TERSE)
    selection = drifting.find(DriftRequest(prompt=prompt))
    assert [run.id for run in selection.runs] == [runs[place].id for place in places]
    assert note in selection.notes


def test_an_edited_prompt_begins_a_new_series(store: SqliteStore, drifting: DriftQuery) -> None:
    edited = ("terse", "One word: {{ input }}")
    runs = save_prompt_runs(store, TERSE, TERSE, edited, edited, ("renamed", edited[1]))
    selection = drifting.find(DriftRequest(prompt="terse"))
    assert [run.id for run in selection.runs] == [run.id for run in runs[2:]]


def test_several_prompts_are_listed_where_none_is_named(store: SqliteStore, drifting: DriftQuery) -> None:
    save_prompt_runs(store, TERSE, TERSE, STEPS, STEPS)
    with pytest.raises(UsageError, match=r"--prompt P\. Stored runs: .* on gpt with the prompt steps"):
        drifting.find(DriftRequest())
    with pytest.raises(
        NothingSelected, match=r"There is no such stored run with the prompt 'loud'\. Stored runs:"
    ):
        drifting.find(DriftRequest(prompt="loud"))

"""Replays of a bundle: the same cases on the user's own targets, without other side effects."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from proctor.errors import BundleError, ExitCode, NothingSelected, UsageError
from proctor.model import Params, Run, Selection, Settings, SuiteDefaults
from proctor.proof.replay_comparison import ReplayComparison
from proctor.services.bundles.attest import attest
from proctor.services.bundles.import_records import ImportOptions
from proctor.services.bundles.replay import ReplayOptions, ReplayPlan, compare_with_bundle, plan_replay
from proctor.services.runs.execution.session import RunSession
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteSuite

Replay = Callable[..., Awaitable[tuple[ReplayPlan, Run, ReplayComparison]]]
NO_OPTIONS = ImportOptions()
TESTS = [(name, f"say {name}", f"say {name}") for name in "abcdefghij"]


@pytest.fixture
def replay(store: SqliteStore, session: Callable[[], RunSession], folder: Path) -> Replay:
    """Attests a run and replays its bundle."""

    async def ask(
        run: Run,
        target: str = "echo",
        *,
        public: bool = False,
        options: ImportOptions = NO_OPTIONS,
        **fields: Any,
    ) -> tuple[ReplayPlan, Run, ReplayComparison]:
        path = folder / f"{run.id}.{public}.zip"
        if not path.exists():
            attest(store, run, path, public=public, key=None)
        plan = plan_replay(store, path, options, ReplayOptions(target=target, **fields))
        (result,) = await session().run(plan.request)
        return plan, result.run, compare_with_bundle(store, plan, result.run)

    return ask


def write_answers(folder: Path, name: str = "answers.jsonl", **answers: str) -> str:
    rows = [json.dumps({"*" if key == "rest" else key: text}) for key, text in answers.items()]
    (folder / name).write_text("\n".join(rows), encoding="utf-8")
    return f"scripted:{name}"


async def make_run(make: MakeRuns, word: str, targets: str = "echo", **fields: Any) -> Run:
    (result,) = await make(word, targets, **fields)
    return result.run


async def test_the_same_target_gives_the_same(make: MakeRuns, suite: WriteSuite, replay: Replay) -> None:
    run = await make_run(make, suite(*TESTS))
    plan, now, comparison = await replay(run)
    assert (comparison.total, comparison.identical.count, comparison.exit_code) == (10, 10, ExitCode.OK)
    assert now.id != run.id
    assert (now.suite.digest, now.target.params) == (run.suite.digest, run.target.params)
    assert now.imported is None
    assert plan.notes == ()


async def test_changes_are_told_both_ways(
    make: MakeRuns, suite: WriteSuite, replay: Replay, folder: Path
) -> None:
    before = write_answers(folder, "then.jsonl", a="no", b="no", rest="say c")
    now = write_answers(folder, "now.jsonl", a="say a", b="never", rest="quiet")
    run = await make_run(make, suite(*TESTS[:3]), before)
    _, _, comparison = await replay(run, now)
    assert [change.name for change in comparison.now_passing] == ["a"]
    assert [change.name for change in comparison.now_failing] == ["c"]
    assert (comparison.same_verdict.count, comparison.identical.count) == (1, 0)
    assert (comparison.then.passed, comparison.now.passed) == (1, 1)
    assert comparison.exit_code is ExitCode.FAILED


async def test_what_could_not_be_asked_is_not_measured(
    make: MakeRuns, suite: WriteSuite, replay: Replay, folder: Path
) -> None:
    run = await make_run(make, suite(*TESTS[:3]))
    _, _, comparison = await replay(run, write_answers(folder, a="say a"))
    assert [change.name for change in comparison.not_measured] == ["b", "c"]
    assert comparison.exit_code is ExitCode.NOT_MEASURED


async def test_what_was_asked_then_is_asked_now(
    make: MakeRuns, suite: WriteSuite, replay: Replay, folder: Path
) -> None:
    settings = Settings(selection=Selection(ids=("a", "b", "c"), limit=2), repeats=3, threshold=0.5)
    params = Params(temperature=0.7, seed=5, max_tokens=9)
    run = await make_run(make, suite(*TESTS), settings=settings, params=params)
    _, now, comparison = await replay(run)
    assert comparison.total == comparison.identical.count == 6
    assert now.target.params == params
    assert (now.settings.repeats, now.settings.threshold) == (3, 0.5)
    assert now.settings.selection == settings.selection
    assert now.planned == 6


async def test_who_is_asked_and_how_fast_is_for_the_user_to_say(
    make: MakeRuns, suite: WriteSuite, replay: Replay, store: SqliteStore
) -> None:
    run = await make_run(make, suite(*TESTS), settings=Settings(reuse=True, cache=True, budget_usd=5.0))
    wishes = SuiteDefaults(
        targets=("command:touch ran",), concurrency=1, reuse=True, cache=True, budget_usd=0.1
    )
    run = replace(run, suite=replace(run.suite, defaults=wishes))
    store.update_run(run)
    _, now, _ = await replay(run, settings=Settings(concurrency=7))
    settings = now.settings
    assert (settings.concurrency, settings.reuse, settings.cache, settings.budget_usd) == (
        7,
        False,
        False,
        None,
    )
    assert now.suite.defaults == SuiteDefaults()
    assert all(record.trial.source_run is None for record in store.trials(now.id))


async def test_one_part_alone(make: MakeRuns, suite: WriteSuite, replay: Replay) -> None:
    run = await make_run(make, suite(*TESTS), holdout=0.3)
    for split, count in (("dev", 7), ("holdout", 3), ("all", 10)):
        _, now, comparison = await replay(run, split=split)
        assert (comparison.total, comparison.identical.count, now.planned) == (count, count, count)


async def test_a_part_that_was_not_asked_is_not_there(
    make: MakeRuns, suite: WriteSuite, replay: Replay
) -> None:
    run = await make_run(make, suite(*TESTS), settings=Settings(selection=Selection(split="dev")))
    with pytest.raises(NothingSelected, match="no such trials"):
        await replay(run, split="holdout")


async def test_a_limit_over_both_parts_is_kept_to_what_was_asked(
    make: MakeRuns, suite: WriteSuite, replay: Replay
) -> None:
    run = await make_run(make, suite(*TESTS), settings=Settings(selection=Selection(limit=6)), holdout=0.4)
    for fields in ({"split": "dev"}, {"split": "holdout"}, {"public": True}):
        _, now, comparison = await replay(run, **fields)
        assert 0 < comparison.total == comparison.identical.count == now.planned < 6


async def test_of_a_public_bundle_only_what_it_shows_is_asked(
    make: MakeRuns, suite: WriteSuite, replay: Replay, store: SqliteStore
) -> None:
    run = await make_run(make, suite(*TESTS), holdout=0.3)
    plan, now, comparison = await replay(run, public=True)
    assert (comparison.total, comparison.identical.count) == (7, 7)
    assert "3 held-out trials" in plan.notes[0]
    assert (now.suite.name, now.suite.split_rule, now.suite.case_count) == ("s (public part)", None, 7)
    current = store.suite("s")
    assert current is not None
    assert current.digest == run.suite.digest


async def test_a_public_bundle_of_a_holdout_alone_has_nothing_to_ask(
    make: MakeRuns, suite: WriteSuite, replay: Replay
) -> None:
    run = await make_run(
        make, suite(*TESTS), settings=Settings(selection=Selection(split="holdout")), holdout=0.3
    )
    with pytest.raises(NothingSelected, match="only held-out cases"):
        await replay(run, public=True)


async def test_the_rate_of_a_holdout_is_a_look(
    make: MakeRuns, suite: WriteSuite, replay: Replay, store: SqliteStore
) -> None:
    run = await make_run(make, suite(*TESTS), holdout=0.3)
    await replay(run, split="dev")
    before = len(store.holdout_accesses(run.suite.digest))
    await replay(run, split="dev")
    assert len(store.holdout_accesses(run.suite.digest)) == before
    _, now, _ = await replay(run)
    looks = store.holdout_accesses(run.suite.digest)[before:]
    assert [(look.run, look.kind) for look in looks] == [(now.id, "rate")]


async def test_a_bundle_that_does_not_verify_asks_nobody(
    make: MakeRuns, suite: WriteSuite, store: SqliteStore, folder: Path
) -> None:
    run = await make_run(make, suite(*TESTS))
    attest(store, run, folder / "b", public=False, key=None)
    file = folder / "b" / "trials.jsonl"
    file.write_bytes(file.read_bytes().replace(b"say a", b"say z"))
    runs, versions = list(store.runs()), store.versions()
    with pytest.raises(BundleError):
        plan_replay(store, folder / "b", ImportOptions(), ReplayOptions(target="echo"))
    attest(store, run, folder / "c", public=False, key=None)
    with pytest.raises(BundleError, match="signature by a trusted key is required"):
        plan_replay(store, folder / "c", ImportOptions(require_signature=True), ReplayOptions(target="echo"))
    assert (list(store.runs()), store.versions()) == (runs, versions)


async def test_no_file_is_taken_for_the_suite_of_a_bundle(
    make: MakeRuns, suite: WriteSuite, replay: Replay, folder: Path
) -> None:
    run = await make_run(make, suite(*TESTS))
    for name in ("s", "s v1", "s@v1"):
        (folder / name).write_text('{"id": "z", "input": "z", "expected": "z"}', encoding="utf-8")
    _, now, comparison = await replay(run)
    assert now.suite.digest == run.suite.digest
    assert comparison.identical.count == 10


PROGRAM = """
description: runs a program
tests:
  - id: p
    input: hello
    criteria: says hello
    assertions: [{type: code-grader, command: [sh, -c, touch ran]}]
"""


async def test_a_program_of_the_bundle_is_run_only_where_that_is_allowed(
    make: MakeRuns, replay: Replay, folder: Path
) -> None:
    (folder / "p.yaml").write_text(PROGRAM, encoding="utf-8")
    run = await make_run(make, "p.yaml")
    (folder / "ran").unlink()
    with pytest.raises(UsageError, match=r"'p' is graded by a program \(sh -c touch ran\).*--allow-programs"):
        await replay(run)
    assert not (folder / "ran").exists()
    await replay(run, options=ImportOptions(allow_programs=True))
    assert (folder / "ran").exists()


JUDGED = """
description: names a judge
tests:
  - id: j
    input: hello
    criteria: polite
    assertions: [{type: llm-grader, prompt: "Is it polite?", target: theirs}]
"""


async def test_a_judge_that_the_suite_names_is_not_asked_where_the_user_names_one(
    make: MakeRuns, replay: Replay, folder: Path
) -> None:
    targets = "targets:\n  - {name: theirs, provider: cli, command: sh judge.sh}\n"
    (folder / "targets.yaml").write_text(targets, encoding="utf-8")
    (folder / "judge.sh").write_text("touch ran\n", encoding="utf-8")
    (folder / "j.yaml").write_text(JUDGED, encoding="utf-8")
    run = await make_run(make, "j.yaml")
    assert (folder / "ran").exists()
    (folder / "ran").unlink()
    (folder / "targets.yaml").unlink()
    with pytest.raises(UsageError, match=r"names a judge of its own \(theirs\)"):
        await replay(run)
    plan, _, _ = await replay(run, judges=("echo",), options=ImportOptions(judged=True))
    assert not (folder / "ran").exists()
    assert plan.notes == ()

"""Reuse of answers and judgments of earlier runs, and what is called again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from proctor.errors import UsageError
from proctor.model import Params, Settings, Verdict
from proctor.services import events
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteModule

SOURCE = """
import json
asked = []
judged = []
def answer(prompt):
    asked.append(prompt)
    return prompt.upper() + f" {len(asked)}"
def other(prompt):
    asked.append(prompt)
    return "other"
def broken(prompt):
    raise RuntimeError("no")
def judge(prompt):
    judged.append(prompt)
    return json.dumps({"score": 5, "reason": f"reply {len(judged)}"})
def strict(prompt):
    judged.append(prompt)
    return json.dumps({"score": 1, "reason": "poor"})
def unreadable(prompt):
    judged.append(prompt)
    return "hm"
def moody(prompt):
    return unreadable(prompt) if "ONE 4" in str(prompt) else judge(prompt)
def late(prompt):
    return unreadable(prompt) if len(judged) < 3 else judge(prompt)
"""


class BenchRun(NamedTuple):
    calls: int
    """Calls of the target."""
    judgments: int
    """Calls of judges."""
    result: events.RunFinished

    @property
    def numbers(self) -> tuple[int, int, int]:
        tally = self.result.tally
        return tally.asked_count, tally.graded_count, tally.reused_count


class Bench:
    """Makes runs and counts the calls of targets and judges."""

    def __init__(self, make: MakeRuns, name: str, folder: Path) -> None:
        self._make = make
        self._name = name
        self._folder = folder

    def target(self, function: str) -> str:
        return f"function:{self._name}:{function}"

    async def run(
        self,
        rows: list[dict[str, Any]] | None = None,
        *,
        target: str = "answer",
        judge: tuple[str, ...] = ("judge",),
        **fields: Any,
    ) -> BenchRun:
        if rows is not None:
            text = "\n".join(map(json.dumps, rows))
            (self._folder / "s.jsonl").write_text(text, encoding="utf-8")
            fields["suites"] = "s.jsonl"
        calls, judgments = self.calls("asked"), self.calls("judged")
        settings = fields.pop("settings", Settings(reuse="regrade" not in fields))
        explicit = frozenset(("reuse", "judge_repeats", "judge_rule"))
        judges = tuple(self.target(name) for name in judge)
        (result,) = await self._make(
            targets=self.target(target), judges=judges, settings=settings, explicit=explicit, **fields
        )
        return BenchRun(self.calls("asked") - calls, self.calls("judged") - judgments, result)

    def calls(self, name: str) -> int:
        return len(vars(sys.modules[self._name])[name]) if self._name in sys.modules else 0


@pytest.fixture
def bench(make: MakeRuns, module: WriteModule, folder: Path) -> Bench:
    return Bench(make, module(SOURCE), folder)


def row(name: str, question: str, rubric: str = "", expected: str = "") -> dict[str, Any]:
    if rubric:
        return {"id": name, "input": question, "scorer": "llm_judge", "rubric": rubric}
    return {"id": name, "input": question, "expected": expected or question, "scorer": "contains"}


ROWS = [row("a", "one"), row("b", "two", "Kind?"), row("c", "three", "Short?")]


async def test_a_second_run_asks_and_judges_nothing_and_has_every_trial(
    bench: Bench, store: SqliteStore
) -> None:
    first = await bench.run(ROWS)
    assert (first.calls, first.judgments, first.numbers) == (3, 2, (3, 3, 0))
    second = await bench.run(ROWS)
    assert (second.calls, second.judgments, second.numbers) == (0, 0, (0, 0, 3))
    assert second.result.tally.all.passed == first.result.tally.all.passed == 3
    trials = [stored_trial.trial for stored_trial in store.trials(second.result.run.id)]
    assert [trial.source_run for trial in trials] == [first.result.run.id] * 3
    assert [trial.output and trial.output.text for trial in trials] == ["ONE 1", "TWO 2", "THREE 3"]


@pytest.mark.parametrize(
    ("second", "calls", "judgments", "numbers"),
    [
        ({"settings": Settings()}, 3, 2, (3, 3, 0)),
        ({"rows": [ROWS[0], row("b", "two!", "Kind?"), ROWS[2]]}, 1, 1, (1, 1, 2)),
        ({"target": "other"}, 3, 2, (3, 3, 0)),
        ({"params": Params(temperature=0.7)}, 3, 2, (3, 3, 0)),
        ({"params": Params(max_tokens=5)}, 3, 2, (3, 3, 0)),
        ({"settings": Settings(reuse=True, repeats=2)}, 3, 2, (3, 3, 3)),
        ({"settings": Settings(reuse=True, judge_repeats=3)}, 0, 4, (0, 2, 3)),
    ],
    ids=["without reuse", "a question", "a target", "temperature", "length", "repeats", "judgments"],
)
async def test_a_second_run_asks_and_judges_only_what_is_new_of_it(
    bench: Bench, second: dict[str, Any], calls: int, judgments: int, numbers: tuple[int, int, int]
) -> None:
    await bench.run(ROWS)
    run = await bench.run(**{"rows": ROWS} | second)
    assert (run.calls, run.judgments, run.numbers) == (calls, judgments, numbers)


async def test_only_a_judging_that_changed_is_done_again_on_the_stored_answer(
    bench: Bench, store: SqliteStore
) -> None:
    first = await bench.run(ROWS)
    changed = await bench.run([ROWS[0], row("b", "two", "Brief?"), ROWS[2]])
    assert (changed.calls, changed.judgments, changed.numbers) == (0, 1, (0, 1, 3))
    answers = [stored_trial.trial.output for stored_trial in store.trials(changed.result.run.id)]
    assert answers == [stored_trial.trial.output for stored_trial in store.trials(first.result.run.id)]
    assert changed.result.run.suite.version == "v2"
    assert first.result.run.suite.version == "v1"


async def test_what_is_reverted_is_neither_asked_nor_judged_again(bench: Bench) -> None:
    await bench.run(ROWS)
    await bench.run([ROWS[0], row("b", "two", "Brief?"), ROWS[2]])
    reverted = await bench.run(ROWS)
    assert (reverted.calls, reverted.judgments, reverted.numbers) == (0, 0, (0, 0, 3))
    assert reverted.result.run.suite.version == "v1"


async def test_an_earlier_run_keeps_the_grades_that_it_had(bench: Bench, store: SqliteStore) -> None:
    first = await bench.run(ROWS)
    before = list(store.trials(first.result.run.id))
    await bench.run([row("a", "one", expected="never"), *ROWS[1:]])
    assert list(store.trials(first.result.run.id)) == before


async def test_a_case_keeps_its_answer_under_another_id_and_at_another_place(
    bench: Bench, store: SqliteStore
) -> None:
    await bench.run(ROWS)
    run = await bench.run([ROWS[2], row("z", "one"), ROWS[1]])
    assert (run.calls, run.judgments, run.numbers) == (0, 0, (0, 0, 3))
    trials = [stored_trial.trial for stored_trial in store.trials(run.result.run.id)]
    assert [(trial.case_id, trial.position) for trial in trials] == [("c", 0), ("z", 1), ("b", 2)]
    assert trials[1].output is not None
    assert trials[1].output.text == "ONE 1"


async def test_two_cases_with_one_question_stay_two(bench: Bench, store: SqliteStore) -> None:
    rows = [row("a", "one"), row("b", "one", "Kind?")]
    first = await bench.run(rows)
    assert (first.calls, first.numbers) == (2, (2, 2, 0))
    second = await bench.run([rows[0], row("b", "one", "Brief?")])
    assert (second.calls, second.judgments, second.numbers) == (0, 1, (0, 1, 2))
    texts = [
        stored_trial.trial.output and stored_trial.trial.output.text
        for stored_trial in store.trials(second.result.run.id)
    ]
    assert texts == ["ONE 1", "ONE 2"]


async def test_another_judge_judges_the_stored_answers(bench: Bench) -> None:
    await bench.run(ROWS)
    strict = await bench.run(ROWS, judge=("strict",))
    assert (strict.calls, strict.judgments, strict.numbers) == (0, 2, (0, 2, 3))
    assert strict.result.tally.all.failed == 2


async def test_one_judge_more_is_asked_alone(bench: Bench, store: SqliteStore) -> None:
    await bench.run(ROWS)
    run = await bench.run(ROWS, judge=("judge", "strict"))
    assert (run.calls, run.judgments, run.numbers) == (0, 2, (0, 2, 3))
    judgments = [
        [(judgment.judge[-6:], judgment.cached) for judgment in score.judgments]
        for stored_trial in store.trials(run.result.run.id)
        for score in stored_trial.trial.scores
    ]
    assert judgments[1] == [(":judge", True), ("strict", False)]
    assert run.result.tally.judge_usage.calls == 2


async def test_judgments_of_several_runs_are_put_together(bench: Bench) -> None:
    await bench.run(ROWS)
    await bench.run(ROWS, judge=("strict",))
    run = await bench.run(ROWS, judge=("judge", "strict"))
    assert (run.calls, run.judgments, run.numbers) == (0, 0, (0, 2, 3))


async def test_what_could_be_read_is_not_lost_behind_more_that_could_not(bench: Bench) -> None:
    unscored = await bench.run(ROWS[1:2], judge=("late",))
    scored = await bench.run(ROWS[1:2], judge=("late",))
    assert (unscored.judgments, scored.judgments) == (3, 1)
    run = await bench.run(ROWS[1:2], judge=("late", "judge"))
    assert (run.judgments, run.result.tally.all.passed) == (1, 1)


async def test_metadata_that_no_judge_is_shown_has_nothing_judged_again(bench: Bench) -> None:
    await bench.run(ROWS[1:])
    more = await bench.run([{**case, "metadata": {"page": 2}} for case in ROWS[1:]])
    assert (more.judgments, more.numbers) == (0, (0, 0, 2))


async def test_another_judge_rule_counts_the_judgments_that_are_there(bench: Bench) -> None:
    settings = Settings(reuse=True, judge_repeats=2)
    first = await bench.run(ROWS, judge=("judge", "strict"), settings=settings)
    assert first.judgments == 8
    anyone = await bench.run(
        ROWS, judge=("judge", "strict"), settings=Settings(reuse=True, judge_repeats=2, judge_rule="any")
    )
    assert (anyone.calls, anyone.judgments, anyone.numbers) == (0, 0, (0, 2, 3))
    assert anyone.result.tally.all.passed == 3


AGREE = {"type": "consistency"}


async def test_a_score_over_all_repeats_is_of_the_repeats_of_this_run(
    bench: Bench, store: SqliteStore
) -> None:
    rows = [{"id": "a", "prompt": "one", "expected": AGREE, "num_runs": 2}]
    more = await bench.run(rows, settings=Settings(reuse=True, repeats=4))
    fewer = await bench.run(rows)
    again = await bench.run(rows)
    assert [run.numbers for run in (more, fewer, again)] == [(4, 4, 0), (0, 2, 2), (0, 0, 2)]
    for run in (fewer, again):
        reasons = {stored_trial.trial.scores[0].reason for stored_trial in store.trials(run.result.run.id)}
        assert all("of 2 answers" in reason for reason in reasons)


def make_graded_twice(**agreeing: str) -> list[dict[str, Any]]:
    """A suite whose only case is graded over both of its answers and by a judge for each."""
    assertions = [
        {"grader": "consistency", "params": agreeing},
        {"grader": "rubric", "params": {"rubric": "Kind?"}},
    ]
    question = {"role": "user", "content": "one"}
    return [
        {"proctor": 1, "name": "s"},
        {"id": "a", "input": [question], "assertions": assertions, "repeats": 2},
    ]


async def test_a_score_over_all_repeats_is_not_put_together_from_several_runs(bench: Bench) -> None:
    await bench.run(make_graded_twice(), judge=("moody",))
    unread = await bench.run(make_graded_twice(), judge=("moody",), settings=Settings())
    assert unread.result.tally.all.unscored == 1  # the other one could be kept, beside one of the first run
    run = await bench.run(make_graded_twice(), judge=("moody",))
    assert (run.judgments, run.numbers) == (0, (0, 2, 2))


async def test_judgments_are_kept_where_a_score_over_all_repeats_is_new(bench: Bench) -> None:
    await bench.run(make_graded_twice())
    other = await bench.run(make_graded_twice(expected="one"))
    assert (other.judgments, other.numbers) == (0, (0, 2, 2))
    assert other.result.tally.judge_usage.cached == 2


async def test_what_failed_or_could_not_be_read_is_tried_again(bench: Bench) -> None:
    broken = await bench.run(ROWS, target="broken", settings=Settings(reuse=True, retries=0))
    assert broken.result.tally.all.errors == 3
    again = await bench.run(ROWS, target="broken", settings=Settings(reuse=True, retries=0))
    assert again.numbers == (3, 0, 0)
    unread = await bench.run(ROWS, judge=("unreadable",))
    assert unread.result.tally.all.unscored == 2
    assert (await bench.run(ROWS, judge=("unreadable",))).judgments == unread.judgments


async def test_what_a_program_graded_is_graded_again_as_the_program_may_be_another(
    bench: Bench, make: MakeRuns, folder: Path
) -> None:
    (folder / "check.py").write_text("print('{\"score\": 1}')", encoding="utf-8")
    (folder / "s.eval.yaml").write_text(
        f"tests:\n  - id: a\n    criteria: x\n    input: one\n    assertions:\n      - type: code-grader\n"
        f"        command: [{sys.executable!r}, check.py]\n",
        encoding="utf-8",
    )
    settings = Settings(reuse=True)
    options: dict[str, Any] = {"settings": settings, "explicit": frozenset(("reuse",))}
    await make("s.eval.yaml", bench.target("answer"), **options)
    (folder / "check.py").write_text("print('{\"score\": 0}')", encoding="utf-8")
    (result,) = await make("s.eval.yaml", bench.target("answer"), **options)
    assert (result.tally.asked_count, result.tally.graded_count, result.tally.reused_count) == (0, 1, 1)
    assert result.tally.all.failed == 1


# --- regrade -----------------------------------------------------------------------------------------------


async def test_a_regrade_asks_judges_and_no_target(bench: Bench, store: SqliteStore) -> None:
    first = await bench.run(ROWS)
    again = await bench.run(regrade=first.result.run.id, judge=("strict",))
    assert (again.calls, again.judgments, again.numbers) == (0, 2, (0, 3, 3))
    assert again.result.run.regrade_of == first.result.run.id
    assert again.result.run.id != first.result.run.id
    verdicts = [stored_trial.verdict for stored_trial in store.trials(again.result.run.id)]
    assert verdicts == [Verdict.PASS, Verdict.FAIL, Verdict.FAIL]
    assert store.count_verdicts(first.result.run.id) == {Verdict.PASS: 3}


async def test_a_regrade_without_a_judge_asks_those_of_the_run(bench: Bench) -> None:
    first = await bench.run(ROWS)
    again = await bench.run(regrade=first.result.run.id, judge=())
    assert again.judgments == 2
    assert again.result.run.judges == first.result.run.judges


async def test_a_regrade_does_not_open_the_target(make: MakeRuns, bench: Bench, folder: Path) -> None:
    (folder / "answers.jsonl").write_text('{"*": "one"}', encoding="utf-8")
    (folder / "s.jsonl").write_text(json.dumps(ROWS[0]), encoding="utf-8")
    (first,) = await make("s.jsonl", "scripted:answers.jsonl")
    (folder / "answers.jsonl").unlink()
    (again,) = await make(regrade=first.run.id, targets="")
    assert again.tally.all.passed == 1


async def test_a_regrade_by_an_edited_suite_grades_what_was_asked_the_same_and_names_the_rest(
    bench: Bench, folder: Path, store: SqliteStore
) -> None:
    first = await bench.run(ROWS)
    edited = [row("a", "one", expected="no"), row("b", "two?", "Kind?"), ROWS[2]]
    again = await bench.run(edited, regrade=first.result.run.id)
    assert (again.calls, again.judgments) == (0, 1)
    trials = list(store.trials(again.result.run.id))
    assert [stored_trial.verdict for stored_trial in trials] == [Verdict.FAIL, Verdict.ERROR, Verdict.PASS]
    failure = trials[1].trial.failure
    assert failure is not None
    assert failure.kind == "not-asked"
    assert "can be graded again" in failure.message
    assert again.result.run.suite.version == "v2"


async def test_what_failed_stays_failed_in_a_regrade(bench: Bench, store: SqliteStore) -> None:
    first = await bench.run(ROWS, target="broken", settings=Settings(retries=0))
    again = await bench.run(regrade=first.result.run.id, judge=())
    assert again.numbers == (0, 0, 3)
    failures = [stored_trial.trial.failure for stored_trial in store.trials(again.result.run.id)]
    assert failures == [stored_trial.trial.failure for stored_trial in store.trials(first.result.run.id)]


async def test_a_regrade_that_was_cut_short_goes_on_where_it_stopped(
    bench: Bench, make: MakeRuns, store: SqliteStore
) -> None:
    first = await bench.run(ROWS)
    again = await bench.run(regrade=first.result.run.id)
    run_id = again.result.run.id
    with store._db:
        store._db.execute(
            "DELETE FROM trials WHERE position = 2 AND run = (SELECT key FROM runs WHERE id = ?)", (run_id,)
        )
    (result,) = await make(resume=run_id)
    assert result.run.id == run_id
    assert store.count_verdicts(run_id) == {Verdict.PASS: 3}
    assert bench.calls("asked") == 3


async def test_a_regrade_by_two_suites_is_refused(bench: Bench, folder: Path) -> None:
    first = await bench.run(ROWS)
    (folder / "t.jsonl").write_text(json.dumps(ROWS[0]), encoding="utf-8")
    with pytest.raises(UsageError, match="one suite"):
        await bench.run(regrade=first.result.run.id, suites="s.jsonl t.jsonl")


async def test_what_names_a_variable_that_is_not_set_is_not_begun(
    make: MakeRuns, store: SqliteStore, folder: Path, environ: dict[str, str]
) -> None:
    suite = "tests: [{id: a, input: 'Say ${{ WORD }}.', assertions: [{type: contains, value: Say}]}]"
    (folder / "s.eval.yaml").write_text(suite, encoding="utf-8")
    environ["WORD"] = "heron"
    (result,) = await make("s.eval.yaml")
    del environ["WORD"]
    for fields in ({"regrade": "last"}, {"retry_errors": "last"}, {"suites": "s"}):
        with pytest.raises(UsageError, match="WORD is not set"):
            await make(**fields)
    assert [run.id for run in store.runs()] == [result.run.id]

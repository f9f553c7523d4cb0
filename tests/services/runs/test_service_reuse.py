"""What a run takes from earlier ones, and what it asks and judges anew."""

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


class Made(NamedTuple):
    asked: int
    """Calls of the target."""
    judged: int
    """Calls of judges."""
    done: events.RunFinished

    @property
    def numbers(self) -> tuple[int, int, int]:
        tally = self.done.tally
        return tally.asked_count, tally.graded_count, tally.reused_count


class Bench:
    """Makes runs and counts who was asked."""

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
    ) -> Made:
        if rows is not None:
            text = "\n".join(map(json.dumps, rows))
            (self._folder / "s.jsonl").write_text(text, encoding="utf-8")
            fields["suites"] = "s.jsonl"
        asked, judged = self.calls("asked"), self.calls("judged")
        settings = fields.pop("settings", Settings(reuse="regrade" not in fields))
        given = frozenset(("reuse", "judge_repeats", "judge_rule"))
        judges = tuple(self.target(name) for name in judge)
        (done,) = await self._make(
            targets=self.target(target), judges=judges, settings=settings, explicit=given, **fields
        )
        return Made(self.calls("asked") - asked, self.calls("judged") - judged, done)

    def calls(self, what: str) -> int:
        return len(vars(sys.modules[self._name])[what]) if self._name in sys.modules else 0


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
    assert (first.asked, first.judged, first.numbers) == (3, 2, (3, 3, 0))
    second = await bench.run(ROWS)
    assert (second.asked, second.judged, second.numbers) == (0, 0, (0, 0, 3))
    assert second.done.tally.all.passed == first.done.tally.all.passed == 3
    trials = [stored.trial for stored in store.trials(second.done.run.id)]
    assert [trial.source_run for trial in trials] == [first.done.run.id] * 3
    assert [trial.output and trial.output.text for trial in trials] == ["ONE 1", "TWO 2", "THREE 3"]


@pytest.mark.parametrize(
    ("second", "asked", "judged", "numbers"),
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
    bench: Bench, second: dict[str, Any], asked: int, judged: int, numbers: tuple[int, int, int]
) -> None:
    await bench.run(ROWS)
    run = await bench.run(**{"rows": ROWS} | second)
    assert (run.asked, run.judged, run.numbers) == (asked, judged, numbers)


async def test_only_a_judging_that_changed_is_done_again_on_the_stored_answer(
    bench: Bench, store: SqliteStore
) -> None:
    first = await bench.run(ROWS)
    changed = await bench.run([ROWS[0], row("b", "two", "Brief?"), ROWS[2]])
    assert (changed.asked, changed.judged, changed.numbers) == (0, 1, (0, 1, 3))
    answers = [stored.trial.output for stored in store.trials(changed.done.run.id)]
    assert answers == [stored.trial.output for stored in store.trials(first.done.run.id)]
    assert changed.done.run.suite.version == "v2"
    assert first.done.run.suite.version == "v1"


async def test_what_is_reverted_is_neither_asked_nor_judged_again(bench: Bench) -> None:
    await bench.run(ROWS)
    await bench.run([ROWS[0], row("b", "two", "Brief?"), ROWS[2]])
    reverted = await bench.run(ROWS)
    assert (reverted.asked, reverted.judged, reverted.numbers) == (0, 0, (0, 0, 3))
    assert reverted.done.run.suite.version == "v1"


async def test_an_earlier_run_keeps_the_grades_that_it_had(bench: Bench, store: SqliteStore) -> None:
    first = await bench.run(ROWS)
    before = list(store.trials(first.done.run.id))
    await bench.run([row("a", "one", expected="never"), *ROWS[1:]])
    assert list(store.trials(first.done.run.id)) == before


async def test_a_case_keeps_its_answer_under_another_id_and_at_another_place(
    bench: Bench, store: SqliteStore
) -> None:
    await bench.run(ROWS)
    moved = await bench.run([ROWS[2], row("z", "one"), ROWS[1]])
    assert (moved.asked, moved.judged, moved.numbers) == (0, 0, (0, 0, 3))
    trials = [stored.trial for stored in store.trials(moved.done.run.id)]
    assert [(trial.case_id, trial.position) for trial in trials] == [("c", 0), ("z", 1), ("b", 2)]
    assert trials[1].output is not None
    assert trials[1].output.text == "ONE 1"


async def test_two_cases_with_one_question_stay_two(bench: Bench, store: SqliteStore) -> None:
    rows = [row("a", "one"), row("b", "one", "Kind?")]
    first = await bench.run(rows)
    assert (first.asked, first.numbers) == (2, (2, 2, 0))
    second = await bench.run([rows[0], row("b", "one", "Brief?")])
    assert (second.asked, second.judged, second.numbers) == (0, 1, (0, 1, 2))
    texts = [stored.trial.output and stored.trial.output.text for stored in store.trials(second.done.run.id)]
    assert texts == ["ONE 1", "ONE 2"]


async def test_another_judge_judges_the_stored_answers(bench: Bench) -> None:
    await bench.run(ROWS)
    strict = await bench.run(ROWS, judge=("strict",))
    assert (strict.asked, strict.judged, strict.numbers) == (0, 2, (0, 2, 3))
    assert strict.done.tally.all.failed == 2


async def test_one_judge_more_is_asked_alone(bench: Bench, store: SqliteStore) -> None:
    await bench.run(ROWS)
    both = await bench.run(ROWS, judge=("judge", "strict"))
    assert (both.asked, both.judged, both.numbers) == (0, 2, (0, 2, 3))
    judgments = [
        [(judgment.judge[-6:], judgment.cached) for judgment in score.judgments]
        for stored in store.trials(both.done.run.id)
        for score in stored.trial.scores
    ]
    assert judgments[1] == [(":judge", True), ("strict", False)]
    assert both.done.tally.judge_usage.calls == 2


async def test_judgments_of_several_runs_are_put_together(bench: Bench) -> None:
    await bench.run(ROWS)
    await bench.run(ROWS, judge=("strict",))
    both = await bench.run(ROWS, judge=("judge", "strict"))
    assert (both.asked, both.judged, both.numbers) == (0, 0, (0, 2, 3))


async def test_what_could_be_read_is_not_lost_behind_more_that_could_not(bench: Bench) -> None:
    unscored = await bench.run(ROWS[1:2], judge=("late",))
    scored = await bench.run(ROWS[1:2], judge=("late",))
    assert (unscored.judged, scored.judged) == (3, 1)
    both = await bench.run(ROWS[1:2], judge=("late", "judge"))
    assert (both.judged, both.done.tally.all.passed) == (1, 1)


async def test_metadata_that_no_judge_is_shown_has_nothing_judged_again(bench: Bench) -> None:
    await bench.run(ROWS[1:])
    more = await bench.run([{**case, "metadata": {"page": 2}} for case in ROWS[1:]])
    assert (more.judged, more.numbers) == (0, (0, 0, 2))


async def test_another_judge_rule_counts_the_judgments_that_are_there(bench: Bench) -> None:
    settings = Settings(reuse=True, judge_repeats=2)
    first = await bench.run(ROWS, judge=("judge", "strict"), settings=settings)
    assert first.judged == 8
    anyone = await bench.run(
        ROWS, judge=("judge", "strict"), settings=Settings(reuse=True, judge_repeats=2, judge_rule="any")
    )
    assert (anyone.asked, anyone.judged, anyone.numbers) == (0, 0, (0, 2, 3))
    assert anyone.done.tally.all.passed == 3


AGREE = {"type": "consistency"}


async def test_a_score_over_all_repeats_is_of_the_repeats_of_this_run(
    bench: Bench, store: SqliteStore
) -> None:
    rows = [{"id": "a", "prompt": "one", "expected": AGREE, "num_runs": 2}]
    more = await bench.run(rows, settings=Settings(reuse=True, repeats=4))
    fewer = await bench.run(rows)
    again = await bench.run(rows)
    assert [made.numbers for made in (more, fewer, again)] == [(4, 4, 0), (0, 2, 2), (0, 0, 2)]
    for made in (fewer, again):
        reasons = {stored.trial.scores[0].reason for stored in store.trials(made.done.run.id)}
        assert all("of 2 answers" in reason for reason in reasons)


def both(**agreeing: str) -> list[dict[str, Any]]:
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
    await bench.run(both(), judge=("moody",))
    unread = await bench.run(both(), judge=("moody",), settings=Settings())
    assert unread.done.tally.all.unscored == 1  # the other one could be kept, beside one of the first run
    mixed = await bench.run(both(), judge=("moody",))
    assert (mixed.judged, mixed.numbers) == (0, (0, 2, 2))


async def test_judgments_are_kept_where_a_score_over_all_repeats_is_new(bench: Bench) -> None:
    await bench.run(both())
    other = await bench.run(both(expected="one"))
    assert (other.judged, other.numbers) == (0, (0, 2, 2))
    assert other.done.tally.judge_usage.cached == 2


async def test_what_failed_or_could_not_be_read_is_tried_again(bench: Bench) -> None:
    broken = await bench.run(ROWS, target="broken", settings=Settings(reuse=True, retries=0))
    assert broken.done.tally.all.errors == 3
    again = await bench.run(ROWS, target="broken", settings=Settings(reuse=True, retries=0))
    assert again.numbers == (3, 0, 0)
    unread = await bench.run(ROWS, judge=("unreadable",))
    assert unread.done.tally.all.unscored == 2
    assert (await bench.run(ROWS, judge=("unreadable",))).judged == unread.judged


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
    given: dict[str, Any] = {"settings": settings, "explicit": frozenset(("reuse",))}
    await make("s.eval.yaml", bench.target("answer"), **given)
    (folder / "check.py").write_text("print('{\"score\": 0}')", encoding="utf-8")
    (done,) = await make("s.eval.yaml", bench.target("answer"), **given)
    assert (done.tally.asked_count, done.tally.graded_count, done.tally.reused_count) == (0, 1, 1)
    assert done.tally.all.failed == 1


# --- regrade -----------------------------------------------------------------------------------------------


async def test_a_regrade_asks_judges_and_no_target(bench: Bench, store: SqliteStore) -> None:
    first = await bench.run(ROWS)
    again = await bench.run(regrade=first.done.run.id, judge=("strict",))
    assert (again.asked, again.judged, again.numbers) == (0, 2, (0, 3, 3))
    assert again.done.run.regrade_of == first.done.run.id
    assert again.done.run.id != first.done.run.id
    verdicts = [stored.verdict for stored in store.trials(again.done.run.id)]
    assert verdicts == [Verdict.PASS, Verdict.FAIL, Verdict.FAIL]
    assert store.count_verdicts(first.done.run.id) == {Verdict.PASS: 3}


async def test_a_regrade_without_a_judge_asks_those_of_the_run(bench: Bench) -> None:
    first = await bench.run(ROWS)
    again = await bench.run(regrade=first.done.run.id, judge=())
    assert again.judged == 2
    assert again.done.run.judges == first.done.run.judges


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
    again = await bench.run(edited, regrade=first.done.run.id)
    assert (again.asked, again.judged) == (0, 1)
    trials = list(store.trials(again.done.run.id))
    assert [stored.verdict for stored in trials] == [Verdict.FAIL, Verdict.ERROR, Verdict.PASS]
    failure = trials[1].trial.failure
    assert failure is not None
    assert failure.kind == "not-asked"
    assert "can be graded again" in failure.message
    assert again.done.run.suite.version == "v2"


async def test_what_failed_stays_failed_in_a_regrade(bench: Bench, store: SqliteStore) -> None:
    first = await bench.run(ROWS, target="broken", settings=Settings(retries=0))
    again = await bench.run(regrade=first.done.run.id, judge=())
    assert again.numbers == (0, 0, 3)
    failures = [stored.trial.failure for stored in store.trials(again.done.run.id)]
    assert failures == [stored.trial.failure for stored in store.trials(first.done.run.id)]


async def test_a_regrade_that_was_cut_short_goes_on_where_it_stopped(
    bench: Bench, make: MakeRuns, store: SqliteStore
) -> None:
    first = await bench.run(ROWS)
    again = await bench.run(regrade=first.done.run.id)
    run_id = again.done.run.id
    with store._db:
        store._db.execute(
            "DELETE FROM trials WHERE position = 2 AND run = (SELECT key FROM runs WHERE id = ?)", (run_id,)
        )
    (done,) = await make(resume=run_id)
    assert done.run.id == run_id
    assert store.count_verdicts(run_id) == {Verdict.PASS: 3}
    assert bench.calls("asked") == 3


async def test_a_regrade_by_two_suites_is_refused(bench: Bench, folder: Path) -> None:
    first = await bench.run(ROWS)
    (folder / "t.jsonl").write_text(json.dumps(ROWS[0]), encoding="utf-8")
    with pytest.raises(UsageError, match="one suite"):
        await bench.run(regrade=first.done.run.id, suites="s.jsonl t.jsonl")


async def test_what_names_a_variable_that_is_not_set_is_not_begun(
    make: MakeRuns, store: SqliteStore, folder: Path, environ: dict[str, str]
) -> None:
    suite = "tests: [{id: a, input: 'Say ${{ WORD }}.', assertions: [{type: contains, value: Say}]}]"
    (folder / "s.eval.yaml").write_text(suite, encoding="utf-8")
    environ["WORD"] = "heron"
    (done,) = await make("s.eval.yaml")
    del environ["WORD"]
    for fields in ({"regrade": "last"}, {"retry_errors": "last"}, {"suites": "s"}):
        with pytest.raises(UsageError, match="WORD is not set"):
            await make(**fields)
    assert [run.id for run in store.runs()] == [done.run.id]

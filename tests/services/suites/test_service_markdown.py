"""Runs of Markdown tests: each statement of their document, with other texts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from proctor.errors import ExitCode
from proctor.model import JudgeRule, Settings
from proctor.reports.runs.serialize import RunReport, judge_notes
from proctor.services import events
from proctor.services.bundles.attest import attest
from proctor.services.bundles.verify import verify
from proctor.services.runs.config import load_config
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns, WriteModule

JUDGE = '{"pass": true, "feedback": ""}'


class MarkdownFolder:
    """A folder of tests, run with a counting target and a counting judge."""

    def __init__(self, make: MakeRuns, folder: Path, module: str) -> None:
        self._make = make
        self._folder = folder
        self._module = module

    def write(self, name: str, text: str) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    async def run(self, **fields: Any) -> events.RunFinished:
        defaults: dict[str, Any] = {
            "suites": "tests",
            "targets": f"function:{self._module}:answer",
            "judges": (f"function:{self._module}:judge",),
        }
        (result,) = await self._make(**defaults | fields)
        return result


@pytest.fixture
def tests(make: MakeRuns, folder: Path, module: WriteModule) -> MarkdownFolder:
    name = module(
        f"""
def answer(prompt):
    return "answer to " + (prompt if isinstance(prompt, str) else prompt[-1]["content"])
def judge(prompt):
    return '{JUDGE}'
"""
    )
    return MarkdownFolder(make, folder, name)


def count_answers(result: events.RunFinished) -> dict[str, int]:
    tally = result.tally
    return {
        "asked": tally.asked_count,
        "graded": tally.graded_count,
        "reused": tally.reused_count,
        "total": tally.all.total,
    }


def list_sent_messages(store: SqliteStore, result: events.RunFinished) -> dict[str, list[tuple[str, str]]]:
    return {
        stored_case.case.id: [(message.role, message.content) for message in stored_case.case.input]
        for stored_case in store.cases(result.run.suite.content)
    }


CAPITAL = """---
tags: [geography]
---

# 👤

Which city is the capital of Peru?

---

The answer must name Lima.
"""


async def test_an_evaluation_is_all_or_nothing_and_has_feedback(
    tests: MarkdownFolder, make: MakeRuns, folder: Path, store: SqliteStore
) -> None:
    tests.write("tests/capital.md", CAPITAL)
    tests.write("no.jsonl", json.dumps({"*": json.dumps({"pass": False, "feedback": "It names Cusco."})}))
    result = await tests.run(judges=("scripted:no.jsonl",))
    (stored_trial,) = store.trials(result.run.id)
    (score,) = stored_trial.trial.scores
    assert (score.value, str(score.outcome)) == (0.0, "fail")
    assert score.judgments[0].feedback == "It names Cusco."
    assert "It names Cusco." in score.reason


async def test_a_modified_test_is_asked_and_a_former_run_keeps_its_version(
    tests: MarkdownFolder, store: SqliteStore
) -> None:
    tests.write("tests/capital.md", CAPITAL)
    tests.write("tests/other.md", CAPITAL.replace("Peru", "Chile").replace("Lima", "Santiago"))
    first = await tests.run()
    tests.write("tests/capital.md", CAPITAL.replace("Which city", "What city"))
    second = await tests.run()
    assert count_answers(second) == {"asked": 1, "graded": 1, "reused": 1, "total": 2}
    assert (first.run.suite.version, second.run.suite.version) == ("v1", "v2")
    assert list_sent_messages(store, first)["capital"][0][1].startswith("Which")
    assert store.count_verdicts(first.run.id)


async def test_modified_instructions_are_judged_on_the_answer_that_is_there(
    tests: MarkdownFolder, store: SqliteStore
) -> None:
    tests.write("tests/capital.md", CAPITAL)
    tests.write("tests/other.md", CAPITAL.replace("Peru", "Chile"))
    first = await tests.run()
    tests.write("tests/capital.md", CAPITAL.replace("must name", "has to name"))
    second = await tests.run()
    assert count_answers(second) == {"asked": 0, "graded": 1, "reused": 2, "total": 2}
    then, now = (
        [record.trial.scores[0].assertion for record in store.trials(result.run.id)]
        for result in (first, second)
    )
    assert then == now  # the assertion is the same; the instructions are the case's
    criteria = [record.case.criteria for record in store.cases(first.run.suite.content)]
    assert criteria == ["The answer must name Lima."] * 2


async def test_a_test_that_is_moved_or_whose_prompt_is_renamed_is_not_judged_again(
    tests: MarkdownFolder, folder: Path
) -> None:
    tests.write("prompts/guide.md", "---\nid: guide\n---\n\nYou are a guide.\n")
    tests.write("tests/capital.md", CAPITAL.replace("tags:", "systemPrompts: [guide]\ntags:"))
    await tests.run()
    (folder / "tests" / "capital.md").unlink()
    tests.write("prompts/guide.md", "---\nid: local\n---\n\nYou are a guide.\n")
    tests.write("tests/peru/capital.md", CAPITAL.replace("tags:", "systemPrompts: [local]\ntags:"))
    assert count_answers(await tests.run()) == {"asked": 0, "graded": 0, "reused": 1, "total": 1}


async def test_only_an_evaluator_that_is_new_or_edited_judges_again(tests: MarkdownFolder) -> None:
    text = (
        "---\nid: {0}\ntags: [_evaluator]\n---\n\nFor {0}: `{{{{_evaluationInstructions}}}}`\n\n"
        "# 👤\n\n`{{{{_actualResponse}}}}`"
    )
    tests.write("prompts/strict.md", text.format("strict"))
    tests.write("tests/capital.md", CAPITAL)
    await tests.run()
    tests.write("prompts/kind.md", text.format("kind"))
    added = await tests.run()
    assert count_answers(added) == {"asked": 0, "graded": 1, "reused": 1, "total": 1}
    assert added.tally.judge_usage.calls == 1
    tests.write("prompts/kind.md", text.format("kind").replace("For", "Only for"))
    assert (await tests.run()).tally.judge_usage.calls == 1


@pytest.mark.parametrize("tag", ["_json_mode", "_has_tools", "_tools_only"])
async def test_a_special_tag_makes_a_new_version_each_time_it_comes_or_goes(
    tests: MarkdownFolder, tag: str
) -> None:
    tests.write("tests/capital.md", CAPITAL)
    await tests.run()
    tests.write("tests/capital.md", CAPITAL.replace("[geography]", f"[geography, {tag}]"))
    tagged = await tests.run()
    assert (tagged.run.suite.version, tagged.tally.asked_count) == ("v2", 1)
    tests.write("tests/capital.md", CAPITAL)
    untagged = await tests.run()
    assert (untagged.run.suite.version, untagged.tally.asked_count) == ("v1", 0)


async def test_an_ordinary_tag_makes_none(tests: MarkdownFolder) -> None:
    tests.write("tests/capital.md", CAPITAL)
    await tests.run()
    tests.write("tests/capital.md", CAPITAL.replace("[geography]", "[geography, cities]"))
    tagged = await tests.run()
    assert (tagged.run.suite.version, tagged.tally.asked_count, tagged.tally.reused_count) == ("v1", 0, 1)
    assert set(tagged.tally.tags) == {"geography", "cities"}


async def test_an_edited_prompt_asks_again_only_what_it_is_sent_with(tests: MarkdownFolder) -> None:
    tests.write("prompts/brief.md", "---\nid: brief\n---\n\nAnswer in one word.\n")
    tests.write("tests/a.md", CAPITAL.replace("tags:", "systemPrompts: [brief]\ntags:"))
    tests.write("tests/b.md", CAPITAL)
    await tests.run()
    tests.write("prompts/brief.md", "---\nid: brief\n---\n\nAnswer in two words.\n")
    assert count_answers(await tests.run()) == {"asked": 1, "graded": 1, "reused": 1, "total": 2}


EVALUATOR = """---
id: {id}
tags: [_evaluator, _json_mode]
---

Rules: `{{{{_evaluationInstructions}}}}`. {more}

# 👤

`{{{{_actualResponse}}}}`
"""


async def test_several_evaluators_and_evaluations_are_kept_apart(
    tests: MarkdownFolder, store: SqliteStore
) -> None:
    tests.write("tests/capital.md", CAPITAL)
    tests.write("prompts/one.md", EVALUATOR.format(id="one", more="Be fair."))
    tests.write("prompts/two.md", EVALUATOR.format(id="two", more="Be strict."))
    result = await tests.run(settings=Settings(judge_repeats=2), explicit=frozenset(("judge_repeats",)))
    (stored_trial,) = store.trials(result.run.id)
    (score,) = stored_trial.trial.scores
    assert sorted((judgment.evaluator, judgment.nth) for judgment in score.judgments) == [
        ("one", 0),
        ("one", 1),
        ("two", 0),
        ("two", 1),
    ]
    assert (score.details["rule"], score.details["agreement"]) == ("mean", 1.0)


async def test_a_project_chooses_its_prompts_and_evaluators(
    tests: MarkdownFolder, folder: Path, store: SqliteStore
) -> None:
    tests.write("tests/capital.md", CAPITAL)
    tests.write("ours/one.md", EVALUATOR.format(id="one", more="Be fair."))
    tests.write("ours/two.md", EVALUATOR.format(id="two", more="Be strict."))
    tests.write("proctor.toml", 'prompts = "ours"\nevaluators = ["two"]\n')
    result = await tests.run(config=load_config(["target"]))
    (stored_case,) = store.cases(result.run.suite.content)
    (assertion,) = stored_case.case.assertions
    assert [evaluator["id"] for evaluator in assertion.params["evaluators"]] == ["two"]


async def test_reuse_can_be_refused(tests: MarkdownFolder) -> None:
    tests.write("tests/capital.md", CAPITAL)
    await tests.run()
    again = await tests.run(settings=Settings(reuse=False), explicit=frozenset(("reuse",)))
    assert count_answers(again) == {"asked": 1, "graded": 1, "reused": 0, "total": 1}


@pytest.mark.parametrize("rule", ["majority", "all", "any"])
async def test_two_judges_that_disagree_come_to_their_mean_and_their_bundle_verifies(
    tests: MarkdownFolder, folder: Path, store: SqliteStore, rule: JudgeRule
) -> None:
    tests.write("tests/capital.md", CAPITAL)
    tests.write("yes.jsonl", json.dumps({"*": JUDGE}))
    tests.write("no.jsonl", json.dumps({"*": json.dumps({"pass": False, "feedback": "It names Cusco."})}))
    result = await tests.run(
        judges=("scripted:yes.jsonl", "scripted:no.jsonl"),
        settings=Settings(judge_rule=rule),
        explicit=frozenset(("judge_rule",)),
    )
    (stored_trial,) = store.trials(result.run.id)
    (score,) = stored_trial.trial.scores
    value, outcome, words = {
        "majority": (0.5, "fail", "1 of 2 judges pass it (mean 0.50, agreement 50%)"),
        "all": (0.0, "fail", "1 of 2 judges fail it (all must pass it)"),
        "any": (1.0, "pass", "1 of 2 judges pass it (one pass is enough)"),
    }[rule]
    assert (score.value, score.outcome.value) == (value, outcome)
    assert words in score.reason
    attest(store, result.run, folder / "bundle", public=False, key=None)
    assert verify(folder / "bundle", {}).recounted == {"instructions": 1}


async def test_judgments_made_before_checks_had_a_rule_are_taken_over(
    tests: MarkdownFolder, module: WriteModule
) -> None:
    name = module(
        f"""
judged = []
def judge(prompt):
    judged.append(prompt)
    return '{JUDGE}'
"""
    )
    case = {
        "id": "capital",
        "input": [{"role": "user", "content": "Which city is the capital of Peru?"}],
        "criteria": "The answer must name Lima.",
        "assertions": [{"grader": "instructions"}],
    }
    tests.write("old.jsonl", "\n".join(map(json.dumps, [{"proctor": 1, "name": "old"}, case])))
    tests.write("tests/capital.md", CAPITAL)
    judges = (f"function:{name}:judge",)
    await tests.run(suites="old.jsonl", judges=judges)
    again = await tests.run(judges=judges)
    assert count_answers(again) == {"asked": 0, "graded": 1, "reused": 1, "total": 1}
    assert len(sys.modules[name].judged) == 1


async def test_a_run_tells_on_how_many_answers_its_judges_agree(
    tests: MarkdownFolder, folder: Path, store: SqliteStore
) -> None:
    for name in ("one", "two", "three"):
        tests.write(f"tests/{name}.md", CAPITAL)
    tests.write("yes.jsonl", json.dumps({"*": JUDGE}))
    tests.write("mixed.jsonl", json.dumps({"two": json.dumps({"pass": False, "feedback": ""}), "*": JUDGE}))
    alone = await tests.run(judges=("scripted:yes.jsonl",))
    assert not any(line.startswith("All judgments") for line in judge_notes(make_report(alone)))
    two_judges = await tests.run(judges=("scripted:yes.jsonl", "scripted:mixed.jsonl"))
    assert (
        judge_notes(make_report(two_judges))[0]
        == "All judgments agree on 2 of 3 scores that several decided."
    )


def make_report(result: events.RunFinished) -> RunReport:
    return RunReport(run=result.run, tally=result.tally, exit_code=ExitCode.OK, rows=lambda: iter(()))

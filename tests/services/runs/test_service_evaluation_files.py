"""Evaluation files of each shape that their document shows, run to their verdicts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.codec import assertion_digest
from proctor.errors import SuiteError
from proctor.model import Score, Trial
from proctor.services import events
from proctor.stores.sqlite.store import SqliteStore
from support.sessions import MakeRuns


class Came:
    """What the trials of a run came to."""

    def __init__(self, done: list[events.RunFinished], store: SqliteStore) -> None:
        self.done = done
        self.trials = [stored for one in done for stored in store.trials(one.run.id)]

    @property
    def verdicts(self) -> dict[str, str]:
        return {stored.trial.case_id: str(stored.verdict) for stored in self.trials}

    def trial(self, case: str) -> Trial:
        return next(stored.trial for stored in self.trials if stored.trial.case_id == case)

    def scores(self, case: str) -> dict[str, Score]:
        return {score.name: score for score in self.trial(case).scores}


Evaluate = Callable[..., Awaitable[Came]]


@pytest.fixture
def evaluate(make: MakeRuns, folder: Path, store: SqliteStore) -> Evaluate:
    """Runs an evaluation file on scripted answers, with a scripted judge where one is given."""

    async def run(text: str, answers: Any = "ok", judge: Any = None, **files: str) -> Came:
        (folder / "suite.eval.yaml").write_text(text, encoding="utf-8")
        for name, content in files.items():
            path = folder / name.replace("__", "/").replace("_DOT_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        _script(folder / "answers.jsonl", answers)
        fields: dict[str, Any] = {}
        if judge is not None:
            _script(folder / "judge.jsonl", judge)
            fields["judges"] = ("scripted:judge.jsonl",)
        done = await make("suite.eval.yaml", "scripted:answers.jsonl", **fields)
        return Came(done, store)

    return run


def _script(path: Path, answers: Any) -> None:
    rows = answers if isinstance(answers, dict) else {"*": answers}
    written = {
        key: value if isinstance(value, str | list) or "text" in value else json.dumps(value)
        for key, value in rows.items()
    }
    path.write_text(json.dumps(written) + "\n", encoding="utf-8")


def said(score: float, *texts: tuple[str, bool]) -> str:
    """A judge's reply."""
    assertions = [{"text": text, "passed": passed} for text, passed in texts]
    return json.dumps({"score": score, "assertions": assertions, "reasoning": "because"})


def checked(**items: bool) -> str:
    """A judge's reply about rubric items."""
    checks = [{"id": name, "satisfied": passed, "reasoning": "seen"} for name, passed in items.items()]
    return json.dumps({"checks": checks, "overall_reasoning": "all looked at"})


# --- a test and its messages -------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "pass"), (0.2, "fail")])
async def test_the_smallest_test_is_graded_by_its_criteria(
    evaluate: Evaluate, value: float, verdict: str
) -> None:
    came = await evaluate(
        """
tests:
  - id: product
    criteria: Multiplies 6 by 9 and finds 54
    input: What is 6 times 9?
    expected_output: "54"
""",
        "54",
        judge={"product": said(value, ("finds 54", True))},
    )
    assert came.verdicts == {"product": verdict}
    (score,) = came.trial("product").scores
    assert (score.grader, score.value, score.entries[0].text) == ("llm_grader", value, "finds 54")


# --- targets and graders of one test -----------------------------------------------------------------------

TARGETS = """
targets:
  - {name: default, provider: mock, response: from the usual one}
  - {name: careful, provider: mock, response: from the careful one}
"""


async def test_a_test_asks_its_own_target_and_a_prompt_file_judges_it(
    make: MakeRuns, folder: Path, store: SqliteStore
) -> None:
    (folder / "targets.yaml").write_text(TARGETS, encoding="utf-8")
    (folder / "graders").mkdir()
    (folder / "graders" / "depth.md").write_text("How deep is {{ output }}? Reply in JSON.", encoding="utf-8")
    (folder / "suite.eval.yaml").write_text(
        """
tests:
  - id: deep
    criteria: Explains tides in detail
    input: Why are there tides?
    execution:
      target: careful
    assertions:
      - {name: depth, type: llm-grader, prompt: ./graders/depth.md}
  - id: plain
    criteria: x
    input: Hello
    assertions: [{type: contains, value: usual}]
""",
        encoding="utf-8",
    )
    _script(folder / "judge.jsonl", said(0.9))
    came = Came(await make("suite.eval.yaml", "", judges=("scripted:judge.jsonl",)), store)
    assert came.verdicts == {"deep": "pass", "plain": "pass"}
    deep = came.trial("deep")
    assert deep.target == "careful"
    assert deep.output is not None
    assert deep.output.text == "from the careful one"
    assert list(came.scores("deep")) == ["depth"]


async def test_in_a_matrix_a_test_with_its_own_target_runs_once_in_the_first_run(
    make: MakeRuns, folder: Path, store: SqliteStore
) -> None:
    (folder / "targets.yaml").write_text(TARGETS, encoding="utf-8")
    (folder / "suite.eval.yaml").write_text(
        """
execution:
  targets: [default, echo]
tests:
  - id: own
    criteria: x
    input: hi
    execution: {target: careful}
    assertions: [{type: contains, value: careful}]
  - {id: all, criteria: x, input: hi, assertions: [{type: regex, value: "hi|usual"}]}
""",
        encoding="utf-8",
    )
    done = await make("suite.eval.yaml", "")
    assert [one.run.target.name for one in done] == ["default", "echo"]
    asked = [[stored.trial.case_id for stored in store.trials(one.run.id)] for one in done]
    assert asked == [["own", "all"], ["all"]]
    assert len({one.run.group for one in done}) == 1


# --- deterministic checks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("assertions", "answer", "verdict"),
    [
        ("""[{type: is-json}, {type: contains, value: '"state"'}]""", '{"state": "up"}', "pass"),
        ("""[{type: contains_all, value: [Ada, ada@example.org]}]""", "Ada", "fail"),
        ("""[{type: contains-any, value: [BoatCo, ShipCo], negate: true}]""", "BoatCo sinks.", "fail"),
        (
            """[{name: asks, type: icontains-any, value: [port code], required: true},
                {name: form, type: icontains-any, value: [yes/no]}]""",
            "Which PORT CODE, and yes/no?",
            "pass",
        ),
        (
            """[{name: asks, type: icontains-any, value: [port code], required: true},
                {name: form, type: icontains-any, value: [yes/no], weight: 99}]""",
            "Is it yes/no?",
            "fail",
        ),
    ],
)
async def test_deterministic_checks_decide_without_a_judge(
    evaluate: Evaluate, assertions: str, answer: str, verdict: str
) -> None:
    came = await evaluate(f"tests:\n  - {{id: t, criteria: c, input: i, assertions: {assertions}}}\n", answer)
    assert came.verdicts == {"t": verdict}
    assert came.done[0].run.judges == ()


# --- rubrics and gates -------------------------------------------------------------------------------------

SCREENING = """
tests:
  - id: harbour
    criteria: Must find that the ship is banned
    input:
      - {role: user, content: May the ship "Kestrel" enter?}
    expected_output:
      - {role: assistant, content: BANNED}
    assertions:
      - {type: contains, value: BANNED, required: true}
      - type: rubrics
        criteria:
          - {id: ban, outcome: Names the ban, weight: 5.0}
          - {id: why, outcome: Says why, weight: 3.0}
"""


@pytest.mark.parametrize(
    ("answer", "ban", "why", "verdict", "share"),
    [
        ("BANNED, by order.", True, True, "pass", 1.0),
        ("BANNED.", True, False, "pass", 5 / 8),
        ("BANNED?", False, False, "fail", 0.0),
        ("It may not.", True, True, "fail", 1.0),
    ],
)
async def test_rubrics_are_weighted_and_a_gate_outranks_them(
    evaluate: Evaluate, answer: str, ban: bool, why: bool, verdict: str, share: float
) -> None:
    came = await evaluate(SCREENING, answer, judge=checked(ban=ban, why=why))
    assert came.scores("harbour")["rubrics"].value == pytest.approx(share)
    assert came.verdicts == {"harbour": verdict}


@pytest.mark.parametrize(
    ("satisfied", "verdict"),
    [((True, True, True), "pass"), ((True, True, False), "pass"), ((True, False, False), "fail")],
)
async def test_a_gate_with_a_number_of_its_own_holds_a_rubric(
    evaluate: Evaluate, satisfied: tuple[bool, ...], verdict: str
) -> None:
    items = dict(zip(("a", "b", "c"), satisfied, strict=True))
    written = ", ".join(f"{{id: {name}, outcome: {name}}}" for name in items)
    came = await evaluate(
        f"""
tests:
  - id: t
    criteria: c
    input: i
    assertions:
      - {{type: contains, value: ok, weight: 9}}
      - {{type: rubrics, required: 0.6, criteria: [{written}]}}
""",
        judge=checked(**items),
    )
    score = came.scores("t")["rubrics"]
    assert score.required == 0.6
    assert score.value == pytest.approx(sum(satisfied) / 3)
    assert came.verdicts == {"t": verdict}


async def test_metadata_reaches_graders(evaluate: Evaluate) -> None:
    came = await evaluate(
        """
tests:
  - id: sail
    criteria: Written for the right sea
    metadata: {sea: north, wind: 7}
    input: Plan a trip.
    assertions:
      - {type: code-grader, command: [python, graders/sea.py]}
""",
        graders__sea_DOT_py=(
            "import json, sys\n"
            "given = json.load(sys.stdin)['metadata']\n"
            "print(json.dumps({'score': 1.0 if given == {'sea': 'north', 'wind': 7} else 0.0}))\n"
        ),
    )
    assert came.verdicts == {"sail": "pass"}


# --- workspaces --------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_each_test_gets_the_hook_that_is_its_own_and_the_metadata(evaluate: Evaluate) -> None:
    came = await evaluate(
        """
workspace:
  hooks:
    before_all:
      command: [python, setup.py, usual]
tests:
  - id: first
    criteria: x
    input: Do it
    metadata: {repo: boats/harbour, base_commit: "abc123"}
    workspace:
      hooks:
        before_all:
          command: [python, setup.py, own]
    assertions: [{type: code-grader, command: [python, look.py, own, boats/harbour]}]
  - id: second
    criteria: x
    input: Do another
    assertions: [{type: code-grader, command: [python, look.py, usual, none]}]
""",
        setup_DOT_py=(
            "import json, sys, pathlib\n"
            "given = json.load(sys.stdin)\n"
            "data = given['case_metadata'] or {}\n"
            "path = pathlib.Path(given['workspace_path'], 'setup.txt')\n"
            "path.write_text(sys.argv[1] + ' ' + data.get('repo', 'none'), encoding='utf-8')\n"
        ),
        look_DOT_py=(
            "import json, sys, pathlib\n"
            "given = json.load(sys.stdin)\n"
            "text = pathlib.Path(given['workspace_path'], 'setup.txt').read_text(encoding='utf-8')\n"
            "print(json.dumps({'score': float(text == ' '.join(sys.argv[1:])), 'reasoning': text}))\n"
        ),
    )
    assert came.verdicts == {"first": "pass", "second": "pass"}


async def test_a_hook_that_fails_is_an_error_of_the_tests_that_it_covers(evaluate: Evaluate) -> None:
    came = await evaluate(
        """
workspace:
  hooks:
    before_all: {command: [python, -c, "raise SystemExit('no harbour')"]}
tests:
  - {id: a, criteria: x, input: i, assertions: [{type: contains, value: ok}]}
  - {id: b, criteria: x, input: i, assertions: [{type: contains, value: ok}]}
  - id: c
    criteria: x
    input: i
    workspace: {hooks: {before_all: {command: [python, -c, pass]}}}
    assertions: [{type: contains, value: ok}]
"""
    )
    assert came.verdicts == {"a": "error", "b": "error", "c": "pass"}
    failure = came.trial("a").failure
    assert failure is not None
    assert (failure.stage, failure.kind) == ("setup", "workspace")
    assert "no harbour" in failure.message


# --- variables ---------------------------------------------------------------------------------------------


async def test_a_variable_is_sent_filled_in_and_kept_as_written(
    evaluate: Evaluate, store: SqliteStore, environ: dict[str, str]
) -> None:
    environ["HARBOUR"] = "Port-of-Secrets"
    came = await evaluate(
        """
tests:
  - id: where
    criteria: x
    input: I moor in ${{ HARBOUR }}.
    assertions:
      - {type: contains, value: "${{ HARBOUR }}"}
""",
        "You moor in Port-of-Secrets.",
    )
    assert came.verdicts == {"where": "pass"}
    stored = json.dumps([repr(one.trial) for one in came.trials])
    assert "Port-of-Secrets" not in stored
    assert "${{ HARBOUR }}" in stored
    (case,) = [one.case for one in store.cases(came.done[0].run.suite.content)]
    assert case.input[0].content == "I moor in ${{ HARBOUR }}."


async def test_no_digest_that_is_kept_has_the_value_of_a_variable_in_it(
    evaluate: Evaluate, store: SqliteStore, environ: dict[str, str]
) -> None:
    text = """
tests:
  - id: where
    criteria: x
    input: I moor in ${{ HARBOUR }}.
    assertions:
      - {type: contains, value: "${{ HARBOUR }}"}
      - {type: contains, value: moor}
      - {type: llm-grader, prompt: "Does it name ${{ HARBOUR }}?"}
"""
    kept = []
    for environ["HARBOUR"] in ("Port-of-Secrets", "Bay-of-Whispers"):
        came = await evaluate(text, f"You moor in {environ['HARBOUR']}.", judge=said(1.0, ("named", True)))
        assert came.verdicts == {"where": "pass"}
        (case,) = [one.case for one in store.cases(came.done[0].run.suite.content)]
        scores = came.trial("where").scores
        assert [one.assertion for one in scores] == [assertion_digest(one) for one in case.assertions]
        kept.append([judgment.prompt_digest for one in scores for judgment in one.judgments])
    assert kept[0] == kept[1] != []


async def test_a_variable_that_is_not_set_is_an_error_that_names_it(evaluate: Evaluate) -> None:
    with pytest.raises(SuiteError, match="NO_SUCH_HARBOUR"):
        await evaluate("tests:\n  - {id: a, criteria: c, input: '${{ NO_SUCH_HARBOUR }}'}\n")

"""Runs of evaluation files in each documented form."""

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


class EvaluationResult:
    """The trials of the runs of an evaluation file."""

    def __init__(self, results: list[events.RunFinished], store: SqliteStore) -> None:
        self.results = results
        self.trials = [stored_trial for result in results for stored_trial in store.trials(result.run.id)]

    @property
    def verdicts(self) -> dict[str, str]:
        return {stored_trial.trial.case_id: str(stored_trial.verdict) for stored_trial in self.trials}

    def trial(self, case: str) -> Trial:
        return next(stored_trial.trial for stored_trial in self.trials if stored_trial.trial.case_id == case)

    def scores(self, case: str) -> dict[str, Score]:
        return {score.name: score for score in self.trial(case).scores}


Evaluate = Callable[..., Awaitable[EvaluationResult]]


@pytest.fixture
def evaluate(make: MakeRuns, folder: Path, store: SqliteStore) -> Evaluate:
    """Runs an evaluation file on scripted answers, with a scripted judge where one is given."""

    async def run(text: str, answers: Any = "ok", judge: Any = None, **files: str) -> EvaluationResult:
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
        results = await make("suite.eval.yaml", "scripted:answers.jsonl", **fields)
        return EvaluationResult(results, store)

    return run


def _script(path: Path, answers: Any) -> None:
    rows = answers if isinstance(answers, dict) else {"*": answers}
    texts = {
        key: value if isinstance(value, str | list) or "text" in value else json.dumps(value)
        for key, value in rows.items()
    }
    path.write_text(json.dumps(texts) + "\n", encoding="utf-8")


def make_reply(score: float, *texts: tuple[str, bool]) -> str:
    """A judge's reply."""
    assertions = [{"text": text, "passed": passed} for text, passed in texts]
    return json.dumps({"score": score, "assertions": assertions, "reasoning": "because"})


def make_rubric_reply(**items: bool) -> str:
    """A judge's reply about rubric items."""
    checks = [{"id": name, "satisfied": passed, "reasoning": "seen"} for name, passed in items.items()]
    return json.dumps({"checks": checks, "overall_reasoning": "all looked at"})


# --- a test and its messages -------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "pass"), (0.2, "fail")])
async def test_the_smallest_test_is_graded_by_its_criteria(
    evaluate: Evaluate, value: float, verdict: str
) -> None:
    result = await evaluate(
        """
tests:
  - id: product
    criteria: Multiplies 6 by 9 and finds 54
    input: What is 6 times 9?
    expected_output: "54"
""",
        "54",
        judge={"product": make_reply(value, ("finds 54", True))},
    )
    assert result.verdicts == {"product": verdict}
    (score,) = result.trial("product").scores
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
    _script(folder / "judge.jsonl", make_reply(0.9))
    result = EvaluationResult(await make("suite.eval.yaml", "", judges=("scripted:judge.jsonl",)), store)
    assert result.verdicts == {"deep": "pass", "plain": "pass"}
    deep = result.trial("deep")
    assert deep.target == "careful"
    assert deep.output is not None
    assert deep.output.text == "from the careful one"
    assert list(result.scores("deep")) == ["depth"]


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
    results = await make("suite.eval.yaml", "")
    assert [result.run.target.name for result in results] == ["default", "echo"]
    case_ids = [
        [stored_trial.trial.case_id for stored_trial in store.trials(result.run.id)] for result in results
    ]
    assert case_ids == [["own", "all"], ["all"]]
    assert len({result.run.group for result in results}) == 1


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
    result = await evaluate(
        f"tests:\n  - {{id: t, criteria: c, input: i, assertions: {assertions}}}\n", answer
    )
    assert result.verdicts == {"t": verdict}
    assert result.results[0].run.judges == ()


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
    result = await evaluate(SCREENING, answer, judge=make_rubric_reply(ban=ban, why=why))
    assert result.scores("harbour")["rubrics"].value == pytest.approx(share)
    assert result.verdicts == {"harbour": verdict}


@pytest.mark.parametrize(
    ("satisfied", "verdict"),
    [((True, True, True), "pass"), ((True, True, False), "pass"), ((True, False, False), "fail")],
)
async def test_a_gate_with_a_number_of_its_own_holds_a_rubric(
    evaluate: Evaluate, satisfied: tuple[bool, ...], verdict: str
) -> None:
    items = dict(zip(("a", "b", "c"), satisfied, strict=True))
    criteria = ", ".join(f"{{id: {name}, outcome: {name}}}" for name in items)
    result = await evaluate(
        f"""
tests:
  - id: t
    criteria: c
    input: i
    assertions:
      - {{type: contains, value: ok, weight: 9}}
      - {{type: rubrics, required: 0.6, criteria: [{criteria}]}}
""",
        judge=make_rubric_reply(**items),
    )
    score = result.scores("t")["rubrics"]
    assert score.required == 0.6
    assert score.value == pytest.approx(sum(satisfied) / 3)
    assert result.verdicts == {"t": verdict}


async def test_metadata_reaches_graders(evaluate: Evaluate) -> None:
    result = await evaluate(
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
    assert result.verdicts == {"sail": "pass"}


# --- workspaces --------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_each_test_gets_the_hook_that_is_its_own_and_the_metadata(evaluate: Evaluate) -> None:
    result = await evaluate(
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
    assert result.verdicts == {"first": "pass", "second": "pass"}


async def test_a_hook_that_fails_is_an_error_of_the_tests_that_it_covers(evaluate: Evaluate) -> None:
    result = await evaluate(
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
    assert result.verdicts == {"a": "error", "b": "error", "c": "pass"}
    failure = result.trial("a").failure
    assert failure is not None
    assert (failure.stage, failure.kind) == ("setup", "workspace")
    assert "no harbour" in failure.message


# --- variables ---------------------------------------------------------------------------------------------


async def test_a_variable_is_sent_filled_in_and_kept_as_written(
    evaluate: Evaluate, store: SqliteStore, environ: dict[str, str]
) -> None:
    environ["HARBOUR"] = "Port-of-Secrets"
    result = await evaluate(
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
    assert result.verdicts == {"where": "pass"}
    text = json.dumps([repr(stored_trial.trial) for stored_trial in result.trials])
    assert "Port-of-Secrets" not in text
    assert "${{ HARBOUR }}" in text
    (case,) = [stored_case.case for stored_case in store.cases(result.results[0].run.suite.content)]
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
    digests = []
    for environ["HARBOUR"] in ("Port-of-Secrets", "Bay-of-Whispers"):
        result = await evaluate(
            text, f"You moor in {environ['HARBOUR']}.", judge=make_reply(1.0, ("named", True))
        )
        assert result.verdicts == {"where": "pass"}
        (case,) = [stored_case.case for stored_case in store.cases(result.results[0].run.suite.content)]
        scores = result.trial("where").scores
        assert [score.assertion for score in scores] == [assertion_digest(item) for item in case.assertions]
        digests.append([judgment.prompt_digest for score in scores for judgment in score.judgments])
    assert digests[0] == digests[1] != []


async def test_a_variable_that_is_not_set_is_an_error_that_names_it(evaluate: Evaluate) -> None:
    with pytest.raises(SuiteError, match="NO_SUCH_HARBOUR"):
        await evaluate("tests:\n  - {id: a, criteria: c, input: '${{ NO_SUCH_HARBOUR }}'}\n")

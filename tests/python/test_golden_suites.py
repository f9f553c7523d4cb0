"""Every golden suite and example, run by a call and by the command line: the same verdicts and scores."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import proctor
from dialects.test_goldens import ENVIRON, FILES, FOLDER, find_dialect
from proctor.python.wording import to_option_names
from support.cli import CommandResult

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    "arithmetic.jsonl",
    "chat.jsonl",
    "support.csv",
    "agent/desk.eval.yaml",
    "markdown/tests",
    "certificate/facts.jsonl",
]
FETCHES_WEIGHTS = "promptfoo/first.yaml"
"""Left out, as downloading its embedding model twice takes 25 seconds."""
SUITES = [
    *(path for path in FILES if not path.match(FETCHES_WEIGHTS)),
    *(ROOT / "examples" / name for name in EXAMPLES),
]
ANSWERS = {"*": "The answer is 4."}
JUDGMENT = {"*": '{"verdict": "pass", "score": 1, "reasoning": "It is."}'}


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def measurement(trial: dict[str, Any]) -> Any:
    """The verdict and score of a trial, without anything that depends on the day, the store or the speed."""
    scores = [(score["name"], score["value"], score["outcome"]) for score in trial["scores"]]
    return trial["target"], trial["case_id"], trial["repeat"], trial["verdict"], trial["score"], scores


@pytest.mark.slow
@pytest.mark.parametrize("suite", SUITES, ids=name)
def test_a_call_gives_every_trial_the_verdict_and_score_of_the_command_line(
    suite: Path,
    folder: Path,
    command: Callable[..., CommandResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in ENVIRON.items():
        monkeypatch.setenv(variable, value)
    whole = FOLDER / find_dialect(suite) if FOLDER in suite.parents else ROOT / "examples"
    shutil.copytree(whole, folder / whole.name, ignore=shutil.ignore_patterns("*.suite.json"))
    path = folder / whole.name / suite.relative_to(whole)
    for file, content in (("answers.jsonl", ANSWERS), ("judge.jsonl", JUDGMENT)):
        Path(file).write_text(json.dumps(content), encoding="utf-8")
    flags = ("--target", "echo", "--target", "scripted:answers.jsonl", "--judge", "scripted:judge.jsonl")
    more = (*flags, "--limit", "20", "--skip-invalid", "--store", "cli.db", "-o", "cli.jsonl", "-q")
    result = command("run", path, *more)
    options: Any = {"judge": "scripted:judge.jsonl", "limit": 20, "skip_invalid": True, "store": "call.db"}
    group: proctor.RunGroup | proctor.ProctorError
    try:
        group = proctor.run([str(path)], target=["echo", "scripted:answers.jsonl"], progress=False, **options)
    except proctor.ProctorError as error:
        group = error
    if isinstance(group, proctor.ProctorError):
        assert result.code == int(group.exit_code)
        assert to_option_names(str(group).splitlines()[0]) in to_option_names(result.err)
        return
    group.report("call.jsonl")
    by_call, by_command = (
        [measurement(json.loads(line)) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        for file in ("call.jsonl", "cli.jsonl")
    )
    assert by_call == by_command
    assert by_call
    assert max(run.exit_code for run in group) == result.code
    assert [trial.verdict.value for run in group for trial in run] == [row[3] for row in by_call]


def test_suites_that_run_are_among_them() -> None:
    assert len(SUITES) > 60

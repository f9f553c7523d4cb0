"""A run with an HTTP judge that quotes the answers, and answers that exploit it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.cli import Proctor
from support.endpoints import JsonHandler, serve_in_thread
from support.quoting_judge import STYLES, Form, corpus

FORM = Form("verdict", "reason", {True: "YES", False: "NO"}, {True: "YES", False: "NO"})
ANSWER = re.compile(r"<<<BEGIN ANSWER \w+>>>\n(.*?)\n<<<END ANSWER \w+>>>", re.DOTALL)
RIGHT = "Paris is the capital of France."


class _Quoting(JsonHandler):
    """An OpenAI-compatible judge that fails every answer but one, and quotes it without escapes."""

    def handle_json(self, body: Any) -> None:
        (answer,) = ANSWER.findall(body["messages"][1]["content"])
        reply = STYLES["JSON, unescaped"](FORM, answer == RIGHT, answer)
        self.send_json({"choices": [{"message": {"content": reply}}]})


@pytest.fixture
def judge() -> Iterator[str]:
    with serve_in_thread(_Quoting) as server:
        yield f"openai:j@http://127.0.0.1:{server.server_port}/v1"


@pytest.mark.slow
def test_no_answer_of_a_run_forges_the_verdict_of_a_judge_that_quotes_it(
    proctor: Proctor, suite: Callable[..., str], script: Callable[..., str], judge: str
) -> None:
    forged = [FORM.fill(text, passed=True) for text in corpus()]
    answers = {"right": RIGHT, **{f"forged-{nth}": text for nth, text in enumerate(forged)}}
    question = [{"role": "user", "content": "What is the capital of France?"}]
    assertion = {"type": "llm_judge", "judge_prompt": "Does it name the capital of France?"}
    metadata = {"difficulty": "easy", "tokens_est": 9, "tags": []}
    common = {"input": question, "ideal": None, "assertion": assertion, "metadata": metadata}
    tests = [{"id": name, "category": "factual", **common} for name in answers]
    result = proctor(
        "run", suite(*tests), "--target", script(rules=answers), "--judge", judge, "--json", "--retries", "0"
    )
    assert result.code == 1, result
    assert (result.run["passed"], result.run["failed"], result.run["unscored"]) == (1, len(forged), 0)
    assert "PASS right" in proctor("runs", "show", "last", "--case", "right").out

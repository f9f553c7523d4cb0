"""A run with a judge behind HTTP that quotes what it judges, and answers that are written to be quoted."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from quoting import STYLES, Form, corpus

Proctor = Callable[..., Any]
FORM = Form("verdict", "reason", {True: "YES", False: "NO"}, {True: "YES", False: "NO"})
ANSWER = re.compile(r"<<<BEGIN ANSWER \w+>>>\n(.*?)\n<<<END ANSWER \w+>>>", re.DOTALL)
RIGHT = "Paris is the capital of France."


class _Quoting(BaseHTTPRequestHandler):
    """A judge behind OpenAI's interface: NO to all answers but one, each quoted without escapes."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (answer,) = ANSWER.findall(body["messages"][1]["content"])
        said = STYLES["JSON, unescaped"](FORM, answer == RIGHT, answer)
        reply = json.dumps({"choices": [{"message": {"content": said}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_words: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@pytest.fixture
def judge() -> Iterator[str]:
    server = _Server(("127.0.0.1", 0), _Quoting)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"openai:j@http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_no_answer_of_a_run_forges_the_verdict_of_a_judge_that_quotes_it(
    proctor: Proctor, suite: Callable[..., str], script: Callable[..., str], judge: str
) -> None:
    forged = [FORM.filled(text, passed=True) for text in corpus()]
    answers = {"right": RIGHT, **{f"forged-{nth}": text for nth, text in enumerate(forged)}}
    question = [{"role": "user", "content": "What is the capital of France?"}]
    assertion = {"type": "llm_judge", "judge_prompt": "Does it name the capital of France?"}
    metadata = {"difficulty": "easy", "tokens_est": 9, "tags": []}
    common = {"input": question, "ideal": None, "assertion": assertion, "metadata": metadata}
    tests = [{"id": name, "category": "factual", **common} for name in answers]
    told = proctor(
        "run", suite(*tests), "--target", script(rules=answers), "--judge", judge, "--json", "--retries", "0"
    )
    assert told.code == 1, told
    assert (told.run["passed"], told.run["failed"], told.run["unscored"]) == (1, len(forged), 0)
    assert "PASS right" in proctor("runs", "show", "last", "--case", "right").out

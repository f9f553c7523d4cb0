"""The programs that Proctor starts in a soak: `agent LOG LABEL` answers, `grader FOLDER` grades.

The last words of their command lines tell the soak whose they are, as they see nothing of its environment.
"""

from __future__ import annotations

import json
import os
import sys
import time

from questions import answer_to, passes, token_in  # type: ignore[import-not-found]  # found beside this file

_LONG_EVERY = 10
"""One of so many answers takes long, so that a kill meets programs that are running."""
_LONG_S = 4.0


def answer_prompt(log: str, label: str) -> None:
    """Answer the prompt on stdin, and write to the log that it was answered."""
    token = token_in(sys.stdin.read())
    if token is None:
        sys.exit("The prompt has no token of a case.")
    arrived = time.monotonic()
    if int(token.partition("-")[2]) % _LONG_EVERY == 3:
        time.sleep(_LONG_S)
    print(answer_to(token, 0), flush=True)
    line = json.dumps([label, token, 0, arrived, time.monotonic()]) + "\n"
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())  # one write, so that lines of several programs do not mix


def grade_answer() -> None:
    """Grade the answer of the JSON object on stdin."""
    print(json.dumps({"score": float(passes(json.load(sys.stdin)["answer"]))}))


if __name__ == "__main__":
    if sys.argv[1] == "agent":
        answer_prompt(sys.argv[2], sys.argv[3])
    else:
        grade_answer()

"""A code grader: does the answer name every term of the case, in few enough words?

It reads one JSON object on stdin and prints one on stdout; what it has to say besides goes to stderr. The
terms come from the case's `metadata`, the limit from the grader's own `config`.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def graded(given: dict[str, Any]) -> dict[str, Any]:
    """What is printed: one assertion a term, and one for the length. The score is the share that passed."""
    answer = given["answer"]
    checks = [
        {"text": f"names {term!r}", "passed": term.casefold() in answer.casefold()}
        for term in given["metadata"].get("terms", [])
    ]
    most, words = given["config"].get("max_words", 100), len(answer.split())
    checks.append(
        {"text": f"has at most {most} words", "passed": words <= most, "evidence": f"{words} words"}
    )
    score = sum(check["passed"] is True for check in checks) / len(checks)
    return {"score": score, "assertions": checks, "details": {"words": words}}


if __name__ == "__main__":
    print(json.dumps(graded(json.load(sys.stdin))))

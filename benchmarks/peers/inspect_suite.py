"""The sums with Inspect AI: a dataset, the solver `generate`, and the scorer `includes`.

Usage: python inspect_suite.py SUITE.jsonl BASE_URL CONCURRENCY

The model is `openai-api/bench/bench`, its documented way to an OpenAI-compatible endpoint. Its log is written
as usual, to `logs` in the working folder; its display is off.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import includes
from inspect_ai.solver import generate


def main(suite: Path, base: str, concurrency: int) -> None:
    """Evaluates the suite and prints how many answers passed."""
    os.environ.update(BENCH_API_KEY="none", BENCH_BASE_URL=base)
    fields = FieldSpec(id="id", input="input", target="expected")
    task = Task(dataset=json_dataset(str(suite), fields), solver=generate(), scorer=includes())
    (log,) = evaluate(
        task,
        model="openai-api/bench/bench",
        temperature=0,
        max_connections=concurrency,
        max_samples=concurrency,
        display="none",
    )
    if log.results is None:
        raise SystemExit(f"Inspect AI ended with {log.status}: {log.error}")
    accuracy = log.results.scores[0].metrics["accuracy"].value
    print("passed", round(accuracy * log.results.completed_samples))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

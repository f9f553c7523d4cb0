"""Suites of sums, which the benchmarks' endpoint (`server.py`) answers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path


def sums(cases: int) -> Iterator[tuple[str, str, str]]:
    """Yields an id, a question and its answer; the same ones every time."""
    numbers = random.Random(7)
    for place in range(cases):
        augend, addend = numbers.randrange(1_000, 99_999), numbers.randrange(1_000, 99_999)
        question = f"What is {augend} + {addend}? Answer with the number only. (case {place})"
        yield f"sum-{place}", question, str(augend + addend)


def write_suite(cases: int, scratch: Path) -> Path:
    """Writes sums as simple JSON Lines of dialect meridian."""
    path = scratch / f"sums-{cases}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for name, question, answer in sums(cases):
            case = {"id": name, "input": question, "expected": answer, "scorer": "contains"}
            file.write(json.dumps(case) + "\n")
    return path


def write_yaml(cases: int, scratch: Path) -> Path:
    """Writes the same sums as YAML of dialect agentv, with three checks each."""
    path = scratch / f"sums-{cases}.eval.yaml"
    with path.open("w", encoding="utf-8") as file:
        file.write("description: Sums\ntests:\n")
        for name, question, answer in sums(cases):
            file.write(
                f"  - id: {name}\n    criteria: The sum is right.\n    input: {json.dumps(question)}\n"
            )
            file.write(f"    expected_output: '{answer}'\n    assertions:\n")
            for kind, value in (("contains", answer), ("regex", r"\d+"), ("icontains", answer)):
                file.write(f"      - type: {kind}\n        value: {json.dumps(value)}\n")
    return path

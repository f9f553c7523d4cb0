"""Suites of every kind that a soak runs, as files in several dialects."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tools.soak_parts.questions import prompt_for

PROGRAMS = Path(__file__).with_name("programs.py")
_MAX_CASES = 300
_MAX_SLOW_CASES = 20
"""Where a program is started for each case."""


@dataclass(frozen=True)
class SuiteFile:
    """A suite on disk."""

    name: str
    path: Path
    cases: int
    judged: bool
    """A judge grades it."""
    programs: bool
    """A program grades it."""


def write_suite(folder: Path, name: str, random: Random) -> SuiteFile:
    """Write a suite of a random kind and size."""
    kind = random.choice(list(_WRITERS))
    programs = kind == "agentv_program"
    judged = kind in {"agentv_judge", "markdown"}
    cases = round(5 * ((_MAX_SLOW_CASES if programs else _MAX_CASES) / 5) ** random.random())
    tokens = [f"{name}-{number}" for number in range(cases)]
    return SuiteFile(name, _WRITERS[kind](folder / name, tokens), cases, judged, programs)


def _json_lines(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path = path.with_suffix(".jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _meridian(path: Path, tokens: Sequence[str]) -> Path:
    rows = [{"id": t, "input": prompt_for(t), "expected": "right", "scorer": "contains"} for t in tokens]
    return _json_lines(path, rows)


def _meridian_csv(path: Path, tokens: Sequence[str]) -> Path:
    path = path.with_suffix(".csv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "input", "expected", "scorer"])
        writer.writerows([t, prompt_for(t), "^right", "regex"] for t in tokens)
    return path


def _pramana(path: Path, tokens: Sequence[str]) -> Path:
    common = {
        "category": "factual",
        "ideal": "right",
        "assertion": {"type": "contains", "case_sensitive": True},
        "metadata": {"difficulty": "easy", "tokens_est": 20},
    }
    return _json_lines(path, [{"id": t, "input": prompt_for(t), **common} for t in tokens])


def _proctor(path: Path, tokens: Sequence[str]) -> Path:
    checks = [
        {"grader": "contains", "params": {"value": "right"}},
        {"grader": "length", "params": {"max_words": 20}},
    ]
    rows = [
        {"id": t, "input": [{"role": "user", "content": prompt_for(t)}], "assertions": checks} for t in tokens
    ]
    return _json_lines(path, [{"proctor": 1, "name": path.name}, *rows])


def _promptfoo(path: Path, tokens: Sequence[str]) -> Path:
    checks = [{"type": "contains", "value": "right"}]
    tests = [{"description": t, "vars": {"question": prompt_for(t)}, "assert": checks} for t in tokens]
    return _yaml(path, {"prompts": ["{{question}}"], "tests": tests})


def _agentv_program(path: Path, tokens: Sequence[str]) -> Path:
    command = [sys.executable, str(PROGRAMS), "grader", str(path.parent)]
    return _agentv(path, tokens, {"type": "code-grader", "command": command})


def _agentv_judge(path: Path, tokens: Sequence[str]) -> Path:
    return _agentv(path, tokens, {"type": "llm-grader"})


def _agentv(path: Path, tokens: Sequence[str], check: dict[str, Any]) -> Path:
    tests = [
        {"id": t, "criteria": "The answer says so.", "input": prompt_for(t), "assertions": [check]}
        for t in tokens
    ]
    return _yaml(path, {"description": "a suite of a soak", "tests": tests})


def _yaml(path: Path, document: dict[str, Any]) -> Path:
    path = path.with_suffix(".yaml")
    path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    return path


def _markdown(path: Path, tokens: Sequence[str]) -> Path:
    path.mkdir()
    for token in tokens:
        text = f"# 👤\n\n{prompt_for(token)}\n\n---\n\nThe answer must say so.\n"
        (path / f"{token}.md").write_text(text, encoding="utf-8")
    return path


_WRITERS: dict[str, Callable[[Path, Sequence[str]], Path]] = {
    "meridian": _meridian,
    "meridian_csv": _meridian_csv,
    "pramana": _pramana,
    "proctor": _proctor,
    "promptfoo": _promptfoo,
    "agentv_program": _agentv_program,
    "agentv_judge": _agentv_judge,
    "markdown": _markdown,
}

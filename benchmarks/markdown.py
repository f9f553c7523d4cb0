"""A folder of Markdown tests read, linted, planned and run again, beside a program that only reads its files.

Usage: python benchmarks/markdown.py [--rounds 3] [--smoke]

The floor reads every file and parses its front matter with libyaml, and keeps nothing. Its process and
Proctor's take turns; the figures are medians. `--smoke` runs everything once and small.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import median

from measure import (  # type: ignore[import-not-found]  # found beside this file when it is run
    ProcessUsage,
    describe_usages,
    measure_process,
    new_store,
    proctor,
)

CASES = 10_000
GOAL = "load, lint and plan in at most 5 s and 250 MiB"
WORDS = tuple(f"{word}{letter}" for word in ("river", "stone", "garden", "copper") for letter in "abcdefgh")


def main() -> None:
    """Run everything and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--floor", metavar="FOLDER", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.floor:
        floor(Path(options.floor))
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), 100 if options.smoke else CASES, 1 if options.smoke else options.rounds)


def measure(scratch: Path, cases: int, rounds: int) -> None:
    """Floor and Proctor in turns over the same folder."""
    suite = str(write_tests(cases, scratch))
    store = new_store(scratch)
    judge = scratch / "judge.jsonl"
    judge.write_text(json.dumps({"*": json.dumps({"pass": True})}), encoding="utf-8")
    target = ["--target", "echo", "--judge", f"scripted:{judge}", "-q"]
    commands = {
        "floor": [sys.executable, __file__, "--floor", suite],
        "validate": [*proctor(), "validate", suite],
        "plan": [*proctor(), "run", suite, *target, "--limit", "1"],
        "reuse": [*proctor(), "run", suite, *target, "--store", store],
    }
    measure_process(commands["reuse"])
    usages: dict[str, list[ProcessUsage]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            store_options = ["--store", new_store(scratch)] if name == "plan" else []
            usages[name].append(measure_process([*command, *store_options]))
    floor_s = median(usage.wall_s for usage in usages["floor"])
    what = {
        "floor": "reads every file and its front matter",
        "validate": "loads and lints every test",
        "plan": "loads, saves and plans all, asks one",
        "reuse": "asks nothing again and has every trial",
    }
    print(f"{cases:,} Markdown tests. Goal: {GOAL}.")
    for name, runs in usages.items():
        ratio = median(usage.wall_s for usage in runs) / floor_s
        print(f"  {name:<8}  {ratio:4.1f} times the floor, {describe_usages(runs)}: {what[name]}", flush=True)


def write_tests(cases: int, scratch: Path) -> Path:
    """One test a file, in 50 folders, each with a prompt, tags and a question of its own."""
    words, folder = random.Random(3), scratch / "tests"
    (scratch / "prompts").mkdir()
    (scratch / "prompts" / "helper.md").write_text(
        "---\nid: helper\n---\n\nYou answer briefly.\n", encoding="utf-8"
    )
    for place in range(cases):
        inside = folder / f"area{place % 50}"
        inside.mkdir(parents=True, exist_ok=True)
        topics = [words.choice(WORDS) for _ in range(25)]
        (inside / f"t{place}.md").write_text(
            f"---\nsystemPrompts:\n  - helper\ntags:\n  - area{place % 50}\n---\n\n# 👤\n\n"
            f"Case {place}: what do you know of {' '.join(topics)}?\n\n---\n\n"
            f"The answer must speak of {topics[0]} and of {topics[1]}.\n",
            encoding="utf-8",
        )
    return folder


def floor(folder: Path) -> None:
    """The least that reading the folder takes."""
    import yaml

    for path in sorted(folder.rglob("*.md")):
        yaml.load(path.read_text(encoding="utf-8").split("---\n", 2)[1], Loader=yaml.CSafeLoader)


if __name__ == "__main__":
    main()

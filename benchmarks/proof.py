"""A run written as a bundle and checked again: seconds and MiB of whole processes.

Usage: python benchmarks/proof.py [--rounds 3] [--trials 10000] [--smoke]

The run asks `echo` questions of about 500 characters and grades each answer by three deterministic checks.
It is attested as a folder, as an archive and for the public, with a signature, and each bundle is verified:
every hash, the signature, and every check made again. The figures are medians. `--smoke` does it small.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from measure import (  # type: ignore[import-not-found]  # found beside this file when it is run
    ProcessUsage,
    describe_usages,
    measure_process,
    new_store,
    proctor,
)

TRIALS = 10_000
MOST_S, MOST_MIB = 5.0, 300
GOAL = f"each at most {MOST_S:.0f} s and {MOST_MIB} MiB"
WORDS = tuple(f"{word}{letter}" for word in ("river", "stone", "garden", "copper") for letter in "abcdefgh")
KINDS: dict[str, list[str]] = {"folder": [], "archive": [], "public": ["--public"]}


def main() -> None:
    """Measure, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROCTOR_KEYS"] = str(Path(folder) / "keys")
        trials, rounds = (100, 1) if options.smoke else (options.trials, options.rounds)
        usages = measure(Path(folder), trials, rounds)
    print(f"{trials:,} trials, three checks each. Goal: {GOAL}.")
    for name, runs in usages.items():
        print(f"  {name:<15}  {describe_usages(runs)}", flush=True)
    slow = [name for name, runs in usages.items() if median(usage.wall_s for usage in runs) > MOST_S]
    large = [name for name, runs in usages.items() if max(usage.peak_mib for usage in runs) > MOST_MIB]
    if (slow or large) and trials == TRIALS:
        raise SystemExit(f"Missed: {', '.join(sorted({*slow, *large}))}.")


def measure(scratch: Path, trials: int, rounds: int) -> dict[str, list[ProcessUsage]]:
    """What each command took, in turns."""
    store = new_store(scratch)
    suite = write_suite(trials, scratch)
    options = ["-q", "--holdout", "0.2", "--store", store]
    measure_process([*proctor(), "run", str(suite), "--target", "echo", *options])
    usages: dict[str, list[ProcessUsage]] = {
        f"{word} {kind}": [] for kind in KINDS for word in ("attest", "verify")
    }
    for place in range(rounds):
        for kind, flags in KINDS.items():
            path = scratch / f"{kind}{place}{'.zip' if kind == 'archive' else ''}"
            command = [*proctor(), "attest", "last", "-o", str(path), "--store", store, *flags]
            usages[f"attest {kind}"].append(measure_process(command))
            usages[f"verify {kind}"].append(measure_process([*proctor(), "verify", str(path)]))
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    return usages


def write_suite(trials: int, scratch: Path) -> Path:
    """Questions as YAML of dialect agentv, each with three checks that its own text passes."""
    path = scratch / "questions.eval.yaml"
    with path.open("w", encoding="utf-8") as file:
        file.write("description: Words\ntests:\n")
        for name, question, word in questions(trials):
            file.write(f"  - id: {name}\n    criteria: It is said.\n    input: {json.dumps(question)}\n")
            file.write(f"    expected_output: {word}\n    assertions:\n")
            for kind, value in (("contains", word), ("regex", r"[a-z]+\?"), ("icontains", word.upper())):
                file.write(f"      - type: {kind}\n        value: {json.dumps(value)}\n")
    return path


def questions(count: int) -> Iterator[tuple[str, str, str]]:
    """An id, a question of about 500 characters, and a word that is in it."""
    choose = random.Random(11)
    for place in range(count):
        words = [choose.choice(WORDS) for _ in range(72)]
        yield f"q{place}", f"Case {place}: what do you know of {' '.join(words)}?", words[0]


if __name__ == "__main__":
    main()

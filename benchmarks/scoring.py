"""Short answers a second for each scorer of `proctor.eval`, beside those of fieldkit 0.34.1 from PyPI.

    python benchmarks/scoring.py            1,000,000 answers for each scorer
    python benchmarks/scoring.py --smoke    20,000, and whatever the ratios are it exits with 0

Both run in this process and on one core, in turns and each of them first in every other round, so that a
busy machine is busy for both. The best round of each counts. It exits with 1 when one of ours takes more than
1.25 times as long as theirs; `is_refusal`, which knows six languages, has no such bound. Where fieldkit is
not installed, pip puts it into a folder that is removed afterwards.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from proctor.eval import contains, exact_match, is_refusal, mcq_letter, numeric_equal, numeric_match

Scorer = Callable[..., float]
Pairs = Sequence[tuple[str, str]]

OTHER = "fieldkit==0.34.1"
MOST = 1.25
"""So many times as long as theirs may ours take."""
WORDS: Pairs = (
    ("yes", "Yes"),
    ("No", "yes"),
    (" overrule\n", "Overrule"),
    ("affirmed", "reversed"),
    ("Not relevant", "not relevant"),
    ("The tenant", "the landlord"),
)
FACTS: Pairs = (
    ("It opened in March 1932.", "1932"),
    ("Sales came to $4.5B in all.", "$4.5B"),
    ("The Mapocho runs through Santiago.", "santiago"),
    ("I could not find that.", "Lima"),
    ("yes", "no"),
)
NUMBERS: Pairs = (
    ("42", "42"),
    ("$4.55B", "4.5B"),
    ("It was 1,577 million.", "$1577.00"),
    ("12.5 %", "12.4 %"),
    ("-3", "3"),
    ("The filing does not say.", "8.7"),
)
LETTERS: Pairs = (
    ("B", "B"),
    ("C.", "A"),
    ("(D)", "D"),
    ("Answer: A", "A"),
    ("The answer is B.", "C"),
    ("Option C, as it has no fee", "C"),
    ("<think>A?</think>D", "D"),
)
SHORT: Pairs = (*WORDS, *FACTS, *NUMBERS, *LETTERS)
SCORERS: tuple[tuple[str, Scorer, Pairs], ...] = (
    ("exact_match", exact_match, WORDS),
    ("contains", contains, FACTS),
    ("numeric_match", numeric_match, NUMBERS),
    ("mcq_letter", mcq_letter, LETTERS),
)


def main() -> int:
    """Measure, print a table, and say by the exit code whether every ratio is within bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="few answers, and no bounds")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    args = parser.parse_args()
    count, rounds = (20_000, 1) if args.smoke else (1_000_000, args.rounds)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(f"{count:,} short answers, the best of {rounds} rounds, on one core")
    print(f"{'':<14} {'proctor/s':>12} {'fieldkit/s':>12} {'time':>7}")
    worst = 0.0
    with fieldkit() as theirs:
        for name, ours, pairs in SCORERS:
            mine, other = measure_seconds(ours, getattr(theirs, name), pairs, count, rounds)
            worst = max(worst, mine / other)
            tell(name, count, mine, other)
        detectors = score_text_alone(is_refusal), score_text_alone(theirs.is_refusal)
        tell("is_refusal", count // 20, *measure_seconds(*detectors, SHORT, count // 20, rounds))
    alone = seconds(numeric_equal, repeat_pairs(NUMBERS, count // 20))
    print(f"{'numeric_equal':<14} {count // 20 / alone:>12,.0f} {'':>12}")
    return 0 if args.smoke or worst <= MOST else 1


def tell(name: str, count: int, mine: float, other: float) -> None:
    """Print a row of the table."""
    print(f"{name:<14} {count / mine:>12,.0f} {count / other:>12,.0f} {mine / other:>6.2f}x", flush=True)


def score_text_alone(detect: Callable[[str], bool]) -> Scorer:
    """A detector as a scorer that looks at the answer alone."""
    return lambda predicted, _expected: float(detect(predicted))


def measure_seconds(
    ours: Scorer, theirs: Scorer, pairs: Pairs, count: int, rounds: int
) -> tuple[float, float]:
    """The seconds of the best round of each."""
    answers = repeat_pairs(pairs, count)
    best = {ours: float("inf"), theirs: float("inf")}
    for scorer in best:
        seconds(scorer, pairs)  # which compiles what is compiled when it is first looked for
    for number in range(rounds):
        for scorer in (ours, theirs) if number % 2 else (theirs, ours):
            best[scorer] = min(best[scorer], seconds(scorer, answers))
    return best[ours], best[theirs]


def repeat_pairs(pairs: Pairs, count: int) -> Pairs:
    """So many pairs, one after the other and again from the first."""
    return (list(pairs) * (count // len(pairs) + 1))[:count]


def seconds(scorer: Scorer, answers: Pairs) -> float:
    """How long it takes to score them all."""
    gc.collect()
    gc.disable()
    began = perf_counter()
    for predicted, expected in answers:
        scorer(predicted, expected)
    took = perf_counter() - began
    gc.enable()
    return took


@contextmanager
def fieldkit() -> Iterator[Any]:
    """The module `fieldkit.eval`, installed for as long as it is needed where it is not there."""
    if find_spec("fieldkit") is not None:
        yield import_module("fieldkit.eval")
        return
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "install", "-qq", "--target", folder, OTHER], check=True)
        sys.path.insert(0, folder)
        yield import_module("fieldkit.eval")
        sys.path.remove(folder)


if __name__ == "__main__":
    sys.exit(main())

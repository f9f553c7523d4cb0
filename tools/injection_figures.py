"""How often an answer that is quoted changes an honest judge's verdict, as a Markdown table.

Usage: python tools/injection_figures.py; it takes about a minute.

Each text of tests/data/judge_injections.txt is judged by every grader of the tests; its head, its tail and
all of it are quoted in every style. A FAIL counts as unscored where that of a harmless answer is read.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "graders")]
tests: Any = import_module("test_judge_injection")
quoting: Any = import_module("support.quoting_judge")


async def count(name: str) -> Counter[str]:
    """What becomes of all replies to one grader."""
    form = tests.FORMS[name][2]
    counts = Counter[str]()
    for style in tests.ALL_STYLES.values():
        if style(form, True, "") is None:
            continue
        for passed in (False, True):
            judge = quoting.QuotingJudge(form, style, passed, quoting.HARMLESS)
            is_read = await tests.verdict_of(name, quoting.HARMLESS, judge) is passed
            for answer in tests.answers(form, passed):
                for quote in dict.fromkeys(part(answer) for part in quoting.QUOTES.values()):
                    judge = quoting.QuotingJudge(form, style, passed, quote)
                    verdict = await tests.verdict_of(name, answer, judge)
                    counts["replies"] += 1
                    counts["fails"] += not passed
                    counts["fail to pass"] += verdict is True and not passed
                    counts["pass to fail"] += verdict is False and passed
                    counts["fail unscored"] += verdict is None and is_read and not passed
    return counts


async def main() -> None:
    """Print a row for each grader, as soon as it is known."""
    columns = ("replies", "fails", "fail to pass", "pass to fail", "fail unscored")
    print(f"| grader | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}", sep="\n")
    total = Counter[str]()
    for name in tests.FORMS:
        counts = await count(name)
        total += counts
        print(f"| {name} | {' | '.join(f'{counts[column]:,}' for column in columns)} |", flush=True)
    print(f"| all | {' | '.join(f'{total[column]:,}' for column in columns)} |")


if __name__ == "__main__":
    asyncio.run(main())

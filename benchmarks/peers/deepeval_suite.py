"""The sums with DeepEval: answers from the OpenAI SDK become test cases, which a custom metric grades.

Usage: python deepeval_suite.py SUITE.jsonl BASE_URL CONCURRENCY [--no-cache]

DeepEval evaluates answers that exist, so the program gets them first, as its documentation does. Its results
are written as usual, to `.deepeval` in the working folder; printing each is off. By default it also writes
every metric to a cache and to a file of the run, both of them whole for each case; `--no-cache` is its
`write_cache=False`, with which it writes its results once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase
from openai import AsyncOpenAI


class ContainsMetric(BaseMetric):  # type: ignore[misc]  # it is not installed where types are checked
    """Whether the answer contains what is expected."""

    def __init__(self) -> None:
        self.threshold = 1.0
        self.async_mode = True

    def measure(self, test_case: LLMTestCase) -> float:
        """Returns 1 or 0."""
        self.score = float(test_case.expected_output in test_case.actual_output)
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case: LLMTestCase) -> float:
        """Returns 1 or 0."""
        return self.measure(test_case)

    def is_successful(self) -> bool:
        """Whether the last answer passed."""
        return bool(self.success)

    @property
    def __name__(self) -> str:
        """Its name in results."""
        return "Contains"


async def ask(rows: list[dict[str, str]], base: str, concurrency: int) -> list[LLMTestCase]:
    """A test case with its answer for each row."""
    slots = asyncio.Semaphore(concurrency)

    async def answer(row: dict[str, str]) -> LLMTestCase:
        async with slots:
            completion = await client.chat.completions.create(
                model="bench", temperature=0, messages=[{"role": "user", "content": row["input"]}]
            )
        output = completion.choices[0].message.content or ""
        return LLMTestCase(input=row["input"], actual_output=output, expected_output=row["expected"])

    async with AsyncOpenAI(base_url=base, api_key="none") as client:
        return list(await asyncio.gather(*map(answer, rows)))


def main(suite: Path, base: str, concurrency: int, *, has_cache: bool) -> None:
    """Evaluates the suite and prints how many answers passed."""
    rows = [json.loads(line) for line in suite.read_text("utf-8").splitlines()]
    result = evaluate(
        asyncio.run(ask(rows, base, concurrency)),
        [ContainsMetric()],
        async_config=AsyncConfig(max_concurrent=concurrency),
        cache_config=CacheConfig(write_cache=has_cache),
        display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False),
    )
    print("passed", sum(bool(test.success) for test in result.test_results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), has_cache="--no-cache" not in sys.argv)

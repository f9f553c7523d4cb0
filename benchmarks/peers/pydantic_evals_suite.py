"""The sums with pydantic-evals: a dataset, a task that calls the OpenAI SDK, and an evaluator for each case.

Usage: python pydantic_evals_suite.py SUITE.jsonl BASE_URL CONCURRENCY

Written as in its documentation ("Quick Start" and "Concurrency & Performance"); its report stays in memory.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from openai import AsyncOpenAI
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains


async def main(lines: list[str], base: str, concurrency: int) -> None:
    """Evaluates the suite and prints how many answers passed."""
    rows = [json.loads(line) for line in lines]
    dataset = Dataset(
        name="sums",
        cases=[
            Case(name=row["id"], inputs=row["input"], evaluators=(Contains(row["expected"]),)) for row in rows
        ],
    )
    client = AsyncOpenAI(base_url=base, api_key="none")

    async def answer(question: str) -> str:
        completion = await client.chat.completions.create(
            model="bench", temperature=0, messages=[{"role": "user", "content": question}]
        )
        return completion.choices[0].message.content or ""

    report = await dataset.evaluate(answer, max_concurrency=concurrency, progress=False)
    print("passed", sum(all(check.value for check in case.assertions.values()) for case in report.cases))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text("utf-8").splitlines(), sys.argv[2], int(sys.argv[3])))

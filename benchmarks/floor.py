"""The floor: the same requests from a bare aiohttp client, each reply checked, nothing kept.

Usage: python benchmarks/floor.py SUITE.jsonl BASE_URL CONCURRENCY
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
from server import raise_open_file_limit  # type: ignore[import-not-found]  # beside this file


async def main(lines: list[str], base: str, concurrency: int) -> None:
    """Ask every line once and print how many answers were right."""
    rows = iter([json.loads(line) for line in lines])
    passed = 0
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def worker() -> None:
            nonlocal passed
            for row in rows:
                message = {"role": "user", "content": row["input"]}
                body = {"model": "bench", "temperature": 0, "messages": [message]}
                async with session.post(base + "/chat/completions", json=body) as response:
                    reply = await response.json()
                passed += row["expected"] in reply["choices"][0]["message"]["content"]

        await asyncio.gather(*(worker() for _ in range(concurrency)))
    print("passed", passed)


if __name__ == "__main__":
    raise_open_file_limit()
    asyncio.run(main(Path(sys.argv[1]).read_text("utf-8").splitlines(), sys.argv[2], int(sys.argv[3])))

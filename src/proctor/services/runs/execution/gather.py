"""Several calls at the same time, for graders that call more than one judge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any


async def gather_all(awaitables: Iterable[Awaitable[Any]]) -> list[Any]:
    """The results of all, in order; raises the first error when all have ended."""
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results

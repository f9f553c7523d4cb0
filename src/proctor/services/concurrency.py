"""Several calls at the same time, and their results in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any


async def gather_results(calls: Iterable[Awaitable[Any]]) -> list[Any]:
    """Awaits calls at the same time and returns their results in order.

    Raises the first exception in that order, when all calls have ended: none is left running behind it.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results

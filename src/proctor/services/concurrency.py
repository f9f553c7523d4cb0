"""Runs several calls concurrently and keeps the order of their results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any


async def gather_results(calls: Iterable[Awaitable[Any]]) -> list[Any]:
    """Awaits calls concurrently and returns their results in order.

    Raises the first exception in that order once all calls have ended, so no call is left running.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results

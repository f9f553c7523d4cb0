"""Checks all abilities of targets, prints each result as it comes, and records them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from proctor.abilities import AbilityCheck
from proctor.cli.options import show, store_location
from proctor.codec import encode
from proctor.engines.retries import RetryPolicy
from proctor.errors import ExitCode, ProctorError
from proctor.model import Settings, TargetSpec
from proctor.reports.formatting import cost, milliseconds
from proctor.safe_text import one_line, pad_to_width
from proctor.services.runs.execution.target_pool import TargetPool, load_prices
from proctor.services.targets.abilities import check_abilities, record_checks

_RETRIES = 2


def check_all_abilities(
    specs: Sequence[tuple[str, TargetSpec | ProctorError]], calls: Settings, *, as_json: bool
) -> int:
    """Checks targets one after the other; returns the exit code.

    Args:
        specs: the targets with the words that name them, or an error instead of a target.
        calls: only the timeout and the maximum answer size are used.
        as_json: prints one JSON document instead of lines.
    """
    code = ExitCode.OK
    folder = store_location(None).folder
    documents: list[dict[str, Any]] = []
    for word, spec in specs:
        show([] if as_json else [f"{word}:"])
        try:
            if isinstance(spec, ProctorError):
                raise spec
            checks = asyncio.run(_check(spec, calls, _ignore if as_json else _show_check))
            if not _is_down(checks):
                record_checks(folder, spec, checks)
        except ProctorError as error:
            code = ExitCode.NOT_MEASURED
            documents.append({"target": word, "error": str(error), "checks": []})
            show([] if as_json else [f"  cannot be checked: {one_line(str(error))}"])
            continue
        if _is_down(checks):
            code = ExitCode.NOT_MEASURED
        documents.append({"target": word, "error": None, "checks": checks})
        show([] if as_json else [_summarize(checks)])
    if as_json:
        show([encode({"targets": documents}).decode("utf-8")])
    elif any(document["checks"] and not _is_down(document["checks"]) for document in documents):
        show(
            [
                "",
                (
                    f"Recorded in {folder}. `proctor run` now warns if a suite needs an ability that does "
                    "not work."
                ),
            ]
        )
    return code


async def _check(
    spec: TargetSpec, calls: Settings, on_check: Callable[[AbilityCheck], None]
) -> list[AbilityCheck]:
    pool = TargetPool(
        os.environ,
        concurrency=1,
        retry_policy=RetryPolicy(timeout_s=calls.timeout_s, retries=_RETRIES),
        max_answer_bytes=calls.max_answer_bytes,
        prices=load_prices(os.environ, store_location(None).folder),
        notify=lambda _message: None,
    )
    try:
        return await check_abilities(pool, spec, on_check=on_check)
    finally:
        await pool.aclose()


def _ignore(_check: AbilityCheck) -> None:
    """Shows nothing."""


def _show_check(check: AbilityCheck) -> None:
    parts = [pad_to_width(check.ability, 10), pad_to_width(check.status, 12)]
    if check.latency_ms is not None:
        parts += [f"{milliseconds(check.latency_ms):>8}", f"{cost(check.cost_usd):>9}"]
    show([("  " + "  ".join(parts)).rstrip()])
    if check.detail:
        show([f"      {one_line(check.detail)}"])


def _summarize(checks: Sequence[AbilityCheck]) -> str:
    if _is_down(checks):
        return "  The target does not answer, so nothing else was sent or recorded."
    working = sum(check.status == "works" for check in checks)
    cost_usd = sum(check.cost_usd or 0.0 for check in checks)
    is_complete = all(check.cost_usd is not None for check in checks)
    total = cost(cost_usd) if is_complete else f"at least {cost(cost_usd)}" if cost_usd else cost(None)
    return f"  {working} of {len(checks)} abilities work; cost {total}."


def _is_down(checks: Sequence[AbilityCheck]) -> bool:
    """Whether the first request failed, which only asks for a word."""
    return checks[0].status in ("failed", "refused")

"""Sends the questions of the conformance checks to a target, and collects the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from proctor.conformance import ConformanceCheck, Question, Reply
from proctor.errors import TargetError
from proctor.graders.lexicons.matcher import find_refusal
from proctor.graders.reasoning import strip_reasoning
from proctor.model import Output, Prompt, TargetSpec
from proctor.protocols import Answerer
from proctor.services.runs.execution.target_pool import TargetPool

DEFAULT_MAX_TOKENS = 1024
"""The limit of an answer, in tokens, where neither the targets file nor the check sets one."""
_LIMIT_REASONS = frozenset({"length", "max_tokens"})
"""The finish reasons of endpoints for an answer that was cut at its limit."""


async def collect_replies(
    pool: TargetPool,
    spec: TargetSpec,
    checks: Sequence[ConformanceCheck],
    *,
    progress: Callable[[int, int], None] = lambda _count, _total: None,
) -> list[list[Reply]]:
    """Collects the replies to every question of every check, in order.

    `pool` limits concurrent requests; the questions of a check that runs alone are sent one by one after all
    others. Fallbacks of the target are not used.

    Args:
        pool: opens the target.
        spec: the target.
        checks: the checks.
        progress: called after each check with the number of finished checks and of all.

    Raises:
        UsageError: the target cannot be opened.
    """
    target_spec = replace(spec, fallbacks=(), judge=None)
    limits = {question.max_tokens for check in checks for question in check.questions}
    targets = {
        limit: await pool.open_target(_with_limit(target_spec, limit)) for limit in sorted(limits, key=str)
    }
    finished_count = 0

    async def answer_check(check: ConformanceCheck) -> list[Reply]:
        nonlocal finished_count
        calls = [
            get_reply(targets[question.max_tokens], question, f"{check.name} {place}")
            for place, question in enumerate(check.questions, 1)
        ]
        replies = [await call for call in calls] if check.runs_alone else list(await asyncio.gather(*calls))
        finished_count += 1
        progress(finished_count, len(checks))
        return replies

    # Not a TaskGroup, which would raise an exception group instead of an error with a sentence.
    concurrent_replies = iter(
        await asyncio.gather(*(answer_check(check) for check in checks if not check.runs_alone))
    )
    return [await answer_check(check) if check.runs_alone else next(concurrent_replies) for check in checks]


async def get_reply(target: Answerer, question: Question, case_id: str) -> Reply:
    """Returns the reply of a target to one question; a failed call is a reply too.

    Args:
        target: the target.
        question: the question.
        case_id: the id of the question, for targets that answer by it.
    """
    prompt = Prompt(
        messages=question.messages,
        case_id=case_id,
        json_answer=question.json_answer,
        temperature=question.temperature,
    )
    try:
        output = await target.answer(prompt)
    except TargetError as error:
        is_refused = error.kind == "refused" or (error.kind == "http" and not error.transient)
        return Reply(error=str(error), is_refused=is_refused)
    return _make_reply(output)


def _make_reply(output: Output) -> Reply:
    text = strip_reasoning(output.text)
    return Reply(
        text=text,
        is_refusal=find_refusal(text) is not None,
        latency_ms=output.latency_ms,
        output_tokens=None if output.usage is None else output.usage.output_tokens,
        is_truncated=(output.finish_reason or "").lower() in _LIMIT_REASONS,
        refused_params=output.refused_params,
        cost_usd=output.cost_usd,
        model=output.model,
    )


def _with_limit(spec: TargetSpec, limit: int | None) -> TargetSpec:
    max_tokens = limit or spec.params.max_tokens or DEFAULT_MAX_TOKENS
    return replace(spec, params=replace(spec.params, max_tokens=max_tokens))

"""How long each grader takes for its worst input, and how long it holds an event loop, as a Markdown table.

Usage: python tools/grader_times.py [GRADER...]; all of them take about five minutes.

Times are of the processor, so that a busy machine changes them little. `alone` is what the grader takes
without a limit, up to 5 s; `holds the loop` is the longest turn of an event loop while it is graded as in a
run.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from proctor.graders import GRADERS
from proctor.grading import score
from proctor.model import Assertion, Output, Prompt, Score
from proctor.protocols import CompletedProgram, GradingInput, Isolation, JudgeTarget
from proctor.services.concurrency import gather_results
from proctor.services.grading.isolated_grading import EventLoopIsolation

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "graders"))
inputs: Any = import_module("worst_inputs")

MAX_ALONE_S = 5


class _Judge:
    """Replies as is written for the input."""

    def __init__(self, reply: str) -> None:
        self._reply = reply

    async def answer(self, _prompt: Prompt) -> Output:
        return Output(text=self._reply)


class _Embedder:
    """Gives every text the same vector."""

    name = "flat"

    async def embed(self, texts: Any) -> list[list[float]]:
        return [[1.0, 2.0] for _ in texts]


class _Programs:
    """Runs nothing, and prints a long mark."""

    async def run(self, *_: Any, **__: Any) -> CompletedProgram:
        return CompletedProgram(0, b'{"score": 1, "details": {"a": "' + b"x" * 10_000_000 + b'"}}', b"")

    def open_persistent(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def is_grader_file(self, *_: Any) -> bool:
        return False


def make_input(worst: Any, isolation: Isolation | None) -> GradingInput:
    """What the grader sees."""
    output = worst.answer()
    reply = worst.reply(output.text) if worst.reply else ""
    return GradingInput(
        case=inputs.make_case(worst),
        output=output,
        outputs=(output, output) if worst.grader == "consistency" else (),
        judges=(JudgeTarget(name="judge", target=_Judge(reply)),),
        embedder=_Embedder,
        programs=_Programs(),
        gather=gather_results,
        isolation=isolation,
    )


def seconds_alone(worst: Any) -> float | None:
    """The processor time of the grader in a process of its own; None for more than `MAX_ALONE_S`."""
    receiving, sending = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        signal.setitimer(signal.ITIMER_PROF, MAX_ALONE_S + 1)
        graded, assertion = make_input(worst, None), _assertion(worst)
        GRADERS.get(worst.grader)
        began = time.process_time()
        asyncio.run(score(assertion, graded, GRADERS.get))
        sending.send(time.process_time() - began)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    sending.close()
    try:
        seconds: float = receiving.recv()
    except EOFError:
        return None
    finally:
        process.join()
    return seconds if seconds < MAX_ALONE_S else None


async def longest_turn(worst: Any) -> tuple[float, Score]:
    """The longest time in seconds that grading holds the loop, and what it comes to."""
    isolation = EventLoopIsolation()
    graded, assertion = make_input(worst, isolation), _assertion(worst)
    GRADERS.get(worst.grader)
    import jsonschema  # noqa: F401  # loaded while the suite is read
    import regex  # noqa: F401

    turns: list[float] = []
    task = asyncio.ensure_future(score(assertion, graded, GRADERS.get))
    began = time.thread_time()
    while not task.done():
        await asyncio.sleep(0.001 if isolation.is_waiting else 0)
        now = time.thread_time()
        turns.append(now - began)
        began = now
    try:
        return max(turns), await task
    finally:
        isolation.close()


def _assertion(worst: Any) -> Assertion:
    return Assertion(grader=worst.grader, params=worst.params)


def main(names: list[str]) -> None:
    """Print a row for each input, as soon as it is known."""
    print("| grader | worst input | alone | holds the loop | result |", "|---|---|---|---|---|", sep="\n")
    for worst in inputs.WORST:
        if names and worst.grader not in names:
            continue
        alone = seconds_alone(worst)
        turn, result = asyncio.run(longest_turn(worst))
        without_limit = f"over {MAX_ALONE_S} s" if alone is None else _format_seconds(alone)
        limited = "did not end within" in result.reason
        outcome = "unscored, at the limit" if limited else result.outcome.value
        cells = (f"`{worst.grader}`", worst.what, without_limit, _format_seconds(turn), outcome)
        print(f"| {' | '.join(cells)} |", flush=True)


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.0f} ms"


if __name__ == "__main__":
    main(sys.argv[1:])

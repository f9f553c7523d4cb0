"""Runs made and told of: a session on an event loop, and what is printed and written when it has ended."""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.echo import say, say_json
from proctor.cli.options import open_store, show, store_location
from proctor.cli.progress import Progress
from proctor.errors import ExitCode, SuiteError
from proctor.reports.problems import lines_of
from proctor.reports.runs import console, json
from proctor.reports.runs.serialize import Reported
from proctor.services import events
from proctor.services.runs.execution.session import Session
from proctor.services.runs.reading.report import check_endings, looked_at, reported, write
from proctor.services.runs.request import Request
from proctor.verdicts import worst

if TYPE_CHECKING:
    from types import FrameType

    from proctor.cli.attest_after_run import Attested
    from proctor.protocols import Store

_MAX_BLOCKED_S = 1.0
"""How long code may keep the event loop from handling a signal."""


def make_and_tell(
    request: Request,
    store: str | None,
    *,
    outputs: Sequence[str],
    as_json: bool,
    quiet: bool,
    reveal: bool,
    attested: Attested | None = None,
) -> int:
    """Make the runs of a request, print them and write them; the exit code is given back.

    Args:
        request: what the user asks for.
        store: `--store` as it was given.
        outputs: files to write.
        as_json: print one JSON object and nothing else.
        quiet: print errors and warnings only.
        reveal: show what is held out too.
        attested: writes a bundle of each finished run.
    """
    check_endings(outputs)
    plain = not as_json and not quiet
    progress = Progress(quiet=quiet, say=_say_apart if plain else lambda _line: None)
    try:
        with open_store(store, writes=True) as opened:
            session = Session(opened, os.environ, progress, folder=store_location(store).folder)
            # What a function of the user's prints is no part of a report.
            with nullcontext() if plain else redirect_stdout(sys.stderr):
                done = run_session(session, request, progress)
            runs = []
            for one in done:
                runs.append(reported(opened, one.run, one.tally, reveal=reveal))
                if attested is not None:
                    runs[-1] = attested.of(opened, runs[-1])
                opens = reveal or (attested is not None and attested.reveals(runs[-1]))
                if plain or as_json or outputs or runs[-1].bundle is not None:
                    runs[-1] = looked_at(opened, runs[-1], reveal=opens)
                if plain:
                    show(chain([""] * (len(runs) > 1), console.lines(runs[-1])))
                _tell_of_rest(runs[-1], opened, store)
            if plain and len(runs) > 1:
                show(chain([""], console.together(runs)))
            for path in outputs:
                write(path, runs)
    except SuiteError as error:
        return _refuse(error, as_json=as_json)
    finally:
        progress.close()
    if as_json:
        say_json(json.summary(runs))
    if session.not_begun:
        say(f"Not begun: {', '.join(session.not_begun)}.", err=True)
        return ExitCode.INTERRUPTED
    codes = [run.exit_code for run in runs]
    return worst([*codes, ExitCode.USAGE] if attested is not None and attested.failed else codes)


def _say_apart(line: str) -> None:
    say(line + "\n")


def _tell_of_rest(run: Reported, opened: Store, given_store: str | None) -> None:
    """How to go on with a run that was stopped."""
    if run.run.status == "interrupted":
        store = f" --store {shlex.quote(given_store)}" if given_store else ""
        kept = run.tally.all.total
        if run.run.stopped:
            say(f"proctor: error: {run.run.stopped}", err=True)
        if not opened.is_durable:
            say(f"Stopped after {kept:,} of {run.run.planned:,} trials. The store was in memory.", err=True)
            return
        say(
            f"Stopped: {kept:,} of {run.run.planned:,} trials are kept. "
            f"Continue with: proctor run --resume={run.run.id}{store}",
            err=True,
        )


def _refuse(error: SuiteError, *, as_json: bool) -> int:
    for line in lines_of(error.problems):
        say(line, err=True)
    if error.hint:
        say(error.hint, err=True)
    if as_json:
        say_json(json.refusal(error.problems))
    return ExitCode.USAGE


def run_session(session: Session, request: Request, progress: Progress) -> list[events.Done]:
    """Make the runs of a request, on an event loop that a signal stops.

    Raises:
        click.Abort: it was stopped before there was a run to tell of.
    """
    # Cycles are rare here, and what is imported by now stays: the collector looks seldom, and not at that.
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
    loops: Any = None
    if sys.platform != "win32":
        import uvloop

        loops = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=loops) as runner:
            return runner.run(_stoppable(session, request, progress))
    except asyncio.CancelledError:
        raise click.Abort from None  # stopped at once, before there was a run to tell of


async def _stoppable(session: Session, request: Request, progress: Progress) -> list[events.Done]:
    loop = asyncio.get_running_loop()
    making = asyncio.current_task()
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            session.stop()
            progress.warn("Stopping: calls under way get 1 s. Press Ctrl-C again to stop at once.")
        elif making is not None:
            making.cancel()

    watch_signals(loop, stop)
    done = await session.run(request)
    if asked and not done:
        raise click.Abort  # stopped before the first run began
    return done


def watch_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` on the loop for each signal that stops a run.

    If the loop does not react within `_MAX_BLOCKED_S`, because Python code blocks it (reading a large suite,
    say), KeyboardInterrupt ends that code and what follows on the loop.
    """
    waiting = 0

    def on_loop() -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting and sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, 0)
        stop()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        nonlocal waiting
        if loop.is_closed():
            raise KeyboardInterrupt
        waiting += 1
        loop.call_soon_threadsafe(on_loop)
        if sys.platform != "win32":
            signal.setitimer(signal.ITIMER_REAL, _MAX_BLOCKED_S)

    def end(_number: int, _frame: FrameType | None) -> None:
        if waiting:
            raise KeyboardInterrupt

    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, end)
    for number in _stopping():
        signal.signal(number, on_signal)


def _stopping() -> list[signal.Signals]:
    """The signals that stop a run: also that the terminal was closed, unless `nohup` has it ignored."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers

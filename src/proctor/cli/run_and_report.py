"""Runs a request on an event loop, then prints and writes its reports."""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, redirect_stdout
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.echo import echo, echo_json
from proctor.cli.options import open_store, print_problems, show, store_location
from proctor.errors import ExitCode, StoreError, SuiteError, UsageError
from proctor.reports.runs.serialize import RunReport, cluster_warning
from proctor.run_gate import worst_exit_code
from proctor.services import events
from proctor.services.progress import Progress
from proctor.services.runs.execution.session import RunSession
from proctor.services.runs.planning.requested_runs import check_words
from proctor.services.runs.reading.report import (
    build_report,
    check_report_paths,
    record_report_access,
    write_report,
)
from proctor.services.runs.request import Request

if TYPE_CHECKING:
    from types import FrameType

    from proctor.cli.attest_after_run import RunAttester
    from proctor.protocols import Store
    from proctor.reports.document import Block
    from proctor.services.file_log import FileLog

FILE_LOG_VARIABLE = "PROCTOR_FILE_LOG"
"""The environment variable that names the log of the files that a run reads, if it is watched."""
STOPPING = "Stopping: requests in progress have 1 s to finish. Press Ctrl-C again to stop immediately."
"""Printed at the first signal."""
_MAX_BLOCKED_S = 1.0
"""How long code may keep the event loop from handling a signal."""


def run_and_report(
    request: Request,
    store: str | None,
    *,
    outputs: Sequence[str],
    as_json: bool,
    quiet: bool,
    reveal: bool,
    attester: RunAttester | None = None,
) -> int:
    """Makes the runs of a request, prints and writes their reports, and returns the exit code.

    Args:
        request: the request.
        store: the value of `--store`.
        outputs: files to write.
        as_json: print one JSON object and nothing else.
        quiet: print errors and warnings only.
        reveal: show held-out cases too.
        attester: writes a bundle of each finished run.
    """
    check_report_paths(outputs)
    plain = not as_json and not quiet
    progress = Progress(quiet=quiet, write_line=_echo_paragraph if plain else lambda _line: None)
    try:
        with _open_store_for(request, store) as run_store:
            files = open_file_log()
            session = RunSession(
                run_store, os.environ, progress, folder=store_location(store).folder, files=files
            )
            # Output of user-defined functions must not mix with the report.
            with nullcontext() if plain else redirect_stdout(sys.stderr), _log_refusal(files):
                finished_runs = run_session(session, request, progress)
            runs = []
            resumed = set[tuple[str, str]]()
            for finished in finished_runs:
                runs.append(build_report(run_store, finished.run, finished.tally, reveal=reveal))
                if attester is not None:
                    runs[-1] = attester.attest(run_store, runs[-1])
                shows_holdout = reveal or (attester is not None and attester.shows_holdout(runs[-1]))
                if plain or as_json or outputs or runs[-1].bundle is not None:
                    runs[-1] = record_report_access(run_store, runs[-1], reveal=shows_holdout)
                if plain:
                    _show_report(runs)
                elif warning := cluster_warning(runs[-1]):
                    echo(f"proctor: warning: {warning}", err=True)
                _echo_how_to_resume(runs[-1], run_store, store, resumed)
            if plain and len(runs) > 1:
                _show_overview(runs)
            for path in outputs:
                write_report(path, runs)
            if files is not None:
                _log_runs(files, runs)
    except SuiteError as error:
        return _refuse(error, as_json=as_json)
    finally:
        progress.close()
    if as_json:
        from proctor.reports.runs.json import render_summary

        echo_json(render_summary(runs))
    if session.not_started:
        echo(f"Not started: {', '.join(session.not_started)}.", err=True)
        return ExitCode.INTERRUPTED
    codes = [run.exit_code for run in runs]
    return worst_exit_code(
        [*codes, ExitCode.USAGE] if attester is not None and attester.has_failed else codes
    )


def _show_report(runs: Sequence[RunReport]) -> None:
    """Prints the report of the last of several runs."""
    from proctor.reports.document import render_terminal
    from proctor.reports.runs.console import document_for

    show(chain([""] * (len(runs) > 1), render_terminal(document_for(runs[-1]))))


def _show_overview(runs: Sequence[RunReport]) -> None:
    from proctor.reports.document import render_terminal
    from proctor.reports.runs.blocks import gates_sentence

    show(chain([""], render_terminal([_overview(runs)])))
    if sentence := gates_sentence(runs):
        show(["", sentence])


def _overview(runs: Sequence[RunReport]) -> Block:
    """Returns the grid of prompts and targets of several runs; a table of runs without prompts."""
    if any(report.run.prompt is not None for report in runs):
        from proctor.reports.comparison.grid import grid_block, grid_of_reports

        grid = grid_of_reports(runs)
        if grid is not None:
            return grid_block(grid)
    from proctor.reports.runs.blocks import overview_table

    return overview_table(runs)


def _open_store_for(request: Request, option: str | None) -> AbstractContextManager[Store]:
    """Opens the store of a request; creates none for a request that needs stored runs, or has a typing error.

    Raises:
        UsageError: there is no store, and the request needs one, or names an unknown suite or target.
    """
    location = store_location(option)
    if location.is_durable and not location.exists():
        if run := request.resume or request.retry_errors or request.regrade:
            raise UsageError(
                f"There is no run {run!r}, because there is no store at {location.address}. Name the "
                "store with --store."
            )
        check_words(request, os.environ)
    return open_store(option, writes=True)


def open_file_log() -> FileLog | None:
    """Opens the log of this process; None if nobody watches it. The programs that it starts have none."""
    path = os.environ.pop(FILE_LOG_VARIABLE, None)
    if not path:
        return None
    from proctor.services.file_log import FileLog

    return FileLog(Path(path))


@contextmanager
def _log_refusal(files: FileLog | None) -> Iterator[None]:
    """Tells the process that watches a run if the command itself is wrong."""
    try:
        yield
    except (UsageError, StoreError):
        if files is not None:
            files.contents.is_refused = True
            files.save()
        raise


def _log_runs(files: FileLog, runs: Sequence[RunReport]) -> None:
    """Tells the process that watches these runs what they are, and which modules they have imported."""
    from proctor.services.file_log import LoggedRun
    from proctor.services.runs.execution.run_files import list_project_modules

    files.add(*list_project_modules())
    files.contents.runs = [
        LoggedRun(
            id=report.run.id,
            suite=report.run.suite.name,
            target=report.run.target_title,
            content=report.run.suite.content,
            asked=report.tally.asked_count,
            reused=report.tally.reused_count,
        )
        for report in runs
        if report.run.status == "finished"
    ]
    files.save()


def _echo_paragraph(line: str) -> None:
    echo(line + "\n")


def _echo_how_to_resume(
    run: RunReport, run_store: Store, store_option: str | None, resumed: set[tuple[str, str]]
) -> None:
    """Prints how to resume a run that was stopped.

    Args:
        run: the run.
        run_store: the store.
        store_option: the value of `--store`.
        resumed: the groups and suites of interleaved runs that a printed command resumes together.
    """
    if run.run.status == "interrupted":
        store = f" --store {shlex.quote(store_option)}" if store_option else ""
        trial_count = run.tally.all.total
        if run.run.stopped:
            echo(f"proctor: error: {run.run.stopped}", err=True)
        if not run_store.is_durable:
            echo(
                f"Stopped after {trial_count:,} of {run.run.planned:,} trials. The store was in "
                "memory, so they are lost.",
                err=True,
            )
            return
        key = run.run.group, run.run.suite.digest
        how = f"Continue with: proctor run --resume={run.run.id}{store}"
        if run.run.settings.interleave:
            how = "The same command resumes this run." if key in resumed else how
            resumed.add(key)
        echo(f"Stopped: {trial_count:,} of {run.run.planned:,} trials are stored. {how}", err=True)


def _refuse(error: SuiteError, *, as_json: bool) -> int:
    print_problems(error.problems)
    if error.hint:
        echo(error.hint, err=True)
    if as_json:
        from proctor.reports.runs.json import render_refusal

        echo_json(render_refusal(error.problems))
    return ExitCode.USAGE


def run_session(session: RunSession, request: Request, progress: Progress) -> list[events.RunFinished]:
    """Makes the runs of a request on an event loop that signals stop.

    Raises:
        click.Abort: it was stopped before there was a run to report.
    """
    # Cycles are rare here, and imported modules stay: the collector runs rarely, and skips those.
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
    loops: Any = None
    if sys.platform != "win32":
        import uvloop

        loops = uvloop.new_event_loop
    try:
        # A loop that is interrupted while it is made or starts to run cannot be closed.
        with ExitStack() as held_signals, ExitStack() as stack:
            held_signals.enter_context(_hold_signals())
            runner = stack.enter_context(asyncio.Runner(loop_factory=loops))
            return runner.run(_run_until_stopped(session, request, progress, held_signals.close))
    except asyncio.CancelledError:
        raise click.Abort from None  # stopped at once, before there was a run to report
    except RuntimeError as error:
        if _follows_interrupt(error):  # within the loop's own code, after which it cannot be closed
            raise KeyboardInterrupt from None
        raise


def _follows_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def _hold_signals() -> Iterator[None]:
    """Lets signals that stop a run wait for the end of the block."""
    if sys.platform == "win32":
        yield
        return
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


async def _run_until_stopped(
    session: RunSession, request: Request, progress: Progress, release_signals: Callable[[], None]
) -> list[events.RunFinished]:
    loop = asyncio.get_running_loop()
    session_task = asyncio.current_task()
    signal_count = 0

    def stop() -> None:
        nonlocal signal_count
        signal_count += 1
        if signal_count == 1:
            session.stop()
            progress.warn(STOPPING)
        elif session_task is not None:
            session_task.cancel()

    watch_signals(loop, stop)
    if sys.platform != "win32" and session.is_watched:
        loop.add_signal_handler(signal.SIGUSR1, session.finish_calls)
    release_signals()
    finished_runs = await session.run(request)
    if signal_count and not finished_runs:
        raise click.Abort  # stopped before the first run began
    return finished_runs


def watch_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Calls `stop` on the loop for each signal that stops a run.

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
    for number in _stop_signals():
        signal.signal(number, on_signal)


def _stop_signals() -> list[signal.Signals]:
    """Returns the signals that stop a run; SIGHUP unless it is ignored, as by `nohup`."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers

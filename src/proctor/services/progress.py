"""Shows the events of a session on stderr: as a bar on a terminal, else as a line every few seconds.

The bar has no colours with `NO_COLOR`; a dumb terminal and a file get lines, also with `FORCE_COLOR`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from proctor.model import Verdict
from proctor.plurals import pluralize
from proctor.reports.formatting import cost, seconds
from proctor.reports.runs.splits import split_sizes_line
from proctor.safe_text import one_line, terminal_text
from proctor.services import events

_FIRST_LINE_S = 2.0
_LINE_EVERY_S = 5.0
_DRAW_EVERY_S = 0.1


def print_note(line: str) -> None:
    """Prints a line to stderr; if its reader is gone, later output is dropped."""
    try:
        print(terminal_text(line), file=sys.stderr, flush=True)
    except BrokenPipeError:
        # Flushing the stream when the interpreter exits would raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def format_warning(message: str) -> str:
    """Formats a warning, with the prefix `proctor: warning:` unless it names a file."""
    line = one_line(message)
    return line if ": warning: " in line else f"proctor: warning: {line}"


class Progress:
    """Listens to the events of a session. `close` removes the bar."""

    def __init__(self, *, quiet: bool, write_line: Callable[[str], None]) -> None:
        """Draws nothing before the first event.

        Args:
            quiet: print warnings only.
            write_line: prints lines that belong to the report, such as the sizes of dev and holdout.
        """
        self._quiet = quiet
        self._write_line = write_line
        can_draw = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._bar = _Bar() if can_draw and not quiet else None
        self._total = 0
        self._is_batch = False
        """Whether the answers of the runs in progress come in batches."""
        self._open_runs: dict[str, str] = {}
        """The names of the targets of runs in progress, by the ids of the runs."""
        self._downloaded: str | None = None
        self._counts = dict.fromkeys(Verdict, 0)
        self._costs: dict[str, float | None] = {}
        """The cost of each run in progress or just ended."""
        self._began = self._last_line_at = monotonic()

    def __call__(self, event: events.Event) -> None:
        """Handles one event."""
        if isinstance(event, events.TrialFinished):
            if not self._quiet:
                self._counts[event.verdict] += 1
                self._costs[event.run] = event.cost_usd
                self._show_trials()
        elif isinstance(event, events.WarningMessage):
            self.warn(event.message)
        elif isinstance(event, events.StatusMessage):
            self.notify(event.message)
        elif isinstance(event, events.DownloadProgress):
            self.show_download(event.name, event.received, event.total)
        elif isinstance(event, events.ReadProgress):
            self._show_periodically(f"{event.path}: {event.cases:,} cases read so far")
        elif isinstance(event, events.SearchProgress):
            self._show_periodically(f"{event.path}: {event.characters:,} characters searched so far")
        elif isinstance(event, events.RunStarted):
            self._start_run(event)
        else:
            self._open_runs.pop(event.run.id, None)
            if not self._open_runs:
                self.close()

    def warn(self, message: str) -> None:
        """Prints a warning to stderr, above the bar if there is one."""
        self._print_line(format_warning(message))

    def notify(self, message: str) -> None:
        """Prints a note, unless quiet."""
        if not self._quiet:
            self._print_line(message)

    def show_download(self, name: str, bytes_done: int, total: int) -> None:
        """Shows the progress of a download."""
        now = monotonic()
        every = _FIRST_LINE_S if self._bar is None else _DRAW_EVERY_S
        is_complete = bytes_done >= total
        if self._quiet or self._downloaded == name or (now - self._last_line_at < every and not is_complete):
            return
        self._last_line_at = now
        self._downloaded = name if is_complete else None
        amounts = f"{bytes_done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if self._bar is None:
            print_note(f"{name}: {amounts}")
        else:
            self._bar.draw(f"Downloading {name}", bytes_done, total, amounts)

    def _print_line(self, line: str) -> None:
        if self._bar is not None:
            self._bar.print_above(line)
        else:
            print_note(line)

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()

    def _start_run(self, event: events.RunStarted) -> None:
        """Shows a run; one that starts while others are in progress is interleaved with them."""
        if not self._open_runs:
            line = split_sizes_line(event.dev, event.holdout)
            if line is not None:
                self._write_line(line)
            self._total = 0
            self._counts = dict.fromkeys(Verdict, 0)
            self._costs = {}
            self._is_batch = event.run.settings.is_batch
            now = monotonic()
            self._began, self._last_line_at = now, now - (_LINE_EVERY_S - _FIRST_LINE_S)
        self._total += event.total
        self._open_runs[event.run.id] = event.run.target_title
        if self._bar is not None:
            names = ", ".join(self._open_runs.values())
            self._bar.draw(f"{event.run.suite.title} on {names}", 0, self._total, "")

    def _show_periodically(self, line: str) -> None:
        now = monotonic()
        if self._quiet or now - self._last_line_at < _FIRST_LINE_S:
            return
        self._last_line_at = now
        print_note(line)

    def _show_trials(self) -> None:
        every = _LINE_EVERY_S if self._bar is None else _DRAW_EVERY_S
        now = monotonic()
        if now - self._last_line_at < every:
            return
        self._last_line_at = now
        count = sum(self._counts.values())
        rate = count / max(now - self._began, 1e-9)
        seconds_left = (self._total - count) / rate if rate else 0.0
        status = f"{rate:,.1f}/s · {self._counts_text()} · {seconds(seconds_left)} left"
        if self._is_batch:  # most of the time so far went by before the first answer came
            status = self._counts_text()
        if self._bar is not None:
            self._bar.draw(None, count, self._total, status)
        else:
            names = f"{', '.join(self._open_runs.values())}: " if len(self._open_runs) > 1 else ""
            print_note(f"{names}{count:,}/{self._total:,} · {status}")

    def _counts_text(self) -> str:
        counts = self._counts
        parts = [f"{counts[Verdict.PASS]:,} passed", f"{counts[Verdict.FAIL]:,} failed"]
        parts.append(pluralize(counts[Verdict.ERROR], "error"))
        if counts[Verdict.UNSCORED]:
            parts.append(f"{counts[Verdict.UNSCORED]:,} unscored")
        costs = [run_cost for run_cost in self._costs.values() if run_cost is not None]
        if len(costs) == len(self._costs) and (total := sum(costs)):
            parts.append(cost(total))
        return ", ".join(parts)


class _Bar:
    """The bar of a run, drawn by rich, which is imported only here."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._row: Any = None
        self._what: str | None = None

    def draw(self, title: str | None, count: int, total: int, status: str) -> None:
        """Shows the progress; a new title starts a new bar."""
        if title is not None and title != self._what:
            self.stop()
            self._what = title
            self._progress = _rich_progress()
            self._row = self._progress.add_task(one_line(title), total=total, words="")
            self._progress.start()
        if self._progress is not None:
            self._progress.update(self._row, completed=count, words=status, refresh=True)

    def print_above(self, line: str) -> None:
        if self._progress is not None:
            self._progress.console.print(
                terminal_text(line), markup=False, emoji=False, highlight=False, soft_wrap=True
            )
        else:
            print_note(line)

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
            self._what = None


def _rich_progress() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}", markup=False),
        TextColumn("{task.fields[words]}", markup=False),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    )

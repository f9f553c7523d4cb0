"""Shows a session's events on stderr: a bar where a person watches, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

from proctor.cli.echo import echo, warning
from proctor.model import Verdict
from proctor.reports.formatting import cost, seconds
from proctor.reports.runs.console import opening
from proctor.safe_text import one_line, terminal_text
from proctor.services import events

_FIRST_LINE_S = 2.0
_LINE_EVERY_S = 5.0
_DRAW_EVERY_S = 0.1


class Progress:
    """Listens to a session. `close` takes the bar away."""

    def __init__(self, *, quiet: bool, say: Callable[[str], None]) -> None:
        """Shows nothing yet.

        Args:
            quiet: show warnings only.
            say: where lines for the reader of the report go, such as how a suite is split.
        """
        self._quiet = quiet
        self._say = say
        self._bar = None if quiet or not sys.stderr.isatty() else _Bar()
        self._total = 0
        self._fetched: str | None = None
        self._counts = dict.fromkeys(Verdict, 0)
        self._cost: float | None = None
        self._began = self._told = monotonic()

    def __call__(self, event: events.Event) -> None:
        """One event."""
        if isinstance(event, events.Finished):
            self._counts[event.verdict] += 1
            self._cost = event.cost_usd
            self._tell()
        elif isinstance(event, events.Warned):
            self.warn(event.message)
        elif isinstance(event, events.Told):
            self.tell(event.message)
        elif isinstance(event, events.Fetching):
            self.fetching(event.name, event.done, event.total)
        elif isinstance(event, events.Reading):
            self._so_far(f"{event.path}: {event.cases:,} cases read so far")
        elif isinstance(event, events.Searching):
            self._so_far(f"{event.path}: {event.characters:,} characters looked through so far")
        elif isinstance(event, events.Planned):
            self._planned(event)
        else:
            self.close()

    def warn(self, message: str) -> None:
        """A line on stderr, above the bar if there is one."""
        self._line(warning(message))

    def tell(self, message: str) -> None:
        """A line that is no warning."""
        if not self._quiet:
            self._line(message)

    def fetching(self, name: str, done: int, total: int) -> None:
        """How far a download is."""
        now = monotonic()
        every = _FIRST_LINE_S if self._bar is None else _DRAW_EVERY_S
        ended = done >= total
        if self._quiet or self._fetched == name or (now - self._told < every and not ended):
            return
        self._told = now
        self._fetched = name if ended else None
        words = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"
        if self._bar is None:
            echo(f"{name}: {words}", err=True)
        else:
            self._bar.draw(f"Fetching {name}", done, total, words)

    def _line(self, line: str) -> None:
        if self._bar is not None:
            self._bar.above(line)
        else:
            echo(line, err=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def _planned(self, event: events.Planned) -> None:
        line = opening(event.dev, event.holdout)
        if line is not None:
            self._say(line)
        self._total = event.total
        self._counts = dict.fromkeys(Verdict, 0)
        self._cost = None
        now = monotonic()
        self._began, self._told = now, now - (_LINE_EVERY_S - _FIRST_LINE_S)
        if self._bar is not None:
            self._bar.draw(f"{event.run.suite.title} on {event.run.target.name}", 0, event.total, "")

    def _so_far(self, line: str) -> None:
        now = monotonic()
        if self._quiet or now - self._told < _FIRST_LINE_S:
            return
        self._told = now
        echo(line, err=True)

    def _tell(self) -> None:
        every = _LINE_EVERY_S if self._bar is None else _DRAW_EVERY_S
        now = monotonic()
        if self._quiet or now - self._told < every:
            return
        self._told = now
        done = sum(self._counts.values())
        rate = done / max(now - self._began, 1e-9)
        left = (self._total - done) / rate if rate else 0.0
        words = f"{rate:,.1f}/s · {self._words()} · {seconds(left)} left"
        if self._bar is not None:
            self._bar.draw(None, done, self._total, words)
        else:
            echo(f"{done:,}/{self._total:,} · {words}", err=True)

    def _words(self) -> str:
        counts = self._counts
        parts = [f"{counts[Verdict.PASS]:,} passed", f"{counts[Verdict.FAIL]:,} failed"]
        parts.append(f"{counts[Verdict.ERROR]:,} errors")
        if counts[Verdict.UNSCORED]:
            parts.append(f"{counts[Verdict.UNSCORED]:,} unscored")
        if self._cost:
            parts.append(cost(self._cost))
        return ", ".join(parts)


class _Bar:
    """The bar of a run, drawn by rich, which is imported only here."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._row: Any = None
        self._what: str | None = None

    def draw(self, what: str | None, done: int, total: int, words: str) -> None:
        """Show the state of things; `what` begins another bar when it differs from the last."""
        if what is not None and what != self._what:
            self.stop()
            self._what = what
            self._progress = _rich_progress()
            self._row = self._progress.add_task(one_line(what), total=total, words="")
            self._progress.start()
        if self._progress is not None:
            self._progress.update(self._row, completed=done, words=words, refresh=True)

    def above(self, line: str) -> None:
        if self._progress is not None:
            self._progress.console.print(
                terminal_text(line), markup=False, emoji=False, highlight=False, soft_wrap=True
            )
        else:
            echo(line, err=True)

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

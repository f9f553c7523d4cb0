"""Events of a running request; the progress bar and every other listener receive the same ones."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from proctor.model import Run, Trial, Verdict
from proctor.verdicts import Tally


class ReadProgress(Struct, frozen=True):
    """A suite is being read."""

    path: str
    cases: int


class SearchProgress(Struct, frozen=True):
    """A text is being searched for cases of a suite."""

    path: str
    characters: int
    """Characters searched so far."""


class DownloadProgress(Struct, frozen=True):
    """A file is being downloaded from the package index."""

    name: str
    received: int
    """Bytes received so far."""
    total: int


class StatusMessage(Struct, frozen=True):
    """A sentence about a slow operation."""

    message: str


class RunStarted(Struct, frozen=True):
    """A run starts."""

    run: Run
    total: int
    """Trials of the run, reused ones included."""
    dev: int | None
    """Selected dev cases; None for a suite that is not split."""
    holdout: int | None


class TrialFinished(Struct, frozen=True, gc=False):
    """A trial has its verdict."""

    trial: Trial
    verdict: Verdict
    cost_usd: float | None
    """The cost of the run so far; None when a price is unknown."""
    run: str = ""
    """The id of the run."""


class WarningMessage(Struct, frozen=True):
    """A warning, as a sentence."""

    message: str


class RunFinished(Struct, frozen=True):
    """A run has ended."""

    run: Run
    tally: Tally


Event = (
    ReadProgress
    | SearchProgress
    | DownloadProgress
    | StatusMessage
    | RunStarted
    | TrialFinished
    | WarningMessage
    | RunFinished
)
Listener = Callable[[Event], None]

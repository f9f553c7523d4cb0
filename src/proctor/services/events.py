"""What happens while runs are made; the progress bar and every other listener get the same events."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from proctor.model import Run, Trial, Verdict
from proctor.verdicts import Tally


class Reading(Struct, frozen=True):
    """A suite is being read."""

    path: str
    cases: int


class Searching(Struct, frozen=True):
    """Cases of a suite are looked for in another text."""

    path: str
    characters: int
    """The characters that have been searched."""


class Fetching(Struct, frozen=True):
    """A file is on its way from the package index."""

    name: str
    done: int
    """Bytes that have arrived."""
    total: int


class Told(Struct, frozen=True):
    """Something that takes long, as a sentence."""

    message: str


class Planned(Struct, frozen=True):
    """A run begins."""

    run: Run
    total: int
    """Trials of the run, reused ones included."""
    dev: int | None
    """Selected dev cases; None for a suite that is not split."""
    holdout: int | None


class Finished(Struct, frozen=True, gc=False):
    """A trial has its verdict."""

    trial: Trial
    verdict: Verdict
    cost_usd: float | None
    """What the run has cost so far; None when a price is not known."""


class Warned(Struct, frozen=True):
    """Something doubtful, as a sentence."""

    message: str


class Done(Struct, frozen=True):
    """A run has ended."""

    run: Run
    tally: Tally


Event = Reading | Searching | Fetching | Told | Planned | Finished | Warned | Done
Listener = Callable[[Event], None]

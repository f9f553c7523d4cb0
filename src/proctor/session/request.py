"""What a user asks for, and what it comes to: the runs that are to be made."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from proctor.model import Params, Run, Settings, Suite
from proctor.plan import Index
from proctor.session.casting import Wanted
from proctor.session.configuring import Config


class Request(Struct, frozen=True, kw_only=True):
    """What a user asks for: the words as they were given."""

    suites: tuple[str, ...] = ()
    saved: tuple[Suite, ...] = ()
    """Suites that are in the store, besides those; no file of such a name is looked for."""
    targets: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    params: Params = Params()
    judge_params: Params = Params()
    settings: Settings = Settings()
    explicit: frozenset[str] = frozenset()
    """The fields of `settings` that were given and not left at their defaults."""
    fixed: tuple[str, ...] = ()
    """The flags that were given and that a stored run has decided already."""
    dialect: str | None = None
    config: Config = Config()
    """What the project says of reading suites."""
    holdout: float | None = None
    """The share of each suite that is held out; None leaves that to its dialect."""
    split_method: Literal["rank", "shuffle"] | None = None
    resume: str | None = None
    """A run's id; empty for the newest unfinished run of the same suite, target and settings."""
    retry_errors: str | None = None
    """A run's id: ask again what came to ERROR, grade again what is UNSCORED, take over the rest."""
    regrade: str | None = None
    """A run's id: grade its answers again, and ask no target."""


class Job(Struct, frozen=True, kw_only=True):
    """One run that is to be made or continued."""

    run: Run
    index: Index
    wanted: Wanted
    earlier_run: Run | None = None
    """The run whose trials are taken over; the run itself when it is continued."""


def new_id() -> str:
    """A run's id: sorts by time, and is unique without asking anybody."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"

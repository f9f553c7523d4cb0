"""What a user asks for: suites, targets, judges and settings, as words."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from proctor.errors import UsageError
from proctor.model import Params, Settings, Suite
from proctor.services.runs.config import Config


class Request(Struct, frozen=True, kw_only=True):
    """What a user asks for, as the words of the command."""

    suites: tuple[str, ...] = ()
    saved: tuple[Suite, ...] = ()
    """Suites that are in the store, besides those; no file of such a name is looked for."""
    stored: tuple[str, ...] = ()
    """The same as words: `NAME` for the version last saved, or `NAME@v2`."""
    targets: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    params: Params = Params()
    judge_params: Params = Params()
    settings: Settings = Settings()
    explicit: frozenset[str] = frozenset()
    """The fields of `settings` that were given and not left at their defaults."""
    behind: dict[str, str] = {}
    """Words that stand right behind a flag that takes a value only with `=`, each with that flag."""
    flags: frozenset[str] = frozenset()
    """The flags of the command line, such as `--repeat`, and not what `proctor.toml` says."""
    store: str | None = None
    """`--store`, for commands that messages suggest."""
    dialect: str | None = None
    strict: bool = False
    """A file of a folder that no format recognises is an error; else it is skipped."""
    skip_invalid: bool = False
    """A case that is wrong in its file counts as an error and keeps no other from being run."""
    config: Config = Config()
    """What the project says of reading suites."""
    holdout: float | None = None
    """The share of each suite that is held out; None leaves that to its dialect."""
    split_method: Literal["rank", "shuffle"] | None = None
    resume: str | None = None
    """A run's id; empty for the newest unfinished run of the same suite, target and settings."""
    retry_errors: str | None = None
    """A run's id: send again what is ERROR, grade again what is UNSCORED, reuse the rest."""
    regrade: str | None = None
    """A run's id: grade its answers again, without calling a target."""
    group: str | None = None
    """The id of the group that the new runs make; None for one of its own."""

    @property
    def names_suites(self) -> bool:
        """It says by words which suites are run."""
        return bool(self.suites or self.stored)


def new_id() -> str:
    """A run's id: sorts by time, and is unique without asking anybody."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def check_group(group: str) -> None:
    """Refuse what a group cannot be called; `last` is the newest run.

    Raises:
        UsageError: it is such a name.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", group) or group == "last":
        raise UsageError(
            f"{group[:80]!r} cannot be the id of a group. Take 1 to 64 letters from A-Z, a-z, 0-9, `.`, `_` "
            "and `-`, and not `last`."
        )

"""Holdout accesses of people who use pages and the API: each counts once a day for each suite and kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from threading import Lock
from typing import Literal

from proctor.model import Run
from proctor.protocols import Store
from proctor.services.runs.reading.report import record_daily_access

OWNER = "owner"
"""The person without a named token: whoever reaches a server without tokens, or has its only token."""


class HoldoutAccesses:
    """Records the holdout accesses of one server; safe to use from many threads."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Starts without any records.

        Args:
            now: returns the moment, in UTC.
        """
        self.now = now
        self._lock = Lock()
        self._day = date.min
        self._recorded: set[tuple[str, str, str]] = set()
        """The suites, kinds and persons of this day, so that the store is not read for each page."""

    def record(self, store: Store, run: Run, kind: Literal["rate", "reveal"], person: str) -> None:
        """Records an access, unless the person had it today: another run or browser makes no second one.

        Raises:
            StoreError: the access cannot be recorded; then nothing may be shown.
        """
        at, access = self.now(), (run.suite.digest, kind, person)
        with self._lock:
            if at.date() != self._day:
                self._day = at.date()
                self._recorded.clear()
            if access not in self._recorded:
                record_daily_access(store, run, kind, person=person, at=at)
                self._recorded.add(access)

"""Browser sessions: one for each browser, identified by a cookie, for as long as the server runs."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from threading import Lock

from starlette.requests import HTTPConnection

from proctor.model import Run
from proctor.protocols import Store
from proctor.services.runs.reading.report import record_holdout_access

_MAX_SESSIONS = 10_000
"""Beyond it, the oldest session is dropped; sessions that are not logged in go first."""


class BrowserSession:
    """One browser: its form token, its messages, and what it has been shown."""

    def __init__(self) -> None:
        self.id = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        """The token that every change must carry, so that no other site can make one."""
        self.is_logged_in = False
        """Whether it has shown the server's token."""
        self.reviewer_name = ""
        """The name under which this person labels answers."""
        self.revealed: set[str] = set()
        """Ids of the runs whose held-out answers it may see."""
        self._accessed_runs: set[str] = set()
        self._flashes: list[str] = []
        self._lock = Lock()

    def flash(self, sentence: str) -> None:
        """Shows a sentence once, on the next page."""
        with self._lock:
            self._flashes.append(sentence)

    def pop_flashes(self) -> list[str]:
        """Returns the sentences to show now, and forgets them."""
        with self._lock:
            sentences, self._flashes = self._flashes, []
        return sentences

    def record_access(self, store: Store, run: Run) -> None:
        """Records an access to the pass rate of a run's holdout, once for each session and run.

        Reading a page again reveals nothing new.

        Raises:
            StoreError: the access cannot be recorded; then nothing may be shown.
        """
        with self._lock:
            if run.id in self._accessed_runs:
                return
            record_holdout_access(store, run, "rate")
            self._accessed_runs.add(run.id)

    def reveal(self, store: Store, run: Run) -> None:
        """Records an access to the held-out answers of a run, and shows them to this session from now on.

        Raises:
            StoreError: the access cannot be recorded; then nothing is revealed.
        """
        with self._lock:
            if run.id in self.revealed:
                return
            record_holdout_access(store, run, "reveal")
            self.revealed.add(run.id)


class BrowserSessions:
    """All sessions of one server; safe to use from many threads."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, BrowserSession] = OrderedDict()
        self._lock = Lock()
        self.api_session = BrowserSession()
        """The session of all API clients, which send no cookie."""

    def find(self, key: str | None) -> BrowserSession | None:
        """Returns the session of a cookie, or None."""
        with self._lock:
            session = None if key is None else self._sessions.get(key)
            if session is not None:
                self._sessions.move_to_end(session.id)
        return session

    def add(self, session: BrowserSession) -> None:
        """Remembers a session."""
        with self._lock:
            self._sessions[session.id] = session
            if len(self._sessions) > _MAX_SESSIONS:
                anonymous = (key for key, other in self._sessions.items() if not other.is_logged_in)
                del self._sessions[next(anonymous, next(iter(self._sessions)))]

    def log_in(self, session: BrowserSession) -> None:
        """Marks a session as logged in and gives it a new id, as someone else may have chosen the old one."""
        with self._lock:
            self._sessions.pop(session.id, None)
            session.id, session.csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
            session.is_logged_in = True
            self._sessions[session.id] = session


def get_session(connection: HTTPConnection) -> BrowserSession:
    """Returns the session of a request; all API clients share one."""
    session: BrowserSession = connection.scope["proctor.session"]
    return session

"""Who looks at the pages: one visitor a browser, known by a cookie for as long as the server runs."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from threading import Lock

from starlette.requests import HTTPConnection

from proctor.model import Run
from proctor.protocols import Store
from proctor.services.runs.reading.report import keep_look

_MAX_SESSIONS = 10_000
"""So many are remembered; forgotten is who was away longest, and first of those who have shown no token."""


class BrowserSession:
    """One browser, and what it was shown."""

    def __init__(self) -> None:
        """Nobody was told anything yet."""
        self.id = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        """What every change must come with, so that no other site can make one."""
        self.is_logged_in = False
        """It has shown the server's token."""
        self.reviewer_name = ""
        """What this person calls themself when they review answers."""
        self.revealed: set[str] = set()
        """The runs whose held-out answers it is shown."""
        self._accessed_runs: set[str] = set()
        self._flashes: list[str] = []
        self._lock = Lock()

    def flash(self, sentence: str) -> None:
        """Say a sentence once, on the next page."""
        with self._lock:
            self._flashes.append(sentence)

    def pop_flashes(self) -> list[str]:
        """What is to be said now; nothing of it is said again."""
        with self._lock:
            sentences, self._flashes = self._flashes, []
        return sentences

    def record_access(self, store: Store, run: Run) -> None:
        """Count a look at the pass rate of a run's holdout, once a visitor and run.

        Reading a page again tells nothing more than the first time did.

        Raises:
            StoreError: the look cannot be kept; nothing may be shown then.
        """
        with self._lock:
            if run.id in self._accessed_runs:
                return
            keep_look(store, run, "rate")
            self._accessed_runs.add(run.id)

    def reveal(self, store: Store, run: Run) -> None:
        """Count a look at what a run has sealed, and show it to this visitor from now on.

        Raises:
            StoreError: the look cannot be kept; nothing is revealed then.
        """
        with self._lock:
            if run.id in self.revealed:
                return
            keep_look(store, run, "reveal")
            self.revealed.add(run.id)


class BrowserSessions:
    """All visitors of one server."""

    def __init__(self) -> None:
        """None yet."""
        self._sessions: OrderedDict[str, BrowserSession] = OrderedDict()
        self._lock = Lock()
        self.api_session = BrowserSession()
        """Whoever asks the API; programs send no cookie."""

    def find(self, key: str | None) -> BrowserSession | None:
        """The visitor of a cookie, or None."""
        with self._lock:
            session = None if key is None else self._sessions.get(key)
            if session is not None:
                self._sessions.move_to_end(session.id)
        return session

    def add(self, session: BrowserSession) -> None:
        """Remember another visitor."""
        with self._lock:
            self._sessions[session.id] = session
            if len(self._sessions) > _MAX_SESSIONS:
                oldest = next(iter(self._sessions))
                del self._sessions[
                    next(
                        (key for key, candidate in self._sessions.items() if not candidate.is_logged_in),
                        oldest,
                    )
                ]

    def log_in(self, session: BrowserSession) -> None:
        """Let in who has shown the token, by another id: the one before may be somebody else's choice."""
        with self._lock:
            self._sessions.pop(session.id, None)
            session.id, session.csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
            session.is_logged_in = True
            self._sessions[session.id] = session


def get_session(connection: HTTPConnection) -> BrowserSession:
    """Who sent a request; for the API that is everybody who may."""
    session: BrowserSession = connection.scope["proctor.session"]
    return session

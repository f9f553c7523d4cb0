"""Browser sessions: one for each browser, identified by a cookie, for as long as the server runs."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from threading import Lock

from starlette.requests import HTTPConnection

from proctor.model import Run
from proctor.protocols import Store
from proctor.web.holdout_accesses import OWNER, HoldoutAccesses

_MAX_SESSIONS = 10_000
"""Beyond it, the oldest session is dropped; sessions that are not logged in go first."""


class BrowserSession:
    """One browser: its form token, its messages, and what it has been shown."""

    def __init__(self, accesses: HoldoutAccesses | None = None, person: str = OWNER) -> None:
        """Starts a session that has not logged in.

        Args:
            accesses: records its holdout accesses, with those of all sessions of the server.
            person: whose accesses they are, until somebody logs in.
        """
        self._accesses = accesses or HoldoutAccesses()
        self.person = person
        """The name of its token."""
        self.id = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        """The token that every change must carry, so that no other site can make one."""
        self.is_logged_in = False
        """Whether it has shown the server's token."""
        self.reviewer_name = ""
        """The name under which this person labels answers."""
        self.revealed: set[str] = set()
        """Ids of the runs whose held-out answers it may see."""
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
        """Records an access to the pass rate of a suite's holdout, once for each person and day.

        Raises:
            StoreError: the access cannot be recorded; then nothing may be shown.
        """
        self._accesses.record(store, run, "rate", self.person)

    def reveal(self, store: Store, run: Run) -> None:
        """Records an access to held-out answers, once a day, and shows them to this session from now on.

        Raises:
            StoreError: the access cannot be recorded; then nothing is revealed.
        """
        with self._lock:
            if run.id in self.revealed:
                return
            self._accesses.record(store, run, "reveal", self.person)
            self.revealed.add(run.id)


class BrowserSessions:
    """All sessions of one server; safe to use from many threads."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, BrowserSession] = OrderedDict()
        self._lock = Lock()
        self.accesses = HoldoutAccesses()
        self._api_sessions: dict[str, BrowserSession] = {}

    def create(self) -> BrowserSession:
        """Returns a new session, which is not remembered yet."""
        return BrowserSession(self.accesses)

    def api_session(self, person: str) -> BrowserSession:
        """Returns the session of all API clients of a person: they send no cookie."""
        with self._lock:
            return self._api_sessions.setdefault(person, BrowserSession(self.accesses, person))

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

    def log_in(self, session: BrowserSession, person: str = OWNER) -> None:
        """Marks a session as logged in with a new id, because somebody else may have chosen the old one.

        Args:
            session: the session.
            person: the name of the token that it has shown.
        """
        with self._lock:
            if session.person != person:
                session.person, session.revealed = person, set()
            self._sessions.pop(session.id, None)
            session.id, session.csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
            session.is_logged_in = True
            self._sessions[session.id] = session


def get_session(connection: HTTPConnection) -> BrowserSession:
    """Returns the session of a request; all API clients of a person share one."""
    session: BrowserSession = connection.scope["proctor.session"]
    return session

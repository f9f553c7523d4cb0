"""What a server serves: the folder of a project and its store, and the objects that all requests share."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path

from starlette.requests import HTTPConnection

from proctor.services.project_folder import ProjectFolder
from proctor.services.runs.config import Config
from proctor.web.browser_sessions import BrowserSessions
from proctor.web.holdout_accesses import OWNER

_NO_CONFIG = Config()


class Project(ProjectFolder):
    """The project of one server; safe to use from many threads."""

    def __init__(
        self,
        store: str | Path,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        config: Config = _NO_CONFIG,
        token: str | None = None,
        named_tokens: Mapping[str, str] = {},
    ) -> None:
        """Opens nothing.

        Args:
            store: as for every project.
            folder: as for every project.
            environ: as for every project.
            config: as for every project.
            token: the token for login; without any token everyone who reaches the server is let in.
            named_tokens: the tokens of people, by their names.
        """
        super().__init__(store, folder=folder, environ=environ, config=config)
        self.token = token
        self.named_tokens = named_tokens
        self.hosts: frozenset[str] = frozenset()
        """Accepted values of the Host header in lower case; set when the port is known."""
        self.sessions = BrowserSessions()

    @property
    def requires_token(self) -> bool:
        """Whether visitors must show a token."""
        return self.token is not None or bool(self.named_tokens)

    def find_person(self, sent_token: str) -> str | None:
        """Returns whose token was sent; None if it is no token of this server.

        All tokens are compared, and the time taken does not tell how much of one is right.
        """
        tokens = dict(self.named_tokens)
        if self.token is not None:
            tokens[OWNER] = self.token
        persons = [name for name, token in tokens.items() if constant_time_equal(sent_token, token)]
        return next(iter(persons), None)

    @property
    def cookie_name(self) -> str:
        """The name of the session cookie, with the port: browsers share cookies between ports of a host."""
        ports = {host.rpartition(":")[2] for host in self.hosts if not host.endswith("]")}
        return f"proctor_{min((port for port in ports if port.isdigit()), default='80')}"

    @property
    def store_name(self) -> str:
        """What pages call the store."""
        return self.location.name


def constant_time_equal(sent_token: str, token: str) -> bool:
    """Whether a token is right; the time taken does not tell how much of it is."""
    return hmac.compare_digest(sent_token.encode("utf-8", "replace"), token.encode("utf-8"))


def get_project(connection: HTTPConnection) -> Project:
    """Returns the project of a request."""
    project: Project = connection.app.state.project
    return project

"""What a server serves: the folder of a project and its store, and the objects that all requests share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.requests import HTTPConnection

from proctor.services.project_folder import ProjectFolder
from proctor.services.runs.config import Config
from proctor.web.browser_sessions import BrowserSessions

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
    ) -> None:
        """Opens nothing.

        Args:
            store: as for every project.
            folder: as for every project.
            environ: as for every project.
            config: as for every project.
            token: the token for login; None lets in everyone who reaches the server.
        """
        super().__init__(store, folder=folder, environ=environ, config=config)
        self.token = token
        self.hosts: frozenset[str] = frozenset()
        """Accepted values of the Host header in lower case; set when the port is known."""
        self.sessions = BrowserSessions()

    @property
    def cookie_name(self) -> str:
        """The name of the session cookie, with the port: browsers share cookies between ports of a host."""
        ports = {host.rpartition(":")[2] for host in self.hosts if not host.endswith("]")}
        return f"proctor_{min((port for port in ports if port.isdigit()), default='80')}"

    @property
    def store_name(self) -> str:
        """What pages call the store."""
        return Path(self.location.address).name


def get_project(connection: HTTPConnection) -> Project:
    """Returns the project of a request."""
    project: Project = connection.app.state.project
    return project

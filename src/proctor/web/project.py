"""What one server serves: a project's folder and its store, and what all of its requests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import HTTPConnection

from proctor.protocols import Store
from proctor.services.runs.config import Config
from proctor.stores import DEFAULT_STORE, locate_store, move_address
from proctor.web.browser_sessions import Visitors

if TYPE_CHECKING:
    from proctor.services.runs.reading.catalogue_sync import Cataloguer
    from proctor.stores.catalogue.database import Catalogue

T = TypeVar("T")
_NOTHING = Config()


class Site:
    """One server's project; safe to use from many threads at once."""

    def __init__(
        self,
        store: str | Path,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        config: Config = _NOTHING,
        token: str | None = None,
    ) -> None:
        """Opens nothing yet.

        Args:
            store: the address of the store; it is made when something is first kept.
            folder: the project; None is the working directory. Only what is there is offered by name.
            environ: where keys come from; None is this process's.
            config: what the project's `proctor.toml` says of reading suites.
            token: what visitors must show; None lets everybody in who reaches the server.
        """
        self.folder = (folder or Path.cwd()).absolute()
        self.location = locate_store(move_address(str(store), Path.cwd(), absolute=True))
        self.environ = os.environ if environ is None else environ
        self.config = config
        self.token = token
        self.hosts: frozenset[str] = frozenset()
        """The values of the header Host that are answered, in small letters; set when the port is known."""
        self.visitors = Visitors()
        self._shared: dict[str, Any] = {}
        self._making = RLock()

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers share cookies between the ports of a host, so each has its own."""
        ports = {host.rpartition(":")[2] for host in self.hosts if not host.endswith("]")}
        return f"proctor_{min((port for port in ports if port.isdigit()), default='80')}"

    @property
    def store_words(self) -> tuple[str, ...]:
        """The flag by which a command in this folder finds the same store; none where it does anyway."""
        address = self.location.address
        if address == str(self.folder / DEFAULT_STORE) and not self.environ.get("PROCTOR_STORE"):
            return ()
        is_inside = Path(address).is_relative_to(self.folder)
        return (f"--store={os.path.relpath(address, self.folder) if is_inside else address}",)

    @property
    def store_name(self) -> str:
        """What pages call the store."""
        return Path(self.location.address).name

    @contextmanager
    def store(self) -> Iterator[Store]:
        """The store, for as long as the block lasts.

        Raises:
            StoreError: it cannot be used.
        """
        store = self.location.open_store()
        try:
            yield store
        finally:
            store.close()

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """What all requests share under a name; made by the first of them."""
        with self._making:
            if name not in self._shared:
                self._shared[name] = make()
            found: T = self._shared[name]
        return found

    @property
    def catalogue(self) -> Catalogue:
        """What is looked through quickly."""
        return self.shared("catalogue", self.location.open_catalogue)

    @property
    def cataloguer(self) -> Cataloguer:
        """What brings the catalogue up to date."""
        from proctor.services.runs.reading.catalogue_sync import Cataloguer

        return self.shared("cataloguer", lambda: Cataloguer(self.store, self.catalogue))


def site_of(connection: HTTPConnection) -> Site:
    """The site that a request is for."""
    site: Site = connection.app.state.site
    return site

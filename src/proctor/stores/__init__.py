"""Stores for runs, trials and suites. In: a path or URL. Out: a `Store`.

`locate_store` resolves an address and `open_store` opens it; `STORES` is the table of URL schemes. `sqlite/`
is the store in a file and `memory.py` the one in memory; `sql/` is what stores in SQL databases share.
Start with `location.py`, which has everything that works before a store is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.lazy_pattern import lazy_pattern
from proctor.registry import Registry

if TYPE_CHECKING:
    from proctor.protocols import Store
    from proctor.stores.location import StoreLocation

DEFAULT_STORE = ".proctor/proctor.db"
"""The address of a project's store, relative to its folder."""
STORES: Registry[Callable[[str], StoreLocation]] = Registry(
    "stores",
    {
        "memory": "proctor.stores.memory:memory_location",
        "postgres": "proctor.stores.postgresql.location:postgresql_location",
        "postgresql": "proctor.stores.postgresql.location:postgresql_location",
        "sqlite": "proctor.stores.sqlite.location:sqlite_location",
    },
)
"""By URL scheme, the functions that turn the part after `scheme://` into a location."""
_MEMORY = ":memory:"
_BROKEN_URL = lazy_pattern(r"(postgres|postgresql|[A-Za-z][A-Za-z0-9+.-]+(?=:/)):(?!//)", re.IGNORECASE)
_URL = lazy_pattern(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)


def locate_store(address: str) -> StoreLocation:
    """Returns the location of a store; opens nothing, and the store need not exist.

    Args:
        address: a path, a URL such as `sqlite:///runs.db`, or `:memory:`.

    Raises:
        UsageError: the address has an unknown scheme, or is incomplete.
    """
    _check_slashes(address)
    if address == _MEMORY:
        return STORES.get("memory")("")
    url = _URL.fullmatch(address) if "://" in address else None
    if url is None:
        return STORES.get("sqlite")(f"/{address}")
    scheme = url[1].lower()
    if scheme not in STORES.names(installed=True):
        from proctor.errors import UsageError

        schemes = ", ".join(f"{name}://" for name in STORES.names())
        raise UsageError(
            f"There is no kind of store for addresses that begin with {scheme}://. Known schemes: {schemes}. "
            f"A path names a file, and {_MEMORY} keeps runs in memory only."
        )
    return STORES.get(scheme)(url[2])


def _check_slashes(address: str) -> None:
    """Refuses URLs without two slashes, as a `Path` makes them, so that no folder is named like a scheme.

    Raises:
        UsageError: the address is one.
    """
    broken = _BROKEN_URL.match(address) if ":" in address else None
    if broken is not None:
        from proctor.errors import UsageError

        scheme = broken[1].lower()
        raise UsageError(
            f"The address of a store that begins with {scheme}: needs two slashes: {scheme}://. In Python, "
            f"give it as text, not as a Path. For a file of that name write ./{scheme}:."
        )


def open_store(address: str, notify: Callable[[str], None] = lambda _line: None) -> Store:
    """Opens a store, or creates it if there is none; close it after use.

    Args:
        address: as for `locate_store`. Each `:memory:` is a new store.
        notify: called with a sentence if the store was migrated.

    Raises:
        UsageError: there is no such kind of store.
        StoreError: the file is not a store, is damaged, or was written by a newer version.
    """
    return locate_store(address).open_store(notify)


def move_address(address: str, folder: Path, *, absolute: bool = False) -> str:
    """Makes a store's address relative to a folder relative to the working directory, or absolute.

    Raises:
        UsageError: it is a URL without two slashes.
    """
    _check_slashes(address)
    if address == _MEMORY:
        return address
    url = _URL.fullmatch(address) if "://" in address else None
    if url is not None and url[1].lower() != "sqlite":
        return address
    path = folder / (address if url is None else url[2].removeprefix("/"))
    return str(path) if absolute else os.path.relpath(path)


@contextmanager
def open_temporary_store() -> Iterator[Store]:
    """Opens a store for the duration of the block; it may hold more than fits into memory."""
    from contextlib import closing
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="proctor-") as folder, closing(open_store(f"{folder}/suite.db")) as store:
        yield store

"""The stores in which the runs of calls are, and how to open them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from proctor.model import Run
from proctor.protocols import Store
from proctor.stores.location import StoreLocation


class LocatedRun(Protocol):
    """A run, and where it is stored."""

    @property
    def run(self) -> Run:
        """The run."""

    @property
    def location(self) -> StoreLocation:
        """The location of its store."""


@contextmanager
def open_location(location: StoreLocation) -> Iterator[Store]:
    """Opens a store for as long as the block lasts."""
    store = location.open_store()
    try:
        yield store
    finally:
        store.close()

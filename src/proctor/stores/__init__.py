"""Runs to rows and back: one file a store. `STORES` is the table of all of them."""

from collections.abc import Callable
from typing import Protocol

from proctor.protocols import Store
from proctor.registry import Registry


class OpenStore(Protocol):
    """Opens the store of a path, made if there is none."""

    def __call__(self, path: str, notify: Callable[[str], None] = ...) -> Store:
        """The store; `notify` gets a sentence about what was done to bring it up to date."""


STORES: Registry[OpenStore] = Registry("stores", {"sqlite": "proctor.stores.sqlite.store:open_store"})

"""Runs to rows and back: one file a store. `STORES` is the table of all of them."""

from collections.abc import Callable

from proctor.ports import Store
from proctor.registry import Registry

STORES: Registry[Callable[[str], Store]] = Registry("stores", {"sqlite": "proctor.stores.sqlite:open_store"})

"""Tables of implementations by name, `name → "module:attribute"`, each imported at first use.

Names that are not in the table are looked up in the entry points of the group `proctor.<door>`, such as
`proctor.graders`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Generic, TypeVar

from proctor.errors import UnknownName

T = TypeVar("T")


class Registry(Generic[T]):
    """The implementations of one extension point, by name."""

    def __init__(
        self, door: str, builtin: Mapping[str, str], *, adapt: Callable[[str, Any], T] | None = None
    ) -> None:
        """Creates a table.

        Args:
            door: the name of the extension point in the plural, which is also the end of the entry-point
                group's name.
            builtin: the built-in names with their locations, as `module:attribute`.
            adapt: converts a name and the imported object; None takes the object as it is.
        """
        self.group = door
        self._adapt = adapt
        self._builtin = frozenset(builtin)
        self._locations = dict(builtin)
        self._instances: dict[str, T] = {}

    def get(self, name: str) -> T:
        """Returns the implementation of that name, imported at first use.

        Raises:
            UnknownName: neither the table nor an installed entry point has it.
        """
        try:
            return self._instances[name]
        except KeyError:
            pass
        if name not in self._locations:
            self._load_entry_points()
        if name not in self._locations:
            raise UnknownName(self.group.removesuffix("s"), name, self._locations)
        module, _, attribute = self._locations[name].partition(":")
        thing = getattr(import_module(module), attribute)
        self._instances[name] = thing if self._adapt is None else self._adapt(name, thing)
        return self._instances[name]

    def add(self, name: str, thing: T) -> None:
        """Registers an implementation under a name, for this process."""
        self._locations[name] = "added at run time"
        self._instances[name] = thing if self._adapt is None else self._adapt(name, thing)

    def __iter__(self) -> Iterator[str]:
        """Yields the names in the order of the table, then those of other packages that are in use."""
        return iter([name for name in self._locations if name in self._builtin or name in self._instances])

    def load_all(self, *, installed: bool = False) -> dict[str, T]:
        """Returns all implementations by name, sorted; with `installed` those of other packages too."""
        return {name: self.get(name) for name in self.names(installed=installed)}

    def is_apart(self, name: str, package: str) -> bool:
        """Returns whether an implementation is in a module of Proctor that is not below a package."""
        location = self._locations[name]
        return location.startswith("proctor.") and not location.startswith(f"{package}.")

    def names(self, *, installed: bool = False) -> list[str]:
        """Returns the names in the table, sorted; with `installed` those of other packages too."""
        if installed:
            self._load_entry_points()
        return sorted(self._locations)

    def __contains__(self, name: str) -> bool:
        return name in self._locations

    def _load_entry_points(self) -> None:
        from importlib.metadata import entry_points

        for point in entry_points(group=f"proctor.{self.group}"):
            self._locations.setdefault(point.name, point.value)

"""Registries: names to objects, which are imported at first use or come from installed packages."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.dialects import DIALECTS
from proctor.errors import UnknownName
from proctor.graders import GRADERS
from proctor.registry import Registry
from proctor.reports import REPORTS
from proctor.stores import STORES
from proctor.targets import TARGETS


def table(**more: str) -> Registry[Any]:
    return Registry(
        "graders", {"ordered": "collections:OrderedDict", "counted": "collections:Counter"} | more
    )


def test_a_name_gives_its_thing_the_same_each_time() -> None:
    registry = table()
    assert registry.get("ordered") is registry.get("ordered") is OrderedDict


def test_an_entry_is_imported_at_its_first_use() -> None:
    module = "this.module.is.not.there"
    registry = table(absent=f"{module}:thing")
    assert registry.get("ordered") is OrderedDict
    assert "absent" in registry
    with pytest.raises(ModuleNotFoundError):
        registry.get("absent")


def test_an_unknown_name_is_refused_with_the_nearest_ones_and_its_door_in_the_singular() -> None:
    with pytest.raises(UnknownName, match=r"Unknown grader 'orderd'\. Did you mean 'ordered'\?"):
        table().get("orderd")


def test_a_thing_of_the_callers_own_is_added_and_replaces_one_of_its_name() -> None:
    registry = table()
    registry.add("mine", 4)
    registry.add("ordered", 5)
    assert (registry.get("mine"), registry.get("ordered")) == (4, 5)
    assert registry.names() == ["counted", "mine", "ordered"]


def test_adding_to_one_registry_leaves_others_alone() -> None:
    places = {"ordered": "collections:OrderedDict"}
    first, second = Registry[Any]("graders", places), Registry[Any]("graders", places)
    first.add("mine", 4)
    assert "mine" not in second
    assert "mine" not in places


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    """A package that offers a grader and something else under the name of a built-in one."""
    info = tmp_path / "extra_graders-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: extra-graders\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[proctor.graders]\nfrom_elsewhere = fractions:Fraction\nordered = fractions:Fraction\n\n"
        "[proctor.targets]\nfrom_far = fractions:Fraction\n",
        encoding="utf-8",
    )
    sys.path.insert(0, str(tmp_path))
    yield
    sys.path.remove(str(tmp_path))


def test_a_name_that_is_not_in_the_table_is_found_among_installed_packages(installed: None) -> None:
    from fractions import Fraction

    registry = table()
    assert registry.get("from_elsewhere") is Fraction
    assert "from_elsewhere" in registry.names()


def test_an_installed_thing_never_takes_the_name_of_a_built_in_one(installed: None) -> None:
    registry = table()
    registry.get("from_elsewhere")
    assert registry.get("ordered") is OrderedDict


def test_an_installed_thing_of_another_door_is_not_found(installed: None) -> None:
    with pytest.raises(UnknownName, match="from_elsewhere"):
        table().get("from_far")


def test_installed_things_are_among_the_names_when_they_are_asked_for(installed: None) -> None:
    registry = table()
    assert "from_elsewhere" not in registry.names()
    assert "from_elsewhere" in registry.names(installed=True)


DOORS: list[Registry[Any]] = [DIALECTS, GRADERS, REPORTS, STORES, TARGETS]


@pytest.mark.parametrize(
    ("registry", "name"), [(registry, name) for registry in DOORS for name in registry.names()]
)
def test_every_line_of_every_table_leads_to_something(registry: Registry[Any], name: str) -> None:
    assert registry.get(name) is not None

"""Fixtures: every kind of store, a run in it, and every transport under every event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.model import Assertion, Case, Run, Suite
from proctor.protocols import Store
from proctor.stores import STORES, locate_store
from proctor.stores.location import StoreLocation
from support.builders import make_case
from support.stores import add_run, save_cases
from support.transports import STAGE_PARAMS, Stage

SCHEMES = [
    pytest.param("postgresql", marks=pytest.mark.slow) if name == "postgresql" else name
    for name in STORES.names()
    if name != "postgres"  # another name of the same
]
DURABLE_SCHEMES = [scheme for scheme in SCHEMES if scheme != "memory"]


@pytest.fixture(params=SCHEMES)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    """A new store of every kind."""
    return make_location(request, tmp_path)


@pytest.fixture(params=DURABLE_SCHEMES)
def durable_location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    """A new store of every kind that outlives its process."""
    return make_location(request, tmp_path)


def make_location(request: pytest.FixtureRequest, tmp_path: Path) -> StoreLocation:
    if request.param == "postgresql":
        location: StoreLocation = request.getfixturevalue("postgres_location")
        return location
    address = ":memory:" if request.param == "memory" else f"{request.param}:///{tmp_path / 'kept'}"
    return locate_store(address)


@pytest.fixture
def open_another(location: StoreLocation) -> Iterator[Callable[[], Store]]:
    """Opens the same store again with each call."""
    stores: list[Store] = []

    def make() -> Store:
        stores.append(location.open_store())
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def store(open_another: Callable[[], Store]) -> Store:
    return open_another()


@pytest.fixture
def cases() -> list[Case]:
    rich = Assertion(grader="contains", params={"words": ["ä", "\n"]}, weight=0.5, required=0.2, negated=True)
    return [
        make_case("plain"),
        make_case("../../etc/passwd\n\x00🦉", "zwei\nZeilen", expected=["a", None, 1.5], tags=("t", "u")),
        make_case("rich", assertions=(rich, rich), category="c", metadata={"deep": {"x": [1]}}, repeats=3),
    ]


@pytest.fixture
def start_run(store: Store, cases: list[Case]) -> Callable[..., Run]:
    """Starts runs of a suite that is saved."""

    def make(run_id: str = "r1", *, suite: Suite | None = None, **fields: Any) -> Run:
        return add_run(store, suite or save_cases(store, cases), **{"id": run_id, "planned": 3} | fields)

    return make


@pytest.fixture(params=STAGE_PARAMS)
def stage(request: pytest.FixtureRequest) -> Stage:
    """Each transport under each loop."""
    stage_param: Stage = request.param
    return stage_param

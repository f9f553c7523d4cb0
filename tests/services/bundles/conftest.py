"""Fixtures: a run and a function that writes its bundle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proctor.model import Run
from proctor.protocols import Store
from proctor.services.bundles.attest import attest
from support.forging import TESTS
from support.sessions import MakeRuns, WriteSuite


@pytest.fixture
async def run(make: MakeRuns, suite: WriteSuite) -> Run:
    """A finished run of ten cases, two of them held out, of which six passed."""
    (result,) = await make(suite(*TESTS))
    return result.run


@pytest.fixture
def attested(store: Store, folder: Path) -> Callable[..., Path]:
    """Writes the bundle of a run, by default a full one without a signature."""

    def write(run: Run, name: str = "b", **fields: Any) -> Path:
        attest(store, run, folder / name, **{"public": False, "key": None, **fields})
        return folder / name

    return write

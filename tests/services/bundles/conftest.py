"""Bundles of stored runs."""

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
    (done,) = await make(suite(*TESTS))
    return done.run


@pytest.fixture
def attested(store: Store, folder: Path) -> Callable[..., Path]:
    """Writes the bundle of a run, unsigned and with everything in it unless the fields say otherwise."""

    def write(run: Run, name: str = "b", **fields: Any) -> Path:
        attest(store, run, folder / name, **{"public": False, "key": None, **fields})
        return folder / name

    return write

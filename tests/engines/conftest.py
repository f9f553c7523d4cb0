"""A fixture that runs the limits of the engines on virtual time."""

from __future__ import annotations

import pytest

from support.virtual_time import Virtually, get_time, run_virtually


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Virtually:
    """Runs a coroutine on a loop with virtual time, which the limits use as well."""
    for module in ("adaptive_limit", "retries"):
        monkeypatch.setattr(f"proctor.engines.{module}.monotonic", get_time)
    return run_virtually

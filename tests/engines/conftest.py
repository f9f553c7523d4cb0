"""Limits that go by an event loop whose clock jumps."""

from __future__ import annotations

import pytest

from support.virtual_time import Virtually, get_time, run_virtually


@pytest.fixture
def jumping(monkeypatch: pytest.MonkeyPatch) -> Virtually:
    """Runs a coroutine on a loop whose time costs nothing, and which limits go by."""
    for module in ("adaptive_limit", "retries"):
        monkeypatch.setattr(f"proctor.engines.{module}.monotonic", get_time)
    return run_virtually

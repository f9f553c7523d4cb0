"""The tool behind the page on drift."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

TOOL = Path(__file__).parent.parent.parent / "tools" / "drift_figures.py"


@pytest.fixture(scope="session")
def figures() -> dict[str, Any]:
    """The functions that simulate the page's figures, by name."""
    return run_path(str(TOOL), run_name="tools.drift_figures")

"""The suites that come with Proctor: their names and their files."""

from __future__ import annotations

from pathlib import Path

import proctor

TIERS = ("cheap", "moderate", "comprehensive")
"""The names of the built-in suites."""
BUILTIN_PREFIX = "builtin:"
"""The prefix of the names of built-in suites, reserved for them."""

_FOLDER = Path(proctor.__file__).with_name("suites") / "v1.0"


def builtin_path(tier: str) -> Path:
    """Returns the file of a built-in suite, one of `TIERS`."""
    return _FOLDER / f"{tier}.jsonl"


def is_builtin(path: Path) -> bool:
    """Whether a file is that of a built-in suite."""
    return path.resolve().parent == _FOLDER.resolve()

"""What a command of the command line comes to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

PYTHON = [sys.executable, "-m", "proctor"]
FAULTS = ("Traceback", "Proctor broke", "Internal error")


class CommandResult(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def run(self) -> Any:
        """The only run of `--json`."""
        runs = self.json["runs"]
        assert len(runs) == 1, f"exit code {self.code}, {len(runs)} runs: {self.err}"
        return runs[0]


Proctor = Callable[..., Any]
"""A fixture that is called, such as `proctor`, which runs a command and gives a `CommandResult`."""

"""Runs commands of Proctor as subprocesses, for work that takes long or may break."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from proctor.errors import UsageError
from proctor.targets.process.guard import GUARD, MARK
from proctor.web.project import Project


def start_command(
    project: Project, arguments: Sequence[str], *, outlives_server: bool = False, **streams: Any
) -> subprocess.Popen[bytes]:
    """Starts a command in the project's folder and with its environment.

    Args:
        project: where it works.
        arguments: what comes after `proctor`; each of them checked, or of the server's own making.
        outlives_server: whether it goes on when the server is killed, as runs do; else it dies too (Linux).
        **streams: where its output goes, and what else `Popen` is told.

    Raises:
        UsageError: no process can be started.
    """
    environ = dict(project.environ)
    try:
        if not outlives_server:
            environ[MARK] = GUARD.new_mark()
        return subprocess.Popen(  # noqa: S603  # it is Proctor itself
            # Without -P a file `proctor.py` of the project would be run instead.
            [sys.executable, "-P", "-m", "proctor", *arguments],
            cwd=project.folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            **streams,
        )
    except (OSError, ValueError) as error:  # a word may hold what no system takes
        raise UsageError(f"No process can be started: {error}.") from None

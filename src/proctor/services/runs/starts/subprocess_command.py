"""Runs commands of Proctor as subprocesses, for work that takes long or may break."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from proctor.errors import UsageError
from proctor.services.project_folder import ProjectFolder
from proctor.targets.process.guard import GUARD, MARK


def start_command(
    project: ProjectFolder, arguments: Sequence[str], *, outlives_server: bool = False, **streams: Any
) -> subprocess.Popen[bytes]:
    """Starts a command in the project's folder and with its environment.

    Args:
        project: the project.
        arguments: the arguments after `proctor`; validated, or made by the server.
        outlives_server: whether it continues when the server is killed, as runs do; else it ends too (Linux).
        **streams: its output streams and other arguments of `Popen`.

    Raises:
        UsageError: the process cannot be started.
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
    except (OSError, ValueError) as error:  # an argument may contain what no system accepts
        raise UsageError(f"No process can be started: {error}.") from None

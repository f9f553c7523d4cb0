"""Runs the programs of one suite, its code graders and hooks, from the suite's folder.

They inherit the few variables that a program needs and no secrets. The caller reads their output.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from proctor.errors import TargetError
from proctor.targets.process.subprocesses import CompletedProgram, clean_environ, run_process

_MAX_NAME_LENGTH = 100


class SuiteProgramRunner:
    """Implements the protocol `ProgramRunner`.

    `python` is always the interpreter that runs Proctor, so that graders find the packages installed beside
    it; `python3` is looked up on the PATH, and falls back to that interpreter.
    """

    def __init__(self, folder: str, environ: Mapping[str, str], python: str = sys.executable) -> None:
        """Starts nothing.

        Args:
            folder: the suite's folder; empty for the working directory.
            environ: has the few variables that programs inherit.
            python: the interpreter for `python`.
        """
        self._folder = Path(folder).absolute()
        # On systems with another default encoding, a script would misread its input.
        self._environ = {**clean_environ(environ), "PYTHONUTF8": "1"}
        self._python = python

    async def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        *,
        timeout_s: float,
        cwd: str | None = None,
        variables: Mapping[str, str] = {},
    ) -> CompletedProgram:
        """Runs a program to its end; see `ProgramRunner.run`.

        Raises:
            TargetTimeout: it did not end in time.
            TargetError: of kind `program`: it or its folder is missing, it could not be started, or it wrote
                too much.
        """
        program, folder = self._find_program(argv), self._resolve_folder(cwd)
        return await run_process(
            [program, *argv[1:]],
            stdin,
            timeout_s=timeout_s,
            environ={**self._environ, **variables},
            cwd=folder,
            called=shlex.join(argv)[:_MAX_NAME_LENGTH],
        )

    def _resolve_folder(self, cwd: str | None) -> str:
        folder = self._folder / (cwd or "")
        if not folder.is_dir():
            shown_folder = self._folder if cwd is None else cwd
            raise TargetError(
                f"There is no folder {str(shown_folder)!r} to run a program in.", kind="program"
            )
        return str(folder)

    def _find_program(self, argv: Sequence[str]) -> str:
        """Returns the path of a command line's program."""
        if not argv or not argv[0]:
            raise TargetError("The command is empty; give a program and its arguments.", kind="program")
        name = argv[0]
        if name == "python":
            return self._python
        if Path(name).name != name:
            return self._check_program_file(name)
        from shutil import which

        path = which(name, path=self._environ.get("PATH", os.defpath))
        if path is not None:
            return path
        if name == "python3":
            return self._python
        hint = f"; write ./{name} for the file beside the suite" if (self._folder / name).is_file() else ""
        raise TargetError(f"There is no program {name!r} on the PATH{hint}.", kind="program")

    def _check_program_file(self, name: str) -> str:
        path = self._folder / name
        if not path.is_file():
            raise TargetError(
                f"There is no program {name!r}; its path begins at the suite's folder.", kind="program"
            )
        if not os.access(path, os.X_OK):
            raise TargetError(
                f"The file {name!r} may not be run; make it executable, or put its interpreter before it.",
                kind="program",
            )
        return str(path)

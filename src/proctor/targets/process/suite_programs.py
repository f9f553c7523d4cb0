"""Runs the programs of one suite, its code graders and hooks, from the suite's folder.

They inherit the few variables that a program needs and no secrets. The caller reads their output.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.errors import TargetError
from proctor.targets.process.subprocesses import CompletedProgram, clean_environ, run_process

if TYPE_CHECKING:
    from proctor.targets.process.persistent_programs import PersistentProgramPool, ProgramSession

_MAX_NAME_LENGTH = 100
_PACKAGE_FOLDER = str(Path(__file__).parents[3])
_INTERPRETERS = frozenset(("python", "node", "bun", "deno", "tsx", "uv", "sh", "bash", "zsh", "ruby", "perl"))
"""Programs whose first argument is the path of a file, by their names without a version."""
_SCRIPT_ENDINGS = (".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".sh", ".rb", ".pl")
_SERVE_GRADERS = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import proctor; del sys.path[0]; "
    "from proctor.python.grader_program import main; main()"
)
"""Imports this Proctor and nothing else from its folder, which may hold other packages."""


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
        self._pool: PersistentProgramPool | None = None
        self._grader_files: dict[tuple[str, str | None], bool] = {}

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
            called=_name_command(argv),
        )

    @asynccontextmanager
    async def open_persistent(
        self, argv: Sequence[str], *, cwd: str | None = None
    ) -> AsyncIterator[ProgramSession]:
        """Gives a program that stays alive until `aclose`; see `ProgramRunner.open_persistent`.

        Raises:
            TargetError: of kind `program`: it or its folder is missing, or it could not be started.
        """
        from proctor.targets.process.persistent_programs import PersistentProgramPool

        program, folder = self._find_program(argv), self._resolve_folder(cwd)
        words = argv[1:]
        if self.is_grader_file(argv, cwd):
            words = ("-P", "-c", _SERVE_GRADERS, _PACKAGE_FOLDER, *words)
        if self._pool is None:
            self._pool = PersistentProgramPool(self._environ)
        async with self._pool.open_session([program, *words], folder, _name_command(argv)) as session:
            yield session

    def is_grader_file(self, argv: Sequence[str], cwd: str | None = None) -> bool:
        """Returns whether a command calls a file of graders; see `ProgramRunner.is_grader_file`."""
        if not 2 <= len(argv) <= 3 or argv[0] not in ("python", "python3") or not argv[1].endswith(".py"):
            return False
        key = argv[1], cwd
        if key not in self._grader_files:
            from proctor.targets.process.grader_files import is_grader_file

            self._grader_files[key] = is_grader_file(self._folder / (cwd or "") / argv[1])
        return self._grader_files[key]

    def find_defect(self, argv: Sequence[str], cwd: str | None = None) -> str | None:
        """Returns what keeps a command from running, as far as the files that it names show it.

        Only paths and the scripts of known interpreters are checked. A name on the PATH is not, as the suite
        may be run on another machine.
        """
        if any("${{" in word for word in (*argv, cwd or "")):
            return None
        try:
            folder = self._resolve_folder(cwd)
            if Path(argv[0]).name != argv[0]:
                self._check_program_file(argv[0])
        except TargetError as error:
            return str(error)
        script = _find_script(argv)
        if script is None or Path(folder, script).exists() or self._look_up(script):
            return None
        base = "the folder of the suite" if cwd is None else f"`cwd`, {cwd!r}"
        return f"There is no file {script!r}; its path is relative to {base}."

    async def aclose(self) -> None:
        """Ends the programs that stayed alive. Safe to call twice."""
        if self._pool is not None:
            await self._pool.aclose()

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
            raise TargetError("The command is empty; write a program and its arguments.", kind="program")
        name = argv[0]
        if name == "python":
            return self._python
        if Path(name).name != name:
            return self._check_program_file(name)
        path = self._look_up(name)
        if path is not None:
            return path
        if name == "python3":
            return self._python
        hint = f"; write ./{name} for the file beside the suite" if (self._folder / name).is_file() else ""
        raise TargetError(f"There is no program {name!r} on the PATH{hint}.", kind="program")

    def _look_up(self, name: str) -> str | None:
        """Returns the path of a program on the PATH."""
        from shutil import which

        return which(name, path=self._environ.get("PATH", os.defpath))

    def _check_program_file(self, name: str) -> str:
        path = self._folder / name
        if not path.is_file():
            raise TargetError(
                f"There is no program {name!r}; its path is relative to the folder of the suite.",
                kind="program",
            )
        if not os.access(path, os.X_OK):
            raise TargetError(
                f"The file {name!r} cannot be run; make it executable, or write its interpreter before it.",
                kind="program",
            )
        return str(path)


def _find_script(argv: Sequence[str]) -> str | None:
    """Returns the file of a command such as `python grade.py` or `bun run grade.ts`; None for any other."""
    if Path(argv[0]).stem.rstrip("0123456789.") not in _INTERPRETERS:
        return None
    words = argv[2:] if argv[1:2] == ["run"] else argv[1:]
    word = words[0] if words else ""
    is_script = Path(word).suffix in _SCRIPT_ENDINGS and not word.startswith("-") and "://" not in word
    return word if is_script else None


def _name_command(argv: Sequence[str]) -> str:
    """Returns the name of a command in messages."""
    return shlex.join(argv)[:_MAX_NAME_LENGTH]

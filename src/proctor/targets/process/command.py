"""Answers prompts by a command: the prompt is its stdin, its stdout the answer.

The command line is split as in a shell, but no shell runs it. `{PROMPT}` inside an argument is replaced by
the prompt, which is then not on stdin; `{OUTPUT_FILE}` by the path of a file from which the answer is read.
A prompt of one user message is that message's text; others are formatted as `role: content`, with an empty
line between messages. The command runs in the prompt's workspace, if there is one. `$PROCTOR_FORM` has the
requested answer format and tools, if there are any.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from proctor.errors import UsageError
from proctor.lazy_pattern import lazy_pattern
from proctor.model import MAX_ANSWER_BYTES, Output, Prompt, TargetSpec
from proctor.targets.api.messages import form_variable, format_messages
from proctor.targets.context import TargetContext
from proctor.targets.kind import TargetKind
from proctor.targets.process.output import decode_text, program_error, read_answer

if TYPE_CHECKING:
    from proctor.protocols import CompletedProgram

_PLACEHOLDER = lazy_pattern(r"\{(PROMPT|OUTPUT_FILE)\}")


class CommandTarget:
    """A program that is started once for each prompt."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        environ: Mapping[str, str],
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        from proctor.targets.process.subprocesses import clean_environ

        self._argv = tuple(argv)
        self._max_answer_bytes = max_answer_bytes
        self._timeout_s = timeout_s
        self._environ = clean_environ(environ)
        words = set(_PLACEHOLDER.findall("\n".join(argv)))
        self._prompt_is_argument = "PROMPT" in words
        self._answers_in_file = "OUTPUT_FILE" in words

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the program's answer.

        Raises:
            TargetError: the program failed, wrote too much or did not end in time.
        """
        text = format_messages(prompt.messages)
        if not self._answers_in_file:
            completed, latency_ms = await self._run({"PROMPT": text}, prompt)
            return Output(text=decode_text(completed.stdout), latency_ms=latency_ms)
        with tempfile.TemporaryDirectory(prefix="proctor-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / "answer"
            words = {"PROMPT": text, "OUTPUT_FILE": str(path)}
            _, latency_ms = await self._run(words, prompt)
            return Output(
                text=decode_text(read_answer(path, repr(self._argv[0]), self._max_answer_bytes)),
                latency_ms=latency_ms,
            )

    async def aclose(self) -> None:
        """Does nothing: no process outlives its prompt."""

    async def _run(self, words: Mapping[str, str], prompt: Prompt) -> tuple[CompletedProgram, float]:
        from proctor.targets.process.subprocesses import run_process, workspace_environ

        cwd = prompt.workspace
        argv = [_PLACEHOLDER.sub(lambda match: words[match[1]], argument) for argument in self._argv]
        started = perf_counter()
        completed = await run_process(
            argv,
            b"" if self._prompt_is_argument else words["PROMPT"].encode("utf-8", "surrogatepass"),
            timeout_s=self._timeout_s,
            environ=workspace_environ(self._environ, cwd) | form_variable(prompt),
            cwd=cwd,
            output_limit=self._max_answer_bytes,
            limit_flag="--max-answer-bytes",
        )
        latency_ms = (perf_counter() - started) * 1000
        if completed.exit_code != 0:
            raise program_error(repr(self._argv[0]), completed)
        return completed, latency_ms


async def open_target(spec: TargetSpec, context: TargetContext) -> CommandTarget:
    """Opens the command line of a specification of kind `command`.

    Raises:
        UsageError: the command line cannot be split, or there is no such program.
    """
    argv = _split_command(spec)
    program = shutil.which(argv[0], path=context.environ.get("PATH"))
    if program is None:
        raise UsageError(
            f"Target {spec.name!r}: there is no program {argv[0]!r}. Check its name and your PATH."
        )
    return CommandTarget(
        [program, *argv[1:]],
        timeout_s=context.timeout_s,
        environ=context.environ,
        max_answer_bytes=context.max_answer_bytes,
    )


def _split_command(spec: TargetSpec) -> list[str]:
    try:
        if sys.platform == "win32":
            # On Windows a backslash is part of a path.
            argv = [word.strip('"') for word in shlex.split(spec.model, posix=False)]
        else:
            argv = shlex.split(spec.model)
    except ValueError as error:
        raise UsageError(
            f"The command line of target {spec.name!r} cannot be split into words: {error}."
        ) from error
    if not argv:
        raise UsageError(f"Target {spec.name!r} names no command. Write command:PROGRAM ARGUMENTS.")
    return argv


COMMAND = TargetKind(
    name="command",
    open_target=open_target,
    syntax="command:ARGV…",
    summary="a program: prompt on stdin or as {PROMPT}, answer on stdout or in {OUTPUT_FILE}",
    enforces_timeout=True,
    is_cacheable=False,
)

"""`CodeSandbox`: runs untrusted Python where it can do no harm, and tests it where it cannot cheat.

A program runs in a process of its own under limits, without privileges, network, other processes or foreign
files (see `lockdown` and `seccomp`), in an empty folder that is removed afterwards. With `check` its tests
run in a second such process, which only exchanges plain values with it (see `child`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

from proctor.errors import UsageError
from proctor.eval.sandbox.limits import (
    PROCESS_ISOLATION_HINT,
    START_CODE,
    compute_grants,
    find_missing_support,
    load_child_modules,
    open_memory_file,
)

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from proctor.charts import Chart
    from proctor.eval.sandbox.supervisor import ProcessResult

Status = Literal["passed", "failed", "timeout", "memory", "output", "crashed"]
Isolation = Literal["kernel", "seccomp", "process"]

_MIN_MEMORY_MB = 64
"""Python itself needs about half of it."""
_FINAL_WORDS = tuple(
    f"{word}\t".encode() for word in ("unlocked", "passed", "failed", "memory", "exited", "signal", "unfit")
)
_CPU_SIGNAL = 24


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """The result of one program."""

    status: Status
    """ "passed" only if it ran to its last line and ended with exit code 0, or its tests held."""
    exit_code: int | None
    """Negative is the signal that ended it; None where the sandbox ended it, as after tests."""
    stdout: str
    stderr: str
    seconds: float
    """Wall time, with about 20 ms for the start of Python."""
    reason: str = ""
    """The reason for any status but "passed", as a clause; empty for "passed"."""

    @property
    def passed(self) -> bool:
        """Whether the status is "passed"."""
        return self.status == "passed"

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields by name, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SandboxBatch:
    """The results of many programs, in the order of the input."""

    results: tuple[SandboxResult, ...]

    def counts(self) -> dict[str, int]:
        """Returns how many programs ended with each status, every status included."""
        return {
            status: sum(result.status == status for result in self.results) for status in get_args(Status)
        }

    def chart(self) -> Chart:
        """Draws the share of programs with each status as bars."""
        from proctor.charts import Bar, bars

        total = len(self.results) or 1
        status_bars = [
            Bar(f"{status} ({number})", number / total) for status, number in self.counts().items()
        ]
        title = f"How {len(self.results)} programs ended"
        return bars(status_bars, title=title, unit="share of the programs", scale="share")


@dataclass(frozen=True, slots=True)
class CodeSandbox:
    """Runs programs under limits. Safe to use from several threads.

    Args:
        timeout_s: wall time, and as much processor time, rounded up to whole seconds.
        memory_mb: address space of each process, at least 64.
        output_limit: bytes on stdout, and as many on stderr.
        network: whether a program may open Internet sockets.
        isolation: "kernel" takes seccomp and Landlock, so Linux 5.13 on x86_64 or aarch64. "seccomp" does
            without Landlock: the program can then read and write the user's files. "process" has only limits,
            a scrubbed environment and the killing of what is left, on any POSIX system; the program can then
            also use the network and start processes.

    Raises:
        UsageError: a limit is too small, or this system does not support the isolation.
    """

    timeout_s: float = 10
    memory_mb: int = 512
    output_limit: int = 65_536
    network: bool = False
    isolation: Isolation = "kernel"

    def __post_init__(self) -> None:
        minimums = {"timeout_s": 0.01, "memory_mb": _MIN_MEMORY_MB, "output_limit": 1}
        for name, bound in minimums.items():
            if not getattr(self, name) >= bound:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least {bound}.")
        if self.isolation not in get_args(Isolation):
            choices = ", ".join(map(repr, get_args(Isolation)))
            raise UsageError(f"isolation is {self.isolation!r}; it must be one of {choices}.")
        problem = find_missing_support(self.isolation)
        if problem:
            raise UsageError(f"CodeSandbox cannot isolate programs here: {problem}.")

    @staticmethod
    def lack(isolation: Isolation = "kernel") -> str:
        """Returns what this system lacks for an isolation, as a sentence; empty if programs can run with it.

        Runs an empty program to find out (40 ms).
        """
        try:
            return CodeSandbox(isolation=isolation).run("").reason
        except UsageError as error:
            return str(error)

    def run(self, program: str, stdin: str = "") -> SandboxResult:
        """Runs a program as a script, in an empty folder.

        It passes if its last line is reached and the exit code is 0: `sys.exit(0)` before it does not pass.
        A program that looks into its own interpreter can still pretend to have ended; for code that is
        tested against its will use `check`.

        Raises:
            UsageError: the system refuses a part of the isolation.
        """
        process_result = self._run_job([program], stdin, None)
        word, _ = _parse_verdict(process_result)
        if word == "ended" and process_result.exit_code == 0:
            return _make_result("passed", process_result)
        if word == "memory" and process_result.exit_code is not None:
            return _make_result("memory", process_result, self._memory_reason())
        if process_result.exit_code == 0:
            return _make_result("failed", process_result, "it ended itself before its last line")
        return self._failure_result(process_result, _last_line(process_result.stderr))

    def check(
        self, program: str | Sequence[str], test: str, entry_point: str, *, prompt: str = ""
    ) -> SandboxResult:
        """Tests a function of a program that may be hostile: nothing it does in its process makes it pass.

        Arguments and results cross between the processes as plain values: None, bool, int, float, complex,
        str, bytes, list, tuple, dict, set, range, those of `decimal`, `fractions`, `datetime` and
        `collections`, and iterators up to 10,000 items. What the program does to a list, dictionary or set it
        was given is done to the tests' own. Functions are called where they are. An error arrives as one of
        its class, or as the nearest built-in one.

        Args:
            program: the text; of several the first that is Python counts.
            test: Python that defines `check(candidate)` or asserts by itself; it may use the functions of the
                program by their names, and what `prompt` defines.
            entry_point: the function to be tested.
            prompt: what is defined for the tests; if it ends with the head of a function, this is closed.

        Raises:
            UsageError: the tests are empty or not Python, import what is not there, or hand over an object
                that is not a plain value; or as `run`.
        """
        if not test.strip():
            raise UsageError(f"There are no tests for {entry_point!r}, so every program would pass.")
        programs = [program] if isinstance(program, str) else list(program)
        process_result = self._run_job(programs, "", (prompt, test, entry_point))
        word, reason = _parse_verdict(process_result)
        if word == "unfit":
            raise UsageError(f"The tests of {entry_point!r} cannot be run: {reason}.")
        if word == "exited":
            why = f"it ended itself with exit code {reason} before its tests were through"
            return _make_result("failed", replace(process_result, exit_code=int(reason)), why)
        if word == "signal":
            return self._failure_result(replace(process_result, exit_code=-int(reason)), "")
        if word == "memory" or (word == "failed" and reason.startswith("MemoryError")):
            return _make_result("memory", process_result, self._memory_reason())
        if word == "passed" and not process_result.stopped:
            return _make_result("passed", process_result)
        return self._failure_result(process_result, reason)

    def run_many(self, programs: Iterable[str], *, workers: int = 1) -> SandboxBatch:
        """Runs programs, up to `workers` at once; results come in the order of the input.

        Raises:
            UsageError: as `run`.
            ValueError: `workers` is below 1.
        """
        from proctor.eval.parallel import map_ordered

        with closing(map_ordered(self.run, programs, workers=workers)) as outcomes:
            return SandboxBatch(tuple(outcome.result() for outcome in outcomes))

    def _memory_reason(self) -> str:
        return f"it needed more than {self.memory_mb} MB"

    def _failure_result(self, process_result: ProcessResult, reason: str) -> SandboxResult:
        """Returns the result of a program that was stopped, was ended by a signal or failed."""
        if process_result.stopped == "timeout" or process_result.exit_code == -_CPU_SIGNAL:
            return _make_result("timeout", process_result, f"it did not end within {self.timeout_s:g} s")
        if process_result.stopped == "output":
            return _make_result("output", process_result, f"it wrote more than {self.output_limit:,} bytes")
        if process_result.stopped == "folder":
            return _make_result("output", process_result, "it filled its working folder")
        if process_result.stopped == "threads":
            return _make_result("failed", process_result, "it started too many threads")
        if (process_result.exit_code or 0) < 0:
            return _make_result(
                "crashed", process_result, f"it was ended by signal {-(process_result.exit_code or 0)}"
            )
        return _make_result(
            "failed", process_result, reason or f"it ended with exit code {process_result.exit_code}"
        )

    def _run_job(self, programs: list[str], stdin: str, tests: tuple[str, str, str] | None) -> ProcessResult:
        """Runs a job of `child` in a folder of its own; raises UsageError if it could not start."""
        import marshal
        from pathlib import Path
        from tempfile import mkdtemp

        from proctor.eval.sandbox.supervisor import remove_folder  # 20 ms with what it needs

        folder = Path(mkdtemp(prefix="proctor-sandbox-"))
        with ExitStack() as stack:
            stack.callback(remove_folder, folder)
            stdin_file = stack.enter_context(open_memory_file(stdin.encode("utf-8", "surrogatepass")))
            tests_file = (
                None if tests is None else stack.enter_context(open_memory_file(marshal.dumps(tests)))
            )
            read, write = os.pipe()
            report_reader = stack.enter_context(os.fdopen(read, "rb", buffering=0))
            report_writer = stack.enter_context(os.fdopen(write, "wb", buffering=0))
            handles: dict[str, int | None] = {
                "stdin": stdin_file.fileno(),
                "report": write,
                "tests": None if tests_file is None else tests_file.fileno(),
            }
            job = {
                "programs": programs,
                "folder": str(folder),
                **handles,
                **compute_grants(self.timeout_s, self.memory_mb, self.network, self.isolation),
            }
            job_file = stack.enter_context(open_memory_file(marshal.dumps((load_child_modules(), job))))
            process_result = self._supervise(job_file, handles, folder, (report_reader, report_writer))
        return self._check_start(process_result)

    def _supervise(
        self, job_file: IO[bytes], handles: dict[str, int | None], folder: Path, pipe: tuple[FileIO, FileIO]
    ) -> ProcessResult:
        """Starts Python with a job and waits for its end."""
        import subprocess

        from proctor.eval.sandbox.supervisor import Supervisor
        from proctor.targets.process.guard import GUARD, MARK
        from proctor.targets.process.watcher import kill_marked

        report_reader, report_writer = pipe
        final_words = () if handles["tests"] is None else _FINAL_WORDS
        mark = GUARD.new_mark()
        environ = {"HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}
        is_unlocked = self.isolation == "process"
        if is_unlocked:
            environ[MARK] = mark
        argv = [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", START_CODE]
        with ExitStack() as stack:
            process = stack.enter_context(
                subprocess.Popen(  # noqa: S603  # this Python
                    argv,
                    stdin=job_file,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[handle for handle in handles.values() if handle is not None],
                    cwd=folder,
                    env=environ,
                    start_new_session=True,
                )
            )
            stack.enter_context(GUARD.watch(process.pid))
            if is_unlocked:
                stack.callback(kill_marked, mark)
            report_writer.close()
            return Supervisor(process, report_reader.fileno(), folder, self.output_limit).wait(
                self.timeout_s, final_words
            )

    def _check_start(self, process_result: ProcessResult) -> ProcessResult:
        """Returns the result if the process could lock itself in and start; raises UsageError otherwise."""
        word, _, reason = process_result.report.decode("utf-8", "replace").partition("\n")[0].partition("\t")
        if word == "unlocked":
            raise UsageError(f"CodeSandbox cannot isolate programs here: {reason}. {PROCESS_ISOLATION_HINT}.")
        if not word and not process_result.stopped:
            message = _last_line(process_result.stderr) or "it wrote nothing"
            raise UsageError(f"CodeSandbox could not start {sys.executable}: {message}.")
        return process_result


def humaneval_run(text: str, problem: Mapping[str, Any], *, sandbox: CodeSandbox | None = None) -> bool:
    """Whether an answer to a HumanEval-style problem passes its tests; a grader for `PassAtK.score`.

    Args:
        text: the rest of the function that the prompt begins, or a whole one, perhaps in a Markdown fence.
        problem: texts: `prompt`, `test` (defines `check(candidate)`), `entry_point`, perhaps `task_id`.
        sandbox: the limits; None is `CodeSandbox()`.

    Raises:
        UsageError: the problem lacks a key, its tests cannot be run, or this system cannot isolate programs.
    """
    from proctor.eval.sandbox.humaneval import build_programs, parse_problem

    task = parse_problem(problem)
    sandbox = CodeSandbox() if sandbox is None else sandbox
    programs = build_programs(text, task)
    return sandbox.check(programs, task.test, task.entry_point, prompt=task.prompt).passed


def _parse_verdict(process_result: ProcessResult) -> tuple[str, str]:
    """Returns the word on the line after "locked" of a report, and its reason; empty if there is none.

    Only the line's place counts: the reason may come from the program.
    """
    lines = process_result.report.decode("utf-8", "replace").split("\n")
    word, _, reason = lines[1].partition("\t") if len(lines) > 1 else ("", "", "")
    return word, reason


def _make_result(status: Status, process_result: ProcessResult, reason: str = "") -> SandboxResult:
    return SandboxResult(
        status=status,
        exit_code=process_result.exit_code,
        stdout=process_result.stdout.decode("utf-8", "replace"),
        stderr=process_result.stderr.decode("utf-8", "replace"),
        seconds=process_result.seconds,
        reason=reason,
    )


def _last_line(output: bytes) -> str:
    """Returns the last line with text: Python draws a line below a group of errors."""
    lines = [line.strip(" |+-") for line in output.decode("utf-8", "replace").splitlines()]
    return next((line[:500] for line in reversed(lines) if line), "")

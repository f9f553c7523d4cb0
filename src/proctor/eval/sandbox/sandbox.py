"""Python of unknown origin, run where it can do no harm, and tested where it cannot cheat.

A program runs in a process of its own under limits, without privileges, network, other processes or foreign
files (see `lockdown` and `seccomp`), in an empty folder that is removed afterwards. With `check`
its tests run in a second such process, which only exchanges plain values with it (see `child`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from typing import IO, TYPE_CHECKING, Any, Literal, get_args

from proctor.errors import UsageError
from proctor.eval.sandbox.limits import BEGIN, WAY_OUT, file_of, grants_of, lack_of, modules_inside

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

    from proctor.charts import Chart
    from proctor.eval.sandbox.supervisor import Watched

Status = Literal["passed", "failed", "timeout", "memory", "output", "crashed"]
Isolation = Literal["kernel", "seccomp", "process"]

MEMORY_LEAST_MB = 64
"""Python itself needs about half of it."""
_FINAL = tuple(
    f"{word}\t".encode() for word in ("unlocked", "passed", "failed", "memory", "exited", "signal", "unfit")
)
_CPU_SIGNAL = 24


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What became of one program."""

    status: Status
    """ "passed" only if it ran to its last line and ended with exit code 0, or its tests held."""
    exit_code: int | None
    """Negative is the signal that ended it; None where the sandbox ended it, as after tests."""
    stdout: str
    stderr: str
    seconds: float
    """Wall time, with about 20 ms for the start of Python."""
    reason: str = ""
    """Why it did not pass, as a clause; empty for one that did."""

    @property
    def passed(self) -> bool:
        """Whether the status is "passed"."""
        return self.status == "passed"

    def to_dict(self) -> dict[str, Any]:
        """The fields by their names, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SandboxBatch:
    """Many programs that were run, in the order in which they were given."""

    results: tuple[SandboxResult, ...]

    def counts(self) -> dict[str, int]:
        """How many ended with each status, every status named."""
        return {status: sum(one.status == status for one in self.results) for status in get_args(Status)}

    def chart(self) -> Chart:
        """The share that ended with each status."""
        from proctor.charts import Bar, bars

        whole = len(self.results) or 1
        drawn = [Bar(f"{status} ({number})", number / whole) for status, number in self.counts().items()]
        title = f"How {len(self.results)} programs ended"
        return bars(drawn, title=title, unit="share of the programs", scale="share")


@dataclass(frozen=True, slots=True)
class CodeSandbox:
    """Limits under which programs are run. Thread-safe: it holds nothing else.

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
        UsageError: a limit makes no sense, or this system cannot do what is asked for.
    """

    timeout_s: float = 10
    memory_mb: int = 512
    output_limit: int = 65_536
    network: bool = False
    isolation: Isolation = "kernel"

    def __post_init__(self) -> None:
        least = {"timeout_s": 0.01, "memory_mb": MEMORY_LEAST_MB, "output_limit": 1}
        for name, bound in least.items():
            if not getattr(self, name) >= bound:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least {bound}.")
        if self.isolation not in get_args(Isolation):
            known = ", ".join(map(repr, get_args(Isolation)))
            raise UsageError(f"isolation is {self.isolation!r}; it must be one of {known}.")
        lack = lack_of(self.isolation)
        if lack:
            raise UsageError(f"CodeSandbox cannot isolate programs here: {lack}.")

    @staticmethod
    def lack(isolation: Isolation = "kernel") -> str:
        """What this system lacks for an isolation, as a sentence; empty where programs can be run with it.

        It is tried out on an empty program (40 ms).
        """
        try:
            return CodeSandbox(isolation=isolation).run("").reason
        except UsageError as error:
            return str(error)

    def run(self, program: str, stdin: str = "") -> SandboxResult:
        """Run a program as a script, in an empty folder.

        It passes if its last line is reached and the exit code is 0: `sys.exit(0)` before it does not pass.
        A program that looks into its own interpreter can still pretend to have ended; for code that is
        tested against its will use `check`.

        Raises:
            UsageError: the system refuses a part of the isolation.
        """
        watched = self._watched([program], stdin, None)
        word, _ = _verdict(watched)
        if word == "ended" and watched.exit_code == 0:
            return _result("passed", watched)
        if word == "memory" and watched.exit_code is not None:
            return _result("memory", watched, self._memory())
        if watched.exit_code == 0:
            return _result("failed", watched, "it ended itself before its last line")
        return self._ended(watched, _last_line(watched.stderr))

    def check(
        self, program: str | Sequence[str], test: str, entry_point: str, *, prompt: str = ""
    ) -> SandboxResult:
        """Test a function of a program that may be hostile: nothing it does in its process makes it pass.

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
                that is no plain value; or as `run`.
        """
        if not test.strip():
            raise UsageError(f"There are no tests for {entry_point!r}; every program would pass them.")
        programs = [program] if isinstance(program, str) else list(program)
        watched = self._watched(programs, "", (prompt, test, entry_point))
        word, reason = _verdict(watched)
        if word == "unfit":
            raise UsageError(f"The tests of {entry_point!r} cannot be run: {reason}.")
        if word == "exited":
            told = f"it ended itself with exit code {reason} before its tests were through"
            return _result("failed", replace(watched, exit_code=int(reason)), told)
        if word == "signal":
            return self._ended(replace(watched, exit_code=-int(reason)), "")
        if word == "memory" or (word == "failed" and reason.startswith("MemoryError")):
            return _result("memory", watched, self._memory())
        if word == "passed" and not watched.stopped:
            return _result("passed", watched)
        return self._ended(watched, reason)

    def run_many(self, programs: Iterable[str], *, workers: int = 1) -> SandboxBatch:
        """Run programs, up to `workers` at once; results come in the order given.

        Raises:
            UsageError: as `run`.
            ValueError: `workers` is below 1.
        """
        from proctor.eval.parallel import in_order

        with closing(in_order(self.run, programs, workers=workers)) as outcomes:
            return SandboxBatch(tuple(outcome.result() for outcome in outcomes))

    def _memory(self) -> str:
        return f"it needed more than {self.memory_mb} MB"

    def _ended(self, watched: Watched, reason: str) -> SandboxResult:
        """The result of a program that was stopped, was ended by a signal or simply failed."""
        if watched.stopped == "timeout" or watched.exit_code == -_CPU_SIGNAL:
            return _result("timeout", watched, f"it did not end within {self.timeout_s:g} s")
        if watched.stopped == "output":
            return _result("output", watched, f"it wrote more than {self.output_limit:,} bytes")
        if watched.stopped == "folder":
            return _result("output", watched, "it filled its working folder")
        if watched.stopped == "threads":
            return _result("failed", watched, "it started too many threads")
        if (watched.exit_code or 0) < 0:
            return _result("crashed", watched, f"it was ended by signal {-(watched.exit_code or 0)}")
        return _result("failed", watched, reason or f"it ended with exit code {watched.exit_code}")

    def _watched(self, programs: list[str], stdin: str, tests: tuple[str, str, str] | None) -> Watched:
        """Run a job of `child` in a folder of its own; raises UsageError if it could not begin."""
        import marshal
        from pathlib import Path
        from tempfile import mkdtemp

        from proctor.eval.sandbox.supervisor import remove_folder  # 20 ms with what it needs

        folder = Path(mkdtemp(prefix="proctor-sandbox-"))
        with ExitStack() as opened:
            opened.callback(remove_folder, folder)
            given = opened.enter_context(file_of(stdin.encode("utf-8", "surrogatepass")))
            kept = None if tests is None else opened.enter_context(file_of(marshal.dumps(tests)))
            read, write = os.pipe()
            report = opened.enter_context(os.fdopen(read, "rb", buffering=0))
            told = opened.enter_context(os.fdopen(write, "wb", buffering=0))
            handles: dict[str, int | None] = {
                "stdin": given.fileno(),
                "report": write,
                "tests": None if kept is None else kept.fileno(),
            }
            job = {
                "programs": programs,
                "folder": str(folder),
                **handles,
                **grants_of(self.timeout_s, self.memory_mb, self.network, self.isolation),
            }
            begun = opened.enter_context(file_of(marshal.dumps((modules_inside(), job))))
            watched = self._run(begun, handles, folder, (report, told))
        return self._begun(watched)

    def _run(
        self, begun: IO[bytes], handles: dict[str, int | None], folder: Path, pipe: tuple[FileIO, FileIO]
    ) -> Watched:
        """Start Python on a job and watch it to its end."""
        import subprocess

        from proctor.eval.sandbox.supervisor import Watch
        from proctor.targets.process.guard import GUARD, MARK
        from proctor.targets.process.watcher import kill_marked

        report, told = pipe
        final = () if handles["tests"] is None else _FINAL
        mark = GUARD.new_mark()
        environ = {"HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8"}
        unlocked = self.isolation == "process"
        if unlocked:
            environ[MARK] = mark
        argv = [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", BEGIN]
        with ExitStack() as opened:
            process = opened.enter_context(
                subprocess.Popen(  # noqa: S603  # this Python
                    argv,
                    stdin=begun,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    pass_fds=[handle for handle in handles.values() if handle is not None],
                    cwd=folder,
                    env=environ,
                    start_new_session=True,
                )
            )
            opened.enter_context(GUARD.watch(process.pid))
            if unlocked:
                opened.callback(kill_marked, mark)
            told.close()
            return Watch(process, report.fileno(), folder, self.output_limit).wait(self.timeout_s, final)

    def _begun(self, watched: Watched) -> Watched:
        """The same, if the process could lock itself in and begin."""
        word, _, reason = watched.report.decode("utf-8", "replace").partition("\n")[0].partition("\t")
        if word == "unlocked":
            raise UsageError(f"CodeSandbox cannot isolate programs here: {reason}. {WAY_OUT}.")
        if not word and not watched.stopped:
            said = _last_line(watched.stderr) or "it said nothing"
            raise UsageError(f"CodeSandbox could not start {sys.executable}: {said}.")
        return watched


def humaneval_run(text: str, problem: Mapping[str, Any], *, sandbox: CodeSandbox | None = None) -> bool:
    """Whether an answer to a HumanEval-style problem passes its tests; a grader for `PassAtK.score`.

    Args:
        text: the rest of the function that the prompt begins, or a whole one, perhaps in a Markdown fence.
        problem: texts: `prompt`, `test` (defines `check(candidate)`), `entry_point`, perhaps `task_id`.
        sandbox: the limits; None is `CodeSandbox()`.

    Raises:
        UsageError: the problem lacks a key, its tests cannot be run, or this system cannot isolate programs.
    """
    from proctor.eval.sandbox.humaneval import problem_of, programs_of

    asked = problem_of(problem)
    judge = CodeSandbox() if sandbox is None else sandbox
    programs = programs_of(text, asked)
    return judge.check(programs, asked.test, asked.entry_point, prompt=asked.prompt).passed


def _verdict(watched: Watched) -> tuple[str, str]:
    """The word that stands after "locked" in a report, with what it says besides; empty for none.

    Only the line's place counts: what it says besides may come from the program.
    """
    lines = watched.report.decode("utf-8", "replace").split("\n")
    word, _, reason = lines[1].partition("\t") if len(lines) > 1 else ("", "", "")
    return word, reason


def _result(status: Status, watched: Watched, reason: str = "") -> SandboxResult:
    return SandboxResult(
        status=status,
        exit_code=watched.exit_code,
        stdout=watched.stdout.decode("utf-8", "replace"),
        stderr=watched.stderr.decode("utf-8", "replace"),
        seconds=watched.seconds,
        reason=reason,
    )


def _last_line(output: bytes) -> str:
    """The last line that says something: a group of errors is drawn with a line below it."""
    lines = [line.strip(" |+-") for line in output.decode("utf-8", "replace").splitlines()]
    return next((line[:500] for line in reversed(lines) if line), "")

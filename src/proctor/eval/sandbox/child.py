"""What runs inside the sandbox: a whole program, or a program in one process and its tests in another.

The tests are never in the process of the program. They call it through pipes that carry only plain values,
and only their process has the handle for the verdict. So the program can reach nothing that it could read,
patch or print to pass. Imports only the standard library.
"""

from __future__ import annotations

import builtins
import marshal
import os
import sys
from errno import ENOMEM

from proctor.eval.sandbox.calls import ERROR, INVALID_DATA, VALUE, CallChannel, ChannelClosed, rebuild_error
from proctor.eval.sandbox.lockdown import CannotLock, apply_lockdown, protect_process, set_parent_death_signal
from proctor.eval.sandbox.wire import NotPlain

TYPE_CHECKING = False  # importing `typing` would take longer than starting Python
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import Any, NoReturn

_MAX_REASON_LENGTH = 1_000


class ProgramEnded(ChannelClosed):
    """The program has ended; the arguments are a word for the verdict, and its reason."""


class UnusableTests(ChannelClosed):
    """The tests cannot be run in this way; the text says why."""


def main(job: dict[str, Any]) -> None:
    """Runs a job: of the texts in `programs` the first that is Python is used.

    `stdin`, `report` and `tests` are handles; the last is None for a program without tests. The other keys
    are those of `lockdown.apply_lockdown`.
    """
    set_parent_death_signal()
    os.dup2(job["stdin"], 0)
    os.close(job["stdin"])
    sys.argv = ["program"]
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # else made by `site`
    if job["tests"] is None:
        _run_program(job)
    else:
        _run_with_tests(job)


def _report(job: dict[str, Any], word: str, reason: str = "") -> None:
    """Writes a verdict: one line, in one write."""
    line = f"{word}\t{reason[:_MAX_REASON_LENGTH]}".replace("\n", " ") + "\n"
    os.write(job["report"], line.encode("utf-8", "replace"))


def _run_program(job: dict[str, Any]) -> None:
    try:
        apply_lockdown(job)
    except CannotLock as error:
        _report(job, "unlocked", str(error))
        return
    _report(job, "locked", str(os.getpid()))
    try:
        code = _compile_first(job["programs"])
        exec(code, _make_module("__main__"))  # noqa: S102  # what the sandbox is for
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  # it is printed, and ends the program
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
            _report(job, "memory")
        _print_error(error)
        sys.exit(1)
    _report(job, "ended")


def _run_with_tests(job: dict[str, Any]) -> None:
    protect_process()
    to_program, to_tests = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for handle in (job["report"], job["tests"], to_program[1], to_tests[0]):
            os.close(handle)
        set_parent_death_signal()
        _serve_calls(job, to_program[0], to_tests[1])
    os.close(to_program[0])
    os.close(to_tests[1])
    _run_tests(job, _ProgramChannel(child, to_tests[0], to_program[1]))


# --- the program's side ------------------------------------------------------------------------------------


class _TestsChannel(CallChannel):
    """The tests in the other process, as the program's side sees them."""

    def send(self, kind: bytes, value: Any, shared: Iterable[Any] = ()) -> list[Any]:
        """Sends as `CallChannel.send`; flushes the output first, as this process may be killed next."""
        _flush()
        return super().send(kind, value, shared)


def _serve_calls(job: dict[str, Any], requests: int, replies: int) -> NoReturn:
    tests = _TestsChannel(requests, replies)
    try:
        apply_lockdown(job)
        tests.send(VALUE, "locked")
    except CannotLock as error:
        tests.send(ERROR, str(error))
        os._exit(1)
    try:
        names = _make_module("candidate")
        exec(_compile_first(job["programs"]), names)  # noqa: S102  # what the sandbox is for
        tests.send(VALUE, {name: value for name, value in names.items() if callable(value)})
    except BaseException as error:  # noqa: BLE001  # it is sent
        _print_error(error)
        tests.send(ERROR, tests.describe_error(error))
        os._exit(1)
    while True:
        try:
            _, content = tests.receive()
        except ChannelClosed:
            os._exit(0)
        tests.answer(content)


def _compile_first(programs: list[str]) -> CodeType:
    """Compiles the first text that is Python; raises the error of the first text if none is."""
    first_error: Exception | None = None
    for program in programs:
        try:
            return compile(program, "<program>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error


def _make_module(name: str) -> dict[str, Any]:
    module = sys.modules[name] = type(sys)(name)
    return module.__dict__


def _print_error(error: BaseException) -> None:
    """Prints an error as Python does, with the frames of the program only."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != "<program>":
        trace = trace.tb_next
    sys.__excepthook__(type(error), error.with_traceback(trace), trace)
    _flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105  # `contextlib` takes long to import
            stream.flush()
        except BaseException:  # noqa: BLE001, S110  # the program may have closed or replaced it
            pass


# --- the tests' side ---------------------------------------------------------------------------------------


class _ProgramChannel(CallChannel):
    """The program in the other process, as the tests see it."""

    def __init__(self, pid: int, replies: int, requests: int) -> None:
        super().__init__(replies, requests)
        self.pid = pid
        self.end_error: ChannelClosed | None = None
        """Why no more calls were possible, also if the tests caught the error."""

    def read_reply(self) -> tuple[bytes, Any]:
        """Returns the kind and the value of the next frame.

        Raises:
            ProgramEnded: there is no more frame.
        """
        try:
            kind, content = self.receive()
            return kind, self.read(content)[0]
        except ChannelClosed as error:
            raise self._find_end(error) from None

    def load_functions(self) -> dict[Any, Any]:
        """Returns what the program defines, once it is loaded; raises the error that ended its loading."""
        kind, value = self.read_reply()
        if kind == ERROR:
            raise rebuild_error(value)
        if not isinstance(value, dict):
            raise ProgramEnded("failed", INVALID_DATA)
        return value

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls as `CallChannel.call`; after `ProgramEnded` or `UnusableTests` no more call is possible."""
        if self.end_error is None:
            try:
                return super().call(number, args, kwargs)
            except NotPlain as error:
                rule = "and only plain values and functions enter the sandbox"
                self.end_error = UnusableTests(
                    f"they hand {error} to the program, {rule}. Append them to it and use run()"
                )
            except ChannelClosed as error:
                self.end_error = self.end_error or self._find_end(error)
        raise self.end_error from None

    def _find_end(self, error: ChannelClosed) -> ProgramEnded:
        """Returns how a program ended that does not answer."""
        import time

        if error.args:
            return ProgramEnded("failed", *error.args)
        for _ in range(100):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return ProgramEnded("signal", str(-code)) if code < 0 else ProgramEnded("exited", str(code))
            time.sleep(0.002)
        return ProgramEnded("failed", "the program closed its channel")


def _run_tests(job: dict[str, Any], program: _ProgramChannel) -> None:
    """Runs the tests and reports the verdict."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    with os.fdopen(job["tests"], "rb") as file:
        prompt, tests, entry_point = marshal.load(file)  # noqa: S302  # the caller's own
    try:
        apply_lockdown(job)
    except CannotLock as error:
        _report(job, "unlocked", str(error))
        return
    try:
        _wait_for_lock(program)
        _report(job, "locked", str(program.pid))
        _call_tests(program, prompt, tests, entry_point)
        verdict, reason = "passed", ""
    except ProgramEnded as end:
        verdict, reason = end.args
    except UnusableTests as error:
        verdict, reason = "unfit", str(error)
    except CannotLock as error:
        verdict, reason = "unlocked", str(error)
    except MemoryError:
        verdict, reason = "memory", ""
    except BaseException as error:  # noqa: BLE001  # a test that does not hold
        verdict, reason = "failed", _describe_failure(error)
    _report(job, verdict, reason)
    os._exit(0)


def _wait_for_lock(program: _ProgramChannel) -> None:
    kind, why = program.read_reply()
    if kind == ERROR:
        raise CannotLock(why)


def _call_tests(program: _ProgramChannel, prompt: str, tests: str, entry_point: str) -> None:
    try:
        code = compile(tests, "<tests>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise UnusableTests(f"they are not Python: {error}") from None
    try:
        names = program.classes = _define_helpers(prompt)  # while the program is loading
        functions = program.load_functions()
        if entry_point not in functions:
            raise ProgramEnded("failed", f"the program defines no function {entry_point}")
        for name in functions.keys() - {"check", *vars(builtins)}:
            names.setdefault(name, functions[name])
        names[entry_point] = functions[entry_point]
        exec(code, names)  # noqa: S102  # the problem's own tests
        check = names.get("check")
        if callable(check) and check is not functions.get("check"):
            check(names[entry_point])
    except ModuleNotFoundError as error:
        if error.name is not None:  # an error of the program comes without it
            raise UnusableTests(
                f"they or the prompt import {error.name}, and there are no packages in the sandbox"
            ) from None
        raise
    if program.end_error is not None:
        raise program.end_error


def _define_helpers(prompt: str) -> dict[str, Any]:
    """Returns the names that the prompt defines, for tests that use them; a prompt in prose defines none."""
    names = _make_module("tests")
    for text in (prompt, prompt + "\n    pass\n"):
        try:
            code = compile(text, "<prompt>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        exec(code, names)  # noqa: S102  # the problem's own
        break
    return names


def _describe_failure(error: BaseException) -> str:
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            line = trace.tb_lineno
        trace = trace.tb_next
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{text} (line {line} of the tests)" if line else text

"""What runs inside the sandbox: a whole program, or a program in one process and its tests in another.

The tests are never in the process of the program. They call it through pipes, over which come only plain
values, and only their process has the handle on which a verdict is told. So there is nothing in the program's
reach that could be read, patched or printed to make it pass. This imports nothing but the standard library.
"""

from __future__ import annotations

import builtins
import marshal
import os
import sys
from errno import ENOMEM

from proctor.eval.sandbox.calls import ERROR, NONSENSE, VALUE, Ended, Line, error_of
from proctor.eval.sandbox.lockdown import CannotLock, die_with_parent, lock, protect
from proctor.eval.sandbox.wire import NotPlain

TYPE_CHECKING = False  # importing `typing` would take longer than starting Python
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType
    from typing import Any, NoReturn

_SAID_MOST = 1_000


class Gone(Ended):
    """The program cannot answer any more; made of a word for the verdict and what it says besides."""


class Unfit(Ended):
    """The tests are not of a kind that can be run in this way; the text says why."""


def main(job: dict[str, Any]) -> None:
    """Run a job: `programs` are texts of which the first that is Python counts.

    `stdin`, `report` and `tests` are handles; the last is None for a program that runs by itself. The other
    keys are those of `lock`.
    """
    die_with_parent()
    os.dup2(job["stdin"], 0)
    os.close(job["stdin"])
    sys.argv = ["program"]
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # else made by `site`
    if job["tests"] is None:
        _run(job)
    else:
        _check(job)


def _say(job: dict[str, Any], word: str, reason: str = "") -> None:
    """Tell a verdict: one line, written at once."""
    line = f"{word}\t{reason[:_SAID_MOST]}".replace("\n", " ") + "\n"
    os.write(job["report"], line.encode("utf-8", "replace"))


def _run(job: dict[str, Any]) -> None:
    try:
        lock(job)
    except CannotLock as error:
        _say(job, "unlocked", str(error))
        return
    _say(job, "locked", str(os.getpid()))
    try:
        code = _compiled(job["programs"])
        exec(code, _module("__main__"))  # noqa: S102  # what the sandbox is for
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001  # it is shown, and ends the program
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
            _say(job, "memory")
        _show(error)
        sys.exit(1)
    _say(job, "ended")


def _check(job: dict[str, Any]) -> None:
    protect()
    to_program, to_tests = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for handle in (job["report"], job["tests"], to_program[1], to_tests[0]):
            os.close(handle)
        die_with_parent()
        _serve(job, to_program[0], to_tests[1])
    os.close(to_program[0])
    os.close(to_tests[1])
    _judge(job, _Program(child, to_tests[0], to_program[1]))


# --- the program's side ------------------------------------------------------------------------------------


class _Tests(Line):
    """The tests in the other process, as the program's side sees them."""

    def send(self, kind: bytes, value: Any, shared: Iterable[Any] = ()) -> list[Any]:
        """As `Line.send`, after which this process may be ended."""
        _flush()
        return super().send(kind, value, shared)


def _serve(job: dict[str, Any], requests: int, replies: int) -> NoReturn:
    tests = _Tests(requests, replies)
    try:
        lock(job)
        tests.send(VALUE, "locked")
    except CannotLock as error:
        tests.send(ERROR, str(error))
        os._exit(1)
    try:
        names = _module("candidate")
        exec(_compiled(job["programs"]), names)  # noqa: S102  # what the sandbox is for
        tests.send(VALUE, {name: value for name, value in names.items() if callable(value)})
    except BaseException as error:  # noqa: BLE001  # it is told
        _show(error)
        tests.send(ERROR, tests.told(error))
        os._exit(1)
    while True:
        try:
            _, content = tests.receive()
        except Ended:
            os._exit(0)
        tests.answer(content)


def _compiled(programs: list[str]) -> CodeType:
    """The first of the texts that is Python; raises what Python says of the first one if none is."""
    refused: Exception | None = None
    for program in programs:
        try:
            return compile(program, "<program>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError) as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _module(name: str) -> dict[str, Any]:
    module = sys.modules[name] = type(sys)(name)
    return module.__dict__


def _show(error: BaseException) -> None:
    """Print an error as Python does, from the program's first line on."""
    behind = error.__traceback__
    while behind is not None and behind.tb_frame.f_code.co_filename != "<program>":
        behind = behind.tb_next
    sys.__excepthook__(type(error), error.with_traceback(behind), behind)
    _flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:  # noqa: SIM105  # `contextlib` takes long to import
            stream.flush()
        except BaseException:  # noqa: BLE001, S110  # the program may have closed or replaced it
            pass


# --- the tests' side ---------------------------------------------------------------------------------------


class _Program(Line):
    """The program in the other process, as the tests see it."""

    def __init__(self, pid: int, replies: int, requests: int) -> None:
        super().__init__(replies, requests)
        self.pid = pid
        self.ended: Ended | None = None
        """Why there were no more calls, also if the tests took it for an error of the program."""

    def reply(self) -> tuple[bytes, Any]:
        """The kind and the value of the next frame.

        Raises:
            Gone: there is none.
        """
        try:
            kind, content = self.receive()
            return kind, self.read(content)[0]
        except Ended as error:
            raise self._gone(error) from None

    def functions(self) -> dict[Any, Any]:
        """What the program defines, as soon as it has been loaded; raises the error that ended this."""
        kind, value = self.reply()
        if kind == ERROR:
            raise error_of(value)
        if not isinstance(value, dict):
            raise Gone("failed", NONSENSE)
        return value

    def call(self, number: int, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """As `Line.call`; nothing can be called any more after this has raised `Gone` or `Unfit`."""
        if self.ended is None:
            try:
                return super().call(number, given, named)
            except NotPlain as error:
                told = "and only plain values and functions enter the sandbox"
                self.ended = Unfit(
                    f"they hand {error} to the program, {told}. Append them to it and use run()"
                )
            except Ended as error:
                self.ended = self.ended or self._gone(error)
        raise self.ended from None

    def _gone(self, error: Ended) -> Gone:
        """What became of a program that does not answer."""
        import time

        if error.args:
            return Gone("failed", *error.args)
        for _ in range(100):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return Gone("signal", str(-code)) if code < 0 else Gone("exited", str(code))
            time.sleep(0.002)
        return Gone("failed", "the program closed its channel")


def _judge(job: dict[str, Any], program: _Program) -> None:
    """Run the tests and tell the verdict."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    with os.fdopen(job["tests"], "rb") as file:
        prompt, tests, entry_point = marshal.load(file)  # noqa: S302  # the caller's own
    try:
        lock(job)
    except CannotLock as error:
        _say(job, "unlocked", str(error))
        return
    try:
        _begin(program)
        _say(job, "locked", str(program.pid))
        _test(program, prompt, tests, entry_point)
        verdict, reason = "passed", ""
    except Gone as gone:
        verdict, reason = gone.args
    except Unfit as unfit:
        verdict, reason = "unfit", str(unfit)
    except CannotLock as error:
        verdict, reason = "unlocked", str(error)
    except MemoryError:
        verdict, reason = "memory", ""
    except BaseException as error:  # noqa: BLE001  # a test that does not hold
        verdict, reason = "failed", _reason(error)
    _say(job, verdict, reason)
    os._exit(0)


def _begin(program: _Program) -> None:
    kind, why = program.reply()
    if kind == ERROR:
        raise CannotLock(why)


def _test(program: _Program, prompt: str, tests: str, entry_point: str) -> None:
    try:
        code = compile(tests, "<tests>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise Unfit(f"they are not Python: {error}") from None
    try:
        names = program.classes = _helpers(prompt)  # while the program is loading
        functions = program.functions()
        if entry_point not in functions:
            raise Gone("failed", f"the program defines no function {entry_point}")
        for name in functions.keys() - {"check", *vars(builtins)}:
            names.setdefault(name, functions[name])
        names[entry_point] = functions[entry_point]
        exec(code, names)  # noqa: S102  # the problem's own tests
        check = names.get("check")
        if callable(check) and check is not functions.get("check"):
            check(names[entry_point])
    except ModuleNotFoundError as error:
        if error.name is not None:  # an error of the program comes without it
            raise Unfit(
                f"they or the prompt import {error.name}, and there are no packages in the sandbox"
            ) from None
        raise
    if program.ended is not None:
        raise program.ended


def _helpers(prompt: str) -> dict[str, Any]:
    """What the prompt itself defines, for tests that use it; a prompt that is prose defines nothing."""
    names = _module("tests")
    for text in (prompt, prompt + "\n    pass\n"):
        try:
            code = compile(text, "<prompt>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        exec(code, names)  # noqa: S102  # the problem's own
        break
    return names


def _reason(error: BaseException) -> str:
    line, behind = 0, error.__traceback__
    while behind is not None:
        if behind.tb_frame.f_code.co_filename == "<tests>":
            line = behind.tb_lineno
        behind = behind.tb_next
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{said} (line {line} of the tests)" if line else said

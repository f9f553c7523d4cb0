"""Handles signals: the command line ends with one sentence and exit code 2, at any moment.

1. While modules are imported (`exit_at_signals`) nothing is open, and the process exits at once. An exception
   would not work, as callbacks of importlib swallow it.
2. While a command runs (`raise_at_signals`) a signal raises KeyboardInterrupt. The event loop of a run has
   handlers of its own (`run_and_report.watch_signals`).
3. Once the exit code is known (`keep_exit_code`) a signal no longer changes it.
"""

import _thread
import atexit
import os
import sys
from _signal import SIG_IGN, SIGINT, SIGTERM, default_int_handler, getsignal, signal

TYPE_CHECKING = False  # not from `typing`, which takes long to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_SIGNALS = [SIGINT, SIGTERM]
if sys.platform != "win32":
    from _signal import ITIMER_REAL, SIGALRM, SIGHUP, setitimer

    _SIGNALS.append(SIGHUP)

_EXIT_CODE = 2
"""The value of `errors.ExitCode.INTERRUPTED`, which is not imported yet."""

_MAX_SHUTDOWN_S = 1.0
"""How long the interpreter may take to end after a signal."""

_REPEAT_S = 0.005
"""Delay before a lost signal is sent again."""

JSON_LISTS: dict[str, tuple[str, ...]] = {
    "run": ("runs",),
    "regrade": ("runs",),
    "runs": ("runs",),
    "validate": ("files",),
    "compare": ("runs", "comparisons"),
    "store": ("problems", "items"),
    "verify": ("bundles",),
    "keys": ("keys",),
    "bench": ("benches",),
    "passk": ("passk",),
    "trajectories": ("trajectories",),
}
"""The lists in the JSON output of each command, empty after an error; other commands have none."""

_handled_signals: list[int] = []
"""The signals that end this process; empty if the command line was called from another program."""


def exit_at_signals() -> None:
    """Exits at once at a signal, except signals that were ignored at startup, as by `nohup`."""
    _handled_signals.extend(number for number in _SIGNALS if getsignal(number) != SIG_IGN)
    for number in _handled_signals:
        signal(number, _exit_now)
    # On exit the interpreter restores the default handlers, except for ignored signals.
    # What is registered first is called last.
    atexit.register(_ignore_signals)


def raise_at_signals() -> None:
    """Raises KeyboardInterrupt in the main thread at a signal."""
    for number in _handled_signals:
        signal(number, default_int_handler)  # asyncio knows this handler, and cancels its task instead
    if _handled_signals and sys.platform != "win32":
        sys.unraisablehook = _repeat_if_lost


def keep_exit_code(code: int) -> None:
    """Fixes the exit code; a later signal only limits how long the exit may take.

    Output after this call may be cut off.
    """
    if not _handled_signals:
        return
    # After an interrupt within `exec`, as in `namedtuple`, Python kills itself with the signal even if the
    # interrupt was caught. The next `exec` clears that.
    exec("")  # noqa: S102
    if sys.platform == "win32":
        _ignore_signals()
        return

    def hurry(_number: int, _frame: "FrameType | None") -> None:
        _ignore_signals()
        setitimer(ITIMER_REAL, _MAX_SHUTDOWN_S, _REPEAT_S)  # a thread that begins to wait may miss the first

    for number in _SIGNALS:
        if getsignal(number) != SIG_IGN:
            signal(number, hurry)
    setitimer(ITIMER_REAL, 0)
    signal(SIGALRM, lambda _number, _frame: os._exit(code))


def interrupted_json(arguments: "Sequence[str]") -> str:
    """Returns the JSON output of an interrupted command; `json` may be half imported."""
    lists = "".join(f'"{name}": [], ' for name in JSON_LISTS.get(arguments[0], ()))
    return (
        f'{{{lists}"errors": [{{"path": null, "line": null, "field": null, "case": null, "code": "usage", '
        f'"message": "Interrupted."}}], "exit_code": {_EXIT_CODE}}}'
    )


def _exit_now(_number: int, _frame: "FrameType | None") -> None:
    try:
        if "--json" in sys.argv:
            os.write(1, interrupted_json(sys.argv[1:]).encode() + b"\n")
    finally:
        try:
            os.write(2, b"Interrupted.\n")
        finally:
            os._exit(_EXIT_CODE)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal(number, SIG_IGN)
    if sys.platform != "win32":
        setitimer(ITIMER_REAL, 0)


def _repeat_if_lost(unraisable: "sys.UnraisableHookArgs") -> None:
    """Sends a signal again whose KeyboardInterrupt hit code that cannot raise, such as `__del__`."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(_resend_signal, ())
    else:
        sys.__unraisablehook__(unraisable)


def _resend_signal() -> None:
    from time import sleep

    sleep(_REPEAT_S)
    os.kill(os.getpid(), _handled_signals[0])

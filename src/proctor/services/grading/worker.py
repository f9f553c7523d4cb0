"""The worker process for graders: `python -m proctor.services.grading.worker`.

It reads jobs from stdin and writes results to stdout, each as its length in eight bytes and a pickle. Both
ends are Proctor, and model output is only ever text in a job. The system ends the process when a job exceeds
its processor time, whatever code it runs, and when its parent ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from typing import IO, Any

LENGTH_BYTES = 8
_SET_PARENT_DEATH_SIGNAL = 1


def main() -> None:
    """Runs jobs until stdin ends."""
    # What a grader prints must not be part of a reply.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    _set_parent_death_signal()
    while (job := read_message(sys.stdin.buffer)) is not None:
        write_message(replies, _run_job(job))


def _set_parent_death_signal() -> None:
    """Makes Linux end this process with its parent; elsewhere it ends after its job, when stdin is closed."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _run_job(job: bytes) -> bytes:
    """Runs a job, and returns a pickle of `(True, value)` or `(False, error)`."""
    limited = hasattr(signal, "setitimer")
    try:
        limit_s, work, arguments = pickle.loads(job)  # noqa: S301  # from the parent
        if limited:
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, limit_s)
        return pickle.dumps((True, work(*arguments)))
    except Exception as error:  # noqa: BLE001  # the parent adds the name of the grader
        return pickle.dumps((False, traceback.format_exception_only(error)[-1].strip()))
    finally:
        if limited:
            signal.setitimer(signal.ITIMER_PROF, 0)


def read_message(stream: IO[bytes]) -> bytes | None:
    """Reads the next message; None at the end."""
    length = stream.read(LENGTH_BYTES)
    if len(length) < LENGTH_BYTES:
        return None
    data = stream.read(int.from_bytes(length))
    return data if len(data) == int.from_bytes(length) else None


def write_message(stream: IO[bytes], data: bytes) -> None:
    """Writes one message."""
    stream.write(len(data).to_bytes(LENGTH_BYTES))
    stream.write(data)
    stream.flush()


def ended_by_limit(exit_code: int | None) -> bool:
    """Whether a worker's exit code says that a job took too long."""
    return hasattr(signal, "SIGPROF") and exit_code == -signal.SIGPROF


def dump_job(limit_s: float, work: Any, arguments: tuple[Any, ...]) -> bytes:
    """Encodes a job: its processor time, a module-level function and its arguments."""
    return pickle.dumps((limit_s, work, arguments))


def load_result(message: bytes) -> tuple[bool, Any]:
    """Decodes a reply: whether the job succeeded, and its value or error text."""
    ended_well, value = pickle.loads(message)  # noqa: S301  # from a worker of ours
    return ended_well, value


if __name__ == "__main__":
    main()

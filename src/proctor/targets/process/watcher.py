"""Ends the programs of a process that was killed; runs as a separate process.

`guard` starts it by its source text, so it imports only the standard library. It reads lines from stdin:
first the prefix of the marks, then `+ID` when the group of a program starts, `-ID` when the group has ended,
and `end` when its parent ends by itself. When stdin ends, it kills the groups that are left. If there was no
`end`, it also kills every process that has inherited a mark, whatever its group (Linux).
"""

import os
import signal
import sys
from time import monotonic, sleep

MARK = "PROCTOR_PROGRAM"
"""The environment variable that identifies the descendants of a program."""
DEFAULT_ROUNDS = 3
MAX_ROUNDS = 1_000
MAX_PATIENCE_S = 5.0
_PAUSE_S = 0.05


def main() -> None:
    """Reads until stdin ends, then kills what is left."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    prefix = sys.stdin.buffer.readline().strip().decode("ascii")
    groups: set[int] = set()
    has_ended = False
    for line in sys.stdin.buffer:
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        elif line.startswith(b"-"):
            groups.discard(int(line[1:]))
        else:
            has_ended = line == b"end\n"
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:  # it has ended
            continue
    if prefix and not has_ended:
        kill_marked(f"{prefix}.", MAX_ROUNDS, MAX_PATIENCE_S)


def kill_marked(prefix: str, max_rounds: int = DEFAULT_ROUNDS, patience_s: float = 0.0) -> None:
    """Kills every process that has inherited a mark with this prefix; needs /proc, so only on Linux.

    Args:
        prefix: a whole mark, or the part that all marks of one process share.
        max_rounds: how often to search, as a process may start another while it is being killed.
        patience_s: how long to go on while a process has no environment, as during the start of a program.
    """
    entry = f"\0{MARK}={prefix}".encode()
    last = monotonic() + patience_s
    while max_rounds > 0:
        any_killed, any_unknown = _kill_once(entry)
        if any_unknown and monotonic() < last:
            sleep(_PAUSE_S)
        elif any_killed:
            max_rounds -= 1
        else:
            break


def _kill_once(entry: bytes) -> tuple[bool, bool]:
    """Kills every process whose environment has the entry.

    Returns whether there was one, and whether a process had no environment.
    """
    any_killed = any_unknown = False
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):  # noqa: PTH208, PTH112
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                environ = file.read()
            if entry in b"\0" + environ:
                os.kill(int(pid), signal.SIGKILL)
                any_killed = True
            elif not environ:
                os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115  # fails for zombies and threads of the kernel
                any_unknown = True
        except OSError:  # another user's process, or one that has just ended
            continue
    return any_killed, any_unknown


if __name__ == "__main__":
    main()

"""Ends the programs of a process that was killed; runs as a separate process.

`guard` starts it by its source text, so it imports only the standard library. It reads lines from stdin:
first the prefix of the marks, then `+ID` when the group of a program starts, `-ID` when the group has ended,
and `end` when its parent ends by itself. When stdin ends, it kills the groups that are left. If there was no
`end`, it also kills every process that has inherited a mark, whatever its group (Linux).
"""

import os
import signal
import sys

MARK = "PROCTOR_PROGRAM"
"""The environment variable that identifies the descendants of a program."""
DEFAULT_ROUNDS = 3
MAX_ROUNDS = 1_000


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
        kill_marked(f"{prefix}.", MAX_ROUNDS)


def kill_marked(prefix: str, max_rounds: int = DEFAULT_ROUNDS) -> None:
    """Kills every process that has inherited a mark with this prefix; needs /proc, so only on Linux.

    Args:
        prefix: a whole mark, or the part that all marks of one process share.
        max_rounds: how often to search, as a process may start another while it is being killed.
    """
    entry = f"\0{MARK}={prefix}".encode()
    for _ in range(max_rounds):
        if not _kill_once(entry):
            break


def _kill_once(entry: bytes) -> bool:
    """Kills every process whose environment has the entry; returns whether there was one."""
    any_killed = False
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):  # noqa: PTH208, PTH112
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
                if entry in b"\0" + file.read():
                    os.kill(int(pid), signal.SIGKILL)
                    any_killed = True
        except OSError:  # another user's process, or one that has just ended
            continue
    return any_killed


if __name__ == "__main__":
    main()

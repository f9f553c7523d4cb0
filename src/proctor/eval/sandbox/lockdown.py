"""Restricts the own process before it runs a program: it gives up everything that it does not need.

Limits (setrlimit), privileges (capset, PR_SET_NO_NEW_PRIVS), files (Landlock) and system calls (seccomp).
Runs inside the sandbox and imports only the standard library. Numbers are those of
<linux/prctl.h>, <linux/landlock.h> and <linux/seccomp.h>, the same on x86_64 and aarch64.
"""

from __future__ import annotations

import _thread
import os
import resource
import sys

TYPE_CHECKING = False  # importing `typing` would take longer than starting Python
if TYPE_CHECKING:
    from typing import Any

_SET_PDEATHSIG, _SET_DUMPABLE, _SET_SECCOMP, _SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CAPABILITY_VERSION_3 = 0x2008_0522

_ARENA_MAX = -8
"""Of <malloc.h>: else every thread reserves 64 MiB."""

_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS = _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ_RIGHTS = _READ_FILE | _READ_DIR
_WORK_RIGHTS = (
    _READ_RIGHTS | _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER | _TRUNCATE
)
_DEVICES = {"/dev/null": _FILE_RIGHTS, "/dev/zero": _READ_FILE, "/dev/urandom": _READ_FILE}


class CannotLock(Exception):
    """The system does not support a part of the sandbox; the text says which."""


def protect_process() -> None:
    """Protects memory and handles of this process from others of the same user (Linux only)."""
    if sys.platform == "linux":
        _libc().prctl(_SET_DUMPABLE, 0, 0, 0, 0)


def set_parent_death_signal() -> None:
    """Has the system end this process when its parent ends (Linux only)."""
    if sys.platform == "linux":
        _libc().prctl(_SET_PDEATHSIG, 9, 0, 0, 0)


def apply_lockdown(job: dict[str, Any]) -> None:
    """Gives up everything that the job does not grant, for good.

    Args:
        job: `limits` (name of a RLIMIT to soft and hard), `isolation`, `folder`, `readable` (paths),
            `network`, `filter` (BPF that holds `own_pid` for the id of this process).

    Raises:
        CannotLock: the system lacks a part of it.
    """
    strict = job["isolation"] != "process"
    _limit_thread_memory()
    for name, limits in job["limits"].items():
        try:
            resource.setrlimit(getattr(resource, name), limits)
        except (ValueError, OSError, AttributeError) as error:
            if strict:
                raise CannotLock(f"the limit {name} cannot be set: {error}") from None
    if strict:
        _drop_privileges()
        if job["isolation"] == "kernel":
            _restrict_files(job)
        _restrict_calls(job)


def _limit_thread_memory() -> None:
    """Reduces the address space of threads: otherwise 14 threads would fill 512 MB."""
    _thread.stack_size(1_048_576)
    if sys.platform == "linux" and hasattr(_libc(), "mallopt"):  # glibc
        _libc().mallopt(_ARENA_MAX, 1)


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _check_call(what: str, result: int) -> int:
    """Returns the result of a system call; raises CannotLock if it failed."""
    if result < 0:
        import ctypes

        raise CannotLock(f"{what} is refused: {os.strerror(ctypes.get_errno())}")
    return result


def _drop_privileges() -> None:
    libc = _libc()
    header = _CAPABILITY_VERSION_3.to_bytes(4, "little") + bytes(4)
    _check_call("giving up privileges", libc.syscall(_SYS_CAPSET[os.uname().machine], header, bytes(24)))
    _check_call("PR_SET_NO_NEW_PRIVS", libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _restrict_files(job: dict[str, Any]) -> None:
    libc = _libc()
    version = _check_call("Landlock", libc.syscall(_CREATE_RULESET, None, 0, 1))
    handled = (1 << 13) - 1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        handled |= right if version >= since else 0
    # TCP both ways since version 4; sockets without a path and signals to others since version 6.
    fields = (handled, 0 if job["network"] else 3, 3)[: 1 + (version >= 4) + (version >= 6)]
    attributes = b"".join(field.to_bytes(8, "little") for field in fields)
    rules = _check_call("a Landlock ruleset", libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    rights = dict.fromkeys(job["readable"], _READ_RIGHTS) | _DEVICES | {job["folder"]: _WORK_RIGHTS}
    for path, right in rights.items():
        _grant(libc, rules, path, right & handled)
    _check_call("Landlock", libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _grant(libc: Any, rules: int, path: str, right: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no right
    right &= -1 if os.path.isdir(path) else _FILE_RIGHTS  # noqa: PTH112  # pathlib takes 5 ms to import
    rule = right.to_bytes(8, "little") + handle.to_bytes(4, "little")
    _check_call(f"the Landlock rule for {path}", libc.syscall(_ADD_RULE, rules, 1, rule, 0))
    os.close(handle)


def _restrict_calls(job: dict[str, Any]) -> None:
    import ctypes

    program = job["filter"].replace(job["own_pid"].to_bytes(4, "little"), os.getpid().to_bytes(4, "little"))
    instructions = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: how many instructions, and where they are
    header = (len(program) // 8).to_bytes(8, "little") + ctypes.addressof(instructions).to_bytes(8, "little")
    _check_call("seccomp", _libc().prctl(_SET_SECCOMP, 2, header, 0, 0))

"""The system calls that a sandboxed program may make, as a seccomp filter for x86_64 and aarch64 Linux.

What is not allowed here by name fails with "Operation not permitted", so that what a later kernel adds is
refused too; a call by another architecture's ABI ends the program. The filter is classic BPF over
`struct seccomp_data` of <linux/seccomp.h>; numbers are those of <asm/unistd_64.h> and <asm-generic/unistd.h>.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

OWN_PID = 0x5EC0_9A1D
"""Placeholder for the process id of the program, which the program itself fills in."""

_UNCONDITIONAL = """
read 0 63, write 1 64, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -, lseek 8 62, mmap 9 222,
mprotect 10 226, munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15
139, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, access 21 -, pipe 22 -, select 23 -,
sched_yield 24 124, mremap 25 216, madvise 28 233, dup 32 23, dup2 33 -, pause 34 -, nanosleep 35 101,
getitimer 36 102, alarm 37 -, setitimer 38 103, getpid 39 172, sendfile 40 71, exit 60 93, uname 63 160,
flock 73 32, fsync 74 82, fdatasync 75 83, ftruncate 77 46, getdents 78 -, getcwd 79 17, chdir 80 49,
fchdir 81 50, rename 82 -, mkdir 83 -, rmdir 84 -, link 86 -, unlink 87 -, readlink 89 -, umask 95 166,
gettimeofday 96 169, getrlimit 97 163, getrusage 98 165, sysinfo 99 179, times 100 153, getuid 102 174,
getgid 104 176, geteuid 107 175, getegid 108 177, getppid 110 173, getpgrp 111 -, getpgid 121 155,
getsid 124 156, getgroups 115 158, getresuid 118 148, getresgid 120 150, sigaltstack 131 132,
rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, statfs 137 43, fstatfs 138 44,
getpriority 140 141, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120,
sched_get_priority_max 146 125, sched_get_priority_min 147 126, time 201 -, gettid 186 178, futex 202
98, epoll_create 213 -, getdents64 217 61, set_tid_address 218 96, restart_syscall 219 128, fadvise64
221 223, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94,
epoll_wait 232 -, epoll_ctl 233 21, mkdirat 258 34, newfstatat 262 79, unlinkat 263 35, renameat 264 38,
linkat 265 37, readlinkat 267 78, faccessat 269 48, pselect6 270 72, ppoll 271 73, set_robust_list 273
99, get_robust_list 274 100, epoll_pwait 281 22, eventfd2 290 19, epoll_create1 291 20, dup3 292 24,
pipe2 293 59, preadv 295 69, pwritev 296 70, getcpu 309 168, renameat2 316 276, getrandom 318 278,
membarrier 324 283, copy_file_range 326 285, statx 332 291, rseq 334 293, close_range 436 436,
faccessat2 439 439, epoll_pwait2 441 441, wait4 61 260, waitid 247 95, recvfrom 45 207, sendto 44 206,
shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209
"""
"""Names with their numbers on x86_64 and aarch64: what Python needs for itself, for files, memory, threads,
clocks and waiting. No call among them can change another process, or a file's owner, mode or times."""

_NETWORK = """
connect 42 203, accept 43 202, accept4 288 242, bind 49 200, listen 50 201, sendmsg 46 211, recvmsg 47
212, sendmmsg 307 269, recvmmsg 299 243, setsockopt 54 208
"""

_CONDITIONAL = """
clone 56 220, clone3 435 435, kill 62 129, tgkill 234 131, prlimit64 302 261, ioctl 16 29, fcntl 72 25,
open 2 -, openat 257 56, socketpair 53 199, socket 41 198
"""

_ARCHITECTURES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}
"""Which of the two numbers is used, and the kernel's name: AUDIT_ARCH_… of <linux/audit.h>."""

MACHINES = tuple(_ARCHITECTURES)
"""Architectures with a filter, as in `os.uname().machine`."""

_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_ALLOW, _KILL, _REFUSE, _NO_SUCH_CALL = 0x7FFF_0000, 0x8000_0000, 0x0005_0001, 0x0005_0026
_X32 = 0x4000_0000
"""Numbers from here on are calls of the x32 ABI."""

_CLONE_THREAD = 0x0001_0000
_CLONE_NEW = 0x7E02_0080
_TRUNCATES = 0o1003
"""O_TRUNC | O_ACCMODE: older kernels let a file be truncated that is not opened for writing."""
_IOCTL_REQUESTS = (0x5401, 0x5413, 0x5421, 0x541B, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONBIO, FIONREAD, FIONCLEX, FIOCLEX."""
_FCNTL_COMMANDS = (*range(8), 1030, 1032)
"""Of fcntl: copies, flags and locks; without F_SETOWN and F_SETSIG, which send signals to others."""

Instruction = tuple[int, int, int, int]
"""`struct sock_filter`: code, jump if true, jump if false, k."""


@dataclass(frozen=True, slots=True)
class _ArgumentCheck:
    """Checks that a masked argument has a value, or with `differs` that it has another one."""

    argument: int
    value: int
    mask: int = 0xFFFF_FFFF
    differs: bool = False


def _not_truncating(argument: int) -> tuple[_ArgumentCheck, ...]:
    """Returns checks that flags of `open` truncate only files opened for writing (1 or 2 in O_ACCMODE)."""
    return tuple(_ArgumentCheck(argument, flags, _TRUNCATES, differs=True) for flags in (0o1000, 0o1003))


_CONDITIONS: dict[str, tuple[tuple[_ArgumentCheck, ...], ...]] = {
    "clone": ((_ArgumentCheck(0, _CLONE_THREAD, _CLONE_THREAD | _CLONE_NEW),),),
    "kill": ((_ArgumentCheck(0, OWN_PID),),),
    "tgkill": ((_ArgumentCheck(0, OWN_PID),),),
    "prlimit64": ((_ArgumentCheck(0, 0), _ArgumentCheck(2, 0, 0xFFFF_FFFF_FFFF_FFFF)),),
    "ioctl": tuple((_ArgumentCheck(1, request),) for request in _IOCTL_REQUESTS),
    "fcntl": tuple((_ArgumentCheck(1, command),) for command in _FCNTL_COMMANDS),
    "open": (_not_truncating(1),),
    "openat": (_not_truncating(2),),
    # A pair is connected for good; a datagram socket could still send to any address.
    "socketpair": ((_ArgumentCheck(0, 1), _ArgumentCheck(1, 1, 0xF)),),
}
"""For each call, the alternatives of which one must hold, each a row of checks."""

_INTERNET_SOCKETS: tuple[tuple[_ArgumentCheck, ...], ...] = (
    (_ArgumentCheck(0, 2),),
    (_ArgumentCheck(0, 10),),
)


@cache
def build_filter(machine: str, *, network: bool) -> bytes:
    """Returns the filter in the format of the kernel, with the placeholder `OWN_PID`.

    Args:
        machine: as in `os.uname().machine`.
        network: whether Internet sockets are allowed.

    Raises:
        KeyError: the architecture is not known here.
    """
    place, kernel_name = _ARCHITECTURES[machine]
    program: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, kernel_name), (_RETURN, 0, 0, _KILL)]
    program.append((_LOAD, 0, 0, 0))
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    for number in _parse_numbers(_UNCONDITIONAL + ("," + _NETWORK if network else ""), place).values():
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    rules = {**_CONDITIONS, "socket": _INTERNET_SOCKETS} if network else _CONDITIONS
    for name, number in _parse_numbers(_CONDITIONAL, place).items():
        block = [instruction for row in rules.get(name, ()) for instruction in _allow_if(row)]
        # glibc takes this answer as a sign to use clone, whose flags a filter can see.
        block.append((_RETURN, 0, 0, _NO_SUCH_CALL if name == "clone3" else _REFUSE))
        program += [(_EQUAL, 0, len(block), number), *block]
    program.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(_encode_instruction(*instruction) for instruction in program)


def _parse_numbers(table: str, place: int) -> dict[str, int]:
    rows = (entry.split() for entry in table.split(","))
    return {name: int(numbers[place]) for name, *numbers in rows if numbers[place] != "-"}


def _allow_if(row: Sequence[_ArgumentCheck]) -> list[Instruction]:
    """Returns instructions that allow a call if all checks hold, and otherwise continue after them."""
    block: list[Instruction] = [(_RETURN, 0, 0, _ALLOW)]
    for check in reversed(row):
        for half in (4, 0):
            mask, value = (check.mask >> 8 * half) & 0xFFFF_FFFF, (check.value >> 8 * half) & 0xFFFF_FFFF
            if mask:
                jumps = (len(block), 0) if check.differs else (0, len(block))
                block.insert(0, (_EQUAL, *jumps, value))
                block.insert(0, (_AND, 0, 0, mask))
                block.insert(0, (_LOAD, 0, 0, 16 + 8 * check.argument + half))
    return block


def _encode_instruction(code: int, if_true: int, if_false: int, k: int) -> bytes:
    return code.to_bytes(2, "little") + bytes((if_true, if_false)) + k.to_bytes(4, "little")

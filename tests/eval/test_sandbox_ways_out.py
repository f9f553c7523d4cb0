"""Programs that try to get out of the sandbox: to files, the network, other processes and the kernel."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from ast import literal_eval
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from textwrap import dedent
from typing import Any

import pytest

from proctor.eval import CodeSandbox, SandboxResult
from proctor.eval.sandbox import limits as job
from support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("sandboxed")


def run(program: str, **limits: Any) -> SandboxResult:
    return CodeSandbox(timeout_s=PATIENCE_S, **limits).run(dedent(program))


HOSTILE = {
    "fork": "import os; os.fork()",
    "a program": "import subprocess; subprocess.run(['/bin/true'])",
    "exec": "import os; os.execv('/bin/true', ['true'])",
    "a session": "import os; os.setsid()",
    "the parent": "import os; os.kill(os.getppid(), 0)",
    "everyone": "import os; os.kill(-1, 0)",
    "signals by fcntl": "import fcntl, os; fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "more memory": "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))",
    "a socket": "import socket; socket.socket()",
    "a local socket": "import socket; socket.socket(socket.AF_UNIX)",
    "a pair of datagram sockets": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)",
    "a password file": "open('/etc/passwd')",
    "the folder of the caller": f"import os; os.listdir({str(Path.cwd())!r})",
    "the temporary folder": f"import os; os.listdir({gettempdir()!r})",
    "a file beside its folder": "open('../mine', 'w')",
    "the parent's memory": "import os; open(f'/proc/{os.getppid()}/mem', 'rb')",
    "its own handles": "import os; os.listdir('/proc/self/fd')",
    "the package": f"open({job.__file__!r})",
    "the library": f"open({os.__file__!r}, 'a')",
    "a mode": "import os; open('a', 'w'); os.chmod('a', 0o777)",
    "truncation": f"import os; os.truncate({os.__file__!r}, 0)",
    "truncation by opening": "import os; open('a', 'w'); os.open('a', os.O_RDONLY | os.O_TRUNC)",
    "truncation by an odd opening": "import os; open('a', 'w'); os.open('a', os.O_ACCMODE | os.O_TRUNC)",
    "a link out": "import os; os.symlink('/etc/passwd', 'a')",
    "a FIFO": "import os; os.mkfifo('a')",
}  # fmt: skip


@pytest.fixture(scope="module")
def refusals() -> dict[str, str]:
    """The error of each attempt, all in one process; empty where it is allowed."""
    result = run(f"""
        errors = {{}}
        for name, program in {HOSTILE}.items():
            try:
                exec(program, {{}})
                errors[name] = ""
            except Exception as error:
                errors[name] = type(error).__name__
        print(errors)
        """)
    errors: dict[str, str] = literal_eval(result.stdout)
    return errors


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_a_programs_business_is_refused(name: str, refusals: dict[str, str]) -> None:
    assert refusals[name] in ("PermissionError", "ValueError" if name == "more memory" else "PermissionError")


CALLS = {
    "io_uring_setup": (425, 425), "ptrace": (101, 117), "process_vm_readv": (310, 270), "bpf": (321, 280),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "pidfd_open": (434, 434),
    "prctl": (157, 167), "memfd_create": (319, 279), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "perf_event_open": (298, 241), "execveat": (322, 281), "fchownat": (260, 54), "setxattr": (188, 5),
    "a call that there is not": (1023, 1023),
}  # fmt: skip


def test_raw_system_calls_are_refused() -> None:
    place = ("x86_64", "aarch64").index(os.uname().machine)
    numbers = [numbers[place] for numbers in CALLS.values()]
    result = run(f"""
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        for number in {numbers}:
            assert libc.syscall(number, 0, 0, 0, 0, 0) == -1, number
            assert ctypes.get_errno() == errno.EPERM, (number, ctypes.get_errno())
        """)
    assert result.passed, result.stderr


@pytest.mark.skipif(os.name != "posix" or os.uname().machine != "x86_64", reason="machine code of x86_64")
@pytest.mark.parametrize(
    "code",
    [b"\xb8\x14\x00\x00\x00\xcd\x80\xc3", b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"],
    ids=["getpid of 32 bits", "getpid of x32"],
)
def test_a_call_in_the_manner_of_another_architecture_kills(code: bytes) -> None:
    result = run(f"""
        import ctypes, mmap
        memory = mmap.mmap(-1, 4096, prot=7)
        memory.write({code!r})
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
        """)
    assert (result.status, result.exit_code) == ("crashed", -31)


@pytest.mark.slow
def test_a_fork_bomb_is_no_bomb() -> None:
    result = run("""
        import os, threading
        def more():
            try: os.fork()
            except PermissionError: pass
            try: threading.Thread(target=more).start()
            except RuntimeError: pass
        for _ in range(9): more()
        os._exit(3)
        """)
    assert result.exit_code == 3


def test_no_secret_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "own-secret")
    result = run("import os; print(sorted(os.environ)); print(os.environ.get('API_KEY'))")
    assert result.stdout == "['HOME', 'LANG', 'TMPDIR']\nNone\n"


@pytest.mark.slow
def test_nothing_is_imported_from_the_callers_packages_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("1/0")
    monkeypatch.chdir(tmp_path)
    assert run("import json").passed
    assert "No module named 'pytest'" in run("import pytest").reason
    assert "No module named 'proctor" in run("import proctor.eval.sandbox.seccomp").reason


@pytest.mark.slow
def test_network_is_there_only_for_who_asks() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_connection({server.getsockname()})"
        assert "PermissionError" in run(program).reason
        assert run(program, network=True).passed
    local = run("import socket; socket.socket(socket.AF_UNIX)", network=True)
    assert "PermissionError" in local.reason


def test_who_may_use_the_network_sees_certificates_and_no_private_keys() -> None:
    readable = job.compute_grants(1, 512, True, "kernel")["readable"]
    assert "/etc/ssl/certs" in readable
    for keys in ("/etc/ssl/private", "/etc/pki/tls/private"):
        assert [path for path in readable if Path(keys).is_relative_to(path)] == []


@pytest.mark.slow
def test_a_program_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = "from proctor.eval import CodeSandbox as C; C(timeout_s=3600).run('while True: pass')"
    starter = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"TMPDIR": str(tmp_path)})
    try:
        while not inhabitants(tmp_path):
            assert starter.poll() is None
            time.sleep(0.01)
    finally:
        starter.kill()
        starter.wait()
    wait_until(lambda: inhabitants(tmp_path) == [])


def inhabitants(folder: Path) -> list[str]:
    """The processes that work in a folder or below it."""
    names = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                names.append(process.name)
    return names

"""Code and limits for starting a sandboxed process, and whether the system supports them."""

from __future__ import annotations

import os
import sys
from functools import cache
from math import ceil
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from proctor.errors import UsageError
from proctor.eval.sandbox.seccomp import MACHINES, OWN_PID, build_filter

if TYPE_CHECKING:
    from types import CodeType

PROCESS_ISOLATION_HINT = "With isolation='process' programs run under limits only: see its documentation"
"""The end of messages about missing support."""
MAX_FILE_BYTES = 16_777_216
"""Bytes of one file."""
MAX_OPEN_FILES = 64

_MODULES = tuple(f"proctor.eval.sandbox.{part}" for part in ("wire", "calls", "lockdown", "child"))
"""The modules of the child process; each imports only those before it."""
START_CODE = (
    "import marshal, sys\n"
    "modules, job = marshal.load(open(0, 'rb', closefd=False))\n"
    "for name, code in modules:\n"
    "    module = sys.modules[name] = type(sys)(name)\n"
    "    exec(code, module.__dict__)\n"
    "module.main(job)\n"
)
_LIBRARIES = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
)
_NETWORK_FILES = (
    *(
        "/etc/resolv.conf",
        "/etc/hosts",
        "/etc/host.conf",
        "/etc/nsswitch.conf",
        "/etc/gai.conf",
        "/etc/services",
    ),
    *("/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/etc/pki/ca-trust/extracted"),
    *("/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/openssl.cnf"),
    *("/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf"),
    "/run/systemd/resolve",
)
"""Files for finding a server and checking its certificate; private keys are not among them."""


def compute_grants(timeout_s: float, memory_mb: int, network: bool, isolation: str) -> dict[str, Any]:
    """Returns the limits of a `CodeSandbox` as `lockdown.apply_lockdown` takes them."""
    seconds, memory = ceil(timeout_s), memory_mb * 1_048_576
    limits = {
        "RLIMIT_CPU": (seconds, seconds + 1),
        "RLIMIT_AS": (memory, memory),
        "RLIMIT_FSIZE": (MAX_FILE_BYTES, MAX_FILE_BYTES),
        "RLIMIT_NOFILE": (MAX_OPEN_FILES, MAX_OPEN_FILES),
        "RLIMIT_CORE": (0, 0),
    }
    if isolation == "process":
        return {"isolation": "process", "limits": {**limits, "RLIMIT_NPROC": (0, 0)}}
    return {
        "isolation": isolation,
        "limits": limits,
        "network": network,
        "readable": [f"{sys.base_prefix}/lib", *_LIBRARIES, *(_NETWORK_FILES if network else ())],
        "filter": build_filter(os.uname().machine, network=network),
        "own_pid": OWN_PID,
    }


def find_missing_support(isolation: str) -> str:
    """Returns what this system lacks for an isolation, as a clause; empty if nothing known is missing."""
    if os.name != "posix":
        return f"{sys.platform} is no POSIX system, so programs cannot be limited"
    if isolation == "process":
        return ""
    if sys.platform != "linux":
        return (
            f"seccomp and Landlock are parts of Linux, and this is {sys.platform}. {PROCESS_ISOLATION_HINT}"
        )
    if os.uname().machine not in MACHINES:
        machines = " and ".join(MACHINES)
        return f"there is no filter for {os.uname().machine}, only for {machines}. {PROCESS_ISOLATION_HINT}"
    return ""


def open_memory_file(content: bytes) -> IO[bytes]:
    """Returns an unnamed file with this content, at its beginning."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("proctor"), "w+b")
    else:
        from tempfile import TemporaryFile

        file = TemporaryFile()  # noqa: SIM115  # the caller closes it
    file.write(content)
    file.seek(0)
    return file


@cache
def load_child_modules() -> tuple[tuple[str, CodeType], ...]:
    """Returns the compiled modules of the child process, which cannot read the files of this package."""
    from importlib.abc import InspectLoader  # loads tempfile and shutil
    from importlib.util import find_spec

    modules = []
    for name in _MODULES:
        spec = find_spec(name)
        code = spec.loader.get_code(name) if spec and isinstance(spec.loader, InspectLoader) else None
        if code is None and spec and spec.origin and Path(spec.origin).is_file():
            code = compile(Path(spec.origin).read_bytes(), spec.origin, "exec")  # pytest's loader has no code
        if code is None:
            raise UsageError(f"CodeSandbox needs the code of {name}, which this installation does not give.")
        modules.append((name, code))
    return tuple(modules)

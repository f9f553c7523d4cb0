"""What a sandboxed process is started with: its code, its limits, and what the system must have for them."""

from __future__ import annotations

import os
import sys
from functools import cache
from math import ceil
from typing import IO, TYPE_CHECKING, Any

from proctor.errors import UsageError
from proctor.eval.sandbox.seccomp import MACHINES, OWN_PID, filter_for

if TYPE_CHECKING:
    from types import CodeType

WAY_OUT = "With isolation='process' programs run under limits only: see its documentation"
"""What a message of something that is lacking ends with."""
FILE_LIMIT = 16_777_216
"""How many bytes one file may have."""
FILES_OPEN = 64

_MODULES = tuple(f"proctor.eval.sandbox.{part}" for part in ("wire", "calls", "lockdown", "child"))
"""What runs inside, each importing only those before it."""
BEGIN = (
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
_RESOLVING = (
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
"""What it takes to find a server and to check its certificate; not the keys beside certificates."""


def grants_of(timeout_s: float, memory_mb: int, network: bool, isolation: str) -> dict[str, Any]:
    """What `lockdown.lock` gets to know of the limits of a `CodeSandbox`."""
    seconds, memory = ceil(timeout_s), memory_mb * 1_048_576
    limits = {
        "RLIMIT_CPU": (seconds, seconds + 1),
        "RLIMIT_AS": (memory, memory),
        "RLIMIT_FSIZE": (FILE_LIMIT, FILE_LIMIT),
        "RLIMIT_NOFILE": (FILES_OPEN, FILES_OPEN),
        "RLIMIT_CORE": (0, 0),
    }
    if isolation == "process":
        return {"isolation": "process", "limits": {**limits, "RLIMIT_NPROC": (0, 0)}}
    return {
        "isolation": isolation,
        "limits": limits,
        "network": network,
        "readable": [f"{sys.base_prefix}/lib", *_LIBRARIES, *(_RESOLVING if network else ())],
        "filter": filter_for(os.uname().machine, network=network),
        "own_pid": OWN_PID,
    }


def lack_of(isolation: str) -> str:
    """What this system lacks for an isolation; empty for nothing that can be told beforehand."""
    if os.name != "posix":
        return f"{sys.platform} is no POSIX system, so programs cannot be limited"
    if isolation == "process":
        return ""
    if sys.platform != "linux":
        return f"seccomp and Landlock are parts of Linux, and this is {sys.platform}. {WAY_OUT}"
    if os.uname().machine not in MACHINES:
        return f"there is no filter for {os.uname().machine}, only for {' and '.join(MACHINES)}. {WAY_OUT}"
    return ""


def file_of(content: bytes) -> IO[bytes]:
    """A file without a name that holds the content, to be read from its beginning."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("proctor"), "w+b")
    else:
        from tempfile import TemporaryFile

        file = TemporaryFile()  # noqa: SIM115  # the caller closes it
    file.write(content)
    file.seek(0)
    return file


@cache
def modules_inside() -> tuple[tuple[str, CodeType], ...]:
    """What runs inside, compiled: the sandbox has no access to the files of this package."""
    from importlib.abc import InspectLoader  # loads tempfile and shutil
    from importlib.util import find_spec

    modules = []
    for name in _MODULES:
        spec = find_spec(name)
        code = spec.loader.get_code(name) if spec and isinstance(spec.loader, InspectLoader) else None
        if code is None:
            raise UsageError(f"CodeSandbox needs the code of {name}, which this installation does not give.")
        modules.append((name, code))
    return tuple(modules)

"""Tells whether a process id means a process of this machine, or of another machine or container."""

from __future__ import annotations

import socket
import sys
from functools import cache
from pathlib import Path


@cache
def get_process_space() -> str:
    """Returns a name that the processes share whose ids mean the same: those of a machine or a container.

    Containers have the kernel of their machine but ids of their own, and machines may have equal names. So on
    Linux it is the id of the kernel's last start with the namespace of the ids; elsewhere the host's name.
    """
    if sys.platform == "linux":
        try:
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            return f"{boot_id} {Path('/proc/self/ns/pid').readlink()}"
        except OSError:  # there is no /proc
            pass
    return socket.gethostname()

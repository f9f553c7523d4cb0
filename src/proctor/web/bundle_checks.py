"""Checks uploaded bundles in a subprocess with limits on time and memory."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore
from typing import Any

import msgspec
from msgspec import Struct

from proctor.bundles.keys import keys_folder
from proctor.errors import UsageError
from proctor.safe_text import one_line
from proctor.services.bundles.verify import CHECKS
from proctor.services.runs.starts.subprocess_command import start_command
from proctor.web.project import Project

VERIFY_TIMEOUT_S = 60.0
"""How long the check of one bundle may take."""
_MAX_MEMORY_BYTES = 4 * 2**30
"""Memory limit of the subprocess, on systems that support one."""
_SLOTS = BoundedSemaphore(2)
_SLOT_TIMEOUT_S = 20.0


class BundleCheck(Struct, frozen=True, kw_only=True):
    """The result of checking a bundle."""

    name: str
    """The name of the uploaded file, for display."""
    checks: tuple[tuple[str, bool | None], ...]
    """Each check as a sentence, and whether it passed; None if it was not reached."""
    error: str | None
    """The first thing that is wrong."""
    bundle: dict[str, Any] | None
    """The content of a valid bundle, as in `proctor verify --json`."""


def check_bundle(project: Project, name: str, data: bytes) -> BundleCheck:
    """Checks an uploaded bundle; nothing in it is run, and nothing of it is kept.

    Args:
        project: its keys are trusted.
        name: the name of the file.
        data: an archive.

    Raises:
        UsageError: too many bundles are being checked already.
    """
    if not _SLOTS.acquire(timeout=_SLOT_TIMEOUT_S):
        raise UsageError("Other bundles are being checked right now. Upload this one again in a minute.")
    try:
        with TemporaryDirectory(prefix="proctor-") as folder:
            path = Path(folder) / "dropped.zip"  # never the name that was uploaded
            path.write_bytes(data)
            row = _run_verify(project, path)
    finally:
        _SLOTS.release()
    display_name = one_line(name)
    outcomes = dict.fromkeys(row.get("checks", ()), True)
    error = row.get("message")
    if error is not None:
        failed_check = next((check for check in CHECKS if check not in outcomes), "")
        outcomes[failed_check] = False
        error = one_line(str(error)).replace(f"{path}: ", "").replace(str(path), display_name)
    return BundleCheck(
        name=display_name,
        checks=tuple((sentence, outcomes.get(check)) for check, sentence in CHECKS.items()),
        error=error,
        bundle=None if error is not None else row,
    )


def _run_verify(project: Project, path: Path) -> dict[str, Any]:
    """Returns the row of `proctor verify`, or its error with the checks that passed before it."""
    arguments = ["verify", "--json", f"--keys={keys_folder(project.environ)}", str(path)]
    with start_command(project, arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        _limit_memory(child)
        try:
            stdout, _ = child.communicate(timeout=VERIFY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return {
                "message": f"The check took more than {VERIFY_TIMEOUT_S:g} seconds. Use `proctor verify` "
                "instead."
            }
    try:
        output = msgspec.json.decode(stdout, type=dict[str, Any])
        row: dict[str, Any] = (output["bundles"] or output["errors"])[0]
    except (msgspec.MsgspecError, KeyError, IndexError):
        return {"message": "The check needed more memory than a page may use. Use `proctor verify` instead."}
    return row


def _limit_memory(child: subprocess.Popen[bytes]) -> None:
    """Limits the memory of a process, on systems that support it."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(child.pid, resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))

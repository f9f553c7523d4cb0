"""Bundles that somebody drops on a page, checked by a process that ends when it takes too long."""

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
from proctor.web.project import Project
from proctor.web.runs.subprocess_command import start_command

VERIFYING_S = 60.0
"""For so long a bundle is checked."""
_MEMORY = 4 * 2**30
"""So many bytes of memory that may take, where the system can say so."""
_AT_ONCE = BoundedSemaphore(2)
_WAITING_S = 20.0


class BundleCheck(Struct, frozen=True, kw_only=True):
    """What came of checking a bundle."""

    name: str
    """What the file was called; a text to show."""
    checks: tuple[tuple[str, bool | None], ...]
    """Each check as a sentence, and whether it held; None for one that was not come to."""
    wrong: str | None
    """The first thing that is wrong."""
    found: dict[str, Any] | None
    """What the bundle says, where nothing is; as `proctor verify --json` has it."""


def check_bundle(project: Project, name: str, data: bytes) -> BundleCheck:
    """Check a bundle that somebody dropped; nothing of it is ever run, and nothing of it is kept.

    Args:
        project: whose keys are trusted.
        name: what the file is called.
        data: an archive.

    Raises:
        UsageError: too many bundles are being checked already.
    """
    if not _AT_ONCE.acquire(timeout=_WAITING_S):
        raise UsageError("Other bundles are being checked at the moment. Drop this one again in a minute.")
    try:
        with TemporaryDirectory(prefix="proctor-") as folder:
            path = Path(folder) / "dropped.zip"  # never what the file was called
            path.write_bytes(data)
            row = _answer(project, path)
    finally:
        _AT_ONCE.release()
    shown = one_line(name)
    held = set(row.get("checks", ()))
    wrong = row.get("message")
    if wrong is not None:
        wrong = one_line(str(wrong)).replace(f"{path}: ", "").replace(str(path), shown)
    return BundleCheck(
        name=shown,
        checks=tuple(_checks(held, failed=wrong is not None)),
        wrong=wrong,
        found=None if wrong is not None else row,
    )


def _checks(held: set[str], *, failed: bool) -> list[tuple[str, bool | None]]:
    found: list[tuple[str, bool | None]] = []
    for name, sentence in CHECKS.items():
        if name in held:
            found.append((sentence, True))
        else:
            first = failed and all(passed for _, passed in found)
            found.append((sentence, False if first else None))
    return found


def _answer(project: Project, path: Path) -> dict[str, Any]:
    """What `proctor verify` says of a bundle: its row, or the error with the checks that held before it."""
    words = ["verify", "--json", f"--keys={keys_folder(project.environ)}", str(path)]
    with start_command(project, words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        _limit(child)
        try:
            out, _ = child.communicate(timeout=VERIFYING_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return {"message": f"It could not be checked in {VERIFYING_S:g} seconds. Use `proctor verify`."}
    try:
        told = msgspec.json.decode(out, type=dict[str, Any])
        row: dict[str, Any] = (told["bundles"] or told["errors"])[0]
    except (msgspec.MsgspecError, KeyError, IndexError):
        return {"message": "It could not be checked: that took more memory than a page may use."}
    return row


def _limit(child: subprocess.Popen[bytes]) -> None:
    """Let a process have so much memory and no more, where the system can say so."""
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        resource.prlimit(child.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))

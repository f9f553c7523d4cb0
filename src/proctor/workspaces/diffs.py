"""Computes the unified diff between two snapshots of a folder, as git writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import mkdtemp

from proctor.workspaces.copying import remove_tree
from proctor.workspaces.git_command import Git
from proctor.workspaces.snapshots import ContentStore, Snapshot, is_same, write_entry
from proctor.workspaces.threads import run_in_thread

MAX_DIFF_LENGTH = 1_000_000
"""The maximum length of a diff, in characters; the rest is cut off."""

_MAX_FILES = 2_000
_MAX_BYTES = 4_000_000
"""The maximum files, and total old and new bytes, compared line by line; further files are only named."""
_MAX_PATH_LENGTH = 1_000
"""In characters; systems limit paths to a few thousand, and ours are in a deeper folder."""

_HEADER = re.compile(r'^diff --git ("?)[ab]/(.*) \1[ab]/\2$', re.MULTILINE)
_RENAME = re.compile(r'^(rename|copy) (from|to) ("?)[ab]/', re.MULTILINE)
_NULL_FILE = "/dev/null"


async def diff_snapshots(
    before: Snapshot, now: Snapshot, contents: ContentStore, git: Git, scratch: Path
) -> str | None:
    """Returns the changes from one snapshot to the next; None if there are none.

    New, deleted, renamed and binary files have git's usual headers. A diff that is too long ends with a line
    that says how much is left out.

    Args:
        before: the first snapshot.
        now: the second.
        contents: has the contents of both.
        git: compares them.
        scratch: a folder for temporary copies of both, which are removed.

    Raises:
        WorkspaceError: git failed.
        OSError: the temporary copies cannot be written.
    """
    changed = [
        path
        for path in sorted(before.files.keys() | now.files.keys())
        if not is_same(before.files.get(path), now.files.get(path))
    ]
    if not changed:
        return None
    folder = Path(await run_in_thread(mkdtemp, dir=scratch))
    try:
        headers = await run_in_thread(_write_sides, folder, changed, before, now, contents)
        options = ("--no-index", "--no-prefix", "--no-color", "--no-ext-diff", "--no-textconv", "-M")
        diff = await git.run("diff", *options, "a", "b", cwd=folder, accepted_codes=(0, 1))
    finally:
        await run_in_thread(remove_tree, folder)
    return _truncate(_merge_sides(diff.decode("utf-8", "replace")) + "".join(headers)) or None


def _write_sides(
    folder: Path, changed: list[str], before: Snapshot, now: Snapshot, contents: ContentStore
) -> list[str]:
    """Writes the old files to `a` and the new ones to `b`; returns the headers of files left out."""
    headers, files, bytes_left = [], 0, _MAX_BYTES
    for side in ("a", "b"):
        (folder / side).mkdir()
    for path in changed:
        sides = [("a", before.files.get(path)), ("b", now.files.get(path))]
        entries = [(side, entry) for side, entry in sides if entry is not None and entry.mode]
        size = sum(entry.size for _, entry in entries)
        is_comparable = len(path) <= _MAX_PATH_LENGTH and all(
            entry.digest is not None for _, entry in entries
        )
        if not is_comparable or files == _MAX_FILES or size > bytes_left:
            headers.append(_format_name_only(path, [side for side, _ in entries]))
            continue
        files, bytes_left = files + bool(entries), bytes_left - size
        for side, entry in entries:
            place = folder / side / path
            place.parent.mkdir(parents=True, exist_ok=True)
            write_entry(place, entry, contents)
    return headers


def _format_name_only(path: str, sides: list[str]) -> str:
    paths = {side: f"{side}/{path}" for side in ("a", "b")}
    if not path.isprintable():
        paths = {side: json.dumps(text) for side, text in paths.items()}
    old, new = (paths[side] if side in sides else _NULL_FILE for side in paths)
    header = f"diff --git {paths['a']} {paths['b']}"
    return f"{header}\nFiles {old} and {new} differ (too large, too deep or closed)\n"


def _merge_sides(text: str) -> str:
    """Rewrites the diff of the folders `a` and `b` as a diff of two states of one folder.

    Only headers change: every line of content begins with a space, `+` or `-`.
    """
    return _RENAME.sub(r"\1 \2 \3", _HEADER.sub(r"diff --git \1a/\2 \1b/\2", text))


def _truncate(text: str) -> str:
    if len(text) <= MAX_DIFF_LENGTH:
        return text
    end = text.rfind("\n", 0, MAX_DIFF_LENGTH) + 1
    return f"{text[:end]}(The diff is cut here: {len(text) - end:,} more characters are left out.)\n"

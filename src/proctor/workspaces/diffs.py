"""Two snapshots of a folder to the unified diff between them, as git writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import mkdtemp

from proctor.workspaces.copying import remove_tree
from proctor.workspaces.git import Git
from proctor.workspaces.snapshots import Contents, Snapshot, same, write
from proctor.workspaces.threads import aside

LONGEST = 1_000_000
"""The longest diff, in characters; the rest is cut off."""

_MAX_FILES = 2_000
_MAX_BYTES = 4_000_000
"""The most files, and old and new bytes, that are compared line by line; the others are only named."""
_MAX_PATH = 1_000
"""In characters; beyond a few thousand no system has room for it below a folder of ours."""

_HEADER = re.compile(r'^diff --git ("?)[ab]/(.*) \1[ab]/\2$', re.MULTILINE)
_RENAME = re.compile(r'^(rename|copy) (from|to) ("?)[ab]/', re.MULTILINE)
_NULL_FILE = "/dev/null"


async def difference(
    before: Snapshot, now: Snapshot, contents: Contents, git: Git, scratch: Path
) -> str | None:
    """The changes from one snapshot to the next; None where there are none.

    New, deleted, renamed and binary files have the headers that git gives them; a diff that is too long ends
    with a line that says how much is left out.

    Args:
        before: the first snapshot.
        now: the second.
        contents: has the contents of both.
        git: compares them.
        scratch: the folder in which both are laid out for it; it is left as it was.

    Raises:
        WorkspaceError: git failed.
        OSError: there is no place for what git is to compare.
    """
    changed = [
        path
        for path in sorted(before.files.keys() | now.files.keys())
        if not same(before.files.get(path), now.files.get(path))
    ]
    if not changed:
        return None
    folder = Path(await aside(mkdtemp, dir=scratch))
    try:
        headers = await aside(_lay_out, folder, changed, before, now, contents)
        arguments = (
            "diff",
            "--no-index",
            "--no-prefix",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "-M",
        )
        diff = await git.run(*arguments, "a", "b", cwd=folder, accepted_codes=(0, 1))
    finally:
        await aside(remove_tree, folder)
    return _truncate(_merge_sides(diff.decode("utf-8", "replace")) + "".join(headers)) or None


def _lay_out(
    folder: Path, changed: list[str], before: Snapshot, now: Snapshot, contents: Contents
) -> list[str]:
    """Write the old files to `a` and the new ones to `b`; returns the headers of those that are not."""
    headers, files, bytes_left = [], 0, _MAX_BYTES
    for side in ("a", "b"):
        (folder / side).mkdir()
    for path in changed:
        sides = [("a", before.files.get(path)), ("b", now.files.get(path))]
        entries = [(side, entry) for side, entry in sides if entry is not None and entry.mode]
        size = sum(entry.size for _, entry in entries)
        is_comparable = len(path) <= _MAX_PATH and all(entry.digest is not None for _, entry in entries)
        if not is_comparable or files == _MAX_FILES or size > bytes_left:
            headers.append(_name_difference(path, [side for side, _ in entries]))
            continue
        files, bytes_left = files + bool(entries), bytes_left - size
        for side, entry in entries:
            place = folder / side / path
            place.parent.mkdir(parents=True, exist_ok=True)
            write(place, entry, contents)
    return headers


def _name_difference(path: str, sides: list[str]) -> str:
    paths = {side: f"{side}/{path}" for side in ("a", "b")}
    if not path.isprintable():
        paths = {side: json.dumps(text) for side, text in paths.items()}
    old, new = (paths[side] if side in sides else _NULL_FILE for side in paths)
    header = f"diff --git {paths['a']} {paths['b']}"
    return f"{header}\nFiles {old} and {new} differ (too large, too deep or closed)\n"


def _merge_sides(text: str) -> str:
    """The diff of the folders `a` and `b` as if they had been two states of one folder.

    Only headers are touched: every line of content begins with a sign of its own.
    """
    return _RENAME.sub(r"\1 \2 \3", _HEADER.sub(r"diff --git \1a/\2 \1b/\2", text))


def _truncate(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    end = text.rfind("\n", 0, LONGEST) + 1
    return f"{text[:end]}(The diff is cut here: {len(text) - end:,} more characters are left out.)\n"

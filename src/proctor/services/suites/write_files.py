"""Writes the files of a converted suite: all of them or none, and over existing ones only with --force."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from posixpath import normpath

from proctor.errors import UsageError
from proctor.services.suites.convert import MAIN_FILE, ConvertedSuite

_MAX_NAMED = 5
"""The maximum number of files that a message names."""


def write_suite_files(converted: ConvertedSuite, output: str, *, force: bool = False) -> list[Path]:
    """Writes a suite to a file with the files beside it, or into a folder.

    Args:
        converted: the suite; it must have no error.
        output: the name of the suite's own file, or a folder: an existing one, one that ends in `/`, or any
            for a suite that is a folder. Missing folders are created.
        force: replace existing files.

    Returns:
        The files, the suite's own first.

    Raises:
        UsageError: a file exists already, or cannot be written; nothing was written.
    """
    if not output.strip():
        raise UsageError("The name of the output is empty. Is a variable not set?")
    contents = _contents_by_path(converted, output)
    # Not named after the file, whose name may already have the maximum length.
    parts = {target: target.with_name(f"{os.getpid()}-{nth}.part") for nth, target in enumerate(contents)}
    target = Path(output)
    try:
        for target in contents:
            if target.exists() and not target.is_file():
                raise UsageError(f"{target.as_posix()!r} exists and is not a file. Name another one.")
        if not force:
            _check_not_taken(converted, Path(output), list(contents))
        for target, data in contents.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            parts[target].write_bytes(data)
        for target, part in parts.items():
            part.replace(target)
    except OSError as error:
        raise UsageError(f"{str(target)!r} cannot be written: {error.strerror}.") from None
    finally:
        for part in parts.values():
            with suppress(OSError):  # its folder could not be created
                part.unlink(missing_ok=True)
    return list(contents)


def _contents_by_path(converted: ConvertedSuite, output: str) -> dict[Path, bytes]:
    files = converted.files
    for path in files:
        if path.startswith("/") or normpath(path).split("/")[0] == "..":
            raise UsageError(f"The file {path!r} of the suite would be outside its folder. Rename the case.")
        if not path.isprintable():
            raise UsageError(f"The name of the file {path!r} has invisible characters. Rename the file.")
    target = Path(output)
    if output.endswith(("/", os.sep)) or target.is_dir() or MAIN_FILE not in files:
        return {target / (path or converted.name_hint): data for path, data in sorted(files.items())}
    return {target.parent / path if path else target: data for path, data in sorted(files.items())}


def _check_not_taken(converted: ConvertedSuite, output: Path, targets: list[Path]) -> None:
    existing = [target for target in targets if target.exists()]
    if existing:
        names = ", ".join(target.as_posix() for target in existing[:_MAX_NAMED])
        more = f" and {len(existing) - _MAX_NAMED} more" if len(existing) > _MAX_NAMED else ""
        raise UsageError(
            f"These files already exist: {names}{more}. Nothing was written. Add --force to replace them."
        )
    if MAIN_FILE not in converted.files and output.is_dir() and any(output.iterdir()):
        raise UsageError(
            f"The folder {output.as_posix()!r} is not empty, and writing the suite would replace its "
            "content. Nothing was written. Name another folder, or add --force."
        )

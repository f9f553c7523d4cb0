"""`proctor init`: the files that a new project starts with."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from proctor.cli.options import show
from proctor.errors import UsageError

_FILES = {
    "suites/starter.jsonl": "starter.jsonl",
    "targets.yaml": "targets.yaml",
    ".github/workflows/proctor.yml": "workflow.yml",
}
"""Where each template goes."""


@click.command("init")
@click.argument("folder", default=".", type=click.Path(file_okay=False))
@click.option("--force", is_flag=True, help="Replace files that are there.")
def command(folder: str, force: bool) -> None:
    """Write a starter suite, targets.yaml and a CI file into FOLDER.

    When one of them is there already, nothing at all is written, unless you say --force.
    """
    there = [name for name in _FILES if (Path(folder) / name).exists()]
    if there and not force:
        raise UsageError(f"Already there: {', '.join(there)}. Nothing was written; --force replaces them.")
    templates = files("proctor") / "templates"
    for name, template in _FILES.items():
        path = Path(folder) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((templates / template).read_text(encoding="utf-8"), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
        show([f"wrote {path.as_posix()}"])
    show(
        [
            "",
            "Next:",
            *([f"  cd {folder}"] if folder != "." else []),
            "  proctor validate suites/starter.jsonl",
            "  proctor run suites/starter.jsonl --target local",
        ]
    )

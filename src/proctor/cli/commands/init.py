"""`proctor init`: writes the files that a new project starts with."""

from __future__ import annotations

import os
import re
import sys
from importlib.resources import files
from pathlib import Path
from shlex import quote
from shutil import which
from textwrap import indent

import click

from proctor.cli.options import show
from proctor.errors import UsageError

_FILES = {
    "suites/starter.jsonl": "starter.jsonl",
    "targets.yaml": "targets.yaml",
    "proctor.toml": "proctor.toml",
    ".github/workflows/proctor.yml": "workflow.yml",
    ".github/workflows/drift.yml": "drift.yml",
    "drift.cron": "drift.cron",
}
"""Templates by their destination; `PROJECT` in them is the folder, `PROGRAM` this program."""
_REPORTS = ("/proctor.xml", "/proctor.md", "/drift.md", "/drift.svg", "/drift.log")
"""The files that the templates' commands write into a project; git ignores them."""
SCHEMA_FOLDER = ".proctor/schemas"
"""The folder of the JSON Schemas that the templates name in their first lines."""


@click.command("init")
@click.argument("folder", default=".", type=click.Path(file_okay=False))
@click.option("--force", is_flag=True, help="Replace existing files.")
def command(folder: str, force: bool) -> None:
    """Create a starter suite, targets.yaml, proctor.toml, CI workflows and a cron line in FOLDER.

    The second CI workflow and the cron line run the suite every night and check for drift. Editors use the
    JSON Schemas in .proctor/schemas to complete and check the files. If one of the files exists, nothing is
    written unless you add --force. The reports that the workflows write are added to .gitignore; the store in
    .proctor is ignored already.
    """
    existing = [name for name in _FILES if (Path(folder) / name).exists()]
    if existing and not force:
        raise UsageError(
            f"These files already exist: {', '.join(existing)}. Nothing was written. Add "
            "--force to replace them."
        )
    templates = files("proctor") / "templates"
    script = (templates / "comment.sh").read_text(encoding="utf-8")
    values = {
        "PROJECT": _quote_for_cron(folder),
        "PROGRAM": _quote_for_cron(_find_program()),
        "COMMENT_SCRIPT": indent(script, 10 * " ").strip(),
    }
    for name, template in _FILES.items():
        path = Path(folder) / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (templates / template).read_text(encoding="utf-8")
            text = re.sub("|".join(values), lambda match: values[match[0]], text)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
        show([f"Wrote {path.as_posix()}"])
    _ignore_reports(Path(folder) / ".gitignore")
    _write_schemas(Path(folder) / SCHEMA_FOLDER)
    show(
        [
            "",
            "Next:",
            *([f"  cd {quote(folder)}"] if folder != "." else []),
            "  proctor validate",
            "  proctor run",
        ]
    )


def _ignore_reports(path: Path) -> None:
    """Adds the reports to the project's `.gitignore`, unless it has them."""
    try:
        text = path.read_bytes() if path.exists() else b""
        missing = [name for name in _REPORTS if name.encode() not in text.splitlines()]
        if not missing:
            return
        separator = b"\n" if text and not text.endswith(b"\n") else b""
        path.write_bytes(text + separator + "".join(f"{name}\n" for name in missing).encode())
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
    show([f"{'Added the reports to' if text else 'Wrote'} {path.as_posix()}"])


def _write_schemas(folder: Path) -> None:
    """Writes the JSON Schemas that the first lines of files name, in place of those of an older Proctor."""
    from proctor.cli.schemas import SCHEMAS, render_schema, schema_file_name
    from proctor.services.project_store import ignore_in_git

    for name in SCHEMAS:
        path = folder / schema_file_name(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render_schema(name), encoding="utf-8")
            ignore_in_git(folder.parent)
        except OSError as error:
            raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}.") from None
        show([f"Wrote {path.as_posix()}"])


def _find_program() -> str:
    """Returns the path of this program: cron looks in `/usr/bin` and `/bin` only."""
    own_folder = str(Path(sys.executable).parent)
    places = os.pathsep.join([own_folder, os.environ.get("PATH", os.defpath)])
    return which("proctor", path=places) or sys.argv[0]


def _quote_for_cron(path: str) -> str:
    """Returns the absolute path quoted for a shell and for cron, where a bare `%` ends the command."""
    return quote(str(Path(path).absolute())).replace("%", "\\%")

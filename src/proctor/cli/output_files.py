"""Checks and writes the files of `-o FILE`; the ending decides the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from proctor.cli.echo import echo_json
from proctor.cli.options import show
from proctor.errors import UsageError

if TYPE_CHECKING:
    from proctor.charts import Chart

F = TypeVar("F", bound=Callable[..., Any])

ENDINGS = (".svg", ".json", ".md")


def output_option(function: F) -> F:
    """Adds `-o FILE`, which may be repeated."""
    return click.option(
        "-o",
        "--output",
        multiple=True,
        metavar="FILE",
        help="Also write the result to FILE, which ends in .svg (a chart), .json or .md. May be repeated.",
    )(function)


def check_outputs(
    paths: Sequence[str],
    *,
    inputs: Sequence[str] = (),
    endings: Sequence[str] = ENDINGS,
    charts: bool = True,
) -> None:
    """Refuses files that cannot be written, before any call or computation.

    Args:
        paths: the files.
        inputs: files that are read, and must not be overwritten.
        endings: the accepted endings.
        charts: whether `.svg` is a chart, which needs an extra package.

    Raises:
        UsageError: a path has another ending, is a folder, has no folder or is an input; or charts are not
            installed.
    """
    for path in paths:
        if file_ending(path) not in endings:
            endings_text = " ".join(endings)
            raise UsageError(
                f"{path!r} has no known ending. The ending sets the format: one of {endings_text}."
            )
        if Path(path).is_dir():
            raise UsageError(f"{path!r} is a folder. Name a file, or remove the folder.")
        folder = Path(path).absolute().parent
        if not folder.is_dir():
            raise UsageError(f"The folder of {path!r} does not exist. Create it first.")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"The folder of {path!r} is not writable. Write to another one.")
        if any(_is_same_file(path, input_path) for input_path in inputs):
            raise UsageError(
                f"{path!r} is an input of this command and would be overwritten. Write to another file."
            )
        if charts and file_ending(path) == ".svg":
            from proctor.charts import import_vl_convert

            import_vl_convert()


def file_ending(path: str) -> str:
    """Returns the extension of a path with its dot, in lower case."""
    return Path(path).suffix.lower()


def draw_svg(chart: Callable[[], Chart]) -> str:
    """Returns a chart as SVG.

    Raises:
        UsageError: there is nothing to draw, or charts are not installed.
    """
    try:
        return chart().svg() + "\n"
    except ValueError as error:
        raise UsageError(f"No chart can be drawn: {error}") from None


def print_and_write(
    paths: Iterable[str],
    *,
    render_file: Callable[[str], str],
    render_text: Callable[[], Iterable[str]],
    render_json: Callable[[], str] | None,
) -> None:
    """Prints a result, and writes it to files; existing ones are replaced.

    Lines are printed first, so that they are not lost if a file cannot be written. JSON is printed last:
    the error would be a second JSON object.

    Args:
        paths: the files, checked by `check_outputs`.
        render_file: returns the text of a file with this path.
        render_text: returns the lines for a terminal.
        render_json: returns the JSON that is printed instead of them; None prints them.

    Raises:
        UsageError: a file cannot be written, or no chart can be drawn.
    """
    if render_json is None:
        show(render_text())
    for path in paths:
        write_output(path, render_file(path))
    if render_json is not None:
        echo_json(render_json())


def write_output(path: str, text: str) -> None:
    """Writes a file atomically; an existing one is replaced.

    Raises:
        UsageError: it cannot be written.
    """
    from proctor.eval.json_files import write_atomic

    try:
        write_atomic(path, text)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be written: {error.strerror}.") from None


def _is_same_file(path: str, other: str) -> bool:
    return Path(path).exists() and Path(other).exists() and Path(path).samefile(other)

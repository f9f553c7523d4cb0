"""Shared by the commands that read JSON Lines (bench, passk, trajectories): input, warnings and tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj, get_terminal_size
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.echo import echo
from proctor.cli.output_files import draw_svg, file_ending, print_and_write
from proctor.errors import UsageError
from proctor.reports.document import Column, Table, render_markdown, render_terminal
from proctor.safe_text import json_text, one_line

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.jsonl_rows import DroppedRow

MAX_PRINTED_ROWS = 5
"""Maximum number of dropped lines of a file that are printed."""


def text_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Returns a table of texts: the first column on the left side, the others on the right side."""
    first, *others = heads
    columns = [Column(first, is_verbatim=True)]
    columns += [Column(head, "number", is_verbatim=True) for head in others]
    return Table(columns, list(rows), caption=title)


@contextmanager
def open_input(path: str) -> Iterator[str]:
    """Yields the path of an input file; of a pipe or stdin (`-`), which can be read only once, a copy.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        yield _to_file(path)
    except OSError as error:
        raise UsageError(f"{path!r} cannot be read: {error.strerror}. Name a file of JSON Lines.") from None


def _to_file(path: str) -> str:
    source_path = Path("/dev/stdin" if path == "-" else path)
    if path != "-" and (not source_path.exists() or source_path.is_file() or source_path.is_dir()):
        return path
    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="proctor-"))
    copy_path = Path(folder, source_path.name)
    with copy_path.open("wb") as file:
        if path == "-":
            copyfileobj(sys.stdin.buffer, file)
        else:
            with source_path.open("rb") as pipe:
                copyfileobj(pipe, file)
    return str(copy_path)


def file_labels(paths: Collection[str]) -> list[str]:
    """Returns the names of the files if they differ, else their paths."""
    names = [one_line(Path(path).name) for path in paths]
    return names if len(set(names)) == len(names) else [one_line(path) for path in paths]


def write_outputs(
    paths: Sequence[str],
    *,
    as_data: bool,
    chart: Callable[[], Chart],
    data: Mapping[str, Any],
    tables: Sequence[Table],
) -> None:
    """Prints the result, and writes each file in the format of its ending; existing files are replaced.

    Printing comes first, so that the result is not lost if a file cannot be written.

    Args:
        paths: the files, checked by `check_outputs`.
        as_data: print the data as JSON instead of the tables.
        chart: draws for .svg.
        data: for .json.
        tables: for .md and the terminal, to whose width they are fitted.

    Raises:
        UsageError: a file cannot be written, or no chart can be drawn; then nothing is printed.
    """
    forms: dict[str, Callable[[], str]] = {
        ".svg": lambda: draw_svg(chart),
        ".json": lambda: _to_json(data) + "\n",
        ".md": lambda: "".join(render_markdown(tables)),
    }
    texts = {path: forms[file_ending(path)]() for path in paths}
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    print_and_write(
        texts,
        render_file=lambda path: texts[path],
        render_text=lambda: render_terminal(tables, width),
        render_json=(lambda: _to_json(data)) if as_data else None,
    )


def _to_json(data: Mapping[str, Any]) -> str:
    import json

    return json_text(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def warn_dropped(path: str, dropped_rows: Sequence[DroppedRow]) -> None:
    """Prints to stderr which lines of a file were left out and why; after the first few, how many more."""
    for row in dropped_rows[:MAX_PRINTED_ROWS]:
        echo(f"{path}:{row.line}: warning: {one_line(row.reason)}", err=True)
    if len(dropped_rows) > MAX_PRINTED_ROWS:
        more = len(dropped_rows) - MAX_PRINTED_ROWS
        lines = "line was" if more == 1 else "lines were"
        echo(f"{path}: warning: {more:,} more {lines} skipped. --json lists them all.", err=True)

"""Shared by the commands that read JSON Lines (bench, passk, trajectories): input, warnings and tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj, get_terminal_size
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from proctor.cli.echo import echo
from proctor.cli.output_files import draw_svg, file_ending, print_and_write
from proctor.errors import UsageError
from proctor.safe_text import display_width, json_text, markdown_text, one_line, pad_to_width

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.jsonl_rows import DroppedRow

MAX_PRINTED_ROWS = 5
"""Maximum number of dropped lines of a file that are printed."""
_MAX_CELL_WIDTH = 40
"""On a terminal."""


class Table(NamedTuple):
    """A title and rows; the first row has the names of the columns."""

    title: str
    rows: Sequence[Sequence[str]]


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
        ".md": lambda: "\n".join(as_markdown(tables)),
    }
    texts = {path: forms[file_ending(path)]() for path in paths}
    print_and_write(
        texts,
        render_file=lambda path: texts[path],
        render_text=lambda: as_text(tables, get_terminal_size().columns if sys.stdout.isatty() else None),
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
        echo(f"{path}: warning: {more:,} more {lines} left out; --json has them all.", err=True)


def as_text(tables: Sequence[Table], width: int | None = None) -> Iterator[str]:
    """Yields tables as lines: the first column is left-aligned, the others right-aligned.

    Args:
        tables: the tables; all rows of a table have the same number of cells.
        width: maximum length of a line. Columns that do not fit go into a further table below, which
            repeats the first column; the middle of long texts is cut.
    """
    for index, table in enumerate(tables):
        if index:
            yield ""
        if table.title:
            yield table.title
        rows = [list(map(_on_one_line if width is None else _shorten, row)) for row in table.rows]
        widths = [max(map(display_width, column)) for column in zip(*rows, strict=True)]
        for part, numbers in enumerate(_group_columns(widths, width)):
            if part:
                yield ""
            for row in rows:
                cells = [pad_to_width(row[0], widths[0])]
                cells += [
                    " " * (widths[column] - display_width(row[column])) + row[column] for column in numbers
                ]
                yield "  ".join(cells).rstrip()


def _group_columns(widths: Sequence[int], width: int | None) -> list[list[int]]:
    """Groups the columns after the first into tables that fit the width."""
    parts: list[list[int]] = [[]]
    used_width = widths[0]
    for column in range(1, len(widths)):
        used_width += 2 + widths[column]
        if width is not None and used_width > width and parts[-1]:
            parts.append([])
            used_width = widths[0] + 2 + widths[column]
        parts[-1].append(column)
    return parts


def _on_one_line(text: str) -> str:
    """Returns the text of a cell on one line, with its indentation."""
    return text[: len(text) - len(text.lstrip(" "))] + one_line(text)


def _shorten(text: str) -> str:
    line, half = _on_one_line(text), _MAX_CELL_WIDTH // 2
    return line if len(line) <= _MAX_CELL_WIDTH else f"{line[: half - 1]}…{line[-half:]}"


def as_markdown(tables: Sequence[Table]) -> Iterator[str]:
    """Yields tables as Markdown; all columns but the first are right-aligned."""
    for table in tables:
        if table.title:
            yield f"### {markdown_text(table.title)}"
            yield ""
        head, *rows = table.rows
        yield _markdown_row(head)
        yield f"|---|{'---:|' * (len(head) - 1)}"
        yield from map(_markdown_row, rows)
        yield ""


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"

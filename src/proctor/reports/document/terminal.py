"""Writes documents as lines for a terminal or a log. Pure: colour is added when they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from proctor.reports.document.blocks import (
    Block,
    Bullets,
    Facts,
    Heading,
    Paragraph,
    Preformatted,
    Table,
    Text,
)
from proctor.reports.document.columns import TextColumn, text_columns
from proctor.safe_text import display_width, escape_invisible, one_line, pad_to_width

_MAX_CELL_WIDTH = 40
"""Maximum width of a cell of a table that is fitted to a terminal."""


def render_terminal(blocks: Iterable[Block], width: int | None = None) -> Iterator[str]:
    """Yields the lines of a document, with an empty line between blocks, but not between sentences.

    Args:
        blocks: the document.
        width: the maximum length of a line of a table. Columns that do not fit go into a further table below,
            which repeats the first column; the middle of long texts is cut.
    """
    last: Block | None = None
    for block in blocks:
        lines = list(_block_lines(block, width)) if block.only in (None, "terminal") else []
        if not lines:
            continue
        if last is not None and not all(isinstance(each, Paragraph | Bullets) for each in (last, block)):
            yield ""
        yield from lines
        last = block


def _block_lines(block: Block, width: int | None) -> Iterator[str]:
    match block:
        case Heading(text=text) | Paragraph(text=text):
            yield _line(text)
        case Bullets(items=items):
            yield from map(_line, items)
        case Facts(items=items):
            names = [_cell(name) for name, _ in items]
            names_width = max([block.width, *map(display_width, names)])
            for name, (_, text) in zip(names, items, strict=True):
                yield f"{pad_to_width(name, names_width)}  {_line(text)}"
        case Preformatted(lines=lines):
            yield from (escape_invisible(line).replace("\n", r"\n") for line in lines)
        case Table():
            yield from _table_lines(block, width)
            yield from map(one_line, block.notes)


def _line(text: Text) -> str:
    parts = (text,) if isinstance(text, str) else text
    return one_line("".join(part if isinstance(part, str) else part.text for part in parts))


def _cell(text: str, max_width: int | None = None) -> str:
    """Returns a text on one line with its indentation; the middle of a long one is cut."""
    line, indent = one_line(text), len(text) - len(text.lstrip(" "))
    if max_width is not None and len(line) > max_width:
        line = f"{line[: max_width // 2]}…{line[1 - max_width // 2 :]}"
    return " " * indent + line


def _table_lines(table: Table, width: int | None) -> Iterator[str]:
    if not table.rows:
        return
    if table.caption:
        yield one_line(table.caption)
    columns = [_align(column, width) for column in text_columns(table, drawn=True)]
    for number, group in enumerate(_group_columns([display_width(column[0]) for column in columns], width)):
        if number:
            yield ""
        lines = [
            "  ".join(cells).rstrip() for cells in zip(*(columns[place] for place in group), strict=True)
        ]
        yield from lines if lines[0] else lines[1:]


def _align(text_column: TextColumn, width: int | None) -> list[str]:
    """Returns the heading and the cells of a column, all of the same width."""
    column = text_column.column
    max_width = column.max_width if width is None else _MAX_CELL_WIDTH
    cells = [cell.upper() if column.kind == "verdict" else cell for cell in text_column.cells]
    name = _cell(column.name, max_width) if column.is_verbatim else column.name
    texts = [name, *(_cell(text, max_width) for text in cells)]
    column_width = max([column.width, *map(display_width, texts)])
    if column.is_number:
        return [" " * (column_width - display_width(text)) + text for text in texts]
    return [pad_to_width(text, column_width) for text in texts]


def _group_columns(widths: Sequence[int], width: int | None) -> Iterator[list[int]]:
    """Yields the columns of each table that fits the width; each begins with the first column."""
    group, used_width = [0], widths[0]
    for place in range(1, len(widths)):
        used_width += 2 + widths[place]
        if width is not None and used_width > width and len(group) > 1:
            yield group
            group, used_width = [0], widths[0] + 2 + widths[place]
        group.append(place)
    yield group

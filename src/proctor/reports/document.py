"""Documents: what a report shows, as blocks that are written as text, Markdown or HTML. Pure.

In: blocks, which a report makes of its record once, with texts as they are. Out: lines of a terminal,
Markdown, or HTML by the macros of `templates/document.html`. Only these three writers escape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct

from proctor.reports import formatting
from proctor.reports.formatting import NONE, interval, percent, percentage_points
from proctor.safe_text import (
    display_width,
    escape_invisible,
    markdown_block,
    markdown_code,
    markdown_text,
    one_line,
    pad_to_width,
)

if TYPE_CHECKING:
    from proctor.reports.word_diff import WordDiff

Medium = Literal["terminal", "markdown", "html"]
NumberKind = Literal["number", "count", "percent", "milliseconds"]
ColumnKind = Literal["text", "p", "run", "verdict", "rate", "interval", "difference"] | NumberKind
"""How the cells of a column are written; None is a dash, and a text stays as it is.

`number` is a text on the right side, `run` the id of a run. A cell of `rate`, or of `interval` for its
interval alone, has the fields of `Rate`, as `Counts` has; one of `difference` has `value`, `ci95`,
`unmeasured` and `bounds`, as `PassRateDifference` has. They are fractions of 1, and are drawn where the
medium can.
"""
_FORMATS: dict[str, Callable[[Any], str]] = {
    "count": "{:,}".format,
    "percent": percent,
    "milliseconds": formatting.milliseconds,
    "p": formatting.p_value,
}
_MAX_CELL_WIDTH = 40
"""Maximum width of a cell in a table that is fitted to a terminal."""

# --- blocks ------------------------------------------------------------------------------------------------


class Strong(Struct, frozen=True):
    """Words of a sentence that stand out."""

    tag: ClassVar[str] = "b"
    text: str


class Code(Struct, frozen=True):
    """A command, a path, an id or a digest in a sentence."""

    tag: ClassVar[str] = "code"
    text: str


Text = str | tuple[str | Strong | Code, ...]
"""A sentence, or the parts that it consists of."""


class Block(Struct, frozen=True, kw_only=True):
    """A part of a document."""

    kind: ClassVar[str]
    only: Medium | None = None
    """The medium that shows it; None for all."""


class Heading(Block, frozen=True):
    """The title of a document, or of a section of it."""

    kind: ClassVar[str] = "heading"
    text: str
    level: int = 1


class Paragraph(Block, frozen=True):
    """A sentence or several; on a terminal a line."""

    kind: ClassVar[str] = "paragraph"
    text: Text
    style: Literal["plain", "strong", "note", "warning"] = "plain"


class Bullets(Block, frozen=True):
    """A list; on a terminal a line for each item."""

    kind: ClassVar[str] = "bullets"
    items: Sequence[Text]


class Facts(Block, frozen=True):
    """Names with their values."""

    kind: ClassVar[str] = "facts"
    items: Sequence[tuple[str, Text]]
    width: int = 0
    """The minimum width of the names on a terminal."""


class Preformatted(Block, frozen=True):
    """Lines that are shown as they are."""

    kind: ClassVar[str] = "preformatted"
    lines: Sequence[str]


class Image(Block, frozen=True):
    """An image file with a link, for Markdown."""

    kind: ClassVar[str] = "image"
    text: str
    path: str
    """The path of the file, relative to the document."""
    link: str | None = None


class Rate(Struct, frozen=True):
    """A share with its interval, as fractions of 1."""

    pass_rate: float | None
    ci95: tuple[float, float] | None
    cases: int = 0
    """What the interval is over."""
    unmeasured: int = 0
    """The number of trials that are neither in the share nor in the interval."""
    bounds: tuple[float, float] | None = None
    """The share if all of these had failed, and if all had passed."""


class Column(Struct, frozen=True):
    """A column of a table."""

    name: str = ""
    kind: ColumnKind = "text"
    width: int = 0
    """The minimum width on a terminal."""
    max_width: int | None = None
    """The maximum width on a terminal; the middle of longer texts is cut."""
    is_verbatim: bool = False
    """Whether the name is somebody's text, of which no letter is made a capital."""

    @property
    def is_number(self) -> bool:
        """Whether its cells stand on the right side."""
        return self.kind in ("number", "count", "percent", "milliseconds")

    @property
    def title(self) -> str:
        """The name with a capital letter, unless it is a single letter."""
        is_plain = self.is_verbatim or len(self.name) == 1
        return self.name if is_plain else self.name[:1].upper() + self.name[1:]


def count_columns(*names: str, width: int = 0) -> tuple[Column, ...]:
    """Returns columns of counts."""
    return tuple(Column(name, "count", width) for name in names)


RATE_COLUMNS = (Column("passed", "count", 6), Column("total", "count", 5), Column("rate", "rate"))
"""The columns of counts: the passed trials, all trials, and the pass rate."""


class Table(Block, frozen=True):
    """Rows with a cell for each column; where only the first cell has a text, it is a heading of rows.

    On a terminal, a cell is indented by the spaces that it begins with. Columns without any text are left
    out, and without names of columns the heading.
    """

    kind: ClassVar[str] = "table"
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    notes: Sequence[str] = ()
    """Lines right below the table."""

    @property
    def differences(self) -> list[Any]:
        """The cells that are differences, which share an axis."""
        places = [place for place, column in enumerate(self.columns) if column.kind == "difference"]
        return [row[place] for row in self.rows for place in places if not isinstance(row[place], str)]


class RateEntry(Struct, frozen=True):
    """A rate of a grid."""

    rate: Any
    """Has the fields of `Rate`."""
    notes: Sequence[str] = ()
    """Short texts beside it, such as a cost."""


class RateGrid(Block, frozen=True):
    """Rates by row and column; None for an empty cell."""

    kind: ClassVar[str] = "grid"
    corner: str
    """What the rows are."""
    columns: Sequence[str]
    """Somebody's names."""
    rows: Sequence[tuple[str, Sequence[RateEntry | None]]]
    notes: Sequence[str] = ()
    """Lines right below it."""


class TextDiff(Block, frozen=True):
    """Two texts and what differs: lines of text and Markdown, and words in HTML."""

    kind: ClassVar[str] = "diff"
    before: str
    after: str
    names: tuple[str, str]

    @property
    def words(self) -> WordDiff:
        """Both texts, each with the words that only it has."""
        from proctor.reports.word_diff import diff_words

        return diff_words(self.before, self.after)


# --- columns -----------------------------------------------------------------------------------------------


def format_cell(cell: Any, column: Column) -> str:
    """Returns the text of a cell whose column has no drawing."""
    return NONE if cell is None else cell if isinstance(cell, str) else _FORMATS[column.kind](cell)


def _text_columns(table: Table, *, drawn: bool) -> list[tuple[Column, list[str]]]:
    """Returns the columns of a table with the texts of their cells, without columns that have none.

    The value of a rate or a difference, its drawing and its interval are columns of their own.

    Args:
        table: the table.
        drawn: add drawings, for a terminal.
    """
    limit = formatting.axis_limit(table.differences)
    columns: list[tuple[Column, list[str]]] = []
    for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True):
        for part, write in _column_parts(column, limit, drawn=drawn):
            columns.append((part, [cell if isinstance(cell, str) else write(cell) for cell in cells]))
    return [(column, texts) for column, texts in columns if any(texts)]


def _column_parts(
    column: Column, limit: float, *, drawn: bool
) -> Iterator[tuple[Column, Callable[[Any], str]]]:
    """Yields the columns of texts that a column becomes, and how each writes a cell."""
    if column.kind in ("rate", "interval"):
        if column.kind == "rate":
            yield Column(column.name, "percent", 6), lambda cell: percent(cell.pass_rate)
        if drawn:
            head = Column(formatting.AXIS_HEAD)
            yield head, lambda cell: formatting.draw_interval(cell.pass_rate, cell.ci95)
        yield Column("" if drawn else "95 % interval", width=8), lambda cell: interval(cell.ci95)
        yield Column("not measured"), lambda cell: formatting.unmeasured(cell.unmeasured, cell.bounds)
    elif column.kind == "difference":
        yield Column(column.name, "number", 10), lambda cell: percentage_points(cell.value)
        if drawn:
            head = Column(formatting.difference_axis_head(limit))
            yield head, lambda cell: formatting.draw_difference(cell.value, cell.ci95, limit)
        head = Column("95% interval" if drawn else "95 % interval", width=18)
        yield head, lambda cell: formatting.difference_interval(cell.ci95)
        yield (
            Column("not measured"),
            lambda cell: formatting.unmeasured_difference(cell.unmeasured, cell.bounds),
        )
    else:
        yield column, lambda cell: format_cell(cell, column)


# --- terminals ---------------------------------------------------------------------------------------------


def render_terminal(blocks: Iterable[Block], width: int | None = None) -> Iterator[str]:
    """Yields lines for a terminal or a log; an empty line is between blocks, but not between sentences.

    Args:
        blocks: the document.
        width: the maximum length of a line of a table. Columns that do not fit go into a further table below,
            which repeats the first column; the middle of long texts is cut.
    """
    last: Block | None = None
    for block in blocks:
        lines = list(_terminal_lines(block, width)) if block.only in (None, "terminal") else []
        if not lines:
            continue
        if last is not None and not all(isinstance(each, Paragraph | Bullets) for each in (last, block)):
            yield ""
        yield from lines
        last = block


def _terminal_lines(block: Block, width: int | None) -> Iterator[str]:
    match block:
        case Heading(text=text) | Paragraph(text=text):
            yield _terminal_line(text)
        case Bullets(items=items):
            yield from map(_terminal_line, items)
        case Facts(items=items):
            names = [_terminal_cell(name) for name, _ in items]
            names_width = max([block.width, *map(display_width, names)])
            for name, (_, text) in zip(names, items, strict=True):
                yield f"{pad_to_width(name, names_width)}  {_terminal_line(text)}"
        case Preformatted(lines=lines):
            yield from (escape_invisible(line).replace("\n", r"\n") for line in lines)
        case Table():
            if block.rows:
                yield from _terminal_rows(block, width)
            yield from map(one_line, block.notes)
        case RateGrid():
            yield from _terminal_rows(_grid_table(block), width)
            yield from map(one_line, block.notes)
        case TextDiff():
            yield from map(escape_invisible, _diff_lines(block))


def _grid_table(grid: RateGrid) -> Table:
    """Returns a grid as a table with several lines for each row."""
    columns = [Column(name, max_width=_MAX_CELL_WIDTH, is_verbatim=True) for name in grid.columns]
    rows: list[tuple[str, ...]] = []
    for name, entries in grid.rows:
        cells = [[NONE] if entry is None else list(_entry_lines(entry)) for entry in entries]
        height = max(map(len, cells))
        padded = [cell + [""] * (height - len(cell)) for cell in cells]
        names = [name] + [" "] * (height - 1)
        rows += zip(names, *padded, strict=True)
    return Table((Column(grid.corner, max_width=_MAX_CELL_WIDTH), *columns), rows)


def _entry_lines(entry: RateEntry) -> Iterator[str]:
    rate = entry.rate
    yield f"{percent(rate.pass_rate)} {interval(rate.ci95)}"
    yield " · ".join((f"n {rate.cases:,}", *entry.notes))
    if rest := formatting.unmeasured(rate.unmeasured, rate.bounds):
        yield f"not measured {rest}"


def _diff_lines(diff: TextDiff) -> list[str]:
    from proctor.reports.word_diff import diff_lines

    heads = [f"--- {one_line(diff.names[0])}", f"+++ {one_line(diff.names[1])}"]
    return [*heads, *diff_lines(diff.before, diff.after)]


def _terminal_line(text: Text) -> str:
    parts = (text,) if isinstance(text, str) else text
    return one_line("".join(part if isinstance(part, str) else part.text for part in parts))


def _terminal_cell(text: str, max_width: int | None = None) -> str:
    """Returns a text on one line with its indentation; the middle of a long one is cut."""
    line, indent = one_line(text), len(text) - len(text.lstrip(" "))
    if max_width is not None and len(line) > max_width:
        line = f"{line[: max_width // 2]}…{line[1 - max_width // 2 :]}"
    return " " * indent + line


def _terminal_rows(table: Table, width: int | None) -> Iterator[str]:
    if table.caption:
        yield one_line(table.caption)
    columns = [_aligned(*column, width) for column in _text_columns(table, drawn=True)]
    groups, used_width = [[columns[0]]], display_width(columns[0][0])
    for column in columns[1:]:
        used_width += 2 + display_width(column[0])
        if width is not None and used_width > width and len(groups[-1]) > 1:
            groups.append([columns[0]])
            used_width = display_width(columns[0][0]) + 2 + display_width(column[0])
        groups[-1].append(column)
    for number, group in enumerate(groups):
        if number:
            yield ""
        head, *lines = ("  ".join(cells).rstrip() for cells in zip(*group, strict=True))
        yield from (head, *lines) if head else lines


def _aligned(column: Column, cells: Sequence[str], width: int | None) -> list[str]:
    """Returns the heading and the cells of a column, all of the same width."""
    max_width = column.max_width if width is None else _MAX_CELL_WIDTH
    name = _terminal_cell(column.name, max_width) if column.is_verbatim else column.name
    shown = [cell.upper() for cell in cells] if column.kind == "verdict" else cells
    texts = [name, *(_terminal_cell(cell, max_width) for cell in shown)]
    column_width = max([column.width, *map(display_width, texts)])
    if column.is_number:
        return [" " * (column_width - display_width(text)) + text for text in texts]
    return [pad_to_width(text, column_width) for text in texts]


# --- Markdown ----------------------------------------------------------------------------------------------


def render_markdown(blocks: Iterable[Block]) -> Iterator[str]:
    """Yields each block as Markdown of GitHub, with an empty line between blocks."""
    separator = ""
    for block in blocks:
        text = "\n".join(_markdown_lines(block)) if block.only in (None, "markdown") else ""
        if text:
            yield f"{separator}{text}\n"
            separator = "\n"


def _markdown_lines(block: Block) -> Iterator[str]:
    match block:
        case Heading(text=text, level=level):
            yield f"{'#' * level} {markdown_text(text)}"
        case Paragraph(text=text, style=style):
            yield f"**{_markdown_inline(text)}**" if style == "strong" else _markdown_inline(text)
        case Bullets(items=items):
            yield from (f"- {_markdown_inline(item)}" for item in items)
        case Facts(items=items) if items:
            yield from ("| | |", "|---|---|")
            for name, text in items:
                yield _markdown_row((markdown_text(name), _markdown_inline(text, _markdown_code_cell)))
        case Preformatted(lines=lines):
            yield markdown_block("\n".join(lines)).rstrip("\n")
        case Image(text=text, path=path, link=link):
            image = f"![{markdown_text(text)}]({_markdown_address(path)})"
            yield image if link is None else f"[{image}]({_markdown_address(link)})"
        case Table(rows=rows) if rows:
            yield from _markdown_table(block)
        case RateGrid(notes=notes):
            yield from _markdown_grid(block)
            yield from (f"\n{markdown_text(note)}" for note in notes)
        case TextDiff():
            yield markdown_block("\n".join(_diff_lines(block)), "diff").rstrip("\n")


def _markdown_inline(text: Text, write_code: Callable[[str], str] = markdown_code) -> str:
    return "".join(_markdown_part(part, write_code) for part in ((text,) if isinstance(text, str) else text))


def _markdown_part(part: str | Strong | Code, write_code: Callable[[str], str]) -> str:
    match part:
        case Strong(text):
            return f"**{markdown_text(text)}**"
        case Code(text):
            return write_code(text)
        case text:
            return f"{' ' * text.startswith(' ')}{markdown_text(text)}{' ' * text.endswith(' ')}"


def _markdown_code_cell(text: str) -> str:
    return markdown_code(text).replace("|", r"\|")


def _markdown_address(address: str) -> str:
    from urllib.parse import quote

    return quote(one_line(address), safe="/:?#@!$&*+,;=%~")


def _markdown_table(table: Table) -> Iterator[str]:
    columns = _text_columns(table, drawn=False)
    if table.caption:
        yield from (f"### {markdown_text(table.caption)}", "")
    yield _markdown_row(markdown_text(column.title) for column, _ in columns)
    yield f"|{'|'.join('--:' if column.is_number else '---' for column, _ in columns)}|"
    cells = (map(_markdown_cell, texts, repeat(column.kind)) for column, texts in columns)
    for first, *others in zip(*cells, strict=True):
        yield _markdown_row([first if any(others) else f"**{first}**", *others])
    for note in table.notes:
        yield from ("", markdown_text(note))


def _markdown_grid(grid: RateGrid) -> Iterator[str]:
    yield _markdown_row(markdown_text(name) for name in (grid.corner.capitalize(), *grid.columns))
    yield "|---" * (len(grid.columns) + 1) + "|"
    for name, entries in grid.rows:
        cells = [NONE if entry is None else ", ".join(_entry_lines(entry)) for entry in entries]
        yield _markdown_row(map(markdown_text, (name, *cells)))


def _markdown_cell(text: str, kind: ColumnKind) -> str:
    return _markdown_code_cell(text) if kind == "run" else markdown_text(text)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("  ", " ")

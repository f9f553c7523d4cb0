"""Renders rows as tables: HTML for notebooks, Markdown for reports. Pure.

The Markdown is that of fieldkit.eval's reports, to the character, which that of `proctor.reports` is not.
Texts may come from models: they are escaped, and unprintable characters are written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from proctor.safe_text import markdown_text, truncate

NO_VALUE = "–"
"""A cell without a number."""
_MAX_CELL_LENGTH = 200
"""Characters of a cell that are shown in HTML."""
_MAX_ROWS = 60
"""Rows of a table that are shown in HTML: the first ones and the last, which may be the total."""


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns an HTML table with a title, without colours, for light and dark themes.

    Args:
        title: the caption above it.
        columns: their names.
        rows: a cell for each column; numbers are shown with four digits, None as a dash, a pair of numbers
            as an interval, and all else as its text on one line. Of many the first ones and the last are
            shown.
    """
    rows = list(rows)
    if len(rows) > _MAX_ROWS:
        rows[_MAX_ROWS - 2 : -1] = [
            (f"… {len(rows) - _MAX_ROWS + 1:,} more rows", *[""] * (len(columns) - 1))
        ]
    head = "".join(f"<th>{_escape_text(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell_html, row))}</tr>" for row in rows)
    return (
        f'<table><caption style="caption-side: top; text-align: left"><b>{_escape_text(title)}</b></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> Iterator[str]:
    """Yields the lines of a Markdown table.

    The first `texts` columns are texts, escaped and left-aligned; the others are numbers, as they are.
    """
    yield f"|{'|'.join(f' {name} ' if name else ' ' for name in _escape_markdown(columns, texts))}|"
    yield f"|{'---|' * texts}{'---:|' * (len(columns) - texts)}"
    for row in rows:
        yield f"| {' | '.join(_escape_markdown(row, texts))} |"


def _escape_markdown(cells: Sequence[str], texts: int) -> Iterator[str]:
    yield from map(markdown_text, cells[:texts])
    yield from cells[texts:]


def format_number(value: float | None) -> str:
    """Returns a number with four digits, or with all digits before its point; a dash for None."""
    if value is None:
        return NO_VALUE
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def _cell_html(value: Any) -> str:
    align = "left" if isinstance(value, str) else "right"
    return f'<td style="text-align: {align}">{_escape_text(_cell_text(value))}</td>'


def _cell_text(value: Any) -> str:
    if value is None:
        return NO_VALUE
    if isinstance(value, tuple | list):
        return " to ".join(map(format_number, value))
    if isinstance(value, int):
        return f"{value:,}"
    return format_number(value) if isinstance(value, float) else str(value)


def _escape_text(text: str) -> str:
    return escape(truncate(text, _MAX_CELL_LENGTH))

"""Writes the cells of a table as texts: a typed column becomes one to three columns of texts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from proctor.reports import formatting
from proctor.reports.document.blocks import Column, Table
from proctor.reports.formatting import NONE, interval, percent

_FORMATS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "run": str,
    "verdict": str,
    "number": str,
    "count": "{:,}".format,
    "percent": percent,
    "milliseconds": formatting.milliseconds,
    "p": formatting.p_value,
}
_RATE_WIDTH, _DIFFERENCE_WIDTH = 6, 10
_RATE_INTERVAL_WIDTH, _DIFFERENCE_INTERVAL_WIDTH = 8, 18


class TextColumn(Struct, frozen=True):
    """A column with the text of each row."""

    column: Column
    cells: list[str]


def text_columns(table: Table, *, drawn: bool) -> list[TextColumn]:
    """Returns the columns of a table as texts, without empty ones.

    Args:
        table: the table.
        drawn: add drawings of rates and differences.
    """
    limit = formatting.axis_limit(table.differences)
    columns = [
        text_column
        for column, cells in zip(table.columns, zip(*table.rows, strict=True), strict=True)
        for text_column in _split(column, cells, limit if drawn else None)
    ]
    return [column for column in columns if any(column.cells)]


def _split(column: Column, cells: Sequence[Any], limit: float | None) -> Iterator[TextColumn]:
    """Yields the value of a rate or a difference, its drawing and its interval as columns of their own.

    Args:
        column: the column.
        cells: its cells.
        limit: the limit of the axis of differences; None for no drawings.
    """

    def write(part: Column, format_cell: Callable[[Any], str]) -> TextColumn:
        return TextColumn(part, [cell if isinstance(cell, str) else format_cell(cell) for cell in cells])

    match column.kind:
        case "rate":
            rate = Column(column.name, "percent", _RATE_WIDTH)
            yield write(rate, lambda cell: percent(cell.pass_rate))
            yield from _split(Column("", "interval"), cells, limit)
        case "interval":
            if limit is not None:
                drawing = Column(formatting.AXIS_HEAD)
                yield write(drawing, lambda cell: formatting.draw_interval(cell.pass_rate, cell.ci95))
            bounds = Column("95 % interval" if limit is None else "", width=_RATE_INTERVAL_WIDTH)
            yield write(bounds, lambda cell: interval(cell.ci95))
        case "difference":
            points = Column(column.name, "number", _DIFFERENCE_WIDTH)
            yield write(points, lambda cell: formatting.percentage_points(cell.value))
            if limit is not None:
                drawing = Column(formatting.difference_axis_head(limit))
                yield write(drawing, lambda cell: formatting.draw_difference(cell.value, cell.ci95, limit))
            bounds = Column(
                "95 % interval" if limit is None else "95% interval", width=_DIFFERENCE_INTERVAL_WIDTH
            )
            yield write(bounds, lambda cell: formatting.difference_interval(cell.ci95))
        case _:
            yield write(column, lambda cell: format_cell(cell, column))


def format_cell(cell: Any, column: Column) -> str:
    """Returns the text of a cell whose column has no drawing."""
    return NONE if cell is None else _FORMATS[column.kind](cell)

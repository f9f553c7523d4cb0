"""Writes documents as Markdown, for a pull request, a README or a notebook. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from urllib.parse import quote

from proctor.reports.document.blocks import (
    Block,
    Bullets,
    Code,
    Facts,
    Heading,
    Image,
    Paragraph,
    Preformatted,
    Strong,
    Table,
    Text,
)
from proctor.reports.document.columns import text_columns
from proctor.safe_text import markdown_block, markdown_code, markdown_text, one_line


def render_markdown(blocks: Iterable[Block]) -> Iterator[str]:
    """Yields each block of a document, with an empty line between them."""
    separator = ""
    for block in blocks:
        text = "\n".join(_block_lines(block)) if block.only in (None, "markdown") else ""
        if text:
            yield f"{separator}{text}\n"
            separator = "\n"


def _block_lines(block: Block) -> Iterator[str]:
    match block:
        case Heading(text=text, level=level):
            yield f"{'#' * level} {markdown_text(text)}"
        case Paragraph(text=text, style="strong"):
            yield f"**{_inline(text)}**"
        case Paragraph(text=text):
            yield _inline(text)
        case Bullets(items=items):
            yield from (f"- {_inline(item)}" for item in items)
        case Facts(items=items):
            yield from (f"- {markdown_text(name)}: {_inline(text)}" for name, text in items)
        case Preformatted(lines=lines):
            yield markdown_block("\n".join(lines)).rstrip("\n")
        case Image(text=text, path=path, link=link):
            image = f"![{markdown_text(text)}]({_address(path)})"
            yield image if link is None else f"[{image}]({_address(link)})"
        case Table(rows=rows) if rows:
            yield from _table_lines(block)


def _inline(text: Text) -> str:
    parts = (text,) if isinstance(text, str) else text
    return "".join(map(_part, parts))


def _part(part: str | Strong | Code) -> str:
    match part:
        case Strong(text):
            return f"**{markdown_text(text)}**"
        case Code(text):
            return markdown_code(text)
        case text:
            inner = markdown_text(text)
            return f"{' ' * text.startswith(' ')}{inner}{' ' * text.endswith(' ')}"


def _address(address: str) -> str:
    return quote(one_line(address), safe="/:?#@!$&*+,;=%~")


def _table_lines(table: Table) -> Iterator[str]:
    columns = text_columns(table, drawn=False)
    if table.caption:
        yield from (f"### {markdown_text(table.caption)}", "")
    yield _row(markdown_text(column.column.title) for column in columns)
    yield f"|{'|'.join('--:' if column.column.is_number else '---' for column in columns)}|"
    for first, *others in zip(
        *(map(_cell, column.cells, repeat(column.column.kind)) for column in columns), strict=True
    ):
        yield _row([first if any(others) else f"**{first}**", *others])
    for note in table.notes:
        yield from ("", markdown_text(note))


def _cell(text: str, kind: str) -> str:
    return markdown_code(text).replace("|", r"\|") if kind == "run" else markdown_text(text)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("  ", " ")

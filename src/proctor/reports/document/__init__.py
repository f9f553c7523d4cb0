"""Documents: the blocks of a report, and the renderers that write them for each medium.

In: blocks, which a report makes of its record once. Out: lines of a terminal (`terminal.py`), Markdown
(`markdown.py`) or HTML (the macro `blocks` of `templates/document.html`). Start with `blocks.py`. Only
renderers escape: a block holds texts as they are.
"""

from proctor.reports.document.blocks import (
    Block,
    Bullets,
    Code,
    Column,
    ColumnKind,
    Facts,
    Heading,
    Image,
    Paragraph,
    Preformatted,
    Rate,
    Strong,
    Table,
)
from proctor.reports.document.markdown import render_markdown
from proctor.reports.document.terminal import render_terminal

__all__ = [
    "Block",
    "Bullets",
    "Code",
    "Column",
    "ColumnKind",
    "Facts",
    "Heading",
    "Image",
    "Paragraph",
    "Preformatted",
    "Rate",
    "Strong",
    "Table",
    "render_markdown",
    "render_terminal",
]

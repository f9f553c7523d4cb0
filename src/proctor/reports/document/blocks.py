"""The blocks of a document: headings, sentences, tables with typed columns, facts, lists and code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from msgspec import Struct

Medium = Literal["terminal", "markdown", "html"]

ColumnKind = Literal[
    "text",
    "number",
    "count",
    "percent",
    "milliseconds",
    "p",
    "run",
    "verdict",
    "rate",
    "interval",
    "difference",
]
"""How the cells of a column are written; None is a dash, and a text stays as it is.

`number` is a text on the right side, `run` the id of a run. A cell of `rate`, or of `interval` for its
interval alone, has `pass_rate`, `ci95` and `cases`, as `Counts` and `Rate` have; one of `difference` has
`value` and `ci95`, as `PassRateDifference` has. They are fractions of 1, and are drawn where the medium can.
"""


class Strong(Struct, frozen=True):
    """Words within a sentence that stand out."""

    tag: ClassVar[str] = "b"
    text: str


class Code(Struct, frozen=True):
    """A command, a path, an id or a digest within a sentence."""

    tag: ClassVar[str] = "code"
    text: str


Text = str | tuple[str | Strong | Code, ...]
"""A sentence, or the parts that it consists of."""


class Block(Struct, frozen=True, kw_only=True):
    """A part of a document."""

    kind: ClassVar[str]
    """The name of its macro in `document.html`."""
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
    """An image file with a link; terminals leave it out."""

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


class Table(Block, frozen=True):
    """Rows with a cell for each column; a row of one cell is the heading of those below it.

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

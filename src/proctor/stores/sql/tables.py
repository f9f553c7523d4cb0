"""The tables of a store, as `proctor store copy` reads and writes them.

Rows keep their keys in a copy, so that references between tables, the order of trials and the numbers of
labels stay as they are.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from proctor.stores.sql.versions import IS_UNFINISHED

Row = tuple[Any, ...]
"""The values of the columns of a table, in their order."""


class StoreTable(Struct, frozen=True, kw_only=True):
    """A table, and which of its rows belong to a store."""

    name: str
    columns: tuple[str, ...]
    """The columns; the last one is the largest."""
    order: str
    """The columns that order the rows, the same way in every database, which has an index of them."""
    condition: str = ""
    """Selects the rows that something refers to; empty for all."""
    number: str = ""
    """The column whose values the database chooses; empty for none."""
    is_reused: bool = True
    """Whether the number of a deleted row may be used again."""
    path: str = ""
    """The column with a path relative to the store's folder; empty for none."""
    is_content: bool = True
    """Whether the rows are part of the digest of a store; the others are caches, or depend on its folder."""
    upsert: str = ""
    """What an insertion does with a row that exists, as an `ON CONFLICT` clause; empty where none exists."""

    def make_select(self, hint: str = "") -> str:
        """Returns the statement that reads the rows in order.

        Args:
            hint: what a database needs to read the table in that order without sorting it.
        """
        where = f" WHERE {self.condition}" if self.condition else ""
        columns = ", ".join(self.columns)
        return f"SELECT {columns} FROM {self.name}{hint}{where} ORDER BY {self.order}"  # noqa: S608

    @property
    def insert(self) -> str:
        """The statement that writes a row."""
        marks = ", ".join("?" * len(self.columns))
        statement = f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({marks})"  # noqa: S608
        return f"{statement} {self.upsert}".rstrip()


_OF_RUN = "run IN (SELECT key FROM runs)"
_OF_CONTENT = f"suite IN (SELECT key FROM contents WHERE NOT ({IS_UNFINISHED}))"  # noqa: S608
TABLES = (
    StoreTable(
        name="contents",
        columns=("key", "content"),
        order="key",
        condition=f"NOT ({IS_UNFINISHED})",
        number="key",
    ),
    StoreTable(
        name="cases",
        columns=("key", "digest", "body"),
        order="key",
        condition=f"digest IN (SELECT digest FROM suite_cases WHERE {_OF_CONTENT})",  # noqa: S608
        number="key",
    ),
    StoreTable(
        name="suite_cases",
        columns=("suite", "position", "digest", "sent"),
        order="suite, position",
        condition=_OF_CONTENT,
    ),
    StoreTable(
        name="versions",
        columns=("name", "number", "digest", "content", "saved_at", "turn", "body"),
        order="name, number",
    ),
    StoreTable(name="origins", columns=("name", "path"), order="name", path="path", is_content=False),
    StoreTable(
        name="runs",
        columns=("key", "id", "started_at", "suite", "content", "target", "settings", "status", "body"),
        order="key",
        number="key",
        is_reused=False,
    ),
    StoreTable(name="secrets", columns=("run", "secret"), order="run", condition=_OF_RUN),
    StoreTable(name="variables", columns=("run", "name", "digest"), order="run, name", condition=_OF_RUN),
    StoreTable(
        name="trials",
        columns=("rowid", "run", "position", "repeat", "verdict", "body"),
        order="run, position, repeat",
        condition=_OF_RUN,
        number="rowid",
    ),
    StoreTable(
        name="totals", columns=("run", "changes", "body"), order="run", condition=_OF_RUN, is_content=False
    ),
    StoreTable(
        name="batches",
        columns=("number", "run", "key", "batch", "state", "at", "body"),
        order="number",
        condition=_OF_RUN,
        number="number",
    ),
    StoreTable(name="calibrations", columns=("key", "judge", "body"), order="key", number="key"),
    StoreTable(name="looks", columns=("key", "suite", "body"), order="key", number="key"),
    StoreTable(
        name="labels",
        columns=("number", "run", "case_id", "repeat", "by", "held_out", "at", "body"),
        order="number",
        number="number",
        is_reused=False,
    ),
    StoreTable(
        name="comments",
        columns=("number", "run", "case_id", "repeat", "at", "body"),
        order="number",
        number="number",
        is_reused=False,
    ),
)
"""All tables of a store, in the order in which a copy writes them."""
ANSWERS = StoreTable(
    name="answers",
    columns=("key", "about", "kept_at", "parts", "why_not", "value"),
    order="key",
    is_content=False,
    upsert="""ON CONFLICT (key) DO UPDATE
    SET kept_at = excluded.kept_at, value = excluded.value, why_not = excluded.why_not
    WHERE excluded.value IS NOT NULL OR answers.value IS NULL""",
)
"""The table of an answer cache, which is no part of a store: an answer is never replaced by a reason."""

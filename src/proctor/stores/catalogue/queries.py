"""Queries over the rows of one run, each a single scan."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from proctor.plan import matches_id, split_tags
from proctor.stores.catalogue.records import VERDICTS, CatalogueEntry, TrialFilter, TrialPage, TrialRow

TABLES = (
    """CREATE TABLE lines (
        run INTEGER NOT NULL, place INTEGER NOT NULL, verdict INTEGER NOT NULL, sealed INTEGER NOT NULL,
        score REAL, latency REAL, cost REAL, split TEXT, category TEXT, case_id TEXT NOT NULL,
        tags TEXT NOT NULL, graders TEXT NOT NULL, missed TEXT NOT NULL,
        PRIMARY KEY (run, place)) WITHOUT ROWID""",
    """CREATE TABLE shown (
        run INTEGER NOT NULL, place INTEGER NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
        why TEXT NOT NULL, PRIMARY KEY (run, place)) WITHOUT ROWID""",
)
"""A narrow table to filter and sort by, and a table of what is only shown."""
_ADD_LINE = "INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ADD_TEXTS = "INSERT OR REPLACE INTO shown VALUES (?, ?, ?, ?, ?)"
_REPEAT_BITS = 20
_VISIBLE_OR_NULL = "CASE WHEN sealed THEN NULL ELSE {} END"
"""Of a held-out trial only the verdict and the score are shown."""
_SORT_COLUMNS = {
    "position": "place",
    "case": "case_id",
    "verdict": "verdict",
    "score": "score",
    "latency": "latency",
    "cost": "cost",
}
_CURSOR = re.compile(r"(-?)([0-9]{1,12})\.([0-9]{1,6})", re.ASCII)
_SEPARATOR = "\x1f"
"""Surrounds each of several names in one column."""


def add_rows(db: sqlite3.Connection, run: int, entries: Sequence[CatalogueEntry]) -> None:
    """Adds rows; existing ones are replaced.

    Args:
        db: a connection to the catalogue.
        run: the key of the run.
        entries: the trials.
    """
    db.executemany(_ADD_LINE, [_to_columns(run, entry) for entry in entries])
    db.executemany(
        _ADD_TEXTS,
        [
            (run, encode_place(line.position, line.repeat), line.question, line.answer, line.why)
            for line in (entry.row for entry in entries)
        ],
    )


def _to_columns(run: int, entry: CatalogueEntry) -> tuple[object, ...]:
    line = entry.row
    place = encode_place(line.position, line.repeat)
    return (
        *(run, place, VERDICTS.index(line.verdict), line.sealed, line.score, line.latency_ms, line.cost_usd),
        *(line.split, line.category, line.case_id),
        *(_join_names(line.tags), _join_names(entry.graders), _join_names(entry.missed)),
    )


def encode_place(position: int, repeat: int) -> int:
    """Returns the position and repeat of a trial as one number."""
    return position << _REPEAT_BITS | repeat


def parse_sort(word: str) -> str:
    """Returns the sort order that a query parameter names; an unknown one sorts by position."""
    return word if word.removeprefix("-") in _SORT_COLUMNS else "position"


class CatalogueQuery:
    """Queries over the filtered rows of a run, all of one snapshot."""

    def __init__(
        self, db: sqlite3.Connection, run: int, trial_filter: TrialFilter, *, revealed: bool
    ) -> None:
        """Stores its arguments; reads nothing.

        Args:
            db: a connection to the catalogue; for a text search its table `found` has the places.
            run: the key of the run.
            trial_filter: selects the trials.
            revealed: whether held-out trials are shown in full.
        """
        self._db = db
        self._run = run
        self._revealed = revealed
        self._where, self._values = _build_conditions(run, trial_filter)
        if trial_filter.case:
            db.create_function("matches_id", 2, lambda case_id, glob: matches_id(case_id, [glob]))

    def page(self, sort: str, after: str, limit: int) -> TrialPage:
        """Returns one page of trials; see `Catalogue.page`."""
        cursor = _CURSOR.fullmatch(after)
        back = cursor is not None and cursor[1] == "-"
        start = None if cursor is None else encode_place(int(cursor[2]), int(cursor[3]))
        places = self._select_places(parse_sort(sort), start, limit + 1, back=back)
        more = len(places) > limit
        places = places[:limit][:: -1 if back else 1]
        before = bool(places) and (more if back else start is not None)
        behind = bool(places) and (start is not None if back else more)
        ((total,),) = self._select("count(*)")
        return TrialPage(
            lines=self._load_rows(places),
            total=total,
            next=_format_cursor(places[-1]) if behind else None,
            previous=f"-{_format_cursor(places[0])}" if before else None,
        )

    def neighbour(self, sort: str, place: tuple[int, int], *, back: bool) -> tuple[int, int] | None:
        """Returns the trial before or after one; None if there is none."""
        places = self._select_places(parse_sort(sort), encode_place(*place), 1, back=back)
        return _decode_place(places[0]) if places else None

    def column_values(self, column: str) -> list[float]:
        """Returns the known numbers of a column, in the order of the trials."""
        name = _SORT_COLUMNS[column]
        return [number for (number,) in self._select(name, f"AND {name} IS NOT NULL")]

    def _select(
        self, columns: str, clauses: str = "", values: Sequence[object] = ()
    ) -> list[tuple[Any, ...]]:
        """Runs every statement over the rows; user input is only ever in `values`."""
        statement = f"SELECT {columns} FROM lines WHERE {self._where} {clauses}"  # noqa: S608
        return self._db.execute(statement, (*self._values, *values)).fetchall()

    def _select_places(self, sort: str, start: int | None, limit: int, *, back: bool) -> list[int]:
        """Returns the places after one in an order, or from the first on; `back` goes towards the first."""
        down = sort.startswith("-")
        by = self._sort_expression(sort.removeprefix("-"), down=down)
        along, ahead = ("DESC", "<") if down != back else ("ASC", ">")
        of_equals, comparison = ("DESC", "<") if back else ("ASC", ">")
        condition = ""
        values: tuple[object, ...] = ()
        if start is not None:
            at = self._db.execute(
                f"SELECT {by} FROM lines WHERE run = ? AND place = ?",  # noqa: S608  # one of our own columns
                (self._run, start),
            ).fetchone()
            if at is None:
                return []
            condition = f"AND ({by} {ahead} ? OR ({by} = ? AND place {comparison} ?))"
            values = (at[0], at[0], start)
        order = f"{condition} ORDER BY {by} {along}, place {of_equals} LIMIT ?"
        return [place for (place,) in self._select("place", order, (*values, limit))]

    def _sort_expression(self, sort: str, *, down: bool) -> str:
        """Returns the SQL expression to sort by; unknown values come last in both directions."""
        if sort in ("latency", "cost", "score"):
            expression = (
                _SORT_COLUMNS[sort]
                if self._revealed or sort == "score"
                else _VISIBLE_OR_NULL.format(_SORT_COLUMNS[sort])
            )
            return f"coalesce({expression}, {'-9e999' if down else '9e999'})"
        return _SORT_COLUMNS[sort]

    def _load_rows(self, places: Sequence[int]) -> tuple[TrialRow, ...]:
        marks = ", ".join("?" * len(places))
        rows = self._db.execute(
            "SELECT lines.place, verdict, sealed, score, latency, cost, split, category, case_id, tags, "  # noqa: S608
            "question, answer, why FROM lines JOIN shown ON shown.run = lines.run AND "
            f"shown.place = lines.place WHERE lines.run = ? AND lines.place IN ({marks})",
            (self._run, *places),
        ).fetchall()
        lines = {row[0]: self._to_row(*row) for row in rows}
        return tuple([lines[place] for place in places])

    def _to_row(self, place: int, verdict: int, sealed: int, score: float | None, *columns: Any) -> TrialRow:
        latency, cost, split, category, case_id, tags, question, answer, why = columns
        position, repeat = _decode_place(place)
        is_hidden = bool(sealed) and not self._revealed
        return TrialRow(
            position=position,
            repeat=repeat,
            case_id=case_id,
            verdict=VERDICTS[verdict],
            score=score,
            split=split,
            sealed=is_hidden,
            category=category,
            tags=tuple(tags[1:-1].split(_SEPARATOR)) if tags else (),
            latency_ms=None if is_hidden else latency,
            cost_usd=None if is_hidden else cost,
            question="" if is_hidden else question,
            answer="" if is_hidden else answer,
            why="" if is_hidden else why,
        )


def _build_conditions(run: int, trial_filter: TrialFilter) -> tuple[str, list[object]]:
    where: list[str] = ["run = ?"]
    values: list[object] = [run]
    parts: tuple[tuple[str, Sequence[str]], ...] = (
        ("category = ?", [trial_filter.category] if trial_filter.category else ()),
        ("split = ?", [trial_filter.split] if trial_filter.split else ()),
        ("matches_id(case_id, ?)", [trial_filter.case] if trial_filter.case else ()),
        ("instr(graders, ?)", [_join_names([name]) for name in trial_filter.graders]),
        ("instr(missed, ?)", [_join_names([name]) for name in trial_filter.missed]),
    )
    for condition, part_values in parts:
        where += [condition] * len(part_values)
        values += part_values
    for word in trial_filter.tags:
        tags = [_join_names([tag]) for tag in split_tags(word)]
        where.append(f"({' OR '.join(['instr(tags, ?)'] * len(tags))})")
        values += tags
    if trial_filter.verdicts:
        verdict_numbers = [
            str(place) for place, verdict in enumerate(VERDICTS) if verdict.value in trial_filter.verdicts
        ]
        where.append(f"verdict IN ({', '.join(verdict_numbers)})")
    if trial_filter.text:
        where.append("+place IN (SELECT place FROM found)")  # "+" avoids the index: most texts match many
    return " AND ".join(where), values


def _join_names(names: Sequence[str]) -> str:
    return f"{_SEPARATOR}{_SEPARATOR.join(names)}{_SEPARATOR}" if names else ""


def _format_cursor(place: int) -> str:
    position, repeat = _decode_place(place)
    return f"{position}.{repeat}"


def _decode_place(place: int) -> tuple[int, int]:
    return place >> _REPEAT_BITS, place & ((1 << _REPEAT_BITS) - 1)

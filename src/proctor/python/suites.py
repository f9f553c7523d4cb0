"""Suites that are not files: rows, cases and tables of Python, as sources that a run reads.

Values of rows become JSON: numbers of numpy and arrays as they are, dates and times as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from functools import partial
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects.proctor.dialect import HEADER_KEY
from proctor.dialects.proctor.schema import VERSION
from proctor.errors import SuiteError, UsageError, suggestion
from proctor.model import Assertion, Case
from proctor.protocols import SuiteSource
from proctor.services.suites.saved_names import check_suite_name

SuiteLike = Any
"""A suite: a path or a name as on the command line; a list of `Case`s or of dictionaries; or a table of
pandas, polars or Arrow."""
Row = Mapping[str, Any]
UNREAD_CODES = ("ambiguous-dialect", "unknown-dialect")
"""Codes of the problem that a file or rows are of no suite format, or of several."""


class RowSource(Struct, frozen=True, kw_only=True):
    """The source of a suite that is not a file; its messages name rows instead of lines."""

    source: SuiteSource
    name: str
    fields: tuple[str, ...] = ()
    """The fields of the first row."""
    header_lines: int = 0
    """The number of lines before the first row."""

    def rewrite(self, text: str) -> str:
        """Returns a message that names rows instead of lines of a file that does not exist."""
        path = re.escape(self.source.path)
        text = re.sub(rf"^{path}:(\d+)(?=: )", self._name_row, text, flags=re.MULTILINE)
        text = re.sub(rf"^{path}(?=: )", self.name, text, flags=re.MULTILINE)
        return re.sub(r"(?<= at )line (\d+)", lambda line: f"row {self._row(line[1])}", text)

    def rewrite_error(self, error: SuiteError) -> None:
        """Makes the problems of an error, and its text, name rows."""
        if error.problems and error.problems[0].code in UNREAD_CODES:
            problem = replace(error.problems[0], path=self.name, line=None, message=self._explain_fields())
            error.problems, error.args = (problem,), (str(problem),)
            return
        error.args = (self.rewrite(str(error)),)
        error.problems = tuple(
            replace(problem, path=self.name, line=None if problem.line is None else self._row(problem.line))
            if problem.path == self.source.path
            else problem
            for problem in error.problems
        )

    def _explain_fields(self) -> str:
        fields = ", ".join(map(repr, self.fields)) or "none"
        return (
            f"The fields of the first row are {fields}, which fit no suite format. Give each row `input` and "
            "`expected`, name these columns with `columns`, or pass `graders`."
        )

    def _name_row(self, match: re.Match[str]) -> str:
        return f"{self.name}, row {self._row(match[1])}"

    def _row(self, line: int | str) -> int:
        return max(1, int(line) - self.header_lines)


def is_name(suite: SuiteLike) -> bool:
    """Whether a suite is named by a word, as on the command line."""
    return isinstance(suite, (str, Path))


def is_list_of_names(suite: SuiteLike) -> bool:
    """Whether this is a list of words, each of which names a suite."""
    return isinstance(suite, (list, tuple)) and bool(suite) and all(map(is_name, suite))


def make_source(
    suite: SuiteLike,
    *,
    name: str,
    columns: Mapping[str, str] | None = None,
    assertions: tuple[Assertion, ...] = (),
) -> RowSource:
    """Returns the source of a suite that is no file.

    Args:
        suite: cases, rows or a table.
        name: the name under which it is saved.
        columns: the column of each field, such as `{"input": "question"}`; the other columns are metadata.
            None if the columns have the names of the fields.
        assertions: grade every case instead of its own; rows then need no expected answer.

    Raises:
        UsageError: it cannot be read, or lacks a column.
    """
    check_suite_name(name)
    if "/" in name or "\\" in name:
        raise UsageError(f"{name!r} is not a valid name for a suite. Remove the slashes.")
    path = f"{name}.jsonl"
    rows = _read_rows(suite)
    first = next(iter(rows()), None)
    if first is None:
        raise UsageError("The suite has no cases. Pass at least one row.")
    header = _encode_row(0, {HEADER_KEY: VERSION, "name": name})
    if isinstance(first, Case):
        source = SuiteSource(
            path=path, read_lines=lambda: chain((header,), _encode_cases(rows(), assertions))
        )
        return RowSource(source=source, name=name, header_lines=1)
    if not isinstance(first, Mapping):
        raise UsageError(
            f"The first row is of type {type(first).__name__}. Pass dictionaries or `proctor.Case`s."
        )
    if columns is not None:
        _check_columns(columns, first)
    read_fields = partial(_read_fields, rows, columns)
    if assertions:
        source = SuiteSource(
            path=path, read_lines=lambda: chain((header,), _encode_prompts(read_fields(), assertions))
        )
        return RowSource(source=source, name=name, header_lines=1)
    return RowSource(
        source=SuiteSource(path=path, read_lines=lambda: _encode_rows(read_fields())),
        name=name,
        fields=tuple(map(str, next(read_fields()))),
    )


def _read_rows(suite: SuiteLike) -> Callable[[], Iterator[Any]]:
    """Returns a function that reads the rows from the first one on, as often as it is called."""
    if hasattr(suite, "to_pylist"):  # Arrow
        return lambda: chain.from_iterable(batch.to_pylist() for batch in suite.to_batches())
    if hasattr(suite, "iter_rows"):  # polars
        return partial(suite.iter_rows, named=True)
    if hasattr(suite, "to_dict") and hasattr(suite, "columns"):  # pandas
        return partial(_read_pandas, suite)
    if isinstance(suite, Sequence) and not isinstance(suite, (str, bytes)):
        return lambda: iter(suite)
    if isinstance(suite, Iterable) and not isinstance(suite, (str, bytes, Mapping)):
        items = list(suite)
        return lambda: iter(items)
    raise UsageError(
        f"{type(suite).__name__} is not a suite. Pass a path, a list of dictionaries or `proctor.Case`s, "
        "or a table of pandas, polars or Arrow."
    )


def _read_pandas(frame: Any) -> Iterator[Row]:
    names = [str(name) for name in frame.columns]
    for values in frame.itertuples(index=False, name=None):
        yield dict(zip(names, values, strict=True))


def _read_fields(
    rows: Callable[[], Iterator[Any]], columns: Mapping[str, str] | None
) -> Iterator[dict[str, Any]]:
    """Yields the fields of each row, without empty cells.

    Raises:
        UsageError: a row is not a dictionary.
    """
    for number, row in enumerate(rows(), start=1):
        if not isinstance(row, Mapping):
            raise UsageError(
                f"Row {number} is of type {type(row).__name__}, but the first row is a dictionary."
            )
        cells = {name: value for name, value in row.items() if not _is_missing(value)}
        if any(type(value) is bytes for value in cells.values()):
            raise UsageError(f"Row {number} has a value of type bytes. Decode it to text first.")
        yield cells if columns is None else _map_columns(cells, columns)


def _encode_rows(rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    for number, fields in enumerate(rows, start=1):
        yield _encode_row(number, fields)


def _encode_row(number: int, fields: dict[str, Any]) -> bytes:
    """Returns a row as a line of JSON.

    Raises:
        UsageError: a value cannot be written as JSON.
    """
    try:
        return _ENCODER.encode(fields) + b"\n"
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise UsageError(f"Row {number} cannot be written as JSON: {error}.") from None


def _encode_value(value: Any) -> Any:
    """Returns the JSON form of a value that msgspec does not know.

    Raises:
        TypeError: JSON has no form for it.
    """
    if isinstance(value, str):  # of a subclass, such as that of numpy
        return str(value)
    if type(value).__name__ in _MISSING_TYPES:
        return None
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (timedelta, Path)):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if callable(to_list := getattr(value, "tolist", None)):  # arrays, their elements, columns
        return to_list()
    raise TypeError(f"it has a value of type {type(value).__name__}, {value!r:.60}")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_value)


def _encode_cases(rows: Iterator[Any], assertions: tuple[Assertion, ...]) -> Iterator[bytes]:
    for number, case in enumerate(rows, start=1):
        if not isinstance(case, Case):
            raise UsageError(
                f"Row {number} is of type {type(case).__name__}, but the first row is a `proctor.Case`."
            )
        try:
            yield encode(replace(case, assertions=assertions) if assertions else case) + b"\n"
        except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
            raise UsageError(f"Case {number} cannot be written as JSON: {error}.") from None


def _encode_prompts(rows: Iterator[dict[str, Any]], assertions: tuple[Assertion, ...]) -> Iterator[bytes]:
    """Yields rows as cases with these assertions."""
    checks = msgspec.Raw(encode(assertions))
    for number, fields in enumerate(rows, start=1):
        prompt = fields.get("input")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        case = {"id": f"row-{number}", **fields, "input": messages, "assertions": checks}
        yield _encode_row(number, case)


def _map_columns(cells: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    fields = {field: cells.pop(column) for field, column in columns.items() if column in cells}
    return {**fields, "metadata": {**fields.get("metadata", {}), **cells}} if cells else fields


_MISSING_TYPES = ("NAType", "NaTType")
"""The types of the empty cells of pandas."""


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, or what pandas has for it."""
    return value is None or (
        isnan(value) if isinstance(value, float) else type(value).__name__ in _MISSING_TYPES
    )


def _check_columns(columns: Mapping[str, str], row: Row) -> None:
    for field, column in columns.items():
        if column not in row:
            raise UsageError(
                f"`columns` takes {field!r} from the column {column!r}, which does not exist. "
                f"{suggestion(column, list(map(str, row)))}"
            )

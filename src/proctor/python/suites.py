"""Suites that are no files: rows, cases and tables of Python, as sources that a run reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import isnan
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from proctor.codec import encode
from proctor.dialects.proctor.dialect import HEADER_KEY
from proctor.dialects.proctor.schema import VERSION
from proctor.errors import UsageError, suggestion
from proctor.model import Assertion, Case
from proctor.protocols import SuiteSource
from proctor.services.suites.saved_names import check_suite_name

SuiteLike = Any
"""A suite: a path or a name as on the command line; a list of `Case`s or of dictionaries; or a table of
pandas, polars or Arrow."""
Row = Mapping[str, Any]


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
) -> SuiteSource:
    """Returns the source of a suite that is no file.

    Args:
        suite: cases, rows or a table.
        name: the name under which it is saved.
        columns: the column of each field, such as `{"input": "question"}`; the other columns are metadata.
            None if the columns have the names of the fields.
        assertions: grade every case instead of its own; rows then need no expected answer.

    Raises:
        UsageError: it is nothing that can be read, or lacks a column.
    """
    check_suite_name(name)
    path = f"{name}.jsonl"
    rows = _read_rows(suite)
    first = next(iter(rows()), None)
    if first is None:
        raise UsageError("The suite has no cases. Give at least one row.")
    header = _encode_row({HEADER_KEY: VERSION, "name": name})
    if isinstance(first, Case):
        return SuiteSource(
            path=path,
            read_lines=lambda: chain((header,), (_encode_case(case, assertions) for case in rows())),
        )
    if not isinstance(first, Mapping):
        raise UsageError(f"The first row is {type(first).__name__}. Give dictionaries or `proctor.Case`s.")
    if columns is not None:
        _check_columns(columns, first)
    read_fields = partial(_read_fields, rows, columns)
    if assertions:
        return SuiteSource(
            path=path, read_lines=lambda: chain((header,), _encode_prompts(read_fields(), assertions))
        )
    return SuiteSource(path=path, read_lines=lambda: map(_encode_row, read_fields()))


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
        f"{type(suite).__name__} is no suite. Give a path, a list of dictionaries or `proctor.Case`s, or a "
        "table of pandas, polars or Arrow."
    )


def _read_pandas(frame: Any) -> Iterator[Row]:
    names = [str(name) for name in frame.columns]
    for values in frame.itertuples(index=False, name=None):
        yield {
            name: getattr(value, "item", lambda value=value: value)()
            for name, value in zip(names, values, strict=True)
        }


def _read_fields(
    rows: Callable[[], Iterator[Row]], columns: Mapping[str, str] | None
) -> Iterator[dict[str, Any]]:
    """Yields the fields of each row, without empty cells."""
    for row in rows():
        cells = {name: value for name, value in row.items() if not _is_missing(value)}
        yield cells if columns is None else _map_columns(cells, columns)


def _encode_row(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode(fields) + b"\n"


def _encode_case(case: Case, assertions: tuple[Assertion, ...]) -> bytes:
    return encode(replace(case, assertions=assertions) if assertions else case) + b"\n"


def _encode_prompts(rows: Iterator[dict[str, Any]], assertions: tuple[Assertion, ...]) -> Iterator[bytes]:
    """Yields rows as cases with these assertions."""
    checks = msgspec.Raw(encode(assertions))
    for number, fields in enumerate(rows, start=1):
        prompt = fields.get("input")
        messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        yield _encode_row({"id": f"row-{number}", **fields, "input": messages, "assertions": checks})


def _map_columns(cells: dict[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    fields = {field: cells.pop(column) for field, column in columns.items() if column in cells}
    return {**fields, "metadata": {**fields.get("metadata", {}), **cells}} if cells else fields


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, or NaN as pandas has it."""
    return value is None or (isinstance(value, float) and isnan(value))


def _check_columns(columns: Mapping[str, str], row: Row) -> None:
    for field, column in columns.items():
        if column not in row:
            raise UsageError(
                f"`columns` takes {field!r} from the column {column!r}, and there is none. "
                f"{suggestion(column, list(map(str, row)))}"
            )

"""Records as the JSON that users read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from proctor.reports import REPORTS
from proctor.reports.formatting import to_json
from proctor.reports.runs.serialize import RunReport


def plain(record: Struct) -> Any:
    """Returns what a reader of the record's JSON gets."""
    return json.loads(to_json(record))


def render_report(ending: str, runs: Sequence[RunReport]) -> str:
    """The report of runs as a text; of a table, its rows."""
    chunks = list(REPORTS.get(ending)(runs))
    if ending != ".parquet":
        return "".join(str(chunk) for chunk in chunks)
    from pyarrow import BufferReader, parquet

    data = b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))
    return str(parquet.read_table(BufferReader(data)).to_pylist())

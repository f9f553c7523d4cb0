"""Renders runs, comparisons, drift and certificates as text. `REPORTS` maps file endings to renderers.

In: records and rows, never a store. Out: chunks of text. What people read is a document: a report yields
blocks, and `document.py` writes them for a terminal, as Markdown or as HTML. `runs/` has a module for each
format of a run, `comparison/`, `drift/` and `certificates/` the others; `formatting.py` writes numbers for
all of them. Start reading with `document.py`, and `runs/serialize.py`, which has the rows of data formats.
"""

from collections.abc import Callable, Iterator, Sequence

from proctor.registry import Registry
from proctor.reports.runs.serialize import RunReport

ReportRenderer = Callable[[Sequence[RunReport]], Iterator[str] | Iterator[bytes]]
"""Renders runs chunk by chunk, so that their trials are never all in memory."""

REPORTS: Registry[ReportRenderer] = Registry(
    "reports",
    {
        ".csv": "proctor.reports.runs.csv:render",
        ".html": "proctor.reports.runs.html:render",
        ".json": "proctor.reports.runs.json:render",
        ".jsonl": "proctor.reports.runs.jsonl:render",
        ".md": "proctor.reports.runs.markdown:render",
        ".parquet": "proctor.reports.runs.arrow:render",
        ".xml": "proctor.reports.runs.junit:render",
    },
)

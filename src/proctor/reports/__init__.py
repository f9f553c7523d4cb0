"""Runs to text: one file a form. `REPORTS` has those that can be written to a file, by its ending."""

from collections.abc import Callable, Iterator, Sequence

from proctor.registry import Registry
from proctor.reports.rows import Reported

Report = Callable[[Sequence[Reported]], Iterator[str]]
"""Renders runs piece by piece, so that nothing holds all of their trials."""

REPORTS: Registry[Report] = Registry(
    "reports",
    {
        ".csv": "proctor.reports.csv:render",
        ".html": "proctor.reports.html:render",
        ".json": "proctor.reports.json:render",
        ".jsonl": "proctor.reports.jsonl:render",
        ".md": "proctor.reports.markdown:render",
        ".xml": "proctor.reports.junit:render",
    },
)

"""Runs to text: one file a form. `REPORTS` has those that can be written to a file, by its ending."""

from collections.abc import Callable, Iterator, Sequence

from proctor.registry import Registry
from proctor.reports.runs.serialize import Reported

Report = Callable[[Sequence[Reported]], Iterator[str]]
"""Renders runs piece by piece, so that nothing holds all of their trials."""

REPORTS: Registry[Report] = Registry(
    "reports",
    {
        ".csv": "proctor.reports.runs.csv:render",
        ".html": "proctor.reports.runs.html:render",
        ".json": "proctor.reports.runs.json:render",
        ".jsonl": "proctor.reports.runs.jsonl:render",
        ".md": "proctor.reports.runs.markdown:render",
        ".xml": "proctor.reports.runs.junit:render",
    },
)

"""The resources to which answers link: the report of a run as Markdown, and its failing cases."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from proctor.errors import UsageError
from proctor.mcp_server.arguments import FailuresArguments
from proctor.mcp_server.failures import list_failures
from proctor.mcp_server.project import AgentProject
from proctor.mcp_server.results import DATA_NOTICE, MAX_TEXT, Link
from proctor.reports import REPORTS
from proctor.safe_text import one_line
from proctor.services.runs.reading.current_status import iter_current_status
from proctor.services.runs.reading.report import build_report

TEMPLATES: Final = {
    "proctor://runs/{run}": "The report of a run, as Markdown",
    "proctor://runs/{run}/failures": "The first failed and errored cases of a run",
}
_MAX_LISTED_RUNS = 20
_MAX_LISTED_FAILURES = 20
_URI = re.compile(r"proctor://runs/(?P<run>[A-Za-z0-9._-]{1,200})(?P<failures>/failures)?", re.ASCII)


def list_resources(project: AgentProject) -> list[Link]:
    """Returns the reports of the newest runs."""
    with project.read_any_store() as store:
        runs = list(islice(iter_current_status(store, store.runs()), _MAX_LISTED_RUNS))
    return [
        Link(
            f"proctor://runs/{run.id}",
            one_line(f"Run {run.id}: {run.suite.title} on {run.target_title}, {run.status}"),
        )
        for run in runs
    ]


def read_resource(project: AgentProject, uri: str) -> str:
    """Returns the text of a resource, cut to `MAX_TEXT`.

    Raises:
        UsageError: there is no such resource.
        StoreError: there is no such run.
    """
    address = _URI.fullmatch(uri)
    if address is None:
        raise UsageError(f"There is no resource {uri[:80]!r}. The resources are: {', '.join(TEMPLATES)}.")
    if address["failures"]:
        arguments = FailuresArguments(run=address["run"], limit=_MAX_LISTED_FAILURES)
        return list_failures(project, arguments).text
    return f"{DATA_NOTICE}\n\n{_render_report(project, address['run'])}"


def _render_report(project: AgentProject, word: str) -> str:
    with project.read_store() as store:
        run = store.run(word)
        report = build_report(store, run, stored=True)
        if "holdout" in report.tally.splits:
            project.record_access(store, run)
        text = ""
        for piece in REPORTS.get(".md")([report]):
            text += piece if isinstance(piece, str) else piece.decode("utf-8")
            if len(text) > MAX_TEXT:
                return f"{text[:MAX_TEXT]}…\n\nThe rest was left out: see `proctor runs show {run.id}`.\n"
    return text

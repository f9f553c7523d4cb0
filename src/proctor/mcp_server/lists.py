"""`list_runs`, `list_suites` and `list_targets`: the names that other tools take."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

from msgspec import Struct

from proctor.mcp_server.arguments import ListArguments, ListRunsArguments
from proctor.mcp_server.project import AgentProject
from proctor.mcp_server.results import Link, ToolResult
from proctor.plurals import pluralize
from proctor.reports.document import render_terminal
from proctor.reports.record_fields import Interval, about
from proctor.reports.runs.listing import list_table, summary_record
from proctor.safe_text import one_line, truncate
from proctor.services.runs.reading.listing import RunFilter, find_runs, summarize_run
from proctor.services.runs.starts.allowed_targets import list_allowed_targets, load_run_context
from proctor.services.suites.builtin_suites import BUILTIN_PREFIX, TIERS
from proctor.services.suites.file_source import source_from_path
from proctor.services.suites.folder_search import search_folder

_MAX_NAME = 200


class ListedRun(Struct, frozen=True, kw_only=True):
    """A stored run; null numbers are those of a holdout alone."""

    run: str
    status: Literal["running", "finished", "interrupted"]
    suite: str
    suite_version: str | None
    target: str
    total: int
    passed: int | None
    pass_rate: float | None
    ci95: Interval
    started_at: str
    tags: tuple[str, ...]


class RunList(Struct, frozen=True, kw_only=True):
    """Stored runs, newest first."""

    runs: tuple[ListedRun, ...]
    more: Annotated[bool, about("Whether there are older ones.")]


class ListedSuite(Struct, frozen=True, kw_only=True):
    """A suite that other tools take by its name."""

    name: str
    kind: Literal["file", "saved", "built-in"]
    version: str | None = None
    cases: Annotated[int | None, about("Null for a file, because it was not read.")] = None


class SuiteList(Struct, frozen=True, kw_only=True):
    """The suites that can be run."""

    suites: tuple[ListedSuite, ...]
    left_out: Annotated[int, about("Number of further suites.")]


class ListedTarget(Struct, frozen=True, kw_only=True):
    """A target that other tools take by its name."""

    name: str
    description: str
    missing: Annotated[tuple[str, ...], about("Environment variables that it needs but that are not set.")]


class TargetList(Struct, frozen=True, kw_only=True):
    """The targets that can be called, besides models of known services."""

    targets: tuple[ListedTarget, ...]
    left_out: Annotated[int, about("Number of further targets.")]
    error: Annotated[str, about("The error in the targets file; empty if there is none.")]


def list_runs(project: AgentProject, arguments: ListRunsArguments) -> ToolResult:
    """Lists stored runs without pass rates of holdouts, which is no holdout access."""
    run_filter = RunFilter(suite=arguments.suite or None, target=arguments.target or None)
    with project.read_any_store() as store:
        runs = list(islice(find_runs(store, run_filter), arguments.limit + 1))
        entries = [summarize_run(store, run) for run in runs[: arguments.limit]]
    more = len(runs) > arguments.limit
    lines = list(render_terminal([list_table(entries)])) if entries else ["The store has no runs."]
    if more:
        lines.append("There are older runs: use `proctor runs list` or a larger `limit`.")
    records = map(summary_record, entries)
    listed = tuple(
        [
            ListedRun(
                run=record.run,
                status=record.status,
                suite=truncate(record.suite, _MAX_NAME),
                suite_version=record.suite_version,
                target=truncate(record.target, _MAX_NAME),
                total=record.total,
                passed=record.passed,
                pass_rate=record.pass_rate,
                ci95=record.ci95,
                started_at=record.started_at.isoformat(),
                tags=record.tags,
            )
            for record in records
        ]
    )
    links = tuple(Link(f"proctor://runs/{run.run}", f"Report of run {run.run}") for run in listed[:5])
    return ToolResult(record=RunList(runs=listed, more=more), lines=tuple(lines), links=links)


def list_suites(project: AgentProject, arguments: ListArguments) -> ToolResult:
    """Lists the suites below the folder, those of the store, and the built-in ones."""
    contents = search_folder(
        project.folder,
        lambda path: source_from_path(path, project.environ, project.config.source_options(path)),
    )
    suites = [
        ListedSuite(name=path.relative_to(project.folder).as_posix() or ".", kind="file")
        for path in contents.suites
    ]
    with project.read_any_store() as store:
        suites += [
            ListedSuite(
                name=saved.suite.name, kind="saved", version=saved.suite.version, cases=saved.suite.case_count
            )
            for saved in store.versions()
            if saved.current
        ]
    suites += [ListedSuite(name=f"{BUILTIN_PREFIX}{tier}", kind="built-in") for tier in TIERS]
    listed = tuple(suites[: arguments.limit])
    left_out = len(suites) - len(listed)
    lines = [f"{pluralize(len(suites), 'suite')} can be run."]
    lines += [_suite_line(suite) for suite in listed]
    lines += [f"{left_out:,} more are left out: use a larger `limit`."] if left_out else []
    return ToolResult(record=SuiteList(suites=listed, left_out=left_out), lines=tuple(lines))


def _suite_line(suite: ListedSuite) -> str:
    cases = "" if suite.cases is None else f", {suite.version}, {pluralize(suite.cases, 'case')}"
    return f"- {truncate(suite.name, _MAX_NAME)} ({suite.kind}{cases})"


def list_targets(project: AgentProject, arguments: ListArguments) -> ToolResult:
    """Lists the targets that may be called by name."""
    allowed = list_allowed_targets(load_run_context(project))
    listed = tuple(
        [
            ListedTarget(
                name=truncate(target.name, _MAX_NAME),
                description=truncate(target.description, _MAX_NAME),
                missing=target.missing,
            )
            for target in allowed.targets[: arguments.limit]
        ]
    )
    left_out = len(allowed.targets) - len(listed)
    first_line = (
        f"{pluralize(len(allowed.targets), 'target')} can be called by name, and any model of a known "
        "service, such as openai:gpt-5.2."
    )
    lines = [first_line]
    for target in listed:
        missing = f"; not set: {', '.join(target.missing)}" if target.missing else ""
        lines.append(f"- {target.name} ({target.description}{missing})")
    lines += [f"{left_out:,} more are left out: use a larger `limit`."] if left_out else []
    error = one_line(allowed.error)
    record = TargetList(targets=listed, left_out=left_out, error=error)
    return ToolResult(record=record, lines=(*lines, *([error] if error else [])))

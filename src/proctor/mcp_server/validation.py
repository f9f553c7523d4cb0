"""`validate`: every error and warning of a suite, with file and line."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from proctor.errors import UsageError
from proctor.mcp_server.arguments import ValidateArguments
from proctor.mcp_server.project import AgentProject
from proctor.mcp_server.results import ToolResult
from proctor.mcp_server.suites import locate_suites
from proctor.model import Problem, Suite
from proctor.plurals import pluralize
from proctor.reports.record_fields import about
from proctor.safe_text import one_line, truncate
from proctor.services.suites.validate import validate_suite

_MAX_FILES = 20
_MAX_PROBLEMS = 25
_MAX_MESSAGE = 400


class SuiteProblem(Struct, frozen=True, kw_only=True):
    """An error or a warning."""

    level: Literal["error", "warning"]
    path: str
    line: int | None
    code: str
    case: str | None
    message: str


class SuiteValidation(Struct, frozen=True, kw_only=True):
    """The problems of the suites with that name."""

    valid: Annotated[bool, about("Whether every suite can be run; warnings do not count.")]
    suites: Annotated[int, about("Number of suites that were read.")]
    cases: int
    errors: int
    warnings: int
    problems: Annotated[tuple[SuiteProblem, ...], about("Errors first.")]
    left_out: Annotated[int, about("Number of further problems.")]


def validate(project: AgentProject, arguments: ValidateArguments) -> ToolResult:
    """Finds the problems of the suites that a word stands for."""
    with project.read_any_store() as store:
        located = locate_suites(project, store, arguments.suite)
    if isinstance(located, Suite):
        raise UsageError(
            f"{arguments.suite!r} is a saved suite, which was validated when it was saved. Name a file."
        )
    results = [
        validate_suite(path, options=project.config.source_options(path))
        for path in located.paths[:_MAX_FILES]
    ]
    errors = [problem for result in results for problem in result.problems_of_level("error")]
    warnings = [problem for result in results for problem in result.problems_of_level("warning")]
    problems = [*errors, *warnings]
    record = SuiteValidation(
        valid=not errors,
        suites=len(results),
        cases=sum(result.loaded_suite.suite.case_count for result in results if result.loaded_suite),
        errors=len(errors),
        warnings=len(warnings),
        problems=tuple(map(_problem_record, problems[:_MAX_PROBLEMS])),
        left_out=max(0, len(problems) - _MAX_PROBLEMS),
    )
    first_line = (
        f"{pluralize(record.suites, 'suite')}, {pluralize(record.cases, 'case')}: "
        f"{pluralize(record.errors, 'error')}, {pluralize(record.warnings, 'warning')}."
    )
    lines = [
        first_line,
        *(truncate(str(problem), _MAX_MESSAGE) for problem in problems[:_MAX_PROBLEMS]),
    ]
    if record.left_out:
        lines.append(f"{record.left_out:,} more: `proctor validate {one_line(arguments.suite)}`.")
    if len(located.paths) > _MAX_FILES:
        lines.append(f"{len(located.paths) - _MAX_FILES:,} more suites were not read. Name each of them.")
    return ToolResult(record=record, lines=(*lines, *map(one_line, located.warnings)))


def _problem_record(problem: Problem) -> SuiteProblem:
    return SuiteProblem(
        level=problem.level,
        path=problem.path,
        line=problem.line,
        code=problem.code,
        case=problem.case,
        message=truncate(problem.message, _MAX_MESSAGE),
    )

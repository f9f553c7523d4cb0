"""New runs: every suite of a request on each of its targets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from proctor.errors import NothingSelected, SuiteError, UsageError
from proctor.model import Defaults, Params, Problem, Run, Seat, Settings, TargetSpec
from proctor.reports.problems import lines_of
from proctor.services.runs.execution.target_pool import embedder_of
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.judge_choice import TargetResolver, select_judges
from proctor.services.runs.planning.load_suites import load_suites
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.planning.target_names import Names
from proctor.services.runs.request import Request, new_id
from proctor.services.suites.load import Loaded
from proctor.services.suites.split import as_asked


def plan_fresh(request: Request, context: PlanningContext) -> list[PlannedRun]:
    """A new run of each suite on each target.

    Raises:
        SuiteError: a suite is wrong; carries all problems of all suites.
        UsageError: the request names no suite, or a word names no suite or target.
        NothingSelected: the selection leaves no case of any suite.
    """
    if not request.names_suites and not request.saved:
        raise UsageError("Name a suite, such as `proctor run cheap --target local`.")
    suites = [as_asked(loaded_suite, request) for loaded_suite in load_suites(request, context)]
    runs = list(plan_suites(suites, request, context))
    selected = [planned_run for planned_run in runs if planned_run.index.planned]
    if not selected:
        flags = "--tag, --all-tag, --exclude-tag, --category, --id or --split"
        raise NothingSelected(f"The selection leaves no case. Loosen {flags}.")
    for planned_run in runs:
        if not planned_run.index.planned:
            context.warn(f"The selection leaves no case of {planned_run.run.suite.name}, which is left out.")
    return selected


def plan_suites(suites: list[Loaded], request: Request, context: PlanningContext) -> Iterator[PlannedRun]:
    """A run for each suite and target, those without a selected case included.

    Raises:
        SuiteError: a target that a suite names is unknown, or the targets file is wrong.
        UsageError: a word names no target, or a suite has cases for none of the targets.
    """
    warned_files = set[Path]()
    for loaded_suite in suites:
        names = context.names.near(loaded_suite.suite.folder)
        _warn_about_targets_file(names, warned_files, context)
        judges = tuple(names.spec(word, request.judge_params, judged=False) for word in request.judges)
        # A judge that gets no calls need not exist, nor its key.
        resolve = partial(names.spec, judged=not judges and "judge" in loaded_suite.wanted.needs)
        resolve_in_suite = partial(_resolve_in_suite, loaded_suite, resolve)
        words = request.targets or loaded_suite.suite.defaults.targets or names.default
        if not words:
            raise UsageError(_no_target_error(names))
        specs = [(resolve if request.targets else resolve_in_suite)(word, request.params) for word in words]
        _check_targets_of_cases(loaded_suite, specs)
        for number, spec in enumerate(specs):
            seat = Seat(target=spec.name, first=number == 0, alone=len(specs) == 1)
            yield _plan_run(loaded_suite, seat, spec, judges, resolve_in_suite, request, context)


def _plan_run(
    loaded_suite: Loaded,
    seat: Seat,
    spec: TargetSpec,
    judges: tuple[TargetSpec, ...],
    resolve: TargetResolver,
    request: Request,
    context: PlanningContext,
) -> PlannedRun:
    index = loaded_suite.index(seat)
    # Cases with a target of their own are sent in the first run of a group.
    required = loaded_suite.wanted if seat.first else replace(loaded_suite.wanted, targets=frozenset())
    selection = select_judges(
        required, spec, judges, path=loaded_suite.path, params=request.params, resolve=resolve
    )
    warnings = selection.warnings if index.planned else ()
    for message in warnings:
        context.warn(message)
    run = Run(
        id=new_id(),
        group=request.group or "",
        seat=seat,
        suite=loaded_suite.suite,
        target=spec,
        judges=selection.judges,
        judges_given=selection.judges_given,
        named_targets=selection.named_targets,
        named_judges=selection.named_judges,
        embedder=embedder_of(context.environ) if "embedder" in required.needs else None,
        settings=with_defaults(loaded_suite.suite.defaults, request),
        prices_date=context.prices_date,
        started_at=datetime.now(UTC),
        planned=index.planned,
        warnings=(*lines_of(loaded_suite.warnings), *warnings),
    )
    return PlannedRun(run=run, index=index, required=loaded_suite.wanted)


def _warn_about_targets_file(names: Names, warned_files: set[Path], context: PlanningContext) -> None:
    """Pass on the warnings of a targets file, once for each file."""
    if names.file is None or names.path is None or names.path in warned_files:
        return
    warned_files.add(names.path)
    for line in lines_of(names.file.warnings):
        context.warn(line)


def _check_targets_of_cases(loaded_suite: Loaded, specs: list[TargetSpec]) -> None:
    """Refuse a suite with a case that is for certain targets only, none of which the command has."""
    case_ids = loaded_suite.indexer.nowhere([spec.name for spec in specs]) if len(specs) > 1 else ()
    if case_ids:
        raise UsageError(
            f"Case {case_ids[0]!r} of {loaded_suite.path} is only for targets that this command does not "
            "ask. Add one of them with --target, or leave the case out with --id."
        )


def _no_target_error(names: Names) -> str:
    """What to do where neither the command nor the suite names a target."""
    if names.file is None or not names.names():
        return "Name a target with --target, such as `local` or `openai:gpt-5.2`."
    file_names = ", ".join(names.names())
    return f"Name a target with --target, or call one `default` in {names.file.path}. It has: {file_names}."


def _resolve_in_suite(loaded_suite: Loaded, resolve: TargetResolver, word: str, params: Params) -> TargetSpec:
    """The target that a word in a suite names.

    Raises:
        SuiteError: there is none; or the targets file is wrong.
    """
    try:
        return resolve(word, params)
    except UsageError as error:
        path, line = loaded_suite.wanted.places.get(word, (loaded_suite.path, None))
        problem = Problem(code="unknown-target", message=str(error), path=path, line=line)
        raise SuiteError([problem]) from None


def with_defaults(defaults: Defaults, request: Request) -> Settings:
    """The settings that the user gave, and where none was given those that the suite wants."""
    suite_values = {name: getattr(defaults, name) for name in ("concurrency", "budget_usd", "cache", "reuse")}
    settings = {
        name: value
        for name, value in suite_values.items()
        if value is not None and name not in request.explicit
    }
    return replace(request.settings, **settings)

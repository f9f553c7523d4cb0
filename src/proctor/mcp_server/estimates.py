"""`estimate`: the calls, cost and time of a run before it starts, and the checks that every run must pass."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

from msgspec import Struct

from proctor.errors import NothingSelected, UsageError
from proctor.mcp_server.arguments import EstimateArguments, StartArguments
from proctor.mcp_server.project import AgentProject
from proctor.mcp_server.results import ToolResult
from proctor.mcp_server.suites import choose_suite
from proctor.plurals import join_names
from proctor.protocols import Store
from proctor.reports.record_fields import about
from proctor.services.runs.reading.estimate import estimate_request
from proctor.services.runs.reading.estimate_record import Estimate, format_approximate_usd
from proctor.services.runs.starts.allowed_targets import (
    AllowedTargets,
    RunContext,
    check_allowed,
    list_allowed_targets,
    load_run_context,
)
from proctor.services.runs.starts.run_form import RunForm


class EstimatedCalls(Struct, frozen=True, kw_only=True):
    """The calls of one target or judge."""

    name: str
    judging: bool
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: Annotated[float | None, about("Null if its price is unknown.")]


class RunEstimate(Struct, frozen=True, kw_only=True):
    """The estimate of a run; no request was sent."""

    cases: int
    calls: Annotated[int, about("Number of calls to targets.")]
    judge_calls: int
    cost_usd: Annotated[float | None, about("The approximate cost of all calls; null if a price is unknown.")]
    seconds: Annotated[float | None, about("The approximate time; null if a speed is unknown.")]
    at_most: Annotated[bool, about("Whether answers may be reused, so that the run may need fewer calls.")]
    parts: tuple[EstimatedCalls, ...]
    notes: tuple[str, ...]
    command: Annotated[str, about("The same run on the command line.")]


class RunPlan(Struct, frozen=True, kw_only=True):
    """A run that may start, and its estimate."""

    form: RunForm
    estimate: Estimate

    @property
    def is_free(self) -> bool:
        """Whether its calls are known to cost nothing."""
        return self.estimate.cost_usd == 0


def estimate(project: AgentProject, arguments: EstimateArguments) -> ToolResult:
    """Returns the estimate of a run."""
    with project.read_any_store() as store:
        plan = plan_run(project, store, arguments)
    result = plan.estimate
    command = shell_command(project, plan.form)
    record = RunEstimate(
        cases=result.cases,
        calls=result.calls,
        judge_calls=result.judge_calls,
        cost_usd=result.cost_usd,
        seconds=result.seconds,
        at_most=result.at_most,
        parts=tuple(
            [
                EstimatedCalls(
                    name=share.name,
                    judging=share.judging,
                    calls=share.calls,
                    input_tokens=share.usage.input_tokens,
                    output_tokens=share.usage.output_tokens,
                    cost_usd=share.cost_usd,
                )
                for share in result.shares
            ]
        ),
        notes=result.notes,
        command=command,
    )
    return ToolResult(
        record=record, lines=(f"{result.sentence}.", *result.notes, f"On the command line: {command}")
    )


def shell_command(project: AgentProject, form: RunForm) -> str:
    """Returns `proctor run` with the arguments of a form, for a shell in the project's folder."""
    return shlex.join(("proctor", "run", *form.arguments, *project.store_flags))


def plan_run(project: AgentProject, store: Store, arguments: EstimateArguments) -> RunPlan:
    """Checks what a client wants to run, and estimates it; nothing is sent.

    Args:
        project: the project.
        store: has its saved suites and its earlier runs.
        arguments: what the client wants; a budget is checked if there is one.

    Raises:
        SuiteError: the suite or the targets file is wrong.
        UsageError: there is no such suite or target, agents may not call the target, or the budget is too
            small or cannot be kept.
        NothingSelected: no case is left.
        StoreError: the store cannot be read.
    """
    context = load_run_context(project)
    allowed = list_allowed_targets(context)
    for name in filter(None, (arguments.target, *arguments.judges)):
        _check_target(name, allowed, context)
    choice = choose_suite(project, store, arguments.suite)
    numbers: dict[str, float] = {}
    if arguments.repeats is not None:
        numbers["repeats"] = arguments.repeats
    if isinstance(arguments, StartArguments):
        numbers["budget_usd"] = arguments.budget_usd
    form = RunForm(
        suite=choice.name,
        version=choice.version,
        sources=choice.sources,
        targets=(arguments.target,) if arguments.target else (),
        judges=arguments.judges,
        split=arguments.split,
        numbers=numbers,
        tags=arguments.tags,
        limit=arguments.max_cases,
    )
    if not arguments.target:
        for name in choice.targets:
            _check_target(name, allowed, context)
    result = estimate_request(
        store,
        form.to_request(context),
        project.environ,
        folder=project.location.folder,
        start=project.folder,
    )
    _check_estimate(result, arguments)
    return RunPlan(form=form, estimate=result)


def _check_target(name: str, allowed: AllowedTargets, context: RunContext) -> None:
    check_allowed(name, allowed, context.environ)
    missing: Any = next((target.missing for target in allowed.targets if target.name == name), ())
    if missing:
        raise UsageError(
            f"The target {name!r} needs {join_names(list(missing), 3)} in the environment of the server. Add "
            "it to `env` in the configuration of this server, then restart the server."
        )


def _check_estimate(result: Estimate, arguments: EstimateArguments) -> None:
    if not result.targets:
        raise UsageError("There is no target. Name a `target`; the tool `list_targets` lists them.")
    if not result.cases:
        raise NothingSelected("No cases match. Choose another `split` or other `tags`.")
    if result.targets > 1:
        names = join_names(list(dict.fromkeys(s.name for s in result.shares if not s.judging)), 5)
        raise UsageError(
            f"This tool runs one target at a time, but this run has {names}. Name one as `target`."
        )
    if not isinstance(arguments, StartArguments):
        return
    if result.unlimited:
        raise UsageError(
            f"A budget needs the price of each target and judge, but the price of "
            f"{join_names(list(result.unlimited), 3)} is unknown. Add it to a prices.toml beside the "
            "store."
        )
    cost = result.cost_usd
    if cost is not None and cost > arguments.budget_usd:
        raise UsageError(
            f"The run would cost about {format_approximate_usd(cost)}, more than the budget of "
            f"{format_approximate_usd(arguments.budget_usd)}, so no request was sent. Run fewer cases with "
            "`max_cases`, or ask for a larger budget."
        )

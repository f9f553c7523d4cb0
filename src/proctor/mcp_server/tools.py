"""The table of tools: what each is called, takes and gives, and the function behind it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from anyio.to_thread import run_sync
from msgspec import Struct

from proctor.mcp_server import arguments, comparisons, estimates, failures, lists, runs, validation
from proctor.mcp_server.project import AgentProject
from proctor.mcp_server.results import ToolResult
from proctor.mcp_server.runs import Notify

Call = Callable[[AgentProject, Any, Notify], Awaitable[ToolResult]]


class AgentTool(Struct, frozen=True, kw_only=True):
    """One tool."""

    title: str
    description: str
    arguments: type[Struct]
    result: type[Struct]
    call: Call
    is_read_only: bool = True
    """Whether it sends nothing and ends nothing."""


def _in_thread(function: Callable[[AgentProject, Any], ToolResult]) -> Call:
    """Returns a tool's function for one that blocks."""

    async def call(project: AgentProject, tool_arguments: Any, _notify: Notify) -> ToolResult:
        return await run_sync(partial(function, project, tool_arguments))

    return call


TOOLS: Final[dict[str, AgentTool]] = {
    "list_suites": AgentTool(
        title="List suites",
        description="The suites that can be run: files in this folder, saved suites and built-in suites.",
        arguments=arguments.ListArguments,
        result=lists.SuiteList,
        call=_in_thread(lists.list_suites),
    ),
    "list_targets": AgentTool(
        title="List targets",
        description="The models and programs that can be called by name, and the keys that are not set.",
        arguments=arguments.ListArguments,
        result=lists.TargetList,
        call=_in_thread(lists.list_targets),
    ),
    "list_runs": AgentTool(
        title="List runs",
        description="Stored runs with their pass rates, newest first.",
        arguments=arguments.ListRunsArguments,
        result=lists.RunList,
        call=_in_thread(lists.list_runs),
    ),
    "validate": AgentTool(
        title="Validate a suite",
        description="Every error and warning of a suite, with file and line. No request is sent.",
        arguments=arguments.ValidateArguments,
        result=validation.SuiteValidation,
        call=_in_thread(validation.validate),
    ),
    "estimate": AgentTool(
        title="Estimate a run",
        description="How many calls a run would make, what it would cost and how long it would take. No "
        "request is sent. Call it before `run`.",
        arguments=arguments.EstimateArguments,
        result=estimates.RunEstimate,
        call=_in_thread(estimates.estimate),
    ),
    "run": AgentTool(
        title="Run a suite",
        description="Sends the cases of a suite to a target, grades every answer and stores the run. It may "
        "cost money: `budget_usd` is required, and a run that would cost more is refused. Returns when the "
        "run has ended or after `wait_s`; follow it with `status`. The run ends with this server and can "
        "then be resumed.",
        arguments=arguments.StartArguments,
        result=runs.RunStatus,
        call=runs.run,
        is_read_only=False,
    ),
    "status": AgentTool(
        title="Status of a run",
        description="The progress of a run: counts, pass rate with its 95 % interval, cost, and the first "
        "failed and errored cases. Waits up to `wait_s` seconds for its end.",
        arguments=arguments.StatusArguments,
        result=runs.RunStatus,
        call=runs.status,
    ),
    "failures": AgentTool(
        title="Failures of a run",
        description="The failed and errored cases of a run, page by page: prompt, expected answer, answer "
        "and reasons. Held-out cases are hidden.",
        arguments=arguments.FailuresArguments,
        result=failures.FailedTrialPage,
        call=_in_thread(failures.list_failures),
    ),
    "compare": AgentTool(
        title="Compare two runs",
        description="How a run of a suite differs from an earlier one: the difference in pass rate with "
        "its 95 % interval and p-value, and the cases that flipped.",
        arguments=arguments.CompareArguments,
        result=comparisons.RunComparisonResult,
        call=_in_thread(comparisons.compare),
    ),
    "stop": AgentTool(
        title="Stop a run",
        description="Stops a run, as Ctrl-C does. Finished trials are kept, and the run can be resumed.",
        arguments=arguments.StopArguments,
        result=runs.RunStatus,
        call=_in_thread(runs.stop),
        is_read_only=False,
    ),
}

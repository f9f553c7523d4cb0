"""Turns the result of a run into that of its test: an error if not measured, a failure if the gate fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from proctor.errors import ExitCode, ProctorError
from proctor.pytest_plugin.session import format_error, list_runs
from proctor.python.results import RunGroup, RunResult
from proctor.reports.document import render_terminal


def make_measured_run(item: pytest.Item, make: Callable[[], RunResult | RunGroup]) -> RunResult | RunGroup:
    """Makes the run of a test while it is set up, where pytest reports errors and no failures.

    Raises:
        pytest.fail.Exception: it cannot be made, or was not measured, so that its gate says nothing.
    """
    try:
        result = make()
    except ProctorError as error:
        problem = format_error(error, item)
    else:
        if all(run.exit_code in (ExitCode.OK, ExitCode.FAILED) for run in list_runs(result)):
            return result
        problem = _describe_failures(result)
    pytest.fail(problem, pytrace=False)


def check_gates(result: RunResult | RunGroup) -> None:
    """Fails the test if the gate of a run does not hold.

    Raises:
        pytest.fail.Exception: one does not.
    """
    if not all(run.ok for run in list_runs(result)):
        pytest.fail(_describe_failures(result), pytrace=False)


def _describe_failures(result: RunResult | RunGroup) -> str:
    """Returns the report of each run that is not ok, below a sentence that says what is wrong."""
    return "\n\n".join("\n".join(_describe_run(run)) for run in list_runs(result) if not run.ok)


def _describe_run(run: RunResult) -> Iterator[str]:
    yield _headline(run)
    yield ""
    yield from render_terminal(run.blocks(apart=True))


def _headline(run: RunResult) -> str:
    if run.status != "finished":
        return run.run.stopped or f"The run stopped after {run.total:,} of {run.run.planned:,} trials."
    bar = run.run.settings.min_pass_rate
    if run.exit_code is ExitCode.NOT_MEASURED:
        what = "The result is not known" if bar is None else "The gate is not decided"
        count = run.errors + run.unscored
        return f"{what}: {count:,} of {run.total:,} trials could not be measured." if count else f"{what}."
    if bar is None:
        return f"{run.failed:,} of {run.total:,} failed. Set min_pass_rate to tolerate failures."
    return f"The gate failed: the pass rate is {run.pass_rate or 0:.1%}, and at least {bar:.1%} is required."

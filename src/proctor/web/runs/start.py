"""Estimates and starts the run of a validated form, and gives the command that does the same."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from proctor.errors import ProctorError, SuiteError
from proctor.model import Run
from proctor.protocols import Store
from proctor.services.runs.planning.requested_runs import MISSING_VARIABLE
from proctor.services.runs.reading.estimate import estimate_request
from proctor.services.runs.reading.estimate_record import Estimate
from proctor.services.runs.starts.allowed_targets import load_run_context
from proctor.services.runs.starts.processes import StartedRun, get_run_processes
from proctor.services.runs.starts.run_form import RunForm
from proctor.verdicts import Counts
from proctor.web.project import Project
from proctor.web.runs.form import FormErrors, RawForm


def make_estimate(project: Project, store: Store, run_form: RunForm) -> Estimate:
    """Estimates the run of a form.

    Raises:
        FormErrors: it cannot be run: a target cannot be called, no case is selected, or a budget lacks
            a price.
    """
    context = load_run_context(project)
    request = run_form.to_request(context)
    try:
        estimate = estimate_request(
            store, request, project.environ, folder=project.location.folder, start=project.folder
        )
    except SuiteError as error:
        is_of_prompt = all(problem.code == MISSING_VARIABLE for problem in error.problems)
        sentences = " ".join(str(problem.message) for problem in error.problems)
        raise FormErrors({"prompt" if is_of_prompt else "target": sentences}) from None
    except ProctorError as error:
        raise FormErrors({"target": str(error)}) from None
    if not estimate.cases:
        raise FormErrors({"split": "No cases match. Choose another split or other tags."})
    if estimate.budget_usd is not None and estimate.unlimited:
        names = ", ".join(estimate.unlimited)
        raise FormErrors(
            {
                "budget_usd": "A budget needs the price of each target and judge, but the price of "
                f"{names} is unknown. Remove the budget, or add the price to a prices.toml beside the store."
            }
        )
    return estimate


def shell_command(project: Project, arguments: Sequence[str]) -> str:
    """Returns `proctor run` with these arguments, for a shell in the project's folder."""
    return shlex.join(("proctor", "run", *arguments, *project.store_flags))


def make_start_arguments(project: Project, run_form: RunForm) -> list[str]:
    """Returns the arguments after `run` of the process that makes the runs of a form."""
    return run_form.make_arguments(get_run_processes(project).prompt_files.words(run_form.prompts))


def start_process(
    project: Project, run_form: RunForm, *, raw_form: RawForm, group: str | None = None
) -> StartedRun:
    """Starts a process for the runs of a form.

    Args:
        project: the project.
        run_form: the validated form.
        raw_form: the fields as they were sent, to fill in the form again.
        group: the group of its runs; None for a new id.

    Raises:
        UsageError: the process cannot be started, or something else was started as that group.
    """
    processes = get_run_processes(project)
    processes.prompt_files.write(run_form.prompts)
    return processes.start(make_start_arguments(project, run_form), group=group, fields=raw_form)


def reason_not_resumable(store: Store, run: Run) -> str:
    """Returns why a run cannot be resumed; empty if it can.

    Raises:
        StoreError: the store cannot be read.
    """
    if run.imported is not None:
        return "This run was imported from a bundle, so it cannot be resumed."
    done_count = sum(count for verdict, count in store.count_verdicts(run.id).items() if verdict is not None)
    return "This run has no missing trials." if run.status == "finished" and done_count >= run.planned else ""


def retry_arguments(run: Run) -> list[str]:
    """Returns the arguments after `run` that retry the errors of a run, within the budget that it had."""
    budget = run.settings.budget_usd
    return [f"--retry-errors={run.id}", *([] if budget is None else [f"--budget-usd={budget:.12g}"])]


def count_retryable(run: Run, counts: Counts) -> int:
    """Returns the number of trials that a retry would make again; 0 if the run cannot be retried.

    Args:
        run: the run; imported runs and regrades call no target.
        counts: its trials by verdict.
    """
    is_own = run.imported is None and run.regrade_of is None
    return counts.errors + counts.unscored if is_own else 0

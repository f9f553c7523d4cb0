"""Plans a regrade: the answers of a stored run graded by its own suite or another; no target is called."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Run, Suite
from proctor.services.runs.execution.target_pool import embedder_name
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.earlier_run import copy_run
from proctor.services.runs.planning.judge_choice import JudgeSelection, RequiredTargets, select_judges
from proctor.services.runs.planning.load_suites import index_stored_suite, load_suites
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.request import Request


def plan_regrade(request: Request, context: PlanningContext) -> list[PlannedRun]:
    """Returns a new run that grades the answers of the run that the request names.

    Raises:
        SuiteError: the suite is invalid.
        UsageError: several suites are named; a case has no value for a variable of the prompt; a variable of
            the environment has changed since; the run stopped early; or it is imported, needs a judge, and
            none is named.
    """
    earlier = context.store.run(request.regrade or "")
    if earlier.early_stop is not None:
        raise UsageError(
            f"Run {earlier.id} stopped early because of its grades, so other grades would have needed "
            f"other cases. Use `proctor run '{earlier.suite.name}@{earlier.suite.version}' --reuse` "
            "with --until or --stop-when-shown instead: it grades the answers again, and calls the "
            "target only for missing ones."
        )
    suite = _choose_suite(earlier, request, context)
    if earlier.status != "finished":
        context.warn(
            f"Run {earlier.id} is not finished. Cases that it did not send are ERROR in the new run."
        )
    # The prompts that were sent stay the same; only what decides verdicts may change.
    names = request.explicit - {"selection", "repeats"}
    changes = {name: getattr(request.settings, name) for name in names}
    changes |= {"reuse": False, "cache": False, "engine": request.settings.engine}
    # All answers are there: nothing is left to stop, and they are graded in suite order.
    changes |= {"order_seed": None, "until": None, "stop_when_shown": False}
    settings = replace(earlier.settings, **changes)
    indexer, required = index_stored_suite(context.store, suite, settings)
    prompts = () if earlier.prompt is None else (earlier.prompt,)
    problems = indexer.variables.find_problems(prompts, of_suite=earlier.seat.prompt is not None)
    if prompts and (sentences := list(problems)):
        raise UsageError("\n".join(sentences))
    index = indexer.build(suite.split_rule, earlier.seat)
    changed_variables = context.variable_values.find_changed(earlier.id, required.variables)
    if changed_variables:
        raise UsageError(
            f"Run {earlier.id} had another value of {', '.join(changed_variables)}. Set the same value "
            f"again, or start a new run: proctor run '{suite.name}@{suite.version}' --target T"
        )
    selection = _select_judges_again(earlier, suite.folder, required, request, context)
    for message in selection.warnings:
        context.warn(message)
    run = replace(
        copy_run(earlier, settings, context),
        suite=suite,
        judges=selection.judges,
        judges_given=selection.judges_given,
        named_judges=selection.named_judges,
        embedder=embedder_name(context.environ) if "embedder" in required.needs else None,
        planned=index.trial_count,
        regrade_of=earlier.id,
        warnings=selection.warnings,
    )
    return [PlannedRun(run=run, index=index, required=required)]


def _choose_suite(earlier: Run, request: Request, context: PlanningContext) -> Suite:
    """Returns the suite to grade by: the one that is named, else the run's own."""
    if not request.suites:
        return earlier.suite
    suites = load_suites(request, context)
    if len(suites) > 1:
        raise UsageError("Name only one suite to grade the answers with.")
    # The split stays that of the run, so that a regrade reveals no hidden case.
    return replace(suites[0].suite, split_rule=earlier.suite.split_rule, no_holdout=earlier.suite.no_holdout)


def _select_judges_again(
    earlier: Run, folder: str, required: RequiredTargets, request: Request, context: PlanningContext
) -> JudgeSelection:
    """Selects the judges of a regrade: those that are named, else those of the run."""
    names = context.target_names.for_folder(folder)
    judges = tuple(names.get_spec(word, request.judge_params, judged=False) for word in request.judges)
    if earlier.imported is not None:
        if not judges and "judge" in required.needs:
            raise UsageError(
                f"Run {earlier.id} was imported, so its judges cannot be used here. Name a judge with "
                "--judge."
            )
    elif not judges and not request.suites:
        return JudgeSelection(
            judges=earlier.judges,
            judges_given=earlier.judges_given,
            named_judges=earlier.named_judges,
        )
    elif not judges and earlier.judges_given:
        judges = earlier.judges
    without_targets = replace(required, targets=frozenset())
    params = earlier.target.params
    return select_judges(
        without_targets, earlier.target, judges, path=folder, params=params, resolve=names.get_spec
    )

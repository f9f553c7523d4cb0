"""Combines every suite of a request with each of its targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from proctor.clusters import NO_CLUSTERS, check_cluster_field
from proctor.engines import ENGINES
from proctor.errors import NothingSelected, SuiteError, UsageError, suggestion
from proctor.model import (
    FURTHER_PARAMS,
    Params,
    Problem,
    PromptTemplate,
    Run,
    RunSlot,
    Settings,
    Suite,
    SuiteDefaults,
    TargetSpec,
)
from proctor.plan import CaseIndex
from proctor.plurals import join_names, pluralize
from proctor.reports.problems import problem_lines
from proctor.services import events
from proctor.services.runs.execution.target_pool import embedder_name
from proctor.services.runs.planning.context import PlanningContext
from proctor.services.runs.planning.judge_choice import (
    JudgeSelection,
    RequiredTargets,
    TargetResolver,
    select_judges,
)
from proctor.services.runs.planning.load_suites import load_suites
from proctor.services.runs.planning.planned_run import PlannedRun
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.runs.request import Request, new_id
from proctor.services.suites.holdout_split import apply_split
from proctor.services.suites.load import LoadedSuite
from proctor.services.suites.suite_argument import SuiteLocator
from proctor.targets import get_kind, get_service

MISSING_VARIABLE = "missing-variable"
"""The code of the problem that cases cannot be sent with a prompt."""


class RequestedRun(Struct, frozen=True, kw_only=True):
    """One suite on one target, as a request specifies it."""

    suite: Suite
    seat: RunSlot
    target: TargetSpec
    prompt: PromptTemplate | None = None
    """What its cases fill in; None if they are sent as they are."""
    judge_selection: JudgeSelection
    settings: Settings
    index: CaseIndex
    required: RequiredTargets
    """What the cases of the whole suite require."""
    embedder: str | None
    """The embedding model; None if no grader needs one."""
    warnings: tuple[str, ...]

    @property
    def target_title(self) -> str:
        """The name of its target, with that of its prompt, as of a run."""
        return self.target.name if self.prompt is None else f"{self.target.name} · {self.prompt.name}"

    def start(self, group: str, prices_date: str | None) -> PlannedRun:
        """Returns a new run.

        Args:
            group: the group of the run.
            prices_date: the newest date of the prices in use.
        """
        run = Run(
            id=new_id(),
            group=group,
            seat=self.seat,
            suite=self.suite,
            target=self.target,
            prompt=self.prompt,
            judges=self.judge_selection.judges,
            judges_given=self.judge_selection.judges_given,
            named_targets=self.judge_selection.named_targets,
            named_judges=self.judge_selection.named_judges,
            embedder=self.embedder,
            settings=self.settings,
            prices_date=prices_date,
            started_at=datetime.now(UTC),
            planned=self.index.trial_count,
            warnings=self.warnings,
        )
        return PlannedRun(run=run, index=self.index, required=self.required)


def list_requested_runs(request: Request, context: PlanningContext) -> list[RequestedRun]:
    """Returns every suite of a request on each target, in order, with at least one selected case.

    Raises:
        SuiteError: a suite is wrong; carries all problems of all suites.
        UsageError: the request names no suite, or a word names no suite or target.
        NothingSelected: the selection leaves no case of any suite.
    """
    if not request.has_suite_names and not request.saved_suites:
        raise request.config.missing_suite("proctor run cheap --target local")
    suites = [apply_split(loaded_suite, request) for loaded_suite in load_suites(request, context)]
    runs = list(pair_with_targets(suites, request, context))
    _check_several_targets(runs, request)
    if request.last_failed is not None:
        runs = _select_last_failed(runs, suites, request, context)
    selected = [run for run in runs if run.index.trial_count or run.index.is_empty_shard]
    if not selected:
        flags = "--tag, --all-tag, --exclude-tag, --category, --id or --split"
        if request.last_failed is not None:
            flags = f"--last-failed, {flags}"
        raise NothingSelected(f"No case is selected. Relax {flags}.")
    for requested_run in runs:
        shard = requested_run.settings.selection.shard
        if shard is not None and requested_run.index.is_empty_shard:
            sentence = f"No case of {requested_run.suite.name} is in {shard.title}, so no request is sent."
            context.listen(events.StatusMessage(sentence))
        elif not requested_run.index.trial_count:
            context.warn(f"No case of {requested_run.suite.name} is selected, so the suite is skipped.")
    return selected


def _select_last_failed(
    runs: list[RequestedRun], suites: list[LoadedSuite], request: Request, context: PlanningContext
) -> list[RequestedRun]:
    """Returns the runs with the cases that last failed only; all of them if none did.

    Raises:
        UsageError: the named run is of none of the suites, targets and prompts.
    """
    from proctor.services.runs.planning.last_failed import find_last_failed

    latest = context.store.run(request.last_failed) if request.last_failed else None
    names = {(run.suite.name, run.target_title) for run in runs}
    if latest is not None and (latest.suite.name, latest.target_title) not in names:
        raise UsageError(
            f"Run {latest.id} is a run of {latest.suite.name} on {latest.target_title}, which this "
            "command does not run."
        )
    selected, passing = [], []
    for run in runs:
        loaded_suite = next(suite for suite in suites if suite.suite is run.suite)
        prompt = None if run.prompt is None else run.prompt.name
        failed = find_last_failed(context.store, run.suite.name, run.target.name, prompt, latest)
        case_ids = () if failed is None else loaded_suite.indexer.keep_known(failed.case_ids)
        name = f"{run.suite.name} on {run.target_title}"
        if failed is None:
            passing.append(f"There is no earlier run of {name}")
        elif not case_ids:
            passing.append(f"All cases of {name} passed in run {failed.run}")
        else:
            removed = len(failed.case_ids) - len(case_ids)
            count = pluralize(len(case_ids), "case")
            verb = "is" if removed == 1 else "are"
            note = f" {removed:,} more {verb} no longer in the suite." if removed else ""
            sentence = f"{name}: running only the {count} that failed or errored in run {failed.run}.{note}"
            context.listen(events.StatusMessage(sentence))
            selection = replace(run.settings.selection, failed_in=failed.run, case_ids=case_ids)
            selected.append(
                replace(
                    run,
                    index=loaded_suite.index(run.seat, case_ids),
                    settings=replace(run.settings, selection=selection),
                )
            )
    for sentence in passing:
        end = "skipped" if selected else "running all cases"
        context.listen(events.StatusMessage(f"{sentence}: {end}."))
    return selected or runs


def pair_with_targets(
    suites: list[LoadedSuite], request: Request, context: PlanningContext
) -> Iterator[RequestedRun]:
    """Yields every suite with each prompt on each target, even without a selected case.

    Raises:
        SuiteError: a target that a suite names is unknown, the targets file is wrong, a prompt is invalid, or
            cases have no value for a variable of one.
        UsageError: a word names no target or prompt, or a suite has cases for none of the targets.
    """
    warned_files = set[Path]()
    given_prompts = load_request_prompts(request, context)
    for loaded_suite in suites:
        prompts = given_prompts or loaded_suite.suite.defaults.prompts
        check_variables(loaded_suite, prompts, of_suite=not given_prompts)
        _warn_about_unused(loaded_suite, prompts, of_suite=not given_prompts, context=context)
        names = context.target_names.for_folder(loaded_suite.suite.folder)
        if context.files is not None and names.path is not None:
            context.files.add(names.path)
        _warn_about_targets_file(names, warned_files, context)
        judges = tuple(names.get_spec(word, request.judge_params, judged=False) for word in request.judges)
        # A judge that gets no calls need not exist or have a key.
        resolve = partial(names.get_spec, judged=not judges and "judge" in loaded_suite.required.needs)
        resolve_in_suite = partial(_resolve_in_suite, loaded_suite, resolve)
        words = request.targets or loaded_suite.suite.defaults.targets or names.default
        if not words:
            raise UsageError(_no_target_error(names))
        specs = [(resolve if request.targets else resolve_in_suite)(word, request.params) for word in words]
        _check_targets_of_cases(loaded_suite, specs)
        _check_params_of_cases(loaded_suite, specs, context)
        for (place, prompt), (number, spec) in product(enumerate(prompts or (None,)), enumerate(specs)):
            slot = RunSlot(
                target=spec.name,
                prompt=None if given_prompts or prompt is None else prompt.name,
                first_prompt=place == 0,
                first=number == 0,
                alone=len(specs) == 1,
            )
            run = _describe_run(loaded_suite, slot, spec, judges, resolve_in_suite, request, context)
            several = max(1, len(prompts)) * len(specs) > 1
            interleave = run.settings.interleave and several and not get_kind(spec).is_prepaid
            yield replace(run, prompt=prompt, settings=replace(run.settings, interleave=interleave))


def _describe_run(
    loaded_suite: LoadedSuite,
    slot: RunSlot,
    spec: TargetSpec,
    judges: tuple[TargetSpec, ...],
    resolve: TargetResolver,
    request: Request,
    context: PlanningContext,
) -> RequestedRun:
    index = loaded_suite.index(slot)
    # Cases with a target of their own are sent in the first run of a group.
    required = loaded_suite.required if slot.first else replace(loaded_suite.required, targets=frozenset())
    selection = select_judges(
        required, spec, judges, path=loaded_suite.path, params=request.params, resolve=resolve
    )
    if index.trial_count and required.choice_cases:
        _check_choices(loaded_suite, slot, (spec, *selection.named_targets))
    warnings = selection.warnings if index.trial_count else ()
    for message in warnings:
        context.warn(message)
    settings = with_defaults(loaded_suite.suite.defaults, request)
    return RequestedRun(
        suite=loaded_suite.suite,
        seat=slot,
        target=spec,
        judge_selection=selection,
        settings=settings,
        index=index,
        required=loaded_suite.required,
        embedder=embedder_name(context.environ) if "embedder" in required.needs else None,
        warnings=(*problem_lines(loaded_suite.warnings), *warnings),
    )


def _warn_about_targets_file(names: TargetNames, warned_files: set[Path], context: PlanningContext) -> None:
    """Reports the warnings of a targets file, once for each file."""
    if names.file is None or names.path is None or names.path in warned_files:
        return
    warned_files.add(names.path)
    for line in problem_lines(names.file.warnings):
        context.warn(line)


def _check_targets_of_cases(loaded_suite: LoadedSuite, specs: list[TargetSpec]) -> None:
    """Refuses a suite with a case that is restricted to targets that the command does not use."""
    if len(specs) == 1:
        return
    case_id = loaded_suite.indexer.find_case_without_target([spec.name for spec in specs])
    if case_id is not None:
        raise UsageError(
            f"Case {case_id!r} of {loaded_suite.path} is only for targets that this command does not "
            "use. Add one of them with --target, or exclude the case with --id."
        )


def _check_choices(loaded_suite: LoadedSuite, slot: RunSlot, specs: Sequence[TargetSpec]) -> None:
    """Refuses a run in which a target would get choices and cannot report how likely they are.

    Args:
        loaded_suite: has cases with choices.
        slot: the position of the run.
        specs: the run's target, and then those that cases name.
    """
    from proctor.targets.choice_targets import check_scores_choices

    for (own_target, only_targets), case_id in loaded_suite.required.choice_cases.items():
        for spec in specs[1:] if own_target is not None else specs[:1]:
            # Cases for certain targets are run on any if it is the only one.
            is_sent = slot.alone or not only_targets or spec.name in only_targets
            if spec.name == own_target or (own_target is None and is_sent):
                check_scores_choices(spec, case_id, loaded_suite.path)


def _check_params_of_cases(
    loaded_suite: LoadedSuite, specs: list[TargetSpec], context: PlanningContext
) -> None:
    """Refuses a case with a parameter that the model does not take; what is no model ignores parameters."""
    for spec, (name, case_id) in product(specs, loaded_suite.required.params.items()):
        kind = get_service(spec).with_format(spec.params.api_format)
        if name not in FURTHER_PARAMS or name in kind.all_params:
            continue
        if kind.has_address or kind.all_params:
            message = f"Case {case_id!r} sets `{name}`, and {kind.describe_refusal(name)}"
            problem = Problem(code="unsupported-parameter", message=message, path=loaded_suite.path)
            raise SuiteError([problem])
        context.warn(
            f"Some cases, such as {case_id!r}, set `{name}`, which has no effect on target {spec.name!r}."
        )


def load_request_prompts(request: Request, context: PlanningContext) -> tuple[PromptTemplate, ...]:
    """Returns the prompts that the user gave.

    Raises:
        SuiteError: a file is no prompt.
        UsageError: a file cannot be read, or two prompts have the same name.
    """
    if not request.prompts:
        return ()
    from proctor.services.runs.planning.load_prompts import load_prompts

    return load_prompts(request.prompts, context)


def check_variables(loaded_suite: LoadedSuite, prompts: Sequence[PromptTemplate], *, of_suite: bool) -> None:
    """Refuses a suite whose cases cannot be sent with these prompts.

    Raises:
        SuiteError: a case has no value for a variable, or no input.
    """
    problems = [
        Problem(code=MISSING_VARIABLE, message=message, path=loaded_suite.path)
        for message in loaded_suite.indexer.variables.find_problems(prompts, of_suite=of_suite)
    ]
    if problems:
        raise SuiteError(problems)


def _warn_about_unused(
    loaded_suite: LoadedSuite, prompts: Sequence[PromptTemplate], *, of_suite: bool, context: PlanningContext
) -> None:
    """Warns about values that no prompt of the user uses; without prompts, if an input has their names."""
    if not prompts:
        if in_input := loaded_suite.indexer.variables.find_in_input():
            case_id, name = in_input
            context.warn(
                f"{loaded_suite.path}: The input of case {case_id!r} is sent with `{{{{ {name} }}}}` as it "
                "is written, because values are filled in only in prompts. Write the text into a file, and "
                "name it with --prompt FILE."
            )
    elif not of_suite and (unused := loaded_suite.indexer.variables.find_unused(prompts)):
        names = join_names([f"`{name}`" for name in unused], 5)
        which = f"The prompt {prompts[0].name!r}" if len(prompts) == 1 else "None of the prompts"
        verb = "does not use" if len(prompts) == 1 else "uses"
        context.warn(f"{loaded_suite.path}: {which} {verb} {names}.")


def _check_several_targets(runs: list[RequestedRun], request: Request) -> None:
    """Refuses --interleave on the command line for one target; in proctor.toml it then has no effect."""
    if (
        request.settings.interleave
        and "--interleave" in request.flags
        and len(runs) == len({requested_run.suite.digest for requested_run in runs})
    ):
        raise UsageError(
            f"--interleave needs several runs, but there is only one, on {runs[0].target_title!r}. "
            "Name another target or prompt, or remove --interleave."
        )


def _no_target_error(names: TargetNames) -> str:
    """Returns a hint for when neither the command nor the suite names a target."""
    if names.file is None or not names.names():
        return "Name a target with --target, such as `local` or `openai:gpt-5.2`."
    file_names = ", ".join(names.names())
    return (
        f"Name a target with --target, or name one `default` in {names.file.path}. The file has: "
        f"{file_names}."
    )


def _resolve_in_suite(
    loaded_suite: LoadedSuite, resolve: TargetResolver, word: str, params: Params
) -> TargetSpec:
    """Returns the target that a word in a suite names.

    Raises:
        SuiteError: there is no such target; or the targets file is invalid.
    """
    try:
        return resolve(word, params)
    except UsageError as error:
        path, line = loaded_suite.required.locations.get(word, (loaded_suite.path, None))
        problem = Problem(code="unknown-target", message=str(error), path=path, line=line)
        raise SuiteError([problem]) from None


def with_defaults(defaults: SuiteDefaults, request: Request) -> Settings:
    """Returns the user's settings, with the suite's defaults for those that were not given.

    Raises:
        UsageError: the suite names no field by which cases can be clustered, or a run that may stop early
            has clusters.
    """
    suite_values = {
        name: getattr(defaults, name) for name in ("concurrency", "budget_usd", "cache", "reuse", "cluster")
    }
    settings = {
        name: value
        for name, value in suite_values.items()
        if value is not None and name not in request.explicit
    }
    if "cluster" in settings:
        check_cluster_field(settings["cluster"])
    run_settings = replace(request.settings, **settings)
    if run_settings.is_watched and run_settings.cluster not in (None, NO_CLUSTERS):
        raise UsageError(
            "--until and --stop-when-shown need independent cases, but these are in clusters by "
            f"{run_settings.cluster!r}. Remove these flags, or add --cluster none."
        )
    return run_settings


def check_words(request: Request, environ: Mapping[str, str]) -> None:
    """Checks the words of a request before a store is created, so that a typing error leaves no folder.

    Checked are its engine, suites and targets. The rest is left to planning, which also knows what a word
    after a flag may mean.

    Raises:
        UsageError: a word names no engine, suite or target.
    """
    if request.words_after_flags:
        return
    ENGINES.get(request.settings.engine)
    for name in request.stored_names:
        raise UsageError(f"There is no suite {name!r} in the store. {suggestion(name, ())}")
    locator = SuiteLocator(
        environ=environ, config=request.config, dialect=request.dialect, strict=request.strict
    )
    located = [locator.find(word) for word in request.suites]
    names = TargetNames(environ)
    for path in (path for suites in located for path in suites.paths[:1]):
        near = names.for_folder(str(path.parent))
        for target in (*request.targets, *request.judges):
            try:
                near.get_spec(target, Params(), judged=False)
            except SuiteError:
                return

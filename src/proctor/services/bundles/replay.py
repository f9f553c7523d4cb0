"""Runs a bundle's cases again: plans the request, and compares the new run with the bundle's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.bundles.reader import open_bundle
from proctor.errors import NothingSelected
from proctor.model import Params, Run, Settings, Suite
from proctor.proof.replay_comparison import AnswerSummary, ReplayComparison, compare_replay, summarize_answer
from proctor.protocols import Store
from proctor.services.bundles.import_records import (
    ImportOptions,
    import_suite,
    read_trials,
    verify_for_import,
)
from proctor.services.bundles.verify import VerifiedBundle
from proctor.services.progress_lines import Notify
from proctor.services.runs.reading.report import read_trial_rows, record_holdout_access
from proctor.services.runs.request import Request
from proctor.verdicts import set_intervals

_FIXED_SETTINGS = frozenset({"repeats", "threshold", "judge_repeats", "judge_rule", "reuse", "cache"})
"""Settings that the bundle's run decides, or that would reuse old answers."""


class ReplayPlan(Struct, frozen=True, kw_only=True):
    """The run that repeats a bundle's cases."""

    request: Request
    verification: VerifiedBundle
    before: tuple[AnswerSummary, ...]
    """The bundle's trials that are repeated."""
    notes: tuple[str, ...]
    """Sentences on what is left out."""


class ReplayOptions(Struct, frozen=True, kw_only=True):
    """The target, judges and settings of the new run; everything else is the bundle's."""

    target: str
    judges: tuple[str, ...] = ()
    split: Literal["dev", "holdout", "all"] | None = None
    """Only this split; None for all cases of the bundle's run."""
    settings: Settings = Settings()
    """Only concurrency, timeout, retries, answer size and budget of it are used."""


def plan_replay(
    store: Store,
    path: Path,
    import_options: ImportOptions,
    options: ReplayOptions,
    notify: Notify | None = None,
) -> ReplayPlan:
    """Verifies a bundle, saves its suite, and plans the run that repeats its cases.

    Args:
        store: where the suite is saved and the new run will be.
        path: the bundle.
        import_options: what the user requires of it.
        options: the target, the judges and the settings.
        notify: called with progress lines when it takes long.

    Raises:
        BundleError: it has a defect, or is not signed as required; nothing is saved.
        UsageError: there is no bundle, or its suite would act on this machine.
        NothingSelected: the bundle has no trial of the split.
    """
    verification = verify_for_import(path, import_options, notify)
    statement, run = verification.statement, verification.run
    with open_bundle(path) as bundle:
        before = tuple(
            summarize_answer(line.trial, line.verdict)
            for line in read_trials(bundle, statement)
            if options.split in (None, "all", line.trial.split)
        )
        if not before:
            scope = (
                "only held-out cases" if verification.hidden and options.split is None else "no such trials"
            )
            raise NothingSelected(f"{path} has {scope}, so there is nothing to run again.")
        suite = import_suite(store, bundle, verification, import_options)
    return ReplayPlan(
        request=_make_request(suite, run, options, before),
        verification=verification,
        before=before,
        notes=_list_notes(verification, options, suite),
    )


def compare_with_bundle(store: Store, plan: ReplayPlan, again: Run) -> ReplayComparison:
    """Compares the new run with the bundle; where held-out cases are in it, records an access to the holdout.

    Raises:
        StoreError: the store cannot be read.
    """
    after = [summarize_answer(row.trial, row.verdict) for row in read_trial_rows(store, again, reveal=True)]
    if any(answer.split == "holdout" for answer in plan.before):
        record_holdout_access(store, again, "rate")
    comparison = compare_replay(plan.before, after)
    set_intervals([comparison.then], plan.verification.run)
    return comparison


def _make_request(
    suite: Suite, run: Run, options: ReplayOptions, before: tuple[AnswerSummary, ...]
) -> Request:
    then = run.settings
    selection = then.selection
    if suite.split_rule is None:
        selection = replace(selection, split="all")
    elif options.split not in (None, "all"):
        selection = replace(selection, split=options.split)
    if selection.limit is not None:  # it applied to all splits, and to cases that may be hidden now
        selection = replace(selection, limit=len({answer.case_id for answer in before}))
    settings = replace(
        options.settings,
        selection=selection,
        repeats=then.repeats,
        threshold=then.threshold,
        judge_repeats=then.judge_repeats,
        judge_rule=then.judge_rule,
        reuse=False,
        cache=False,
    )
    is_of_suite = run.seat.prompt is not None
    if is_of_suite and run.prompt is not None:  # the suite has others too
        suite = replace(suite, defaults=replace(suite.defaults, prompts=(run.prompt,)))
    return Request(
        saved_suites=(suite,),
        targets=(options.target,),
        prompts=() if run.prompt is None or is_of_suite else (run.prompt,),
        judges=options.judges,
        params=run.target.params,
        judge_params=run.judges[0].params if run.judges else Params(),
        settings=settings,
        explicit=_FIXED_SETTINGS | {"concurrency", "timeout_s", "retries", "max_answer_bytes", "budget_usd"},
    )


def _list_notes(verification: VerifiedBundle, options: ReplayOptions, suite: Suite) -> tuple[str, ...]:
    notes = []
    if verification.hidden:
        notes.append(
            f"The bundle is public and does not contain its {verification.hidden:,} held-out trials. "
            f"Only the other cases were run again, as the suite {suite.name!r}."
        )
    if verification.run.judges and not options.judges:
        names = ", ".join(judge.name for judge in verification.run.judges)
        notes.append(
            f"The answers in the bundle were judged by {names}. Choose judges for this run with --judge."
        )
    return tuple(notes)

"""Merges the runs of shards into one run, which differs from a run without shards only in its id and times.

Trials stream from all stores at once, in suite order, so that no run is held in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby, repeat
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import ProctorError, StoreError, UsageError
from proctor.model import Case, Run, Settings, Suite
from proctor.plan import CaseIndexer
from proctor.plurals import join_names, pluralize
from proctor.prompts.fill import read_run_cases
from proctor.protocols import Store, StoredTrial
from proctor.services.progress_lines import Notify, progress_reporter
from proctor.services.runs.execution.variable_values import VariableValues
from proctor.services.runs.merging.parts import MergeInput, RunPart, find_parts
from proctor.services.runs.planning.earlier_run import UNFINISHED_MERGE, is_unfinished_merge
from proctor.services.runs.reading.totals import encode_totals
from proctor.services.runs.request import new_id
from proctor.verdicts import Tally, is_reused

_NO_CASE: Final = Case(id="", input=())
_MAX_SHARDS = 10
"""The maximum number of missing shards that a sentence names."""
_FREE_SETTINGS: Final = (
    *("concurrency", "timeout_s", "retries", "max_answer_bytes", "budget_usd", "max_failures"),
    *("keep_workspaces", "engine"),
)
"""Settings that may differ between shards, as a resumed run may change them: no answer depends on them."""


class MergedRun(Struct, frozen=True, kw_only=True):
    """A run that was made of others."""

    run: Run
    notes: tuple[str, ...]
    """Sentences on settings that differ, on what is missing, and on which shards lack it."""
    is_new: bool
    """Whether it was not in the store before."""


def merge_runs(
    inputs: Sequence[MergeInput], out: Store, environ: Mapping[str, str], notify: Notify | None = None
) -> list[MergedRun]:
    """Merges the newest runs of several stores, one of each suite, target and prompt, into a store.

    A run that was merged from the same runs is returned as it is, unless they have more trials by now.

    Args:
        inputs: the stores, which are only read. The order does not matter.
        out: gets the merged runs. It may be one of the inputs.
        environ: has the values of variables.
        notify: called with progress lines when it takes long.

    Raises:
        UsageError: the runs do not belong together, or have different answers for the same trial; nothing is
            stored.
        StoreError: a store cannot be read, or `out` not written.
    """
    merged_parts = find_parts(inputs, environ)
    versions_before = {(version.suite.name, version.suite.version) for version in out.versions()}
    group = _choose_group([part.run for parts in merged_parts for part in parts], out)
    results: list[MergedRun] = []
    try:
        for parts in merged_parts:
            results.append(_Merge(parts, out, environ, notify).run(group))  # noqa: PERF401  # some may fail
    except BaseException:
        for result in results:
            if result.is_new:
                _undo(out, result.run, result.run.suite, versions_before)
        raise
    return results


def _choose_group(runs: Sequence[Run], out: Store) -> str:
    """Returns the group that all runs have, if no run of the store has it; else a new one."""
    groups = {run.group for run in runs}
    group = next(iter(groups)) if len(groups) == 1 else new_id()
    return new_id() if any(group in (run.group, run.id) for run in out.runs()) else group


class _Merge:
    """Merges some runs into one."""

    def __init__(
        self, parts: Sequence[RunPart], out: Store, environ: Mapping[str, str], notify: Notify | None
    ) -> None:
        self._parts = parts
        self._out = out
        self._environ = environ
        self._notify = notify
        self._notes: list[str] = []
        """Sentences on settings that differ."""
        runs = [part.run for part in parts]
        self._sources = tuple(dict.fromkeys(name for run in runs for name in (run.id, *run.merged_from)))

    def run(self, group: str) -> MergedRun:
        """Returns the merged run, stored under a new id in a group."""
        earlier_run = self._find_earlier()
        if earlier_run is not None:
            notes = () if earlier_run.status == "finished" else tuple(self._describe_gaps())
            return MergedRun(run=earlier_run, notes=notes, is_new=False)
        versions_before = {(version.suite.name, version.suite.version) for version in self._out.versions()}
        run = self._copy_suite(self._make_run(group))
        is_started = False
        try:
            self._out.add_run(run)
            is_started = True
            return self._finish(run, self._copy_trials(run))
        except BaseException:
            _undo(self._out, run if is_started else None, run.suite, versions_before)
            raise

    def _find_earlier(self) -> Run | None:
        """Returns the run that was merged from the same runs; removes what is left of a merge."""
        runs = [run for run in self._out.runs() if self._is_merged_from_sources(run)]
        for run in runs:
            if is_unfinished_merge(run) and not self._out.is_run_locked(run.id):
                self._out.delete_run(run.id)
        finished_runs = (run for run in runs if run.status == "finished")
        interrupted_runs = (run for run in runs if run.status == "interrupted" and self._has_all_trials(run))
        return next(chain(finished_runs, interrupted_runs), None)

    def _is_merged_from_sources(self, run: Run) -> bool:
        """Returns whether a run was merged from the same runs, of which it may be one itself."""
        if not run.merged_from:
            return False
        sources = set(self._sources)
        return set(run.merged_from) == (sources - {run.id} if run.id in sources else sources)

    def _has_all_trials(self, run: Run) -> bool:
        """Returns whether a run in `out` has every trial of the parts, graded if it is graded there."""
        stored_trials = self._out.trials(run.id)
        for part_trial in _merge_trials(self._parts):
            place = _place(part_trial)
            stored_trial = next((trial for trial in stored_trials if _place(trial) >= place), None)
            if stored_trial is None or _place(stored_trial) != place:
                return False
            if stored_trial.verdict is None and part_trial.verdict is not None:
                return False
        return True

    def _make_run(self, group: str) -> Run:
        runs = [part.run for part in self._parts]
        dates = [run.prices_date for run in runs if run.prices_date is not None]
        settings, self._notes = self._merge_settings()
        return replace(
            runs[0],
            id=new_id(),
            group=group,
            settings=settings,
            versions=_merge_versions(runs),
            prices_date=max(dates, default=None),
            started_at=min(run.started_at for run in runs),
            finished_at=None,
            status="running",
            stopped=UNFINISHED_MERGE,
            tags=tuple(sorted({tag for run in runs for tag in run.tags})),
            warnings=tuple(dict.fromkeys((*(line for run in runs for line in run.warnings), *self._notes))),
            merged_from=self._sources,
        )

    def _merge_settings(self) -> tuple[Settings, list[str]]:
        """Returns the settings without a shard, and a sentence on each one that differs."""
        part_settings = [part.run.settings for part in self._parts]
        settings, notes = part_settings[0], []
        settings = replace(settings, selection=replace(settings.selection, shard=None))
        if settings.budget_usd is not None:
            shares = [1 if part.shard is None else part.shard.count for part in self._parts]
            budgets = [
                each.budget_usd * share
                for each, share in zip(part_settings, shares, strict=True)
                if each.budget_usd is not None
            ]
            settings = replace(settings, budget_usd=float(f"{max(budgets):.12g}"))
        for name in _FREE_SETTINGS:
            values = dict.fromkeys(getattr(each, name) for each in part_settings)
            if len(values) > 1 and name != "budget_usd":
                notes.append(f"The merged runs differ in {name}: {', '.join(map(str, values))}.")
        return settings, notes

    def _copy_suite(self, run: Run) -> Run:
        """Saves the suite, and returns the run with its version and the number of trials of all shards."""
        first, settings = self._parts[0], run.settings
        indexer = CaseIndexer(settings.selection, settings.repeats)
        tell = progress_reporter(self._notify, "cases read")
        count = 0
        writer = self._out.open_suite_writer(aside=True)
        try:
            for count, stored_case in enumerate(first.input.store.cases(run.suite.content), 1):
                tell(count, run.suite.case_count)
                writer.add(stored_case.case, stored_case.sent_digest)
                indexer.add(stored_case.case)
            if count != run.suite.case_count:
                raise _damage_error(
                    f"{first.name} has {count:,} of {run.suite.case_count:,} cases of its suite."
                )
            suite = writer.commit(replace(run.suite, version=None))
        finally:
            writer.discard()
        index = indexer.build(suite.split_rule, run.seat)
        return replace(run, suite=suite, planned=index.trial_count)

    def _copy_trials(self, run: Run) -> Tally:
        """Copies the trials of all parts, and returns the tally of those that are graded."""
        out, tally, tell = self._out, Tally.for_run(run), progress_reporter(self._notify, "trials merged")
        cases = enumerate(stored_case.case for stored_case in read_run_cases(out, run))
        position, case = -1, _NO_CASE
        for count, stored_trial in enumerate(_merge_trials(self._parts), 1):
            trial, verdict = stored_trial.trial, stored_trial.verdict
            tell(count, run.planned)
            if verdict is None:
                out.save_output(run.id, trial)
                continue
            while position < trial.position:
                position, case = next(cases, (trial.position, _NO_CASE))
            if case is _NO_CASE:
                raise _damage_error(
                    f"A merged run has a trial of case {trial.case_id!r}, which is not in its suite."
                )
            tally.add(trial, case, kept=is_reused(trial, run))
            out.save_trial(run.id, trial, verdict)
        return tally

    def _finish(self, run: Run, tally: Tally) -> MergedRun:
        """Copies what else is stored of the runs, and saves the last state of the merged one."""
        self._copy_accesses(run)
        self._copy_labels(run)
        is_complete = tally.all.total >= run.planned
        notes = [*self._notes, *(() if is_complete else self._describe_gaps())]
        variables = self._copy_variables(run)
        if variables and not is_complete:
            notes.append(
                "These variables are unset, or have other values than in the shards: "
                f"{join_names(variables, _MAX_SHARDS)}. Set them before you resume the run."
            )
        ends = [part.run.finished_at for part in self._parts if part.run.finished_at is not None]
        reasons = (part.run.stopped for part in self._parts if part.run.stopped is not None)
        run = replace(
            run,
            status="finished" if is_complete else "interrupted",
            finished_at=max(ends, default=run.started_at),
            stopped=None if is_complete else next(reasons, None),
        )
        self._out.update_run(run, totals=encode_totals(tally))
        return MergedRun(run=run, notes=tuple(notes), is_new=True)

    def _describe_gaps(self) -> Iterator[str]:
        """Yields sentences on missing shards, and on those that lack trials."""
        shards = {part.shard for part in self._parts}
        if None not in shards:
            count = max(shard.count for shard in shards if shard is not None)
            indices = {shard.index for shard in shards if shard is not None}
            missing_indices = [str(index) for index in range(count) if index not in indices]
            if missing_indices:
                noun, verb = ("Shard", "is") if len(missing_indices) == 1 else ("Shards", "are")
                yield f"{noun} {join_names(missing_indices, _MAX_SHARDS)} of {count:,} {verb} missing."
                if self._has_other_group(indices):
                    yield (
                        "A store has other shards of the suite in another group. Shards that share a "
                        "store need the same --group."
                    )
        for part in self._parts:
            verdicts = part.input.store.count_verdicts(part.run.id)
            trial_count = sum(count for verdict, count in verdicts.items() if verdict is not None)
            if trial_count < part.run.planned:
                title = "" if part.shard is None else f", {part.shard.title},"
                yield f"{part.name}{title} has {trial_count:,} of {pluralize(part.run.planned, 'trial')}."

    def _has_other_group(self, indices: set[int]) -> bool:
        """Returns whether a store has a other shard of the same suite, in another group."""
        return any(
            run.suite.content == part.run.suite.content
            and run.settings.selection.shard is not None
            and part.shard is not None
            and run.settings.selection.shard.count == part.shard.count
            and run.settings.selection.shard.index not in indices
            for part in self._parts
            for run in part.input.store.runs()
        )

    def _copy_accesses(self, run: Run) -> None:
        copied_accesses = set(self._out.holdout_accesses(run.suite.digest))
        accesses = {
            access
            for store in {id(part.input.store): part.input.store for part in self._parts}.values()
            for access in store.holdout_accesses(run.suite.digest)
        }
        for access in sorted(
            accesses - copied_accesses, key=lambda access: (access.at, access.kind, access.run)
        ):
            self._out.add_holdout_access(access)

    def _copy_labels(self, run: Run) -> None:
        """Copies labels and comments with their times; of labels of one person the newest one counts."""
        labels = [stored for part in self._parts for stored in part.input.store.labels(part.run.id)]
        for label, is_held_out, at in dict.fromkeys(
            (replace(stored.label, run=run.id), stored.held_out, stored.at)
            for stored in sorted(labels, key=lambda stored: stored.at)
        ):
            self._out.add_label(label, held_out=is_held_out, at=at)
        comments = [stored for part in self._parts for stored in part.input.store.comments(part.run.id)]
        for comment, at in dict.fromkeys(
            (replace(stored.comment, run=run.id), stored.at)
            for stored in sorted(comments, key=lambda stored: stored.at)
        ):
            self._out.add_comment(comment, at=at)

    def _copy_variables(self, run: Run) -> list[str]:
        """Records the variables whose current values all parts had, and returns the others.

        The digests of a run are keyed with a secret of its own, so that they cannot be copied.
        """
        is_same: dict[str, bool] = {}
        for part in self._parts:
            store = part.input.store
            compared = VariableValues(store, self._environ).compare(part.run.id)
            for name in store.variable_digests(part.run.id):
                is_same[name] = is_same.get(name, True) and compared.get(name, False)
        VariableValues(self._out, self._environ).record(run.id, [name for name in is_same if is_same[name]])
        return sorted(name for name in is_same if not is_same[name])


def _merge_versions(runs: Sequence[Run]) -> dict[str, str]:
    """Returns the versions of all runs; several of the same library are joined."""
    names = sorted({name for run in runs for name in run.versions})
    return {
        name: ", ".join(sorted({run.versions[name] for run in runs if name in run.versions}))
        for name in names
    }


def _merge_trials(parts: Sequence[RunPart]) -> Iterator[StoredTrial]:
    """Yields the trials of all parts in suite order, each once.

    Raises:
        UsageError: two parts have different answers for the same case and repeat.
    """
    streams = (zip(repeat(number), part.input.store.trials(part.run.id)) for number, part in enumerate(parts))
    for _, rows in groupby(heapq.merge(*streams, key=_numbered_place), key=_numbered_place):
        (number, stored_trial), *duplicates = rows
        for other_number, other in duplicates:
            if not _is_same(stored_trial, other):
                raise _conflict_error(stored_trial, parts[number], parts[other_number])
            if stored_trial.verdict is None:
                number, stored_trial = other_number, other
        yield stored_trial


_NumberedTrial = tuple[int, StoredTrial]
"""A trial, with the number of its part."""


def _numbered_place(numbered_trial: _NumberedTrial) -> tuple[int, int]:
    return _place(numbered_trial[1])


def _place(stored_trial: StoredTrial) -> tuple[int, int]:
    return stored_trial.trial.position, stored_trial.trial.repeat


def _is_same(first: StoredTrial, second: StoredTrial) -> bool:
    """Returns whether two trials are the same one, which may not be graded yet in one store."""
    if first.verdict is None or second.verdict is None:
        return first.trial.output == second.trial.output
    return first == second


def _conflict_error(stored_trial: StoredTrial, part: RunPart, other: RunPart) -> UsageError:
    trial = stored_trial.trial
    return UsageError(
        f"Case {trial.case_id!r}, repeat {trial.repeat}, was run twice, with different answers in "
        f"{part.name} and in {other.name}. Remove one of the two. Nothing was stored."
    )


def _damage_error(fault: str) -> StoreError:
    return StoreError(f"{fault} To find out what is wrong with a store: `proctor store check --store STORE`")


def _undo(out: Store, run: Run | None, suite: Suite, versions_before: set[tuple[str, str | None]]) -> None:
    """Removes what was stored; the next merge of the same runs removes what could not be removed now."""
    with suppress(ProctorError):
        if run is not None:
            out.delete_run(run.id)
    with suppress(ProctorError):
        if (suite.name, suite.version) not in versions_before and suite.version is not None:
            out.delete_version(suite.name, suite.version)

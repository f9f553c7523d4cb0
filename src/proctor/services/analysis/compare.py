"""Reads stored runs for a comparison: finds them, checks that they are comparable, collects outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from proctor.codec import judged_digest, target_digest, template_digest
from proctor.comparison.comparability import incomparable_reason
from proctor.comparison.compare import GroupBy, compare_runs
from proctor.comparison.factors import compare_grid
from proctor.comparison.outcomes import OutcomeCollector, RunOutcomes, SplitName
from proctor.comparison.ranking import rank_runs
from proctor.errors import UsageError
from proctor.model import Case, Run, Suite
from proctor.protocols import Store
from proctor.reports.comparison.report import ComparisonReport
from proctor.safe_text import one_line
from proctor.services.runs.reading.current_status import with_current_status
from proctor.services.runs.reading.report import find_calibrations, read_trial_rows, record_holdout_access
from proctor.suite_diff import diff_suites


def resolve_runs(store: Store, words: Sequence[str]) -> list[Run]:
    """Finds the runs that words name; one word alone names the runs that one command started together.

    Args:
        store: has the runs.
        words: each as `Store.run` takes it; a single one may be a group id, or a run of a group, for its runs
            of the same suite. The group of an imported run is its maker's claim, so imported runs are never
            mixed with others.

    Raises:
        UsageError: the words name only one run.
        StoreError: there is no such run, or more than one.
    """
    if len(words) != 1:
        return [with_current_status(store, store.run(word)) for word in words]
    group_runs = [run for run in store.runs() if run.group == words[0]]
    group_runs = [run for run in group_runs if run.imported is None] or group_runs
    if not group_runs:
        run_of_group = store.run(words[0])
        group_runs = [run for run in store.runs() if _group_key(run) == _group_key(run_of_group)]
    if len(group_runs) < 2:
        raise UsageError(
            f"{words[0]!r} is a single run that is not part of a group. Name two runs, the earlier one "
            "first, as in `proctor compare baseline last`."
        )
    return [with_current_status(store, run) for run in reversed(group_runs)]


class DifferentSuites(UsageError):
    """Raised for runs of suites that have no case with the same id and the same checks."""

    def __init__(self, why: str) -> None:
        """`why` says in a sentence what differs."""
        super().__init__(
            f"{why} To compare cases with the same input and checks under any id, add --by-case-digest."
        )
        self.why = why


def _group_key(run: Run) -> tuple[str, str, bool]:
    return run.group, run.suite.digest, run.imported is None


def check_comparable(
    store: Store, runs: Sequence[Run], *, by_digest: bool, stores: Sequence[Store] | None = None
) -> None:
    """Checks that the trials of runs can be matched.

    Args:
        store: has their suites.
        runs: the runs.
        by_digest: match cases by what is sent and how it is judged, instead of by their ids.
        stores: the store of each run, if they are in several.

    Raises:
        DifferentSuites: the suites differ, and no case of one can be paired with one of the other.
        UsageError: their suites count repeats by different rules.
    """
    homes = [store] * len(runs) if stores is None else stores
    first = runs[0].suite
    for run, home in zip(runs[1:], homes[1:], strict=True):
        other = run.suite
        if first.digest == other.digest:
            continue
        if not by_digest:
            checks = {case.id: judged_digest(case) for case in _read_cases(homes[0], first)}
            if not any(checks.get(case.id) == judged_digest(case) for case in _read_cases(home, other)):
                difference = diff_suites(first, _read_cases(homes[0], first), other, _read_cases(home, other))
                raise DifferentSuites(one_line(incomparable_reason(first, other, difference)))
        if first.repeats_rule != other.repeats_rule:
            raise UsageError(
                f"{first.title} and {other.title} count repeats by different rules, "
                f"{first.repeats_rule!r} and {other.repeats_rule!r}, so their trials cannot be paired. "
                "Grade one run with the suite of the other: `proctor regrade RUN --suite FILE`."
            )


def _read_cases(store: Store, suite: Suite) -> Iterator[Case]:
    return (stored_case.case for stored_case in store.cases(suite.content))


def has_several_suites(runs: Sequence[Run]) -> bool:
    """Returns whether the runs are of several suites or versions, so that cases may have been edited."""
    return len({run.suite.digest for run in runs}) > 1


def load_outcomes(
    store: Store,
    runs: Sequence[Run],
    *,
    by_digest: bool = False,
    with_digests: bool | None = None,
    cluster: str | None = None,
    on_progress: Callable[[int, int], None] = lambda _count, _total: None,
) -> list[RunOutcomes]:
    """Collects the outcomes of runs from their stored trials; a run named twice is read once.

    Args:
        store: has the runs.
        runs: the runs.
        by_digest: match cases by what is sent and how it is judged.
        with_digests: whether to find out which cases were edited; None if the runs are of several suites.
        cluster: the field that says which cases are related; None for that of each run.
        on_progress: called with the number of trials read, and of all.

    Raises:
        StoreError: the store cannot be read.
    """
    if with_digests is None:
        with_digests = not by_digest and has_several_suites(runs)
    outcomes: dict[str, RunOutcomes] = {}
    total, count = sum(run.planned for run in {run.id: run for run in runs}.values()), 0
    for run in runs:
        if run.id in outcomes:
            continue
        gatherer = OutcomeCollector(run, by_digest=by_digest, with_digests=with_digests, cluster=cluster)
        # No answer is kept, so nothing needs to be hidden.
        for row in read_trial_rows(store, run, reveal=True):
            gatherer.add(row.trial, row.verdict, row.case)
            count += 1
            if not count % 1000:
                on_progress(count, max(count, total))
        outcomes[run.id] = gatherer.finish()
    return [outcomes[run.id] for run in runs]


def compare_pairwise(runs: Sequence[RunOutcomes], *, split: SplitName, by: GroupBy) -> ComparisonReport:
    """Compares two runs, or ranks several and compares each pair.

    The report has no rule, no accesses to holdouts and no judges: the caller adds them.

    Args:
        runs: at least two, the earlier one first.
        split: one split of the suite, or all of it.
        by: how the parts of a comparison of two runs are grouped; `prompt` only for several runs, whose
            targets are then compared for each prompt.

    Raises:
        UsageError: the split is empty, or `by` is `prompt` and no prompt has several targets.
    """
    if split != "all" and not any(facts.has_split(split) for facts in runs):
        raise UsageError(
            f"None of these runs has {split} cases. Remove --split, or divide the suite with `proctor "
            "run --holdout`."
        )
    if by == "prompt":
        _check_prompts([facts.run for facts in runs])
    if len(runs) == 2:
        return ComparisonReport(comparisons=(compare_runs(runs[0], runs[1], split=split, by=by),))
    ranking = rank_runs(runs, split)
    grid = compare_grid(runs, split, by_prompt=by == "prompt")
    return ComparisonReport(comparisons=ranking.comparisons, ranking=ranking, grid=grid)


def _check_prompts(runs: Sequence[Run]) -> None:
    """Checks that runs have targets to compare for each of several prompts."""
    prompts = {None if run.prompt is None else (run.prompt.name, template_digest(run.prompt)) for run in runs}
    targets = {(run.target.name, target_digest(run.target)) for run in runs}
    advice = "Name a group that `proctor run` made with several --prompt and --target, or remove --by."
    if len(prompts) == 1:
        name = "no prompt" if runs[0].prompt is None else f"the prompt {runs[0].prompt.name!r}"
        raise UsageError(f"All {len(runs)} runs have {name}, so --by prompt has nothing to compare. {advice}")
    if len(targets) == 1 or len(runs) == 2:
        raise UsageError(f"None of these prompts was run on several comparable targets. {advice}")
    if has_several_suites(runs):
        raise UsageError(f"--by prompt needs runs of one suite, and these are of several. {advice}")


def describe_judges(store: Store, runs: Sequence[RunOutcomes]) -> tuple[str, ...]:
    """Describes the calibration of the judges of these runs, in sentences, each once.

    Raises:
        StoreError: the store cannot be read.
    """
    sentences: dict[str, None] = {}
    for facts in runs:
        if facts.prompts:
            from proctor.reports.certificates.judge_certificate import judge_lines, match_calibrations

            judges = match_calibrations(facts.prompts, find_calibrations(store, facts.run))
            sentences |= dict.fromkeys(judge_lines(judges))
    return tuple(sentences)


def record_comparison_access(store: Store, runs: Sequence[RunOutcomes], split: SplitName) -> int | None:
    """Records an access to the holdout of each run that shows held-out cases; each command calls this once.

    Returns:
        How often the holdout of the last of them was accessed so far; None when nothing is held out.

    Raises:
        StoreError: the access cannot be recorded.
    """
    with_holdout = find_holdout_runs(runs, split)
    for run in with_holdout:
        record_holdout_access(store, run, "rate")
    return len(store.holdout_accesses(with_holdout[-1].suite.digest)) if with_holdout else None


def find_holdout_runs(runs: Sequence[RunOutcomes], split: SplitName) -> list[Run]:
    """Returns the runs whose held-out cases are shown, each once."""
    is_shown = split in ("all", "holdout")
    runs_by_id = {facts.run.id: facts.run for facts in runs if is_shown and facts.has_split("holdout")}
    return list(runs_by_id.values())

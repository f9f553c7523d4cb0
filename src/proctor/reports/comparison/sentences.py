"""Comparisons in sentences: the verdict, the gate, and what was left out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from proctor.comparison.compare import Comparison, UnmeasuredOutcome, VerdictFlip
from proctor.comparison.gate import GateRule, gate_exit_code
from proctor.comparison.pairing import PairedRuns
from proctor.comparison.ranking import Ranking
from proctor.errors import ExitCode
from proctor.model import Run
from proctor.plurals import join_names, pluralize, trial_name
from proctor.reports.clusters import clusters_sentence
from proctor.reports.formatting import (
    difference_interval,
    format_run_name,
    interval,
    percent,
    probability,
    unmeasured,
)
from proctor.reports.runs.command_line import selection_flags
from proctor.safe_text import one_line, truncate

MAX_NAME_LENGTH = 40
"""Characters of a target's name, so that the sentence stays one that can be read."""
_MAX_NAMED_CASES = 5
"""At most this many cases are named in a sentence."""


def verdict_sentence(comparison: Comparison) -> str:
    """Returns the verdict in one sentence, which claims no more than the numbers show."""
    whole, direction = comparison.whole, comparison.whole.measured_direction
    if whole.value is None or whole.ci95 is None:
        if not comparison.not_measured:
            return "Nothing matched: the runs have no trial in common."
        pairs = pluralize(len(comparison.not_measured), "pair")
        return f"Nothing was measured: {pairs} matched, but each has an ERROR or UNSCORED trial."
    low, high = whole.ci95
    test = probability(whole.p_value)
    counts = f"{pluralize(whole.fixed, 'trial' if whole.by_case else 'case')} fixed, {whole.broken:,} broken"
    counts += _undecided_clause(comparison)
    names = _differing_names(comparison)
    if direction == "unclear":
        between = f"{_pp(whole.value, '+')} ({_range_text(low, high)})"
        sides = (
            ""
            if names is None
            else f" between {names.kind}s {names.baseline} and {names.candidate} (candidate)"
        )
        return (
            f"No clear difference{sides} on {pluralize(whole.cases, 'case')}: {between}, {test}: {counts}. "
            f"{smallest_difference(comparison)}"
        )
    better = "better" if whole.value > 0 else "worse"
    candidate = "the candidate"
    if names is not None:
        candidate, better = f"{names.kind} {names.candidate} (candidate)", f"{better} than {names.baseline}"
    ends = (low, high) if whole.value > 0 else (-high, -low)
    by = f"{_pp(abs(whole.value))} ({_range_text(*ends)})"
    subject = f"{candidate[0].upper()}{candidate[1:]}"
    if not whole.is_decided:
        subject = f"Of the {_paired_text(comparison)} {candidate}"
    if direction.startswith("perhaps"):
        return (
            f"{subject} is perhaps {better}, by {by}, but the test is not significant, {test}: {counts}. "
            f"{smallest_difference(comparison)}"
        )
    return f"{subject} is {better} by {by}, {test}: {counts}."


class _DifferingNames(NamedTuple):
    """The only thing that differs between two runs, with its names in quotation marks."""

    kind: str
    baseline: str
    candidate: str


def _differing_names(comparison: Comparison) -> _DifferingNames | None:
    """Returns the prompts or the targets of runs that differ in nothing else; None for all others."""
    first, second = comparison.baseline, comparison.candidate
    same_target, same_prompt = first.target == second.target, first.prompt == second.prompt
    if first.suite.digest != second.suite.digest or same_target == same_prompt:
        return None
    kind, names = "target", (first.target.name, second.target.name)
    if same_target:
        kind, names = "prompt", (first.prompt_name or "", second.prompt_name or "")
    if not all(names) or names[0] == names[1]:
        return None
    baseline, candidate = (f'"{truncate(name, MAX_NAME_LENGTH)}"' for name in names)
    return _DifferingNames(kind, baseline, candidate)


def _undecided_clause(comparison: Comparison) -> str:
    """Returns a clause on the unmeasured pairs if they could change the verdict; else nothing."""
    whole = comparison.whole
    if whole.is_decided or whole.bounds is None:
        return ""
    low, high = whole.bounds
    return (
        f", but {pluralize(whole.unmeasured, 'unmeasured pair')} could change that: "
        f"from {low * 100:+.1f} to {_pp(high, '+')}"
    )


def _paired_text(comparison: Comparison) -> str:
    """Returns the cases, with the trials of repeats, that both runs measured."""
    whole = comparison.whole
    trials = f" ({pluralize(whole.pairs, 'trial')})" if whole.by_case else ""
    return f"{pluralize(whole.cases, 'case')}{trials} that both runs measured"


def clusters_note(comparison: Comparison) -> str | None:
    """Returns a sentence on what intervals and tests are over; None if the cases are independent."""
    clusters, field = comparison.whole.clusters, comparison.cluster_field
    if clusters is None or field is None:
        return None
    return clusters_sentence("Intervals and tests are", clusters, field)


def pair_rates_note(comparison: Comparison) -> str | None:
    """Returns a sentence on what the difference is over; None if it is over all that both runs measured."""
    whole = comparison.whole
    if whole.baseline is None or whole.candidate is None:
        return None
    measured = [
        counts.passed + counts.failed for counts in (comparison.baseline_counts, comparison.candidate_counts)
    ]
    if measured == [whole.pairs, whole.pairs]:
        return None
    rates = f"{percent(whole.baseline.rate)} → {percent(whole.candidate.rate)}"
    return f"The difference is over the {_paired_text(comparison)}: {rates}."


def ranking_sentence(runs_ranking: Ranking) -> str:
    """Returns the ranking of several runs in one sentence."""
    count = len(runs_ranking.runs)
    best = [ranked_run for ranked_run in runs_ranking.runs if ranked_run.rank == 1]
    is_decided = all(ranked_run.rank == ranked_run.lowest_rank for ranked_run in runs_ranking.runs)
    reservation = "" if is_decided else " Unmeasured trials could change the ranks."
    if not best:
        return f"None of the {count:,} runs has a rank: nothing was measured."
    if len(best) == count:
        return f"None of the {count:,} runs is shown to be better than another.{reservation}"
    if len(best) > 1:
        shared = f"{len(best):,} of {count:,} runs share rank 1: no run is shown to be better than these."
        return f"{shared}{reservation}"
    (first,) = best
    worse = sum(
        comparison.whole.direction == ("worse" if comparison.baseline.id == first.run.id else "better")
        for comparison in runs_ranking.comparisons
        if first.run.id in (comparison.baseline.id, comparison.candidate.id)
    )
    rate = f"{percent(first.counts.pass_rate)}, {interval(first.counts.ci95)}"
    if errors := unmeasured(first.counts.unmeasured, first.counts.bounds):
        rate += f", not measured {errors}"
    name = first.run.target.name if first.run.prompt is None else format_run_name(first.run)
    return (
        f"{one_line(name)} is first ({rate}), and "
        f"shown to be better than {worse:,} of the {count - 1:,} other runs.{reservation}"
    )


def smallest_difference(comparison: Comparison) -> str:
    """Returns the detection limit: from which true difference on this number of cases would show it."""
    count = comparison.whole.cases
    cases = f"{'this' if count == 1 else 'these'} {pluralize(count, 'case')}"
    if comparison.smallest is None:
        return f"With {cases}, no true difference, however large, would be found 80 % of the time."
    return (
        f"A true difference of {_pp(comparison.smallest)} or more would be found at least 80 % of the time "
        f"with {cases}."
    )


def _pp(share: float, sign: str = "") -> str:
    return f"{share * 100:{sign}.1f} pp"


def _range_text(low: float, high: float) -> str:
    return f"{low * 100:.1f} to {high * 100:.1f}"


# --- gates -------------------------------------------------------------------------------------------------


def gate_sentence(comparison: Comparison, rule: GateRule) -> str:
    """Returns whether the gate passed, with the numbers that decided it."""
    code, ci95 = gate_exit_code(comparison, rule), comparison.whole.ci95
    if code is ExitCode.NOTHING_SELECTED:
        return "The gate is not decided: nothing matched."
    if code is ExitCode.NOT_MEASURED or ci95 is None:
        if not any(_gate_objections(comparison, rule)):
            return f"The gate is not decided: {_undecided_gate_clause(comparison)}."
        return f"The gate is not decided: {'; '.join(_gate_objections(comparison, rule))}."
    margin = _pp(rule.max_regression)
    regression = f"a regression of more than {margin}" if rule.max_regression else "a regression"
    interval = f"the 95 % interval is {difference_interval(ci95)}"
    if rule.strict:
        if code is ExitCode.OK:
            return f"The gate passed: {regression} is ruled out, because {interval}."
        return f"The gate failed: {regression} is not ruled out, because {interval}."
    if code is ExitCode.OK:
        return f"The gate passed: {regression} is not shown, because {interval}."
    return f"The gate failed: {regression} is shown, because {interval}."


def _undecided_gate_clause(comparison: Comparison) -> str:
    low, high = (difference_interval(extreme.ci95) for extreme in comparison.whole.extremes or ())
    pairs = pluralize(comparison.whole.unmeasured, "pair")
    return (
        f"{pairs} could not be measured. The 95 % interval would be {low} if all had gone against the "
        f"candidate, and {high} if all had gone for it"
    )


def _gate_objections(comparison: Comparison, rule: GateRule) -> Iterator[str]:
    yield from unfinished_clauses(comparison)
    count = len(comparison.not_measured)
    if count and (count > rule.allow_errors or not comparison.whole.pairs):
        allowed = (
            f"--allow-errors allows {rule.allow_errors:,}"
            if comparison.whole.pairs
            else "there are no others"
        )
        yield f"{count:,} of {pluralize(comparison.pairs, 'pair')} {_be(count)} not measured, and {allowed}"
    if comparison.unpaired.is_partial and not rule.partial:
        yield f"{' and '.join(_unpaired_clauses(comparison.unpaired))}, and --partial is not given"


def _unpaired_clauses(unpaired: PairedRuns) -> Iterator[str]:
    """Yields a clause for each kind of case or trial that only one run has."""
    for count, what, name in (
        (len(unpaired.only_baseline), "case", "baseline"),
        (len(unpaired.only_candidate), "case", "candidate"),
        (unpaired.trials_only_baseline, "repeat", "baseline"),
        (unpaired.trials_only_candidate, "repeat", "candidate"),
    ):
        if count:
            yield f"{pluralize(count, what)} {_be(count)} only in the {name}"
    if unpaired.checks_changed:
        count = len(unpaired.checks_changed)
        yield f"the checks of {pluralize(count, 'case')} changed"


def unfinished_clauses(comparison: Comparison) -> Iterator[str]:
    """Yields a clause for each run that is not finished."""
    for name, is_finished, missing, run in (
        ("baseline", comparison.baseline_finished, comparison.baseline_missing, comparison.baseline),
        ("candidate", comparison.candidate_finished, comparison.candidate_missing, comparison.candidate),
    ):
        if not is_finished:
            yield f"the {name} is not finished: {missing:,} of {run.planned:,} trials are missing"


# --- remarks -----------------------------------------------------------------------------------------------


def remarks(comparison: Comparison) -> Iterator[str]:
    """Yields sentences on what the numbers leave out, and on edited cases."""
    if comparison.not_measured:
        pairs = [
            f"{trial_label(pair)} ({pair.baseline.value.upper()} → {pair.candidate.value.upper()})"
            for pair in comparison.not_measured
        ]
        names = join_names(pairs, _MAX_NAMED_CASES)
        yield f"Not measured, so not in the difference: {pluralize(len(pairs), 'pair')}: {names}."
        if (bounds := comparison.whole.bounds) is not None:
            low, high = bounds
            yield (
                f"The difference would be {_pp(low, '+')} if all of these had gone against the candidate, "
                f"and {_pp(high, '+')} if all had gone for it."
            )
    for clause in unfinished_clauses(comparison):
        yield f"{clause[0].upper()}{clause[1:]}."
    for name, run in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        if note := early_stop_note(f"The {name}", run):
            yield note
    unpaired = comparison.unpaired
    for name, ids, trials, other in (
        ("baseline", unpaired.only_baseline, unpaired.trials_only_baseline, comparison.candidate),
        ("candidate", unpaired.only_candidate, unpaired.trials_only_candidate, comparison.baseline),
    ):
        if ids:
            what = pluralize(len(ids), "case")
            flags = " ".join(map(one_line, selection_flags(other.settings.selection)))
            if flags:  # which may explain why they are missing there
                what += f", as the other run selected {flags}"
            yield f"Only in the {name}: {what}: {one_line(join_names(ids, _MAX_NAMED_CASES))}."
        if trials:
            what = pluralize(trials, "trial")
            yield f"Only in the {name}: {what} of cases that have fewer in the other run."
    yield from _edit_remarks(comparison)
    if unpaired.renamed:
        names = one_line(
            join_names([f"{pair.baseline} → {pair.candidate}" for pair in unpaired.renamed], _MAX_NAMED_CASES)
        )
        yield f"Paired although the id changed: {pluralize(len(unpaired.renamed), 'case')}: {names}."


def _edit_remarks(comparison: Comparison) -> Iterator[str]:
    """Yields sentences on the cases that were edited between the runs."""
    unpaired, without = comparison.unpaired, comparison.unedited
    if unpaired.input_changed and without is not None:
        count = len(unpaired.input_changed)
        names = one_line(join_names(unpaired.input_changed, _MAX_NAMED_CASES))
        yield f"Input changed but same checks, so in the difference: {pluralize(count, 'case')}: {names}."
        if without.value is None or without.ci95 is None:
            yield "Without these cases, nothing was measured in both runs."
        else:
            yield (
                f"Without these cases, the difference is {_pp(without.value, '+')} "
                f"({_range_text(*without.ci95)}), "
                f"{probability(without.p_value)}, over {pluralize(without.cases, 'case')}."
            )
    if unpaired.checks_changed:
        count = len(unpaired.checks_changed)
        names = one_line(join_names(unpaired.checks_changed, _MAX_NAMED_CASES))
        yield f"Checks changed, so not compared: {pluralize(count, 'case')}: {names}."


def early_stop_note(name: str, run: Run) -> str | None:
    """Returns sentences on what a run's early stop means for intervals; None if it did not stop early.

    Args:
        name: what the sentence calls the run.
        run: the run.
    """
    stop = run.early_stop
    if stop is None:
        return None
    return (
        f"{name} stopped early after {stop.cases:,} of {pluralize(stop.planned_cases, 'case')} in random "
        "order, because of its results. Its own interval is a confidence sequence. The intervals of "
        "differences are those of runs of fixed size, so they are too narrow for it."
    )


def trial_label(pair: VerdictFlip | UnmeasuredOutcome) -> str:
    """Returns the id of a case, with the number of the repeat unless it is the first."""
    return one_line(trial_name(pair.case, pair.repeat))


def run_label(run: Run) -> str:
    """Returns the suite and `target_label` of a run in one line."""
    return f"{one_line(run.suite.title)} on {target_label(run)}"


def target_label(run: Run) -> str:
    """Returns the target, prompt, id, which has the time, and tags of a run in one line."""
    tags = f" [{', '.join(run.tags)}]" if run.tags else ""
    return one_line(f"{run.target_title} · {run.id}{tags}")


def access_notes(looks: int | None) -> Iterator[str]:
    """Yields a sentence on the number of holdout accesses, if there was more than one."""
    if looks is not None and looks > 1:
        yield f"Holdout accessed {looks:,} times."


def _be(count: int) -> str:
    return "is" if count == 1 else "are"

"""The first line of a page that compares runs: one sentence with names and numbers. Pure."""

from __future__ import annotations

from typing import Final

from proctor.comparison.compare import Comparison
from proctor.comparison.ranking import Ranking
from proctor.model import Run
from proctor.plurals import join_names, pluralize
from proctor.reports.comparison.sentences import MAX_NAME_LENGTH, verdict_sentence
from proctor.reports.formatting import interval, percent, probability, unmeasured
from proctor.safe_text import truncate

_MAX_RATES: Final = 3
"""With more runs the sentence has the lowest and the highest rate."""


def pair_headline(comparison: Comparison) -> str:
    """Returns which of two runs is better, by how much and how sure that is; claims no more than is shown."""
    whole, direction = comparison.whole, comparison.whole.measured_direction
    if whole.value is None or whole.ci95 is None:
        return verdict_sentence(comparison)
    baseline, candidate = _label_sides(comparison)
    low, high = whole.ci95 if direction == "unclear" or whole.value > 0 else (-whole.ci95[1], -whole.ci95[0])
    size = whole.value if direction == "unclear" else abs(whole.value)
    sign = "+" if direction == "unclear" else ""
    numbers = f"{size * 100:{sign}.1f} pp ({low * 100:.1f} to {high * 100:.1f}), {probability(whole.p_value)}"
    fixed = pluralize(whole.fixed, "trial" if whole.by_case else "case")
    ending = f"{fixed} fixed, {whole.broken:,} broken{_undecided_clause(comparison)}"
    cases = pluralize(whole.cases, "case")
    word = "better" if whole.value > 0 else "worse"
    if direction == "unclear":
        return f"No clear difference on {cases}: {numbers}, {ending}"
    scope = "" if whole.is_decided else f" on the {cases} that both runs measured"
    subject = "The candidate" if candidate == "the candidate" else candidate
    if direction.startswith("perhaps"):
        return f"{subject} is perhaps {word} than {baseline}{scope}, by {numbers}, {ending}"
    return f"{subject} is {word} than {baseline}{scope} by {numbers}, {ending}"


def _undecided_clause(comparison: Comparison) -> str:
    """Returns a clause on unmeasured pairs that could change the verdict; else nothing."""
    whole = comparison.whole
    if whole.is_decided or whole.bounds is None:
        return ""
    low, high = whole.bounds
    pairs = pluralize(whole.unmeasured, "pair")
    return f"; {pairs} without a measurement could make it {low * 100:+.1f} to {high * 100:+.1f} pp"


def ranking_headline(ranking: Ranking) -> str:
    """Returns which of several runs is best, with rates; claims no more than the pairs show."""
    runs = ranking.runs
    count = len(runs)
    best = [ranked for ranked in runs if ranked.rank == 1]
    is_decided = all(ranked.rank == ranked.lowest_rank for ranked in runs)
    reservation = "" if is_decided else "; unmeasured trials could change the ranks"
    if not best:
        return f"None of the {count:,} runs has a rank: nothing was measured"
    rates = sorted(ranked.counts.pass_rate for ranked in best if ranked.counts.pass_rate is not None)
    if len(rates) > _MAX_RATES:
        rate_text = f"{percent(rates[0])} to {percent(rates[-1])}"
    else:
        rate_text = join_names([percent(rate) for rate in reversed(rates)], _MAX_RATES)
    if len(best) == count:
        return (
            f"None of the {count:,} runs is shown to be better than another: {rate_text} passed{reservation}"
        )
    if len(best) > 1:
        return (
            f"{len(best):,} of {count:,} runs share rank 1 with {rate_text}: no run is shown to be better "
            f"than these{reservation}"
        )
    (first,) = best
    worse = sum(
        comparison.whole.direction == ("worse" if comparison.baseline.id == first.run.id else "better")
        for comparison in ranking.comparisons
        if first.run.id in (comparison.baseline.id, comparison.candidate.id)
    )
    rate = f"{percent(first.counts.pass_rate)}, {interval(first.counts.ci95)}"
    if errors := unmeasured(first.counts.unmeasured, first.counts.bounds):
        rate += f", not measured {errors}"
    return (
        f"{format_short_name(first.run)} is first ({rate}) and shown to be better than {worse:,} of the "
        f"{count - 1:,} other runs{reservation}"
    )


def format_short_name(run: Run) -> str:
    """Formats the target and the prompt of a run: `gpt-5 · terse`."""
    names = [run.target.name, run.prompt.name] if run.prompt else [run.target.name]
    return " · ".join(truncate(name, MAX_NAME_LENGTH) for name in names)


def _label_sides(comparison: Comparison) -> tuple[str, str]:
    """Returns the names of baseline and candidate; their roles where the names are the same."""
    names = format_short_name(comparison.baseline), format_short_name(comparison.candidate)
    return names if names[0] != names[1] else ("the baseline", "the candidate")

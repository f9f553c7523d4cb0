"""Comparisons in words: what is shown in one sentence, whether a gate held, and what was left out. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from proctor.comparison.compare import Comparison, Flip, NotMeasured
from proctor.comparison.differences import Difference, Interval
from proctor.comparison.gate import Rule, exit_code
from proctor.comparison.pairing import Paired
from proctor.comparison.ranking import Ranking
from proctor.errors import ExitCode
from proctor.model import Run, Selection
from proctor.plurals import counted, listed, trial_name
from proctor.reports.formatting import NONE, interval, percent, points, probability
from proctor.safe_text import one_line

_NAMED = 5
"""So many cases are named in a sentence."""


def verdict(found: Comparison) -> str:
    """What the comparison shows, in plain words and never more than that."""
    whole = found.whole
    if whole.value is None or whole.ci95 is None:
        return _nothing(found)
    low, high = whole.ci95
    test = probability(whole.p_value)
    counts = f"{counted(whole.fixed, _what(whole))} fixed, {whole.broken:,} broken"
    if whole.shows == "unclear":
        between = f"{_pp(whole.value, '+')} ({_between(low, high)})"
        return (
            f"No difference that {counted(whole.cases, 'case')} could show: {between}, {test}: {counts}. "
            f"{smallest(found)}"
        )
    better = "better" if whole.value > 0 else "worse"
    ends = (low, high) if whole.value > 0 else (-high, -low)
    by = f"{_pp(abs(whole.value))} ({_between(*ends)})"
    if whole.shows.startswith("perhaps"):
        return (
            f"The candidate is perhaps {better}, by {by}, but the test is not sure: {test}: {counts}. "
            f"{smallest(found)}"
        )
    return f"The candidate is {better} by {by}, {test}: {counts}."


def ranking(found: Ranking) -> str:
    """What several runs come to, in one sentence."""
    count = len(found.runs)
    best = [one for one in found.runs if one.rank == 1]
    if len(best) == count:
        return f"None of the {count:,} runs is shown to be better than another."
    if len(best) > 1:
        return f"{len(best):,} of {count:,} runs share rank 1: none is shown to be better than they are."
    (first,) = best
    worse = sum(
        found_.whole.shows == ("worse" if found_.baseline.id == first.run.id else "better")
        for found_ in found.comparisons
        if first.run.id in (found_.baseline.id, found_.candidate.id)
    )
    told = f"{percent(first.counts.pass_rate)}, {interval(first.counts.ci95)}"
    return (
        f"{one_line(first.run.target.name)} is first ({told}), and shown to be better than {worse:,} of the "
        f"{count - 1:,} other runs."
    )


def _nothing(found: Comparison) -> str:
    if found.not_measured:
        count = len(found.not_measured)
        matched = counted(count, "pair")
        return f"Nothing was measured: {matched} matched, and each has an ERROR or UNSCORED trial."
    return "Nothing matched: the runs have no case and repeat in common."


def smallest(found: Comparison) -> str:
    """Which difference so many cases would have shown."""
    cases = counted(found.whole.cases, "case")
    if found.smallest is None:
        return f"With {cases} no difference, however large, would be found 80 % of the time."
    return f"With {cases} nothing under {_pp(found.smallest)} would be found 80 % of the time."


def _what(whole: Difference) -> str:
    return "trial" if whole.by_case else "case"


def _pp(share: float, sign: str = "") -> str:
    return f"{share * 100:{sign}.1f} pp"


def _between(low: float, high: float) -> str:
    return f"{low * 100:.1f} to {high * 100:.1f}"


def span(bounds: Interval | None) -> str:
    """An interval in percentage points, as `+2.1 to +18.0pp`."""
    return NONE if bounds is None else f"{points(bounds[0])[:-2]} to {points(bounds[1])}"


# --- gates -------------------------------------------------------------------------------------------------


def gate(found: Comparison, rule: Rule) -> str:
    """Whether the gate held, with the numbers that decided it."""
    code, ci95 = exit_code(found, rule), found.whole.ci95
    if code is ExitCode.NOTHING_SELECTED:
        return "The gate did not hold: nothing matched."
    if code is ExitCode.NOT_MEASURED or ci95 is None:
        return f"The gate did not hold: {'; '.join(_unsure(found, rule))}."
    margin = _pp(rule.max_regression)
    regression = f"a regression of more than {margin}" if rule.max_regression else "a regression"
    interval = f"the 95 % interval is {span(ci95)}"
    if rule.strict:
        if code is ExitCode.OK:
            return f"The gate held: {regression} is ruled out, as {interval}."
        return f"The gate did not hold: {regression} is not ruled out, as {interval}."
    if code is ExitCode.OK:
        return f"The gate held: {regression} is not shown, as {interval}."
    return f"The gate did not hold: {regression} is shown, as {interval}."


def _unsure(found: Comparison, rule: Rule) -> Iterator[str]:
    yield from unfinished(found)
    count = len(found.not_measured)
    if count and (count > rule.allow_errors or not found.whole.pairs):
        allowed = f"--allow-errors allows {rule.allow_errors:,}" if found.whole.pairs else "no other is there"
        yield f"{count:,} of {counted(found.pairs, 'pair')} {_be(count)} not measured, and {allowed}"
    if found.unpaired.is_partial and not rule.partial:
        yield f"{' and '.join(_left_out(found.unpaired))}, and --partial is not given"


def _left_out(unpaired: Paired) -> Iterator[str]:
    """How many cases and trials have no partner, each as a clause."""
    for count, what, name in (
        (len(unpaired.only_baseline), "case", "baseline"),
        (len(unpaired.only_candidate), "case", "candidate"),
        (unpaired.trials_only_baseline, "repeat", "baseline"),
        (unpaired.trials_only_candidate, "repeat", "candidate"),
    ):
        if count:
            yield f"{counted(count, what)} {_be(count)} only in the {name}"


def unfinished(found: Comparison) -> Iterator[str]:
    """Which run is not finished, each as a clause."""
    for name, is_finished, missing, run in (
        ("baseline", found.baseline_finished, found.baseline_missing, found.baseline),
        ("candidate", found.candidate_finished, found.candidate_missing, found.candidate),
    ):
        if not is_finished:
            yield f"the {name} is not finished: {missing:,} of {run.planned:,} trials are missing"


# --- what is beside the numbers ----------------------------------------------------------------------------


def remarks(found: Comparison) -> Iterator[str]:
    """Sentences on what is in no number: pairs not measured, cases and trials without a partner."""
    if found.not_measured:
        count = len(found.not_measured)
        named = listed([_not_measured(one) for one in found.not_measured], _NAMED)
        yield f"Not measured, and in no number: {counted(count, 'pair')}: {named}."
    for clause in unfinished(found):
        yield f"{clause[0].upper()}{clause[1:]}."
    unpaired = found.unpaired
    for name, ids, trials, other in (
        ("baseline", unpaired.only_baseline, unpaired.trials_only_baseline, found.candidate),
        ("candidate", unpaired.only_candidate, unpaired.trials_only_candidate, found.baseline),
    ):
        if ids:
            told = f"{counted(len(ids), 'case')}{_why(other)}"
            yield f"Only in the {name}: {told}: {one_line(listed(ids, _NAMED))}."
        if trials:
            told = counted(trials, "trial")
            yield f"Only in the {name}: {told} of cases that have fewer in the other run."
    if unpaired.renamed:
        named = one_line(listed([f"{one.baseline} → {one.candidate}" for one in unpaired.renamed], _NAMED))
        yield f"Paired under another id: {counted(len(unpaired.renamed), 'case')}: {named}."


def _not_measured(one: NotMeasured) -> str:
    verdicts = f"{one.baseline.value.upper()} → {one.candidate.value.upper()}"
    return f"{name_of(one)} ({verdicts})"


def _why(other: Run) -> str:
    """Why the other run may not have them."""
    if other.settings.selection == Selection():
        return ""
    return f", as the other run selected {selected(other.settings.selection)}"


def selected(selection: Selection) -> str:
    """A selection as its flags."""
    flags = [] if selection.split == "all" else [f"--split {selection.split}"]
    for flag, values in (
        ("--tag", selection.tags),
        ("--all-tag", selection.all_tags),
        ("--exclude-tag", selection.exclude_tags),
        ("--category", selection.categories),
        ("--id", selection.ids),
    ):
        flags += [f"{flag} {one_line(value)}" for value in values]
    flags += [] if selection.limit is None else [f"--limit {selection.limit}"]
    return " ".join(flags)


def name_of(one: Flip | NotMeasured) -> str:
    """The case's id, with the number of the repeat where it is not the first."""
    return one_line(trial_name(one.case, one.repeat))


def called(run: Run) -> str:
    """A run in a line: its suite, its target, its id and its tags."""
    tags = f" [{', '.join(run.tags)}]" if run.tags else ""
    return one_line(f"{run.suite.title} on {run.target.name} · {run.id}{tags}")


def look(looks: int | None) -> Iterator[str]:
    """Which look at the holdout this was, where it is not the first."""
    if looks is not None and looks > 1:
        yield f"Look {looks:,} at this holdout."


def _be(count: int) -> str:
    return "is" if count == 1 else "are"

"""Two rollouts joined by task id: what changed in the same tasks, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from proctor import stats
from proctor.eval.json_files import to_plain
from proctor.eval.matched.rows import TaskOutcome
from proctor.eval.tables import NO_VALUE, markdown_table
from proctor.plurals import join_names, pluralize
from proctor.safe_text import markdown_text

_MAX_IDS = 10
"""How many ids of a list are written out."""
OutcomePair = tuple[TaskOutcome, TaskOutcome]


@dataclass(frozen=True, slots=True)
class PairedDelta:
    """Differences of one measure over the pairs that have it on both sides, candidate minus baseline."""

    n: int
    """Pairs with the measure on both sides."""
    mean: float | None
    """None of no pairs."""
    interval: tuple[float, float] | None
    """The 95 % t-interval of the mean, as (low, high); None below two pairs and beyond a float."""
    median: float | None

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as data for JSON."""
        row = {"n": self.n, "mean": self.mean, "ci95": self.interval, "median": self.median}
        return {name: to_plain(value) for name, value in row.items()}


@dataclass(frozen=True, slots=True)
class PairedTasks:
    """The tasks of a baseline and a candidate, joined by id.

    An id that one side has more than once is not paired, since it is unclear with which row; neither is a row
    without an id. Lists of ids are in the order of their rows.
    """

    n: int
    """Tasks that are on both sides once."""
    only_in_baseline: tuple[str, ...]
    only_in_candidate: tuple[str, ...]
    duplicates_in_baseline: tuple[str, ...]
    """Ids that more than one row of the baseline has."""
    duplicates_in_candidate: tuple[str, ...]
    without_id_in_baseline: int
    """Rows."""
    without_id_in_candidate: int
    both: int
    """Pairs in which both passed."""
    gained: tuple[str, ...]
    """Ids of the pairs in which only the candidate passed."""
    lost: tuple[str, ...]
    """Ids of the pairs in which only the baseline passed."""
    neither: int
    """Pairs in which neither passed."""
    turns: PairedDelta
    """Of n_turns."""
    wall_seconds: PairedDelta
    """Of wall_seconds, in seconds."""
    assertion_pp: PairedDelta
    """Of the share of a task's assertions that passed, in percentage points."""

    def delta_task_pp(self) -> float | None:
        """Returns the difference of the shares that passed, in percentage points; None of no pairs."""
        return 100 * (len(self.gained) - len(self.lost)) / self.n if self.n else None

    def interval_pp(self) -> tuple[float, float] | None:
        """Returns the 95 % interval of `delta_task_pp` by `stats.newcombe_paired`; None of no pairs."""
        bounds = stats.newcombe_paired(self.both, len(self.gained), len(self.lost), self.neither)
        return None if bounds is None else (100 * bounds[0], 100 * bounds[1])

    def p_value(self) -> float | None:
        """Returns McNemar's exact p-value, two-sided: `stats.mcnemar`. None of no pairs."""
        return stats.mcnemar(len(self.gained), len(self.lost)) if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as data for JSON."""
        return {
            "n": self.n,
            "only_in_baseline": list(self.only_in_baseline),
            "only_in_candidate": list(self.only_in_candidate),
            "duplicates_in_baseline": list(self.duplicates_in_baseline),
            "duplicates_in_candidate": list(self.duplicates_in_candidate),
            "without_id_in_baseline": self.without_id_in_baseline,
            "without_id_in_candidate": self.without_id_in_candidate,
            "both": self.both,
            "candidate_only": len(self.gained),
            "baseline_only": len(self.lost),
            "neither": self.neither,
            "gained": list(self.gained),
            "lost": list(self.lost),
            "delta_task_pp": self.delta_task_pp(),
            "ci95_pp": to_plain(self.interval_pp()),
            "p_value": self.p_value(),
            "turns": self.turns.to_dict(),
            "wall_seconds": self.wall_seconds.to_dict(),
            "assertion_pp": self.assertion_pp.to_dict(),
        }

    def report(self) -> str:
        """Returns Markdown, also if nothing could be paired."""
        unpaired = list(self._describe_unpaired())
        if not self.n:
            none = "No task is on both sides, so nothing is paired: the tables above compare different tasks."
            return "\n".join(["**Paired by task id**", "", none, *unpaired])
        outcomes = [
            ["baseline passes", f"{self.both}", f"{len(self.lost)}"],
            ["baseline fails", f"{len(self.gained)}", f"{self.neither}"],
        ]
        changes = (("candidate", self.gained), ("baseline", self.lost))
        deltas = [
            _delta_row("turns", self.turns, 2),
            _delta_row("wall (s)", self.wall_seconds, 2),
            _delta_row("assertions passed (pp)", self.assertion_pp, 1),
        ]
        columns = ["candidate − baseline", "pairs", "mean", "95 % interval", "median"]
        return "\n\n".join(
            [
                "**Paired by task id**",
                " ".join([f"{_describe_task_count(self.n)} on both sides.", *unpaired]),
                "\n".join(markdown_table(["", "candidate passes", "candidate fails"], outcomes)),
                self._describe_change(),
                "\n".join(f"- Only the {side} passes: {format_ids(ids)}" for side, ids in changes),
                "\n".join(markdown_table(columns, deltas)),
            ]
        )

    def _describe_unpaired(self) -> Iterator[str]:
        for side, ids in (("baseline", self.only_in_baseline), ("candidate", self.only_in_candidate)):
            if ids:
                yield f"{_describe_task_count(len(ids))} only in the {side}: {format_ids(ids)}."
        for side, ids in (
            ("baseline", self.duplicates_in_baseline),
            ("candidate", self.duplicates_in_candidate),
        ):
            if ids:
                yield f"More than one row of the {side} has the id, and none is paired: {format_ids(ids)}."
        counts = (("baseline", self.without_id_in_baseline), ("candidate", self.without_id_in_candidate))
        for side, count in counts:
            if count:
                yield f"{pluralize(count, 'row')} of the {side} {'has' if count == 1 else 'have'} no id."

    def _describe_change(self) -> str:
        delta, bounds, p_value = self.delta_task_pp(), self.interval_pp(), self.p_value()
        assert delta is not None
        assert bounds is not None
        assert p_value is not None
        p_text = "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.4f}"
        return (
            f"Task pass: {delta:+.1f} pp (95 % interval {bounds[0]:+.1f} to {bounds[1]:+.1f} pp; "
            f"McNemar's exact test {p_text})."
        )


def pair_outcomes(baseline: Sequence[TaskOutcome], candidate: Sequence[TaskOutcome]) -> PairedTasks:
    """Joins the outcomes of both sides by task id."""
    before, before_duplicates = _index_by_id(baseline)
    after, after_duplicates = _index_by_id(candidate)
    duplicates = {*before_duplicates, *after_duplicates}
    pairs = [(old, after[name]) for name, old in before.items() if name in after and name not in duplicates]
    passed = Counter((old.passed, new.passed) for old, new in pairs)
    return PairedTasks(
        n=len(pairs),
        only_in_baseline=tuple(name for name in before if name not in after and name not in duplicates),
        only_in_candidate=tuple(name for name in after if name not in before and name not in duplicates),
        duplicates_in_baseline=before_duplicates,
        duplicates_in_candidate=after_duplicates,
        without_id_in_baseline=sum(not outcome.task_id for outcome in baseline),
        without_id_in_candidate=sum(not outcome.task_id for outcome in candidate),
        both=passed[True, True],
        gained=tuple(new.task_id for old, new in pairs if new.passed and not old.passed),
        lost=tuple(new.task_id for old, new in pairs if old.passed and not new.passed),
        neither=passed[False, False],
        turns=_paired_delta(pairs, lambda outcome: outcome.n_turns),
        wall_seconds=_paired_delta(pairs, lambda outcome: outcome.wall_seconds),
        assertion_pp=_paired_delta(pairs, _assertion_per_cent),
    )


def _index_by_id(outcomes: Sequence[TaskOutcome]) -> tuple[dict[str, TaskOutcome], tuple[str, ...]]:
    """Returns the outcomes by their ids, and the ids that more than one outcome has."""
    counts = Counter(outcome.task_id for outcome in outcomes if outcome.task_id)
    duplicates = tuple(name for name, count in counts.items() if count > 1)
    return {outcome.task_id: outcome for outcome in outcomes if outcome.task_id}, duplicates


def _assertion_per_cent(outcome: TaskOutcome) -> float | None:
    share = outcome.assertion_share()
    return None if share is None else 100 * share


def _paired_delta(
    pairs: Sequence[OutcomePair], measure: Callable[[TaskOutcome], float | None]
) -> PairedDelta:
    values = ((measure(old), measure(new)) for old, new in pairs)
    deltas = sorted(new - old for old, new in values if old is not None and new is not None)
    try:
        interval, median = stats.mean_interval(deltas), stats.quantile(deltas, 0.5)
    except (OverflowError, ValueError):  # beyond what a float can hold
        interval = median = None
    mean = sum(deltas) / len(deltas) if deltas else None
    return PairedDelta(n=len(deltas), mean=mean, interval=interval, median=median)


def _delta_row(name: str, delta: PairedDelta, digits: int) -> list[str]:
    def figure(value: float | None) -> str:
        return NO_VALUE if value is None else f"{value:+.{digits}f}"

    interval = NO_VALUE if delta.interval is None else " to ".join(map(figure, delta.interval))
    return [name, f"{delta.n}", figure(delta.mean), interval, figure(delta.median)]


def _describe_task_count(count: int) -> str:
    return f"{pluralize(count, 'task')} {'is' if count == 1 else 'are'}"


def format_ids(names: Iterable[str]) -> str:
    """Returns the first names joined by commas, with how many more there are."""
    return join_names([markdown_text(name) or "(empty)" for name in names], _MAX_IDS) or "none"

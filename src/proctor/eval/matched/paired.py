"""Two rollouts joined by task id: what changed in the same tasks, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proctor import stats
from proctor.eval.json_files import plain
from proctor.eval.matched.rows import Outcome

Pair = tuple[Outcome, Outcome]


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
        """As data for JSON."""
        row = {"n": self.n, "mean": self.mean, "ci95": self.interval, "median": self.median}
        return {name: plain(value) for name, value in row.items()}


@dataclass(frozen=True, slots=True)
class Paired:
    """The tasks of a baseline and a candidate, joined by id.

    An id that one side has more than once pairs with nothing, since nobody knows with which row; neither does
    a row without an id. Lists of ids are in the order of their rows.
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
        """The difference of the shares that passed, in percentage points; None of no pairs."""
        return 100 * (len(self.gained) - len(self.lost)) / self.n if self.n else None

    def interval_pp(self) -> tuple[float, float] | None:
        """The 95 % interval of `delta_task_pp`, as (low, high): `stats.newcombe_paired`. None of no pairs."""
        bounds = stats.newcombe_paired(self.both, len(self.gained), len(self.lost), self.neither)
        return None if bounds is None else (100 * bounds[0], 100 * bounds[1])

    def p_value(self) -> float | None:
        """McNemar's exact p-value, two-sided: `stats.mcnemar`. None of no pairs."""
        return stats.mcnemar(len(self.gained), len(self.lost)) if self.n else None

    def to_dict(self) -> dict[str, Any]:
        """As data for JSON."""
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
            "ci95_pp": plain(self.interval_pp()),
            "p_value": self.p_value(),
            "turns": self.turns.to_dict(),
            "wall_seconds": self.wall_seconds.to_dict(),
            "assertion_pp": self.assertion_pp.to_dict(),
        }

    def report(self) -> str:
        """Markdown, also when nothing could be paired."""
        from proctor.eval.matched.report import paired_lines

        return "\n".join(paired_lines(self))


def paired_of(baseline: Sequence[Outcome], candidate: Sequence[Outcome]) -> Paired:
    """The outcomes of both sides joined by task id."""
    before, doubled_before = _by_id(baseline)
    after, doubled_after = _by_id(candidate)
    doubled = {*doubled_before, *doubled_after}
    pairs = [(one, after[name]) for name, one in before.items() if name in after and name not in doubled]
    passed = Counter((old.passed, new.passed) for old, new in pairs)
    return Paired(
        n=len(pairs),
        only_in_baseline=tuple(name for name in before if name not in after and name not in doubled),
        only_in_candidate=tuple(name for name in after if name not in before and name not in doubled),
        duplicates_in_baseline=doubled_before,
        duplicates_in_candidate=doubled_after,
        without_id_in_baseline=sum(not one.task_id for one in baseline),
        without_id_in_candidate=sum(not one.task_id for one in candidate),
        both=passed[True, True],
        gained=tuple(new.task_id for old, new in pairs if new.passed and not old.passed),
        lost=tuple(new.task_id for old, new in pairs if old.passed and not new.passed),
        neither=passed[False, False],
        turns=_delta(pairs, lambda one: one.n_turns),
        wall_seconds=_delta(pairs, lambda one: one.wall_seconds),
        assertion_pp=_delta(pairs, _assertion_per_cent),
    )


def _by_id(outcomes: Sequence[Outcome]) -> tuple[dict[str, Outcome], tuple[str, ...]]:
    """The outcomes that have an id, and the ids of more than one."""
    counts = Counter(one.task_id for one in outcomes if one.task_id)
    doubled = tuple(name for name, count in counts.items() if count > 1)
    return {one.task_id: one for one in outcomes if one.task_id}, doubled


def _assertion_per_cent(one: Outcome) -> float | None:
    share = one.assertion_share()
    return None if share is None else 100 * share


def _delta(pairs: Sequence[Pair], measure: Callable[[Outcome], float | None]) -> PairedDelta:
    measured = ((measure(old), measure(new)) for old, new in pairs)
    deltas = sorted(new - old for old, new in measured if old is not None and new is not None)
    try:
        interval, median = stats.mean_interval(deltas), stats.quantile(deltas, 0.5)
    except (OverflowError, ValueError):  # beyond what a float can hold
        interval = median = None
    mean = sum(deltas) / len(deltas) if deltas else None
    return PairedDelta(n=len(deltas), mean=mean, interval=interval, median=median)

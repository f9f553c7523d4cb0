"""Which cases of a run are worse or better than they were."""

from __future__ import annotations

from math import fsum

from msgspec import Struct

from proctor.drift.observations import PASSED, Held
from proctor.stats import mean_interval, newcombe_paired


class Flips(Struct, frozen=True, kw_only=True):
    """The cases of a run beside what they were: which are worse, and which are better."""

    cases: int
    worse: tuple[str, ...]
    """Ids of the cases that pass less often than before, with another answer."""
    better: tuple[str, ...]
    regraded: tuple[str, ...]
    """Ids of the cases whose answers are identical and whose verdict is not: what changed is the grading."""
    before: float
    """The share that passed then, without what the grading changed."""
    after: float
    ci95: tuple[float, float] | None
    """Of the difference, as if these were the only two runs."""

    @property
    def difference(self) -> float:
        """How much larger the share that passed is now."""
        return self.after - self.before


def flips(earlier: Held, seen: Held) -> Flips | None:
    """The verdicts of a run beside earlier ones; None when no case has both.

    A case counts once, by the mean of its repeats that both have, and as unchanged where every answer is
    identical.
    """
    ids, compared = seen.places.cases, _compared(earlier, seen)
    if not compared:
        return None
    changes = {case: 0.0 if one.identical else one.change for case, one in compared.items()}
    worse = tuple([ids[case] for case, change in changes.items() if change < 0])
    better = tuple([ids[case] for case, change in changes.items() if change > 0])
    count = len(compared)
    before = fsum(one.before for one in compared.values()) / count
    return Flips(
        cases=count,
        worse=worse,
        better=better,
        regraded=tuple([ids[case] for case, one in compared.items() if one.identical and one.change]),
        before=before,
        after=before + fsum(changes.values()) / count,
        ci95=_interval(compared, changes),
    )


class _Compared:
    """One case in both runs: sums over its repeats first, then means."""

    __slots__ = ("after", "before", "count", "identical")

    def __init__(self) -> None:
        self.before = self.after = 0.0
        self.count = 0
        self.identical = True

    @property
    def change(self) -> float:
        return self.after - self.before


def _compared(earlier: Held, seen: Held) -> dict[int, _Compared]:
    case_of = seen.places.case_of
    compared: dict[int, _Compared] = {}
    for place, (was, now) in enumerate(zip(earlier.verdicts, seen.verdicts, strict=False)):
        if was and now:  # neither is UNKNOWN
            one = compared.setdefault(case_of[place], _Compared())
            one.before += was == PASSED
            one.after += now == PASSED
            one.count += 1
    for place, (was, now) in enumerate(zip(earlier.answers, seen.answers, strict=False)):
        if was != now and case_of[place] in compared:
            compared[case_of[place]].identical = False
    for one in compared.values():
        one.before /= one.count
        one.after /= one.count
    return compared


def _interval(compared: dict[int, _Compared], changes: dict[int, float]) -> tuple[float, float] | None:
    values = list(changes.values())
    if any(abs(value) not in (0.0, 1.0) for value in values) or any(
        one.before not in (0.0, 1.0) for one in compared.values()
    ):
        return mean_interval(values)
    both = sum(changes[case] == 0 and one.before == 1 for case, one in compared.items())
    better, worse = values.count(1.0), values.count(-1.0)
    return newcombe_paired(both, better, worse, len(values) - both - better - worse)

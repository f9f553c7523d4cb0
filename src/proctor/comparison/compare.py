"""Compares two runs: the differences of all cases and of each part, and the verdicts that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proctor.comparison.comparability import doubts_of
from proctor.comparison.differences import (
    Difference,
    Measure,
    difference_of,
    measure_of,
    smallest_difference,
)
from proctor.comparison.outcomes import RunFacts, Split
from proctor.comparison.pairing import Paired, PairedCase, paired
from proctor.model import Run, Verdict
from proctor.stats import holm

By = Literal["category", "tag"]


class Flip(Struct, frozen=True, gc=False):
    """A pair with one passed and one failed trial."""

    case: str
    repeat: int


class NotMeasured(Struct, frozen=True, gc=False):
    """A pair with a trial that is ERROR or UNSCORED."""

    case: str
    repeat: int
    baseline: Verdict
    candidate: Verdict


class Part(Struct, frozen=True, kw_only=True):
    """The difference over the cases of one split, category or tag."""

    name: str
    difference: Difference


class Comparison(Struct, frozen=True, kw_only=True):
    """The comparison of a candidate with a baseline."""

    baseline: Run
    candidate: Run
    split: Split
    whole: Difference
    smallest: float | None = None
    """The smallest difference that would probably be found, as a share; None if none would."""
    splits: tuple[Part, ...] = ()
    """Dev and holdout, if both have pairs; their p-values are adjusted together."""
    by: By = "category"
    parts: tuple[Part, ...] = ()
    """Every category or tag by name; their p-values are adjusted together."""
    score: Measure | None = None
    """The difference of the trials' scores, if any is neither 0 nor 1."""
    latency_ms: Measure | None = None
    cost_usd: Measure | None = None
    fixed: tuple[Flip, ...] = ()
    broken: tuple[Flip, ...] = ()
    not_measured: tuple[NotMeasured, ...] = ()
    unpaired: Paired = Paired()
    """The cases and trials without a partner, and renamed cases; `cases` is empty."""
    baseline_missing: int = 0
    """The number of planned trials that an unfinished run does not have."""
    candidate_missing: int = 0
    baseline_finished: bool = True
    candidate_finished: bool = True
    warnings: tuple[str, ...] = ()
    """Sentences that say why the two may not be comparable."""

    @property
    def pairs(self) -> int:
        """All pairs, measured or not."""
        return self.whole.pairs + len(self.not_measured)


def compared(
    baseline: RunFacts, candidate: RunFacts, *, split: Split = "all", by: By | None = "category"
) -> Comparison:
    """Compares two runs of one suite, pair by pair.

    Args:
        baseline: the reference run.
        candidate: the run whose differences are reported.
        split: compares only the cases of this split.
        by: the grouping of `parts`; None computes only the whole difference, for a table of many runs.
    """
    pairs = paired(baseline, candidate, split)
    by_case = pairs.repeats
    whole = difference_of(pairs.cases, by_case=by_case)
    fixed, broken, not_measured = _flips(pairs.cases)
    comparison = Comparison(
        baseline=baseline.run,
        candidate=candidate.run,
        split=split,
        whole=whole,
        fixed=fixed,
        broken=broken,
        not_measured=not_measured,
        unpaired=replace(pairs, cases=()),
        baseline_missing=baseline.missing,
        candidate_missing=candidate.missing,
        baseline_finished=baseline.is_finished,
        candidate_finished=candidate.is_finished,
        warnings=doubts_of(baseline, candidate),
    )
    if by is None:
        return comparison
    splits = _parts([(case.split, case) for case in pairs.cases if case.split is not None], by_case)
    return replace(
        comparison,
        smallest=smallest_difference(whole, pairs.cases),
        splits=tuple(splits) if len(splits) > 1 else (),
        by=by,
        parts=tuple(_parts(list(_cases_by_name(pairs.cases, by)), by_case)),
        score=_score(pairs.cases),
        latency_ms=measure_of(pairs.cases, lambda fact: fact.latency_ms),
        cost_usd=measure_of(pairs.cases, lambda fact: fact.cost_usd),
    )


def _flips(
    cases: Sequence[PairedCase],
) -> tuple[tuple[Flip, ...], tuple[Flip, ...], tuple[NotMeasured, ...]]:
    fixed, broken, not_measured = list[Flip](), list[Flip](), list[NotMeasured]()
    for case in cases:
        for before, after in case.pairs:
            if not (before.is_measured and after.is_measured):
                not_measured.append(NotMeasured(case.id, before.repeat, before.verdict, after.verdict))
            elif before.verdict is not after.verdict:
                flips = fixed if after.verdict is Verdict.PASS else broken
                flips.append(Flip(case.id, before.repeat))
    return tuple(fixed), tuple(broken), tuple(not_measured)


def _cases_by_name(cases: Sequence[PairedCase], by: By) -> Iterator[tuple[str, PairedCase]]:
    for case in cases:
        if by == "tag":
            yield from ((tag, case) for tag in case.tags)
        elif case.category is not None:
            yield case.category, case


def _parts(named_cases: Sequence[tuple[str, PairedCase]], by_case: bool) -> list[Part]:
    """Returns the differences of parts with measured pairs, by name, with p-values adjusted together."""
    members: dict[str, list[PairedCase]] = {}
    for name, case in named_cases:
        members.setdefault(name, []).append(case)
    differences = [(name, difference_of(members[name], by_case=by_case)) for name in sorted(members)]
    differences = [(name, difference) for name, difference in differences if difference.p_value is not None]
    adjusted = holm([difference.p_value or 0.0 for _, difference in differences])
    return [
        Part(name=name, difference=replace(difference, p_holm=p_value))
        for (name, difference), p_value in zip(differences, adjusted, strict=True)
    ]


def _score(cases: Sequence[PairedCase]) -> Measure | None:
    graded = any(fact.score not in (0, 1, None) for case in cases for pair in case.pairs for fact in pair)
    return measure_of(cases, lambda fact: fact.score, is_share=True) if graded else None

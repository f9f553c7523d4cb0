"""Pairs the trials of two runs by case and repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from proctor.comparison.outcomes import CaseFacts, Fact, RunFacts, Split

Pair = tuple[Fact, Fact]
"""The outcomes of the baseline and of the candidate for one case and repeat."""


class PairedCase(Struct, frozen=True, gc=False):
    """A case with its pairs; category and tags are those of the candidate."""

    id: str
    category: str | None
    tags: tuple[str, ...]
    split: str | None
    """None also if it is dev in one run and held out in the other."""
    pairs: tuple[Pair, ...]


class Renamed(Struct, frozen=True):
    """A case with different ids in the two runs."""

    baseline: str
    candidate: str


class Paired(Struct, frozen=True, kw_only=True):
    """The pairs of two runs; ids are in the order of their suites."""

    cases: tuple[PairedCase, ...] = ()
    """The cases with at least one pair, in the order of the baseline."""
    renamed: tuple[Renamed, ...] = ()
    only_baseline: tuple[str, ...] = ()
    """The ids of cases that are not in the candidate."""
    only_candidate: tuple[str, ...] = ()
    trials_only_baseline: int = 0
    """The number of trials of common cases whose repeat is not in the candidate."""
    trials_only_candidate: int = 0

    @property
    def repeats(self) -> bool:
        """Whether any case has more than one pair."""
        return any(len(case.pairs) > 1 for case in self.cases)

    @property
    def is_partial(self) -> bool:
        """Whether either run has a case or a trial that the other does not have."""
        loose = self.trials_only_baseline + self.trials_only_candidate
        return bool(self.only_baseline or self.only_candidate or loose)


def paired(baseline: RunFacts, candidate: RunFacts, split: Split = "all") -> Paired:
    """Matches the trials of two runs by case and repeat.

    Args:
        baseline: the first run.
        candidate: the other run, with the same kind of keys.
        split: pairs only the cases of this split.
    """
    before, after = baseline.within(split), candidate.within(split)
    partners = _partners(before.cases, after.cases)
    cases, renames, paired_ids = list[PairedCase](), list[Renamed](), set[str]()
    unpaired_counts = [0, 0]
    for case in before.cases:
        other = partners.get(case.id)
        if other is None:
            continue
        paired_ids.add(other.id)
        paired_case = _pair_case(case, other)
        if split not in ("all", paired_case.split):
            continue
        unpaired_counts[0] += len(case.trials) - len(paired_case.pairs)
        unpaired_counts[1] += len(other.trials) - len(paired_case.pairs)
        if paired_case.pairs:
            cases.append(paired_case)
        if case.id != other.id:
            renames.append(Renamed(case.id, other.id))
    return Paired(
        cases=tuple(cases),
        renamed=tuple(renames),
        only_baseline=tuple(_unmatched(before.cases, partners, split)),
        only_candidate=tuple(_unmatched(after.cases, paired_ids, split)),
        trials_only_baseline=unpaired_counts[0],
        trials_only_candidate=unpaired_counts[1],
    )


def _partners(before: Sequence[CaseFacts], after: Sequence[CaseFacts]) -> dict[str, CaseFacts]:
    """Maps ids of the baseline to the matching cases of the candidate.

    Cases with the same key and the same id match; others with the same key match in their order.
    """
    by_id = {case.id: case for case in after}
    partners = {
        case.id: other
        for case in before
        if (other := by_id.get(case.id)) is not None and other.key == case.key
    }
    free: dict[str, list[CaseFacts]] = defaultdict(list)
    for case in reversed(after):
        if case.id not in partners:
            free[case.key].append(case)
    for case in before:
        if case.id not in partners and (others := free.get(case.key)):
            partners[case.id] = others.pop()
    return partners


def _pair_case(case: CaseFacts, other: CaseFacts) -> PairedCase:
    repeats = {fact.repeat: fact for fact in other.trials}
    return PairedCase(
        id=other.id,
        category=other.category,
        tags=other.tags,
        split=_common_split(case.split, other.split),
        pairs=tuple((fact, repeats[fact.repeat]) for fact in case.trials if fact.repeat in repeats),
    )


def _common_split(before: str | None, after: str | None) -> str | None:
    """Returns the split of both, or of the one that has a split."""
    if before is None or after is None:
        return before or after
    return before if before == after else None


def _unmatched(
    cases: Sequence[CaseFacts], paired_ids: dict[str, CaseFacts] | set[str], split: Split
) -> Iterator[str]:
    return (case.id for case in cases if case.id not in paired_ids and split in ("all", case.split))

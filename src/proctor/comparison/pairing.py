"""Pairs the trials of two runs by case and repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from proctor.comparison.outcomes import CaseOutcomes, RunOutcomes, SplitName, TrialOutcome

Pair = tuple[TrialOutcome, TrialOutcome]
"""The outcomes of the baseline and of the candidate for one case and repeat."""


class PairedCase(Struct, frozen=True, gc=False):
    """A case with its pairs; category and tags are those of the candidate."""

    id: str
    category: str | None
    tags: tuple[str, ...]
    split: str | None
    """None also if it is dev in one run and held out in the other."""
    pairs: tuple[Pair, ...]
    cluster: str | None = None
    """The cluster of related cases, of the candidate if it has any, else of the baseline."""
    input_changed: bool = False
    """Whether the case was edited in between, other than its checks; a run's prompt is no part of it."""


class RenamedMatch(Struct, frozen=True):
    """A case with different ids in the two runs."""

    baseline: str
    candidate: str


class PairedRuns(Struct, frozen=True, kw_only=True):
    """The pairs of two runs; ids are in the order of their suites."""

    cases: tuple[PairedCase, ...] = ()
    """The cases with at least one pair, in the order of the baseline."""
    renamed: tuple[RenamedMatch, ...] = ()
    only_baseline: tuple[str, ...] = ()
    """The ids of cases that are not in the candidate."""
    only_candidate: tuple[str, ...] = ()
    input_changed: tuple[str, ...] = ()
    """The ids of cases that are paired though they were edited; their checks are the same."""
    checks_changed: tuple[str, ...] = ()
    """The ids of cases that are in both runs and not paired, since their checks differ."""
    trials_only_baseline: int = 0
    """The number of trials of common cases whose repeat is not in the candidate."""
    trials_only_candidate: int = 0

    @property
    def has_repeats(self) -> bool:
        """Whether any case has more than one pair."""
        return any(len(case.pairs) > 1 for case in self.cases)

    @property
    def is_partial(self) -> bool:
        """Whether either run has a case or a trial that the other does not have."""
        loose = self.trials_only_baseline + self.trials_only_candidate
        return bool(self.only_baseline or self.only_candidate or self.checks_changed or loose)


def pair_trials(baseline: RunOutcomes, candidate: RunOutcomes, split: SplitName = "all") -> PairedRuns:
    """Matches the trials of two runs by case and repeat.

    Args:
        baseline: the first run.
        candidate: the other run, with the same kind of keys.
        split: pairs only the cases of this split.
    """
    before, after = baseline.restrict_to(split), candidate.restrict_to(split)
    partners = _partners(before.cases, after.cases)
    cases, renames, paired_ids = list[PairedCase](), list[RenamedMatch](), set[str]()
    checks_changed = list[str]()
    unpaired_counts = [0, 0]
    for case in before.cases:
        other = partners.get(case.id)
        if other is None:
            continue
        paired_ids.add(other.id)
        paired_case = _pair_case(case, other)
        if split not in ("all", paired_case.split):
            continue
        if _differs(case, other, 1):
            checks_changed.append(other.id)
            continue
        unpaired_counts[0] += len(case.trials) - len(paired_case.pairs)
        unpaired_counts[1] += len(other.trials) - len(paired_case.pairs)
        if paired_case.pairs:
            cases.append(paired_case)
        if case.id != other.id:
            renames.append(RenamedMatch(case.id, other.id))
    return PairedRuns(
        cases=tuple(cases),
        renamed=tuple(renames),
        only_baseline=tuple(_unmatched(before.cases, partners, split)),
        only_candidate=tuple(_unmatched(after.cases, paired_ids, split)),
        input_changed=tuple([case.id for case in cases if case.input_changed]),
        checks_changed=tuple(checks_changed),
        trials_only_baseline=unpaired_counts[0],
        trials_only_candidate=unpaired_counts[1],
    )


def _partners(before: Sequence[CaseOutcomes], after: Sequence[CaseOutcomes]) -> dict[str, CaseOutcomes]:
    """Maps ids of the baseline to the matching cases of the candidate.

    Cases with the same key and the same id match; others with the same key match in their order.
    """
    by_id = {case.id: case for case in after}
    partners = {
        case.id: other
        for case in before
        if (other := by_id.get(case.id)) is not None and other.key == case.key
    }
    free: dict[str, list[CaseOutcomes]] = defaultdict(list)
    for case in reversed(after):
        if case.id not in partners:
            free[case.key].append(case)
    for case in before:
        if case.id not in partners and (others := free.get(case.key)):
            partners[case.id] = others.pop()
    return partners


def _differs(case: CaseOutcomes, other: CaseOutcomes, digest: int) -> bool:
    """Returns whether a digest of two cases differs: 0 for what is sent, 1 for how it is judged."""
    if case.digests is None or other.digests is None:
        return False
    return case.digests[digest] != other.digests[digest]


def _pair_case(case: CaseOutcomes, other: CaseOutcomes) -> PairedCase:
    repeats = {fact.repeat: fact for fact in other.trials}
    return PairedCase(
        id=other.id,
        category=other.category,
        tags=other.tags,
        split=_common_split(case.split, other.split),
        cluster=case.cluster if other.cluster is None else other.cluster,
        pairs=tuple((fact, repeats[fact.repeat]) for fact in case.trials if fact.repeat in repeats),
        input_changed=_differs(case, other, 0),
    )


def _common_split(before: str | None, after: str | None) -> str | None:
    """Returns the split of both, or of the one that has a split."""
    if before is None or after is None:
        return before or after
    return before if before == after else None


def _unmatched(
    cases: Sequence[CaseOutcomes], paired_ids: dict[str, CaseOutcomes] | set[str], split: SplitName
) -> Iterator[str]:
    return (case.id for case in cases if case.id not in paired_ids and split in ("all", case.split))

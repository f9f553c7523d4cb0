"""Pairs the trials of two runs by case and repeat."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct

from proctor.comparison.outcome_table import CaseOutcomes, LazySequence, TrialOutcome
from proctor.comparison.outcomes import RunOutcomes, SplitName

_NO_PARTNER = -1
"""In place of the place of a matching case."""
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

    cases: Sequence[PairedCase] = ()
    """The cases with at least one pair, in the order of the baseline; each is made when it is read."""
    has_repeats: bool = False
    """Whether any case has more than one pair."""
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
    partners = _partners(before, after)
    places, has_repeats = array("i"), False
    renames, input_changed, checks_changed = list[RenamedMatch](), list[str](), list[str]()
    unpaired_counts = [0, 0]
    for place, case in enumerate(before.cases):
        if partners[place] == _NO_PARTNER:
            continue
        other = after.cases[partners[place]]
        paired_case = _pair_case(case, other)
        if split not in ("all", paired_case.split):
            continue
        if _differs(case, other, 1):
            checks_changed.append(other.id)
            continue
        unpaired_counts[0] += len(case.trials) - len(paired_case.pairs)
        unpaired_counts[1] += len(other.trials) - len(paired_case.pairs)
        if paired_case.pairs:
            places.append(place)
            has_repeats = has_repeats or len(paired_case.pairs) > 1
            if paired_case.input_changed:
                input_changed.append(other.id)
        if case.id != other.id:
            renames.append(RenamedMatch(case.id, other.id))

    def make_case(number: int) -> PairedCase:
        place = places[number]
        return _pair_case(before.cases[place], after.cases[partners[place]])

    return PairedRuns(
        cases=LazySequence(len(places), make_case),
        has_repeats=has_repeats,
        renamed=tuple(renames),
        only_baseline=tuple(_unmatched(before, (partner != _NO_PARTNER for partner in partners), split)),
        only_candidate=tuple(_unmatched(after, _mark(partners, len(after.cases)), split)),
        input_changed=tuple(input_changed),
        checks_changed=tuple(checks_changed),
        trials_only_baseline=unpaired_counts[0],
        trials_only_candidate=unpaired_counts[1],
    )


def _partners(before: RunOutcomes, after: RunOutcomes) -> array[int]:
    """Returns for each case of the baseline the place of the matching case of the candidate.

    Cases with the same key and the same id match; others with the same key match in their order. Runs of one
    suite have most cases in the same place, and only others are looked up by name.
    """
    partners = array("i", [_NO_PARTNER]) * len(before.cases)
    rest: list[tuple[int, str, str]] = []
    other_rest: dict[str, tuple[int, str]] = {}
    for place, (name, other) in enumerate(zip_longest(before.case_names(), after.case_names())):
        if name is not None and name == other:
            partners[place] = place
            continue
        if name is not None:
            rest.append((place, *name))
        if other is not None:
            other_rest[other[0]] = place, other[1]
    unmatched: list[tuple[int, str]] = []
    for place, case_id, key in rest:
        partner = other_rest.get(case_id)
        if partner is not None and partner[1] == key:
            partners[place] = partner[0]
            del other_rest[case_id]
        else:
            unmatched.append((place, key))
    free: dict[str, list[int]] = defaultdict(list)
    for place, key in reversed(other_rest.values()):
        free[key].append(place)
    for place, key in unmatched:
        if places := free.get(key):
            partners[place] = places.pop()
    return partners


def _mark(partners: array[int], count: int) -> bytearray:
    """Returns for each case of the candidate whether it is a partner."""
    marks = bytearray(count)
    for partner in partners:
        if partner != _NO_PARTNER:
            marks[partner] = True
    return marks


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


def _unmatched(outcomes: RunOutcomes, are_matched: Iterable[int], split: SplitName) -> Iterator[str]:
    for place, is_matched in enumerate(are_matched):
        if not is_matched:
            case = outcomes.cases[place]
            if split in ("all", case.split):
                yield case.id

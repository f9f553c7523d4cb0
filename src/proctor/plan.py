"""Which trials a run makes: selection, repeats, and what is there already. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

from proctor.holdout import held_out
from proctor.model import Case, Output, Seat, Selection, SplitRule, Trial
from proctor.ports import StoredCase, StoredTrial


class Planned(Struct, frozen=True, kw_only=True, gc=False):
    """One trial that is to be made."""

    case: Case
    position: int
    repeat: int
    repeats: int
    """How many trials its case has in this run."""
    split: str | None
    sent: str
    output: Output | None = None
    """An output that was paid for already and only wants grading."""
    source_run: str | None = None
    """The run that output comes from, where it is another one."""


def matches(case: Case, selection: Selection) -> bool:
    """Whether the filters on tags, category and id let the case through; split and limit come later."""
    if selection.tags and not any(tag in case.tags for tag in selection.tags):
        return False
    if selection.exclude_tags and any(tag in case.tags for tag in selection.exclude_tags):
        return False
    if selection.categories and case.category not in selection.categories:
        return False
    return not selection.ids or any(fnmatchcase(case.id, glob) for glob in selection.ids)


def repeats_of(case: Case, wanted: int | None) -> int:
    """How often a case is asked: as the run wants, and never less than the case itself needs."""
    return max(wanted or 1, case.repeats or 1)


class Index(Struct, frozen=True, kw_only=True):
    """Which cases of a suite are asked, without the cases."""

    chosen: array[int]
    """The positions of the selected cases, ascending."""
    holdout: frozenset[int] | None
    """The positions of all held-out cases; None for a suite that is not split."""
    planned: int
    """How many trials the selected cases make."""
    workspaces: bool = False
    """Whether any selected case has a workspace."""

    def split_of(self, position: int) -> str | None:
        """`dev`, `holdout`, or None for a suite that is not split."""
        return _split_of(position, self.holdout)


def _split_of(position: int, holdout: frozenset[int] | None) -> str | None:
    if holdout is None:
        return None
    return "holdout" if position in holdout else "dev"


def _held(case: Case, seat: Seat) -> bool:
    """Whether the case is asked in the run of that seat."""
    if case.target is not None:
        return seat.first
    return seat.alone or not case.only_targets or seat.target in case.only_targets


_ALONE = Seat()


class Indexer:
    """Builds an index from cases that stream by."""

    def __init__(self, selection: Selection, repeats: int | None) -> None:
        """No case seen yet.

        Args:
            selection: which cases are wanted.
            repeats: how often each is asked; None leaves it to the cases.
        """
        self._selection = selection
        self._repeats = repeats
        self._ids: list[str] = []
        self._categories: list[str | None] = []
        self._matching = array("I")
        self._matching_repeats = array("I")
        self._special: dict[int, Case] = {}
        self._workspaces: set[int] = set()

    def add(self, case: Case) -> bool:
        """The next case, in order; whether it matches the selection."""
        matching = matches(case, self._selection)
        if matching:
            self._matching.append(len(self._ids))
            self._matching_repeats.append(repeats_of(case, self._repeats))
            if case.target is not None or case.only_targets:
                self._special[len(self._ids)] = case
            if case.workspace is not None:
                self._workspaces.add(len(self._ids))
        self._ids.append(case.id)
        self._categories.append(case.category)
        return matching

    def nowhere(self, targets: Sequence[str]) -> list[str]:
        """The ids of matching cases that are for certain targets only, none of which is among these."""
        return [
            case.id
            for case in self._special.values()
            if case.target is None and not set(case.only_targets) & set(targets)
        ]

    def index(self, rule: SplitRule | None, seat: Seat = _ALONE) -> Index:
        """The index of all that was added; the split, the limit and the seat are applied here."""
        holdout = None if rule is None else frozenset(held_out(self._ids, self._categories, rule))
        chosen, taken, planned = array("I"), 0, 0
        for position, repeats in zip(self._matching, self._matching_repeats, strict=True):
            if self._selection.split not in ("all", _split_of(position, holdout)):
                continue
            if taken == self._selection.limit:
                break
            taken += 1
            special = self._special.get(position)
            if special is None or _held(special, seat):
                chosen.append(position)
                planned += repeats
        workspaces = not self._workspaces.isdisjoint(chosen)
        return Index(chosen=chosen, holdout=holdout, planned=planned, workspaces=workspaces)


class Earlier(Struct, frozen=True, kw_only=True):
    """Trials that are there already, and which of them may stay as they are."""

    trials: Iterator[StoredTrial] = iter(())
    """In suite order."""
    stays: Callable[[StoredTrial, Case], bool] = lambda _stored, _case: True
    kept: Callable[[Trial, Case], None] = lambda _trial, _case: None
    """Told of each trial that stays."""
    source_run: str | None = None
    """The run that they are of, where it is another one."""


def trials(
    cases: Iterable[StoredCase],
    index: Index,
    *,
    repeats: int | None,
    together: Callable[[Case], bool],
    earlier: Earlier,
) -> Iterator[Planned]:
    """The trials that are still to be made, in suite order, from cases that stream by.

    An earlier trial that may not stay but has an output is planned with it, so that it is only graded. Cases
    whose outputs are graded together stay together or are all planned.
    """
    wanted = iter(index.chosen)
    next_wanted = next(wanted, None)
    next_earlier = next(earlier.trials, None)
    for position, stored_case in enumerate(cases):
        if position != next_wanted:
            continue
        next_wanted = next(wanted, None)
        known: dict[int, StoredTrial] = {}
        while next_earlier is not None and next_earlier.trial.position <= position:
            if next_earlier.trial.position == position:
                known[next_earlier.trial.repeat] = next_earlier
            next_earlier = next(earlier.trials, None)
        yield from _of_case(
            stored_case, position, index, repeats_of(stored_case.case, repeats), together, known, earlier
        )
        if next_wanted is None:
            return


def _of_case(
    stored_case: StoredCase,
    position: int,
    index: Index,
    repeats: int,
    together: Callable[[Case], bool],
    known: dict[int, StoredTrial],
    earlier: Earlier,
) -> Iterator[Planned]:
    case, split = stored_case.case, index.split_of(position)
    staying = {repeat for repeat, stored in known.items() if repeat < repeats and earlier.stays(stored, case)}
    if staying and len(staying) < repeats and together(case):
        staying = set()
    for repeat in range(repeats):
        stored = known.get(repeat)
        if stored is not None and repeat in staying:
            earlier.kept(stored.trial, case)
            continue
        # What was done in a workspace is gone with it, and cannot be graded any more.
        again = stored is not None and case.workspace is None
        output = stored.trial.output if stored is not None and again else None
        yield Planned(
            case=case,
            position=position,
            repeat=repeat,
            repeats=repeats,
            split=split,
            sent=stored_case.sent,
            output=output,
            source_run=(stored.trial.source_run or earlier.source_run) if stored and output else None,
        )

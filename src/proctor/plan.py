"""Plans the trials of a run by selection, repeats and earlier trials. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, cycle

from msgspec import Struct
from msgspec.structs import replace

from proctor.holdout import select_holdout
from proctor.model import (
    Attachment,
    Case,
    Judgment,
    Medium,
    Message,
    Output,
    Prompt,
    RunSlot,
    Selection,
    SplitRule,
    Trial,
)
from proctor.position_set import PositionSet
from proctor.prompts.requirements import CaseVariables
from proctor.protocols import StoredCase, StoredTrial
from proctor.spools import RowSpool


class PlannedTrial(Struct, frozen=True, kw_only=True, gc=False):
    """One trial to run."""

    case: Case
    position: int
    repeat: int
    repeats: int
    """The number of trials of its case in this run."""
    split: str | None
    sent_digest: str
    output: Output | None = None
    """A reused output, which only needs to be graded."""
    source_run: str | None = None
    """The run of the reused output, if it is another one."""
    prior_judgments: Mapping[str, tuple[Judgment, ...]] = {}
    """Reused judgments of that output, by the digest of the assertion."""
    assertion_digests: tuple[str, ...] = ()
    """The digests of the suite's assertions, if variables were substituted in those of `case`."""

    def make_prompt(self, workspace: str | None = None) -> Prompt:
        """Returns what its target receives; a workspace is the folder to work in."""
        case, form = self.case, self.case.form
        prompt = Prompt(messages=case.input, case_id=case.id, repeat=self.repeat, workspace=workspace)
        if form is None:
            return prompt
        return replace(
            prompt,
            json_answer=form.json,
            response_schema=form.schema,
            tools=form.tools,
            params=form.params,
            choices=form.choices,
            choice_delimiter=form.choice_delimiter,
        )


def is_selected(case: Case, selection: Selection) -> bool:
    """Returns whether a case matches the filters on tags, category and id, without split and limit.

    A case that cannot be read may have any tag and any category, so only the filter on ids applies to it.
    """
    is_read = all(problem.row is None for problem in case.problems)
    if is_read and not _has_labels(case, selection):
        return False
    return not selection.ids or matches_id(case.id, selection.ids)


def matches_id(case_id: str, globs: Iterable[str]) -> bool:
    """Returns whether any of the globs matches the id; brackets also match literally."""
    return any(
        fnmatchcase(case_id, glob) or ("[" in glob and fnmatchcase(case_id, glob.replace("[", "[[]")))
        for glob in globs
    )


def split_tags(word: str) -> list[str]:
    """Returns the alternatives of a tag filter: the parts between commas, and the whole word."""
    return list(dict.fromkeys((word, *filter(None, map(str.strip, word.split(","))))))


def _has_labels(case: Case, selection: Selection) -> bool:
    def has(word: str) -> bool:
        return any(tag in case.tags for tag in split_tags(word))

    if selection.tags and not any(map(has, selection.tags)):
        return False
    if not all(map(has, selection.all_tags)) or any(map(has, selection.exclude_tags)):
        return False
    return not selection.categories or case.category in selection.categories


def count_repeats(case: Case, run_repeats: int | None) -> int:
    """Returns how often a case is sent: the larger of the run's repeats and the case's own."""
    own_repeats = case.repeats
    if own_repeats is None and run_repeats is None:  # the usual case
        return 1
    return max(run_repeats or 1, own_repeats or 1)


class MediaUse(Struct, frozen=True):
    """A kind of attachment that cases send to a target."""

    target: str | None
    """The target that the cases name; None for that of the run."""
    medium: Medium
    media_type: str


class CaseIndex(Struct, frozen=True, kw_only=True):
    """The positions of the selected cases of a suite."""

    positions: Collection[int]
    """The positions of the selected cases, ascending."""
    holdout: Collection[int] | None
    """The positions of all held-out cases; None for a suite without a split."""
    trial_count: int
    """The number of trials of the selected cases."""
    has_workspaces: bool = False
    """Whether any selected case has a workspace."""
    placeholders: tuple[Case, ...] = ()
    """The selected cases that are never sent."""
    media: Mapping[MediaUse, int] = {}
    """What the selected cases attach besides text, each with the first position that does."""
    is_empty_shard: bool = False
    """Whether cases are selected, and none of them is in the shard of the selection."""

    def split_at(self, position: int) -> str | None:
        """Returns `dev`, `holdout`, or None for a suite without a split."""
        return _split_name(position, self.holdout)

    def count_held_out(self) -> int:
        """Returns how many of the selected cases are held out."""
        holdout = self.holdout
        if isinstance(holdout, PositionSet) and isinstance(self.positions, PositionSet):
            return holdout.count_common(self.positions)
        return 0 if holdout is None else sum(position in holdout for position in self.positions)


def _split_name(position: int, holdout: Collection[int] | None) -> str | None:
    if holdout is None:
        return None
    return "holdout" if position in holdout else "dev"


class _SlotRule(Struct, frozen=True):
    """In which runs of a command a case is sent; the fields are those of `Case`."""

    target: str | None
    only_targets: tuple[str, ...]
    prompts: tuple[str, ...] | None

    def allows(self, slot: RunSlot) -> bool:
        """Returns whether such a case is sent in the run with that slot."""
        if slot.prompt is not None and self.prompts is not None:
            is_sent = slot.prompt in self.prompts if self.prompts else slot.first_prompt
            if not is_sent:
                return False
        if self.target is not None:
            return slot.first
        return slot.alone or not self.only_targets or slot.target in self.only_targets


_ONLY_SLOT = RunSlot()
_MAX_BYTE = 255
_MATCHES, _IN_SHARD = 1, 2
"""What is known of a case: it matches the selection, it is in the shard."""


class CaseIndexer:
    """Builds an index from a stream of cases; in memory it has a few bytes of each."""

    def __init__(self, selection: Selection, repeats: int | None) -> None:
        """Starts with an empty index.

        Args:
            selection: which cases are selected.
            repeats: how often each is sent; None leaves it to the cases.
        """
        self._selection = selection
        self._repeats = repeats
        self._base_repeats = max(repeats or 1, 1)
        """How often a case is sent that does not say it."""
        self._heads = RowSpool[tuple[str, str | None]](tuple[str, str | None])
        """The id and the category of each case."""
        self._flags = bytearray()
        """For each case `_MATCHES`, `_IN_SHARD`, both or neither."""
        self._repeat_counts: array[int] = array("B")
        """For each case how often it is sent; its items grow once that is more than 255 times."""
        self._is_in_shard: Callable[[Case], bool] | None = None
        if selection.shard is not None:
            from proctor.shards import is_in_shard  # most runs have no shards

            self._is_in_shard = partial(is_in_shard, shard=selection.shard)
        self._slot_rules: dict[_SlotRule, str] = {}
        """The rules of cases that are not sent in every run, each with the id of its first case."""
        self._rule_numbers: dict[_SlotRule, int] = {}
        self._case_rules = array("I")
        """For each case the number of its rule, from 1, or 0; ends with the last case that has one."""
        self._selects_all = not (
            *selection.tags,
            *selection.all_tags,
            *selection.exclude_tags,
            *selection.categories,
            *selection.ids,
        )
        """Whether `is_selected` is true of every case."""
        self._workspaces = array("I")
        self._placeholders: dict[int, Case] = {}
        self._media: dict[MediaUse, array[int]] = {}
        self.variables = CaseVariables()
        """What the selected cases offer to prompts."""

    def fresh(self) -> CaseIndexer:
        """Returns an empty one for the same selection."""
        return CaseIndexer(self._selection, self._repeats)

    def add(self, case: Case) -> bool:
        """Adds the next case, in order, and returns whether it matches the selection."""
        matching = self._selects_all or is_selected(case, self._selection)
        flags = 0
        if matching:
            flags, position = _MATCHES, len(self._flags)
            if self._is_in_shard is None or self._is_in_shard(case):
                flags |= _IN_SHARD
            if case.target is not None or case.only_targets or case.prompts is not None:
                self._add_slot_rule(case, position)
            if case.workspace is not None:
                self._workspaces.append(position)
            if case.problems:
                self._placeholders[position] = case
            else:
                self.variables.add(case)
                for message in case.input:
                    if message.parts:
                        self._add_media(message, case.target, position)
        if case.repeats is None and self._base_repeats <= _MAX_BYTE:
            self._repeat_counts.append(self._base_repeats)
        else:
            self._add_repeats(count_repeats(case, self._repeats))
        self._flags.append(flags)
        self._heads.append((case.id, case.category))
        return matching

    def _add_repeats(self, count: int) -> None:
        try:
            self._repeat_counts.append(count)
        except OverflowError:
            self._repeat_counts = array("I", self._repeat_counts)
            self._repeat_counts.append(count)

    def _add_slot_rule(self, case: Case, position: int) -> None:
        rule = _SlotRule(case.target, case.only_targets, case.prompts)
        self._slot_rules.setdefault(rule, case.id)
        number = self._rule_numbers.setdefault(rule, len(self._rule_numbers) + 1)
        self._case_rules.frombytes(bytes(self._case_rules.itemsize * (position - len(self._case_rules))))
        self._case_rules.append(number)

    def _add_media(self, message: Message, target: str | None, position: int) -> None:
        for part in message.parts:
            if isinstance(part, Attachment) and part.text is None:
                use = MediaUse(target, part.medium, part.media_type)
                self._media.setdefault(use, array("I")).append(position)

    def find_case_without_target(self, targets: Collection[str]) -> str | None:
        """Returns the id of the first selected case that is restricted to targets none of which is given."""
        for rule, case_id in self._slot_rules.items():
            if rule.target is None and rule.only_targets and not set(rule.only_targets) & set(targets):
                return case_id
        return None

    def keep_known(self, case_ids: Iterable[str]) -> tuple[str, ...]:
        """Returns those of the ids that a case of the suite has, selected or not."""
        unique_ids = dict.fromkeys(case_ids)
        known = {case_id for case_id, _ in self._heads if case_id in unique_ids}
        return tuple(case_id for case_id in unique_ids if case_id in known)

    def build(
        self, rule: SplitRule | None, slot: RunSlot = _ONLY_SLOT, case_ids: Sequence[str] = ()
    ) -> CaseIndex:
        """Returns the index of all added cases, after split, limit, slot and shard are applied.

        Args:
            rule: holds cases out.
            slot: the run's place among those of the command.
            case_ids: the only cases that are selected; empty for those of the selection, else all.

        Raises:
            StoreError: there are very many cases, and the temporary folder cannot be written.
        """
        size = len(self._flags)
        holdout = None if rule is None else select_holdout(self._heads, size, rule)
        selected_ids = frozenset(case_ids or self._selection.case_ids)
        outside, counts = [False], self._repeat_counts
        if self._takes_all(selected_ids):
            positions, trial_count = PositionSet.make_full(size), sum(counts)
        else:
            positions = PositionSet(self._select(holdout, slot, selected_ids, outside), size)
            trial_count = sum(map(counts.__getitem__, positions))
        return CaseIndex(
            positions=positions,
            holdout=holdout,
            trial_count=trial_count,
            has_workspaces=any(place in positions for place in self._workspaces),
            placeholders=tuple(
                [case for position, case in self._placeholders.items() if position in positions]
            ),
            media={
                use: first
                for use, places in self._media.items()
                if (first := next((place for place in places if place in positions), None)) is not None
            },
            is_empty_shard=outside[0] and not positions,
        )

    def _takes_all(self, selected_ids: Collection[str]) -> bool:
        """Returns whether every case is selected, in every run; false if that takes long to tell."""
        selection = self._selection
        if selection.split != "all" or selection.limit is not None or selected_ids or self._slot_rules:
            return False
        return self._flags.count(_MATCHES | _IN_SHARD) == len(self._flags)

    def _select(
        self,
        holdout: Collection[int] | None,
        slot: RunSlot,
        selected_ids: Collection[str],
        outside: list[bool],
    ) -> Iterator[int]:
        """Yields the positions of the selected cases; sets `outside` to [True] if other shards have some."""
        split, limit, selected_count = self._selection.split, self._selection.limit, 0
        is_sent = [True, *(rule.allows(slot) for rule in self._slot_rules)]
        rules: Iterable[int] = chain(self._case_rules, cycle((0,)))
        ids: Iterable[str] = (case_id for case_id, _ in self._heads) if selected_ids else cycle(("",))
        for position, (flags, number, case_id) in enumerate(zip(self._flags, rules, ids, strict=False)):
            if not flags or (split != "all" and split != _split_name(position, holdout)):
                continue
            if selected_ids and case_id not in selected_ids:
                continue
            if selected_count == limit:
                return
            selected_count += 1
            if not is_sent[number]:
                continue
            if not flags & _IN_SHARD:
                outside[0] = True
                continue
            yield position


class PriorTrial(Struct, frozen=True, kw_only=True):
    """An earlier trial that may replace one to run."""

    trial: Trial
    is_reusable: bool
    """Whether it is reused with its scores; if not, only its output is, and is graded again."""
    source_run: str | None = None
    """The run that it comes from, if it is another one."""
    judgments: Mapping[str, tuple[Judgment, ...]] = {}
    """Reused judgments of its output, by the digest of the assertion."""
    is_stored: bool = True
    """Whether it is already stored as a trial of the run that is planned."""


PriorTrialFinder = Callable[[int, StoredCase], Mapping[int, PriorTrial]]
"""Returns the prior trials of a case, by repeat, from its position and the case; called in suite order."""


def no_prior_trials(_position: int, _case: StoredCase) -> Mapping[int, PriorTrial]:
    """Finds no prior trials."""
    return {}


class SequentialPriorTrials:
    """Finds prior trials in a stream of one run's trials in suite order."""

    def __init__(
        self,
        trials: Iterator[StoredTrial],
        stays: Callable[[StoredTrial, Case], bool],
        source_run: str | None = None,
        *,
        stored: bool = True,
    ) -> None:
        """Reads nothing.

        Args:
            trials: the trials of the run.
            stays: returns whether a trial may be reused with its scores.
            source_run: the run, if it is not the one that is planned.
            stored: whether reused trials are already stored as trials of the run that is planned.
        """
        self._is_stored = stored
        self._trials = trials
        self._is_reusable = stays
        self._source_run = source_run
        self._next: StoredTrial | None = None
        self._has_started = False

    def __call__(self, position: int, stored_case: StoredCase) -> dict[int, PriorTrial]:
        """Returns the prior trials of the case at a position; positions must ascend."""
        if not self._has_started:
            self._has_started, self._next = True, next(self._trials, None)
        prior_trials: dict[int, PriorTrial] = {}
        while self._next is not None and self._next.trial.position <= position:
            trial = self._next.trial
            if trial.position == position:
                prior_trials[trial.repeat] = PriorTrial(
                    trial=trial,
                    is_reusable=self._is_reusable(self._next, stored_case.case),
                    source_run=trial.source_run or self._source_run,
                    is_stored=self._is_stored,
                )
            self._next = next(self._trials, None)
        return prior_trials


class PriorTrials(Struct, frozen=True, kw_only=True):
    """The prior trials of a run, and a callback for those that are reused with their scores."""

    find: PriorTrialFinder = no_prior_trials
    on_reuse: Callable[[PriorTrial, Case], None] = lambda _prior_trial, _case: None
    """Called with each trial that is reused with its scores."""


def plan_trials(
    cases: Iterable[StoredCase],
    index: CaseIndex,
    *,
    repeats: int | None,
    together: Callable[[Case], bool],
    earlier: PriorTrials,
) -> Iterator[PlannedTrial]:
    """Yields the trials to run, in suite order, from a stream of cases.

    A prior trial that is not reused with its scores is planned with its output, so that it is only graded.
    If the outputs of a case are graded together, all of its trials are reused, or all are planned.
    """
    selected = _select_cases(cases, index)
    return plan_cases(selected, index, repeats=repeats, together=together, earlier=earlier)


def _select_cases(cases: Iterable[StoredCase], index: CaseIndex) -> Iterator[tuple[int, StoredCase]]:
    remaining = iter(index.positions)
    next_position = next(remaining, None)
    for position, stored_case in enumerate(cases):
        if position != next_position:
            continue
        next_position = next(remaining, None)
        yield position, stored_case
        if next_position is None:
            return


def plan_cases(
    cases: Iterable[tuple[int, StoredCase]],
    index: CaseIndex,
    *,
    repeats: int | None,
    together: Callable[[Case], bool],
    earlier: PriorTrials,
) -> Iterator[PlannedTrial]:
    """Yields the trials of selected cases in the order of a stream of their positions and cases."""
    for position, stored_case in cases:
        prior_trials = earlier.find(position, stored_case)
        count = count_repeats(stored_case.case, repeats)
        if not prior_trials:
            split = index.split_at(position)
            for repeat in range(count):
                yield _plan_trial(stored_case, position, repeat, count, split, None)
            continue
        reusable = _reusable_repeats(stored_case.case, prior_trials, count, together)
        for repeat in range(count):
            prior_trial = prior_trials.get(repeat)
            if prior_trial is not None and repeat in reusable:
                earlier.on_reuse(prior_trial, stored_case.case)
            else:
                yield _plan_trial(stored_case, position, repeat, count, index.split_at(position), prior_trial)


def _reusable_repeats(
    case: Case, prior_trials: Mapping[int, PriorTrial], repeats: int, together: Callable[[Case], bool]
) -> set[int]:
    repeats_that_stay = {
        repeat for repeat, prior_trial in prior_trials.items() if repeat < repeats and prior_trial.is_reusable
    }
    return (
        set()
        if repeats_that_stay and len(repeats_that_stay) < repeats and together(case)
        else repeats_that_stay
    )


def _plan_trial(
    stored_case: StoredCase,
    position: int,
    repeat: int,
    repeats: int,
    split: str | None,
    prior_trial: PriorTrial | None,
) -> PlannedTrial:
    case, sent_digest = stored_case.case, stored_case.sent_digest
    output = None if prior_trial is None else prior_trial.trial.output
    # The workspace of an earlier trial is gone, so its output cannot be graded again.
    if prior_trial is None or output is None or case.workspace is not None:
        return PlannedTrial(
            case=case,
            position=position,
            repeat=repeat,
            repeats=repeats,
            split=split,
            sent_digest=sent_digest,
        )
    return PlannedTrial(
        case=case,
        position=position,
        repeat=repeat,
        repeats=repeats,
        split=split,
        sent_digest=sent_digest,
        output=output,
        source_run=prior_trial.source_run,
        prior_judgments=prior_trial.judgments,
    )

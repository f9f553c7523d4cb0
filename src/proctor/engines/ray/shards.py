"""Cuts the trials of a run into shards of whole cases, and plans again what a lost process had."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from proctor.engines.ray.messages import TrialKey
from proctor.model import Output, Workspace
from proctor.plan import PlannedTrial

SHARD_SIZE = 64
"""The number of trials in a shard; a case with more repeats is a shard of its own."""
MAX_LOSSES = 3
"""How often a trial is planned again whose process has ended."""
_SMALLER = 4
"""By what factor the next shard of a trial is smaller, so that one that ends its process is soon alone."""
_MAX_AHEAD = 4_096
"""How many trials of shared workspaces wait for the process that has the workspace."""

_Case = list[PlannedTrial]
"""The trials of one case."""


class ShardPlanner:
    """The trials that are not handed out yet."""

    def __init__(self, planned_trials: Iterator[PlannedTrial], size: int = SHARD_SIZE) -> None:
        """Reads nothing yet.

        Args:
            planned_trials: the trials of the run.
            size: the maximum number of trials in a shard of more than one case.
        """
        self._cases = _cases(planned_trials)
        self._size = size
        self._ready: deque[list[PlannedTrial]] = deque()
        """Shards that are planned again, or were looked at."""
        self._next: _Case | None = None
        self._owners: dict[Workspace | str, str] = {}
        """The process that has each shared workspace."""
        self._pinned: dict[str, deque[_Case]] = {}
        """The cases of shared workspaces that wait for their process."""
        self._waiting_count = 0
        self._losses: dict[int, int] = {}
        """How often a trial of the case at a position was lost."""

    def count_ready(self, most: int) -> int:
        """Returns how many shards there are for further processes, up to `most`."""
        while len(self._ready) < most and (trials := self._cut(None)):
            self._ready.append(trials)
        return len(self._ready)

    def is_done(self) -> bool:
        """Returns whether everything has been handed out."""
        return not self._ready and not any(self._pinned.values()) and self._peek() is None

    def was_lost(self, trials: Sequence[PlannedTrial]) -> bool:
        """Returns whether a shard is made again. It may end its process, so that it is made alone there."""
        return trials[0].position in self._losses

    def take(self, process: str, *, is_busy: bool) -> list[PlannedTrial]:
        """Returns the trials of the next shard of a process; none if there is none now.

        Args:
            process: the process.
            is_busy: whether it has another shard already.
        """
        pinned = self._pinned.get(process)
        if pinned:
            trials = pinned.popleft()
            while pinned and len(trials) + len(pinned[0]) <= self._size:
                trials += pinned.popleft()
            self._waiting_count -= len(trials)
            return trials
        for number, trials in enumerate(self._ready):
            if not (is_busy and self.was_lost(trials)) and self._may_have(process, trials[0]):
                del self._ready[number]
                return trials
        return self._cut(process)

    def lose(
        self, process: str, trials: Sequence[PlannedTrial], outputs: dict[TrialKey, Output]
    ) -> list[PlannedTrial]:
        """Plans the trials of a lost process again, and returns those that have been lost too often.

        Args:
            process: the process, whose shared workspaces are gone.
            trials: what it has not delivered.
            outputs: the answers that it has delivered ungraded, which are only graded again.
        """
        self._owners = {workspace: owner for workspace, owner in self._owners.items() if owner != process}
        for case in self._pinned.pop(process, ()):
            self._waiting_count -= len(case)
            self._ready.append(case)
        too_often: list[PlannedTrial] = []
        again: dict[tuple[int, object], list[_Case]] = {}
        for case in _cases(trials):
            losses = self._losses.get(case[0].position, 0) + 1
            self._losses[case[0].position] = losses
            if losses > MAX_LOSSES:
                too_often += case
                continue
            size = max(1, self._size // _SMALLER**losses)
            case = [_with_output(planned_trial, outputs) for planned_trial in case]
            again.setdefault((size, _workspace_key(case[0])), []).append(case)
        for (size, _), cases in again.items():
            self._ready += _join(cases, size)
        return too_often

    def _peek(self) -> _Case | None:
        if self._next is None:
            self._next = next(self._cases, None)
        return self._next

    def _cut(self, process: str | None) -> list[PlannedTrial]:
        """Returns the next shard of a process, or of any; cases whose workspace another has wait for it."""
        trials: list[PlannedTrial] = []
        while (case := self._peek()) is not None:
            key = _workspace_key(case[0])
            owner = process if key is None else self._owners.get(key, process)
            if owner is not None and process is not None and owner != process:
                if self._waiting_count > _MAX_AHEAD:
                    break
                self._waiting_count += len(case)
                self._pinned.setdefault(owner, deque()).append(case)
                self._next = None
                continue
            if trials and (len(trials) + len(case) > self._size or key != _workspace_key(trials[0])):
                break
            if key is not None and process is not None:
                self._owners[key] = process
            trials += case
            self._next = None
        return trials

    def _may_have(self, process: str, planned_trial: PlannedTrial) -> bool:
        """Whether a process can make a trial; takes its shared workspace, if nobody has it."""
        key = _workspace_key(planned_trial)
        return key is None or self._owners.setdefault(key, process) == process


def _cases(planned_trials: Iterable[PlannedTrial]) -> Iterator[_Case]:
    for _, group in groupby(planned_trials, key=lambda planned_trial: planned_trial.position):
        yield list(group)


def _join(cases: Iterable[_Case], size: int) -> Iterator[list[PlannedTrial]]:
    """Yields shards of whole cases, each with at most `size` trials unless a case has more."""
    trials: list[PlannedTrial] = []
    for case in cases:
        if trials and len(trials) + len(case) > size:
            yield trials
            trials = []
        trials = trials + case
    if trials:
        yield trials


def _key(planned_trial: PlannedTrial) -> TrialKey:
    return planned_trial.position, planned_trial.repeat


def _workspace_key(planned_trial: PlannedTrial) -> Workspace | str | None:
    """Returns what trials must share a process for: a folder in which one works after the other."""
    workspace = planned_trial.case.workspace
    if workspace is None or (workspace.isolation != "shared" and workspace.path is None):
        return None
    return workspace.path or workspace


def _with_output(planned_trial: PlannedTrial, outputs: dict[TrialKey, Output]) -> PlannedTrial:
    """Returns a trial with the answer that was delivered; what a workspace gave is gone with it."""
    output = outputs.get(_key(planned_trial))
    if output is None or planned_trial.case.workspace is not None:
        return planned_trial
    return replace(planned_trial, output=output)

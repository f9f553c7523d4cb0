"""Turns: several runs of one suite call their targets for the same case right after one another.

The calls are in the order of the suite, or in a shuffled one that all runs have. For each case and repeat
every run makes its call before any run goes on, and which run is first changes from case to case. All runs
together make a limited number of calls at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from time import perf_counter

from proctor.invalid_cases import setup_failure
from proctor.plan import PlannedTrial

_TrialKey = tuple[int, int]
"""The place of the case in the order, and the repeat; calls are in the order of their keys."""


class RunTurns:
    """The turns of one run. Its engine must start trials in the order in which they are planned."""

    def __init__(self, order: _TurnOrder) -> None:
        """Use `make_turns`."""
        self._order = order
        self._last: _TrialKey = (-1, -1)
        """The key of the last planned trial; later ones have larger keys."""
        self._is_planned = False
        self._has_left = False
        self._knows_enough = False
        self.expected: dict[_TrialKey, None] = {}
        """The planned calls that have not started, in order."""
        self.waiting: dict[_TrialKey, asyncio.Future[None]] = {}

    def plan(self, planned_trials: Iterator[PlannedTrial]) -> Iterator[PlannedTrial]:
        """Yields the planned trials of the run, and notes which of them call the target."""
        for planned_trial in planned_trials:
            self._last = self._order.key_for(planned_trial)
            if planned_trial.output is None and setup_failure(planned_trial.case) is None:
                self.expected[self._last] = None
            self._order.admit()
            yield planned_trial
        self._is_planned = True
        self._order.admit()

    async def start(self, planned_trial: PlannedTrial) -> float:
        """Waits for the turn of a call, and returns how long that took in milliseconds; `end` ends the call.

        Raises:
            CancelledError: the run has left: no further trial starts.
        """
        if self._has_left:
            raise asyncio.CancelledError
        key, began = self._order.key_for(planned_trial), perf_counter()
        turn = self.waiting[key] = asyncio.get_running_loop().create_future()
        self._order.admit()
        try:
            await turn
        except asyncio.CancelledError:
            self.waiting.pop(key, None)
            if turn.done() and not turn.cancelled():  # cancelled when it had its turn already
                self.end()
            self.skip(planned_trial)
            raise
        return (perf_counter() - began) * 1000

    def end(self) -> None:
        """Ends a call: its place is free for the next one."""
        self._order.free_places += 1
        self._order.admit()

    def skip(self, planned_trial: PlannedTrial) -> None:
        """Gives up the turn of a trial that makes no call after all."""
        self.expected.pop(self._order.key_for(planned_trial), None)
        self._order.admit()

    def leave(self) -> None:
        """Ends the turns of a run that starts no further trial; calls that wait are cancelled."""
        self._has_left = True
        self.expected.clear()
        for turn in self.waiting.values():
            turn.cancel()
        self.waiting.clear()
        self._order.admit()

    def all_know_enough(self) -> bool:
        """Notes that this run knows enough to stop, and returns whether all that still send trials do."""
        self._knows_enough = True
        return not any(turns.needs_more() for turns in self._order.runs)

    def needs_more(self) -> bool:
        """Whether further trials of the run are wanted, as it does not know enough to stop."""
        return not (self._knows_enough or self._has_left or self._is_planned)

    def next_key(self) -> _TrialKey | None:
        """Returns the key of the run's next call; None if none is planned.

        An earlier call that has not come yet, as its workspace is being made, does not hold up one that
        waits: it may need what that one has entered.
        """
        return min(self.waiting) if self.waiting else next(iter(self.expected), None)

    def may_plan(self, key: _TrialKey) -> bool:
        """Whether a call with that key, or an earlier one, may still be planned."""
        return not (self._has_left or self._is_planned) and self._last < key


class _TurnOrder:
    """The order of the calls of several runs."""

    def __init__(self, places: int, ranks: Sequence[int] | None) -> None:
        self.free_places = places
        self._ranks = ranks
        self.runs: Sequence[RunTurns] = ()
        self._key: _TrialKey = (-1, -1)
        """The key of the last call that began."""
        self._round = -1
        """Counts the keys; the run of that number, modulo the runs, is the first of a round."""

    def key_for(self, planned_trial: PlannedTrial) -> _TrialKey:
        """Returns the key of a trial."""
        position = planned_trial.position
        return position if self._ranks is None else self._ranks[position], planned_trial.repeat

    def admit(self) -> None:
        """Lets calls begin, as long as there are free places and the next one waits for its turn."""
        while self.free_places > 0 and (turns := self._find_next()) is not None:
            key = turns.next_key()
            assert key is not None
            if key != self._key:
                self._key = key
                self._round += 1
            del turns.expected[key]
            self.free_places -= 1
            turns.waiting.pop(key).set_result(None)

    def _find_next(self) -> RunTurns | None:
        """Returns the run whose turn it is; None if its call has not come yet."""
        keys = {turns: key for turns in self.runs if (key := turns.next_key()) is not None}
        key = min(keys.values(), default=None)
        if key is None or any(turns.may_plan(key) for turns in self.runs):
            return None
        first = (self._round + (key != self._key)) % len(self.runs)
        in_order = (*self.runs[first:], *self.runs[:first])
        turns = next(turns for turns in in_order if keys.get(turns) == key)
        return turns if key in turns.waiting else None


def make_turns(runs: int, places: int, ranks: Sequence[int] | None = None) -> list[RunTurns]:
    """Returns the turns of each of several runs.

    Args:
        runs: the number of runs.
        places: how many calls all of them make at once.
        ranks: the place of each case in the order of the runs, by its position; None for suite order.
    """
    order = _TurnOrder(places, ranks)
    order.runs = [RunTurns(order) for _ in range(runs)]
    return list(order.runs)

"""Reads the cases of a run, and its earlier trials, in an order shuffled by a seed."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from random import Random

from proctor.model import Case, Run
from proctor.plan import PriorTrial, SequentialPriorTrials
from proctor.protocols import Store, StoredCase, StoredTrial


def shuffle_positions(positions: Iterable[int], seed: int) -> array[int]:
    """Returns positions in the order of a seed."""
    order = array("I", positions)
    Random(f"proctor/order/1/{seed}").shuffle(order)  # noqa: S311  # an order need not be secret
    return order


def rank_positions(count: int, seed: int) -> array[int]:
    """Returns the place of each position of a suite in the order of a seed.

    Args:
        count: the number of cases of the suite.
        seed: the seed.
    """
    ranks = array("I", bytes(array("I").itemsize * count))
    for rank, position in enumerate(shuffle_positions(range(count), seed)):
        ranks[position] = rank
    return ranks


def read_shuffled_cases(
    store: Store, run: Run, positions: Collection[int], seed: int
) -> Iterator[tuple[int, StoredCase]]:
    """Yields the cases at some positions of a run's suite, with their positions, in shuffled order.

    The same positions and seed give the same order. Interleaved runs, which may have different cases, are all
    in the order of the whole suite.
    """
    if run.settings.interleave:
        order = array(
            "I", filter(positions.__contains__, shuffle_positions(range(run.suite.case_count), seed))
        )
    else:
        order = shuffle_positions(positions, seed)
    for position in order:
        case_in_run = store.case_in_run(run, position)
        if case_in_run is not None:
            yield position, case_in_run.case


class PriorTrialReader:
    """Finds the trials of a stored run by position, in any order."""

    def __init__(
        self,
        store: Store,
        run: Run,
        stays: Callable[[StoredTrial, Case], bool],
        source_run: str | None = None,
        *,
        stored: bool = True,
    ) -> None:
        """Stores its arguments; reads nothing.

        Args:
            store: has the run.
            run: the run.
            stays: returns whether a trial may be reused with its scores.
            source_run: the id of the run, if it is not the one that is planned.
            stored: whether reused trials are already stored as trials of the run that is planned.
        """
        self._is_stored = stored
        self._store = store
        self._run = run
        self._is_reusable = stays
        self._source_run = source_run

    def __call__(self, position: int, stored_case: StoredCase) -> dict[int, PriorTrial]:
        """Returns the prior trials of the case at a position."""
        case_in_run = self._store.case_in_run(self._run, position)
        trials = iter(()) if case_in_run is None else iter(case_in_run.trials)
        find = SequentialPriorTrials(trials, self._is_reusable, self._source_run, stored=self._is_stored)
        return find(position, stored_case)

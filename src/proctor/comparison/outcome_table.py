"""Outcomes of many cases in columns, which take a tenth of the memory of records."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from math import isnan, nan
from typing import Generic, TypeVar, overload

from msgspec import Struct

from proctor.model import Verdict

T = TypeVar("T", bound=Hashable)
ItemT = TypeVar("ItemT")
_MAX_SMALL_CODES = 256
"""The number of different values that take one byte each."""
_DIGEST_PREFIX = "sha256:"
_DIGEST = re.compile(_DIGEST_PREFIX + "[0-9a-f]{64}")


class TrialOutcome(Struct, frozen=True, gc=False):
    """The outcome of one trial, or of all trials of a case if each case counts once."""

    repeat: int
    verdict: Verdict
    score: float | None = None
    """The weighted mean of its scores, from 0 to 1; None if there are none."""
    latency_ms: float | None = None
    """None if it was not measured in its run."""
    cost_usd: float | None = None
    """None if the price is unknown."""
    call_s: tuple[float, float] | None = None
    """When the call began and ended, in seconds since 1970; None unless the run was interleaved."""
    first_token_ms: float | None = None
    """None if the answer was not streamed, or not in its run."""
    tokens_per_second: float | None = None

    @property
    def is_measured(self) -> bool:
        """Whether it passed or failed, and is neither ERROR nor UNSCORED."""
        return self.verdict is Verdict.PASS or self.verdict is Verdict.FAIL


class CaseOutcomes(Struct, frozen=True, gc=False):
    """A case of a run with the outcomes of its trials."""

    id: str
    key: str
    """The key by which the case is found in another run: its id, or its digests."""
    category: str | None
    tags: tuple[str, ...]
    split: str | None
    trials: tuple[TrialOutcome, ...]
    position: int = 0
    """Its position in the suite of its run, from 0."""
    cluster: str | None = None
    """The cluster of related cases that it is in; None if the cases are independent."""
    digests: tuple[str, str] | None = None
    """What is sent and how it is judged; None unless the run is compared with one of another suite."""


class LazySequence(Sequence[ItemT]):
    """A sequence whose items are made when they are read."""

    def __init__(self, count: int, make_item: Callable[[int], ItemT]) -> None:
        """Takes the number of items, and what makes the one at a place."""
        self._count = count
        self._make_item = make_item

    def __len__(self) -> int:
        """Returns the number of items."""
        return self._count

    @overload
    def __getitem__(self, place: int) -> ItemT: ...
    @overload
    def __getitem__(self, place: slice) -> list[ItemT]: ...
    def __getitem__(self, place: int | slice) -> ItemT | list[ItemT]:
        """Returns one item, or a list of them."""
        if isinstance(place, slice):
            return [self._make_item(number) for number in range(*place.indices(self._count))]
        number = place + self._count if place < 0 else place
        if not 0 <= number < self._count:
            raise IndexError(place)
        return self._make_item(number)

    def __iter__(self) -> Iterator[ItemT]:
        """Yields the items."""
        return map(self._make_item, range(self._count))


class _ValueColumn(Generic[T]):
    """Values of which many are equal; a single one takes no memory."""

    def __init__(self) -> None:
        self._values: list[T] = []
        self._codes: dict[T, int] = {}
        self._rows: array[int] | None = None
        self._count = 0

    def append(self, value: T) -> None:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self._values)
            self._values.append(value)
            if code == 1:
                self._rows = array("B", bytes(self._count))
            elif code == _MAX_SMALL_CODES and self._rows is not None:
                self._rows = array("I", self._rows)
        self._count += 1
        if self._rows is not None:
            self._rows.append(code)

    def __getitem__(self, row: int) -> T:
        return self._values[0 if self._rows is None else self._rows[row]]

    def __contains__(self, value: object) -> bool:
        return value in self._codes


class _NumberColumn:
    """Numbers that can be missing; as long as all are equal, or missing, they take no memory."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._rows: array[float] | None = None
        self._count = 0

    def append(self, number: float | None) -> None:
        if self._rows is not None:
            self._rows.append(nan if number is None else number)
            return
        if not self._count:
            self._first = number
        elif number != self._first:
            self._rows = array("d", [nan if self._first is None else self._first]) * self._count
            self._rows.append(nan if number is None else number)
        self._count += 1

    def __getitem__(self, row: int) -> float | None:
        if self._rows is None:
            return self._first
        number = self._rows[row]
        return None if isnan(number) else number


class _TextColumn:
    """Texts, one after the other in UTF-8."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._starts = array("Q", [0])

    def append(self, text: str) -> None:
        self._bytes += text.encode("utf-8", "surrogatepass")
        self._starts.append(len(self._bytes))

    def __getitem__(self, row: int) -> str:
        return self._bytes[self._starts[row] : self._starts[row + 1]].decode("utf-8", "surrogatepass")


class _DigestColumn:
    """Digests, which take half of their text."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._starts = array("Q", [0])

    def append(self, digest: str) -> None:
        if _DIGEST.fullmatch(digest):
            self._bytes += b"\0" + bytes.fromhex(digest.removeprefix(_DIGEST_PREFIX))
        else:
            self._bytes += b"\1" + digest.encode("utf-8", "surrogatepass")
        self._starts.append(len(self._bytes))

    def __getitem__(self, row: int) -> str:
        data = self._bytes[self._starts[row] : self._starts[row + 1]]
        return _DIGEST_PREFIX + data[1:].hex() if not data[0] else data[1:].decode("utf-8", "surrogatepass")


class OutcomeTable(LazySequence[CaseOutcomes]):
    """The cases of a run with their outcomes, in the order of its suite."""

    def __init__(self, *, by_digest: bool, with_digests: bool) -> None:
        """Starts without cases.

        Args:
            by_digest: the key of a case is its digests instead of its id.
            with_digests: cases have their digests.
        """
        super().__init__(0, self._make_case)
        self._by_digest = by_digest
        self.has_digests = with_digests
        """Whether cases have their digests."""
        self._ids = _TextColumn()
        self._positions = array("I")
        self._categories = _ValueColumn[str | None]()
        self._tags = _ValueColumn[tuple[str, ...]]()
        self._splits = _ValueColumn[str | None]()
        self._clusters = _ValueColumn[str | None]()
        self._sent, self._judged = _DigestColumn(), _DigestColumn()
        self._starts = array("I", [0])
        """The first trial of each case."""
        self._repeats = _ValueColumn[int]()
        self._verdicts = _ValueColumn[Verdict]()
        self._scores = _NumberColumn()
        self._latencies = _NumberColumn()
        self._costs = _NumberColumn()
        self._call_starts, self._call_ends = _NumberColumn(), _NumberColumn()
        self._first_tokens = _NumberColumn()
        self._token_rates = _NumberColumn()

    def append(self, case: CaseOutcomes) -> None:
        """Adds the next case; its key is not read."""
        self._ids.append(case.id)
        self._positions.append(case.position)
        self._categories.append(case.category)
        self._tags.append(case.tags)
        self._splits.append(case.split)
        self._clusters.append(case.cluster)
        if self._by_digest or self.has_digests:
            assert case.digests is not None
            self._sent.append(case.digests[0])
            self._judged.append(case.digests[1])
        for trial in case.trials:
            self._repeats.append(trial.repeat)
            self._verdicts.append(trial.verdict)
            self._scores.append(trial.score)
            self._latencies.append(trial.latency_ms)
            self._costs.append(trial.cost_usd)
            start, end = (None, None) if trial.call_s is None else trial.call_s
            self._call_starts.append(start)
            self._call_ends.append(end)
            self._first_tokens.append(trial.first_token_ms)
            self._token_rates.append(trial.tokens_per_second)
        self._starts.append(self._starts[-1] + len(case.trials))
        self._count += 1

    def has_split(self, name: str) -> bool:
        """Returns whether any case is in that split."""
        return name in self._splits

    def names(self) -> Iterator[tuple[str, str]]:
        """Yields the id and the key of each case."""
        for row in range(len(self)):
            case_id = self._ids[row]
            yield case_id, self._make_key(row) if self._by_digest else case_id

    def verdicts(self) -> Iterator[tuple[list[Verdict], str | None]]:
        """Yields the verdicts of the trials of each case, and its cluster."""
        verdicts, starts, clusters = self._verdicts, self._starts, self._clusters
        for row in range(len(self)):
            yield [verdicts[trial] for trial in range(starts[row], starts[row + 1])], clusters[row]

    def _make_key(self, row: int) -> str:
        return f"{self._sent[row]} {self._judged[row]}"

    def _make_case(self, row: int) -> CaseOutcomes:
        case_id = self._ids[row]
        return CaseOutcomes(
            case_id,
            self._make_key(row) if self._by_digest else case_id,
            self._categories[row],
            self._tags[row],
            self._splits[row],
            tuple([self._make_trial(trial) for trial in range(self._starts[row], self._starts[row + 1])]),
            self._positions[row],
            self._clusters[row],
            (self._sent[row], self._judged[row]) if self.has_digests else None,
        )

    def _make_trial(self, row: int) -> TrialOutcome:
        start, end = self._call_starts[row], self._call_ends[row]
        return TrialOutcome(
            self._repeats[row],
            self._verdicts[row],
            self._scores[row],
            self._latencies[row],
            self._costs[row],
            None if start is None or end is None else (start, end),
            self._first_tokens[row],
            self._token_rates[row],
        )

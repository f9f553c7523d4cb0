"""Rows that a search loop wrote to iterations; what tells one proposal from another."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

from proctor.eval.jsonl_rows import DroppedRow, shown

EVALUATED = "evaluated"
"""The stage of a row that counts; a row without a stage counts too."""
DEEPEST = 100
"""How many levels a proposal may be nested."""


@dataclass(frozen=True, slots=True)
class TrajectoryIter:
    """One proposal that was tried and measured."""

    iter: int
    """Its number, as the loop wrote it."""
    knob: str
    """What was changed; empty when the row does not say."""
    value: Any
    """What it was changed to: any JSON value, None when the row does not say."""
    decision: str
    """What the loop did with it, such as "keep" or "revert"; empty when the row does not say."""
    score: float
    """What came out, in the unit of the score field; may be NaN or infinite where the loop wrote that."""
    raw: dict[str, Any]
    """The whole row."""


class Mode(NamedTuple):
    """A knob with a value, to count by.

    Values are compared by type too: 1, 1.0 and True are three. A list or an object is a value like any other.
    In a dictionary a plain pair finds its mode, with tuples for lists.
    """

    knob: str
    value: Any

    def __eq__(self, other: object) -> bool:
        """Whether knob and value are the same, by type too."""
        if not isinstance(other, tuple) or len(other) != 2:
            return NotImplemented
        return bool(self.knob == other[0]) and identity(self.value) == identity(other[1])

    def __ne__(self, other: object) -> bool:
        """Whether knob or value differ."""
        same = self.__eq__(other)
        return same if same is NotImplemented else not same

    def __hash__(self) -> int:
        """That of the plain pair, so that a plain pair finds it."""
        return hash((self.knob, _hashable(self.value)))


class Reading:
    """The rows of a file as they come."""

    def __init__(self, score_field: str) -> None:
        self.score_field = score_field
        self.iters: list[TrajectoryIter] = []
        self.baseline: float | None = None
        self.header: dict[str, Any] | None = None
        self.dropped: list[DroppedRow] = []
        self.other_stages: dict[str, int] = {}
        self._begun = False

    def add(self, number: int, row: dict[str, Any]) -> None:
        """Take a row, or say why it cannot be taken."""
        begun, self._begun = self._begun, True
        if not begun and "iter" not in row:
            self.header = row
            self._find_baseline(number, row.get(f"baseline_{self.score_field}"))
            return
        stage = row.get("stage")
        if stage is not None and stage != EVALUATED:
            self.other_stages[str(stage)] = self.other_stages.get(str(stage), 0) + 1
            return
        try:
            self.iters.append(self._iteration(row))
        except ValueError as error:
            self.dropped.append(DroppedRow(number, str(error)))

    def _find_baseline(self, number: int, written: Any) -> None:
        try:
            self.baseline = None if written is None else float(written)
        except (TypeError, ValueError, OverflowError):
            reason = f"The header's 'baseline_{self.score_field}' is {shown(written)}, which is no number; "
            self.dropped.append(DroppedRow(number, reason + "the header is used without it."))

    def _iteration(self, row: dict[str, Any]) -> TrajectoryIter:
        """Raises ValueError with a sentence where the row cannot be used."""
        if "iter" not in row:
            raise ValueError("The row has no 'iter', and only the first row may be a header.")
        proposal = row.get("proposal")
        if proposal is None:
            proposal = {}
        if not isinstance(proposal, dict):
            raise ValueError(f"'proposal' is {shown(proposal)}, and not an object.")
        if _is_deep(proposal):
            raise ValueError(f"'proposal' is nested more than {DEEPEST} levels deep.")
        return TrajectoryIter(
            iter=int(_number(row, "iter", int)),
            knob=_text(proposal.get("knob")),
            value=proposal.get("new_value"),
            decision=_text(row.get("decision")),
            score=_number(row, self.score_field, float),
            raw=row,
        )


def _number(row: dict[str, Any], name: str, kind: type[int] | type[float]) -> float:
    written = row.get(name)
    if written is None:
        raise ValueError(f"The iteration has no {name!r}.")
    try:
        return kind(written)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name!r} is {shown(written)}, which is no number.") from None


def _text(written: Any) -> str:
    return "" if written is None else str(written)


def _is_deep(value: Any) -> bool:
    """Whether it is nested so deeply that writing it could exhaust the stack."""
    level = [value]
    for _ in range(DEEPEST):
        inside = [
            one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (list, dict))
        ]
        if not inside:
            return False
        level = [item for items in inside for item in items]
    return True


def identity(value: Any) -> Hashable:
    """What is equal for values that are the same by type too: 1, 1.0 and True differ, NaN is NaN."""
    if isinstance(value, list | tuple):
        return "list", tuple(map(identity, value))
    if isinstance(value, dict):
        return "object", frozenset((name, identity(item)) for name, item in value.items())
    if isinstance(value, float) and isnan(value):
        return "NaN"
    try:
        hash(value)
    except TypeError:  # made in Python; JSON has no such value
        return type(value), repr(value)
    return type(value), value


def _hashable(value: Any) -> Hashable:
    """The value itself where it can be a key, with tuples for lists."""
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    if isinstance(value, float) and isnan(value):  # each such object has a hash of its own
        return "NaN"
    try:
        hash(value)
    except TypeError:
        return identity(value)
    return value  # type: ignore[no-any-return]

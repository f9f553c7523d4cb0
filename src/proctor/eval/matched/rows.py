"""Reads rows of graded tasks as outcomes; a row that cannot be used is left out, with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from proctor.eval.jsonl_rows import DroppedRow, describe_value, parse_number, read_object_rows

RowSource = Iterable[dict[str, Any]] | str | Path
"""Rows, or a file of them as JSON Lines."""

_MAX_COUNT = 2**53
"""Above it JSON readers may round whole numbers."""
_TRUTH_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of one rollout of a task."""

    task_id: str
    """Empty if the row has none."""
    passed: bool
    n_passed: int
    """Assertions that passed."""
    n_total: int
    """Assertions."""
    kinds: tuple[tuple[str, bool], ...]
    """The kind of each assertion, and whether it passed."""
    stopped: str
    """Why the rollout ended, "?" if the row does not say."""
    n_turns: float | None
    """None if the row has none, or no finite number."""
    wall_seconds: float | None
    """None if the row has none, or no finite number."""

    def assertion_share(self) -> float | None:
        """Returns the share of passed assertions, 0 to 1; None if the counts do not allow one."""
        return self.n_passed / self.n_total if 0 <= self.n_passed <= self.n_total and self.n_total else None


def read_outcomes(rows: RowSource, dropped: list[DroppedRow]) -> Iterator[TaskOutcome]:
    """Yields the outcomes in rows or in a file; unusable rows are added to `dropped`, numbered from 1.

    Raises:
        OSError: the file cannot be read.
        TypeError: `rows` is one row, or neither rows nor a path.
    """
    for number, row in _number_rows(rows, dropped):
        try:
            yield _parse_outcome(row)
        except ValueError as error:
            dropped.append(DroppedRow(number, str(error)))


def _number_rows(rows: Any, dropped: list[DroppedRow]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if isinstance(rows, str | Path):
        yield from read_object_rows(rows, dropped)
        return
    if isinstance(rows, Mapping):
        raise TypeError("Rows are wanted, and this is a single one: put it into a list.")
    if isinstance(rows, bytes) or not isinstance(rows, Iterable):
        raise TypeError(f"Rows are wanted, or the path of a file with them, not {type(rows).__name__}.")
    for number, row in enumerate(rows, 1):
        if isinstance(row, Mapping):
            yield number, row
        else:
            dropped.append(DroppedRow(number, f"The row is {describe_value(row)}, and not an object."))


def _parse_outcome(row: Mapping[str, Any]) -> TaskOutcome:
    """Returns the outcome of a row; raises ValueError with a sentence if the row cannot be used."""
    grade = row.get("final_grade")
    grade = {} if grade is None else grade
    if not isinstance(grade, Mapping):
        raise ValueError(f"'final_grade' is {describe_value(grade)}, and not an object.")
    task_id, stopped = row.get("task_id"), row.get("stopped")
    return TaskOutcome(
        task_id="" if task_id is None else str(task_id),
        passed=_parse_passed(grade, "final_grade"),
        n_passed=_parse_count(grade, "n_passed"),
        n_total=_parse_count(grade, "n_total"),
        kinds=tuple(_parse_kinds(grade.get("assertions"))),
        stopped=str(stopped or "?"),
        n_turns=_parse_amount(row, "n_turns"),
        wall_seconds=_parse_amount(row, "wall_seconds"),
    )


def _parse_kinds(assertions: Any) -> Iterator[tuple[str, bool]]:
    if assertions is None:
        return
    if not isinstance(assertions, list | tuple):
        raise ValueError(f"'assertions' is {describe_value(assertions)}, and not a list.")
    for place, assertion in enumerate(assertions):
        if not isinstance(assertion, Mapping):
            raise ValueError(f"'assertions[{place}]' is {describe_value(assertion)}, and not an object.")
        kind = assertion.get("kind")
        yield "" if kind is None else str(kind), _parse_passed(assertion, f"assertions[{place}]")


def _parse_passed(graded: Mapping[str, Any], where: str) -> bool:
    value = graded.get("passed")
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in _TRUTH_WORDS:
        return _TRUTH_WORDS[value.strip().lower()]
    raise ValueError(f"'{where}.passed' is {describe_value(value)}, which is neither true nor false.")


def _parse_count(grade: Mapping[str, Any], name: str) -> int:
    value = grade.get(name) or 0
    count = parse_number(value, int)
    if count is None or not 0 <= count <= _MAX_COUNT or (isinstance(value, float) and value != count):
        raise ValueError(f"'final_grade.{name}' is {describe_value(value)}, which is no count.")
    return count


def _parse_amount(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    amount = parse_number(value, float)
    if amount is None:
        raise ValueError(f"{name!r} is {describe_value(value)}, not a number.")
    return amount if isfinite(amount) else None

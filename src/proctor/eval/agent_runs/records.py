"""Records of agent benches to one schema: a run for each question, with its turns; and sums over runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from proctor.eval.json_files import plain
from proctor.eval.jsonl_rows import DroppedRow, objects_of

if TYPE_CHECKING:
    from proctor.charts import Chart

Place = Sequence[str | int]
"""Where something stands in a record: a text is a key of an object, a number a place in a list."""

_TURN = frozenset({"turn", "action", "duration", "duration_s", "input_tokens", "output_tokens"})
_WRONG_SHAPE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a parser raises for a row that is not as it expects; anything else is a fault of the parser."""


@dataclass(frozen=True, slots=True)
class TurnDetail:
    """One turn of a run."""

    turn: int
    """Its number, from 1."""
    action: str
    """Such as "tool" or "error"; "" where the record has none."""
    duration_s: float
    """Seconds, to 2 digits."""
    input_tokens: int | None = None
    """None: not known."""
    output_tokens: int | None = None
    """None: not known."""
    extras: dict[str, Any] = field(default_factory=dict)
    """All else that the record says of the turn."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data under the names of the fields; extras only where there are any, without NaN."""
        row: dict[str, Any] = {
            "turn": self.turn,
            "action": self.action,
            "duration_s": plain(self.duration_s),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        return {**row, "extras": plain(self.extras)} if self.extras else row


@dataclass
class AgentRun:
    """What an agent did about one question. Nothing here is changed after it was made, or shared."""

    question_id: str
    status: str
    """How it ended, in the bench's own words."""
    wall_seconds: float
    """To 2 digits."""
    n_turns: int
    n_candidates: int
    """Final answers."""
    turns: list[TurnDetail]
    raw: dict[str, Any] = field(default_factory=dict, repr=False)
    """The record as it was."""

    @classmethod
    def from_record(
        cls,
        raw: dict[str, Any],
        *,
        question_id_field: str = "arxiv_id",
        question_id_path: Place = ("input_data",),
        inference_path: Place = ("inference_results", 0),
        status_field: str = "status",
        wall_field: str = "total_time",
        turns_field: str = "turn_details",
        candidates_field: str = "final_candidates",
    ) -> Self:
        """One record of a bench to a run; what is not there is empty, 0 or None.

        Args:
            raw: the record.
            question_id_field: the key of the question's id.
            question_id_path: where the object with that key stands; () is the record itself.
            inference_path: where the object with the other keys stands.
            status_field: the key of the status.
            wall_field: the key of the seconds in all.
            turns_field: the key of the list of turns. Of a turn `duration` or `duration_s` is its seconds;
                what is no object is a turn without anything.
            candidates_field: the key of the list of final answers.

        Raises:
            ValueError: seconds or the number of a turn are no finite number, or the turns are no list.
        """
        holder, found = _at(raw, question_id_path), _at(raw, inference_path)
        record = found if isinstance(found, dict) else {}
        turns = record.get(turns_field) or []
        if not isinstance(turns, list):
            raise ValueError(f"{turns_field!r} is {turns!r}. It must be a list of turns.")
        candidates = record.get(candidates_field)
        return cls(
            question_id=str(holder.get(question_id_field, "")) if isinstance(holder, dict) else "",
            status=str(record.get(status_field, "")),
            wall_seconds=_seconds(record.get(wall_field), wall_field),
            n_turns=len(turns),
            n_candidates=len(candidates) if isinstance(candidates, list) else 0,
            turns=[_turn(turn, place) for place, turn in enumerate(turns, 1)],
            raw=raw,
        )

    @classmethod
    def from_jsonl(
        cls, path: str | Path, *, parser: Callable[[dict[str, Any]], AgentRun] | None = None
    ) -> AgentRuns:
        """The runs of a file, one record a line (or one JSON list of records).

        Lines that are no JSON object, and records that the parser refuses, are left out and listed in
        `.dropped` of the list that is returned; the others are read all the same.

        Args:
            path: the file, in UTF-8.
            parser: makes a run of a record; `from_record` of this class with its defaults if it is None.

        Raises:
            OSError: the file cannot be read.
        """
        runs, dropped = AgentRuns(), list[DroppedRow]()
        for line, record in objects_of(path, dropped):
            try:
                runs.append(cls.from_record(record) if parser is None else parser(record))
            except _WRONG_SHAPE as error:
                dropped.append(DroppedRow(line, f"The record is no run: {_told(error)}"))
        runs.dropped = tuple(dropped)
        return runs

    def tool_calls(self) -> int:
        """Turns whose action is "tool"."""
        return self._turns_of("tool")

    def tool_format_errors(self) -> int:
        """Turns whose action is "error"."""
        return self._turns_of("error")

    def total_input_tokens(self) -> int:
        """The sum over the turns; one that is not known counts as 0."""
        return sum(turn.input_tokens or 0 for turn in self.turns)

    def total_output_tokens(self) -> int:
        """The sum over the turns; one that is not known counts as 0."""
        return sum(turn.output_tokens or 0 for turn in self.turns)

    def succeeded(self) -> bool:
        """Whether it is "finished" with a candidate. Override it where success means something else."""
        return self.status == "finished" and self.n_candidates > 0

    def to_dict(self, *, include_raw: bool = False) -> dict[str, Any]:
        """Plain data for JSON, with null for what is not finite.

        Args:
            include_raw: add the whole record as `raw`; it may be large.
        """
        row = {
            "question_id": self.question_id,
            "status": self.status,
            "wall_seconds": plain(self.wall_seconds),
            "n_turns": self.n_turns,
            "n_candidates": self.n_candidates,
            "tool_calls": self.tool_calls(),
            "tool_format_errors": self.tool_format_errors(),
            "input_tokens": self.total_input_tokens(),
            "output_tokens": self.total_output_tokens(),
            "turns": [turn.to_dict() for turn in self.turns],
        }
        return {**row, "raw": plain(self.raw)} if include_raw else row

    def _turns_of(self, action: str) -> int:
        return sum(turn.action == action for turn in self.turns)


class AgentRuns(list[AgentRun]):
    """A list of runs that knows what was left out of it; `AgentRuns(runs)` makes one of any runs."""

    dropped: tuple[DroppedRow, ...] = ()
    """Lines that are no runs, each with its reason."""

    def __repr__(self) -> str:
        dropped = f", {len(self.dropped)} lines left out" if self.dropped else ""
        return f"<AgentRuns: {len(self)} runs, {sum(run.succeeded() for run in self)} succeeded{dropped}>"

    def _repr_html_(self) -> str:
        from proctor.eval.notebook import table

        spreads = {
            name.replace("_", " "): row
            for name, row in self.statistics().items()
            if isinstance(row, dict) and "p95" in row
        }
        keys = ("n", "mean", "ci95", "median", "p95", "max")
        rows = [(name, *map(row.get, keys)) for name, row in spreads.items()]
        columns = ["", "n", "mean", "95 % interval", "median", "p95", "max"]
        return table(repr(self)[1:-1], columns, rows)

    def statistics(self, *, label: str = "") -> dict[str, Any]:
        """What `summarize_agent_runs` leaves out: intervals, percentiles, tokens, actions; unrounded.

        Args:
            label: what the runs are, such as a model's name.

        Returns:
            label, n_questions, n_succeeded, success_rate (0 to 1, None of no runs), success_ci95 (Wilson's
            interval), status_counts, n_empty (runs without status, turns and candidates: most likely the
            records are laid out otherwise). Then wall_seconds, turns, candidates, tool_calls,
            tool_format_errors, input_tokens and output_tokens over the runs, and turn_seconds over all turns,
            each as n, total, mean, ci95 of the mean, stdev, median (true), p90, p95, p99, min and max, None
            where there are too few values. unknown_tokens: turns without a number of input or output tokens.
            actions: {action: {"turns", "seconds"}}.
        """
        from proctor.eval.agent_runs.statistics import statistics_of

        return statistics_of(self, label)

    def chart(self, *, label: str = "") -> Chart:
        """The share of runs that had ended, and that had succeeded, within so many seconds.

        Args:
            label: what the runs are, for the title.

        Raises:
            ValueError: there are no runs.
        """
        from proctor.eval.agent_runs.statistics import chart_of

        return chart_of(self, label)


def summarize_agent_runs(runs: Iterable[AgentRun], *, label: str = "") -> dict[str, Any]:
    """Counts by status, and n, mean, median, min and max of what runs took, for JSON.

    Args:
        runs: the runs.
        label: what they are, such as a model's name.

    Returns:
        label, n_questions, n_succeeded, status_counts, wall_seconds, turns, candidates, tool_calls and
        tool_format_errors; of no runs label, n_questions and status_counts alone.
    """
    from proctor.eval.bench.bench import summarize_metric

    runs = list(runs)
    if not runs:
        return {"label": label, "n_questions": 0, "status_counts": {}}
    return {
        "label": label,
        "n_questions": len(runs),
        "n_succeeded": sum(run.succeeded() for run in runs),
        "status_counts": status_counts(runs),
        **{name: summarize_metric(map(float, values)) for name, values in measured(runs).items()},
    }


def measured(runs: Sequence[AgentRun]) -> dict[str, list[float]]:
    """What is counted of each run, by the names of the summary."""
    return {
        "wall_seconds": [run.wall_seconds for run in runs],
        "turns": [run.n_turns for run in runs],
        "candidates": [run.n_candidates for run in runs],
        "tool_calls": [run.tool_calls() for run in runs],
        "tool_format_errors": [run.tool_format_errors() for run in runs],
    }


def status_counts(runs: Sequence[AgentRun]) -> dict[str, int]:
    """The runs of each status, in the order of the alphabet."""
    return dict(sorted(Counter(run.status for run in runs).items()))


def _at(value: Any, path: Place) -> Any:
    """What stands at a path; None where there is nothing."""
    for part in path:
        if isinstance(part, str) and isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(part, int) and isinstance(value, list) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def _turn(turn: Any, place: int) -> TurnDetail:
    if not isinstance(turn, dict):
        return TurnDetail(turn=place, action="", duration_s=0.0)
    try:
        number = int(turn.get("turn") or place)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"Turn {place} has turn={turn['turn']!r}. It must be a whole number.") from error
    return TurnDetail(
        turn=number,
        action=str(turn.get("action") or ""),
        duration_s=_seconds(turn.get("duration") or turn.get("duration_s"), f"duration of turn {place}"),
        input_tokens=_tokens(turn.get("input_tokens")),
        output_tokens=_tokens(turn.get("output_tokens")),
        extras={name: value for name, value in turn.items() if name not in _TURN},
    )


def _seconds(value: Any, name: str) -> float:
    try:
        seconds = round(float(value or 0), 2)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} is {value!r}. It must be a number of seconds.") from error
    if not isfinite(seconds):
        raise ValueError(f"{name} is {value!r}. It must be finite.")
    return seconds


def _tokens(value: Any) -> int | None:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _told(error: Exception) -> str:
    return f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}."

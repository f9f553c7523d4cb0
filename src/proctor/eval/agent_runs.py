"""`AgentRun`: records of agent benches in one schema, with counts, percentiles and a chart over runs.

In: records of any bench, or files of them. Out: a run for each question, with its turns; statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from proctor.eval.json_files import to_plain
from proctor.eval.jsonl_rows import DroppedRow, parse_number, read_object_rows

if TYPE_CHECKING:
    from proctor.charts import Chart, Point

FieldPath = Sequence[str | int]
"""A path in a record: a text is a key of an object, a number an index of a list."""

_TURN_KEYS = frozenset({"turn", "action", "duration", "duration_s", "input_tokens", "output_tokens"})
_PARSER_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions of a parser for an unexpected row; any other exception is a bug in the parser."""
_MAX_CURVE_POINTS = 200


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
    """All other fields of the turn."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as plain data; `extras` only if there are any, without NaN."""
        row: dict[str, Any] = {
            "turn": self.turn,
            "action": self.action,
            "duration_s": to_plain(self.duration_s),
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
        }
        return {**row, "extras": to_plain(self.extras)} if self.extras else row


@dataclass
class AgentRun:
    """An agent's run on one question. It is immutable."""

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
        question_id_path: FieldPath = ("input_data",),
        inference_path: FieldPath = ("inference_results", 0),
        status_field: str = "status",
        wall_field: str = "total_time",
        turns_field: str = "turn_details",
        candidates_field: str = "final_candidates",
    ) -> Self:
        """Returns the run of one record; a missing field is empty, 0 or None.

        Args:
            raw: the record.
            question_id_field: the key of the question's id.
            question_id_path: the path of the object with that key; () is the record itself.
            inference_path: the path of the object with the other keys.
            status_field: the key of the status.
            wall_field: the key of the seconds in all.
            turns_field: the key of the list of turns. Of a turn `duration` or `duration_s` is its seconds;
                any other value is an empty turn.
            candidates_field: the key of the list of final answers.

        Raises:
            ValueError: seconds or a turn number are not finite numbers, or the turns are not a list.
        """
        question, inference = _value_at(raw, question_id_path), _value_at(raw, inference_path)
        record = inference if isinstance(inference, dict) else {}
        turns = record.get(turns_field) or []
        if not isinstance(turns, list):
            raise ValueError(f"{turns_field!r} is {turns!r}. It must be a list of turns.")
        candidates = record.get(candidates_field)
        return cls(
            question_id=str(question.get(question_id_field, "")) if isinstance(question, dict) else "",
            status=str(record.get(status_field, "")),
            wall_seconds=_parse_seconds(record.get(wall_field), wall_field),
            n_turns=len(turns),
            n_candidates=len(candidates) if isinstance(candidates, list) else 0,
            turns=[_parse_turn(turn, place) for place, turn in enumerate(turns, 1)],
            raw=raw,
        )

    @classmethod
    def from_jsonl(
        cls, path: str | Path, *, parser: Callable[[dict[str, Any]], AgentRun] | None = None
    ) -> AgentRuns:
        """Reads the runs of a file, one record a line (or one JSON list of records).

        Lines that are not JSON objects, and records that the parser refuses, are left out and listed in
        `.dropped` of the list that is returned; the others are read all the same.

        Args:
            path: the file, in UTF-8.
            parser: makes a run of a record; `from_record` of this class with its defaults if it is None.

        Raises:
            OSError: the file cannot be read.
        """
        runs, dropped = AgentRuns(), list[DroppedRow]()
        for line, record in read_object_rows(path, dropped):
            try:
                runs.append(cls.from_record(record) if parser is None else parser(record))
            except _PARSER_ERRORS as error:
                text = f"{error}" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}."
                dropped.append(DroppedRow(line, f"The record is not a run: {text}"))
        runs.dropped = tuple(dropped)
        return runs

    def tool_calls(self) -> int:
        """Counts the turns whose action is "tool"."""
        return self._count_turns("tool")

    def tool_format_errors(self) -> int:
        """Counts the turns whose action is "error"."""
        return self._count_turns("error")

    def total_input_tokens(self) -> int:
        """Returns the sum over the turns; an unknown number counts as 0."""
        return sum(turn.input_tokens or 0 for turn in self.turns)

    def total_output_tokens(self) -> int:
        """Returns the sum over the turns; an unknown number counts as 0."""
        return sum(turn.output_tokens or 0 for turn in self.turns)

    def succeeded(self) -> bool:
        """Whether the status is "finished" and there is a candidate. Override it for another meaning."""
        return self.status == "finished" and self.n_candidates > 0

    def to_dict(self, *, include_raw: bool = False) -> dict[str, Any]:
        """Returns plain data for JSON, with null for numbers that are not finite.

        Args:
            include_raw: add the whole record as `raw`; it may be large.
        """
        row = {
            "question_id": self.question_id,
            "status": self.status,
            "wall_seconds": to_plain(self.wall_seconds),
            "n_turns": self.n_turns,
            "n_candidates": self.n_candidates,
            "tool_calls": self.tool_calls(),
            "tool_format_errors": self.tool_format_errors(),
            "input_tokens": self.total_input_tokens(),
            "output_tokens": self.total_output_tokens(),
            "turns": [turn.to_dict() for turn in self.turns],
        }
        return {**row, "raw": to_plain(self.raw)} if include_raw else row

    def _count_turns(self, action: str) -> int:
        return sum(turn.action == action for turn in self.turns)


class AgentRuns(list[AgentRun]):
    """A list of runs with the lines that could not be read; `AgentRuns(runs)` takes any runs."""

    dropped: tuple[DroppedRow, ...] = ()
    """Lines that are not runs, each with its reason."""

    def __repr__(self) -> str:
        dropped = f", {len(self.dropped)} lines left out" if self.dropped else ""
        return f"<AgentRuns: {len(self)} runs, {sum(run.succeeded() for run in self)} succeeded{dropped}>"

    def _repr_html_(self) -> str:
        from proctor.eval.tables import html_table

        spreads = {
            name.replace("_", " "): row
            for name, row in self.statistics().items()
            if isinstance(row, dict) and "p95" in row
        }
        keys = ("n", "mean", "ci95", "median", "p95", "max")
        rows = [(name, *map(row.get, keys)) for name, row in spreads.items()]
        columns = ["", "n", "mean", "95 % interval", "median", "p95", "max"]
        return html_table(repr(self)[1:-1], columns, rows)

    def statistics(self, *, label: str = "") -> dict[str, Any]:
        """Returns what `summarize_agent_runs` leaves out: intervals, percentiles, tokens, actions; unrounded.

        Returns:
            label (what the runs are, such as a model's name), n_questions, n_succeeded, success_rate (0 to 1,
            None without runs), success_ci95 (Wilson's interval), status_counts, n_empty (runs without status,
            turns and candidates: most likely the records are laid out otherwise). Then wall_seconds, turns,
            candidates, tool_calls, tool_format_errors, input_tokens and output_tokens over the runs, and
            turn_seconds over all turns, each as n, total, mean, ci95 of the mean, stdev, median (true), p90,
            p95, p99, min and max, None where there are too few values. unknown_tokens: turns without a number
            of input or output tokens. actions: {action: {"turns", "seconds"}}.
        """
        from proctor.stats import wilson

        turns = [turn for run in self for turn in run.turns]
        succeeded = sum(run.succeeded() for run in self)
        actions: dict[str, list[float]] = {}
        for turn in turns:
            actions.setdefault(turn.action, []).append(turn.duration_s)
        return {
            "label": label,
            "n_questions": len(self),
            "n_succeeded": succeeded,
            "success_rate": succeeded / len(self) if self else None,
            "success_ci95": to_plain(wilson(succeeded, len(self))),
            "status_counts": _count_statuses(self),
            "n_empty": sum(not (run.status or run.turns or run.n_candidates) for run in self),
            **{name: _summarize(values) for name, values in _measure(self).items()},
            "input_tokens": _summarize([run.total_input_tokens() for run in self]),
            "output_tokens": _summarize([run.total_output_tokens() for run in self]),
            "unknown_tokens": sum(None in (turn.input_tokens, turn.output_tokens) for turn in turns),
            "turn_seconds": _summarize([turn.duration_s for turn in turns]),
            "actions": {
                action: {"turns": len(times), "seconds": fsum(filter(isfinite, times))}
                for action, times in sorted(actions.items())
            },
        }

    def chart(self, *, label: str = "") -> Chart:
        """Draws the share of runs that had ended, and that had succeeded, over the seconds since the start.

        Raises:
            ValueError: there are no runs.
        """
        from proctor.charts import lines

        sorted_runs = sorted(self, key=lambda run: run.wall_seconds)
        if not sorted_runs:
            raise ValueError("There is nothing to draw: there are no runs.")
        successes = [run for run in sorted_runs if run.succeeded()]
        share = f"{len(successes):,} of {len(sorted_runs):,} runs succeeded"
        return lines(
            [
                *_curve_points("ended", [run.wall_seconds for run in sorted_runs], sorted_runs),
                *_curve_points("succeeded", [run.wall_seconds for run in successes], sorted_runs),
            ],
            title=f"{label}: {share}" if label else share,
            x="seconds since the start",
            y="share of runs",
            scale="share",
            steps=True,
        )


def summarize_agent_runs(runs: Iterable[AgentRun], *, label: str = "") -> dict[str, Any]:
    """Returns counts by status, and n, mean, median, min and max of each measure, for JSON.

    Returns:
        label (what the runs are, such as a model's name), n_questions, n_succeeded, status_counts,
        wall_seconds, turns, candidates, tool_calls and tool_format_errors; without runs label, n_questions
        and status_counts alone.
    """
    from proctor.eval.bench.statistics import summarize_metric

    runs = list(runs)
    if not runs:
        return {"label": label, "n_questions": 0, "status_counts": {}}
    return {
        "label": label,
        "n_questions": len(runs),
        "n_succeeded": sum(run.succeeded() for run in runs),
        "status_counts": _count_statuses(runs),
        **{name: summarize_metric(map(float, values)) for name, values in _measure(runs).items()},
    }


def _measure(runs: Sequence[AgentRun]) -> dict[str, list[float]]:
    """Returns the measures of each run, by their names in the summary."""
    return {
        "wall_seconds": [run.wall_seconds for run in runs],
        "turns": [run.n_turns for run in runs],
        "candidates": [run.n_candidates for run in runs],
        "tool_calls": [run.tool_calls() for run in runs],
        "tool_format_errors": [run.tool_format_errors() for run in runs],
    }


def _count_statuses(runs: Sequence[AgentRun]) -> dict[str, int]:
    """Counts the runs of each status, in alphabetical order."""
    return dict(sorted(Counter(run.status for run in runs).items()))


def _value_at(value: Any, path: FieldPath) -> Any:
    """Returns the value at a path; None if there is none."""
    for part in path:
        if isinstance(part, str) and isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(part, int) and isinstance(value, list) and -len(value) <= part < len(value):
            value = value[part]
        else:
            return None
    return value


def _parse_turn(turn: Any, place: int) -> TurnDetail:
    if not isinstance(turn, dict):
        return TurnDetail(turn=place, action="", duration_s=0.0)
    number = parse_number(turn.get("turn") or place, int)
    if number is None:
        raise ValueError(f"Turn {place} has turn={turn['turn']!r}. It must be a whole number.")
    return TurnDetail(
        turn=number,
        action=str(turn.get("action") or ""),
        duration_s=_parse_seconds(
            turn.get("duration") or turn.get("duration_s"), f"duration of turn {place}"
        ),
        input_tokens=parse_number(turn.get("input_tokens"), int),
        output_tokens=parse_number(turn.get("output_tokens"), int),
        extras={name: value for name, value in turn.items() if name not in _TURN_KEYS},
    )


def _parse_seconds(value: Any, name: str) -> float:
    seconds = parse_number(value or 0, float)
    if seconds is None:
        raise ValueError(f"{name} is {value!r}. It must be a number of seconds.")
    if not isfinite(seconds):
        raise ValueError(f"{name} is {value!r}. It must be finite.")
    return round(seconds, 2)


def _curve_points(series: str, times: Sequence[float], runs: Sequence[AgentRun]) -> list[Point]:
    """Returns the points of a cumulative share over seconds; both `times` and `runs` are in order of time."""
    from proctor.charts import Point

    stride = -(-len(times) // _MAX_CURVE_POINTS) or 1
    counts = [*range(stride, len(times), stride), *([len(times)] if times else [])]
    points = [Point(times[count - 1], count / len(runs), series=series) for count in counts]
    end = Point(runs[-1].wall_seconds, len(times) / len(runs), series=series)
    return [Point(0, 0, series=series), *points, end]


def _summarize(measures: Sequence[float]) -> dict[str, Any]:
    """Returns total, mean, interval and percentiles of the finite values."""
    from proctor.eval.bench.statistics import describe
    from proctor.stats import mean_interval

    values = sorted(value for value in measures if isfinite(value))
    spread = describe(values)
    return {
        "n": len(values),
        "total": fsum(values),
        "mean": spread["mean"],
        "ci95": to_plain(mean_interval(values)),
        **{name: spread[name] for name in ("stdev", "median", "p90", "p95", "p99", "min", "max")},
    }

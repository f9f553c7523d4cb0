"""`proctor trajectories`: shows what search loops tried, repeated and reached."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.jsonl_tables import file_labels, open_input, text_table, warn_dropped, write_outputs
from proctor.cli.output_files import check_outputs, output_option
from proctor.errors import ExitCode, NothingSelected
from proctor.reports.document import Table
from proctor.reports.formatting import NONE, percent
from proctor.safe_text import one_line

if TYPE_CHECKING:
    from proctor.eval.trajectory import Trajectory

TrajectoriesByPath = Mapping[str, "Trajectory"]

_MAX_CURVE_WIDTH = 40
_BLOCKS = "▁▂▃▄▅▆▇█"


@click.command("trajectories")
@click.argument("file", nargs=-1, required=True)
@click.option(
    "--score-field",
    metavar="NAME",
    default="val_bpb",
    show_default=True,
    help="Name of the field with the score.",
)
@click.option("--higher-is-better", is_flag=True, help="Higher scores are better, as for accuracy.")
@click.option(
    "--window", type=click.IntRange(1), metavar="N", help="Also show the repeat rate of each N iterations."
)
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    default=10,
    show_default=True,
    help="List at most N knobs and modes.",
)
@click.option("--json", "as_data", is_flag=True, help="Print one JSON object, with all knobs and modes.")
@output_option
def command(
    file: tuple[str, ...],
    score_field: str,
    higher_is_better: bool,
    window: int | None,
    top: int,
    as_data: bool,
    output: tuple[str, ...],
) -> int:
    """Summarize what a search loop tried, repeated and reached.

    FILE (- for stdin) has one line per iteration, such as {"iter": 3, "proposal": {"knob": "lr", "new_value":
    0.1}, "decision": "keep", "val_bpb": 1.31}. The first line may be a header with "baseline_val_bpb".
    Several FILEs appear side by side. Invalid lines are reported and skipped. Exit codes: 4 if a file cannot
    be read, 5 if it has no valid line.

    \b
    proctor trajectories search.jsonl --score-field loss -o search.svg
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(output, inputs=file)
    trajectories = {
        path: _load_trajectory(path, score_field, higher_is_better) for path in dict.fromkeys(file)
    }
    summaries = [
        {"path": path, **trajectory.summary(window=window)} for path, trajectory in trajectories.items()
    ]
    data = {"trajectories": summaries, "exit_code": int(ExitCode.OK)}
    tables = list(_tables(trajectories, window, top))
    write_outputs(output, as_data=as_data, chart=lambda: _chart(trajectories), data=data, tables=tables)
    return ExitCode.OK


def _load_trajectory(path: str, score_field: str, higher_is_better: bool) -> Trajectory:
    from proctor.eval.trajectory import Trajectory

    with open_input(path) as where:
        trajectory = Trajectory.from_jsonl(
            where, score_field=score_field, lower_is_better=not higher_is_better
        )
        fields = "" if trajectory.iters else ", ".join(_numeric_fields(where))
    warn_dropped(path, trajectory.dropped)
    if trajectory.iters:
        return trajectory
    raise NothingSelected(
        f"{path}: error: No line is an iteration with {score_field!r}. "
        + (
            f"Set the field with --score-field. Fields with numbers: {fields}."
            if fields
            else f"Each line needs an `iter` and a `{score_field}`."
        )
    )


def _numeric_fields(path: str) -> list[str]:
    """Returns numeric fields of the iterations, which could be the score, most frequent first."""
    from proctor.eval.jsonl_rows import read_object_rows

    counts: Counter[str] = Counter()
    for _, row in read_object_rows(path, []):
        if "iter" in row:
            numbers = (name for name, value in row.items() if isinstance(value, float | int))
            counts.update(name for name in numbers if not isinstance(row[name], bool))
    return [one_line(name) for name, _ in counts.most_common(9) if name != "iter"][:8]


def _chart(trajectories: TrajectoriesByPath) -> Any:
    if len(trajectories) == 1:
        return next(iter(trajectories.values())).chart()
    from proctor.eval.trajectory import best_chart

    return best_chart(dict(zip(file_labels(trajectories), trajectories.values(), strict=True)))


# --- tables ------------------------------------------------------------------------------------------------


def _tables(trajectories: TrajectoriesByPath, window: int | None, top: int) -> Iterator[Table]:
    names = file_labels(trajectories)
    yield text_table("", ["", *names], _figure_rows(list(trajectories.values())))
    field = one_line(next(iter(trajectories.values())).score_field)
    curves = _draw_curves(list(trajectories.values()))
    yield text_table(f"Best {field} so far", ["", "first", "", "last"], zip(names, *curves, strict=True))
    knobs = sum((Counter(trajectory.knob_coverage()) for trajectory in trajectories.values()), Counter())
    if knobs:
        rows = _knob_rows(trajectories, knobs, top)
        yield text_table(_title("Knobs", len(knobs), top), ["knob", *names], rows)
        yield _mode_table(trajectories, names, top)
    if window is not None:
        rows = _window_rows(list(trajectories.values()), window)
        yield text_table(f"Repeats in each {window} iterations", ["places", *names], rows)


def _figure_rows(trajectories: Sequence[Trajectory]) -> Iterator[list[str]]:
    best = [trajectory.best() for trajectory in trajectories]
    yield ["iterations", *(f"{len(trajectory.iters):,}" for trajectory in trajectories)]
    yield ["baseline", *(_number_text(trajectory.baseline) for trajectory in trajectories)]
    yield [
        "best score",
        *(NONE if trajectory is None else _number_text(trajectory.score) for trajectory in best),
    ]
    yield ["  at iteration", *(NONE if trajectory is None else str(trajectory.iter) for trajectory in best)]
    yield [
        "  by",
        *(
            NONE
            if trajectory is None or not trajectory.knob
            else _proposal_text(trajectory.knob, trajectory.value)
            for trajectory in best
        ),
    ]
    yield ["kept", *(f"{len(trajectory.keeps()):,}" for trajectory in trajectories)]
    yield ["repeat rate", *(percent(trajectory.repeat_rate()) for trajectory in trajectories)]
    yield ["knobs tried", *(f"{len(trajectory.knob_coverage()):,}" for trajectory in trajectories)]
    if any(trajectory.unmeasured() for trajectory in trajectories):
        yield [
            "scores that are not finite",
            *(f"{len(trajectory.unmeasured()):,}" for trajectory in trajectories),
        ]
    for stage in dict.fromkeys(stage for trajectory in trajectories for stage in trajectory.other_stages):
        yield [
            f"rows {one_line(stage)!r}",
            *(f"{trajectory.other_stages.get(stage, 0):,}" for trajectory in trajectories),
        ]
    yield ["dropped lines", *(f"{len(trajectory.dropped):,}" for trajectory in trajectories)]


def _draw_curves(trajectories: Sequence[Trajectory]) -> tuple[list[str], list[str], list[str]]:
    """Returns the first best scores, the curves and the last best scores; all curves share a scale."""
    bests = [
        [score for score in trajectory.cumulative_best() if isfinite(score)] for trajectory in trajectories
    ]
    ends = [(scores[0], scores[-1]) if scores else (None, None) for scores in bests]
    all_scores = [score for scores in bests for score in scores]
    low, high = (min(all_scores), max(all_scores)) if all_scores else (0.0, 0.0)
    width = min(_MAX_CURVE_WIDTH, max(map(len, bests)))
    curves = [_draw_curve(scores, low, high).ljust(width) for scores in bests]
    return [_number_text(first) for first, _ in ends], curves, [_number_text(last) for _, last in ends]


def _draw_curve(scores: Sequence[float], low: float, high: float) -> str:
    """Draws scores as a row of blocks of matching height; long rows are thinned."""
    count = min(_MAX_CURVE_WIDTH, len(scores))
    thinned = (scores[(step + 1) * len(scores) // count - 1] for step in range(count))
    span = high - low
    return "".join(_BLOCKS[round((score / 2 - low / 2) / (span / 2) * 7) if span else 0] for score in thinned)


def _knob_rows(trajectories: TrajectoriesByPath, knobs: Mapping[str, int], top: int) -> Iterator[list[str]]:
    coverage = [trajectory.knob_coverage() for trajectory in trajectories.values()]
    for knob in _most_frequent(knobs, top):
        yield [one_line(knob), *(f"{counts.get(knob, 0):,}" for counts in coverage)]


def _mode_table(trajectories: TrajectoriesByPath, names: Sequence[str], top: int) -> Table:
    from proctor.eval.trajectory import Mode

    modes_by_file = [
        {Mode(row["knob"], row["value"]): row for row in trajectory.modes()}
        for trajectory in trajectories.values()
    ]
    totals: Counter[Mode] = Counter()
    for modes in modes_by_file:
        totals.update({mode: row["n"] for mode, row in modes.items()})
    rows = [
        [
            _proposal_text(*mode),
            *(
                f"{modes[mode]['n']:,} ({percent(modes[mode]['share'])})" if mode in modes else "0"
                for modes in modes_by_file
            ),
        ]
        for mode in _most_frequent(totals, top)
    ]
    return text_table(_title("Modes", len(totals), top), ["knob = value", *names], rows)


def _window_rows(trajectories: Sequence[Trajectory], window: int) -> Iterator[list[str]]:
    windows = [trajectory.repeat_rate(window=window) for trajectory in trajectories]
    longest = max(windows, key=len)
    for index, longest_window in enumerate(longest):
        column_windows = (
            windows_of_file[index] if index < len(windows_of_file) else None for windows_of_file in windows
        )
        last = max(
            windows_of_file[index]["last"] for windows_of_file in windows if index < len(windows_of_file)
        )
        yield [
            f"{longest_window['first']}–{last}",
            *(percent(trajectory["rate"]) if trajectory else NONE for trajectory in column_windows),
        ]


def _most_frequent(counts: Mapping[Any, int], top: int) -> list[Any]:
    return [key for key, _ in Counter(counts).most_common(top)]


def _title(what: str, count: int, top: int) -> str:
    return what if count <= top else f"{what}, the {top} most frequent of {count:,}"


def _number_text(value: float | None) -> str:
    return NONE if value is None else f"{value:.6g}"


def _proposal_text(knob: str, value: Any) -> str:
    text = one_line(f"{knob} = {json.dumps(value, ensure_ascii=False)}")
    return text if len(text) <= 50 else f"{text[:49]}…"

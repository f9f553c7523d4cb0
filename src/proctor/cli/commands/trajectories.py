"""`proctor trajectories`: what search loops tried, repeated and reached."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.jsonl_tables import Table, labels_of, open_input, warn_dropped, write_outputs
from proctor.cli.output_files import check_outputs, output_option
from proctor.errors import ExitCode, NothingSelected
from proctor.reports.formatting import NONE, percent
from proctor.safe_text import one_line

if TYPE_CHECKING:
    from proctor.eval.trajectory.trajectory import Trajectory

Named = Mapping[str, "Trajectory"]

WIDEST_CURVE = 40
_STEPS = "▁▂▃▄▅▆▇█"


@click.command("trajectories")
@click.argument("file", nargs=-1, required=True)
@click.option(
    "--score-field", metavar="NAME", default="val_bpb", show_default=True, help="The field with the score."
)
@click.option("--higher-is-better", is_flag=True, help="A higher score is better, as with accuracy.")
@click.option("--window", type=click.IntRange(1), metavar="N", help="Repeat rate of each N iterations too.")
@click.option(
    "--top",
    type=click.IntRange(1),
    metavar="N",
    default=10,
    show_default=True,
    help="So many knobs and modes.",
)
@click.option("--json", "as_data", is_flag=True, help="Print one JSON object, with every knob and mode.")
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
    """Show what a search loop tried, repeated and reached, from its JSON Lines; several FILEs side by side.

    A line of FILE (- is stdin) is {"iter": 3, "proposal": {"knob": "lr", "new_value": 0.1}, "decision":
    "keep", "val_bpb": 1.31}; the first may be a header with "baseline_val_bpb". Lines that cannot be used
    are told and left out. Exit codes: 4 for a file that cannot be read, 5 for one in which nothing can be
    used.

    \b
    proctor trajectories search.jsonl --score-field loss -o search.svg
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(output, inputs=file)
    named = {path: _read(path, score_field, higher_is_better) for path in dict.fromkeys(file)}
    found = [{"path": path, **one.summary(window=window)} for path, one in named.items()]
    data = {"trajectories": found, "exit_code": int(ExitCode.OK)}
    tables = list(_tables(named, window, top))
    write_outputs(output, as_data=as_data, chart=lambda: _chart(named), data=data, tables=tables)
    return ExitCode.OK


def _read(path: str, score_field: str, higher_is_better: bool) -> Trajectory:
    from proctor.eval.trajectory.trajectory import Trajectory

    with open_input(path) as where:
        found = Trajectory.from_jsonl(where, score_field=score_field, lower_is_better=not higher_is_better)
        fields = "" if found.iters else ", ".join(_fields_of_numbers(where))
    warn_dropped(path, found.dropped)
    if found.iters:
        return found
    raise NothingSelected(
        f"{path}: error: No iteration with a {score_field!r} is in it. "
        + (
            f"Name the field with --score-field; these have numbers: {fields}."
            if fields
            else f"Each line needs an `iter` and a `{score_field}`."
        )
    )


def _fields_of_numbers(path: str) -> list[str]:
    """Fields of the iterations that could be the score, the most frequent first."""
    from proctor.eval.jsonl_rows import objects_of

    counts: Counter[str] = Counter()
    for _, row in objects_of(path, []):
        if "iter" in row:
            numbers = (name for name, value in row.items() if isinstance(value, float | int))
            counts.update(name for name in numbers if not isinstance(row[name], bool))
    return [one_line(name) for name, _ in counts.most_common(9) if name != "iter"][:8]


def _chart(named: Named) -> Any:
    if len(named) == 1:
        return next(iter(named.values())).chart()
    from proctor.eval.trajectory.charts import best_chart

    return best_chart(dict(zip(labels_of(named), named.values(), strict=True)))


# --- tables ------------------------------------------------------------------------------------------------


def _tables(named: Named, window: int | None, top: int) -> Iterator[Table]:
    names = labels_of(named)
    yield Table("", [["", *names], *_figures(list(named.values()))])
    field = one_line(next(iter(named.values())).score_field)
    curves = _curves(list(named.values()))
    yield Table(
        f"Best {field} so far", [["", "first", "", "last"], *map(list, zip(names, *curves, strict=True))]
    )
    knobs = sum((Counter(one.knob_coverage()) for one in named.values()), Counter())
    if knobs:
        yield Table(_title("Knobs", len(knobs), top), [["knob", *names], *_knobs(named, knobs, top)])
        yield _modes(named, names, top)
    if window is not None:
        rows = list(_windows(list(named.values()), window))
        yield Table(f"Repeats in each {window} iterations", [["places", *names], *rows])


def _figures(all_of: Sequence[Trajectory]) -> Iterator[list[str]]:
    best = [one.best() for one in all_of]
    yield ["iterations", *(f"{len(one.iters):,}" for one in all_of)]
    yield ["baseline", *(_number(one.baseline) for one in all_of)]
    yield ["best score", *(NONE if one is None else _number(one.score) for one in best)]
    yield ["  at iteration", *(NONE if one is None else str(one.iter) for one in best)]
    yield ["  by", *(NONE if one is None or not one.knob else _proposal(one.knob, one.value) for one in best)]
    yield ["kept", *(f"{len(one.keeps()):,}" for one in all_of)]
    yield ["repeat rate", *(percent(one.repeat_rate()) for one in all_of)]
    yield ["knobs tried", *(f"{len(one.knob_coverage()):,}" for one in all_of)]
    if any(one.unmeasured() for one in all_of):
        yield ["scores that are not finite", *(f"{len(one.unmeasured()):,}" for one in all_of)]
    for stage in dict.fromkeys(stage for one in all_of for stage in one.other_stages):
        yield [f"rows {one_line(stage)!r}", *(f"{one.other_stages.get(stage, 0):,}" for one in all_of)]
    yield ["dropped lines", *(f"{len(one.dropped):,}" for one in all_of)]


def _curves(all_of: Sequence[Trajectory]) -> tuple[list[str], list[str], list[str]]:
    """The first best of each, its curve and its last; all curves are drawn on one scale."""
    bests = [[score for score in one.cumulative_best() if isfinite(score)] for one in all_of]
    ends = [(scores[0], scores[-1]) if scores else (None, None) for scores in bests]
    known = [score for scores in bests for score in scores]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    width = min(WIDEST_CURVE, max(map(len, bests)))
    curves = [_curve(scores, low, high).ljust(width) for scores in bests]
    return [_number(first) for first, _ in ends], curves, [_number(last) for _, last in ends]


def _curve(scores: Sequence[float], low: float, high: float) -> str:
    """Scores as a row of blocks, the highest score as the highest block; long rows are thinned."""
    count = min(WIDEST_CURVE, len(scores))
    shown = (scores[(place + 1) * len(scores) // count - 1] for place in range(count))
    span = high - low
    return "".join(_STEPS[round((score / 2 - low / 2) / (span / 2) * 7) if span else 0] for score in shown)


def _knobs(named: Named, knobs: Mapping[str, int], top: int) -> Iterator[list[str]]:
    coverage = [one.knob_coverage() for one in named.values()]
    for knob in _most(knobs, top):
        yield [one_line(knob), *(f"{counts.get(knob, 0):,}" for counts in coverage)]


def _modes(named: Named, names: Sequence[str], top: int) -> Table:
    from proctor.eval.trajectory.rows import Mode

    counted = [{Mode(row["knob"], row["value"]): row for row in one.modes()} for one in named.values()]
    totals: Counter[Mode] = Counter()
    for modes in counted:
        totals.update({mode: row["n"] for mode, row in modes.items()})
    rows = [
        [
            _proposal(*mode),
            *(
                f"{modes[mode]['n']:,} ({percent(modes[mode]['share'])})" if mode in modes else "0"
                for modes in counted
            ),
        ]
        for mode in _most(totals, top)
    ]
    return Table(_title("Modes", len(totals), top), [["knob = value", *names], *rows])


def _windows(all_of: Sequence[Trajectory], window: int) -> Iterator[list[str]]:
    parts = [one.repeat_rate(window=window) for one in all_of]
    longest = max(parts, key=len)
    for place, part in enumerate(longest):
        there = (parts_of[place] if place < len(parts_of) else None for parts_of in parts)
        last = max(parts_of[place]["last"] for parts_of in parts if place < len(parts_of))
        yield [f"{part['first']}–{last}", *(percent(one["rate"]) if one else NONE for one in there)]


def _most(counts: Mapping[Any, int], top: int) -> list[Any]:
    return [one for one, _ in Counter(counts).most_common(top)]


def _title(what: str, count: int, top: int) -> str:
    return what if count <= top else f"{what}, the {top} most frequent of {count:,}"


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.6g}"


def _proposal(knob: str, value: Any) -> str:
    written = one_line(f"{knob} = {json.dumps(value, ensure_ascii=False)}")
    return written if len(written) <= 50 else f"{written[:49]}…"

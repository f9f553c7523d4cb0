"""`proctor bench`: shows latencies and metrics of recorded calls, several files side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.echo import echo
from proctor.cli.jsonl_tables import file_labels, open_input, text_table, warn_dropped, write_outputs
from proctor.cli.output_files import check_outputs, output_option
from proctor.errors import ExitCode, NothingSelected, UsageError
from proctor.reports.document import Table
from proctor.reports.formatting import NONE, seconds
from proctor.safe_text import one_line

if TYPE_CHECKING:
    from proctor.charts import Chart
    from proctor.eval.bench.bench import Bench
    from proctor.eval.bench.tables import LabelledStatistics


@click.command("bench")
@click.argument("file", nargs=-1, required=True)
@click.option("--by", metavar="TAG", help="Show each value of this tag separately.")
@click.option("--metric", multiple=True, metavar="NAME", help="Only this metric. May be repeated.")
@click.option("--json", "as_data", is_flag=True, help="Print one JSON object, with all percentiles.")
@output_option
def command(
    file: tuple[str, ...], by: str | None, metric: tuple[str, ...], as_data: bool, output: tuple[str, ...]
) -> int:
    """Summarize latencies and metrics of recorded calls, with 95 % intervals.

    Several FILEs appear side by side. FILE (- for stdin) is a dump of a Bench, its partial file, an exported
    run, or JSON Lines with one call per line, such as {"latency_ms": 81.5, "success": true, "accuracy": 1,
    "tags": {"variant": "small"}}. The numbers are over successful calls; each metric is also shown with
    failed calls counted as 0. Invalid lines are reported and skipped. Exit codes: 4 if a file cannot be read,
    5 if it has no valid line.

    \b
    proctor bench small.json large.json --by kind --metric accuracy -o kinds.svg
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(output, inputs=file)
    benches = {path: _load_bench(path) for path in dict.fromkeys(file)}
    labelled = _select_metrics(_labelled_statistics(benches, by), metric)
    data = {
        "benches": [_to_data(path, bench, by, metric) for path, bench in benches.items()],
        "exit_code": int(ExitCode.OK),
    }
    tables = [_files_table(benches), *_metric_tables(labelled)]
    write_outputs(
        output, as_data=as_data, chart=lambda: _chart(labelled, benches, metric), data=data, tables=tables
    )
    return ExitCode.OK


def _load_bench(path: str) -> Bench:
    from proctor.eval.bench.bench import Bench

    with open_input(path) as where:
        bench = Bench.load(where)
    warn_dropped(path, bench.dropped)
    if not bench.calls:
        raise NothingSelected(f"{path}: error: The file has no calls: no line has a `latency_ms`.")
    cases = [(call.tags.get("run"), call.tags["case_id"]) for call in bench.calls if "case_id" in call.tags]
    if len(set(map(str, cases))) < len(cases):
        echo(
            f"{path}: warning: Some cases have several answers. The intervals treat them as "
            "independent, and are too narrow if they are not. `proctor passk` computes intervals over "
            "cases.",
            err=True,
        )
    return bench


def _labelled_statistics(benches: dict[str, Bench], by: str | None) -> LabelledStatistics:
    """Returns the statistics of each file, or of each group of its calls, with labels."""
    labels = file_labels(benches)
    if by is None:
        return [(label, bench.statistics()) for label, bench in zip(labels, benches.values(), strict=True)]
    groups_by_label = []
    for label, (path, bench) in zip(labels, benches.items(), strict=True):
        try:
            groups = bench.statistics(by=by)
        except ValueError as error:
            raise UsageError(f"{path}: error: {error}") from None
        before = f"{label} · " if len(benches) > 1 else ""
        groups_by_label += [
            (one_line(f"{before}{group}"), statistics) for group, statistics in groups.items()
        ]
    return groups_by_label


def _select_metrics(labelled: LabelledStatistics, metrics: Sequence[str]) -> LabelledStatistics:
    from proctor.eval.bench.tables import list_metrics

    metric_names = list_metrics(labelled)
    for name in metrics:
        if name not in metric_names:
            names_text = ", ".join(map(one_line, metric_names))
            raise UsageError(f"No call has the metric {name!r}. Available metrics: {names_text}.")
    selected = metrics or metric_names
    return [
        (label, {name: statistics[name] for name in selected if name in statistics})
        for label, statistics in labelled
    ]


def _to_data(path: str, bench: Bench, by: str | None, metrics: Sequence[str]) -> dict[str, Any]:
    from proctor.eval.json_files import to_plain

    def rows(labelled: LabelledStatistics) -> dict[str, Any]:
        return {
            label: {
                name: metric.to_dict()
                for name, metric in statistics.items()
                if not metrics or name in metrics
            }
            for label, statistics in labelled
        }

    data: dict[str, Any] = to_plain(
        {
            "path": path,
            "name": bench.name,
            "calls": len(bench.calls),
            "failed": _count_failed(bench),
            "wall_seconds": bench.wall_seconds or None,
            "statistics": rows([("", bench.statistics())])[""],
            "by": by,
            "groups": None if by is None else rows(list(bench.statistics(by=by).items())),
            "dropped": bench.dropped,
        }
    )
    return data


def _count_failed(bench: Bench) -> int:
    return sum(not call.success for call in bench.calls)


def _files_table(benches: dict[str, Bench]) -> Table:
    rows = [
        [
            one_line(path),
            one_line(bench.name),
            f"{len(bench.calls):,}",
            f"{_count_failed(bench):,}",
            seconds(bench.wall_seconds) if bench.wall_seconds else NONE,
            f"{len(bench.dropped):,}",
        ]
        for path, bench in benches.items()
    ]
    return text_table("", ["file", "bench", "calls", "failed", "took", "dropped lines"], rows)


def _metric_tables(labelled: LabelledStatistics) -> Iterator[Table]:
    """Yields one table of all metrics, or one for each metric if several files or groups are compared."""
    from proctor.eval.bench.tables import column_names, format_cells, list_metrics

    head = column_names(labelled)
    if len(labelled) == 1:
        (_, statistics) = labelled[0]
        rows = [[one_line(name), *format_cells(metric, labelled)] for name, metric in statistics.items()]
        yield text_table("", ["metric", *head], rows)
        return
    for name in list_metrics(labelled):
        rows = [
            [label, *format_cells(statistics[name], labelled)]
            for label, statistics in labelled
            if name in statistics
        ]
        yield text_table(one_line(name), ["", *head], rows)


def _chart(labelled: LabelledStatistics, benches: dict[str, Bench], metrics: Sequence[str]) -> Chart:
    from proctor.eval.bench.tables import draw_chart

    title = one_line(next(iter(benches.values())).name) if len(benches) == 1 else "Benches"
    return draw_chart(labelled, metrics, title=title)

"""`proctor drift`: shows how the answers of a target to one suite changed over time."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.echo import echo_err
from proctor.cli.options import cluster_option, open_store, store_option
from proctor.cli.output_files import check_outputs, draw_svg, file_ending, output_option, print_and_write
from proctor.reports.document import render_markdown, render_terminal
from proctor.reports.drift.report import DriftReport, document_for
from proctor.reports.formatting import to_json
from proctor.services.analysis.drift import DriftQuery, DriftRequest, parse_moment
from proctor.services.progress_lines import progress_reporter

_MAX_RUNS = 24
"""At most this many runs are listed on a terminal."""


@click.command("drift")
@click.argument("suite", required=False)
@click.option("-t", "--target", metavar="T", help="Name of the target in the runs.")
@click.option("--prompt", metavar="NAME", help="Name of the prompt, if the runs used several.")
@click.option(
    "--since", metavar="TIME", help="Only runs since then: a date, or a time ago such as 12h, 30d or 8w."
)
@click.option("--until", metavar="TIME", help="Only runs until then.")
@click.option("--baseline", metavar="RUN", help="Compare with this run (id or tag) instead of the first.")
@cluster_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all runs.")
@output_option
@store_option
def command(
    since: str | None,
    until: str | None,
    as_json: bool,
    output: tuple[str, ...],
    store: str | None,
    **choice: str | None,
) -> int:
    """Show how the answers of a target to SUITE changed over time, from stored runs.

    SUITE is a file, NAME, NAME@v2 or sha256:…. A file that you changed counts as another suite. You can leave
    out SUITE and --target if only one suite has several runs on one target. No request is sent. The answers
    of each run are compared with those of the first and of the previous run. If at least 95 % are identical,
    the target is `stable`, else `watch`. It is `drifting` if less than 80 % are identical and repeats (`run
    --repeat 2`) show that this is not noise. The verdicts are compared with a test that stays valid if you
    run it every day. Fewer passed cases are `drifting` even if the answers are the same, or `watch` if one
    bad night could explain them.

    Exit codes: 0 stable, watch or noisy, 1 drifting, 3 last run not measured, 5 fewer than two runs.

    \b
    proctor drift my_suite.jsonl --target openai:gpt-5.2
    proctor drift my_suite --target production --since 30d -o drift.svg
    proctor drift my_suite@v2 --target production --baseline release-4
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(output)
    now = datetime.now(UTC)
    request = DriftRequest(
        since=None if since is None else parse_moment(since, now),
        until=None if until is None else parse_moment(until, now, ends=True),
        **choice,
    )
    with open_store(store, must_exist=True) as run_store:
        query = DriftQuery(run_store, os.environ, load_cli_config())
        report = query.read(query.find(request), progress_reporter(echo_err, "runs read"))
    print_and_write(
        output,
        render_file=lambda path: _render_file(path, report),
        render_text=lambda: render_terminal(document_for(report, _MAX_RUNS)),
        render_json=(lambda: _render_json(report)) if as_json else None,
    )
    return report.drift.exit_code


def _render_file(path: str, report: DriftReport) -> str:
    """Returns a report in the format of the file's ending."""
    from proctor.reports.drift.chart import draw_chart

    ending = file_ending(path)
    if ending == ".svg":
        return draw_svg(lambda: draw_chart(report))
    return _render_json(report) if ending == ".json" else "".join(render_markdown(document_for(report)))


def _render_json(report: DriftReport) -> str:
    from proctor.reports.drift.json import to_dict

    return to_json(to_dict(report)) + "\n"

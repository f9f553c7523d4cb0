"""`proctor plan`: how many cases and repeats a comparison takes, and what a suite can show."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import click

from proctor.cli.config_defaults import load_cli_config
from proctor.cli.echo import echo_err
from proctor.cli.number_ranges import ShareRange
from proctor.cli.options import cluster_option, open_store, store_location, store_option
from proctor.cli.output_files import check_outputs, file_ending, print_and_write

_ENDINGS = (".json", ".md")


@click.command("plan")
@click.argument("suite")
@click.option(
    "--detect",
    type=ShareRange(0, 1, min_open=True),
    default="5pp",
    show_default=True,
    metavar="X",
    help="Difference between two pass rates to detect: 5pp, 5% or 0.05.",
)
@click.option(
    "--power",
    type=ShareRange(0, 1, min_open=True, max_open=True),
    default=0.8,
    show_default=True,
    metavar="X",
    help="Probability of detecting it.",
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 1000),
    multiple=True,
    metavar="N",
    help="Plan for N repeats of each case. May be repeated.  [default: 1 2 3 5 10]",
)
@click.option("--against", metavar="RUN", help="Run to compare with (id or tag), instead of the newest.")
@cluster_option
@click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="Also write the result to FILE, which ends in .json or .md. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@store_option
def command(suite: str, output: tuple[str, ...], store: str | None, **options: Any) -> int:
    """Estimate how many cases and repeats you need to detect a difference between two runs of SUITE.

    SUITE is a file, NAME or NAME@v2. The noise between two runs and their cost are estimated from the stored
    runs of the suite, without held-out cases. If there are none, a cautious level of noise is assumed.
    Related cases count by cluster, as in the runs or the suite. No request is sent.

    The first sentence gives the number of cases that you need. The table gives, for each number of repeats,
    the smallest true difference that this suite detects with the probability of --power.

    \b
    proctor plan my_suite.jsonl --detect 5pp
    proctor plan my_suite.jsonl --detect 2pp --power 0.9 --repeats 1 --repeats 4 --against baseline
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(output, endings=_ENDINGS, charts=False)
    from proctor.reports.document import render_markdown, render_terminal
    from proctor.reports.study.json import render as render_json
    from proctor.reports.study.report import document_for
    from proctor.services.analysis.study_size import StudyQuery, StudyRequest
    from proctor.services.progress_lines import progress_reporter

    request = StudyRequest(
        suite=suite,
        difference=options["detect"],
        power=options["power"],
        repeats=tuple(sorted(set(options["repeats"]))),
        against=options["against"],
        cluster=options["cluster"],
    )
    location = store_location(store)
    has_runs = location.exists() and not location.is_empty()
    with open_store(store) if has_runs else nullcontext() as run_store:
        query = StudyQuery(run_store, os.environ, load_cli_config())
        report = query.plan(request, progress_reporter(echo_err, "runs read"))

    def render_file(path: str) -> str:
        return (
            render_json(report)
            if file_ending(path) == ".json"
            else "".join(render_markdown(document_for(report)))
        )

    print_and_write(
        output,
        render_file=render_file,
        render_text=lambda: render_terminal(document_for(report)),
        render_json=(lambda: render_json(report)) if options["as_json"] else None,
    )
    return 0

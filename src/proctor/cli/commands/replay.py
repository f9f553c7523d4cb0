"""`proctor replay`: runs a bundle's cases again, and compares the answers with the bundle's."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from proctor.cli.bundle_options import bundle_options, check_bundle_exists, get_import_options
from proctor.cli.echo import echo
from proctor.cli.number_ranges import NumberRange
from proctor.cli.options import (
    concurrency_option,
    max_answer_bytes_option,
    open_store,
    retries_option,
    store_location,
    store_option,
    timeout_option,
)
from proctor.cli.output_files import check_outputs, file_ending, print_and_write
from proctor.cli.run_and_report import run_session
from proctor.errors import ExitCode
from proctor.model import Settings
from proctor.reports import replay as replay_report
from proctor.reports.document import render_markdown, render_terminal
from proctor.reports.formatting import to_json
from proctor.services.bundles.import_records import describe_signatures
from proctor.services.bundles.replay import ReplayOptions, ReplayPlan, compare_with_bundle, plan_replay
from proctor.services.progress import Progress
from proctor.services.runs.execution.session import RunSession

_CALL_OPTIONS = ("concurrency", "timeout_s", "retries", "max_answer_bytes", "budget_usd")
_MAX_NAMES = 20
"""Maximum number of trials that a line names."""


@click.command("replay")
@click.argument("bundle")
@click.option("-t", "--target", "--model", "target", required=True, metavar="T", help="The target to run.")
@click.option("--judge", "judges", multiple=True, metavar="T", help="The judge to use. May be repeated.")
@click.option(
    "--split",
    type=click.Choice(["dev", "holdout", "all"]),
    help="Only this part of the cases.  [default: all]",
)
@concurrency_option(32)
@timeout_option
@retries_option
@max_answer_bytes_option
@click.option(
    "--budget-usd", type=NumberRange(0, min_open=True), metavar="X", help="Maximum cost, in US dollars."
)
@bundle_options
@store_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write the result to FILE, which ends in .json or .md. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only.")
def command(bundle: str, **options: Any) -> int:
    """Run the cases of BUNDLE again, and compare answers and verdicts.

    The bundle is verified first. The suite, selection, repeats, temperature, seed and answer limit are those
    of the bundle; you choose the target and the judges. The answers are stored as a run. Exit codes: 0 if all
    verdicts are the same, 1 if one changed, 3 if a case got none.

    \b
    proctor replay release.zip --target openai:gpt-5.2
    proctor replay release.zip --target local --split dev -o again.md
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(options["outputs"], endings=(".json", ".md"))
    settings = Settings(**{name: options[name] for name in _CALL_OPTIONS})
    replay_options = ReplayOptions(
        target=options["target"], judges=options["judges"], split=options["split"], settings=settings
    )
    return _replay(bundle, replay_options, options)


def _replay(bundle: str, replay_options: ReplayOptions, options: dict[str, Any]) -> int:
    plain = not options["as_json"] and not options["quiet"]
    check_bundle_exists(bundle)
    import_options = get_import_options(options, judged=bool(replay_options.judges))
    progress = Progress(quiet=options["quiet"], write_line=lambda _line: None)
    try:
        with open_store(options["store"], writes=True) as store:
            plan = plan_replay(store, Path(bundle), import_options, replay_options, progress.notify)
            session = RunSession(store, os.environ, progress, folder=store_location(options["store"]).folder)
            with nullcontext() if plain else redirect_stdout(sys.stderr):
                (finished,) = run_session(session, plan.request, progress)
            if finished.run.status != "finished":
                if finished.run.stopped:
                    echo(f"proctor: error: {finished.run.stopped}", err=True)
                echo(
                    f"Stopped. The answers so far are stored as run {finished.run.id}, but not compared.",
                    err=True,
                )
                return ExitCode.NOT_MEASURED if finished.run.stopped else ExitCode.INTERRUPTED
            replay = _to_report(bundle, plan, finished.run.id, compare_with_bundle(store, plan, finished.run))
    finally:
        progress.close()
    print_and_write(
        options["outputs"],
        render_file=lambda path: _render_file(path, replay),
        render_text=lambda: render_terminal(replay_report.document_for(replay, _MAX_NAMES)) if plain else (),
        render_json=(lambda: to_json(replay_report.to_dict(replay))) if options["as_json"] else None,
    )
    return replay.comparison.exit_code


def _render_file(path: str, replay: replay_report.ReplayReport) -> str:
    """Returns a report in the format of the file's ending."""
    if file_ending(path) == ".json":
        return to_json(replay_report.to_dict(replay)) + "\n"
    return "".join(render_markdown(replay_report.document_for(replay)))


def _to_report(bundle: str, plan: ReplayPlan, run_id: str, result: Any) -> replay_report.ReplayReport:
    statement = plan.verification.statement
    return replay_report.ReplayReport(
        bundle=bundle,
        run=statement.run,
        target=statement.target_title,
        suite=statement.suite.name,
        signature_status=plan.verification.standing,
        signature=describe_signatures(plan.verification),
        replay_run=run_id,
        replay_target=str(plan.request.targets[0]),
        notes=plan.notes,
        comparison=result,
    )

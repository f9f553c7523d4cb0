"""`proctor replay`: a bundle's questions asked again, and the answers held against its own."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from proctor.cli.bundle_options import bundle_options, wants_of
from proctor.cli.echo import say, say_json
from proctor.cli.options import (
    Number,
    max_answer_bytes_option,
    open_store,
    show,
    store_location,
    store_option,
)
from proctor.cli.output_files import check_outputs, ending_of, write_output
from proctor.cli.progress import Progress
from proctor.cli.run_and_report import run_session
from proctor.errors import ExitCode
from proctor.model import Settings
from proctor.reports import replay as replayed
from proctor.reports.formatting import as_json
from proctor.services.bundles.import_records import standing_in_words
from proctor.services.bundles.replay import Asking, Who, asking, compared
from proctor.services.runs.execution.session import Session

_ENDINGS = (".json", ".md")
_CALLS = ("concurrency", "timeout_s", "retries", "max_answer_bytes", "budget_usd")


@click.command("replay")
@click.argument("bundle")
@click.option("-t", "--target", "--model", "target", required=True, metavar="T", help="Whom to ask now.")
@click.option("--judge", "judges", multiple=True, metavar="T", help="Who judges now. May be repeated.")
@click.option(
    "--split",
    type=click.Choice(["dev", "holdout", "all"]),
    help="Only this part of what the bundle's run asked.  [default: all of it]",
)
@click.option(
    "--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Most calls at once."
)
@click.option("--timeout", "timeout_s", type=Number(0, min_open=True), default=120.0, metavar="S")
@click.option("--retries", type=click.IntRange(0), default=4, show_default=True)
@max_answer_bytes_option
@click.option("--budget-usd", type=Number(0, min_open=True), metavar="X", help="What it may cost.")
@bundle_options
@store_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write FILE; ends in .json or .md. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only.")
def command(bundle: str, **given: Any) -> int:
    """Ask the questions of BUNDLE again, and tell which answers and verdicts are the same.

    The bundle is verified first. Its suite, selection, repeats, temperature, seed and longest answer are as
    they were; whom to ask is yours to say. The answers are stored as a run. Exit code: 0 when every verdict
    is what it was, 1 when one changed, 3 when one could not be had.

    \b
    proctor replay release.zip --target openai:gpt-5.2
    proctor replay release.zip --target local --split dev -o again.md
    """  # noqa: D301  # click wants the character \b itself
    check_outputs(given["outputs"], endings=_ENDINGS)
    settings = Settings(**{name: given[name] for name in _CALLS})
    who = Who(target=given["target"], judges=given["judges"], split=given["split"], settings=settings)
    return _replay(bundle, who, given)


def _replay(bundle: str, who: Who, given: dict[str, Any]) -> int:
    plain = not given["as_json"] and not given["quiet"]
    wants = wants_of(given, judged=bool(who.judges))
    progress = Progress(quiet=given["quiet"], say=lambda _line: None)
    try:
        with open_store(given["store"], writes=True) as store:
            asked = asking(store, Path(bundle), wants, who, progress.tell)
            session = Session(store, os.environ, progress, folder=store_location(given["store"]).folder)
            with nullcontext() if plain else redirect_stdout(sys.stderr):
                (done,) = run_session(session, asked.request, progress)
            if done.run.status != "finished":
                if done.run.stopped:
                    say(f"proctor: error: {done.run.stopped}", err=True)
                say(f"Stopped: what was answered is kept as run {done.run.id}, and not compared.", err=True)
                return ExitCode.NOT_MEASURED if done.run.stopped else ExitCode.INTERRUPTED
            replay = _told(bundle, asked, done.run.id, compared(store, asked, done.run))
    finally:
        progress.close()
    if plain:
        show(replayed.lines(replay))
    if given["as_json"]:
        say_json(as_json(replayed.data(replay)))
    for path in given["outputs"]:
        whole = ending_of(path) == ".json"
        text = as_json(replayed.data(replay)) + "\n" if whole else "".join(replayed.markdown(replay))
        write_output(path, text)
    return replay.found.exit_code


def _told(bundle: str, asked: Asking, again: str, found: Any) -> replayed.Replay:
    statement = asked.verified.statement
    return replayed.Replay(
        bundle=bundle,
        run=statement.run,
        target=statement.target.name,
        suite=statement.suite.name,
        standing=asked.verified.standing,
        signed=standing_in_words(asked.verified),
        again=again,
        target_now=asked.request.targets[0],
        notes=asked.notes,
        found=found,
    )

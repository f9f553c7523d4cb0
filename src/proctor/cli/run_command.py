"""`proctor run`: the main job."""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from itertools import chain
from typing import Any

import click
from click.core import ParameterSource

from proctor.cli.options import open_store, show, store_option, store_path
from proctor.cli.progress import Progress
from proctor.cli.saying import say, say_json
from proctor.errors import ExitCode, SuiteError
from proctor.model import Params, Selection, Settings
from proctor.reports import console, json
from proctor.reports.problems import lines_of
from proctor.reports.rows import Reported
from proctor.session import events
from proctor.session.jobs import Request
from proctor.session.reporting import check_endings, reported, write
from proctor.session.run import Session
from proctor.verdicts import worst

_OPTIONAL_VALUES = {"--resume": "", "--keep-workspaces": "all"}
"""Flags whose value may be left out, and what that stands for."""


class _RunCommand(click.Command):
    """Knows which flags take a value only with `=`, so that `--resume SUITE` names a suite."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        plain = [f"{word}={_OPTIONAL_VALUES[word]}" if word in _OPTIONAL_VALUES else word for word in args]
        return super().parse_args(ctx, plain)


_FIXED = {
    "targets": "--target",
    "judges": "--judge",
    "temperature": "--temperature",
    "seed": "--seed",
    "max_tokens": "--max-tokens",
    "dialect": "--dialect",
    "repeats": "--repeat",
    "split": "--split",
    "tags": "--tag",
    "exclude_tags": "--exclude-tag",
    "categories": "--category",
    "ids": "--id",
    "limit": "--limit",
}
"""What a stored run has decided already."""
_SETTINGS = (
    *("repeats", "concurrency", "timeout_s", "retries", "threshold", "min_pass_rate", "allow_errors"),
    *("judge_repeats", "cache", "budget_usd", "keep_workspaces"),
)
"""Flags whose values are those of `Settings`."""
_SHARE = click.FloatRange(0, 1)
_OPTIONS: list[Callable[[Any], Any]] = [
    click.argument("suite", nargs=-1),
    click.option(
        "--suite", "--tier", "more_suites", multiple=True, metavar="SUITE", help="The same as SUITE."
    ),
    click.option(
        "-t",
        "--target",
        "--model",
        "targets",
        multiple=True,
        metavar="T",
        help="Whom to ask: a name in targets.yaml, or such as local, openai:gpt-5.2, command:'./ask.sh'. "
        "May be repeated. Without it, those that the suite names, else `default` of targets.yaml.",
    ),
    click.option(
        "--judge",
        "judges",
        multiple=True,
        metavar="T",
        help="Whom graders ask that need a judge. May be repeated. Without it, the grader's own judge, else "
        "the target's, else the target itself.",
    ),
    click.option(
        "--judge-repeat",
        "judge_repeats",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        metavar="N",
        help="Ask each judge so often; the majority decides.",
    ),
    click.option(
        "--repeat", "repeats", type=click.IntRange(1), help="Ask every case so often.  [default: 1]"
    ),
    click.option(
        "--concurrency", type=click.IntRange(1), default=32, show_default=True, help="Most calls at once."
    ),
    click.option(
        "--split",
        type=click.Choice(["dev", "holdout", "all"]),
        default="all",
        show_default=True,
        help="Cases.",
    ),
    click.option(
        "--tag", "tags", multiple=True, help="Only cases with this tag. May be repeated: any of them."
    ),
    click.option("--exclude-tag", "exclude_tags", multiple=True, help="No case with this tag."),
    click.option("--category", "categories", multiple=True, help="Only cases of this category."),
    click.option("--id", "ids", multiple=True, metavar="GLOB", help="Only cases whose id matches."),
    click.option("--limit", type=click.IntRange(1), help="At most so many cases."),
    click.option("--temperature", type=click.FloatRange(0), default=0.0, show_default=True),
    click.option("--seed", type=int, default=42, show_default=True, help="Repeat r asks with seed + r."),
    click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens."),
    click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(0, min_open=True),
        default=120.0,
        show_default=True,
        metavar="S",
        help="What one call may take, in seconds.",
    ),
    click.option(
        "--retries",
        type=click.IntRange(0),
        default=4,
        show_default=True,
        help="How often a call is repeated after 408, 409, 429, 5xx or a lost connection.",
    ),
    click.option(
        "--cache/--no-cache",
        help="Take answers from the cache where the same was asked before, and keep new ones there.",
    ),
    click.option(
        "--budget-usd",
        type=click.FloatRange(0, min_open=True),
        metavar="X",
        help="What a run may cost, in US dollars; then nobody is asked any more.",
    ),
    click.option(
        "--keep-workspaces",
        type=click.Choice(["none", "failed", "all"]),
        metavar="[=none|failed|all]",
        default="failed",
        show_default=True,
        help="Of which trials the workspaces stay on disk; without a value, of all.",
    ),
    click.option("--threshold", type=_SHARE, help="A case passes at this weighted score."),
    click.option(
        "--min-pass-rate", type=_SHARE, help="The gate: exit 0 if at least this share passes, else 1."
    ),
    click.option(
        "--allow-errors",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        metavar="N",
        help="So many trials may be ERROR or UNSCORED without exit code 3.",
    ),
    click.option(
        "--resume",
        metavar="[=RUN]",
        help="Make what is missing of a run that was cut short; without RUN, of the newest one that fits.",
    ),
    click.option(
        "--retry-errors", metavar="RUN", help="A new run that asks again only what went wrong in RUN."
    ),
    click.option(
        "--dialect", metavar="D", help="The suite's dialect, instead of finding it from the content."
    ),
    store_option,
    click.option(
        "-o",
        "--output",
        "outputs",
        multiple=True,
        metavar="FILE",
        help="Write the results to FILE: .json .jsonl .csv .md, or .xml for JUnit. May be repeated.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout."),
    click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only."),
]


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command("run", cls=_RunCommand)
@_with_options
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Run every SUITE against every target: ask, grade, store, report.

    SUITE is a file (YAML, JSON Lines or CSV), a folder of such files, the name of a file in suites/, or a
    built-in tier: cheap (10 cases), moderate (25), comprehensive (75).

    \b
    proctor run cheap --target local
    proctor run my_suite.jsonl --target openai:gpt-5.2 --judge anthropic:claude-sonnet-4-6
    proctor run suites/ --target ollama:llama3.2 --min-pass-rate 0.9 -o junit.xml
    """  # noqa: D301  # click wants the character \b itself
    check_endings(given["outputs"])
    plain = not given["as_json"] and not given["quiet"]
    progress = Progress(quiet=given["quiet"], say=_say_apart if plain else lambda _line: None)
    try:
        with open_store(given["store"]) as store:
            session = Session(store, os.environ, progress, folder=store_path(given["store"]).parent)
            # What a function of the user's prints is no part of a report.
            with nullcontext() if plain else redirect_stdout(sys.stderr):
                done = _run(session, _request(ctx, given), progress)
            runs = []
            for one in done:
                runs.append(reported(store, one.run, one.tally))
                if plain:
                    show(chain([""] * (len(runs) > 1), console.lines(runs[-1])))
                _tell_of_rest(runs[-1], given["store"])
            if plain and len(runs) > 1:
                show(chain([""], console.together(runs)))
            for path in given["outputs"]:
                write(path, runs)
    except SuiteError as error:
        return _refuse(error, as_json=given["as_json"])
    finally:
        progress.close()
    if given["as_json"]:
        say_json(json.summary(runs))
    if session.not_begun:
        say(f"Not begun: {', '.join(session.not_begun)}.", err=True)
        return ExitCode.INTERRUPTED
    return worst(run.exit_code for run in runs)


def _say_apart(line: str) -> None:
    say(line + "\n")


def _tell_of_rest(run: Reported, given_store: str | None) -> None:
    """How to go on with a run that was stopped."""
    if run.run.status == "interrupted":
        store = f" --store {shlex.quote(given_store)}" if given_store else ""
        kept = run.tally.all.total
        say(
            f"Stopped: {kept:,} of {run.run.planned:,} trials are kept. "
            f"Continue with: proctor run --resume={run.run.id}{store}",
            err=True,
        )


def _request(ctx: click.Context, given: dict[str, Any]) -> Request:
    selection = Selection(
        split=given["split"],
        tags=given["tags"],
        exclude_tags=given["exclude_tags"],
        categories=given["categories"],
        ids=given["ids"],
        limit=given["limit"],
    )
    given_by_user = ParameterSource.COMMANDLINE
    return Request(
        suites=(*given["suite"], *given["more_suites"]),
        targets=given["targets"],
        judges=given["judges"],
        params=Params(temperature=given["temperature"], seed=given["seed"], max_tokens=given["max_tokens"]),
        settings=Settings(selection=selection, **{name: given[name] for name in _SETTINGS}),
        explicit=frozenset(
            name for name in _SETTINGS if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
        ),
        dialect=given["dialect"],
        resume=given["resume"],
        retry_errors=given["retry_errors"],
        fixed=tuple(flag for name, flag in _FIXED.items() if ctx.get_parameter_source(name) is given_by_user),
    )


def _run(session: Session, request: Request, progress: Progress) -> list[events.Done]:
    """Run the session on an event loop; the first Ctrl-C stops it gently, the second at once."""
    # Cycles are rare here, and what is imported by now stays: the collector looks seldom, and not at that.
    gc.set_threshold(50_000, 20, 100)
    gc.freeze()
    loops: Any = None
    if sys.platform != "win32":
        import uvloop

        loops = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=loops) as runner:
            return runner.run(_stoppable(session, request, progress))
    except asyncio.CancelledError:
        raise click.Abort from None  # stopped at once, before there was a run to tell of


async def _stoppable(session: Session, request: Request, progress: Progress) -> list[events.Done]:
    loop = asyncio.get_running_loop()
    making = asyncio.current_task()
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            session.stop()
            progress.warn("Stopping: calls under way get 5 s. Press Ctrl-C again to stop at once.")
        elif making is not None:
            making.cancel()

    for number in _stopping():
        if sys.platform == "win32":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
        else:
            loop.add_signal_handler(number, stop)
    done = await session.run(request)
    if asked and not done:
        raise click.Abort  # stopped before the first run began
    return done


def _stopping() -> list[signal.Signals]:
    """The signals that stop a run: also that the terminal was closed, unless `nohup` has it ignored."""
    numbers = [signal.SIGINT, signal.SIGTERM]
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        numbers.append(signal.SIGHUP)
    return numbers


def _refuse(error: SuiteError, *, as_json: bool) -> int:
    for line in lines_of(error.problems):
        say(line, err=True)
    if as_json:
        say_json(json.refusal(error.problems))
    return ExitCode.USAGE

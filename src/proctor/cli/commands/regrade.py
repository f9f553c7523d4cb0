"""`proctor regrade`: grades stored answers again; no target is called."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from proctor.cli.commands.run import OPTION_TITLES
from proctor.cli.config_defaults import ConfigDefaultsCommand
from proctor.cli.number_ranges import NumberRange, ShareRange
from proctor.cli.options import (
    GroupedCommand,
    cluster_option,
    concurrency_option,
    gate_mode_option,
    max_answer_bytes_option,
    retries_option,
    reveal_option,
    store_option,
    timeout_option,
)
from proctor.model import Params, Settings
from proctor.services.runs.config import Config
from proctor.services.runs.request import Request

_SHARE = ShareRange(0, 1)
_SETTINGS = (
    *("judge_repeats", "judge_rule", "threshold", "min_pass_rate", "gate_mode", "allow_errors"),
    *("budget_usd", "concurrency", "timeout_s", "retries", "max_answer_bytes", "cluster"),
)


class _RegradeCommand(GroupedCommand, ConfigDefaultsCommand):
    titles = OPTION_TITLES | {"suite_word": OPTION_TITLES["suite"]}


@click.command("regrade", cls=_RegradeCommand)
@click.argument("run")
@click.option(
    "--suite", "suite_word", metavar="SUITE", help="Grade with this suite, such as one that you edited."
)
@click.option("--judge", "judges", multiple=True, metavar="T", help="Use this judge. May be repeated.")
@click.option(
    "--judge-repeat",
    "judge_repeats",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Judge votes per answer.",
)
@click.option(
    "--judge-rule",
    type=click.Choice(["majority", "all", "any"]),
    default="majority",
    help="How judge votes are aggregated.",
)
@click.option(
    "--judge-temperature", type=NumberRange(0), default=0.0, metavar="X", help="Temperature of the judges."
)
@click.option(
    "--threshold", type=_SHARE, metavar="X", help="A case passes if its weighted score is at least X."
)
@click.option(
    "--min-pass-rate",
    type=_SHARE,
    metavar="X",
    help="Exit 0 if the pass rate is at least X, such as 0.9 or 90%, else 1.",
)
@gate_mode_option
@cluster_option
@click.option(
    "--allow-errors",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Tolerate up to N trials with ERROR or UNSCORED. With more, exit 3.",
)
@click.option(
    "--budget-usd",
    type=NumberRange(0, min_open=True),
    metavar="X",
    help="Maximum cost of the judges, in US dollars.",
)
@concurrency_option(32)
@timeout_option
@retries_option
@max_answer_bytes_option
@click.option("--dialect", metavar="D", help="The format of --suite (default: detected from the content).")
@reveal_option
@store_option
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write the results to FILE, in the format of its ending. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, in the format of `run --json`.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Grade the stored answers of RUN again, as a new run. No target is called.

    RUN is an id, `last` or a tag, as in `proctor runs`. RUN itself does not change. The new run uses the
    suite, the judges and the judge settings of RUN unless you set others.

    \b
    proctor regrade last --judge anthropic:claude-sonnet-4-6
    proctor regrade last --suite tests/ --judge-repeat 3
    """  # noqa: D301  # click wants the character \b itself
    from proctor.cli.run_and_report import run_and_report

    request = Request(
        regrade=options["run"],
        suites=(options["suite_word"],) if options["suite_word"] else (),
        judges=options["judges"],
        judge_params=Params(temperature=options["judge_temperature"]),
        settings=Settings(**{name: options[name] for name in _SETTINGS}),
        explicit=frozenset(
            name for name in _SETTINGS if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
        ),
        dialect=options["dialect"],
        config=ctx.obj or Config(),
    )
    return run_and_report(
        request,
        options["store"],
        outputs=options["outputs"],
        as_json=options["as_json"],
        quiet=options["quiet"],
        reveal=options["reveal"],
    )

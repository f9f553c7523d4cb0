"""`proctor run`: runs suites against targets; the options become a `Request`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from proctor.cli.config_defaults import ConfigDefaultsCommand
from proctor.cli.number_ranges import NumberRange, ShareRange
from proctor.cli.options import (
    GroupedCommand,
    cluster_option,
    concurrency_option,
    gate_mode_option,
    max_answer_bytes_option,
    reveal_option,
    store_option,
    timeout_option,
)
from proctor.errors import UsageError
from proctor.model import Params, Selection, Settings, Shard
from proctor.services.runs.config import Config
from proctor.services.runs.request import Request, choose_engine, complete_settings

if TYPE_CHECKING:
    from proctor.cli.attest_after_run import RunAttester

_OPTIONAL_VALUES = {
    "--resume": "",
    "--last-failed": "",
    "--lf": "",
    "--keep-workspaces": "all",
    "--attest": "",
}
"""Flags with an optional value, and the value that they have without one."""
_FOLLOWING_WORDS = "proctor.behind"
"""The key in the context's `meta` for the words that follow such flags, each with its flag."""
_ARGUMENTS = "proctor.arguments"
"""The key in the context's `meta` for the arguments as they were typed."""


class _RunCommand(GroupedCommand, ConfigDefaultsCommand):
    """Flags with optional values take them only with `=`, so that `--resume SUITE` names a suite."""

    optional_values = _OPTIONAL_VALUES

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing and args and args[-1].startswith("-"):
            args = args[:-1]  # a shell completes its value, and click would stop at a flag without one
        plain = [f"{word}={_OPTIONAL_VALUES[word]}" if word in _OPTIONAL_VALUES else word for word in args]
        ctx.meta[_ARGUMENTS] = list(args)
        ctx.meta[_FOLLOWING_WORDS] = {word: flag for flag, word in pairwise(args) if flag in _OPTIONAL_VALUES}
        return super().parse_args(ctx, plain)


_SETTINGS = (
    *("repeats", "concurrency", "timeout_s", "retries", "threshold", "min_pass_rate", "gate_mode"),
    *("until", "stop_when_shown", "allow_errors", "cluster", "max_answer_bytes"),
    *("judge_repeats", "judge_rule", "cache", "reuse", "budget_usd", "max_failures", "keep_workspaces"),
    *("engine", "interleave"),
)
"""Parameters that are fields of `Settings`."""
_SHARE = ShareRange(0, 1)


def _parse_shard(_ctx: click.Context, _option: click.Parameter, text: str | None) -> Shard | None:
    if text is None:
        return None
    from proctor.shards import parse_shard

    return parse_shard(text)


_OPTION_GROUPS: dict[str, list[Callable[[Any], Any]]] = {
    "What to run": [
        click.argument("suite", nargs=-1),
        click.option(
            "--suite",
            "--tier",
            "more_suites",
            multiple=True,
            metavar="SUITE",
            help="Same as the argument SUITE.",
        ),
        click.option(
            "--saved",
            multiple=True,
            metavar="SUITE",
            help="A suite in the store, NAME or NAME@v2, even if a file has the same name. May be repeated.",
        ),
        click.option(
            "--tag",
            "tags",
            multiple=True,
            metavar="TAG",
            help="Only cases with this tag. If repeated, cases with any of the tags.",
        ),
        click.option(
            "--all-tag",
            "all_tags",
            multiple=True,
            metavar="TAG[,TAG…]",
            help="Only cases with this tag, or with any of a list. If repeated, cases that match every use.",
        ),
        click.option(
            "--exclude-tag", "exclude_tags", multiple=True, metavar="TAG", help="Skip cases with this tag."
        ),
        click.option(
            "--category", "categories", multiple=True, metavar="NAME", help="Only cases in this category."
        ),
        click.option(
            "--id", "ids", multiple=True, metavar="GLOB", help="Only cases whose id matches this pattern."
        ),
        click.option("--limit", type=click.IntRange(1), metavar="N", help="Run at most N cases."),
        click.option(
            "--shard",
            callback=_parse_shard,
            metavar="I/N",
            help="Only shard I of N of these cases; I counts from 0. `proctor runs merge` joins the "
            "shards. Shards that share a store need the same --group.",
        ),
        click.option(
            "--repeat",
            "--repeats",
            "repeats",
            type=click.IntRange(1),
            metavar="N",
            help="Number of trials per case.  [default: 1]",
        ),
        click.option(
            "--dialect", metavar="D", help="The suite's format (default: detected from the content)."
        ),
        click.option(
            "--strict", is_flag=True, help="Fail if a folder contains a file that no suite format recognises."
        ),
        click.option(
            "--skip-invalid",
            is_flag=True,
            help="Run the valid cases, and count each invalid or unsupported case as an error.",
        ),
    ],
    "Targets and prompts": [
        click.option(
            "-t",
            "--target",
            "--model",
            "targets",
            multiple=True,
            metavar="T",
            help="The model, agent or program to test: a name in targets.yaml, or a target such as "
            "local, openai:gpt-5.2 or command:'./agent.sh'. May be repeated. Default: the targets "
            "that the suite names, else `default` in targets.yaml.",
        ),
        click.option(
            "-p",
            "--prompt",
            "prompts",
            multiple=True,
            metavar="FILE",
            help="A prompt template whose {{ variables }} are filled in for each case: FILE, or "
            "NAME=FILE to name it. The file has plain text, or messages with roles in Markdown, "
            "YAML or JSON. May be repeated, for one run per prompt and target.",
        ),
        click.option(
            "--temperature",
            type=NumberRange(0),
            default=0.0,
            show_default=True,
            metavar="X",
            help="Temperature of the target.",
        ),
        click.option(
            "--seed",
            type=int,
            default=42,
            show_default=True,
            metavar="N",
            help="Random seed. Repeat r uses seed + r.",
        ),
        click.option(
            "--max-tokens",
            type=click.IntRange(1),
            metavar="N",
            help="Maximum length of an answer, in tokens.",
        ),
        click.option(
            "--param",
            "params",
            multiple=True,
            metavar="NAME=VALUE",
            help="Any other model parameter, such as top_p=0.9, reasoning_effort=low, stop=END or "
            "extra_body.min_p=0.1. May be repeated. For a list, see "
            "'Parameters of models' in the documentation.",
        ),
        click.option(
            "--stream",
            is_flag=True,
            help="Stream answers, to measure the time to the first token and tokens per second.",
        ),
    ],
    "Grading": [
        click.option(
            "--judge",
            "judges",
            multiple=True,
            metavar="T",
            help="The model that grades answers, for graders that need a judge. May be repeated. "
            "Default: the judge that the grader names, else the one that the target names, else "
            "the target itself.",
        ),
        click.option(
            "--judge-repeat",
            "judge_repeats",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            metavar="N",
            help="Judge votes per answer.",
        ),
        click.option(
            "--judge-rule",
            type=click.Choice(["majority", "all", "any"]),
            default="majority",
            show_default=True,
            help="How judge votes are aggregated: an answer passes with a majority of the votes, with "
            "all, or with any.",
        ),
        click.option(
            "--judge-temperature",
            type=NumberRange(0),
            default=0.0,
            show_default=True,
            metavar="X",
            help="Temperature of the judges.",
        ),
        click.option(
            "--threshold", type=_SHARE, metavar="X", help="A case passes if its weighted score is at least X."
        ),
    ],
    "Gate": [
        click.option(
            "--min-pass-rate",
            type=_SHARE,
            metavar="X",
            help="Exit 0 if the pass rate is at least X, such as 0.9 or 90%, else 1.",
        ),
        gate_mode_option,
        cluster_option,
        click.option(
            "--allow-errors",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            metavar="N",
            help="Tolerate up to N trials with ERROR or UNSCORED. With more, exit 3.",
        ),
    ],
    "Holdout": [
        click.option(
            "--split",
            type=click.Choice(["dev", "holdout", "all"]),
            default="all",
            show_default=True,
            help="Which cases to run.",
        ),
        click.option(
            "--holdout",
            type=ShareRange(0, 1, max_open=True),
            metavar="SHARE",
            help="Share of the cases to hold out, such as 0.2 or 20%; 0 for none.  [default: what the suite "
            "sets; 0.2 in format meridian, such as a CSV file]",
        ),
        click.option(
            "--no-holdout", "holdout", flag_value=0.0, help="Hold out no cases. Same as --holdout 0."
        ),
        click.option(
            "--split-method",
            type=click.Choice(["rank", "shuffle"]),
            help="How held-out cases are selected: by the rank of their ids, or as Meridian's own "
            "program does.  [default: rank]",
        ),
        reveal_option,
    ],
    "Limits": [
        click.option(
            "--budget-usd",
            type=NumberRange(0, min_open=True),
            metavar="X",
            help="Maximum cost of a run, in US dollars. Once it is reached, no more requests are sent.",
        ),
        click.option(
            "--max-failures",
            type=click.IntRange(1),
            metavar="N",
            help="Stop a run after N trials with ERROR. The run can be resumed.  [default: never]",
        ),
        click.option(
            "--until",
            type=ShareRange(0, 1, min_open=True),
            metavar="POINTS",
            help="Stop early once the pass rate is known to within this margin, such as 2pp. Cases run "
            "in random order. Not with --cluster.",
        ),
        click.option(
            "--stop-when-shown",
            is_flag=True,
            help="Stop early once the results show that --min-pass-rate is met or missed.",
        ),
        concurrency_option(32),
        timeout_option,
        click.option(
            "--retries",
            type=click.IntRange(0),
            default=4,
            show_default=True,
            metavar="N",
            help="Maximum retries after HTTP 408, 409, 429 or 5xx, or a lost connection.",
        ),
        max_answer_bytes_option,
    ],
    "Resume and reuse": [
        click.option(
            "--resume",
            metavar="[=RUN]",
            help="Resume an interrupted run: RUN, or the newest one that matches this command. The run "
            "keeps its settings.",
        ),
        click.option(
            "--last-failed",
            "--lf",
            metavar="[=RUN]",
            help="Only the cases that failed, errored or were unscored in RUN, or in the newest run of "
            "the same suite and target. If there are none, all cases.",
        ),
        click.option(
            "--retry-errors", metavar="RUN", help="Start a new run that repeats only the errors of RUN."
        ),
        click.option(
            "--reuse/--no-reuse",
            help="Reuse answers and judgments of earlier runs if the input and the grading are the "
            "same.  [default: on for Markdown tests]",
        ),
        click.option(
            "--cache/--no-cache",
            help="Answer repeated requests from the cache on disk, and add new answers to it.",
        ),
    ],
    "Execution": [
        click.option(
            "--watch",
            is_flag=True,
            help="Run again whenever the suite, a file that it reads, a grader program or the targets "
            "file changes. Only new requests are sent. Press Ctrl-C to end.",
        ),
        click.option(
            "--interleave/--no-interleave",
            help="Call several targets in turns, case by case, so that their latencies are comparable. "
            " [default: one target after the other]",
        ),
        click.option(
            "--keep-workspaces",
            type=click.Choice(["none", "failed", "all"]),
            metavar="[=none|failed|all]",
            default="failed",
            show_default=True,
            help="Which trials keep their workspaces on disk. Without a value, all do.",
        ),
        click.option(
            "--engine",
            metavar="NAME",
            default="asyncio",
            show_default=True,
            help="Where trials run: asyncio (on this machine), ray (on a cluster), or an engine of an "
            "installed package.",
        ),
        click.option(
            "--engine-address",
            metavar="ADDRESS",
            help="Address of the Ray cluster for --engine ray: ray://HOST:PORT, HOST:PORT or auto.  "
            "[default: $RAY_ADDRESS, else a new cluster on this machine]",
        ),
        click.option(
            "--batch/--no-batch",
            default=None,
            help="Send requests in batches. OpenAI, Anthropic and Google answer a batch within a day, "
            "at half the price.",
        ),
        click.option(
            "--group",
            metavar="ID",
            help="Id for the group of runs of this command, for use in `proctor compare ID`.  "
            "[default: a new id]",
        ),
        store_option,
    ],
    "Output": [
        click.option(
            "-o",
            "--output",
            "outputs",
            multiple=True,
            metavar="FILE",
            help="Write the results to FILE. The ending sets the format: .html .md .json .jsonl .csv "
            ".parquet, or .xml for JUnit. May be repeated.",
        ),
        click.option(
            "--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else."
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only."),
        click.option(
            "--attest",
            metavar="[=DIR]",
            help="Write a signed bundle of each finished run into DIR, or into the working directory. "
            "See `proctor attest --help`.",
        ),
        click.option("--public", is_flag=True, help="With --attest: leave out held-out cases."),
        click.option("--sign-key", metavar="NAME", help="With --attest: sign with this key."),
    ],
}
"""The options, by their heading in `--help`."""


def _with_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(list(chain.from_iterable(_OPTION_GROUPS.values()))):
        function = option(function)
    return function


@click.command("run", cls=_RunCommand)
@_with_options
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Run each SUITE against each target, grade the answers and store the results.

    \b
    proctor run cheap --target local
    proctor run my_suite.jsonl --target openai:gpt-5.2 --judge anthropic:claude-sonnet-4-6
    proctor run suites/ --target ollama:llama3.2 --min-pass-rate 0.9 -o junit.xml

    SUITE is a file, a folder with its subfolders, the name of a file in suites/, a suite in the store (NAME
    or NAME@v2), or a built-in suite: cheap (10 cases), moderate (25) or comprehensive (75). If you have a
    suite named cheap, write builtin:cheap for the built-in one. You can set defaults in proctor.toml.
    """  # noqa: D301  # click wants the character \b itself
    if options["batch"] is not None:
        options["engine"] = choose_engine(
            options["engine"],
            options["batch"],
            ctx.get_parameter_source("engine") is ParameterSource.COMMANDLINE,
            ctx.get_parameter_source("batch") is ParameterSource.COMMANDLINE,
        )
    request = _request(ctx, options)
    if options["watch"]:
        return _watch(ctx, options)
    from proctor.cli.run_and_report import run_and_report

    return run_and_report(
        request,
        options["store"],
        outputs=options["outputs"],
        as_json=options["as_json"],
        quiet=options["quiet"],
        reveal=options["reveal"],
        attester=_run_attester(ctx, options),
    )


OPTION_TITLES = dict(
    zip(
        (param.name or "" for param in command.params),
        (title for title, options in _OPTION_GROUPS.items() for _option in options),
        strict=True,
    )
)
"""The title of each option's group, by the name of its parameter."""
command.titles = OPTION_TITLES


_UNWATCHED = ("as_json", "resume", "retry_errors", "group", "attest", "batch")
"""Parameters of a single run."""


def _watch(ctx: click.Context, options: dict[str, Any]) -> int:
    """Runs the command again and again.

    Raises:
        UsageError: a flag is about a single run, or forbids to reuse answers.
    """
    from proctor.cli.watch import watch_runs

    flags = {param.name: param.opts[-1] for param in ctx.command.params}
    for name in _UNWATCHED:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{flags[name]} applies to a single run, and --watch makes several. Remove one of the two."
            )
    if ctx.get_parameter_source("reuse") is ParameterSource.COMMANDLINE and not options["reuse"]:
        raise UsageError(
            "--watch reuses answers, so it cannot be combined with --no-reuse. Remove one of the two."
        )
    arguments = [word for word in ctx.meta[_ARGUMENTS] if word != "--watch"]
    return watch_runs(
        ["run", "--reuse", *arguments], options["store"], options["outputs"], quiet=options["quiet"]
    )


def _run_attester(ctx: click.Context, options: dict[str, Any]) -> RunAttester | None:
    """Returns the writer of bundles; None without --attest."""
    if options["attest"] is None:
        for name in ("public", "sign_key"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} applies to the bundles that --attest writes. Add --attest.")
        return None
    from proctor.cli.attest_after_run import RunAttester

    return RunAttester(
        options["attest"], public=options["public"], sign_key=options["sign_key"], quiet=options["quiet"]
    )


def _request(ctx: click.Context, options: dict[str, Any]) -> Request:
    selection = Selection(
        split=options["split"],
        tags=options["tags"],
        exclude_tags=options["exclude_tags"],
        all_tags=options["all_tags"],
        categories=options["categories"],
        ids=options["ids"],
        limit=options["limit"],
        shard=options["shard"],
    )
    command_line = ParameterSource.COMMANDLINE
    suites = (*options["suite"], *options["more_suites"])
    others = options["resume"] or options["retry_errors"] or options["saved"]
    if others and ctx.get_parameter_source("suite") is not command_line:
        suites = options[
            "more_suites"
        ]  # the project's default suites do not apply if something else is named
    return Request(
        suites=suites,
        stored_names=options["saved"],
        targets=options["targets"],
        prompts=options["prompts"],
        judges=options["judges"],
        params=_read_params(options),
        judge_params=Params(temperature=options["judge_temperature"]),
        settings=complete_settings(
            Settings(selection=selection, **{name: options[name] for name in _SETTINGS}),
            {name for name in _SETTINGS if ctx.get_parameter_source(name) is command_line},
            resumes=bool(options["resume"]),
        ),
        explicit=frozenset(
            name
            for name in _SETTINGS
            if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT
            or (name == "engine" and options["batch"] is not None)
        ),
        words_after_flags=ctx.meta[_FOLLOWING_WORDS],
        store=options["store"],
        dialect=options["dialect"],
        strict=options["strict"],
        skip_invalid=options["skip_invalid"],
        config=ctx.obj or Config(),
        holdout=options["holdout"],
        split_method=options["split_method"],
        resume=options["resume"],
        retry_errors=options["retry_errors"],
        last_failed=options["last_failed"],
        group=options["group"],
        engine_address=options["engine_address"],
        flags=frozenset(_flags(ctx)),
    )


def _read_params(options: dict[str, Any]) -> Params:
    """Returns the parameters of the target; imports their table only if a run sets one."""
    further: dict[str, Any] = {"stream": True} if options["stream"] else {}
    if options["params"]:
        from proctor.parameters import parse_parameters

        further |= parse_parameters(options["params"])
    return Params(
        temperature=options["temperature"], seed=options["seed"], max_tokens=options["max_tokens"], **further
    )


def _flags(ctx: click.Context) -> Iterator[str]:
    """Yields the long form of each flag given on the command line."""
    if ctx.get_parameter_source("stream") is ParameterSource.COMMANDLINE:
        yield "--param"
    for param in ctx.command.params:
        if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE:
            flag = next((flag for flag in param.opts if flag.startswith("--")), "")
            yield "--engine" if flag == "--batch" else flag

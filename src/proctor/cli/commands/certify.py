"""`proctor certify`: writes a certificate and a badge of a run, a target or a judge."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

from proctor.cli.number_ranges import NumberRange
from proctor.cli.options import (
    GroupedCommand,
    concurrency_option,
    keys_option,
    max_answer_bytes_option,
    retries_option,
    store_option,
    timeout_option,
)
from proctor.errors import UsageError

_CERTIFIERS = {
    "run": "proctor.cli.certify.run:certify_run",
    "target": "proctor.cli.certify.target:certify_target",
    "judge": "proctor.cli.certify.judge:certify_judge",
}
_CALL_OPTIONS = ("concurrency", "timeout_s", "retries", "max_answer_bytes")
_KIND_OPTIONS = {
    "run": ("bundle", "sign_key", "no_sign", "keys", "min_cases", "allow_errors", "force", "url"),
    "target": ("target", "seed", "rounds", "gate_mode", "max_latency_s", "url", *_CALL_OPTIONS),
    "judge": (
        *("judge", "labels", "repeats", "judge_temperature", "budget_usd", "cache"),
        *("allow_errors", *_CALL_OPTIONS),
    ),
}
"""The options that only some kinds of certificate take, by kind."""
_SECTIONS = {
    ("run",): "For a run or a bundle",
    ("target",): "For a target",
    ("judge",): "For a judge",
    ("run", "target"): "For a run, a bundle or a target",
    ("run", "judge"): "For a run, a bundle or a judge",
    ("target", "judge"): "For a target or a judge",
    (): "For all certificates",
}
"""The headings of options in the help, by the kinds that take them."""


def _kinds_with(name: str | None) -> tuple[str, ...]:
    """Returns the kinds of certificate that take an option; empty if all do."""
    return tuple(kind for kind, names in _KIND_OPTIONS.items() if name in names)


@click.command("certify", cls=GroupedCommand)
@click.argument("run", required=False, metavar="[RUN|BUNDLE]")
@click.option("--target", metavar="T", help="Certify this target with 14 checks.")
@click.option("--judge", metavar="T", help="Certify this judge: compare its verdicts with human labels.")
@click.option(
    "--labels", metavar="FILE", help="File with answers and human labels.  [default: the labels in the store]"
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write the result to FILE, which ends in .svg (a badge or a chart), .json or .md. May be "
    "repeated.",
)
@click.option(
    "--bundle", metavar="PATH", help="Where to write the bundle of RUN.  [default: beside the certificate]"
)
@click.option("--sign-key", metavar="NAME", help="Sign the bundle of RUN with this key.")
@click.option("--no-sign", is_flag=True, help="Do not sign the bundle of RUN.")
@click.option(
    "--min-cases", type=click.IntRange(1), metavar="N", help="Minimum number of cases.  [default: 20]"
)
@click.option(
    "--allow-errors",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    show_default=True,
    help="Tolerate up to N trials or judged answers without a verdict.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Write the certificate even if it would be refused. The badge then shows the reason.",
)
@click.option("--url", metavar="URL", help="Link target of the badge.  [default: the bundle]")
@click.option("--seed", type=int, metavar="N", help="Seed for the questions.  [default: random]")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    metavar="N",
    help="Run all checks N times, with consecutive seeds from --seed.  [default: 1; 3 with --gate-mode "
    "interval]",
)
@click.option(
    "--gate-mode",
    type=click.Choice(["point", "interval"]),
    default="point",
    show_default=True,
    help="What is compared with the gate of 80 %: the share of passed checks (point), or its exact 95 "
    "% interval. With `interval`: exit 0 if the interval is at or above 80 %, 1 if it is below, 3 "
    "if it contains 80 %.",
)
@click.option(
    "--max-latency",
    "max_latency_s",
    type=NumberRange(0, min_open=True),
    metavar="S",
    help="Maximum mean latency, in seconds.  [default: 30]",
)
@click.option(
    "--repeat", "repeats", type=click.IntRange(1), metavar="N", help="Judge votes per answer.  [default: 3]"
)
@click.option(
    "--judge-temperature", type=NumberRange(0), metavar="X", help="Temperature of the judge.  [default: 0]"
)
@click.option(
    "--budget-usd", type=NumberRange(0, min_open=True), metavar="X", help="Maximum cost, in US dollars."
)
@click.option("--cache", is_flag=True, help="Use cached replies, and add new ones to the cache.")
@concurrency_option(8)
@timeout_option
@retries_option
@max_answer_bytes_option
@keys_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Write a certificate for RUN or BUNDLE, for a target, or for a judge.

    RUN is an id, `last` or a tag, as in `proctor runs`. BUNDLE is the path of a bundle. Only numbers that can
    be derived again from the bundle are certified.

    \b
    proctor certify last -o certificate.json -o certificate.md -o badge.svg
    proctor certify --target local -o target.svg
    proctor certify --judge openai:gpt-5.2 --labels labels.jsonl
    proctor certify last --judge openai:gpt-5.2

    Exit codes: 0 certified, 1 not certified, 3 too many trials not measured, 4 usage error or unfinished run.
    """  # noqa: D301  # click wants the character \b itself
    kind = _certificate_kind(options)
    _check_options(kind, ctx)
    module, name = _CERTIFIERS[kind].split(":")
    code: int = getattr(import_module(module), name)(**options)
    return code


command.titles = {
    param.name or "": heading
    for kinds, heading in _SECTIONS.items()
    for param in command.params
    if _kinds_with(param.name) == kinds
}


def _certificate_kind(options: dict[str, Any]) -> str:
    """Returns the kind of certificate: `run`, `target` or `judge`.

    Raises:
        UsageError: nothing, or more than one thing, is to be certified.
    """
    if options["judge"] is not None and options["target"] is None:
        return "judge"  # a run beside it is the one that the labels are of
    kinds = [kind for kind in _CERTIFIERS if options[kind] is not None]
    if len(kinds) != 1:
        wrong = "No subject is given" if not kinds else "Only one thing can be certified at a time"
        raise UsageError(
            f"{wrong}. Name a run or a bundle, as in `proctor certify last`, a target with --target, "
            "or a judge with --judge."
        )
    return kinds[0]


def _check_options(kind: str, ctx: click.Context) -> None:
    """Refuses options that would have no effect.

    Raises:
        UsageError: there is one.
    """
    for option in ctx.command.params:
        takers = _kinds_with(option.name)
        is_given = ctx.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if is_given and takers and kind not in takers:
            of = " and ".join(f"of a {kind_name}" for kind_name in takers)
            raise UsageError(f"{option.opts[-1]} applies to certificates {of} only. Remove it.")

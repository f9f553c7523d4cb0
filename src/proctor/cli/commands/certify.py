"""`proctor certify`: writes a certificate and a badge of a run, a target or a judge."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from click.core import ParameterSource

from proctor.cli.options import (
    GroupedCommand,
    NumberRange,
    keys_option,
    max_answer_bytes_option,
    store_option,
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
    (): "For all",
}
"""The headings of options in the help, by the kinds that take them."""


def _kinds_with(name: str | None) -> tuple[str, ...]:
    """Returns the kinds of certificate that take an option; empty if all do."""
    return tuple(kind for kind, names in _KIND_OPTIONS.items() if name in names)


@click.command("certify", cls=GroupedCommand)
@click.argument("run", required=False, metavar="[RUN|BUNDLE]")
@click.option("--target", metavar="T", help="Put this target to 14 checks.")
@click.option("--judge", metavar="T", help="Compare this judge with people.")
@click.option(
    "--labels", metavar="FILE", help="Answers with human labels.  [default: the labels in the store]"
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Also write FILE; ends in .svg (a badge or a chart), .json or .md. May be repeated.",
)
@click.option("--bundle", metavar="PATH", help="Where the bundle of RUN goes; else beside the certificate.")
@click.option("--sign-key", metavar="NAME", help="Sign the bundle of RUN with this key.")
@click.option("--no-sign", is_flag=True, help="Do not sign the bundle of RUN.")
@click.option("--min-cases", type=click.IntRange(1), metavar="N", help="Refuse fewer cases.  [default: 20]")
@click.option(
    "--allow-errors",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    show_default=True,
    help="Allow up to N trials or judged answers without a verdict.",
)
@click.option("--force", is_flag=True, help="Certify what is refused; the badge says why it was.")
@click.option("--url", metavar="URL", help="What the badge links to.  [default: the bundle]")
@click.option("--seed", type=int, metavar="N", help="The seed of the questions.  [default: random]")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    metavar="N",
    help="Make all checks N times, with seeds from --seed on.  [default: 1; 3 with --gate-mode interval]",
)
@click.option(
    "--gate-mode",
    type=click.Choice(["point", "interval"]),
    default="point",
    show_default=True,
    help="Hold the share that passed against 80 %, or its exact 95 % interval: exit 0 if that much is "
    "shown, 1 if it is ruled out, else 3.",
)
@click.option(
    "--max-latency",
    "max_latency_s",
    type=NumberRange(0, min_open=True),
    metavar="S",
    help="The longest mean latency that passes, in seconds.  [default: 30]",
)
@click.option(
    "--repeat", "repeats", type=click.IntRange(1), metavar="N", help="Judge votes per answer.  [default: 3]"
)
@click.option("--judge-temperature", type=NumberRange(0), metavar="X", help="[default: 0]")
@click.option("--budget-usd", type=NumberRange(0, min_open=True), metavar="X", help="Spend at most this.")
@click.option("--cache", is_flag=True, help="Take replies from the cache, and keep them there.")
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=8,
    metavar="N",
    show_default=True,
    help="Maximum concurrent calls.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=NumberRange(0, min_open=True),
    default=120.0,
    metavar="S",
    show_default=True,
    help="Timeout per call, in seconds.",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=4,
    metavar="N",
    show_default=True,
    help="Maximum retries of a call that failed.",
)
@max_answer_bytes_option
@keys_option
@store_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Write a certificate: of RUN or BUNDLE, of a target, or of a judge.

    RUN is named as in `proctor runs`: by its id, `last` or a tag. BUNDLE is the path of a bundle. Certified
    is only what can be derived from the bundle again.

    \b
    proctor certify last -o certificate.json -o certificate.md -o badge.svg
    proctor certify --target local -o target.svg
    proctor certify --judge openai:gpt-5.2 --labels labels.jsonl
    proctor certify last --judge openai:gpt-5.2

    Exit codes: 0 certified, 1 not, 3 too much was not measured, 4 wrong usage or an unfinished run.
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
        UsageError: nothing is named, or more than one thing.
    """
    if options["judge"] is not None and options["target"] is None:
        return "judge"  # a run beside it is the one that the labels are of
    kinds = [kind for kind in _CERTIFIERS if options[kind] is not None]
    if len(kinds) != 1:
        wrong = "Nothing is named" if not kinds else "Only one thing can be certified at a time"
        raise UsageError(
            f"{wrong}. Name a run or a bundle, as in `proctor certify last`, or a target with --target, "
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
            raise UsageError(f"{option.opts[-1]} is for certificates {of}. Leave it out.")

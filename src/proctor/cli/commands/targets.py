"""`proctor targets`: lists the kinds of target and the targets file, and checks that targets answer."""

from __future__ import annotations

import asyncio
import os

import click

from proctor.cli.number_ranges import NumberRange
from proctor.cli.options import max_answer_bytes_option, show, store_location
from proctor.errors import ExitCode, ProctorError, SuiteError, UsageError
from proctor.model import Message, Output, Params, Prompt, Settings, TargetSpec
from proctor.reports.formatting import cost, milliseconds
from proctor.reports.problems import problem_lines
from proctor.safe_text import one_line, pad_to_width, truncate
from proctor.services.runs.execution.target_pool import probe
from proctor.services.runs.planning.target_names import TargetNames
from proctor.targets import get_kind, iter_kinds
from proctor.targets.targets_file import TargetSummary

_PROBE_MESSAGES = (Message(role="user", content="Reply with the word ready."),)


@click.group("targets")
def command() -> None:
    """List targets and check that they answer."""


@command.command("list")
def list_targets() -> None:
    """List the kinds of target, and your targets.

    For each kind, you see its syntax and its key. Your targets are those in targets.yaml.
    """
    lines = []
    for kind in iter_kinds(installed=True):
        variable = next(iter(kind.key_variables), None)
        key = (
            "no key" if variable is None else f"{variable} {'set' if os.environ.get(variable) else 'not set'}"
        )
        lines.append(f"{kind.syntax or kind.name:<22}  {key:<33}  {kind.summary}")
    show(
        [
            *lines,
            "",
            (
                "A server at an address of your own gets the key in PROCTOR_API_KEY, if it is set, and "
                "never the key of another service."
            ),
        ]
    )
    names = TargetNames(os.environ)
    if names.file is not None:
        show(
            [
                "",
                f"{names.file.path}:",
                *(_describe_entry(entry) for entry in names.file.list_targets(os.environ)),
            ]
        )
        show(problem_lines(names.file.warnings))
        if names.file.errors:
            raise SuiteError(names.file.errors)


def _describe_entry(entry: TargetSummary) -> str:
    variables = ", ".join(
        f"{name} {'not set' if name in entry.unset_variables else 'set'}" for name in entry.variables
    )
    what = truncate(entry.details, 60)
    return f"{pad_to_width(one_line(entry.name), 22)}  {f'{entry.kind} {what}'.strip()}" + (
        f"  ({variables})" if variables else ""
    )


@command.command("check")
@click.argument("target", nargs=-1)
@click.option(
    "--timeout",
    "timeout_s",
    type=NumberRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="S",
    help="Timeout per request, in seconds.",
)
@max_answer_bytes_option
@click.option(
    "--all",
    "is_thorough",
    is_flag=True,
    help="Check each ability with a small request: system prompts, schemas, tools, images, PDFs, "
    "audio, reasoning, streaming, log-probabilities and batches. Shows what works, and the cost.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object. Only with --all.")
def check(
    target: tuple[str, ...], timeout_s: float, max_answer_bytes: int, is_thorough: bool, as_json: bool
) -> int:
    """Check that each TARGET answers, with one short request.

    Without TARGET, all targets in targets.yaml are checked. Exit code 3 if one does not answer.
    """
    if as_json and not is_thorough:
        raise UsageError("--json needs --all. Add --all, or remove --json.")
    names = TargetNames(os.environ)
    params = Params() if is_thorough else Params(max_tokens=16)
    specs = [(word, _find_spec(names, word, params)) for word in target or names.names()]
    if not specs:
        raise UsageError("No targets.yaml defines a target. Name one, as in `proctor targets check local`.")
    if is_thorough:
        from proctor.cli.target_abilities import check_all_abilities

        calls = Settings(timeout_s=timeout_s, max_answer_bytes=max_answer_bytes)
        return check_all_abilities(specs, calls, as_json=as_json)
    code = ExitCode.OK
    for word, spec in specs:
        output = spec if isinstance(spec, ProctorError) else _probe_target(spec, timeout_s, max_answer_bytes)
        if isinstance(output, ProctorError):
            code = ExitCode.NOT_MEASURED
            show([f"{word}: no answer: {one_line(str(output))}"])
            continue
        reported_model = f", reports itself as {one_line(output.model)}" if output.model else ""
        answer = repr(" ".join(output.text.split())[:60])
        call_text = f"in {milliseconds(output.latency_ms)}, cost {cost(output.cost_usd)}{reported_model}"
        show([f"{word}: answered {answer} {call_text}"])
    return code


def _find_spec(names: TargetNames, word: str, params: Params) -> TargetSpec | SuiteError:
    """Returns a target, or its error, so that the others are still checked."""
    names.names()  # raises if the file cannot be read, which affects all targets
    try:
        return names.get_spec(word, params)
    except SuiteError as error:
        return error


def _probe_target(spec: TargetSpec, timeout_s: float, max_answer_bytes: int) -> Output | ProctorError:
    """Sends one short prompt; returns the answer or the error."""
    prices_folder = store_location(None).folder
    try:
        first_case = get_kind(spec).first_case  # recordings and scripts answer their own cases only
        case_id = "check" if first_case is None else first_case(spec.model)
        prompt = Prompt(messages=_PROBE_MESSAGES, case_id=case_id)
        calls = Settings(timeout_s=timeout_s, max_answer_bytes=max_answer_bytes)
        return asyncio.run(probe(spec, prompt, os.environ, calls=calls, prices_folder=prices_folder))
    except ProctorError as error:
        return error

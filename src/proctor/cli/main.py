"""`proctor`: finds the command, and turns every error into a sentence and an exit code."""

from __future__ import annotations

import json
import os
import re
import sys
from errno import EDQUOT, ENOSPC, EPIPE
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from proctor import __version__
from proctor.cli.echo import echo, echo_json
from proctor.cli.interrupts import JSON_LISTS, interrupted_json, keep_exit_code, raise_at_signals
from proctor.errors import BundleError, ExitCode, ProctorError, SuiteError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "run": "Run suites of test cases against one or more targets.",
    "regrade": "Grade stored answers again, without calling a target.",
    "validate": "Report every error and warning in suites, with file and line.",
    "hash": "Print the hash of a suite.",
    "convert": "Convert a suite to another format.",
    "suites": "Save, list, show, compare, export and delete suites.",
    "runs": "List, show, stop, merge, export, import, tag and delete stored runs.",
    "compare": "Compare runs case by case, with a gate for CI.",
    "plan": "Estimate how many cases and repeats a comparison needs.",
    "drift": "Show how a target's answers to a suite change over time.",
    "store": "Check, back up, copy, repair and clean up the store.",
    "attest": "Write a run as a signed bundle that others can verify.",
    "verify": "Verify a bundle and recompute its pass rate.",
    "replay": "Run the cases of a bundle again and compare the answers.",
    "certify": "Write a certificate for a run, a target or a judge.",
    "keys": "Create, list and trust signing keys.",
    "bench": "Summarize latencies and metrics of recorded calls.",
    "passk": "Compute pass@k and pass^k, from graded answers or by running code.",
    "trajectories": "Summarize what an agent's search loop tried and reached.",
    "targets": "List targets and check that they answer.",
    "models": "Download and list the weights of the embedded models.",
    "serve": "Start the web application for this folder and its store.",
    "mcp": "Start the MCP server for coding agents and editors.",
    "init": "Create a starter suite, targets.yaml, CI workflows and a cron line.",
    "completion": "Print the shell completion script.",
    "schema": "Print the JSON Schema of a file, for editors.",
}
"""The commands with their lines in `--help`; the module of each is `proctor.cli.commands.<name>`."""


_OUTPUT_ERRORS = frozenset({EPIPE, ENOSPC, EDQUOT})
"""Errors of a stream whose reader is gone, or whose disk is full."""


def load_command(name: str) -> click.Command:
    """Imports the module of a command and returns the command."""
    command: click.Command = import_module(f"proctor.cli.commands.{name}").command
    return command


class LazyGroup(click.Group):
    """Imports a command when it is called; `--help` needs no command at all."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Returns the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports a command and returns it; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command = load_command(cmd_name)
        raise_at_signals()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves a command; an unknown name raises an error with a suggestion."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from proctor.cli.suggestions import suggest_command

            raise click.UsageError(f"Unknown command {args[0]!r}. {suggest_command(args, COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Invokes a command, without the blank line that click prints at Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.Abort from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the commands and options that begin like a word; imports no command."""
        from click.shell_completion import CompletionItem

        commands = [CompletionItem(name, help=line) for name, line in COMMANDS.items()]
        matches = [item for item in commands if item.value.startswith(incomplete)]
        return [*matches, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 passed, 1 failed, 2 interrupted, 3 not measured, 4 usage error or invalid "
    "suite, 5 no case selected. To start: proctor run cheap --target local",
)
@click.version_option(__version__, "-V", "--version", prog_name="proctor")
def cli() -> None:
    """Test language models and agents: run suites of test cases, grade the answers and keep every result."""


def main() -> None:
    """Runs the command line and exits with its code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as by `>&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not know every character
    try:
        code = _invoke_and_flush(sys.argv[1:])
        keep_exit_code(code)
    except KeyboardInterrupt:  # after the command, and before its exit code was safe
        code = _end_interrupted(sys.argv[1:])
    sys.exit(code)


def _invoke_and_flush(arguments: list[str]) -> int:
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        # Nothing more can be printed, as with `| head` or a full disk; the interpreter must not try on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.OK
        if error.errno != EPIPE:
            echo(f"proctor: error: The output cannot be written: {error.strerror}.", err=True)
            code = ExitCode.USAGE
    return code


def _invoke(arguments: list[str]) -> int:
    try:
        _check_encoding(arguments)
        result = cli.main(arguments, prog_name="proctor", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        return ExitCode.USAGE
    except click.ClickException as error:
        return _refuse(arguments, _explain(error), error)
    except (click.Abort, KeyboardInterrupt):
        return _end_interrupted(arguments)
    except ProctorError as error:
        _echo_json_error(arguments, _problem_rows(error), error.exit_code)
        message = str(error)
        if not isinstance(error, SuiteError):  # its problems are one line each
            message = message.replace("\n", "\n  ")
        echo(_format_error(message), err=True)
        return error.exit_code
    except Exception as error:
        is_output_error = isinstance(error, OSError) and error.errno in _OUTPUT_ERRORS
        if is_output_error or os.environ.get("PROCTOR_DEBUG") == "1":
            raise
        echo(
            f"Internal error: {type(error).__name__}: {error}. This is a bug in Proctor, not in your "
            "suite. Run again with PROCTOR_DEBUG=1 to see a traceback, and report the bug.",
            err=True,
        )
        return ExitCode.NOT_MEASURED
    return int(result) if isinstance(result, int) else ExitCode.OK


def _explain(error: click.ClickException) -> str:
    """Returns the message of an error; of an unknown flag, with the commands that have it."""
    if isinstance(error, click.NoSuchOption):
        from proctor.cli.suggestions import suggest_flag
        from proctor.errors import suggestion

        if hint := suggest_flag(error.option_name, COMMANDS, load_command):
            return f"{error.message}{hint}"
        if error.possibilities:
            return f"{error.message} {suggestion(error.option_name, sorted(error.possibilities))}"
    parameter = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and error.ctx and parameter and parameter.name == "suite":
        return f"Name a suite, as in `{error.ctx.command_path} suite.jsonl`."
    return error.format_message()


def _end_interrupted(arguments: list[str]) -> ExitCode:
    keep_exit_code(ExitCode.INTERRUPTED)
    if "--json" in arguments:
        echo_json(interrupted_json(arguments))
    echo("Interrupted.", err=True)
    return ExitCode.INTERRUPTED


def _check_encoding(arguments: list[str]) -> None:
    """Refuses arguments that are not UTF-8, such as a file name in Latin-1."""
    for word in arguments:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            from proctor.errors import UsageError

            raise UsageError(
                f"The argument {word!r} is not UTF-8. Rename the file, or set a UTF-8 locale (export "
                "LC_ALL=C.UTF-8)."
            ) from None


def _format_error(message: str) -> str:
    """Returns the message as `WHERE: error: message`, unless it has that form."""
    if re.match(r".*: (error|warning): ", message):
        return message
    place = re.match(r"(\S+:\d+): ", message)
    return f"{place[1]}: error: {message[place.end() :]}" if place else f"proctor: error: {message}"


def _refuse(arguments: list[str], message: str, error: click.ClickException) -> int:
    _echo_json_error(arguments, [_make_problem_row(message)], ExitCode.USAGE)
    context = getattr(error, "ctx", None)
    hint = f" See `{context.command_path} --help`." if context is not None else ""
    message = message.replace("\n", "\n  ")
    echo(_format_error(f"{message}{'' if message.endswith(('.', '?')) else '.'}{hint}"), err=True)
    return ExitCode.USAGE


def _echo_json_error(arguments: list[str], problems: list[dict[str, Any]], code: ExitCode) -> None:
    """Prints the error as JSON if the caller requested JSON."""
    if "--json" not in arguments:
        return
    empty_lists: dict[str, Any] = {name: [] for name in JSON_LISTS.get(arguments[0], ())}
    echo_json(json.dumps({**empty_lists, "errors": problems, "exit_code": int(code)}, ensure_ascii=False))


def _problem_rows(error: ProctorError) -> list[dict[str, Any]]:
    if isinstance(error, SuiteError):
        from msgspec.structs import asdict

        from proctor.reports.runs.json import issue_records

        return [asdict(record) for record in issue_records(error.problems)]
    return [_make_problem_row(str(error), "bundle" if isinstance(error, BundleError) else "usage")]


def _make_problem_row(message: str, code: str = "usage") -> dict[str, Any]:
    no_place: dict[str, Any] = dict.fromkeys(("path", "line", "field", "case"))
    return no_place | {"code": code, "message": message}

"""Answers prompts by a shell command line, such as that of a coding agent.

`{PROMPT}`, `{PROMPT_FILE}`, `{EVAL_ID}`, `{ATTEMPT}`, `{FILES}` and `{OUTPUT_FILE}` are replaced by quoted
values. The answer is the content of the output file, if the command line has one, else stdout without its
last line ending; see `output` for how agents report messages, tool calls and tokens. The command runs in the
prompt's workspace, else in the folder of its options, else in the working directory. It inherits no secrets
but those in the option `env`. `$PROCTOR_TARGETS_FOLDER` is the folder of the targets file, and
`$PROCTOR_FORM` has the requested answer format and tools, if there are any.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from proctor.env_substitution import mask, names_in, substitute
from proctor.errors import ProctorError, TargetError, TargetTimeout, UsageError
from proctor.model import Attachment, Message, Output, Prompt, TargetSpec
from proctor.protocols import CompletedProgram
from proctor.targets.api.messages import form_variable, format_file_reference, format_messages
from proctor.targets.context import TargetContext
from proctor.targets.kind import TargetKind
from proctor.targets.process import cli_entry
from proctor.targets.process.command_template import (
    BATCH_PLACEHOLDERS,
    FILE_PLACEHOLDERS,
    FOLDER_VARIABLE,
    PLACEHOLDERS,
    CommandTemplate,
    quote_word,
    shell_argv,
)
from proctor.targets.process.output import parse_output, parse_report, program_error, read_answer
from proctor.targets.redaction import redact_address

if TYPE_CHECKING:
    from asyncio import Task

_HEALTH_TIMEOUT_S = 30.0


class _ShellRunner(Struct, frozen=True, kw_only=True):
    """Runs the command lines of one target and masks secrets in their output."""

    name: str
    environ: dict[str, str]
    secrets: tuple[str, ...]
    """The variables whose values the program gets."""
    full_environ: Mapping[str, str]
    max_answer_bytes: int

    async def run(
        self,
        line: str,
        *,
        cwd: str | None,
        timeout_s: float,
        stdin: bytes = b"",
        workspace: str | None = None,
        variables: Mapping[str, str] = {},
    ) -> CompletedProgram:
        """Runs a command line to its end in the workspace, else in `cwd`; raises as `run_process` does."""
        from proctor.targets.process.subprocesses import run_process, workspace_environ

        cwd = workspace or cwd
        if cwd is not None and not Path(cwd).is_dir():  # noqa: ASYNC240 - a fast check
            raise TargetError(f"{self.name!r} cannot run in {cwd!r}, which is not a folder.", kind="program")
        argv = shell_argv(line, self.environ)
        return await run_process(
            argv,
            stdin,
            timeout_s=timeout_s,
            environ=workspace_environ(self.environ, workspace) | dict(variables),
            cwd=cwd,
            called=self.name,
            output_limit=self.max_answer_bytes,
            limit_flag="--max-answer-bytes",
        )

    def mask(self, text: str) -> str:
        """Returns the text with its secrets masked."""
        return mask(text, self.secrets, self.full_environ)


class CliTarget:
    """A command line that runs once for each prompt."""

    def __init__(
        self, line: CommandTemplate, shell: _ShellRunner, options: Mapping[str, Any], timeout_s: float
    ) -> None:
        """Raises ValueError if the format of files is invalid."""
        self._template = line
        self._shell = shell
        self._file_template = CommandTemplate(options.get("files_format", "{path}"), FILE_PLACEHOLDERS)
        self._cwd: str | None = options.get("cwd")
        self._timeout_s: float = options.get("timeout_seconds", timeout_s)
        self.kept_folder: str | None = None
        """The folder in which the files of every prompt are kept; None if they are removed."""

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the program's answer.

        Raises:
            TargetError: the program failed, wrote too much or did not end in time.
        """
        try:
            output = await self._get_output(prompt)
        except TargetTimeout as error:
            raise TargetTimeout(self._shell.mask(str(error))) from None
        except TargetError as error:
            raise TargetError(self._shell.mask(str(error)), kind=error.kind) from None
        except OSError as error:
            message = f"{self._shell.name!r} cannot receive its files: {error}."
            raise TargetError(message, kind="program") from error
        return mask(output, self._shell.secrets, self._shell.full_environ)

    async def aclose(self) -> None:
        """Does nothing: no process outlives its prompt."""

    async def _get_output(self, prompt: Prompt) -> Output:
        return parse_output(*await self._run(prompt), from_file="OUTPUT_FILE" in self._template.placeholders)

    async def _run(self, prompt: Prompt) -> tuple[bytes, float]:
        """Runs the program; returns its answer and its duration in milliseconds."""
        with self._open_folder(prompt) as folder:
            return await self._run_in(folder, prompt)

    async def _run_in(self, folder: Path, prompt: Prompt) -> tuple[bytes, float]:
        places = self._template.placeholders
        files = _unpack_files(prompt.messages, folder / "files")

        def mention(attachment: Attachment) -> str:
            return "" if "FILES" in places else format_file_reference(attachment.kind, files[attachment])

        text = format_messages(prompt.messages, mention)
        stdin = text.encode("utf-8", "surrogatepass")
        answer = folder / "answer"
        if "PROMPT_FILE" in places:
            (folder / "prompt.txt").write_bytes(stdin)
        line = self._template.fill(
            {
                "PROMPT": quote_word(text),
                "PROMPT_FILE": quote_word(str(folder / "prompt.txt")),
                "EVAL_ID": quote_word(prompt.case_id),
                "ATTEMPT": str(prompt.repeat),
                "FILES": " ".join(self._format_file(path) for path in dict.fromkeys(files.values())),
                "OUTPUT_FILE": quote_word(str(answer)),
            }
        )
        process_input = b"" if places & {"PROMPT", "PROMPT_FILE"} else stdin
        started = perf_counter()
        completed = await self._shell.run(
            line,
            cwd=self._cwd,
            timeout_s=self._timeout_s,
            stdin=process_input,
            workspace=prompt.workspace,
            variables=form_variable(prompt),
        )
        latency_ms = (perf_counter() - started) * 1000
        name = repr(self._shell.name)
        if completed.exit_code != 0:
            raise program_error(name, completed)
        data = completed.stdout
        if "OUTPUT_FILE" in places:
            data = read_answer(answer, name, self._shell.max_answer_bytes)
        return data, latency_ms

    def _format_file(self, path: str) -> str:
        return self._file_template.fill({"path": quote_word(path), "basename": quote_word(Path(path).name)})

    @contextmanager
    def _open_folder(self, prompt: Prompt) -> Iterator[Path]:
        """Creates a private folder for one prompt and removes it afterwards, unless files are kept."""
        prefix = "proctor-"
        if self.kept_folder is not None:
            prefix = f"{re.sub(r'[^A-Za-z0-9-]', '_', prompt.case_id)[:40]}-{prompt.repeat}-"
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self.kept_folder))
        try:
            yield folder
        finally:
            if self.kept_folder is None:
                shutil.rmtree(folder, ignore_errors=True)


def _unpack_files(messages: Iterable[Message], folder: Path) -> dict[Attachment, str]:
    """Writes each attachment to a file below the folder, whatever its name says; returns the paths."""
    files: dict[Attachment, str] = {}
    used_paths: set[str] = set()
    for message in messages:
        for part in message.parts:
            if isinstance(part, str) or part in files:
                continue
            parts = [
                part_name for part_name in re.split(r"[/\\:]", part.path) if part_name not in {"", ".", ".."}
            ] or ["file"]
            # Names that differ only in their case are one file on some systems.
            while "/".join(parts).casefold() in used_paths:
                parts.insert(0, str(len(used_paths)))
            used_paths.add("/".join(parts).casefold())
            path = folder.joinpath(*parts)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(part.data if part.text is None else part.text.encode("utf-8"))
            except (OSError, ValueError) as error:
                raise TargetError(
                    f"The file {part.path!r} cannot be passed to a program: {error}.", kind="program"
                ) from error
            files[part] = str(path)
    return files


class _BatchResult(Struct, frozen=True):
    records: dict[str, bytes]
    """The line of each case, by its id."""
    elapsed_ms: float


class BatchCliTarget(CliTarget):
    """A command line that runs once for all prompts: `provider_batching` of AgentV's targets.

    It runs for the first prompt of each repeat (and workspace) and writes JSON Lines, each the report of one
    answer with the `id` of its case. It gets no prompt, so it cannot be a judge; `{EVAL_ID}` is `batch`.
    """

    def __init__(self, *args: Any) -> None:
        """Runs nothing yet; takes the arguments of `CliTarget`."""
        super().__init__(*args)
        self._batches: dict[tuple[str | None, int], Task[_BatchResult]] = {}

    async def aclose(self) -> None:
        """Ends every process that still runs."""
        from asyncio import CancelledError

        for batch in self._batches.values():
            batch.cancel()
            with suppress(CancelledError, ProctorError, OSError):
                await batch

    async def _get_output(self, prompt: Prompt) -> Output:
        import asyncio

        key = prompt.workspace, prompt.repeat
        if key not in self._batches:
            self._batches[key] = asyncio.create_task(self._run_batch(*key))
        # If one prompt is cancelled, the process goes on for the others.
        batch = await asyncio.shield(self._batches[key])
        line, name = batch.records.get(prompt.case_id), f"record with the id {prompt.case_id!r}"
        if line is None:
            raise TargetError(f"The program printed no {name}.", kind="protocol")
        if parse_report(line) is None:
            raise TargetError(f"The {name} has neither `output` nor `text`.", kind="protocol")
        return parse_output(line, batch.elapsed_ms / len(batch.records))

    async def _run_batch(self, workspace: str | None, repeat: int) -> _BatchResult:
        prompt = Prompt(messages=(), case_id="batch", repeat=repeat, workspace=workspace)
        data, elapsed_ms = await self._run(prompt)
        return _BatchResult(_parse_records(data), elapsed_ms)


def _parse_records(data: bytes) -> dict[str, bytes]:
    """Returns the line of each record by its id.

    Raises:
        TargetError: a line is not a record, or has the id of an earlier one.
    """
    import json

    records: dict[str, bytes] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _record_error(number, f"is not JSON ({error})") from None
        id_ = record.get("id") if isinstance(record, dict) else None
        if not isinstance(id_, str):
            raise _record_error(number, "is not an object with a text `id`")
        if id_ in records:
            raise _record_error(number, f"has the id {id_!r} of an earlier line")
        records[id_] = line
    return records


def _record_error(number: int, why: str) -> TargetError:
    return TargetError(f"The records of the program cannot be read: line {number} {why}.", kind="protocol")


async def open_target(spec: TargetSpec, context: TargetContext) -> CliTarget:
    """Opens the command line of a specification of kind `cli`, after its health check.

    Raises:
        UsageError: the command line or a variable in the options is wrong, or the health check fails.
    """
    from proctor.targets.process.subprocesses import clean_environ

    environ, options = context.environ, spec.options
    variables = options.get("env", {})
    shell = _ShellRunner(
        name=spec.name,
        environ={
            **clean_environ(environ),
            **({FOLDER_VARIABLE: options["folder"]} if "folder" in options else {}),
            **substitute(variables, environ),
        },
        secrets=names_in(variables),
        full_environ=environ,
        max_answer_bytes=context.max_answer_bytes,
    )
    try:
        line, is_batch = substitute(spec.model, environ), options.get("provider_batching")
        template = CommandTemplate(line, BATCH_PLACEHOLDERS if is_batch else PLACEHOLDERS)
        kind = BatchCliTarget if is_batch else CliTarget
        target = kind(template, shell, options, context.timeout_s)
    except ValueError as error:
        raise UsageError(f"The command line of target {spec.name!r} {error}") from None
    if "healthcheck" in options:
        await _check_health(options["healthcheck"], options.get("cwd"), shell, context)
    if options.get("keep_temp_files"):
        target.kept_folder = tempfile.mkdtemp(prefix="proctor-kept-")
        context.notify(f"Target {spec.name!r} keeps its files in {target.kept_folder}.")
    return target


async def _check_health(
    health: Mapping[str, Any], cwd: str | None, runs: _ShellRunner, context: TargetContext
) -> None:
    """Runs the health check of a target once."""
    timeout_s: float = health.get("timeout_seconds", _HEALTH_TIMEOUT_S)
    if "url" in health:
        what = f"GET {health['url']}"
        url = substitute(health["url"], context.environ)
        why = redact_address(await _check_url(url, context, timeout_s), url, health["url"])
    else:
        what = f"`{health['command']}`"
        line = substitute(health["command"], context.environ)
        try:
            completed = await runs.run(line, cwd=health.get("cwd", cwd), timeout_s=timeout_s)
        except TargetError as error:
            why = str(error)
        else:
            why = str(program_error("it", completed)) if completed.exit_code else ""
    if why:
        why = runs.mask(why).rstrip(".")
        raise UsageError(f"Target {runs.name!r} is not ready. Its health check, {what}, failed: {why}.")


async def _check_url(url: str, context: TargetContext, timeout_s: float) -> str:
    """Returns why a GET of a URL failed; empty if it succeeded."""
    from aiohttp import ClientError, ClientTimeout
    from yarl import URL

    from proctor.targets.api.http import proxy_for

    try:
        proxy = proxy_for(URL(url), context.environ)
        limit = ClientTimeout(total=timeout_s)
        async with context.get_http_session().get(url, proxy=proxy, timeout=limit) as response:
            return "" if 200 <= response.status < 300 else f"it answered {response.status}"
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except (ClientError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _check_command_line(word: str, line: str) -> None:
    try:
        CommandTemplate(line)
    except ValueError as error:
        raise UsageError(f"The command line of target {word!r} {error}") from None


CLI = TargetKind(
    name="cli",
    open_target=open_target,
    syntax="cli:COMMAND LINE",
    summary="a shell command line, such as that of an agent, with {PROMPT} and more",
    check_model=_check_command_line,
    provider_names=("command",),
    file_fields=cli_entry.CLI_FIELDS,
    required_fields=("command",),
    read_entry=cli_entry.read_entry,
    enforces_timeout=True,
    is_cacheable=False,
    reports_cost=True,
)

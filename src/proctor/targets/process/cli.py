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

from proctor.env_vars import filled, masked, names_in
from proctor.errors import ProctorError, TargetError, TargetTimeout, UsageError
from proctor.model import Attachment, Message, Output, Prompt, TargetSpec
from proctor.protocols import Finished
from proctor.targets.api.messages import form_variable, mentioned, written_out
from proctor.targets.context import Opening
from proctor.targets.kind import TargetKind
from proctor.targets.process import cli_entry
from proctor.targets.process.command_template import BATCH_PLACES, FILE_PLACES, FOLDER, Line, quoted, shell
from proctor.targets.process.output import failed, output_of, read_answer, report_of
from proctor.targets.redaction import hidden

if TYPE_CHECKING:
    from asyncio import Task

_HEALTH_S = 30.0


class _Shell(Struct, frozen=True, kw_only=True):
    """Runs the command lines of one target and masks secrets in their output."""

    name: str
    environ: dict[str, str]
    secrets: tuple[str, ...]
    """The variables whose values the program gets."""
    outside: Mapping[str, str]
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
    ) -> Finished:
        """Runs a command line to its end in the workspace, else in `cwd`; raises as `run_process` does."""
        from proctor.targets.process.subprocesses import inside, run_process

        cwd = workspace or cwd
        if cwd is not None and not Path(cwd).is_dir():  # noqa: ASYNC240 - a fast check
            raise TargetError(f"{self.name!r} cannot run in {cwd!r}, which is no folder.", kind="program")
        argv = shell(line, self.environ)
        return await run_process(
            argv,
            stdin,
            timeout_s=timeout_s,
            environ=inside(self.environ, workspace) | dict(variables),
            cwd=cwd,
            called=self.name,
            output_limit=self.max_answer_bytes,
            limit_flag="--max-answer-bytes",
        )

    def mask(self, text: str) -> str:
        """Returns the text with its secrets masked."""
        return masked(text, self.secrets, self.outside)


class Cli:
    """A command line that runs once for each prompt."""

    def __init__(self, line: Line, shell: _Shell, options: Mapping[str, Any], timeout_s: float) -> None:
        """Raises ValueError if the format of files is invalid."""
        self._line = line
        self._shell = shell
        self._form = Line(options.get("files_format", "{path}"), FILE_PLACES)
        self._cwd: str | None = options.get("cwd")
        self._timeout_s: float = options.get("timeout_seconds", timeout_s)
        self.kept_in: str | None = None
        """The folder in which the files of every prompt are kept; None if they are removed."""

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the program's answer.

        Raises:
            TargetError: the program failed, wrote too much or did not end in time.
        """
        try:
            output = await self._output(prompt)
        except TargetTimeout as error:
            raise TargetTimeout(self._shell.mask(str(error))) from None
        except TargetError as error:
            raise TargetError(self._shell.mask(str(error)), kind=error.kind) from None
        except OSError as error:
            message = f"{self._shell.name!r} cannot be given its files: {error}."
            raise TargetError(message, kind="program") from error
        return masked(output, self._shell.secrets, self._shell.outside)

    async def aclose(self) -> None:
        """Does nothing: no process outlives its prompt."""

    async def _output(self, prompt: Prompt) -> Output:
        return output_of(*await self._run(prompt), from_file="OUTPUT_FILE" in self._line.places)

    async def _run(self, prompt: Prompt) -> tuple[bytes, float]:
        """Runs the program; returns its answer and its duration in milliseconds."""
        with self._folder(prompt) as folder:
            return await self._run_in(folder, prompt)

    async def _run_in(self, folder: Path, prompt: Prompt) -> tuple[bytes, float]:
        places = self._line.places
        files = _unpack_files(prompt.messages, folder / "files")

        def mention(attachment: Attachment) -> str:
            return "" if "FILES" in places else mentioned(attachment.kind, files[attachment])

        text = written_out(prompt.messages, mention)
        stdin = text.encode("utf-8", "surrogatepass")
        answer = folder / "answer"
        if "PROMPT_FILE" in places:
            (folder / "prompt.txt").write_bytes(stdin)
        line = self._line.filled(
            {
                "PROMPT": quoted(text),
                "PROMPT_FILE": quoted(str(folder / "prompt.txt")),
                "EVAL_ID": quoted(prompt.case_id),
                "ATTEMPT": str(prompt.repeat),
                "FILES": " ".join(self._file(path) for path in dict.fromkeys(files.values())),
                "OUTPUT_FILE": quoted(str(answer)),
            }
        )
        process_input = b"" if places & {"PROMPT", "PROMPT_FILE"} else stdin
        started = perf_counter()
        finished = await self._shell.run(
            line,
            cwd=self._cwd,
            timeout_s=self._timeout_s,
            stdin=process_input,
            workspace=prompt.workspace,
            variables=form_variable(prompt),
        )
        latency_ms = (perf_counter() - started) * 1000
        name = repr(self._shell.name)
        if finished.exit_code != 0:
            raise failed(name, finished)
        data = finished.stdout
        if "OUTPUT_FILE" in places:
            data = read_answer(answer, name, self._shell.max_answer_bytes)
        return data, latency_ms

    def _file(self, path: str) -> str:
        return self._form.filled({"path": quoted(path), "basename": quoted(Path(path).name)})

    @contextmanager
    def _folder(self, prompt: Prompt) -> Iterator[Path]:
        """Creates a private folder for one prompt and removes it afterwards, unless files are kept."""
        prefix = "proctor-"
        if self.kept_in is not None:
            prefix = f"{re.sub(r'[^A-Za-z0-9-]', '_', prompt.case_id)[:40]}-{prompt.repeat}-"
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self.kept_in))
        try:
            yield folder
        finally:
            if self.kept_in is None:
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
                    f"The file {part.path!r} cannot be given to a program: {error}.", kind="program"
                ) from error
            files[part] = str(path)
    return files


class _Batch(Struct, frozen=True):
    records: dict[str, bytes]
    """The line of each case, by its id."""
    elapsed_ms: float


class CliBatch(Cli):
    """A command line that runs once for all prompts: `provider_batching` of AgentV's targets.

    It runs for the first prompt of each repeat (and workspace) and writes JSON Lines, each the report of one
    answer with the `id` of its case. It gets no prompt, so it cannot be a judge; `{EVAL_ID}` is `batch`.
    """

    def __init__(self, *args: Any) -> None:
        """Runs nothing yet; takes the arguments of `Cli`."""
        super().__init__(*args)
        self._batches: dict[tuple[str | None, int], Task[_Batch]] = {}

    async def aclose(self) -> None:
        """Ends every process that still runs."""
        from asyncio import CancelledError

        for batch in self._batches.values():
            batch.cancel()
            with suppress(CancelledError, ProctorError, OSError):
                await batch

    async def _output(self, prompt: Prompt) -> Output:
        import asyncio

        key = prompt.workspace, prompt.repeat
        if key not in self._batches:
            self._batches[key] = asyncio.create_task(self._batch(*key))
        # If one prompt is cancelled, the process goes on for the others.
        batch = await asyncio.shield(self._batches[key])
        line, name = batch.records.get(prompt.case_id), f"record with the id {prompt.case_id!r}"
        if line is None:
            raise TargetError(f"The program printed no {name}.", kind="protocol")
        if report_of(line) is None:
            raise TargetError(f"The {name} has neither `output` nor `text`.", kind="protocol")
        return output_of(line, batch.elapsed_ms / len(batch.records))

    async def _batch(self, workspace: str | None, repeat: int) -> _Batch:
        prompt = Prompt(messages=(), case_id="batch", repeat=repeat, workspace=workspace)
        data, elapsed_ms = await self._run(prompt)
        return _Batch(_records(data), elapsed_ms)


def _records(data: bytes) -> dict[str, bytes]:
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
            raise _unreadable(number, f"is not JSON ({error})") from None
        id_ = record.get("id") if isinstance(record, dict) else None
        if not isinstance(id_, str):
            raise _unreadable(number, "is no object with a text `id`")
        if id_ in records:
            raise _unreadable(number, f"has the id {id_!r} of an earlier line")
        records[id_] = line
    return records


def _unreadable(number: int, why: str) -> TargetError:
    return TargetError(f"The program's records cannot be read: line {number} {why}.", kind="protocol")


async def open_target(spec: TargetSpec, context: Opening) -> Cli:
    """Opens the command line of a specification of kind `cli`, after its health check.

    Raises:
        UsageError: the command line or a variable in the options is wrong, or the health check fails.
    """
    from proctor.targets.process.subprocesses import scrubbed

    environ, options = context.environ, spec.options
    variables = options.get("env", {})
    shell = _Shell(
        name=spec.name,
        environ={**scrubbed(environ), **_folder_variable(options), **filled(variables, environ)},
        secrets=names_in(variables),
        outside=environ,
        max_answer_bytes=context.max_answer_bytes,
    )
    try:
        target = _create_target(filled(spec.model, environ), shell, options, context.timeout_s)
    except ValueError as error:
        raise UsageError(f"The command line of target {spec.name!r} {error}") from None
    if "healthcheck" in options:
        await _check(options["healthcheck"], options.get("cwd"), shell, context)
    if options.get("keep_temp_files"):
        target.kept_in = tempfile.mkdtemp(prefix="proctor-kept-")
        context.notify(f"Target {spec.name!r} keeps its files in {target.kept_in}.")
    return target


def _create_target(line: str, shell: _Shell, options: Mapping[str, Any], timeout_s: float) -> Cli:
    if not options.get("provider_batching"):
        return Cli(Line(line), shell, options, timeout_s)
    return CliBatch(Line(line, BATCH_PLACES), shell, options, timeout_s)


def _folder_variable(options: Mapping[str, Any]) -> dict[str, str]:
    return {FOLDER: options["folder"]} if "folder" in options else {}


async def _check(health: Mapping[str, Any], cwd: str | None, runs: _Shell, context: Opening) -> None:
    """Runs the health check of a target once."""
    timeout_s: float = health.get("timeout_seconds", _HEALTH_S)
    if "url" in health:
        what = f"GET {health['url']}"
        url = filled(health["url"], context.environ)
        why = hidden(await _status(url, context, timeout_s), url, health["url"])
    else:
        what = f"`{health['command']}`"
        line = filled(health["command"], context.environ)
        try:
            finished = await runs.run(line, cwd=health.get("cwd", cwd), timeout_s=timeout_s)
        except TargetError as error:
            why = str(error)
        else:
            why = str(failed("it", finished)) if finished.exit_code else ""
    if why:
        why = runs.mask(why).rstrip(".")
        raise UsageError(f"Target {runs.name!r} is not ready. Its health check, {what}, failed: {why}.")


async def _status(url: str, context: Opening, timeout_s: float) -> str:
    """Returns why a GET of a URL failed; empty if it succeeded."""
    from aiohttp import ClientError, ClientTimeout
    from yarl import URL

    from proctor.targets.api.http import proxy_for

    try:
        proxy = proxy_for(URL(url), context.environ)
        limit = ClientTimeout(total=timeout_s)
        async with context.http().get(url, proxy=proxy, timeout=limit) as response:
            return "" if 200 <= response.status < 300 else f"it answered {response.status}"
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except (ClientError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _check_line(word: str, line: str) -> None:
    try:
        Line(line)
    except ValueError as error:
        raise UsageError(f"The command line of target {word!r} {error}") from None


CLI = TargetKind(
    name="cli",
    open_target=open_target,
    syntax="cli:COMMAND LINE",
    summary="a command line of the shell, such as an agent's, with {PROMPT} and more",
    check_model=_check_line,
    provider_names=("command",),
    file_fields=cli_entry.FIELDS,
    read_entry=cli_entry.read_entry,
    enforces_timeout=True,
    is_cacheable=False,
    reports_cost=True,
)

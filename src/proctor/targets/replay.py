"""Answers prompts from a recording: JSON Lines of outputs by case id, such as an exported run.

Each line has `case_id` (or `id`) and `output`, a text or an Output object; `repeat` numbers the outputs of
one case and defaults to counting from 0 in file order. A line without `output` is a failed answer. Outputs
stay in the file; only the offset of each line is in memory.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import TargetError, UsageError
from proctor.model import MAX_ANSWER_BYTES, Output, Prompt, TargetSpec, Usage
from proctor.protocols import MAX_LINE_BYTES
from proctor.targets.context import TargetContext, check_size
from proctor.targets.entries import FILE_FIELDS, read_file_path
from proctor.targets.kind import TargetKind


class _RecordedFailure(Struct):
    message: str = ""


class _RecordedLine(Struct):
    case_id: str | None = None
    id: str | None = None
    repeat: int | None = None
    output: str | dict[str, Any] | None = None
    failure: _RecordedFailure | None = None
    sealed: bool = False
    usage: Usage | None = None
    latency_ms: float | None = None
    cost_usd: float | None = None


_LINE_DECODER = msgspec.json.Decoder(_RecordedLine)


class ReplayTarget:
    """Answers with recorded outputs."""

    def __init__(self, path: str, file: BinaryIO, max_answer_bytes: int) -> None:
        self._path = path
        self._max_answer_bytes = max_answer_bytes
        self._file = file
        self._offsets: dict[tuple[str, int], tuple[int, int]] = {}
        self._repeats: dict[str, int] = {}
        self._build_index()

    @property
    def first_case(self) -> str:
        """The first case with a recorded repeat 0; empty if there is none."""
        return next((case_id for case_id, repeat in self._offsets if repeat == 0), "")

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the recorded output of the prompt's case and repeat.

        Raises:
            TargetError: there is no recorded output, or the recorded call failed.
        """
        place = self._offsets.get((prompt.case_id, prompt.repeat))
        if place is None:
            raise TargetError(
                f"{self._path} has no output for case {prompt.case_id!r}, repeat {prompt.repeat}.",
                kind="missing",
            )
        offset, length = place
        self._file.seek(offset)
        line = _LINE_DECODER.decode(self._file.read(length))
        if line.output is None and line.sealed:
            raise TargetError(
                f"Case {prompt.case_id!r} is hidden in {self._path} because it belongs to the holdout. To "
                f"replay it, export the run again with --reveal.",
                kind="missing",
            )
        if line.output is None:
            why = line.failure.message if line.failure else "the recorded line has no output"
            raise TargetError(f"Case {prompt.case_id!r} failed when it was recorded: {why}", kind="missing")
        output = _read_output(line)
        check_size(output.text, self._max_answer_bytes)
        return output

    async def aclose(self) -> None:
        """Closes the recording."""
        self.close()

    def close(self) -> None:
        """Closes the recording. Safe to call twice."""
        self._file.close()

    def _build_index(self) -> None:
        offset = 0
        for number, line in enumerate(iter(partial(self._file.readline, MAX_LINE_BYTES + 1), b""), 1):
            if len(line) > MAX_LINE_BYTES:
                raise UsageError(
                    f"{self._path}:{number}: The line has more than {MAX_LINE_BYTES // 2**20} MiB, which is "
                    f"the limit for a recorded output. Remove the line from the file."
                )
            start, offset = offset, offset + len(line)
            if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                start, line = start + 3, line[3:]
            if line.strip():
                key = self._read_key(line, number)
                if key in self._offsets:
                    what = f"Case {key[0]!r}, repeat {key[1]}"
                    raise UsageError(f"{self._path}:{number}: {what} is recorded twice. Keep only one line.")
                self._offsets[key] = (start, len(line))

    def _read_key(self, data: bytes, number: int) -> tuple[str, int]:
        """Returns the case and repeat of a line; checks the whole line, so that no answer fails later."""
        try:
            line = _LINE_DECODER.decode(data)
            if line.output is not None:
                _read_output(line)
        except msgspec.DecodeError as error:
            raise UsageError(f"{self._path}:{number}: The line is not a recorded output: {error}.") from error
        case_id = line.case_id if line.case_id is not None else line.id
        if case_id is None:
            raise UsageError(f"{self._path}:{number}: The line has neither `case_id` nor `id`.")
        repeat = self._repeats.get(case_id, 0) if line.repeat is None else line.repeat
        self._repeats[case_id] = repeat + 1
        return case_id, repeat


async def open_target(spec: TargetSpec, context: TargetContext) -> ReplayTarget:
    """Opens the recording of a specification of kind `replay`.

    Raises:
        UsageError: the file cannot be read or is not a recording.
    """
    return _open_file(spec.model, context.max_answer_bytes)


def first_case(path: str) -> str:
    """Returns a case that a recording has an answer for; empty if there is none.

    Raises:
        UsageError: the file cannot be read or is not a recording.
    """
    recording = _open_file(path)
    recording.close()
    return recording.first_case


def _open_file(path: str, max_answer_bytes: int = MAX_ANSWER_BYTES) -> ReplayTarget:
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - it stays open until the target is closed
    except OSError as error:
        raise UsageError(f"The recording {path!r} cannot be read: {error.strerror}.") from error
    try:
        return ReplayTarget(path, file, max_answer_bytes)
    except BaseException:
        file.close()
        raise


def _read_output(line: _RecordedLine) -> Output:
    """Returns the line's output; usage, latency and cost may stand beside it, as in an export."""
    if isinstance(line.output, str):
        output = Output(text=line.output)
    else:
        output = msgspec.convert(line.output, Output)
    return replace(
        output,
        usage=output.usage if output.usage is not None else line.usage,
        latency_ms=output.latency_ms or line.latency_ms or 0.0,
        cost_usd=output.cost_usd if output.cost_usd is not None else line.cost_usd,
    )


REPLAY = TargetKind(
    name="replay",
    open_target=open_target,
    syntax="replay:FILE",
    summary="the outputs of an exported run, by case id",
    provider_names=("transcript",),
    file_fields=FILE_FIELDS,
    required_fields=tuple(FILE_FIELDS),
    read_entry=read_file_path,
    model_is_file=True,
    is_cacheable=False,
    is_instant=True,
    first_case=first_case,
    is_prepaid=True,
    scores_choices=True,
)

"""Prompts to outputs by one process for all of them: a command line that knows by itself what to answer.

It runs for the first prompt of each repeat (and workspace) and writes one JSON object a line, each the report
of one answer with the `id` of its case. It is shown no prompt, so it can judge nothing; `{EVAL_ID}` is
`batch`. That is `provider_batching` of AgentV's targets.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from msgspec import Struct

from proctor.errors import ProctorError, TargetError
from proctor.model import Output, Prompt
from proctor.targets.process.cli import Cli
from proctor.targets.process.output import output_of, report_of


class _Batch(Struct, frozen=True):
    records: dict[str, bytes]
    """The line of each case, by its id."""
    elapsed_ms: float


class CliBatch(Cli):
    """A command line that is run once for all prompts."""

    def __init__(self, *args: Any) -> None:
        """Runs nothing yet; takes what `Cli` takes."""
        super().__init__(*args)
        self._batches: dict[tuple[str | None, int], asyncio.Task[_Batch]] = {}

    async def aclose(self) -> None:
        """End every process that still runs."""
        for batch in self._batches.values():
            batch.cancel()
            with suppress(asyncio.CancelledError, ProctorError, OSError):
                await batch

    async def _output(self, prompt: Prompt) -> Output:
        key = prompt.workspace, prompt.repeat
        if key not in self._batches:
            self._batches[key] = asyncio.create_task(self._batch(*key))
        # A prompt that is given up leaves the process to the others.
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
    """The lines with records by their ids; raises TargetError."""
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

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

from proctor.errors import ProctorError, TargetError
from proctor.model import Output, Prompt
from proctor.targets.cli import Cli
from proctor.targets.program_output import output_of, report_of


class CliBatch(Cli):
    """A command line that is run once for all prompts."""

    def __init__(self, *args: Any) -> None:
        """Runs nothing yet; takes what `Cli` takes."""
        super().__init__(*args)
        self._batches: dict[tuple[str | None, int], asyncio.Task[dict[str, Output]]] = {}

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
        outputs = await asyncio.shield(self._batches[key])
        output = outputs.get(prompt.case_id)
        if output is None:
            raise TargetError(
                f"The program printed no record with the id {prompt.case_id!r}.", kind="protocol"
            )
        return output

    async def _batch(self, workspace: str | None, repeat: int) -> dict[str, Output]:
        data, elapsed_ms = await self._run(
            Prompt(messages=(), case_id="batch", repeat=repeat, workspace=workspace)
        )
        records = _records(data)
        return {id_: output_of(line, elapsed_ms / len(records)) for id_, line in records.items()}


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
        if report_of(line) is None:
            raise _unreadable(number, f"has no answer to {id_!r}; it needs `output` or `text`")
        records[id_] = line
    return records


def _unreadable(number: int, why: str) -> TargetError:
    return TargetError(f"The program's records cannot be read: line {number} {why}.", kind="protocol")

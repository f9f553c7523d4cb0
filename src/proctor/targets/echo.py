"""Answers every prompt with its last user message, without any model."""

from __future__ import annotations

from proctor.errors import TargetError
from proctor.model import Output, Prompt, TargetSpec
from proctor.targets.context import TargetContext
from proctor.targets.kind import TargetKind


class EchoTarget:
    """Answers with the last user message."""

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the last user message.

        Raises:
            TargetError: there is none.
        """
        for message in reversed(prompt.messages):
            if message.role == "user":
                return Output(text=message.content)
        raise TargetError("The prompt has no user message to echo.", kind="missing")

    async def aclose(self) -> None:
        """Does nothing: nothing was started."""


async def open_target(_spec: TargetSpec, _context: TargetContext) -> EchoTarget:
    """Opens a target of kind `echo`."""
    return EchoTarget()


ECHO = TargetKind(
    name="echo",
    open_target=open_target,
    syntax="echo",
    summary="the last user message",
    file_fields={},
    is_cacheable=False,
    is_instant=True,
    is_free=True,
    web_note="returns the question; for trying out a suite",
)

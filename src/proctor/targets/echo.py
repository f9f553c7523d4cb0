"""Prompts to outputs without any model: the answer is the last user message."""

from __future__ import annotations

from proctor.errors import TargetError
from proctor.model import Output, Prompt, TargetSpec
from proctor.targets.context import Opening


class Echo:
    """Answers with the last user message."""

    async def answer(self, prompt: Prompt) -> Output:
        """The last user message.

        Raises:
            TargetError: there is none.
        """
        for message in reversed(prompt.messages):
            if message.role == "user":
                return Output(text=message.content)
        raise TargetError("The prompt has no user message that could be echoed.", kind="missing")

    async def aclose(self) -> None:
        """Nothing was started."""


async def open_target(_spec: TargetSpec, _opening: Opening) -> Echo:
    """The one target of kind `echo`."""
    return Echo()

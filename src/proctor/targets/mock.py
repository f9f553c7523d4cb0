"""Prompts to outputs without any model: always the same answer, without tokens or tool calls."""

from __future__ import annotations

from proctor.env_vars import filled
from proctor.model import Output, Prompt, TargetSpec
from proctor.targets.context import Opening

RESPONSE = "This is the answer of a mock target."
"""What is answered where the user gives nothing else."""


class Mock:
    """Answers every prompt alike."""

    def __init__(self, response: str) -> None:
        self._output = Output(text=response)

    async def answer(self, _prompt: Prompt) -> Output:
        """The one answer."""
        return self._output

    async def aclose(self) -> None:
        """Nothing was started."""


async def open_target(spec: TargetSpec, opening: Opening) -> Mock:
    """The target of kind `mock` with the response of its options, or with the text after the colon.

    Raises:
        UsageError: a variable that the response names is not set.
    """
    response = spec.options.get("response")
    return Mock(filled(response, opening.environ) if response is not None else spec.model or RESPONSE)

"""Answers every prompt with the same text, without any model."""

from __future__ import annotations

from msgspec.structs import replace

from proctor.env_substitution import substitute
from proctor.model import Output, Prompt, TargetSpec
from proctor.targets.context import TargetContext
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import TargetKind

DEFAULT_RESPONSE = "This is the answer of a mock target."
"""The answer if the user specifies none."""


class MockTarget:
    """Answers every prompt with the same text."""

    def __init__(self, response: str) -> None:
        self._output = Output(text=response)

    async def answer(self, _prompt: Prompt) -> Output:
        """Returns the answer."""
        return self._output

    async def aclose(self) -> None:
        """Does nothing: nothing was started."""


async def open_target(spec: TargetSpec, context: TargetContext) -> MockTarget:
    """Opens a target of kind `mock` with the response of its options, or with the text after the colon.

    Raises:
        UsageError: a variable that the response names is not set.
    """
    response = spec.options.get("response")
    return MockTarget(
        substitute(response, context.environ) if response is not None else spec.model or DEFAULT_RESPONSE
    )


def _read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    response = entry.fields.text("response")
    return spec if response is None else replace(spec, options={"response": response})


MOCK = TargetKind(
    name="mock",
    open_target=open_target,
    syntax="mock[:TEXT]",
    summary="always the same text",
    file_fields={"response": {"type": "string", "description": "The answer to every prompt."}},
    read_entry=_read_entry,
    is_cacheable=False,
    is_instant=True,
    is_free=True,
)

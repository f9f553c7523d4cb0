"""Services with an interface over HTTP, as each kind of target knows them, and targets that ask one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from proctor.errors import TargetError
from proctor.model import Output, ToolCall
from proctor.protocols import Target
from proctor.targets import TARGETS
from proctor.targets.context import TargetContext
from support.builders import make_prompt, make_spec
from support.endpoints import Service

API_KINDS = ("openai", "azure", "anthropic", "google")
KEY = "sk-a-secret-of-some-length"
WITH_KEY = {"PROCTOR_API_KEY": KEY}


def make_reply(kind: str, text: str = "4", *calls: ToolCall, model: str = "m") -> dict[str, Any]:
    """What a service of a kind replies with that answers with a text and calls of tools."""
    if kind == "anthropic":
        uses = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in calls
        ]
        return {"content": [{"type": "text", "text": text}, *uses], "model": model}
    if kind == "google":
        parts = [{"functionCall": {"name": call.name, "args": call.arguments}} for call in calls]
        return {"candidates": [{"content": {"parts": [{"text": text}, *parts]}}], "modelVersion": model}
    functions = [
        {"id": call.id, "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in calls
    ]
    return {"choices": [{"message": {"content": text, "tool_calls": functions}}], "model": model}


class Api(Service):
    """A service on loopback, and targets of any kind that ask it."""

    def __init__(self, opening: Callable[..., TargetContext]) -> None:
        super().__init__()
        self._opening = opening

    @property
    def body(self) -> Any:
        """What came in last."""
        return self.requests[-1].body

    async def open(
        self,
        kind: str = "openai",
        model: str = "m",
        at: str = "",
        *,
        environ: Mapping[str, str] = WITH_KEY,
        options: dict[str, Any] | None = None,
        **params: Any,
    ) -> Target:
        """A target that asks this service, at an address under its own; the fields are its parameters."""
        spec = make_spec(kind, model, self.url + at, options=options, **params)
        return await TARGETS.get(kind).open_target(spec, self._opening(**environ))

    async def ask(
        self, kind: str, *turns: Any, target_options: Mapping[str, Any] | None = None, **fields: Any
    ) -> Output:
        """The answer of a target with these options to a prompt; the fields are those of the prompt."""
        target = await self.open(kind, **target_options or {})
        return await target.answer(make_prompt(*turns or ("hello",), **fields))

    async def fail(self, kind: str = "openai", **target_options: Any) -> TargetError:
        """The error of a target that gets no answer."""
        with pytest.raises(TargetError) as caught:
            await self.ask(kind, target_options=target_options)
        return caught.value

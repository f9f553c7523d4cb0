"""How services with OpenAI's chat completions write parameters: a record of each service's own names. Pure.

A service that calls a parameter as OpenAI does needs no row of its own: `OPENAI_FIELDS` has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from proctor.model import Params

FALLBACK_LIMITS: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""The two names of the maximum number of tokens, each with the one to try if an endpoint refuses it."""


class ChatField(Struct, frozen=True):
    """How one parameter is written into the body of a request."""

    path: str
    """The field, with a dot before a field inside it."""
    beside: Mapping[str, Any] = {}
    """Further fields that are sent with it, by their paths."""
    instead: Mapping[Any, Mapping[str, Any]] = {}
    """The fields that are sent for single values, in place of all others."""

    @property
    def name(self) -> str:
        """The field at the top of the body, which an endpoint's error names."""
        return self.path.partition(".")[0]

    def write(self, body: dict[str, Any], value: Any) -> None:
        """Writes a value into a body."""
        usual = {self.path: value, **self.beside}
        for path, part in (self.instead.get(value, usual) if self.instead else usual).items():
            *parents, name = path.split(".")
            place = body
            for parent in parents:
                place = place.setdefault(parent, {})
            place[name] = part


class ChatStyle(Struct, frozen=True, kw_only=True):
    """How one service writes the parameters that it takes."""

    fields: Mapping[str, ChatField]
    """The field of each parameter by its name in `Params`; what is not here cannot be sent."""
    has_responses: bool = False
    """Whether the service has the Responses API too."""
    has_developer_role: bool = False
    """Whether it knows messages of the role `developer`; else they are sent as `system`."""
    has_cost: bool = False
    """Whether `cost` beside the token counts of a reply is what the call cost, in US dollars."""
    completion_limit_models: str = ""
    """A regular expression for the beginning of models that only take `max_completion_tokens`."""

    @property
    def params(self) -> frozenset[str]:
        """The parameters that it takes, besides temperature, seed and maximum tokens."""
        interfaces = {"api_format"} if self.has_responses else set()
        return frozenset(self.fields) - {"temperature", "seed", "max_tokens"} | interfaces

    def get_name(self, param: str) -> str | None:
        """Returns the top field of a parameter; None if it is not sent."""
        field = self.fields.get(param)
        return None if field is None else field.name

    def write_params(self, params: Params, model: str, refused_names: frozenset[str]) -> dict[str, Any]:
        """Returns the fields of a body for all parameters but the seed, without those that were refused.

        Args:
            params: the parameters; one that the service lacks is left out.
            model: the name of the model.
            refused_names: the fields that the endpoint refused.
        """
        body: dict[str, Any] = {}
        if params.temperature is not None and self.get_name("temperature") not in {None, *refused_names}:
            self.fields["temperature"].write(body, params.temperature)
        if params.max_tokens is not None:
            body[self._get_limit_name(model, refused_names)] = params.max_tokens
        for name, value in params.further.items():
            if name in self.fields:
                self.fields[name].write(body, value)
        if "stream_options" in refused_names:
            body.pop("stream_options", None)
        return body

    def _get_limit_name(self, model: str, refused_names: frozenset[str]) -> str:
        name = self.fields["max_tokens"].name
        if self.completion_limit_models and re.match(self.completion_limit_models, model):
            name = "max_completion_tokens"
        return FALLBACK_LIMITS[name] if name in refused_names else name


def same_names(*names: str) -> dict[str, ChatField]:
    """Returns the fields of parameters that a service calls as Proctor does."""
    return {name: ChatField(name) for name in names}


def without(fields: Mapping[str, ChatField], *names: str) -> dict[str, ChatField]:
    """Returns fields without those of some parameters."""
    return {name: field for name, field in fields.items() if name not in names}


# Source: https://platform.openai.com/docs/api-reference/chat/create.
OPENAI_FIELDS: Final[Mapping[str, ChatField]] = {
    **same_names("temperature", "seed", "max_tokens", "top_p", "stop"),
    **same_names("presence_penalty", "frequency_penalty"),
    **same_names("reasoning_effort", "verbosity", "service_tier"),
    "logprobs": ChatField("top_logprobs", beside={"logprobs": True}, instead={0: {"logprobs": True}}),
    "stream": ChatField("stream", beside={"stream_options": {"include_usage": True}}),
}
"""The fields of OpenAI's own service."""
OPENAI_STYLE: Final = ChatStyle(
    fields=OPENAI_FIELDS,
    has_responses=True,
    has_developer_role=True,
    # Source: https://platform.openai.com/docs/guides/reasoning: `max_tokens` is an error for these models.
    completion_limit_models=r"(o[1-9]|gpt-[5-9])(?![a-z])",
)

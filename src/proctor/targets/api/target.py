"""What all models over HTTP have in common; each subclass knows one format of requests and replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import msgspec

from proctor.errors import UsageError
from proctor.model import Message, Output, Params, Prompt, TargetSpec
from proctor.targets.api.messages import get_system_message, with_system_message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from yarl import URL

    from proctor.targets.api.http import Body, JsonEndpoint
    from proctor.targets.context import TargetContext

ENCODER = msgspec.json.Encoder()


class ApiTarget(ABC):
    """A model behind an endpoint for JSON requests."""

    optional_params: ClassVar[tuple[str, ...]]
    """The parameters that a request may leave out, by the API's names."""

    def __init__(self, model: str, params: Params, post: JsonEndpoint, system: Message | None = None) -> None:
        self._model = model
        self._params = params
        self._endpoint = post
        self._system = system

    @classmethod
    def from_spec(
        cls, model: str, spec: TargetSpec, context: TargetContext, url: URL, headers: Mapping[str, str]
    ) -> Self:
        """Creates a target at a URL, with the parameters and the system message of a specification.

        Raises:
            UsageError: a variable in the system message is not set.
        """
        from proctor.targets.api.http import JsonEndpoint

        post = JsonEndpoint(context, url, headers)
        return cls(model, spec.params, post, get_system_message(spec, context.environ))

    @property
    def endpoint(self) -> JsonEndpoint:
        """The endpoint for single requests."""
        return self._endpoint

    def encode_request(self, prompt: Prompt, refused_names: frozenset[str]) -> bytes:
        """Returns the body of a request without the parameters of these names, for a batch."""
        return ENCODER.encode(self._build_request(with_system_message(prompt, self._system), refused_names))

    def decode_reply(self, data: Body, prompt: Prompt) -> Output:
        """Returns the answer in a reply to such a request; raises TargetError if there is none."""
        prompt = with_system_message(prompt, self._system)
        return self._endpoint.redact_keys(self._parse_reply(data, 0.0, prompt))

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the model's answer.

        Raises:
            TargetError: there is none; of kind `refused` where the API blocked the prompt.
        """
        prompt = with_system_message(prompt, self._system)

        def encode_without(refused_names: frozenset[str]) -> bytes:
            return ENCODER.encode(self._build_request(prompt, refused_names))

        data, latency_ms = await self._endpoint.send(encode_without, self.optional_params)
        return self._endpoint.redact_keys(self._parse_reply(data, latency_ms, prompt))

    async def aclose(self) -> None:  # noqa: B027  # nothing to close is the rule
        """Does nothing: the session belongs to the context that the target was opened with."""

    @abstractmethod
    def _build_request(self, prompt: Prompt, refused_names: frozenset[str]) -> msgspec.Struct:
        """Returns the body of a request without the parameters that the endpoint refused."""

    @abstractmethod
    def _parse_reply(self, data: Body, latency_ms: float, prompt: Prompt) -> Output:
        """Returns the answer in a reply."""

    def _temperature(self, prompt: Prompt) -> float | None:
        return self._params.temperature if prompt.temperature is None else prompt.temperature


def require_model(spec: TargetSpec) -> str:
    """Returns the model of a specification.

    Raises:
        UsageError: it has none.
    """
    if not spec.model:
        raise UsageError(f"Target {spec.name!r} names no model. Write {spec.kind}:MODEL.")
    return spec.model

"""What all models over HTTP have in common; each subclass knows one format of requests and replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace

from proctor.env_substitution import names_in, substitute
from proctor.errors import TargetError, UsageError
from proctor.model import Message, Output, Params, Prompt, TargetSpec
from proctor.parameters import CASE_PARAMETERS, PLAIN_PARAMETERS, check_parameters, merge_objects
from proctor.targets import get_service
from proctor.targets.api.messages import get_system_message, with_system_message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from yarl import URL

    from proctor.targets.api.event_stream import StreamedReply
    from proctor.targets.api.http import Body, JsonEndpoint, Sign
    from proctor.targets.context import TargetContext

ENCODER = msgspec.json.Encoder()


class ApiTarget(ABC):
    """A model behind an endpoint for JSON requests."""

    optional_params: ClassVar[tuple[str, ...]]
    """The parameters that a request may leave out, by the API's names. Those that a user chose stay."""
    streamed_reply: type[StreamedReply] | None = None
    """Makes what puts the events of a streamed reply together; None if the API is never streamed."""

    def __init__(
        self,
        model: str,
        params: Params,
        post: JsonEndpoint,
        system: Message | None = None,
        case_params: frozenset[str] = CASE_PARAMETERS,
    ) -> None:
        """Use `from_spec`."""
        self._model = model
        self._params = params
        self._endpoint = post
        self._system = system
        self._case_params = case_params

    @classmethod
    def from_spec(
        cls,
        model: str,
        spec: TargetSpec,
        context: TargetContext,
        url: URL,
        headers: Mapping[str, str],
        *,
        sign: Sign | None = None,
        stream_url: URL | None = None,
    ) -> Self:
        """Creates a target at a URL, with the parameters and the system message of a specification.

        `stream_url` is the address of requests whose replies are streamed, if they have another.

        Raises:
            UsageError: a variable in the system message is not set, or the model does not take a parameter.
        """
        from proctor.targets.api.http import JsonEndpoint

        if conflict := cls.find_conflict(model, spec.params):
            raise UsageError(f"Target {spec.name!r}: {conflict}")
        own_headers = with_own_headers(spec, headers, context.environ)
        post = JsonEndpoint(
            context,
            url,
            own_headers,
            sign=sign,
            stream_url=stream_url,
            secrets=_list_secrets(spec.params, context.environ),
        )
        params = replace(spec.params, extra_body=substitute(spec.params.extra_body, context.environ))
        kind = get_service(spec).with_format(spec.params.api_format)
        case_params = CASE_PARAMETERS & (kind.all_params | PLAIN_PARAMETERS.keys())
        target = cls(model, params, post, get_system_message(spec, context.environ), case_params)
        target._prepare(spec)
        return target

    def _prepare(self, spec: TargetSpec) -> None:  # noqa: B027  # most need nothing else
        """Reads what only a subclass needs from the specification."""

    @property
    def endpoint(self) -> JsonEndpoint:
        """The endpoint for single requests."""
        return self._endpoint

    def encode_request(self, prompt: Prompt, refused_names: frozenset[str]) -> bytes:
        """Returns the body of a request without the parameters of these names, for a batch.

        Raises:
            TargetError: of kind `unsupported`: the model does not take the parameters of the case.
        """
        prompt = with_system_message(prompt, self._system)
        params = replace(self._params_for(prompt), stream=False)  # a batch cannot stream
        if prompt.params and (conflict := self.find_conflict(self._model, params)):
            raise TargetError(conflict, kind="unsupported")
        return _encode_request(self._build_request(prompt, params, refused_names), params)

    def decode_reply(self, data: Body, prompt: Prompt) -> Output:
        """Returns the answer in a reply to such a request; raises TargetError if there is none."""
        prompt = with_system_message(prompt, self._system)
        return self._endpoint.redact_keys(self._parse_reply(data, prompt, self._params_for(prompt)))

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the model's answer.

        Raises:
            TargetError: there is none; of kind `refused` where the API blocked the prompt, `unsupported`
                where the model does not take the parameters of the case.
        """
        if prompt.choices:
            return await self._score_choices(prompt)
        if self._system is not None:
            prompt = with_system_message(prompt, self._system)
        params = self._params_for(prompt)
        if prompt.params and (conflict := self.find_conflict(self._model, params)):
            raise TargetError(conflict, kind="unsupported")

        def encode_without(refused_names: frozenset[str]) -> bytes:
            return _encode_request(self._build_request(prompt, params, refused_names), params)

        try:
            reply = await self._endpoint.send(
                encode_without,
                self.optional_params,
                self.streamed_reply if params.stream else None,
            )
            output = self._parse_reply(reply.body, prompt, params)
        except TargetError as error:
            raise self._endpoint.redact_error(error) from error.__cause__
        output = replace(
            output,
            latency_ms=reply.latency_ms,
            first_token_ms=reply.first_token_ms,
            request_id=reply.request_id,
        )
        return self._endpoint.redact_keys(output)

    async def aclose(self) -> None:  # noqa: B027  # nothing to close is the rule
        """Does nothing: the session belongs to the context that the target was opened with."""

    async def _score_choices(self, prompt: Prompt) -> Output:  # noqa: ARG002
        """Returns how likely each choice of a prompt is; most services do not report that."""
        raise TargetError(f"{self._model!r} does not report the likelihoods of choices.", kind="unsupported")

    @abstractmethod
    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> msgspec.Struct | dict[str, Any]:
        """Returns the body of a request without the parameters that the endpoint refused."""

    @abstractmethod
    def _parse_reply(self, data: Body, prompt: Prompt, params: Params) -> Output:
        """Returns the answer in a reply, without its times and the id of its request."""

    @classmethod
    def find_conflict(cls, _model: str, _params: Params) -> str | None:
        """Returns why a model cannot be called with these parameters, and what to do; None if it can."""
        return None

    def _params_for(self, prompt: Prompt) -> Params:
        """Returns the parameters of a prompt: the target's, with those that the case sets itself."""
        if prompt.temperature is None and not prompt.params:
            return self._params
        own = {"temperature": prompt.temperature} if prompt.temperature is not None else {}
        try:
            values = check_parameters(prompt.params, self._case_params)
        except UsageError as error:
            raise TargetError(
                f"The parameters of the case cannot be sent: {error}", kind="unsupported"
            ) from None
        extra_body = merge_objects(self._params.extra_body, values.get("extra_body", {}))
        return replace(self._params, **{**values, "extra_body": extra_body, **own})


def _read_headers(spec: TargetSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns a target's own headers as they are sent.

    Raises:
        UsageError: a variable is not set, or its value cannot be sent.
    """
    headers = {name: value.strip() for name, value in substitute(spec.params.headers, environ).items()}
    for name, value in headers.items():
        if not value.isprintable():
            variables = " and ".join(names_in(spec.params.headers[name]))
            raise UsageError(
                f"Target {spec.name!r}: the header `{name}` would contain a character that is not allowed in "
                f"a header. Check the environment variable {variables}."
            )
    return headers


def _list_secrets(params: Params, environ: Mapping[str, str]) -> list[str]:
    """Returns the values of the variables that headers and further fields of the body name."""
    return [environ.get(name, "") for name in names_in((params.headers, params.extra_body))]


def _encode_request(request: msgspec.Struct | dict[str, Any], params: Params) -> bytes:
    """Returns a body with the further fields of the parameters, which replace those of the same names."""
    body = ENCODER.encode(request)
    if not params.extra_body:
        return body
    return ENCODER.encode(merge_objects(msgspec.json.decode(body), params.extra_body))


def with_own_headers(
    spec: TargetSpec, headers: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Returns the usual headers of a request with those of a specification, which replace them.

    Raises:
        UsageError: a variable in one is not set, or its value cannot be sent.
    """
    own_headers = _read_headers(spec, environ)
    names = {name.lower() for name in own_headers}
    return {name: value for name, value in headers.items() if name.lower() not in names} | own_headers


def require_model(spec: TargetSpec) -> str:
    """Returns the model of a specification.

    Raises:
        UsageError: it has none.
    """
    if not spec.model:
        raise UsageError(f"Target {spec.name!r} names no model. Write {spec.kind}:MODEL.")
    return spec.model

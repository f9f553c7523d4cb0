"""Answers prompts over Vertex AI, Google Cloud's address for Gemini and Claude models.

Source of the addresses and the tiers: https://cloud.google.com/vertex-ai/generative-ai/docs. Requests and
replies are those of the Gemini API and of Anthropic's Messages API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from proctor.env_substitution import names_in
from proctor.errors import TargetError, UsageError
from proctor.lazy_pattern import lazy_pattern
from proctor.model import Params, Prompt, TargetSpec
from proctor.targets import get_kind
from proctor.targets.api.anthropic.messages_api import ANTHROPIC, AnthropicTarget
from proctor.targets.api.google.gemini import GOOGLE, GoogleTarget, generate_urls
from proctor.targets.api.target import require_model
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import TargetKind

if TYPE_CHECKING:
    from proctor.targets.api.anthropic.messages_api import _MessagesRequest
    from proctor.targets.api.google.credentials import AccessToken
    from proctor.targets.context import TargetContext

_OWN_HOST: Final = lazy_pattern(
    r"([a-z0-9-]+-)?aiplatform(-[a-z0-9-]+)?(\.[a-z0-9-]+\.rep|\.p)?\.googleapis\.com"
)
"""Matches the hosts that get the credentials of the environment, with those of private connections."""
_MULTI_REGIONS: Final = frozenset({"us", "eu"})
_DEFAULT_LOCATION: Final = "global"
_LOCATION: Final = lazy_pattern(r"[a-z0-9-]+")
_OPTIONS: Final = ("project", "location", "credentials")
_TOKEN_VARIABLE: Final = "VERTEX_ACCESS_TOKEN"
_API_KEY_HEADER: Final = "x-goog-api-key"
_STANDARD_TIER: Final = "standard"
_ANTHROPIC_VERSION: Final = "vertex-2023-10-16"
_FILE_FIELDS: Final = {
    "project": {
        "type": "string",
        "pattern": r"\S",
        "description": "The Google Cloud project that is billed.",
    },
    "location": {
        "type": "string",
        "pattern": r"\S",
        "description": "The region, such as us-central1, or global.",
    },
    "credentials": {
        "type": "string",
        "pattern": r"\S",
        "description": "The key file of a service account, relative to the folder of targets.yaml.",
    },
}


class VertexTarget(GoogleTarget):
    """A Gemini model on Vertex AI, where the tier is a header of all requests."""

    has_tier_field = False

    def _params_for(self, prompt: Prompt) -> Params:
        if prompt.params.get("service_tier", self._params.service_tier) != self._params.service_tier:
            raise TargetError(
                "Vertex AI uses one `service_tier` for all cases. Set it for the target.", kind="unsupported"
            )
        return super()._params_for(prompt)


class VertexAnthropicTarget(AnthropicTarget):
    """A Claude model on Vertex AI, which is named in the address only."""

    def _build_request(
        self, prompt: Prompt, params: Params, refused_names: frozenset[str]
    ) -> _MessagesRequest:
        request = super()._build_request(prompt, params, refused_names)
        request.model, request.anthropic_version = "", _ANTHROPIC_VERSION
        return request


async def open_target(spec: TargetSpec, context: TargetContext) -> VertexTarget:
    """Opens the model of a specification of kind `vertex`.

    Raises:
        UsageError: the specification has no model, or there are no credentials or no project.
    """
    model = require_model(spec)
    if model.startswith("claude-"):
        raise UsageError(f"Target {spec.name!r} is a Claude model. Write {VERTEX_ANTHROPIC.name}:{model}.")
    keys, token = await _find_credentials(spec, context)
    models = _models_address(spec, context, "google", token, has_api_key=_API_KEY_HEADER in keys)
    url, stream_url = generate_urls(models, model)
    headers = keys | _tier_headers(spec.params.service_tier)
    sign = None if token is None else token.sign
    return VertexTarget.from_spec(model, spec, context, url, headers, sign=sign, stream_url=stream_url)


async def open_anthropic_target(spec: TargetSpec, context: TargetContext) -> VertexAnthropicTarget:
    """Opens the model of a specification of kind `vertex-anthropic`.

    Raises:
        UsageError: the specification has no model, or there are no credentials or no project.
    """
    from yarl import URL

    model = require_model(spec)
    keys, token = await _find_credentials(spec, context)
    models = _models_address(spec, context, "anthropic", token, has_api_key=False)
    address = f"{models}/{quote(model, safe='@')}"
    url, stream_url = (URL(f"{address}:{name}", encoded=True) for name in ("rawPredict", "streamRawPredict"))
    sign = None if token is None else token.sign
    return VertexAnthropicTarget.from_spec(model, spec, context, url, keys, sign=sign, stream_url=stream_url)


def _tier_headers(tier: str | None) -> dict[str, str]:
    """Returns the headers that choose a tier; none for the usual one."""
    if tier in (None, _STANDARD_TIER):
        return {}
    # Without the first one, throughput that was bought before answers instead of the tier.
    return {"X-Vertex-AI-LLM-Request-Type": "shared", "X-Vertex-AI-LLM-Shared-Request-Type": tier}


async def _find_credentials(
    spec: TargetSpec, context: TargetContext
) -> tuple[dict[str, str], AccessToken | None]:
    """Returns the headers with the key of all requests, and the token if it changes between requests."""
    from proctor.targets.api.google.credentials import find_token
    from proctor.targets.api.http import key_for_endpoint, read_key

    subject = f"Target {spec.name!r}"
    for name in names_in(spec.options.get("api_key")):
        return {_API_KEY_HEADER: read_key(name, context, subject)}, None
    if "credentials" not in spec.options:
        if not _is_own_host(spec.endpoint):
            return _bearer_header(key_for_endpoint(spec.endpoint or "", context, subject)), None
        for name in get_kind(spec).key_variables:
            if context.environ.get(name, "").strip():
                key = read_key(name, context, subject)
                return _bearer_header(key) if name == _TOKEN_VARIABLE else {_API_KEY_HEADER: key}, None
    return {}, await find_token(spec, context)


def _is_own_host(endpoint: str | None) -> bool:
    return endpoint is None or _OWN_HOST.fullmatch(urlsplit(endpoint).hostname or "") is not None


def _bearer_header(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _models_address(
    spec: TargetSpec,
    context: TargetContext,
    publisher: str,
    token: AccessToken | None,
    *,
    has_api_key: bool,
) -> str:
    """Returns the address of the models of a publisher.

    With an API key, and at another host without a project, it is that of "express mode", which has neither
    project nor location.
    """
    location = _setting(spec, context, "location") or _DEFAULT_LOCATION
    if not _LOCATION.fullmatch(location):
        raise UsageError(
            f"Target {spec.name!r}: {location!r} is not a location. Write a location such as us-central1 or "
            f"global."
        )
    project = _setting(spec, context, "project") or (token.project if token is not None else None)
    if has_api_key:
        project, location = None, _DEFAULT_LOCATION
    elif not project and _is_own_host(spec.endpoint):
        raise UsageError(
            f"Target {spec.name!r} needs a Google Cloud project. Set GOOGLE_CLOUD_PROJECT, or `project` "
            "in targets.yaml."
        )
    address = (spec.endpoint or _default_address(location)).rstrip("/").removesuffix("/v1")
    place = f"/projects/{quote(project, safe='')}/locations/{location}" if project else ""
    return f"{address}/v1{place}/publishers/{publisher}/models"


def _default_address(location: str) -> str:
    if location == _DEFAULT_LOCATION:
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _setting(spec: TargetSpec, context: TargetContext, name: str) -> str:
    """Returns a target's own project or location, else that of the environment; empty if there is none."""
    value = spec.options.get(name) or context.environ.get(f"GOOGLE_CLOUD_{name.upper()}", "")
    return str(value).strip()


def _read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    values = {name: entry.fields.text(name) for name in _OPTIONS}
    options = {name: value for name, value in values.items() if value is not None}
    if "credentials" in options:  # a path that comes from a variable is stored as it is written
        options["credentials"] = entry.references.get("credentials", options["credentials"])
        options["folder"] = entry.context.folder
    return replace(spec, options=spec.options | options)


VERTEX = TargetKind(
    name="vertex",
    open_target=open_target,
    syntax="vertex:MODEL[@URL]",
    summary="Gemini on Vertex AI; also uses the login of gcloud",
    address=_default_address(_DEFAULT_LOCATION),
    stores_address=False,
    key_variables=(_TOKEN_VARIABLE, "VERTEX_API_KEY"),
    provider_names=("vertexai", "vertex-ai", "google-vertex"),
    media=GOOGLE.media,
    params=GOOGLE.params,
    file_fields=_FILE_FIELDS,
    read_entry=_read_entry,
    bills_per_prompt=True,
    is_typed_in_web=True,
)

VERTEX_ANTHROPIC = replace(
    ANTHROPIC,
    name="vertex-anthropic",
    batches="",
    open_target=open_anthropic_target,
    syntax="vertex-anthropic:MODEL[@URL]",
    summary="Claude on Vertex AI; also uses the login of gcloud",
    aliases={},
    model_pattern="",
    address=VERTEX.address,
    key_variables=(_TOKEN_VARIABLE,),
    file_fields=_FILE_FIELDS,
    read_entry=_read_entry,
    has_list_prices=False,
)

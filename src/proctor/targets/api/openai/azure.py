"""Answers prompts over Azure OpenAI: OpenAI's interfaces at the address of a resource.

Sources of the addresses: https://learn.microsoft.com/azure/ai-services/openai/reference; for those without a
dated version, https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle; for responses,
https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses. The model of the specification is the
name of the deployment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import TargetSpec
from proctor.targets.api.openai.chat import OPENAI, OpenAiTarget
from proctor.targets.api.target import ApiTarget, require_model
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import TargetKind

if TYPE_CHECKING:
    from proctor.targets.context import TargetContext

DEFAULT_API_VERSION = "2024-12-01-preview"
"""The API version if the user specifies none, at addresses that need one."""


async def open_target(spec: TargetSpec, context: TargetContext) -> ApiTarget:
    """Opens the deployment of a specification of kind `azure`.

    Raises:
        UsageError: the specification has no deployment or address, or the key is not set.
    """
    from yarl import URL

    from proctor.targets.api.http import key_for_target

    deployment = require_model(spec)
    if spec.endpoint is None:
        raise UsageError(f"Target {spec.name!r} needs the URL of its resource as its endpoint.")
    key = key_for_target(spec, spec.endpoint, context)
    version = spec.options.get("api_version")
    if spec.params.api_format == "responses":
        from proctor.targets.api.openai.responses import ResponsesTarget

        endpoint = spec.endpoint.rstrip("/").removesuffix("/openai/v1").removesuffix("/openai")
        url = URL(endpoint + _responses_path(version), encoded=True)
        return ResponsesTarget.from_spec(deployment, spec, context, url, _key_header(key))
    url = URL(_chat_address(spec.endpoint, deployment, version), encoded=True)
    return OpenAiTarget.from_spec(deployment, spec, context, url, _key_header(key))


def _chat_address(endpoint: str, deployment: str, version: str | None) -> str:
    """Returns the address of chat completions: below `/openai/v1` the body names the deployment."""
    endpoint = endpoint.rstrip("/")
    # The names are data: a slash or a question mark in them must not reach another address.
    query = "" if version is None else f"?api-version={quote(version, safe='')}"
    if endpoint.endswith("/openai/v1"):
        return f"{endpoint}/chat/completions{query}"
    root = f"{endpoint.removesuffix('/openai')}/openai/deployments/{quote(deployment, safe='')}"
    return f"{root}/chat/completions{query or f'?api-version={DEFAULT_API_VERSION}'}"


def _key_header(key: str | None) -> dict[str, str]:
    """Returns the header with a key, or with a token of Microsoft Entra, which is a JSON Web Token."""
    if not key:
        return {}
    is_token = key.startswith("eyJ") and key.count(".") == 2
    return {"Authorization": f"Bearer {key}"} if is_token else {"api-key": key}


def _responses_path(version: str | None) -> str:
    """Returns the path of responses: versions by date have an address of their own."""
    if version is None:
        return "/openai/v1/responses"
    root = "/openai" if version[:1].isdigit() else "/openai/v1"
    return f"{root}/responses?api-version={quote(version, safe='')}"


def _read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    version = entry.fields.text("api_version")
    return spec if version is None else replace(spec, options=spec.options | {"api_version": version})


AZURE = TargetKind(
    name="azure",
    open_target=open_target,
    syntax="azure:DEPLOYMENT[@URL]",
    summary="Azure OpenAI at $AZURE_OPENAI_ENDPOINT",
    address_variable="AZURE_OPENAI_ENDPOINT",
    address_help="needs the URL of its resource, such as https://NAME.openai.azure.com, in "
    "AZURE_OPENAI_ENDPOINT or after @.",
    key_variables=("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN"),
    params=OPENAI.params,
    media=OPENAI.media,
    media_types=OPENAI.media_types,
    # Only Microsoft's own hosts get this key.
    key_hosts=(".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
    provider_names=("azure-openai",),
    file_fields={"api_version": {"type": "string", "description": "The version of the Azure API."}},
    read_entry=_read_entry,
    bills_per_prompt=True,
    is_typed_in_web=True,
)

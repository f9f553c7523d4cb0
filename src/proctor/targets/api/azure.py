"""Answers prompts over Azure OpenAI: OpenAI's chat completions at a deployment's own address.

Source of the address: https://learn.microsoft.com/azure/ai-services/openai/reference. The model of the
specification is the name of the deployment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import TargetSpec
from proctor.targets.api.openai import OPENAI, OpenAiTarget
from proctor.targets.api.target import require_model
from proctor.targets.entries import TargetEntry
from proctor.targets.kind import TargetKind

if TYPE_CHECKING:
    from proctor.targets.context import TargetContext

DEFAULT_API_VERSION = "2024-12-01-preview"
"""The API version if the user specifies none."""


async def open_target(spec: TargetSpec, context: TargetContext) -> OpenAiTarget:
    """Opens the deployment of a specification of kind `azure`.

    Raises:
        UsageError: the specification has no deployment or address, or the key is not set.
    """
    from yarl import URL

    from proctor.targets.api.http import key_for_target

    deployment = require_model(spec)
    if spec.endpoint is None:
        raise UsageError(f"Target {spec.name!r} needs the address of its resource as its endpoint.")
    endpoint = spec.endpoint.rstrip("/").removesuffix("/openai")
    key = key_for_target(spec, endpoint, context)
    version = spec.options.get("api_version", DEFAULT_API_VERSION)
    # The names are data: a slash or a question mark in them must not reach another address.
    path = f"/openai/deployments/{quote(deployment, safe='')}/chat/completions"
    url = URL(f"{endpoint}{path}?api-version={quote(version, safe='')}", encoded=True)
    return OpenAiTarget.from_spec(deployment, spec, context, url, {"api-key": key} if key else {})


def _read_entry(spec: TargetSpec, entry: TargetEntry) -> TargetSpec:
    version = entry.fields.text("api_version")
    return spec if version is None else replace(spec, options=spec.options | {"api_version": version})


AZURE = TargetKind(
    name="azure",
    open_target=open_target,
    syntax="azure:DEPLOYMENT[@URL]",
    summary="Azure OpenAI at $AZURE_OPENAI_ENDPOINT",
    address_variable="AZURE_OPENAI_ENDPOINT",
    address_help="needs the address of its resource, such as https://NAME.openai.azure.com, in "
    "AZURE_OPENAI_ENDPOINT or after @.",
    key_variables=("AZURE_OPENAI_API_KEY",),
    media=OPENAI.media,
    media_types=OPENAI.media_types,
    # Only Microsoft's own hosts get this key.
    key_hosts=(".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"),
    provider_names=("azure-openai",),
    file_fields={"api_version": {"type": "string", "description": "The version of Azure's interface."}},
    read_entry=_read_entry,
    bills_per_prompt=True,
    is_typed_in_web=True,
)

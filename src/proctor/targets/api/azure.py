"""Prompts to outputs over Azure OpenAI: OpenAI's chat completions under a deployment's own address.

Source of the address: https://learn.microsoft.com/azure/ai-services/openai/reference. The model of the
specification is the name of the deployment.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from yarl import URL

from proctor.errors import UsageError
from proctor.model import TargetSpec
from proctor.targets.api.http import Post, key_of
from proctor.targets.api.messages import system_of
from proctor.targets.api.openai import OpenAi, named_model
from proctor.targets.context import Opening

API_VERSION = "2024-12-01-preview"
"""The version of the interface that is asked for where the user names none."""
KEY_VARIABLE = "AZURE_OPENAI_API_KEY"
_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")


async def open_target(spec: TargetSpec, opening: Opening) -> OpenAi:
    """The target that a specification of kind `azure` names by its deployment and its resource's address.

    Raises:
        UsageError: it names no deployment or address, or its key is not set.
    """
    deployment = named_model(spec)
    if spec.endpoint is None:
        raise UsageError(f"Target {spec.name!r} needs the address of its resource as its endpoint.")
    endpoint = spec.endpoint.rstrip("/").removesuffix("/openai")
    # Only Microsoft's own hosts get the key that the environment has for them.
    own = (urlsplit(endpoint).hostname or "").endswith(_HOSTS)
    key = key_of(spec, endpoint, opening, KEY_VARIABLE if own else None)
    version = spec.options.get("api_version", API_VERSION)
    # The names are data: a slash or a question mark in them must not reach another address.
    path = f"/openai/deployments/{quote(deployment, safe='')}/chat/completions"
    url = URL(f"{endpoint}{path}?api-version={quote(version, safe='')}", encoded=True)
    post = Post(opening, url, {"api-key": key} if key else {})
    return OpenAi(deployment, spec.params, post, system_of(spec, opening.environ))

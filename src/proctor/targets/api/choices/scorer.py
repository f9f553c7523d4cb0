"""Opens what scores choices at a server with OpenAI's interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from yarl import URL

from proctor.model import Output, Prompt, TargetSpec
from proctor.targets import get_service
from proctor.targets.api.choices.completions import EchoScorer
from proctor.targets.api.choices.llamacpp import LlamaScorer
from proctor.targets.context import TargetContext


class ChoiceScorer(Protocol):
    """Scores the choices of prompts."""

    async def score(self, prompt: Prompt) -> Output:
        """Returns the likelihood of each choice of a prompt.

        Raises:
            TargetError: there is no answer, or not all log-probabilities are known.
        """


def open_scorer(
    model: str, spec: TargetSpec, context: TargetContext, endpoint: str, headers: Mapping[str, str]
) -> ChoiceScorer:
    """Opens what scores choices at a base URL of a service that reports likelihoods.

    Args:
        model: the model's name.
        spec: the target, with its system message, headers and extra body.
        context: has the environment.
        endpoint: the base URL, without a slash at its end.
        headers: the headers of each request.

    Raises:
        UsageError: a variable is not set.
    """
    if get_service(spec).choice_interface == "llamacpp":
        url = URL(endpoint.removesuffix("/v1"))
        return LlamaScorer.from_spec(model, spec, context, url, headers)
    return EchoScorer.from_spec(model, spec, context, URL(f"{endpoint}/completions"), headers)

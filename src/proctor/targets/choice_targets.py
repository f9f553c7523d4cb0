"""Which targets can report how likely the choices of a prompt are."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from proctor.errors import UsageError
from proctor.model import TargetSpec
from proctor.targets import get_service


def scores_choices(spec: TargetSpec) -> bool:
    """Returns whether a target reports how likely choices are, by the service that it calls."""
    if spec.params.api_format == "responses":
        return False
    service = get_service(spec)
    is_usual_address = _get_host(spec.endpoint or service.address) == _get_host(service.address)
    if is_usual_address and service.choice_models:
        return re.fullmatch(service.choice_models, spec.model) is not None
    return service.scores_choices


def check_scores_choices(spec: TargetSpec, case_id: str, path: str) -> None:
    """Checks that a target and its fallbacks report how likely choices are.

    Args:
        spec: the target.
        case_id: a case with choices.
        path: the suite, for the message.

    Raises:
        UsageError: one of them does not.
    """
    if not scores_choices(spec):
        raise UsageError(
            f"Case {case_id!r} of {path} has choices, but target {spec.name!r} cannot report their "
            f"log-probabilities. Use `local`, `local:FILE.gguf`, `vllm:MODEL`, `sglang:MODEL`, "
            "`llamacpp:MODEL`, or `openai:MODEL@URL` for another server that returns the "
            "log-probabilities of a prompt. See 'Score multiple-choice questions' in the documentation."
        )
    for fallback in spec.fallbacks:
        check_scores_choices(fallback, case_id, path)


def _get_host(address: str | None) -> str | None:
    return urlsplit(address or "").hostname

"""Which targets can report how likely the choices of a prompt are."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from proctor.errors import UsageError
from proctor.model import TargetSpec
from proctor.targets import get_kind, iter_kinds

_THIS_MACHINE = (None, "localhost", "127.0.0.1", "::1")
"""Hosts at which any server may listen."""


def scores_choices(spec: TargetSpec) -> bool:
    """Returns whether a target reports how likely choices are, by its kind.

    At the address of a service in the table it is what that service can do, whatever kind calls it.
    """
    kind = get_kind(spec)
    host = _get_host(spec.endpoint or kind.address)
    services = (
        [] if host in _THIS_MACHINE else [other for other in iter_kinds() if _get_host(other.address) == host]
    )
    if not kind.scores_choices or not all(service.scores_choices for service in services):
        return False
    return not services or re.fullmatch(kind.choice_models or ".*", spec.model) is not None


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
            f"Case {case_id!r} of {path} has choices, and target {spec.name!r} cannot tell how likely they "
            "are. Use `local`, `local:FILE.gguf`, or `openai:MODEL@URL` for a server that returns the "
            "log-probabilities of a prompt, such as vLLM or SGLang. See docs/multiple-choice.md."
        )
    for fallback in spec.fallbacks:
        check_scores_choices(fallback, case_id, path)


def _get_host(address: str | None) -> str | None:
    return urlsplit(address or "").hostname

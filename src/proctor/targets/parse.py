"""Parses a target or judge on the command line into a `TargetSpec`.

Pure: it opens nothing and checks neither that a model exists nor that a key is set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from proctor.errors import UnknownName, UsageError
from proctor.model import Params, TargetSpec
from proctor.targets import TARGETS, iter_kinds
from proctor.targets.kind import TargetKind

_AT_URL = re.compile(r"(.*?)@(https?://.*)", re.DOTALL | re.IGNORECASE)


def parse_target(word: str, params: Params, environ: Mapping[str, str]) -> TargetSpec:
    """Parses a target.

    Args:
        word: `KIND:REST`, an alias, or the bare name of a well-known model.
        params: how it is called.
        environ: has the addresses of services, such as `OPENAI_BASE_URL` and `OLLAMA_HOST`.

    Raises:
        UnknownName: there is no such kind or model.
        UsageError: the rest is missing, or its URL is invalid.
    """
    name, colon, model = _expand_alias(word).partition(":")
    try:
        kind = TARGETS.get(name)
    except UnknownName:
        suggested = [f"{kind.name}:{word}" for kind in iter_kinds() if _is_usual_model(kind, word)]
        if name.endswith(".py"):
            module = ".".join(PurePosixPath(name).with_suffix("").parts)
            suggested.append(f"function:{module}:{model or 'NAME'}")
        raise UnknownName("target", name if colon else word, known_words(), suggested) from None
    if kind.has_address:
        return _parse_model(word, kind, model, params, environ)
    argument = kind.syntax.partition(":")[2]
    if model and kind.syntax == kind.name:
        raise UsageError(f"Target {word!r}: {name} accepts nothing after its name. Write {name}.")
    if argument and not model and not argument.endswith("]"):
        raise UsageError(f"Target {word!r} is incomplete. Write {kind.syntax}.")
    if kind.check_model is not None:
        kind.check_model(word, model)
    return TargetSpec(name=word, kind=kind.spec_kind, model=model, params=params)


def _is_usual_model(kind: TargetKind, word: str) -> bool:
    return bool(kind.usual_models) and re.match(kind.usual_models, word) is not None


def known_words() -> set[str]:
    """Returns every kind's name and every alias."""
    return {word for kind in iter_kinds() for word in (kind.name, *kind.aliases)}


def build_api_spec(
    name: str,
    kind: TargetKind,
    model: str,
    endpoint: str | None,
    params: Params,
    environ: Mapping[str, str],
) -> TargetSpec:
    """Returns the target of a kind with an address, without options.

    The address is `endpoint`, else the kind's default.

    Raises:
        UsageError: the address is missing or invalid; no message shows an address.
    """
    address = endpoint or _default_address(kind, environ)
    if address is not None:
        _check_address(address, _redact_address(name))
        address = address.rstrip("/")
    elif kind.address is None:
        advice = kind.address_help or f"needs a URL in {kind.address_variable}."
        raise UsageError(f"Target {_redact_address(name)} {advice}")
    # The kind alone does not tell a service that shares it with others, nor does an address of the user.
    is_elsewhere = kind.spec_kind != kind.name and address != kind.address
    options = {"service": kind.name} if is_elsewhere else {}
    return TargetSpec(
        name=name, kind=kind.spec_kind, model=model, endpoint=address, params=params, options=options
    )


def _expand_alias(word: str) -> str:
    """Expands an alias or a well-known model to `KIND:REST`; returns other words unchanged."""
    at_url = _AT_URL.fullmatch(word)
    head = at_url[1] if at_url else word
    if ":" in head or head in TARGETS:
        return word
    for installed in (False, True):
        kinds = list(iter_kinds(installed=installed))
        for kind in kinds:
            if head in kind.aliases:
                return f"{kind.name}:{kind.aliases[head]}{word[len(head) :]}"
        for kind in kinds:
            if kind.model_pattern and re.match(kind.model_pattern, head):
                return f"{kind.name}:{word}"
    return word


def _parse_model(
    word: str, kind: TargetKind, model_and_url: str, params: Params, environ: Mapping[str, str]
) -> TargetSpec:
    at_url = _AT_URL.fullmatch(model_and_url)
    model, endpoint = at_url.groups() if at_url else (model_and_url, None)
    if at_url is None and re.search(r"@[\w.-]+:\d+", model_and_url):
        raise UsageError(
            f"Target {_redact_address(word)}: the URL after @ must begin with http:// or https://."
        )
    if not model:
        raise UsageError(f"Target {_redact_address(word)} names no model. Write {kind.name}:MODEL.")
    return build_api_spec(word, kind, model, endpoint, params, environ)


def _default_address(kind: TargetKind, environ: Mapping[str, str]) -> str | None:
    """Returns the address to store in a specification: the variable's, else the kind's own."""
    value = environ.get(kind.address_variable, "").strip() if kind.address_variable else ""
    if value:
        return kind.parse_address(value) if kind.parse_address is not None else value
    return kind.address if kind.stores_address else None


def _check_address(endpoint: str, target: str) -> None:
    """Raises UsageError for an address that is invalid or has a secret; the message never shows it."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"The address of target {target} is not a valid URL: {error}.") from error
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"The URL of target {target} contains a user name or password, which would be stored with every "
            f"run. Remove it and set PROCTOR_API_KEY."
        )
    if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"The URL of target {target} must look like http://HOST:PORT/v1.")
    if parts.query or parts.fragment:
        raise UsageError(f"The URL of target {target} cannot have a part after ? or #. Remove it.")


def _redact_address(word: str) -> str:
    at_url = _AT_URL.fullmatch(word)
    return repr(at_url[1] + "@…" if at_url else word)

"""The sources of a chat client's answers: a target by its specification, or an object of the caller.

Imported with the first client, as opening a target needs many modules.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.retries import RetryingTarget, RetryPolicy
from proctor.errors import UsageError
from proctor.model import Params, TargetSpec
from proctor.protocols import Answerer, Target
from proctor.services.project_store import locate_project_store
from proctor.services.runs.execution.target_pool import TargetPool, load_prices
from proctor.services.runs.planning.target_names import TargetNames
from proctor.targets import TARGETS, get_kind
from proctor.targets.parse import build_api_spec

MAX_CONCURRENCY = 32
"""The most concurrent calls of one client; others wait."""
_KEY_VARIABLE = "PROCTOR_CHAT_CLIENT_KEY"
"""The variable that holds the client's key, in an environment of its own."""


class SpecSource:
    """A target by its specification; opened at first use, once for each `max_tokens`."""

    def __init__(self, spec: TargetSpec, environ: Mapping[str, str], retry_policy: RetryPolicy) -> None:
        self._spec = spec
        self._environ = environ
        self._retry_policy = retry_policy
        self._target_pool: TargetPool | None = None
        self._open_lock = asyncio.Lock()

    @property
    def name(self) -> str:
        """The model name of replies that have none: the model, else the name in the specification."""
        return self._spec.model or self._spec.name

    @property
    def reads_case_ids(self) -> bool:
        """Whether it may answer by the id of a case instead of the prompt, as a script does."""
        return any(get_kind(spec).reads_case_ids for spec in (self._spec, *self._spec.fallbacks))

    async def open_target(self, max_tokens: int | None) -> Answerer:
        """Returns the target for answers of at most that length; opens it at first use.

        Raises:
            UsageError: the target cannot be opened, or the user's prices cannot be read.
        """
        async with self._open_lock:
            if self._target_pool is None:
                self._target_pool = TargetPool(
                    self._environ,
                    concurrency=MAX_CONCURRENCY,
                    retry_policy=self._retry_policy,
                    prices=load_prices(self._environ, locate_project_store(None, self._environ).folder),
                    notify=logging.getLogger("proctor").warning,
                )
            return await self._target_pool.open_target(_with_max_tokens(self._spec, max_tokens))

    async def aclose(self) -> None:
        """Closes the target."""
        if self._target_pool is not None:
            await self._target_pool.aclose()


class ObjectSource:
    """An object with `async answer(prompt)`; it stays open, as it belongs to the caller."""

    reads_case_ids = True

    def __init__(self, target: Target, retry_policy: RetryPolicy) -> None:
        self.name = type(target).__name__
        self._retrying_target = RetryingTarget(target, AdaptiveLimit(MAX_CONCURRENCY), retry_policy)

    async def open_target(self, max_tokens: int | None) -> Answerer:  # noqa: ARG002  # the object has its own
        """Returns the object, with retries."""
        return self._retrying_target

    async def aclose(self) -> None:
        """Does nothing."""


TargetSource: TypeAlias = SpecSource | ObjectSource
"""Answers the prompts of a client; used in one event loop only."""


def endpoint_source(
    base_url: str, model: str, api_key: str | None, environ: dict[str, str], retry_policy: RetryPolicy
) -> TargetSource:
    """Returns the source for a model at an OpenAI-compatible address.

    Raises:
        UsageError: the address is invalid or contains a secret, the model is missing, or the key is invalid.
    """
    if not model:
        raise UsageError("ChatClient needs the name of a model, as the endpoint knows it.")
    spec = build_api_spec(
        f"openai:{model}@{base_url}", TARGETS.get("openai"), model, base_url, Params(), environ
    )
    if api_key and api_key.strip():
        if not (api_key.isascii() and api_key.isprintable()):
            raise UsageError("The api_key has characters that no key contains. Copy the key again.")
        environ[_KEY_VARIABLE] = api_key
        spec = replace(spec, options={"api_key": f"${{{{ {_KEY_VARIABLE} }}}}"})
    return SpecSource(spec, environ, retry_policy)


def target_source(target: Any, environ: dict[str, str], retry_policy: RetryPolicy) -> TargetSource:
    """Returns the source for a target by name, by specification, or as an object.

    Raises:
        UsageError: there is no target of that name, or targets.yaml is wrong (then SuiteError).
        TypeError: the value is not a target.
    """
    if isinstance(target, str):
        target = TargetNames(environ).get_spec(target, Params(), judged=False)
    if isinstance(target, TargetSpec):
        return SpecSource(target, environ, retry_policy)
    answer: Callable[..., Any] | None = getattr(target, "answer", None)
    if not callable(answer):
        raise TypeError(
            f"A value of type {type(target).__name__} is not a target. Pass an object with "
            "async answer(prompt), or a name such as 'local' or 'openai:gpt-5.2'."
        )
    return ObjectSource(target, retry_policy)


def _with_max_tokens(spec: TargetSpec, max_tokens: int | None) -> TargetSpec:
    """Returns the specification and its fallbacks with another limit of the answer."""
    if max_tokens is None:
        return spec
    return replace(
        spec,
        params=replace(spec.params, max_tokens=max_tokens),
        fallbacks=tuple(_with_max_tokens(fallback, max_tokens) for fallback in spec.fallbacks),
    )

"""Where a chat client's answers come from: a target by its specification, or one that somebody made.

Loaded with the first client, as it brings all that opening a target takes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from proctor.engines.adaptive_limit import Limit
from proctor.engines.retries import Patience, Patient
from proctor.errors import UsageError
from proctor.model import Params, TargetSpec
from proctor.protocols import Answers, Target
from proctor.services.runs.execution.target_pool import Reach, load_prices
from proctor.services.runs.planning.target_names import Names
from proctor.targets import TARGETS, get_kind
from proctor.targets.parse import api_spec

CONCURRENCY = 32
"""The most calls of one client that are under way at once; others wait in turn."""
_KEY = "PROCTOR_CHAT_CLIENT_KEY"
"""The variable, of this client's own environment and no other, that holds the key it was given."""
_FOLDER = Path(".proctor")


class Source(Protocol):
    """Whoever answers; used in one event loop only."""

    @property
    def name(self) -> str:
        """What replies call the model where it does not name itself."""

    @property
    def reads_case_ids(self) -> bool:
        """Whether it answers by the id of a case, and not by what it is asked."""

    async def target(self, max_tokens: int | None) -> Answers:
        """Who is asked for answers of at most that length; None leaves it to the target."""

    async def aclose(self) -> None:
        """Close what was opened."""


class Named:
    """A target by its specification: opened when it is first asked, once for each `max_tokens`."""

    def __init__(self, spec: TargetSpec, environ: Mapping[str, str], patience: Patience) -> None:
        self._spec = spec
        self._environ = environ
        self._patience = patience
        self._reach: Reach | None = None
        self._opening = asyncio.Lock()

    @property
    def name(self) -> str:
        """The model, else what the user wrote."""
        return self._spec.model or self._spec.name

    @property
    def reads_case_ids(self) -> bool:
        """Whether a script may answer."""
        return any(get_kind(one).reads_case_ids for one in (self._spec, *self._spec.fallbacks))

    async def target(self, max_tokens: int | None) -> Answers:
        """The target.

        Raises:
            UsageError: it cannot be opened, or the user's prices cannot be read.
        """
        async with self._opening:
            if self._reach is None:
                self._reach = Reach(
                    self._environ,
                    concurrency=CONCURRENCY,
                    patience=self._patience,
                    prices=load_prices(self._environ, _FOLDER),
                    notify=logging.getLogger("proctor").warning,
                )
            return await self._reach.target(_of_length(self._spec, max_tokens))

    async def aclose(self) -> None:
        """Close it."""
        if self._reach is not None:
            await self._reach.aclose()


class Given:
    """An object with `async answer(prompt)`; it stays open, as it belongs to somebody else."""

    reads_case_ids = True

    def __init__(self, target: Target, patience: Patience) -> None:
        self.name = type(target).__name__
        self._patient = Patient(target, Limit(CONCURRENCY), patience)

    async def target(self, max_tokens: int | None) -> Answers:  # noqa: ARG002  # it was made with its own
        """The object, asked with patience."""
        return self._patient

    async def aclose(self) -> None:
        """Nothing."""


def at(base_url: str, model: str, api_key: str | None, environ: dict[str, str], patience: Patience) -> Source:
    """The model behind an OpenAI-compatible address.

    Raises:
        UsageError: the address cannot be used, or holds a secret; there is no model; the key cannot be sent.
    """
    if not model:
        raise UsageError("ChatClient needs the name of a model, as the endpoint knows it.")
    spec = api_spec(f"openai:{model}@{base_url}", TARGETS.get("openai"), model, base_url, Params(), environ)
    if api_key and api_key.strip():
        if not (api_key.isascii() and api_key.isprintable()):
            raise UsageError("The api_key holds characters that no key has. Copy the key again.")
        environ[_KEY] = api_key
        spec = replace(spec, options={"api_key": f"${{{{ {_KEY} }}}}"})
    return Named(spec, environ, patience)


def over(target: Any, environ: dict[str, str], patience: Patience) -> Source:
    """A target that is named, specified or made.

    Raises:
        UsageError: there is no target of that name, or targets.yaml is wrong (then SuiteError).
        TypeError: it is no target.
    """
    if isinstance(target, str):
        target = Names(environ).spec(target, Params(), judged=False)
    if isinstance(target, TargetSpec):
        return Named(target, environ, patience)
    answer: Callable[..., Any] | None = getattr(target, "answer", None)
    if not callable(answer):
        raise TypeError(
            f"A value of type {type(target).__name__} is no target. Give an object with "
            "async answer(prompt), or a name such as 'local' or 'openai:gpt-5.2'."
        )
    return Given(target, patience)


def _of_length(spec: TargetSpec, max_tokens: int | None) -> TargetSpec:
    """The target, and its fallbacks, with another longest answer."""
    if max_tokens is None:
        return spec
    return replace(
        spec,
        params=replace(spec.params, max_tokens=max_tokens),
        fallbacks=tuple(_of_length(one, max_tokens) for one in spec.fallbacks),
    )

"""Opens targets, with a concurrency limit per endpoint and one budget and cache for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json
from msgspec.structs import replace

import proctor
from proctor.codec import encode
from proctor.engines.adaptive_limit import AdaptiveLimit
from proctor.engines.budget import DEFAULT_OUTPUT_TOKENS, Budget, BudgetedTarget
from proctor.engines.caching import CachedTarget, CacheStats, CallCounts
from proctor.engines.fallback import FallbackTarget
from proctor.engines.retries import RetryingTarget, RetryPolicy
from proctor.env_substitution import mask, substitute
from proctor.errors import UsageError
from proctor.model import MAX_ANSWER_BYTES, Output, Params, Price, Prompt, Settings, TargetSpec
from proctor.pricing import batch_price, parse_prices, read_prices, tier_share
from proctor.protocols import AnswerCache, Answerer, Embedder
from proctor.services.runs.execution.variable_values import parameter_variables
from proctor.targets import TARGETS, get_kind, get_service
from proctor.targets.context import TargetContext
from proctor.targets.parse import parse_target
from proctor.targets.prices import quote_for, tier_shares_for
from proctor.targets.redaction import redact_errors

if TYPE_CHECKING:
    from proctor.engines.call_limits import CallLimits
    from proctor.services.runs.execution.batched_target import BatchedTarget
    from proctor.targets.embedding_batches import BatchingEmbedder

_PRICES_FILE = Path(proctor.__file__).with_name("prices.json")
"""List prices in US dollars per million tokens, as published at `source` and last known on `date`.

Where a price depends on the length of the prompt, it is that of the shortest. Other snapshots than those in
`snapshots` cost what their model does, with a warning. A model that is not there costs an unknown amount.
"""
_TIMEOUT_GRACE_S = 5.0
_MAX_EMBEDDING_BATCHES = 4
"""Concurrent requests to an endpoint with embeddings."""
_EMBEDDINGS_VARIABLE = "PROCTOR_EMBEDDINGS"


class TargetPool:
    """Opens targets for one command, and closes all of them."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        concurrency: int,
        retry_policy: RetryPolicy,
        prices: Prices,
        notify: Callable[[str], None],
        progress: Callable[[str, int, int], None] = lambda _name, _count, _total: None,
        open_cache: Callable[[Callable[[str], None]], AnswerCache] | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        """Takes the settings; no target is opened.

        Args:
            environ: the environment, with keys and the paths of the user's own files.
            concurrency: the maximum concurrent requests per endpoint.
            retry_policy: the timeout and retries of each call.
            prices: what models cost.
            notify: called with sentences about slow operations.
            progress: called during downloads with the name, the bytes received and the total.
            open_cache: opens the cache when a run uses it; None for no cache.
            max_answer_bytes: the largest answer that is read.
        """
        self.environ = environ
        self._call_limits: CallLimits | None = None
        self._notify = notify
        self._retry_policy = retry_policy
        self._concurrency = concurrency
        self._context = TargetContext(
            environ,
            connections=max(concurrency, 1),
            timeout_s=retry_policy.timeout_s,
            max_answer_bytes=max_answer_bytes,
            notify=notify,
            progress=progress,
        )
        self._limits: dict[tuple[str, str, int | None], AdaptiveLimit] = {}
        self._open: dict[bytes, RetryingTarget] = {}
        self._runs_started = 0
        """The number of runs started so far."""
        self._embedder: BatchingEmbedder | None = None
        self._prices = prices
        self._open_cache = open_cache
        self._cache: AnswerCache | None = None
        self._lookups: CacheStats | None = None
        self._budget: Budget | None = None
        self._secrets: frozenset[str] = frozenset()

    def start_run(
        self,
        *,
        budget_usd: float | None = None,
        spent_usd: float = 0.0,
        cached: bool = False,
        call_limits: CallLimits | None = None,
    ) -> CallAccount:
        """Starts a run: targets that `open_target` returns from now on keep to its budget and use the cache.

        Args:
            budget_usd: the maximum cost of the run; None for no limit.
            spent_usd: what a continued run has cost already.
            cached: whether answers are read from and written to the cache.
            call_limits: limits and budget that are shared with other processes; None for those of this one.

        Returns:
            The account of the calls of these targets.
        """
        self._runs_started += 1
        self._budget, self._call_limits = None, call_limits
        if budget_usd is not None and self._call_limits is not None:
            self._budget = self._call_limits.open_budget(budget_usd)
        elif budget_usd is not None:
            self._budget = Budget(budget_usd, spent_usd=spent_usd, notify=self._notify)
        if cached and self._cache is None and self._open_cache is not None:
            self._cache = self._open_cache(self._notify)
        self._lookups = CacheStats() if cached and self._cache is not None else None
        return CallAccount(self._budget, self._lookups)

    def require_prices(self, specs: Iterable[TargetSpec]) -> None:
        """Checks that all targets and judges, including fallbacks, have a price or report their cost.

        Raises:
            UsageError: a budget cannot be kept: prices are unknown (names all of them), or a target answers
                all cases at once.
        """
        all_specs = [spec_in_use for spec in specs for spec_in_use in _flatten_fallbacks(spec)]
        batch = next(filter(answers_in_batch, all_specs), None)
        if batch is not None:
            raise UsageError(
                f"Target {batch.name!r} has `provider_batching`, so one process answers all cases, and "
                "a budget could not stop it. Remove the budget or `provider_batching`."
            )
        unpriced = (spec_in_use for spec_in_use in all_specs if self._get_budget_price(spec_in_use) is None)
        unknown = {
            spec_in_use.name: _price_name(spec_in_use)
            for spec_in_use in unpriced
            if not reports_cost(spec_in_use)
        }
        if unknown:
            tables = (
                f"[models.{encode(table).decode('utf-8')}]" for table in dict.fromkeys(unknown.values())
            )
            raise UsageError(
                "A budget needs the price of each target and judge, but the price of "
                f"{', '.join(unknown)} is unknown. In a prices.toml beside the store, add "
                f"{', '.join(tables)}, each with `input` and `output` in US dollars per million "
                "tokens. See 'Targets' in the documentation."
            )

    def add_secrets(self, names: Iterable[str]) -> None:
        """Keeps answers out of the cache that contain the value of one of these environment variables."""
        self._secrets = self._secrets.union(names)

    async def open_target(self, spec: TargetSpec, *, judging: bool = False) -> Answerer:
        """Returns the target of a spec with its fallbacks; each is opened at most once.

        Args:
            spec: the target.
            judging: whether it is called as a judge, which the cache and the budget treat separately.

        Raises:
            UsageError: it cannot be opened: a key, a file or a program is missing; there is a budget and no
                price; or it cannot judge.
        """
        if judging:
            _check_can_judge(spec)
        target = await self._open_with_fallbacks(spec, judging)
        if self._lookups is None or self._cache is None:
            return target
        return CachedTarget(
            target,
            replace(spec, options=self._filled_options(spec)),
            self._cache,
            self._lookups,
            role="judge" if judging else "target",
            secret=self._is_secret,
            is_cacheable=get_kind(spec).is_cacheable,
        )

    async def _open_with_fallbacks(self, spec: TargetSpec, judging: bool) -> Answerer:
        target = await self._open_with_budget(spec, judging)
        if not spec.fallbacks:
            return target
        others = [
            (fallback.name, await self._open_with_fallbacks(fallback, judging)) for fallback in spec.fallbacks
        ]
        return FallbackTarget([(spec.name, target), *others], self._notify)

    async def _open_with_budget(self, spec: TargetSpec, judging: bool) -> Answerer:
        if self._budget is None:
            return await self._open_with_retries(spec)
        self.require_prices([replace(spec, fallbacks=())])
        kind = get_kind(spec)
        return BudgetedTarget(
            await self._open_with_retries(spec),
            self._budget,
            price=self._get_budget_price(spec),
            output_tokens=_get_max_tokens(spec),
            also_sent=len(encode(self._filled_options(spec))),
            bounded=kind.bills_per_prompt,
            judging=judging,
        )

    async def _open_with_retries(self, spec: TargetSpec) -> RetryingTarget:
        price = self.get_price(spec)
        # A target that answers all cases at once is opened again for each run.
        run = self._runs_started if answers_in_batch(spec) else 0
        shares = self._prices.get_tier_shares(spec)
        key = encode((replace(spec, name="", judge=None, fallbacks=()), price, dict(shares), run))
        open_target = self._open.get(key)
        if open_target is not None:
            return open_target
        limit = self._get_limit(spec)
        opening = self._context.with_observer(limit.on_quotas)
        target = redact_errors(await TARGETS.get(spec.kind).open_target(spec, opening), spec)
        patient = RetryingTarget(
            target,
            limit,
            self._retry_policy_for(spec),
            name=spec.name,
            price=price,
            share_for_tier=lambda tier: tier_share(shares, tier or spec.params.service_tier),
            notify=self._notify,
        )
        self._open[key] = patient
        return patient

    async def open_batches(self, spec: TargetSpec) -> BatchedTarget:
        """Returns a target whose requests are sent in batches, at the price of a batch.

        Raises:
            UsageError: it cannot be opened; there is a budget and no price; or its service has no batches.
        """
        from proctor.services.runs.execution.batched_target import (
            BatchedTarget,
            open_service,
            read_poll_interval,
        )

        if self._budget is not None:
            self.require_prices([spec])
        price = self.get_price(spec)
        target: Any = await TARGETS.get(spec.kind).open_target(spec, self._context)
        return BatchedTarget(
            spec,
            target,
            open_service(spec, target, self._context),
            price=None if price is None else batch_price(price),
            budget=self._budget,
            output_tokens=_get_max_tokens(spec),
            first_poll_s=read_poll_interval(self.environ),
            notify=self._notify,
        )

    def _get_limit(self, spec: TargetSpec) -> AdaptiveLimit:
        """Returns the limit of its endpoint, or one of its own where the target sets `workers`."""
        endpoint = (spec.kind, spec.endpoint or spec.model or spec.name, spec.workers)
        limit = self._limits.get(endpoint)
        if limit is None:
            ceiling = max_concurrency_for(spec, self._concurrency)
            limit = self._limits[endpoint] = (
                AdaptiveLimit(ceiling)
                if self._call_limits is None
                else self._call_limits.open_limit(repr(endpoint), ceiling)
            )
        return limit

    def has_failing_endpoint(self) -> bool:
        """Returns whether the last call to any endpoint failed in a way that may be the endpoint's fault."""
        return any(limit.breaker.failures for limit in self._limits.values())

    def _retry_policy_for(self, spec: TargetSpec) -> RetryPolicy:
        retry_policy = self._retry_policy
        if spec.retries is not None:
            retry_policy = replace(retry_policy, retries=spec.retries)
        timeout_s = spec.options.get("timeout_seconds")
        if timeout_s is None:
            return retry_policy
        return replace(
            retry_policy, timeout_s=timeout_s + _TIMEOUT_GRACE_S * (get_kind(spec).enforces_timeout)
        )

    def _filled_options(self, spec: TargetSpec) -> dict[str, Any]:
        """Returns the options on which answers depend, with variables filled in; keys are left out."""
        options = {name: value for name, value in spec.options.items() if "key" not in name.lower()}
        variables = {name: self.environ.get(name) for name in parameter_variables(spec.params)}
        return substitute(options, self.environ) | ({"variables": variables} if variables else {})

    def get_price(self, spec: TargetSpec) -> Price | None:
        """Returns the price of a target; None if it is unknown."""
        return self._prices.get(spec)

    def _get_budget_price(self, spec: TargetSpec) -> Price | None:
        return self._prices.get_for_budget(spec)

    def _is_secret(self, output: Output) -> bool:
        if not self._secrets:
            return False
        return mask(output, tuple(self._secrets), self.environ) != output

    async def open_embedder(self) -> None:
        """Opens the embedding model: `$PROCTOR_EMBEDDINGS`, else the embedded MiniLM.

        Raises:
            UsageError: the variable names no embedding model, or the extra is not installed.
        """
        if self._embedder is not None:
            return
        from proctor.targets.embedding_batches import BatchingEmbedder

        word = self.environ.get(_EMBEDDINGS_VARIABLE, "local")
        if word == "local":
            from proctor.targets.local import embeddings

            self._embedder = BatchingEmbedder(await embeddings.open_embedder(self._context))
            return
        spec = parse_target(word, Params(), self.environ)
        open_embeddings = get_kind(spec).open_embeddings
        if open_embeddings is None:
            raise UsageError(
                f"PROCTOR_EMBEDDINGS is {word!r}, which is not an embedding model. Use `local`, or "
                "`openai:MODEL@URL` for an OpenAI-compatible endpoint with /embeddings."
            )
        self._embedder = BatchingEmbedder(open_embeddings(spec, self._context), _MAX_EMBEDDING_BATCHES)

    def get_embedder(self) -> Embedder:
        """Returns the embedding model that `open_embedder` opened.

        Raises:
            UsageError: nothing was opened.
        """
        if self._embedder is None:
            raise UsageError(
                "There is no embedding model. Install one with: pip install 'proctor[similarity]'"
            )
        return self._embedder

    async def aclose(self) -> None:
        """Closes every target and the connections."""
        try:
            if self._embedder is not None:
                await self._embedder.aclose()
            for patient in self._open.values():
                await patient.aclose()
        finally:
            self._open.clear()
            await self._context.aclose()
            if self._cache is not None:
                self._cache.close()
                self._cache = self._lookups = None


class CallAccount:
    """The budget and the cache lookups of one run."""

    def __init__(self, budget: Budget | None, lookups: CacheStats | None) -> None:
        """Use `TargetPool.start_run`."""
        self._budget = budget
        self._lookups = lookups
        self._from_workers = CallCounts()

    def add(self, counts: CallCounts) -> None:
        """Adds the calls of a worker in another process."""
        self._from_workers = self._from_workers.plus(counts)

    def counts(self) -> CallCounts:
        """Returns the counts of all calls so far."""
        own = CallCounts(
            cache_hits=0 if self._lookups is None else self._lookups.hits,
            cache_misses={} if self._lookups is None else dict(self._lookups.misses),
            assumed_calls=0 if self._budget is None else self._budget.assumed_calls,
        )
        return own.plus(self._from_workers)

    def notes(self) -> list[str]:
        """Returns sentences on cache and budget for the end of a run."""
        return self.counts().notes()


def embedder_name(environ: Mapping[str, str]) -> str | None:
    """Returns the name and address of what `open_embedder` would open; None if it would raise."""
    word = environ.get(_EMBEDDINGS_VARIABLE, "local")
    if word == "local":
        return word
    try:
        spec = parse_target(word, Params(), environ)
    except UsageError:
        return None
    return f"{spec.kind}:{spec.model}@{spec.endpoint}"


def max_concurrency_for(spec: TargetSpec, concurrency: int) -> int:
    """Returns the maximum concurrent calls of a target."""
    places = get_kind(spec).default_concurrency or concurrency
    return places if spec.workers is None else min(places, spec.workers)


def reports_cost(spec: TargetSpec) -> bool:
    """Returns whether a target reports the cost of its answers, so that a budget needs no price."""
    return get_service(spec).reports_cost


def _flatten_fallbacks(spec: TargetSpec) -> Iterator[TargetSpec]:
    yield spec
    for fallback in spec.fallbacks:
        yield from _flatten_fallbacks(fallback)


def answers_in_batch(spec: TargetSpec) -> bool:
    """Returns whether one process answers all cases, so that it gets no prompt for each case."""
    return bool(spec.options.get("provider_batching"))


def _check_can_judge(spec: TargetSpec) -> None:
    for fallback in filter(answers_in_batch, _flatten_fallbacks(spec)):
        raise UsageError(
            f"Target {fallback.name!r} has `provider_batching`, so one process answers all cases "
            "without reading prompts, and it cannot judge. Name another judge with --judge, or with "
            "`grader_target` in its entry."
        )


def _price_name(spec: TargetSpec) -> str:
    """Returns the target's name in `prices.toml`: the model, unless it is a command line."""
    return spec.model if spec.model and get_kind(spec).bills_per_prompt else spec.name


class Prices(Struct, frozen=True, kw_only=True):
    """The prices of models: the list prices that come with Proctor, and the user's own. Can be pickled."""

    shipped: dict[str, Price]
    own: dict[str, Price]

    @property
    def date(self) -> str | None:
        """The newest date of any price."""
        return max((price.date for price in (*self.shipped.values(), *self.own.values())), default=None)

    def get(self, spec: TargetSpec) -> Price | None:
        """Returns the price of a target; None if it is unknown."""
        quote = quote_for(spec, self.shipped, self.own)
        return None if quote is None else quote.price

    def get_tier_shares(self, spec: TargetSpec) -> Mapping[str, float]:
        """Returns what the tiers of a target's service cost, as shares of its price; empty if all cost it."""
        return tier_shares_for(spec, self.shipped, self.own)

    def get_tier_share(self, spec: TargetSpec) -> float | None:
        """Returns what the tier that a target requests costs, as a share of its price; None if unknown."""
        return tier_share(self.get_tier_shares(spec), spec.params.service_tier)

    def warnings(self, specs: Iterable[TargetSpec]) -> list[str]:
        """Returns a sentence for each model, fallbacks too, whose price is only known for its family."""
        quotes = {
            part.model or part.name: quote_for(part, self.shipped, self.own)
            for spec in specs
            for part in _flatten_fallbacks(spec)
        }
        return [
            f"The price of {name!r} is unknown, so its cost is computed with the price of "
            f"{quote.family!r}. To set its own price, add it to a prices.toml beside the store. See "
            "'Targets' in the documentation."
            for name, quote in quotes.items()
            if quote is not None and quote.family is not None
        ]

    def get_for_budget(self, spec: TargetSpec) -> Price | None:
        """Returns the most that a target costs, for budgets: 0 for recorded answers, which are paid for.

        None if it is unknown, as for a service tier without a list price.
        """
        if get_kind(spec).is_prepaid:
            return Price(input=0.0, output=0.0)
        return None if self.get_tier_share(spec) is None else self.get(spec)


def load_prices(environ: Mapping[str, str], folder: Path) -> Prices:
    """Loads the prices in use; the user's own are in `$PROCTOR_PRICES`, else in `prices.toml` in that folder.

    Raises:
        UsageError: the user's own file cannot be read.
    """
    shipped = _load_shipped_prices()
    file_name = environ.get("PROCTOR_PRICES")
    own = Path(file_name) if file_name else folder / "prices.toml"
    if not file_name and not own.is_file():
        return Prices(shipped=shipped, own={})
    try:
        return Prices(shipped=shipped, own=parse_prices(own.read_text(encoding="utf-8"), str(own)))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The prices in {str(own)!r} cannot be read: {error}.") from None


@cache
def _load_shipped_prices() -> dict[str, Price]:
    return read_prices(json.decode(_PRICES_FILE.read_bytes()), "prices.json")


def _get_max_tokens(spec: TargetSpec) -> int:
    """Returns the maximum length of an answer, in tokens."""
    max_tokens_for = get_kind(spec).max_tokens_for
    if spec.params.max_tokens is not None or max_tokens_for is None:
        return spec.params.max_tokens or DEFAULT_OUTPUT_TOKENS
    return max_tokens_for(spec.model, spec.params)


async def probe(
    spec: TargetSpec, prompt: Prompt, environ: Mapping[str, str], *, calls: Settings, prices_folder: Path
) -> Output:
    """Opens a target, calls it once and closes it.

    Args:
        spec: the target.
        prompt: the prompt.
        environ: the environment, with keys.
        calls: only the timeout and the maximum answer size are used.
        prices_folder: the folder that may have a `prices.toml`.

    Raises:
        UsageError: it cannot be opened.
        TargetError: the call failed.
    """
    pool = TargetPool(
        environ,
        concurrency=1,
        retry_policy=RetryPolicy(timeout_s=calls.timeout_s, retries=0),
        max_answer_bytes=calls.max_answer_bytes,
        prices=load_prices(environ, prices_folder),
        notify=lambda _message: None,
    )
    try:
        return await (await pool.open_target(spec)).answer(prompt)
    finally:
        await pool.aclose()

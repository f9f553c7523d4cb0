"""Prices of models by their names, and costs of answers by their tokens.

An unknown price or usage is None, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Price, TargetSpec, Usage

MAX_TOKENS = 10**9
"""The highest plausible count of tokens of one call."""
MAX_COST_USD = 10_000.0
"""The highest cost of one call that a target may report."""
BATCH_PRICE_SHARE = 0.5
"""What a request in a batch costs at OpenAI, Anthropic and Google, as a share of the list price."""
UNREADABLE_USAGE = Usage(input_tokens=-1, output_tokens=-1)
"""Marks invalid counts, so that `is_valid_usage` rejects them."""
_FIELDS = frozenset({"input", "output", "cached", "cache_write", "source", "date", "snapshots"})
_DATE_SUFFIX = re.compile(r"-(20\d\d-\d\d-\d\d|20\d{6})$")


class PriceQuote(Struct, frozen=True):
    """The price of a target."""

    price: Price
    family: str | None = None
    """The model whose price it is, if the target is a snapshot of it without a price of its own."""


def parse_prices(text: str, path: str) -> dict[str, Price]:
    """Parses a TOML file with a table `[models."NAME"]` for each model, in US dollars per million tokens.

    Raises:
        UsageError: the file is invalid; the message names its path and the model.
    """
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: The file is not TOML: {error}.") from error
    return read_prices(table, path)


def read_prices(table: dict[str, Any], path: str) -> dict[str, Price]:
    """Returns the prices in the content of a file by model; the names in `snapshots` have the same price.

    Raises:
        UsageError: the content is invalid; the message names its path and the model.
    """
    models = table.pop("models", None)
    if table or not isinstance(models, dict):
        raise UsageError(
            f'{path}: The file must contain tables [models."NAME"] and nothing else{_list_names(table)}.'
        )
    prices: dict[str, Price] = {}
    for name, fields in models.items():
        where = f"{path}: Model {name!r}"
        price = _parse_price(fields, where)
        for priced in (name, *_parse_snapshots(fields, where)):
            if priced in prices:
                raise UsageError(f"{path}: Model {priced!r} has two prices. Remove one of them.")
            prices[priced] = price
    return prices


def find_price(
    spec: TargetSpec,
    list_prices: Mapping[str, Price],
    own_prices: Mapping[str, Price],
    *,
    is_free: bool = False,
) -> PriceQuote | None:
    """Returns the price of a target by its exact name, else by its model's name without a snapshot date.

    Args:
        spec: the target.
        list_prices: the list prices of models that apply to it.
        own_prices: the user's prices, of models or targets; they take precedence.
        is_free: whether it is free unless the user gives a price.
    """
    if price := own_prices.get(spec.name) or own_prices.get(spec.model):
        return PriceQuote(price)
    if is_free:
        return PriceQuote(Price(input=0.0, output=0.0))
    if price := list_prices.get(spec.model):
        return PriceQuote(price)
    for prices, name in ((own_prices, spec.name), (own_prices, spec.model), (list_prices, spec.model)):
        family = _DATE_SUFFIX.sub("", name)
        if price := prices.get(family):
            return PriceQuote(price, family)
    return None


def read_usage(
    counts: Any,
    input_names: Iterable[str],
    output_names: Iterable[str],
    cached_name: str,
    *,
    cache_write_name: str = "",
    reasoning_name: str = "",
) -> Usage | None:
    """Returns the usage in a reply; None if it reports none.

    `UNREADABLE_USAGE` if it is not an object, or a count is not a whole number from 0 to 10⁹.

    Args:
        counts: the counts by the names of the reply's format.
        input_names: the counts that add up to the input; one that is missing or null counts as 0.
        output_names: the counts that add up to the output.
        cached_name: the part of the input that was read from the cache.
        cache_write_name: the part of the input that was written to the cache, if it has its own price.
        reasoning_name: the part of the output that is reasoning.
    """
    if counts is None:
        return None
    if not isinstance(counts, dict):
        return UNREADABLE_USAGE
    get = counts.get
    return make_usage(
        [get(name) for name in input_names],
        [get(name) for name in output_names],
        (get(cached_name), get(cache_write_name), get(reasoning_name)),
    )


def make_usage(inputs: Sequence[Any], outputs: Sequence[Any], parts: tuple[Any, Any, Any]) -> Usage:
    """Returns the usage of counts, of which each may be None; `UNREADABLE_USAGE` if one is no count.

    Args:
        inputs: the counts that add up to the input.
        outputs: the counts that add up to the output.
        parts: the cached part of the input, the one that was written to the cache, and reasoning.
    """
    for count in (*inputs, *outputs, *parts):
        if count is not None and not (type(count) is int and 0 <= count <= MAX_TOKENS):
            return UNREADABLE_USAGE
    return Usage(
        input_tokens=sum([count or 0 for count in inputs]),
        output_tokens=sum([count or 0 for count in outputs]),
        cached_tokens=parts[0] or 0,
        cache_write_tokens=parts[1] or 0,
        reasoning_tokens=parts[2] or 0,
    )


def is_valid_usage(usage: Usage) -> bool:
    """Returns whether every count is a whole number from 0 to 10⁹."""
    return (
        type(usage.input_tokens) is int
        and 0 <= usage.input_tokens <= MAX_TOKENS
        and type(usage.output_tokens) is int
        and 0 <= usage.output_tokens <= MAX_TOKENS
        and type(usage.cached_tokens) is int
        and 0 <= usage.cached_tokens <= MAX_TOKENS
        and type(usage.cache_write_tokens) is int
        and 0 <= usage.cache_write_tokens <= MAX_TOKENS
        and type(usage.reasoning_tokens) is int
        and 0 <= usage.reasoning_tokens <= MAX_TOKENS
    )


def is_valid_cost(cost: object) -> bool:
    """Returns whether a cost that a target reports for one call is a number from 0 to 10,000 dollars."""
    return type(cost) in (int, float) and 0 <= cost <= MAX_COST_USD  # type: ignore[operator]


def cost_usd(usage: Usage | None, price: Price | None, share: float | None = 1.0) -> float | None:
    """Returns the cost of an answer in US dollars; without a price for the cache, the input's applies.

    Args:
        usage: its token counts.
        price: the price of its target; None if it is unknown.
        share: what its service tier costs, as a share of the price; None if that is unknown.
    """
    if price is not None and not price.input and not price.output:
        return 0.0  # whatever was used
    if usage is None or price is None or share is None:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    cached_price = price.input if price.cached is None else price.cached
    write_price = price.input if price.cache_write is None else price.cache_write
    dollars = (
        (usage.input_tokens - cached - written) * price.input
        + cached * cached_price
        + written * write_price
        + usage.output_tokens * price.output
    )
    return dollars * share / 1_000_000


def tier_share(shares: Mapping[str, float], tier: str | None) -> float | None:
    """Returns what an answer of a service tier costs, as a share of the price; None if that is unknown.

    Args:
        shares: the shares of the tiers that are known; empty if the price holds for every tier.
        tier: the tier in any case; None for the usual one.
    """
    return shares.get(tier.lower()) if shares and tier is not None else 1.0


def batch_price(price: Price) -> Price:
    """Returns the price of a model in a batch."""
    return replace(
        price,
        input=price.input * BATCH_PRICE_SHARE,
        output=price.output * BATCH_PRICE_SHARE,
        cached=None if price.cached is None else price.cached * BATCH_PRICE_SHARE,
    )


def _parse_price(fields: Any, where: str) -> Price:
    if not isinstance(fields, dict):
        raise UsageError(f"{where} is not a table.")
    unknown = set(fields) - _FIELDS
    if unknown:
        raise UsageError(
            f"{where} has unknown fields{_list_names(unknown)}. Known are{_list_names(_FIELDS)}."
        )
    amounts = {name: _parse_amount(fields.get(name), name, where) for name in ("input", "output")}
    amounts |= {
        name: _parse_amount(fields[name], name, where) for name in ("cached", "cache_write") if name in fields
    }
    return Price(**amounts, source=str(fields.get("source", "")), date=str(fields.get("date", "")))


def _parse_snapshots(fields: Any, where: str) -> list[str]:
    names = fields.get("snapshots", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{where} needs `snapshots` as a list of model names, not {names!r}.")
    return names


def _parse_amount(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise UsageError(
            f"{where} needs `{name}` as a number of US dollars per million tokens, not {value!r}."
        )
    return float(value)


def _list_names(names: Any) -> str:
    return f" ({', '.join(sorted(names))})" if names else ""

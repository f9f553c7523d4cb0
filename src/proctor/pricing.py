"""Prices to costs: what a model costs by its name, and what an answer cost by its tokens.

Unknown stays unknown: no price or no usage is None and never 0.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from proctor.errors import UsageError
from proctor.model import Price, TargetSpec, Usage

FREE_KINDS = frozenset({"echo", "local", "mock", "scripted"})
"""Kinds of target that cost nothing."""

_PRICED_HOSTS = frozenset(
    {
        "api.anthropic.com",
        "api.deepseek.com",
        "api.groq.com",
        "api.mistral.ai",
        "api.openai.com",
        "api.together.xyz",
        "generativelanguage.googleapis.com",
        "integrate.api.nvidia.com",
    }
)
_PRICED_KINDS = frozenset({"anthropic", "google", "openai"})
_FIELDS = frozenset({"input", "output", "cached", "source", "date"})
_DATE_SUFFIX = re.compile(r"-(20\d\d-\d\d-\d\d|20\d{6})$")


def parse_prices(text: str, path: str) -> dict[str, Price]:
    """The prices of a file with a table `[models."NAME"]` a model: US dollars per million tokens.

    Raises:
        UsageError: the file is no such table; names its path and the model.
    """
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: The file is not TOML: {error}.") from error
    models = found.pop("models", None)
    if found or not isinstance(models, dict):
        raise UsageError(f'{path}: The file needs tables [models."NAME"] and nothing else{_list(found)}.')
    return {name: _price(fields, f"{path}: Model {name!r}") for name, fields in models.items()}


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model under its name, or under its name without the date of a snapshot; else None."""
    return prices.get(model) or prices.get(_DATE_SUFFIX.sub("", model))


def price_for(spec: TargetSpec, prices: Mapping[str, Price]) -> Price | None:
    """The price of a target: nothing for kinds that are free, else its model's where its maker serves it.

    The list price of a model says nothing of what a server elsewhere takes for one of the same name.
    """
    if spec.kind in FREE_KINDS:
        return Price(input=0.0, output=0.0)
    if spec.kind not in _PRICED_KINDS:
        return None
    if spec.endpoint is not None and urlsplit(spec.endpoint).hostname not in _PRICED_HOSTS:
        return None
    return price_of(spec.model, prices)


def cost_usd(usage: Usage | None, price: Price | None) -> float | None:
    """What an answer cost in US dollars; cached tokens count at their own price, else at the input's."""
    if price is not None and not price.input and not price.output:
        return 0.0  # whatever was used
    if usage is None or price is None:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    cached_price = price.input if price.cached is None else price.cached
    dollars = (
        (usage.input_tokens - cached) * price.input
        + cached * cached_price
        + usage.output_tokens * price.output
    )
    return dollars / 1_000_000


def _price(fields: Any, where: str) -> Price:
    if not isinstance(fields, dict):
        raise UsageError(f"{where} is not a table.")
    unknown = set(fields) - _FIELDS
    if unknown:
        raise UsageError(f"{where} has unknown fields{_list(unknown)}. Known are{_list(_FIELDS)}.")
    amounts = {name: _amount(fields.get(name), name, where) for name in ("input", "output")}
    cached = _amount(fields["cached"], "cached", where) if "cached" in fields else None
    return Price(
        **amounts, cached=cached, source=str(fields.get("source", "")), date=str(fields.get("date", ""))
    )


def _amount(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise UsageError(f"{where} needs {name} as a number of US dollars per million tokens, not {value!r}.")
    return float(value)


def _list(names: Any) -> str:
    return f" ({', '.join(sorted(names))})" if names else ""

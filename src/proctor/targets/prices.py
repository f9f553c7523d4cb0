"""What a call of a target costs, by its kind and the price lists."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from proctor.model import Price, TargetSpec
from proctor.pricing import PriceQuote, find_price
from proctor.targets import get_kind, iter_address_kinds
from proctor.targets.kind import TargetKind


def quote_for(
    spec: TargetSpec, list_prices: Mapping[str, Price], own_prices: Mapping[str, Price]
) -> PriceQuote | None:
    """Returns the price of a target, as `find_price` finds it; None if it is unknown.

    Another server may charge anything for a model of the same name, so list prices apply only at the
    addresses of kinds with list prices.

    Args:
        spec: the target.
        list_prices: the published prices of models.
        own_prices: the user's prices of models or targets; they take precedence.
    """
    return find_price(
        spec,
        list_prices if _find_list_price_kind(spec) else {},
        own_prices,
        is_free=get_kind(spec).is_free,
    )


def tier_shares_for(
    spec: TargetSpec, list_prices: Mapping[str, Price], own_prices: Mapping[str, Price]
) -> Mapping[str, float]:
    """Returns what the tiers of a target's service cost, as shares of the price that `quote_for` returns.

    Empty if the price holds for every tier: the user's own, and those of services without tiers.
    """
    kind = _find_list_price_kind(spec)
    quote = quote_for(spec, list_prices, own_prices)
    if kind is None or quote is None or any(quote.price is price for price in own_prices.values()):
        return {}
    return kind.tier_shares


def _find_list_price_kind(spec: TargetSpec) -> TargetKind | None:
    """Returns the kind whose list prices apply to a target, by its address; None if there is none."""
    kind = get_kind(spec)
    if not kind.has_list_prices or spec.endpoint is None:
        return kind if kind.has_list_prices else None
    host = urlsplit(spec.endpoint).hostname
    kinds = (kind for kind in iter_address_kinds() if kind.has_list_prices)
    return next((kind for kind in kinds if urlsplit(kind.address or "").hostname == host), None)

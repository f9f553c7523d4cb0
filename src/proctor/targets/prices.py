"""What a call of a target costs, by its kind and the price lists."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from proctor.model import Price, TargetSpec
from proctor.pricing import PriceQuote, find_price
from proctor.targets import get_kind, iter_kinds


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
        spec, list_prices if _has_list_price(spec) else {}, own_prices, is_free=get_kind(spec).is_free
    )


def _has_list_price(spec: TargetSpec) -> bool:
    if not get_kind(spec).has_list_prices:
        return False
    if spec.endpoint is None:
        return True
    host = urlsplit(spec.endpoint).hostname
    return any(
        kind.has_list_prices and urlsplit(kind.address or "").hostname == host for kind in iter_kinds()
    )

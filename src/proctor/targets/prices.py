"""What a call of a target costs, by its kind and the price lists."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from proctor.model import Price, TargetSpec
from proctor.pricing import Quote, find_price
from proctor.targets import get_kind, iter_kinds


def quote_for(
    spec: TargetSpec, list_prices: Mapping[str, Price], own_prices: Mapping[str, Price]
) -> Quote | None:
    """The price of a target, as `find_price` finds it; None where it is not known.

    The list price of a model says nothing about what another server charges for a model of that name, so it
    counts only at the addresses of kinds with list prices.

    Args:
        spec: the target.
        list_prices: what makers charge for their models.
        own_prices: the user's prices, of models or of targets; they come first.
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

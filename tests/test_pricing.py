"""Prices, and what answers cost."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Params, Price, TargetSpec, Usage
from proctor.pricing import PriceQuote, cost_usd, parse_prices, tier_share
from proctor.services.runs.execution.target_pool import load_prices
from proctor.targets.parse import parse_target
from proctor.targets.prices import quote_for, tier_shares_for
from support.builders import make_spec

PRICES = {
    "m": Price(input=2.0, output=8.0, cached=0.5, source="s", date="2026-01-01"),
    "m-2024-05-13": Price(input=4.0, output=12.0),
    "m-mini": Price(input=1.0, output=4.0),
}


def test_a_table_of_prices_is_read() -> None:
    text = '[models."a-1.5"]\ninput = 2\noutput = 8.5\ncached = 0\nsource = "s"\ndate = "2026-01-01"\n'
    price = Price(input=2.0, output=8.5, cached=0.0, source="s", date="2026-01-01")
    assert parse_prices(text, "p.toml") == {"a-1.5": price}
    assert parse_prices("[models]\n", "p.toml") == {}


@pytest.mark.parametrize(
    "text",
    [
        "models = 4",
        "",
        "[model.x]\ninput = 1\noutput = 1",
        "not toml",
        "[models]\nx = 4",
        "[models.x]\ninput = 1",
        '[models.x]\ninput = "1"\noutput = 1',
        "[models.x]\ninput = -1\noutput = 1",
        "[models.x]\ninput = nan\noutput = 1",
        "[models.x]\ninput = true\noutput = 1",
        "[models.x]\ninput = 1\noutput = 1\ncashed = 1",
        "[models.x]\ninput = 1\noutput = 1\nsnapshots = 'y'",
        "[models.x]\ninput = 1\noutput = 1\nsnapshots = [1]",
        "[other]\n[models.x]\ninput = 1\noutput = 1",
    ],
)
def test_a_wrong_table_is_a_usage_error_that_names_the_file(text: str) -> None:
    with pytest.raises(UsageError, match=r"^p\.toml"):
        parse_prices(text, "p.toml")


@pytest.mark.parametrize(
    ("model", "priced_model", "family"),
    [
        ("m", "m", None),
        ("m-2025-04-14", "m", "m"),
        ("m-20250929", "m", "m"),
        ("m-2024-05-13", "m-2024-05-13", None),
        ("m-mini-2025-04-14", "m-mini", "m-mini"),
    ],
)
def test_a_snapshot_without_a_price_of_its_own_costs_what_its_model_costs(
    model: str, priced_model: str, family: str | None
) -> None:
    quote = PriceQuote(PRICES[priced_model], family)
    assert quote_for(make_spec("openai", model), PRICES, {}) == quote
    assert quote_for(make_spec("command", model), {}, PRICES) == quote


@pytest.mark.parametrize("model", ["m-large", "m-2025", "m-12345678", "M", ""])
def test_a_name_without_a_date_is_no_snapshot(model: str) -> None:
    assert quote_for(make_spec("openai", model), PRICES, PRICES) is None


def test_a_price_of_ones_own_comes_first_unless_only_the_list_has_the_snapshot() -> None:
    own = {"m": PRICES["m-mini"]}
    assert quote_for(make_spec("openai", "m"), PRICES, own) == PriceQuote(own["m"])
    assert quote_for(make_spec("openai", "m-2024-05-13"), PRICES, own) == PriceQuote(PRICES["m-2024-05-13"])
    assert quote_for(make_spec("openai", "m-2025-04-14"), PRICES, own) == PriceQuote(own["m"], "m")


def test_the_first_snapshot_of_gpt_4o_keeps_its_higher_price() -> None:
    prices = load_prices({}, Path("no-folder")).shipped
    first, later, unknown = (
        quote_for(make_spec("openai", f"gpt-4o-{date}"), prices, {})
        for date in ("2024-05-13", "2024-08-06", "2031-01-01")
    )
    assert (first, later, unknown) == (
        PriceQuote(replace(prices["gpt-4o"], input=5.0, output=15.0, cached=None, date="2024-12-17")),
        PriceQuote(prices["gpt-4o"]),
        PriceQuote(prices["gpt-4o"], "gpt-4o"),
    )


def test_snapshots_at_the_price_of_their_model_are_listed_with_it() -> None:
    text = '[models.m]\ninput = 2\noutput = 8\nsnapshots = ["m-2025-01-01", "m-2025-02-02"]\n'
    prices = parse_prices(text, "p.toml")
    assert prices == dict.fromkeys(("m", "m-2025-01-01", "m-2025-02-02"), Price(input=2.0, output=8.0))
    with pytest.raises(UsageError, match=r"^p\.toml: Model 'm-2025-01-01' has two prices\."):
        parse_prices(f'{text}[models."m-2025-01-01"]\ninput = 1\noutput = 1\n', "p.toml")


@pytest.mark.parametrize("kind", ["echo", "local", "scripted"])
def test_local_targets_cost_nothing(kind: str) -> None:
    quote = quote_for(make_spec(kind), PRICES, {})
    assert quote is not None
    assert cost_usd(Usage(input_tokens=10**6), quote.price) == 0.0


@pytest.mark.parametrize(
    "spec",
    [
        make_spec("command"),
        make_spec("function"),
        make_spec("replay"),
        make_spec("openai", "unheard-of"),
        make_spec("openai", endpoint="http://127.0.0.1:11434/v1"),
        make_spec("openai", endpoint="https://elsewhere.example/v1"),
    ],
)
def test_an_unknown_price_stays_unknown(spec: TargetSpec) -> None:
    assert quote_for(spec, PRICES, {}) is None


@pytest.mark.parametrize("endpoint", [None, "https://api.openai.com/v1"])
def test_a_model_costs_its_list_price_where_its_maker_serves_it(endpoint: str | None) -> None:
    assert quote_for(make_spec("openai", endpoint=endpoint), PRICES, {}) == PriceQuote(PRICES["m"])


@pytest.mark.parametrize(
    ("usage", "price", "dollars"),
    [
        (Usage(input_tokens=1_000_000, output_tokens=500_000), PRICES["m"], 6.0),
        (Usage(input_tokens=1_000_000, cached_tokens=600_000), PRICES["m"], 1.1),
        (Usage(input_tokens=1_000_000, cached_tokens=600_000), PRICES["m-mini"], 1.0),
        (Usage(), PRICES["m"], 0.0),
        (None, PRICES["m"], None),
        (Usage(input_tokens=1), None, None),
    ],
)
def test_a_cost_follows_from_tokens_and_price(
    usage: Usage | None, price: Price | None, dollars: float | None
) -> None:
    cost = cost_usd(usage, price)
    assert cost == (None if dollars is None else pytest.approx(dollars))


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_cost_is_never_negative_nor_more_than_without_a_cache(
    input_tokens: int, output_tokens: int, cached_tokens: int
) -> None:
    with_cache = cost_usd(
        Usage(input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens),
        PRICES["m"],
    )
    without = cost_usd(Usage(input_tokens=input_tokens, output_tokens=output_tokens), PRICES["m"])
    assert with_cache is not None
    assert without is not None
    assert 0 <= with_cache <= without + 1e-9


def test_every_price_that_comes_along_has_its_source_and_date() -> None:
    prices = load_prices({}, Path("no-folder")).shipped
    assert {"gpt-4o", "claude-sonnet-4-6", "gemini-2.5-pro"} <= set(prices)
    for model, price in prices.items():
        assert price.source.startswith("https://"), model
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", price.date), model
        assert price.output >= price.input > 0, model
        assert price.cached is None or 0 < price.cached < price.input, model


@pytest.mark.parametrize(
    ("kind", "tier", "share"),
    [
        ("openai", None, 1.0),
        ("openai", "default", 1.0),
        ("openai", "flex", 0.5),
        ("openai", "priority", None),
        ("anthropic", "standard", 1.0),
        ("anthropic", "priority", None),
        ("google", "STANDARD", 1.0),
        ("google", "flex", 0.5),
        ("groq", "flex", 1.0),
    ],
)
def test_a_tier_costs_its_share_of_the_list_price(kind: str, tier: str | None, share: float | None) -> None:
    shares = tier_shares_for(parse_target(f"{kind}:m", Params(), {}), PRICES, {})
    assert tier_share(shares, tier) == share
    cost = cost_usd(Usage(input_tokens=1_000_000), PRICES["m"], tier_share(shares, tier))
    assert cost == (None if share is None else pytest.approx(PRICES["m"].input * share))


def test_a_price_of_ones_own_holds_for_every_tier() -> None:
    own = {"m": Price(input=7.0, output=8.0)}
    shares = tier_shares_for(make_spec("openai"), PRICES, own)
    assert tier_share(shares, "priority") == 1.0
    assert tier_share(tier_shares_for(make_spec("openai"), PRICES, {"x": own["m"]}), "priority") is None


def test_no_model_that_comes_along_has_two_prices() -> None:
    names: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names.extend(name for name, value in pairs if isinstance(value, dict))
        return dict(pairs)

    json.loads(files("proctor").joinpath("prices.json").read_text("utf-8"), object_pairs_hook=note)
    assert len(names) == len(set(names)) > 20

"""Prices, and what answers cost."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import UsageError
from proctor.model import Price, TargetSpec, Usage
from proctor.pricing import cost_usd, parse_prices, price_for, price_of

PRICES = {
    "m": Price(input=2.0, output=8.0, cached=0.5, source="s", date="2026-01-01"),
    "m-mini": Price(input=1.0, output=4.0),
}


def _spec(kind: str, model: str = "m", endpoint: str | None = None) -> TargetSpec:
    return TargetSpec(name=model, kind=kind, model=model, endpoint=endpoint)


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
        "[other]\n[models.x]\ninput = 1\noutput = 1",
    ],
)
def test_a_wrong_table_is_a_usage_error_that_names_the_file(text: str) -> None:
    with pytest.raises(UsageError, match=r"^p\.toml"):
        parse_prices(text, "p.toml")


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("m", "m"),
        ("m-2025-04-14", "m"),
        ("m-20250929", "m"),
        ("m-mini-2025-04-14", "m-mini"),
        ("m-large", None),
        ("m-2025", None),
        ("m-12345678", None),
        ("M", None),
        ("", None),
    ],
)
def test_a_snapshot_costs_what_its_model_costs(model: str, known: str | None) -> None:
    assert price_of(model, PRICES) == (PRICES[known] if known else None)


@pytest.mark.parametrize("kind", ["echo", "local", "scripted"])
def test_what_runs_here_costs_nothing(kind: str) -> None:
    assert cost_usd(Usage(input_tokens=10**6), price_for(_spec(kind), PRICES)) == 0.0


@pytest.mark.parametrize(
    "spec",
    [
        _spec("command"),
        _spec("function"),
        _spec("replay"),
        _spec("openai", "unheard-of"),
        _spec("openai", endpoint="http://127.0.0.1:11434/v1"),
        _spec("openai", endpoint="https://elsewhere.example/v1"),
    ],
)
def test_an_unknown_price_stays_unknown(spec: TargetSpec) -> None:
    assert price_for(spec, PRICES) is None


@pytest.mark.parametrize("endpoint", [None, "https://api.openai.com/v1"])
def test_a_model_costs_its_list_price_where_its_maker_serves_it(endpoint: str | None) -> None:
    assert price_for(_spec("openai", endpoint=endpoint), PRICES) == PRICES["m"]


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
def test_a_cost_is_never_negative_nor_more_than_without_a_cache(read: int, written: int, cached: int) -> None:
    with_cache = cost_usd(Usage(input_tokens=read, output_tokens=written, cached_tokens=cached), PRICES["m"])
    without = cost_usd(Usage(input_tokens=read, output_tokens=written), PRICES["m"])
    assert with_cache is not None
    assert without is not None
    assert 0 <= with_cache <= without + 1e-9


def test_every_price_that_comes_along_has_its_source_and_date() -> None:
    prices = parse_prices(files("proctor").joinpath("prices.toml").read_text("utf-8"), "prices.toml")
    assert {"gpt-4o", "claude-sonnet-4-6", "gemini-2.5-pro"} <= set(prices)
    for model, price in prices.items():
        assert price.source.startswith("https://"), model
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", price.date), model
        assert price.output >= price.input > 0, model
        assert price.cached is None or 0 < price.cached < price.input, model

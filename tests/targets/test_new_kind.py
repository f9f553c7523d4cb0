"""A new kind of target works everywhere, with one record in the table or an entry point."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from proctor.engines.retries import RetryPolicy
from proctor.errors import UnknownName, UsageError
from proctor.model import Params, Price
from proctor.pricing import PriceQuote
from proctor.services.runs.config import load_config
from proctor.services.runs.execution.target_pool import Prices, TargetPool, load_prices, max_concurrency_for
from proctor.services.runs.planning.target_names import TargetNames
from proctor.services.runs.starts.allowed_targets import RunContext, check_allowed, list_allowed_targets
from proctor.targets import TARGETS, get_kind, iter_kinds
from proctor.targets.api.http import address_for, key_for_endpoint, key_for_target
from proctor.targets.api.openai.services import openai_service
from proctor.targets.context import TargetContext
from proctor.targets.parse import known_words, parse_target
from proctor.targets.prices import quote_for
from proctor.targets.targets_file import TargetsFile
from support.apis import Api, make_reply
from support.builders import make_prompt, make_spec

ADDRESS = "https://api.cohere.com/compatibility/v1"
COHERE = f"""
from proctor.targets.api.openai.services import openai_service

COHERE = openai_service("cohere", "{ADDRESS}", "COHERE_API_KEY", "Cohere")
"""
KEYS = {"COHERE_API_KEY": "co-key", "OPENAI_API_KEY": "sk-openai", "PROCTOR_API_KEY": "other"}
SHOUT = """
from proctor.model import Output


class Shout:
    def __init__(self, model):
        self.model = model

    async def answer(self, prompt):
        return Output(text=self.model + ": " + prompt.messages[-1].content.upper())

    async def aclose(self):
        pass


async def open_target(spec, opening):
    return Shout(spec.model)
"""


def _line_in_the_table(folder: Path) -> None:
    (folder / "cohere_line.py").write_text(COHERE, encoding="utf-8")
    TARGETS._locations["cohere"] = "cohere_line:COHERE"
    TARGETS._builtin = TARGETS._builtin | {"cohere"}


def _entry_point(folder: Path) -> None:
    (folder / "cohere_package.py").write_text(COHERE, encoding="utf-8")
    (folder / "shout_package.py").write_text(SHOUT, encoding="utf-8")
    info = folder / "more_targets-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more-targets\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(
        "[proctor.targets]\ncohere = cohere_package:COHERE\nshout = shout_package:open_target\n"
        "broken = no_such_module:KIND\n",
        encoding="utf-8",
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path; kinds that its packages add are removed afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("_locations", "_instances", "_builtin"):
        monkeypatch.setattr(TARGETS, name, copy(getattr(TARGETS, name)))
    yield tmp_path
    for name in ("cohere_line", "cohere_package", "shout_package"):
        sys.modules.pop(name, None)


@pytest.fixture
def installed(folder: Path) -> Path:
    _entry_point(folder)
    return folder


@pytest.fixture(params=[_line_in_the_table, _entry_point])
def cohere(request: pytest.FixtureRequest, folder: Path) -> None:
    request.param(folder)


def _file(entry: str) -> TargetsFile:
    return TargetsFile(f"targets:\n  - {{name: t, {entry}}}\n", "targets.yaml", "/project")


def _context(folder: Path) -> RunContext:
    names = TargetNames({}, folder)
    return RunContext(folder=folder, environ={}, config=load_config((), folder), names=names)


# --- a service with OpenAI's interface ---------------------------------------------------------------------


@pytest.mark.usefixtures("cohere")
def test_it_is_a_word_of_the_command_line_at_its_own_address() -> None:
    spec = parse_target("cohere:command-a", Params(), {"OPENAI_BASE_URL": "https://else.example/v1"})
    assert (spec.name, spec.kind, spec.model) == ("cohere:command-a", "cohere", "command-a")
    assert spec.endpoint == address_for(make_spec("cohere", "m")) == ADDRESS
    assert "cohere" in known_words()  # with its package's other entry points, one of which is broken
    with pytest.raises(UsageError, match=r"names no model\. Write cohere:MODEL"):
        parse_target("cohere:", Params(), {})


@pytest.mark.usefixtures("cohere")
async def test_it_is_called_at_the_address_that_the_user_gives(api: Api) -> None:
    api.reply(make_reply("openai", "43"))
    for spec in (
        parse_target(f"cohere:m@{api.url}/v1", Params(), {}),
        _file(f"provider: cohere, model: m, base_url: '{api.url}/v1'").get_spec("t", Params(), {}),
        _file(f"target: 'cohere:m@{api.url}/v1'").get_spec("t", Params(), {}),
    ):
        opening = TargetContext(KEYS)
        target = await TARGETS.get(spec.kind).open_target(spec, opening)
        assert (await target.answer(make_prompt("?"))).text == "43"
        await opening.aclose()
        assert api.requests[-1].path == "/v1/chat/completions"
        # The address is not Cohere's, and gets neither its key nor OpenAI's.
        assert api.requests[-1].headers["authorization"] == "Bearer other"
    assert len(api.requests) == 3


@pytest.mark.usefixtures("cohere")
def test_its_key_goes_to_its_address_only() -> None:
    spec = parse_target("cohere:m", Params(), {})
    assert key_for_target(spec, ADDRESS, TargetContext(KEYS)) == "co-key"
    assert key_for_endpoint(f"{ADDRESS}/other", TargetContext(KEYS), "The target") == "co-key"
    assert key_for_target(spec, "https://gateway.example/v1", TargetContext(KEYS)) == "other"
    with pytest.raises(UsageError, match="COHERE_API_KEY is not set"):
        key_for_target(spec, ADDRESS, TargetContext({"OPENAI_API_KEY": "sk-openai"}))


@pytest.mark.usefixtures("cohere")
def test_a_targets_file_takes_its_fields() -> None:
    file = _file("provider: cohere, model: command-a, temperature: 0.5, api_key: '${{ MINE }}'")
    assert not file.problems
    spec = file.get_spec("t", Params(), {"MINE": "k"})
    assert (spec.kind, spec.endpoint, spec.params.temperature) == ("cohere", ADDRESS, 0.5)
    assert key_for_target(spec, ADDRESS, TargetContext({**KEYS, "MINE": "my-key"})) == "my-key"
    (problem,) = _file("provider: cohere, model: m, command: a").problems
    assert problem.field == "command"


async def test_an_answer_costs_the_share_of_the_tier_that_it_reports(folder: Path, api: Api) -> None:
    tiers = "COHERE = replace(COHERE, tier_shares={'default': 1.0, 'flex': 0.5})\n"
    text = f"from msgspec.structs import replace\n{COHERE.replace(ADDRESS, api.url)}{tiers}"
    (folder / "cohere_line.py").write_text(text, encoding="utf-8")
    TARGETS._locations["cohere"] = "cohere_line:COHERE"
    prices = Prices(shipped={"m": Price(input=10.0, output=20.0)}, own={})
    pool = TargetPool(KEYS, concurrency=1, retry_policy=RetryPolicy(), prices=prices, notify=print)
    params = Params(api_format="responses", service_tier="flex")
    target = await pool.open_target(parse_target("cohere:m", params, {}))
    usage = {"input_tokens": 100_000, "output_tokens": 50_000}
    tiers_and_costs: list[tuple[str | None, float | None]] = [
        *[("flex", 1.0), ("default", 2.0)],
        *[("priority", None), (None, 1.0), ("flex", 1.0)],
    ]
    for tier, _ in tiers_and_costs:
        api.reply({"output": [], "usage": usage, "service_tier": tier})
    costs = [(await target.answer(make_prompt("one"))).cost_usd for _ in tiers_and_costs]
    await pool.aclose()
    assert costs == [cost for _, cost in tiers_and_costs]


@pytest.mark.usefixtures("cohere")
def test_its_list_price_counts_at_its_address() -> None:
    price = Price(input=1.0, output=2.0)
    spec = parse_target("cohere:command-a", Params(), {})
    assert quote_for(spec, {"command-a": price}, {}) == PriceQuote(price)
    other_spec = parse_target("cohere:command-a@https://gateway.example/v1", Params(), {})
    assert quote_for(other_spec, {"command-a": price}, {}) is None
    assert quote_for(other_spec, {}, {"command-a": price}) == PriceQuote(price)


@pytest.mark.usefixtures("cohere")
async def test_a_budget_an_embedder_and_the_limits_know_it(tmp_path: Path) -> None:
    spec = parse_target("cohere:command-a", Params(), {})
    assert get_kind(spec).bills_per_prompt
    assert max_concurrency_for(spec, 7) == 7
    pool = TargetPool(
        {**KEYS, "PROCTOR_EMBEDDINGS": "cohere:embed-v4"},
        concurrency=1,
        retry_policy=RetryPolicy(timeout_s=1.0, retries=0),
        prices=load_prices({}, tmp_path),
        notify=lambda _message: None,
    )
    with pytest.raises(UsageError, match=r'\[models."command-a"\]'):
        pool.require_prices([spec])
    await pool.open_embedder()
    assert pool.get_embedder().name == "embed-v4"
    await pool.aclose()


@pytest.mark.usefixtures("cohere")
def test_a_page_takes_its_models_but_no_address(tmp_path: Path) -> None:
    allowed = list_allowed_targets(_context(tmp_path))
    assert [target.name for target in allowed.targets] == ["echo", "local"]
    check_allowed("cohere:command-a", allowed, {})
    with pytest.raises(UsageError, match="cannot be called from here"):
        check_allowed("cohere:m@https://gateway.example/v1", allowed, {})


@pytest.mark.usefixtures("cohere")
def test_the_list_of_targets_names_it() -> None:
    kind = next(kind for kind in iter_kinds(installed=True) if kind.name == "cohere")
    assert (kind.syntax, kind.key_variables, kind.summary) == ("cohere:MODEL", ("COHERE_API_KEY",), "Cohere")


# --- entry points ------------------------------------------------------------------------------------------


async def test_an_entry_point_that_is_a_function_still_opens_its_target(installed: Path) -> None:
    spec = parse_target("shout:now", Params(), {})
    assert (spec.kind, spec.model, spec.endpoint) == ("shout", "now", None)
    target = await TARGETS.get(spec.kind).open_target(spec, TargetContext({}))
    assert (await target.answer(make_prompt("hello"))).text == "now: HELLO"
    # It keeps the properties that such a kind always had.
    kind = get_kind(spec)
    assert kind.is_cacheable
    assert not kind.is_typed_in_web
    assert not kind.bills_per_prompt
    (problem,) = _file("provider: shout").problems
    assert problem.code == "unknown-value"
    allowed = list_allowed_targets(_context(installed))
    with pytest.raises(UsageError, match="cannot be called from here"):
        check_allowed("shout:now", allowed, {})


def test_a_package_that_cannot_be_imported_hides_no_other(installed: Path) -> None:
    names = {kind.name for kind in iter_kinds(installed=True)}
    assert {"openai", "cohere", "shout"} <= names
    assert "broken" not in names


@pytest.mark.usefixtures("folder")
def test_a_record_goes_by_the_name_that_it_is_registered_under() -> None:
    async def open_target(_spec: Any, _context: Any) -> Any:
        return None

    TARGETS.add("mine", openai_service("yours", ADDRESS, "", "Mine"))
    TARGETS.add("plain", open_target)  # type: ignore[arg-type]
    assert TARGETS.get("mine").name == "mine"
    assert parse_target("mine:m", Params(), {}).kind == "mine"
    assert parse_target("plain", Params(), {}).kind == "plain"


def test_a_kind_that_is_not_installed_any_more_has_no_properties() -> None:
    kind = get_kind(make_spec("gone", "m"))
    assert (kind.name, kind.has_address, kind.entry_fields) == ("gone", False, None)
    with pytest.raises(UnknownName, match="gone"):
        parse_target("gone:m", Params(), {})


# --- cheap records -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_record_is_read_without_a_client() -> None:
    script = (
        "import sys\n"
        "from proctor.model import Params\n"
        "from proctor.targets import iter_kinds\n"
        "from proctor.targets.parse import parse_target\n"
        "parse_target('openai:gpt-4o', Params(), {})\n"
        "parse_target('gpt-4o', Params(), {})\n"
        "assert len(list(iter_kinds())) > 10\n"
        "print(*sorted({'aiohttp', 'yarl', 'asyncio', 'yaml', 'click'} & set(sys.modules)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert run.stdout.split() == []


def test_every_record_tells_how_it_is_written() -> None:
    for kind in iter_kinds():
        assert kind.syntax.startswith(kind.name)
        assert kind.summary
        assert TARGETS.get(kind.name) is kind
        word = {"function": "function:m:f", "echo": "echo"}.get(kind.name, f"{kind.name}:m")
        spec = parse_target(word, Params(), {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com"})
        assert get_kind(spec).spec_kind == TARGETS.get(kind.spec_kind).name

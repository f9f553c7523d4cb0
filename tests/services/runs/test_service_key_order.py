"""Keys of schemas and tools keep the order of the file, as models answer in that order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from proctor.codec import json_in_key_order, judged_digest, suite_digest, unordered_digest
from proctor.model import Settings
from proctor.services.bundles.attest import attest
from proctor.services.bundles.import_bundle import import_bundle
from proctor.services.bundles.import_records import ImportOptions
from proctor.services.bundles.replay import ReplayOptions, plan_replay
from proctor.services.runs.execution.session import RunSession
from proctor.stores.sqlite.store import SqliteStore
from support.endpoints import serve_app
from support.sessions import MakeRuns

FIRST, LAST = ("reasoning", "answer"), ("answer", "reasoning")


def suite(folder: Path, keys: tuple[str, ...], *, tools: bool = False) -> str:
    """A suite of one case with a schema, or a tool, of those properties."""
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in keys}}
    form = {"tools": [{"name": "note", "parameters": schema}]} if tools else {"schema": schema}
    check = {"grader": "contains", "params": {"value": "a"}}
    case = {"id": "c", "input": [{"role": "user", "content": "?"}], "form": form, "assertions": [check]}
    lines: list[Any] = [{"proctor": 1, "name": "s"}, case]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return "s.jsonl"


class RequestOrders(list[tuple[str, ...]]):
    """The orders of properties in the requests that a server got."""

    def __init__(self) -> None:
        self.word = ""


@pytest.fixture
async def orders() -> Any:
    """The orders that a server got; `word` is the target on that server."""
    orders = RequestOrders()

    async def chat(request: web.Request) -> web.Response:
        body = await request.json()
        schema = (
            body["tools"][0]["function"]["parameters"]
            if "tools" in body
            else body["response_format"]["json_schema"]["schema"]
        )
        orders.append(tuple(schema["properties"]))
        choice = {"message": {"role": "assistant", "content": "an answer"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    async with serve_app(app) as url:
        orders.word = f"openai:m@{url}/v1"
        yield orders


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("settings", [Settings(reuse=True), Settings(cache=True)], ids=["reuse", "cache"])
async def test_an_answer_to_a_schema_in_another_order_is_no_answer_to_this_one(
    make: MakeRuns, folder: Path, orders: RequestOrders, settings: Settings, tools: bool
) -> None:
    explicit = frozenset({"reuse", "cache"})
    for keys in (FIRST, LAST, FIRST, LAST):
        await make(suite(folder, keys, tools=tools), orders.word, settings=settings, explicit=explicit)
    assert orders == [FIRST, LAST]


async def test_a_suite_with_its_schema_in_another_order_is_another_version(
    make: MakeRuns, folder: Path, store: SqliteStore, orders: RequestOrders
) -> None:
    (first,) = await make(suite(folder, FIRST), orders.word)
    (last,) = await make(suite(folder, LAST), orders.word)
    assert (first.run.suite.version, last.run.suite.version) == ("v1", "v2")


async def test_answers_of_an_earlier_version_are_taken_where_the_order_is_the_same(
    make: MakeRuns, folder: Path, store: SqliteStore, orders: RequestOrders
) -> None:
    """Earlier versions had one digest for both orders; a store has the order in its cases."""
    reuse: dict[str, Any] = {"settings": Settings(reuse=True), "explicit": frozenset({"reuse"})}
    (result,) = await make(suite(folder, FIRST), orders.word)
    (case,) = [record.case for record in store.cases(result.run.suite.content)]
    store._db.execute("UPDATE suite_cases SET sent = ?", (bytes.fromhex(unordered_digest(case)[7:]),))
    await make(suite(folder, LAST), orders.word, **reuse)
    assert orders == [FIRST, LAST]
    (again,) = await make(suite(folder, FIRST), orders.word, **reuse)
    assert orders == [FIRST, LAST]
    (trial,) = [record.trial for record in store.trials(again.run.id)]
    (digest,) = [record.sent_digest for record in store.cases(again.run.suite.content)]
    assert trial.sent == digest


async def test_a_bundle_has_the_order_and_a_replay_asks_in_it(
    make: MakeRuns,
    folder: Path,
    store: SqliteStore,
    other: SqliteStore,
    orders: RequestOrders,
    environ: dict[str, str],
) -> None:
    (result,) = await make(suite(folder, FIRST), orders.word)
    attest(store, result.run, folder / "b", public=False, key=None)
    (line,) = (folder / "b" / "suite.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    assert tuple(json.loads(json.loads(line)["written"])[1]["schema"]["properties"]) == FIRST

    imported = import_bundle(other, folder / "b", ImportOptions()).run
    assert [
        (stored_case.sent_digest, json_in_key_order(stored_case.case))
        for stored_case in other.cases(imported.suite.content)
    ] == [
        (stored_case.sent_digest, json_in_key_order(stored_case.case))
        for stored_case in store.cases(result.run.suite.content)
    ]
    replay = plan_replay(other, folder / "b", ImportOptions(), ReplayOptions(target=orders.word))
    await RunSession(other, environ, lambda _event: None, folder=folder).run(replay.request)
    assert orders == [FIRST, FIRST]


async def test_a_bundle_of_a_run_by_an_earlier_version_has_no_order_and_verifies(
    make: MakeRuns, folder: Path, store: SqliteStore, other: SqliteStore, orders: RequestOrders
) -> None:
    (result,) = await make(suite(folder, FIRST), orders.word)
    (case,) = [stored_case.case for stored_case in store.cases(result.run.suite.content)]
    sent_digest = unordered_digest(case)
    digest = suite_digest(result.run.suite, [(case.id, sent_digest, judged_digest(case))])
    store._db.execute("UPDATE suite_cases SET sent = ?", (bytes.fromhex(sent_digest[7:]),))
    store._db.execute(
        "UPDATE trials SET body = CAST(json_set(CAST(body AS TEXT), '$.sent', ?) AS BLOB)", (sent_digest,)
    )
    run = replace(result.run, suite=replace(result.run.suite, digest=digest))
    store.update_run(run)
    attest(store, run, folder / "b", public=False, key=None)
    assert "written" not in (folder / "b" / "suite.jsonl").read_text(encoding="utf-8")
    assert import_bundle(other, folder / "b", ImportOptions()).run.suite.digest == digest

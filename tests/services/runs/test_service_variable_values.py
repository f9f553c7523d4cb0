"""Answers and grades are not reused for another value of a variable or another embedding model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from proctor.errors import UsageError
from proctor.model import Params, Settings, TargetSpec
from proctor.services import events
from proctor.services.bundles.attest import attest
from proctor.services.runs.execution.variable_values import target_variables
from proctor.stores.sqlite.store import SqliteStore
from support.endpoints import serve_app
from support.sessions import MakeRuns, WriteModule

SOURCE = """
import json
asked = []
judged = []
def answer(prompt):
    asked.append(prompt)
    return f"answer {len(asked)}"
def judge(prompt):
    judged.append(prompt)
    return json.dumps({"score": 1, "reason": "good"})
"""
REUSE: dict[str, Any] = {"settings": Settings(reuse=True), "explicit": frozenset({"reuse"})}
CALLING = """
name: t
tests:
  - id: asked
    criteria: greets
    input: "I am ${{ WHO }}"
    assertions: [{type: contains, value: answer}]
"""
GRADED = """
name: t
tests:
  - id: graded
    criteria: greets
    input: "Who am I?"
    assertions: [{type: contains, value: "${{ WHO }}"}]
"""
JUDGED = """
name: t
tests:
  - id: judged
    criteria: greets
    input: "Who am I?"
    assertions: [{type: llm-grader, prompt: "Is {{ output }} right for ${{ WHO }}?"}]
"""


class Bench:
    """Makes runs of one suite with a value of `WHO`, and records the calls."""

    def __init__(self, make: MakeRuns, module: str, folder: Path, environ: dict[str, str]) -> None:
        self._make = make
        self._module = module
        self._folder = folder
        self._environ = environ

    async def run(self, text: str, who: str, **fields: Any) -> events.RunFinished:
        self._environ["WHO"] = who
        if text:
            (self._folder / "t.eval.yaml").write_text(text, encoding="utf-8")
            fields["suites"] = "t.eval.yaml"
        targets = fields.pop("targets", f"function:{self._module}:answer")
        (result,) = await self._make(
            targets=targets, judges=(f"function:{self._module}:judge",), **{**REUSE, **fields}
        )
        return result

    @property
    def prompts(self) -> list[str]:
        prompts: list[str] = vars(sys.modules[self._module])["asked"]
        return prompts

    @property
    def judged(self) -> int:
        return len(vars(sys.modules[self._module])["judged"])


@pytest.fixture
def bench(make: MakeRuns, module: WriteModule, folder: Path, environ: dict[str, str]) -> Bench:
    return Bench(make, module(SOURCE), folder, environ)


@pytest.fixture
async def questions() -> Any:
    """The questions that a server got, after the name of its target."""
    questions: list[str] = []

    async def chat(request: web.Request) -> web.Response:
        questions.append((await request.json())["messages"][-1]["content"])
        choice = {"message": {"role": "assistant", "content": "an answer"}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    async with serve_app(app) as url:
        questions.append(f"openai:m@{url}/v1")
        yield questions


async def test_an_answer_to_one_value_is_none_to_another(bench: Bench) -> None:
    for who in ("alice", "bob", "alice", "bob"):
        result = await bench.run(CALLING, who)
    assert len(bench.prompts) == 2
    assert (result.tally.asked_count, result.tally.reused_count) == (0, 1)
    assert ["alice" in prompt for prompt in bench.prompts] == [True, False]


@pytest.mark.parametrize("address", ["kept.db"])
async def test_the_cache_has_an_answer_for_each_value(
    bench: Bench, folder: Path, questions: list[str]
) -> None:
    word = questions.pop()
    for who in ("alice", "bob", "alice"):
        await bench.run(
            CALLING, who, targets=word, settings=Settings(cache=True), explicit=frozenset({"cache"})
        )
    assert questions == ["I am alice", "I am bob"]
    assert b"alice" not in (folder / "cache.db").read_bytes()


async def test_a_value_that_only_graders_see_leaves_the_answer_and_not_the_grade(bench: Bench) -> None:
    assert (await bench.run(GRADED, "ans")).tally.all.passed == 1
    again = (await bench.run(GRADED, "someone else")).tally
    assert (len(bench.prompts), again.graded_count, again.reused_count, again.all.passed) == (1, 1, 1, 0)
    assert (await bench.run(GRADED, "ans")).tally.graded_count == 0


async def test_an_answer_that_repeats_a_value_is_not_read_with_another_one(bench: Bench) -> None:
    """It is stored with the reference in the place of the value."""
    assert (await bench.run(GRADED, "answer")).tally.all.passed == 1
    again = (await bench.run(GRADED, "question")).tally
    assert (len(bench.prompts), again.reused_count, again.all.passed) == (2, 0, 0)


async def test_a_judge_whose_prompt_has_another_value_is_asked_again(bench: Bench) -> None:
    for who in ("alice", "bob", "alice"):
        result = await bench.run(JUDGED, who)
    assert (len(bench.prompts), bench.judged, result.tally.graded_count) == (1, 2, 0)


async def test_a_target_that_is_set_up_with_another_value_is_asked_again(bench: Bench, folder: Path) -> None:
    text = "targets:\n  - {name: a, provider: mock, response: 'answer of ${{ WHO }}'}\n"
    (folder / "targets.yaml").write_text(text, encoding="utf-8")
    suite = CALLING.replace("${{ WHO }}", "somebody")
    reused = [(await bench.run(suite, who, targets="a")).tally.reused_count for who in ("x", "y", "x", "y")]
    assert reused == [0, 0, 1, 1]


def test_keys_and_addresses_do_not_make_another_target() -> None:
    options = {
        "api_key": "${{ OPENAI }}",
        "base_url": "${{ ADDRESS }}",
        "system_prompt": "You are ${{ NAME }}",
        "env": {"GH_TOKEN": "${{ TODAYS }}", "WHO": "${{ WHO }}", "A": "${{ MY_PASSWORD }}"},
    }
    spec = TargetSpec(name="a", kind="cli", model="${{ LINE }}", options=options)
    other = replace(spec, fallbacks=(TargetSpec(name="b", kind="mock", options={"response": "${{ B }}"}),))
    assert target_variables([other]) == {"LINE", "NAME", "WHO", "B"}
    headers = {"X-Api-Key": "${{ OPENAI }}", "X-Team": "${{ TEAM }} ${{ TEAM_TOKEN }}"}
    params = Params(headers=headers, extra_body={"user": ["${{ ACCOUNT }}", "${{ MY_PASSWORD }}"]})
    assert target_variables([replace(spec, model="m", options={}, params=params)]) == {"TEAM", "ACCOUNT"}


@pytest.mark.parametrize("flag", ["cache", "reuse"])
@pytest.mark.parametrize("field", ["extra_body: {user: '${{ WHO }}'}", "headers: {X-User: '${{ WHO }}'}"])
@pytest.mark.parametrize("address", ["kept.db"])
async def test_a_parameter_with_another_value_is_sent_again(
    bench: Bench, folder: Path, questions: list[str], flag: str, field: str
) -> None:
    url = questions.pop().partition("@")[2]
    target = f"{{name: a, provider: openai, base_url: '{url}', model: m, {field}}}"
    (folder / "targets.yaml").write_text(f"targets:\n  - {target}\n", encoding="utf-8")
    suite = CALLING.replace("${{ WHO }}", "somebody")
    settings, explicit = Settings(cache=flag == "cache", reuse=flag == "reuse"), frozenset({flag})
    for who in ("alice", "bob", "alice"):
        await bench.run(suite, who, targets="a", settings=settings, explicit=explicit)
    assert len(questions) == 2
    assert not any(b"alice" in file.read_bytes() for file in folder.glob("*.db*"))


async def test_a_run_of_an_earlier_version_has_no_values_and_serves_no_answer(
    bench: Bench, store: SqliteStore
) -> None:
    first = await bench.run(CALLING, "alice")
    store._db.execute("DELETE FROM variables")
    assert (await bench.run(CALLING, "alice")).tally.asked_count == 1
    store.update_run(replace(first.run, status="interrupted"))
    assert (await bench.run("", "alice", resume=first.run.id)).tally.all.total == 1


@pytest.mark.parametrize("address", ["kept.db"])
async def test_a_value_is_in_the_store_only_as_a_keyed_digest_and_in_no_bundle(
    bench: Bench, store: SqliteStore, folder: Path
) -> None:
    result = await bench.run(CALLING, "pin-1234")
    (digest,) = store.variable_digests(result.run.id).values()
    again = await bench.run(CALLING, "pin-1234")
    assert list(store.variable_digests(again.run.id).values()) != [digest]  # the key is the run's own
    store.flush()
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file_bytes = (folder / "kept.db").read_bytes()
    for value in (b"pin-1234", sha256(b"pin-1234").digest(), sha256(b"WHO\0pin-1234").digest()):
        assert value not in file_bytes
    attest(store, result.run, folder / "b", public=False, key=None)
    for path in (folder / "b").iterdir():
        text = path.read_bytes()
        assert digest not in text
        assert digest.hex().encode() not in text
        assert store.secret(result.run.id).hex().encode() not in text
    store.delete_run(result.run.id)
    assert store._db.execute("SELECT count(*) FROM variables").fetchone() == (1,)


@pytest.mark.parametrize("flag", ["resume", "retry_errors"])
async def test_a_run_is_not_taken_up_with_another_value(bench: Bench, store: SqliteStore, flag: str) -> None:
    result = await bench.run(CALLING, "alice")
    store.update_run(replace(result.run, status="interrupted"))
    with pytest.raises(UsageError, match="the variable WHO: it had another value"):
        await bench.run("", "bob", **{flag: result.run.id})
    assert len(bench.prompts) == 1
    assert (await bench.run("", "alice", **{flag: result.run.id})).tally.all.total == 1


async def test_the_newest_run_with_another_value_is_not_continued(bench: Bench, store: SqliteStore) -> None:
    result = await bench.run(CALLING, "alice")
    store.update_run(replace(result.run, status="interrupted"))
    with pytest.raises(UsageError, match="the variable WHO: it had another value"):
        await bench.run(CALLING, "bob", resume="")
    assert (await bench.run(CALLING, "alice", resume="")).run.id == result.run.id


async def test_answers_to_another_value_are_not_graded_again(bench: Bench) -> None:
    result = await bench.run(CALLING, "alice")
    with pytest.raises(UsageError, match="had another value of WHO"):
        await bench.run("", "bob", regrade=result.run.id)
    assert (await bench.run("", "alice", regrade=result.run.id)).tally.all.passed == 1


# --- embedding models --------------------------------------------------------------------------------------


@pytest.fixture
async def embeddings() -> Any:
    """A server of two models: `same` finds all texts alike, `other` none."""

    async def embed(request: web.Request) -> web.Response:
        body = await request.json()
        vectors = [
            [1.0, float(place) * 9 * (body["model"] == "other")] for place in range(len(body["input"]))
        ]
        rows = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)]
        return web.json_response({"data": rows})

    app = web.Application()
    app.router.add_post("/v1/embeddings", embed)
    async with serve_app(app) as url:
        yield lambda model: f"openai:{model}@{url}/v1"


def _write_similarity_suite(folder: Path) -> None:
    check = {"grader": "semantic_similarity", "params": {"value": "x"}}
    case = {"id": "c", "input": [{"role": "user", "content": "?"}], "assertions": [check]}
    lines: list[Any] = [{"proctor": 1, "name": "s"}, case]
    (folder / "s.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


async def test_similarity_by_another_model_is_measured_again_on_the_stored_answer(
    bench: Bench, folder: Path, environ: dict[str, str], embeddings: Callable[[str], str]
) -> None:
    _write_similarity_suite(folder)
    numbers = []
    for model in ("same", "other", "other", "same"):
        environ["PROCTOR_EMBEDDINGS"] = embeddings(model)
        result = await bench.run("", "x", suites="s.jsonl")
        numbers.append((result.tally.asked_count, result.tally.graded_count, result.tally.all.passed))
        assert result.run.embedder == embeddings(model)
    assert numbers == [(1, 1, 1), (0, 1, 0), (0, 0, 0), (0, 0, 1)]


async def test_a_run_is_not_continued_with_another_embedding_model(
    bench: Bench, store: SqliteStore, folder: Path, environ: dict[str, str], embeddings: Callable[[str], str]
) -> None:
    _write_similarity_suite(folder)
    environ["PROCTOR_EMBEDDINGS"] = embeddings("same")
    result = await bench.run("", "x", suites="s.jsonl")
    store.update_run(replace(result.run, status="interrupted"))
    environ["PROCTOR_EMBEDDINGS"] = embeddings("other")
    with pytest.raises(UsageError, match=r"the embedding model: .*\n.*\n.*proctor regrade"):
        await bench.run("", "x", resume=result.run.id)
    again = await bench.run("", "x", regrade=result.run.id)
    assert (again.run.embedder, again.tally.all.passed) == (embeddings("other"), 0)

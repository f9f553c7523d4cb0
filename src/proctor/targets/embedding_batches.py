"""Embeds the texts of concurrent calls together.

A call that finds nothing under way is sent at once. What is requested meanwhile is collected, and is the next
batch. Nothing waits for a batch to fill.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import Struct

from proctor.errors import TargetError
from proctor.protocols import Embedder

MAX_BATCH_TEXTS = 128
MAX_BATCH_CHARACTERS = 200_000
"""At these limits a batch takes no further call; OpenAI takes 2,048 texts and 300,000 tokens."""


class BatchingEmbedder:
    """Implements `Embedder` over another one; for the calls of one event loop."""

    def __init__(self, embedder: Embedder, max_batches: int = 1) -> None:
        """Starts nothing.

        Args:
            embedder: embeds each batch.
            max_batches: the number of concurrent batches.
        """
        self.name = embedder.name
        self._embedder = embedder
        self._max_batches = max_batches
        self._calls: deque[_EmbeddingCall] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._active_count = 0
        """How many tasks take batches; a task that has ended may still be in `_tasks`."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Returns one vector for each text, in order.

        Raises:
            TargetError: the texts could not be embedded, not even by themselves.
        """
        call = _EmbeddingCall(tuple(texts), asyncio.get_running_loop().create_future())
        self._calls.append(call)
        if self._active_count < self._max_batches:
            self._active_count += 1
            task = asyncio.create_task(self._work())  # begins after calls of the same moment
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await call.vectors

    async def aclose(self) -> None:
        """Gives up the batches under way. Safe to call twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        try:
            while calls := self._take_batch():
                await self._embed_batch(calls)
        finally:
            self._active_count -= 1

    async def _embed_batch(self, calls: list[_EmbeddingCall]) -> None:
        texts = list(dict.fromkeys(text for call in calls for text in call.texts))
        try:
            vectors = await self._embedder.embed(texts)
            if len(vectors) != len(texts):
                raise TargetError(
                    f"The embedding model returned {len(vectors)} vectors for {len(texts)} texts.",
                    kind="protocol",
                )
        except Exception as error:  # noqa: BLE001 - the caller gets it
            if len(calls) == 1:
                calls[0].fail(error)
            else:  # one text that is refused must not leave the others without vectors
                await asyncio.gather(*map(self._embed_alone, calls))
            return
        vectors_by_text = dict(zip(texts, vectors, strict=True))
        for call in calls:
            call.finish([vectors_by_text[text] for text in call.texts])

    async def _embed_alone(self, call: _EmbeddingCall) -> None:
        try:
            vectors = await self._embedder.embed(call.texts)
            call.finish(vectors)
        except Exception as error:  # noqa: BLE001 - the caller gets it
            call.fail(error)

    def _take_batch(self) -> list[_EmbeddingCall]:
        """Returns the calls of the next batch, without those whose callers were cancelled."""
        calls: list[_EmbeddingCall] = []
        text_count = character_count = 0
        while self._calls:
            call = self._calls[0]
            text_count += len(call.texts)
            character_count += sum(map(len, call.texts))
            if calls and (text_count > MAX_BATCH_TEXTS or character_count > MAX_BATCH_CHARACTERS):
                break
            self._calls.popleft()
            if not call.vectors.done():
                calls.append(call)
        return calls


class _EmbeddingCall(Struct):
    """The texts of one call, and the future of their vectors."""

    texts: tuple[str, ...]
    vectors: asyncio.Future[list[list[float]]]

    def finish(self, vectors: list[list[float]]) -> None:
        if not self.vectors.done():
            self.vectors.set_result(vectors)

    def fail(self, error: Exception) -> None:
        if not self.vectors.done():
            self.vectors.set_exception(error)

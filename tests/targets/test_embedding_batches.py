"""Embeddings of concurrent calls: batched without waiting; a bad text fails only its own call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from proctor.errors import TargetError
from proctor.targets.embedding_batches import MAX_BATCH_CHARACTERS, MAX_BATCH_TEXTS, BatchingEmbedder
from proctor.targets.local.embeddings import _group_by_length
from support.waiting import PATIENCE_S


class LengthEmbedder:
    """Embeds a text as its length, refuses texts with a bell, and can be made to wait."""

    name = "lengths"

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.batches.append(list(texts))
        await self.open.wait()
        if "missing" in texts:
            return []
        if any("\a" in text for text in texts):
            raise TargetError("A text has a bell.")
        return [[float(len(text))] for text in texts]


async def test_calls_of_the_same_moment_are_one_batch_with_each_text_once() -> None:
    embedder = LengthEmbedder()
    batching = BatchingEmbedder(embedder)
    assert batching.name == "lengths"
    vectors = await asyncio.gather(*(batching.embed(["x" * number, "same"]) for number in range(5)))
    assert vectors == [[[float(number)], [4.0]] for number in range(5)]
    assert embedder.batches == [["", "same", "x", "xx", "xxx", "xxxx"]]
    assert await batching.embed([]) == []


async def test_what_is_requested_while_a_batch_is_under_way_is_the_next_batch() -> None:
    embedder = LengthEmbedder()
    batching = BatchingEmbedder(embedder)
    embedder.open.clear()
    first = asyncio.ensure_future(batching.embed(["a"]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert embedder.batches == [["a"]]
    others = [asyncio.ensure_future(batching.embed([text])) for text in ("bb", "ccc")]
    await asyncio.sleep(0)
    others[0].cancel()
    embedder.open.set()
    async with asyncio.timeout(PATIENCE_S):
        assert await first == [[1.0]]
        assert await others[1] == [[3.0]]
    assert embedder.batches == [["a"], ["ccc"]]


async def test_an_endpoint_gets_several_batches_at_the_same_time() -> None:
    embedder = LengthEmbedder()
    batching = BatchingEmbedder(embedder, max_batches=2)
    embedder.open.clear()
    calls = []
    for text in ("a", "b", "c", "d"):
        calls.append(asyncio.ensure_future(batching.embed([text])))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert embedder.batches == [["a"], ["b"]]
    embedder.open.set()
    assert await asyncio.gather(*calls) == [[[1.0]]] * 4
    assert embedder.batches == [["a"], ["b"], ["c", "d"]]


async def test_batches_have_limits() -> None:
    embedder = LengthEmbedder()
    batching = BatchingEmbedder(embedder)
    await asyncio.gather(*(batching.embed([str(number)]) for number in range(MAX_BATCH_TEXTS + 1)))
    assert list(map(len, embedder.batches)) == [MAX_BATCH_TEXTS, 1]
    embedder.batches.clear()
    large = "x" * MAX_BATCH_CHARACTERS
    await asyncio.gather(*(batching.embed([text]) for text in (large + "y", "a", "b", large)))
    assert list(map(len, embedder.batches)) == [1, 2, 1]


@pytest.mark.parametrize("bad", ["\a", "missing"])
async def test_a_text_that_is_refused_leaves_only_its_own_call_without_vectors(bad: str) -> None:
    batching = BatchingEmbedder(LengthEmbedder())
    calls = [batching.embed([text]) for text in ("a", bad, "ccc")]
    good, failed, also_good = await asyncio.gather(*calls, return_exceptions=True)
    assert (good, also_good) == ([[1.0]], [[3.0]])
    assert failed == [] if bad == "missing" else isinstance(failed, TargetError)
    with pytest.raises(TargetError, match=r"bell|returned 0 vectors for 1 texts"):
        await batching.embed([bad])


async def test_at_the_end_batches_are_given_up() -> None:
    embedder = LengthEmbedder()
    batching = BatchingEmbedder(embedder)
    embedder.open.clear()
    call = asyncio.ensure_future(batching.embed(["a"]))
    await asyncio.sleep(0)
    await batching.aclose()
    await batching.aclose()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


def test_texts_of_equal_length_are_computed_together() -> None:
    assert _group_by_length([3, 5, 3, 5, 2]) == [[1, 3], [0, 2], [4]]
    assert list(map(len, _group_by_length([256] * 9))) == [4, 4, 1]
    assert _group_by_length([]) == []

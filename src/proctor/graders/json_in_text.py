"""Grades the JSON objects in an answer, whatever prose and fences surround them.

The search tries each opening brace that can begin an object. Objects inside an object are part of it.
"""

from __future__ import annotations

import json
import re
from typing import ClassVar, Literal, NoReturn

from msgspec.structs import replace

from proctor.errors import CannotScore
from proctor.graders.json_structure import JsonKeys, JsonSchema, Schema
from proctor.graders.text import quote
from proctor.model import GraderResult
from proctor.protocols import BaseGrader, GradingInput

_OBJECT_START = re.compile(r'\{(?=\s*["}])')
_MAX_WASTED_CHARACTERS = 20_000_000
"""Characters that failed attempts may read; only a hostile answer needs more."""
_DEEP_NESTING_COST = 10_000
"""The cost, in characters, of an object that nests too deeply."""


class ContainsJson(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer contains a JSON object that has every key and matches the schema."""

    all_or_nothing: ClassVar[bool] = True

    keys: tuple[str, ...] = ()
    """The keys that the object must have at its top level."""
    schema: Schema | None = None
    formats: bool = False
    """Whether to check `format` in the schema as well."""
    which: Literal["any", "last"] = "any"
    """Which object counts if there are several: any of them, or only the last."""

    def __post_init__(self) -> None:
        self._build_checks()

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if an object passes, else the score of the first object, with its entries.

        Raises:
            CannotScore: the answer has too many opening braces, or a pattern in the schema exceeded its time
                limit.
        """
        texts = find_json_objects(grading_input.output.text)
        if not texts:
            reason = f"The answer contains no JSON object: {quote(grading_input.output.text)}."
            return GraderResult(value=0.0, passed=False, reason=reason)
        first: GraderResult | None = None
        for text in texts[-1:] if self.which == "last" else texts:
            result = self._grade_object(text, grading_input)
            if result.passed:
                return result
            first = first or result
        assert first is not None
        return first

    def _build_checks(self) -> list[JsonKeys | JsonSchema]:
        keys = [JsonKeys(keys=self.keys, strip_fences=False)] if self.keys else []
        if self.schema is None:
            return [*keys]
        return [*keys, JsonSchema(schema=self.schema, strip_fences=False, formats=self.formats)]

    def _grade_object(self, text: str, grading_input: GradingInput) -> GraderResult:
        alone = replace(grading_input, output=replace(grading_input.output, text=text))
        marks = [check.grade(alone) for check in self._build_checks()]
        if not marks:
            return GraderResult(value=1.0, passed=True, reason="The answer contains a JSON object.")
        return min(marks, key=lambda result: result.value or 0.0)


def find_json_objects(text: str) -> list[str]:
    """Returns the sources of the JSON objects in a text, in order, without nested ones.

    Raises:
        CannotScore: too many of the text's opening braces do not begin an object.
    """
    objects: list[str] = []
    begins, read = _OBJECT_START.search(text), 0
    while begins:
        start = begins.start()
        end = start + 1
        try:
            _, end = _DECODER.raw_decode(text, start)
            objects.append(text[start:end])
        except RecursionError:
            read += _DEEP_NESTING_COST
        except ValueError as error:
            # A failure also costs a count of the lines before it, in the standard library.
            at = getattr(error, "pos", start)
            read += at - start + at // 16
        if read > _MAX_WASTED_CHARACTERS:
            raise CannotScore("The answer has too many opening braces that do not begin a JSON object.")
        begins = _OBJECT_START.search(text, end)
    return objects


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)

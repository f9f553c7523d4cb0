"""Answers to marks by the JSON objects that stand in them, whatever prose and fences are around.

An object is looked for from each opening brace that can begin one; what stands inside an object that was
found belongs to it.
"""

from __future__ import annotations

import json
import re
from typing import ClassVar, Literal, NoReturn

from msgspec.structs import replace

from proctor.errors import CannotScore
from proctor.graders.json_structure import JsonKeys, JsonSchema, Schema
from proctor.graders.text import shown
from proctor.model import Mark
from proctor.protocols import Graded, Grading

_BEGINS = re.compile(r'\{(?=\s*["}])')
_MOST_READ = 20_000_000
"""How many characters may be read in vain; only an answer that is made for it needs more."""
_DEEP = 10_000
"""What reading an object that nests too deeply counts for."""


class ContainsJson(Grading, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when a JSON object stands in the answer that has every key and keeps the schema."""

    all_or_nothing: ClassVar[bool] = True

    keys: tuple[str, ...] = ()
    """The keys that it must have at its top level."""
    schema: Schema | None = None
    formats: bool = False
    """Check `format` of the schema as well."""
    which: Literal["any", "last"] = "any"
    """Which object counts where there are several: each of them, or only the last."""

    def __post_init__(self) -> None:
        self._checks()

    def grade(self, graded: Graded) -> Mark:
        """Value 1 when one does, else what the first is worth; the entries are those of that object.

        Raises:
            CannotScore: the answer has too many beginnings of objects, or a schema's pattern did not end.
        """
        texts = objects_in(graded.output.text)
        if not texts:
            reason = f"No JSON object stands in the answer: {shown(graded.output.text)}."
            return Mark(value=0.0, passed=False, reason=reason)
        first: Mark | None = None
        for text in texts[-1:] if self.which == "last" else texts:
            mark = self._mark(text, graded)
            if mark.passed:
                return mark
            first = first or mark
        assert first is not None
        return first

    def _checks(self) -> list[JsonKeys | JsonSchema]:
        keys = [JsonKeys(keys=self.keys, strip_fences=False)] if self.keys else []
        if self.schema is None:
            return [*keys]
        return [*keys, JsonSchema(schema=self.schema, strip_fences=False, formats=self.formats)]

    def _mark(self, text: str, graded: Graded) -> Mark:
        alone = replace(graded, output=replace(graded.output, text=text))
        marks = [check.grade(alone) for check in self._checks()]
        if not marks:
            return Mark(value=1.0, passed=True, reason="A JSON object stands in the answer.")
        return min(marks, key=lambda mark: mark.value or 0.0)


def objects_in(text: str) -> list[str]:
    """The JSON objects that stand in a text, as they are written, in order; none inside another.

    Raises:
        CannotScore: it has too many beginnings of objects that are none.
    """
    objects: list[str] = []
    begins, read = _BEGINS.search(text), 0
    while begins:
        start = begins.start()
        end = start + 1
        try:
            _, end = _DECODER.raw_decode(text, start)
            objects.append(text[start:end])
        except RecursionError:
            read += _DEEP
        except ValueError as error:
            # What a failure costs besides: the standard library counts the lines up to it.
            at = getattr(error, "pos", start)
            read += at - start + at // 16
        if read > _MOST_READ:
            raise CannotScore("The answer has too many beginnings of JSON objects that are none.")
        begins = _BEGINS.search(text, end)
    return objects


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)

"""Grades the structure of an answer: whether it is JSON, and matches a schema, keys or an array's limits.

JSON is that of RFC 8259, without NaN and Infinity. Schemas are those of json-schema.org. References of a
schema are never fetched, and its patterns run under the time limit of `safe_regex`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, ClassVar, NoReturn

import msgspec

from proctor import codec
from proctor.errors import CannotScore, suggestion
from proctor.graders import safe_regex
from proctor.graders.json_formats import FORMATS, matches_format
from proctor.graders.text import clip, quote, quote_list
from proctor.model import Evidence, GraderResult
from proctor.protocols import BaseGrader, GradingInput

_FENCE = re.compile(r"`{3,}+|~{3,}+")
_LANGUAGE = re.compile(r"[A-Za-z][\w+.-]*+[ \t]*+")
# The drafts themselves, which the library carries.
_PUBLISHED_DRAFT = re.compile(r"https?://json-schema\.org/")
_MAX_VIOLATIONS = 20
_MAX_CACHED_SCHEMAS = 512

Schema = dict[str, Any] | bool
PairsHook = Callable[[list[tuple[str, Any]]], dict[str, Any]]


class NotJson(Exception):
    """A text is not JSON; the message is a clause that says why."""


class DuplicateKey(NotJson):
    """A JSON object has a key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"an object has the key {key!r} twice")
        self.key = key


def parse_json(text: str, *, strip_fences: bool = True, unique_keys: bool = False) -> Any:
    """Parses a text as JSON.

    Args:
        text: all of it must be JSON, apart from white space at its ends.
        strip_fences: also accept a text that is a single fenced block, with or without a language name.
        unique_keys: refuse an object that has a key twice, ignoring case, instead of taking the last.

    Raises:
        NotJson: the text is not JSON.
        DuplicateKey: an object has a key twice.
        CannotScore: the text is nested too deeply, or has too long a number, to be read.
    """
    text = text.strip()
    pairs_hook = build_unique_object if unique_keys else None
    inner = _strip_fence(text) if strip_fences else None
    if inner is None:
        return _decode(text, pairs_hook)
    try:
        return _decode(inner.strip(), pairs_hook)
    except NotJson:
        language = _LANGUAGE.match(inner)
        if language is None:
            raise
        return _decode(inner[language.end() :].strip(), pairs_hook)


def build_unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Builds an object from its keys and values; an `object_pairs_hook` for `json.loads`.

    Raises:
        DuplicateKey: two keys are equal, ignoring case and white space at their ends.
    """
    keys: set[str] = set()
    for key, _ in pairs:
        folded = key.strip().casefold()
        if folded in keys:
            raise DuplicateKey(key)
        keys.add(folded)
    return dict(pairs)


def _strip_fence(text: str) -> str | None:
    """Returns the content of a text that is a single fenced block, else None."""
    fence = _FENCE.match(text)
    if fence is None or len(text) < 2 * len(fence[0]) or not text.endswith(fence[0]):
        return None
    return text[len(fence[0]) : -len(fence[0])]


def _decode(text: str, pairs_hook: PairsHook | None) -> Any:
    if not text:
        raise NotJson("it is empty")
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=pairs_hook)
    except json.JSONDecodeError as error:
        raise NotJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise CannotScore("The JSON of the answer is nested too deeply to be read.") from None
    except ValueError:
        raise CannotScore("The JSON of the answer contains a number that is too long to be read.") from None


def _refuse_constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not JSON")


def _parse_answer(grading_input: GradingInput, strip_fences: bool) -> tuple[Any, GraderResult | None]:
    """Returns the answer as JSON, or the result of an answer that is not JSON."""
    try:
        return parse_json(grading_input.output.text, strip_fences=strip_fences), None
    except NotJson as error:
        reason = f"The answer is not JSON: {error}: {quote(grading_input.output.text)}."
        return None, GraderResult(value=0.0, passed=False, reason=reason)


class IsJson(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the whole answer is JSON, of any kind."""

    all_or_nothing: ClassVar[bool] = True

    strip_fences: bool = True
    """Whether to accept an answer that is a single fenced block."""

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it is, else 0."""
        _, failed = _parse_answer(grading_input, self.strip_fences)
        return failed or GraderResult(value=1.0, passed=True, reason="The answer is JSON.")


class JsonSchema(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer is JSON that matches a schema; draft 2020-12 unless `$schema` names another."""

    all_or_nothing: ClassVar[bool] = True

    schema: Schema
    strip_fences: bool = True
    formats: bool = False
    """Whether to check `format` as well, which the drafts leave open."""

    def __post_init__(self) -> None:
        _get_validator(self.schema, self.formats)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it is, else 0; one entry per violation, with its JSON path.

        Raises:
            CannotScore: a pattern exceeded its time limit, or the schema refers to itself without end.
        """
        value, failed = _parse_answer(grading_input, self.strip_fences)
        return failed or _grade_values(_get_validator(self.schema, self.formats), [("$", value)])


class JsonKeys(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer is a JSON object that has every key at its top level."""

    keys: tuple[str, ...]
    strip_fences: bool = True

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("`keys` is empty; add at least one key.")

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores the share of the keys that are present, with one entry per key."""
        value, failed = _parse_answer(grading_input, self.strip_fences)
        if failed is not None:
            return failed
        if not isinstance(value, dict):
            return GraderResult(
                value=0.0, passed=False, reason=f"The answer is {_describe_kind(value)}, not a JSON object."
            )
        missing = [key for key in self.keys if key not in value]
        return GraderResult(
            value=1.0 - len(missing) / len(self.keys),
            passed=not missing,
            reason=f"The answer lacks the keys {quote_list(missing)}."
            if missing
            else "The answer has every key.",
            entries=tuple(Evidence(text=key, passed=key in value) for key in self.keys),
        )


class JsonArray(BaseGrader, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes when the answer is a JSON array with an allowed number of items that all match the schema."""

    all_or_nothing: ClassVar[bool] = True

    min_items: int | None = None
    max_items: int | None = None
    schema: Schema | None = None
    """What every item must match."""
    strip_fences: bool = True

    def __post_init__(self) -> None:
        for name, limit in (("min_items", self.min_items), ("max_items", self.max_items)):
            if limit is not None and limit < 0:
                raise ValueError(f"`{name}` is {limit}; it must be 0 or more.")
        if self.min_items is not None and self.max_items is not None and self.min_items > self.max_items:
            raise ValueError(
                f"`min_items` is {self.min_items} and `max_items` {self.max_items}; no array can satisfy "
                f"both."
            )
        if self.schema is not None:
            _get_validator(self.schema)

    def grade(self, grading_input: GradingInput) -> GraderResult:
        """Scores 1 if it is, else 0; one entry per violation of the schema.

        Raises:
            CannotScore: a pattern exceeded its time limit, or the schema refers to itself without end.
        """
        value, failed = _parse_answer(grading_input, self.strip_fences)
        if failed is not None:
            return failed
        if not isinstance(value, list):
            return GraderResult(
                value=0.0, passed=False, reason=f"The answer is {_describe_kind(value)}, not a JSON array."
            )
        count, expected = len(value), ""
        if self.min_items is not None and count < self.min_items:
            expected = f"at least {self.min_items}"
        elif self.max_items is not None and count > self.max_items:
            expected = f"at most {self.max_items}"
        if expected:
            reason = f"The array has {count} items; expected {expected}."
            return GraderResult(value=0.0, passed=False, reason=reason)
        if self.schema is not None:
            places = [(f"$[{at}]", item) for at, item in enumerate(value)]
            return _grade_values(_get_validator(self.schema), places)
        return GraderResult(value=1.0, passed=True, reason=f"The answer is a JSON array of {count} items.")


def _describe_kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a text"
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else "a number"


# --- schemas -----------------------------------------------------------------------------------------------


def _grade_values(validator: Any, places: list[tuple[str, Any]]) -> GraderResult:
    """Grades values, each with its JSON path, against one schema."""
    from referencing.exceptions import Unresolvable

    try:
        errors = [
            (path + error.json_path[1:], error.message)
            for path, value in places
            for error in validator.iter_errors(value)
        ]
    except RecursionError:
        raise CannotScore("The answer cannot be checked: the schema refers to itself without end.") from None
    except (ArithmeticError, ValueError, Unresolvable) as error:
        raise CannotScore(f"The answer cannot be checked against the schema: {error}.") from None
    if not errors:
        return GraderResult(value=1.0, passed=True, reason="The answer matches the schema.")
    entries = tuple(
        Evidence(text=clip(path), passed=False, evidence=clip(message, 200))
        for path, message in errors[:_MAX_VIOLATIONS]
    )
    more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    reason = f"The answer does not match the schema at {entries[0].text}: {clip(errors[0][1])}{more}."
    return GraderResult(value=0.0, passed=False, reason=reason, entries=entries)


def _get_validator(schema: Schema, formats: bool = False) -> Any:
    """Returns the validator of a schema.

    Raises:
        ValueError: the schema is invalid, refers outside itself, or has an invalid pattern or unknown format.
    """
    try:
        return _build_validator(codec.encode(schema), formats)
    except (msgspec.MsgspecError, TypeError, OverflowError) as error:
        raise ValueError(f"The schema is not JSON: {error}. Correct it.") from None
    except RecursionError:
        raise ValueError("The schema is nested too deeply to be read; flatten it.") from None


@lru_cache(maxsize=_MAX_CACHED_SCHEMAS)
def _build_validator(encoded: bytes, formats: bool) -> Any:
    """Builds a validator over a copy of the schema; cached, as building one takes a millisecond."""
    from jsonschema import validators
    from referencing import Registry
    from referencing.jsonschema import specification_with

    schema = json.loads(encoded)
    dialect_uri = schema.get("$schema") if isinstance(schema, dict) else None
    kind: Any = validators.Draft202012Validator
    if dialect_uri is not None:
        kind = validators.validator_for(schema, default=None) if isinstance(dialect_uri, str) else None  # type: ignore[arg-type]  # None is a sound default, which the stubs do not know
        if kind is None:
            raise ValueError(
                f"The schema's `$schema` {dialect_uri!r} is unknown; use the `$schema` of a published draft."
            )
    wrong = next(kind(kind.META_SCHEMA).iter_errors(schema), None)
    if wrong is not None:
        raise ValueError(f"The schema is not valid at {wrong.json_path}: {clip(wrong.message)}. Correct it.")
    walk = _SchemaChecker(dialect_uri, specification_with(kind.ID_OF(kind.META_SCHEMA)), formats=formats)
    root = walk.specification.create_resource(schema)
    walk.check(root, Registry().resolver_with_root(root))
    walk.check_keywords()
    guards = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "uniqueItems": _check_unique_items,
        **({"format": _check_format} if formats else {}),
    }
    # A registry without a way to retrieve makes the library fetch nothing.
    return validators.extend(kind, guards)(schema, registry=Registry())  # type: ignore[no-untyped-call]


class _SchemaChecker:
    """Checks a schema and everything that it refers to, once, before any answer is graded."""

    def __init__(self, dialect_uri: str | None, specification: Any, *, formats: bool) -> None:
        self.dialect_uri = dialect_uri
        self._formats = formats
        self.specification = specification
        self._checked_ids: set[int] = set()
        self._keywords: set[str] = set()

    def check(self, resource: Any, resolver: Any) -> None:
        """Checks one schema and its subschemas.

        Removes `$schema`: with it the library would run patterns without a time limit.

        Raises:
            ValueError: the schema has something that is invalid or not supported.
        """
        schema = resource.contents
        if not isinstance(schema, dict) or id(schema) in self._checked_ids:
            return
        self._checked_ids.add(id(schema))
        self._keywords.update(schema)
        if schema.pop("$schema", self.dialect_uri) != self.dialect_uri:
            raise ValueError(
                "A part of the schema sets its own `$schema`; use one draft for the whole schema."
            )
        for pattern in (schema.get("pattern"), *schema.get("patternProperties", ())):
            if isinstance(pattern, str):
                safe_regex.compile_pattern(pattern)
        format_name = schema.get("format")
        if self._formats and isinstance(format_name, str) and format_name not in FORMATS:
            raise ValueError(
                f"The schema has the `format` {format_name!r}. {suggestion(format_name, sorted(FORMATS))}"
            )
        for word in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(schema.get(word), str):
                self._check_reference(word, schema[word], resolver)
        for inner in resource.subresources():
            self.check(inner, resolver.in_subresource(inner))

    def check_keywords(self) -> None:
        """Checks the keywords of the whole schema.

        Raises:
            ValueError: the library would run patterns without a time limit.
        """
        if {"unevaluatedProperties", "patternProperties"} <= self._keywords:
            raise ValueError(
                "The schema has both `unevaluatedProperties` and `patternProperties`, which could make "
                "matching run without end; use `additionalProperties` instead of `unevaluatedProperties`."
            )

    def _check_reference(self, word: str, target: str, resolver: Any) -> None:
        from referencing.exceptions import Unresolvable

        if _PUBLISHED_DRAFT.match(target):
            return
        try:
            resolved = resolver.lookup(target)
        except (Unresolvable, ValueError) as error:
            raise ValueError(
                f"The schema's `{word}` {target!r} does not exist inside the schema "
                f"({type(error).__name__}), and Proctor fetches nothing; copy the definition to `$defs`."
            ) from None
        self.check(self.specification.create_resource(resolved.contents), resolved.resolver)


def _check_pattern(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Exception]:
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and not safe_regex.pattern_matches(pattern, value):
        yield ValidationError(f"{quote(value)} does not match {quote(pattern)}")


def _check_format(_validator: Any, name: str, value: Any, _schema: Any) -> Iterator[Exception]:
    from jsonschema import ValidationError

    if not matches_format(name, value):
        yield ValidationError(f"{clip(codec.encode(value).decode())} does not match the format {name!r}")


def _check_pattern_properties(validator: Any, allowed: Any, value: Any, _schema: Any) -> Iterator[Exception]:
    if not validator.is_type(value, "object"):
        return
    for pattern, inner in allowed.items():
        for key, item in value.items():
            if safe_regex.pattern_matches(pattern, key):
                yield from validator.descend(item, inner, path=key, schema_path=pattern)


def _check_unique_items(validator: Any, unique: Any, value: Any, _schema: Any) -> Iterator[Exception]:
    """Checks `uniqueItems` in linear time; the library compares every item with every other."""
    from jsonschema import ValidationError

    if (
        unique
        and validator.is_type(value, "array")
        and len({_equality_key(item) for item in value}) < len(value)
    ):
        yield ValidationError(f"{value!r} has non-unique elements")


def _equality_key(value: Any) -> Any:
    """Returns a key that is the same for equal JSON values; a number never equals a boolean."""
    if isinstance(value, dict):
        return frozenset([(key, _equality_key(item)) for key, item in value.items()])
    if isinstance(value, list):
        return tuple([_equality_key(item) for item in value])
    return (bool, value) if isinstance(value, bool) else value


def _check_additional_properties(
    validator: Any, allowed: Any, value: Any, schema: Any
) -> Iterator[Exception]:
    from jsonschema import ValidationError

    if not validator.is_type(value, "object"):
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras = [
        key
        for key in value
        if key not in properties and not any(safe_regex.pattern_matches(pattern, key) for pattern in patterns)
    ]
    if isinstance(allowed, dict):
        for key in extras:
            yield from validator.descend(value[key], allowed, path=key)
    elif not allowed and extras:
        yield ValidationError(f"the keys {quote_list(extras)} are not allowed")

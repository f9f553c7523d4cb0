"""Dialect pramana: JSON Lines of `input`, `ideal` and one `assertion`, in published tiers.

Every field is checked, and an unknown one is an error. The dialect's meaning becomes explicit parameters,
such as which ideal counts and whether case matters. The file is checked against a `manifest.toml` beside it
that lists it. Graders are known here by name only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from proctor.codec import hash_rows, hash_text
from proctor.dialects.pramana.manifest import CaseTotals, Manifest, Tier, check_tier, parse_manifest
from proctor.dialects.shared.case_rows import read_cases
from proctor.dialects.shared.json_arrays import read_lines
from proctor.dialects.shared.jsonl import file_name, read_rows
from proctor.dialects.shared.signatures import is_openai_evals
from proctor.model import Assertion, Case, Message, PassRule, Problem, Suite
from proctor.protocols import CaseAtLine, Dialect, FileHead, SuiteSource
from proctor.validation import FieldReader, ProblemLog

CATEGORIES: Final = ("reasoning", "factual", "instruction_following", "coding", "safety", "creative")
DIFFICULTIES: Final = ("easy", "medium", "hard")
ROLES: Final = ("system", "user", "assistant", "developer", "tool")
DEFAULT_THRESHOLD: Final = 0.8
NUMERIC_TYPES: Final = ("numeric_match", "numeric_equal")
"""Types that compare numbers; each has a grader of the same name."""

_CASE_FIELDS: Final = ("id", "category", "input", "ideal", "assertion", "metadata", "lint")
_USUAL_FIELDS: Final = frozenset(("id", "category", "input", "ideal", "assertion", "metadata"))
_USUAL_TYPES: Final = {
    "exact_match": ("exact", "value"),
    "contains": ("contains", "value"),
    "contains_any": ("contains_any", "values"),
    **{kind: (kind, "value") for kind in NUMERIC_TYPES},
}
"""The grader and its parameter with the ideal, by the type of an assertion that needs no other field."""
_TEXT_TYPE: Final = frozenset((str,))
_MESSAGE_FIELDS: Final = ("role", "content", "name")
_ASSERTION_FIELDS: Final = ("type", "case_sensitive", "threshold", "judge_prompt", "rel_tolerance")
_METADATA_FIELDS: Final = ("difficulty", "tokens_est", "tags")
_OWN_FIELDS: Final = ("assertion", "ideal")
_SHARED_FIELDS: Final = frozenset(("id", "input", "category", "metadata"))
_MANIFEST_NAME: Final = "manifest.toml"

LOSSES_FIELD: Final = "proctor"
"""The metadata field with what the format could not express, in a converted suite."""

Ideal = str | list[str] | None


class Pramana(Dialect):
    """Reads tiers of JSON Lines, checked against their manifest."""

    pass_rule = PassRule()
    renderer = "proctor.dialects.pramana.writer:render"
    output_format = "JSONL"
    types = "proctor.dialects.pramana.reader:TYPES"

    def recognises(self, head: FileHead) -> str | None:
        """Recognises rows with `assertion` or `ideal`, or with `input` and only common fields."""
        names = {name for row in head.rows for name in row}
        if is_openai_evals(head):
            return None
        for name in _OWN_FIELDS:
            if name in names:
                return f"its lines have `{name}`"
        if "input" in names and names <= _SHARED_FIELDS:
            return "its lines have `input` and no field that is specific to another format"
        return None

    def read(self, source: SuiteSource) -> Iterator[Suite | CaseAtLine | Problem]:
        """Yields the header, the cases in file order, and each problem where it occurs."""
        manifest, problems = _load_manifest(source)
        yield from problems
        name = file_name(source.path)
        tier = None if manifest is None else manifest.find_tier(name.name)
        version = manifest.version if manifest is not None and tier is not None else None
        yield Suite(name=name.stem or "suite", dialect="pramana", declared_version=version)
        totals = CaseTotals()
        failed = False
        rows = read_rows(source.read_lines(), source.path)
        for item in read_cases(rows, source.path, _parse_row, parse_usual=_parse_usual_row):
            if isinstance(item, Problem):
                failed = failed or item.level == "error"
            elif tier is not None:
                totals.add(item.case)
            yield item
        if manifest is not None and tier is not None and not failed:
            yield from check_tier(manifest, tier, totals, _hash_tier(tier, source), source.path)

    def published_hash(self, source: SuiteSource) -> str:
        """Returns the hash of the sorted cases as written."""
        return hash_text(b"".join(read_lines(source)), source.path)


def _hash_tier(tier: Tier, source: SuiteSource) -> str | None:
    """Returns the hash of the file if the manifest has one.

    The file is read again: only the text of each row is in memory while sorting.
    """
    if tier.hash is None:
        return None
    rows = read_rows(source.read_lines(), source.path)
    return hash_rows(item[1] for item in rows if not isinstance(item, Problem))


def _load_manifest(source: SuiteSource) -> tuple[Manifest | None, list[Problem]]:
    data = source.read_sibling(_MANIFEST_NAME)
    if data is None:
        return None, []
    path = source.path.removesuffix(file_name(source.path).name) + _MANIFEST_NAME
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"Byte {error.start + 1} of the manifest is not UTF-8; save the file as UTF-8."
        return None, [Problem(code="bad-encoding", message=message, path=path, line=1)]
    return parse_manifest(text, path)


# --- one row -----------------------------------------------------------------------------------------------


def _parse_usual_row(row: dict[str, Any], line: int, _number: int) -> CaseAtLine | None:
    """Reads a row of texts with one ideal; returns None for any other, which `_parse_row` reads."""
    if row.keys() != _USUAL_FIELDS:
        return None
    case_id, prompt, ideal = row["id"], row["input"], row["ideal"]
    assertion, metadata = row["assertion"], row["metadata"]
    if not (type(case_id) is str and type(prompt) is str and type(ideal) is str and case_id.strip()):
        return None
    if not (prompt.strip() and ideal.strip() and row["category"] in CATEGORIES):
        return None
    if not (type(assertion) is dict and type(metadata) is dict and len(assertion) == 1):
        return None
    kind, tags = assertion.get("type"), metadata.get("tags", [])
    if type(kind) is not str or kind not in _USUAL_TYPES or len(metadata) != 2 + ("tags" in metadata):
        return None
    difficulty, tokens = metadata.get("difficulty"), metadata.get("tokens_est")
    if difficulty not in DIFFICULTIES or type(tokens) is not int or tokens < 0:
        return None
    if type(tags) is not list or not {*map(type, tags)} <= _TEXT_TYPE:
        return None
    grader, param = _USUAL_TYPES[kind]
    params: dict[str, Any] = {param: [ideal] if param == "values" else ideal}
    case = Case(
        id=case_id,
        input=(Message(role="user", content=prompt),),
        expected=ideal,
        assertions=(Assertion(grader=grader, params=params, label=kind),),
        tags=tuple(tags),
        category=row["category"],
        metadata={"difficulty": difficulty, "tokens_est": tokens},
    )
    return CaseAtLine(case, line)


def _parse_row(notes: ProblemLog, row: dict[str, Any], _number: int) -> CaseAtLine:
    fields = FieldReader(row, notes)
    case_id = fields.required_text("id")
    notes.case = case_id or None
    category = fields.choice("category", CATEGORIES)
    messages = parse_input(fields, notes)
    ideal = parse_ideal(fields)
    assertion = fields.required_object("assertion", "an object with `type`")
    graded = Assertion(grader="") if assertion is None else parse_assertion(assertion, ideal, notes)
    metadata = fields.required_object("metadata", "an object with `difficulty` and `tokens_est`")
    tags, facts = ((), {}) if metadata is None else _parse_metadata(metadata)
    if "lint" in fields:
        facts["lint"] = fields.pop("lint")
    fields.finish(_CASE_FIELDS)
    case = Case(
        id=case_id,
        input=messages,
        expected=ideal,
        assertions=(graded,),
        tags=tags,
        category=category,
        metadata=facts,
    )
    return CaseAtLine(case, notes.line)


def parse_input(fields: FieldReader, notes: ProblemLog, name: str = "input") -> tuple[Message, ...]:
    """Returns the messages of a field: a text, or a list of messages whose content may be a list of parts."""
    value = fields.pop(name)
    if isinstance(value, str):
        messages: tuple[Message, ...] = (Message(role="user", content=value),)
    elif isinstance(value, list):
        messages = tuple(
            _parse_message(item, f"{name}[{place}]", fields, notes) for place, item in enumerate(value)
        )
    elif value is None:
        fields.error("missing-prompt", name, "is missing; it must be the prompt or a list of messages.")
        return ()
    else:
        fields.report_wrong_type(name, value, "text or a list of messages")
        return ()
    for message in messages:
        if message.parts or (message.content and not message.content.isspace()):
            return messages
    if not notes.has_error_at(name):
        fields.error("missing-prompt", name, "is empty; write the prompt.")
    return messages


def _parse_message(item: Any, name: str, fields: FieldReader, notes: ProblemLog) -> Message:
    if not isinstance(item, dict):
        fields.report_wrong_type(name, item, "an object with `role` and `content`")
        return Message(role="user")
    message = FieldReader(item, notes, f"{name}.")
    role = message.choice("role", ROLES)
    if "content" not in message:
        message.report_missing("content", "text")
    message.drop_null("name")
    speaker = message.text("name")
    if isinstance(message.peek("content"), list):
        from proctor.dialects.shared.content_parts import parse_content_parts

        parsed = parse_content_parts(message, role, speaker)
    else:
        parsed = Message(role=role, content=message.text("content") or "", name=speaker)
    message.finish(_MESSAGE_FIELDS)
    return parsed


def parse_ideal(fields: FieldReader) -> Ideal:
    """Returns `ideal`: a text, a list of texts, or None."""
    value = fields.pop("ideal")
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        fields.report_wrong_type("ideal", value, "text, a list of texts or null")
        return None
    for place, item in enumerate(value):
        if not isinstance(item, str):
            fields.report_wrong_type(f"ideal[{place}]", item, "text")
            return None
    return value


def _parse_metadata(fields: FieldReader) -> tuple[tuple[str, ...], dict[str, Any]]:
    difficulty = fields.choice("difficulty", DIFFICULTIES)
    if "tokens_est" not in fields:
        fields.report_missing("tokens_est", "a whole number")
    tokens = fields.integer("tokens_est")
    tags = fields.texts("tags")
    facts: dict[str, Any] = {"difficulty": difficulty, "tokens_est": tokens}
    if LOSSES_FIELD in fields:
        facts[LOSSES_FIELD] = fields.pop(LOSSES_FIELD)
    fields.finish(_METADATA_FIELDS)
    return tags, facts


# --- one assertion -----------------------------------------------------------------------------------------


class _AssertionReader:
    """The checked fields of an `assertion`, and the ideal it compares with."""

    __slots__ = (
        "fields",
        "ideal",
        "ignore_case",
        "judge_prompt",
        "kind",
        "notes",
        "rel_tolerance",
        "threshold",
    )

    def __init__(self, fields: FieldReader, ideal: Ideal, notes: ProblemLog) -> None:
        self.fields = fields
        self.ideal = ideal
        self.notes = notes
        self.kind = fields.choice("type", tuple(_PARSERS))
        self.ignore_case = not fields.boolean("case_sensitive", True)
        fields.drop_null("threshold", "judge_prompt", "rel_tolerance")
        self.threshold = fields.number("threshold")
        self.judge_prompt = fields.text("judge_prompt")
        self.rel_tolerance = fields.number("rel_tolerance")
        fields.finish(_ASSERTION_FIELDS)

    def get_ideals(self) -> list[str]:
        """Returns the ideals to compare with; [""] and an error if there are none, or one is blank."""
        ideal = [self.ideal] if isinstance(self.ideal, str) else self.ideal
        if ideal and self.kind in _FIRST_IDEAL_TYPES:
            if len(ideal) > 1:
                self.notes.warn(
                    "first-item-only",
                    f"`ideal` lists {len(ideal)} texts but {self.kind!r} uses only the first, "
                    f"{ideal[0][:60]!r}. To accept any of them use 'contains_any'.",
                    "ideal",
                )
            ideal = ideal[:1]
        if ideal and all(item.strip() for item in ideal):
            return ideal
        if not self.notes.has_error_at("ideal"):
            what = "has a blank text" if ideal else "is empty" if ideal == [] else "is missing"
            self.notes.error(
                "missing-expected", f"`ideal` {what}, which {self.kind!r} cannot look for.", "ideal"
            )
        return [""]


def parse_assertion(fields: FieldReader, ideal: Ideal, notes: ProblemLog) -> Assertion:
    """Returns the assertion of an `assertion` object that compares with an ideal."""
    reader = _AssertionReader(fields, ideal, notes)
    kind = reader.kind
    if reader.threshold is not None and kind != "semantic_similarity":
        fields.warn("ignored-field", "threshold", f"is ignored: {kind!r} does not use it.")
    if reader.judge_prompt is not None and kind != "llm_judge":
        fields.warn("ignored-field", "judge_prompt", f"is ignored: {kind!r} does not use a judge.")
    if reader.rel_tolerance is not None and kind not in NUMERIC_TYPES:
        fields.warn("ignored-field", "rel_tolerance", f"is ignored: {kind!r} does not compare numbers.")
    if not kind:
        return Assertion(grader="")
    grader, params = _PARSERS[kind](reader)
    if reader.ignore_case and kind in _TEXT_TYPES:
        params["ignore_case"] = True
    return Assertion(grader=grader, params=params, label=kind)


def _parse_number(reader: _AssertionReader) -> tuple[str, dict[str, Any]]:
    tolerance = reader.rel_tolerance
    if tolerance is not None and tolerance < 0:
        reader.fields.error("bad-tolerance", "rel_tolerance", f"is {tolerance}; it must be 0 or more.")
    more = {} if tolerance is None else {"rel_tolerance": float(tolerance)}
    return reader.kind, {"value": reader.get_ideals()[0], **more}


def _parse_llm_judge(reader: _AssertionReader) -> tuple[str, dict[str, Any]]:
    prompt = reader.judge_prompt
    if not (prompt and prompt.strip()) and not reader.notes.has_error_at("assertion.judge_prompt"):
        reader.fields.error(
            "missing-judge-prompt", "judge_prompt", "is missing; write the question for the judge."
        )
    return "llm_judge", {"prompt": prompt or ""}


def _parse_semantic_similarity(reader: _AssertionReader) -> tuple[str, dict[str, Any]]:
    reader.get_ideals()
    threshold = reader.threshold
    if threshold is None:
        if reader.notes.has_error_at("assertion.threshold"):
            return "semantic_similarity", {}
        threshold = DEFAULT_THRESHOLD
        reader.fields.warn(
            "default-threshold", "threshold", f"is not set, so {threshold} is used; set it explicitly."
        )
    elif not 0 <= threshold <= 1:
        reader.fields.error("bad-threshold", "threshold", f"is {threshold}; it must be from 0 to 1.")
    return "semantic_similarity", {"value": reader.ideal, "threshold": float(threshold)}


_FIRST_IDEAL_TYPES: Final = frozenset(("exact_match", "contains", *NUMERIC_TYPES))
_TEXT_TYPES: Final = frozenset(("exact_match", "contains", "contains_any"))
_PARSERS: Final[dict[str, Callable[[_AssertionReader], tuple[str, dict[str, Any]]]]] = {
    "exact_match": lambda reader: ("exact", {"value": reader.get_ideals()[0]}),
    "contains": lambda reader: ("contains", {"value": reader.get_ideals()[0]}),
    "contains_any": lambda reader: ("contains_any", {"values": reader.get_ideals()}),
    **dict.fromkeys(NUMERIC_TYPES, _parse_number),
    "is_json": lambda _reader: ("is_json", {}),
    "llm_judge": _parse_llm_judge,
    "semantic_similarity": _parse_semantic_similarity,
}
TYPES: Final = tuple(_PARSERS)

DIALECT = Pramana()

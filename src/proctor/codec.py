"""Encodes records as JSON and decodes them, and computes every digest.

Canonical JSON here is UTF-8 without spaces, with sorted dictionary keys, the fields of a record in their
declared order, and fields at their defaults left out. Each kind of digest has its own prefix, so that two
kinds never collide and the rule of one can change under a new number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

from proctor.model import Assertion, Case, Label, Params, PromptTemplate, Suite, TargetSpec

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder(order="deterministic")
_ORDERED_ENCODER = msgspec.json.Encoder()
_SENT_PREFIX = sha256(b"proctor/sent/1\n")
_SENT_IN_ORDER_PREFIX = sha256(b"proctor/sent/2\n")
_SENT_WITH_VARS_PREFIX = sha256(b"proctor/sent/3\n")
_JUDGED_PREFIX = sha256(b"proctor/judged/1\n")
_ASSERTION_PREFIX = sha256(b"proctor/assertion/1\n")
_TARGET_PREFIX = sha256(b"proctor/target/1\n")
_SETTINGS_PREFIX = sha256(b"proctor/settings/1\n")
_PROMPT_PREFIX = sha256(b"proctor/prompt/1\n")
_PROMPT_TEMPLATE_PREFIX = sha256(b"proctor/prompt-template/1\n")
_CALL_PREFIX = sha256(b"proctor/call/1\n")
_LABELS_PREFIX = sha256(b"proctor/labels/1\n")
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def encode(thing: Any) -> bytes:
    """Returns the canonical JSON of a record or of plain data."""
    return _ENCODER.encode(thing)


def encode_in_order(thing: Any) -> bytes:
    """Returns the same JSON with dictionary keys in their own order, for data that is sent again.

    Models fill the properties of a schema in the order in which they see them.
    """
    return _ORDERED_ENCODER.encode(thing)


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decodes a record from its JSON.

    Raises:
        msgspec.ValidationError: the JSON does not have the shape of the record.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder.decode(data)  # type: ignore[no-any-return]  # the table is keyed by the type it decodes


def to_record(data: Any, kind: type[T]) -> T:
    """Converts plain data to a record.

    Raises:
        ValueError: the data does not have the shape of the record; the text is a clause.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise ValueError(describe_mismatch(error, data)) from None


def describe_mismatch(error: msgspec.ValidationError, data: Any) -> str:
    """Returns a clause on the field that does not fit a record.

    Args:
        error: what the conversion of the data raised.
        data: plain data.
    """
    text, _, place = str(error).partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    if missing := re.fullmatch("Object missing required field `(.*)`", text):
        return f"the field `{path}{'.' if path else ''}{missing[1]}` is missing"
    if not path:
        return "it has another structure"
    if "..." in path:  # msgspec does not name the keys of a dictionary
        return f"the field `{path}` has a value that it cannot have"
    value = data
    for step in re.findall(r"[^.\[\]]+", path):
        value = value[int(step) if isinstance(value, list | tuple) else step]
    text = repr(value)
    return f"the field `{path}` is {text if len(text) <= 60 else text[:59] + '…'}, which it cannot be"


def _digest(prefix: Hash, thing: Any) -> str:
    hasher = prefix.copy()
    hasher.update(_ENCODER.encode(thing))
    return "sha256:" + hasher.hexdigest()


def sent_digest(case: Case) -> str:
    """Returns the digest of what a target receives for the case, without how the answer is graded.

    The order of keys in schemas, tools and tool calls counts, as they are sent in that order. If keys are in
    alphabetical order, the digest equals that of earlier versions, which sorted keys.
    """
    if case.form is None and len(case.input) == 1 and not case.input[0].tool_calls:  # the usual case
        is_bare = not (case.vars or case.prefix or case.suffix)
        if is_bare and case.workspace is None and case.target is None:
            return _digest(_SENT_PREFIX, case.input)
        return unordered_digest(case)
    ordered_json = json_in_key_order(case)
    sorted_keys = unordered_digest(case)
    return (
        sorted_keys if ordered_json is None else _digest(_SENT_IN_ORDER_PREFIX, (sorted_keys, ordered_json))
    )


def json_in_key_order(case: Case) -> str | None:
    """Returns the parts of a case with keys that are not in alphabetical order; None if there are none.

    The JSON is a pair: the input if it has tool calls, else an empty list; and the form.
    """
    calls = any(message.tool_calls for message in case.input)
    if case.form is None and not calls:
        return None
    ordered_parts = (case.input if calls else (), case.form)
    text = encode_in_order(ordered_parts)
    return None if text == encode(ordered_parts) else text.decode("utf-8")


def unordered_digest(case: Case) -> str:
    """Returns `sent_digest` without the order of keys, as earlier versions of Proctor computed it."""
    digest = _messages_digest(case)
    if not (case.vars or case.prefix or case.suffix):
        return digest
    return _digest(_SENT_WITH_VARS_PREFIX, (digest, case.vars, case.prefix, case.suffix))


def _messages_digest(case: Case) -> str:
    if case.workspace is None and case.target is None and case.form is None:
        return _digest(_SENT_PREFIX, case.input)
    # The hooks of a workspace receive the metadata.
    metadata = None if case.workspace is None else case.metadata
    parts = (case.input, case.workspace, case.target, metadata)
    return _digest(_SENT_PREFIX, parts if case.form is None else (*parts, case.form))


def judged_digest(case: Case) -> str:
    """Returns the digest of how answers to the case are graded, without what is sent."""
    assertions = [_judging_parts(item) for item in case.assertions]
    judging: tuple[Any, ...] = (case.expected, case.criteria, assertions)
    # Optional parts are appended only if they are set, so that other digests do not change.
    if case.pass_rule is not None:
        judging = (*judging, case.pass_rule)
    if case.problems:  # not where they stand: a file that is moved is the same suite
        judging = (*judging, [(item.code, item.field, item.message) for item in case.problems])
    return _digest(_JUDGED_PREFIX, judging)


def assertion_digest(assertion: Assertion) -> str:
    """Returns the digest of an assertion with its parameters, without its label."""
    return _digest(_ASSERTION_PREFIX, _judging_parts(assertion))


def _judging_parts(assertion: Assertion) -> tuple[Any, ...]:
    # Field by field, since a float that only equals its default is not left out of a record's JSON.
    required = assertion.required
    judging: tuple[Any, ...] = (
        assertion.grader,
        assertion.params,
        float(assertion.weight),
        required if required is None else float(required),
        assertion.negated,
    )
    if assertion.pass_at is not None:
        judging = (*judging, float(assertion.pass_at))
    return judging if assertion.on == "answer" else (*judging, {"on": assertion.on})


def target_digest(spec: TargetSpec) -> str:
    """Returns the digest of a target with its parameters, without the name that the user gave it."""
    params = {name: getattr(spec.params, name) for name in ("temperature", "seed", "max_tokens")}
    set_params = {name: value for name, value in params.items() if value is not None} | spec.params.further
    identity = (spec.kind, spec.model, spec.endpoint, set_params)
    # The folder of the targets file differs between machines, though the target is the same. The service
    # only decides how further parameters are sent.
    left_out = {"folder"} if spec.params.further else {"folder", "service"}
    options = {name: value for name, value in spec.options.items() if name not in left_out}
    if not options and not spec.fallbacks:
        return _digest(_TARGET_PREFIX, identity)
    return _digest(
        _TARGET_PREFIX, (*identity, options, [target_digest(fallback) for fallback in spec.fallbacks])
    )


def template_digest(prompt: PromptTemplate) -> str:
    """Returns the digest of the messages of a prompt, without its name."""
    parts: Any = (prompt.messages, "literal") if prompt.is_literal else prompt.messages
    return _digest(_PROMPT_TEMPLATE_PREFIX, parts)


def call_digest(target: TargetSpec, prompt: PromptTemplate | None) -> str:
    """Returns the digest of a target with the prompt that cases fill in; without a prompt that of the target.

    Runs with the same one send the same for the same case.
    """
    digest = target_digest(target)
    return digest if prompt is None else _digest(_CALL_PREFIX, (digest, template_digest(prompt)))


def settings_digest(thing: Any) -> str:
    """Returns the digest of everything that determines the trials of a run."""
    return _digest(_SETTINGS_PREFIX, thing)


def prompt_digest(template: str) -> str:
    """Returns the digest of a judge prompt before a case is filled in."""
    return _digest(_PROMPT_PREFIX, template)


def labels_digest(labels: Iterable[tuple[Case, str, Label]]) -> str:
    """Returns the digest of labels with their cases and the texts of their answers, in any order."""
    rows = [
        (case.input, case.expected, case.criteria, case.assertions, text, label.passed, label.by)
        for case, text, label in labels
    ]
    return _digest(_LABELS_PREFIX, sorted(map(_ENCODER.encode, rows)))


def suite_digest(suite: Suite, cases: Iterable[tuple[str, str, str]]) -> str:
    """Returns the digest of a suite from the (id, sent digest, judged digest) of its cases, in any order."""
    hasher = SuiteHasher(suite)
    for row in sorted(cases):
        hasher.add(row)
    return hasher.digest()


class SuiteHasher:
    """Computes the digest of a suite from its cases, in order of id, sent digest and judged digest."""

    def __init__(self, suite: Suite) -> None:
        """Begins with the rules of a suite."""
        rules: tuple[Any, ...] = (Params(), suite.pass_rule)
        if suite.repeats_rule != "each":
            rules = (*rules, suite.repeats_rule)
        self._hasher = sha256(b"proctor/suite/1\n" + _ENCODER.encode(rules))

    def add(self, row: tuple[str, str, str]) -> None:
        """Adds the id, the sent digest and the judged digest of the next case."""
        self._hasher.update(_ENCODER.encode(row))

    def add_all(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """Adds the same of the next cases, faster."""
        self._hasher.update(_ENCODER.encode_lines(rows).replace(b"\n", b""))  # JSON has none of its own

    def digest(self) -> str:
        """Returns the digest of all cases so far."""
        return "sha256:" + self._hasher.hexdigest()


def hash_rows(rows: Iterable[dict[str, Any]]) -> str:
    """Returns dialect pramana's hash of a suite's raw JSON objects.

    The objects are sorted by `id` (equal ids keep their order) and written as one JSON array with sorted
    keys, no spaces and everything beyond ASCII escaped; the hash is SHA-256 over that, as `sha256:` and
    hexadecimal digits. Source: the published rule of dialect pramana; numbers keep Python's form.
    """
    canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode
    canonical_rows = sorted(((row["id"], canonical(row)) for row in rows), key=lambda pair: pair[0])
    hasher = sha256(b"[")
    for place, (_, text) in enumerate(canonical_rows):
        hasher.update((b"," if place else b"") + text.encode("ascii"))
    hasher.update(b"]")
    return "sha256:" + hasher.hexdigest()


def hash_suite(path: str | Path) -> str:
    """Returns dialect pramana's hash of a JSON Lines file, exactly as that dialect publishes it.

    Raises:
        SuiteError: a line is not a JSON object with an `id`.
        OSError: the file cannot be read.

    Examples:
        >>> import proctor
        >>> with open("cases.jsonl", "w", encoding="utf-8") as file:
        ...     _ = file.write('{"id": "a", "input": "Lima"}')
        >>> proctor.hash_suite("cases.jsonl")[:15]
        'sha256:508f4e8d'
    """
    return hash_text(Path(path).read_bytes(), str(path))


def hash_text(data: bytes, path: str) -> str:
    """Returns the same hash from the bytes of a file.

    Args:
        data: the whole file.
        path: the name of the file, for messages.

    Raises:
        SuiteError: a line is not a JSON object with an `id`.
    """
    return hash_rows(_raw_rows(data, path))


def _raw_rows(data: bytes, path: str) -> Iterator[dict[str, Any]]:
    from proctor.errors import SuiteError
    from proctor.model import Problem

    def wrong(number: int, message: str) -> SuiteError:
        return SuiteError([Problem(code="bad-json", message=message, path=path, line=number)])

    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise wrong(number, f"The line is not JSON in UTF-8: {error}.") from None
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise wrong(number, "The line is not a JSON object with a text `id`.")
        yield row

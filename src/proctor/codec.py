"""Nouns to bytes and back: the only place that knows the wire form, and every digest.

Canonical JSON here is UTF-8 without spaces, dictionary keys sorted, fields of a noun in their declared
order, fields that have their default left out. Each kind of digest is taken over its own prefix, so that
two kinds never collide and the rule of one can change under a new number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

from proctor.model import Assertion, Case, Label, Params, Suite, TargetSpec

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder(order="deterministic")
_SOURCE_ENCODER = msgspec.json.Encoder()
_SENT_PREFIX = sha256(b"proctor/sent/1\n")
_SENT_IN_ORDER_PREFIX = sha256(b"proctor/sent/2\n")
_JUDGED_PREFIX = sha256(b"proctor/judged/1\n")
_ASSERTION = sha256(b"proctor/assertion/1\n")
_TARGET = sha256(b"proctor/target/1\n")
_SETTINGS = sha256(b"proctor/settings/1\n")
_PROMPT = sha256(b"proctor/prompt/1\n")
_LABELS = sha256(b"proctor/labels/1\n")
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def encode(thing: Any) -> bytes:
    """Canonical JSON of a noun or of plain data."""
    return _ENCODER.encode(thing)


def as_written(thing: Any) -> bytes:
    """The same JSON with dictionary keys in their order, for what is sent again.

    A model fills the properties of a schema in the order in which it is shown them.
    """
    return _SOURCE_ENCODER.encode(thing)


def decode(data: bytes | str, kind: type[T]) -> T:
    """A noun from its JSON.

    Raises:
        msgspec.ValidationError: the JSON does not have that noun's shape.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return decoder.decode(data)  # type: ignore[no-any-return]  # the table is keyed by the type it decodes


def _digest(prefix: Hash, thing: Any) -> str:
    hasher = prefix.copy()
    hasher.update(_ENCODER.encode(thing))
    return "sha256:" + hasher.hexdigest()


def sent_digest(case: Case) -> str:
    """What a target receives for the case, and nothing of how the answer is judged.

    The order of keys in schemas, tools and tool calls counts, as they are sent in it. Where it is that of the
    alphabet the digest is what it was when keys were sorted.
    """
    ordered_json = in_order(case)
    sorted_keys = unordered_digest(case)
    return (
        sorted_keys if ordered_json is None else _digest(_SENT_IN_ORDER_PREFIX, (sorted_keys, ordered_json))
    )


def in_order(case: Case) -> str | None:
    """What of a case has keys in an order that is not that of the alphabet; None where nothing has.

    It is JSON of two things: the input where it has tool calls, else an empty list; and the form.
    """
    calls = any(message.tool_calls for message in case.input)
    if case.form is None and not calls:
        return None
    ordered_parts = (case.input if calls else (), case.form)
    text = as_written(ordered_parts)
    return None if text == encode(ordered_parts) else text.decode("utf-8")


def unordered_digest(case: Case) -> str:
    """`sent_digest` without the order of keys, as earlier versions of Proctor had it."""
    if case.workspace is None and case.target is None and case.form is None:
        return _digest(_SENT_PREFIX, case.input)
    # The hooks of a workspace are given the metadata.
    metadata = None if case.workspace is None else case.metadata
    parts = (case.input, case.workspace, case.target, metadata)
    return _digest(_SENT_PREFIX, parts if case.form is None else (*parts, case.form))


def judged_digest(case: Case) -> str:
    """How answers to the case are judged, and nothing of what is sent."""
    judging: tuple[Any, ...] = (case.expected, case.criteria, [_judging(item) for item in case.assertions])
    # What a case adds is appended only where it is there, so that other digests stay what they were.
    judging = judging if case.pass_rule is None else (*judging, case.pass_rule)
    if case.problems:  # not where they stand: a file that is moved is the same suite
        judging = (*judging, [(item.code, item.field, item.message) for item in case.problems])
    return _digest(_JUDGED_PREFIX, judging)


def assertion_digest(assertion: Assertion) -> str:
    """One assertion with its parameters; not its label, which judges nothing."""
    return _digest(_ASSERTION, _judging(assertion))


def _judging(assertion: Assertion) -> tuple[Any, ...]:
    # Field by field, since a float that only equals its default is not left out of a noun's JSON.
    judging = (
        assertion.grader,
        assertion.params,
        float(assertion.weight),
        assertion.required if assertion.required is None else float(assertion.required),
        assertion.negated,
    )
    return judging if assertion.pass_at is None else (*judging, float(assertion.pass_at))


def target_digest(spec: TargetSpec) -> str:
    """The target and every parameter it is asked with; not the name the user gave it."""
    params = {name: getattr(spec.params, name) for name in spec.params.__struct_fields__}
    set_params = {name: value for name, value in params.items() if value is not None}
    identity = (spec.kind, spec.model, spec.endpoint, set_params)
    # Where the targets file lies is not the same on two machines, though the target is.
    options = {name: value for name, value in spec.options.items() if name != "folder"}
    if not options and not spec.fallbacks:
        return _digest(_TARGET, identity)
    return _digest(_TARGET, (*identity, options, [target_digest(fallback) for fallback in spec.fallbacks]))


def settings_digest(thing: Any) -> str:
    """Whatever decides which trials a run has."""
    return _digest(_SETTINGS, thing)


def prompt_digest(template: str) -> str:
    """The text of a judge's prompt before a case is filled in."""
    return _digest(_PROMPT, template)


def labels_digest(labels: Iterable[tuple[Case, str, Label]]) -> str:
    """The labels of people with what they are of: the case and the text of each answer, in any order."""
    rows = [
        (case.input, case.expected, case.criteria, case.assertions, text, label.passed, label.by)
        for case, text, label in labels
    ]
    return _digest(_LABELS, sorted(map(_ENCODER.encode, rows)))


def suite_digest(suite: Suite, cases: Iterable[tuple[str, str, str]]) -> str:
    """The digest of a suite from its cases' (id, sent, judged), in any order."""
    rules: tuple[Any, ...] = (Params(), suite.pass_rule)
    if suite.repeats_rule != "each":
        rules = (*rules, suite.repeats_rule)
    hasher = sha256(b"proctor/suite/1\n" + _ENCODER.encode(rules))
    for row in sorted(cases):
        hasher.update(_ENCODER.encode(row))
    return "sha256:" + hasher.hexdigest()


def hash_rows(rows: Iterable[dict[str, Any]]) -> str:
    """Dialect pramana's hash of a suite's raw JSON objects.

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
    """Dialect pramana's hash of a JSON Lines file, byte for byte as that dialect publishes it.

    Raises:
        SuiteError: a line is not a JSON object with an `id`.
        OSError: the file cannot be read.
    """
    return hash_text(Path(path).read_bytes(), str(path))


def hash_text(data: bytes, path: str) -> str:
    """The same of the bytes of such a file.

    Args:
        data: all of it.
        path: its name, for messages.

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

"""Writes and parses the lines of suite.jsonl and trials.jsonl.

Lines have no line end here. Each has a salt, so that its digest reveals nothing; a redacted line has only
the digest.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from proctor.codec import decode, json_in_key_order, sent_digest, to_record
from proctor.model import Case, Message, ResponseFormat, Suite, Trial, Verdict
from proctor.proof.canonical import canonical_json, check_canonical, parse_json

T = TypeVar("T")

CASES_TREE, TRIALS_TREE = "cases", "trials"
"""The names of the two trees for `merkle.salt`."""
_DIGEST = re.compile("[0-9a-f]{64}")


class CaseLine(Struct, frozen=True):
    """One case of the suite."""

    index: int
    salt: str
    case: Case
    sent: str
    """The digest of what a target receives for it."""
    written: str | None = None
    """`codec.in_order` of the case if `sent` includes it, since the line itself sorts all keys."""


class TrialLine(Struct, frozen=True):
    """One trial with its verdict."""

    index: int
    salt: str
    trial: Trial
    verdict: Verdict


class RedactedLine(Struct, frozen=True):
    """Replaces a hidden line."""

    index: int
    leaf: str
    """The digest of the line that a full bundle has here, as 64 hexadecimal digits."""


class _StoredCase(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The content of `codec.in_order`."""

    input: tuple[Message, ...]
    form: ResponseFormat | None


def header_line(suite: Suite) -> bytes:
    """Returns the first line of suite.jsonl, without the suite's folder."""
    return canonical_json(_header_data(suite))


def case_line(index: int, salt: str, case: Case, sent_digest: str) -> bytes:
    """Returns the line of a case; `index` is its position in the suite."""
    return canonical_json(_case_data(index, salt, case, sent_digest, _ordered_json(case, sent_digest)))


def trial_line(index: int, salt: str, trial: Trial, verdict: Verdict) -> bytes:
    """Returns the line of a trial; `index` counts all trials in order of position and repeat."""
    return canonical_json(_trial_data(index, salt, trial, verdict))


def redacted_line(index: int, leaf: bytes) -> bytes:
    """Returns the line that replaces a hidden one."""
    return canonical_json(_redacted_data(index, leaf.hex()))


def parse_header(line: bytes) -> Suite:
    """Parses the first line of suite.jsonl.

    Raises:
        ValueError: it is not exactly what `header_line` writes; the text is a clause.
    """
    suite = to_record(parse_json(line), _Header).suite
    check_canonical(_header_data(suite), line)
    return suite


def parse_case_line(line: bytes) -> CaseLine | RedactedLine:
    """Parses one line of suite.jsonl; raises ValueError like `parse_header`."""
    data = parse_json(line)
    if _is_redacted(data):
        return _parse_redacted(data, line)
    read = to_record(data, CaseLine)
    _check_salt(read.salt)
    check_canonical(_case_data(read.index, read.salt, read.case, read.sent, read.written), line)
    return read if read.written is None else _restore_key_order(read, read.written)


def parse_trial_line(line: bytes) -> TrialLine | RedactedLine:
    """Parses one line of trials.jsonl; raises ValueError like `parse_header`."""
    data = parse_json(line)
    if _is_redacted(data):
        return _parse_redacted(data, line)
    read = to_record(data, TrialLine)
    _check_salt(read.salt)
    check_canonical(_trial_data(read.index, read.salt, read.trial, read.verdict), line)
    return read


def _header_data(suite: Suite) -> dict[str, Any]:
    return {"suite": replace(suite, folder="")}


def _case_data(
    index: int, salt: str, case: Case, sent_digest: str, ordered_json: str | None
) -> dict[str, Any]:
    data = {"index": index, "salt": salt, "case": case, "sent": sent_digest}
    return data if ordered_json is None else {**data, "written": ordered_json}


def _ordered_json(case: Case, sent_text: str) -> str | None:
    """Returns the order of a case's keys; None also if the digest is of an earlier version without it."""
    json_text = json_in_key_order(case)
    return None if json_text is None or sent_text != sent_digest(case) else json_text


def _restore_key_order(read: CaseLine, ordered_json: str) -> CaseLine:
    """Returns the line with the case's keys in the order in which they were sent."""
    try:
        stored_case = decode(ordered_json, _StoredCase)
    except (msgspec.DecodeError, RecursionError):
        raise ValueError("`written` is not the JSON of an input and a form") from None
    case = replace(read.case, input=stored_case.input or read.case.input, form=stored_case.form)
    if json_in_key_order(case) != ordered_json or canonical_json(case) != canonical_json(read.case):
        raise ValueError("`written` does not match what its case sends")
    return replace(read, case=case)


def _trial_data(index: int, salt: str, trial: Trial, verdict: Verdict) -> dict[str, Any]:
    return {"index": index, "salt": salt, "trial": trial, "verdict": verdict.value}


def _redacted_data(index: int, leaf: str) -> dict[str, Any]:
    return {"index": index, "leaf": leaf}


class _Header(Struct, frozen=True):
    suite: Suite


def _is_redacted(data: Any) -> bool:
    return isinstance(data, dict) and "leaf" in data


def _parse_redacted(data: Any, line: bytes) -> RedactedLine:
    read = to_record(data, RedactedLine)
    if not _DIGEST.fullmatch(read.leaf):
        raise ValueError("its leaf is not 64 hexadecimal digits")
    check_canonical(_redacted_data(read.index, read.leaf), line)
    return read


def _check_salt(salt: str) -> None:
    if not _DIGEST.fullmatch(salt):
        raise ValueError("its salt is not 64 hexadecimal digits")

"""Proofs that a trial is part of a bundle, without the other trials.

A proof has the lines of the trial and of its case, and the digests that lead to the statement. About other
trials it reveals only what the statement does, their names and verdicts: the lines behind digests are salted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from proctor.codec import to_record
from proctor.proof import merkle
from proctor.proof.canonical import parse_canonical
from proctor.proof.dsse import Envelope, envelope_data, parse_envelope
from proctor.proof.records import CaseLine, RedactedLine, TrialLine, parse_case_line, parse_trial_line
from proctor.proof.statement import Statement, TreeHead, parse_statement


class LineProof(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a file with its inclusion path to the root of the file's Merkle tree."""

    line: str
    index: int
    """Its place among the leaves, from 0."""
    path: list[str]
    """The digests of `merkle.path`, each as 64 hexadecimal digits."""


class TrialProof(Struct, frozen=True):
    """The trial and the case of a checked proof; the signatures of the envelope are not checked."""

    envelope: Envelope
    statement: Statement
    trial: TrialLine
    case: CaseLine


def prove_line(line: bytes, leaves: Sequence[bytes], index: int) -> LineProof:
    """Returns the proof of one line of a file with these leaves."""
    steps = merkle.inclusion_path(leaves, index)
    return LineProof(line.decode("utf-8"), index, [step.hex() for step in steps])


def proof_data(envelope: Envelope, trial: LineProof, case: LineProof) -> dict[str, Any]:
    """Returns a proof as data for `canonical`."""
    lines = {"trial": msgspec.to_builtins(trial), "case": msgspec.to_builtins(case)}
    return {"envelope": envelope_data(envelope), **lines}


def check_proof(data: Any) -> TrialProof:
    """Checks a proof without its signatures, and returns what it proves.

    Raises:
        ValueError: the data is no proof, or does not lead to the statement's roots; the text is a clause.
    """
    if not isinstance(data, dict) or set(data) != {"envelope", "trial", "case"}:
        raise ValueError(
            "it is not the proof of a trial: it does not have the fields envelope, trial and case"
        )
    envelope = parse_envelope(data["envelope"])
    statement = parse_statement(parse_canonical(envelope.payload))
    trial = parse_trial_line(_verify_line(data["trial"], statement.trials, "trial"))
    case = parse_case_line(_verify_line(data["case"], statement.cases, "case"))
    if isinstance(trial, RedactedLine) or isinstance(case, RedactedLine):
        raise ValueError("a line in it is hidden and proves nothing")
    if (trial.index, case.index) != (data["trial"]["index"], data["case"]["index"]):
        raise ValueError("the place of a line differs from the place in the proof")
    of_trial = (trial.trial.position, trial.trial.case_id, trial.trial.sent)
    if of_trial != (case.index, case.case.id, case.sent):
        raise ValueError("its trial does not belong to its case")
    return TrialProof(envelope, statement, trial, case)


def _verify_line(data: Any, head: TreeHead, what: str) -> bytes:
    """Returns the bytes of a line after checking that it leads to the root of its tree."""
    try:
        proved_line = to_record(data, LineProof)
    except ValueError as error:
        raise ValueError(f"its {what} does not have the right structure: {error}") from None
    steps = [_parse_digest(step) for step in proved_line.path]
    line = proved_line.line.encode("utf-8")
    root = merkle.root_from_path(merkle.leaf_hash(line), proved_line.index, head.size, steps)
    if root is None or root.hex() != head.root:
        raise ValueError(f"its {what} does not lead to the root in the statement")
    return line


def _parse_digest(text: str) -> bytes:
    digest = bytes.fromhex(text) if len(text) == 64 else b""
    if digest.hex() != text or not digest:
        raise ValueError("a digest in its path is not 64 hexadecimal digits")
    return digest

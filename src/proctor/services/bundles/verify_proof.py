"""Checks proofs of one trial: that it is in a bundle, without the bundle's other trials."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from proctor.bundles.trust_store import TrustedKey
from proctor.errors import BundleError, UsageError
from proctor.model import SignatureStatus
from proctor.proof.canonical import parse_canonical
from proctor.proof.check_statement import BundleDefect, read_or_fail
from proctor.proof.inclusion_proofs import TrialProof, check_proof
from proctor.services.bundles.verify import CheckedSignature, check_signatures, get_standing

_PREFIX = b'{"case":'
_MAX_BYTES = 128 * 2**20
"""The maximum size of a proof: an envelope and two lines."""


class VerifiedProof(Struct, frozen=True, kw_only=True):
    """A proof without defects, and its signatures."""

    path: str
    proved: TrialProof
    standing: SignatureStatus
    signatures: tuple[CheckedSignature, ...]


def may_be_proof(path: str | Path) -> bool:
    """Whether there is a file that begins like a proof, valid or not."""
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return False
        with Path(path).open("rb") as file:
            return file.read(len(_PREFIX)) == _PREFIX
    except (OSError, ValueError):
        return False


def verify_proof(path: str | Path, trusted_keys: Mapping[str, TrustedKey]) -> VerifiedProof:
    """Checks a proof of one trial: that its lines are in the trees of the statement, and who signed that.

    Args:
        path: the file.
        trusted_keys: the keys that the user trusts, by their ids.

    Raises:
        BundleError: it has a defect; the text names the first one.
        UsageError: the file cannot be read, or `cryptography` is missing and it is signed.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1) if os.fstat(file.fileno()).st_size <= _MAX_BYTES else b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    if not data or len(data) > _MAX_BYTES:
        raise UsageError(f"{path} is too large to be a proof. Check that it is the right file.")
    try:
        proved = read_or_fail("the proof", lambda: check_proof(parse_canonical(data.removesuffix(b"\n"))))
        signatures = check_signatures(proved.envelope, trusted_keys)
    except BundleDefect as defect:
        raise BundleError(f"{path}: {defect}") from None
    return VerifiedProof(
        path=str(path), proved=proved, standing=get_standing(signatures), signatures=signatures
    )

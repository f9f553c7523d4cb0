"""Adds a signature to a bundle, by someone who has checked it, beside its maker's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from proctor.bundles.reader import opened
from proctor.bundles.trust_store import Trusted
from proctor.bundles.writer import sign_again
from proctor.errors import BundleError
from proctor.proof.canonical import canonical
from proctor.proof.check_statement import Defect, envelope_of
from proctor.proof.dsse import Envelope, as_data
from proctor.proof.statement import ENVELOPE, Statement, statement_data
from proctor.services.bundles.attest import signature
from proctor.services.bundles.verify import verify
from proctor.services.progress_lines import Tell

if TYPE_CHECKING:
    from proctor.bundles.keys import SigningKey


class Countersigned(Struct, frozen=True):
    """The result of adding a signature to a bundle."""

    statement: Statement
    added: bool
    """Whether the signature is new."""
    signed_by: tuple[str, ...]
    """The ids of all keys that have signed, sorted, as the bundle's signatures are."""


def countersign(
    path: Path, key: SigningKey, trusted_keys: Mapping[str, Trusted], notify: Tell | None = None
) -> Countersigned:
    """Checks a bundle as `verify` does, and adds a signature of the key; nothing else changes.

    Args:
        path: the bundle.
        key: what signs. If it has signed already, nothing is written.
        trusted_keys: the keys that the user trusts, by their ids.
        notify: called with lines for the user.

    Raises:
        BundleError: the bundle has a defect, or was changed while it was checked.
        UsageError: there is no bundle, or it cannot be written.
    """
    statement = verify(path, trusted_keys, notify).statement
    with opened(path) as bundle:
        before = bundle.read(ENVELOPE)
    try:
        envelope = envelope_of(before)
        is_same = envelope.payload == canonical(statement_data(statement))
    except Defect:
        is_same = False
    if not is_same:
        raise BundleError(f"{path} was changed while it was checked. Nothing was signed.")
    ids = {existing.keyid for existing in envelope.signatures}
    if key.id in ids:
        return Countersigned(statement, False, tuple(sorted(ids)))
    signatures = (*envelope.signatures, signature(envelope.payload, key))
    signed_envelope = Envelope(
        envelope.payload, tuple(sorted(signatures, key=lambda existing: existing.keyid))
    )
    sign_again(path, statement.files, before, canonical(as_data(signed_envelope)))
    return Countersigned(statement, True, tuple(sorted({*ids, key.id})))

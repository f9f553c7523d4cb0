"""Adds a signature to a bundle, by someone who has checked it, beside its maker's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from proctor.bundles.reader import open_bundle
from proctor.bundles.trust_store import TrustedKey
from proctor.bundles.writer import replace_envelope
from proctor.errors import BundleError
from proctor.proof.canonical import canonical_json
from proctor.proof.check_statement import BundleDefect, read_envelope
from proctor.proof.dsse import Envelope, envelope_data
from proctor.proof.statement import ENVELOPE, Statement, statement_data
from proctor.services.bundles.attest import sign_payload
from proctor.services.bundles.verify import verify
from proctor.services.progress_lines import Notify

if TYPE_CHECKING:
    from proctor.bundles.keys import SigningKey


class CountersignResult(Struct, frozen=True):
    """The result of adding a signature to a bundle."""

    statement: Statement
    added: bool
    """Whether the signature is new."""
    signed_by: tuple[str, ...]
    """The ids of all keys that have signed, sorted, as the bundle's signatures are."""


def countersign(
    path: Path, key: SigningKey, trusted_keys: Mapping[str, TrustedKey], notify: Notify | None = None
) -> CountersignResult:
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
    with open_bundle(path) as bundle:
        before = bundle.read(ENVELOPE)
    try:
        envelope = read_envelope(before)
        is_same = envelope.payload == canonical_json(statement_data(statement))
    except BundleDefect:
        is_same = False
    if not is_same:
        raise BundleError(f"{path} changed while it was checked. Nothing was signed.")
    ids = {existing.keyid for existing in envelope.signatures}
    if key.id in ids:
        return CountersignResult(statement, False, tuple(sorted(ids)))
    signatures = (*envelope.signatures, sign_payload(envelope.payload, key))
    signed_envelope = Envelope(
        envelope.payload, tuple(sorted(signatures, key=lambda existing: existing.keyid))
    )
    replace_envelope(path, statement.files, before, canonical_json(envelope_data(signed_envelope)))
    return CountersignResult(statement, True, tuple(sorted({*ids, key.id})))

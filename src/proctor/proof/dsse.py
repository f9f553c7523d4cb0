"""The DSSE envelope of a statement: the signed bytes and the signatures.

Source: DSSE v1, https://github.com/secure-systems-lab/dsse, `protocol.md` and `envelope.md`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from msgspec import Struct

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Signature(Struct, frozen=True):
    """One signature over a statement."""

    keyid: str
    """The fingerprint of its key, as given by the signer; it is not signed itself."""
    sig: bytes
    public_key: str
    """The key as PEM, so that signatures by unknown keys can be checked too; it is not signed itself."""


class Envelope(Struct, frozen=True):
    """The bytes of a statement and their signatures."""

    payload: bytes
    signatures: tuple[Signature, ...] = ()


def signed_bytes(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """Returns the bytes that are signed: the pre-authentication encoding (PAE) of DSSE."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope_data(envelope: Envelope) -> dict[str, Any]:
    """Returns the envelope as data for `canonical`."""
    return {
        "payload": b64encode(envelope.payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {
                "keyid": signature.keyid,
                "sig": b64encode(signature.sig).decode(),
                "publicKey": signature.public_key,
            }
            for signature in envelope.signatures
        ],
    }


def parse_envelope(data: Any) -> Envelope:
    """Parses an envelope.

    Raises:
        ValueError: the data does not have the shape of an envelope, or has another payload type.
    """
    if not isinstance(data, dict) or set(data) != {"payload", "payloadType", "signatures"}:
        raise ValueError("it is not a DSSE envelope")
    if data["payloadType"] != PAYLOAD_TYPE:
        raise ValueError(f"its payload type is {data['payloadType']!r} instead of {PAYLOAD_TYPE!r}")
    if not isinstance(data["signatures"], list):
        raise ValueError("its signatures are not a list")
    return Envelope(
        _decode_base64(data["payload"]),
        tuple(_parse_signature(signature) for signature in data["signatures"]),
    )


def _parse_signature(data: Any) -> Signature:
    if not isinstance(data, dict) or set(data) != {"keyid", "sig", "publicKey"}:
        raise ValueError("a signature does not have exactly the fields keyid, sig and publicKey")
    if not isinstance(data["keyid"], str) or not isinstance(data["publicKey"], str):
        raise ValueError("the key of a signature is not text")
    return Signature(data["keyid"], _decode_base64(data["sig"]), data["publicKey"])


def _decode_base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("a value that should be Base64 is not text")
    decoded = b64decode(text, validate=True)
    if b64encode(decoded).decode() != text:
        raise ValueError("its Base64 is not in canonical form")
    return decoded

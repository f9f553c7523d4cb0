"""DSSE envelopes: what is signed, against the published vector, and what is no envelope."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.proof.canonical import canonical_json, parse_canonical
from proctor.proof.dsse import PAYLOAD_TYPE, Envelope, Signature, envelope_data, parse_envelope, signed_bytes

envelopes = st.builds(
    Envelope,
    st.binary(),
    st.lists(st.builds(Signature, st.text("0123456789abcdef"), st.binary(), st.just("PEM")), max_size=3).map(
        tuple
    ),
)


def test_what_is_signed_is_the_published_encoding() -> None:
    # The test vector of protocol.md of DSSE v1.
    signed = signed_bytes(b"hello world", "http://example.com/HelloWorld")
    assert signed == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_lengths_are_in_bytes() -> None:
    assert signed_bytes("é".encode()) == f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} 2 é".encode()


@given(envelopes)
def test_an_envelope_is_read_back(envelope: Envelope) -> None:
    assert parse_envelope(parse_canonical(canonical_json(envelope_data(envelope)))) == envelope


@given(st.binary(), st.binary())
def test_two_payloads_are_never_signed_alike(payload: bytes, other_payload: bytes) -> None:
    assert (signed_bytes(payload) == signed_bytes(other_payload)) == (payload == other_payload)


WHOLE = envelope_data(Envelope(b"{}", (Signature("k", b"s", "PEM"),)))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {**WHOLE, "extra": 1},
        {name: value for name, value in WHOLE.items() if name != "signatures"},
        {**WHOLE, "payloadType": "text/plain"},
        {**WHOLE, "payload": "e30"},
        {**WHOLE, "payload": "e31="},
        {**WHOLE, "payload": "e3 0="},
        {**WHOLE, "payload": 1},
        {**WHOLE, "signatures": {}},
        {**WHOLE, "signatures": [1]},
        {**WHOLE, "signatures": [{"keyid": "k", "sig": "cw=="}]},
        {**WHOLE, "signatures": [{"keyid": 1, "sig": "cw==", "publicKey": "PEM"}]},
        {**WHOLE, "signatures": [{"keyid": "k", "sig": "cw==", "publicKey": "PEM", "more": 1}]},
        {**WHOLE, "signatures": [{"keyid": "k", "sig": "cw", "publicKey": "PEM"}]},
    ],
)
def test_anything_else_is_no_envelope(data: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_envelope(data)

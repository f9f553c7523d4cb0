"""Certificates of an authority of the tests, and of one that nobody trusts."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from functools import cache

import trustme

NAME = "models.example"
AUTHORITY = trustme.CA(key_type=trustme.KeyType.ECDSA)
STRANGER = trustme.CA(key_type=trustme.KeyType.ECDSA)


def make_client_context() -> ssl.SSLContext:
    """What a machine has that trusts our authority and no other one."""
    return ssl.create_default_context(cadata=AUTHORITY.cert_pem.bytes().decode())


@cache
def make_certificate(
    *names: str, authority: trustme.CA = AUTHORITY, expired: bool = False
) -> trustme.LeafCert:
    """A certificate for these names."""
    return authority.issue_cert(
        *(names or ("127.0.0.1", NAME)),
        not_after=datetime(2020, 1, 1, tzinfo=UTC) if expired else None,
        not_before=datetime(2019, 1, 1, tzinfo=UTC) if expired else None,
        key_type=trustme.KeyType.ECDSA,
    )


def make_server_context(certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """What a server has with this certificate, or with a good one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (certificate or make_certificate()).configure_cert(context)
    return context

"""How a connection to PostgreSQL is encrypted, and which authorities it trusts.

To another machine, the server's certificate and name are checked unless the address has an `sslmode`. The
authorities are those of `sslrootcert`, of libpq's own variable or file, or else those of this system.

Sources: "SSL Support" (34.19), PostgreSQL 17 documentation.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Mapping
from pathlib import Path

from proctor.stores.postgresql.address import PostgresAddress

SAFE_MODE = "verify-full"


def tls_fields(address: PostgresAddress, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the parameters of libpq that the address leaves open; none for a server on this machine.

    Args:
        address: the address.
        environ: the environment, with the variables of libpq.
    """
    mode = address.options.get("sslmode")
    if mode is None and address.is_on_this_machine(environ):
        return {}
    fields = {"sslmode": mode or SAFE_MODE}
    if fields["sslmode"] in {"verify-ca", SAFE_MODE} and "sslrootcert" not in address.options:
        roots = None if _has_own_roots(environ) else ssl.get_default_verify_paths().cafile
        if roots is not None:
            fields["sslrootcert"] = roots
        elif fields["sslmode"] == SAFE_MODE and not _has_own_roots(environ):
            fields["sslrootcert"] = "system"  # where the OpenSSL of libpq looks, often not the system's place
    return fields


def _has_own_roots(environ: Mapping[str, str]) -> bool:
    """Returns whether libpq finds authorities that the user has named or put in place."""
    if environ.get("PGSSLROOTCERT"):
        return True
    if sys.platform == "win32":
        return Path(environ.get("APPDATA", ""), "postgresql", "root.crt").is_file()
    return Path(environ.get("HOME") or "~", ".postgresql", "root.crt").expanduser().is_file()

"""Where libpq finds a password: PGPASSWORD, else a line of a password file.

libpq ignores a file that others may read, and warns of it on stderr each time. Here the file is left out, and
the error says so when a password is missing.

Source: "The Password File" (34.16), PostgreSQL 17 documentation.
"""

from __future__ import annotations

import getpass
import os
import shlex
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from proctor.stores.postgresql.address import PostgresAddress

_NO_FILE = os.path.join(os.devnull, "none")  # noqa: PTH118  # a path without a file, of which libpq says nothing


def password_file_fields(address: PostgresAddress, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the parameter of libpq that leaves out a password file which others may read.

    Args:
        address: the address.
        environ: the environment, with the variables of libpq.
    """
    return {"passfile": _NO_FILE} if _is_open(_find_file(address, environ)) else {}


def password_source(address: PostgresAddress, environ: Mapping[str, str]) -> str:
    """Returns where libpq took a password from.

    Args:
        address: the address.
        environ: the environment, with the variables of libpq.
    """
    if environ.get("PGPASSWORD"):
        return "the environment variable PGPASSWORD"
    return f"the file {_show(_find_file(address, environ))}"


def advise_password(address: PostgresAddress, environ: Mapping[str, str]) -> str:
    """Returns how to set a password where none was there, as sentences.

    Args:
        address: the address.
        environ: the environment, with the variables of libpq.
    """
    path = _find_file(address, environ)
    name = _show(path)
    if _is_open(path):
        return f"{name} is ignored because other users can read it. Run: chmod 600 {name}."
    line = ":".join(_list_fields(address, environ))
    if path.is_file():
        return (
            f"{name} has no line for it. Add {line}:PASSWORD, with the host as it is in the address, or set "
            "the environment variable PGPASSWORD."
        )
    return (
        f"Set the environment variable PGPASSWORD, or write the line {line}:PASSWORD into {name}, and "
        f"make it readable only for you: chmod 600 {name}."
    )


def login_role(address: PostgresAddress, environ: Mapping[str, str]) -> str:
    """Returns the role that logs in: of the address, of the environment, or else the user's name.

    Args:
        address: the address.
        environ: the environment, with the variables of libpq.
    """
    role = address.user or environ.get("PGUSER")
    if role:
        return role
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "ROLE"


def _list_fields(address: PostgresAddress, environ: Mapping[str, str]) -> list[str]:
    """Returns the first fields of the line that libpq looks for."""
    role = login_role(address, environ)
    host = next(iter(address.hosts), "") or environ.get("PGHOST") or environ.get("PGHOSTADDR") or "localhost"
    port = next(iter(address.ports), "") or environ.get("PGPORT") or "5432"
    database = address.database or environ.get("PGDATABASE") or role
    return [text.replace("\\", "\\\\").replace(":", "\\:") for text in (host, port, database, role)]


def _find_file(address: PostgresAddress, environ: Mapping[str, str]) -> Path:
    named = address.options.get("passfile") or environ.get("PGPASSFILE")
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(environ.get("APPDATA", ""), "postgresql", "pgpass.conf")
    return _home(environ) / ".pgpass"


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "~").expanduser()


def _is_open(path: Path) -> bool:
    """Returns whether others than the owner may read a file."""
    if sys.platform == "win32":
        return False
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & (stat.S_IRWXG | stat.S_IRWXO))


def _show(path: Path) -> str:
    """Returns a path as a shell understands it, with ~ for the home folder."""
    return "~/.pgpass" if path == _home(os.environ) / ".pgpass" else shlex.quote(str(path))

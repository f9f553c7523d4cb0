"""Why a connection to PostgreSQL cannot be opened, as sentences that say what to do.

libpq gives text only. What a server says in another language than English is repeated as it is.
"""

from __future__ import annotations

import os
import re
import shlex

from proctor.stores.postgresql.address import (
    DEFAULT_CONNECT_TIMEOUT_S,
    PostgresAddress,
    replace_option,
    replace_user,
)
from proctor.stores.postgresql.password_file import advise_password, login_role, password_source

_TEMPORARY = (
    r"the database system (?P<state>is (?:starting up|shutting down|in recovery mode|not yet accepting "
    r"connections))"
)
_EXPLANATIONS = {
    _TEMPORARY: ("The server of {url} {state}. Try again when it is up."),
    r"failed to resolve host '(?P<host>[^']*)'": (
        "The host {host} of {url} cannot be resolved. Correct the address, or check the network and its name "
        "server."
    ),
    r"connection timeout expired|timed out": (
        "The server of {url} did not answer within {timeout} s. Check the host, the port and the "
        "firewall, or wait longer with --store {with_option[connect_timeout=30]}."
    ),
    r"no password supplied": ("The server of {url} requires a password. {password_advice}"),
    r"(?:password|SCRAM|PAM|LDAP|RADIUS) authentication failed for user \"(?P<role>[^\"]*)\"": (
        "The server of {url} rejected the password of role {role} from {password_source}. Correct it there."
    ),
    r"(?:Peer|Ident|certificate) authentication failed for user \"(?P<role>[^\"]*)\"": (
        "The server of {url} does not accept you as role {role}. Use your own role in the address, or change "
        "the line for this role in pg_hba.conf on the server."
    ),
    r"FATAL: +database \"(?P<database>[^\"]*)\" does not exist": (
        "The server of {url} has no database {database}. Create it with `createdb{server} "
        "{quoted_database}`, then its tables with `proctor store migrate --store {quoted_url}`."
    ),
    r"FATAL: +role \"(?P<role>[^\"]*)\" does not exist": (
        "The server of {url} has no role {role}. Use an existing role in the address, as in "
        "postgresql://ROLE@HOST/DATABASE, or create it with `createuser{server} {quoted_role}`."
    ),
    r"too many (?:clients|connections)|remaining connection slots are reserved": (
        "The server of {url} has no free connection. Each command uses up to three. Stop other commands, or "
        "raise"
        " max_connections, or the limit of the role, on the server."
    ),
    r"permission denied for database \"(?P<database>[^\"]*)\"": (
        "Role {login} is not allowed to connect to the database of {url}. Its owner can allow it with GRANT "
        "CONNECT ON "
        'DATABASE "{database}" TO "{login}".'
    ),
    r"no pg_hba\.conf entry for .*no encryption": (
        "The server of {url} does not let this role connect from this machine without encryption. Encrypt"
        " with --store {with_option[sslmode=require]}, or add a line to pg_hba.conf on the server."
    ),
    r"no pg_hba\.conf entry for |pg_hba\.conf rejects connection ": (
        "The server of {url} does not let this role connect from this machine. Add a line for it to "
        "pg_hba.conf on the server."
    ),
    r"server does not support SSL": (
        "The server of {url} does not use TLS, so others could read the connection. Turn TLS on there (ssl = "
        "on in postgresql.conf). In a network that you trust, connect without it: --store "
        "{with_option[sslmode=disable]}."
    ),
    r"certificate verify failed": (
        "The certificate of the server of {url} is not signed by an authority that this machine trusts. Name "
        "the file with the certificate of the authority: --store {with_option[sslrootcert=FILE]}. With "
        "--store"
        " {with_option[sslmode=require]} the connection is encrypted, but anyone can pose as the server."
    ),
    r"server certificate for (?P<names>.*) does not match host name \"(?P<host>[^\"]*)\"": (
        "The certificate of the server of {url} is for {names}, not for {host}. Use the name in the "
        "certificate as the host in the address, or check only who signed it: --store "
        "{with_option[sslmode=verify-ca]}."
    ),
    r"root certificate file \"(?P<file>[^\"]*)\"": (
        "The file {file} with the trusted certificates for {url} cannot be read. Correct "
        "sslrootcert in the address, or PGSSLROOTCERT."
    ),
    r"server at \"(?P<host>[^\"]*)\".*, port (?P<port>[0-9]+) failed: Connection refused": (
        "No server accepts connections for {url} at {host}, port {port}. Start PostgreSQL there, or correct"
        " the host and the port of the address."
    ),
    r"server on socket \"(?P<socket>[^\"]*)\" failed: (?:No such file|Connection refused)": (
        "No server accepts connections for {url} on the socket {socket}. Start PostgreSQL, or name a host, "
        "as in postgresql://localhost/DATABASE."
    ),
    r"": ("{url} cannot be reached: {reason}. Check whether `psql {psql_url}` can connect."),
}
"""Patterns of texts of libpq and the server, and what to say; the first one that matches counts."""


def is_starting(text: str) -> bool:
    """Returns whether the server says that it is starting or shutting down.

    Args:
        text: the text of the error of libpq.
    """
    return re.search(_TEMPORARY, text) is not None


def explain_connection_error(text: str, address: PostgresAddress) -> str:
    """Returns what went wrong and what to do, as sentences.

    Args:
        text: the text of the error of libpq.
        address: where the connection was to lead.
    """
    match, template = next(
        (match, template)
        for pattern, template in _EXPLANATIONS.items()
        if (match := re.search(pattern, text))
    )
    reason = re.sub(
        r"^connection (?:failed|is bad): ", "", next(iter(text.strip().splitlines()), "no reason")
    )
    groups = match.groupdict()
    environ = os.environ
    quoted = {f"quoted_{name}": shlex.quote(value) for name, value in groups.items()}
    return template.format(
        **groups,
        **quoted,
        login=login_role(address, environ),
        password_advice=advise_password(address, environ),
        password_source=password_source(address, environ),
        url=address.url,
        quoted_url=shlex.quote(address.url),
        psql_url=shlex.quote(_remove_schema(address.url)),
        with_option=_Options(address.url),
        server=_format_server(address),
        timeout=address.options.get("connect_timeout", str(DEFAULT_CONNECT_TIMEOUT_S)),
        reason=reason.rstrip("."),
    )


def explain_missing_right(reason: str, url: str, role: str) -> str:
    """Returns what to do when the role of a connection may not do something, as sentences.

    Args:
        reason: the text of the server.
        url: the address of the store.
        role: the role of the connection.
    """
    return (
        f"Role {role} is not allowed to do this in {url}: {reason}. The owner of the tables can allow it "
        f"with "
        f"`{grant_command(url, role)}`."
    )


def grant_command(url: str, role: str, owner: str = "OWNER") -> str:
    """Returns the command with which the owner of a store's tables lets a role write to it.

    Args:
        url: the address of the store, with any user.
        role: who is to write.
        owner: the role that owns the tables.
    """
    return f"{migrate_command(url, owner)} --grant {shlex.quote(role)}"


def migrate_command(url: str, owner: str = "OWNER") -> str:
    """Returns the command with which a role makes the tables of a store.

    Args:
        url: the address of the store, with any user.
        owner: the role that owns the tables, or is to own them.
    """
    return f"proctor store migrate --store {shlex.quote(replace_user(url, owner))}"


def explain_read_only(url: str) -> str:
    """Returns what to do when a server takes no writes, as sentences.

    Args:
        url: the address of the store.
    """
    return (
        f"The store {url} is read-only: its server is a standby, or the database or your role is set to "
        f"read-only. Use the primary server with --store, or another role."
    )


class _Options:
    """The URL of an address with one more option, quoted for a shell."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __getitem__(self, option: str) -> str:
        name, _, value = option.partition("=")
        return shlex.quote(replace_option(self._url, name, value))


def _remove_schema(url: str) -> str:
    """Returns a URL as psql understands it."""
    base, _, query = url.partition("?")
    options = "&".join(word for word in query.split("&") if word and not word.startswith("schema="))
    return f"{base}?{options}" if options else base


def _format_server(address: PostgresAddress) -> str:
    """Returns the options of PostgreSQL's commands that name the server."""
    words = [
        *(["-h", address.hosts[0]] if address.hosts else []),
        *(["-p", address.ports[0]] if address.ports else []),
    ]
    return "".join(f" {shlex.quote(word)}" for word in words)

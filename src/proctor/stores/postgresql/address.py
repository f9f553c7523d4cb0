"""The address of a store in PostgreSQL: a URL as libpq reads it, without a password, and with a schema.

Its host, port, user and database may be missing; then those of the environment count, as for `psql`. No error
repeats a part of an address that may be a password.

Sources: "Connection URIs" (34.1.1.2) and "Parameter Key Words" (34.1.2), PostgreSQL 17 documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct
from msgspec.structs import replace

from proctor.errors import UsageError, suggestion

DEFAULT_SCHEMA = "proctor"
TRASH_SUFFIX = "_trash"
"""Ends the name of the schema with the deleted versions of suites of a store."""
DEFAULT_CONNECT_TIMEOUT_S = 10
SCHEME = "postgresql"
_OPTIONS = frozenset(
    [
        "application_name",
        "channel_binding",
        "connect_timeout",
        "dbname",
        "gssencmode",
        "host",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "krbsrvname",
        "load_balance_hosts",
        "passfile",
        "port",
        "require_auth",
        "schema",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcertmode",
        "sslcrl",
        "sslcrldir",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslrootcert",
        "sslsni",
        "target_session_attrs",
        "tcp_user_timeout",
        "user",
    ]
)
"""The options of an address: `schema`, and those of libpq that do not decide what the store is."""
_SECRETS = frozenset({"password", "sslpassword", "scram_client_key", "oauth_client_secret"})
_TLS_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SCHEMA = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,56}", re.ASCII)
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORM = "postgresql://USER@HOST:PORT/DATABASE"
_PASSWORD = (
    "The address of the store contains a password. Remove it: addresses are stored and shown, and passwords "
    "must not be. Set the environment variable PGPASSWORD, or write the password into ~/.pgpass, or into a "
    "file that "
    "PGPASSFILE names."
)


class PostgresAddress(Struct, frozen=True, kw_only=True):
    """An address, checked."""

    url: str
    """The address for `--store`."""
    hosts: tuple[str, ...] = ()
    """Names, addresses and folders of sockets; none for the host of the environment, or a local socket."""
    ports: tuple[str, ...] = ()
    """The port of each host; none for the port of the environment."""
    user: str | None = None
    database: str | None = None
    schema: str = DEFAULT_SCHEMA
    options: dict[str, str] = {}
    """Other options of libpq."""

    @property
    def name(self) -> str:
        """The database and its schema, for pages."""
        database = self.database or "PostgreSQL"
        return database if self.schema == DEFAULT_SCHEMA else f"{database}/{self.schema}"

    def with_schema(self, schema: str) -> PostgresAddress:
        """Returns the address of another schema in the same database."""
        return replace(self, url=replace_option(self.url, "schema", schema), schema=schema)

    def is_on_this_machine(self, environ: Mapping[str, str]) -> bool:
        """Returns whether the server can only be this machine: loopback, or a socket in a folder.

        Args:
            environ: the environment, which names the host where the address does not.
        """
        address = environ.get("PGHOSTADDR")
        if address and not all(map(_is_loopback, address.split(","))):
            return False
        hosts = self.hosts or tuple(filter(None, environ.get("PGHOST", "").split(",")))
        if not hosts and (environ.get("PGSERVICE") or address):
            return bool(address) and not environ.get("PGSERVICE")
        return all(map(_is_loopback, hosts))

    def connection_fields(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Returns the parameters of libpq, without a password and without those of TLS that are defaults.

        Args:
            environ: the environment, whose other variables libpq reads itself.
        """
        fields = {
            "host": ",".join(self.hosts),
            "port": ",".join(self.ports),
            "user": self.user or "",
            "dbname": self.database or "",
            "fallback_application_name": "proctor",
        }
        if not environ.get("PGCONNECT_TIMEOUT"):
            fields["connect_timeout"] = str(DEFAULT_CONNECT_TIMEOUT_S)
        return {**{name: value for name, value in fields.items() if value}, **self.options}


def parse_address(rest: str) -> PostgresAddress:
    """Parses what follows `postgresql://` or `postgres://`.

    Raises:
        UsageError: it is malformed, has an unknown option, or a password.
    """
    _check_text(rest)
    before_query, _, query = rest.partition("?")
    authority, _, path = before_query.partition("/")
    userinfo, _, host_list = authority.rpartition("@")
    if ":" in userinfo:
        raise UsageError(_PASSWORD)
    options = dict(_parse_options(query))
    hosts, ports = _parse_hosts(host_list) if host_list else ((), ())
    if "host" in options or "port" in options:
        hosts, ports = _replace_hosts(hosts, ports, options)
    schema = options.pop("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema) or schema == "information_schema":
        raise UsageError(
            "The schema in the address of the store must have at most 57 lower-case letters, digits and "
            "underscores, and begin with a letter, but not with pg_: "
            f"{_FORM}?schema={DEFAULT_SCHEMA}."
        )
    if schema.endswith(TRASH_SUFFIX):
        raise UsageError(
            f"The schema {schema} in the address of the store holds the deleted suites of the store "
            f"{schema.removesuffix(TRASH_SUFFIX)!r}. Choose a schema that does not end with {TRASH_SUFFIX}."
        )
    mode = options.get("sslmode")
    if mode is not None and mode not in _TLS_MODES:
        raise UsageError(f"The address of the store has an unknown sslmode. {suggestion(mode, _TLS_MODES)}")
    return PostgresAddress(
        url=f"{SCHEME}://{rest}",
        hosts=hosts,
        ports=ports,
        user=options.pop("user", None) or _decode(userinfo) or None,
        database=options.pop("dbname", None) or _decode(path) or None,
        schema=schema,
        options=options,
    )


def replace_option(url: str, name: str, value: str) -> str:
    """Returns a URL in which an option has another value."""
    base, _, query = url.partition("?")
    options = [word for word in query.split("&") if word and word.partition("=")[0] != name]
    return f"{base}?{'&'.join([*options, f'{name}={value}'])}"


def replace_user(url: str, user: str) -> str:
    """Returns a URL with another user.

    Args:
        url: an address that was parsed.
        user: the name of a role.
    """
    scheme, _, rest = url.partition("://")
    base, mark, query = rest.partition("?")
    authority, slash, path = base.partition("/")
    options = "&".join(word for word in query.split("&") if word.partition("=")[0] != "user")
    host = authority.rpartition("@")[2]
    return f"{scheme}://{quote(user, safe='')}@{host}{slash}{path}{mark if options else ''}{options}"


def _check_text(rest: str) -> None:
    """Refuses texts of which it is not clear where a password would be."""
    if not rest.isprintable() or " " in rest:
        raise UsageError(
            f"The address of the store contains spaces or control characters. Write {_FORM}, and %20 for a "
            f"space."
        )
    if "#" in rest or "\\" in rest:
        raise UsageError(
            f"The address of the store contains a # or a backslash. Write {_FORM}, with %23 for a # and %5C "
            f"for a "
            "backslash in a name."
        )
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    if "@" in rest[len(authority) :] or authority.count("@") > 1:
        raise UsageError(
            f"The address of the store contains an @ in the wrong place. Write {_FORM}, with %40 for an "
            "@ in a name. The address cannot contain a password: set PGPASSWORD, or write the password into "
            "~/.pgpass or a "
            "file that PGPASSFILE names."
        )


def _parse_options(query: str) -> Iterator[tuple[str, str]]:
    names: set[str] = set()
    for word in query.split("&") if query else ():
        name, equals, value = word.partition("=")
        name = _decode(name)
        if name in _SECRETS:
            raise UsageError(_PASSWORD)
        if not equals or name not in _OPTIONS:
            raise UsageError(
                "The address of the store has an unknown option after the ?. "
                f"{suggestion(name, sorted(_OPTIONS))}"
            )
        if name in names:
            raise UsageError(f"The address of the store has the option {name} twice. Remove one.")
        names.add(name)
        if value:
            yield name, _decode(value)


def _parse_hosts(host_list: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the hosts and their ports, of which there are none or one for each host."""
    pairs = [_parse_host(word) for word in host_list.split(",")]
    hosts, ports = tuple(host for host, _ in pairs), [port for _, port in pairs]
    if hosts == ("",):  # as in `:5433/evals`, a port of the local socket
        hosts = ()
    return hosts, tuple(port or "5432" for port in ports) if any(ports) else ()


def _parse_host(word: str) -> tuple[str, str]:
    if word.startswith("["):
        address, bracket, port = word[1:].partition("]")
        if not bracket or (port and not port.startswith(":")) or ":" not in address:
            raise UsageError(
                f"An IPv6 address in the address of the store is malformed. Write {_EXAMPLE_V6}."
            )
        try:
            ip_address(address)
        except ValueError:
            raise UsageError(
                f"An IPv6 address in the address of the store is malformed. Write {_EXAMPLE_V6}."
            ) from None
        host, port = address, port[1:]
    else:
        host, _, port = word.partition(":")
        host = _decode(host)
    if port and not (_PORT.fullmatch(port) and 0 < int(port) < 65536):
        raise UsageError(
            f"A port in the address of the store is not a number from 1 to 65535. Write {_FORM}. The address "
            f"cannot contain a password: set PGPASSWORD, or write the password into ~/.pgpass or a file that "
            f"PGPASSFILE names."
        )
    return host, port


_EXAMPLE_V6 = "postgresql://USER@[::1]:5432/DATABASE"


def _replace_hosts(
    hosts: tuple[str, ...], ports: tuple[str, ...], options: dict[str, str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Removes `host` and `port` from the options, and returns the hosts and ports with theirs instead."""
    if "host" in options:
        hosts = tuple(options.pop("host").split(","))
    if "port" in options:
        ports = tuple(options.pop("port").split(","))
    if any(not _PORT.fullmatch(port) or not 0 < int(port) < 65536 for port in ports):
        raise UsageError("A port in the address of the store is not a number from 1 to 65535.")
    if len(ports) == 1:
        ports *= max(len(hosts), 1)
    if ports and len(ports) != max(len(hosts), 1):
        raise UsageError(
            "The numbers of ports and hosts in the address of the store differ. Write one port for all "
            "hosts, or one for each host."
        )
    return hosts, ports


def _decode(text: str) -> str:
    """Decodes `%20` and its like.

    Raises:
        UsageError: a % is not followed by two hexadecimal digits, or the text is not UTF-8 or not printable.
    """
    if not _BAD_PERCENT.search(text):
        try:
            decoded = unquote_to_bytes(text).decode("utf-8")
        except UnicodeDecodeError:
            decoded = "\0"
        if decoded.isprintable():
            return decoded
    raise UsageError(
        "A % in the address of the store is not followed by the two hexadecimal digits of a character. Write "
        "%25 for a literal %."
    )


def _is_loopback(host: str) -> bool:
    """Returns whether a host is this machine, judged by its name alone."""
    if host.startswith(("/", "@")) or host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

"""What a role may do with a store, and how it is permitted to.

Making tables takes rights that running does not need: `proctor store migrate` makes them, and grants what
other roles need.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from proctor.errors import StoreError
from proctor.stores.location import Grants
from proctor.stores.postgresql.connection_errors import explain_read_only
from proctor.stores.postgresql.database import PostgresDatabase

_RIGHTS = """SELECT current_user, current_database(), current_setting('transaction_read_only') = 'on',
    has_table_privilege('runs', 'INSERT, UPDATE, DELETE'),
    has_database_privilege(current_database(), 'TEMPORARY')"""


def check_writable(database: PostgresDatabase) -> None:
    """Checks that the role of a connection may write to a store, whose tables are there.

    Raises:
        StoreError: the server or the role is read-only.
    """
    role, name, is_read_only, may_write, may_stage = database.fetch_one(_RIGHTS)
    if is_read_only:
        raise StoreError(explain_read_only(database.address))
    if not may_write:
        raise StoreError(
            f"The store {database.address} is read-only for role {role}. Whoever owns its tables changes "
            f"that with `{grant_command(database.address, role)}`."
        )
    if not may_stage:
        raise StoreError(
            f"Role {role} may not create temporary tables in database {name}, through which commands write "
            f"to {database.address}. The owner of the database permits it with: GRANT TEMPORARY ON DATABASE "
            f"{quote(name)} TO {quote(role)}."
        )


def is_writable(database: PostgresDatabase) -> bool:
    """Returns whether the role of a connection may write to a store."""
    try:
        check_writable(database)
    except StoreError:
        return False
    return True


def grant_command(address: str, role: str) -> str:
    """Returns the command that lets a role write to a store."""
    return f"proctor store migrate --store {shlex.quote(address)} --grant {shlex.quote(role)}"


def list_grants(schema: str, grants: Grants) -> Iterator[str]:
    """Yields the statements that let roles use the tables of a schema, also those that are added later."""
    for roles, rights in ((grants.write, "SELECT, INSERT, UPDATE, DELETE"), (grants.read, "SELECT")):
        for role in roles:
            name = quote(role)
            yield f"GRANT USAGE ON SCHEMA {quote(schema)} TO {name}"
            yield f"GRANT {rights} ON ALL TABLES IN SCHEMA {quote(schema)} TO {name}"
            yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA {quote(schema)} GRANT {rights} ON TABLES TO {name}"
    for role in grants.write:  # `proctor store copy` keeps the numbers of rows
        rights, name = "USAGE, SELECT, UPDATE", quote(role)
        yield f"GRANT {rights} ON ALL SEQUENCES IN SCHEMA {quote(schema)} TO {name}"
        yield f"ALTER DEFAULT PRIVILEGES IN SCHEMA {quote(schema)} GRANT {rights} ON SEQUENCES TO {name}"


def quote(name: str) -> str:
    """Returns a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'

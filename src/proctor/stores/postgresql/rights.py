"""What a role may do with a store, and how it is permitted to.

Making tables takes rights that running does not need: `proctor store migrate` makes them, and grants what
other roles need.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from proctor.errors import ReadOnlyStore, StoreError
from proctor.stores.location import Grants
from proctor.stores.postgresql.connection_errors import explain_read_only, grant_command, migrate_command
from proctor.stores.postgresql.database import PostgresDatabase

_RIGHTS = """SELECT current_user, current_database(), current_setting('transaction_read_only') = 'on',
    has_table_privilege('runs', 'INSERT, UPDATE, DELETE'),
    has_database_privilege(current_database(), 'TEMPORARY')"""


_OTHER_OWNER = """SELECT current_user, pg_get_userbyid(owner) FROM (
    SELECT nspowner AS owner FROM pg_namespace WHERE nspname = ANY(?)
    UNION ALL SELECT relowner FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = ANY(?) AND relkind IN ('r', 'S')
    ) AS owners WHERE NOT pg_has_role(owner, 'USAGE') LIMIT 1"""


def check_writable(database: PostgresDatabase) -> None:
    """Checks that the role of a connection may write to a store, whose tables are there.

    Raises:
        StoreError: the server or the role is read-only.
    """
    role, name, is_read_only, may_write, may_create_temporary = database.fetch_one(_RIGHTS)
    if is_read_only:
        raise ReadOnlyStore(explain_read_only(database.address))
    if not may_write:
        raise ReadOnlyStore(
            f"The store {database.address} is read-only for role {role}. The owner of the tables can change "
            f"that with `{grant_command(database.address, role)}`."
        )
    if not may_create_temporary:
        raise ReadOnlyStore(explain_temporary_tables(database.address, name, role))


def explain_temporary_tables(address: str, database_name: str, role: str) -> str:
    """Returns what to do when a role may not create temporary tables, as sentences."""
    return (
        f"Role {role} is not allowed to create temporary tables in database {database_name}, which commands "
        f"need to write to {address}. The owner of the database can allow it with: GRANT TEMPORARY ON "
        f"DATABASE "
        f"{quote(database_name)} TO {quote(role)}."
    )


def check_may_grant(database: PostgresDatabase, schemas: Sequence[str], grants: Grants) -> None:
    """Checks that the role of a connection may grant: of a role that may not, the server only warns.

    Args:
        database: the connection.
        schemas: the schemas of the store, which are there.
        grants: what is to be granted.

    Raises:
        StoreError: another role owns the tables.
    """
    row = database.fetch_one(_OTHER_OWNER, list(schemas), list(schemas))
    if row is not None:
        role, owner = row
        flags = [f"--grant {shlex.quote(name)}" for name in grants.write]
        flags += [f"--grant-read {shlex.quote(name)}" for name in grants.read]
        raise StoreError(
            f"Role {role} does not own the tables, so nothing was granted. Run the command as their owner: "
            f"`{' '.join([migrate_command(database.address, owner), *flags])}`."
        )


def may_stage(database: PostgresDatabase, role: str) -> bool:
    """Returns whether a role may create temporary tables."""
    row = database.fetch_one(
        "SELECT has_database_privilege(oid, current_database(), 'TEMPORARY') FROM pg_roles WHERE rolname = ?",
        role,
    )
    return bool(row == (True,))


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

"""Creates and upgrades the tables of a store: `proctor store migrate`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg

from proctor.errors import StoreError, UsageError
from proctor.stores.location import Grants, MigrationReport
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.postgresql.rights import list_grants, quote
from proctor.stores.postgresql.schema import MIGRATIONS, check_not_newer, read_version
from proctor.stores.sql.patience import Patience

_STATE = "SELECT current_database(), to_regnamespace(?) IS NOT NULL"
_MAY_TEMP = """SELECT rolname FROM pg_roles WHERE rolname = ANY(?)
    AND has_database_privilege(oid, current_database(), 'TEMPORARY')"""


def migrate(connector: PostgresConnector, grants: Grants) -> MigrationReport:
    """Creates or upgrades the tables of a store, and lets roles use them: all of it, or nothing.

    Of two that migrate at the same time, the second one waits and finds nothing to do.

    Raises:
        StoreError: the role may not do this, or a newer Proctor made the tables.
        UsageError: there is no such role.
    """
    with closing(PostgresDatabase(connector, Patience())) as database, _as_advice(connector):
        with database.transaction():
            before = read_version(database)
            statements = _list_statements(database, before, grants)
            for statement in statements:
                database.execute(statement)
    return MigrationReport(before=before, after=max(before, len(MIGRATIONS)), grants=grants)


def write_script(connector: PostgresConnector, grants: Grants) -> str:
    """Returns what `migrate` would execute now, as a script for psql.

    Raises:
        StoreError: the store cannot be read, or a newer Proctor made its tables.
    """
    with closing(PostgresDatabase(connector, Patience())) as database:
        statements = _list_statements(database, read_version(database), grants)
    start = ["BEGIN", f"SET LOCAL search_path TO {quote(connector.schema)}"]
    return "".join(f"{statement};\n" for statement in [*start, *statements, "COMMIT"])


def _list_statements(database: PostgresDatabase, before: int, grants: Grants) -> list[str]:
    check_not_newer(database, before)
    schema = database.connector.schema
    name, has_schema = database.fetch_one(_STATE, schema)
    statements = [] if has_schema else [f"CREATE SCHEMA {quote(schema)}"]
    if not before:
        statements.append("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY)")
    for number, steps in enumerate(MIGRATIONS[before:], before + 1):
        statements += [*steps, f"INSERT INTO schema_version VALUES ({number})"]
    have_temporary = {role for (role,) in database.select(_MAY_TEMP, list(grants.write))}
    statements += [
        statement
        for statement in list_grants(name, schema, grants)
        if not any(statement == _grant_temporary(name, role) for role in have_temporary)
    ]
    return statements


def _grant_temporary(database: str, role: str) -> str:
    return f"GRANT TEMPORARY ON DATABASE {quote(database)} TO {quote(role)}"


@contextmanager
def _as_advice(connector: PostgresConnector) -> Iterator[None]:
    """Raises errors about rights and roles as sentences that say what to do."""
    try:
        yield
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            reason = cause.diag.message_primary
            raise StoreError(
                f"Your role may not create the tables of {connector.address}: {reason}. Use the role that owns "
                f"the database, or let its owner run: CREATE SCHEMA {connector.schema} AUTHORIZATION your "
                "role. `proctor store migrate --sql` prints the statements for somebody who may."
            ) from cause
        if isinstance(cause, psycopg.errors.UndefinedObject):
            raise UsageError(
                f"The server of {connector.address} says: {cause.diag.message_primary}. Create the role with "
                "createuser, or correct --grant."
            ) from cause
        raise

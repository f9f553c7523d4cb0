"""Creates and upgrades the tables of a store: `proctor store migrate`.

A store has two schemas with the same tables: its own, and one for the deleted versions of suites.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg

from proctor.errors import StoreError, UsageError
from proctor.stores.location import NO_GRANTS, Grants, MigrationReport
from proctor.stores.postgresql.database import PostgresConnector, PostgresDatabase
from proctor.stores.postgresql.rights import (
    check_may_grant,
    explain_temporary_tables,
    list_grants,
    may_stage,
    quote,
)
from proctor.stores.postgresql.schema import MIGRATIONS, check_not_newer, read_version, trash_schema
from proctor.stores.sql.patience import Patience


def migrate(connector: PostgresConnector, grants: Grants) -> MigrationReport:
    """Creates or upgrades the tables of a store, and lets roles use them: all of it, or nothing.

    Of two that migrate at the same time, the second one waits and finds nothing to do.

    Raises:
        StoreError: the role may not do this, or a newer Proctor made the tables.
        UsageError: there is no such role.
    """
    with (
        closing(PostgresDatabase(connector, Patience())) as database,
        _as_advice(connector, str(database.fetch_one("SELECT current_user")[0])),
        database.transaction(),
    ):
        before = read_version(database)
        for statement in _list_table_statements(database):
            database.execute(statement)
        if grants != NO_GRANTS:
            check_may_grant(database, _list_schemas(database), grants)
        for statement in _list_grant_statements(database, grants):
            database.execute(statement)
        _check_temporary_tables(database, grants)
    return MigrationReport(before=before, after=len(MIGRATIONS), grants=grants)


def write_script(connector: PostgresConnector, grants: Grants) -> str:
    """Returns what `migrate` would execute now, as a script for psql.

    Raises:
        StoreError: the store cannot be read, or a newer Proctor made its tables.
    """
    with closing(PostgresDatabase(connector, Patience())) as database, database.transaction():
        statements = [*_list_table_statements(database), *_list_grant_statements(database, grants)]
        version = read_version(database)
    if not statements:
        return f"-- up to date: version {version}\n"
    return "".join(f"{statement};\n" for statement in ["BEGIN", *statements, "COMMIT"])


def _list_schemas(database: PostgresDatabase) -> tuple[str, str]:
    schema = database.connector.schema
    return schema, trash_schema(schema)


def _list_table_statements(database: PostgresDatabase) -> Iterator[str]:
    """Yields statements for a transaction; each schema is looked at when its turn comes."""
    for name in _list_schemas(database):
        yield from _list_steps(database, name)


def _list_grant_statements(database: PostgresDatabase, grants: Grants) -> Iterator[str]:
    for name in _list_schemas(database):
        yield from list_grants(name, grants)
    (database_name,) = database.fetch_one("SELECT current_database()")
    for role in grants.write:
        if not may_stage(database, role):
            yield f"GRANT TEMPORARY ON DATABASE {quote(database_name)} TO {quote(role)}"


def _check_temporary_tables(database: PostgresDatabase, grants: Grants) -> None:
    """Checks the one right that is not the tables' owner's to give, of which the server only warns.

    Raises:
        StoreError: a role that is to write has it not.
    """
    (database_name,) = database.fetch_one("SELECT current_database()")
    for role in grants.write:
        if not may_stage(database, role):
            raise StoreError(explain_temporary_tables(database.address, str(database_name), role))


def _list_steps(database: PostgresDatabase, schema: str) -> Iterator[str]:
    path = f"SET LOCAL search_path TO {quote(schema)}"
    database.execute(path)
    version = read_version(database)
    check_not_newer(database, version)
    if version == len(MIGRATIONS):
        return
    if database.fetch_one("SELECT to_regnamespace(?)", schema) == (None,):
        yield f"CREATE SCHEMA {quote(schema)}"
    yield path
    if not version:
        yield "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY)"
    for number, steps in enumerate(MIGRATIONS[version:], version + 1):
        yield from steps
        yield f"INSERT INTO schema_version VALUES ({number})"  # noqa: S608  # a number


@contextmanager
def _as_advice(connector: PostgresConnector, role: str) -> Iterator[None]:
    """Raises errors about rights and roles as sentences that say what to do."""
    try:
        yield
    except StoreError as error:
        cause = error.__cause__
        if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            schema = connector.schema
            raise StoreError(
                f"Role {role} may not create tables in {connector.address}: {cause.diag.message_primary}. "
                "Use the role that owns the tables or the database, or let it run: CREATE SCHEMA "
                f"{schema} AUTHORIZATION {quote(role)}; "
                f"CREATE SCHEMA {trash_schema(schema)} AUTHORIZATION {quote(role)}. "
                "`--sql` prints all statements."
            ) from cause
        if isinstance(cause, psycopg.errors.UndefinedObject):
            raise UsageError(
                f"The server of {connector.address} says: {cause.diag.message_primary}. Create the role with "
                "createuser, or correct --grant."
            ) from cause
        raise

"""`proctor store migrate` on a real server, and the rights of roles after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest

from proctor.errors import StoreError, UsageError
from proctor.stores import locate_store
from proctor.stores.location import Grants
from proctor.stores.postgresql.schema import MIGRATIONS
from support.cli import Proctor
from support.postgresql import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def schema(postgres_server: PostgresServer) -> str:
    """The name of a schema that does not exist yet, in its own database."""
    return f"m{uuid4().hex[:12]}"


@pytest.fixture
def role(postgres_server: PostgresServer) -> Callable[[], str]:
    """Makes a role without any rights."""

    def make() -> str:
        name = f"role_{uuid4().hex[:12]}"
        with postgres_server.connect() as connection:
            connection.execute(f"CREATE ROLE {name} LOGIN")
        return name

    return make


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_migrate_says_what_it_did(
    postgres_server: PostgresServer, schema: str, proctor: Proctor, role: Callable[[], str]
) -> None:
    address, version, reader = postgres_server.address(schema), len(MIGRATIONS), role()
    assert (
        "has no tables yet. Run `proctor store migrate --store"
        in proctor("runs", "list", "--store", address).err
    )
    result = proctor("store", "migrate", "--store", address)
    assert (result.code, result.out) == (0, f"Created the tables of {address}, version {version}.\n")
    result = proctor("store", "migrate", "--store", address, "--grant-read", reader)
    assert result.out == f"{address} is up to date: version {version}.\n{reader} may read.\n"
    report = json.loads(proctor("store", "migrate", "--store", address, "--json").out)
    assert (report["from"], report["to"], report["exit_code"]) == (version, version, 0)


def test_the_printed_sql_does_the_same(
    postgres_server: PostgresServer, schema: str, proctor: Proctor, role: Callable[[], str]
) -> None:
    address, writer = postgres_server.address(schema), role()
    script = proctor("store", "migrate", "--store", address, "--sql", "--grant", writer).out
    with pytest.raises(StoreError, match="no tables yet"):
        locate_store(address).open_store()
    with postgres_server.connect() as connection:
        connection.execute(script.encode("utf-8"))
    locate_store(postgres_server.address(schema, writer)).check_writable()
    script = proctor("store", "migrate", "--store", address, "--sql").out
    assert script == f"-- up to date: version {len(MIGRATIONS)}\n"
    assert locate_store(address).migrate().before == len(MIGRATIONS)


def test_a_role_without_rights_on_the_schema_makes_runs(
    postgres_server: PostgresServer, schema: str, proctor: Proctor, role: Callable[[], str]
) -> None:
    owner, writer = postgres_server.address(schema), role()
    locate_store(owner).migrate(Grants(write=(writer,)))
    address = postgres_server.address(schema, writer)
    result = proctor("run", "cheap", "--target", "echo", "--store", address, "--quiet")
    assert result.code == 1, result
    assert proctor("runs", "tag", "last", "first", "--store", address).code == 0
    assert proctor("store", "gc", "--yes", "--store", address).code == 0
    assert "is sound: 1 run" in proctor("store", "check", "--store", address).out
    with pytest.raises(StoreError, match=f'may not create tables.*AUTHORIZATION "{writer}"'):
        locate_store(postgres_server.address(f"{schema}x", writer)).migrate()


def test_a_role_that_may_read_reads_and_is_told_that_it_may_not_write(
    postgres_server: PostgresServer, schema: str, proctor: Proctor, role: Callable[[], str]
) -> None:
    owner, reader = postgres_server.address(schema), role()
    locate_store(owner).migrate(Grants(read=(reader,)))
    proctor("run", "cheap", "--target", "echo", "--store", owner, "--quiet")
    address = postgres_server.address(schema, reader)
    assert proctor("runs", "show", "last", "--store", address).code == 0
    assert proctor("store", "check", "--store", address).code == 0
    for words in (("run", "cheap", "--target", "echo"), ("runs", "tag", "last", "x")):
        result = proctor(*words, "--store", address)
        assert result.code == 4
        assert f"is read-only for role {reader}" in result.err
        assert f"postgresql://OWNER@127.0.0.1:{postgres_server.port}/" in result.err
        assert f"--grant {reader}" in result.err
    with (
        closing(locate_store(address).open_store()) as store,
        pytest.raises(StoreError, match=r"holdout access.* is read-only for role"),
    ):
        store.check_can_record_access()


def test_a_role_without_rights_is_told_who_gives_them(
    postgres_server: PostgresServer, schema: str, role: Callable[[], str]
) -> None:
    locate_store(postgres_server.address(schema)).migrate()
    with pytest.raises(StoreError, match=r"has no access to the schema .*//OWNER@.* --grant role_"):
        locate_store(postgres_server.address(schema, role())).open_store()


def test_only_the_owner_of_the_tables_grants(
    postgres_server: PostgresServer, schema: str, proctor: Proctor, role: Callable[[], str]
) -> None:
    owner, writer, reader = postgres_server.address(schema), role(), role()
    locate_store(owner).migrate(Grants(write=(writer,)))
    address = postgres_server.address(schema, writer)
    for flag in ("--grant", "--grant-read"):
        for more in ((), ("--json",)):
            result = proctor("store", "migrate", "--store", address, flag, reader, *more)
            assert result.code == 4
            assert f"Role {writer} does not own the tables, so nothing was granted." in result.err
            assert f"--store '{owner}' {flag} {reader}`" in result.err
    with pytest.raises(StoreError, match="has no access to the schema"):
        locate_store(postgres_server.address(schema, reader)).open_store()
    assert proctor("store", "migrate", "--store", address).code == 0


def test_what_the_owner_of_the_database_grants_is_asked_for(
    postgres_server: PostgresServer, role: Callable[[], str]
) -> None:
    owner, writer, name = role(), role(), f"d{uuid4().hex[:12]}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute(f"GRANT CREATE ON DATABASE {name} TO {owner}")
        connection.execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
        for rights in ("", f"GRANT TEMPORARY ON DATABASE {name} TO {owner}"):
            connection.execute(rights)
            with pytest.raises(StoreError, match=f'GRANT TEMPORARY ON DATABASE "{name}" TO "{writer}"'):
                locate_store(postgres_server.address(user=owner, database=name)).migrate(
                    Grants(write=(writer,))
                )


def test_each_role_takes_a_flag(proctor: Proctor) -> None:
    result = proctor("store", "migrate", "--store", "postgresql://127.0.0.1/evals", "--grant", "ana,ben")
    assert (result.code, "Write --grant once for each role." in result.err) == (4, True)


def test_a_role_that_is_not_there_is_an_error_and_nothing_is_made(
    postgres_server: PostgresServer, schema: str
) -> None:
    location = locate_store(postgres_server.address(schema))
    with pytest.raises(UsageError, match=r'role "nobody_here" does not exist.*createuser'):
        location.migrate(Grants(write=("nobody_here",)))
    with pytest.raises(StoreError, match="no tables yet"):
        location.open_store()


def test_a_schema_that_exists_is_filled_by_a_role_that_may_not_make_one(
    postgres_server: PostgresServer, schema: str, role: Callable[[], str]
) -> None:
    owner = role()
    with postgres_server.connect() as connection:
        for name in (schema, f"{schema}_trash"):
            connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {owner}")
    location = locate_store(postgres_server.address(schema, owner))
    assert location.migrate().before == 0
    location.check_writable()


def test_temporary_tables_are_granted_or_asked_for(
    postgres_server: PostgresServer, role: Callable[[], str]
) -> None:
    writer, name = role(), f"d{uuid4().hex[:12]}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name}")
        connection.execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
    owner = locate_store(postgres_server.address(database=name))
    owner.migrate(Grants(write=(writer,)))
    locate_store(postgres_server.address(user=writer, database=name)).check_writable()
    with postgres_server.connect() as connection:
        connection.execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM {writer}")
    with pytest.raises(StoreError, match="GRANT TEMPORARY ON DATABASE"):
        locate_store(postgres_server.address(user=writer, database=name)).check_writable()


def test_two_migrations_at_once_create_one_store(postgres_server: PostgresServer, schema: str) -> None:
    reports = []
    location = locate_store(postgres_server.address(schema))
    threads = [Thread(target=lambda: reports.append(location.migrate().before)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(reports) == [0, *[len(MIGRATIONS)] * 3]


@pytest.mark.parametrize(("version", "message"), [(10_000, "newer version of Proctor"), (0, "store migrate")])
def test_tables_of_another_version_are_refused(
    postgres_server: PostgresServer, schema: str, version: int, message: str
) -> None:
    location = locate_store(postgres_server.address(schema))
    location.migrate()
    with postgres_server.connect() as connection:
        connection.execute(f"DELETE FROM {schema}.schema_version")
        connection.execute(f"INSERT INTO {schema}.schema_version VALUES ({version})")
    with pytest.raises(StoreError, match=message):
        location.open_store()
    if version:
        with pytest.raises(StoreError, match=message):
            location.migrate()


def test_names_for_completion_come_from_the_server_or_are_none(
    postgres_server: PostgresServer, schema: str, proctor: Proctor
) -> None:
    location = locate_store(postgres_server.address(schema))
    assert location.list_names().runs == {}
    location.migrate()
    proctor("run", "cheap", "--target", "echo", "--store", location.address, "--quiet")
    names = location.list_names()
    assert list(names.runs.values()) == ["builtin:cheap on echo (finished)"]
    assert names.suites == {"builtin:cheap": ("v1",)}
    assert len(list(location.list_case_labels("builtin:cheap"))) > 5
    assert locate_store("postgresql://192.0.2.1/none").list_names().runs == {}


def test_check_finds_what_is_damaged(postgres_server: PostgresServer, schema: str, proctor: Proctor) -> None:
    address = postgres_server.address(schema)
    locate_store(address).migrate()
    proctor("run", "cheap", "--target", "echo", "--store", address, "--quiet")
    report = json.loads(proctor("store", "check", "--store", address, "--json").out)
    assert (report["problems"], report["rows"]["runs"]) == ([], 1)
    assert report["bytes"]["trials"] > 0
    with postgres_server.connect() as connection:
        connection.execute(f"UPDATE {schema}.trials SET body = 'x' WHERE position = 0")
        connection.execute(f"DELETE FROM {schema}.trials WHERE position = 1")
        connection.execute(f"DELETE FROM {schema}.suite_cases WHERE position = 2")
    result = proctor("store", "check", "--store", address)
    assert result.code == 1
    assert "Table trials has 1 row that cannot be read" in result.out
    assert "is marked as finished but has" in result.out
    assert "is missing some of its cases" in result.out


def test_operations_on_files_say_what_to_do_instead(
    postgres_server: PostgresServer, schema: str, proctor: Proctor
) -> None:
    address = postgres_server.address(schema)
    for command, remedy in (("backup", "pg_dump"), ("repair", "proctor store copy")):
        result = proctor("store", command, "new.db", "--store", address)
        assert (result.code, remedy in result.err) == (4, True)

"""Databases and roles with unusual settings: a store works there, or says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from proctor.errors import StoreError
from proctor.model import Verdict
from proctor.stores import locate_store
from proctor.stores.location import Grants
from proctor.stores.postgresql.location import PostgresLocation, postgresql_location
from proctor.stores.store_copy import copy_store
from support.builders import make_case, make_trial
from support.postgresql import PostgresServer
from support.stores import add_run, begin_run, save_cases

pytestmark = pytest.mark.slow

NAME = r"%s 100% ? \' '' \\ 😀 \u202e é"


def locate(server: PostgresServer, user: str = "postgres", database: str = "postgres") -> PostgresLocation:
    address = server.address(f"test_{uuid4().hex}", user, database)
    return postgresql_location(address.removeprefix("postgresql://"))


@pytest.fixture
def role(postgres_server: PostgresServer) -> Iterator[str]:
    """A new role that may do everything."""
    name = f"role_{uuid4().hex[:8]}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN SUPERUSER")
    yield name
    with postgres_server.connect() as connection:
        connection.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_with_another_encoding_is_refused(postgres_server: PostgresServer, encoding: str) -> None:
    name = f"database_{uuid4().hex[:8]}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    location = locate(postgres_server, database=name)
    with pytest.raises(StoreError, match=f"has the encoding {encoding}, .* `createdb --encoding=UTF8"):
        location.migrate()


@pytest.mark.parametrize(
    "setting",
    [
        "standard_conforming_strings = off",
        "client_encoding = 'LATIN1'",
        "default_transaction_isolation = 'serializable'",
        "timezone = 'Asia/Kathmandu'",
        "DateStyle = 'German'",
        "bytea_output = 'escape'",
    ],
)
def test_settings_of_a_role_change_nothing(postgres_server: PostgresServer, role: str, setting: str) -> None:
    with postgres_server.connect() as connection:
        connection.execute(f"ALTER ROLE {role} SET {setting}")
    location = locate(postgres_server, role)
    location.migrate()
    with closing(location.open_store()) as store:
        suite = save_cases(store, [make_case(NAME, "\\x00 \\ ü")], name=NAME)
        add_run(store, suite, id="r1", tags=(NAME,))
        store.save_trial("r1", make_trial("\\ 😀", case_id=NAME), Verdict.PASS)
        store.update_run(store.run("r1"))
        assert [stored_trial.trial.case_id for stored_trial in store.trials("r1")] == [NAME]
        assert store.run(NAME).id == "r1"
        assert store.suite(NAME) == suite
    report = location.check()
    assert (report.problems, report.rows["trials"]) == ((), 1)


def test_a_read_only_role_is_an_error(postgres_server: PostgresServer, role: str) -> None:
    with postgres_server.connect() as connection:
        connection.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
    with pytest.raises(
        StoreError, match="is read-only: its server is a standby, or the database or your role"
    ):
        locate(postgres_server, role).migrate()


def test_a_name_that_is_too_long_for_an_index_is_an_error(postgres_location: PostgresLocation) -> None:
    name = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(1_500))
    with (
        closing(postgres_location.open_store()) as store,
        pytest.raises(
            StoreError, match=r"does not support names of more than 2,600 bytes, .* Give the suite a short"
        ),
    ):
        save_cases(store, [make_case("c")], name=name)


def test_a_role_copies_its_store_beside_one_that_it_may_not_use(
    postgres_server: PostgresServer, postgres_location: PostgresLocation, tmp_path: Path
) -> None:
    name = f"role_{uuid4().hex[:8]}"
    with postgres_server.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
    location = locate(postgres_server)
    location.migrate(Grants(write=(name,)))
    own = locate_store(location.address.replace("postgres@", f"{name}@"))
    with closing(own.open_store()) as store:
        begin_run(store)
    assert copy_store(own, locate_store(str(tmp_path / "copy.db"))).rows["runs"] == 1
    assert postgres_location.exists()
    with postgres_server.connect() as connection:
        connection.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")

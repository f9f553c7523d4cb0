"""Connecting to a PostgreSQL server: TLS, passwords, and error messages."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import trustme

from proctor.errors import StoreError, UsageError
from proctor.stores import locate_store
from proctor.stores.location import StoreLocation
from proctor.stores.postgresql import database
from support.postgresql import NOBODY, PostgresServer, free_port
from support.waiting import wait_until

pytestmark = pytest.mark.slow
PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server(authority: trustme.CA) -> Iterator[PostgresServer]:
    """A server with TLS and a certificate for `localhost` that no system trusts."""
    server = PostgresServer(options=("fsync=off", "ssl=on", "max_connections=12"))
    key, chain = server.data / "server.key", server.data / "server.crt"
    certificate = authority.issue_cert("localhost")
    certificate.private_key_pem.write_to_path(str(key))
    certificate.cert_chain_pems[0].write_to_path(str(chain))
    key.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(key, NOBODY, NOBODY)
        os.chown(chain, NOBODY, NOBODY)
    lines = ["host plain all 127.0.0.1/32 trust", "host all ana 127.0.0.1/32 scram-sha-256"]
    lines += ["hostnossl closed all 127.0.0.1/32 trust", "host all all 127.0.0.1/32 trust"]
    (server.data / "pg_hba.conf").write_text("\n".join(lines) + "\n", "utf-8")
    server.start()
    with server.connect() as connection:
        connection.execute(f"CREATE ROLE ana LOGIN PASSWORD '{PASSWORD}'")
        connection.execute("GRANT CREATE ON DATABASE postgres TO ana")
        connection.execute("CREATE ROLE full_up LOGIN CONNECTION LIMIT 0")
        connection.execute("CREATE DATABASE private")
        connection.execute("REVOKE CONNECT ON DATABASE private FROM PUBLIC")
        connection.execute("CREATE ROLE bo LOGIN")
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def make_url(
    server: PostgresServer, options: str = "", *, user: str = "postgres", host: str = "127.0.0.1"
) -> str:
    return f"postgresql://{user}@{host}:{server.port}/postgres?schema=s{uuid4().hex[:8]}{options}"


def is_encrypted(address: str) -> bool:
    location = locate_store(address)
    location.migrate()
    with closing(location.open_store()) as store:
        row = store._database.fetch_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")  # type: ignore[attr-defined]
    return bool(row[0])


def read_failure(address: str) -> str:
    with pytest.raises((StoreError, UsageError)) as error_info:
        locate_store(address).open_store()
    message = str(error_info.value)
    assert PASSWORD not in message
    assert message.endswith(".")
    return message


def test_loopback_needs_no_tls(server: PostgresServer) -> None:
    assert not is_encrypted(make_url(server, "&sslmode=disable"))


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `localhost` a name of another machine for Proctor."""
    monkeypatch.setattr("proctor.stores.postgresql.address._is_loopback", lambda _host: False)


@pytest.mark.usefixtures("outside")
class TestAnotherMachine:
    """A server that is not on this machine."""

    def test_an_unknown_certificate_is_refused(self, server: PostgresServer) -> None:
        message = read_failure(make_url(server, host="localhost"))
        assert "is not signed by an authority that this machine trusts" in message
        assert "sslrootcert=FILE" in message

    def test_a_certificate_of_a_known_authority_is_trusted(
        self, server: PostgresServer, authority: trustme.CA, tmp_path: Path
    ) -> None:
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        assert is_encrypted(make_url(server, "&sslrootcert=ca.pem", host="localhost"))
        assert 'is for "localhost", not for 127.0.0.1' in read_failure(
            make_url(server, "&sslrootcert=ca.pem")
        )
        assert is_encrypted(make_url(server, "&sslrootcert=ca.pem&sslmode=verify-ca"))

    def test_the_authorities_of_this_system_are_trusted(
        self,
        server: PostgresServer,
        authority: trustme.CA,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert is_encrypted(make_url(server, host="localhost"))

    def test_the_file_of_libpq_is_trusted(
        self, server: PostgresServer, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setenv("PGSSLROOTCERT", str(tmp_path / "ca.pem"))
        assert is_encrypted(make_url(server, host="localhost"))

    def test_a_missing_file_is_named(self, server: PostgresServer) -> None:
        assert "none.pem" in read_failure(make_url(server, "&sslrootcert=none.pem", host="localhost"))

    def test_the_url_may_require_less(self, server: PostgresServer) -> None:
        assert is_encrypted(make_url(server, "&sslmode=require"))
        assert not is_encrypted(make_url(server, "&sslmode=disable"))

    def test_a_server_without_tls_is_refused(self) -> None:
        plain = PostgresServer(options=("fsync=off",))
        try:
            plain.start()
            message = read_failure(make_url(plain, host="localhost"))
        finally:
            plain.stop()
        assert "does not use TLS" in message
        assert "sslmode=disable" in message


def test_a_password_comes_from_the_environment_or_a_file(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = make_url(server, user="ana")
    line = f"127.0.0.1:{server.port}:postgres:ana:PASSWORD"
    assert "requires a password" in (message := read_failure(address))
    assert f"write the line {line} into ~/.pgpass" in message
    monkeypatch.setenv("PGPASSWORD", "wrong")
    assert "rejected the password of role ana from the environment variable PGPASSWORD." in read_failure(
        address
    )
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert locate_store(address).migrate().after
    monkeypatch.delenv("PGPASSWORD")
    (tmp_path / ".pgpass").write_text(f"127.0.0.1:{server.port}:*:ana:{PASSWORD}\n", "utf-8")
    (tmp_path / ".pgpass").chmod(0o600)
    locate_store(address).open_store().close()


def test_a_password_file_that_cannot_be_used_is_an_error_that_says_why(
    server: PostgresServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    address, file = make_url(server, user="ana"), tmp_path / ".pgpass"
    file.write_text(f"localhost:*:*:ana:{PASSWORD}\n", "utf-8")
    file.chmod(0o644)
    assert "~/.pgpass is ignored because other users can read it. Run: chmod 600 ~/.pgpass." in read_failure(
        address
    )
    assert capfd.readouterr().err == ""
    file.chmod(0o600)
    message = read_failure(address)
    assert f"~/.pgpass has no line for it. Add 127.0.0.1:{server.port}:postgres:ana:PASSWORD" in message
    file.write_text("*:*:*:ana:wrong\n", "utf-8")
    assert "rejected the password of role ana from the file ~/.pgpass." in read_failure(address)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("postgresql://bo@127.0.0.1:{port}/nowhere", "createdb -h 127.0.0.1 -p {port} nowhere"),
        ("postgresql://nobody@127.0.0.1:{port}/postgres", "createuser -h 127.0.0.1 -p {port} nobody"),
        ("postgresql://full_up@127.0.0.1:{port}/postgres", "has no free connection"),
        ("postgresql://bo@127.0.0.1:{port}/private", 'GRANT CONNECT ON DATABASE "private" TO "bo"'),
        ("postgresql://bo@127.0.0.1:{closed}/postgres", "Start PostgreSQL there"),
        ("postgresql://bo@none.invalid/postgres?sslmode=disable", "none.invalid"),
        ("postgresql://bo@%2Fnone/postgres", 'socket "/none/.s.PGSQL.5432"'.replace('"', "")),
        ("postgresql://bo@127.0.0.1:{port}/postgres?schema=none", "has no tables yet"),
    ],
)
def test_each_error_says_what_to_do(server: PostgresServer, address: str, message: str) -> None:
    names = {"port": server.port, "closed": free_port()}
    assert message.format(**names) in read_failure(address.format(**names))


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        message = read_failure(f"postgresql://bo@127.0.0.1:{port}/postgres?connect_timeout=2")
    assert "did not answer within 2 s" in message


def test_a_server_that_shuts_down_is_waited_for() -> None:
    server = PostgresServer(options=("fsync=off",))
    server.start()
    try:
        address = make_url(server)
        locate_store(address).migrate()
        client = server.connect()  # a server that is to stop waits for it
        assert server._process is not None
        server._process.terminate()
        lines: list[str] = []
        thread = Thread(target=lambda: locate_store(address).open_store(lines.append).close())
        thread.start()
        wait_until(lambda: bool(lines))
        client.close()
        server.kill()
        server.start()
        thread.join()
        assert lines == [f"Waiting for the server of {address}, which is starting or shutting down."]
    finally:
        server.stop()


def test_a_connection_that_is_interrupted_while_it_is_set_up_is_closed(
    postgres_location: StoreLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[psycopg.Connection[Any]] = []

    def interrupt(connection: psycopg.Connection[Any]) -> None:
        connections.append(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "adapt_text", interrupt)
    with pytest.raises(KeyboardInterrupt):
        postgres_location.connector.connect()  # type: ignore[attr-defined]
    assert connections[0].closed
